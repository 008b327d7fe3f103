//! The least and the largest eigenvalue of a symmetric matrix.
//!
//! Householder's tridiagonal form, and bisection by Sturm's counts, O(d^3). Source: Golub, Van
//! Loan (2013), Matrix Computations, sections 8.3.1 and 8.4.1.

use super::dense::dot;
use crate::kernel::simd::vectorised;

/// Halvings of an interval that holds all eigenvalues: more than doubles have digits.
const HALVINGS: usize = 64;

/// Bounds of the least and the largest eigenvalue, tight to rounding; `matrix`, of which the lower
/// triangle is read, is overwritten.
pub fn extremes(matrix: &mut [f64], size: usize) -> (f64, f64) {
    let (diagonal, beside) = tridiagonal(matrix, size);
    // Gershgorin's circles.
    let radius = |i: usize| beside[i].abs() + beside.get(i + 1).map_or(0.0, |b| b.abs());
    let low = |low: f64, i: usize| low.min(diagonal[i] - radius(i));
    let high = |high: f64, i: usize| high.max(diagonal[i] + radius(i));
    let low = (0..size).fold(f64::INFINITY, low);
    let high = (0..size).fold(f64::NEG_INFINITY, high);
    let below = |x: f64| count_below(&diagonal, &beside, x);
    (halved(low, high, |x| below(x) == 0).0, halved(low, high, |x| below(x) < size).1)
}

/// The interval in which a condition ends to hold, which it does for smaller numbers.
fn halved(mut low: f64, mut high: f64, holds: impl Fn(f64) -> bool) -> (f64, f64) {
    for _ in 0..HALVINGS {
        let middle = low + (high - low) / 2.0;
        if holds(middle) { low = middle } else { high = middle }
    }
    (low, high)
}

/// How many eigenvalues of a tridiagonal matrix lie below a number.
fn count_below(diagonal: &[f64], beside: &[f64], x: f64) -> usize {
    let mut pivot = 1.0;
    let mut count = 0;
    for (d, e) in diagonal.iter().zip(beside) {
        pivot = d - x - e * e / pivot;
        if pivot == 0.0 {
            pivot = f64::MIN_POSITIVE;
        }
        count += usize::from(pivot < 0.0);
    }
    count
}

vectorised! {
    /// Reduce a symmetric matrix, of which the lower triangle is read, to its diagonal and what
    /// stands beside that, 0 first; from the last row up.
    fn tridiagonal(matrix: &mut [f64], size: usize) -> (Vec<f64>, Vec<f64>) {
        let (mut diagonal, mut beside, mut w) = (Vec::with_capacity(size), vec![0.0], Vec::new());
        for k in (0..size).rev() {
            let (above, row) = matrix.split_at_mut(k * size);
            let v = &mut row[..=k];
            diagonal.push(v[k]);
            let Some((last, rest)) = v[..k].split_last_mut() else { break };
            let left = dot(rest, rest);
            let head = -(left + *last * *last).sqrt().copysign(*last);
            beside.push(head);
            if left == 0.0 {
                // It is tridiagonal here; the sign of what stands beside does not matter.
                continue;
            }
            *last -= head;
            // A - v w' - w v', with w = 2 / v'v (A v - v (v'A v) / v'v).
            let v = &v[..k];
            let square = dot(v, v);
            w.clear();
            for (i, row) in above.chunks_exact(size).enumerate() {
                w.iter_mut().zip(row).for_each(|(w, x)| *w += v[i] * x);
                w.push(dot(&row[..=i], &v[..=i]));
            }
            let share = dot(&w, v) / square;
            w.iter_mut().zip(v).for_each(|(w, v)| *w = 2.0 / square * (*w - share * v));
            for (i, row) in above.chunks_exact_mut(size).enumerate() {
                let (own_v, own_w) = (v[i], w[i]);
                for ((x, v), w) in row[..=i].iter_mut().zip(v).zip(&w) {
                    *x -= own_v * w + own_w * v;
                }
            }
        }
        (diagonal, beside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Lcg;

    #[test]
    fn the_ends_of_a_known_spectrum_are_found() {
        // Q diag(1, 2, ..., n) Q' with Q = I - 2 u u', u of length 1.
        for size in [1, 2, 3, 8, 40] {
            let mut random = Lcg::new(size as u64);
            let u: Vec<f64> = (0..size).map(|_| random.uniform() - 0.5).collect();
            let length = dot(&u, &u);
            let q = |i: usize, j: usize| f64::from(i == j) - 2.0 * u[i] * u[j] / length;
            let entry = |at: usize| -> f64 {
                let (i, j) = (at / size, at % size);
                (0..size).map(|k| q(i, k) * (k + 1) as f64 * q(k, j)).sum()
            };
            let mut matrix: Vec<f64> = (0..size * size).map(entry).collect();
            let (least, largest) = extremes(&mut matrix, size);
            assert!((least - 1.0).abs() < 1e-12 * size as f64, "{least}");
            assert!((largest - size as f64).abs() < 1e-12 * size as f64, "{largest}");
        }
        let (least, largest) = extremes(&mut [1.0, 3.0, 3.0, 1.0], 2);
        assert!((least + 2.0).abs() < 1e-14 && (largest - 4.0).abs() < 1e-14);
        assert_eq!(extremes(&mut [2.0, 0.0, 0.0, 2.0], 2), (2.0, 2.0));
    }
}

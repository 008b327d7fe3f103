//! Dense algebra on rows that lie one after another: what a search spends its time in.
//!
//! Every product of matrices here takes combinations of rows from rows. Four of them are
//! taken at a time, so that a row is read and written a quarter as often, in strips that
//! stay in the first cache.

use crate::simd::vectorised;

/// Doubles of a row that are computed at a time: with fourteen rows, 56 KB.
const STRIP: usize = 512;

vectorised! {
    /// Take from each of some rows a combination of others: `x_i -= sum_k share(k, i) row_k`.
    ///
    /// All rows have `width` doubles. The shares of row k are `size` doubles of itself, from
    /// `first` on, one for each of the `size` rows in `x`.
    pub fn subtract_products(x: &mut [f64], rows: &[f64], width: usize, first: usize) {
        for from in (0..width).step_by(STRIP) {
            let to = (from + STRIP).min(width);
            for four in rows.chunks(4 * width) {
                for (i, x) in x.chunks_exact_mut(width).enumerate() {
                    subtract(&mut x[from..to], four, width, from, |k| four[k * width + first + i]);
                }
            }
        }
    }
}

vectorised! {
    /// Take a combination of rows from one: `x -= sum_k shares[k] row_k`, on the first
    /// `x.len()` doubles of rows of `width`.
    pub fn subtract_combination(x: &mut [f64], rows: &[f64], width: usize, shares: &[f64]) {
        for (four, shares) in rows.chunks(4 * width).zip(shares.chunks(4)) {
            subtract(x, four, width, 0, |k| shares[k]);
        }
    }
}

/// Take up to four rows, from their double `from` on, from one.
#[inline(always)]
fn subtract(x: &mut [f64], rows: &[f64], width: usize, from: usize, share: impl Fn(usize) -> f64) {
    let row = |k: usize| &rows[k * width + from..k * width + from + x.len()];
    if rows.len() == 4 * width {
        let (a, b, c, d) = (row(0), row(1), row(2), row(3));
        let (s, t, u, v) = (share(0), share(1), share(2), share(3));
        for ((((x, a), b), c), d) in x.iter_mut().zip(a).zip(b).zip(c).zip(d) {
            *x -= (s * a + t * b) + (u * c + v * d);
        }
        return;
    }
    for k in 0..rows.len() / width {
        let share = share(k);
        let row = &rows[k * width + from..k * width + from + x.len()];
        for (x, a) in x.iter_mut().zip(row) {
            *x -= share * a;
        }
    }
}

/// Sum of products of two stretches of equal length.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    // Four sums, so that one need not wait for the other.
    let mut sums = [0.0; 4];
    let (fours_a, fours_b) = (a.chunks_exact(4), b.chunks_exact(4));
    let rest = fours_a.remainder().iter().zip(fours_b.remainder()).map(|(a, b)| a * b).sum::<f64>();
    for (a, b) in fours_a.zip(fours_b) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest
}

/// Reflect rows `from` to `from + v.len()` of a matrix: `X -= v (2 / |v|^2) (v' X)`, on their
/// doubles from the first to `used`.
pub fn reflect(
    rows: &mut [f64],
    width: usize,
    used: usize,
    from: usize,
    v: &[f64],
    sums: &mut Vec<f64>,
) {
    let rows = &mut rows[from * width..(from + v.len()) * width];
    let length = dot(v, v);
    if length == 0.0 {
        return;
    }
    sums.clear();
    sums.resize(used, 0.0);
    for (row, v) in rows.chunks_exact(width).zip(v) {
        sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += v * x);
    }
    for (row, v) in rows.chunks_exact_mut(width).zip(v) {
        let share = 2.0 * v / length;
        row.iter_mut().zip(&*sums).for_each(|(x, sum)| *x -= share * sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Lcg;

    #[test]
    fn combinations_of_rows_are_those_of_the_definition() {
        let mut numbers = Lcg::new(1);
        for (width, count, size) in [(1, 0, 1), (3, 2, 2), (5, 4, 1), (7, 9, 3), (1100, 6, 2)] {
            let rows: Vec<f64> = (0..width * count).map(|_| numbers.uniform()).collect();
            let x: Vec<f64> = (0..width * size).map(|_| numbers.uniform()).collect();
            let first = width - size.min(width);
            let mut found = x.clone();
            subtract_products(&mut found, &rows, width, first);
            for i in 0..size {
                let shares: Vec<f64> = (0..count).map(|k| rows[k * width + first + i]).collect();
                let mut alone = x[i * width..(i + 1) * width].to_vec();
                subtract_combination(&mut alone, &rows, width, &shares);
                for j in 0..width {
                    let sum: f64 = (0..count).map(|k| shares[k] * rows[k * width + j]).sum();
                    let expected = x[i * width + j] - sum;
                    assert!((found[i * width + j] - expected).abs() < 1e-14);
                    assert!((alone[j] - expected).abs() < 1e-14);
                }
            }
        }
    }

    #[test]
    fn a_reflection_keeps_lengths_and_is_its_own_inverse() {
        let mut numbers = Lcg::new(2);
        let rows: Vec<f64> = (0..24).map(|_| numbers.uniform()).collect();
        let (v, mut sums, mut turned) = ([0.3, -1.0, 2.0], Vec::new(), rows.clone());
        reflect(&mut turned, 6, 6, 1, &v, &mut sums);
        assert!((dot(&turned, &turned) - dot(&rows, &rows)).abs() < 1e-13);
        assert_eq!(turned[..6], rows[..6]);
        reflect(&mut turned, 6, 6, 1, &v, &mut sums);
        assert!(turned.iter().zip(&rows).all(|(a, b)| (a - b).abs() < 1e-14));
    }
}

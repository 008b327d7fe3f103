//! Dense algebra on rows that lie one after another: what a search spends its time in.
//!
//! Every product of matrices takes combinations of rows from rows. Four of them are taken at a
//! time, so that a row is read and written a quarter as often; `panels` takes them from several.

use crate::kernel::simd::vectorised;

vectorised! {
    /// Take a combination of rows from one: `x -= sum_k shares[k] row_k`, on the first
    /// `x.len()` doubles of rows of `width`.
    pub fn subtract_combination(x: &mut [f64], rows: &[f64], width: usize, shares: &[f64]) {
        for (four, shares) in rows.chunks(4 * width).zip(shares.chunks(4)) {
            subtract(x, four, width, |k| shares[k]);
        }
    }
}

/// Take up to four rows from one.
#[inline(always)]
pub fn subtract(x: &mut [f64], rows: &[f64], width: usize, share: impl Fn(usize) -> f64) {
    let row = |k: usize| &rows[k * width..k * width + x.len()];
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
        let row = &rows[k * width..k * width + x.len()];
        for (x, a) in x.iter_mut().zip(row) {
            *x -= share * a;
        }
    }
}

/// Sum of products of two stretches of equal length.
#[inline(always)]
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Lcg;

    #[test]
    fn a_combination_of_rows_is_that_of_the_definition() {
        let mut numbers = Lcg::new(1);
        for (width, count) in [(1, 0), (3, 2), (5, 4), (7, 9), (1100, 6)] {
            let mut some = |n: usize| (0..n).map(|_| numbers.uniform()).collect::<Vec<f64>>();
            let (rows, shares, x) = (some(width * count), some(count), some(width));
            let mut found = x.clone();
            subtract_combination(&mut found, &rows, width, &shares);
            for j in 0..width {
                let sum: f64 = (0..count).map(|k| shares[k] * rows[k * width + j]).sum();
                assert!((found[j] - (x[j] - sum)).abs() < 1e-14);
            }
        }
    }
}

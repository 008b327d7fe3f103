//! What is known of coefficients after some rows.
//!
//! The covariance is kept as a root, P = T T', because `P - s Px (Px)' / (1 + s x'Px)` loses all
//! digits where s |x|^2 / beta2 nears 1e16, which an unscaled column reaches; the root loses half
//! as many. With a = T'x, y = T a = P x and z = 1 + s a'a, a row is a rank-one update:
//!
//! ```text
//! T - s / (z + sqrt(z)) y a'
//! ```
//!
//! Source: Potter's update, in Bierman (1977), Factorization Methods for Discrete Sequential
//! Estimation.

use crate::linear::algebra::cholesky::cholesky;
use crate::linear::algebra::dense::{dot, subtract_combination};
use crate::linear::algebra::factor::largest_eigenvalue;

/// Share added to the largest eigenvalue: the digits of x'Px that the root keeps where
/// s |x|^2 / beta2 reaches 1e16.
const BOUND_SLACK: f64 = 1e-8;
/// Rows taken between two looks at the largest eigenvalue, as a share of the columns: a look costs
/// some d^3 and an update d^2.
const LOOK_SHARE: f64 = 1.0 / 16.0;
/// How far above what is found of it the largest eigenvalue may lie; a factor proves that it does
/// not.
const MARGINS: [f64; 3] = [1e-3, 1e-1, 1.0];

/// What a row took off: `root_share y a'` off T, and `share y y'` off P.
pub struct Taken {
    /// T'x.
    pub a: Vec<f64>,
    /// P x.
    pub y: Vec<f64>,
    /// s / (z + sqrt(z)).
    pub root_share: f64,
    /// s / z.
    pub share: f64,
}

/// What is known of some coefficients.
pub struct Posterior {
    width: usize,
    scale: f64,
    root: Vec<f64>,
    taken: Vec<Taken>,
    /// A bound on the largest eigenvalue of P.
    largest: f64,
    looked: usize,
}

impl Posterior {
    /// Without any row: beta2 > 0 is the precision of each coefficient, sigma2 > 0 the variance of
    /// the noise.
    pub fn new(width: usize, beta2: f64, sigma2: f64) -> Posterior {
        let mut root = vec![0.0; width * width];
        root.iter_mut().step_by(width + 1).for_each(|entry| *entry = 1.0 / beta2.sqrt());
        let (scale, largest) = (1.0 / sigma2, 1.0 / beta2);
        Posterior { width, scale, root, taken: Vec::new(), largest, looked: 0 }
    }

    /// How many coefficients.
    pub fn width(&self) -> usize {
        self.width
    }

    /// s, 1 over the variance of the noise.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// T, row by row.
    pub fn root(&self) -> &[f64] {
        &self.root
    }

    /// What the rows took off, in their order.
    pub fn taken(&self) -> &[Taken] {
        &self.taken
    }

    /// P, row by row.
    pub fn covariance(&self) -> Vec<f64> {
        let rows = || self.root.chunks_exact(self.width.max(1));
        rows().flat_map(|row| rows().map(move |other| dot(row, other))).collect()
    }

    /// Take a row and return its gain.
    pub fn add(&mut self, x: &[f64]) -> f64 {
        let mut a = vec![0.0; self.width];
        let shares: Vec<f64> = x.iter().map(|x| -x).collect();
        subtract_combination(&mut a, &self.root, self.width, &shares);
        let y: Vec<f64> = self.root.chunks_exact(self.width).map(|row| dot(row, &a)).collect();
        let z = 1.0 + self.scale * dot(&a, &a);
        let (root_share, share) = (self.scale / (z + z.sqrt()), self.scale / z);
        for (row, y) in self.root.chunks_exact_mut(self.width).zip(&y) {
            subtract_combination(row, &a, self.width, &[root_share * y]);
        }
        let gain = share * dot(&y, &y);
        self.taken.push(Taken { a, y, root_share, share });
        self.look();
        gain
    }

    /// Lower the bound on the largest eigenvalue: below d rows it is that of the prior, and it never
    /// grows.
    fn look(&mut self) {
        let (width, rows) = (self.width, self.taken.len());
        if rows < width || (rows as f64) < self.looked as f64 + LOOK_SHARE * width as f64 {
            return;
        }
        self.looked = rows;
        let covariance = self.covariance();
        let times = |x: &mut Vec<f64>| {
            *x = covariance.chunks_exact(width).map(|row| dot(row, x)).collect();
        };
        let found = largest_eigenvalue(width, |_| true, times);
        for margin in MARGINS {
            let bound = found * (1.0 + margin);
            if bound >= self.largest {
                return;
            }
            let mut left: Vec<f64> = covariance.iter().map(|entry| -entry).collect();
            left.iter_mut().step_by(width + 1).for_each(|entry| *entry += bound);
            if cholesky(&left, width).is_some() {
                self.largest = bound;
                return;
            }
        }
    }

    /// The x'Px that a row needs, or needed at any time before, to gain so much.
    ///
    /// `s |Px|^2 / (1 + s x'Px) <= lambda_max(P) s v / (1 + s v)` for every v >= x'Px.
    pub fn least_variance(&self, gain: f64) -> f64 {
        let ceiling = (1.0 + BOUND_SLACK) * self.largest;
        if gain < ceiling { gain / (self.scale * (ceiling - gain)) } else { f64::INFINITY }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linear::algebra::cholesky::inverse;
    use crate::testing::Lcg;

    /// P after some rows, by the definition.
    fn covariance(rows: &[Vec<f64>], width: usize, beta2: f64, sigma2: f64) -> Vec<f64> {
        let entry = |at: usize| {
            let (i, j) = (at / width, at % width);
            let sum: f64 = rows.iter().map(|row| row[i] * row[j] / sigma2).sum();
            sum + if i == j { beta2 } else { 0.0 }
        };
        let information: Vec<f64> = (0..width * width).map(entry).collect();
        inverse(&cholesky(&information, width).unwrap(), width)
    }

    #[test]
    fn the_root_is_that_of_the_inverse_and_gains_are_differences_of_traces() {
        let (width, mut random) = (6, Lcg::new(1));
        for (beta2, sigma2) in [(1.0, 1.0), (0.3, 2.0), (1e-3, 0.1)] {
            let (mut posterior, mut rows) = (Posterior::new(width, beta2, sigma2), Vec::new());
            for _ in 0..40 {
                let trace = |p: &[f64]| p.iter().step_by(width + 1).sum::<f64>();
                let before = trace(&covariance(&rows, width, beta2, sigma2));
                rows.push((0..width).map(|_| random.uniform() - 0.5).collect::<Vec<f64>>());
                let gain = posterior.add(&rows[rows.len() - 1]);
                let expected = covariance(&rows, width, beta2, sigma2);
                assert!((gain - (before - trace(&expected))).abs() < 1e-10 / beta2);
                for (own, entry) in posterior.covariance().iter().zip(&expected) {
                    assert!((own - entry).abs() < 1e-10 / beta2);
                }
            }
        }
    }

    #[test]
    fn no_row_gains_more_than_the_bound_from_any_earlier_time_allows() {
        let (width, mut random) = (5, Lcg::new(2));
        let rows: Vec<Vec<f64>> = (0..60)
            .map(|_| (0..width).map(|j| (random.uniform() - 0.5) * (j + 1) as f64).collect())
            .collect();
        let mut posterior = Posterior::new(width, 0.5, 2.0);
        let mut least = vec![f64::INFINITY; rows.len()];
        for taken in 0..40 {
            let p = posterior.covariance();
            for (row, least) in rows.iter().zip(&mut least) {
                let y: Vec<f64> = p.chunks_exact(width).map(|p| dot(p, row)).collect();
                let variance = dot(&y, row);
                *least = least.min(variance);
                let gain = dot(&y, &y) / (2.0 + variance);
                assert!(posterior.least_variance(gain) <= *least * (1.0 + 1e-9));
            }
            posterior.add(&rows[taken]);
        }
    }
}

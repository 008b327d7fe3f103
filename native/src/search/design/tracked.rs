//! Gains of some rows, which follow the rows taken at O(d) each.
//!
//! The products A = X T and Y = X P follow by rank-one updates, several of them at once. They are
//! computed anew once the largest gain has fallen to a share: what was subtracted has cost as many
//! digits.

use super::posterior::Posterior;
use crate::kernel::simd::vectorised;
use crate::linear::algebra::dense::dot;
use crate::linear::algebra::panels::subtract_shares;

/// Rows taken that products may lag behind, as a share of the columns: to follow L rows costs
/// 6 L d a row, and new products 4 d^2.
const LAG_SHARE: f64 = 2.0 / 3.0;
/// Share of the largest gain when the products were computed, below which they are again.
const FADED_SHARE: f64 = 1e-2;

/// Rows, one after the other, and their products.
pub struct Tracked {
    x: Vec<f64>,
    a: Vec<f64>,
    y: Vec<f64>,
    /// Rows taken that the products follow.
    followed: usize,
    /// The largest gain when the products were computed.
    fresh: f64,
    /// How often gains were asked for.
    #[cfg(test)]
    pub looks: usize,
}

/// Of each row, what it would gain, and x'Px.
pub struct Gains {
    /// f(S + x) - f(S).
    pub gains: Vec<f64>,
    /// x'Px.
    pub variance: Vec<f64>,
}

impl Tracked {
    /// Rows without products yet, which take twice the memory of the rows.
    pub fn new(x: Vec<f64>) -> Tracked {
        Tracked {
            x,
            a: Vec::new(),
            y: Vec::new(),
            followed: 0,
            fresh: 0.0,
            #[cfg(test)]
            looks: 0,
        }
    }

    /// Row `at`.
    pub fn row(&self, at: usize, width: usize) -> &[f64] {
        &self.x[at * width..(at + 1) * width]
    }

    /// What each row would gain beside the rows taken.
    pub fn gains(&mut self, posterior: &Posterior) -> Gains {
        #[cfg(test)]
        {
            self.looks += 1;
        }
        let (width, scale) = (posterior.width(), posterior.scale());
        let behind = posterior.taken().len() - self.followed;
        let is_new = self.a.is_empty() || behind as f64 > LAG_SHARE * width as f64;
        match is_new {
            true => self.compute(posterior),
            false => self.follow(posterior),
        }
        self.followed = posterior.taken().len();
        let variance = squares(&self.a, width);
        let mut gains = squares(&self.y, width);
        for (gain, variance) in gains.iter_mut().zip(&variance) {
            *gain *= scale / (1.0 + scale * variance);
        }
        let largest = gains.iter().copied().fold(0.0, f64::max);
        if is_new {
            self.fresh = largest;
        } else if largest < FADED_SHARE * self.fresh {
            self.a.clear();
        }
        Gains { gains, variance }
    }

    /// A = X T and Y = A T'.
    fn compute(&mut self, posterior: &Posterior) {
        let (width, root) = (posterior.width(), posterior.root());
        if posterior.taken().is_empty() {
            // T is a multiple of the unit matrix.
            let share = root[0];
            self.a = self.x.iter().map(|x| share * x).collect();
            self.y = self.a.iter().map(|a| share * a).collect();
            return;
        }
        let negated = |rows: &[f64]| rows.iter().map(|x| -x).collect::<Vec<f64>>();
        self.a = vec![0.0; self.x.len()];
        subtract_shares(&mut self.a, root, width, &negated(&self.x));
        let transposed: Vec<f64> =
            (0..width * width).map(|at| root[at % width * width + at / width]).collect();
        self.y = vec![0.0; self.x.len()];
        subtract_shares(&mut self.y, &transposed, width, &negated(&self.a));
    }

    /// Take off what the rows since then took.
    fn follow(&mut self, posterior: &Posterior) {
        let behind = &posterior.taken()[self.followed..];
        if behind.is_empty() {
            return;
        }
        let width = posterior.width();
        let a: Vec<f64> = behind.iter().flat_map(|one| one.a.iter().copied()).collect();
        let y: Vec<f64> = behind.iter().flat_map(|one| one.y.iter().copied()).collect();
        let along = products(&self.x, &y, width);
        let times = |share: &dyn Fn(usize) -> f64| -> Vec<f64> {
            along.iter().enumerate().map(|(at, u)| u * share(at % behind.len())).collect()
        };
        subtract_shares(&mut self.a, &a, width, &times(&|k| behind[k].root_share));
        subtract_shares(&mut self.y, &y, width, &times(&|k| behind[k].share));
    }
}

vectorised! {
    /// The squared norm of each row.
    fn squares(rows: &[f64], width: usize) -> Vec<f64> {
        rows.chunks_exact(width).map(|row| dot(row, row)).collect()
    }
}

vectorised! {
    /// The product of each row with each of some others.
    fn products(rows: &[f64], others: &[f64], width: usize) -> Vec<f64> {
        let with = |row| others.chunks_exact(width).map(move |other| dot(row, other));
        rows.chunks_exact(width).flat_map(with).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Lcg;

    #[test]
    fn products_follow_the_posterior_for_hundreds_of_rows() {
        let (width, mut random) = (20, Lcg::new(3));
        let x: Vec<f64> = (0..300 * width).map(|_| random.uniform() - 0.5).collect();
        for (beta2, sigma2) in [(1.0, 1.0), (0.3, 2.0), (1e-3, 0.1)] {
            let mut posterior = Posterior::new(width, beta2, sigma2);
            let mut often = Tracked::new(x[..100 * width].to_vec());
            let mut seldom = Tracked::new(x[100 * width..200 * width].to_vec());
            for taken in 0..300 {
                posterior.add(&x[taken * width..][..width]);
                often.gains(&posterior);
                if taken % 7 == 0 {
                    seldom.gains(&posterior);
                }
                if taken % 50 != 2 {
                    continue;
                }
                let p = posterior.covariance();
                for (first, tracked) in [(0, &mut often), (100, &mut seldom)] {
                    let found = tracked.gains(&posterior);
                    for at in 0..100 {
                        let row = &x[(first + at) * width..][..width];
                        let y: Vec<f64> = p.chunks_exact(width).map(|p| dot(p, row)).collect();
                        let variance = dot(&y, row);
                        let gain = dot(&y, &y) / (sigma2 + variance);
                        assert!((found.variance[at] / variance - 1.0).abs() < 1e-8);
                        assert!((found.gains[at] / gain - 1.0).abs() < 1e-8);
                    }
                }
            }
        }
    }
}

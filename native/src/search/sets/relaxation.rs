//! How much groups within a budget can explain: choices relaxed from yes or no to shares.
//!
//! With H held, U undecided, `Q = C_UU|H`, b the gradient and any block-diagonal `0 <= E <= Q` (in
//! the order of matrices, one block a group), every choice S of U has
//!
//! ```text
//! F(H + S) <= F(H) + max b' (Q - E + E / z)^-1 b    over 0 <= z <= 1, costs'z <= budget
//! ```
//!
//! with equality where z is 0 or 1. The right side is concave in z, so its tangent at any z,
//! maximised by a fractional knapsack, bounds it: `slope_g = w_g' E_gg w_g / z_g^2`. At z = 1 that
//! is F of all groups less what those left out lose at least, at small z the bound of a sequence's
//! certificate; between the two it is nearer than either. The next z is the share at which
//! `w_g' E_gg w_g / z_g` costs least within the budget, in turns with w.
//!
//! E is `blockdiag(P)^-1 / lambda`, `P = Q^-1`, lambda the largest eigenvalue of P once its blocks
//! are whitened: two groups that are nearly dependent spoil E for themselves alone. What is left of
//! Q lets E grow, a few rounds.
//!
//! Rank: columns that depend on others have no P. E is 0 for each group that takes part in a
//! dependence, so that it may be used at no cost: a bound still, until one of them is decided.
//!
//! Sources: Frangioni, Gentile (2006), Mathematical Programming 106, the perspective relaxation;
//! Dong, Chen, Linderoth (2015), arXiv 1510.06083, for regression and the choice of E; Bertsimas,
//! Van Parys (2020), Annals of Statistics 48, for the tangents. Departures: groups and costs,
//! E conditional on H, and dependent columns.

use crate::linear::algebra::cholesky::{cholesky, inverse, inverse_factor, solve};
use crate::linear::algebra::dense::dot;
use crate::linear::algebra::extremes::extremes;

/// Rounds in which E grows into what is left of Q: each costs an inverse and an eigenvalue, and
/// more of them saved fewer questions than they took time, on columns of any kind.
const ROUNDS: usize = 3;
/// Share of E that a round keeps, so that what is left of Q has an inverse.
const KEPT_SHARE: f64 = 0.95;
/// E is taken smaller by this share, which is more than the rounding of an eigenvalue.
const E_SLACK: f64 = 1e-9;
/// Least share z of a group: of 0 there would be no way back, and 1 / z must keep digits.
const LEAST_SHARE: f64 = 1e-4;

/// A bound on what the undecided groups can explain, and what deciding one does to it.
#[derive(Clone, Debug)]
pub struct Tangent {
    /// z, one a group.
    pub shares: Vec<f64>,
    /// The relaxed F at z: no bound of this kind is less.
    pub value: f64,
    /// No choice explains more.
    pub bound: f64,
    /// What the relaxed F gains with each share.
    pub slope: Vec<f64>,
    /// Slope less what the cost of the group would gain elsewhere: the bound falls by as much if
    /// the group is left out (> 0) or taken in (< 0) against it.
    pub excess: Vec<f64>,
}

/// Groups that may be added to those held.
#[derive(Clone, Debug)]
pub struct Undecided {
    /// Numbers of the m groups that still add something.
    pub groups: Vec<usize>,
    /// Cost of each.
    pub costs: Vec<f64>,
    /// The columns of each, of which none depends on the others.
    pub members: Vec<Vec<usize>>,
    /// Covariance of the columns given what is held, row by row.
    pub q: Vec<f64>,
    /// Gradient.
    pub b: Vec<f64>,
    /// The inverse of Q.
    pub p: Vec<f64>,
    /// F of the groups held.
    pub held_value: f64,
    /// F of those and all undecided.
    pub value: f64,
    /// Whether each group takes part in a dependence.
    pub entangled: Vec<bool>,
}

impl Undecided {
    /// d, the number of columns.
    fn width(&self) -> usize {
        self.b.len()
    }

    /// `P b`.
    fn coefficients(&self) -> Vec<f64> {
        self.p.chunks_exact(self.width().max(1)).map(|row| dot(row, &self.b)).collect()
    }

    /// What each group contributes to F of all undecided.
    pub fn parts(&self) -> Vec<f64> {
        let w = self.coefficients();
        let part = |columns: &Vec<usize>| columns.iter().map(|&j| self.b[j] * w[j]).sum();
        self.members.iter().map(part).collect()
    }

    /// What leaving out each group alone loses, 0 for those entangled.
    pub fn losses(&self) -> Vec<f64> {
        let w = self.coefficients();
        let loss = |columns: &Vec<usize>| {
            let own: Vec<f64> = columns.iter().map(|&j| w[j]).collect();
            let factor = cholesky(&self.block(&self.p, columns), columns.len())?;
            let mut solved = own.clone();
            solve(&factor, &mut solved);
            Some(dot(&own, &solved))
        };
        let each = self.members.iter().zip(&self.entangled);
        each.map(|(columns, is)| if *is { 0.0 } else { loss(columns).unwrap_or(0.0) }).collect()
    }

    /// Tangents whose bounds fall, on the whole, until rounding leaves no equations; `budget` is
    /// below the sum of the costs, and `shares` are z to start from, scaled to it.
    pub fn tangents(&self, budget: f64, shares: &[f64]) -> Tangents<'_> {
        let scale = (budget / dot(&self.costs, shares)).min(1.0);
        let z = shares.iter().map(|share| (share * scale).clamp(LEAST_SHARE, 1.0)).collect();
        Tangents { rest: self, e: self.separable(), z, budget }
    }

    /// A block of a matrix of the columns.
    fn block(&self, matrix: &[f64], columns: &[usize]) -> Vec<f64> {
        let width = self.width();
        let row = |&i: &usize| columns.iter().map(move |&j| matrix[i * width + j]);
        columns.iter().flat_map(row).collect()
    }

    /// Q and a share of each block of E.
    fn with_blocks(&self, e: &[Vec<f64>], share: impl Fn(usize) -> f64) -> Vec<f64> {
        let (mut sum, width) = (self.q.clone(), self.width());
        for (group, (block, columns)) in e.iter().zip(&self.members).enumerate() {
            let share = share(group);
            for (row, &i) in block.chunks_exact(columns.len().max(1)).zip(columns) {
                row.iter().zip(columns).for_each(|(x, &j)| sum[i * width + j] += share * x);
            }
        }
        sum
    }

    /// E, block-diagonal, at most Q: a block for each group, an empty one of those entangled.
    fn separable(&self) -> Vec<Vec<f64>> {
        let each = self.members.iter().zip(&self.entangled);
        let empty = |(columns, is): (&Vec<usize>, &bool)| match is {
            true => Vec::new(),
            false => vec![0.0; columns.len() * columns.len()],
        };
        let mut e: Vec<Vec<f64>> = each.map(empty).collect();
        for _ in 0..ROUNDS {
            e.iter_mut().flatten().for_each(|x| *x *= KEPT_SHARE);
            let Some(growth) = self.growth(&e) else { break };
            for (block, more) in e.iter_mut().zip(growth) {
                block.iter_mut().zip(more).for_each(|(x, more)| *x += more);
            }
        }
        e
    }

    /// By what each block of E may grow; nothing where no digits are left.
    fn growth(&self, e: &[Vec<f64>]) -> Option<Vec<Vec<f64>>> {
        let width = self.width();
        let free: Vec<&Vec<usize>> =
            self.members.iter().zip(e).filter(|(_, e)| !e.is_empty()).map(|(own, _)| own).collect();
        if free.is_empty() {
            return None;
        }
        let p = inverse(&cholesky(&self.with_blocks(e, |_| -1.0), width)?, width);
        let factors: Option<Vec<Vec<f64>>> =
            free.iter().map(|columns| cholesky(&self.block(&p, columns), columns.len())).collect();
        let factors = factors?;
        let share = (1.0 - E_SLACK) / largest_whitened(&p, width, &free, &factors);
        let mut blocks = free.iter().zip(&factors).map(|(columns, factor)| {
            inverse(factor, columns.len()).into_iter().map(|x| share * x).collect()
        });
        let grown = e.iter().map(|e| match e.is_empty() {
            true => Vec::new(),
            false => blocks.next().unwrap_or_default(),
        });
        Some(grown.collect())
    }
}

/// The largest eigenvalue of a matrix once the blocks of some columns are whitened by their factors;
/// other columns take no part.
fn largest_whitened(
    matrix: &[f64],
    width: usize,
    blocks: &[&Vec<usize>],
    factors: &[Vec<f64>],
) -> f64 {
    let roots: Vec<Vec<f64>> = blocks
        .iter()
        .zip(factors)
        .map(|(columns, factor)| inverse_factor(factor, columns.len()))
        .collect();
    let size: usize = blocks.iter().map(|columns| columns.len()).sum();
    let mut white = Vec::with_capacity(size * size);
    let mut row = vec![0.0; width];
    for (columns, root) in blocks.iter().zip(&roots) {
        for own in root.chunks_exact(columns.len()) {
            row.fill(0.0);
            for (share, &i) in own.iter().zip(columns.iter()) {
                let other = &matrix[i * width..][..width];
                row.iter_mut().zip(other).for_each(|(x, entry)| *x += share * entry);
            }
            for (others, root) in blocks.iter().zip(&roots) {
                let entry = |own: &[f64]| {
                    own.iter().zip(others.iter()).map(|(share, &j)| share * row[j]).sum::<f64>()
                };
                white.extend(root.chunks_exact(others.len()).map(entry));
            }
        }
    }
    extremes(&mut white, size).1
}

/// Tangents one after another.
pub struct Tangents<'u> {
    rest: &'u Undecided,
    e: Vec<Vec<f64>>,
    z: Vec<f64>,
    budget: f64,
}

impl Iterator for Tangents<'_> {
    type Item = Tangent;

    fn next(&mut self) -> Option<Tangent> {
        let Tangents { rest, e, z, budget } = self;
        let factor = cholesky(&rest.with_blocks(e, |group| 1.0 / z[group] - 1.0), rest.width())?;
        let mut w = rest.b.clone();
        solve(&factor, &mut w);
        let paid = |(e, columns): (&Vec<f64>, &Vec<usize>)| {
            let rows = e.chunks_exact(columns.len().max(1)).zip(columns);
            let product = |(row, &i): (&[f64], &usize)| {
                w[i] * row.iter().zip(columns).map(|(x, &j)| x * w[j]).sum::<f64>()
            };
            rows.map(product).sum::<f64>().max(0.0)
        };
        let paid: Vec<f64> = e.iter().zip(&rest.members).map(paid).collect();
        let value = rest.held_value + dot(&rest.b, &w);
        let slope: Vec<f64> = paid.iter().zip(&*z).map(|(paid, z)| paid / (z * z)).collect();
        let (best, worth) = knapsack(&slope, &rest.costs, *budget);
        let rise =
            slope.iter().zip(best.iter().zip(&*z)).map(|(slope, (one, z))| slope * (one - z));
        let bound = value + rise.sum::<f64>();
        let excess = slope.iter().zip(&rest.costs).map(|(slope, cost)| slope - worth * cost);
        let excess = excess.collect();
        let next = cheapest(&paid, &rest.costs, *budget);
        let next = next.into_iter().map(|share| share.clamp(LEAST_SHARE, 1.0)).collect();
        Some(Tangent { shares: std::mem::replace(z, next), value, bound, slope, excess })
    }
}

/// Places by falling numbers, those that tie in their order.
fn falling(numbers: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..numbers.len()).collect();
    order.sort_by(|&a, &b| numbers[b].total_cmp(&numbers[a]));
    order
}

/// The best fractional knapsack, and what a unit of cost is worth in it.
fn knapsack(profits: &[f64], costs: &[f64], budget: f64) -> (Vec<f64>, f64) {
    let rates: Vec<f64> = profits.iter().zip(costs).map(|(profit, cost)| profit / cost).collect();
    let (mut shares, mut before, mut worth) = (vec![0.0; costs.len()], 0.0, None);
    for group in falling(&rates) {
        shares[group] = ((budget - before) / costs[group]).clamp(0.0, 1.0);
        before += costs[group];
        if worth.is_none() && shares[group] < 1.0 {
            worth = Some(rates[group]);
        }
    }
    (shares, worth.unwrap_or(0.0))
}

/// The shares z <= 1 within a budget at which the sum of paid / z is least.
///
/// `z = min(1, t sqrt(paid / cost))`: with the groups in falling order of the root, the first m
/// have share 1 and t spends on the others what is left.
fn cheapest(paid: &[f64], costs: &[f64], budget: f64) -> Vec<f64> {
    let roots: Vec<f64> = paid.iter().zip(costs).map(|(paid, cost)| (paid / cost).sqrt()).collect();
    let order = falling(&roots);
    // What a group and those after it pay for a t of 1.
    let mut others = vec![0.0; order.len() + 1];
    for (at, &group) in order.iter().enumerate().rev() {
        others[at] = others[at + 1] + costs[group] * roots[group];
    }
    let mut full = 0.0;
    for (&group, others) in order.iter().zip(others) {
        let t = (budget - full) / others;
        if roots[group] * t <= 1.0 {
            return roots.iter().map(|root| (root * t).min(1.0)).collect();
        }
        full += costs[group];
    }
    vec![1.0; costs.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_knapsack_takes_the_best_rates_first() {
        // Rates 3, 2 and 1 at costs 2, 2 and 1.
        let (shares, worth) = knapsack(&[4.0, 6.0, 1.0], &[2.0, 2.0, 1.0], 3.0);
        assert_eq!((shares, worth), (vec![0.5, 1.0, 0.0], 2.0));
        let (shares, worth) = knapsack(&[4.0, 6.0, 1.0], &[2.0, 2.0, 1.0], 9.0);
        assert_eq!((shares, worth), (vec![1.0; 3], 0.0));
    }

    #[test]
    fn the_cheapest_shares_spend_the_budget_at_equal_marginal_costs() {
        let (paid, costs) = ([4.0, 1.0, 0.25, 16.0], [1.0, 1.0, 1.0, 1.0]);
        // t (sqrt(4) + 1 + 1/2) = 1 beside the last, whose share would be more than 1.
        let shares = cheapest(&paid, &costs, 2.0);
        let expected = [2.0 / 3.5, 1.0 / 3.5, 0.5 / 3.5, 1.0];
        shares.iter().zip(expected).for_each(|(a, b)| assert!((a - b).abs() < 1e-15, "{shares:?}"));
        assert_eq!(cheapest(&paid, &costs, 4.0), vec![1.0; 4]);
    }
}

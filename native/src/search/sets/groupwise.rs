//! The linear problem on columns of unit variance, of which some groups are decided.

use std::time::Duration;

use super::relaxation::Undecided;
use crate::linear::algebra::cholesky::{cholesky, independent, inverse, solve};
use crate::linear::algebra::dense::{dot, subtract_combination};
use crate::linear::algebra::extremes::extremes;
use crate::linear::algebra::panels::subtract_products;
use crate::linear::prices::Prices;
use crate::linear::problem::Linear;
use crate::linear::state::RANK_SHARE;
use crate::search::sets::leaps::{Leaps, Set};

/// A column takes part in a dependence if its coefficient there is above this: with a smaller one,
/// unit-variance columns depend on each other without it, up to `RANK_SHARE`.
const PART: f64 = 1e-8;
/// Most columns for leaps and bounds, whose sets all hold a matrix of their own.
const LEAPS_WIDEST: usize = 300;
/// Condition number above which the matrices of leaps and bounds lose the digits of a proof.
const LEAPS_CONDITION: f64 = 1e6;

/// The problem, its columns divided by their deviations.
pub struct Groupwise<'c> {
    width: usize,
    matrix: Vec<f64>,
    target: Vec<f64>,
    members: Vec<Vec<usize>>,
    /// What sets of groups cost, and which may be bought.
    pub prices: Prices<'c>,
}

impl<'c> Groupwise<'c> {
    /// The problem whose group g has the columns from `starts[g]` on.
    pub fn new(problem: &Linear, starts: &[usize], prices: Prices<'c>) -> Groupwise<'c> {
        let width = problem.width();
        let unit: Vec<f64> = (0..width).map(|j| 1.0 / problem.deviation(j)).collect();
        let mut matrix = Vec::with_capacity(width * width);
        for i in 0..width {
            matrix.extend(problem.row(i).iter().zip(&unit).map(|(x, other)| x * unit[i] * other));
            matrix[i * width + i] = problem.variance(i) * unit[i] * unit[i];
        }
        let target = problem.target.iter().zip(&unit).map(|(c, unit)| c * unit).collect();
        // A constant column explains nothing, whatever the ridge.
        let members = starts
            .windows(2)
            .map(|ends| (ends[0]..ends[1]).filter(|&j| !problem.constant[j]).collect());
        Groupwise { width, matrix, target, members: members.collect(), prices }
    }

    /// The problems that one is made of, side by side: of each group, each has as many columns, and
    /// explains its own share of the target, here as a share of its own variance.
    pub fn parts(&self, problem: &Linear, starts: &[usize], count: usize) -> Vec<Groupwise<'c>> {
        let root = (count as f64).sqrt();
        let part = |number: usize| {
            let (mut columns, mut members) = (Vec::new(), Vec::new());
            for ends in starts.windows(2) {
                let (size, from) = ((ends[1] - ends[0]) / count, columns.len());
                let own = ends[0] + number * size..ends[0] + (number + 1) * size;
                columns.extend(own.filter(|&j| !problem.constant[j]));
                members.push((from..columns.len()).collect());
            }
            let matrix = self.block(&columns);
            let target = columns.iter().map(|&j| self.target[j] * root).collect();
            Groupwise { width: columns.len(), matrix, target, members, prices: self.prices }
        };
        (0..count).map(part).collect()
    }

    /// What some groups explain.
    pub fn value(&self, held: &[usize]) -> f64 {
        self.undecided(held, &[]).held_value
    }

    /// Search for a set that explains more than a value, by leaps and bounds, where no column
    /// depends on others.
    ///
    /// `held` are groups of every set, `groups` others, of which none is dearer than what the
    /// budget leaves. Returns the groups of a better set, none if none was found, the sets looked
    /// at, and whether no other explains more. O(d^2) a set, over the columns left; 2^J sets at
    /// worst, some thousand for 30 columns.
    pub fn leaps(
        &self,
        held: &[usize],
        groups: &[usize],
        (budget, value): (f64, f64),
        time: Duration,
    ) -> (Vec<usize>, u64, bool) {
        let order = [held, groups].concat();
        let (mut columns, mut starts) = (Vec::new(), vec![0]);
        for &group in &order {
            columns.extend(self.within(group));
            starts.push(columns.len());
        }
        let size = columns.len();
        let block = self.block(&columns);
        let factor = if size <= LEAPS_WIDEST { cholesky(&block, size) } else { None };
        let (least, largest) = match factor {
            Some(_) => extremes(&mut block.clone(), size),
            None => (0.0, 0.0),
        };
        let is_certain = size > 0 && largest <= LEAPS_CONDITION * least;
        let Some(factor) = factor.filter(|_| is_certain) else {
            return (Vec::new(), 0, false);
        };
        let mut coef: Vec<f64> = columns.iter().map(|&j| self.target[j]).collect();
        let target = coef.clone();
        solve(&factor, &mut coef);
        let set = Set {
            groups: (0..order.len()).collect(),
            starts,
            inverse: inverse(&factor, size),
            explained: dot(&coef, &target),
            coef,
            kept: held.len(),
        };
        let mut leaps = Leaps::new(self.prices, &order, budget, value, time);
        let is_all = leaps.search(&set);
        let better = leaps.best.iter().flatten().map(|&at| order[at]).collect();
        (better, leaps.nodes, is_all)
    }

    /// The columns of a group without those that depend on others of it.
    fn within(&self, group: usize) -> Vec<usize> {
        let columns = &self.members[group];
        let (mut kept, _) = independent(&self.block(columns), columns.len(), RANK_SHARE);
        kept.sort_unstable();
        kept.into_iter().map(|at| columns[at]).collect()
    }

    /// What some groups may add to those held; O(d^3) over the columns of both.
    pub fn undecided(&self, held: &[usize], groups: &[usize]) -> Undecided {
        let members = |group: &usize| self.members[*group].iter().copied();
        let known: Vec<usize> = held.iter().flat_map(members).collect();
        let columns: Vec<usize> = groups.iter().flat_map(members).collect();
        let owner: Vec<usize> = groups
            .iter()
            .enumerate()
            .flat_map(|(at, &group)| std::iter::repeat_n(at, self.members[group].len()))
            .collect();
        // Of the columns and, behind them, of the target.
        let size = columns.len();
        let width = size + 1;
        let row = |i: usize| {
            let own = &self.matrix[i * self.width..][..self.width];
            columns.iter().map(move |&j| own[j]).chain([self.target[i]])
        };
        let u = self.rows_given(&known, width, row);
        let held_value = u.chunks_exact(width).map(|row| row[size] * row[size]).sum();
        let mut left: Vec<f64> = columns.iter().flat_map(|&i| row(i)).collect();
        subtract_products(&mut left, &u, width, 0);
        let entry = |i: usize, j: usize| left[i * width + j];
        // What depends on the groups held adds nothing.
        let adds: Vec<usize> = (0..size).filter(|&j| entry(j, j) > RANK_SHARE).collect();
        let inner: Vec<f64> =
            adds.iter().flat_map(|&i| adds.iter().map(move |&j| entry(i, j))).collect();
        let (kept, factor) = independent(&inner, adds.len(), RANK_SHARE);
        let kept: Vec<usize> = kept.into_iter().map(|at| adds[at]).collect();
        let mut entangled = vec![false; groups.len()];
        for &lost in adds.iter().filter(|j| !kept.contains(j)) {
            let mut parts: Vec<f64> = kept.iter().map(|&i| entry(i, lost)).collect();
            solve(&factor, &mut parts);
            entangled[owner[lost]] = true;
            for (part, &column) in parts.iter().zip(&kept) {
                entangled[owner[column]] |= part.abs() > PART;
            }
        }
        let rank = kept.len();
        let b: Vec<f64> = kept.iter().map(|&j| entry(j, size)).collect();
        let p = inverse(&factor, rank);
        let gains = p.chunks_exact(rank.max(1)).zip(&b).map(|(row, own)| own * dot(row, &b));
        let value = held_value + gains.sum::<f64>();
        let mut present: Vec<usize> = adds.iter().map(|&j| owner[j]).collect();
        present.dedup();
        let columns_of = |&at: &usize| (0..rank).filter(|&k| owner[kept[k]] == at).collect();
        Undecided {
            groups: present.iter().map(|&at| groups[at]).collect(),
            costs: present.iter().map(|&at| self.prices.costs[groups[at]]).collect(),
            members: present.iter().map(columns_of).collect(),
            q: kept.iter().flat_map(|&i| kept.iter().map(move |&j| entry(i, j))).collect(),
            b,
            p,
            held_value,
            value,
            entangled: present.iter().map(|&at| entangled[at]).collect(),
        }
    }

    /// `L^-1` times some rows of known columns, `L L'` their matrix; those that depend on others
    /// have none.
    fn rows_given<R: Iterator<Item = f64>>(
        &self,
        known: &[usize],
        width: usize,
        row: impl Fn(usize) -> R,
    ) -> Vec<f64> {
        let (kept, factor) = independent(&self.block(known), known.len(), RANK_SHARE);
        let rank = kept.len();
        let mut rows = Vec::with_capacity(rank * width);
        for (i, &at) in kept.iter().enumerate() {
            rows.extend(row(known[at]));
            let (above, own) = rows.split_at_mut(i * width);
            let shares = &factor[i * rank..][..=i];
            subtract_combination(own, above, width, &shares[..i]);
            own.iter_mut().for_each(|x| *x /= shares[i]);
        }
        rows
    }

    fn block(&self, columns: &[usize]) -> Vec<f64> {
        let row = |&i: &usize| columns.iter().map(move |&j| self.matrix[i * self.width + j]);
        columns.iter().flat_map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linear::problem::Gram;
    use crate::search::sets::relaxation::Tangent;
    use crate::testing::{Lcg, moments};

    /// Groups of 1, 2, 1, 3, 1 and 1 columns; of dependent ones the last two depend on others.
    const STARTS: [usize; 7] = [0, 1, 3, 4, 7, 8, 9];
    const COSTS: [f64; 6] = [1.0, 2.5, 0.5, 2.0, 1.5, 1.0];
    const ROUNDING: f64 = 1e-9;

    fn problem(seed: u64, is_dependent: bool) -> Linear {
        let mut random = Lcg::new(seed);
        let rows: Vec<Vec<f64>> = (0..40)
            .map(|_| {
                let shared = random.uniform();
                let mut row: Vec<f64> = (0..10).map(|_| shared + random.uniform()).collect();
                if is_dependent {
                    row[7] = row[0] - 2.0 * row[1];
                    row[8] = row[3];
                }
                row[9] += row[0] - row[2] + row[5];
                row
            })
            .collect();
        let (mean, comoment) = moments(&rows);
        let (mean, comoment) = (&mean[..], &comoment[..]);
        let gram = Gram {
            rows: 40,
            skipped: 0,
            weight: 40.0,
            mean,
            mean_low: &[],
            comoment,
            missing: &[],
        };
        let mut problem = Linear::default();
        problem.set_up(&gram, 9, &(0..9).collect::<Vec<_>>(), 0.0, true);
        problem
    }

    /// What a set of groups explains, by elimination, and what it costs.
    fn explained(problem: &Linear, set: usize) -> (f64, f64) {
        let groups: Vec<usize> = (0..6).filter(|group| set >> group & 1 == 1).collect();
        let columns: Vec<usize> =
            groups.iter().flat_map(|&group| STARTS[group]..STARTS[group + 1]).collect();
        let entry = |i: usize, j: usize| problem.row(i)[j];
        let block: Vec<f64> =
            columns.iter().flat_map(|&i| columns.iter().map(move |&j| entry(i, j))).collect();
        let (kept, factor) = independent(&block, columns.len(), 1e-10);
        let own: Vec<f64> = kept.iter().map(|&at| problem.target[columns[at]]).collect();
        let mut w = own.clone();
        solve(&factor, &mut w);
        (dot(&own, &w), groups.iter().map(|&group| COSTS[group]).sum())
    }

    #[test]
    fn every_tangent_bounds_every_set() {
        for seed in 0..12 {
            let problem = problem(seed, seed % 2 == 1);
            let groupwise = Groupwise::new(&problem, &STARTS, Prices::of(&COSTS));
            let every: Vec<(f64, f64)> = (0..64).map(|set| explained(&problem, set)).collect();
            for held in [vec![], vec![3], vec![1, 5]] {
                let has = |set: usize| held.iter().all(|group| set >> group & 1 == 1);
                let others: Vec<usize> = (0..6).filter(|group| !held.contains(group)).collect();
                let rest = groupwise.undecided(&held, &others);
                assert!((rest.value - every[63].0).abs() < ROUNDING);
                for (group, loss) in rest.groups.iter().zip(rest.losses()) {
                    let without = (0..64).filter(|set| has(*set) && set >> group & 1 == 0);
                    let most = without.map(|set| every[set].0).fold(0.0, f64::max);
                    assert!(most <= rest.value - loss + ROUNDING);
                }
                let spent: f64 = held.iter().map(|&group| COSTS[group]).sum();
                let total: f64 = rest.costs.iter().sum();
                for budget in [0.15, 0.4, 0.7].map(|share| share * total) {
                    let within = |set: &usize| has(*set) && every[*set].1 <= spent + budget;
                    let most = |is: &dyn Fn(usize) -> bool| {
                        let sets = (0..64).filter(within).filter(|set| is(*set));
                        sets.map(|set| every[set].0).fold(f64::NEG_INFINITY, f64::max)
                    };
                    let shares: Vec<f64> = rest.costs.iter().map(|cost| cost / 4.0).collect();
                    for Tangent { bound, excess, .. } in rest.tangents(budget, &shares).take(5) {
                        assert!(bound >= most(&|_| true) - ROUNDING);
                        for (group, excess) in rest.groups.iter().zip(excess) {
                            let is_other = |set: usize| (set >> group & 1 == 1) != (excess > 0.0);
                            assert!(bound - excess.abs() >= most(&is_other) - ROUNDING);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn leaps_find_the_best_of_all_sets_and_refuse_dependent_columns() {
        for seed in 0..8 {
            let problem = problem(seed, false);
            let groupwise = Groupwise::new(&problem, &STARTS, Prices::of(&COSTS));
            let time = Duration::from_secs(60);
            let (found, _, is_all) = groupwise.leaps(&[2], &[0, 1, 3, 4, 5], (4.0, 0.0), time);
            assert!(is_all);
            let of = |groups: &[usize]| groups.iter().fold(0, |set, group| set | 1 << group);
            let within = |set: &usize| set >> 2 & 1 == 1 && explained(&problem, *set).1 <= 4.0;
            let best = (0..64).filter(within).map(|set| explained(&problem, set).0);
            let best = best.fold(0.0, f64::max);
            assert!((explained(&problem, of(&found)).0 - best).abs() < ROUNDING);
            assert!(within(&of(&found)));
        }
        let problem = problem(1, true);
        let groupwise = Groupwise::new(&problem, &STARTS, Prices::of(&COSTS));
        let found = groupwise.leaps(&[], &[0, 1, 4], (4.0, 0.0), Duration::from_secs(60));
        assert_eq!(found, (Vec::new(), 0, false));
    }
}

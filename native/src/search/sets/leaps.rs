//! The best set of groups within a budget, by leaps and bounds.
//!
//! The tree starts from all groups and gives one back at each branch. What a set explains
//! bounds all of its subsets, so that a branch ends where that is no more than the best set
//! found. Groups whose loss is large come first, and are kept in the branches of the others.
//!
//! Source: Furnival, Wilson (1974), "Regressions by leaps and bounds", Technometrics 16.
//! Departures: groups of columns, costs and a budget in place of the number of columns.

use std::time::{Duration, Instant};

use crate::linear::prices::Prices;

/// Nodes between two looks at the clock.
const NODES_A_LOOK: u64 = 256;

/// A search that is under way.
pub struct Leaps<'c> {
    /// What sets of groups cost, and which may be bought.
    prices: Prices<'c>,
    /// The group of each number in a set.
    order: &'c [usize],
    /// Most that the groups of a set may cost.
    pub budget: f64,
    /// What a set has to explain more of than.
    pub value: f64,
    /// The best set found, if any is better.
    pub best: Option<Vec<usize>>,
    /// Sets that were looked at.
    pub nodes: u64,
    deadline: Instant,
    is_late: bool,
}

/// All groups that are left, those that stay in every subset first.
pub struct Set {
    /// Numbers of the groups.
    pub groups: Vec<usize>,
    /// Where the columns of each begin, and where the last end.
    pub starts: Vec<usize>,
    /// Inverse of the matrix of products of the columns, row by row.
    pub inverse: Vec<f64>,
    /// Coefficients of the columns.
    pub coef: Vec<f64>,
    /// What they explain.
    pub explained: f64,
    /// How many of the first groups stay.
    pub kept: usize,
}

/// What giving a group back costs, and the rows by which it is done.
struct Loss {
    at: usize,
    explained: f64,
    factor: Vec<f64>,
}

impl<'c> Leaps<'c> {
    /// A search that ends after some time.
    pub fn new(
        prices: Prices<'c>,
        order: &'c [usize],
        budget: f64,
        value: f64,
        time: Duration,
    ) -> Leaps<'c> {
        let deadline = Instant::now() + time;
        Leaps { prices, order, budget, value, best: None, nodes: 0, deadline, is_late: false }
    }

    /// What some groups cost; infinite where they, and all that hold them, may not be bought.
    fn cost(&self, groups: &[usize]) -> f64 {
        if self.prices.are_sums() {
            return groups.iter().map(|&group| self.prices.costs[self.order[group]]).sum();
        }
        let groups: Vec<usize> = groups.iter().map(|&group| self.order[group]).collect();
        let may = self.prices.may_hold(&groups);
        if may { self.prices.spent(groups) } else { f64::INFINITY }
    }

    /// Whether some groups hold all that they need.
    fn is_closed(&self, groups: &[usize]) -> bool {
        let own = |groups: &[usize]| groups.iter().map(|&group| self.order[group]).collect();
        self.prices.are_sums() || {
            let groups: Vec<usize> = own(groups);
            self.prices.closed(&groups).len() == groups.len()
        }
    }

    /// Look at all subsets that may be better; false comes back if time, or the digits of the
    /// inverse, ended first.
    pub fn search(&mut self, set: &Set) -> bool {
        self.nodes += 1;
        if self.nodes.is_multiple_of(NODES_A_LOOK) {
            self.is_late = Instant::now() >= self.deadline;
        }
        if self.is_late {
            return false;
        }
        if self.cost(&set.groups) <= self.budget && self.is_closed(&set.groups) {
            if set.explained > self.value {
                (self.value, self.best) = (set.explained, Some(set.groups.clone()));
            }
            return true;
        }
        let losses: Option<Vec<Loss>> =
            (set.kept..set.groups.len()).map(|at| set.loss(at)).collect();
        let Some(mut losses) = losses else { return false };
        losses.sort_by(|a, b| b.explained.total_cmp(&a.explained));
        let mut kept = set.groups[..set.kept].to_vec();
        let mut branches = 0;
        for loss in &losses {
            if self.cost(&kept) > self.budget {
                break;
            }
            kept.push(set.groups[loss.at]);
            branches += 1;
        }
        // The smallest loss first: it gives the best set soonest.
        for branch in (0..branches).rev() {
            if set.explained - losses[branch].explained <= self.value {
                break; // The others lose more.
            }
            if !self.search(&set.without(&losses, branch)) {
                return false;
            }
        }
        true
    }
}

impl Set {
    fn width(&self) -> usize {
        self.coef.len()
    }

    /// What giving the group at a place back costs; nothing where the inverse has lost its
    /// digits.
    fn loss(&self, at: usize) -> Option<Loss> {
        let (columns, width) = (self.starts[at]..self.starts[at + 1], self.width());
        let size = columns.len();
        // The Cholesky factor of the group's part of the inverse, row by row.
        let mut factor = vec![0.0; size * size];
        let mut explained = 0.0;
        let mut solved = vec![0.0; size];
        for i in 0..size {
            for j in 0..=i {
                let products: f64 =
                    (0..j).map(|k| factor[i * size + k] * factor[j * size + k]).sum();
                let left = self.inverse[(columns.start + i) * width + columns.start + j] - products;
                if i == j {
                    if left <= 0.0 {
                        return None;
                    }
                    factor[i * size + i] = left.sqrt();
                } else {
                    factor[i * size + j] = left / factor[j * size + j];
                }
            }
            let known: f64 = (0..i).map(|k| factor[i * size + k] * solved[k]).sum();
            solved[i] = (self.coef[columns.start + i] - known) / factor[i * size + i];
            explained += solved[i] * solved[i];
        }
        Some(Loss { at, explained, factor })
    }

    /// The set without the group of a branch, those of the branches before kept.
    fn without(&self, losses: &[Loss], branch: usize) -> Set {
        let (loss, width) = (&losses[branch], self.width());
        let out = self.starts[loss.at]..self.starts[loss.at + 1];
        let size = out.len();
        // The rows of the group in the inverse, and its coefficients, by its own factor.
        let mut rows = vec![0.0; size * width];
        let mut own = vec![0.0; size];
        for i in 0..size {
            let factor = &loss.factor[i * size..];
            for j in 0..width {
                let known: f64 = (0..i).map(|k| factor[k] * rows[k * width + j]).sum();
                rows[i * width + j] =
                    (self.inverse[(out.start + i) * width + j] - known) / factor[i];
            }
            let known: f64 = (0..i).map(|k| factor[k] * own[k]).sum();
            own[i] = (self.coef[out.start + i] - known) / factor[i];
        }
        let places = (0..self.kept)
            .chain(losses[..branch].iter().map(|other| other.at))
            .chain(losses[branch + 1..].iter().map(|other| other.at));
        let places: Vec<usize> = places.collect();
        let columns: Vec<usize> =
            places.iter().flat_map(|&at| self.starts[at]..self.starts[at + 1]).collect();
        let left = |i: usize, j: usize| {
            let taken: f64 = (0..size).map(|k| rows[k * width + i] * rows[k * width + j]).sum();
            self.inverse[i * width + j] - taken
        };
        let coef_left = |j: usize| {
            let taken: f64 = (0..size).map(|k| rows[k * width + j] * own[k]).sum();
            self.coef[j] - taken
        };
        let mut starts = vec![0];
        for &at in &places {
            starts.push(starts[starts.len() - 1] + self.starts[at + 1] - self.starts[at]);
        }
        Set {
            groups: places.iter().map(|&at| self.groups[at]).collect(),
            starts,
            inverse: columns
                .iter()
                .flat_map(|&i| columns.iter().map(move |&j| (i, j)))
                .map(|(i, j)| left(i, j))
                .collect(),
            coef: columns.iter().map(|&j| coef_left(j)).collect(),
            explained: self.explained - loss.explained,
            kept: self.kept + branch,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_set_of_independent_columns_is_a_knapsack() {
        // Gains 9, 4, 4, 1 at costs 5, 2, 3, 1: within 5 the second and third.
        let gains = [9.0_f64, 4.0, 4.5, 1.0];
        let set = Set {
            groups: vec![0, 1, 2, 3],
            starts: vec![0, 1, 2, 3, 4],
            inverse: (0..16).map(|at| f64::from(u8::from(at % 5 == 0))).collect(),
            coef: gains.iter().map(|gain| gain.sqrt()).collect(),
            explained: gains.iter().sum(),
            kept: 0,
        };
        let (costs, order) = ([5.5, 2.0, 3.0, 1.0], [0, 1, 2, 3]);
        let mut leaps = Leaps::new(Prices::of(&costs), &order, 5.0, 0.0, Duration::from_secs(9));
        assert!(leaps.search(&set));
        let mut best = leaps.best.unwrap();
        best.sort_unstable();
        assert_eq!(best, [1, 2]);
        assert!((leaps.value - 8.5).abs() < 1e-12);
        let mut late = Leaps::new(Prices::of(&costs), &order, 5.0, 0.0, Duration::ZERO);
        late.nodes = NODES_A_LOOK - 1;
        assert!(!late.search(&set));
    }
}

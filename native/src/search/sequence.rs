//! The result of a search: an order of groups and a linear model of each prefix.
//!
//! It lies in one stretch of memory that serves the next search.

use super::steps::{Action, Step, Stop};
use crate::linear::groups::Groups;
use crate::linear::problem::Linear;
use crate::linear::state::{State, Trace};
use crate::record::prefix::fits;

/// Groups in the order in which they buy prediction, with a model for each prefix.
///
/// Step 0 is the model without columns.
#[derive(Clone, Debug, Default)]
pub struct Sequence {
    /// The steps 1, 2, ...
    pub steps: Vec<Step>,
    /// Summed cost of the groups held, from step 0 on.
    pub spent: Vec<f64>,
    /// What each step paid or gave back.
    pub paid: Vec<f64>,
    /// 1 - RSS/TSS of each model on the rows of the record.
    pub r2: Vec<f64>,
    /// Constant term of each model.
    pub intercept: Vec<f64>,
    /// Columns of the models, one model after the other: their numbers in the groups.
    pub columns: Vec<usize>,
    /// Their coefficients, in the table's units.
    pub coefficients: Vec<f64>,
    /// Where the columns of each model end.
    pub ends: Vec<usize>,
    /// The most coefficients that one of the models has other than 0.
    pub used: usize,
    /// Columns that depend linearly on columns before them.
    pub aliased: Vec<usize>,
    /// That of which the trace that is its own may explain much.
    pub trace: Option<Trace>,
    /// Why the search ended.
    pub stop: Stop,
    /// Condition number of the selected columns' correlations.
    pub condition: f64,
    /// That of all columns, with which an elimination begins; 1 of other searches.
    pub begun: f64,
}

impl Sequence {
    /// Forget the last search, and begin with the model without columns.
    pub fn begin(&mut self, problem: &Linear) {
        self.steps.clear();
        self.paid.clear();
        self.columns.clear();
        self.coefficients.clear();
        for values in [&mut self.spent, &mut self.r2] {
            values.clear();
            values.push(0.0);
        }
        self.intercept.clear();
        self.intercept.push(problem.target_mean);
        self.ends.clear();
        self.ends.push(0);
        self.aliased.clear();
        self.used = 0;
        self.begun = 1.0;
    }

    /// Append the model of some groups that a state holds, which explains a share.
    ///
    /// `coef` has w on unit-variance columns, one for each row of U. With it, RSS/TSS =
    /// 1 - z'z - w' diag(ridge) w.
    pub fn push_model(
        &mut self,
        state: &State,
        groups: impl IntoIterator<Item = usize>,
        coef: &[f64],
        explained: f64,
    ) {
        let problem = state.problem;
        let (mut intercept, mut penalty) = (problem.target_mean, 0.0);
        let mut used = 0;
        let before = self.columns.len();
        for group in groups {
            for column in state.columns(group) {
                if self.has_same(problem, column, before) {
                    continue;
                }
                let w = state.place(column).map_or(0.0, |row| coef[row]);
                let own = w * (problem.target_spread / problem.spread[column]);
                intercept -= own * problem.mean[column];
                penalty += w * w * problem.ridge[column];
                used += usize::from(own != 0.0);
                self.columns.push(column);
                self.coefficients.push(own);
            }
        }
        self.r2.push(explained + penalty);
        self.intercept.push(intercept);
        self.ends.push(self.columns.len());
        self.used = self.used.max(used);
    }

    /// Whether the model that begins at `before` has a column already, by another of its groups.
    fn has_same(&self, problem: &Linear, column: usize, before: usize) -> bool {
        let Some(first) = problem.same.get(column) else {
            return false;
        };
        self.columns[before..].iter().any(|&j| problem.same[j] == *first)
    }

    /// Whether a model has a coefficient a row, so that it fits any target exactly.
    pub fn is_saturated(&self, rows: i64, ridge: f64, intercept: bool) -> bool {
        ridge == 0.0 && i64::from(intercept) + self.used as i64 >= rows
    }

    /// Take away the rounding by which shares of a variance exceed 1.
    pub fn limit_shares(&mut self) {
        self.steps.iter_mut().for_each(|step| step.explained = step.explained.min(1.0));
        self.r2.iter_mut().for_each(|share| *share = share.min(1.0));
    }

    /// Fill in what groups cost, once all steps are there.
    pub fn price(&mut self, groups: &Groups) {
        let (costs, prices) = (&groups.costs, groups.prices());
        let are_added = prices.are_sums() && self.only_adds();
        let mut held = vec![false; if are_added { 0 } else { costs.len() }];
        let mut spent = 0.0;
        for step in &self.steps {
            self.paid.push(costs[step.group]);
            if are_added {
                spent += costs[step.group];
            } else {
                // Differences of sums would leave rounding where nothing is held.
                held[step.group] = step.action == Action::Add;
                spent = prices.spent((0..held.len()).filter(|&group| held[group]));
                if let Some(paid) = self.paid.last_mut().filter(|_| !prices.are_sums()) {
                    let others =
                        (0..held.len()).filter(|&other| held[other] && other != step.group);
                    *paid = prices.own(step.group, others);
                }
            }
            self.spent.push(spent);
        }
    }

    /// The step whose model serves a budget: the longest prefix within it. Where everything was
    /// given back in the end, it is the first within it after all groups were held.
    pub fn serving(&self, budget: f64) -> usize {
        let is_within = |step: &usize| fits(self.spent[*step], Some(budget));
        let most = self.spent.iter().copied().fold(0.0, f64::max);
        let steps = 0..self.spent.len();
        let found = match self.spent.last() {
            Some(last) if *last > 0.0 => steps.rev().find(is_within),
            _ => steps.skip_while(|&step| self.spent[step] < most).find(is_within),
        };
        found.unwrap_or_default()
    }

    fn only_adds(&self) -> bool {
        self.steps.iter().all(|step| step.action == Action::Add)
    }
}

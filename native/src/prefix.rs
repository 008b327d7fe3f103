//! Prediction that can be interrupted: the longest prefix a row can pay for.
//!
//! A prefix of a sequence serves a row if it lies within the budget and all
//! columns of its model are there. The search runs from the longest prefix
//! down, so a complete row within budget costs one look at each column. Where all
//! groups were given back in the end, it runs from the prefix with all of them on.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::chunk::Missing;

/// One prefix of a sequence, as stored: its model and its price.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Number of the step, 0 for the model without features.
    pub step: i64,
    /// The group this step took; absent at step 0.
    pub group: Option<String>,
    /// Total cost of the groups held.
    pub spent: f64,
    /// Constant term.
    pub intercept: f64,
    /// Every column of the groups held, aliased ones with 0.
    pub coefficients: Vec<(String, f64)>,
}

/// A sequence matched to the columns of a table.
pub struct Plan {
    steps: Vec<Step>,
    /// Column numbers and coefficients of each step; absent if the table lacks
    /// a column.
    terms: Vec<Option<Vec<(usize, f64)>>>,
    /// Numbers of the steps, the best to serve a row first.
    order: Vec<usize>,
}

/// What a row gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction<'p> {
    /// Predicted target.
    pub value: f64,
    /// Step whose model was used.
    pub step: i64,
    /// Cost of the groups of that model.
    pub spent: f64,
    /// Group to compute next; absent at the end of the sequence.
    pub next_group: Option<&'p str>,
}

impl Plan {
    /// Match a sequence to the columns of a table.
    pub fn new(steps: Vec<Step>, columns: &[String]) -> Plan {
        let numbers: HashMap<&str, usize> =
            columns.iter().enumerate().map(|(j, name)| (name.as_str(), j)).collect();
        let terms = |step: &Step| {
            let number = |(name, coefficient): &(String, f64)| {
                numbers.get(name.as_str()).map(|&column| (column, *coefficient))
            };
            step.coefficients.iter().map(number).collect()
        };
        Plan { terms: steps.iter().map(terms).collect(), order: order(&steps), steps }
    }

    /// Predict row `row` of some columns of doubles, each with a map of the
    /// missing ones; nothing if no prefix serves it. An infinite budget is none.
    pub fn predict(
        &self,
        columns: &[(Cow<[f64]>, Missing)],
        row: usize,
        budget: f64,
    ) -> Option<Prediction<'_>> {
        let serves = |k: &usize| {
            let present = |&(j, _): &(usize, f64)| !columns[j].1.contains(row);
            fits(self.steps[*k].spent, budget)
                && self.terms[*k].as_ref().is_some_and(|terms| terms.iter().all(present))
        };
        let k = self.order.iter().copied().find(serves)?;
        let step = &self.steps[k];
        let terms = self.terms[k].as_deref().unwrap_or_default();
        let sum: f64 = terms.iter().map(|&(j, coefficient)| coefficient * columns[j].0[row]).sum();
        Some(Prediction {
            value: step.intercept + sum,
            step: step.step,
            spent: step.spent,
            next_group: self.next_group(k),
        })
    }

    /// The group that was taken next after step `k`, or given back to reach it.
    fn next_group(&self, k: usize) -> Option<&str> {
        let grows = |j: &usize| self.steps[*j].spent > self.steps[*j - 1].spent;
        let next = match (self.order.first(), k > 0 && !grows(&k)) {
            (Some(&first), true) if self.order.len() > 1 && first < self.order[1] => Some(k),
            _ => (k + 1..self.steps.len()).find(grows),
        };
        next.and_then(|j| self.steps[j].group.as_deref())
    }
}

/// `best_within` in `dbselect/steps.py` is the same rule.
fn order(steps: &[Step]) -> Vec<usize> {
    let emptied = steps.len() > 1 && steps.last().is_some_and(|last| last.spent <= 0.0);
    if !emptied {
        return (0..steps.len()).rev().collect();
    }
    let most = steps.iter().fold(0.0, |most: f64, step| most.max(step.spent));
    let start = steps.iter().position(|step| step.spent >= most).unwrap_or(0);
    (start..steps.len()).collect()
}

/// Whether a cost lies within a budget, up to the rounding of a sum of costs.
///
/// `fits` in `dbselect/steps.py` is the same rule.
fn fits(spent: f64, budget: f64) -> bool {
    spent <= budget * (1.0 + 1e-12)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(step: i64, group: &str, spent: f64, intercept: f64, terms: &[(&str, f64)]) -> Step {
        Step {
            step,
            group: (step > 0).then(|| group.to_string()),
            spent,
            intercept,
            coefficients: terms.iter().map(|(name, x)| (name.to_string(), *x)).collect(),
        }
    }

    fn sequence() -> Vec<Step> {
        vec![
            step(0, "", 0.0, 10.0, &[]),
            step(1, "cheap", 1.0, 5.0, &[("a", 2.0)]),
            step(2, "dear", 6.0, 1.0, &[("a", 1.0), ("b", -1.0)]),
        ]
    }

    fn predict(
        names: &[String],
        present: &[bool],
        budget: f64,
    ) -> Option<(f64, i64, Option<String>)> {
        let column = |(&value, &present): (&f64, &bool)| {
            let mut missing = Missing::none();
            if !present {
                missing.set(0, 1);
            }
            (Cow::Owned(vec![value]), missing)
        };
        let columns: Vec<_> = [3.0, 4.0].iter().zip(present).map(column).collect();
        let plan = Plan::new(sequence(), names);
        let found = plan.predict(&columns, 0, budget)?;
        Some((found.value, found.step, found.next_group.map(str::to_string)))
    }

    #[test]
    fn the_longest_prefix_within_budget_and_data_is_used() {
        let both = ["a".to_string(), "b".to_string()];
        let dear = Some("dear".to_string());
        let cheap = Some("cheap".to_string());
        assert_eq!(predict(&both, &[true, true], f64::INFINITY), Some((0.0, 2, None)));
        assert_eq!(predict(&both, &[true, true], 5.9), Some((11.0, 1, dear.clone())));
        assert_eq!(predict(&both, &[true, false], 100.0), Some((11.0, 1, dear.clone())));
        assert_eq!(predict(&both, &[false, true], 100.0), Some((10.0, 0, cheap)));
        assert_eq!(predict(&both[..1], &[true], 100.0), Some((11.0, 1, dear)));
        assert_eq!(predict(&both, &[true, true], -1.0), None);
    }

    #[test]
    fn a_whole_elimination_serves_from_its_fullest_prefix_on() {
        let mut steps = sequence();
        steps.push(step(3, "dear", 1.0, 5.0, &[("a", 2.0)]));
        steps.push(step(4, "cheap", 0.0, 10.0, &[]));
        let names = ["a".to_string(), "b".to_string()];
        let plan = Plan::new(steps, &names);
        let columns = [3.0, 4.0].map(|x| (Cow::Owned(vec![x]), Missing::none()));
        let at = |budget: f64| {
            let found = plan.predict(&columns, 0, budget).unwrap();
            (found.step, found.next_group)
        };
        assert_eq!(at(9.0), (2, None));
        assert_eq!(at(5.0), (3, Some("dear")));
        assert_eq!(at(0.5), (4, Some("cheap")));
    }

    #[test]
    fn a_group_that_is_given_back_is_not_the_next() {
        let mut steps = sequence();
        steps.push(step(3, "cheap", 5.0, 0.0, &[("b", 1.0)]));
        steps.push(step(4, "other", 7.0, 0.0, &[("b", 1.0), ("c", 1.0)]));
        let names = ["a".to_string(), "b".to_string()];
        let plan = Plan::new(steps, &names);
        let columns = [3.0, 4.0].map(|x| (Cow::Owned(vec![x]), Missing::none()));
        let found = plan.predict(&columns, 0, 6.0).unwrap();
        assert_eq!((found.step, found.next_group), (3, Some("other")));
    }

    #[test]
    fn costs_that_sum_to_the_budget_fit() {
        assert!(fits(0.1 + 0.2, 0.3));
        assert!(!fits(0.3001, 0.3));
    }
}

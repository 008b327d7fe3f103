//! Prediction that can be interrupted: the longest prefix a row can pay for.
//!
//! A prefix of a sequence serves a row if it lies within the budget and all
//! columns of its model are there. The search runs from the longest prefix
//! down, so a complete row within budget costs one look at each column. Where all
//! groups were given back in the end, it runs from the prefix with all of them on.

use std::collections::HashMap;
use std::sync::Arc;

use crate::kernel::chunk::Missing;
use crate::record::inputs::{Column, Inputs, MissingColumns, Model, Rows, Unknown};
use crate::record::terms::Terms;
use crate::words::nearest;

/// Slack for sums of costs, so that three costs of 0.1 fit a budget of 0.3.
pub const BUDGET_SLACK: f64 = 1e-12;

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

/// The step that a prediction reports.
struct Head {
    step: i64,
    group: Option<String>,
    spent: f64,
}

/// A sequence matched to the columns of a table.
pub struct Plan {
    /// For each step its number, group and price.
    steps: Vec<Head>,
    inputs: Inputs,
    /// The model of each step, or the fields that the table lacks for it.
    models: Vec<Result<Model, Vec<String>>>,
    /// Numbers of the steps, the best to serve a row first.
    order: Vec<usize>,
    /// The lowest price of a step for which the table lacks a field.
    lacking_from: Option<f64>,
    unknown: Unknown,
}

/// How a host names columns.
#[derive(Clone, Copy, PartialEq)]
pub enum Case {
    /// Names differ by case.
    Sensitive,
    /// They do not, as in SQL; a name that is equal comes first.
    Insensitive,
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
    pub fn new(
        steps: &[Step],
        terms: Arc<Terms>,
        columns: &[Column],
        case: Case,
        unknown: Unknown,
    ) -> Result<Plan, String> {
        let names = steps.iter().flat_map(|step| &step.coefficients).map(|(name, _)| &name[..]);
        let inputs = Inputs::new(names, terms, columns, placing(columns, case))?;
        if unknown == Unknown::Mean {
            inputs.check_shares()?;
        }
        let model = |step: &Step| inputs.model(step.intercept, &step.coefficients);
        let models: Vec<_> = steps.iter().map(model).collect();
        let head = |one: &Step| Head { step: one.step, group: one.group.clone(), spent: one.spent };
        let order = order(steps);
        let lacking = order.iter().filter(|&&k| models[k].is_err()).map(|&k| steps[k].spent);
        let lacking_from = lacking.reduce(f64::min);
        let steps = steps.iter().map(head).collect();
        Ok(Plan { models, inputs, order, lacking_from, steps, unknown })
    }

    /// The column and the unit of each coefficient of a plan of one model, whose prediction is the
    /// sum of their products; nothing where it is more than that.
    pub fn factors(&self) -> Option<Vec<(usize, f64)>> {
        match &self.models[..] {
            [Ok(model)] => self.inputs.factors(model),
            _ => None,
        }
    }

    /// Refuse a budget that can buy a prefix for which the table lacks a field.
    fn check_columns(&self, columns: &[Column], budget: f64) -> Result<(), String> {
        if !self.lacking_from.is_some_and(|spent| fits(spent, Some(budget))) {
            return Ok(());
        }
        let can = |k: &usize| fits(self.steps[*k].spent, Some(budget)) && self.order.contains(k);
        let within = (0..self.steps.len()).filter(can);
        let lacking = within.filter_map(|k| self.models[k].as_ref().err());
        refused_columns(lacking, &self.inputs.unread(columns))
    }

    /// The number of the step that serves each row, and what it predicts; nothing where none does.
    pub fn steps(
        &self,
        columns: &[Column],
        limits: &[f64],
    ) -> Result<Vec<Option<(i64, f64)>>, String> {
        let found = self.serving(columns, &Rows::All(limits.len()), limits)?;
        let step = |(k, value): (usize, f64)| (self.steps[k].step, value);
        Ok(found.into_iter().map(|one| one.map(step)).collect())
    }

    /// Predict some rows, each by the prefix that serves it, if any; `limits` has their budgets.
    pub fn predict_rows(
        &self,
        columns: &[Column],
        rows: &Rows,
        limits: &[f64],
        missing_columns: MissingColumns,
    ) -> Result<Vec<Option<Prediction<'_>>>, String> {
        if missing_columns == MissingColumns::Error {
            self.check_columns(columns, limits.iter().fold(0.0, |most, one| one.max(most)))?;
        }
        let found = self.serving(columns, rows, limits)?.into_iter();
        Ok(found.map(|one| one.map(|(k, value)| self.prediction(k, value))).collect())
    }

    /// Which prefix serves each of some rows, and what it predicts.
    fn serving(
        &self,
        columns: &[Column],
        rows: &Rows,
        limits: &[f64],
    ) -> Result<Vec<Option<(usize, f64)>>, String> {
        let there = self.order.iter().filter_map(|&k| Some((k, self.models[k].as_ref().ok()?)));
        let may = |k: usize| move |at: usize| fits(self.steps[k].spent, Some(limits[at]));
        let (numbers, models): (Vec<_>, Vec<_>) =
            there.map(|(k, model)| (k, (model, may(k)))).unzip();
        let found = self.inputs.first_there(&models, columns, rows, self.unknown)?;
        // Of the models that serve a row.
        let (mut used, mut kind_of) = (Vec::new(), vec![None; models.len()]);
        let (mut own, mut kinds) = (Vec::with_capacity(found.len()), Vec::new());
        for (at, number) in found.iter().enumerate() {
            let Some(number) = *number else { continue };
            own.push(rows.at(at));
            kinds.push(*kind_of[number].get_or_insert_with(|| {
                used.push(models[number].0);
                used.len() as u32 - 1
            }));
        }
        let which = match rows {
            Rows::All(count) if own.len() == *count => Rows::All(*count),
            _ => Rows::These(&own),
        };
        let values = self.inputs.values_there(&used, &kinds, columns, &which, self.unknown)?;
        let mut values = values.into_iter();
        let mut with_value = |number: usize| Some((numbers[number], values.next()?));
        Ok(found.into_iter().map(|number| with_value(number?)).collect())
    }

    fn prediction(&self, k: usize, value: f64) -> Prediction<'_> {
        let step = &self.steps[k];
        Prediction { value, step: step.step, spent: step.spent, next_group: self.next_group(k) }
    }

    /// Predict row `row` of the columns; nothing if no prefix serves it. An infinite budget
    /// is none.
    pub fn predict(
        &self,
        columns: &[Column],
        row: usize,
        budget: f64,
        missing_columns: MissingColumns,
    ) -> Result<Option<Prediction<'_>>, String> {
        if missing_columns == MissingColumns::Error {
            self.check_columns(columns, budget)?;
        }
        for &k in self.order.iter().filter(|&&k| fits(self.steps[k].spent, Some(budget))) {
            let Ok(model) = &self.models[k] else { continue };
            let Some(value) = self.inputs.value(model, columns, row, self.unknown)? else {
                continue;
            };
            return Ok(Some(self.prediction(k, value)));
        }
        Ok(None)
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

/// Where a column stands that is named.
pub fn placing(columns: &[Column], case: Case) -> impl Fn(&str) -> Option<usize> {
    let named = move |name: &str| match case {
        Case::Sensitive => name.to_string(),
        Case::Insensitive => name.to_ascii_lowercase(),
    };
    let each = || columns.iter().enumerate();
    let places: HashMap<&str, usize> = each().map(|(at, one)| (&one.name[..], at)).collect();
    let others: HashMap<String, usize> =
        each().rev().map(|(at, one)| (named(&one.name), at)).collect();
    move |name| places.get(name).or_else(|| others.get(&named(name))).copied()
}

/// Refuse columns that lack fields, if there are such; `others` are those of the rows that nothing
/// reads, which may be misspelt.
pub fn refused_columns<'f>(
    fields: impl Iterator<Item = &'f Vec<String>>,
    others: &[String],
) -> Result<(), String> {
    let mut lacking: Vec<&str> = Vec::new();
    for name in fields.flatten() {
        if !lacking.contains(&&name[..]) {
            lacking.push(name);
        }
    }
    if lacking.is_empty() {
        return Ok(());
    }
    let advice = "missing_columns='unavailable' allows this";
    Err(format!("{}; {advice}", nearest::lacking(&lacking, others)))
}

/// The step whose model serves rows that are complete within a budget.
pub fn best_step(steps: &[Step], budget: f64) -> Option<&Step> {
    order(steps).into_iter().map(|k| &steps[k]).find(|step| fits(step.spent, Some(budget)))
}

/// `serving_order` in `dbselect/record/steps.py` is the same rule.
fn order(steps: &[Step]) -> Vec<usize> {
    let emptied = steps.len() > 1 && steps.last().is_some_and(|last| last.spent <= 0.0);
    if !emptied {
        return (0..steps.len()).rev().collect();
    }
    let most = steps.iter().fold(0.0, |most: f64, step| most.max(step.spent));
    let start = steps.iter().position(|step| step.spent >= most).unwrap_or(0);
    (start..steps.len()).collect()
}

/// The budgets of some rows; those that are missing are no limit.
///
/// `check_budget` in `dbselect/record/checks.py` is the same rule.
pub fn limits(budgets: &[f64], unlimited: &Missing) -> Result<Vec<f64>, String> {
    let limit = |(row, &budget): (usize, &f64)| match unlimited.contains(row) {
        true => Ok(f64::INFINITY),
        false if budget >= 0.0 => Ok(budget),
        false => Err(format!("budget is {budget}; it must be a number >= 0, or NULL for no limit")),
    };
    budgets.iter().enumerate().map(limit).collect()
}

/// Whether a cost lies within a budget, up to the rounding of a sum of costs.
///
/// `fits` in `dbselect/record/steps.py` is the same rule.
pub fn fits(spent: f64, budget: Option<f64>) -> bool {
    budget.is_none_or(|budget| spent <= budget * (1.0 + BUDGET_SLACK))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;

    use crate::record::inputs::Kind;
    use crate::record::terms;
    use crate::record::texts::{Texts, Values};

    fn number(name: &str, value: Option<f64>) -> Column<'static> {
        let numbers = move || {
            let mut missing = Missing::none();
            if value.is_none() {
                missing.set(0, 1);
            }
            (Cow::Owned(vec![value.unwrap_or_default()]), missing)
        };
        let texts = || Texts { values: Values::Each(Vec::new()), missing: Missing::none() };
        let kind = (Kind::Number, "DOUBLE".to_string());
        Column::new(name.to_string(), kind, numbers, Vec::new, texts)
    }

    fn plan(steps: Vec<Step>, columns: &[Column]) -> Plan {
        Plan::new(&steps, terms::none(), columns, Case::Sensitive, Unknown::default()).unwrap()
    }

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
        let values = [3.0, 4.0].iter().zip(present).zip(names);
        let columns: Vec<_> = values
            .map(|((&value, &present), name)| number(name, present.then_some(value)))
            .collect();
        let plan = plan(sequence(), &columns);
        let found = plan.predict(&columns, 0, budget, MissingColumns::Unavailable).unwrap()?;
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
        let columns = [("a", 3.0), ("b", 4.0)].map(|(name, x)| number(name, Some(x)));
        let plan = plan(steps, &columns);
        let at = |budget: f64| {
            let found = plan.predict(&columns, 0, budget, MissingColumns::Error).unwrap().unwrap();
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
        let columns = [("a", 3.0), ("b", 4.0)].map(|(name, x)| number(name, Some(x)));
        let plan = plan(steps, &columns);
        let found = plan.predict(&columns, 0, 6.0, MissingColumns::Unavailable).unwrap().unwrap();
        assert_eq!((found.step, found.next_group), (3, Some("other")));
    }

    #[test]
    fn a_column_that_the_budget_can_buy_must_be_there() {
        let columns = [number("a", None)];
        let plan = plan(sequence(), &columns);
        let at = |budget| plan.predict(&columns, 0, budget, MissingColumns::Error);
        let message = "the rows lack column 'b', which the prediction reads; \
            missing_columns='unavailable' allows this";
        assert_eq!(at(6.0).unwrap_err(), message);
        // Beyond the budget it may be absent, and a NULL is no absent column.
        assert_eq!(at(5.0).unwrap().unwrap().step, 0);
    }

    fn text(value: Option<&'static str>) -> Column<'static> {
        let numbers = || (Cow::Owned(vec![0.0]), Missing::none());
        let texts = move || {
            let mut missing = Missing::none();
            if value.is_none() {
                missing.set(0, 1);
            }
            Texts { values: Values::Each(vec![value.unwrap_or_default().as_bytes()]), missing }
        };
        let kind = (Kind::Text, "VARCHAR".to_string());
        Column::new("k".to_string(), kind, numbers, Vec::new, texts)
    }

    #[test]
    fn a_level_that_the_fit_has_not_seen_may_count_as_the_mean_effect() {
        let terms = |shares: &str| {
            let category = r#"{"column":"k","levels":["a","b"],"rest":false"#;
            terms::read(Some(&format!(r#"{{"categories":[{category}{shares}}}],"bases":[]}}"#)))
        };
        let steps = [
            step(0, "", 0.0, 10.0, &[]),
            step(1, "k", 1.0, 4.0, &[("k.a", 8.0), ("k.b", 16.0), ("k.missing", -8.0)]),
        ];
        let value = |level, unknown| {
            let columns = [text(level)];
            let terms = terms(r#","shares":[0.5,0.25,0.25]"#).unwrap();
            let plan = Plan::new(&steps, terms, &columns, Case::Sensitive, unknown).unwrap();
            plan.predict(&columns, 0, 9.0, MissingColumns::Error).unwrap().unwrap().value
        };
        assert_eq!(value(Some("b"), Unknown::Mean), 20.0);
        assert_eq!(value(None, Unknown::Mean), -4.0);
        assert_eq!(value(Some("new"), Unknown::Mean), 4.0 + 4.0 + 4.0 - 2.0);
        assert_eq!(value(Some("new"), Unknown::Unavailable), 10.0);
        let columns = [text(None)];
        let without =
            Plan::new(&steps, terms("").unwrap(), &columns, Case::Sensitive, Unknown::Mean);
        assert!(without.err().unwrap().contains("needs the share of each level of 'k'"));
    }

    #[test]
    fn costs_that_sum_to_the_budget_fit() {
        assert!(fits(0.1 + 0.2, Some(0.3)) && fits(1e300, None));
        assert!(!fits(0.3001, Some(0.3)));
    }
}

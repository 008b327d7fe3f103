//! `near_best`: every set of groups within a budget that explains nearly as much as the best.

use std::borrow::Cow;
use std::time::Duration;

use super::best_within::{BestWithinOptions, LEAPS_SECONDS, LEAPS_SHARE, certain, start, timed};
use crate::linear::state::{Buffers, State};
use crate::methods::answer::{Cell, Found};
use crate::methods::options::refused;
use crate::methods::question::{Choice, Setting};
use crate::methods::setup::Limited;
use crate::search::sets::branch_and_bound::{Task, branch_and_bound, with};
use crate::search::sets::exchange::GoesOn;
use crate::search::sets::groupwise::Groupwise;
use crate::search::sets::near::{Near, RankedSet};
use crate::words::error::Error;
use crate::words::value::Value;

/// The options of `near_best`.
#[derive(Clone, Debug)]
pub struct NearBestOptions {
    /// Limit on the summed cost, and on the time.
    pub within_budget: BestWithinOptions,
    /// Sets explain less than the best by at most this share of it.
    pub within: f64,
    /// Sets returned.
    pub limit: i64,
    /// Names and globs of columns whose correlation with each prediction is returned.
    pub watch: Vec<String>,
}

impl NearBestOptions {
    /// Options by the names that users give, beside the budget.
    pub const NAMES: &[&str] = &["within", "limit", "watch", "time_limit"];
    /// The share unless one is given.
    pub const WITHIN: f64 = 0.01;
    /// The sets unless a number is given.
    pub const LIMIT: i64 = 1000;
}

impl Limited for NearBestOptions {
    fn check(&self) -> Result<(), Error> {
        if !(0.0..=1.0).contains(&self.within) {
            return Err(refused("within", &Value::Number(self.within)));
        }
        if self.limit < 1 {
            return Err(refused("limit", &Value::Whole(self.limit)));
        }
        self.within_budget.check()
    }

    fn limits(&self) -> (Option<f64>, Option<i64>) {
        self.within_budget.limits()
    }

    fn watch(&self) -> Option<&[String]> {
        (!self.watch.is_empty()).then_some(&self.watch[..])
    }
}

impl Choice for NearBestOptions {
    /// Beside the answer: the questions asked, and whether doubles tell what every set explains.
    fn choose<'a>(
        &self,
        asked: &Setting<'a>,
        memory: Buffers,
        goes_on: &mut GoesOn,
    ) -> Result<(Found<'a>, Vec<f64>), String> {
        let plan = asked.plan;
        let BestWithinOptions { budget, time_limit } = self.within_budget;
        let mut goes_on = timed(time_limit, goes_on);
        let empty = State::new(asked.problem, &plan.groups.starts, memory);
        let is_sure = certain(&empty, plan, budget)?;
        let problem = Groupwise::new(asked.problem, &plan.groups.starts, plan.groups.prices());
        let leaps = Duration::from_secs_f64((LEAPS_SHARE * time_limit).min(LEAPS_SECONDS));
        let always = &plan.first[..];
        let task = Task { empty: &empty, problem: &problem, budget, always, leaps };
        let begin = start(&empty, plan, budget, &mut goes_on);
        let best = branch_and_bound(&task, &begin, &mut goes_on);
        let most = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let near = Near { problems: std::slice::from_ref(&problem), budget, always, most };
        let value = with(&empty, &best.groups).explained();
        let mut found = near.all(value * (1.0 - self.within), &mut goes_on);
        if !best.is_proven {
            found.is_complete = false;
            found.bound = found.bound.max(best.bound);
        }
        if !is_sure {
            (found.is_complete, found.bound) = (false, 1.0);
        }
        let is_complete = found.is_complete && found.cut == 0;
        let row = |set: &RankedSet| {
            let mut state = with(&empty, &set.groups);
            let (r2, correlations) = described(asked, &mut state);
            let entry =
                |((name, _), value): (&'a (String, usize), f64)| (Cow::from(&name[..]), value);
            let names = set.groups.iter().map(|&group| Cell::text(&plan.groups.names[group]));
            Cell::List(vec![
                Cell::List(names.collect()),
                Cell::Number(set.spent + 0.0), // An empty sum is -0.
                Cell::Number(set.explained.min(1.0) + 0.0),
                Cell::Number(r2 + 0.0),
                Cell::Map(plan.watched.iter().zip(correlations).map(entry).collect()),
                Cell::Truth(is_complete),
                Cell::Whole(found.cut as i64),
                Cell::Number(found.bound),
            ])
        };
        let cell = Cell::List(found.sets.iter().map(row).collect());
        let condition = empty.clone().condition();
        Ok((
            Found { cell, condition, trace: None },
            vec![found.nodes as f64, f64::from(u8::from(is_sure))],
        ))
    }
}

/// 1 - RSS/TSS of the model of a state, and its correlations with the columns that are watched;
/// NaN where there is none.
fn described(asked: &Setting, state: &mut State) -> (f64, Vec<f64>) {
    let (problem, gram) = (asked.problem, &asked.gram);
    let mut coef = Vec::new();
    state.coefficients(&mut coef);
    let penalty = state.support().iter().zip(&coef).map(|(&j, w)| w * w * problem.ridge[j]);
    let penalty: f64 = penalty.sum();
    let spread = (state.explained() - penalty).max(0.0).sqrt();
    let correlation = |(_, other): &(String, usize)| {
        let total = gram.comoment(*other, *other);
        if gram.is_constant(*other) || spread == 0.0 {
            return f64::NAN;
        }
        let scale = (total * gram.weight).sqrt() * spread;
        let of = |(&j, w): (&usize, &f64)| {
            w * gram.comoment(asked.plan.at[j], *other) / (scale * problem.spread[j])
        };
        state.support().iter().zip(&coef).map(of).sum::<f64>().clamp(-1.0, 1.0)
    };
    let r2 = (state.explained() + penalty).min(1.0) + 0.0;
    (r2, asked.plan.watched.iter().map(correlation).collect())
}

//! `exchange`: k groups, of which no one can be exchanged for a better one.

use super::answer::Found;
use super::chosen::Chosen;
use super::question::{Choice, Setting};
use crate::kernel::possible::{INDEFINITE, is_possible};
use crate::linear::groups::Groups;
use crate::linear::state::{Buffers, State};
use crate::methods::options::{check_budget, check_count};
use crate::methods::setup::{Limited, check_first};
use crate::record::prefix::fits;
use crate::search::sets::exchange::{GoesOn, Limits, choose};
use crate::words::error::Error;

/// The options of `exchange`.
#[derive(Clone, Debug)]
pub struct ExchangeOptions {
    /// Number of groups to choose.
    pub k: i64,
    /// Groups to start from; default: those that greedy steps choose.
    pub start: Vec<String>,
    /// Limit on the summed cost.
    pub budget: Option<f64>,
}

impl ExchangeOptions {
    /// Options by the names that users give, beside k.
    pub const NAMES: &[&str] = &["start", "budget"];
}

impl Limited for ExchangeOptions {
    fn check(&self) -> Result<(), Error> {
        check_count("k", Some(self.k))?;
        check_budget(self.budget)
    }

    fn limits(&self) -> (Option<f64>, Option<i64>) {
        (self.budget, None)
    }

    fn start(&self, groups: &Groups, first: &[usize]) -> Result<Vec<usize>, Error> {
        let (k, size) = (self.k, groups.names.len());
        let limit = usize::try_from(k).unwrap_or(usize::MAX);
        if limit > size {
            let allowed = format!("it must be a whole number from 1 to {size}");
            return Err(Error::argument(format!("k is {k}; {allowed}")));
        }
        check_first(groups, first, self.budget, None)?;
        if first.len() > limit {
            let count = first.len();
            return Err(Error::argument(format!("always names {count} groups; k allows {k}")));
        }
        let start = groups.others(&self.start, "start", first)?;
        let count = first.len() + start.len();
        if count > limit {
            return Err(Error::argument(format!(
                "start and always name {count} groups; k allows {k}"
            )));
        }
        let mut all = first.to_vec();
        for &group in &start {
            all.push(group);
            let spent = groups.prices().spent(all.iter().copied());
            if let Some(budget) = self.budget.filter(|_| !fits(spent, self.budget)) {
                return Err(Error::argument(format!(
                    "start has '{}', which the budget {budget} does not buy beside those before it",
                    groups.names[group]
                )));
            }
        }
        Ok(start)
    }
}

impl Choice for ExchangeOptions {
    /// Beside the answer: sets whose value was computed, and what was explained after each change.
    fn choose<'a>(
        &self,
        asked: &Setting<'a>,
        memory: Buffers,
        goes_on: &mut GoesOn,
    ) -> Result<(Found<'a>, Vec<f64>), String> {
        let plan = asked.plan;
        let limits = Limits {
            prices: plan.groups.prices(),
            budget: self.budget,
            most: usize::try_from(self.k).ok(),
            always: &plan.first,
        };
        let mut state = State::new(asked.problem, &plan.groups.starts, memory);
        let start = [&plan.first[..], &plan.start].concat();
        let history = choose(&mut state, &start, &limits, goes_on);
        if state.is_indefinite() || !is_possible(state.explained()) {
            return Err(INDEFINITE.to_string());
        }
        let found = Chosen::of_state(asked, &mut state).found(asked, Vec::new());
        let mut notes = vec![history.queries as f64];
        notes.extend(history.explained);
        Ok((found, notes))
    }
}

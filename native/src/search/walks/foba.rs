//! FoBa: add the best group, and give groups back while that costs little.
//!
//! ```text
//! k = 0
//! repeat:
//!     add the group with the largest criterion(g | S) / cost(g);  delta_k = its gain, ++k
//!     while the least useful group r of S has loss(r | S) <= nu delta_k:
//!         remove r, --k
//! until no group gains epsilon
//! ```
//!
//! What a removal may lose is an `Allowance`: that above is `Share`, and floating search has
//! another.
//!
//! Source: Zhang (2008), FoBa, Figure 3. Departures: groups and costs; a group is a candidate only
//! if it gains epsilon, so that the search ends where none does.

use super::criteria::Criterion;
use super::removal::{Usefulness, held_cost, least_useful, removal};
use super::ties::first_of_the_best;
use crate::kernel::possible::is_possible;
use crate::linear::state::State;
use crate::record::prefix::fits;
use crate::search::steps::{Action, Choice, Interrupted, ROUNDING_GAIN, Record, Step, Stop};

/// What bounds the search, forward and backward.
#[derive(Clone, Copy, Debug)]
pub struct Limits<'l> {
    /// Share of the target's variance that a group must gain.
    pub epsilon: f64,
    /// The summed cost.
    pub budget: Option<f64>,
    /// The search ends as soon as so many are held, and none of them may go.
    pub max_groups: Option<usize>,
    /// Additions and removals together.
    pub max_steps: Option<usize>,
    /// What makes a selected group the least useful one.
    pub usefulness: Usefulness,
    /// Numbers of groups to take first, which stay.
    pub always: &'l [usize],
}

/// What removals may lose, by what was added and removed before.
pub trait Allowance {
    /// Take note of a group that was added.
    fn added(&mut self, state: &State, gain: f64);
    /// Take note of a group that was removed.
    fn removed(&mut self, state: &State);
    /// The most that removing a group may lose; nothing if none may go now.
    fn most(&self, state: &State, group: usize) -> Option<f64>;
}

/// FoBa's: a share of what the last step to the present size gained.
struct Share {
    nu: f64,
    /// By the last step to each size.
    gained: Vec<f64>,
}

impl Allowance for Share {
    fn added(&mut self, _state: &State, gain: f64) {
        self.gained.push(gain);
    }

    fn removed(&mut self, _state: &State) {
        self.gained.pop();
    }

    fn most(&self, _state: &State, _group: usize) -> Option<f64> {
        // What looked like a gain and was rounding stays: given back, it would come again.
        self.gained.last().filter(|last| **last > ROUNDING_GAIN).map(|last| self.nu * last)
    }
}

/// Add groups greedily, and give back those that later ones made dispensable.
pub fn foba(
    state: &mut State,
    costs: &[f64],
    criterion: &mut Criterion,
    limits: Limits,
    nu: f64,
    record: &mut Record,
) -> Stop {
    let mut allowance = Share { nu, gained: Vec::new() };
    let stop = foba_search(state, costs, criterion, limits, &mut allowance, record);
    stop.unwrap_or(Stop::Interrupted)
}

/// Add and remove groups until none gains epsilon.
pub fn foba_search(
    state: &mut State,
    costs: &[f64],
    criterion: &mut Criterion,
    limits: Limits,
    allowance: &mut dyn Allowance,
    record: &mut Record,
) -> Result<Stop, Interrupted> {
    let Limits { epsilon, budget, usefulness, always, .. } = limits;
    let limit = limits.max_steps.unwrap_or(usize::MAX);
    let (mut scores, mut gains, mut losses) = (Vec::new(), Vec::new(), Vec::new());
    let (mut forced, mut steps) = (always.iter(), 0);
    while steps < limit {
        if limits.max_groups.is_some_and(|most| state.held().len() >= most) {
            return Ok(Stop::Steps);
        }
        criterion.scores(state, costs, &mut scores);
        state.gains(&mut gains);
        let spent: f64 = held_cost(state, costs);
        let gains_enough = |group: usize| {
            state.waiting()[group] && gains[group] > ROUNDING_GAIN && gains[group] >= epsilon
        };
        let gaining: Vec<bool> = (0..costs.len()).map(gains_enough).collect();
        let fitting = |(gains, cost): (&bool, &f64)| *gains && fits(spent + cost, budget);
        let candidates: Vec<bool> = gaining.iter().zip(costs).map(fitting).collect();
        let (group, choice) = match forced.next() {
            Some(&group) => (group, Choice::Forced),
            None => match first_of_the_best(&scores, &candidates) {
                Some(group) => (group, Choice::Free),
                None if gaining.contains(&true) => return Ok(Stop::Budget),
                None if state.waiting().contains(&true) => return Ok(Stop::Threshold),
                None => return Ok(Stop::Exhausted),
            },
        };
        let gain = state.add(group);
        allowance.added(state, gain);
        let (score, explained) = (scores[group], state.explained());
        record(Step { action: Action::Add, group, score, gain, explained, choice }, state)?;
        steps += 1;
        if !is_possible(explained) {
            // That all steps gain at most 1 is what ends the search.
            return Ok(Stop::Threshold);
        }
        while state.held().len() > always.len() && steps < limit {
            let Some((group, worth)) = least_useful(state, costs, usefulness, always) else {
                break;
            };
            let Some(most) = allowance.most(state, group) else { break };
            state.losses(&mut losses);
            // What is no number is no small loss either.
            let is_small = losses[group] <= most;
            if !is_small {
                break;
            }
            let step = removal(state, group, worth);
            allowance.removed(state);
            record(step, state)?;
            steps += 1;
        }
    }
    Ok(Stop::Rounds)
}

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
//! A group comes with those that it needs, and goes with those that need it; what they gain or lose
//! together counts. What a removal may lose is an `Allowance`: that above is `Share`, and floating search has
//! another.
//!
//! Source: Zhang (2008), FoBa, Figure 3. Departures: groups and costs; a group is a candidate only
//! if it gains epsilon, so that the search ends where none does.

use super::criteria::Criterion;
use super::moves::{spent, together};
use super::removal::{Usefulness, least_useful, removals};
use super::ties::first_of_the_best;
use crate::kernel::possible::is_possible;
use crate::linear::prices::Prices;
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
    /// The most that removing a group, and those that need it, may lose; nothing if none may go now.
    fn most(&self, state: &State, prices: Prices, group: usize) -> Option<f64>;
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

    fn most(&self, state: &State, prices: Prices, group: usize) -> Option<f64> {
        // What the steps gained that such a removal takes back.
        let count = prices.with_dependents(group, state.waiting()).len();
        let gained: f64 = self.gained.iter().rev().take(count).sum();
        // What looked like a gain and was rounding stays: given back, it would come again.
        (gained > ROUNDING_GAIN).then_some(self.nu * gained)
    }
}

/// Add groups greedily, and give back those that later ones made dispensable.
pub fn foba(
    state: &mut State,
    prices: Prices,
    criterion: &mut Criterion,
    limits: Limits,
    nu: f64,
    record: &mut Record,
) -> Stop {
    let mut allowance = Share { nu, gained: Vec::new() };
    let stop = foba_search(state, prices, criterion, limits, &mut allowance, record);
    stop.unwrap_or(Stop::Interrupted)
}

/// Add and remove groups until none gains epsilon.
pub fn foba_search(
    state: &mut State,
    prices: Prices,
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
        let offers = prices.offers(state.waiting());
        let mut worth = |state: &mut State, all: &mut Vec<f64>| criterion.worth(state, all);
        together(state, prices, Action::Add, &mut worth, &mut scores);
        scores.iter_mut().zip(&*offers.counted).for_each(|(score, cost)| *score /= cost);
        together(state, prices, Action::Add, &mut |state, all| state.gains(all), &mut gains);
        let held = spent(state, prices);
        let gains_enough = |group: usize| {
            state.waiting()[group]
                && offers.is_open(group)
                && gains[group] > ROUNDING_GAIN
                && gains[group] >= epsilon
        };
        let gaining: Vec<bool> = (0..prices.costs.len()).map(gains_enough).collect();
        let room = limits.max_groups.map(|most| most - state.held().len());
        let fitting = |group: usize| {
            let count = || prices.with_needs(group, state.waiting()).len();
            gaining[group]
                && fits(held + offers.costs[group], budget)
                && (prices.are_sums() || room.is_none_or(|room| count() <= room))
        };
        let candidates: Vec<bool> = (0..gaining.len()).map(fitting).collect();
        let (group, choice) = match forced.next() {
            Some(&group) => (group, Choice::Forced),
            None => match first_of_the_best(&scores, &candidates) {
                Some(group) => (group, Choice::Free),
                None if gaining.contains(&true) => return Ok(Stop::Budget),
                None if state.waiting().contains(&true) => return Ok(Stop::Threshold),
                None => return Ok(Stop::Exhausted),
            },
        };
        let mut explained = 0.0;
        for next in prices.with_needs(group, state.waiting()) {
            let gain = state.add(next);
            allowance.added(state, gain);
            explained = state.explained();
            let score = scores[group];
            let step = Step { action: Action::Add, group: next, score, gain, explained, choice };
            record(step, state)?;
            steps += 1;
        }
        if !is_possible(explained) {
            // That all steps gain at most 1 is what ends the search.
            return Ok(Stop::Threshold);
        }
        while state.held().len() > always.len() && steps < limit {
            let Some((group, worth)) = least_useful(state, prices, usefulness, always) else {
                break;
            };
            let Some(most) = allowance.most(state, prices, group) else { break };
            together(
                state,
                prices,
                Action::Remove,
                &mut |state, all| state.losses(all),
                &mut losses,
            );
            // What is no number is no small loss either.
            let is_small = losses[group] <= most;
            if !is_small {
                break;
            }
            let mut written = |step: Step, state: &mut State| {
                allowance.removed(state);
                record(step, state)
            };
            steps += removals(state, prices, group, worth, &mut written)?;
        }
    }
    Ok(Stop::Rounds)
}

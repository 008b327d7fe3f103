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
//! The twin of `dbselect/selection/foba.py`. Source: Zhang (2008), FoBa, Figure 3. Departures:
//! groups and costs; a group is a candidate only if it gains epsilon, so that the search ends
//! where none does.

use super::criteria::Criterion;
use super::options::Usefulness;
use super::removal::{held_cost, least_useful, removal};
use super::steps::{
    Action, Choice, Interrupted, ROUNDING_GAIN, Record, Step, Stop, fits, is_possible,
};
use super::ties::first_of_the_best;
use crate::search::linear::state::State;

/// What bounds the search, forward and backward.
#[derive(Clone, Copy, Debug)]
pub struct Limits<'l> {
    /// Share of the target's variance that a group must gain.
    pub epsilon: f64,
    /// Share of a gain that a removal may lose.
    pub nu: f64,
    /// The summed cost.
    pub budget: Option<f64>,
    /// Additions and removals together.
    pub max_steps: Option<usize>,
    /// What makes a selected group the least useful one.
    pub usefulness: Usefulness,
    /// Numbers of groups to take first, which stay.
    pub always: &'l [usize],
}

/// Add and remove groups until none gains epsilon.
pub fn foba_search(
    state: &mut State,
    costs: &[f64],
    criterion: &mut Criterion,
    limits: Limits,
    record: &mut Record,
) -> Result<Stop, Interrupted> {
    let Limits { epsilon, nu, budget, usefulness, always, .. } = limits;
    let limit = limits.max_steps.unwrap_or(usize::MAX);
    let (mut scores, mut gains, mut losses) = (Vec::new(), Vec::new(), Vec::new());
    // Gained by the last step to each size.
    let mut gained: Vec<f64> = Vec::new();
    let (mut forced, mut steps) = (always.iter(), 0);
    while steps < limit {
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
        gained.push(gain);
        let (score, explained) = (scores[group], state.explained());
        record(Step { action: Action::Add, group, score, gain, explained, choice }, state)?;
        steps += 1;
        if !is_possible(explained) {
            // That all steps gain at most 1 is what ends the search.
            return Ok(Stop::Threshold);
        }
        // What looked like a gain and was rounding stays: given back, it would come again.
        while let Some(&last) = gained.last()
            && gained.len() > always.len()
            && last > ROUNDING_GAIN
            && steps < limit
        {
            let Some((group, worth)) = least_useful(state, costs, usefulness, always) else {
                break;
            };
            state.losses(&mut losses);
            // What is no number is no small loss either.
            let is_small = losses[group] <= nu * last;
            if !is_small {
                break;
            }
            let step = removal(state, group, worth);
            record(step, state)?;
            gained.pop();
            steps += 1;
        }
    }
    Ok(Stop::Rounds)
}

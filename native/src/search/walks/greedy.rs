//! Cost-sensitive greedy sequencing: the best group per unit of cost, again and again.
//!
//! ```text
//! while some group fits:
//!     take the fitting group with the largest criterion(g | S) / cost(g)
//! ```
//!
//! Ties go to the group named first. With a cost limit (rule `doubling`) only groups within
//! the limit at that point are candidates; where none is, the cheapest of the others is taken.
//!
//! Source: Hu, Grubb, Bagnell, Hebert (2016), Algorithm 1 (CS-G-OMP and CS-G-FR) and Algorithm 2
//! (Doubling).

use super::criteria::Criterion;
use super::ties::first_of_the_best;
use crate::linear::state::State;
use crate::record::prefix::fits;
use crate::search::steps::{Action, Choice, Interrupted, Record, Step, Stop};

/// What bounds a greedy search.
#[derive(Clone, Copy, Debug)]
pub struct Limits<'l> {
    /// The summed cost.
    pub budget: Option<f64>,
    /// The number of groups, those to take first included.
    pub max_groups: Option<usize>,
    /// Rule `doubling`: the largest cost of the first group; each later one may at most
    /// double the cost.
    pub first_cost: Option<f64>,
    /// Numbers of groups to take first.
    pub always: &'l [usize],
}

/// Select groups until nothing fits; `state` ends with all of them selected.
///
/// `record` takes one step for each group, in order; `scores` is overwritten.
pub fn greedy_search(
    state: &mut State,
    costs: &[f64],
    criterion: &mut Criterion,
    limits: Limits,
    scores: &mut Vec<f64>,
    record: &mut Record,
) -> Result<Stop, Interrupted> {
    let mut candidates = Vec::with_capacity(costs.len());
    let (mut spent, mut forced) = (0.0, limits.always.iter());
    while state.held().len() < costs.len() {
        if limits.max_groups.is_some_and(|limit| state.held().len() >= limit) {
            return Ok(Stop::Steps);
        }
        let waiting = state.waiting().iter().zip(costs);
        candidates.clear();
        candidates.extend(waiting.map(|(waits, cost)| *waits && fits(spent + cost, limits.budget)));
        if !candidates.contains(&true) {
            return Ok(Stop::Budget);
        }
        criterion.scores(state, costs, scores);
        let (group, choice) = match forced.next() {
            Some(&group) => (group, Choice::Forced),
            None => {
                let limit = limits.first_cost.map(|first| if spent > 0.0 { spent } else { first });
                let choice = narrow(&mut candidates, state.waiting(), costs, limit);
                match first_of_the_best(scores, &candidates) {
                    Some(group) => (group, choice),
                    None => return Ok(Stop::Budget),
                }
            }
        };
        let (score, gain) = (scores[group], state.add(group));
        spent += costs[group];
        let explained = state.explained();
        record(Step { action: Action::Add, group, score, gain, explained, choice }, state)?;
    }
    Ok(Stop::Exhausted)
}

/// Leave the candidates within a cost limit; where none is, the cheapest.
fn narrow(candidates: &mut [bool], waiting: &[bool], costs: &[f64], limit: Option<f64>) -> Choice {
    let keep = |candidates: &mut [bool], keeps: &dyn Fn(f64) -> bool| {
        candidates.iter_mut().zip(costs).for_each(|(is, cost)| *is = *is && keeps(*cost));
    };
    if limit.is_some() {
        let fitting = |(is, cost): (&bool, &f64)| is.then_some(*cost);
        let cheapest =
            candidates.iter().zip(costs).filter_map(fitting).fold(f64::INFINITY, f64::min);
        if !fits(cheapest, limit) {
            keep(candidates, &|cost| cost == cheapest);
            return Choice::Cheapest;
        }
        keep(candidates, &|cost| fits(cost, limit));
    }
    if candidates == waiting { Choice::Free } else { Choice::Limited }
}

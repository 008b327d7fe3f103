//! Cost-sensitive greedy sequencing: the best group per unit of cost, again and again.
//!
//! ```text
//! while some group fits:
//!     take the fitting group with the largest criterion(g | S) / cost(g)
//! ```
//!
//! Ties go to the group named first. A group comes with those that it needs and that are missing:
//! the criterion is that of all of them, in turn, and the cost what they cost together now. With a
//! cost limit (rule `doubling`) only groups within
//! the limit at that point are candidates; where none is, the cheapest of the others is taken.
//!
//! Source: Hu, Grubb, Bagnell, Hebert (2016), Algorithm 1 (CS-G-OMP and CS-G-FR) and Algorithm 2
//! (Doubling).

use super::criteria::Criterion;
use super::moves::together;
use super::ties::first_of_the_best;
use crate::linear::prices::Prices;
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
    prices: Prices,
    criterion: &mut Criterion,
    limits: Limits,
    scores: &mut Vec<f64>,
    record: &mut Record,
) -> Result<Stop, Interrupted> {
    let size = prices.costs.len();
    let mut candidates = Vec::with_capacity(size);
    let mut forced = limits.always.iter();
    let mut spent = 0.0;
    while state.held().len() < size {
        if limits.max_groups.is_some_and(|limit| state.held().len() >= limit) {
            return Ok(Stop::Steps);
        }
        let offers = prices.offers(&state.waiting()[..size]);
        let waiting = &state.waiting()[..size];
        let open: Vec<bool> =
            (0..size).map(|group| waiting[group] && offers.is_open(group)).collect();
        candidates.clear();
        let affordable = open.iter().zip(&*offers.costs);
        candidates
            .extend(affordable.map(|(open, cost)| *open && fits(spent + cost, limits.budget)));
        let fit = candidates.contains(&true);
        if let Some(most) = limits.max_groups.filter(|_| !prices.are_sums()) {
            let room = most - state.held().len();
            let comes = |group: usize| prices.with_needs(group, waiting).len() <= room;
            (0..size).for_each(|group| candidates[group] = candidates[group] && comes(group));
        }
        if !candidates.contains(&true) {
            return Ok(match open.contains(&true) {
                _ if fit => Stop::Steps,
                true => Stop::Budget,
                false => ended(waiting),
            });
        }
        let mut worth = |state: &mut State, all: &mut Vec<f64>| criterion.worth(state, all);
        together(state, prices, Action::Add, &mut worth, scores);
        scores.iter_mut().zip(&*offers.counted).for_each(|(score, cost)| *score /= cost);
        let (group, choice) = match forced.next() {
            Some(&group) => (group, Choice::Forced),
            None => {
                let limit = limits.first_cost.map(|first| if spent > 0.0 { spent } else { first });
                let choice = narrow(&mut candidates, &open, &offers.costs, limit);
                match first_of_the_best(scores, &candidates) {
                    Some(group) => (group, choice),
                    None => return Ok(Stop::Budget),
                }
            }
        };
        spent += offers.costs[group];
        for next in prices.with_needs(group, state.waiting()) {
            let (score, gain) = (scores[group], state.add(next));
            let explained = state.explained();
            let step = Step { action: Action::Add, group: next, score, gain, explained, choice };
            record(step, state)?;
        }
    }
    Ok(Stop::Exhausted)
}

/// Why a search ends that has room in its budget.
pub fn ended(waiting: &[bool]) -> Stop {
    if waiting.contains(&true) { Stop::Excluded } else { Stop::Exhausted }
}

/// Leave the candidates within a cost limit; where none is, the cheapest.
fn narrow(candidates: &mut [bool], open: &[bool], costs: &[f64], limit: Option<f64>) -> Choice {
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
    if candidates == open { Choice::Free } else { Choice::Limited }
}

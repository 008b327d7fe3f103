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

/// A group that costs nothing more is scored by this share of the least cost, so that it comes first.
const FREE: f64 = 1e-9;

/// What groups cost beside those that are taken.
#[derive(Clone, Debug)]
pub struct Prices<'c> {
    costs: &'c [f64],
    shared: Option<Shared>,
}

/// Groups that are made of parts, of which each is bought once.
#[derive(Clone, Debug)]
struct Shared {
    /// What each part costs; 0 once it is bought.
    prices: Vec<f64>,
    /// The parts of each group, one group after the other, and where those of each end.
    parts: Vec<usize>,
    ends: Vec<usize>,
    left: Vec<f64>,
    counted: Vec<f64>,
}

impl<'c> Prices<'c> {
    /// Groups that cost what they cost, whatever is taken.
    pub fn of(costs: &'c [f64]) -> Prices<'c> {
        Prices { costs, shared: None }
    }

    /// Groups of parts, of which some are in several: those of group g up to `ends[g]`.
    pub fn of_parts(
        costs: &'c [f64],
        prices: Vec<f64>,
        parts: Vec<usize>,
        ends: Vec<usize>,
    ) -> Prices<'c> {
        let (left, counted) = (Vec::new(), Vec::new());
        let mut shared = Shared { prices, parts, ends, left, counted };
        shared.add_up(costs);
        Prices { costs, shared: Some(shared) }
    }

    /// What each group costs now: what is bought costs nothing.
    fn left(&self) -> &[f64] {
        self.shared.as_ref().map_or(self.costs, |shared| &shared.left)
    }

    /// The same, with little in the place of nothing.
    fn counted(&self) -> &[f64] {
        self.shared.as_ref().map_or(self.costs, |shared| &shared.counted)
    }

    /// Take a group; what it costs comes back.
    fn take(&mut self, group: usize) -> f64 {
        let cost = self.left()[group];
        if let Some(shared) = &mut self.shared {
            let first = if group == 0 { 0 } else { shared.ends[group - 1] };
            let own = &shared.parts[first..shared.ends[group]];
            own.iter().for_each(|&part| shared.prices[part] = 0.0);
            shared.add_up(self.costs);
        }
        cost
    }
}

impl Shared {
    fn add_up(&mut self, costs: &[f64]) {
        let least = FREE * costs.iter().copied().fold(f64::INFINITY, f64::min);
        let mut parts = self.parts.iter();
        let mut first = 0;
        self.left.clear();
        self.left.extend(self.ends.iter().map(|&end| {
            let own = parts.by_ref().take(end - first);
            first = end;
            own.fold(0.0, |sum, &part| sum + self.prices[part])
        }));
        self.counted.clear();
        self.counted.extend(self.left.iter().map(|cost| cost.max(least)));
    }
}

/// Select groups until nothing fits; `state` ends with all of them selected.
///
/// `record` takes one step for each group, in order; `scores` is overwritten.
pub fn greedy_search(
    state: &mut State,
    mut prices: Prices,
    criterion: &mut Criterion,
    limits: Limits,
    scores: &mut Vec<f64>,
    record: &mut Record,
) -> Result<Stop, Interrupted> {
    let size = prices.costs.len();
    let mut candidates = Vec::with_capacity(size);
    let (mut spent, mut forced) = (0.0, limits.always.iter());
    while state.held().len() < size {
        if limits.max_groups.is_some_and(|limit| state.held().len() >= limit) {
            return Ok(Stop::Steps);
        }
        let costs = prices.left();
        let waiting = state.waiting().iter().zip(costs);
        candidates.clear();
        candidates.extend(waiting.map(|(waits, cost)| *waits && fits(spent + cost, limits.budget)));
        if !candidates.contains(&true) {
            return Ok(Stop::Budget);
        }
        criterion.scores(state, prices.counted(), scores);
        let (group, choice) = match forced.next() {
            Some(&group) => (group, Choice::Forced),
            None => {
                let limit = limits.first_cost.map(|first| if spent > 0.0 { spent } else { first });
                let choice = narrow(&mut candidates, &state.waiting()[..size], costs, limit);
                match first_of_the_best(scores, &candidates) {
                    Some(group) => (group, choice),
                    None => return Ok(Stop::Budget),
                }
            }
        };
        let (score, gain) = (scores[group], state.add(group));
        spent += prices.take(group);
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

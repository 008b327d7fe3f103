//! Floating search: what a removal may lose is what leaves more than was ever had for the cost.
//!
//! ```text
//! add the group with the largest criterion(g | S) / cost(g)
//! while S without its least useful group r explains more than every set seen that cost no more:
//!     remove r
//! ```
//!
//! The loop is that of `foba`. What is explained for a cost rises with every removal, so that the
//! search ends.
//!
//! Source: Pudil, Novovicova, Kittler (1994), Pattern Recognition Letters 15, SFFS. Departures:
//! groups and costs.

use std::collections::HashMap;

use super::criteria::Criterion;
use super::foba::{Allowance, Limits, foba_search};
use super::ties::LEAST_RISE;
use crate::linear::prices::Prices;
use crate::linear::state::State;
use crate::record::prefix::fits;
use crate::search::steps::{Record, Stop};

/// What every set seen so far cost and explained.
struct Beaten<'c> {
    prices: Prices<'c>,
    /// Which groups a set leaves out -> what it costs and explains.
    seen: HashMap<Vec<bool>, (f64, f64)>,
}

impl<'c> Beaten<'c> {
    /// Nothing costs and explains nothing.
    fn new(prices: Prices<'c>) -> Beaten<'c> {
        Beaten { prices, seen: HashMap::from([(vec![true; prices.costs.len()], (0.0, 0.0))]) }
    }

    fn cost(&self, left_out: &[bool]) -> f64 {
        self.prices.spent((0..left_out.len()).filter(|&group| !left_out[group]))
    }

    fn note(&mut self, state: &State) {
        let left_out = state.waiting().to_vec();
        let found = (self.cost(&left_out), state.explained());
        self.seen.insert(left_out, found);
    }
}

impl Allowance for Beaten<'_> {
    fn added(&mut self, state: &State, _gain: f64) {
        self.note(state);
    }

    fn removed(&mut self, state: &State) {
        self.note(state);
    }

    fn most(&self, state: &State, prices: Prices, group: usize) -> Option<f64> {
        let mut left_out = state.waiting().to_vec();
        let going = prices.with_dependents(group, state.waiting());
        going.into_iter().for_each(|group| left_out[group] = true);
        if self.seen.contains_key(&left_out) {
            return None;
        }
        let cost = self.cost(&left_out);
        let cheap = self.seen.values().filter(|(other, _)| fits(*other, Some(cost)));
        let best = cheap.map(|(_, explained)| *explained).fold(0.0, f64::max);
        Some(state.explained() - best - LEAST_RISE)
    }
}

/// Add groups greedily, and go back to fewer where these explain more than ever for the cost.
pub fn floating(
    state: &mut State,
    prices: Prices,
    criterion: &mut Criterion,
    limits: Limits,
    record: &mut Record,
) -> Stop {
    let mut allowance = Beaten::new(prices);
    let stop = foba_search(state, prices, criterion, limits, &mut allowance, record);
    stop.unwrap_or(Stop::Interrupted)
}

//! Which selected group is the least useful, per unit of cost.

use super::moves::together;
use super::ties::first_of_the_best;
use crate::linear::prices::Prices;
use crate::linear::state::State;
use crate::search::steps::{Action, Choice, Interrupted, Record, Step};

/// Losses below this share of the target's variance are rounding, so that they tie.
const ROUNDING_LOSS: f64 = 1e-14;

/// What makes a selected group the least useful one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Usefulness {
    /// The exact loss per cost.
    #[default]
    Loss,
    /// The length of its coefficients on unit-variance columns.
    Coefficient,
}

/// The selected group that is worth least, with those that need it, per what they give back, and
/// what it is worth; nothing if all are in `kept`.
///
/// Of groups that are worth nothing it is the dearest: a copy may stand in for it.
pub fn least_useful(
    state: &mut State,
    prices: Prices,
    usefulness: Usefulness,
    kept: &[usize],
) -> Option<(usize, f64)> {
    let mut worth = Vec::new();
    let by: fn(&mut State, &mut Vec<f64>) = match usefulness {
        Usefulness::Loss => by_loss,
        Usefulness::Coefficient => by_coefficient,
    };
    together(state, prices, Action::Remove, &mut |state, all| by(state, all), &mut worth);
    let costs = &*prices.given_back(state.waiting());
    // What is least is the best of the negatives.
    worth.iter_mut().zip(costs).for_each(|(worth, cost)| *worth = -*worth / cost);
    let mut candidates: Vec<bool> = state.waiting().iter().map(|waits| !waits).collect();
    kept.iter().for_each(|&group| candidates[group] = false);
    let is_idle = |group: usize| candidates[group] && worth[group] == 0.0;
    let idle: Vec<usize> = (0..costs.len()).filter(|&group| is_idle(group)).collect();
    if let Some(dearest) = idle.iter().map(|&group| costs[group]).reduce(f64::max) {
        candidates.fill(false);
        idle.iter().for_each(|&group| candidates[group] = costs[group] == dearest);
    }
    first_of_the_best(&worth, &candidates).map(|group| (group, -worth[group]))
}

/// What removing each selected group would lose.
fn by_loss(state: &mut State, losses: &mut Vec<f64>) {
    state.losses(losses);
    losses.iter_mut().filter(|loss| **loss <= ROUNDING_LOSS).for_each(|loss| *loss = 0.0);
}

/// The length of each group's coefficients on unit-variance columns.
fn by_coefficient(state: &mut State, lengths: &mut Vec<f64>) {
    let mut coef = Vec::new();
    state.coefficients(&mut coef);
    lengths.resize(state.size(), 0.0);
    let rank = state.support().len().max(1);
    for held in state.held() {
        let own = coef.chunks_exact(rank).flat_map(|coef| &coef[held.rows()]);
        lengths[held.group] = own.map(|w| w * w).sum::<f64>().sqrt();
    }
}

/// Remove a group after those that need it, and return how many they are.
pub fn removals(
    state: &mut State,
    prices: Prices,
    group: usize,
    worth: f64,
    record: &mut Record,
) -> Result<usize, Interrupted> {
    let groups = prices.with_dependents(group, state.waiting());
    let count = groups.len();
    for group in groups {
        let (gain, choice) = (-state.remove(group), Choice::Free);
        let explained = state.explained();
        let step = Step { action: Action::Remove, group, score: -worth, gain, explained, choice };
        record(step, state)?;
    }
    Ok(count)
}

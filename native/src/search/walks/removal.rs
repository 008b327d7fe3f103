//! Which selected group is the least useful, per unit of cost.

use super::ties::first_of_the_best;
use crate::linear::state::State;
use crate::search::steps::{Action, Choice, Step};

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

/// The selected group that is worth least per cost, and what it is worth; nothing if all are
/// in `kept`.
///
/// Of groups that are worth nothing it is the dearest: a copy may stand in for it.
pub fn least_useful(
    state: &mut State,
    costs: &[f64],
    usefulness: Usefulness,
    kept: &[usize],
) -> Option<(usize, f64)> {
    let mut worth = Vec::new();
    match usefulness {
        Usefulness::Loss => by_loss(state, &mut worth),
        Usefulness::Coefficient => by_coefficient(state, &mut worth),
    }
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

/// Remove a group and return the step.
pub fn removal(state: &mut State, group: usize, worth: f64) -> Step {
    let (gain, choice) = (-state.remove(group), Choice::Free);
    let explained = state.explained();
    Step { action: Action::Remove, group, score: -worth, gain, explained, choice }
}

/// Summed cost of the groups held.
pub fn held_cost(state: &State, costs: &[f64]) -> f64 {
    state.held().iter().map(|held| costs[held.group]).sum()
}

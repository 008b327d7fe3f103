//! Groups that come or go together: with those that they need, or without those that need them.

use std::collections::BTreeMap;

use crate::linear::prices::Prices;
use crate::linear::state::State;
use crate::search::steps::Action;

/// What each group is worth by itself in a state, written over what is there.
pub type Worth<'w> = dyn FnMut(&mut State, &mut Vec<f64>) + 'w;

/// Write what each group is worth that comes with the groups that it needs, or goes with those that
/// need it: the sum of what each of them is worth when its turn comes.
///
/// A clone of the state, and a round of worths for each group moved ahead, for each such company.
pub fn together(
    state: &mut State,
    prices: Prices,
    action: Action,
    worth: &mut Worth,
    all: &mut Vec<f64>,
) {
    worth(state, all);
    if prices.are_sums() {
        return;
    }
    let size = prices.costs.len();
    let mut companies: BTreeMap<Vec<usize>, Vec<usize>> = BTreeMap::new();
    for group in (0..size).filter(|&group| prices.is_tied(group)) {
        let mut company = company(prices, action, group, state.waiting());
        company.pop();
        let is_moved = state.waiting()[group] == (action == Action::Add);
        if is_moved && !company.is_empty() {
            companies.entry(company).or_default().push(group);
        }
    }
    let mut own = Vec::new();
    for (company, groups) in companies {
        let (mut trial, mut sum) = (state.clone(), 0.0);
        for group in company {
            worth(&mut trial, &mut own);
            sum += own[group];
            moved(&mut trial, action, group);
        }
        worth(&mut trial, &mut own);
        groups.into_iter().for_each(|group| all[group] = sum + own[group]);
    }
}

/// A group behind those that move with it.
pub fn company(prices: Prices, action: Action, group: usize, waiting: &[bool]) -> Vec<usize> {
    match action {
        Action::Add => prices.with_needs(group, waiting),
        Action::Remove => prices.with_dependents(group, waiting),
    }
}

/// Make a move and return by how much more is explained.
pub fn moved(state: &mut State, action: Action, group: usize) -> f64 {
    match action {
        Action::Add => state.add(group),
        Action::Remove => -state.remove(group),
    }
}

/// Take a group after those that it needs, and return what they gain.
pub fn take(state: &mut State, prices: Prices, group: usize) -> f64 {
    let groups = prices.with_needs(group, state.waiting());
    groups.into_iter().map(|group| state.add(group)).sum()
}

/// Give a group back after those that need it, and return what they lose.
pub fn give(state: &mut State, prices: Prices, group: usize) -> f64 {
    let groups = prices.with_dependents(group, state.waiting());
    groups.into_iter().map(|group| state.remove(group)).sum()
}

/// What the groups of a state cost.
pub fn spent(state: &State, prices: Prices) -> f64 {
    prices.spent(state.held().iter().map(|held| held.group))
}

/// Groups of a state, in the order taken.
pub fn held(state: &State) -> Vec<usize> {
    state.held().iter().map(|held| held.group).collect()
}

//! Columns within two limits, at most s1 of them in at most s2 groups, by exact gains.
//!
//! ```text
//! forward: add the column that fits and gains most
//! polish:  while one of these gains
//!              add the column that fits and gains most
//!              else exchange the two columns that fit and gain most
//!              else exchange two groups, whose columns forward steps choose
//! ```
//!
//! A descent ends where no small step helps; here every exchange is a whole one. Ties go to the
//! column named first. An exchange that rounding alone promised ends the search.
//!
//! Source: Efroymson (1960) and Miller (2002), section 3.3, for exchanges one by one.

use std::collections::BTreeSet;

use super::exchange::first_rise;
use super::projection::Limits;
use crate::linear::state::State;
use crate::search::walks::ties::{LEAST_RISE, TIE_SHARE, best_first, first_of_the_best};

/// Groups that are tried in the place of another: those with the best single columns.
const GROUPS_TRIED: usize = 8;

/// What may be held.
#[derive(Clone, Copy)]
pub struct Within<'w> {
    /// The group of each column.
    pub group: &'w [usize],
    /// s1 and s2.
    pub limits: Limits,
}

impl Within<'_> {
    /// The groups of the columns that a state holds.
    fn groups(&self, state: &State) -> BTreeSet<usize> {
        state.held().iter().map(|held| self.group[held.group]).collect()
    }

    /// Which columns may be added to those held.
    fn open_to(&self, state: &State) -> Vec<bool> {
        if state.held().len() >= self.limits.columns {
            return vec![false; self.group.len()];
        }
        let groups = self.groups(state);
        let is_open = groups.len() < self.limits.groups;
        let each = state.waiting().iter().zip(self.group);
        each.map(|(waits, group)| *waits && (is_open || groups.contains(group))).collect()
    }
}

/// Add columns, of some groups if they are named, as long as one fits and gains; how many.
///
/// The groups of the state are single columns. What leaves at most `TIE_SHARE` explains all: gains
/// that do so tie, and nothing is added after them, as rounding would choose.
pub fn forward(state: &mut State, within: Within, among: Option<&BTreeSet<usize>>) -> usize {
    let (mut gains, mut added) = (Vec::new(), 0);
    loop {
        let left = 1.0 - state.explained();
        if left <= TIE_SHARE {
            return added;
        }
        state.gains(&mut gains);
        gains.iter_mut().filter(|gain| **gain > left - TIE_SHARE).for_each(|gain| *gain = left);
        let mut fitting = within.open_to(state);
        for (column, fits) in fitting.iter_mut().enumerate() {
            *fits &= gains[column] > LEAST_RISE
                && among.is_none_or(|among| among.contains(&within.group[column]));
        }
        let Some(column) = first_of_the_best(&gains, &fitting) else {
            return added;
        };
        state.add(column);
        added += 1;
    }
}

/// Improve a state until no single change does, and count the changes.
///
/// What explains all but `TIE_SHARE` is not changed: rises beyond are rounding.
///
/// A turn of exchanges is s1 removals and s1 times all gains, O(D s1^2).
pub fn polish(state: &mut State, within: Within) -> usize {
    let mut turns = 0;
    while state.explained() < 1.0 - TIE_SHARE {
        let better = filled(state, within)
            .or_else(|| exchanged(state, within))
            .or_else(|| regrouped(state, within));
        match better {
            Some(better) if better.explained() > state.explained() + LEAST_RISE => *state = better,
            _ => break,
        }
        turns += 1;
    }
    turns
}

fn filled<'p>(state: &State<'p>, within: Within) -> Option<State<'p>> {
    let mut filled = state.clone();
    (forward(&mut filled, within, None) > 0).then_some(filled)
}

fn exchanged<'p>(state: &State<'p>, within: Within) -> Option<State<'p>> {
    let (mut best, mut found, mut rises) = (0.0, None, Vec::new());
    for out in state.held().iter().map(|held| held.group) {
        let mut without = state.clone();
        let loss = without.remove(out);
        without.gains(&mut rises);
        rises.iter_mut().for_each(|gain| *gain -= loss);
        let mut fitting = within.open_to(&without);
        fitting[out] = false;
        if let Some(into) = first_rise(&rises, &fitting, best) {
            best = rises[into];
            found = Some((without, into));
        }
    }
    let (mut without, into) = found?;
    without.add(into);
    Some(without)
}

fn regrouped<'p>(state: &State<'p>, within: Within) -> Option<State<'p>> {
    let (mut best, mut found, mut gains) = (state.explained(), None, Vec::new());
    let held = within.groups(state);
    let size = within.group.last().map_or(0, |last| last + 1);
    for &out in &held {
        let mut without = state.clone();
        let columns = without.held().iter().map(|held| held.group);
        let gone: Vec<usize> = columns.filter(|&column| within.group[column] == out).collect();
        gone.into_iter().for_each(|column| {
            without.remove(column);
        });
        without.gains(&mut gains);
        let mut most = vec![0.0; size];
        for (group, gain) in within.group.iter().zip(&gains) {
            most[*group] = f64::max(most[*group], *gain);
        }
        held.iter().for_each(|&group| most[group] = 0.0);
        for into in best_first(&most).into_iter().take(GROUPS_TRIED) {
            let mut among = held.clone();
            among.remove(&out);
            among.insert(into);
            let mut other = without.clone();
            forward(&mut other, within, Some(&among));
            if other.explained() > best + LEAST_RISE {
                best = other.explained();
                found = Some(other);
            }
        }
    }
    found
}

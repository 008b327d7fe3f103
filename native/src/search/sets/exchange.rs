//! Local search: add a group, or exchange one for another, as long as more is explained.
//!
//! ```text
//! while one of these gains:
//!     add the group that fits and gains most
//!     else exchange the pair that fits and gains most
//! ```
//!
//! Ties go to the group named first. An exchange needs the gains without each selected group: k
//! removals and k rounds of gains. It ends in a local optimum: no single exchange helps, two at a
//! time might.
//!
//! Source: Miller (2002), Subset Selection in Regression, section 3.3; Fedorov (1972) for designs.

use crate::linear::state::State;
use crate::record::prefix::fits;
use crate::search::walks::removal::held_cost;
use crate::search::walks::ties::{LEAST_RISE, first_of_the_best};

/// Columns up to which a choice also starts from backward elimination: it takes a second there.
const MOST_FROM_ABOVE: usize = 300;

/// What a set of groups may be.
#[derive(Clone, Copy, Debug)]
pub struct Limits<'l> {
    /// Cost of each group.
    pub costs: &'l [f64],
    /// Limit on the summed cost.
    pub budget: Option<f64>,
    /// Most groups.
    pub most: Option<usize>,
    /// Numbers of groups that stay.
    pub always: &'l [usize],
}

impl Limits<'_> {
    /// Which groups may be added to those that a state holds.
    fn fitting(&self, state: &State) -> Vec<bool> {
        let is_room = self.most.is_none_or(|most| state.held().len() < most);
        let spent = held_cost(state, self.costs);
        let waiting = state.waiting().iter().zip(self.costs);
        waiting.map(|(waits, cost)| is_room && *waits && fits(spent + cost, self.budget)).collect()
    }

    /// Whether a set is one of those allowed.
    fn allows(&self, state: &State) -> bool {
        self.most.is_none_or(|most| state.held().len() <= most)
            && fits(held_cost(state, self.costs), self.budget)
    }
}

/// Hears what is explained after each change of a set, and, before each exchange that is tried,
/// nothing; answers whether the search goes on.
pub type GoesOn<'g> = dyn FnMut(Option<f64>) -> bool + 'g;

/// Add and exchange groups until neither explains more, or the search does not go on.
pub fn improve(state: &mut State, limits: &Limits, goes_on: &mut GoesOn) {
    let mut gains = Vec::new();
    while add(state, limits, &mut gains) || exchange(state, limits, &mut gains, goes_on) {
        if !goes_on(Some(state.explained())) {
            return;
        }
    }
}

fn add(state: &mut State, limits: &Limits, gains: &mut Vec<f64>) -> bool {
    state.gains(gains);
    let mut fitting = limits.fitting(state);
    fitting.iter_mut().zip(&*gains).for_each(|(fits, gain)| *fits = *fits && *gain > LEAST_RISE);
    let Some(group) = first_of_the_best(gains, &fitting) else { return false };
    state.add(group);
    true
}

fn exchange(
    state: &mut State,
    limits: &Limits,
    gains: &mut Vec<f64>,
    goes_on: &mut GoesOn,
) -> bool {
    let (mut best, mut pair) = (0.0, None);
    let held: Vec<usize> = state.held().iter().map(|held| held.group).collect();
    for &out in held.iter().filter(|out| !limits.always.contains(out)) {
        if !goes_on(None) {
            return false;
        }
        let mut without = state.clone();
        let loss = without.remove(out);
        without.gains(gains);
        let mut fitting = limits.fitting(&without);
        fitting[out] = false;
        gains.iter_mut().for_each(|gain| *gain -= loss);
        if let Some(into) = first_rise(gains, &fitting, best) {
            (best, pair) = (gains[into], Some((out, into)));
        }
    }
    let Some((out, into)) = pair else { return false };
    let before = state.explained();
    state.remove(out);
    state.add(into);
    // Of nearly dependent columns rounding alone may promise a rise, again and again.
    state.explained() > before
}

/// The group that rises most, the first of those that tie; nothing if `best` stands.
///
/// What a rise is made of, a loss and a gain, cancels: it ties by `LEAST_RISE`, not by a share.
pub fn first_rise(rises: &[f64], fitting: &[bool], best: f64) -> Option<usize> {
    let fitting = || rises.iter().zip(fitting).enumerate().filter(|(_, (_, fits))| **fits);
    let most = fitting().map(|(_, (rise, _))| *rise).fold(f64::NEG_INFINITY, f64::max);
    let rises_most = |(_, (rise, _)): &(usize, (&f64, &bool))| **rise >= most - LEAST_RISE;
    (most > best + LEAST_RISE).then(|| fitting().find(rises_most).map(|(at, _)| at)).flatten()
}

/// Give up groups, or exchange them for cheaper ones or those named first, where no more than
/// `tie` is lost in all.
pub fn prefer_cheaper(state: &mut State, limits: &Limits, tie: f64, goes_on: &mut GoesOn) {
    let least = state.explained() - tie;
    while cheapen(state, limits, least, goes_on) {}
}

fn cheapen(state: &mut State, limits: &Limits, least: f64, goes_on: &mut GoesOn) -> bool {
    let costs = limits.costs;
    let mut held: Vec<usize> = state.held().iter().map(|held| held.group).collect();
    // The dearest first, and of these the last named.
    held.sort_by(|&a, &b| costs[b].total_cmp(&costs[a]).then(b.cmp(&a)));
    for out in held.into_iter().filter(|out| !limits.always.contains(out)) {
        if !goes_on(None) {
            return false;
        }
        let mut without = state.clone();
        without.remove(out);
        let is_spare = without.explained() >= least;
        let into = if is_spare { None } else { replacement(&mut without, costs, out, least) };
        if is_spare || into.is_some() {
            state.remove(out);
            into.into_iter().for_each(|group| _ = state.add(group));
            return true;
        }
    }
    false
}

/// The cheapest group that makes up for one, of those that are cheaper or named before it.
fn replacement(without: &mut State, costs: &[f64], out: usize, least: f64) -> Option<usize> {
    let mut gains = Vec::new();
    without.gains(&mut gains);
    let explained = without.explained();
    let is_before = |&group: &usize| {
        without.waiting()[group]
            && (costs[group], group) < (costs[out], out)
            && explained + gains[group] >= least
    };
    (0..costs.len()).filter(is_before).min_by(|&a, &b| costs[a].total_cmp(&costs[b]))
}

/// How groups were chosen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// What was explained after each group taken, and after each change that followed.
    pub explained: Vec<f64>,
    /// Sets whose value was computed.
    pub queries: usize,
}

/// Take groups greedily after those of `start`, and exchange until nothing improves.
///
/// `state` is without selected groups and ends with the best set; `start` begins with the groups
/// that stay. Where it has no other, the same is done from what backward elimination leaves; the
/// better end counts.
pub fn choose(
    state: &mut State,
    start: &[usize],
    limits: &Limits,
    goes_on: &mut GoesOn,
) -> History {
    let mut above = (state.problem.width() <= MOST_FROM_ABOVE
        && start.len() == limits.always.len())
    .then(|| state.clone());
    let mut history = History::default();
    start.iter().for_each(|&group| _ = state.add(group));
    greedily(state, limits, &mut history, goes_on);
    let mut changes = Vec::new();
    improve(state, limits, &mut |explained| noted(explained, &mut changes, goes_on));
    if let Some(other) = &mut above {
        let mut of_other = Vec::new();
        from_above(other, limits);
        improve(other, limits, &mut |explained| noted(explained, &mut of_other, goes_on));
        if other.explained() > state.explained() + LEAST_RISE {
            std::mem::swap(state, other);
            changes = of_other;
        }
    }
    let held = state.held().len();
    history.queries += changes.len() * held * (state.size() - held);
    history.explained.extend(changes);
    history
}

/// Write down what is explained, and ask whether the search goes on.
fn noted(explained: Option<f64>, all: &mut Vec<f64>, goes_on: &mut GoesOn) -> bool {
    all.extend(explained);
    goes_on(explained)
}

/// Take the group with the largest gain of those that fit, again and again.
fn greedily(state: &mut State, limits: &Limits, history: &mut History, goes_on: &mut GoesOn) {
    let mut gains = Vec::new();
    loop {
        let fitting = limits.fitting(state);
        state.gains(&mut gains);
        let Some(group) = first_of_the_best(&gains, &fitting) else { return };
        state.add(group);
        history.queries += fitting.iter().filter(|fits| **fits).count();
        if !noted(Some(state.explained()), &mut history.explained, goes_on) {
            return;
        }
    }
}

/// Take all groups, and give up the least useful ones until a set is left that is allowed.
fn from_above(state: &mut State, limits: &Limits) {
    let mut losses = Vec::new();
    limits.always.iter().for_each(|&group| _ = state.add(group));
    for group in (0..state.size()).filter(|group| !limits.always.contains(group)) {
        state.add(group);
    }
    while !limits.allows(state) {
        let mut may_go: Vec<bool> = state.waiting().iter().map(|waits| !waits).collect();
        limits.always.iter().for_each(|&group| may_go[group] = false);
        state.losses(&mut losses);
        let price = |cost: &f64| if limits.budget.is_some() { *cost } else { 1.0 };
        losses.iter_mut().zip(limits.costs).for_each(|(loss, cost)| *loss = -*loss / price(cost));
        let Some(group) = first_of_the_best(&losses, &may_go) else { return };
        state.remove(group);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linear::problem::{Gram, Linear};
    use crate::linear::state::Buffers;
    use crate::testing::moments;

    /// Columns a, b, c = a + b but for a little, and the target a + b.
    fn problem() -> Linear {
        let (a, b) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [3.0, 1.0, 4.0, 1.0, 5.0, 9.0]);
        let little = [0.1, -0.2, 0.1, 0.2, -0.1, -0.1];
        let row = |i: usize| vec![a[i], b[i], a[i] + b[i] + little[i], a[i] + b[i]];
        let (mean, comoment) = moments(&(0..6).map(row).collect::<Vec<_>>());
        let (mean, comoment) = (&mean[..], &comoment[..]);
        let gram =
            Gram { rows: 6, skipped: 0, weight: 6.0, mean, mean_low: &[], comoment, missing: &[] };
        let mut problem = Linear::default();
        problem.set_up(&gram, 3, &[0, 1, 2], 0.0, true);
        problem
    }

    fn held(state: &State) -> Vec<usize> {
        let mut groups: Vec<usize> = state.held().iter().map(|held| held.group).collect();
        groups.sort_unstable();
        groups
    }

    #[test]
    fn what_greedy_search_misses_is_found_and_what_stays_stays() {
        let (problem, starts, costs) = (problem(), [0, 1, 2, 3], [1.0; 3]);
        let free = Limits { costs: &costs, budget: None, most: Some(2), always: &[] };
        for (limits, expected) in [
            (free, vec![0, 1]),
            (Limits { always: &[2], ..free }, vec![1, 2]),
            (Limits { most: Some(1), ..free }, vec![2]),
            (Limits { budget: Some(1.5), ..free }, vec![2]),
        ] {
            let mut state = State::new(&problem, &starts, Buffers::default());
            let history = choose(&mut state, limits.always, &limits, &mut |_| true);
            assert_eq!(held(&state), expected);
            assert!(history.explained.windows(2).all(|two| two[0] < two[1]));
        }
    }

    #[test]
    fn a_search_ends_where_it_does_not_go_on() {
        let (problem, starts, costs) = (problem(), [0, 1, 2, 3], [1.0; 3]);
        let limits = Limits { costs: &costs, budget: None, most: Some(2), always: &[] };
        let mut state = State::new(&problem, &starts, Buffers::default());
        state.add(2);
        improve(&mut state, &limits, &mut |_| false);
        assert_eq!(state.held().len(), 2);
        assert!(state.held().iter().any(|held| held.group == 2));
    }

    #[test]
    fn what_costs_less_is_preferred_where_nothing_is_lost() {
        let (problem, starts) = (problem(), [0, 1, 2, 3]);
        let costs = [1.0, 3.0, 2.0];
        let limits = Limits { costs: &costs, budget: None, most: None, always: &[] };
        let mut state = State::new(&problem, &starts, Buffers::default());
        [1, 2].into_iter().for_each(|group| _ = state.add(group));
        // a and b, a and c, and c and b explain the same but for the little.
        prefer_cheaper(&mut state, &limits, 0.01, &mut |_| true);
        assert_eq!(held(&state), [2]);
    }
}

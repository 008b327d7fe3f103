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

use crate::linear::prices::Prices;
use crate::linear::state::State;
use crate::record::prefix::fits;
use crate::search::steps::Action;
use crate::search::walks::backward::begin;
use crate::search::walks::moves::{give, held, spent, take, together};
use crate::search::walks::ties::{LEAST_RISE, first_of_the_best};

/// Columns up to which a choice also starts from backward elimination: it takes a second there.
const MOST_FROM_ABOVE: usize = 300;

/// Share of a cost below which another is the same.
const SAME_COST: f64 = 1e-12;

/// What a set of groups may be.
#[derive(Clone, Copy, Debug)]
pub struct Limits<'l> {
    /// What sets of groups cost, and which may be bought.
    pub prices: Prices<'l>,
    /// Limit on the summed cost.
    pub budget: Option<f64>,
    /// Most groups.
    pub most: Option<usize>,
    /// Numbers of groups that stay.
    pub always: &'l [usize],
}

impl Limits<'_> {
    /// Which groups may be added, with those that they need, to those that a state holds.
    fn fitting(&self, state: &State) -> Vec<bool> {
        let (held, waiting) = (state.held().len(), state.waiting());
        let (spent, offers) = (spent(state, self.prices), self.prices.offers(waiting));
        let is_room = |group: usize| match self.most {
            None => true,
            Some(most) if self.prices.are_sums() => held < most,
            Some(most) => held + self.prices.with_needs(group, waiting).len() <= most,
        };
        let fits = |group: usize| {
            waiting[group]
                && offers.is_open(group)
                && fits(spent + offers.costs[group], self.budget)
                && is_room(group)
        };
        (0..waiting.len()).map(fits).collect()
    }

    /// Whether a set is one of those allowed.
    fn allows(&self, state: &State) -> bool {
        self.most.is_none_or(|most| state.held().len() <= most)
            && fits(spent(state, self.prices), self.budget)
            && self.prices.allows(&held(state))
    }

    /// What each group gains with those that it needs.
    fn gains(&self, state: &mut State, gains: &mut Vec<f64>) {
        together(state, self.prices, Action::Add, &mut |state, all| state.gains(all), gains);
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
    limits.gains(state, gains);
    let mut fitting = limits.fitting(state);
    fitting.iter_mut().zip(&*gains).for_each(|(fits, gain)| *fits = *fits && *gain > LEAST_RISE);
    let Some(group) = first_of_the_best(gains, &fitting) else { return false };
    take(state, limits.prices, group);
    true
}

fn exchange(
    state: &mut State,
    limits: &Limits,
    gains: &mut Vec<f64>,
    goes_on: &mut GoesOn,
) -> bool {
    let (mut best, mut pair) = (0.0, None);
    for out in held(state).into_iter().filter(|out| !limits.always.contains(out)) {
        if !goes_on(None) {
            return false;
        }
        let mut without = state.clone();
        let going = limits.prices.with_dependents(out, state.waiting());
        let loss = give(&mut without, limits.prices, out);
        limits.gains(&mut without, gains);
        let mut fitting = limits.fitting(&without);
        // What comes back with another group that needs it has its turn elsewhere.
        for (group, fits) in fitting.iter_mut().enumerate() {
            *fits = *fits
                && !limits.prices.with_needs(group, without.waiting()).contains(&out)
                && !going.contains(&group);
        }
        gains.iter_mut().for_each(|gain| *gain -= loss);
        if let Some(into) = first_rise(gains, &fitting, best) {
            (best, pair) = (gains[into], Some((out, into)));
        }
    }
    let Some((out, into)) = pair else { return false };
    let before = state.explained();
    give(state, limits.prices, out);
    take(state, limits.prices, into);
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
    let Limits { prices, always, .. } = *limits;
    let back = prices.given_back(state.waiting()).into_owned();
    let mut groups = held(state);
    // The dearest first, and of these the last named.
    groups.sort_by(|&a, &b| back[b].total_cmp(&back[a]).then(b.cmp(&a)));
    for out in groups.into_iter().filter(|out| !always.contains(out)) {
        if !goes_on(None) {
            return false;
        }
        let mut without = state.clone();
        give(&mut without, prices, out);
        let is_spare = without.explained() >= least;
        // A company for another could come back, and so on, at the same cost.
        let is_alone = prices.with_dependents(out, state.waiting()).len() == 1;
        let before = if is_alone { out } else { 0 };
        let into = match is_spare {
            true => None,
            false => replacement(&mut without, limits, (back[out], before), least),
        };
        if is_spare || into.is_some() {
            give(state, prices, out);
            into.into_iter().for_each(|group| _ = take(state, prices, group));
            return true;
        }
    }
    false
}

/// The cheapest group that makes up for one with its cost and number, of those that are cheaper or
/// named before it.
fn replacement(
    without: &mut State,
    limits: &Limits,
    out: (f64, usize),
    least: f64,
) -> Option<usize> {
    let mut gains = Vec::new();
    limits.gains(without, &mut gains);
    let explained = without.explained();
    let (offers, waiting) = (limits.prices.offers(without.waiting()), without.waiting());
    // Sums of items round: what costs the same but for that is no cheaper.
    let slack = if limits.prices.are_sums() { 0.0 } else { SAME_COST * out.0 };
    let is_cheaper = |group: usize| {
        let cost = offers.counted[group];
        cost < out.0 - slack
            || (cost <= out.0 + slack
                && group < out.1
                && limits.prices.with_needs(group, waiting).len() == 1)
    };
    let is_before = |&group: &usize| {
        waiting[group]
            && offers.is_open(group)
            && is_cheaper(group)
            && explained + gains[group] >= least
    };
    let cost = |group: usize| offers.costs[group];
    (0..waiting.len()).filter(is_before).min_by(|&a, &b| cost(a).total_cmp(&cost(b)))
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
        limits.gains(state, &mut gains);
        let Some(group) = first_of_the_best(&gains, &fitting) else { return };
        take(state, limits.prices, group);
        history.queries += fitting.iter().filter(|fits| **fits).count();
        if !noted(Some(state.explained()), &mut history.explained, goes_on) {
            return;
        }
    }
}

/// Take all groups, and give up the least useful ones until a set is left that is allowed.
fn from_above(state: &mut State, limits: &Limits) {
    let Limits { prices, always, .. } = *limits;
    let mut losses = Vec::new();
    begin(state, prices, always).into_iter().for_each(|group| _ = state.add(group));
    while !limits.allows(state) {
        let mut may_go: Vec<bool> = state.waiting().iter().map(|waits| !waits).collect();
        always.iter().for_each(|&group| may_go[group] = false);
        together(state, prices, Action::Remove, &mut |state, all| state.losses(all), &mut losses);
        let back = prices.given_back(state.waiting());
        let price = |cost: &f64| if limits.budget.is_some() { *cost } else { 1.0 };
        losses.iter_mut().zip(&*back).for_each(|(loss, cost)| *loss = -*loss / price(cost));
        let Some(group) = first_of_the_best(&losses, &may_go) else { return };
        give(state, prices, group);
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

    fn named(state: &State) -> Vec<usize> {
        let mut groups: Vec<usize> = state.held().iter().map(|held| held.group).collect();
        groups.sort_unstable();
        groups
    }

    #[test]
    fn what_greedy_search_misses_is_found_and_what_stays_stays() {
        let (problem, starts, costs) = (problem(), [0, 1, 2, 3], [1.0; 3]);
        let free = Limits { prices: Prices::of(&costs), budget: None, most: Some(2), always: &[] };
        for (limits, expected) in [
            (free, vec![0, 1]),
            (Limits { always: &[2], ..free }, vec![1, 2]),
            (Limits { most: Some(1), ..free }, vec![2]),
            (Limits { budget: Some(1.5), ..free }, vec![2]),
        ] {
            let mut state = State::new(&problem, &starts, Buffers::default());
            let history = choose(&mut state, limits.always, &limits, &mut |_| true);
            assert_eq!(named(&state), expected);
            assert!(history.explained.windows(2).all(|two| two[0] < two[1]));
        }
    }

    #[test]
    fn a_search_ends_where_it_does_not_go_on() {
        let (problem, starts, costs) = (problem(), [0, 1, 2, 3], [1.0; 3]);
        let limits =
            Limits { prices: Prices::of(&costs), budget: None, most: Some(2), always: &[] };
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
        let limits = Limits { prices: Prices::of(&costs), budget: None, most: None, always: &[] };
        let mut state = State::new(&problem, &starts, Buffers::default());
        [1, 2].into_iter().for_each(|group| _ = state.add(group));
        // a and b, a and c, and c and b explain the same but for the little.
        prefer_cheaper(&mut state, &limits, 0.01, &mut |_| true);
        assert_eq!(named(&state), [2]);
    }
}

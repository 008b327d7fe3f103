//! Every set of groups within a budget that explains nearly as much as the best, by branch and
//! bound; of several records, the set whose least share is largest.
//!
//! ```text
//! put the question "which of all groups?" on a stack
//! while there is one: take the last
//!     leave out what does not fit; a set of which nothing is left to decide is offered
//!     drop the question if its bound is below the least value
//!     hold what no set above that value lacks; else decide one group, both ways
//! ```
//!
//! The bound of a question is F of all of its groups, or the relaxed choice within the budget
//! (`relaxation`); of several records, the least of their bounds. A group is held if without it
//! that would be too little. Groups that add nothing to others are decided too: with and without
//! them, sets are different sets. Costs that are no sums are bounded from below by sums, as in
//! `branch_and_bound`.
//!
//! O(D^3) a question; some J questions a set that is found, and 2^J at worst.
//!
//! Sources: as `branch_and_bound`; Furnival, Wilson (1974) list the best subsets by such bounds.

use super::branch_and_bound::TIE;
use super::exchange::GoesOn;
use crate::record::prefix::BUDGET_SLACK;
use crate::search::sets::groupwise::Groupwise;
use crate::search::sets::relaxation::Undecided;

/// Tangents of a question: the first ones lower its bound most.
const TANGENTS: usize = 4;

/// A set of groups.
#[derive(Clone, Debug, PartialEq)]
pub struct RankedSet {
    /// Numbers of the groups, in their order.
    pub groups: Vec<usize>,
    /// Summed cost.
    pub spent: f64,
    /// What it explains, of several records the least.
    pub explained: f64,
}

/// The sets that were found, the best first.
#[derive(Clone, Debug, Default)]
pub struct NearSets {
    /// Those kept.
    pub sets: Vec<RankedSet>,
    /// Sets that were found and not kept.
    pub cut: u64,
    /// No set that is not kept explains more; NaN if there is none.
    pub bound: f64,
    /// Whether every set was looked at.
    pub is_complete: bool,
    /// Questions asked.
    pub nodes: u64,
}

/// What is searched.
pub struct Near<'t> {
    /// The problem of each record, with the same groups.
    pub problems: &'t [Groupwise<'t>],
    /// Limit on the summed cost.
    pub budget: f64,
    /// Groups of every set.
    pub always: &'t [usize],
    /// Sets kept.
    pub most: usize,
}

/// A question: groups held, and groups to decide, with the bound of the question it is part of.
struct Question {
    held: Vec<usize>,
    rest: Vec<usize>,
    /// Groups that are left out, and with them those that need them; unless costs are sums.
    out: Vec<usize>,
    bound: f64,
}

impl Near<'_> {
    /// Every set that explains at least a value, ties apart.
    pub fn all(&self, least: f64, goes_on: &mut GoesOn) -> NearSets {
        self.search(least, false, goes_on)
    }

    /// The best set, one of those that explain more than a value; none if none does.
    pub fn best(&self, above: f64, goes_on: &mut GoesOn) -> NearSets {
        self.search(above + 2.0 * TIE, true, goes_on)
    }

    /// What a set of groups costs.
    fn cost(&self, groups: &[usize]) -> f64 {
        self.problems[0].prices.spent(groups.iter().copied())
    }

    /// What a set explains, of several records the least.
    pub fn value(&self, groups: &[usize]) -> f64 {
        self.least(|problem| problem.value(groups))
    }

    fn least(&self, of: impl Fn(&Groupwise) -> f64) -> f64 {
        self.problems.iter().map(of).fold(f64::INFINITY, f64::min)
    }

    fn search(&self, least: f64, is_rising: bool, goes_on: &mut GoesOn) -> NearSets {
        let (mut least, limit) = (least, self.budget * (1.0 + BUDGET_SLACK));
        let prices = self.problems[0].prices;
        let size = prices.costs.len();
        let rest = (0..size).filter(|group| !self.always.contains(group)).collect();
        let (held, out) = (self.always.to_vec(), Vec::new());
        let first = Question { held, rest, out, bound: f64::INFINITY };
        let mut stack = vec![first];
        let mut found = NearSets { bound: f64::NAN, is_complete: true, ..NearSets::default() };
        while let Some(Question { held, mut rest, mut out, bound }) = stack.pop() {
            if bound < least - TIE {
                continue;
            }
            if found.nodes > 0 && !goes_on(None) {
                found.is_complete = false;
                let open = stack.iter().map(|question| question.bound);
                found.bound = open.fold(bound, f64::max).min(1.0).max(found.bound);
                break;
            }
            found.nodes += 1;
            let held = prices.closed(&held);
            let left = limit - self.cost(&held);
            let is_possible =
                held.iter().all(|group| !out.contains(group)) && prices.may_hold(&held);
            if left < 0.0 || !is_possible {
                continue;
            }
            rest.retain(|group| !held.contains(group));
            let mut comes = prices.comers(&held, &rest, left, &mut out).into_iter();
            rest.retain(|_| comes.next().unwrap_or_default());
            if rest.is_empty() {
                let explained = self.value(&held);
                if explained >= least - TIE {
                    if is_rising {
                        least = explained + 2.0 * TIE;
                    }
                    found.keep(held, self, explained);
                }
                continue;
            }
            let undecided = |problem: &Groupwise| {
                let mut own = problem.undecided(&held, &rest);
                let (costs, slack) = prices.from_below(&held, &own.groups);
                own.costs = costs;
                let bound = bounded(&own, left + slack, least);
                (own, bound)
            };
            let (each, bounds): (Vec<Undecided>, Vec<f64>) =
                self.problems.iter().map(undecided).unzip();
            let bound = bounds.into_iter().fold(bound, f64::min);
            if bound < least - TIE {
                continue;
            }
            let values = without(&each, &rest);
            let (mut next, mut open) = (held.clone(), Vec::new());
            for (&group, value) in rest.iter().zip(&values) {
                (if *value < least - TIE { &mut next } else { &mut open }).push(group);
            }
            if next.len() > held.len() {
                stack.push(Question { held: next, rest: open, out, bound });
                continue;
            }
            // The group whose loss is largest: without it, bounds fall most.
            let worst = |best: usize, at: usize| if values[at] < values[best] { at } else { best };
            let group = rest.remove((0..rest.len()).fold(0, worst));
            let mut without = out.clone();
            if !prices.are_sums() {
                without.push(group);
            }
            let rest_of = rest.clone();
            stack.push(Question { held: held.clone(), rest: rest_of, out: without, bound });
            next.push(group);
            stack.push(Question { held: next, rest, out, bound });
        }
        found.cut_to(self.most);
        found
    }
}

impl NearSets {
    fn keep(&mut self, mut groups: Vec<usize>, of: &Near, explained: f64) {
        groups.sort_unstable();
        self.sets.push(RankedSet { spent: of.cost(&groups), groups, explained });
        if self.sets.len() > 2 * of.most {
            self.cut_to(of.most);
        }
    }

    /// Keep the best sets: of those that tie, the cheapest, then those of groups named first.
    fn cut_to(&mut self, most: usize) {
        // Ties are sets of one value up to a rounding that must not decide.
        let rank = |set: &RankedSet| (set.explained / TIE).round();
        self.sets.sort_by(|a, b| {
            let value = rank(b).total_cmp(&rank(a));
            value.then(a.spent.total_cmp(&b.spent)).then_with(|| a.groups.cmp(&b.groups))
        });
        if let Some(next) = self.sets.get(most) {
            self.bound = next.explained.max(self.bound);
            self.cut += (self.sets.len() - most) as u64;
            self.sets.truncate(most);
        }
    }
}

/// A bound on what the undecided groups of one record can explain within what is left.
fn bounded(rest: &Undecided, left: f64, least: f64) -> f64 {
    if rest.value < least - TIE || rest.costs.iter().sum::<f64>() <= left {
        return rest.value;
    }
    let shares = vec![0.5; rest.groups.len()];
    let tangents = rest.tangents(left, &shares).take(TANGENTS);
    tangents.map(|tangent| tangent.bound).fold(rest.value, f64::min)
}

/// What all groups but one explain, for each: of several records the least.
fn without(each: &[Undecided], groups: &[usize]) -> Vec<f64> {
    let mut values = vec![f64::INFINITY; groups.len()];
    for rest in each {
        let losses = rest.losses();
        for (value, group) in values.iter_mut().zip(groups) {
            // One that adds nothing to the groups held loses nothing.
            let at = rest.groups.iter().position(|other| other == group);
            *value = value.min(rest.value - at.map_or(0.0, |at| losses[at]));
        }
    }
    values
}

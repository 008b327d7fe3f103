//! The best groups within a budget, with proof: branch and bound.
//!
//! ```text
//! put the question "which of all groups?" on a heap
//! while the largest bound of a question is above the best set found:
//!     take that question; decide every group that the bounds decide
//!     offer the groups that the relaxation prefers
//!     unless nothing is left: decide one more group, both ways, and put both back
//! ```
//!
//! Where the relaxation does not settle it soon, leaps and bounds (`leaps`) have their turn: they
//! prove most problems of some 30 groups in a second, and wide ones never.
//!
//! A question holds some groups, has left out some others, and is about the rest. It is closed if F
//! of all of its groups, or the relaxed choice within the budget (`linear::relaxation`), explains no
//! more than the best set. A group is held if without it F of all others would not; held or left
//! out if the bound rules out the other decision. The largest bound of the questions that are open
//! is one for every set within the budget, at any time.
//!
//! Where costs are no sums, they are bounded from below by sums: each item that is not paid yet is
//! shared out to the undecided groups that pay it. What rivals, limits and needs exclude is left out
//! of a question; limits are further budgets.
//!
//! Of sets that explain the same, the cheapest is searched for in the same way, with less than its
//! cost for a budget; of those that cost the same, exchanges prefer the groups named first.
//!
//! Source: Land, Doig (1960); Furnival, Wilson (1974), the bound by F of all groups; Bertsimas, Van
//! Parys (2020), that by relaxation. Departures: groups and costs; groups are decided.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::exchange::{GoesOn, Limits, improve, prefer_cheaper};
use crate::linear::state::State;
use crate::record::prefix::BUDGET_SLACK;
use crate::search::sets::groupwise::Groupwise;
use crate::search::sets::relaxation::{Tangent, Undecided};
use crate::search::walks::moves::held;

/// Sets nearer than this share of the target's variance are ties: what they explain is known to
/// some 1e-13 of columns that are not nearly dependent.
pub const TIE: f64 = 1e-10;
/// Tangents of a question: more lower its bound by little, and each costs a factorisation.
const TANGENTS: usize = 12;
/// Share of the way from the best set to a bound within which the relaxed value lies once more
/// tangents are not worth their time: from 0.3 to 0.9 it makes little difference.
const SETTLED_SHARE: f64 = 0.6;
/// Questions after which leaps and bounds have their turn: most problems need fewer.
const QUESTIONS_BEFORE_LEAPS: usize = 20;
/// What a cheaper set costs at most, as a share: more than the rounding of sums of costs.
const CHEAPER: f64 = 1.0 - 1e-9;

/// The best set that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct BestSet {
    /// Numbers of the groups: those of every set, then the others in their order.
    pub groups: Vec<usize>,
    /// No set within the budget explains more, ties apart.
    pub bound: f64,
    /// Whether none is left that might.
    pub is_proven: bool,
    /// Sets and questions that were looked at.
    pub nodes: u64,
}

/// What is searched, and for how long.
pub struct Task<'t, 'p> {
    /// The problem without selected groups.
    pub empty: &'t State<'p>,
    /// The same, for bounds.
    pub problem: &'t Groupwise<'t>,
    /// Limit on the summed cost.
    pub budget: f64,
    /// Groups of every set, within the budget.
    pub always: &'t [usize],
    /// Time to take for leaps and bounds.
    pub leaps: Duration,
}

/// The best set within a budget, from one within it that holds the groups of every set.
///
/// `goes_on` is asked after the first question; where it answers false, time is up. O(D^3) a
/// question, as many as it takes: 2^J at worst.
pub fn branch_and_bound(task: &Task, start: &State, goes_on: &mut GoesOn) -> BestSet {
    let cost = |groups: &[usize]| task.problem.prices.spent(groups.iter().copied());
    let mut best = Best { value: start.explained(), groups: Some(held(start)) };
    let mut tree = Tree { task, budget: task.budget, nodes: 0 };
    let bound = tree.run(&mut best, goes_on);
    let mut nodes = tree.nodes;
    // What is no number proves nothing.
    let is_proven = bound <= best.value + TIE;
    let mut groups = settled(task, &best.groups.unwrap_or_default(), goes_on);
    while is_proven && !groups.is_empty() && goes_on(None) {
        let cheaper = cost(&groups) * CHEAPER;
        if cost(task.always) > cheaper {
            break;
        }
        // Above this value a set ties with the best.
        let mut other = Best { value: best.value - 2.0 * TIE, groups: None };
        let mut tree = Tree { task, budget: cheaper, nodes: 0 };
        tree.run(&mut other, goes_on);
        nodes += tree.nodes;
        let Some(found) = other.groups else { break };
        groups = settled(task, &found, goes_on);
    }
    let mut rest: Vec<usize> =
        groups.into_iter().filter(|group| !task.always.contains(group)).collect();
    rest.sort_unstable();
    let groups = [task.always, &rest].concat();
    BestSet { groups, bound: bound.max(best.value), is_proven, nodes }
}

/// A set, or one that explains the same for less or with groups named earlier.
fn settled(task: &Task, groups: &[usize], goes_on: &mut GoesOn) -> Vec<usize> {
    let mut state = with(task.empty, groups);
    let limits =
        Limits { prices: task.problem.prices, budget: None, most: None, always: task.always };
    prefer_cheaper(&mut state, &limits, TIE, goes_on);
    held(&state)
}

/// A state with some groups selected.
pub fn with<'p>(empty: &State<'p>, groups: &[usize]) -> State<'p> {
    let mut state = empty.clone();
    groups.iter().for_each(|&group| _ = state.add(group));
    state
}

/// The best set found, and what another has to exceed.
struct Best {
    value: f64,
    groups: Option<Vec<usize>>,
}

/// Which of some groups to add to those held.
struct Question {
    held: Vec<usize>,
    groups: Vec<usize>,
    /// Of the relaxed choice of the question that this one is part of, one a group.
    shares: Vec<f64>,
    /// Groups that are left out, and with them those that need them; unless costs are sums.
    out: Vec<usize>,
}

impl Question {
    /// The question with some of its groups held and others left out.
    fn decided(&self, inside: &[bool], outside: &[bool]) -> Question {
        let mut next = Question {
            held: self.held.clone(),
            groups: Vec::new(),
            shares: Vec::new(),
            out: self.out.clone(),
        };
        for (at, &group) in self.groups.iter().enumerate() {
            if inside[at] {
                next.held.push(group);
            } else if outside[at] {
                next.out.push(group);
            } else {
                next.groups.push(group);
                next.shares.push(self.shares[at]);
            }
        }
        next
    }
}

/// A question with its bound, and how many came before it.
struct Open {
    bound: f64,
    number: usize,
    question: Question,
}

impl Ord for Open {
    /// The largest bound first, and of those that tie the one that came first.
    fn cmp(&self, other: &Open) -> Ordering {
        self.bound.total_cmp(&other.bound).then(other.number.cmp(&self.number))
    }
}

impl PartialOrd for Open {
    fn partial_cmp(&self, other: &Open) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Open {
    fn eq(&self, other: &Open) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Open {}

/// A search among the sets within one budget.
struct Tree<'t, 'p> {
    task: &'t Task<'t, 'p>,
    budget: f64,
    nodes: u64,
}

impl Tree<'_, '_> {
    /// The most that a set costs, its rounding included.
    fn limit(&self) -> f64 {
        self.budget * (1.0 + BUDGET_SLACK)
    }

    /// What the budget leaves beside some groups.
    fn left(&self, groups: &[usize]) -> f64 {
        self.limit() - self.task.problem.prices.spent(groups.iter().copied())
    }

    /// Improve the best set, and return a bound for all.
    fn run(&mut self, best: &mut Best, goes_on: &mut GoesOn) -> f64 {
        let (always, size) = (self.task.always, self.task.empty.size());
        let rest: Vec<usize> = (0..size).filter(|group| !always.contains(group)).collect();
        let shares = vec![0.5; rest.len()];
        let (held, groups, out) = (always.to_vec(), rest.clone(), Vec::new());
        let question = Question { held, groups, shares, out };
        let mut heap = BinaryHeap::from([Open { bound: f64::INFINITY, number: 0, question }]);
        let (mut count, mut asked) = (1, 0);
        while let Some(above) = heap.peek().map(|open| open.bound)
            && above > best.value + TIE
        {
            if count > 1 && !goes_on(None) {
                return above;
            }
            if asked == QUESTIONS_BEFORE_LEAPS && self.leap(&rest, best, goes_on) {
                return best.value;
            }
            let Some(open) = heap.pop() else { break };
            asked += 1;
            self.nodes += 1;
            let (bound, parts) = self.ask(open.question, best, goes_on);
            for question in parts {
                heap.push(Open { bound: bound.min(above), number: count, question });
                count += 1;
            }
        }
        best.value
    }

    /// Improve the best set by leaps and bounds; true if it is proved optimal.
    fn leap(&mut self, groups: &[usize], best: &mut Best, goes_on: &mut GoesOn) -> bool {
        let Task { problem, always, leaps, .. } = self.task;
        let left = self.left(always);
        let offers = problem.prices.offers(&self.waiting(always));
        let may_come = |group: &usize| offers.costs[*group] <= left && offers.is_open(*group);
        let fitting: Vec<usize> = groups.iter().copied().filter(may_come).collect();
        if fitting.is_empty() {
            return false;
        }
        let limits = (self.limit(), best.value + TIE);
        let (better, sets, is_best) = problem.leaps(always, &fitting, limits, *leaps);
        self.nodes += sets;
        if !better.is_empty() {
            self.offer(&better, best, goes_on);
        }
        is_best
    }

    /// A bound on all sets of a question, and its two parts unless it is closed.
    fn ask(
        &self,
        mut question: Question,
        best: &mut Best,
        goes_on: &mut GoesOn,
    ) -> (f64, Vec<Question>) {
        let prices = self.task.problem.prices;
        loop {
            question.held = prices.closed(&question.held);
            question.groups.retain(|group| !question.held.contains(group));
            let left = self.left(&question.held);
            let is_possible = question.held.iter().all(|group| !question.out.contains(group))
                && prices.may_hold(&question.held);
            if left < 0.0 || !is_possible {
                return (f64::NEG_INFINITY, Vec::new());
            }
            let mut rest = self.affordable(&mut question, left);
            if rest.value <= best.value + TIE {
                return (rest.value, Vec::new());
            }
            let (costs, slack) = prices.from_below(&question.held, &rest.groups);
            let every = prices.closed(&[&question.held[..], &rest.groups].concat());
            let fits = costs.iter().sum::<f64>() <= left + slack;
            if fits && prices.may_hold(&every) && self.left(&every) >= 0.0 {
                self.offer(&every, best, goes_on);
                return (rest.value, Vec::new());
            }
            let none = vec![false; rest.groups.len()];
            let is_needed = |loss: &f64| rest.value - loss <= best.value + TIE;
            let needed: Vec<bool> = rest.losses().iter().map(is_needed).collect();
            if needed.contains(&true) {
                question = question.decided(&needed, &none);
                continue;
            }
            let mut budgets = prices.of_limits(&question.held, &rest.groups);
            budgets.insert(0, (costs, left + slack));
            let Relaxed { bound, last, inside, outside } =
                relaxed(&mut rest, budgets, &question.shares, best.value + TIE);
            if bound <= best.value + TIE {
                return (bound, Vec::new());
            }
            let chosen = self.rounded(&question, &last);
            self.offer(&chosen, best, goes_on);
            if inside.contains(&true) || outside.contains(&true) {
                question = question.decided(&inside, &outside);
                continue;
            }
            let mut one = none.clone();
            one[most_open(&rest, &last, &prices.rivals(&every))] = true;
            question.shares = last.shares;
            let parts = vec![question.decided(&one, &none), question.decided(&none, &one)];
            return (bound, parts);
        }
    }

    /// Whether each group is none of some.
    fn waiting(&self, groups: &[usize]) -> Vec<bool> {
        let mut waiting = vec![true; self.task.empty.size()];
        groups.iter().for_each(|&group| waiting[group] = false);
        waiting
    }

    /// Leave out of a question what does not fit and what adds nothing.
    fn affordable(&self, question: &mut Question, left: f64) -> Undecided {
        let Groupwise { prices, .. } = self.task.problem;
        let comes = prices.comers(&question.held, &question.groups, left, &mut question.out);
        let each = question.groups.iter().zip(&question.shares).zip(comes);
        let (groups, shares): (Vec<usize>, Vec<f64>) =
            each.filter_map(|((&group, &share), comes)| comes.then_some((group, share))).unzip();
        let rest = self.task.problem.undecided(&question.held, &groups);
        // They are in the same order.
        let mut each = groups.into_iter().zip(shares);
        let kept = rest.groups.iter().filter_map(|group| each.find(|(other, _)| other == group));
        question.shares = kept.map(|(_, share)| share).collect();
        question.groups.clone_from(&rest.groups);
        rest
    }

    /// The groups of the largest shares that fit.
    fn rounded(&self, question: &Question, tangent: &Tangent) -> Vec<usize> {
        let prices = self.task.problem.prices;
        let mut held = question.held.clone();
        let mut spent = prices.spent(held.iter().copied());
        let mut order: Vec<usize> = (0..question.groups.len()).collect();
        let Tangent { shares, slope, .. } = tangent;
        order.sort_by(|&a, &b| shares[b].total_cmp(&shares[a]).then(slope[b].total_cmp(&slope[a])));
        let mut offers = prices.offers(&self.waiting(&held));
        for group in order.into_iter().map(|at| question.groups[at]) {
            if held.contains(&group) || !offers.is_open(group) {
                continue;
            }
            if spent + offers.costs[group] <= self.limit() {
                spent += offers.costs[group];
                held.extend(prices.with_needs(group, &self.waiting(&held)));
                if !prices.are_sums() {
                    offers = prices.offers(&self.waiting(&held));
                }
            }
        }
        held
    }

    /// Take a set, and what exchanges make of it, if it is better than the best.
    fn offer(&self, groups: &[usize], best: &mut Best, goes_on: &mut GoesOn) {
        let Task { empty, problem, always, .. } = self.task;
        let mut state = with(empty, groups);
        if state.explained() > best.value {
            let budget = Some(self.budget);
            let limits = Limits { prices: problem.prices, budget, most: None, always };
            improve(&mut state, &limits, goes_on);
            (best.value, best.groups) = (state.explained(), Some(held(&state)));
        }
    }
}

/// The least bound of some tangents, the last one, and the groups they decide.
struct Relaxed {
    bound: f64,
    last: Tangent,
    inside: Vec<bool>,
    outside: Vec<bool>,
}

/// `budgets` are costs of the groups with what they may come to; those that all keep to say nothing.
fn relaxed(
    rest: &mut Undecided,
    budgets: Vec<(Vec<f64>, f64)>,
    shares: &[f64],
    target: f64,
) -> Relaxed {
    let size = rest.groups.len();
    let last = Tangent {
        shares: shares.to_vec(),
        value: 0.0,
        bound: rest.value,
        slope: vec![0.0; size],
        excess: vec![0.0; size],
    };
    let nobody = || vec![false; size];
    let mut found = Relaxed { bound: rest.value, last, inside: nobody(), outside: nobody() };
    let mut is_unguided = true;
    for (costs, budget) in budgets {
        if costs.iter().sum::<f64>() <= budget || found.bound <= target {
            continue;
        }
        rest.costs = costs;
        let is_first = std::mem::take(&mut is_unguided);
        for tangent in rest.tangents(budget, shares).take(TANGENTS) {
            for (at, excess) in tangent.excess.iter().enumerate() {
                let is_sure = tangent.bound - excess.abs() <= target;
                found.inside[at] |= is_sure && *excess > 0.0;
                found.outside[at] |= is_sure && *excess < 0.0;
            }
            let is_settled =
                tangent.bound - tangent.value < SETTLED_SHARE * (tangent.bound - target);
            // Of several budgets, the one that says most guides the search.
            let is_guide = is_first || tangent.bound <= found.bound;
            found.bound = found.bound.min(tangent.bound);
            if is_guide {
                found.last = tangent;
            }
            let is_decided = found.inside.contains(&true) || found.outside.contains(&true);
            if found.bound <= target || (is_settled && !is_decided) {
                break;
            }
        }
    }
    found
}

/// The place of the group whose decision is likely to lower the bounds most.
///
/// Groups that take part in a dependence have no bound of their own, so they come first; where no
/// budget binds, rivals do.
fn most_open(rest: &Undecided, tangent: &Tangent, rivals: &[usize]) -> usize {
    let open = |share: f64, slope: f64| share.min(1.0 - share) * slope;
    let of_parts = |is: &dyn Fn(usize) -> bool| -> Vec<f64> {
        let parts = rest.parts().into_iter().enumerate();
        parts.map(|(at, part)| if is(at) { part.abs() } else { -1.0 }).collect()
    };
    let worth: Vec<f64> = if rest.entangled.contains(&true) {
        of_parts(&|at| rest.entangled[at])
    } else if tangent.slope.iter().all(|slope| *slope == 0.0) {
        of_parts(&|at| rivals.is_empty() || rivals.contains(&rest.groups[at]))
    } else {
        let both = tangent.shares.iter().zip(&tangent.slope);
        both.map(|(share, slope)| open(*share, *slope)).collect()
    };
    // The first of those that tie.
    let most = |best: usize, at: usize| if worth[at] > worth[best] { at } else { best };
    (0..worth.len()).fold(0, most)
}

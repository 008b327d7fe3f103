//! Stepwise search by a criterion: the best of all single additions and removals, while one helps.
//!
//! ```text
//! repeat:
//!     of every group that may come or go, take the move with the lowest criterion(S after it)
//! until no move lowers the criterion
//! ```
//!
//! A criterion charges for parameters, and how many a group brings depends on what is held: the
//! last level of a category is no new one. What a move can reach at best is known from gains and
//! losses; moves are tried in that order, and only as long as one may still be the best.
//!
//! A group comes with those that it needs, and goes with those that need it: they are one move.
//!
//! Source: Venables, Ripley (2002), Modern Applied Statistics with S, section 6.8; R's `step`.

use std::f64::consts::PI;

use super::moves::{company, moved, spent, together};
use crate::linear::prices::Prices;
use crate::linear::problem::Gram;
use crate::linear::state::State;
use crate::record::prefix::fits;
use crate::search::steps::{Action, Choice, Interrupted, ROUNDING_GAIN, Record, Step, Stop};

/// Falls of a criterion below this are rounding; R's `step` has the same.
const LEAST_FALL: f64 = 1e-7;

/// What `step` lowers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Information {
    /// Akaike's criterion: 2 a parameter.
    #[default]
    Aic,
    /// Schwarz's criterion: the logarithm of the rows a parameter.
    Bic,
}

/// Which moves `step` makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// Additions and removals.
    #[default]
    Both,
    /// Additions only.
    Forward,
    /// Removals only.
    Backward,
}

/// A criterion of a set of groups: the lower the better.
#[derive(Clone, Copy, Debug)]
pub struct Judge {
    rows: f64,
    /// Sum of the squares of the target.
    total: f64,
    /// What a parameter costs.
    price: f64,
    /// Parameters of the model without columns.
    none: f64,
}

impl Judge {
    /// The criterion of models of a target, given by its number; `intercept` is a parameter, and
    /// `penalty` the price of one in place of the criterion's.
    pub fn new(
        criterion: Information,
        penalty: Option<f64>,
        gram: &Gram,
        target: usize,
        intercept: bool,
    ) -> Judge {
        let rows = gram.rows as f64;
        let price = penalty.unwrap_or(match criterion {
            Information::Aic => 2.0,
            Information::Bic => rows.ln(),
        });
        let total = gram.comoment(target, target);
        Judge { rows, total, price, none: f64::from(u8::from(intercept)) }
    }

    /// -2 log-likelihood of normal errors whose variance is their own, and the parameters' price.
    fn of(&self, explained: f64, parameters: f64) -> f64 {
        if self.rows - parameters <= 0.0 {
            return f64::INFINITY;
        }
        let left = (1.0 - explained).max(ROUNDING_GAIN) * self.total;
        let loss = self.rows * ((2.0 * PI * left / self.rows).ln() + 1.0);
        loss + self.price * parameters
    }

    /// Of the constant term and each column that is not aliased; there is no ridge.
    fn parameters(&self, state: &State) -> f64 {
        self.none + state.support().len() as f64
    }

    fn judge(&self, state: &State) -> f64 {
        self.of(state.explained(), self.parameters(state))
    }
}

/// What bounds the moves.
#[derive(Clone, Copy, Debug)]
pub struct Limits<'l> {
    /// Which moves there are.
    pub direction: Direction,
    /// The summed cost.
    pub budget: Option<f64>,
    /// The number of moves after the start.
    pub max_steps: Option<usize>,
    /// Numbers of groups to take first, which stay.
    pub always: &'l [usize],
    /// Numbers of other groups to begin with.
    pub start: &'l [usize],
}

/// A group that may come or go.
#[derive(Clone, Copy)]
struct Move {
    /// No more than the criterion after it.
    bound: f64,
    action: Action,
    group: usize,
}

/// Add or remove the group that lowers the criterion most, until none does.
pub fn step(
    state: &mut State,
    prices: Prices,
    limits: Limits,
    judge: Judge,
    record: &mut Record,
) -> Stop {
    step_search(state, prices, limits, judge, record).unwrap_or(Stop::Interrupted)
}

fn step_search(
    state: &mut State,
    prices: Prices,
    limits: Limits,
    judge: Judge,
    record: &mut Record,
) -> Result<Stop, Interrupted> {
    let Limits { direction, budget, max_steps, always, start } = limits;
    let mut now = judge.judge(state);
    for &group in always.iter().chain(start) {
        now = take(state, judge, (Action::Add, group), Choice::Forced, now, record)?;
    }
    let mut steps = 0;
    while max_steps.is_none_or(|limit| steps < limit) {
        let mut moves = Vec::new();
        if direction != Direction::Forward {
            removals(state, prices, judge, always, &mut moves);
        }
        let mut is_beyond = false;
        if direction != Direction::Backward {
            let (held, offers) = (spent(state, prices), prices.offers(state.waiting()));
            for one in additions(state, prices, judge) {
                if !offers.is_open(one.group) {
                    continue;
                }
                if fits(held + offers.costs[one.group], budget) {
                    moves.push(one);
                } else {
                    is_beyond |= one.bound < now - LEAST_FALL;
                }
            }
        }
        let Some(best) = best_of(state, prices, judge, moves, now - LEAST_FALL) else {
            return Ok(if is_beyond { Stop::Budget } else { Stop::Threshold });
        };
        for group in company(prices, best.action, best.group, state.waiting()) {
            now = take(state, judge, (best.action, group), Choice::Free, now, record)?;
            steps += 1;
        }
    }
    Ok(Stop::Rounds)
}

/// Make a move, and return the criterion after it; the score of the step is the fall.
fn take(
    state: &mut State,
    judge: Judge,
    (action, group): (Action, usize),
    choice: Choice,
    before: f64,
    record: &mut Record,
) -> Result<f64, Interrupted> {
    let gain = moved(state, action, group);
    let now = judge.judge(state);
    let explained = state.explained();
    record(Step { action, group, score: before - now, gain, explained, choice }, state)?;
    Ok(now)
}

/// The groups that may come; a gain takes one parameter at least.
fn additions(state: &mut State, prices: Prices, judge: Judge) -> Vec<Move> {
    let mut gains = Vec::new();
    together(state, prices, Action::Add, &mut |state, all| state.gains(all), &mut gains);
    let (parameters, explained) = (judge.parameters(state), state.explained());
    let waiting = state.waiting().iter().zip(gains).enumerate();
    let gaining = waiting.filter(|(_, (waits, gain))| **waits && *gain > ROUNDING_GAIN);
    let addition = |(group, (_, gain)): (usize, (_, f64))| Move {
        bound: judge.of(explained + gain, parameters + 1.0),
        action: Action::Add,
        group,
    };
    gaining.map(addition).collect()
}

/// Append the groups that may go; none frees more parameters than it has columns, with those that
/// need it.
fn removals(
    state: &mut State,
    prices: Prices,
    judge: Judge,
    always: &[usize],
    moves: &mut Vec<Move>,
) {
    let mut losses = Vec::new();
    together(state, prices, Action::Remove, &mut |state, all| state.losses(all), &mut losses);
    let (parameters, explained) = (judge.parameters(state), state.explained());
    for group in (0..state.size()).filter(|group| !state.waiting()[*group]) {
        if !always.contains(&group) {
            let going = prices.with_dependents(group, state.waiting());
            let freed: usize = going.into_iter().map(|group| state.columns(group).len()).sum();
            let left = (parameters - freed as f64).max(0.0);
            let bound = judge.of(explained - losses[group], left);
            moves.push(Move { bound, action: Action::Remove, group });
        }
    }
}

/// The move after which the criterion is lowest; nothing if none gets it below a limit.
fn best_of(
    state: &State,
    prices: Prices,
    judge: Judge,
    mut moves: Vec<Move>,
    mut below: f64,
) -> Option<Move> {
    // Stable: of moves that promise the same, the one listed first is tried first.
    moves.sort_by(|a, b| a.bound.total_cmp(&b.bound));
    let mut best = None;
    for one in moves {
        let may_be_best = one.bound < below;
        if !may_be_best {
            break;
        }
        let mut trial = state.clone();
        for group in company(prices, one.action, one.group, state.waiting()) {
            moved(&mut trial, one.action, group);
        }
        let reached = judge.judge(&trial);
        if reached.is_finite() && reached < below {
            (best, below) = (Some(one), reached);
        }
    }
    best
}

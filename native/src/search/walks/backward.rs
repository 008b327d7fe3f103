//! Backward elimination: from all groups down, the least useful one each time.
//!
//! ```text
//! while some group may go:
//!     remove the group with the smallest loss(g | S) / cost(g), after those that need it
//! ```
//!
//! Source: Zhang (2008), section 2.

use super::moves::{held, spent};
use super::removal::{Usefulness, least_useful, removals};
use crate::linear::prices::Prices;
use crate::linear::state::State;
use crate::record::prefix::fits;
use crate::search::steps::{Interrupted, Record, Stop};

/// What bounds the removals.
#[derive(Clone, Copy, Debug)]
pub struct Limits<'l> {
    /// What is held may cost; without it nothing is held in the end.
    pub budget: Option<f64>,
    /// The number of removals.
    pub max_steps: Option<usize>,
    /// What makes a selected group the least useful one.
    pub usefulness: Usefulness,
    /// Numbers of groups that stay.
    pub always: &'l [usize],
}

/// Remove groups until only those that stay are left, or the rest fits a budget.
pub fn backward_search(
    state: &mut State,
    prices: Prices,
    limits: Limits,
    record: &mut Record,
) -> Result<Stop, Interrupted> {
    let mut steps = 0;
    while state.held().len() > limits.always.len() {
        if limits.budget.is_some() && fits(spent(state, prices), limits.budget) {
            return Ok(Stop::Budget);
        }
        if limits.max_steps.is_some_and(|most| steps >= most) {
            return Ok(Stop::Rounds);
        }
        let Some((group, worth)) = least_useful(state, prices, limits.usefulness, limits.always)
        else {
            break;
        };
        steps += removals(state, prices, group, worth, record)?;
    }
    Ok(Stop::Empty)
}

/// Groups in the order to take them for an elimination: all, behind those that stay.
///
/// Of rivals, and beyond limits, the least useful are left out, as an elimination would.
pub fn begin(state: &State, prices: Prices, always: &[usize]) -> Vec<usize> {
    let rest = (0..prices.costs.len()).filter(|group| !always.contains(group));
    let order = prices.closed(&always.iter().copied().chain(rest).collect::<Vec<_>>());
    if prices.may_hold(&order) {
        return order;
    }
    let mut all = state.clone();
    order.iter().for_each(|&group| _ = all.add(group));
    loop {
        let groups = held(&all);
        if prices.may_hold(&groups) {
            return order.into_iter().filter(|group| groups.contains(group)).collect();
        }
        let rivals = prices.rivals(&groups);
        let stays = |group: &usize| !rivals.is_empty() && !rivals.contains(group);
        let kept: Vec<usize> =
            always.iter().copied().chain(groups.into_iter().filter(stays)).collect();
        let found = least_useful(&mut all, prices, Usefulness::Loss, &kept);
        let Some((group, _)) = found else { return always.to_vec() };
        super::moves::give(&mut all, prices, group);
    }
}

//! Backward elimination: from all groups down, the least useful one each time.
//!
//! ```text
//! while some group may go:
//!     remove the group with the smallest loss(g | S) / cost(g)
//! ```
//!
//! Source: Zhang (2008), section 2.

use super::removal::{Usefulness, held_cost, least_useful, removal};
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
    costs: &[f64],
    limits: Limits,
    record: &mut Record,
) -> Result<Stop, Interrupted> {
    let mut steps = 0;
    while state.held().len() > limits.always.len() {
        if limits.budget.is_some() && fits(held_cost(state, costs), limits.budget) {
            return Ok(Stop::Budget);
        }
        if limits.max_steps == Some(steps) {
            return Ok(Stop::Rounds);
        }
        let Some((group, worth)) = least_useful(state, costs, limits.usefulness, limits.always)
        else {
            break;
        };
        let step = removal(state, group, worth);
        record(step, state)?;
        steps += 1;
    }
    Ok(Stop::Empty)
}

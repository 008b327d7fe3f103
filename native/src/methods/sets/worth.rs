//! The highest price at which each group is bought where explained variance has a worth.
//!
//! The prefixes of an order are compared by worth less cost. A group, wherever it stands in the
//! order, is bought up to what the best prefix that has it for nothing is worth above the best one
//! without it and without those that need it.

use crate::linear::prices::Prices;
use crate::linear::state::State;
use crate::words::value::Value;

/// What `worth` is of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Per {
    /// The whole variance of the target.
    Explained,
    /// A unit of the root mean squared error.
    Rmse,
}

impl Per {
    /// Read one by the name that users give.
    pub fn of(name: &Value) -> Option<Per> {
        match name {
            Value::Text(name) if name == "explained" => Some(Per::Explained),
            Value::Text(name) if name == "rmse" => Some(Per::Rmse),
            _ => None,
        }
    }

    /// What an explained share is worth; `spread` is the deviation of the target.
    pub fn value(self, worth: f64, spread: f64) -> impl Fn(f64) -> f64 {
        move |explained| match self {
            Per::Explained => worth * explained.min(1.0),
            Per::Rmse => worth * spread * (1.0 - (1.0 - explained).max(0.0).sqrt()),
        }
    }
}

/// The price of each group, by the prefixes of `order`, of which those shorter than its first
/// `least` groups are none.
///
/// O(J) searches of O(D^3).
pub fn prices_at_worth(
    empty: &State,
    prices: Prices,
    order: &[usize],
    least: usize,
    value: impl Fn(f64) -> f64,
) -> Vec<f64> {
    let price = |group: usize| {
        let (mut state, mut gains) = (empty.clone(), Vec::new());
        let (mut without, mut beside) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
        let stays = |&other: &usize| !prices.closed(&[other]).contains(&group);
        let others: Vec<usize> = order.iter().copied().filter(stays).collect();
        let forced = order[..least].iter().filter(|&one| stays(one)).count();
        for at in 0..=others.len() {
            if at > 0 {
                state.add(others[at - 1]);
            }
            if at < forced {
                continue;
            }
            let held = &others[..at];
            let spent = prices.spent(held.iter().copied());
            without = without.max(value(state.explained()) - spent);
            let with = [held, &[group]].concat();
            if prices.allows(&with) {
                state.gains(&mut gains);
                let rest = prices.spent(with) - prices.costs[group];
                beside = beside.max(value(state.explained() + gains[group]) - rest);
            }
        }
        (beside - without).max(0.0)
    };
    (0..prices.costs.len()).map(price).collect()
}

//! What a search writes down: the groups it took or gave back, and why it ended.
//!
//! The twin of `dbselect/record/steps.py`.

use crate::linear::state::State;

/// A gain below this share of the target's variance is rounding, not explanation.
pub const ROUNDING_GAIN: f64 = 1e-14;

/// Why a sequence ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stop {
    /// Every group is in the sequence.
    #[default]
    Exhausted,
    /// No other group fits the budget.
    Budget,
    /// `max_groups` was reached.
    Steps,
    /// `max_steps` was reached.
    Rounds,
    /// No other group gains enough.
    Threshold,
    /// No group is left to remove.
    Empty,
    /// Whoever followed the search ended it.
    Interrupted,
    /// It has as many coefficients as rows, which fit any target, whatever else was left.
    Saturated,
    /// Groups in the sequence, or limits of further units, keep out all that are left.
    Excluded,
}

impl Stop {
    /// Names by number, as Python writes them.
    pub const NAMES: [&str; 9] = [
        "EXHAUSTED",
        "BUDGET",
        "MAX_GROUPS",
        "MAX_STEPS",
        "THRESHOLD",
        "EMPTY",
        "INTERRUPTED",
        "SATURATED",
        "EXCLUDED",
    ];
}

/// Among which groups a step chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// All that were left.
    Free,
    /// Those within the budget, or the cost limit of the rule.
    Limited,
    /// The cheapest, as none was within the cost limit of the rule.
    Cheapest,
    /// The one named by the caller.
    Forced,
}

impl Choice {
    /// Names by number, as Python writes them.
    pub const NAMES: [&str; 4] = ["FREE", "LIMITED", "CHEAPEST", "FORCED"];
}

/// Whether a group was taken or given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Taken.
    Add,
    /// Given back.
    Remove,
}

/// One group added or removed, as the search saw it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// What was done.
    pub action: Action,
    /// Number of the group.
    pub group: usize,
    /// What the rule maximised.
    pub score: f64,
    /// Change of `explained`.
    pub gain: f64,
    /// Share of the target's variance explained after the step.
    pub explained: f64,
    /// Among which groups it was chosen.
    pub choice: Choice,
}

impl Step {
    /// Whether the change of what is explained is above rounding.
    pub fn is_useful(&self) -> bool {
        self.gain.abs() > ROUNDING_GAIN
    }
}

/// That a search ends with the step just made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted;

/// Takes every step of a search, as soon as the state has made it.
pub type Record<'r> = dyn FnMut(Step, &mut State) -> Result<(), Interrupted> + 'r;

/// Hears of every step once it is written down, and answers whether the search goes on.
pub type Turn<'t> = dyn FnMut(&Step) -> bool + 't;

/// The turn of a search that nobody follows.
pub fn to_the_end(_: &Step) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_name() {
        assert_eq!(Stop::NAMES[Stop::Excluded as usize], "EXCLUDED");
        assert_eq!(Choice::NAMES[Choice::Forced as usize], "FORCED");
    }
}

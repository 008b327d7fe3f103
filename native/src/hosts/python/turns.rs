//! A search that calls Python back after every step.

use crate::search::steps::{Action, Step};

/// A step, and the answer to it.
///
/// All fields are numbers, so that no byte that comes back can be a value that Rust forbids.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// Number of the group, in the order of the record's groups.
    pub group: usize,
    /// Share of the target's variance explained after the step.
    pub explained: f64,
    /// 1 for a group that was added, 0 for one given back.
    pub is_added: u8,
    /// Whether the search goes on; 0 unless the function says otherwise.
    pub goes_on: u8,
}

/// Called after every step. The answer is a field and not the result, as ctypes leaves the result
/// undefined where Python raises.
pub type OnTurn = unsafe extern "C" fn(*mut Turn);

/// Call a function after every step.
///
/// # Safety
/// `on_turn` can be called on this thread as long as the closure lives; it writes nothing but
/// the turn that it is given, and keeps no pointer to it.
pub unsafe fn calling(on_turn: OnTurn) -> impl FnMut(&Step) -> bool {
    move |step| {
        let mut turn = Turn {
            group: step.group,
            explained: step.explained,
            is_added: (step.action == Action::Add).into(),
            goes_on: 0,
        };
        // SAFETY: the function can be called, see the caller's promise. The turn lives until it
        // returns, and nothing else refers to it. An exception cannot unwind from there to here:
        // `extern "C"` would end the process, and ctypes lets none out.
        unsafe { on_turn(&mut turn) };
        turn.goes_on != 0
    }
}

/// Call a function after every turn that is no step: of no group.
///
/// # Safety
/// As `calling`.
pub unsafe fn following(on_turn: OnTurn) -> impl FnMut(Option<f64>) -> bool {
    move |explained| {
        let explained = explained.unwrap_or(f64::NAN);
        let mut turn = Turn { group: 0, explained, is_added: 0, goes_on: 0 };
        // SAFETY: as in `calling`.
        unsafe { on_turn(&mut turn) };
        turn.goes_on != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::steps::Choice;

    /// Goes on after group 7 was added with half explained, and after nothing else.
    unsafe extern "C" fn after_seven(turn: *mut Turn) {
        // SAFETY: `calling` gives a turn that is alive.
        let turn = unsafe { &mut *turn };
        if (turn.group, turn.explained, turn.is_added) == (7, 0.5, 1) {
            turn.goes_on = 1;
        }
    }

    #[test]
    fn a_function_that_does_not_answer_ends_the_search() {
        // SAFETY: the function lives as long as the program and writes the turn only.
        let mut turn = unsafe { calling(after_seven) };
        let (action, choice) = (Action::Add, Choice::Free);
        let step = Step { action, group: 7, score: 1.0, gain: 0.1, explained: 0.5, choice };
        assert!(turn(&step));
        assert!(!turn(&Step { group: 8, ..step }));
        assert!(!turn(&Step { action: Action::Remove, ..step }));
    }
}

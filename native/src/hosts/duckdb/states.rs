//! The states that DuckDB hands to an update: one a row, or one for all rows.
//!
//! Before 2.0, DuckDB passes a constant vector of states as if it were flat in two places: where
//! it sorts, `gram(row ORDER BY x)`, and in a window over whole partitions, `gram(row) OVER
//! (PARTITION BY k)` (`SortedAggregateFunction::Finalize`, `WindowConstantAggregator` and
//! `CAPIAggregateUpdate` in its source). The array has one element then, whatever the number of
//! rows; nothing in the call says so, and a read behind that element ends the process. What says
//! so is how the states were begun:
//!
//! - A sort, and a window of one partition, ask for the size of a state and then begin one. So a
//!   first state after such a question takes all rows, for as long as the thread begins no other
//!   one. This also holds of a table of groups that has one group so far.
//! - A window begins its states in one array, with no gap between them. `SIZE` is no multiple of
//!   8, to which a table of groups aligns its states, so that those are never in such a row. An
//!   update then has a state a row if they are all in that row: an element that DuckDB did not
//!   write is none of them. A flat array begins at a multiple of 16, so that the element after
//!   the first one is always in memory.
//! - All others have a state a row.
//!
//! A thread that asks for the size has no table of groups half done: DuckDB plans a query before
//! it runs it.

pub mod budget;
pub mod slot;

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

pub use self::slot::{SIZE, Slot};
use super::api::State;

/// What the arrays of DuckDB's flat vectors are aligned to.
const ALIGNED: usize = 16;

/// States are destroyed, and what they point to.
///
/// # Safety
/// `n` initialised states, which hold values of type `T`.
pub unsafe fn drop_all<T>(states: *mut State, n: u64) {
    // SAFETY: `n` states.
    unsafe { destroyed(states, n) };
    for i in 0..n as usize {
        // SAFETY: see the caller's promise.
        unsafe { Slot::<T>::of(*states.add(i)).clear() };
    }
}

/// States that were begun one after the other in one array.
struct Row {
    first: usize,
    n: usize,
    /// What began it.
    thread: usize,
    /// Whether it had rows.
    used: bool,
}

impl Row {
    fn holds(&self, state: usize) -> bool {
        (self.first..self.first + self.n * SIZE).contains(&state)
    }
}

/// What a thread did last.
#[derive(Clone, Copy)]
struct Last {
    /// The size was asked for, and nothing begun since.
    sized: bool,
    /// The state that was just destroyed, by itself.
    destroyed: usize,
    /// The states begun in a row.
    first: usize,
    n: usize,
}

thread_local! {
    static LAST: Cell<Last> =
        const { Cell::new(Last { sized: false, destroyed: 0, first: 0, n: 0 }) };
}

static ROWS: Mutex<Vec<Row>> = Mutex::new(Vec::new());
/// The length of `ROWS`, read without its lock.
static N_ROWS: AtomicUsize = AtomicUsize::new(0);
/// Whether this DuckDB always passes a state a row.
static FLAT: AtomicBool = AtomicBool::new(false);

/// From here on, each update has a state a row.
pub fn set_flat() {
    FLAT.store(true, Ordering::Relaxed);
}

fn with_rows<T>(work: impl FnOnce(&mut Vec<Row>) -> T) -> T {
    let mut rows = ROWS.lock().unwrap_or_else(PoisonError::into_inner);
    let found = work(&mut rows);
    N_ROWS.store(rows.len(), Ordering::Release);
    found
}

fn any_rows() -> bool {
    N_ROWS.load(Ordering::Acquire) > 0
}

/// A number of this thread.
fn thread() -> usize {
    LAST.with(|last| std::ptr::from_ref(last).addr())
}

/// DuckDB asks for the size of a state.
pub fn sized() {
    LAST.set(Last { sized: true, destroyed: 0, ..LAST.get() });
    if any_rows() {
        let own = thread();
        with_rows(|rows| rows.retain(|row| !(row.n == 1 && row.used && row.thread == own)));
    }
}

/// A state begins.
pub fn begun(state: State) {
    if FLAT.load(Ordering::Relaxed) {
        return;
    }
    let (state, last) = (state.addr(), LAST.get());
    let follows = !last.sized && last.n > 0 && state == last.first + last.n * SIZE;
    let (first, n) = if follows { (last.first, last.n + 1) } else { (state, 1) };
    LAST.set(Last { sized: false, destroyed: 0, first, n });
    let is_row = follows || last.sized || last.destroyed == state;
    if !is_row && !any_rows() {
        return;
    }
    let own = thread();
    with_rows(|rows| {
        // Its memory had other states, or a second state follows a lone one elsewhere.
        let elsewhere = !is_row && last.n == 1;
        rows.retain(|row| {
            let is_lone = row.n == 1 && row.first == last.first && row.thread == own;
            !(row.holds(state) || elsewhere && is_lone)
        });
        match rows.iter_mut().find(|row| follows && row.first == first) {
            Some(row) => row.n = n,
            None if is_row => rows.push(Row { first, n, thread: own, used: false }),
            None => {}
        }
    });
}

/// States are destroyed.
///
/// # Safety
/// `n` states.
unsafe fn destroyed(states: *const State, n: u64) {
    if n == 0 || FLAT.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: see the caller's promise.
    let first = unsafe { *states }.addr();
    LAST.set(Last { sized: false, destroyed: if n == 1 { first } else { 0 }, first: 0, n: 0 });
    if any_rows() {
        with_rows(|rows| rows.retain(|row| !row.holds(first)));
    }
}

/// The states of the rows of one update.
#[derive(Clone, Copy)]
pub struct States {
    first: *const State,
    one: bool,
}

impl States {
    /// # Safety
    /// What DuckDB passes to an update of so many rows, at least one.
    pub unsafe fn of_update(first: *const State, rows: usize) -> Self {
        let mut one = false;
        if any_rows() {
            // SAFETY: there is a first element.
            let state = unsafe { *first }.addr();
            let own = thread();
            one = with_rows(|known| {
                let Some(row) = known.iter_mut().find(|row| row.holds(state)) else {
                    return false;
                };
                row.used = true;
                if row.n == 1 {
                    return row.thread == own;
                }
                let is_own =
                    |state: usize| row.holds(state) && (state - row.first).is_multiple_of(SIZE);
                // SAFETY: the element behind the first is in memory where that is aligned, and
                // those behind it are read only after a state that DuckDB wrote.
                let at = |index: usize| unsafe { first.add(index).read() }.addr();
                !first.addr().is_multiple_of(ALIGNED) || !(1..rows).all(|index| is_own(at(index)))
            });
        }
        Self { first, one }
    }

    /// The state of a row.
    ///
    /// # Safety
    /// `row` is below the number of rows of the update.
    pub unsafe fn at(self, row: usize) -> State {
        // SAFETY: one element at least, and one a row unless there is one for all.
        unsafe { *self.first.add(if self.one { 0 } else { row }) }
    }

    /// Whether all rows are of one state.
    ///
    /// # Safety
    /// There are so many rows.
    pub unsafe fn are_one(self, rows: usize) -> bool {
        // SAFETY: see the caller's promise.
        self.one || (1..rows).all(|row| unsafe { self.at(row) == self.at(0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Arrays as aligned as DuckDB's, each for one test.
    #[repr(align(16))]
    struct Aligned([State; 4]);

    fn state(n: usize) -> State {
        std::ptr::without_provenance_mut(n)
    }

    /// Whether an update of four rows takes its first state for all of them.
    fn takes_one(states: [usize; 4]) -> bool {
        let states = Aligned(states.map(state));
        // SAFETY: four states.
        unsafe { States::of_update(states.0.as_ptr(), 4).one }
    }

    fn destroy(one: usize) {
        // SAFETY: one state.
        unsafe { destroyed(&state(one), 1) };
    }

    #[test]
    fn a_sort_has_one_state_for_all_rows_of_each_group() {
        const AT: usize = 1 << 20;
        sized();
        for _ in 0..3 {
            begun(state(AT));
            assert!(takes_one([AT, 1, 2, 3]) && takes_one([AT, 1, 2, 3]));
            destroy(AT);
        }
        assert!(!takes_one([AT, 1, 2, 3]));
    }

    #[test]
    fn groups_in_a_table_have_a_state_a_row() {
        const AT: usize = 2 << 20;
        sized();
        begun(state(AT));
        assert!(takes_one([AT; 4]));
        begun(state(AT + 16));
        assert!(!takes_one([AT, AT + 16, AT, AT]) && !takes_one([AT + 16, AT, AT, AT]));
        begun(state(AT + 64));
        assert!(!takes_one([AT, AT + 16, AT + 64, AT]));
        [AT, AT + 16, AT + 64].into_iter().for_each(destroy);
    }

    #[test]
    fn a_window_has_a_state_a_row_where_all_are_its_own() {
        const AT: usize = 3 << 20;
        sized();
        (0..3).for_each(|i| begun(state(AT + i * SIZE)));
        let own = |i: usize| AT + i * SIZE;
        assert!(!takes_one([own(0), own(0), own(1), own(2)]));
        for other in [7, own(3), own(1) + 4] {
            assert!(takes_one([own(1), other, own(1), own(1)]));
            assert!(takes_one([own(1), own(1), own(1), other]));
        }
        destroy(AT);
        assert!(!takes_one([own(1), 7, own(1), own(1)]));
    }

    #[test]
    fn windows_of_one_partition_do_not_end_each_other() {
        const AT: usize = 4 << 20;
        for at in [AT, AT + 100] {
            sized();
            begun(state(at));
        }
        assert!(takes_one([AT, 1, 2, 3]) && takes_one([AT + 100, 1, 2, 3]));
        sized();
        assert!(!takes_one([AT, 1, 2, 3]));
        [AT, AT + 100].into_iter().for_each(destroy);
    }
}

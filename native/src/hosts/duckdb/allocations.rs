//! One budget for the sequences of a table, as a scalar function of a list of them.

use std::slice;

use super::answers::write;
use super::api::{self, Handle};
use super::scalar_guard;
use super::values::Values;
use super::vectors::{ListEntry, Vector};
use crate::methods::answer::{Cell, Type};
use crate::search::allocation::{Segment, allocate};

/// Sequences of a table, without NULLs.
pub static GATHERED: Type = Type::List(&Type::Struct(&[
    ("n", Type::Whole),
    ("rows", Type::Number),
    ("worth", Type::Number),
    ("spent", Type::List(&Type::Number)),
    ("explained", Type::List(&Type::Number)),
]));
/// The number of each row of the table, and what is taken of its sequence.
static OF_ROWS: Type = Type::Struct(&[
    ("n", Type::Whole),
    ("step", Type::Whole),
    ("spent", Type::Number),
    ("explained", Type::Number),
]);
/// What all of them come to, and each.
pub static FOUND: Type = Type::Struct(&[
    ("value", Type::Number),
    ("spent", Type::Number),
    ("bound", Type::Number),
    ("chosen", Type::List(&OF_ROWS)),
]);

/// `dbselect_allocate(segments, budget)`, behind the macros `dbselect.allocate` and
/// `dbselect.allocation`, which gather them.
pub unsafe extern "C" fn allocate_budget(info: Handle, chunk: Handle, out: Handle) {
    scalar_guard(info, "allocate", || {
        // SAFETY: a live chunk of the registered types and an output of lists.
        unsafe {
            let count = api::duckdb_data_chunk_get_size(chunk) as usize;
            let (lists, out) = (Vector::of_chunk(chunk, 0), Vector::output(out));
            let budgets = Values::of(Vector::of_chunk(chunk, 1), count)?;
            for row in 0..count {
                let given = budgets.at(row);
                let budget = given.number().ok_or_else(|| {
                    format!(
                        "budget is {given}; it must be a number >= 0, the average cost of a row"
                    )
                })?;
                let found = match lists.is_null(row) {
                    true => Cell::Null, // A table of no rows.
                    false => found(lists, lists.get(row), budget)?,
                };
                write(&FOUND, out, row, &found);
            }
        }
        Ok(())
    });
}

/// # Safety
/// A live vector of the registered type that has the entry.
unsafe fn found(lists: Vector, entry: ListEntry, budget: f64) -> Result<Cell<'static>, String> {
    let items = lists.elements();
    let [numbers, rows, worth, spent, explained] = [0, 1, 2, 3, 4].map(|at| items.child(at));
    let mut places: Vec<usize> = entry.range().collect();
    // SAFETY: see the caller's promise; slices of elements that lists have.
    let segments: Vec<Segment> = unsafe {
        let list = |of: Vector, at: usize| {
            let range = of.get::<ListEntry>(at).range();
            match range.is_empty() {
                true => &[][..], // It may come without data.
                false => {
                    slice::from_raw_parts(of.elements().data::<f64>().add(range.start), range.len())
                }
            }
        };
        let segment = |at: usize| Segment {
            rows: rows.get(at),
            worth: worth.get(at),
            spent: list(spent, at),
            explained: list(explained, at),
        };
        // The list has no order of its own; equal slopes and errors go by the table's.
        places.sort_unstable_by_key(|&at| numbers.get::<i64>(at));
        places.iter().map(|&at| segment(at)).collect()
    };
    let found = allocate(&segments, budget)?;
    let cell = |((at, segment), step): ((usize, &Segment), Option<usize>)| {
        let of = |values: &[f64]| Cell::Number(step.map_or(0.0, |step| values[step]));
        // SAFETY: as above.
        let number = Cell::Whole(unsafe { numbers.get::<i64>(at) });
        let step = step.map_or(Cell::Null, |step| Cell::Whole(step as i64));
        Cell::List(vec![number, step, of(segment.spent), of(segment.explained)])
    };
    let chosen = places.into_iter().zip(&segments).zip(found.steps).map(cell).collect();
    let totals = [found.value, found.spent, found.bound].map(Cell::Number);
    Ok(Cell::List(totals.into_iter().chain([Cell::List(chosen)]).collect()))
}

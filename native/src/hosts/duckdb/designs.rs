//! Which rows to observe, as a scalar function of a list of rows.

use super::answers::write;
use super::api::{self, Handle, type_id};
use super::scalar_guard;
use super::table::leaves;
use super::values::Values;
use super::vectors::{ListEntry, Vector};
use crate::methods::answer::{Cell, Type};
use crate::search::design::candidates::{Asked, Candidates};

const NAME: &str = "a_optimal";
/// Places of rows in their list.
pub static PLACES: Type = Type::List(&Type::Whole);

/// `dbselect_a_optimal(candidates, k, beta2, sigma2, scale_rows)`: places in the list, counted
/// from 1, of rows that are chosen, in their order; NULL without a list.
///
/// Candidates are a LIST of STRUCT(key, row), as the macro `dbselect.a_optimal` gathers them.
pub unsafe extern "C" fn a_optimal(info: Handle, chunk: Handle, out: Handle) {
    scalar_guard(info, NAME, || {
        // SAFETY: a live chunk of the registered types and an output of lists.
        unsafe {
            let rows = api::duckdb_data_chunk_get_size(chunk) as usize;
            let (lists, out) = (Vector::of_chunk(chunk, 0), Vector::output(out));
            let value = |at| Values::of(Vector::of_chunk(chunk, at), rows);
            let [k, beta2, sigma2, scale] = [value(1)?, value(2)?, value(3)?, value(4)?];
            for row in 0..rows {
                let asked =
                    Asked::read(&k.at(row), &beta2.at(row), &sigma2.at(row), &scale.at(row))
                        .map_err(|error| error.message)?;
                let found = match lists.is_null(row) {
                    true => Cell::Null,
                    false => places(lists, lists.get(row), &asked)?,
                };
                write(&PLACES, out, row, &found);
            }
        }
        Ok(())
    });
}

/// # Safety
/// A live LIST vector that has the entry, or a vector of NULLs.
unsafe fn places(lists: Vector, entry: ListEntry, asked: &Asked) -> Result<Cell<'static>, String> {
    let must = "candidates must be a LIST of STRUCT(key, row), as dbselect.a_optimal gathers them";
    if lists.logical_type().id() != type_id::LIST {
        return Err(must.to_string());
    }
    let items = lists.elements();
    let item = items.logical_type();
    let is_struct = item.id() == type_id::STRUCT;
    let at = is_struct.then(|| item.fields().iter().position(|(name, _)| name == "row")).flatten();
    let row = items.child(at.ok_or(must)? as u64);
    let leaves = leaves(row)?.unwrap_or_default();
    for leaf in &leaves {
        match leaf.is_text() {
            true => {
                return Err(format!(
                    "column '{}' has type VARCHAR; cast it to a number",
                    leaf.name
                ));
            }
            false => leaf.check()?,
        }
    }
    let range = entry.range();
    // SAFETY: see the caller's promise; the types were checked.
    let columns: Vec<_> = leaves.iter().map(|leaf| unsafe { leaf.present(range.end) }).collect();
    let names = leaves.iter().map(|leaf| leaf.name.clone()).collect();
    let mut candidates = Candidates::new(names, asked);
    let whole = range.clone().filter(|&row| !columns.iter().any(|(_, none)| none.contains(row)));
    for row in whole.filter(|_| !columns.is_empty()) {
        let values = columns.iter().map(|(values, _)| values[row]);
        candidates.add(row - range.start, values).map_err(|error| error.message)?;
    }
    let places = candidates.choose(asked)?.into_iter();
    Ok(Cell::List(places.map(|at| Cell::Whole(at as i64 + 1)).collect()))
}

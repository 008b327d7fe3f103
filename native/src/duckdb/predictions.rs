//! Predictions of rows by sequences, as scalar functions.

use std::rc::Rc;

use super::api::{self, Handle, type_id};
use super::plans::Plans;
use super::scalar_guard;
use super::sequences::{self, Fields};
use super::table::{leaf, leaves};
use super::vectors::{ListEntry, Vector, text};
use crate::chunk::Missing;
use crate::inputs::Unknown;
use crate::prefix::{self, Plan};
use crate::search::nearest;

/// `anytime_predict(sequence, row [, budget] [, options])`; NULL without a sequence.
pub unsafe extern "C" fn predict(info: Handle, chunk: Handle, out: Handle) {
    scalar_guard(info, "anytime_predict", || {
        // SAFETY: a live chunk of the registered types and an output of predictions.
        unsafe {
            let mut told = Told::default();
            for at in 2..api::duckdb_data_chunk_get_column_count(chunk) {
                told.add(at, Vector::of_chunk(chunk, at))?;
            }
            predict_rows(chunk, out, &told)
        }
    });
}

/// `dbselect_predict(sequence, row, budget, handle_unknown)`.
pub unsafe extern "C" fn predict_told(info: Handle, chunk: Handle, out: Handle) {
    scalar_guard(info, "anytime_predict", || {
        // SAFETY: as above.
        unsafe {
            let (budget, unknown) = (Vector::of_chunk(chunk, 2), Vector::of_chunk(chunk, 3));
            predict_rows(chunk, out, &Told { budgets: vec![budget], unknowns: vec![unknown] })
        }
    });
}

/// What the caller says besides the row; NULL says nothing.
#[derive(Default)]
struct Told {
    budgets: Vec<Vector>,
    /// VARCHAR.
    unknowns: Vec<Vector>,
}

impl Told {
    /// Add argument `at`: a budget, or a STRUCT of what has these names.
    fn add(&mut self, at: u64, argument: Vector) -> Result<(), String> {
        let argument_type = argument.logical_type();
        if argument_type.id() != type_id::STRUCT {
            if at == 2 {
                self.budgets.push(argument);
                return Ok(());
            }
            return match argument_type.id() {
                type_id::SQLNULL => Ok(()),
                _ => Err("options must be a STRUCT, as {'handle_unknown': 'zero'}".to_string()),
            };
        }
        for (index, (name, field)) in argument_type.fields().into_iter().enumerate() {
            let value = argument.child(index as u64);
            match (&name.to_ascii_lowercase()[..], field.id()) {
                ("budget", _) => self.budgets.push(value),
                ("handle_unknown", type_id::VARCHAR) => self.unknowns.push(value),
                ("handle_unknown", type_id::SQLNULL) => {}
                ("handle_unknown", other) => {
                    let kind = type_id::name(other);
                    return Err(format!("handle_unknown has type {kind}; it must be text"));
                }
                _ => {
                    let names = ["budget", "handle_unknown"].map(str::to_string);
                    return Err(format!(
                        "anytime_predict has {}",
                        nearest::unknown_option(&name, &names)
                    ));
                }
            }
        }
        Ok(())
    }

    /// The budgets of some rows; without one there is no limit.
    ///
    /// # Safety
    /// The chunk is live and has that many rows.
    unsafe fn budgets(&self, rows: usize) -> Result<Vec<f64>, String> {
        let (mut found, mut is_given) = (vec![f64::INFINITY; rows], vec![false; rows]);
        for &vector in &self.budgets {
            let budget = leaf("budget", vector).map_err(|_| {
                let kind = type_id::name(vector.logical_type().id());
                format!("budget has type {kind}; it must be a number, or NULL for no limit")
            })?;
            let mut unlimited = Missing::none();
            // SAFETY: see the caller's promise; the type was checked.
            let numbers = unsafe {
                budget.mark_missing(rows, &mut unlimited);
                budget.doubles(rows)
            };
            let limits = prefix::limits(&numbers, &unlimited)?;
            let given = (0..rows).filter(|&row| !unlimited.contains(row));
            for row in given {
                if is_given[row] {
                    return Err("anytime_predict is given budget twice".to_string());
                }
                (found[row], is_given[row]) = (limits[row], true);
            }
        }
        Ok(found)
    }

    /// What becomes of a level that the fit has not seen.
    ///
    /// # Safety
    /// The chunk is live and has that row.
    unsafe fn unknown(&self, row: usize) -> Result<Unknown, String> {
        let last = self.unknowns.iter().rfind(|unknown| !unknown.is_null(row));
        // SAFETY: see the caller's promise; a VARCHAR that is not NULL.
        last.map_or(Ok(Unknown::default()), |unknown| unsafe { Unknown::of(&text(*unknown, row)) })
    }
}

/// Predict every row of a chunk.
///
/// # Safety
/// A live chunk of sequences and rows, and an output of predictions.
unsafe fn predict_rows(chunk: Handle, out: Handle, told: &Told) -> Result<(), String> {
    // SAFETY: see the caller's promise.
    unsafe {
        let rows = api::duckdb_data_chunk_get_size(chunk) as usize;
        let (sequences, out) = (Vector::of_chunk(chunk, 0), Vector::output(out));
        let is_nothing = |vector: Vector| vector.logical_type().id() == type_id::SQLNULL;
        if is_nothing(sequences) || is_nothing(sequences.elements()) {
            (0..rows).for_each(|row| sequences::write_prediction(out, row, None));
            return Ok(());
        }
        let leaves = leaves(Vector::of_chunk(chunk, 1))?;
        let columns: Vec<_> = leaves.iter().flatten().map(|leaf| leaf.input(rows)).collect();
        let budgets = told.budgets(rows)?;
        let fields = Fields::of(sequences);
        let mut plans = Plans::take(&columns, leaves.is_some());
        // Rows of a constant share its list entry.
        let mut last: Option<(ListEntry, Unknown, Rc<Plan>)> = None;
        for (row, &budget) in budgets.iter().enumerate() {
            let Some(entry) = sequences::sequence_entry(sequences, row) else {
                sequences::write_prediction(out, row, None);
                continue;
            };
            let unknown = told.unknown(row)?;
            let plan = match last.take().filter(|last| (last.0, last.1) == (entry, unknown)) {
                Some((_, _, plan)) => plan,
                None => plans.of(&fields, entry, &columns, unknown)?,
            };
            sequences::write_prediction(out, row, plan.predict(&columns, row, budget)?);
            last = Some((entry, unknown, plan));
        }
        plans.keep();
    }
    Ok(())
}

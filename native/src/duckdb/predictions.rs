//! Predictions of rows by sequences, as scalar functions.

use std::cell::Cell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::rc::Rc;

use super::api::{self, Handle, type_id};
use super::scalar_guard;
use super::sequences::{self, Stored};
use super::table::{leaf, leaves};
use super::vectors::{Vector, text};
use crate::chunk::Missing;
use crate::inputs::{Kind, Unknown};
use crate::prefix::{Case, Plan};
use crate::search::nearest;
use crate::terms;

/// Names and kinds of columns.
type Shape = Vec<(String, Kind)>;

/// A plan, and what it was made of.
struct Known {
    sequence: Stored,
    unknown: Unknown,
    shape: Shape,
    plan: Rc<Plan>,
}

thread_local! {
    /// The last plan: the next chunk mostly has the same sequence, which costs far less to
    /// compare than to plan.
    static LAST: Cell<Option<Known>> = const { Cell::new(None) };
}

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

/// What the caller says besides the row; of what is given twice the last that is not NULL holds.
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
                        nearest::unknown("option", &name, &names)
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
        let mut found = vec![f64::INFINITY; rows];
        for &vector in &self.budgets {
            let budget = leaf("budget", vector).map_err(|_| {
                let kind = type_id::name(vector.logical_type().id());
                format!("budget has type {kind}; it must be a number, or NULL for no limit")
            })?;
            // Only NULL is no limit: within a NaN nothing fits.
            let mut unlimited = Missing::none();
            // SAFETY: see the caller's promise; the type was checked.
            let numbers = unsafe {
                budget.mark_missing(rows, &mut unlimited);
                budget.doubles(rows)
            };
            let given = (0..rows).filter(|&row| !unlimited.contains(row));
            given.for_each(|row| found[row] = numbers[row]);
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
        let leaves = leaves(Vector::of_chunk(chunk, 1))?;
        let columns: Vec<_> = leaves.iter().flatten().map(|leaf| leaf.input(rows)).collect();
        let budgets = told.budgets(rows)?;
        let shape: Shape = columns.iter().map(|one| (one.name.clone(), one.kind.clone())).collect();
        // Rows of one sequence share its list entry, constants all of them.
        let mut plans = HashMap::new();
        for (row, &budget) in budgets.iter().enumerate() {
            let Some(entry) = sequences::sequence_entry(sequences, row) else {
                sequences::write_prediction(out, row, None);
                continue;
            };
            let plan = match plans.entry((entry, told.unknown(row)?)) {
                Entry::Occupied(plan) => plan.into_mut(),
                Entry::Vacant(empty) => {
                    let (entry, unknown) = *empty.key();
                    let is_known = |known: &Known| {
                        known.unknown == unknown
                            && known.shape == shape
                            && known.sequence.is(sequences, entry)
                    };
                    let known = LAST.take().filter(|known| is_known(known));
                    let known = known.map_or_else(
                        || {
                            let sequence = sequences::read_steps(sequences, entry)?;
                            let terms = terms::read(sequence.json.as_deref())?;
                            let steps = &sequence.steps;
                            let case = Case::Insensitive;
                            let plan = Plan::new(steps, terms, &columns, case, unknown)?;
                            // A row without a type is NULL, as are all its fields.
                            let is_row = leaves.is_some();
                            let plan = if is_row { plan.check(&columns)? } else { plan };
                            let (shape, plan) = (shape.clone(), Rc::new(plan));
                            Ok::<_, String>(Known { sequence, unknown, shape, plan })
                        },
                        Ok,
                    )?;
                    let plan = known.plan.clone();
                    LAST.set(Some(known));
                    empty.insert(plan)
                }
            };
            sequences::write_prediction(out, row, plan.predict(&columns, row, budget)?);
        }
    }
    Ok(())
}

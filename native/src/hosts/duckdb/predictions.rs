//! Predictions of rows by sequences, as scalar functions.

use std::rc::Rc;

use super::api::{self, Handle, type_id};
use super::plans::Plans;
use super::scalar_guard;
use super::sequences::{self, Fields};
use super::table::{leaf, leaves};
use super::vectors::{ListEntry, Vector, text};
use crate::kernel::chunk::Missing;
use crate::record::inputs::{MissingColumns, Unknown};
use crate::record::prefix::{self, Plan};
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

/// `dbselect_predict(sequence, row, budget, handle_unknown, missing_columns)`.
pub unsafe extern "C" fn predict_told(info: Handle, chunk: Handle, out: Handle) {
    scalar_guard(info, "anytime_predict", || {
        // SAFETY: as above.
        unsafe {
            let argument = |at| vec![Vector::of_chunk(chunk, at)];
            let (budgets, unknowns, absents) = (argument(2), argument(3), argument(4));
            predict_rows(chunk, out, &Told { budgets, unknowns, absents })
        }
    });
}

/// The arguments beside the row; NULL is the default.
#[derive(Default)]
struct Told {
    budgets: Vec<Vector>,
    /// VARCHAR, as the next.
    unknowns: Vec<Vector>,
    absents: Vec<Vector>,
}

/// What options may be called.
const OPTIONS: [&str; 3] = ["budget", "handle_unknown", "missing_columns"];

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
                _ => Err("options must be a STRUCT, as {'handle_unknown': 'mean'}".to_string()),
            };
        }
        for (index, (name, field)) in argument_type.fields().into_iter().enumerate() {
            let value = argument.child(index as u64);
            let own = name.to_ascii_lowercase();
            let texts = match &own[..] {
                "budget" => {
                    self.budgets.push(value);
                    continue;
                }
                "handle_unknown" => &mut self.unknowns,
                "missing_columns" => &mut self.absents,
                _ => {
                    let names = OPTIONS.map(str::to_string);
                    return Err(format!(
                        "anytime_predict has {}",
                        nearest::unknown("option", &name, &names)
                    ));
                }
            };
            match field.id() {
                type_id::VARCHAR => texts.push(value),
                type_id::SQLNULL => {}
                other => {
                    let kind = type_id::name(other);
                    return Err(format!("{own} has type {kind}; it must be text"));
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
        // SAFETY: see the caller's promise; these are VARCHARs.
        unsafe { last_of(&self.unknowns, row) }
            .map_or(Ok(Unknown::default()), |own| Unknown::of(&own))
    }

    /// What becomes of a column that the rows lack.
    ///
    /// # Safety
    /// As above.
    unsafe fn absent(&self, row: usize) -> Result<MissingColumns, String> {
        // SAFETY: as above.
        unsafe { last_of(&self.absents, row) }
            .map_or(Ok(MissingColumns::default()), |own| MissingColumns::of(&own))
    }
}

/// The text that was given last and is not NULL.
///
/// # Safety
/// VARCHAR vectors of a live chunk that has that row.
unsafe fn last_of(texts: &[Vector], row: usize) -> Option<String> {
    let last = texts.iter().rfind(|own| !own.is_null(row));
    // SAFETY: see the caller's promise.
    last.map(|own| unsafe { text(*own, row) })
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
        let mut plans = Plans::take(&columns);
        // Rows of a constant share its list entry.
        let mut last: Option<(ListEntry, Unknown, Rc<Plan>)> = None;
        for (row, &budget) in budgets.iter().enumerate() {
            let Some(entry) = sequences::sequence_entry(sequences, row) else {
                sequences::write_prediction(out, row, None);
                continue;
            };
            let unknown = told.unknown(row)?;
            // A row without a type is NULL, as are all its fields.
            let absent = match leaves.is_some() {
                true => told.absent(row)?,
                false => MissingColumns::Unavailable,
            };
            let plan = match last.take().filter(|last| (last.0, last.1) == (entry, unknown)) {
                Some((_, _, plan)) => plan,
                None => plans.of(&fields, entry, &columns, unknown)?,
            };
            sequences::write_prediction(out, row, plan.predict(&columns, row, budget, absent)?);
            last = Some((entry, unknown, plan));
        }
        plans.keep();
    }
    Ok(())
}

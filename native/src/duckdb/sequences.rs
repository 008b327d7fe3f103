//! Sequences and predictions in DuckDB vectors.

use std::sync::Arc;

use super::types::STEP_FIELDS;
use super::vectors::{ListEntry, Vector, text, write_text};
use crate::prefix::{Prediction, Step};
use crate::terms::{self, Terms};

/// Which steps row `row` of a vector of sequences holds; NULL gives nothing.
///
/// # Safety
/// The vector is live, of the type of `types::sequence`, and has that row.
pub unsafe fn sequence_entry(vector: Vector, row: usize) -> Option<ListEntry> {
    // SAFETY: see the caller's promise.
    (!vector.is_null(row)).then(|| unsafe { vector.get(row) })
}

/// The steps of one sequence, and its terms, which the first has.
///
/// # Safety
/// As above, and `entry` comes from `sequence_entry` of that vector.
pub unsafe fn read_steps(
    vector: Vector,
    entry: ListEntry,
) -> Result<(Vec<Step>, Arc<Terms>), String> {
    let steps = vector.elements();
    let field = |name: &str| {
        let index = STEP_FIELDS.iter().position(|field| field.0 == name);
        steps.child(index.expect("a field of a step") as u64)
    };
    let (step, group, spent) = (field("step"), field("group"), field("spent"));
    let (intercept, coefficients) = (field("intercept"), field("coefficients"));
    let read = |row: usize| {
        for (name, vector) in [
            ("step", step),
            ("spent", spent),
            ("intercept", intercept),
            ("coefficients", coefficients),
        ] {
            if steps.is_null(row) || vector.is_null(row) {
                return Err(format!("sequence has a step with NULL in '{name}'"));
            }
        }
        // SAFETY: the fields have these types and are not NULL.
        unsafe {
            let entries = coefficients.elements();
            let (names, values) = (entries.child(0), entries.child(1));
            let range = coefficients.get::<ListEntry>(row).range();
            if range.clone().any(|i| values.is_null(i)) {
                return Err("sequence has a NULL coefficient".to_string());
            }
            Ok(Step {
                step: step.get(row),
                group: (!group.is_null(row)).then(|| text(group, row)),
                spent: spent.get(row),
                intercept: intercept.get(row),
                coefficients: range.map(|i| (text(names, i), values.get(i))).collect(),
            })
        }
    };
    let own = field("terms");
    let first = entry.range().find(|&row| !steps.is_null(row) && !own.is_null(row));
    // SAFETY: a VARCHAR that is not NULL.
    let json = first.map(|row| unsafe { text(own, row) });
    let found: Vec<Step> = entry.range().map(read).collect::<Result<_, _>>()?;
    Ok((found, terms::read(json.as_deref())?))
}

/// Write one prediction; an absent one is NULL.
///
/// # Safety
/// The vector is an output of the type of `types::prediction` with that row.
pub unsafe fn write_prediction(out: Vector, row: usize, found: Option<Prediction>) {
    let child = |index| out.child(index);
    let Some(found) = found else {
        out.set_null(row);
        (0..4).for_each(|index| child(index).set_null(row));
        return;
    };
    // SAFETY: the fields have these types.
    unsafe {
        child(0).data::<f64>().add(row).write(found.value);
        child(1).data::<i64>().add(row).write(found.step);
        child(2).data::<f64>().add(row).write(found.spent);
        match found.next_group {
            Some(group) => write_text(child(3), row, group),
            None => child(3).set_null(row),
        }
    }
}

//! The error of models and sequences on records of other rows, as a scalar function.

use super::super::answers::write;
use super::super::api::{self, Handle, type_id};
use super::super::glm::families_of;
use super::super::predictions::is_nothing;
use super::super::records::Records;
use super::super::scalar_guard;
use super::super::sequences::Fields;
use super::super::vectors::{Vector, text};
use crate::linear::judged::{Judged, judge};
use crate::methods::answer::{Cell, JUDGED, JUDGED_STEPS};
use crate::record::prefix::Step;
use crate::record::terms;

/// `evaluate(model or sequence, record [, target])`; NULL without one, or if the record is unusable.
pub unsafe extern "C" fn evaluate(info: Handle, chunk: Handle, out: Handle) {
    scalar_guard(info, "evaluate", || {
        // SAFETY: a live chunk of models, records and maybe targets, and an output of `JUDGED`, of
        // sequences `JUDGED_STEPS`.
        unsafe {
            let rows = api::duckdb_data_chunk_get_size(chunk) as usize;
            let (models, out) = (Vector::of_chunk(chunk, 0), Vector::output(out));
            let returns = if out.is_list() { &JUDGED_STEPS } else { &JUDGED };
            if is_nothing(models) {
                (0..rows).for_each(|row| write(returns, out, row, &Cell::Null));
                return Ok(());
            }
            let (fields, records) = (Fields::of(models)?, Records::of_chunk(chunk, 1));
            let is_named = api::duckdb_data_chunk_get_column_count(chunk) > 2;
            let targets = is_named.then(|| Vector::of_chunk(chunk, 2));
            let (families, keys) = (families_of(models), fields.keys());
            for row in 0..rows {
                if let Some(own) = families.filter(|own| !own.is_null(row)) {
                    return Err(format!(
                        "a record holds no rows, and the error of family '{}' needs them",
                        text(own, row)
                    ));
                }
                let target = targets.filter(|own| own.logical_type().id() == type_id::VARCHAR);
                let target = target.filter(|own| !own.is_null(row)).map(|own| text(own, row));
                // `gram_check` returns the reason.
                let (Some((_, entry)), Ok(Some(record))) = (keys(row), records.at(row)) else {
                    write(returns, out, row, &Cell::Null);
                    continue;
                };
                let stored = fields.read(entry)?;
                let terms = terms::read(stored.json.as_deref());
                let terms = terms.map_err(|error| format!("the model has {error}"))?;
                let found = judge(record, target.as_deref(), &stored.steps, &terms)?;
                let steps = found.iter().flatten().zip(&stored.steps);
                let cell = match (&found, stored.is_model) {
                    (None, _) => Cell::Null,
                    (_, false) => Cell::List(steps.map(|(one, step)| of_step(one, step)).collect()),
                    (Some(found), true) => Cell::List(found.iter().flat_map(numbers).collect()),
                };
                write(returns, out, row, &cell);
            }
        }
        Ok(())
    });
}

fn numbers(judged: &Judged) -> [Cell<'static>; 3] {
    [judged.r2, judged.mse, judged.mse.sqrt()].map(Cell::Number)
}

fn of_step<'s>(judged: &Judged, step: &'s Step) -> Cell<'s> {
    let group = step.group.as_deref().map_or(Cell::Null, Cell::text);
    let head = [Cell::Whole(step.step), group, Cell::Number(step.spent)];
    Cell::List(head.into_iter().chain(numbers(judged)).collect())
}

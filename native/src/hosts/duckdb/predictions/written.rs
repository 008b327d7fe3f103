//! Models as the text of SQL expressions, as a scalar function.

use super::super::api::{self, Handle};
use super::super::glm::families_of;
use super::super::predictions::{OPTIONS, Told, is_nothing};
use super::super::scalar_guard;
use super::super::sequences::{Fields, Stored};
use super::super::vectors::{Vector, text, write_text};
use crate::glm::family::Family;
use crate::record::expression::expression;
use crate::record::inputs::Unknown;
use crate::record::prefix::best_step;
use crate::record::terms;

const NAME: &str = "model_sql";

/// `model_sql(model or sequence [, options])`; NULL without one, or below its first price.
pub unsafe extern "C" fn model_sql(info: Handle, chunk: Handle, out: Handle) {
    scalar_guard(info, NAME, || {
        // SAFETY: a live chunk of models and options and an output of texts.
        unsafe {
            let rows = api::duckdb_data_chunk_get_size(chunk) as usize;
            let (models, out) = (Vector::of_chunk(chunk, 0), Vector::output(out));
            let mut told = Told::of(NAME, &OPTIONS[..2]);
            for at in 1..api::duckdb_data_chunk_get_column_count(chunk) {
                told.add(at, Vector::of_chunk(chunk, at))?;
            }
            if is_nothing(models) {
                out.set_first_null(rows);
                return Ok(());
            }
            let families = families_of(models);
            let fields = Fields::of(models)?;
            let (keys, mut treat) = (fields.keys(), told.treatments());
            for (row, &budget) in told.budgets(rows)?.iter().enumerate() {
                let family = families.filter(|own| !own.is_null(row));
                let family = family.map(|own| Family::parse(&text(own, row))).transpose();
                let family = family.map_err(|error| error.message)?;
                let Some((_, entry)) = keys(row) else {
                    out.set_null(row);
                    continue;
                };
                let (unknown, _) = treat(row)?;
                match text_of(&fields.read(entry)?, budget, unknown)? {
                    Some(found) => {
                        let found = family.map_or(found.clone(), |family| family.sql(&found));
                        write_text(out, row, &found);
                    }
                    None => out.set_null(row),
                }
            }
        }
        Ok(())
    });
}

fn text_of(model: &Stored, budget: f64, unknown: Unknown) -> Result<Option<String>, String> {
    if model.is_model && budget.is_finite() {
        return Err("budget is given for a model, which has no shorter prefix".to_string());
    }
    let terms =
        terms::read(model.json.as_deref()).map_err(|error| format!("the model has {error}"))?;
    let best = best_step(&model.steps, budget);
    best.map(|step| expression(step, terms, unknown)).transpose()
}

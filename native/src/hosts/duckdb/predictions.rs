//! Predictions of rows by sequences and models, as scalar functions.

pub mod arrived;
pub mod judged;
mod plans;
pub mod written;

use std::collections::HashMap;
use std::rc::Rc;

use super::api::{self, Handle, type_id};
use super::glm::{families_of, to_means};
use super::scalar_guard;
use super::sequences::{Fields, Predictions};
use super::table::{leaf, leaves};
use super::vectors::{Text, Vector, View};
use crate::kernel::chunk::Missing;
use crate::record::inputs::{Column, MissingColumns, Rows, Unknown};
use crate::record::prefix::{self, Plan, Prediction};
use crate::words::nearest;
use plans::Plans;

/// `anytime_predict(sequence, row [, budget] [, options])`; NULL without a sequence.
pub unsafe extern "C" fn anytime_predict(info: Handle, chunk: Handle, out: Handle) {
    // SAFETY: a live chunk of the registered types and an output of predictions.
    scalar_guard(info, ANYTIME, || unsafe { predict_by(ANYTIME, chunk, out) });
}

/// `predict(model or sequence, row [, options])`; NULL without one.
pub unsafe extern "C" fn predict(info: Handle, chunk: Handle, out: Handle) {
    // SAFETY: as above.
    scalar_guard(info, PREDICT, || unsafe { predict_by(PREDICT, chunk, out) });
}

/// The same by the name that it has for families.
pub unsafe extern "C" fn glm_predict(info: Handle, chunk: Handle, out: Handle) {
    // SAFETY: as above.
    scalar_guard(info, GLM_PREDICT, || unsafe { predict_by(GLM_PREDICT, chunk, out) });
}

/// # Safety
/// A live chunk of models and rows, and what else the function of that name takes.
unsafe fn predict_by(name: &'static str, chunk: Handle, out: Handle) -> Result<(), String> {
    let mut told = Told::of(name, &OPTIONS);
    // SAFETY: see the caller's promise.
    unsafe {
        for at in 2..api::duckdb_data_chunk_get_column_count(chunk) {
            told.add(at, Vector::of_chunk(chunk, at))?;
        }
        predict_rows(chunk, out, &told)
    }
}

/// The arguments beside the row; NULL is the default.
#[derive(Default)]
pub struct Told {
    /// The function.
    name: &'static str,
    options: &'static [&'static str],
    budgets: Vec<Vector>,
    /// VARCHAR, as the next.
    unknowns: Vec<Vector>,
    absents: Vec<Vector>,
}

/// The functions.
const ANYTIME: &str = "anytime_predict";
const PREDICT: &str = "predict";
const GLM_PREDICT: &str = "glm_predict";
/// What becomes of levels that the fit has not seen and of columns that the rows lack.
pub type Treatment = (Unknown, MissingColumns);

/// What options may be called.
pub const OPTIONS: [&str; 3] = ["budget", "handle_unknown", "missing_columns"];

impl Told {
    /// Nothing, of a function with some of `OPTIONS`.
    pub fn of(name: &'static str, options: &'static [&'static str]) -> Told {
        Told { name, options, ..Told::default() }
    }

    /// Add argument `at`: a budget, or a STRUCT of what has these names.
    pub fn add(&mut self, at: u64, argument: Vector) -> Result<(), String> {
        let argument_type = argument.logical_type();
        if argument_type.id() != type_id::STRUCT {
            if at == 2 && self.name == ANYTIME {
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
            if !self.take(&name.to_ascii_lowercase(), field.id(), value)? {
                let names: Vec<_> = self.options.iter().map(|own| own.to_string()).collect();
                let unknown = nearest::unknown("option", &name, &names);
                return Err(format!("{} has {unknown}", self.name));
            }
        }
        Ok(())
    }

    /// Take an option of a type, if it is one of these.
    pub fn take(&mut self, name: &str, kind: u32, value: Vector) -> Result<bool, String> {
        let texts = match name {
            _ if !self.options.contains(&name) => return Ok(false),
            // A STRUCT in the place of the budget is the options.
            "budget" if kind == type_id::STRUCT => return self.add(2, value).map(|()| true),
            "budget" => {
                self.budgets.push(value);
                return Ok(true);
            }
            "handle_unknown" => &mut self.unknowns,
            _ => &mut self.absents,
        };
        match kind {
            type_id::VARCHAR => texts.push(value),
            type_id::SQLNULL => {}
            other => {
                return Err(format!("{name} has type {}; it must be text", type_id::name(other)));
            }
        }
        Ok(true)
    }

    /// The budgets of some rows; without one there is no limit.
    ///
    /// # Safety
    /// The chunk is live and has that many rows.
    pub unsafe fn budgets(&self, rows: usize) -> Result<Vec<f64>, String> {
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
                    return Err(format!("{} is given budget twice", self.name));
                }
                (found[row], is_given[row]) = (limits[row], true);
            }
        }
        Ok(found)
    }

    /// Whether what is not a budget is the same for so many rows.
    ///
    /// # Safety
    /// The chunk is live and has these rows.
    unsafe fn are_one(&self, rows: usize) -> bool {
        let mut texts = self.unknowns.iter().chain(&self.absents);
        // SAFETY: see the caller's promise; these are VARCHARs.
        texts.all(|&own| unsafe { View::<Text>::of(own).has_one_value(rows) })
    }

    /// What becomes, row by row, of levels that the fit has not seen and of columns that the rows
    /// lack.
    ///
    /// # Safety
    /// The chunk is live, and the callers ask for its rows.
    pub unsafe fn treatments(&self) -> impl FnMut(usize) -> Result<Treatment, String> {
        // The text that was given last and is not NULL counts.
        let views = |texts: &[Vector]| -> Vec<View<Text>> {
            // SAFETY: these are VARCHARs.
            texts.iter().rev().map(|&own| unsafe { View::of(own) }).collect()
        };
        let given = [views(&self.unknowns), views(&self.absents)];
        let mut known: Option<([Option<Text>; 2], Treatment)> = None;
        move |row| {
            let last = |all: &Vec<View<Text>>| {
                // SAFETY: see the caller's promise.
                all.iter().find_map(|own| unsafe { own.at(row) }.map(|text| (text, *own)))
            };
            let own = given.each_ref().map(last);
            let texts = own.map(|own| own.map(|(text, _)| text));
            if let Some((_, found)) = known.filter(|(same, _)| *same == texts) {
                return Ok(found);
            }
            // SAFETY: as above.
            let read = |(_, view): (Text, View<Text>)| unsafe { view.bytes_at(row) };
            let [unknown, absent] = own.map(|own| own.and_then(read).map(String::from_utf8_lossy));
            let found = (
                unknown.map_or(Ok(Unknown::default()), |name| Unknown::of(&name))?,
                absent.map_or(Ok(MissingColumns::default()), |name| MissingColumns::of(&name))?,
            );
            known = Some((texts, found));
            Ok(found)
        }
    }
}

/// Rows of a chunk that one plan predicts.
struct Alike {
    plan: Rc<Plan>,
    absent: MissingColumns,
    rows: Vec<usize>,
}

/// Whether models are NULL, or empty lists as `[]` is written.
pub fn is_nothing(models: Vector) -> bool {
    let is_null = |vector: Vector| vector.logical_type().id() == type_id::SQLNULL;
    let is_list = models.logical_type().id() == type_id::LIST;
    is_null(models) || is_list && is_null(models.elements())
}

/// Predict every row of a chunk.
///
/// # Safety
/// A live chunk of sequences or models and rows, and an output of predictions.
unsafe fn predict_rows(chunk: Handle, out: Handle, told: &Told) -> Result<(), String> {
    // SAFETY: see the caller's promise.
    unsafe {
        let rows = api::duckdb_data_chunk_get_size(chunk) as usize;
        let (models, out) = (Vector::of_chunk(chunk, 0), Vector::output(out));
        let kind = models.logical_type().id();
        if kind == type_id::SQLNULL
            || kind == type_id::LIST && models.elements().logical_type().id() == type_id::SQLNULL
        {
            let out = Predictions::of(out, false);
            (0..rows).for_each(|row| out.write(row, None));
            return Ok(());
        }
        let fields = Fields::of(models)?;
        let leaves = leaves(Vector::of_chunk(chunk, 1))?;
        let columns: Vec<_> = leaves.iter().flatten().map(|leaf| leaf.input(rows)).collect();
        let budgets = told.budgets(rows)?;
        if fields.are_models() && budgets.iter().any(|budget| budget.is_finite()) {
            return Err("budget is given for a model, which has no shorter prefix".to_string());
        }
        let out = Predictions::of(out, fields.are_models());
        let mut plans = Plans::take(&columns);
        let mut all: Vec<Alike> = Vec::new();
        let mut places = HashMap::new();
        let mut last = None;
        let (keys, mut treat) = (fields.keys(), told.treatments());
        let is_one = fields.are_one(rows) && told.are_one(rows);
        let is_one = is_one && budgets.iter().all(|budget| *budget == budgets[0]);
        let asked = if is_one { &budgets[..budgets.len().min(1)] } else { &budgets };
        let (mut coefficients, mut direct) = (Vec::new(), (Vec::new(), Vec::new()));
        let is_direct = fields.are_models() && !is_one && leaves.is_some();
        for (row, &budget) in asked.iter().enumerate() {
            let Some((key, entry)) = keys(row) else {
                out.write(row, None);
                continue;
            };
            if is_direct && let Some(form) = plans.form(&fields, entry, &columns)? {
                let intercept = fields.numbers(entry, &mut coefficients);
                if coefficients.len() == form.width() {
                    treat(row)?;
                    match form.value(&columns, row, intercept, &coefficients) {
                        Some(value) => {
                            direct.0.push(row);
                            direct.1.push(value);
                        }
                        None => out.write(row, None),
                    }
                    continue;
                }
            }
            let (unknown, mut absent) = treat(row)?;
            // A row without a type is NULL, as are all its fields.
            if leaves.is_none() {
                absent = MissingColumns::Unavailable;
            }
            let own = (key, unknown, absent, budget.to_bits());
            let at = match last {
                Some((known, at)) if known == own => at,
                _ => {
                    let plan = plans.of(&fields, entry, &columns, unknown)?;
                    *places.entry((Rc::as_ptr(&plan), absent)).or_insert_with(|| {
                        all.push(Alike { plan, absent, rows: Vec::new() });
                        all.len() - 1
                    })
                }
            };
            last = Some((own, at));
            all[at].rows.push(row);
        }
        if let (true, [one]) = (is_one, &mut all[..]) {
            one.rows = (0..rows).collect();
        }
        let none = Prediction { value: f64::NAN, step: 0, spent: 0.0, next_group: None };
        out.write_all(&Rows::These(&direct.0), &direct.1, &none);
        for alike in &all {
            predict_alike(alike, &columns, &budgets, &out)?;
        }
        if let Some(families) = families_of(models) {
            to_means(families, rows, out.values())?;
        }
        plans.keep();
    }
    Ok(())
}

/// Predict rows, each by the prefix that serves it.
///
/// # Safety
/// The output has these rows.
unsafe fn predict_alike(
    alike: &Alike,
    columns: &[Column],
    budgets: &[f64],
    out: &Predictions,
) -> Result<(), String> {
    let Alike { plan, absent, rows } = alike;
    let which = match rows.len() == budgets.len() {
        true => Rows::All(rows.len()),
        false => Rows::These(rows),
    };
    let limits: Vec<f64> = rows.iter().map(|&row| budgets[row]).collect();
    let found = plan.predict_rows(columns, &which, &limits, *absent)?;
    // Rows of one prefix are written at once.
    let mut alike: Vec<(Prediction, Vec<usize>, Vec<f64>)> = Vec::new();
    for (&row, found) in rows.iter().zip(found) {
        let Some(found) = found else {
            // SAFETY: see the caller's promise.
            unsafe { out.write(row, None) };
            continue;
        };
        match alike.iter_mut().find(|(own, ..)| own.step == found.step) {
            Some((_, rows, values)) => {
                rows.push(row);
                values.push(found.value);
            }
            None => alike.push((found, vec![row], vec![found.value])),
        }
    }
    for (own, rows, values) in &alike {
        // SAFETY: as above.
        unsafe { out.write_all(&Rows::These(rows), values, own) };
    }
    Ok(())
}

//! Generalised linear models as aggregates, which keep the rows that they are given.
//!
//! `fit_glm(row, target, family [, options])`, `summary_glm`, `glm_check` and `anytime_sequence_glm`; a connection
//! of the extension's own would keep the user's database open, and would not see temporary tables.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use super::answers::write;
use super::api::{self, Handle, State, type_id};
use super::sequences::child_of;
use super::states::{self, Slot, States};
use super::table::{Leaf, leaves};
use super::values::Values;
use super::vectors::{Vector, bytes, text};
use super::{aggregate_guard, scalar_guard};
use crate::glm::answer::{answer, answer_of_nothing};
use crate::glm::family::Family;
use crate::glm::intake::Intake;
use crate::glm::request::Request;
use crate::kernel::chunk::Missing;
use crate::kernel::threads::cores;
use crate::methods::Method;
use crate::record::kept::{self, Kept};
use crate::record::rows::Column;
use crate::words::value::Value;

/// What an aggregate state points to, from its first row on.
#[derive(Clone)]
struct Rows {
    intake: Arc<Known>,
    kept: Kept,
}

/// The arguments beside the row.
#[derive(Debug, PartialEq)]
struct Asked {
    method: &'static str,
    target: Value,
    family: Value,
    options: Vec<(String, Value)>,
}

/// The name of a flattened column, whether it is a field and text, and its unit.
type Named = (String, bool, bool, Option<&'static str>);

/// The arguments and columns of the last chunk, so that groups share what is made of them.
struct Known {
    asked: Asked,
    columns: Vec<Named>,
    intake: Intake,
}

thread_local! {
    static KNOWN: RefCell<Option<Arc<Known>>> = const { RefCell::new(None) };
}

pub unsafe extern "C" fn state_destroy(states: *mut State, n: u64) {
    // SAFETY: `n` states, each initialised.
    unsafe { states::drop_all::<Rows>(states, n) };
}

/// The method that an aggregate was registered with.
///
/// # Safety
/// The extra information of the function is a `&'static Method`.
unsafe fn method_of(info: Handle) -> &'static Method {
    // SAFETY: see the caller's promise.
    unsafe { &*api::duckdb_aggregate_function_get_extra_info(info).cast::<Method>() }
}

/// Add a chunk of rows, each to its own state.
pub unsafe extern "C" fn update(info: Handle, chunk: Handle, states: *mut State) {
    // SAFETY: the aggregate was registered with its method; DuckDB's own pointers.
    unsafe {
        let method = method_of(info);
        aggregate_guard(info, method.name, || add_rows(method, chunk, states));
    }
}

/// # Safety
/// A live chunk of a row, a target, a family and maybe options, with initialised states as DuckDB passes them.
unsafe fn add_rows(
    method: &'static Method,
    chunk: Handle,
    states: *mut State,
) -> Result<(), String> {
    // SAFETY: see the caller's promise.
    unsafe {
        let rows = api::duckdb_data_chunk_get_size(chunk) as usize;
        if rows == 0 {
            return Ok(());
        }
        let states = States::of_update(states, rows);
        let asked = asked(method, chunk, rows)?;
        let Some(columns) = leaves(Vector::of_chunk(chunk, 0))? else {
            return Ok(());
        };
        columns.iter().try_for_each(Leaf::check_column)?;
        let known = known(method, asked, &columns)?;
        let intake = &known.intake;
        let own: Vec<&Leaf> = intake.sources.iter().map(|&at| &columns[at]).collect();
        let values = |leaf: &&Leaf| match leaf.is_text() {
            true => kept::Values::Texts(leaf.texts(rows)),
            false => kept::Values::Numbers(leaf.doubles(rows)),
        };
        let mut values: Vec<kept::Values> = own.iter().map(values).collect();
        let nulls = |leaf: &&Leaf| {
            let mut nulls = Missing::none();
            leaf.mark_missing(rows, &mut nulls);
            nulls
        };
        let nulls: Vec<Missing> = own.iter().map(nulls).collect();
        let missing = intake.screen(rows, &mut values, &nulls)?;
        let rows_of = |row: usize| {
            let slot = Slot::<Rows>::of(states.at(row));
            if slot.get().is_none() {
                let kept = Kept::new(&intake.shape);
                slot.put(Arc::new(Rows { intake: known.clone(), kept }));
            }
            slot.own().expect("it holds rows")
        };
        let state_of = |row: usize| states.at(row) as usize;
        let mut members: HashMap<usize, Vec<usize>> = HashMap::new();
        if states.are_one(rows) {
            members.insert(state_of(0), (0..rows).collect());
        } else {
            (0..rows).for_each(|row| members.entry(state_of(row)).or_default().push(row));
        }
        for mut at in members.into_values() {
            let Rows { intake, kept } = rows_of(at[0]);
            if !Arc::ptr_eq(intake, &known) && intake.asked != known.asked {
                return Err(unequal());
            }
            let before = at.len();
            at.retain(|&row| !missing.contains(row));
            kept.skipped += (before - at.len()) as u64;
            kept.add(&values, &at)?;
        }
        Ok(())
    }
}

/// The arguments beside the row, which must be the same in all rows.
///
/// # Safety
/// As `add_rows`.
unsafe fn asked(method: &'static Method, chunk: Handle, rows: usize) -> Result<Asked, String> {
    // SAFETY: see the caller's promise.
    unsafe {
        let at = |index: u64| {
            let values = Values::of(Vector::of_chunk(chunk, index), rows)?;
            let first = values.at(0);
            let is_same = |row: usize| values.same(0, row) || values.at(row) == first;
            match (1..rows).all(is_same) {
                true => Ok((first, values.has_names())),
                false => Err(unequal()),
            }
        };
        let (target, family) = (at(1)?.0, at(2)?.0);
        let mut options = Vec::new();
        for index in 3..api::duckdb_data_chunk_get_column_count(chunk) {
            let (given, has_names) = at(index)?;
            if !has_names {
                return Err(format!(
                    "options must be a STRUCT of options by name; named arguments: \
                     dbselect.{}(...)",
                    method.name
                ));
            }
            if let Value::Map(given) = given {
                // Names of a STRUCT have no case.
                let lower = |(name, value): (String, Value)| (name.to_ascii_lowercase(), value);
                options.extend(given.into_iter().map(lower));
            }
        }
        Ok(Asked { method: method.name, target, family, options })
    }
}

fn unequal() -> String {
    "target, family and options must be the same in all rows of a group".to_string()
}

/// What is kept of rows of some columns, shared with the chunks before where it is the same.
fn known(method: &'static Method, asked: Asked, leaves: &[Leaf]) -> Result<Arc<Known>, String> {
    let columns = || leaves.iter().map(Leaf::column);
    let is_column = |(name, is_field, is_text, unit): &Named, c: &Column| {
        (name.as_str(), *is_field, *is_text, *unit) == (c.name, c.is_field, c.is_text, c.unit)
    };
    let same = |known: &Arc<Known>| {
        known.asked == asked
            && known.columns.len() == leaves.len()
            && known.columns.iter().zip(columns()).all(|(known, column)| is_column(known, &column))
    };
    let shared = KNOWN.with_borrow(|known| known.clone().filter(same));
    if let Some(shared) = shared {
        return Ok(shared);
    }
    let text = |what: &str, value: &Value, must: &str| match value {
        Value::Text(text) => Ok(text.clone()),
        other => Err(format!("{what} is {other}; it must be {must}")),
    };
    let target = text("target", &asked.target, "the name of a column")?;
    let family = text("family", &asked.family, "a text such as 'binomial'")?;
    let request = Request::read(method, &target, &family, &asked.options);
    let request = request.map_err(|error| error.message)?;
    let all: Vec<Column> = columns().collect();
    let intake = Intake::new(Arc::new(request), &all).map_err(|error| error.message)?;
    let own = |c: Column| (c.name.to_string(), c.is_field, c.is_text, c.unit);
    let columns = columns().map(own).collect();
    let made = Arc::new(Known { asked, columns, intake });
    KNOWN.set(Some(made.clone()));
    Ok(made)
}

/// Merge states; the sources stay as they are, for window frames use them again.
pub unsafe extern "C" fn combine(info: Handle, sources: *mut State, targets: *mut State, n: u64) {
    // SAFETY: the aggregate was registered with its method.
    let method = unsafe { method_of(info) };
    aggregate_guard(info, method.name, || {
        for i in 0..n as usize {
            // SAFETY: `n` states on either side, each initialised; no other thread uses them.
            unsafe {
                let (source, target) =
                    (Slot::<Rows>::of(*sources.add(i)), Slot::<Rows>::of(*targets.add(i)));
                match (target.own(), source.get()) {
                    (Some(own), Some(more)) if own.intake.asked != more.intake.asked => {
                        return Err(unequal());
                    }
                    (Some(own), Some(more)) => own.kept.merge(&more.kept)?,
                    (None, _) => target.share(source),
                    (_, None) => {}
                }
            }
        }
        Ok(())
    });
}

/// Write the answer of each state.
pub unsafe extern "C" fn finalize(
    info: Handle,
    states: *mut State,
    out: Handle,
    n: u64,
    offset: u64,
) {
    // SAFETY: the aggregate was registered with its method.
    let method = unsafe { method_of(info) };
    aggregate_guard(info, method.name, || {
        let Some(returns) = method.returns() else { return Err("it returns nothing".to_string()) };
        let cores = cores();
        for i in 0..n as usize {
            // SAFETY: `n` initialised states.
            let rows = unsafe { Slot::<Rows>::of(*states.add(i)).get() };
            let found = match rows {
                None => answer_of_nothing(method),
                Some(Rows { intake, kept }) => answer(&intake.intake, kept, cores)?,
            };
            // SAFETY: an output of the type with room for `n` from `offset` on.
            unsafe { write(returns, Vector::output(out), offset as usize + i, &found) };
        }
        Ok(())
    });
}

/// `glm_mean(family, predictor)`: the mean of the target; NULL where there is none.
pub unsafe extern "C" fn mean(info: Handle, chunk: Handle, out: Handle) {
    scalar_guard(info, "glm_mean", || {
        // SAFETY: a live chunk of a VARCHAR and a DOUBLE, and an output of DOUBLEs.
        unsafe {
            let rows = api::duckdb_data_chunk_get_size(chunk) as usize;
            let (predictors, out) = (Vector::of_chunk(chunk, 1), Vector::output(out));
            for row in 0..rows {
                match predictors.is_null(row) {
                    true => out.set_null(row),
                    false => out.data::<f64>().add(row).write(predictors.get(row)),
                }
            }
            to_means(Vector::of_chunk(chunk, 0), rows, out)
        }
    });
}

/// Replace linear predictors by the means of families; NULL where there is none.
///
/// # Safety
/// A live VARCHAR vector, and an output of DOUBLEs, with that many rows.
pub unsafe fn to_means(families: Vector, rows: usize, out: Vector) -> Result<(), String> {
    let mut last: Option<(&[u8], Family)> = None;
    for row in 0..rows {
        if families.is_null(row) {
            out.set_null(row);
            continue;
        }
        // SAFETY: see the caller's promise; no NULL is read.
        unsafe {
            let own = bytes(families, row);
            let family = match last {
                Some((known, family)) if known == own => family,
                _ => Family::parse(&text(families, row)).map_err(|error| error.message)?,
            };
            last = Some((own, family));
            match out.is_null(row) {
                true => {}
                false if family.mean(out.get(row)).is_nan() => out.set_null(row),
                false => out.data::<f64>().add(row).write(family.mean(out.get(row))),
            }
        }
    }
    Ok(())
}

/// The families of generalised linear models, where models are such.
pub fn families_of(models: Vector) -> Option<Vector> {
    child_of(models, "family").filter(|own| own.logical_type().id() == type_id::VARCHAR)
}

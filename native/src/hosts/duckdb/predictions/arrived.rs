//! Rows predicted from whatever groups they have, as a scalar function of Gram records.

use std::cell::RefCell;
use std::sync::Arc;

use super::super::api::{self, Handle, type_id};
use super::super::records::Records;
use super::super::scalar_guard;
use super::super::sequences::write_each;
use super::super::table::leaves;
use super::super::values::Values;
use super::super::vectors::{ListEntry, Vector, bytes, text, write_text, write_texts};
use super::{OPTIONS, Told, Treatment};
use crate::arrived::predictor::Predictor;
use crate::arrived::rows::{Alike, Arrivals};
use crate::record::inputs::{Column, Kind, MissingColumns, Rows};
use crate::record::prefix::Case;
use crate::search::methods::PREDICT_AVAILABLE;

/// Predictors matched to the columns of a table that a thread keeps.
const MOST_KEPT: usize = 64;

/// What an `Arrivals` was made for.
type For = (Vec<(String, Kind)>, Treatment);

thread_local! {
    /// Those used last stand at the end.
    static KEPT: RefCell<Vec<(For, Arrivals)>> = const { RefCell::new(Vec::new()) };
}

/// `predict_available(record, target, row [, options])`; NULL if the record is unusable.
pub unsafe extern "C" fn predict_available(info: Handle, chunk: Handle, out: Handle) {
    // SAFETY: a live chunk of the registered types and an output of predictions.
    scalar_guard(info, PREDICT_AVAILABLE.name, || unsafe { predict_rows(chunk, out) });
}

/// Rows of a chunk with the same record, target and options.
struct Call {
    first: usize,
    treatment: Treatment,
    rows: Vec<usize>,
}

/// # Safety
/// A live chunk of records, targets, rows and options, and an output of predictions.
unsafe fn predict_rows(chunk: Handle, out: Handle) -> Result<(), String> {
    // SAFETY: see the caller's promise.
    unsafe {
        let count = api::duckdb_data_chunk_get_size(chunk) as usize;
        let (records, targets) = (Records::of_chunk(chunk, 0), Vector::of_chunk(chunk, 1));
        let leaves = leaves(Vector::of_chunk(chunk, 2))?;
        let columns: Vec<_> = leaves.iter().flatten().map(|leaf| leaf.input(count)).collect();
        let mut told = Told::of(PREDICT_AVAILABLE.name, &OPTIONS);
        let mut given: Vec<(String, Values)> = Vec::new();
        for at in 3..api::duckdb_data_chunk_get_column_count(chunk) {
            let options = Vector::of_chunk(chunk, at);
            let of = options.logical_type();
            if ![type_id::STRUCT, type_id::SQLNULL].contains(&of.id()) {
                let way = "named arguments: dbselect.predict_available(...)";
                return Err(format!("options must be a STRUCT of options by name; {way}"));
            }
            let fields = if of.id() == type_id::STRUCT { of.fields() } else { Vec::new() };
            for (index, (name, field)) in fields.into_iter().enumerate() {
                let (name, value) = (name.to_ascii_lowercase(), options.child(index as u64));
                if !told.take(&name, field.id(), value)? {
                    given.push((name, Values::of(value, count)?));
                }
            }
        }
        let lists = ["columns", "mean", "comoment"].map(|name| records.field(name));
        let same = |a: usize, b: usize| {
            let same_list = |list: &Vector| list.get::<ListEntry>(a) == list.get::<ListEntry>(b);
            let nulls = [records.is_null(a), records.is_null(b)];
            (nulls == [true; 2] || nulls == [false; 2] && lists.iter().flatten().all(same_list))
                && !targets.is_null(b)
                && bytes(targets, a) == bytes(targets, b)
                && given.iter().all(|(_, values)| values.same(a, b))
        };
        let budgets = told.budgets(count)?;
        let mut treat = told.treatments();
        let mut calls: Vec<Call> = Vec::new();
        for row in 0..count {
            let mut treatment = treat(row)?;
            if leaves.is_none() {
                // A row without a type is NULL, as are all its fields.
                treatment.1 = MissingColumns::Unavailable;
            }
            let is_it = |call: &Call| call.treatment == treatment && same(call.first, row);
            match calls.iter().rposition(is_it) {
                Some(at) => calls[at].rows.push(row),
                None if targets.is_null(row) => {
                    return Err("target is None; it must be the name of a column".to_string());
                }
                None => calls.push(Call { first: row, treatment, rows: vec![row] }),
            }
        }
        let out = Out::of(Vector::output(out));
        for Call { first, treatment, rows } in &calls {
            let which = match rows.len() == count {
                true => Rows::All(count),
                false => Rows::These(rows),
            };
            // `gram_check` returns the reason.
            let Ok(Some(record)) = records.at(*first) else {
                out.write_nothing(rows);
                continue;
            };
            let options = given.iter().map(|(name, values)| (name.clone(), values.at(*first)));
            let found = Predictor::of(record, &text(targets, *first), options.collect());
            match found.map_err(|error| error.message)? {
                Ok(predictor) => {
                    let mut arrivals = take(predictor, &columns, *treatment)?;
                    for alike in arrivals.1.predict(&columns, &which)? {
                        out.write(&arrivals.1.predictor, &alike, &which, &budgets);
                    }
                    keep(arrivals);
                }
                Err(_) => out.write_nothing(rows),
            }
        }
    }
    Ok(())
}

/// What predicts rows of some columns, kept from the last chunk if it is there.
fn take(
    predictor: Arc<Predictor>,
    columns: &[Column],
    treatment: Treatment,
) -> Result<(For, Arrivals), String> {
    let shape = columns.iter().map(|one| (one.name.clone(), one.kind.clone())).collect();
    let own: For = (shape, treatment);
    let kept = KEPT.with_borrow_mut(|kept| {
        let is_it = |(of, arrivals): &(For, Arrivals)| {
            Arc::ptr_eq(&arrivals.predictor, &predictor) && *of == own
        };
        kept.iter().rposition(is_it).map(|at| kept.remove(at))
    });
    let (unknown, absent) = treatment;
    let new = || Arrivals::new(predictor, columns, Case::Insensitive, unknown, absent);
    kept.map_or_else(|| Ok((own, new()?)), Ok)
}

fn keep(arrivals: (For, Arrivals)) {
    KEPT.with_borrow_mut(|kept| {
        if kept.len() == MOST_KEPT {
            kept.remove(0);
        }
        kept.push(arrivals);
    });
}

/// Predictions to write, of the type `search::methods::answer::ARRIVED`.
struct Out {
    all: Vector,
    fields: [Vector; 10],
}

impl Out {
    fn of(all: Vector) -> Out {
        Out { all, fields: std::array::from_fn(|index| all.child(index as u64)) }
    }

    /// # Safety
    /// The vector has these rows.
    unsafe fn write_nothing(&self, rows: &[usize]) {
        let nothing = ListEntry { offset: 0, length: 0 };
        // SAFETY: see the caller's promise; a LIST.
        unsafe { write_each(self.fields[1], &Rows::These(rows), |_| nothing) };
        [self.all].iter().chain(&self.fields).for_each(|of| of.set_nulls(rows.iter().copied()));
    }

    /// Write rows of one pattern, `rows` being those among which they are.
    ///
    /// # Safety
    /// As above.
    unsafe fn write(&self, predictor: &Predictor, found: &Alike, rows: &Rows, limits: &[f64]) {
        let [value, groups, spent, r2, sigma, lower, upper, next, gain, cost] = self.fields;
        let Alike { pattern, at, values } = found;
        let all = predictor.groups();
        let own: Vec<usize> = at.iter().map(|&at| rows.at(at)).collect();
        let which = Rows::These(&own);
        let reach = predictor.level.map_or(f64::NAN, |level| pattern.reach(level));
        // SAFETY: see the caller's promise; the fields have these types.
        unsafe {
            let number = |of: Vector, number: &dyn Fn(usize) -> f64| {
                write_each(of, &which, number);
                let missing = own.iter().enumerate().filter(|(at, _)| number(*at).is_nan());
                let missing: Vec<usize> = missing.map(|(_, &row)| row).collect();
                if !missing.is_empty() {
                    of.set_nulls(missing);
                }
            };
            // The rows share one list.
            let first = groups.grow(pattern.groups.len());
            for (i, &group) in (first..).zip(&pattern.groups) {
                write_text(groups.elements(), i, &all.names[group]);
            }
            let entry = ListEntry { offset: first as u64, length: pattern.groups.len() as u64 };
            write_each(groups, &which, |_| entry);
            number(value, &|at| values[at]);
            for (of, same) in [(spent, pattern.spent), (r2, pattern.r2), (sigma, pattern.sigma)] {
                number(of, &|_| same);
            }
            number(lower, &|at| values[at] - reach);
            number(upper, &|at| values[at] + reach);
            let limit = |at: usize| limits[own[at]];
            let are_one = (1..own.len()).all(|at| limit(at) == limit(0));
            let step = if are_one { own.len() } else { 1 };
            let nexts: Vec<Option<usize>> = (0..own.len())
                .step_by(step.max(1))
                .map(|at| pattern.next(&all.costs, limit(at)))
                .collect();
            let next_of = |at: usize| nexts[if are_one { 0 } else { at }];
            number(gain, &|at| next_of(at).map_or(f64::NAN, |next| pattern.gains[next]));
            number(cost, &|at| next_of(at).map_or(f64::NAN, |next| all.costs[next]));
            match next_of(0) {
                Some(group) if are_one => {
                    write_texts(next, own.iter().copied(), &all.names[group]);
                }
                None if are_one => next.set_nulls(own.iter().copied()),
                _ => {
                    for (at, &row) in own.iter().enumerate() {
                        match next_of(at) {
                            Some(group) => write_text(next, row, &all.names[group]),
                            None => next.set_null(row),
                        }
                    }
                }
            }
        }
    }
}

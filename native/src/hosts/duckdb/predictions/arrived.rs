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
use crate::arrived::rows::{self, Arrivals, Found};
use crate::methods::PREDICT_AVAILABLE;
use crate::methods::pattern::Pattern;
use crate::record::inputs::{Column, Kind, MissingColumns, Rows};
use crate::record::prefix::Case;

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
            let found = Predictor::of(record, &text(targets, *first), options.collect(), None);
            match found.map_err(|error| error.message)? {
                Ok(predictor) => {
                    let mut arrivals = take(predictor, &columns, *treatment)?;
                    let found = arrivals.1.predict(&columns, &which)?;
                    out.write(&arrivals.1.predictor, &found, &which, &budgets);
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
    fields: [Vector; 12],
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

    /// Write the predictions of some rows.
    ///
    /// # Safety
    /// As above.
    unsafe fn write(&self, predictor: &Predictor, found: &Found, rows: &Rows, limits: &[f64]) {
        let [value, groups, spent, r2, sigma, lower, upper, next, gain, cost, accept, net] =
            self.fields;
        let all = predictor.groups();
        let limits: Vec<f64> = (0..rows.count()).map(|at| limits[rows.at(at)]).collect();
        let limits =
            if limits.iter().all(|one| *one == limits[0]) { &limits[..1] } else { &limits };
        let rows::Told { shared, at: shared_at, stakes } = found.told(predictor, limits);
        let patterns: Vec<&Pattern> =
            shared.iter().map(|(at, _)| &found.patterns[*at as usize].pattern).collect();
        // SAFETY: see the caller's promise; the fields have these types.
        unsafe {
            let number = |of: Vector, shared: Vec<f64>, and: &dyn Fn(usize, f64) -> f64| {
                let value = |at: usize| and(at, shared[shared_at[at] as usize]);
                write_each(of, rows, value);
                let missing = (0..rows.count()).filter(|&at| value(at).is_nan());
                let missing: Vec<usize> = missing.map(|at| rows.at(at)).collect();
                if !missing.is_empty() {
                    of.set_nulls(missing);
                }
            };
            let same = |_: usize, x: f64| x;
            let plus = |at: usize, x: f64| found.values[at] + x;
            let each = |of: &dyn Fn(&Pattern) -> f64| patterns.iter().map(|one| of(one)).collect();
            let reach = |one: &Pattern| predictor.level.map_or(f64::NAN, |level| one.reach(level));
            number(value, vec![0.0; shared.len()], &plus);
            number(spent, each(&|one| one.spent), &same);
            number(r2, each(&|one| one.r2), &same);
            number(sigma, each(&|one| one.sigma), &same);
            number(lower, each(&|one| -reach(one)), &plus);
            number(upper, each(&reach), &plus);
            let of_next = |of: &dyn Fn(&Pattern, usize) -> f64| {
                let both = patterns.iter().zip(&shared);
                both.map(|(one, (_, next))| next.map_or(f64::NAN, |next| of(one, next))).collect()
            };
            number(gain, of_next(&|one, next| one.gains[next]), &same);
            number(cost, of_next(&|one, next| one.costs[next]), &same);
            match stakes.is_empty() {
                true => [accept, net]
                    .iter()
                    .for_each(|of| of.set_nulls((0..rows.count()).map(|at| rows.at(at)))),
                false => {
                    write_each(accept, rows, |at| stakes[at].0);
                    let missing = (0..rows.count()).filter(|&at| found.values[at].is_nan());
                    accept.set_nulls(missing.map(|at| rows.at(at)));
                    number(net, vec![0.0; shared.len()], &|at, _| stakes[at].1);
                }
            }
            // Rows of a pattern share one list.
            let mut entries = Vec::with_capacity(patterns.len());
            for pattern in &patterns {
                let first = groups.grow(pattern.groups.len());
                for (i, &group) in (first..).zip(&pattern.groups) {
                    write_text(groups.elements(), i, &all.names[group]);
                }
                let length = pattern.groups.len() as u64;
                entries.push(ListEntry { offset: first as u64, length });
            }
            write_each(groups, rows, |at| entries[shared_at[at] as usize]);
            let mut rows_of: Vec<Vec<usize>> = vec![Vec::new(); shared.len()];
            (0..).zip(&shared_at[..]).for_each(|(at, &n)| rows_of[n as usize].push(rows.at(at)));
            for ((_, group), own) in shared.iter().zip(rows_of) {
                match group {
                    Some(group) => write_texts(next, own, &all.names[*group]),
                    None => next.set_nulls(own),
                }
            }
        }
    }
}

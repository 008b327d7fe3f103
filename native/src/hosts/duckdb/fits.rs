//! Least squares as scalar functions: a Gram record and columns in, a model or its summary out.

use super::api::{self, Handle};
use super::asked::{Asked, Plans};
use super::grams::Grams;
use super::scalar_guard;
use super::types::FIT_FIELDS;
use super::vectors::{ListEntry, Vector, write_text};
use crate::search::given::read_fit;
use crate::search::linear::fit::{FitRequest, Fitted, Fitter};
use crate::search::linear::inference::{Term, Tests};

/// `fit(record, target [, columns] [, options])`; NULL if the record is unusable.
pub unsafe extern "C" fn fit(info: Handle, chunk: Handle, out: Handle) {
    let write = |out, row, fitted: Option<&Fitted>, _: &FitRequest| {
        // SAFETY: an output of the type of `types::fit`.
        unsafe { write_fit(out, row, fitted) }
    };
    // SAFETY: DuckDB's own handles, of the registered types.
    scalar_guard(info, "fit", || unsafe { answer("fit", chunk, out, write) });
}

/// `summary(record, target [, columns] [, options])`; NULL if the record is unusable.
pub unsafe extern "C" fn summary(info: Handle, chunk: Handle, out: Handle) {
    let mut tests = Tests::default();
    let write = |out, row, fitted: Option<&Fitted>, request: &FitRequest| {
        let terms = fitted.map(|fitted| tests.of(fitted, request.level));
        // SAFETY: an output of the type of `types::summary`.
        unsafe { write_summary(out, row, terms.as_deref()) }
    };
    // SAFETY: as above.
    scalar_guard(info, "summary", || unsafe { answer("summary", chunk, out, write) });
}

/// Fit every record of a chunk, and write what comes of it, one row after the other.
///
/// # Safety
/// A live chunk of records, targets, columns and options, and an output that `write` fits.
unsafe fn answer(
    method: &str,
    chunk: Handle,
    out: Handle,
    mut write: impl FnMut(Vector, usize, Option<&Fitted>, &FitRequest),
) -> Result<(), String> {
    // SAFETY: see the caller's promise.
    unsafe {
        let rows = api::duckdb_data_chunk_get_size(chunk) as usize;
        // Wrong options are an error before any record is read.
        let requests = Asked::of_chunk(method, chunk, rows)?.requests(rows, |target, given| {
            let request = read_fit(method, target, given)?;
            request.check().map(|()| request)
        })?;
        let (grams, out) = (Grams::of_chunk(chunk, 0), Vector::output(out));
        let (mut fitter, mut plans) = (Fitter::default(), Plans::default());
        for (row, request) in requests.iter().enumerate() {
            let gram = grams.as_ref().and_then(|grams| Some((grams.gram(row)?, grams)));
            let mut found = None;
            if let Some((gram, grams)) = &gram
                && let Some(known) = plans.of(request, grams, row, FitRequest::plan)?
            {
                let fitted = fitter.fit(request, &known.plan, gram);
                // `gram_check` returns the reason.
                found = fitted.map_err(|error| error.message)?.ok();
            }
            write(out, row, found, request);
        }
        Ok(())
    }
}

/// # Safety
/// The vector is an output of the type of `types::fit` with that row; the rows before it are
/// written.
unsafe fn write_fit(out: Vector, row: usize, fitted: Option<&Fitted>) {
    let fields: [Vector; FIT_FIELDS.len()] = std::array::from_fn(|index| out.child(index as u64));
    let [intercept, coefficients, explained, r2, sigma, rows, skipped, aliased, note] = fields;
    let width = fitted.map_or(0, |fitted| fitted.coefficients.len());
    let lost = fitted.map_or(0, |fitted| fitted.aliased.iter().filter(|lost| **lost).count());
    let (before, names_before) = (coefficients.grow(width), aliased.grow(lost));
    // SAFETY: the fields have these types; lists are grown before they are written.
    unsafe {
        let entry = |offset: usize, length: usize| ListEntry {
            offset: offset as u64,
            length: length as u64,
        };
        coefficients.data::<ListEntry>().add(row).write(entry(before, width));
        aliased.data::<ListEntry>().add(row).write(entry(names_before, lost));
        let Some(fitted) = fitted else {
            out.set_null(row);
            fields.iter().for_each(|field| field.set_null(row));
            return;
        };
        let entries = coefficients.elements();
        for (at, name) in (before..).zip(&fitted.columns) {
            write_text(entries.child(0), at, name);
        }
        entries.child(1).write(before, &fitted.coefficients);
        let lost = fitted.columns.iter().zip(&fitted.aliased).filter(|(_, lost)| **lost);
        for (at, (name, _)) in (names_before..).zip(lost) {
            write_text(aliased.elements(), at, name);
        }
        let numbers = [
            (intercept, Some(fitted.intercept)),
            (explained, Some(fitted.explained)),
            (r2, Some(fitted.r2)),
            (sigma, fitted.sigma()),
        ];
        numbers.into_iter().for_each(|(field, number)| write_number(field, row, number));
        rows.data::<i64>().add(row).write(fitted.rows);
        skipped.data::<i64>().add(row).write(fitted.skipped);
        match fitted.note() {
            Some(told) => write_text(note, row, &told),
            None => note.set_null(row),
        }
    }
}

/// # Safety
/// As `write_fit`, of the type of `types::summary`.
unsafe fn write_summary(out: Vector, row: usize, terms: Option<&[Term]>) {
    let length = terms.map_or(0, <[Term]>::len);
    let before = out.grow(length);
    let items = out.elements();
    // SAFETY: as above.
    unsafe {
        let entry = ListEntry { offset: before as u64, length: length as u64 };
        out.data::<ListEntry>().add(row).write(entry);
        let Some(terms) = terms else { return out.set_null(row) };
        for (at, term) in (before..).zip(terms) {
            write_text(items.child(0), at, term.name);
            let Term { estimate, std_error, statistic, p_value, standardized, low, high, .. } =
                *term;
            for (field, number) in
                (1..).zip([estimate, std_error, statistic, p_value, standardized, low, high])
            {
                write_number(items.child(field), at, (!number.is_nan()).then_some(number));
            }
        }
    }
}

/// # Safety
/// An output of doubles with that row.
unsafe fn write_number(out: Vector, row: usize, number: Option<f64>) {
    match number {
        // SAFETY: see the caller's promise.
        Some(number) => unsafe { out.data::<f64>().add(row).write(number) },
        None => out.set_null(row),
    }
}

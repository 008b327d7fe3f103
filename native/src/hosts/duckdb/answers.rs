//! Methods of a record as scalar functions: a Gram record, a target and options in, an answer out.

use std::sync::Arc;

use super::api::{self, Handle};
use super::asked::{Asked, Plans};
use super::grams::Grams;
use super::scalar_guard;
use super::vectors::{ListEntry, Vector, write_text};
use crate::methods::answer::{ACROSS, Cell, Type};
use crate::methods::given::read_across;
use crate::methods::question::{Asker, Question};
use crate::methods::sets::across::{Memory, Part, best_across};
use crate::methods::setup::Request;
use crate::methods::{BEST_ACROSS, Method};
use crate::record::terms::Terms;
use crate::words::error::Error;

/// A method that returns no sequence; NULL if the record is unusable.
pub unsafe extern "C" fn answer(info: Handle, chunk: Handle, out: Handle) {
    // SAFETY: the function was registered with its method.
    let method = unsafe { method_of(info) };
    scalar_guard(info, method.name, || {
        let Some(returns) = method.returns() else {
            return Err("it returns a sequence".to_string());
        };
        // SAFETY: DuckDB's own handles, of the registered types.
        unsafe { answer_rows(method, returns, chunk, Vector::output(out)) }
    });
}

/// The method that a function was registered with.
///
/// # Safety
/// The extra information of the function is a `&'static Method`.
pub unsafe fn method_of(info: Handle) -> &'static Method {
    // SAFETY: see the caller's promise.
    unsafe { &*api::duckdb_scalar_function_get_extra_info(info).cast::<Method>() }
}

/// Ask every record of a chunk.
///
/// # Safety
/// A live chunk of records, targets and options, and an output of the type.
unsafe fn answer_rows(
    method: &'static Method,
    returns: &Type,
    chunk: Handle,
    out: Vector,
) -> Result<(), String> {
    // SAFETY: see the caller's promise.
    unsafe {
        let rows = api::duckdb_data_chunk_get_size(chunk) as usize;
        // Wrong options are an error before any record is read.
        let asked = Asked::of_chunk(method, chunk, rows)?;
        let questions =
            asked.requests(rows, |target, given| Question::read(method, target, given))?;
        let grams = Grams::of_chunk(chunk, 0);
        let (mut asker, mut plans) = (Asker::default(), Plans::default());
        for (row, question) in questions.iter().enumerate() {
            let gram = grams.as_ref().and_then(|grams| Some((grams.gram(row)?, grams)));
            let mut found = None;
            if let Some((gram, grams)) = &gram
                && let Some(known) = plans.of(question, grams, row, Question::plan)?
            {
                // `gram_check` returns the reason.
                let answer = asker.ask(question, &known.plan, gram);
                found = answer.map_err(|error| error.message)?.ok();
                if returns.has_terms()
                    && let Some(found) = &mut found
                {
                    let terms = known.terms.of_model(&known.columns, |at| gram.mean(at));
                    found.cell.add_terms(returns, terms.as_deref());
                }
            }
            write(returns, out, row, found.as_ref().map_or(&Cell::Null, |found| &found.cell));
        }
        Ok(())
    }
}

/// A method of several records at once; NULL if one is unusable.
pub unsafe extern "C" fn answer_lists(info: Handle, chunk: Handle, out: Handle) {
    let method = &BEST_ACROSS;
    scalar_guard(info, method.name, || {
        // SAFETY: DuckDB's own handles, of the registered types.
        unsafe { answer_together(method, chunk, Vector::output(out)) }
    });
}

/// Ask the lists of a chunk.
///
/// # Safety
/// A live chunk of lists of records, targets and options, and an output of the type.
unsafe fn answer_together(
    method: &'static Method,
    chunk: Handle,
    out: Vector,
) -> Result<(), String> {
    let told = |error: Error| error.message;
    // SAFETY: see the caller's promise.
    unsafe {
        let rows = api::duckdb_data_chunk_get_size(chunk) as usize;
        let asked = Asked::of_chunk(method, chunk, rows)?;
        let requests = asked.requests(rows, |target, given| read_across(method, target, given))?;
        let lists = Vector::of_chunk(chunk, 0);
        let grams = Grams::of(lists.elements());
        let mut plans = Plans::default();
        for (row, request) in requests.iter().enumerate() {
            let range = match lists.is_null(row) {
                true => None,
                false => Some(lists.get::<ListEntry>(row).range()),
            };
            let mut parts = Vec::new();
            for at in range.clone().into_iter().flatten() {
                let gram = grams.as_ref().and_then(|grams| Some((grams.gram(at)?, grams)));
                let Some((gram, grams)) = gram else { break };
                let fit = |request: &Request<_>, columns: &[String], terms: &Terms| {
                    request.fit(columns, terms).map(Arc::new)
                };
                let Some(plan) = plans.of(request, grams, at, fit)? else { break };
                let terms = plan.terms.of_model(&plan.columns, |at| gram.mean(at));
                parts.push(Part { fit: plan.plan.clone(), gram, terms });
            }
            let mut memory = Memory::default();
            let mut found = None;
            if range.is_some_and(|range| range.len() == parts.len()) {
                let answer = best_across(request, &parts, &mut memory, &mut |_| true);
                found = answer.map_err(told)?.ok();
            }
            write(&ACROSS, out, row, found.as_ref().map_or(&Cell::Null, |(found, _)| &found.cell));
        }
        Ok(())
    }
}

/// Write a value; one of another type is NULL.
///
/// # Safety
/// The vector is an output of the type with that row; the rows before it are written.
pub unsafe fn write(of: &Type, out: Vector, row: usize, cell: &Cell) {
    let grown = |length: usize| {
        let before = out.grow(length);
        // SAFETY: see the caller's promise; a LIST or a MAP.
        unsafe {
            let entry = ListEntry { offset: before as u64, length: length as u64 };
            out.data::<ListEntry>().add(row).write(entry);
        }
        before
    };
    // SAFETY: see the caller's promise; lists are grown before they are written.
    unsafe {
        match (of, cell) {
            (Type::Truth, Cell::Truth(truth)) => out.data::<bool>().add(row).write(*truth),
            (Type::Whole, Cell::Whole(number)) => out.data::<i64>().add(row).write(*number),
            (Type::Number, Cell::Number(number)) if !number.is_nan() => {
                out.data::<f64>().add(row).write(*number);
            }
            (Type::Text, Cell::Text(text)) => write_text(out, row, text),
            (Type::List(item), Cell::List(items)) => {
                let before = grown(items.len());
                for (at, cell) in (before..).zip(items) {
                    write(item, out.elements(), at, cell);
                }
            }
            (Type::Coefficients, Cell::Map(entries)) => {
                let before = grown(entries.len());
                let (names, values) = (out.elements().child(0), out.elements().child(1));
                for (at, (name, value)) in (before..).zip(entries) {
                    write_text(names, at, name);
                    values.data::<f64>().add(at).write(*value);
                }
            }
            (Type::Struct(fields), Cell::List(items)) => {
                for (at, ((_, of), cell)) in fields.iter().zip(items).enumerate() {
                    write(of, out.child(at as u64), row, cell);
                }
            }
            (Type::List(_) | Type::Coefficients, _) => {
                grown(0);
                out.set_null(row);
            }
            (Type::Struct(fields), _) => {
                out.set_null(row);
                for (at, (_, of)) in fields.iter().enumerate() {
                    write(of, out.child(at as u64), row, &Cell::Null);
                }
            }
            _ => out.set_null(row),
        }
    }
}

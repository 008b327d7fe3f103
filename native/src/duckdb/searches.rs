//! The searches as scalar functions: a Gram record and options in, a list of steps out.
//!
//! Options are a STRUCT, or two, as the macros of `names` pass on what they are given by name.

use std::sync::Arc;

use super::api::{self, Handle};
use super::grams::Grams;
use super::scalar_guard;
use super::sequences::write_sequence;
use super::values::Values;
use super::vectors::{Vector, bytes, text, write_text};
use crate::record::Names;
use crate::search::given::{names_of, read_request};
use crate::search::problem::Target;
use crate::search::run::Workspace;
use crate::search::setup::{Fit, Request};
use crate::search::value::Value;

/// `anytime_sequence(record, target [, options])`; empty if the record is unusable.
pub unsafe extern "C" fn anytime_sequence(info: Handle, chunk: Handle, out: Handle) {
    // SAFETY: DuckDB's own handles, of the registered types.
    scalar_guard(info, "anytime_sequence", || unsafe { search("anytime_sequence", chunk, out) });
}

/// `foba(record, target [, options])`.
pub unsafe extern "C" fn foba(info: Handle, chunk: Handle, out: Handle) {
    // SAFETY: as above.
    scalar_guard(info, "foba", || unsafe { search("foba", chunk, out) });
}

/// `backward(record, target [, options])`.
pub unsafe extern "C" fn backward(info: Handle, chunk: Handle, out: Handle) {
    // SAFETY: as above.
    scalar_guard(info, "backward", || unsafe { search("backward", chunk, out) });
}

/// The target among the columns of records that have these terms.
struct Checked {
    columns: Names,
    terms: Option<Vec<u8>>,
    target: Target,
}

/// `gram_check(record, target)`: why a record cannot be searched; NULL if it can.
pub unsafe extern "C" fn gram_check(info: Handle, chunk: Handle, out: Handle) {
    // SAFETY: as above; an output of VARCHARs.
    scalar_guard(info, "gram_check", || unsafe {
        let rows = api::duckdb_data_chunk_get_size(chunk) as usize;
        let (grams, targets) = (Grams::of_chunk(chunk, 0), Vector::of_chunk(chunk, 1));
        let out = Vector::output(out);
        let mut known: Option<Checked> = None;
        for row in 0..rows {
            let target = target_of(targets, row)?;
            let reason = match grams.as_ref().map(|grams| (grams.gram(row), grams)) {
                None => Some(NO_ROWS.to_string()),
                Some((Some(gram), grams)) => {
                    let terms = grams.terms(row);
                    let is_it = |known: &&Checked| {
                        known.target.name == target
                            && known.terms.as_deref() == terms
                            && grams.has_columns(row, &known.columns)
                    };
                    match known.as_ref().filter(is_it) {
                        Some(known) => known.target.reason(&gram),
                        None => match grams.record(row) {
                            Ok(Some(record)) => {
                                let found = Target::of(&target, &record.columns, &record.terms);
                                let found = found.map_err(|error| error.message)?;
                                let reason = found.reason(&gram);
                                let terms = terms.map(<[u8]>::to_vec);
                                known =
                                    Some(Checked { columns: record.columns, terms, target: found });
                                reason
                            }
                            other => Some(other.err().unwrap_or_else(|| NO_ROWS.to_string())),
                        },
                    }
                }
                Some((None, grams)) => {
                    let reason = grams.record(row).err();
                    let is_null = grams.records.is_null(row);
                    let damaged = if is_null { NO_ROWS } else { "gram record is damaged" };
                    Some(reason.unwrap_or_else(|| damaged.to_string()))
                }
            };
            match reason {
                Some(reason) => write_text(out, row, &reason),
                None => out.set_null(row),
            }
        }
        Ok(())
    });
}

/// Search every record of a chunk.
///
/// # Safety
/// A live chunk of records, targets and options, and an output of sequences.
unsafe fn search(method: &str, chunk: Handle, out: Handle) -> Result<(), String> {
    // SAFETY: see the caller's promise.
    unsafe {
        let rows = api::duckdb_data_chunk_get_size(chunk) as usize;
        let asked = Asked::of_chunk(method, chunk, rows)?;
        let requests = (0..rows).scan(None, |last: &mut Option<(usize, Arc<Request>)>, row| {
            if !last.as_ref().is_some_and(|(at, _)| asked.same(*at, row)) {
                match asked.at(row) {
                    Ok(request) => *last = Some((row, Arc::new(request))),
                    Err(error) => return Some(Err(error)),
                }
            }
            last.as_ref().map(|(_, request)| Ok(request.clone()))
        });
        // Wrong options are an error before any record is read.
        let requests = requests.collect::<Result<Vec<_>, String>>()?;
        let (grams, out) = (Grams::of_chunk(chunk, 0), Vector::output(out));
        let (mut workspace, mut plans) = (Workspace::default(), Plans::default());
        for (row, request) in requests.iter().enumerate() {
            let gram = grams.as_ref().and_then(|grams| Some((grams.gram(row)?, grams)));
            let mut found = None;
            if let Some((gram, grams)) = &gram
                && let Some(known) = plans.of(request, grams, row)?
            {
                // `gram_check` tells why there is none.
                let plan = known.fit.plan(gram).map_err(|error| error.message)?;
                found = plan.ok().and_then(|plan| {
                    let sequence = workspace.search(request, plan, gram).ok()?;
                    Some((sequence, &plan.groups, known.terms.as_deref()))
                });
            }
            write_sequence(out, row, found);
        }
        Ok(())
    }
}

/// What is asked of each record of a chunk.
struct Asked<'c> {
    method: &'c str,
    targets: Vector,
    options: Vec<Values<'c>>,
}

impl<'c> Asked<'c> {
    /// # Safety
    /// As `search`; the chunk has that many rows and lives as long as the result.
    unsafe fn of_chunk(method: &'c str, chunk: Handle, rows: usize) -> Result<Self, String> {
        // SAFETY: see the caller's promise.
        unsafe {
            let columns = api::duckdb_data_chunk_get_column_count(chunk);
            let options = |at| Values::of(Vector::of_chunk(chunk, at), rows);
            let options: Vec<Values> = (2..columns).map(options).collect::<Result<_, _>>()?;
            if !options.iter().all(Values::has_names) {
                let way = named_arguments(method);
                return Err(format!("options must be a STRUCT, as {{'budget': 5}}; {way}"));
            }
            Ok(Asked { method, targets: Vector::of_chunk(chunk, 1), options })
        }
    }

    /// # Safety
    /// The chunk is live and has both rows.
    unsafe fn same(&self, a: usize, b: usize) -> bool {
        // SAFETY: see the caller's promise; no target of a request is NULL.
        unsafe {
            !self.targets.is_null(b)
                && bytes(self.targets, a) == bytes(self.targets, b)
                && self.options.iter().all(|options| options.same(a, b))
        }
    }

    /// # Safety
    /// The chunk is live and has that row.
    unsafe fn at(&self, row: usize) -> Result<Request, String> {
        // SAFETY: see the caller's promise.
        let (target, options) = unsafe {
            let options: Vec<Value> = self.options.iter().map(|given| given.at(row)).collect();
            (target_of(self.targets, row)?, options)
        };
        let named = options.into_iter().flat_map(|options| match options {
            Value::Map(named) => named,
            _ => Vec::new(),
        });
        // Names of a STRUCT have no case.
        let given: Vec<_> = named.map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
        if given.iter().any(|(name, _)| name.is_empty()) {
            return Err("options has a field without a name; name every field".to_string());
        }
        let known = names_of(self.method);
        let request = read_request(self.method, &target, &given).map_err(|error| {
            match given.iter().all(|(name, _)| known.contains(&&name[..])) {
                true => error.message,
                false => format!("{}; {}", error.message, named_arguments(self.method)),
            }
        })?;
        request.check().map_err(|error| error.message)?;
        Ok(request)
    }
}

/// DuckDB takes `f(g, 'y', costs := {...})` for a STRUCT at the place of the options, of a function
/// that is no macro.
fn named_arguments(method: &str) -> String {
    format!("named arguments: dbselect.{method}(...)")
}

/// # Safety
/// A VARCHAR vector with that row.
unsafe fn target_of(targets: Vector, row: usize) -> Result<String, String> {
    if targets.is_null(row) {
        return Err("target is None; it must be the name of a column".to_string());
    }
    // SAFETY: see the caller's promise.
    Ok(unsafe { text(targets, row) })
}

/// What is said of a NULL.
const NO_ROWS: &str = "no rows";

/// The plans made so far: those of a chunk have mostly the same columns and options.
#[derive(Default)]
struct Plans {
    plans: Vec<Known>,
    last: usize,
}

/// A plan, and what it was made of.
struct Known {
    request: Arc<Request>,
    columns: Names,
    terms: Option<String>,
    fit: Fit,
}

impl Plans {
    /// The plan of a request for a record that has a Gram; nothing if its columns or terms are
    /// those of none.
    ///
    /// # Safety
    /// The chunk is live and has that row.
    unsafe fn of(
        &mut self,
        request: &Arc<Request>,
        grams: &Grams,
        row: usize,
    ) -> Result<Option<&Known>, String> {
        // SAFETY: see the caller's promise.
        unsafe {
            let terms = grams.terms(row);
            let is_it = |known: &Known| {
                Arc::ptr_eq(&known.request, request)
                    && known.terms.as_deref().map(str::as_bytes) == terms
                    && grams.has_columns(row, &known.columns)
            };
            if !self.plans.get(self.last).is_some_and(is_it) {
                self.last = match self.plans.iter().position(is_it) {
                    Some(found) => found,
                    None => {
                        let Ok(Some(record)) = grams.record(row) else {
                            return Ok(None);
                        };
                        let fit = request.fit(&record.columns, &record.terms);
                        let fit = fit.map_err(|error| error.message)?;
                        let terms = terms.map(|json| String::from_utf8_lossy(json).into_owned());
                        let (request, columns) = (request.clone(), record.columns);
                        self.plans.push(Known { request, columns, terms, fit });
                        self.plans.len() - 1
                    }
                };
            }
        }
        Ok(self.plans.get(self.last))
    }
}

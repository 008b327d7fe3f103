//! The searches as scalar functions: a Gram record and options in, a list of steps out.

use super::answers::method_of;
use super::api::{self, Handle};
use super::asked::{Asked, Plans, target_of};
use super::grams::Grams;
use super::scalar_guard;
use super::sequences::write_sequence;
use super::vectors::{Vector, write_text};
use crate::linear::problem::Target;
use crate::methods::Method;
use crate::methods::given::read_request;
use crate::methods::run::Workspace;
use crate::methods::setup::Request;
use crate::record::gram::Names;
use crate::search::steps::to_the_end;

/// A search, such as `anytime_sequence(record, target [, options])`; empty if the record is
/// unusable.
pub unsafe extern "C" fn search(info: Handle, chunk: Handle, out: Handle) {
    // SAFETY: the function was registered with its method.
    let method = unsafe { method_of(info) };
    // SAFETY: DuckDB's own handles, of the registered types.
    scalar_guard(info, method.name, || unsafe { search_rows(method, chunk, out) });
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
unsafe fn search_rows(method: &'static Method, chunk: Handle, out: Handle) -> Result<(), String> {
    // SAFETY: see the caller's promise.
    unsafe {
        let rows = api::duckdb_data_chunk_get_size(chunk) as usize;
        let asked = Asked::of_chunk(method, chunk, rows)?;
        // Wrong options are an error before any record is read.
        let requests = asked.requests(rows, |target, given| {
            let request = read_request(method, target, given)?;
            request.check().map(|()| request)
        })?;
        let (grams, out) = (Grams::of_chunk(chunk, 0), Vector::output(out));
        let (mut workspace, mut plans) = (Workspace::default(), Plans::default());
        for (row, request) in requests.iter().enumerate() {
            let gram = grams.as_ref().and_then(|grams| Some((grams.gram(row)?, grams)));
            let (mut found, mut terms) = (None, None);
            if let Some((gram, grams)) = &gram
                && let Some(known) = plans.of(request, grams, row, Request::fit)?
            {
                // `gram_check` returns the reason.
                let plan = known.plan.plan(gram).map_err(|error| error.message)?;
                found = plan.ok().and_then(|plan| {
                    let found = workspace.search(request, plan, gram, &mut to_the_end);
                    Some((found.ok()?, &plan.groups))
                });
                if found.is_some() {
                    terms = known.terms.of_model(&known.columns, |at| gram.mean(at));
                }
            }
            let found = found.map(|(sequence, groups)| (sequence, groups, terms.as_deref()));
            write_sequence(out, row, found);
        }
        Ok(())
    }
}

/// The reason given for a NULL.
const NO_ROWS: &str = "no rows";

//! How much memory what groups hold may take: DuckDB's own limit does not see the library's.
//!
//! There is one limit for the process. Unless it is set, by the variable `DBSELECT_MEMORY_LIMIT` or
//! in SQL, it is a share of what DuckDB's `memory_limit` is when the extension is loaded, or when
//! a query of a macro such as `dbselect.gram` is planned; or of the machine's memory where that is
//! less (DuckDB 1.3 takes a cgroup without a limit for 1638 PiB). The C API v1 shows a plain
//! aggregate no setting of its connection, in DuckDB 2.0 too.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::super::api::{self, Handle};
use super::super::scalar_guard;
use super::super::vectors::{Vector, text, write_text};
use crate::memory::{bytes_of, held, of_machine, told};

/// An expression that sets the limit to a share of DuckDB's, unless a user has set it.
macro_rules! limit {
    () => {
        "system.main.dbselect_memory_limit(current_setting('memory_limit'), 0.5)"
    };
}
pub(in crate::hosts::duckdb) use limit;

/// Sets the limit so.
pub const DEFAULT: &str = concat!("SELECT ", limit!());
/// The variable of the environment that sets it.
const VARIABLE: &str = "DBSELECT_MEMORY_LIMIT";

static LIMIT: AtomicU64 = AtomicU64::new(u64::MAX);
/// Whether a user has set it.
static IS_SET: AtomicBool = AtomicBool::new(false);

/// Take the limit of the environment, if it has one.
pub fn of_environment() -> Result<(), String> {
    let Ok(text) = std::env::var(VARIABLE) else { return Ok(()) };
    bytes_of(&text).map(set).map_err(|error| format!("{VARIABLE}: {error}"))
}

fn set(bytes: u64) {
    LIMIT.store(bytes, Ordering::Relaxed);
    IS_SET.store(true, Ordering::Relaxed);
}

/// Refuse to go on beyond the limit.
pub fn check() -> Result<(), String> {
    let limit = LIMIT.load(Ordering::Relaxed);
    if held() <= limit {
        return Ok(());
    }
    Err(format!(
        "what the groups hold takes more than dbselect's limit of {}; sum a part of the groups at a \
         time, WHERE hash(key) % 8 = 0 and so on, or raise the limit: SELECT \
         dbselect.memory_limit('{}GB')",
        told(limit),
        (limit / 500_000_000).max(1)
    ))
}

/// `dbselect_memory_limit(limit [, share])`: the limit, once it is set to what is no NULL; with a
/// share only if no user has set it.
pub unsafe extern "C" fn memory_limit(info: Handle, chunk: Handle, out: Handle) {
    scalar_guard(info, "memory_limit", || {
        // SAFETY: a live chunk of a text and maybe a double, and an output of texts.
        unsafe {
            let (given, out) = (Vector::of_chunk(chunk, 0), Vector::output(out));
            let has_share = api::duckdb_data_chunk_get_column_count(chunk) > 1;
            for row in 0..api::duckdb_data_chunk_get_size(chunk) as usize {
                if !given.is_null(row) {
                    let bytes = bytes_of(&text(given, row))?;
                    if !has_share {
                        set(bytes);
                    } else if !IS_SET.load(Ordering::Relaxed) {
                        let share: f64 = Vector::of_chunk(chunk, 1).get(row);
                        let bytes = of_machine().map_or(bytes, |most| bytes.min(most));
                        LIMIT.store((bytes as f64 * share) as u64, Ordering::Relaxed);
                    }
                }
                write_text(out, row, &told(LIMIT.load(Ordering::Relaxed)));
            }
        }
        Ok(())
    });
}

//! Work in pieces on all cores: a long run of rows, or the parts of a wide panel.
//!
//! Each piece is answered alone and the answers are in the order of the pieces, so that results do
//! not depend on which thread does what. Where a thread cannot be started, the others do its work.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread;

/// Work below which a run is not worth a second thread, in cubes of widths: some ten
/// milliseconds, for which a thread may have to wait where cores are busy. A chunk of DuckDB's of
/// small records is less, and DuckDB has threads of its own.
const WORTH_THREADS: f64 = 1e7;
/// Pieces for each thread, so that none waits long for one that got slow records.
const PIECES: usize = 8;

/// The variable of the environment that sets how many threads run at once.
const VARIABLE: &str = "DBSELECT_THREADS";
/// Threads that run beside those that called: together they leave no core to two.
static HELPERS: AtomicUsize = AtomicUsize::new(0);

/// How many threads run at once: as many as the process may use by its affinity and the limit of
/// its container, or as `DBSELECT_THREADS` says; 1 where there are none.
pub fn cores() -> usize {
    static SET: OnceLock<Option<usize>> = OnceLock::new();
    let number = || std::env::var(VARIABLE).ok()?.parse().ok().filter(|&cores| cores > 0);
    let set = *SET.get_or_init(number);
    set.unwrap_or_else(|| thread::available_parallelism().map_or(1, |cores| cores.get()))
}

/// Answer rows `0..rows`, in pieces of them, one after the other in the result.
///
/// `work` is what they cost in all, in cubes of widths.
pub fn in_pieces<T: Send>(
    rows: usize,
    work: f64,
    answer: impl Fn(Range<usize>) -> T + Sync,
) -> Vec<T> {
    if rows < 2 || work < WORTH_THREADS {
        return vec![answer(0..rows)];
    }
    let cores = cores();
    let size = rows.div_ceil(cores.min(rows) * PIECES);
    let pieces = (0..rows).step_by(size).map(|first| first..(first + size).min(rows)).collect();
    on_cores(cores, pieces, answer)
}

/// Answer each of some parts, on all cores, one after the other in the result.
pub fn of_each<P: Send, T: Send>(parts: Vec<P>, answer: impl Fn(P) -> T + Sync) -> Vec<T> {
    if parts.len() < 2 {
        return parts.into_iter().map(answer).collect();
    }
    on_cores(cores(), parts, answer)
}

fn on_cores<P: Send, T: Send>(
    cores: usize,
    parts: Vec<P>,
    answer: impl Fn(P) -> T + Sync,
) -> Vec<T> {
    let helpers = Helpers::take(cores - 1, parts.len().saturating_sub(1));
    if helpers.0 == 0 {
        return parts.into_iter().map(answer).collect();
    }
    let found: Mutex<Vec<(usize, T)>> = Mutex::new(Vec::with_capacity(parts.len()));
    let parts = Mutex::new(parts.into_iter().enumerate());
    let answer_parts = || {
        loop {
            // A panic in another thread is raised when the scope ends.
            let next = parts.lock().unwrap_or_else(|error| error.into_inner()).next();
            let Some((at, part)) = next else { return };
            let one = answer(part);
            found.lock().unwrap_or_else(|error| error.into_inner()).push((at, one));
        }
    };
    thread::scope(|scope| {
        for _ in 0..helpers.0 {
            if thread::Builder::new().spawn_scoped(scope, answer_parts).is_err() {
                break;
            }
        }
        answer_parts();
    });
    let mut found = found.into_inner().unwrap_or_else(|error| error.into_inner());
    found.sort_unstable_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, one)| one).collect()
}

/// Threads that a call may start, given back in the end: a part that is itself in parts finds none
/// left.
struct Helpers(usize);

impl Helpers {
    /// Up to so many, of cores beside that of the call, as long as these are free.
    fn take(free: usize, most: usize) -> Helpers {
        let mut taken = 0;
        let more = |running: usize| {
            taken = most.min(free.saturating_sub(running));
            Some(running + taken)
        };
        let _ = HELPERS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        Helpers(taken)
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        HELPERS.fetch_sub(self.0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_all_rows_in_their_order() {
        for rows in [0, 1, 2, 15, 16, 17, 1000] {
            for work in [0.0, WORTH_THREADS] {
                let found = in_pieces(rows, work, |piece| piece.collect::<Vec<usize>>());
                assert_eq!(found.concat(), (0..rows).collect::<Vec<usize>>(), "{rows} {work}");
            }
        }
    }
}

//! A long run of rows, answered piece by piece on all cores.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Work below which a run is not worth a second thread, in cubes of widths: some ten
/// milliseconds, for which a thread may have to wait where cores are busy. A chunk of DuckDB's of
/// small records is less, and DuckDB has threads of its own.
const WORTH_THREADS: f64 = 1e7;
/// Pieces for each thread, so that none waits long for one that got slow records.
const PIECES: usize = 8;

/// How many threads run at once; 1 where there are none.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, |cores| cores.get())
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
    let cores = cores().min(rows);
    let size = rows.div_ceil(cores * PIECES);
    let count = rows.div_ceil(size);
    let next = AtomicUsize::new(0);
    let found: Mutex<Vec<(usize, T)>> = Mutex::new(Vec::with_capacity(count));
    let answer_pieces = || {
        loop {
            let piece = next.fetch_add(1, Ordering::Relaxed);
            if piece >= count {
                return;
            }
            let one = answer(piece * size..((piece + 1) * size).min(rows));
            // A panic in another thread is raised when the scope ends.
            found.lock().unwrap_or_else(|error| error.into_inner()).push((piece, one));
        }
    };
    thread::scope(|scope| {
        (1..cores).for_each(|_| {
            scope.spawn(answer_pieces);
        });
        answer_pieces();
    });
    let mut found = found.into_inner().unwrap_or_else(|error| error.into_inner());
    found.sort_unstable_by_key(|(piece, _)| *piece);
    found.into_iter().map(|(_, one)| one).collect()
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

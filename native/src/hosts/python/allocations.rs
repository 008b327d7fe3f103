//! The entry point for one budget of many segments.

use std::ffi::c_char;
use std::slice;

use super::guard;
use crate::search::allocation::{Segment, allocate};

/// Choose a prefix for each of some segments. `steps` gets its place, -1 where there is none, and
/// `totals` value, spent and bound. Null comes back, or an error text for `dbselect_text_free`.
///
/// # Safety
/// `ends` holds one more number than `count`, ascending from 0; `spent` and `explained` hold as
/// many doubles as the last of them says, `rows`, `worth` and `steps` hold `count`, `totals` 3.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_allocate(
    ends: *const usize,
    count: usize,
    spent: *const f64,
    explained: *const f64,
    rows: *const f64,
    worth: *const f64,
    budget: f64,
    steps: *mut i64,
    totals: *mut f64,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let (ends, points, of_segments, steps, totals) = unsafe {
            let ends = slice::from_raw_parts(ends, count + 1);
            (
                ends,
                [spent, explained].map(|of| slice::from_raw_parts(of, ends[count])),
                [rows, worth].map(|of| slice::from_raw_parts(of, count)),
                slice::from_raw_parts_mut(steps, count),
                slice::from_raw_parts_mut(totals, 3),
            )
        };
        let segment = |at: usize| {
            let [spent, explained] = points.map(|of| &of[ends[at]..ends[at + 1]]);
            Segment { rows: of_segments[0][at], worth: of_segments[1][at], spent, explained }
        };
        let segments: Vec<Segment> = (0..count).map(segment).collect();
        let found = allocate(&segments, budget).map_err(|told| format!("ArgumentError: {told}"))?;
        let place = |step: Option<usize>| step.map_or(-1, |step| step as i64);
        steps.iter_mut().zip(found.steps).for_each(|(own, step)| *own = place(step));
        totals.copy_from_slice(&[found.value, found.spent, found.bound]);
        Ok(())
    })
}

//! Entry points for designs, whose rows Python reads.

use std::ffi::c_char;
use std::slice;

use super::guard;
use crate::search::design::greedy::Greedy;
use crate::search::design::posterior::Posterior;

/// A design without rows, for `dbselect_design_free`. `width` is 1 at least, `capacity` 2.
#[unsafe(no_mangle)]
pub extern "C" fn dbselect_design_new(
    width: usize,
    beta2: f64,
    sigma2: f64,
    capacity: usize,
) -> *mut Greedy {
    Box::into_raw(Box::new(Greedy::new(Posterior::new(width, beta2, sigma2), capacity)))
}

/// Free a design.
///
/// # Safety
/// `design` comes from `dbselect_design_new`, and nobody uses it afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_design_free(design: *mut Greedy) {
    // SAFETY: see the caller's promise.
    drop(unsafe { Box::from_raw(design) });
}

/// Read some rows; `may_be_taken` gets 1 for each that may be taken before the next reading. Null
/// comes back, or an error text for `dbselect_text_free`.
///
/// # Safety
/// `design` is live and nobody else uses it; `numbers` and `may_be_taken` hold `rows` numbers, `x`
/// `rows` times the width.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_design_read(
    design: *mut Greedy,
    numbers: *const usize,
    x: *const f64,
    rows: usize,
    may_be_taken: *mut bool,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let (design, numbers, may_be_taken) = unsafe {
            let numbers = slice::from_raw_parts(numbers, rows);
            (&mut *design, numbers, slice::from_raw_parts_mut(may_be_taken, rows))
        };
        // SAFETY: as above.
        let x = unsafe { slice::from_raw_parts(x, rows * design.posterior.width()) };
        may_be_taken.copy_from_slice(&design.read(numbers, x)?);
        Ok(())
    })
}

/// Take the best row: of those read since the last time if `is_read`, else of those in memory.
/// `row` gets its number, or the largest number there is if all rows are to be read first, and
/// `gain` what it gains. Null comes back, or an error text for `dbselect_text_free`.
///
/// # Safety
/// `design` is live and nobody else uses it; `row` and `gain` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_design_next(
    design: *mut Greedy,
    is_read: bool,
    row: *mut usize,
    gain: *mut f64,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let (design, row, gain) = unsafe { (&mut *design, &mut *row, &mut *gain) };
        let pick = if is_read { Some(design.best_read()?) } else { design.best() };
        (*row, *gain) = pick.map_or((usize::MAX, 0.0), |pick| (pick.row, pick.gain));
        Ok(())
    })
}

/// Take a row that was never read; what it gains comes back.
///
/// # Safety
/// `design` is live and nobody else uses it; `x` holds as many doubles as it is wide.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_design_take(design: *mut Greedy, x: *const f64) -> f64 {
    // SAFETY: see the caller's promise.
    let (design, x) = unsafe {
        let design = &mut *design;
        let width = design.posterior.width();
        (design, slice::from_raw_parts(x, width))
    };
    design.posterior.add(x)
}

/// Write the posterior covariance, row by row.
///
/// # Safety
/// `design` is live; `covariance` holds the square of its width.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_design_covariance(design: *const Greedy, covariance: *mut f64) {
    // SAFETY: see the caller's promise.
    let (design, size) = unsafe { (&*design, (*design).posterior.width().pow(2)) };
    // SAFETY: as above.
    unsafe { slice::from_raw_parts_mut(covariance, size) }
        .copy_from_slice(&design.posterior.covariance());
}

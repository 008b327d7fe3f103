//! Entry points for knockoffs, whose searches Python may choose.

use std::ffi::c_char;
use std::slice;

use super::guard;
use crate::search::draws::Draws;
use crate::search::knockoffs::copies::Copies;
use crate::search::knockoffs::selection::select;

/// Draw knockoffs of independent columns. `blocks` gets the D squares of S, `drawn` D correlations
/// of the knockoffs with the target for each draw. Null comes back, or an error text for
/// `dbselect_text_free`.
///
/// # Safety
/// `starts` holds one more number than `n_groups`, ascending from 0 to D; `correlations` and
/// `blocks` hold the squares of D, `target` D and `drawn` `draws` times D doubles; there are more
/// rows than D + 1, and more than 2 D if `is_fixed` is not 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_knockoffs(
    correlations: *const f64,
    target: *const f64,
    starts: *const usize,
    n_groups: usize,
    rows: usize,
    is_fixed: u8,
    seed: i64,
    draws: usize,
    blocks: *mut f64,
    drawn: *mut f64,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let (correlations, target, starts, blocks, drawn) = unsafe {
            let starts = slice::from_raw_parts(starts, n_groups + 1);
            let size = starts[n_groups];
            (
                slice::from_raw_parts(correlations, size * size).to_vec(),
                slice::from_raw_parts(target, size).to_vec(),
                starts,
                slice::from_raw_parts_mut(blocks, size * size),
                slice::from_raw_parts_mut(drawn, size * draws),
            )
        };
        let size = target.len();
        let copies = Copies::of(correlations, target, rows, starts);
        blocks.copy_from_slice(&copies.blocks);
        let mut stream = Draws::new(seed);
        for row in drawn.chunks_exact_mut(size.max(1)) {
            let one = match is_fixed {
                0 => copies.second_order(&mut stream),
                _ => copies.fixed(&mut stream),
            };
            row.copy_from_slice(&one);
        }
        Ok(())
    })
}

/// Join the statistics of some draws of knockoffs, `n_groups` each. `found` gets, for each group,
/// how often it is selected, its mean e-value, and 1 if it is selected in the end. Null comes
/// back, or an error text for `dbselect_text_free`.
///
/// # Safety
/// `statistics` holds `draws` times `n_groups` doubles, of which there is one at least, `found`
/// three for each group.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_knockoff_select(
    statistics: *const f64,
    draws: usize,
    n_groups: usize,
    q: f64,
    found: *mut f64,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let (statistics, found) = unsafe {
            (
                slice::from_raw_parts(statistics, draws * n_groups),
                slice::from_raw_parts_mut(found, 3 * n_groups),
            )
        };
        let selection = select(statistics, n_groups, q);
        for (at, row) in found.chunks_exact_mut(3).enumerate() {
            let is_selected = f64::from(u8::from(selection.selected[at]));
            row.copy_from_slice(&[selection.frequency[at], selection.e_value[at], is_selected]);
        }
        Ok(())
    })
}

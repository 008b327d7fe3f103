//! Entry points for the paths of penalised least squares.

use std::ffi::c_char;
use std::slice;
use std::sync::Arc;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::{ArrayRef, Float64Array, LargeListArray, RecordBatch, StructArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field};

use super::turns::{OnTurn, calling};
use super::{export, guard};
use crate::kernel::possible::INDEFINITE;
use crate::search::penalised::curvature::degrees;
use crate::search::penalised::descent::Effort;
use crate::search::penalised::path::{Grid, Path};
use crate::search::penalised::quadratic::{Penalty, Quadratic};
use crate::search::steps::{Action, Choice, Step};

/// What is minimised: pointers to C doubles and numbers of Python's.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Penalised {
    /// The squares of the D columns, row by row.
    products: *const f64,
    /// D doubles.
    target: *const f64,
    /// Where the columns of each group begin, and where the last ends: D.
    starts: *const usize,
    /// J.
    n_groups: usize,
    /// J doubles, then D, then J.
    norm: *const f64,
    absolute: *const f64,
    square: *const f64,
    /// Penalties, or null for a grid.
    penalties: *const f64,
    /// How many.
    n_penalties: usize,
    /// Of the grid: its last penalty as a share of the first.
    ratio: f64,
}

impl Penalised {
    /// What is minimised, and the penalty of 1.
    ///
    /// # Safety
    /// The pointers are to as many numbers as their fields say, which live as long as the result.
    unsafe fn problem<'p>(&self) -> (Quadratic<'p>, Penalty) {
        // SAFETY: see the caller's promise.
        unsafe {
            let starts = slice::from_raw_parts(self.starts, self.n_groups + 1).to_vec();
            let width = starts[self.n_groups];
            let doubles = |at: *const f64, count| slice::from_raw_parts(at, count).to_vec();
            let weights = Penalty {
                norm: doubles(self.norm, self.n_groups),
                absolute: doubles(self.absolute, width),
                square: doubles(self.square, self.n_groups),
            };
            let products = slice::from_raw_parts(self.products, width * width);
            (Quadratic::new(products, doubles(self.target, width), starts), weights)
        }
    }

    /// # Safety
    /// As `problem`; there are penalties.
    unsafe fn given(&self) -> Vec<f64> {
        // SAFETY: see the caller's promise.
        unsafe { slice::from_raw_parts(self.penalties, self.n_penalties).to_vec() }
    }
}

/// Write the path of a problem to `array` and `schema`: one row of lists, the fields of `Path`
/// and `condition`. `on_turn` is called after every penalty; if it ends the path there are fewer.
/// Null comes back, or an error text for `dbselect_text_free`.
///
/// # Safety
/// `asked` keeps the promise of `Penalised`; `on_turn` that of `turns::calling`; `array` and
/// `schema` are writable and hold nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_penalised_path(
    asked: *const Penalised,
    on_turn: OnTurn,
    array: *mut FFI_ArrowArray,
    schema: *mut FFI_ArrowSchema,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let (asked, (quadratic, weights)) = unsafe { (*asked, (*asked).problem()) };
        let grid = if asked.penalties.is_null() {
            Grid::Geometric(asked.n_penalties, asked.ratio)
        } else {
            // SAFETY: see the caller's promise.
            Grid::Given(unsafe { asked.given() })
        };
        // SAFETY: see the caller's promise.
        let mut told = unsafe { calling(on_turn) };
        let mut turn = |number| {
            let (action, choice) = (Action::Add, Choice::Free);
            told(&Step { action, group: number, score: 0.0, gain: 0.0, explained: 0.0, choice })
        };
        if !quadratic.is_possible() {
            return Err(format!("RecordError: {INDEFINITE}"));
        }
        let path = Path::of(&quadratic, &weights, &grid, Effort::default(), &mut turn);
        let condition = path.condition(&quadratic, &weights);
        let counts = |counts: &[usize]| counts.iter().map(|&count| count as f64).collect();
        let fields = [
            ("entered", list(counts(&path.entered))),
            ("entered_at", list(counts(&path.entered_at))),
            ("penalties", list(path.penalties)),
            ("w", list(path.w)),
            ("lengths", list(path.lengths)),
            ("r2", list(path.r2)),
            ("gap", list(path.gap)),
            ("violation", list(path.violation)),
            ("condition", list(vec![condition])),
        ];
        let row = RecordBatch::try_from_iter(fields).map_err(|error| error.to_string())?;
        // SAFETY: see the caller's promise.
        unsafe { export(&StructArray::from(row), array, schema) }
    })
}

/// Write the degrees of freedom at each penalty to `found`, at the coefficients `w`, D for each.
/// Null comes back, or an error text for `dbselect_text_free`.
///
/// # Safety
/// `asked` keeps the promise of `Penalised`; `w` and `found` hold as many doubles as there are
/// penalties times D, and penalties.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_penalised_degrees(
    asked: *const Penalised,
    w: *const f64,
    found: *mut f64,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let (quadratic, weights, penalties, w, found) = unsafe {
            let (quadratic, weights) = (*asked).problem();
            let penalties = (*asked).given();
            let w = slice::from_raw_parts(w, penalties.len() * quadratic.width());
            let found = slice::from_raw_parts_mut(found, penalties.len());
            (quadratic, weights, penalties, w, found)
        };
        let each = penalties.iter().zip(w.chunks_exact(quadratic.width()));
        for (found, (&penalty, w)) in found.iter_mut().zip(each) {
            *found = degrees(&quadratic, &weights.times(penalty), w);
        }
        Ok(())
    })
}

/// One row of numbers.
pub(super) fn list(values: Vec<f64>) -> ArrayRef {
    let field = Arc::new(Field::new_list_field(DataType::Float64, false));
    let ends = OffsetBuffer::from_lengths([values.len()]);
    Arc::new(LargeListArray::new(field, ends, Arc::new(Float64Array::from(values)), None))
}

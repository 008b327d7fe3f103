//! Entry points for least squares on the columns of a record, and for Student's t.

use std::ffi::c_char;
use std::slice;
use std::sync::Arc;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::{ArrayRef, Float64Array, LargeListArray, RecordBatch, StructArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field};

use super::{export, guard};
use crate::kernel::rank_update::triangle;
use crate::linear::algebra::student::Student;
use crate::linear::fields::Fields;
use crate::linear::fit::{FitPlan, FitRequest, Fitted, Fitter};
use crate::linear::inference::Deviations;
use crate::linear::problem::{Gram, Linear};
use crate::linear::refine::Refiner;
use crate::linear::state::{Buffers, State};

/// Moments of D columns and of the target, which comes last: numbers of Python's.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Moments {
    /// D.
    width: usize,
    rows: i64,
    weight: f64,
    /// D + 1 doubles each, with the target.
    mean: *const f64,
    mean_low: *const f64,
    /// The lower triangle, row by row.
    comoment: *const f64,
}

impl Moments {
    /// The record.
    ///
    /// # Safety
    /// The pointers are to as many numbers as the fields say, which live as long as the result.
    unsafe fn gram<'g>(&self) -> Gram<'g> {
        let Moments { width, rows, weight, mean, mean_low, comoment } = *self;
        let size = width + 1;
        // SAFETY: see the caller's promise.
        let (mean, mean_low, comoment) = unsafe {
            (
                slice::from_raw_parts(mean, size),
                slice::from_raw_parts(mean_low, size),
                slice::from_raw_parts(comoment, triangle(size)),
            )
        };
        Gram { rows, skipped: 0, weight, mean, mean_low, comoment, missing: &[] }
    }
}

/// Write the model of all columns of `moments` to `array` and `schema`: one row of lists of numbers,
/// with `has_factor` also L^-1. Null comes back, or an error text for `dbselect_text_free`.
///
/// # Safety
/// The pointers of `moments` are to as many numbers as its fields say; `array` and `schema` are
/// writable and hold nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_least_squares(
    moments: *const Moments,
    ridge: f64,
    scale: bool,
    intercept: bool,
    has_factor: bool,
    array: *mut FFI_ArrowArray,
    schema: *mut FFI_ArrowSchema,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let (gram, width) = unsafe { ((*moments).gram(), (*moments).width) };
        let fields = Fields { ridge, scale, intercept, ..Fields::default() };
        let request = FitRequest { fields, ..FitRequest::of("target") };
        let mut fitter = Fitter::default();
        let fitted = fitter.fit(&request, &FitPlan::numbered(width), &gram)?;
        let mut columns = columns_of(fitted.map_err(|reason| format!("RecordError: {reason}"))?);
        columns.push(("correlations", list(fitter.with_target().to_vec())));
        let factor = if has_factor { fitter.inverse_factor(gram.weight) } else { Vec::new() };
        columns.push(("inverse_factor", list(factor)));
        let row = RecordBatch::try_from_iter(columns).map_err(|error| error.to_string())?;
        // SAFETY: see the caller's promise.
        unsafe { export(&StructArray::from(row), array, schema) }
    })
}

/// Numbers of a model by name; what standard errors need is NaN, or empty, with a ridge.
fn columns_of(fitted: &Fitted) -> Vec<(&'static str, ArrayRef)> {
    let Fitted { aliased, deviations, .. } = fitted;
    let known =
        deviations.clone().unwrap_or_else(|| Deviations { left: f64::NAN, ..Default::default() });
    let kept = known.columns.iter().zip(aliased).filter(|(_, is_aliased)| !**is_aliased);
    let errors = known.intercept.into_iter().chain(kept.map(|(error, _)| *error)).collect();
    let trace = fitted.trace.map(|trace| vec![trace.column as f64, trace.share, trace.gain]);
    let fields = [
        ("intercept", vec![fitted.intercept]),
        ("coef", fitted.coefficients.clone()),
        ("is_aliased", aliased.iter().map(|&is_aliased| f64::from(is_aliased)).collect()),
        ("explained", vec![fitted.explained]),
        ("r2", vec![fitted.r2]),
        ("condition", vec![fitted.condition]),
        ("trace", trace.unwrap_or_default()),
        ("left", vec![known.left]),
        ("errors", errors),
        ("units", known.units),
    ];
    fields.map(|(name, values)| (name, list(values))).into()
}

/// One row of numbers.
fn list(values: Vec<f64>) -> ArrayRef {
    let field = Arc::new(Field::new_list_field(DataType::Float64, false));
    let ends = OffsetBuffer::from_lengths([values.len()]);
    Arc::new(LargeListArray::new(field, ends, Arc::new(Float64Array::from(values)), None))
}

/// Refine the coefficients of `count` models, D doubles each on columns and target of unit variance:
/// model i has the first `ranks[i]` columns, of which none depends on others. Null comes back, or an
/// error text for `dbselect_text_free`.
///
/// # Safety
/// As of `dbselect_least_squares`; `ranks` holds `count` numbers of at most D, and `coef` as many
/// models.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_refined(
    moments: *const Moments,
    ranks: *const usize,
    count: usize,
    coef: *mut f64,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let (gram, width) = unsafe { ((*moments).gram(), (*moments).width) };
        // SAFETY: see the caller's promise.
        let (ranks, coef) = unsafe {
            (slice::from_raw_parts(ranks, count), slice::from_raw_parts_mut(coef, count * width))
        };
        let at: Vec<usize> = (0..width).collect();
        let starts: Vec<usize> = (0..=width).collect();
        let mut problem = Linear::default();
        problem.set_up(&gram, width, &at, 0.0, true);
        let mut state = State::new(&problem, &starts, Buffers::default());
        at.iter().for_each(|&column| _ = state.add(column));
        // Of columns that depend on others after all no correction has a digit.
        if state.support().len() == width {
            state.invert();
            let mut refiner = Refiner::default();
            refiner.set_up(&gram, &state, &at, width);
            for (coef, &rank) in coef.chunks_exact_mut(width.max(1)).zip(ranks) {
                refiner.refine(&problem, state.inverse(), &mut coef[..rank]);
            }
        }
        Ok(())
    })
}

/// Write how often a statistic as large as each of `count` comes by chance, two-sided, by Student's
/// t with `free` degrees of freedom, > 0; NaN for NaN.
///
/// # Safety
/// `statistics` and `beyond` hold `count` doubles.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_student_beyond(
    free: f64,
    statistics: *const f64,
    count: usize,
    beyond: *mut f64,
) {
    let student = Student::new(free);
    // SAFETY: see the caller's promise.
    let (statistics, beyond) = unsafe {
        (slice::from_raw_parts(statistics, count), slice::from_raw_parts_mut(beyond, count))
    };
    for (beyond, &statistic) in beyond.iter_mut().zip(statistics) {
        *beyond = student.beyond(statistic);
    }
}

/// What Student's t with `free` degrees of freedom is within with a probability in (0, 1).
#[unsafe(no_mangle)]
pub extern "C" fn dbselect_student_within(free: f64, probability: f64) -> f64 {
    Student::new(free).within(probability)
}

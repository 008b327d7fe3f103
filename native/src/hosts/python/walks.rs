//! A search of one Gram where its numbers lie in Python: numbers in, numbers out.

use std::ffi::{CStr, c_char};
use std::slice;

use arrow_array::Float64Array;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};

use super::turns::{OnTurn, calling};
use super::{export, guard};
use crate::hosts::searches::request::read_request;
use crate::kernel::possible::INDEFINITE;
use crate::linear::groups::Groups;
use crate::linear::problem::{Gram, Target};
use crate::methods::run::Workspace;
use crate::methods::setup::Request;
use crate::search::sequence::Sequence;
use crate::search::steps::{Action, Step, Turn};

/// A Gram of d columns, and J groups of D of these.
#[repr(C)]
pub struct Grouped {
    /// d means.
    mean: *const f64,
    /// What rounding took from them.
    mean_low: *const f64,
    /// Comoments, d rows of d.
    comoment: *const f64,
    /// D numbers of columns of the Gram, those of the groups, each once; and their names.
    members: *const usize,
    names: *const *const c_char,
    /// Numbers of members, group by group; one that lies in several comes as often.
    columns: *const usize,
    /// J + 1 numbers: where the columns of each group begin, and the last end.
    starts: *const usize,
    /// J costs.
    costs: *const f64,
    width: usize,
    target: usize,
    n_members: usize,
    n_groups: usize,
    rows: i64,
    skipped: i64,
    weight: f64,
}

/// Search a Gram and write what is found to `array` and `schema`: numbers, as `written` puts them.
/// The request knows groups by their numbers, as text.
///
/// Null comes back, or an error text for `dbselect_text_free`.
///
/// # Safety
/// `grouped` is sound: its pointers are to so many numbers as it says, which are below the counts
/// of what they number. All else is as in `dbselect_answer`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_walk(
    grouped: *const Grouped,
    request: *const c_char,
    on_turn: OnTurn,
    array: *mut FFI_ArrowArray,
    schema: *mut FFI_ArrowSchema,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let (grouped, request) = unsafe { (&*grouped, CStr::from_ptr(request)) };
        let request = read_request(&request.to_string_lossy())?;
        // SAFETY: see the caller's promise.
        let found = unsafe { walk(grouped, &request, &mut calling(on_turn))? };
        // SAFETY: see the caller's promise.
        unsafe { export(&Float64Array::from(found), array, schema) }
    })
}

/// # Safety
/// `grouped` is sound.
unsafe fn walk(grouped: &Grouped, request: &Request, turn: &mut Turn) -> Result<Vec<f64>, String> {
    let Grouped { width, n_members, n_groups, rows, skipped, weight, .. } = *grouped;
    // SAFETY: see the caller's promise.
    let (mean, mean_low, comoment, members, starts, costs) = unsafe {
        (
            slice::from_raw_parts(grouped.mean, width),
            slice::from_raw_parts(grouped.mean_low, width),
            slice::from_raw_parts(grouped.comoment, width * width),
            slice::from_raw_parts(grouped.members, n_members),
            slice::from_raw_parts(grouped.starts, n_groups + 1),
            slice::from_raw_parts(grouped.costs, n_groups),
        )
    };
    // SAFETY: the columns end where those of the last group do.
    let columns = unsafe { slice::from_raw_parts(grouped.columns, starts[n_groups]) };
    // The members, and then the target.
    let places: Vec<usize> = members.iter().copied().chain([grouped.target]).collect();
    let of = |values: &[f64]| places.iter().map(|&at| values[at]).collect::<Vec<f64>>();
    let (mean, mean_low) = (of(mean), of(mean_low));
    let mut triangle = Vec::with_capacity(places.len() * (places.len() + 1) / 2);
    for (i, &a) in places.iter().enumerate() {
        let row = &comoment[a * width..][..width];
        triangle.extend(places[..=i].iter().map(|&b| row[b]));
    }
    let (mean, mean_low, comoment) = (&mean[..], &mean_low[..], &triangle[..]);
    let gram = Gram { rows, skipped, weight, mean, mean_low, comoment, missing: &[] };
    let name = |&column: &usize| {
        // SAFETY: see the caller's promise: there are as many names as members.
        unsafe { CStr::from_ptr(*grouped.names.add(column)) }.to_string_lossy().into_owned()
    };
    let groups = Groups {
        names: (0..n_groups).map(|number| number.to_string()).collect(),
        members: columns.iter().map(name).collect(),
        starts: starts.to_vec(),
        costs: costs.to_vec(),
        rules: None,
    };
    let target = Target::at(&request.target, n_members);
    request.check()?;
    let plan = request.plan_of(target, groups, columns.to_vec())?;
    let mut workspace = Workspace::default();
    match workspace.search(request, &plan, &gram, turn) {
        Ok(sequence) => Ok(written(sequence, columns, n_members)),
        Err(message) if message == INDEFINITE => Err(format!("RecordError: {message}")),
        Err(message) => Err(message),
    }
}

/// A sequence of S steps as numbers: S + 1, its stop, condition, that which an elimination begins
/// with, whether a trace is left out, how many columns are aliased, and these; then S + 1 of each kind: whether a group was added, its
/// number, score, gain, what is explained, among which it was chosen, what is spent, r2 and
/// intercept; and S + 1 rows of D coefficients.
fn written(sequence: &Sequence, columns: &[usize], n_members: usize) -> Vec<f64> {
    let count = sequence.spent.len();
    let aliased = sequence.aliased.iter().map(|&at| columns[at] as f64);
    let trace = f64::from(u8::from(sequence.trace.is_some()));
    let stop = sequence.stop as u8;
    let mut found = Vec::with_capacity(6 + aliased.len() + count * (9 + n_members));
    found.extend([count as f64, f64::from(stop), sequence.condition, sequence.begun]);
    found.extend([trace, aliased.len() as f64]);
    found.extend(aliased);
    let kinds: [fn(&Step) -> f64; 6] = [
        |step| f64::from(u8::from(step.action == Action::Add)),
        |step| step.group as f64,
        |step| step.score,
        |step| step.gain,
        |step| step.explained,
        |step| f64::from(step.choice as u8),
    ];
    for kind in kinds {
        found.push(0.0);
        found.extend(sequence.steps.iter().map(kind));
    }
    for numbers in [&sequence.spent, &sequence.r2, &sequence.intercept] {
        found.extend_from_slice(numbers);
    }
    let mut begin = 0;
    for &end in &sequence.ends {
        let row = found.len();
        found.resize(row + n_members, 0.0);
        for (&at, &coefficient) in
            sequence.columns[begin..end].iter().zip(&sequence.coefficients[begin..end])
        {
            found[row + columns[at]] = coefficient;
        }
        begin = end;
    }
    found
}

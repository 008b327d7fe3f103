//! Entry points for Polars: expression plugins, ABI version 0.1.
//!
//! The ABI is the Arrow C data interface plus `SeriesExport` (polars-ffi,
//! `version_0.rs`), so no Polars crate is linked. Inputs come in any number of
//! chunks, cut differently from input to input; a literal has length 1.

mod patterns;

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::{CString, c_char, c_void};
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::{Arc, PoisonError};

use arrow_array::builder::{Float64Builder, Int64Builder, LargeStringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type, to_ffi};
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, StructArray, make_array};
use arrow_buffer::NullBufferBuilder;
use arrow_schema::{DataType, Field, Fields};

use super::arrived::{self, Arrived, Slot};
use crate::arrived::rows::Arrivals;
use crate::kernel::accumulator::CHUNK_ROWS;
use crate::kernel::chunk::Labels;
use crate::kernel::fold;
use crate::kernel::gaps::Policy;
use crate::kernel::threads::{in_pieces, of_each};
use crate::record::arrow::{
    Leaf, Place, Records, UNSIGNED_128, chunk, leaf, leaves, mix_key, read_record, record_type,
    write_records,
};
use crate::record::fills::impute;
use crate::record::gram::Record;
use crate::record::inputs::{self, MissingColumns, Unknown};
use crate::record::prefix::{self, Case, Plan, Prediction, Step};
use crate::record::rows::{Column, Group, Rows, Shape, terms_of};
use crate::record::sequences::{Sequence, Sequences};
use crate::record::terms::Terms;
use crate::record::texts::Limit;
use crate::search::design::candidates::{Asked, Candidates};

/// Rows that are predicted at once: what they have in common is found once for all of them.
const ROWS_AT_ONCE: usize = 2 * CHUNK_ROWS;

/// Records that one thread adds up; fixed, so that the bits do not depend on the threads.
const RUN: usize = 4096;

/// A Series on its way across the boundary.
#[repr(C)]
pub struct SeriesExport {
    field: *mut FFI_ArrowSchema,
    arrays: *mut *mut FFI_ArrowArray,
    len: usize,
    release: Option<unsafe extern "C" fn(*mut SeriesExport)>,
    private_data: *mut c_void,
}

/// Version 0.1 of the plugin ABI: the field functions get the keyword arguments.
#[unsafe(no_mangle)]
pub extern "C" fn _polars_plugin_get_version() -> u32 {
    1
}

/// The error of the last call on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn _polars_plugin_get_last_error_message() -> *const c_char {
    ERROR.with_borrow(|message| message.as_ptr())
}

thread_local! {
    static ERROR: RefCell<CString> = RefCell::default();
}

/// Define the two symbols that Polars looks up for the expression `$name`.
macro_rules! expression {
    ($symbol:ident, $field_symbol:ident, $data_type:expr, $evaluate:expr) => {
        /// Evaluate the expression.
        ///
        /// # Safety
        /// Called by Polars as its plugin ABI 0.1 says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $symbol(
            inputs: *const SeriesExport,
            n_inputs: usize,
            _kwargs: *const u8,
            _kwargs_len: usize,
            out: *mut SeriesExport,
            _context: *const c_void,
        ) {
            // SAFETY: Polars hands `n_inputs` exports over and `out` to write to.
            unsafe { evaluate(inputs, n_inputs, out, $evaluate) }
        }

        /// Name the type of the expression.
        ///
        /// # Safety
        /// As above.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $field_symbol(
            inputs: *const FFI_ArrowSchema,
            _n_inputs: usize,
            out: *mut FFI_ArrowSchema,
            _kwargs: *const u8,
            _kwargs_len: usize,
        ) {
            guard(|| {
                // SAFETY: every expression here has at least one input; Polars
                // keeps and frees the input schemas.
                let name = unsafe { &*inputs }.name().unwrap_or_default();
                let schema = schema(name, &$data_type)?;
                // SAFETY: `out` is an empty schema of Polars' own.
                unsafe { out.write(schema) };
                Ok(())
            });
        }
    };
}

expression!(_polars_plugin_gram, _polars_plugin_field_gram, record_type(), gram);
expression!(
    _polars_plugin_patterns,
    _polars_plugin_field_patterns,
    patterns::data_type(),
    patterns::of_rows
);
expression!(
    _polars_plugin_merge_patterns,
    _polars_plugin_field_merge_patterns,
    patterns::data_type(),
    patterns::merged
);
expression!(_polars_plugin_em, _polars_plugin_field_em, record_type(), patterns::completed);
expression!(_polars_plugin_impute, _polars_plugin_field_impute, record_type(), impute_mean);
expression!(_polars_plugin_merge, _polars_plugin_field_merge, record_type(), merge);
expression!(
    _polars_plugin_predict,
    _polars_plugin_field_predict,
    DataType::Struct(prediction_fields()),
    predict
);
expression!(
    _polars_plugin_serve,
    _polars_plugin_field_serve,
    DataType::Struct(served_fields()),
    serve
);
expression!(_polars_plugin_a_optimal, _polars_plugin_field_a_optimal, DataType::Int64, a_optimal);
expression!(
    _polars_plugin_predict_available,
    _polars_plugin_field_predict_available,
    arrived::data_type(),
    predict_available
);
expression!(
    _polars_plugin_predict_apart,
    _polars_plugin_field_predict_apart,
    arrived::data_type_apart(),
    predict_apart
);
expression!(_polars_plugin_fold, _polars_plugin_field_fold, DataType::Int64, fold_of);

/// `gram(row, options [, weight])`: one record, NULL for no rows.
///
/// The options are a letter for the policy, and the most levels of a text, if any.
fn gram(inputs: &[Input]) -> Result<StructArray, String> {
    let [row, options, weight @ ..] = inputs else { return Err("two inputs are needed".into()) };
    let options = options.chunks[0].as_string_view_opt().map(|texts| texts.value(0).to_string());
    let options = options.unwrap_or_default();
    let (letter, levels) = options.split_at(options.len().min(1));
    let limit = match levels {
        "" => Limit::default(),
        levels => Limit::of(levels.parse().map_err(|_| format!("max_levels is {levels}"))?)?,
    };
    let refuses = letter == "e";
    let policy =
        if refuses { Some(Policy::Skip) } else { letter.bytes().next().and_then(Policy::of) };
    let mut inputs = vec![row.clone()];
    inputs.extend_from_slice(weight);
    let record = gram_of(&inputs, policy.ok_or("the policy is none")?, limit)?;
    if let Some(record) = record.iter().find(|_| refuses) {
        let mut counts = record.columns.iter().zip(&record.missing);
        if let Some((name, rows)) = counts.find(|(_, rows)| **rows > 0) {
            return Err(format!(
                "column '{name}' is missing in {rows} rows; null_policy 'error' allows none"
            ));
        }
    }
    write_records(&mut [record])
}

fn gram_of(inputs: &[Input], policy: Policy, limit: Limit) -> Result<Option<Record>, String> {
    let group = gathered(inputs, policy, limit, Group::new, |group, mut rows, labels| {
        rows.leave_out();
        group.add(&rows, labels)
    })?;
    group.map(|mut group| group.finish()).transpose()
}

/// What gathers the rows of a struct; nothing without rows.
fn gathered<G>(
    inputs: &[Input],
    policy: Policy,
    limit: Limit,
    begin: impl Fn(&Arc<Shape>) -> G,
    add: impl Fn(&mut G, Rows, Labels) -> Result<(), String>,
) -> Result<Option<G>, String> {
    let mut state: Option<(Arc<Shape>, G)> = None;
    for piece in pieces(inputs)? {
        let leaves = leaves(piece.table(0)?, piece.place(0));
        let (texts, columns): (Vec<&Leaf>, Vec<&Leaf>) =
            leaves.iter().partition(|leaf| leaf.is_text());
        let weight = (inputs.len() > 1).then(|| piece.leaf(1, "weight")).transpose()?;
        if state.is_none() {
            let fields: Vec<Column> = leaves.iter().map(column).collect();
            let policies = vec![policy; columns.len()];
            let shape = Arc::new(Shape::of(&fields, policies, limit, terms_of(&fields))?);
            let group = begin(&shape);
            state = Some((shape, group));
        }
        let Some((shape, group)) = &mut state else { continue };
        let labels = Labels { columns: &shape.numbers, weight: "weight" };
        for start in (0..piece.rows).step_by(CHUNK_ROWS) {
            let rows = start..(start + CHUNK_ROWS).min(piece.rows);
            let rows = Rows {
                numbers: chunk(&columns, weight.as_ref(), rows.clone(), &shape.policies)?,
                texts: texts.iter().map(|leaf| leaf.texts(rows.clone())).collect(),
            };
            add(group, rows, labels)?;
        }
    }
    Ok(state.map(|(_, group)| group))
}

fn column(leaf: &Leaf) -> Column<'_> {
    Column {
        name: &leaf.name,
        is_field: leaf.is_field(),
        is_text: leaf.is_text(),
        unit: leaf.unit(),
    }
}

/// `merge(record)`: one record, NULL if there is none; runs of records are added up in parallel.
fn merge(inputs: &[Input]) -> Result<StructArray, String> {
    let mut runs = Vec::new();
    for array in &inputs[0].chunks {
        let records = array.as_struct_opt().ok_or_else(|| inputs[0].not_a_struct())?;
        let starts = (0..records.len()).step_by(RUN);
        runs.extend(starts.map(|start| (records, start..(start + RUN).min(records.len()))));
    }
    let sum = |(array, rows): (&StructArray, Range<usize>)| {
        let records = Records::of(array);
        total_of(rows.map(|row| records.at(row)))
    };
    write_records(&mut [total_of(of_each(runs, sum))?])
}

/// The sum of records; nothing if there is none.
fn total_of(
    records: impl IntoIterator<Item = Result<Option<Record>, String>>,
) -> Result<Option<Record>, String> {
    let mut total: Option<Record> = None;
    for record in records {
        match (&mut total, record?) {
            (Some(total), Some(record)) => total.merge(&record)?,
            (None, record) => total = record,
            (Some(_), None) => {}
        }
    }
    Ok(total)
}

/// `impute(record)`: a record a row.
fn impute_mean(inputs: &[Input]) -> Result<StructArray, String> {
    let mut found = Vec::new();
    for array in &inputs[0].chunks {
        let records = array.as_struct_opt().ok_or_else(|| inputs[0].not_a_struct())?;
        for row in 0..records.len() {
            found.push(read_record(records, row)?.map(|record| impute(&record)));
        }
    }
    write_records(&mut found)
}

/// `predict(sequence, row, budget, handle_unknown, missing_columns)`: a struct a row.
fn predict(inputs: &[Input]) -> Result<StructArray, String> {
    let mut out = Predictions::default();
    for piece in pieces(inputs)? {
        let leaves = leaves(piece.table(1)?, piece.place(1));
        let named =
            |input: usize| piece.arrays[input].as_string_view_opt().map(|names| names.value(0));
        let unknown = named(3).map_or(Ok(Unknown::default()), Unknown::of)?;
        let absent = named(4).map_or(Ok(MissingColumns::default()), MissingColumns::of)?;
        let budget = piece.leaf(2, "budget")?;
        let sequences = Sequences::new(&piece.arrays[0])?;
        let mut plans: HashMap<Sequence, Rc<Plan>> = HashMap::new();
        for start in (0..piece.rows).step_by(CHUNK_ROWS) {
            let rows = start..(start + CHUNK_ROWS).min(piece.rows);
            let columns: Vec<_> = leaves.iter().map(|leaf| leaf.input(rows.clone())).collect();
            let limits = limits_of(&budget, rows.clone())?;
            let mut plan_of = |row: usize| {
                let Some(sequence) = sequences.at(piece.place(0).of(start + row)) else {
                    return Ok::<_, String>(None);
                };
                Ok(Some(match plans.entry(sequence) {
                    Entry::Occupied(plan) => plan.get().clone(),
                    Entry::Vacant(empty) => {
                        let (steps, terms) = (empty.key().steps(), empty.key().terms()?);
                        let plan = Plan::new(&steps, terms, &columns, Case::Sensitive, unknown)?;
                        empty.insert(Rc::new(plan)).clone()
                    }
                }))
            };
            let places = (0..limits.len()).map(|row| piece.place(0).of(start + row));
            let first = match !limits.is_empty() && sequences.are_one(places) {
                true => plan_of(0)?,
                false => None,
            };
            if let Some(plan) = &first {
                let all = inputs::Rows::All(limits.len());
                let found = plan.predict_rows(&columns, &all, &limits, absent)?;
                found.into_iter().for_each(|found| out.push(found));
                continue;
            }
            for (row, &limit) in limits.iter().enumerate() {
                match &plan_of(row)? {
                    Some(plan) => out.push(plan.predict(&columns, row, limit, absent)?),
                    None => out.push(None),
                }
            }
        }
    }
    Ok(out.finish())
}

fn served_fields() -> Fields {
    let field = |(name, of): (&str, DataType)| Field::new(name, of, true);
    [("step", DataType::Int64), ("value", DataType::Float64)].into_iter().map(field).collect()
}

/// `serve(sequence, row, budget, handle_unknown)`: the step whose model serves each row, -1 where
/// none does, and what it predicts, else NaN. The sequence is one for all rows; a column that they
/// lack is not available.
fn serve(inputs: &[Input]) -> Result<StructArray, String> {
    let pieces = pieces(inputs)?;
    let tables: Vec<_> = pieces.iter().map(Served::of).collect::<Result<_, _>>()?;
    let runs = runs_of(&pieces, CHUNK_ROWS);
    let of_runs = |some: Range<usize>| {
        let mut plans: Vec<Option<Plan>> = tables.iter().map(|_| None).collect();
        let (mut numbers, mut values): (Vec<i64>, Vec<f64>) = Default::default();
        for (piece, rows) in &runs[some] {
            let Served { leaves, unknown, budget, steps, terms } = &tables[*piece];
            let columns: Vec<_> = leaves.iter().map(|leaf| leaf.input(rows.clone())).collect();
            let limits = limits_of(budget, rows.clone())?;
            let plan = match &mut plans[*piece] {
                Some(plan) => plan,
                empty => {
                    let (case, terms) = (Case::Sensitive, terms.clone());
                    empty.insert(Plan::new(steps, terms, &columns, case, *unknown)?)
                }
            };
            for found in plan.steps(&columns, &limits)? {
                let (number, value) = found.unwrap_or((-1, f64::NAN));
                numbers.push(number);
                values.push(value);
            }
        }
        Ok::<_, String>((numbers, values))
    };
    let found = in_pieces(runs.len(), cells(&pieces, |at| tables[at].leaves.len()), of_runs);
    let found: Vec<_> = found.into_iter().collect::<Result<_, _>>()?;
    let numbers: Vec<&[i64]> = found.iter().map(|(numbers, _)| &numbers[..]).collect();
    let values: Vec<&[f64]> = found.iter().map(|(_, values)| &values[..]).collect();
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(numbers.concat())),
        Arc::new(Float64Array::from(values.concat())),
    ];
    Ok(StructArray::new(served_fields(), arrays, None))
}

/// Rows that a sequence serves.
struct Served {
    leaves: Vec<Leaf>,
    unknown: Unknown,
    budget: Leaf,
    steps: Vec<Step>,
    terms: Arc<Terms>,
}

impl Served {
    fn of(piece: &Piece) -> Result<Self, String> {
        let unknown = piece.arrays[3].as_string_view_opt().map(|name| name.value(0));
        let sequences = Sequences::new(&piece.arrays[0])?;
        let sequence = sequences.at(0).ok_or("sequence is NULL")?;
        Ok(Served {
            leaves: leaves(piece.table(1)?, piece.place(1)),
            unknown: unknown.map_or(Ok(Unknown::default()), Unknown::of)?,
            budget: piece.leaf(2, "budget")?,
            steps: sequence.steps(),
            terms: sequence.terms()?,
        })
    }
}

/// The rows of pieces, so many at a time, with the number of their piece.
fn runs_of(pieces: &[Piece], size: usize) -> Vec<(usize, Range<usize>)> {
    let of_piece = |(at, piece): (usize, &Piece)| {
        let rows = piece.rows;
        (0..rows).step_by(size).map(move |start| (at, start..(start + size).min(rows)))
    };
    pieces.iter().enumerate().flat_map(of_piece).collect()
}

/// How many values the rows of pieces have, where piece `at` has `width(at)` columns.
fn cells(pieces: &[Piece], width: impl Fn(usize) -> usize) -> f64 {
    pieces.iter().enumerate().map(|(at, piece)| (piece.rows * width(at)) as f64).sum()
}

/// The budgets of some rows.
fn limits_of(budget: &Leaf, rows: Range<usize>) -> Result<Vec<f64>, String> {
    prefix::limits(&budget.doubles(rows.clone())?, &budget.missing(rows))
}

/// `predict_available(record, row, budget, options)`: a struct a row. Options are JSON.
fn predict_available(inputs: &[Input]) -> Result<StructArray, String> {
    Ok(arrived_of(inputs)?.finish())
}

/// The same, once for all rows: what many of them have in common is there once.
fn predict_apart(inputs: &[Input]) -> Result<StructArray, String> {
    Ok(arrived_of(inputs)?.apart())
}

fn arrived_of(inputs: &[Input]) -> Result<Arrived, String> {
    let pieces = pieces(inputs)?;
    let tables: Vec<_> = pieces.iter().map(Arriving::of).collect::<Result<_, _>>()?;
    let runs = runs_of(&pieces, ROWS_AT_ONCE);
    let mut all = Arrived::of_rows(
        pieces.iter().map(|piece| piece.rows).sum(),
        tables.iter().any(|table| table.asked.at_stake()),
    );
    let slots = all.slots(runs.iter().map(|(_, rows)| rows.len()));
    let of_runs = |some: Range<usize>| {
        let mut plans: Vec<Plans> = tables.iter().map(|_| Vec::new()).collect();
        for at in some {
            let (piece, rows) = &runs[at];
            let mut slot = slots[at].lock().unwrap_or_else(PoisonError::into_inner);
            tables[*piece].predict(rows.clone(), &mut plans[*piece], &mut slot)?;
        }
        Ok::<_, String>(())
    };
    let done = in_pieces(runs.len(), cells(&pieces, |at| tables[at].leaves.len()), of_runs);
    done.into_iter().collect::<Result<(), _>>()?;
    drop(slots);
    Ok(all)
}

/// Records, and what predicts by each, unless it cannot be used.
type Plans = Vec<(Record, Option<Arrivals>)>;

/// Rows that are predicted by whatever of them is there.
struct Arriving<'p> {
    records: &'p StructArray,
    place: Place,
    leaves: Vec<Leaf>,
    budget: Leaf,
    asked: arrived::Asked,
}

impl<'p> Arriving<'p> {
    fn of(piece: &'p Piece) -> Result<Self, String> {
        let options = piece.arrays[3].as_string_view_opt().map(|text| text.value(0));
        Ok(Arriving {
            records: piece.table(0)?,
            place: piece.place(0),
            leaves: leaves(piece.table(1)?, piece.place(1)),
            budget: piece.leaf(2, "budget")?,
            asked: arrived::Asked::of(options.unwrap_or_default())?,
        })
    }

    /// Predict some rows.
    fn predict(&self, rows: Range<usize>, plans: &mut Plans, out: &mut Slot) -> Result<(), String> {
        let Arriving { records, place, leaves, budget, asked } = self;
        let columns: Vec<_> = leaves.iter().map(|leaf| leaf.input(rows.clone())).collect();
        // One of all rows, or of each.
        let own = if budget.is_literal() { 0..1 } else { rows.clone() };
        let limits = limits_of(budget, own)?;
        let mut plan_of = |row: usize| match read_record(records, place.of(row))? {
            None => Ok::<_, String>(None),
            Some(record) => Ok(Some(match plans.iter().rposition(|(own, _)| own.is(&record)) {
                Some(plan) => plan,
                None => {
                    let plan = asked.plan(record.clone(), &columns)?;
                    plans.push((record, plan));
                    plans.len() - 1
                }
            })),
        };
        // Rows of equal records, by the number of their plan.
        let mut alike: Vec<(usize, Vec<usize>)> = Vec::new();
        let count = rows.len();
        if place.is_literal() {
            alike.extend(plan_of(0)?.map(|plan| (plan, (0..count).collect())));
        } else {
            let mut last = None;
            for row in rows.clone() {
                let plan = match last {
                    Some((known, plan)) if known == place.of(row) => plan,
                    _ => plan_of(row)?,
                };
                last = Some((place.of(row), plan));
                let Some(plan) = plan else { continue };
                match alike.iter_mut().find(|(own, _)| *own == plan) {
                    Some((_, own)) => own.push(row - rows.start),
                    None => alike.push((plan, vec![row - rows.start])),
                }
            }
        }
        alike.retain(|(plan, _)| plans[*plan].1.is_some());
        if alike.iter().map(|(_, own)| own.len()).sum::<usize>() < count {
            out.clear();
        }
        for (plan, own) in alike {
            let Some(plan) = &mut plans[plan].1 else { continue };
            let which = match own.len() == count {
                true => inputs::Rows::All(count),
                false => inputs::Rows::These(&own),
            };
            let found = plan.predict(&columns, &which)?;
            out.write(&plan.predictor, &found, &which, &limits);
        }
        Ok(())
    }
}

/// `fold_of(key, k, seed)`: a number a row.
fn fold_of(inputs: &[Input]) -> Result<Int64Array, String> {
    let mut folds = Vec::new();
    for piece in pieces(inputs)? {
        let [k, seed] = [piece.whole(1, "k")?, piece.whole(2, "seed")?];
        let mut hashes = vec![fold::begin(seed)?; piece.rows];
        mix_key(&inputs[0].name, &piece.arrays[0], piece.place(0), &mut hashes)?;
        for hash in hashes {
            folds.push(fold::fold(hash, k)?);
        }
    }
    Ok(folds.into())
}

/// `a_optimal(row, k, beta2, sigma2, scale_rows)`: the place 1, 2, ..., k of each row that is
/// chosen, NULL of the others.
fn a_optimal(inputs: &[Input]) -> Result<Int64Array, String> {
    let pieces = pieces(inputs)?;
    let mut known: Option<(Asked, Candidates)> = None;
    let mut rows = 0;
    for piece in &pieces {
        let leaves = leaves(piece.table(0)?, piece.place(0));
        if let Some(leaf) = leaves.iter().find(|leaf| !leaf.is_number()) {
            let own = leaf.values().data_type();
            return Err(format!("column '{}' has type {own}; columns must be numeric", leaf.name));
        }
        if known.is_none() {
            let number = |at, name| Ok::<_, String>(piece.leaf(at, name)?.doubles(0..1)?[0]);
            let asked = Asked {
                k: piece.whole(1, "k")? as usize,
                beta2: number(2, "beta2")?,
                sigma2: number(3, "sigma2")?,
                scale_rows: number(4, "scale_rows")? != 0.0,
            };
            let names = leaves.iter().map(|leaf| leaf.name.clone()).collect();
            known = Some((asked, Candidates::new(names, &asked)));
        }
        let Some((_, candidates)) = &mut known else { continue };
        let columns: Vec<_> =
            leaves.iter().map(|leaf| leaf.present(0..piece.rows)).collect::<Result<_, _>>()?;
        let is_whole = |row: &usize| !columns.iter().any(|(_, none)| none.contains(*row));
        for row in (0..piece.rows).filter(is_whole) {
            candidates.add(rows + row, columns.iter().map(|(values, _)| values[row]))?;
        }
        rows += piece.rows;
    }
    let chosen = known.map_or(Ok(Vec::new()), |(asked, candidates)| candidates.choose(&asked))?;
    let mut places = vec![None; rows];
    (1..).zip(chosen).for_each(|(place, row)| places[row] = Some(place));
    Ok(places.into())
}

fn prediction_fields() -> Fields {
    vec![
        Field::new("prediction", DataType::Float64, true),
        Field::new("step", DataType::Int64, true),
        Field::new("spent", DataType::Float64, true),
        Field::new("next_group", DataType::LargeUtf8, true),
    ]
    .into()
}

#[derive(Default)]
struct Predictions {
    prediction: Float64Builder,
    step: Int64Builder,
    spent: Float64Builder,
    next_group: LargeStringBuilder,
    valid: Option<NullBufferBuilder>,
}

impl Predictions {
    fn push(&mut self, found: Option<Prediction>) {
        self.prediction.append_option(found.map(|found| found.value));
        self.step.append_option(found.map(|found| found.step));
        self.spent.append_option(found.map(|found| found.spent));
        self.next_group.append_option(found.and_then(|found| found.next_group));
        self.valid.get_or_insert_with(|| NullBufferBuilder::new(0)).append(found.is_some());
    }

    fn finish(mut self) -> StructArray {
        let arrays: Vec<ArrayRef> = vec![
            Arc::new(self.prediction.finish()),
            Arc::new(self.step.finish()),
            Arc::new(self.spent.finish()),
            Arc::new(self.next_group.finish()),
        ];
        StructArray::new(
            prediction_fields(),
            arrays,
            self.valid.and_then(|mut valid| valid.finish()),
        )
    }
}

/// A Series received from Polars.
#[derive(Clone)]
struct Input {
    name: String,
    chunks: Vec<ArrayRef>,
    len: usize,
}

impl Input {
    fn not_a_struct(&self) -> String {
        let data_type = self.chunks.first().map_or(&DataType::Null, |chunk| chunk.data_type());
        format!("'{}' has type {data_type}; a struct is needed", self.name)
    }
}

/// A run of rows that lies in one chunk of every input.
struct Piece<'i> {
    inputs: &'i [Input],
    arrays: Vec<ArrayRef>,
    rows: usize,
}

impl Piece<'_> {
    fn is_literal(&self, input: usize) -> bool {
        self.arrays[input].len() != self.rows
    }

    fn place(&self, input: usize) -> Place {
        if self.is_literal(input) { Place::LITERAL } else { Place::ROW }
    }

    fn table(&self, input: usize) -> Result<&StructArray, String> {
        self.arrays[input].as_struct_opt().ok_or_else(|| self.inputs[input].not_a_struct())
    }

    fn leaf(&self, input: usize, name: &str) -> Result<Leaf, String> {
        if self.arrays[input].data_type().is_nested() {
            return Err(format!("{name} must be a number, not {}", self.arrays[input].data_type()));
        }
        Ok(leaf(name, &self.arrays[input], self.place(input)))
    }

    /// A whole number that is the same for all rows.
    fn whole(&self, input: usize, name: &str) -> Result<i64, String> {
        let number = self.arrays[input].as_primitive_opt::<Int64Type>();
        number.map(|number| number.value(0)).ok_or_else(|| format!("{name} must be an Int64"))
    }
}

/// Cut the inputs where any of them is cut; literals serve every piece.
fn pieces(inputs: &[Input]) -> Result<Vec<Piece<'_>>, String> {
    let rows = inputs.iter().map(|input| input.len).find(|&len| len != 1).unwrap_or(1);
    if let Some(input) = inputs.iter().find(|input| input.len != rows && input.len != 1) {
        return Err(format!("'{}' has {} rows, the others have {rows}", input.name, input.len));
    }
    // For each input: its current chunk and the next row in it.
    let mut cursors = vec![(0, 0); inputs.len()];
    let mut pieces = Vec::new();
    let mut done = 0;
    while done < rows {
        let mut run = rows - done;
        for (input, (chunk, row)) in inputs.iter().zip(&mut cursors) {
            while input.chunks[*chunk].len() == *row {
                (*chunk, *row) = (*chunk + 1, 0);
            }
            if input.len == rows {
                run = run.min(input.chunks[*chunk].len() - *row);
            }
        }
        let slice = |(input, (chunk, row)): (&Input, &mut (usize, usize))| {
            if input.len != rows {
                return input.chunks[*chunk].clone();
            }
            *row += run;
            input.chunks[*chunk].slice(*row - run, run)
        };
        let arrays = inputs.iter().zip(&mut cursors).map(slice).collect();
        pieces.push(Piece { inputs, arrays, rows: run });
        done += run;
    }
    Ok(pieces)
}

/// Read the inputs, run an expression and write its result under the name of
/// the first input. On an error `out` stays empty and the message is kept.
///
/// # Safety
/// `inputs` points to `n_inputs` exports that we now own; `out` is writable.
unsafe fn evaluate<T: Array>(
    inputs: *const SeriesExport,
    n_inputs: usize,
    out: *mut SeriesExport,
    expression: fn(&[Input]) -> Result<T, String>,
) {
    guard(|| {
        // Every input is read, and by that released, whatever becomes of the others.
        // SAFETY: each export is read once, and Polars forgets it after the call.
        let inputs: Vec<_> = (0..n_inputs).map(|i| unsafe { read_input(inputs.add(i)) }).collect();
        let inputs: Vec<Input> = inputs.into_iter().collect::<Result<_, _>>()?;
        let export = write_output(&inputs[0].name, &expression(&inputs)?)?;
        // SAFETY: `out` is an empty export of Polars' own.
        unsafe { out.write(export) };
        Ok(())
    });
}

/// Take a Series over and release its shell.
///
/// # Safety
/// `export` is a live export that nobody uses afterwards.
unsafe fn read_input(export: *const SeriesExport) -> Result<Input, String> {
    // SAFETY: a bitwise move of the export out of Polars' array.
    let mut export = unsafe { export.read() };
    // SAFETY: `field` lives until `release`.
    let field = unsafe { &*export.field };
    let name = field.name().unwrap_or_default().to_string();
    let data_type = data_type(field).map_err(|error| format!("column '{name}': {error}"));
    let read = |i: usize| {
        // SAFETY: there are `len` live arrays of the type of `field`; `from_raw`
        // moves each out, so that it is released when its last user is gone.
        unsafe {
            let array = *export.arrays.add(i);
            drop_null_buffers(array.cast(), field);
            let array = FFI_ArrowArray::from_raw(array);
            let data = from_ffi_and_data_type(array, data_type.clone()?);
            data.map(make_array).map_err(|error| error.to_string())
        }
    };
    let chunks: Result<Vec<ArrayRef>, String> = (0..export.len).map(read).collect();
    if let Some(release) = export.release {
        // SAFETY: called once, after the last use of `field` and `arrays`.
        unsafe { release(&mut export) };
    }
    let chunks = chunks?;
    let len = chunks.iter().map(|chunk| chunk.len()).sum();
    Ok(Input { name, chunks, len })
}

/// The type of an Arrow schema, with Polars' own formats for 128-bit integers.
fn data_type(schema: &FFI_ArrowSchema) -> Result<DataType, String> {
    let fields = || -> Result<Vec<Field>, String> {
        let field = |child: &FFI_ArrowSchema| {
            Ok(Field::new(child.name().unwrap_or_default(), data_type(child)?, true))
        };
        schema.children().map(field).collect()
    };
    match schema.format() {
        "_pli128" => Ok(DataType::Decimal128(38, 0)),
        "_plu128" => Ok(UNSIGNED_128),
        "+s" => Ok(DataType::Struct(fields()?.into())),
        format => match format.strip_prefix("+w:").map(str::parse) {
            Some(Ok(size)) => Ok(DataType::FixedSizeList(Arc::new(fields()?.remove(0)), size)),
            _ => DataType::try_from(schema).map_err(|error| error.to_string()),
        },
    }
}

/// The Arrow C data interface's array, whose fields the arrow crate keeps private.
#[repr(C)]
struct RawArray {
    counts: [i64; 3],
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut RawArray,
}

/// Arrays of type NULL have no buffers, but Polars exports one: take it away.
///
/// # Safety
/// `array` is a live array of the type of `schema`.
unsafe fn drop_null_buffers(array: *mut RawArray, schema: &FFI_ArrowSchema) {
    // SAFETY: see the caller's promise; the buffers are freed by way of the
    // array's private data, which does not look at their number.
    unsafe {
        if schema.format() == "n" {
            (*array).n_buffers = 0;
        }
        let n_children = (*array).n_children as usize;
        for (i, child) in schema.children().enumerate().take(n_children) {
            drop_null_buffers(*(*array).children.add(i), child);
        }
    }
}

fn schema(name: &str, data_type: &DataType) -> Result<FFI_ArrowSchema, String> {
    FFI_ArrowSchema::try_from(&Field::new(name, data_type.clone(), true))
        .map_err(|error| error.to_string())
}

/// What one of our exports owns until Polars releases it. Polars moves the
/// array out before that, so the array is not dropped here.
struct Owned {
    field: FFI_ArrowSchema,
    array: ManuallyDrop<FFI_ArrowArray>,
    pointer: *mut FFI_ArrowArray,
}

fn write_output(name: &str, array: &dyn Array) -> Result<SeriesExport, String> {
    let field = schema(name, array.data_type())?;
    let (array, _) = to_ffi(&array.to_data()).map_err(|error| error.to_string())?;
    let pointer = std::ptr::null_mut();
    let owned = Box::into_raw(Box::new(Owned { field, array: ManuallyDrop::new(array), pointer }));
    // SAFETY: `owned` is a live box, whose fields stay where they are.
    let (field, arrays) = unsafe {
        (*owned).pointer = (&raw mut (*owned).array).cast();
        (&raw mut (*owned).field, &raw mut (*owned).pointer)
    };
    Ok(SeriesExport { field, arrays, len: 1, release: Some(release), private_data: owned.cast() })
}

/// Free an export of our own.
///
/// # Safety
/// Called once by Polars, with what `write_output` made.
unsafe extern "C" fn release(export: *mut SeriesExport) {
    // SAFETY: `private_data` is the box of `write_output`.
    unsafe {
        drop(Box::from_raw((*export).private_data.cast::<Owned>()));
        (*export).release = None;
    }
}

/// Keep the error, or "PANIC" as the ABI asks, for Polars to fetch.
fn guard(work: impl FnOnce() -> Result<(), String>) {
    let message = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => return,
        Ok(Err(message)) => message,
        Err(_) => "PANIC".to_string(),
    };
    ERROR.set(CString::new(message.replace('\0', " ")).unwrap_or_default());
}

//! Entry points for Python, called through ctypes (`dbselect/_native.py`).
//!
//! A `Reader` gathers Arrow batches from any number of threads. Every call to
//! `dbselect_reader_add` takes an idle set of accumulators or starts a new one,
//! so that threads never wait for each other; the sets are merged at the end.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char};
use std::iter::once;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, to_ffi};
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, RecordBatchReader, StructArray};

use crate::accumulator::{Accumulator, CHUNK_ROWS, scatter_and};
use crate::arrow::{Leaf, Place, chunk, leaves, mix_key, mix_row, write_records};
use crate::categories::{Category, Layout, LevelSums, Listed};
use crate::chunk::Labels;
use crate::distinct::distinct;
use crate::fold;
use crate::gaps::{self, Policy};
use crate::record::{Names, Record, check_overflow};
use crate::searches::request::read_request;
use crate::searches::{check_records, search_records};

/// A pass over a table that is still under way.
pub struct Reader {
    columns: Names,
    weight: Option<String>,
    /// Column that numbers the group of each row, from 0.
    group: Option<String>,
    policies: Vec<Policy>,
    categories: Vec<Category>,
    idle: Mutex<Vec<Sums>>,
}

/// What one thread knows of each group.
#[derive(Default)]
struct Sums {
    numbers: Vec<Accumulator>,
    /// Empty where there are no categories.
    levels: LevelSums,
    /// Rows in which each category was missing.
    absent: Vec<u64>,
}

/// What a pass has found: a record for each group, and in how many rows each column
/// was missing.
type Found = (Vec<Option<Record>>, Vec<u64>);

impl Reader {
    fn add(&self, batch: &StructArray, sums: &mut Sums) -> Result<(), String> {
        let layout = Layout::new(&self.policies, &self.categories);
        let leaves = leaves(batch, Place::ROW);
        let columns = named(&leaves, &self.columns)?;
        let one = |name: &String| Ok::<_, String>(named(&leaves, &[name])?[0]);
        let weight = self.weight.as_ref().map(one).transpose()?;
        let group = self.group.as_ref().map(one).transpose()?;
        let fields: Vec<&str> = self.categories.iter().map(|c| &c.column[..]).collect();
        let fields = named(&leaves, &fields)?;
        let both = || fields.iter().zip(&self.categories);
        let codes: Vec<Vec<u32>> =
            both().map(|(leaf, category)| category.codes(leaf)).collect::<Result<_, _>>()?;
        sums.absent.resize(fields.len(), 0);
        let label = self.weight.as_ref().map(|name| format!("weight '{name}'")).unwrap_or_default();
        let labels = Labels { columns: &self.columns, weight: &label };
        for start in (0..batch.len()).step_by(CHUNK_ROWS) {
            let rows = start..(start + CHUNK_ROWS).min(batch.len());
            let mut chunk = chunk(&columns, weight, rows.clone(), &self.policies)?;
            for ((leaf, category), absent) in both().zip(&mut sums.absent) {
                let missing = leaf.missing(rows.clone());
                *absent += missing.count();
                if !category.policy.fills() {
                    chunk.missing.set_those_of(&missing, rows.len());
                }
            }
            let codes: Vec<&[u32]> = codes.iter().map(|codes| &codes[rows.clone()]).collect();
            let Some(group) = group else {
                self.grow(sums, 1, &layout);
                let Sums { numbers, levels, .. } = sums;
                numbers[0].add_and(&chunk, labels, |start, rows| {
                    levels.add(&layout, start, rows, &codes, |_| 0);
                })?;
                continue;
            };
            let groups = group.doubles(rows.clone())?;
            let last = groups.iter().fold(0.0, |last: f64, &group| last.max(group));
            self.grow(sums, last as usize + 1, &layout);
            let Sums { numbers, levels, .. } = sums;
            let numbers = numbers.as_mut_ptr();
            // SAFETY: a cast to usize gives 0 for NaN and negative groups and at most
            // `last` for the others, and `numbers` has more elements than that;
            // `scatter_and` uses one reference at a time.
            let group_of = |row: usize| unsafe { &mut *numbers.add(groups[row] as usize) };
            scatter_and(&chunk, labels, group_of, |start, rows| {
                levels.add(&layout, start, rows, &codes, |row| groups[row] as usize);
            })?;
        }
        Ok(())
    }

    fn grow(&self, sums: &mut Sums, length: usize, layout: &Layout) {
        while sums.numbers.len() < length {
            sums.numbers.push(Accumulator::new(self.columns.len()));
        }
        if !self.categories.is_empty() {
            sums.levels.grow(layout, length);
        }
    }

    fn finish(&self) -> Result<Found, String> {
        let sets = std::mem::take(&mut *self.idle.lock().map_err(|_| POISONED)?);
        let layout = Layout::new(&self.policies, &self.categories);
        let mut sets = sets.into_iter();
        let mut total = sets.next().unwrap_or_default();
        total.absent.resize(self.categories.len(), 0);
        for set in sets {
            self.grow(&mut total, set.numbers.len(), &layout);
            // Each group is freed as soon as it is merged, and below as soon as it is
            // written: of a million groups there must not be a second copy.
            for (into, from) in total.numbers.iter_mut().zip(set.numbers) {
                into.merge(&from);
            }
            total.levels.merge(&layout, set.levels);
            total.absent.iter_mut().zip(set.absent).for_each(|(sum, rows)| *sum += rows);
        }
        if self.group.is_none() {
            self.grow(&mut total, 1, &layout);
        }
        let (mut has_gaps, mut absent) =
            (vec![false; self.columns.len()], vec![0; self.columns.len()]);
        for group in &mut total.numbers {
            group.finish().gaps().for_each(|column| has_gaps[column] = true);
            absent.iter_mut().zip(group.absent()).for_each(|(sum, rows)| *sum += rows);
        }
        absent.extend(total.absent);
        let places = gaps::layout(&self.policies, |column| has_gaps[column]);
        let listed = Listed::new(&layout, &self.categories, &total.levels);
        let names = gaps::names(&self.columns, &places);
        let columns: Names = names.iter().cloned().chain(listed.names()).collect();
        let record = |(at, mut group): (usize, Accumulator)| {
            let numbers = group.finish();
            let moments = if self.categories.is_empty() {
                numbers.finish(&self.policies, &places).into_owned()
            } else {
                listed.of(total.levels.finish(&layout, at, numbers, &places))
            };
            check_overflow(&columns, &moments)?;
            Ok(Some(Record { columns: columns.clone(), moments }))
        };
        let records = total.numbers.into_iter().enumerate().map(record);
        Ok((records.collect::<Result<_, String>>()?, absent))
    }
}

/// The leaves of some names, in the order of the names.
fn named<'l>(leaves: &'l [Leaf], names: &[impl AsRef<str>]) -> Result<Vec<&'l Leaf>, String> {
    let by_name: HashMap<&str, &Leaf> =
        leaves.iter().map(|leaf| (leaf.name.as_str(), leaf)).collect();
    let find = |name: &str| {
        let leaf = by_name.get(name).copied();
        leaf.ok_or_else(|| format!("column '{name}' is not in the table"))
    };
    names.iter().map(|name| find(name.as_ref())).collect()
}

const POISONED: &str = "an earlier batch failed; the pass cannot go on";

/// Start a pass. `columns` holds `n_columns` names and `policies` a letter for each;
/// `weight` and `group` may be null. Null comes back if a name is not UTF-8, or a
/// letter no policy.
///
/// # Safety
/// Every non-null pointer is a NUL-terminated string; `columns` holds
/// `n_columns` of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_reader_new(
    columns: *const *const c_char,
    n_columns: usize,
    weight: *const c_char,
    group: *const c_char,
    policies: *const c_char,
) -> *mut Reader {
    // SAFETY: see the caller's promise.
    let text = |p: *const c_char| unsafe { CStr::from_ptr(p) }.to_str().ok().map(str::to_string);
    let optional = |p: *const c_char| if p.is_null() { Some(None) } else { text(p).map(Some) };
    // SAFETY: see the caller's promise.
    let columns: Option<Vec<String>> =
        (0..n_columns).map(|i| text(unsafe { *columns.add(i) })).collect();
    // SAFETY: see the caller's promise.
    let letters = unsafe { CStr::from_ptr(policies) }.to_bytes();
    let policies: Option<Vec<Policy>> = letters.iter().map(|&letter| Policy::of(letter)).collect();
    let (Some(columns), Some(weight), Some(group), Some(policies)) =
        (columns, optional(weight), optional(group), policies)
    else {
        return std::ptr::null_mut();
    };
    if policies.len() != columns.len() {
        return std::ptr::null_mut();
    }
    let columns = columns.into();
    let (categories, idle) = (Vec::new(), Mutex::default());
    Box::into_raw(Box::new(Reader { columns, weight, group, policies, categories, idle }))
}

/// Add a category before any rows: a field, its `n_levels` levels as texts and the names
/// of the `n_names` columns that come of it, in the same order; then the name for all other
/// values, if there is one, and that for what is missing, if the letter of `policy` is one
/// that fills. False comes back if a text is not UTF-8, or the letter no policy.
///
/// # Safety
/// `reader` comes from `dbselect_reader_new` and no other call uses it meanwhile; every
/// pointer is a NUL-terminated string; `levels` and `names` hold as many as they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_reader_category(
    reader: *mut Reader,
    column: *const c_char,
    levels: *const *const c_char,
    n_levels: usize,
    names: *const *const c_char,
    n_names: usize,
    policy: *const c_char,
) -> bool {
    // SAFETY: see the caller's promise.
    let text = |p: *const c_char| unsafe { CStr::from_ptr(p) }.to_str().ok().map(str::to_string);
    let texts = |texts: *const *const c_char, n: usize| -> Option<Vec<String>> {
        // SAFETY: see the caller's promise.
        (0..n).map(|i| text(unsafe { *texts.add(i) })).collect()
    };
    let (levels, names) = (texts(levels, n_levels), texts(names, n_names));
    // SAFETY: see the caller's promise.
    let policy = unsafe { CStr::from_ptr(policy) }.to_bytes().first().copied();
    let (Some(column), Some(levels), Some(names), Some(policy)) =
        (text(column), levels, names, policy.and_then(Policy::of))
    else {
        return false;
    };
    let category = Category::new(column, &levels, names, policy);
    // SAFETY: see the caller's promise.
    unsafe { &mut *reader }.categories.push(category);
    true
}

/// Add every batch of a stream; may be called from several threads at once.
/// The stream is consumed and released. Null comes back, or an error text for
/// `dbselect_text_free`.
///
/// # Safety
/// `reader` comes from `dbselect_reader_new` and is not freed meanwhile;
/// `stream` is a live Arrow C stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_reader_add(
    reader: *const Reader,
    stream: *mut FFI_ArrowArrayStream,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let (reader, batches) = unsafe { (&*reader, RecordBatchStreamReader::from_raw(stream)) };
        let batches = batches.map_err(|error| error.to_string())?;
        let mut sums = reader.idle.lock().map_err(|_| POISONED)?.pop().unwrap_or_default();
        for batch in batches {
            reader.add(&batch.map_err(|error| error.to_string())?.into(), &mut sums)?;
        }
        reader.idle.lock().map_err(|_| POISONED)?.push(sums);
        Ok(())
    })
}

/// Write the records, one a group, to `array` and `schema`, and in how many rows
/// each column, then each category, was missing to `absent`. Null comes back, or an error text for
/// `dbselect_text_free`.
///
/// # Safety
/// `reader` as above; `array` and `schema` are writable and hold nothing; `absent`
/// has room for a number a column and a category.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_reader_finish(
    reader: *const Reader,
    array: *mut FFI_ArrowArray,
    schema: *mut FFI_ArrowSchema,
    absent: *mut u64,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let (records, counts) = unsafe { &*reader }.finish()?;
        // SAFETY: see the caller's promise.
        unsafe {
            absent.copy_from_nonoverlapping(counts.as_ptr(), counts.len());
            export(&write_records(&records), array, schema)
        }
    })
}

/// End a pass.
///
/// # Safety
/// `reader` comes from `dbselect_reader_new` and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_reader_free(reader: *mut Reader) {
    // SAFETY: see the caller's promise.
    drop(unsafe { Box::from_raw(reader) });
}

/// Write the fold of every row of a stream to `array` and `schema`. The key is
/// the row of the columns named, or the first field if none is. The stream is
/// consumed and released. Null comes back, or an error text for
/// `dbselect_text_free`.
///
/// # Safety
/// `stream` is a live Arrow C stream; `columns` holds `n_columns` NUL-terminated
/// strings; `array` and `schema` are writable and hold nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_folds(
    stream: *mut FFI_ArrowArrayStream,
    columns: *const *const c_char,
    n_columns: usize,
    k: i64,
    seed: i64,
    array: *mut FFI_ArrowArray,
    schema: *mut FFI_ArrowSchema,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let (batches, columns) = unsafe {
            let text = |i| CStr::from_ptr(*columns.add(i)).to_string_lossy();
            let columns: Vec<_> = (0..n_columns).map(text).collect();
            (RecordBatchStreamReader::from_raw(stream), columns)
        };
        let batches = batches.map_err(|error| error.to_string())?;
        // Without rows, too, the type of the key is checked.
        let empty = RecordBatch::new_empty(batches.schema());
        let mut folds = Vec::new();
        for batch in once(Ok(empty)).chain(batches) {
            let batch: StructArray = batch.map_err(|error| error.to_string())?.into();
            let mut hashes = vec![fold::begin(seed)?; batch.len()];
            if columns.is_empty() {
                mix_key(batch.fields()[0].name(), batch.column(0), Place::ROW, &mut hashes)?;
            } else {
                let leaves = leaves(&batch, Place::ROW);
                mix_row(&named(&leaves, &columns)?, &mut hashes)?;
            }
            for hash in hashes {
                folds.push(fold::fold(hash, k)?);
            }
        }
        // SAFETY: see the caller's promise.
        unsafe { export(&Int64Array::from(folds), array, schema) }
    })
}

/// Write the distinct values of the first field of a stream, which has no NULLs, to `array`
/// and `schema`: a row that has the value, and how many do. A value may come more than
/// once, with other rows. The stream is consumed and released. Null comes back, or an error
/// text for `dbselect_text_free`.
///
/// # Safety
/// `stream` is a live Arrow C stream; `array` and `schema` are writable and hold nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_distinct(
    stream: *mut FFI_ArrowArrayStream,
    array: *mut FFI_ArrowArray,
    schema: *mut FFI_ArrowSchema,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let batches = unsafe { RecordBatchStreamReader::from_raw(stream) };
        let (mut start, mut row, mut rows) = (0, Vec::new(), Vec::new());
        for batch in batches.map_err(|error| error.to_string())? {
            let batch = batch.map_err(|error| error.to_string())?;
            for count in distinct(batch.column(0))? {
                row.push((start + count.row) as i64);
                rows.push(count.rows as i64);
            }
            start += batch.num_rows();
        }
        let column = |values| Arc::new(Int64Array::from(values)) as ArrayRef;
        let counts = [("row", column(row)), ("rows", column(rows))];
        let counts = RecordBatch::try_from_iter(counts).map_err(|error| error.to_string())?;
        // SAFETY: see the caller's promise.
        unsafe { export(&StructArray::from(counts), array, schema) }
    })
}

/// Write the sequences of the records in the first field of a stream to `array` and `schema`:
/// a row for each, as `search_records` says. `request` is a stream of one row, an option a
/// column, as `read_request` takes it. Both streams are consumed and released. Null comes
/// back, or an error text for `dbselect_text_free`: the class of the error and a sentence.
///
/// # Safety
/// The streams are live Arrow C streams; `array` and `schema` are writable and hold nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_search(
    records: *mut FFI_ArrowArrayStream,
    request: *mut FFI_ArrowArrayStream,
    array: *mut FFI_ArrowArray,
    schema: *mut FFI_ArrowSchema,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let (records, request) = unsafe { (only_batch(records)?, only_batch(request)?) };
        let found = search_records(records.column(0), &read_request(&request.into())?)?;
        // SAFETY: see the caller's promise.
        unsafe { export(&found, array, schema) }
    })
}

/// Write why each record in the first field of a stream cannot be searched for a target to
/// `array` and `schema`, NULL where it can. The stream is consumed and released. Null comes
/// back, or an error text as above.
///
/// # Safety
/// `records` is a live Arrow C stream, `target` a NUL-terminated string; `array` and `schema`
/// are writable and hold nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_check(
    records: *mut FFI_ArrowArrayStream,
    target: *const c_char,
    array: *mut FFI_ArrowArray,
    schema: *mut FFI_ArrowSchema,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let (records, target) = unsafe { (only_batch(records)?, CStr::from_ptr(target)) };
        let found = check_records(records.column(0), &target.to_string_lossy())?;
        // SAFETY: see the caller's promise.
        unsafe { export(&found, array, schema) }
    })
}

/// The batch of a stream that has at most one.
///
/// # Safety
/// `stream` is a live Arrow C stream.
unsafe fn only_batch(stream: *mut FFI_ArrowArrayStream) -> Result<RecordBatch, String> {
    // SAFETY: see the caller's promise.
    let batches = unsafe { RecordBatchStreamReader::from_raw(stream) };
    let mut batches = batches.map_err(|error| error.to_string())?;
    let empty = RecordBatch::new_empty(batches.schema());
    batches.next().unwrap_or(Ok(empty)).map_err(|error| error.to_string())
}

/// Free an error text.
///
/// # Safety
/// `text` comes from one of these functions and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_text_free(text: *mut c_char) {
    // SAFETY: see the caller's promise.
    drop(unsafe { CString::from_raw(text) });
}

/// Write an array for the caller.
///
/// # Safety
/// `array` and `schema` are writable and hold nothing.
unsafe fn export(
    values: &dyn Array,
    array: *mut FFI_ArrowArray,
    schema: *mut FFI_ArrowSchema,
) -> Result<(), String> {
    let exported = to_ffi(&values.to_data()).map_err(|error| error.to_string())?;
    // SAFETY: see the caller's promise.
    unsafe {
        array.write(exported.0);
        schema.write(exported.1);
    }
    Ok(())
}

fn guard(work: impl FnOnce() -> Result<(), String>) -> *mut c_char {
    let message = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => return std::ptr::null_mut(),
        Ok(Err(message)) => message,
        Err(_) => "internal error: panic in the native library".to_string(),
    };
    CString::new(message.replace('\0', " ")).unwrap_or_default().into_raw()
}

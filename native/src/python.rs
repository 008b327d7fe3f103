//! Entry points for Python, called through ctypes (`dbselect/_native.py`).
//!
//! A `Reader` gathers Arrow batches from any number of threads. Every call to
//! `dbselect_reader_add` takes an idle set of accumulators or starts a new one,
//! so that threads never wait for each other; the sets are merged at the end.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, to_ffi};
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{Array, StructArray};

use crate::accumulator::{Accumulator, CHUNK_ROWS, scatter};
use crate::arrow::{Leaf, Place, chunk, leaves, write_records};
use crate::categories::{Category, Layout, LevelSums};
use crate::chunk::Labels;
use crate::levels::Levels;
use crate::record::{Names, Record, check_overflow};

/// A pass over a table that is still under way.
pub struct Reader {
    columns: Names,
    weight: Option<String>,
    /// Column that numbers the group of each row, from 0.
    group: Option<String>,
    categories: Vec<Category>,
    idle: Mutex<Vec<Sums>>,
}

/// What one thread knows of each group.
#[derive(Default)]
struct Sums {
    numbers: Vec<Accumulator>,
    /// Empty where there are no categories.
    levels: LevelSums,
}

impl Reader {
    fn add(&self, batch: &StructArray, sums: &mut Sums) -> Result<(), String> {
        let layout = Layout::new(self.columns.len(), &self.categories);
        let leaves = leaves(batch, Place::ROW);
        let by_name: HashMap<&str, &Leaf> =
            leaves.iter().map(|leaf| (leaf.name.as_str(), leaf)).collect();
        let find = |name: &String| {
            let leaf = by_name.get(name.as_str()).copied();
            leaf.ok_or_else(|| format!("column '{name}' is not in the table"))
        };
        let columns: Vec<&Leaf> = self.columns.iter().map(find).collect::<Result<_, _>>()?;
        let weight = self.weight.as_ref().map(find).transpose()?;
        let group = self.group.as_ref().map(find).transpose()?;
        let categories: Vec<&Leaf> =
            self.categories.iter().map(|c| find(&c.column)).collect::<Result<_, _>>()?;
        let codes: Vec<Vec<u32>> = categories
            .iter()
            .zip(&self.categories)
            .map(|(leaf, category)| category.levels.codes(leaf.values()))
            .collect::<Result<_, _>>()?;
        let label = self.weight.as_ref().map(|name| format!("weight '{name}'")).unwrap_or_default();
        let labels = Labels { columns: &self.columns, weight: &label };
        for start in (0..batch.len()).step_by(CHUNK_ROWS) {
            let rows = start..(start + CHUNK_ROWS).min(batch.len());
            let mut chunk = chunk(&columns, weight, rows.clone())?;
            categories.iter().for_each(|leaf| leaf.mark_missing(rows.clone(), &mut chunk.missing));
            let codes: Vec<&[u32]> = codes.iter().map(|codes| &codes[rows.clone()]).collect();
            let Some(group) = group else {
                self.grow(sums, 1, &layout);
                sums.numbers[0].add(&chunk, labels)?;
                if !codes.is_empty() {
                    sums.levels.add(&layout, &chunk, &codes, labels, |_| 0)?;
                }
                continue;
            };
            let groups = group.doubles(rows.clone())?;
            let last = groups.iter().fold(0.0, |last: f64, &group| last.max(group));
            self.grow(sums, last as usize + 1, &layout);
            let numbers = sums.numbers.as_mut_ptr();
            // SAFETY: a cast to usize gives 0 for NaN and negative groups and at most
            // `last` for the others, and `numbers` has more elements than that;
            // `scatter` uses one reference at a time.
            let group_of = |row: usize| unsafe { &mut *numbers.add(groups[row] as usize) };
            if !columns.is_empty() {
                scatter(&chunk, labels, group_of)?;
            }
            if !codes.is_empty() {
                sums.levels.add(&layout, &chunk, &codes, labels, |row| groups[row] as usize)?;
            }
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

    fn finish(&self) -> Result<Vec<Option<Record>>, String> {
        let sets = std::mem::take(&mut *self.idle.lock().map_err(|_| POISONED)?);
        let layout = Layout::new(self.columns.len(), &self.categories);
        let mut total = Sums::default();
        for set in sets {
            self.grow(&mut total, set.numbers.len(), &layout);
            for (into, from) in total.numbers.iter_mut().zip(&set.numbers) {
                into.merge(from);
            }
            total.levels.merge(&layout, set.levels);
        }
        if self.group.is_none() {
            self.grow(&mut total, 1, &layout);
        }
        let made = self.categories.iter().flat_map(|category| &category.names);
        let columns: Names = self.columns.iter().chain(made).cloned().collect();
        let record = |(at, group): (usize, &mut Accumulator)| {
            let numbers = group.finish();
            let moments = if self.categories.is_empty() {
                numbers.clone()
            } else {
                total.levels.finish(&layout, at, numbers)
            };
            check_overflow(&columns, &moments)?;
            Ok(Some(Record { columns: columns.clone(), moments }))
        };
        total.numbers.iter_mut().enumerate().map(record).collect()
    }
}

const POISONED: &str = "an earlier batch failed; the pass cannot go on";

/// Start a pass. `columns` holds `n_columns` names; `weight` and `group` may be
/// null. Null comes back if a name is not UTF-8.
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
) -> *mut Reader {
    // SAFETY: see the caller's promise.
    let text = |p: *const c_char| unsafe { CStr::from_ptr(p) }.to_str().ok().map(str::to_string);
    let optional = |p: *const c_char| if p.is_null() { Some(None) } else { text(p).map(Some) };
    // SAFETY: see the caller's promise.
    let columns: Option<Vec<String>> =
        (0..n_columns).map(|i| text(unsafe { *columns.add(i) })).collect();
    let (Some(columns), Some(weight), Some(group)) = (columns, optional(weight), optional(group))
    else {
        return std::ptr::null_mut();
    };
    let (categories, idle) = (Vec::new(), Mutex::default());
    Box::into_raw(Box::new(Reader { columns: columns.into(), weight, group, categories, idle }))
}

/// Add a category before any rows: a field, its `n_levels` levels as texts and the names
/// of the `n_names` columns that come of it, in the same order; one name more than there
/// are levels is that of all other values. False comes back if a text is not UTF-8.
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
) -> bool {
    // SAFETY: see the caller's promise.
    let text = |p: *const c_char| unsafe { CStr::from_ptr(p) }.to_str().ok().map(str::to_string);
    let texts = |texts: *const *const c_char, n: usize| -> Option<Vec<String>> {
        // SAFETY: see the caller's promise.
        (0..n).map(|i| text(unsafe { *texts.add(i) })).collect()
    };
    let (levels, names) = (texts(levels, n_levels), texts(names, n_names));
    let (Some(column), Some(levels), Some(names)) = (text(column), levels, names) else {
        return false;
    };
    let category = Category { column, names, levels: Levels::new(&levels) };
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

/// Write the records, one a group, to `array` and `schema`. Null comes back,
/// or an error text for `dbselect_text_free`.
///
/// # Safety
/// `reader` as above; `array` and `schema` are writable and hold nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_reader_finish(
    reader: *const Reader,
    array: *mut FFI_ArrowArray,
    schema: *mut FFI_ArrowSchema,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let records = unsafe { &*reader }.finish()?;
        let exported =
            to_ffi(&write_records(&records).to_data()).map_err(|error| error.to_string())?;
        // SAFETY: see the caller's promise.
        unsafe {
            array.write(exported.0);
            schema.write(exported.1);
        }
        Ok(())
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

/// Free an error text.
///
/// # Safety
/// `text` comes from one of these functions and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_text_free(text: *mut c_char) {
    // SAFETY: see the caller's promise.
    drop(unsafe { CString::from_raw(text) });
}

fn guard(work: impl FnOnce() -> Result<(), String>) -> *mut c_char {
    let message = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => return std::ptr::null_mut(),
        Ok(Err(message)) => message,
        Err(_) => "internal error: panic in the native library".to_string(),
    };
    CString::new(message.replace('\0', " ")).unwrap_or_default().into_raw()
}

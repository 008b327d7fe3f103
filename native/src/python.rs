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
use crate::chunk::Labels;
use crate::record::{Names, Record, check_overflow};

/// A pass over a table that is still under way.
pub struct Reader {
    columns: Names,
    weight: Option<String>,
    /// Column that numbers the group of each row, from 0.
    group: Option<String>,
    idle: Mutex<Vec<Vec<Accumulator>>>,
}

impl Reader {
    fn add(&self, batch: &StructArray, groups: &mut Vec<Accumulator>) -> Result<(), String> {
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
        let label = self.weight.as_ref().map(|name| format!("weight '{name}'")).unwrap_or_default();
        let labels = Labels { columns: &self.columns, weight: &label };
        for start in (0..batch.len()).step_by(CHUNK_ROWS) {
            let rows = start..(start + CHUNK_ROWS).min(batch.len());
            let chunk = chunk(&columns, weight, rows.clone())?;
            let Some(group) = group else {
                self.grow(groups, 1);
                groups[0].add(&chunk, labels)?;
                continue;
            };
            let codes = group.doubles(rows.clone())?;
            let last = codes.iter().fold(0.0, |last: f64, &code| last.max(code));
            self.grow(groups, last as usize + 1);
            let accumulators = groups.as_mut_ptr();
            // SAFETY: a cast to usize gives 0 for NaN and negative codes and at most
            // `last` for the others, and `groups` has more elements than that;
            // `scatter` uses one reference at a time.
            let group_of = |row: usize| unsafe { &mut *accumulators.add(codes[row] as usize) };
            scatter(&chunk, labels, group_of)?;
        }
        Ok(())
    }

    fn grow(&self, groups: &mut Vec<Accumulator>, length: usize) {
        while groups.len() < length {
            groups.push(Accumulator::new(self.columns.len()));
        }
    }

    fn finish(&self) -> Result<Vec<Option<Record>>, String> {
        let sets = std::mem::take(&mut *self.idle.lock().map_err(|_| POISONED)?);
        let mut sets = sets.into_iter();
        let mut total = sets.next().unwrap_or_default();
        for set in sets {
            self.grow(&mut total, set.len());
            // Each group is freed as soon as it is merged, and below as soon as it is
            // written: of a million groups there must not be a second copy.
            for (into, from) in total.iter_mut().zip(set) {
                into.merge(&from);
            }
        }
        if self.group.is_none() {
            self.grow(&mut total, 1);
        }
        let record = |group: Accumulator| {
            let moments = group.into_moments();
            check_overflow(&self.columns, &moments)?;
            Ok(Some(Record { columns: self.columns.clone(), moments }))
        };
        total.into_iter().map(record).collect()
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
    let idle = Mutex::default();
    Box::into_raw(Box::new(Reader { columns: columns.into(), weight, group, idle }))
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
        let mut groups = reader.idle.lock().map_err(|_| POISONED)?.pop().unwrap_or_default();
        for batch in batches {
            reader.add(&batch.map_err(|error| error.to_string())?.into(), &mut groups)?;
        }
        reader.idle.lock().map_err(|_| POISONED)?.push(groups);
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

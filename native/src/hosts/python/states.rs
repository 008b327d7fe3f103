//! What a reader has gathered, as bytes, and the bytes of others taken in.
//!
//! A part that is taken in is merged at once: memory does not grow with their number.

use std::ffi::c_char;
use std::slice;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{Array, LargeBinaryArray, RecordBatch, RecordBatchReader, StructArray};

use super::{Met, Reader, Sums, export, guard};
use crate::kernel::moments::MOST_COUNTED;
use crate::kernel::state::{self, hash_of_texts, state, torn};
use crate::record::categories::Layout;

state!(Sums { numbers, levels, absent }..Sums::default());

impl Reader {
    /// A hash of what decides which sums there are.
    fn plan(&self) -> u64 {
        let letters = |policy| format!("{policy:?}");
        let policies: Vec<String> = self.policies.iter().copied().map(letters).collect();
        let of_categories: Vec<String> =
            self.categories.iter().map(|category| letters(category.policy)).collect();
        let order: Vec<String> = self.order.iter().map(usize::to_string).collect();
        let terms = self.terms.to_json();
        let mut texts =
            vec![self.weight.as_deref().unwrap_or("\0"), terms.as_deref().unwrap_or("\0")];
        let names = self.by.iter().chain(self.columns.iter()).chain(&policies);
        texts.extend(names.map(String::as_str));
        for (category, policy) in self.categories.iter().zip(&of_categories) {
            texts.extend([&category.column[..], policy, "\0"]);
            texts.extend(category.names.iter().map(String::as_str));
        }
        texts.extend(order.iter().map(String::as_str));
        hash_of_texts(texts)
    }

    /// Seal the sums of all rows so far, which stay here.
    fn seal(&self, note: &[u8]) -> Result<Vec<u8>, String> {
        let (mut total, _) = self.merged(&Layout::new(&self.policies, &self.categories))?;
        total.numbers.iter_mut().for_each(|group| {
            group.finish();
        });
        let bytes = state::seal(&total, self.plan(), note);
        self.give_back(total)?;
        Ok(bytes)
    }

    /// Merge the sums of other rows, whose groups have some keys; none without groups.
    fn load(&self, bytes: &[u8], keys: Option<&StructArray>) -> Result<Met, String> {
        let layout = Layout::new(&self.policies, &self.categories);
        let part: Sums = state::open(bytes, self.plan())?;
        let groups = keys.map_or(1, |keys| keys.len());
        if part.numbers.len() != groups {
            return Err(format!(
                "part has {} groups of rows and {groups} keys",
                part.numbers.len()
            ));
        }
        if !self.is_sound(&part, &layout) {
            return Err(torn());
        }
        let mut total = self.take()?;
        let mut met = Met { set: total.set, first: total.keys.len(), rows: Vec::new() };
        let at = match keys {
            None => vec![0],
            Some(keys) => self.number(keys, &mut total.keys, &mut |row| met.rows.push(row))?,
        };
        self.merge(&mut total, part, &at, &layout);
        self.give_back(total)?;
        Ok(met)
    }

    /// Whether sums are of the columns and categories here: a hash that anyone can compute
    /// keeps no one from bytes of others.
    fn is_sound(&self, part: &Sums, layout: &Layout) -> bool {
        let groups = if self.categories.is_empty() { 0 } else { part.numbers.len() };
        part.numbers.iter().all(|group| group.is_sound(self.columns.len()))
            && part.levels.is_sound(layout, groups)
            && part.absent.len() == groups * self.categories.len()
            && part.absent.iter().all(|&rows| rows <= MOST_COUNTED)
    }
}

/// Write the state of a reader and a note of `n_note` bytes, one value, to `array` and
/// `schema`. Null comes back, or an error text for `dbselect_text_free`.
///
/// # Safety
/// `reader` comes from `dbselect_reader_new` and no other call uses it meanwhile; `note` holds
/// as many bytes as it says; `array` and `schema` are writable and hold nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_reader_state(
    reader: *const Reader,
    note: *const u8,
    n_note: usize,
    array: *mut FFI_ArrowArray,
    schema: *mut FFI_ArrowSchema,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let (reader, note) = unsafe { (&*reader, slice::from_raw_parts(note, n_note)) };
        let bytes = LargeBinaryArray::from_vec(vec![&reader.seal(note)?]);
        // SAFETY: see the caller's promise.
        unsafe { export(&bytes, array, schema) }
    })
}

/// Write the note of a state of `n` bytes, one value, to `array` and `schema`. Null comes
/// back, or an error text for `dbselect_text_free`.
///
/// # Safety
/// `reader` as above; `part` holds as many bytes as it says; `array` and `schema` are writable
/// and hold nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_state_note(
    reader: *const Reader,
    part: *const u8,
    n: usize,
    array: *mut FFI_ArrowArray,
    schema: *mut FFI_ArrowSchema,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let (reader, part) = unsafe { (&*reader, slice::from_raw_parts(part, n)) };
        let note = LargeBinaryArray::from_vec(vec![state::note(part, reader.plan())?]);
        // SAFETY: see the caller's promise.
        unsafe { export(&note, array, schema) }
    })
}

/// Take in a state of `n` bytes, of whose groups `keys` has the keys, a row each; null without
/// groups. `array` and `schema` get the rows of keys that were not met before, as from
/// `dbselect_reader_add`. Null comes back, or an error text for `dbselect_text_free`.
///
/// # Safety
/// `reader` as above; `part` holds as many bytes as it says; `keys` is null or a live Arrow C stream,
/// which is consumed and released; `array` and `schema` are writable and hold nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_reader_load(
    reader: *const Reader,
    part: *const u8,
    n: usize,
    keys: *mut FFI_ArrowArrayStream,
    array: *mut FFI_ArrowArray,
    schema: *mut FFI_ArrowSchema,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let (reader, part) = unsafe { (&*reader, slice::from_raw_parts(part, n)) };
        let keys = match keys.is_null() {
            true => None,
            // SAFETY: see the caller's promise.
            false => Some(unsafe { one_batch(keys) }?),
        };
        let met = reader.load(part, keys.as_ref())?;
        // SAFETY: see the caller's promise.
        unsafe { export(&met.array(), array, schema) }
    })
}

/// The one batch of a stream.
///
/// # Safety
/// A live Arrow C stream, which is consumed and released.
unsafe fn one_batch(stream: *mut FFI_ArrowArrayStream) -> Result<StructArray, String> {
    // SAFETY: see the caller's promise.
    let mut batches =
        unsafe { RecordBatchStreamReader::from_raw(stream) }.map_err(|error| error.to_string())?;
    let schema = batches.schema();
    let batch = batches.next().unwrap_or_else(|| Ok(RecordBatch::new_empty(schema)));
    if batches.next().is_some() {
        return Err("the keys of a part must be one batch".to_string());
    }
    batch.map(StructArray::from).map_err(|error| error.to_string())
}

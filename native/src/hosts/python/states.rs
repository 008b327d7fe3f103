//! What a reader has gathered, as bytes, and the bytes of others taken in.
//!
//! A part that is taken in is merged at once: memory does not grow with their number.

use std::ffi::c_char;
use std::slice;

use arrow_array::LargeBinaryArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};

use super::{POISONED, Reader, Sums, export, guard};
use crate::kernel::moments::MOST_COUNTED;
use crate::record::categories::Layout;
use crate::record::state::{self, hash_of_texts, state, torn};

state!(Sums { numbers, levels, absent });

impl Reader {
    /// A hash of what decides which sums there are.
    fn plan(&self) -> u64 {
        let letters = |policy| format!("{policy:?}");
        let policies: Vec<String> = self.policies.iter().copied().map(letters).collect();
        let of_categories: Vec<String> =
            self.categories.iter().map(|category| letters(category.policy)).collect();
        let order: Vec<String> = self.order.iter().map(usize::to_string).collect();
        let terms = self.terms.to_json();
        let mut texts = vec![
            self.weight.as_deref().unwrap_or("\0"),
            self.group.as_deref().unwrap_or("\0"),
            terms.as_deref().unwrap_or("\0"),
        ];
        texts.extend(self.columns.iter().chain(&policies).map(String::as_str));
        for (category, policy) in self.categories.iter().zip(&of_categories) {
            texts.extend([&category.column[..], policy, "\0"]);
            texts.extend(category.names.iter().map(String::as_str));
        }
        texts.extend(order.iter().map(String::as_str));
        hash_of_texts(texts)
    }

    /// Seal the sums of all rows so far, which stay here.
    fn seal(&self, note: &[u8]) -> Result<Vec<u8>, String> {
        let total = self.merged(&Layout::new(&self.policies, &self.categories))?;
        let bytes = state::seal(&total, self.plan(), note);
        self.idle.lock().map_err(|_| POISONED)?.push(total);
        Ok(bytes)
    }

    /// Merge the sums of other rows, each of whose groups has a number here.
    fn load(&self, bytes: &[u8], groups: &[usize]) -> Result<(), String> {
        let layout = Layout::new(&self.policies, &self.categories);
        let part: Sums = state::open(bytes, self.plan())?;
        if part.numbers.len() != groups.len() {
            let (found, asked) = (part.numbers.len(), groups.len());
            return Err(format!("part has {found} groups of rows, and {asked} have a number"));
        }
        if !self.is_sound(&part, &layout) {
            return Err(torn());
        }
        let part = self.placed(part, groups, &layout);
        let mut total = self.idle.lock().map_err(|_| POISONED)?.pop().unwrap_or_default();
        self.merge(&mut total, part, &layout);
        self.idle.lock().map_err(|_| POISONED)?.push(total);
        Ok(())
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

    /// The sums with each group at another number.
    fn placed(&self, part: Sums, groups: &[usize], layout: &Layout) -> Sums {
        if groups.iter().copied().eq(0..groups.len()) {
            return part;
        }
        let length = groups.iter().max().map_or(0, |last| last + 1);
        let mut found = Sums::default();
        self.grow(&mut found, length, layout);
        for (group, &at) in part.numbers.into_iter().zip(groups) {
            found.numbers[at] = group;
        }
        if !self.categories.is_empty() {
            let n = self.categories.len();
            for (absent, &at) in part.absent.chunks_exact(n).zip(groups) {
                found.absent[at * n..][..n].copy_from_slice(absent);
            }
            found.levels = part.levels.placed(layout, groups, length);
        }
        found
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

/// Take in a state of `n` bytes, whose groups have the `n_groups` numbers `groups` here. Null
/// comes back, or an error text for `dbselect_text_free`.
///
/// # Safety
/// `reader` as above; `part` and `groups` hold as much as they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_reader_load(
    reader: *const Reader,
    part: *const u8,
    n: usize,
    groups: *const usize,
    n_groups: usize,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let (reader, part, groups) = unsafe {
            (&*reader, slice::from_raw_parts(part, n), slice::from_raw_parts(groups, n_groups))
        };
        reader.load(part, groups)
    })
}

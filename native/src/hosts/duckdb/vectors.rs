//! DuckDB vectors: values, lists and text by row.
//!
//! DuckDB flattens vectors before it calls an extension, so row `r` lies at
//! index `r` of every vector; children of an ARRAY of size k lie at
//! `r * k + element`.

use std::slice;

use super::api::{self, Handle, type_id};
use super::types::LogicalType;

/// A vector of the chunk at hand.
#[derive(Clone, Copy)]
pub struct Vector(Handle);

impl Vector {
    /// Column `index` of a chunk.
    ///
    /// # Safety
    /// `chunk` is live for as long as the vector is used, and has that column.
    pub unsafe fn of_chunk(chunk: Handle, index: u64) -> Vector {
        // SAFETY: see the caller's promise.
        Vector(unsafe { api::duckdb_data_chunk_get_vector(chunk, index) })
    }

    /// A vector to write to.
    pub fn output(handle: Handle) -> Vector {
        Vector(handle)
    }

    /// The type of the vector.
    pub fn logical_type(self) -> LogicalType {
        // SAFETY: a live vector; the type is ours to destroy.
        unsafe { LogicalType::own(api::duckdb_vector_get_column_type(self.0)) }
    }

    /// Whether it is a LIST vector.
    pub fn is_list(self) -> bool {
        self.logical_type().id() == type_id::LIST
    }

    /// Field `index` of a STRUCT vector.
    pub fn child(self, index: u64) -> Vector {
        // SAFETY: called for STRUCT vectors and existing fields only.
        Vector(unsafe { api::duckdb_struct_vector_get_child(self.0, index) })
    }

    /// What the lists of a LIST or MAP vector hold, one after the other.
    pub fn elements(self) -> Vector {
        // SAFETY: called for LIST and MAP vectors only.
        Vector(unsafe { api::duckdb_list_vector_get_child(self.0) })
    }

    /// How many they are.
    pub fn length(self) -> usize {
        // SAFETY: called for LIST and MAP vectors only.
        unsafe { api::duckdb_list_vector_get_size(self.0) as usize }
    }

    /// What the arrays of an ARRAY vector hold, one after the other.
    pub fn items(self) -> Vector {
        // SAFETY: called for ARRAY vectors only.
        Vector(unsafe { api::duckdb_array_vector_get_child(self.0) })
    }

    /// Where the values lie.
    pub fn data<T>(self) -> *mut T {
        // SAFETY: a live vector.
        unsafe { api::duckdb_vector_get_data(self.0).cast() }
    }

    /// One bit a row, set where there is a value; null if all rows have one.
    pub fn validity(self) -> *const u64 {
        // SAFETY: a live vector.
        unsafe { api::duckdb_vector_get_validity(self.0) }
    }

    /// Whether row `row` is NULL.
    pub fn is_null(self, row: usize) -> bool {
        let validity = self.validity();
        // SAFETY: a validity mask has a bit for every row.
        !validity.is_null() && unsafe { *validity.add(row / 64) } >> (row % 64) & 1 == 0
    }

    /// Whether none of the first rows is NULL.
    pub fn are_there(self, rows: usize) -> bool {
        let validity = self.validity();
        // SAFETY: a validity mask has a bit for every row.
        let valid = |row: usize| unsafe { *validity.add(row / 64) } >> (row % 64) & 1 == 1;
        validity.is_null() || (0..rows).all(valid)
    }

    /// The value of row `row`.
    ///
    /// # Safety
    /// The vector holds values of type `T`, at least `row + 1` of them.
    pub unsafe fn get<T: Copy>(self, row: usize) -> T {
        // SAFETY: see the caller's promise.
        unsafe { *self.data::<T>().add(row) }
    }

    /// Some values, copied.
    ///
    /// # Safety
    /// The vector holds values of type `T`, as many as the range ends at.
    pub unsafe fn copied<T: Copy>(self, range: std::ops::Range<usize>) -> Vec<T> {
        if range.is_empty() {
            return Vec::new(); // An empty list may come without data.
        }
        // SAFETY: see the caller's promise.
        unsafe { slice::from_raw_parts(self.data::<T>().add(range.start), range.len()).to_vec() }
    }

    /// Write values from an index on.
    ///
    /// # Safety
    /// An output vector of type `T` with room for the values.
    pub unsafe fn write<T: Copy>(self, start: usize, values: &[T]) {
        // SAFETY: see the caller's promise; the memory is DuckDB's, so no overlap.
        unsafe {
            let out = self.data::<T>().add(start);
            std::ptr::copy_nonoverlapping(values.as_ptr(), out, values.len());
        }
    }

    /// Make room for more elements in an output LIST vector, which moves them;
    /// return where the new ones begin.
    pub fn grow(self, more: usize) -> usize {
        // SAFETY: called for LIST vectors only.
        unsafe {
            let size = api::duckdb_list_vector_get_size(self.0);
            api::duckdb_list_vector_reserve(self.0, size + more as u64);
            api::duckdb_list_vector_set_size(self.0, size + more as u64);
            size as usize
        }
    }

    /// Write NULL to row `row`.
    pub fn set_null(self, row: usize) {
        self.set_nulls([row]);
    }

    /// Write NULL to the first rows.
    pub fn set_first_null(self, rows: usize) {
        // SAFETY: an output vector, whose mask has a bit for every row once it is writable.
        unsafe {
            api::duckdb_vector_ensure_validity_writable(self.0);
            let mask = api::duckdb_vector_get_validity(self.0);
            (0..rows / 64).for_each(|word| *mask.add(word) = 0);
            if !rows.is_multiple_of(64) {
                *mask.add(rows / 64) &= u64::MAX << (rows % 64);
            }
        }
    }

    /// Write NULL to some rows.
    pub fn set_nulls(self, rows: impl IntoIterator<Item = usize>) {
        // SAFETY: an output vector, whose mask has a bit for every row once
        // it is writable.
        unsafe {
            api::duckdb_vector_ensure_validity_writable(self.0);
            let mask = api::duckdb_vector_get_validity(self.0);
            for row in rows {
                *mask.add(row / 64) &= !(1 << (row % 64));
            }
        }
    }
}

/// The values of a vector, for as long as its chunk lives.
#[derive(Clone, Copy)]
pub struct View<T> {
    data: *const T,
    validity: *const u64,
}

impl<T: Copy> View<T> {
    /// # Safety
    /// The vector holds values of type `T`.
    pub unsafe fn of(vector: Vector) -> View<T> {
        View { data: vector.data(), validity: vector.validity() }
    }

    /// The value of a row; nothing if it is NULL.
    ///
    /// # Safety
    /// The chunk is live and has that row.
    pub unsafe fn at(self, row: usize) -> Option<T> {
        // SAFETY: see the caller's promise; a validity mask has a bit for every row.
        unsafe {
            let there =
                self.validity.is_null() || *self.validity.add(row / 64) >> (row % 64) & 1 == 1;
            there.then(|| *self.data.add(row))
        }
    }
}

impl<T: PartialEq> View<T> {
    /// Whether so many rows have one value, and none is NULL.
    ///
    /// # Safety
    /// The chunk is live and has these rows.
    pub unsafe fn has_one_value(self, rows: usize) -> bool {
        // SAFETY: see the caller's promise; a validity mask has a bit for every row.
        unsafe {
            let valid = |row: usize| *self.validity.add(row / 64) >> (row % 64) & 1 == 1;
            if rows == 0 || !self.validity.is_null() && !(0..rows).all(valid) {
                return rows == 0;
            }
            let values = slice::from_raw_parts(self.data, rows);
            values.iter().all(|value| *value == values[0])
        }
    }
}

impl View<Text> {
    /// The bytes of a row; nothing if it is NULL.
    ///
    /// # Safety
    /// As `at`.
    pub unsafe fn bytes_at<'c>(self, row: usize) -> Option<&'c [u8]> {
        // SAFETY: see the caller's promise.
        unsafe { self.at(row).map(|_| bytes_of(self.data.add(row))) }
    }
}

/// `duckdb_list_entry`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ListEntry {
    /// Where its elements begin.
    pub offset: u64,
    /// How many there are.
    pub length: u64,
}

impl ListEntry {
    /// Where the elements of the list lie.
    pub fn range(self) -> std::ops::Range<usize> {
        self.offset as usize..(self.offset + self.length) as usize
    }
}

/// `duckdb_string_t`: up to twelve bytes inline, longer text by pointer.
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Text {
    length: u32,
    inline: [u8; 12],
}

/// Read the text of row `row`.
///
/// # Safety
/// A VARCHAR vector with at least `row + 1` rows, that one not NULL.
pub unsafe fn text(vector: Vector, row: usize) -> String {
    // SAFETY: see the caller's promise.
    String::from_utf8_lossy(unsafe { bytes(vector, row) }).into_owned()
}

/// The bytes of row `row`, for as long as the chunk lives.
///
/// # Safety
/// A VARCHAR or BLOB vector with at least `row + 1` rows, that one not NULL.
pub unsafe fn bytes<'c>(vector: Vector, row: usize) -> &'c [u8] {
    // SAFETY: see the caller's promise.
    unsafe { bytes_of(vector.data::<Text>().add(row)) }
}

/// # Safety
/// A text of a vector whose chunk is live.
unsafe fn bytes_of<'c>(entry: *const Text) -> &'c [u8] {
    // SAFETY: see the caller's promise; long text has its pointer in the last
    // eight of the inline bytes.
    unsafe {
        let inline = &raw const (*entry).inline;
        let length = (*entry).length as usize;
        let start = if length <= (*inline).len() {
            inline.cast::<u8>()
        } else {
            inline.cast::<u8>().add(4).cast::<*const u8>().read_unaligned()
        };
        slice::from_raw_parts(start, length)
    }
}

/// Write one text to some rows.
///
/// # Safety
/// An output VARCHAR vector with these rows.
pub unsafe fn write_texts(out: Vector, rows: impl IntoIterator<Item = usize>, text: &str) {
    let mut rows = rows.into_iter();
    let Some(first) = rows.next() else { return };
    // SAFETY: see the caller's promise; the texts share the copy that the vector keeps.
    unsafe {
        write_text(out, first, text);
        let all = out.data::<Text>();
        rows.for_each(|row| *all.add(row) = *all.add(first));
    }
}

/// Write the text of row `row`.
///
/// # Safety
/// An output VARCHAR vector with that row.
pub unsafe fn write_text(out: Vector, row: usize, text: &str) {
    // SAFETY: see the caller's promise; DuckDB copies the bytes.
    unsafe {
        let (bytes, length) = (text.as_ptr().cast(), text.len() as u64);
        api::duckdb_vector_assign_string_element_len(out.0, row as u64, bytes, length);
    }
}

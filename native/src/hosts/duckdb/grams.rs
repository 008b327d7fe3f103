//! Gram records in DuckDB vectors, read where they lie, for searches of many small ones.

use std::ops::Range;
use std::slice;

use super::api::Handle;
use super::records::Records;
use super::vectors::{ListEntry, Vector, bytes};
use crate::kernel::rank_update::triangle;
use crate::linear::problem::Gram;
use crate::record::gram::Record;

/// The records of a chunk, field by field.
pub struct Grams {
    /// The same, for what is wrong with one.
    pub records: Records,
    columns: List,
    rows: Vector,
    skipped: Vector,
    weight: Vector,
    mean: List,
    comoment: List,
    mean_low: Option<List>,
    missing: Option<List>,
    terms: Option<Vector>,
}

/// A LIST vector and its elements.
struct List {
    lists: Vector,
    elements: Vector,
}

impl Grams {
    /// Column `index` of a chunk; nothing where it has no type, as NULL has none.
    ///
    /// # Safety
    /// As `Records::of_chunk`; the chunk lives as long as the result.
    pub unsafe fn of_chunk(chunk: Handle, index: u64) -> Option<Grams> {
        // SAFETY: see the caller's promise.
        Grams::of(unsafe { Vector::of_chunk(chunk, index) })
    }

    /// Those of a vector; nothing where it has no type of records.
    pub fn of(vector: Vector) -> Option<Grams> {
        let records = Records::of(vector);
        let list = |name| {
            let lists = records.field(name)?;
            Some(List { lists, elements: lists.elements() })
        };
        Some(Grams {
            columns: list("columns")?,
            rows: records.field("rows")?,
            skipped: records.field("skipped")?,
            weight: records.field("weight")?,
            mean: list("mean")?,
            comoment: list("comoment")?,
            mean_low: list("mean_low"),
            missing: list("missing"),
            terms: records.field("terms"),
            records,
        })
    }

    /// The numbers of a record; nothing if they are not those of one.
    ///
    /// # Safety
    /// The chunk is live and has that row.
    pub unsafe fn gram(&self, row: usize) -> Option<Gram<'_>> {
        let numbers = [self.rows, self.skipped, self.weight];
        if self.records.is_null(row) || numbers.iter().any(|field| field.is_null(row)) {
            return None;
        }
        // SAFETY: see the caller's promise; the fields have the types of a record.
        unsafe {
            let width = self.columns.present(row)?.len();
            let mean_low = List::known(&self.mean_low, row, width)?;
            let missing: &[i64] = List::known(&self.missing, row, width)?;
            if missing.iter().any(|&count| count < 0) {
                return None;
            }
            let gram = Gram {
                rows: self.rows.get(row),
                skipped: self.skipped.get(row),
                weight: self.weight.get(row),
                mean: self.mean.values(row)?,
                mean_low,
                comoment: self.comoment.values(row)?,
                missing,
            };
            let lengths = (gram.mean.len(), gram.comoment.len());
            (lengths == (width, triangle(width)) && gram.is_sound()).then_some(gram)
        }
    }

    /// The terms of a record, as it has them.
    ///
    /// # Safety
    /// The chunk is live and lives as long as the result; the record is not NULL.
    pub unsafe fn terms(&self, row: usize) -> Option<&[u8]> {
        let terms = self.terms.filter(|terms| !terms.is_null(row))?;
        // SAFETY: see the caller's promise.
        Some(unsafe { bytes(terms, row) })
    }

    /// Whether a record that has a Gram has these columns.
    ///
    /// # Safety
    /// As `gram`.
    pub unsafe fn has_columns(&self, row: usize, names: &[String]) -> bool {
        // SAFETY: see the caller's promise; no element is NULL.
        unsafe {
            let range = self.columns.lists.get::<ListEntry>(row).range();
            range.len() == names.len()
                && range
                    .zip(names)
                    .all(|(i, name)| bytes(self.columns.elements, i) == name.as_bytes())
        }
    }

    /// The record, or what is wrong with it; NULL gives nothing.
    ///
    /// # Safety
    /// As `gram`.
    pub unsafe fn record(&self, row: usize) -> Result<Option<Record>, String> {
        // SAFETY: see the caller's promise.
        unsafe { self.records.at(row) }
    }
}

impl List {
    /// The values of a list that a record may lack, then none; nothing if they are not so many.
    ///
    /// # Safety
    /// As `values`.
    unsafe fn known<T>(list: &Option<List>, row: usize, length: usize) -> Option<&[T]> {
        match list {
            Some(list) if !list.lists.is_null(row) => {
                // SAFETY: see the caller's promise.
                unsafe { list.values(row) }.filter(|values| values.len() == length)
            }
            _ => Some(&[]),
        }
    }

    /// Where the elements of a list lie; nothing if it or one of them is NULL.
    ///
    /// # Safety
    /// The chunk is live and has that row.
    unsafe fn present(&self, row: usize) -> Option<Range<usize>> {
        if self.lists.is_null(row) {
            return None;
        }
        // SAFETY: see the caller's promise.
        let range = unsafe { self.lists.get::<ListEntry>(row) }.range();
        let has_null =
            !self.elements.validity().is_null() && range.clone().any(|i| self.elements.is_null(i));
        (!has_null).then_some(range)
    }

    /// # Safety
    /// As `present`, of values of this type.
    unsafe fn values<T>(&self, row: usize) -> Option<&[T]> {
        // SAFETY: see the caller's promise; an empty list may come without data.
        unsafe {
            let range = self.present(row)?;
            if range.is_empty() {
                return Some(&[]);
            }
            Some(slice::from_raw_parts(self.elements.data::<T>().add(range.start), range.len()))
        }
    }
}

//! Gram records in DuckDB vectors.

use std::slice;

use super::vectors::{ListEntry, Vector, text, write_text};
use crate::moments::Moments;
use crate::record::{FIELDS, RawRecord, Record};

/// Row `row` of a vector of Gram records; NULL gives nothing.
///
/// # Safety
/// The vector is live, of the type of `types::record`, and has that row.
pub unsafe fn read_record(vector: Vector, row: usize) -> Result<Option<Record>, String> {
    if vector.is_null(row) {
        return Ok(None);
    }
    let field = |index: usize| {
        let field = vector.child(index as u64);
        let name = FIELDS[index];
        if field.is_null(row) {
            return Err(format!("gram record has NULL in '{name}'"));
        }
        Ok(field)
    };
    // SAFETY: the fields have the types of a record, and are not NULL here.
    unsafe {
        let list = |index: usize| {
            let field = field(index)?;
            let (range, elements) = (field.get::<ListEntry>(row).range(), field.elements());
            if range.clone().any(|i| elements.is_null(i)) {
                let name = FIELDS[index];
                return Err(format!("gram record has a NULL element in '{name}'"));
            }
            Ok((range, elements))
        };
        let doubles = |index| {
            let (range, elements) = list(index)?;
            let start = elements.data::<f64>().add(range.start);
            // An empty list may come without data.
            Ok::<_, String>(if range.is_empty() {
                Vec::new()
            } else {
                slice::from_raw_parts(start, range.len()).to_vec()
            })
        };
        let (names, elements) = list(0)?;
        let raw = RawRecord {
            columns: names.map(|i| text(elements, i)).collect(),
            rows: field(1)?.get(row),
            skipped: field(2)?.get(row),
            weight: field(3)?.get(row),
            mean: doubles(4)?,
            comoment: doubles(5)?,
        };
        raw.check().map(Some)
    }
}

/// Write records to rows `offset ..` of a vector; an absent one is NULL.
///
/// # Safety
/// The vector is an output of the type of `types::record` with enough rows.
pub unsafe fn write_records(out: Vector, offset: usize, records: &[Option<(&[String], &Moments)>]) {
    let child = |index| out.child(index);
    // SAFETY: the fields have these types; lists are grown before they are written.
    unsafe {
        let present = || records.iter().flatten();
        let lists = [
            (child(0), present().map(|(names, _)| names.len()).sum::<usize>()),
            (child(4), present().map(|(names, _)| names.len()).sum()),
            (child(5), present().map(|(_, moments)| moments.comoment.len()).sum()),
        ];
        let mut ends = lists.map(|(list, more)| list.grow(more));
        // Asked for after the lists have grown, which moves them.
        let [names_out, means_out, comoments_out] = lists.map(|(list, _)| list.elements());
        for (row, record) in (offset..).zip(records) {
            let Some((names, moments)) = record else {
                out.set_null(row);
                for index in 0..6 {
                    child(index).set_null(row);
                }
                for ((list, _), end) in lists.iter().zip(ends) {
                    let entry = ListEntry { offset: end as u64, length: 0 };
                    list.data::<ListEntry>().add(row).write(entry);
                }
                continue;
            };
            child(1).data::<i64>().add(row).write(moments.rows as i64);
            child(2).data::<i64>().add(row).write(moments.skipped as i64);
            child(3).data::<f64>().add(row).write(moments.weight);
            for (i, name) in (ends[0]..).zip(names.iter()) {
                write_text(names_out, i, name);
            }
            let mean = moments.mean();
            copy(&mean, means_out, ends[1]);
            copy(&moments.comoment, comoments_out, ends[2]);
            let lengths = [names.len(), mean.len(), moments.comoment.len()];
            for (((list, _), end), length) in lists.iter().zip(&mut ends).zip(lengths) {
                let entry = ListEntry { offset: *end as u64, length: length as u64 };
                list.data::<ListEntry>().add(row).write(entry);
                *end += length;
            }
        }
    }
}

/// Write lists of counts to rows `offset ..` of a vector.
///
/// # Safety
/// The vector is an output of the type BIGINT[] with enough rows.
pub unsafe fn write_counts(out: Vector, offset: usize, counts: &[&[u64]]) {
    // SAFETY: see the caller's promise; the list is grown before it is written.
    unsafe {
        let mut end = out.grow(counts.iter().map(|counts| counts.len()).sum());
        let elements = out.elements().data::<i64>();
        for (row, counts) in (offset..).zip(counts) {
            let entry = ListEntry { offset: end as u64, length: counts.len() as u64 };
            out.data::<ListEntry>().add(row).write(entry);
            for &count in *counts {
                elements.add(end).write(count as i64);
                end += 1;
            }
        }
    }
}

/// # Safety
/// A DOUBLE vector with room for the values.
unsafe fn copy(values: &[f64], out: Vector, start: usize) {
    // SAFETY: see the caller's promise; the memory is DuckDB's, so no overlap.
    unsafe {
        std::ptr::copy_nonoverlapping(values.as_ptr(), out.data::<f64>().add(start), values.len());
    }
}

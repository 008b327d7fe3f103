//! Gram records in DuckDB vectors.

use std::sync::Arc;

use super::api::Handle;
use super::vectors::{ListEntry, Vector, text, write_text};
use crate::kernel::rank_update::triangle;
use crate::record::gram::{
    FIELDS, Names, OPTIONAL, RawRecord, Record, Recorded, check_overflow, expect_ahead,
};
use crate::record::terms::Written;

/// A vector of Gram records, those of before among them, which have fewer fields.
pub struct Records {
    vector: Vector,
    /// Where each field lies, if it is there.
    places: [Option<u64>; FIELDS.len()],
}

impl Records {
    /// Column `index` of a chunk.
    ///
    /// # Safety
    /// As `Vector::of_chunk`; the column has the type of `types::record` or
    /// `types::record_of_before`.
    pub unsafe fn of_chunk(chunk: Handle, index: u64) -> Records {
        // SAFETY: see the caller's promise.
        Records::of(unsafe { Vector::of_chunk(chunk, index) })
    }

    /// Those of a vector, which is of no such type where it lacks fields.
    pub fn of(vector: Vector) -> Records {
        let fields = vector.logical_type().fields();
        let place = |name: &str| fields.iter().position(|(field, _)| field == name);
        Records { vector, places: FIELDS.map(|name| place(name).map(|at| at as u64)) }
    }

    /// A field of the records, if they have it.
    pub fn field(&self, name: &str) -> Option<Vector> {
        let at = FIELDS.iter().position(|field| *field == name)?;
        self.places[at].map(|place| self.vector.child(place))
    }

    /// Whether the record of a row is NULL.
    pub fn is_null(&self, row: usize) -> bool {
        self.vector.is_null(row)
    }

    /// The record of a row; NULL gives nothing.
    ///
    /// # Safety
    /// The chunk is live and has that row.
    pub unsafe fn at(&self, row: usize) -> Result<Option<Record>, String> {
        // SAFETY: see the caller's promise.
        unsafe { read_record(self, row) }
    }
}

/// # Safety
/// As `Records::at`.
unsafe fn read_record(records: &Records, row: usize) -> Result<Option<Record>, String> {
    let vector = records.vector;
    if vector.is_null(row) {
        return Ok(None);
    }
    // SAFETY: the fields have the types of a record, and are read where they are not NULL.
    unsafe {
        let field = |name: &str| {
            let at = FIELDS.iter().position(|field| *field == name);
            let place = at.and_then(|at| records.places[at]);
            match place.map(|place| vector.child(place)).filter(|field| !field.is_null(row)) {
                None if !OPTIONAL.contains(&name) => {
                    Err(format!("gram record has NULL in '{name}'"))
                }
                found => Ok(found),
            }
        };
        let needed =
            |name: &str| field(name)?.ok_or_else(|| format!("gram record has NULL in '{name}'"));
        let list = |name: &str| {
            let Some(field) = field(name)? else { return Ok(None) };
            let (range, elements) = (field.get::<ListEntry>(row).range(), field.elements());
            if range.clone().any(|i| elements.is_null(i)) {
                return Err(format!("gram record has a NULL element in '{name}'"));
            }
            Ok(Some((range, elements)))
        };
        let doubles = |name| {
            let list = list(name)?;
            Ok::<_, String>(list.map(|(range, elements)| elements.copied::<f64>(range)))
        };
        let columns = list("columns")?.unwrap_or((0..0, vector));
        let terms = field("terms")?.map(|terms| text(terms, row));
        let raw = RawRecord {
            columns: columns.0.map(|i| text(columns.1, i)).collect(),
            rows: needed("rows")?.get(row),
            skipped: needed("skipped")?.get(row),
            missing: list("missing")?.map(|(range, counts)| counts.copied::<i64>(range)),
            weight: needed("weight")?.get(row),
            mean: doubles("mean")?.unwrap_or_default(),
            mean_low: doubles("mean_low")?,
            comoment: doubles("comoment")?.unwrap_or_default(),
            terms,
        };
        raw.check().map(Some)
    }
}

/// Write records to rows `offset ..` of a vector; an absent one is NULL.
///
/// # Safety
/// The vector is an output of the type of `types::record` with enough rows.
pub unsafe fn write_records<R: Recorded>(
    out: Vector,
    offset: usize,
    records: &mut [Option<R>],
) -> Result<(), String> {
    let [columns, rows, skipped, missing, weight, mean, mean_low, comoment, terms] =
        std::array::from_fn(|index| out.child(index as u64));
    let widths = || records.iter().flatten().map(|record| record.columns().len());
    let (width, entries) = (widths().sum(), widths().map(triangle).sum());
    // Records of one table share their names: one list of them is enough.
    let mut names = 0;
    let mut last: Option<&Names> = None;
    for own in records.iter().flatten().map(Recorded::columns) {
        if !last.replace(own).is_some_and(|last| Arc::ptr_eq(last, own)) {
            names += own.len();
        }
    }
    // SAFETY: the fields have these types; lists are grown before they are written.
    unsafe {
        let lists = [missing, mean, mean_low, comoment];
        let more = [width, width, width, entries];
        let mut ends: Vec<usize> = lists.iter().zip(more).map(|(list, n)| list.grow(n)).collect();
        let (mut named, mut next) = (ListEntry { offset: 0, length: 0 }, columns.grow(names));
        // Asked for after the lists have grown, which moves them.
        let [counts_out, means_out, lows_out, comoments_out] = lists.map(|list| list.elements());
        let names_out = columns.elements();
        let entries = lists.map(|list| list.data::<ListEntry>());
        let mut written = Written::default();
        let mut known: Option<Names> = None;
        let (mut absent, mut without_terms) = (Vec::new(), Vec::new());
        for at in 0..records.len() {
            expect_ahead(records, at);
            let (row, record) = (offset + at, &mut records[at]);
            let Some(record) = record else {
                let nothing = ListEntry { offset: 0, length: 0 };
                entries.iter().for_each(|list| list.add(row).write(nothing));
                columns.data::<ListEntry>().add(row).write(nothing);
                absent.push(row);
                continue;
            };
            let own = record.columns();
            let width = own.len();
            if !known.as_ref().is_some_and(|known| Arc::ptr_eq(known, own)) {
                named = ListEntry { offset: next as u64, length: width as u64 };
                for (i, name) in (next..).zip(own.iter()) {
                    write_text(names_out, i, name);
                }
                next += width;
                known = Some(own.clone());
            }
            columns.data::<ListEntry>().add(row).write(named);
            match written.json(record.terms()) {
                Some(json) => write_text(terms, row, json),
                None => without_terms.push(row),
            }
            let counts = record.missing();
            for column in 0..width {
                let count = counts.get(column).copied().unwrap_or_default();
                counts_out.data::<i64>().add(ends[0] + column).write(count as i64);
            }
            let own = known.as_ref().map_or(&[][..], |known| known);
            record.with_moments(|moments| {
                check_overflow(own, moments)?;
                rows.data::<i64>().add(row).write(moments.rows as i64);
                skipped.data::<i64>().add(row).write(moments.skipped as i64);
                weight.data::<f64>().add(row).write(moments.weight);
                let (means, lows) = (means_out.data::<f64>(), lows_out.data::<f64>());
                for (j, (high, low)) in moments.exact_means().enumerate() {
                    means.add(ends[1] + j).write(high);
                    lows.add(ends[2] + j).write(low);
                }
                comoments_out.write(ends[3], &moments.comoment);
                Ok::<(), String>(())
            })?;
            let lengths = [width, width, width, triangle(width)];
            for ((list, end), length) in entries.iter().zip(&mut ends).zip(lengths) {
                list.add(row).write(ListEntry { offset: *end as u64, length: length as u64 });
                *end += length;
            }
        }
        if !absent.is_empty() {
            out.set_nulls(absent.iter().copied());
            (0..FIELDS.len())
                .for_each(|index| out.child(index as u64).set_nulls(absent.iter().copied()));
        }
        if !without_terms.is_empty() {
            terms.set_nulls(without_terms);
        }
    }
    Ok(())
}

//! Records of rows with gaps: a list of one a pattern, merged, subtracted, completed by EM.

use std::collections::HashMap;
use std::sync::Arc;

use super::aggregates::{Gathering, Statistics};
use super::api::{self, Handle, State};
use super::records::{Records, write_records};
use super::states::{Slot, States};
use super::values::Values;
use super::vectors::{ListEntry, Vector};
use super::{aggregate_guard, scalar_guard};
use crate::kernel::chunk::Labels;
use crate::linear::em::em;
use crate::linear::patterns::{Gaps, PatternSums, merge, remove};
use crate::methods::options::em_options;
use crate::record::gram::Record;
use crate::record::rows::{Rows, Shape};
use crate::words::value::Value;

impl Statistics for PatternSums {
    const NAME: &'static str = "gram_patterns";

    fn merge(&mut self, other: &PatternSums) -> Result<(), String> {
        PatternSums::merge(self, other)
    }
}

impl Gathering for PatternSums {
    fn begin(shape: &Arc<Shape>, most: Option<usize>) -> PatternSums {
        PatternSums::new(shape, most.unwrap_or(usize::MAX))
    }

    fn gather(&mut self, rows: &Rows, labels: Labels) -> Result<(), String> {
        self.add(rows, labels)
    }

    fn scatter<'g>(
        rows: &Rows,
        labels: Labels,
        key_of: impl Fn(usize) -> usize,
        _: impl Fn(usize) -> Option<&'g PatternSums>,
        mut group_of: impl FnMut(usize) -> &'g mut PatternSums,
    ) -> Result<(), String> {
        let mut members: HashMap<usize, Vec<usize>> = HashMap::new();
        for row in 0..rows.numbers.rows {
            members.entry(key_of(row)).or_default().push(row);
        }
        let gaps = Gaps::of(rows);
        members.values().try_for_each(|at| group_of(at[0]).add_some(rows, &gaps, at, labels))
    }
}

/// The records of patterns that `gram_merge` adds up.
#[derive(Clone)]
pub struct Merged(Vec<Record>);

impl Statistics for Merged {
    const NAME: &'static str = "gram_merge";

    fn merge(&mut self, other: &Merged) -> Result<(), String> {
        merge(&mut self.0, other.0.clone())
    }
}

/// Lists of records in a vector.
struct Lists {
    lists: Vector,
    records: Records,
}

impl Lists {
    /// Column `index` of a chunk.
    ///
    /// # Safety
    /// As `Records::of_chunk`, of lists of records.
    unsafe fn of_chunk(chunk: Handle, index: u64) -> Lists {
        // SAFETY: see the caller's promise.
        let lists = unsafe { Vector::of_chunk(chunk, index) };
        Lists { lists, records: Records::of(lists.elements()) }
    }

    /// The records of a row; NULL gives nothing.
    ///
    /// # Safety
    /// The chunk is live and has that row.
    unsafe fn at(&self, row: usize) -> Result<Option<Vec<Record>>, String> {
        if self.lists.is_null(row) {
            return Ok(None);
        }
        // SAFETY: see the caller's promise.
        unsafe {
            let range = self.lists.get::<ListEntry>(row).range();
            let records = range.map(|at| self.records.at(at)).filter_map(Result::transpose);
            records.collect::<Result<_, _>>().map(Some)
        }
    }
}

/// Write lists of records to rows `offset ..` of a vector; an absent one is NULL.
///
/// # Safety
/// An output of lists of records with enough rows.
unsafe fn write_lists(
    out: Vector,
    offset: usize,
    lists: Vec<Option<Vec<Record>>>,
) -> Result<(), String> {
    let total = lists.iter().flatten().map(Vec::len).sum();
    let mut at = out.grow(total);
    let first = at;
    let mut records: Vec<Option<Record>> = Vec::with_capacity(total);
    for (row, list) in (offset..).zip(lists) {
        let length = list.as_ref().map_or(0, Vec::len);
        // SAFETY: see the caller's promise.
        unsafe {
            let entry = ListEntry { offset: at as u64, length: length as u64 };
            out.data::<ListEntry>().add(row).write(entry);
        }
        at += length;
        match list {
            Some(list) => records.extend(list.into_iter().map(Some)),
            None => out.set_null(row),
        }
    }
    // SAFETY: the list has grown by so many.
    unsafe { write_records(out.elements(), first, &mut records) }
}

/// Write the patterns of each state of rows, NULL for none.
pub unsafe extern "C" fn finalize(
    info: Handle,
    states: *mut State,
    out: Handle,
    n: u64,
    offset: u64,
) {
    aggregate_guard(info, "gram_patterns", || {
        // SAFETY: `n` initialised states, each of its own.
        let sums = |i: usize| unsafe { Slot::<PatternSums>::of(*states.add(i)).own() };
        let finish = |i: usize| sums(i).map(PatternSums::finish).transpose();
        let lists = (0..n as usize).map(finish).collect::<Result<_, String>>()?;
        // SAFETY: an output of lists with room for `n` from `offset` on.
        unsafe { write_lists(Vector::output(out), offset as usize, lists) }
    });
}

/// `gram_merge` of patterns: add a chunk of lists, each to its state.
pub unsafe extern "C" fn merge_lists(info: Handle, chunk: Handle, states: *mut State) {
    aggregate_guard(info, "gram_merge", || {
        // SAFETY: a live chunk of lists of records, and states as DuckDB passes them.
        unsafe {
            let lists = Lists::of_chunk(chunk, 0);
            let rows = api::duckdb_data_chunk_get_size(chunk) as usize;
            if rows == 0 {
                return Ok(());
            }
            let states = States::of_update(states, rows);
            for row in 0..rows {
                let Some(records) = lists.at(row)? else { continue };
                let slot = Slot::<Merged>::of(states.at(row));
                if slot.get().is_none() {
                    slot.put(Arc::new(Merged(Vec::new())));
                }
                let total = slot.own().expect("it holds records");
                merge(&mut total.0, records)?;
            }
        }
        Ok(())
    });
}

/// Write the patterns of each state of lists, NULL for none.
pub unsafe extern "C" fn finalize_merged(
    info: Handle,
    states: *mut State,
    out: Handle,
    n: u64,
    offset: u64,
) {
    aggregate_guard(info, "gram_merge", || {
        // SAFETY: `n` initialised states.
        let merged = |i: usize| unsafe { Slot::<Merged>::of(*states.add(i)).get() };
        let lists = (0..n as usize).map(|i| merged(i).map(|merged| merged.0.clone())).collect();
        // SAFETY: an output of lists with room for `n` from `offset` on.
        unsafe { write_lists(Vector::output(out), offset as usize, lists) }
    });
}

/// `gram_remove(a, b)` of patterns; NULL if either is.
pub unsafe extern "C" fn remove_lists(info: Handle, chunk: Handle, out: Handle) {
    scalar_guard(info, "gram_remove", || {
        // SAFETY: a live chunk of two lists a row and an output of lists.
        unsafe {
            let (wholes, parts) = (Lists::of_chunk(chunk, 0), Lists::of_chunk(chunk, 1));
            let difference = |row| {
                let Some((mut whole, part)) = wholes.at(row)?.zip(parts.at(row)?) else {
                    return Ok(None);
                };
                remove(&mut whole, &part).map(|()| Some(whole))
            };
            let rows = api::duckdb_data_chunk_get_size(chunk) as usize;
            let lists = (0..rows).map(difference).collect::<Result<_, String>>()?;
            write_lists(Vector::output(out), 0, lists)
        }
    });
}

/// `gram_em(patterns [, options])`: one record; NULL if there are none.
pub unsafe extern "C" fn gram_em(info: Handle, chunk: Handle, out: Handle) {
    scalar_guard(info, "gram_em", || {
        // SAFETY: a live chunk of lists and options, and an output of records.
        unsafe {
            let rows = api::duckdb_data_chunk_get_size(chunk) as usize;
            let lists = Lists::of_chunk(chunk, 0);
            let given = match api::duckdb_data_chunk_get_column_count(chunk) > 1 {
                true => Some(Values::of(Vector::of_chunk(chunk, 1), rows)?),
                false => None,
            };
            let complete = |row| {
                let asked = given.as_ref().map_or(Value::Nothing, |given| given.at(row));
                let asked = em_options(&asked)?;
                let Some(records) = lists.at(row)? else { return Ok(None) };
                Ok(em(&[records], asked)?.pop())
            };
            let mut found: Vec<_> = (0..rows).map(complete).collect::<Result<_, String>>()?;
            write_records(Vector::output(out), 0, &mut found)
        }
    });
}

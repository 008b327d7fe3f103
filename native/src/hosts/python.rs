//! Entry points for Python, called through ctypes (`dbselect/_native.py`).
//!
//! A `Reader` gathers Arrow batches from any number of threads. Every call to
//! `dbselect_reader_add` takes an idle set of accumulators or starts a new one,
//! so that threads never wait for each other; the sets are merged at the end. `states` lets
//! one process go on from what another has gathered; `turns` calls Python back after every step
//! of a search.

pub mod allocations;
pub mod arrived;
pub mod designs;
pub mod fits;
pub mod knockoffs;
pub mod linear;
pub mod states;
pub mod turns;
pub mod walks;

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, CString, c_char};
use std::iter::once;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, to_ffi};
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::types::Int64Type;
use arrow_array::{
    Array, ArrayRef, Int64Array, LargeBinaryArray, LargeListArray, RecordBatch, RecordBatchReader,
    StructArray,
};
use arrow_buffer::{ArrowNativeType, OffsetBuffer, ToByteSlice};
use arrow_schema::{DataType, Field};

use self::turns::{OnTurn, following};
use crate::hosts::searches::request::{read_question, read_request};
use crate::hosts::searches::{answer_records, check_records, search_records};
use crate::kernel::accumulator::{Accumulator, CHUNK_ROWS, scatter_and};
use crate::kernel::block::{ROWS_AHEAD, prefetch};
use crate::kernel::chunk::{Labels, Missing};
use crate::kernel::fold;
use crate::kernel::gaps::{self, Filled, Place as Slot, Policy};
use crate::kernel::moments::{Left, Moments};
use crate::kernel::possible::fault;
use crate::linear::em::em;
use crate::linear::patterns;
use crate::memory;
use crate::methods::options::em_options;
use crate::record::arrow::{
    Leaf, Place, chunk, leaves, mix_key, mix_row, read_record, write_records,
};
use crate::record::categories::{Category, Layout, LevelSums, Listed};
use crate::record::distinct::distinct;
use crate::record::gram::{Names, Record, check_overflow};
use crate::record::keys::Keys;
use crate::record::rows::Plain;
use crate::record::terms::{self, Terms};
use crate::search::draws::Draws;
use crate::search::sets::exchange::GoesOn;
use crate::search::sets::projection::{Best, Count, Groups, Limits, Table, support};
use crate::words::value::Value;

/// A pass over a table that is still under way.
pub struct Reader {
    columns: Names,
    weight: Option<String>,
    /// Fields whose values make the groups; none: all rows are one.
    by: Vec<String>,
    policies: Vec<Policy>,
    categories: Vec<Category>,
    /// The order of the columns and, after these, of the categories; empty if it is theirs.
    order: Vec<usize>,
    /// The terms of the records, except what the rows decide: means, and which indicators.
    terms: Terms,
    idle: Mutex<Vec<Sums>>,
    /// Of rows without keys, those of numbered blocks.
    blocks: Mutex<Blocks>,
    /// How many sets of sums there are.
    sets: AtomicUsize,
}

/// The sums of one thread for each group.
#[derive(Default)]
struct Sums {
    /// Which set of sums it is.
    set: usize,
    /// The keys of the groups.
    keys: Keys,
    numbers: Vec<Accumulator>,
    /// Empty where there are no categories.
    levels: LevelSums,
    /// Rows in which each category was missing, group by group.
    absent: Vec<u64>,
}

/// Sums of blocks of rows, merged in the order of their numbers: so the bits do not depend on which
/// thread was first.
#[derive(Default)]
struct Blocks {
    total: Sums,
    /// The first block that is not in the total.
    next: i64,
    /// Blocks that came before their turn.
    waiting: BTreeMap<i64, Sums>,
}

/// The rows of keys that a set of sums had not met before.
struct Met {
    set: usize,
    /// The number of the first of them.
    first: usize,
    rows: Vec<usize>,
}

impl Met {
    /// All as one array.
    fn array(&self) -> Int64Array {
        [self.set, self.first].iter().chain(&self.rows).map(|&number| number as i64).collect()
    }
}

impl Reader {
    /// Sums that no thread uses.
    fn take(&self) -> Result<Sums, String> {
        let idle = self.idle.lock().map_err(|_| POISONED)?.pop();
        let set = || self.sets.fetch_add(1, Ordering::Relaxed);
        Ok(idle.unwrap_or_else(|| Sums { set: set(), ..Sums::default() }))
    }

    fn give_back(&self, sums: Sums) -> Result<(), String> {
        self.idle.lock().map_err(|_| POISONED)?.push(sums);
        Ok(())
    }

    /// Merge the sums of a block with those of all blocks before it, once these are there.
    fn put_block(&self, number: i64, sums: Sums) -> Result<(), String> {
        let layout = Layout::new(&self.policies, &self.categories);
        let mut blocks = self.blocks.lock().map_err(|_| POISONED)?;
        blocks.waiting.insert(number, sums);
        while let Some(own) = {
            let next = blocks.next;
            blocks.waiting.remove(&next)
        } {
            self.merge(&mut blocks.total, own, &[0], &layout);
            blocks.next += 1;
        }
        Ok(())
    }

    /// The sums of all blocks; those that never came leave no gap.
    fn take_blocks(&self, layout: &Layout) -> Result<Option<Sums>, String> {
        let blocks = std::mem::take(&mut *self.blocks.lock().map_err(|_| POISONED)?);
        let Blocks { mut total, waiting, .. } = blocks;
        waiting.into_values().for_each(|own| self.merge(&mut total, own, &[0], layout));
        Ok((!total.numbers.is_empty()).then_some(total))
    }

    /// Number the groups of some rows.
    fn number(
        &self,
        batch: &StructArray,
        keys: &mut Keys,
        new: &mut impl FnMut(usize),
    ) -> Result<Vec<u32>, String> {
        let mut fields = Vec::with_capacity(self.by.len());
        for name in &self.by {
            let array = batch.column_by_name(name);
            fields.push((&name[..], array.ok_or_else(|| format!("there is no key '{name}'"))?));
        }
        keys.numbers(&fields, new)
    }

    /// Add some rows, of which `start` came before.
    fn add(
        &self,
        batch: &StructArray,
        sums: &mut Sums,
        (start, met): (usize, &mut Vec<usize>),
    ) -> Result<(), String> {
        let layout = Layout::new(&self.policies, &self.categories);
        let leaves = leaves(batch, Place::ROW);
        let columns = named(&leaves, &self.columns)?;
        let one = |name: &String| Ok::<_, String>(named(&leaves, &[name])?[0]);
        let weight = self.weight.as_ref().map(one).transpose()?;
        let groups = match self.by.is_empty() {
            true => None,
            false => Some(self.number(batch, &mut sums.keys, &mut |row| met.push(start + row))?),
        };
        let fields: Vec<&str> = self.categories.iter().map(|c| &c.column[..]).collect();
        let fields = named(&leaves, &fields)?;
        let both = || fields.iter().zip(&self.categories);
        let codes_of = |(leaf, category): (&&Leaf, &Category)| category.codes(leaf, batch.len());
        let codes: Vec<Vec<u32>> = both().map(codes_of).collect::<Result<_, _>>()?;
        let label = self.weight.as_ref().map(|name| format!("weight '{name}'")).unwrap_or_default();
        let labels = Labels { columns: &self.columns, weight: &label };
        for start in (0..batch.len()).step_by(CHUNK_ROWS) {
            let rows = start..(start + CHUNK_ROWS).min(batch.len());
            let mut chunk = chunk(&columns, weight, rows.clone(), &self.policies)?;
            let missing: Vec<Missing> =
                fields.iter().map(|leaf| leaf.missing(rows.clone())).collect();
            for (missing, category) in missing.iter().zip(&self.categories) {
                if !category.policy.fills() {
                    chunk.missing.set_those_of(missing, rows.len());
                }
            }
            let codes: Vec<&[u32]> = codes.iter().map(|codes| &codes[rows.clone()]).collect();
            let Some(groups) = &groups else {
                self.grow(sums, 1, &layout);
                let Sums { numbers, levels, absent, .. } = sums;
                absent.iter_mut().zip(&missing).for_each(|(rows, more)| *rows += more.count());
                numbers[0].add_and(&chunk, labels, |start, rows| {
                    levels.add(&layout, start, rows, &codes, |_| 0);
                })?;
                continue;
            };
            let groups = &groups[rows.clone()];
            self.grow(sums, sums.keys.len(), &layout);
            let Sums { numbers, levels, absent, .. } = sums;
            for (c, missing) in missing.iter().enumerate() {
                let places = missing.rows().map(|row| groups[row] as usize * fields.len() + c);
                places.for_each(|at| absent[at] += 1);
            }
            let numbers = numbers.as_mut_ptr();
            // SAFETY: there is an element for each key, whose number is below their count;
            // `scatter_and` uses one reference at a time.
            let group_of = |row: usize| unsafe { &mut *numbers.add(groups[row] as usize) };
            let known = |row: usize| Some(&*group_of(row));
            scatter_and(&chunk, labels, known, group_of, |start, rows| {
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
            let length = sums.absent.len().max(length * self.categories.len());
            sums.absent.resize(length, 0);
        }
    }

    /// Add the sums of other rows, each of whose groups has a number here.
    fn merge(&self, total: &mut Sums, other: Sums, at: &[u32], layout: &Layout) {
        let length = at.iter().max().map_or(0, |&last| last as usize + 1);
        self.grow(total, length, layout);
        // Each group is freed as soon as it is merged: of a million groups there must not be a
        // second copy.
        for (row, (from, &group)) in other.numbers.into_iter().zip(at).enumerate() {
            let ahead =
                |rows: usize| at.get(row + rows).map(|&group| &total.numbers[group as usize]);
            ahead(2 * ROWS_AHEAD).into_iter().map(slice::from_ref).for_each(prefetch);
            ahead(ROWS_AHEAD).into_iter().for_each(Accumulator::expect_moments);
            let into = &mut total.numbers[group as usize];
            match into.is_empty() {
                true => *into = from,
                false => into.merge(&from),
            }
        }
        if !self.categories.is_empty() {
            let n = self.categories.len();
            for (absent, &group) in other.absent.chunks_exact(n).zip(at) {
                let into = &mut total.absent[group as usize * n..][..n];
                into.iter_mut().zip(absent).for_each(|(sum, rows)| *sum += rows);
            }
            let at: Vec<usize> = at.iter().map(|&group| group as usize).collect();
            total.levels.merge(layout, &mut other.levels.placed(layout, &at, length));
        }
    }

    /// Merge the sums of all rows, of which each group comes from a number among all of the sets in
    /// their order.
    fn merged(&self, layout: &Layout) -> Result<(Sums, Vec<i64>), String> {
        let mut sets = std::mem::take(&mut *self.idle.lock().map_err(|_| POISONED)?);
        sets.sort_unstable_by_key(|sums| sums.set);
        let mut sets = self.take_blocks(layout)?.into_iter().chain(sets);
        let mut total = sets.next().unwrap_or_default();
        let mut origins: Vec<i64> = (0..total.keys.len() as i64).collect();
        let mut start = origins.len();
        for other in sets {
            let at = match self.by.is_empty() {
                true => vec![0; other.numbers.len()],
                false => {
                    let mut from = |key| origins.push((start + key) as i64);
                    total.keys.merge(&other.keys, &mut from)
                }
            };
            start += other.keys.len();
            self.merge(&mut total, other, &at, layout);
        }
        if self.by.is_empty() {
            self.grow(&mut total, 1, layout);
        }
        total.set = 0;
        self.sets.store(1, Ordering::Relaxed);
        Ok((total, origins))
    }

    /// The sums of all rows, which are one set from here on.
    fn settle(&self) -> Result<Vec<i64>, String> {
        let (total, origins) = self.merged(&Layout::new(&self.policies, &self.categories))?;
        self.give_back(total)?;
        Ok(origins)
    }

    /// Where the columns of a record stand among the numbers and their indicators, at
    /// `places`, and the levels of categories of some counts; nothing if they stand there.
    fn arrangement(&self, places: &[Slot], counts: &[usize]) -> Vec<usize> {
        let mut blocks: Vec<Vec<usize>> = vec![Vec::new(); self.columns.len()];
        for (at, place) in places.iter().enumerate() {
            let (Slot::Column(column) | Slot::Indicator(column)) = place;
            blocks[*column].push(at);
        }
        let mut first = places.len();
        for count in counts {
            blocks.push((first..first + count).collect());
            first += count;
        }
        self.order.iter().flat_map(|&block| blocks[block].clone()).collect()
    }

    /// The records of some groups, which are no longer here.
    fn finish(&self, groups: &[usize]) -> Result<StructArray, String> {
        let layout = Layout::new(&self.policies, &self.categories);
        let (mut total, _) = self.merged(&layout)?;
        let as_is = self.categories.is_empty() && self.order.is_empty();
        let may_fill = self.policies.iter().any(Policy::fills);
        if as_is && !may_fill {
            let terms = Arc::new(self.terms.clone());
            let numbers = total.numbers.as_mut_ptr();
            let plain = |&group: &usize| {
                assert!(group < total.numbers.len());
                // SAFETY: each group is named once, and there is one of that number.
                let numbers = unsafe { &mut *numbers.add(group) };
                Some(Plain { columns: &self.columns, terms: &terms, numbers })
            };
            return write_records(&mut groups.iter().map(plain).collect::<Vec<_>>());
        }
        let mut has_gaps = vec![false; self.columns.len()];
        for group in total.numbers.iter_mut().filter(|_| may_fill) {
            group.finish().gaps().for_each(|column| has_gaps[column] = true);
        }
        let places = gaps::layout(&self.policies, |column| has_gaps[column]);
        let listed = Listed::new(&layout, &self.categories, &total.levels);
        let names = gaps::names(&self.columns, &places);
        let columns: Names = names.iter().cloned().chain(listed.names()).collect();
        let is_filled = |policy: Policy| policy == Policy::Mean;
        let marks = |(place, name): (&Slot, &String)| {
            match *place {
                Slot::Column(j) => self.policies[j] == Policy::Indicator && has_gaps[j],
                Slot::Indicator(_) => false,
            }
            .then(|| name.clone())
        };
        let indicators = places.iter().zip(names.iter()).filter_map(marks).collect();
        let terms = Terms { indicators, ..self.terms.clone() };
        // Which columns of a record have a mean where a value was missing.
        let filled: Vec<bool> = places
            .iter()
            .map(|place| matches!(*place, Slot::Column(j) if is_filled(self.policies[j])))
            .chain(listed.policies().map(is_filled))
            .collect();
        let has_means = filled.contains(&true);
        let order = self.arrangement(&places, &listed.counts().collect::<Vec<_>>());
        let terms = Arc::new(terms);
        let record = |(at, mut group): (usize, Accumulator)| {
            let with_levels =
                |own: &Moments, filled: Option<&Filled>| match self.categories.is_empty() {
                    true => own.clone(),
                    false => listed.of(total.levels.finish(&layout, at, own, filled, &places)),
                };
            let moments = if may_fill {
                let filled = group.filled();
                with_levels(&filled.finish(&self.policies, &places), Some(filled))
            } else {
                group.with_moments(|own| with_levels(own, None))
            };
            check_overflow(&columns, &moments)?;
            let of_number = |place: &Slot| match *place {
                Slot::Column(j) => group.absent().get(j).copied().unwrap_or_default(),
                Slot::Indicator(_) => 0,
            };
            let absent = total.absent.get(at * self.categories.len()..).unwrap_or_default();
            let of_levels = listed.counts().zip(absent);
            let of_levels = of_levels.flat_map(|(n, &rows)| std::iter::repeat_n(rows, n));
            let missing = places.iter().map(of_number).chain(of_levels).collect();
            let beside = |place: &Slot| match *place {
                Slot::Column(j) if self.policies[j] == Policy::Indicator => {
                    group.filled().fill_beside(j)
                }
                _ => 0.0,
            };
            let fills: Vec<f64> = places.iter().map(beside).collect();
            let mut terms = terms.clone();
            if has_means || fills.iter().any(|&fill| fill != 0.0) {
                let means = (0..columns.len()).filter(|&j| filled[j]);
                let means = means.map(|j| (columns[j].clone(), moments.mean_of(j).into()));
                let fills = names.iter().zip(&fills).filter(|(_, fill)| **fill != 0.0);
                let fills = fills.map(|(name, &fill)| (name.clone(), fill.into()));
                let means = means.chain(fills).collect();
                terms = Arc::new(Terms { means, ..Terms::clone(&terms) });
            }
            let record = Record { columns: columns.clone(), moments, missing, terms };
            Ok(Some(if order.is_empty() { record } else { record.arranged(&order) }))
        };
        let mut found: Vec<Option<Record>> =
            total.numbers.into_iter().enumerate().map(record).collect::<Result<_, String>>()?;
        write_records(&mut groups.iter().map(|&group| found[group].take()).collect::<Vec<_>>())
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
/// `terms` is the JSON that the records have, without means and indicators; `by` holds `n_by`
/// names of fields whose values make groups; `weight` and `terms` may be null. Null comes back if a name is not UTF-8, a letter no
/// policy, or the terms are none.
///
/// # Safety
/// Every non-null pointer is a NUL-terminated string; `columns` and `by` hold
/// `n_columns` and `n_by` of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_reader_new(
    columns: *const *const c_char,
    n_columns: usize,
    weight: *const c_char,
    by: *const *const c_char,
    n_by: usize,
    policies: *const c_char,
    terms: *const c_char,
) -> *mut Reader {
    // SAFETY: see the caller's promise.
    let text = |p: *const c_char| unsafe { CStr::from_ptr(p) }.to_str().ok().map(str::to_string);
    let optional = |p: *const c_char| if p.is_null() { Some(None) } else { text(p).map(Some) };
    let texts = |texts: *const *const c_char, n: usize| -> Option<Vec<String>> {
        // SAFETY: see the caller's promise.
        (0..n).map(|i| text(unsafe { *texts.add(i) })).collect()
    };
    let (columns, by) = (texts(columns, n_columns), texts(by, n_by));
    // SAFETY: see the caller's promise.
    let letters = unsafe { CStr::from_ptr(policies) }.to_bytes();
    let policies: Option<Vec<Policy>> = letters.iter().map(|&letter| Policy::of(letter)).collect();
    let terms = optional(terms).and_then(|terms| terms::read(terms.as_deref()).ok());
    let (Some(columns), Some(weight), Some(by), Some(policies), Some(terms)) =
        (columns, optional(weight), by, policies, terms)
    else {
        return std::ptr::null_mut();
    };
    if policies.len() != columns.len() {
        return std::ptr::null_mut();
    }
    let columns = columns.into();
    let (categories, order) = (Vec::new(), Vec::new());
    let (idle, blocks) = (Mutex::default(), Mutex::default());
    let terms = Terms::clone(&terms);
    let sets = AtomicUsize::new(0);
    Box::into_raw(Box::new(Reader {
        columns,
        weight,
        by,
        policies,
        categories,
        order,
        terms,
        idle,
        blocks,
        sets,
    }))
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

/// Say in which order the records have the columns: `n` numbers of columns and, after
/// these, of categories. False comes back if they are not each once among them.
///
/// # Safety
/// `reader` comes from `dbselect_reader_new` and no other call uses it meanwhile; `order`
/// holds as many numbers as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_reader_order(
    reader: *mut Reader,
    order: *const usize,
    n: usize,
) -> bool {
    // SAFETY: see the caller's promise.
    let (reader, order) = unsafe { (&mut *reader, std::slice::from_raw_parts(order, n)) };
    let mut sorted = order.to_vec();
    sorted.sort_unstable();
    reader.order = order.to_vec();
    sorted.into_iter().eq(0..reader.columns.len() + reader.categories.len())
}

/// Add every batch of a stream; may be called from several threads at once. Where there are no keys
/// the rows may be the block of a number from 0 on, or of none, -1. The stream is
/// consumed and released. `array` and `schema` get the rows of keys that were not met before: the
/// number of the set of sums that met them, the number that the first of them has there, and the
/// rows. Null comes back, or an error text for `dbselect_text_free`.
///
/// # Safety
/// `reader` comes from `dbselect_reader_new` and is not freed meanwhile;
/// `stream` is a live Arrow C stream; `array` and `schema` are writable and hold nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_reader_add(
    reader: *const Reader,
    stream: *mut FFI_ArrowArrayStream,
    block: i64,
    array: *mut FFI_ArrowArray,
    schema: *mut FFI_ArrowSchema,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let (reader, batches) = unsafe { (&*reader, RecordBatchStreamReader::from_raw(stream)) };
        let batches = batches.map_err(|error| error.to_string())?;
        let is_block = block >= 0 && reader.by.is_empty();
        let mut sums = if is_block { Sums::default() } else { reader.take()? };
        let mut met = Met { set: sums.set, first: sums.keys.len(), rows: Vec::new() };
        let mut start = 0;
        for batch in batches {
            let batch: StructArray = batch.map_err(|error| error.to_string())?.into();
            reader.add(&batch, &mut sums, (start, &mut met.rows))?;
            start += batch.len();
        }
        match is_block {
            true => reader.put_block(block, sums)?,
            false => reader.give_back(sums)?,
        }
        // SAFETY: see the caller's promise.
        unsafe { export(&met.array(), array, schema) }
    })
}

/// Merge all that was added, and write to `array` and `schema` which key each group has, by its
/// number among those of all sets of sums in their order; from here on there is one set. Null comes
/// back, or an error text for `dbselect_text_free`.
///
/// # Safety
/// `reader` as above, and no other call uses it meanwhile; `array` and `schema` are writable and
/// hold nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_reader_settle(
    reader: *const Reader,
    array: *mut FFI_ArrowArray,
    schema: *mut FFI_ArrowSchema,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        unsafe { export(&Int64Array::from((*reader).settle()?), array, schema) }
    })
}

/// Write the records of the `n` groups of some numbers, each named once, to `array` and `schema`;
/// the sums are gone then. Null comes back, or an error text for `dbselect_text_free`.
///
/// # Safety
/// As above; `order` holds `n` numbers of groups.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_reader_finish(
    reader: *const Reader,
    order: *const usize,
    n: usize,
    array: *mut FFI_ArrowArray,
    schema: *mut FFI_ArrowSchema,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        unsafe { export(&(*reader).finish(slice::from_raw_parts(order, n))?, array, schema) }
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

/// Draw `count` sets of `size` of `n` numbers, each set in random order, into `sets`; `drawn` counts
/// the numbers drawn of the seed, before and then after.
///
/// # Safety
/// `of` holds `n` numbers, `sets` has room for `count` times `size`, at most `n`; `drawn` is
/// writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_sets(
    of: *const usize,
    n: usize,
    size: usize,
    count: usize,
    seed: i64,
    drawn: *mut u64,
    sets: *mut usize,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let (of, sets, drawn) = unsafe {
            (
                slice::from_raw_parts(of, n),
                slice::from_raw_parts_mut(sets, count * size.min(n)),
                &mut *drawn,
            )
        };
        let mut draws = Draws::after(seed, *drawn);
        for set in sets.chunks_exact_mut(size.min(n).max(1)) {
            set.copy_from_slice(&draws.some_of(of, size));
        }
        *drawn = draws.drawn();
        Ok(())
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

/// Write the nearest vector with few nonzeros in few groups to `projection`. Null comes
/// back, or an error text for `dbselect_text_free`.
///
/// # Safety
/// `v` and `projection` hold `width` finite doubles; `order`, `starts` and `n_groups` are as
/// `groups_of` takes them; both limits are at least 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_project(
    v: *const f64,
    width: usize,
    order: *const usize,
    starts: *const usize,
    n_groups: usize,
    max_columns: usize,
    max_groups: usize,
    projection: *mut f64,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let (v, groups, projection) = unsafe {
            (
                slice::from_raw_parts(v, width),
                groups_of(order, width, starts, n_groups),
                slice::from_raw_parts_mut(projection, width),
            )
        };
        projection.fill(0.0);
        let limits = Limits { columns: max_columns, groups: max_groups };
        support(v, &groups, limits).into_iter().for_each(|entry| projection[entry] = v[entry]);
        Ok(())
    })
}

/// Write the best support for every pair of limits to `array` and `schema`: one row with
/// the entries, where groups start among them, totals, the power of 2 they are multiples
/// of, and choices in 1, 2 or 4 bytes each. Null comes back, or an error text for
/// `dbselect_text_free`.
///
/// # Safety
/// As of `dbselect_project`; `array` and `schema` are writable and hold nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_support_table(
    v: *const f64,
    width: usize,
    order: *const usize,
    starts: *const usize,
    n_groups: usize,
    max_columns: usize,
    max_groups: usize,
    array: *mut FFI_ArrowArray,
    schema: *mut FFI_ArrowSchema,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let (v, groups) =
            unsafe { (slice::from_raw_parts(v, width), groups_of(order, width, starts, n_groups)) };
        let limits = Limits { columns: max_columns, groups: max_groups };
        let best = Best::new(v, &groups, max_columns);
        let table = match max_columns {
            0..=0xff => support_table::<u8>(&best, limits),
            0x100..=0xffff => support_table::<u16>(&best, limits),
            _ => support_table::<u32>(&best, limits),
        };
        // SAFETY: see the caller's promise.
        unsafe { export(&table?, array, schema) }
    })
}

/// The groups of a vector.
///
/// # Safety
/// `order` is null or holds the numbers below `width` in some order; `starts` holds
/// `n_groups + 1` numbers that never fall, up to `width`.
unsafe fn groups_of<'g>(
    order: *const usize,
    width: usize,
    starts: *const usize,
    n_groups: usize,
) -> Groups<'g> {
    // SAFETY: see the caller's promise.
    unsafe {
        let order = (!order.is_null()).then(|| slice::from_raw_parts(order, width));
        Groups { order, starts: slice::from_raw_parts(starts, n_groups + 1) }
    }
}

fn support_table<C: Count + ArrowNativeType>(
    best: &Best,
    limits: Limits,
) -> Result<StructArray, String> {
    let table = Table::<C>::new(best, limits, 1);
    let places = |places: &[usize]| places.iter().map(|&place| place as i64).collect();
    let list = |values: Vec<i64>| {
        let field = Arc::new(Field::new_list_field(DataType::Int64, false));
        let ends = OffsetBuffer::from_lengths([values.len()]);
        Arc::new(LargeListArray::new(field, ends, Arc::new(Int64Array::from(values)), None))
            as ArrayRef
    };
    let columns = [
        ("entries", list(places(&best.entries))),
        ("starts", list(places(&table.starts))),
        ("totals", list(table.totals)),
        ("power", Arc::new(Int64Array::from(vec![i64::from(best.power)])) as ArrayRef),
        ("choices", Arc::new(LargeBinaryArray::from(vec![table.choices.to_byte_slice()]))),
    ];
    Ok(RecordBatch::try_from_iter(columns).map_err(|error| error.to_string())?.into())
}

/// Write the sequences of the records in the first field of a stream to `array` and `schema`:
/// a row for each, as `search_records` says. `request` is JSON as `read_request` takes it. The
/// stream is consumed and released.
/// Null comes back, or an error text for `dbselect_text_free`: the class of the error and a sentence.
///
/// # Safety
/// `records` is a live Arrow C stream, and `request` a NUL-terminated string; `array` and `schema`
/// are writable and hold nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_search(
    records: *mut FFI_ArrowArrayStream,
    request: *const c_char,
    array: *mut FFI_ArrowArray,
    schema: *mut FFI_ArrowSchema,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let (records, request) = unsafe { (only_batch(records)?, CStr::from_ptr(request)) };
        let request = read_request(&request.to_string_lossy())?;
        let found = search_records(records.column(0), &request)?;
        // SAFETY: see the caller's promise.
        unsafe { export(&found, array, schema) }
    })
}

/// Write what a method answers for the records in the first field of a stream to `array` and
/// `schema`: a row for each, as `answer_records` says; a turn has what is explained, NaN where that
/// is not known, and group 0. All else is as in `dbselect_search`.
///
/// # Safety
/// As `dbselect_search`; `on_turn` keeps the promise of `turns::calling` until this call returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_answer(
    records: *mut FFI_ArrowArrayStream,
    request: *const c_char,
    on_turn: Option<OnTurn>,
    array: *mut FFI_ArrowArray,
    schema: *mut FFI_ArrowSchema,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let (records, request) = unsafe { (only_batch(records)?, CStr::from_ptr(request)) };
        let (question, returns) = read_question(&request.to_string_lossy())?;
        // SAFETY: see the caller's promise.
        let mut goes_on = on_turn.map(|on_turn| unsafe { following(on_turn) });
        let goes_on = goes_on.as_mut().map(|goes_on| goes_on as &mut GoesOn);
        let found = answer_records(records.column(0), &question, returns, goes_on)?;
        // SAFETY: see the caller's promise.
        unsafe { export(&found, array, schema) }
    })
}

/// Tell what is wrong with the moments of rows, by an error text as above; null if nothing is.
///
/// # Safety
/// `columns` are `width` NUL-terminated strings; `mean` and `mean_low` hold `width` doubles, and
/// `comoment` its square.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_fault(
    columns: *const *const c_char,
    width: usize,
    rows: i64,
    weight: f64,
    mean: *const f64,
    mean_low: *const f64,
    comoment: *const f64,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let (names, mean, mean_low, comoment) = unsafe {
            (
                (0..width).map(|i| CStr::from_ptr(*columns.add(i)).to_string_lossy().into_owned()),
                slice::from_raw_parts(mean, width),
                slice::from_raw_parts(mean_low, width),
                slice::from_raw_parts(comoment, width * width),
            )
        };
        let entry = |i: usize, j: usize| comoment[i * width + j];
        match fault(rows as u64, weight, mean, mean_low, entry) {
            Some(fault) => {
                Err(format!("RecordError: {}", fault.told(&names.collect::<Vec<_>>(), entry)))
            }
            None => Ok(()),
        }
    })
}

/// Write to `gone` which columns vary no more when rows are removed of whose columns mean and
/// variation were known; an error text as above where too little is left of one.
///
/// # Safety
/// `columns` are `width` NUL-terminated strings, and as many doubles and flags lie elsewhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_left(
    columns: *const *const c_char,
    width: usize,
    rows_left: i64,
    weight: f64,
    mean: *const f64,
    before: *const f64,
    after: *const f64,
    gone: *mut bool,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let (mean, before, after, gone) = unsafe {
            (
                slice::from_raw_parts(mean, width),
                slice::from_raw_parts(before, width),
                slice::from_raw_parts(after, width),
                slice::from_raw_parts_mut(gone, width),
            )
        };
        let left = Left::of(rows_left as u64, weight, mean, before, after)
            .map_err(|error| format!("RecordError: {error}"))?;
        if let Some(&column) = left.lost.first() {
            // SAFETY: see the caller's promise.
            let name = unsafe { CStr::from_ptr(*columns.add(column)) }.to_string_lossy();
            return Err(format!("RecordError: {}", Left::told(&name)));
        }
        left.gone.into_iter().for_each(|j| gone[j] = true);
        Ok(())
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

/// The records of patterns of gaps, added up: at most so many, those of `less` taken away.
///
/// # Safety
/// Both are live Arrow C streams of records; `array` and `schema` are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_patterns(
    records: *mut FFI_ArrowArrayStream,
    less: *mut FFI_ArrowArrayStream,
    most: usize,
    array: *mut FFI_ArrowArray,
    schema: *mut FFI_ArrowSchema,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let (records, less) = unsafe { (only_batch(records)?, only_batch(less)?) };
        let mut found = Vec::new();
        let told = |message: String| format!("RecordError: {message}");
        patterns::merge(&mut found, records_of(records.column(0))?).map_err(told)?;
        patterns::remove(&mut found, &records_of(less.column(0))?).map_err(told)?;
        let mut found: Vec<_> = patterns::reduced(found, most)?.into_iter().map(Some).collect();
        // SAFETY: see the caller's promise.
        unsafe { export(&write_records(&mut found)?, array, schema) }
    })
}

/// One record by EM of each group of patterns, the groups being numbered from 0 in the second
/// column; `options` are JSON.
///
/// # Safety
/// A live Arrow C stream of records and numbers; `options` is text, `array` and `schema` are
/// writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_em(
    records: *mut FFI_ArrowArrayStream,
    options: *const c_char,
    array: *mut FFI_ArrowArray,
    schema: *mut FFI_ArrowSchema,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let (batch, options) = unsafe { (only_batch(records)?, CStr::from_ptr(options)) };
        let options: serde_json::Value =
            serde_json::from_str(&options.to_string_lossy()).map_err(|error| error.to_string())?;
        let numbers = batch.column(1).as_primitive::<Int64Type>().values();
        let mut groups: Vec<Vec<Record>> = Vec::new();
        for (record, &group) in records_of(batch.column(0))?.into_iter().zip(numbers) {
            groups.resize(groups.len().max(group as usize + 1), Vec::new());
            groups[group as usize].push(record);
        }
        let options = em_options(&Value::from(options))
            .map_err(|message| format!("ArgumentError: {message}"))?;
        let found = em(&groups, options)?;
        let mut found: Vec<_> = found.into_iter().map(Some).collect();
        // SAFETY: see the caller's promise.
        unsafe { export(&write_records(&mut found)?, array, schema) }
    })
}

/// The records of an array that has no NULL.
fn records_of(array: &ArrayRef) -> Result<Vec<Record>, String> {
    let records = array.as_struct_opt().ok_or("patterns are no records")?;
    (0..records.len()).filter_map(|row| read_record(records, row).transpose()).collect()
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
    let message = match catch_unwind(AssertUnwindSafe(work)).map(memory::in_room) {
        Ok(Ok(())) => return std::ptr::null_mut(),
        Ok(Err(message)) => message,
        Err(_) => "internal error: panic in the native library".to_string(),
    };
    CString::new(message.replace('\0', " ")).unwrap_or_default().into_raw()
}

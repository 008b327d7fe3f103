//! The aggregates: rows to records, and records to one.

use std::cell::RefCell;
use std::slice;
use std::sync::{Arc, Weak};

use super::aggregate_guard;
use super::api::{self, Handle, State, type_id};
use super::records::{Records, write_records};
use super::states::{self, Slot, States};
use super::table::{Leaf, leaf, leaves, no_row};
use super::vectors::{Vector, text};
use crate::kernel::block::{ROWS_AHEAD, prefetch};
use crate::kernel::chunk::{Chunk, Labels, Missing};
use crate::kernel::gaps::Policy;
use crate::linear::patterns::{MAX_PATTERNS, PatternSums};
use crate::record::gram::Record;
use crate::record::rows::{Column, Group, Rows, Shape, add_scattered, terms_of};
use crate::record::terms::{self, Terms};
use crate::record::texts::Limit;

/// What an aggregate state points to, from its first row on.
pub trait Statistics: Clone + Send + Sync {
    /// The function that fills it.
    const NAME: &'static str;

    /// Add what another state has.
    fn merge(&mut self, other: &Self) -> Result<(), String>;

    /// Ask for its memory.
    fn expect(&self) {
        prefetch(slice::from_ref(self));
    }

    /// Ask for that of its moments, once its own is there.
    fn expect_moments(&self) {}
}

impl Statistics for Group {
    const NAME: &'static str = "gram";

    fn merge(&mut self, other: &Group) -> Result<(), String> {
        Group::merge(self, other)
    }

    fn expect_moments(&self) {
        Group::expect_moments(self);
    }
}

/// What gathers rows.
pub trait Gathering: Statistics {
    /// Nothing so far, with what is kept of patterns of gaps.
    fn begin(shape: &Arc<Shape>, most: Option<usize>) -> Self;

    /// Add all rows of a run.
    fn gather(&mut self, rows: &Rows, labels: Labels) -> Result<(), String>;

    /// Add the rows of a run, each to its own group, as `add_scattered` does.
    fn scatter<'g>(
        rows: &Rows,
        labels: Labels,
        key_of: impl Fn(usize) -> usize,
        known: impl Fn(usize) -> Option<&'g Self>,
        group_of: impl FnMut(usize) -> &'g mut Self,
    ) -> Result<(), String>
    where
        Self: 'g;
}

impl Gathering for Group {
    fn begin(shape: &Arc<Shape>, _: Option<usize>) -> Group {
        Group::new(shape)
    }

    fn gather(&mut self, rows: &Rows, labels: Labels) -> Result<(), String> {
        self.add(rows, labels)
    }

    fn scatter<'g>(
        rows: &Rows,
        labels: Labels,
        _: impl Fn(usize) -> usize,
        known: impl Fn(usize) -> Option<&'g Group>,
        group_of: impl FnMut(usize) -> &'g mut Group,
    ) -> Result<(), String> {
        add_scattered(rows, labels, known, group_of)
    }
}

impl Statistics for Record {
    const NAME: &'static str = "gram_merge";

    fn merge(&mut self, other: &Record) -> Result<(), String> {
        Record::merge(self, other)
    }
}

/// The arguments beside the row.
#[derive(PartialEq)]
struct Told {
    policies: Policies,
    limit: Limit,
    /// The terms as JSON, for a row that was made of another.
    terms: Option<String>,
    /// How many patterns of gaps are kept; nothing where none are.
    most: Option<usize>,
}

/// What becomes of missing numbers.
#[derive(PartialEq)]
enum Policies {
    /// The same for all.
    All(Policy),
    /// A letter for each.
    Letters(String),
}

/// The shape of the rows of the last chunk, so that groups share one.
struct Known {
    columns: Vec<(String, bool, bool, Option<&'static str>)>,
    told: Told,
    /// Freed with the last of its groups, and the levels that they have met.
    shape: Weak<Shape>,
}

thread_local! {
    static KNOWN: RefCell<Option<Known>> = const { RefCell::new(None) };
}

pub unsafe extern "C" fn state_size(_info: Handle) -> u64 {
    states::sized();
    states::SIZE as u64
}

pub unsafe extern "C" fn state_init(_info: Handle, state: State) {
    states::begun(state);
    // SAFETY: DuckDB hands over memory of `state_size` bytes.
    unsafe { Slot::<()>::of(state).begin() }
}

pub unsafe extern "C" fn state_destroy<S: Statistics>(states: *mut State, n: u64) {
    // SAFETY: `n` states, each initialised by `state_init`.
    unsafe { states::drop_all::<S>(states, n) };
}

/// `gram`: add a chunk of rows, each to its state.
pub unsafe extern "C" fn gram(info: Handle, chunk: Handle, states: *mut State) {
    // SAFETY: DuckDB's own pointers, of the registered types.
    aggregate_guard(info, "gram", || unsafe {
        add_public::<Group>(chunk, states, Policy::Skip, None)
    });
}

/// `gram_missing`: the same, with indicators where numbers are missing.
pub unsafe extern "C" fn gram_missing(info: Handle, chunk: Handle, states: *mut State) {
    // SAFETY: as above.
    aggregate_guard(info, "gram_missing", || unsafe {
        add_public::<Group>(chunk, states, Policy::Indicator, None)
    });
}

/// `gram_mean`: the same, with the mean where numbers are missing.
pub unsafe extern "C" fn gram_mean(info: Handle, chunk: Handle, states: *mut State) {
    // SAFETY: as above.
    aggregate_guard(info, "gram_mean", || unsafe {
        add_public::<Group>(chunk, states, Policy::Mean, None)
    });
}

/// `dbselect_gram`: the same, with a letter for the policy of each column, and the terms.
pub unsafe extern "C" fn gram_told(info: Handle, chunk: Handle, states: *mut State) {
    // SAFETY: as above; a chunk has at least one row, and argument 1 is a constant.
    aggregate_guard(info, "gram", || unsafe {
        let told = text(Vector::of_chunk(chunk, 1), 0);
        let (letters, terms) = told.split_once(' ').unwrap_or((&told, ""));
        let told = Told {
            policies: Policies::Letters(letters.to_string()),
            limit: Limit::default(),
            terms: Some(terms.to_string()),
            most: None,
        };
        let weighted = api::duckdb_data_chunk_get_column_count(chunk) > 2;
        add_rows::<Group>(chunk, states, weighted.then_some(2), told)
    });
}

/// `gram_patterns`: the same, a record a pattern of what is missing.
pub unsafe extern "C" fn gram_patterns(info: Handle, chunk: Handle, states: *mut State) {
    // SAFETY: as above.
    aggregate_guard(info, "gram_patterns", || unsafe {
        add_public::<PatternSums>(chunk, states, Policy::Skip, Some(MAX_PATTERNS))
    });
}

/// Add a chunk of a row, a weight and options, of which the last two may be missing; `most`
/// patterns are kept by default.
///
/// # Safety
/// A live chunk of the registered types, with initialised states as DuckDB passes them.
unsafe fn add_public<G: Gathering>(
    chunk: Handle,
    states: *mut State,
    policy: Policy,
    mut most: Option<usize>,
) -> Result<(), String> {
    // SAFETY: see the caller's promise.
    unsafe {
        let mut given: Vec<u64> = (1..api::duckdb_data_chunk_get_column_count(chunk)).collect();
        let is_struct =
            |at: u64| Vector::of_chunk(chunk, at).logical_type().id() == type_id::STRUCT;
        let row = Vector::of_chunk(chunk, 0).logical_type().id();
        if ![type_id::STRUCT, type_id::SQLNULL].contains(&row) {
            return Err(no_row(row));
        }
        let mut limit = Limit::default();
        if let Some(at) = given.pop_if(|at| is_struct(*at)) {
            limit = read_options(Vector::of_chunk(chunk, at), &mut most)?;
        }
        if given.len() > 1 {
            return Err("options must be a STRUCT, as {'max_levels': 20}".to_string());
        }
        // The word NULL, which has no type, stands for the default: no weight.
        given.retain(|at| Vector::of_chunk(chunk, *at).logical_type().id() != type_id::SQLNULL);
        let told = Told { policies: Policies::All(policy), limit, terms: None, most };
        add_rows::<G>(chunk, states, given.first().copied(), told)
    }
}

/// # Safety
/// A live STRUCT vector of a constant, with at least one row.
unsafe fn read_options(options: Vector, most: &mut Option<usize>) -> Result<Limit, String> {
    let mut limit = Limit::default();
    for (index, (name, _)) in options.logical_type().fields().into_iter().enumerate() {
        let known = match name.to_ascii_lowercase().as_str() {
            "_limit" => continue, // Set as the query was planned.
            "max_levels" => "max_levels",
            "max_patterns" if most.is_some() => "max_patterns",
            _ if most.is_some() => {
                return Err(format!(
                    "unknown option '{name}'; there are 'max_levels' and 'max_patterns'"
                ));
            }
            _ => return Err(format!("unknown option '{name}'; there is 'max_levels'")),
        };
        let value = options.child(index as u64);
        if value.is_null(0) {
            continue; // The default.
        }
        let refused = |shown: &str| format!("{known} is {shown}; it must be a whole number >= 1");
        let own = value.logical_type().id();
        // SAFETY: see the caller's promise; a VARCHAR that is not NULL.
        let number = unsafe {
            if own == type_id::VARCHAR {
                return Err(refused(&format!("'{}'", text(value, 0))));
            }
            let shown = format!("of type {}", type_id::name(own));
            leaf(known, value).map_err(|_| refused(&shown))?.doubles(1)[0]
        };
        if number.fract() != 0.0 || number < 1.0 {
            return Err(refused(&number.to_string()));
        }
        match known {
            "max_levels" => limit = Limit::of(number as i64)?,
            _ => *most = Some(number as usize),
        }
    }
    Ok(limit)
}

/// Add a chunk of rows, each to its state; the weight may be column `weight_at`.
///
/// # Safety
/// A live chunk, a STRUCT in column 0, with initialised states as DuckDB passes them.
unsafe fn add_rows<G: Gathering>(
    chunk: Handle,
    states: *mut State,
    weight_at: Option<u64>,
    told: Told,
) -> Result<(), String> {
    // SAFETY: see the caller's promise.
    let (rows, columns, weight) = unsafe {
        let rows = api::duckdb_data_chunk_get_size(chunk) as usize;
        let Some(columns) = leaves(Vector::of_chunk(chunk, 0))? else {
            return Ok(());
        };
        columns.iter().try_for_each(Leaf::check_column)?;
        let weight = |at| leaf("weight", Vector::of_chunk(chunk, at));
        (rows, columns, weight_at.map(weight).transpose()?)
    };
    if rows == 0 {
        return Ok(());
    }
    let most = told.most;
    let shape = shape_of(&columns, told)?;
    let nulls = |leaf: &Leaf| {
        let mut nulls = Missing::none();
        // SAFETY: as above.
        unsafe { leaf.mark_missing(rows, &mut nulls) };
        nulls
    };
    // SAFETY: as above; the values are used during this call only.
    let doubles = |leaf: &Leaf| unsafe { leaf.doubles(rows) };
    let numbers = || columns.iter().filter(|leaf| !leaf.is_text());
    let texts = columns.iter().filter(|leaf| leaf.is_text());
    let values: Vec<_> = numbers().map(doubles).collect();
    // SAFETY: as above.
    let units_of = |(at, leaf): (usize, &Leaf)| unsafe { leaf.units(at, &values[at]) };
    let units = numbers().enumerate().filter_map(units_of).collect();
    let mut run = Rows {
        numbers: Chunk {
            rows,
            columns: values,
            weight: weight.as_ref().map(doubles),
            missing: weight.as_ref().map(nulls).unwrap_or_default(),
            nulls: numbers().map(nulls).collect(),
            units,
            policies: &shape.policies,
        },
        // SAFETY: as above.
        texts: texts.map(|leaf| unsafe { leaf.texts(rows) }).collect(),
    };
    if most.is_none() {
        run.leave_out();
    }
    let labels = Labels { columns: &shape.numbers, weight: "weight" };
    // SAFETY: an update of at least one row.
    let states = unsafe { States::of_update(states, rows) };
    // SAFETY: a state of these rows, not null; a group is reached through one reference at a time.
    let group_of = |row: usize| unsafe {
        let slot = Slot::<G>::of(states.at(row));
        if slot.get().is_none() {
            slot.put(Arc::new(G::begin(&shape, most)));
        }
        slot.own().expect("it holds a group")
    };
    // SAFETY: states of these rows.
    if unsafe { states.are_one(rows) } {
        group_of(0).gather(&run, labels)
    } else {
        // SAFETY: as above.
        let state_of = |row: usize| unsafe { states.at(row) } as usize;
        // SAFETY: as above.
        let slot = |row: usize| Slot::<G>::of(unsafe { states.at(row) });
        (0..rows).for_each(|row| slot(row).expect());
        // SAFETY: as above.
        let known = |row: usize| unsafe { slot(row).get() };
        G::scatter(&run, labels, state_of, known, group_of)
    }
}

/// The shape of rows of some columns, shared with the chunks before where it is the same.
fn shape_of(leaves: &[Leaf], told: Told) -> Result<Arc<Shape>, String> {
    let columns = || leaves.iter().map(Leaf::column);
    let same = |known: &Known| {
        let as_column = |(name, is_field, is_text, unit): &(String, bool, bool, _), c: &Column| {
            (name.as_str(), *is_field, *is_text, *unit) == (c.name, c.is_field, c.is_text, c.unit)
        };
        known.told == told
            && known.columns.len() == leaves.len()
            && known.columns.iter().zip(columns()).all(|(known, column)| as_column(known, &column))
    };
    let shared = KNOWN.with_borrow(|known| {
        known.as_ref().filter(|known| same(known)).and_then(|known| known.shape.upgrade())
    });
    if let Some(shape) = shared {
        return Ok(shape);
    }
    let fields: Vec<Column> = columns().collect();
    let n_numbers = fields.iter().filter(|column| !column.is_text).count();
    let policies = match &told.policies {
        Policies::All(policy) => vec![*policy; n_numbers],
        Policies::Letters(letters) => letters
            .bytes()
            .map(Policy::of)
            .collect::<Option<Vec<Policy>>>()
            .filter(|policies| policies.len() == n_numbers)
            .ok_or_else(|| format!("policies are '{letters}'; a letter a column is needed"))?,
    };
    let base = match told.terms.as_deref() {
        None => terms_of(&fields),
        Some("") => Terms::default(),
        Some(json) => Terms::clone(
            &*terms::read(Some(json)).map_err(|error| format!("the rows have {error}"))?,
        ),
    };
    let shape = Arc::new(Shape::of(&fields, policies, told.limit, base)?);
    let own = |c: &Column| (c.name.to_string(), c.is_field, c.is_text, c.unit);
    let columns = fields.iter().map(own).collect();
    KNOWN.set(Some(Known { columns, told, shape: Arc::downgrade(&shape) }));
    Ok(shape)
}

/// `gram_merge`: add a chunk of records, each to its state.
pub unsafe extern "C" fn gram_merge(info: Handle, chunk: Handle, states: *mut State) {
    aggregate_guard(info, "gram_merge", || {
        // SAFETY: a live chunk of records, and states as DuckDB passes them.
        unsafe {
            let records = Records::of_chunk(chunk, 0);
            let rows = api::duckdb_data_chunk_get_size(chunk) as usize;
            if rows == 0 {
                return Ok(());
            }
            let states = States::of_update(states, rows);
            for row in 0..rows {
                if let Some(record) = records.at(row)? {
                    let slot = Slot::<Record>::of(states.at(row));
                    match slot.own() {
                        Some(total) => total.merge(&record)?,
                        None => slot.put(Arc::new(record)),
                    }
                }
            }
        }
        Ok(())
    });
}

/// Merge states; the sources stay as they are, for window frames use them again.
pub unsafe extern "C" fn combine<S: Statistics>(
    info: Handle,
    sources: *mut State,
    targets: *mut State,
    n: u64,
) {
    let n = n as usize;
    // SAFETY: `n` states on either side, each initialised; no other thread uses them.
    let both = |i: usize| unsafe { [sources, targets].map(|states| Slot::of(*states.add(i))) };
    // SAFETY: as above.
    let held = |i: usize| both(i).into_iter().filter_map(|slot: Slot<S>| unsafe { slot.get() });
    aggregate_guard(info, S::NAME, || {
        (0..n).for_each(|i| both(i).iter().for_each(|slot| slot.expect()));
        for i in 0..n {
            (i + 2 * ROWS_AHEAD < n).then(|| held(i + 2 * ROWS_AHEAD).for_each(S::expect));
            (i + ROWS_AHEAD < n).then(|| held(i + ROWS_AHEAD).for_each(S::expect_moments));
            let [source, target] = both(i);
            // SAFETY: as above.
            unsafe {
                match (target.own(), source.get()) {
                    (Some(total), Some(more)) => total.merge(more)?,
                    (None, _) => target.share(source),
                    (_, None) => {}
                }
            }
        }
        Ok(())
    });
}

/// Write the record of each state of rows, NULL for none.
pub unsafe extern "C" fn finalize(
    info: Handle,
    states: *mut State,
    out: Handle,
    n: u64,
    offset: u64,
) {
    aggregate_guard(info, "gram", || {
        // SAFETY: `n` initialised states, each of its own.
        let group = |i: usize| unsafe { Slot::<Group>::of(*states.add(i)).own() };
        let plain = (0..n as usize).map(|i| match group(i) {
            None => Some(None),
            Some(group) => group.plain().map(Some),
        });
        if let Some(mut plain) = plain.collect::<Option<Vec<_>>>() {
            // SAFETY: an output of records with room for `n` from `offset` on.
            return unsafe { write_records(Vector::output(out), offset as usize, &mut plain) };
        }
        let finish = |i: usize| group(i).map(Group::finish).transpose();
        let mut records = (0..n as usize).map(finish).collect::<Result<Vec<_>, String>>()?;
        // SAFETY: as above.
        unsafe { write_records(Vector::output(out), offset as usize, &mut records) }
    });
}

/// Write the record of each state of records, NULL for none.
pub unsafe extern "C" fn finalize_merged(
    info: Handle,
    states: *mut State,
    out: Handle,
    n: u64,
    offset: u64,
) {
    aggregate_guard(info, "gram_merge", || {
        // SAFETY: `n` initialised states.
        let record = |i: usize| unsafe { Slot::<Record>::of(*states.add(i)).get() };
        let mut records: Vec<_> = (0..n as usize).map(|i| record(i).cloned()).collect();
        // SAFETY: an output of records with room for `n` from `offset` on.
        unsafe { write_records(Vector::output(out), offset as usize, &mut records) }
    });
}

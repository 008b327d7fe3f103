//! Entry points for DuckDB: an extension on the stable C API.
//!
//! | SQL | kind |
//! |---|---|
//! | `gram(row [, weight])` | aggregate; `row` is any STRUCT |
//! | `gram_missing(row [, weight])` | aggregate; missing values are 0, with an indicator a column |
//! | `gram_mean(row [, weight])` | aggregate; missing values are the mean of those present |
//! | `dbselect_gram(row, policies [, weight])` | aggregate behind `dbselect.gram` |
//! | `gram_merge(record)` | aggregate |
//! | `gram_remove(a, b)` | scalar |
//! | `fold_of(key, k [, seed])` | scalar; `key` of any type |
//! | `gram_impute(record)` | scalar: missing values are the mean, without indicators |
//! | `dbselect_predict(sequence, row, budget)` | scalar behind `anytime_predict` |

mod api;
mod records;
mod sequences;
mod table;
mod types;
mod vectors;

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use api::{Access, Finalize, Handle, State, Update, type_id};
use records::{read_record, write_counts, write_records};
use table::{Leaf, leaf, leaves, mix_key};
use types::{LogicalType, plain};
use vectors::{Vector, text};

use crate::accumulator::{Accumulator, scatter};
use crate::chunk::{Chunk, Labels, Missing};
use crate::fold;
use crate::gaps::{Policy, impute, layout, names};
use crate::moments::Moments;
use crate::prefix::Plan;
use crate::record::{Names, Record, check_overflow, same_columns};

/// What an aggregate state points to, from its first row on.
#[derive(Clone)]
struct Group {
    names: Names,
    policies: Policies,
    accumulator: Accumulator,
}

/// One policy a column, shared by the groups of a chunk; none if all are skipped.
type Policies = Arc<[Policy]>;

/// The pointer inside an aggregate state: null before the first row.
type Slot = *mut *mut Group;

thread_local! {
    /// The names of the last chunk, so that groups share one list.
    static NAMES: RefCell<Names> = RefCell::new(Names::from([]));
}

/// Register the functions; DuckDB calls this when it loads the extension.
///
/// # Safety
/// Called by DuckDB as its C API for extensions says.
#[unsafe(no_mangle)]
unsafe extern "C" fn dbselect_init_c_api(info: Handle, access: *const Access) -> bool {
    let load = || {
        // SAFETY: DuckDB's own pointers, live during the call.
        unsafe {
            let table = ((*access).get_api)(info, api::VERSION.as_ptr());
            if table.is_null() {
                return Err("this DuckDB does not offer the C API v1.2.0".to_string());
            }
            api::install(table);
            api::check_version()?;
            let mut connection = std::ptr::null_mut();
            if api::duckdb_connect(*((*access).get_database)(info), &mut connection) != 0 {
                return Err("cannot connect to register the functions".to_string());
            }
            let registered = register(connection);
            api::duckdb_disconnect(&mut connection);
            registered
        }
    };
    let failed = |info, message: *const c_char| {
        // SAFETY: as above.
        unsafe { ((*access).set_error)(info, message) }
    };
    guard(info, failed, load)
}

/// # Safety
/// `connection` is live.
unsafe fn register(connection: Handle) -> Result<(), String> {
    // SAFETY: see the caller's promise.
    unsafe {
        let any = || plain(type_id::ANY);
        let double = || plain(type_id::DOUBLE);
        let record = types::record;
        let rows: [&[LogicalType]; 2] = [&[any()], &[any(), double()]];
        let text = || plain(type_id::VARCHAR);
        let told: [&[LogicalType]; 2] = [&[any(), text()], &[any(), text(), double()]];
        let plain_record = Finish { returns: record(), finalize };
        register_aggregate(connection, c"gram", &rows, update, &plain_record)?;
        register_aggregate(connection, c"gram_missing", &rows, update_missing, &plain_record)?;
        register_aggregate(connection, c"gram_mean", &rows, update_mean, &plain_record)?;
        let counted = Finish { returns: types::counted(), finalize: finalize_counted };
        register_aggregate(connection, c"dbselect_gram", &told, update_told, &counted)?;
        let records: [&[LogicalType]; 1] = [&[record()]];
        register_aggregate(connection, c"gram_merge", &records, update_merge, &plain_record)?;
        register_scalar(connection, c"gram_impute", &[&[record()]], &record(), impute_mean)?;
        let bigint = || plain(type_id::BIGINT);
        let two_records = [record(), record()];
        register_scalar(connection, c"gram_remove", &[&two_records], &record(), remove)?;
        let overloads: [&[_]; 2] = [&[any(), bigint()], &[any(), bigint(), bigint()]];
        register_scalar(connection, c"fold_of", &overloads, &bigint(), fold_of)?;
        let arguments = [types::sequence(), any(), double()];
        let prediction = types::prediction();
        register_scalar(connection, c"dbselect_predict", &[&arguments], &prediction, predict)
    }
}

/// What an aggregate ends with.
struct Finish {
    returns: LogicalType,
    finalize: Finalize,
}

/// # Safety
/// `connection` is live, `update` fits the parameters and `finish` the states.
unsafe fn register_aggregate(
    connection: Handle,
    name: &CStr,
    overloads: &[&[LogicalType]],
    update: Update,
    finish: &Finish,
) -> Result<(), String> {
    // SAFETY: all handles are made here and destroyed here; DuckDB copies them.
    let state = unsafe {
        let mut set = api::duckdb_create_aggregate_function_set(name.as_ptr());
        for parameters in overloads {
            let mut function = api::duckdb_create_aggregate_function();
            api::duckdb_aggregate_function_set_name(function, name.as_ptr());
            for parameter in *parameters {
                api::duckdb_aggregate_function_add_parameter(function, parameter.handle());
            }
            api::duckdb_aggregate_function_set_return_type(function, finish.returns.handle());
            api::duckdb_aggregate_function_set_special_handling(function);
            api::duckdb_aggregate_function_set_functions(
                function,
                state_size,
                state_init,
                update,
                combine,
                finish.finalize,
            );
            api::duckdb_aggregate_function_set_destructor(function, state_destroy);
            api::duckdb_add_aggregate_function_to_set(set, function);
            api::duckdb_destroy_aggregate_function(&mut function);
        }
        let state = api::duckdb_register_aggregate_function_set(connection, set);
        api::duckdb_destroy_aggregate_function_set(&mut set);
        state
    };
    check_registered(name, state)
}

/// # Safety
/// `connection` is live and `call` fits the types.
unsafe fn register_scalar(
    connection: Handle,
    name: &CStr,
    overloads: &[&[LogicalType]],
    returns: &LogicalType,
    call: api::ScalarCall,
) -> Result<(), String> {
    // SAFETY: as above.
    let state = unsafe {
        let mut set = api::duckdb_create_scalar_function_set(name.as_ptr());
        for parameters in overloads {
            let mut function = api::duckdb_create_scalar_function();
            api::duckdb_scalar_function_set_name(function, name.as_ptr());
            for parameter in *parameters {
                api::duckdb_scalar_function_add_parameter(function, parameter.handle());
            }
            api::duckdb_scalar_function_set_return_type(function, returns.handle());
            // We see NULL arguments ourselves: a NULL budget is no budget.
            api::duckdb_scalar_function_set_special_handling(function);
            api::duckdb_scalar_function_set_function(function, call);
            api::duckdb_add_scalar_function_to_set(set, function);
            api::duckdb_destroy_scalar_function(&mut function);
        }
        let state = api::duckdb_register_scalar_function_set(connection, set);
        api::duckdb_destroy_scalar_function_set(&mut set);
        state
    };
    check_registered(name, state)
}

fn check_registered(name: &CStr, state: u32) -> Result<(), String> {
    if state == 0 {
        return Ok(());
    }
    Err(format!("cannot register the function {}", name.to_string_lossy()))
}

unsafe extern "C" fn state_size(_info: Handle) -> u64 {
    size_of::<*mut Group>() as u64
}

unsafe extern "C" fn state_init(_info: Handle, state: State) {
    // SAFETY: DuckDB hands over memory of `state_size` bytes.
    unsafe { state.cast::<*mut Group>().write(std::ptr::null_mut()) }
}

unsafe extern "C" fn state_destroy(states: *mut State, n: u64) {
    for i in 0..n as usize {
        // SAFETY: `n` states, each initialised; a group is freed once because
        // its pointer is cleared.
        unsafe {
            let slot: Slot = (*states.add(i)).cast();
            let group = slot.replace(std::ptr::null_mut());
            if !group.is_null() {
                drop(Box::from_raw(group));
            }
        }
    }
}

/// `gram`: add a chunk of rows, each to its own state.
unsafe extern "C" fn update(info: Handle, chunk: Handle, states: *mut State) {
    // SAFETY: DuckDB's own pointers, of the registered types.
    aggregate_guard(info, "gram", || unsafe {
        add_rows(chunk, states, 1, |_| Ok(Policies::from([])))
    });
}

/// `gram_missing`: the same, with zeros and indicators where values are missing.
unsafe extern "C" fn update_missing(info: Handle, chunk: Handle, states: *mut State) {
    // SAFETY: as above.
    aggregate_guard(info, "gram_missing", || unsafe {
        add_rows(chunk, states, 1, |width| Ok(vec![Policy::Indicator; width].into()))
    });
}

/// `gram_mean`: the same, with the mean where values are missing.
unsafe extern "C" fn update_mean(info: Handle, chunk: Handle, states: *mut State) {
    // SAFETY: as above.
    aggregate_guard(info, "gram_mean", || unsafe {
        add_rows(chunk, states, 1, |width| Ok(vec![Policy::Mean; width].into()))
    });
}

/// `dbselect_gram`: the same, with a letter for the policy of each column.
unsafe extern "C" fn update_told(info: Handle, chunk: Handle, states: *mut State) {
    // SAFETY: as above; a chunk has at least one row, and the policies are a constant.
    aggregate_guard(info, "gram", || unsafe {
        add_rows(chunk, states, 2, |width| {
            let letters = text(Vector::of_chunk(chunk, 1), 0);
            let policies: Option<Policies> = letters.bytes().map(Policy::of).collect();
            policies
                .filter(|policies| policies.len() == width)
                .ok_or_else(|| format!("policies are '{letters}'; a letter a column is needed"))
        })
    });
}

/// Add a chunk of rows, each to its own state; the weight may be column `weight_at`.
///
/// # Safety
/// A live chunk, a STRUCT in column 0, with one initialised state a row.
unsafe fn add_rows(
    chunk: Handle,
    states: *mut State,
    weight_at: u64,
    policies: impl FnOnce(usize) -> Result<Policies, String>,
) -> Result<(), String> {
    // SAFETY: see the caller's promise.
    let (rows, columns, weight) = unsafe {
        let rows = api::duckdb_data_chunk_get_size(chunk) as usize;
        let Some(columns) = leaves(Vector::of_chunk(chunk, 0))? else {
            return Ok(());
        };
        columns.iter().try_for_each(Leaf::check)?;
        let weighted = api::duckdb_data_chunk_get_column_count(chunk) > weight_at;
        let weight = || leaf("weight", Vector::of_chunk(chunk, weight_at));
        (rows, columns, weighted.then(weight).transpose()?)
    };
    if rows == 0 {
        return Ok(());
    }
    let policies = policies(columns.len())?;
    let nulls = |leaf: &Leaf| {
        let mut nulls = Missing::none();
        // SAFETY: as above.
        unsafe { leaf.mark_missing(rows, &mut nulls) };
        nulls
    };
    // SAFETY: as above; the values are used during this call only.
    let doubles = |leaf: &Leaf| unsafe { leaf.doubles(rows) };
    let names = shared_names(&columns);
    let chunk = Chunk {
        rows,
        columns: columns.iter().map(doubles).collect(),
        weight: weight.as_ref().map(doubles),
        missing: weight.as_ref().map(nulls).unwrap_or_default(),
        nulls: columns.iter().map(nulls).collect(),
        policies: &policies,
    };
    let labels = Labels { columns: &names, weight: "weight" };
    // SAFETY: one state a row, none of them null; a group is reached
    // through one reference at a time.
    let group_of = |row: usize| unsafe {
        let slot: Slot = (*states.add(row)).cast();
        if (*slot).is_null() {
            let (names, policies) = (names.clone(), policies.clone());
            let accumulator = Accumulator::new(names.len());
            *slot = Box::into_raw(Box::new(Group { names, policies, accumulator }));
        }
        &mut (**slot).accumulator
    };
    // SAFETY: one state a row.
    let one_group = (1..rows).all(|row| unsafe { *states.add(row) == *states });
    if one_group { group_of(0).add(&chunk, labels) } else { scatter(&chunk, labels, group_of) }
}

fn shared_names(columns: &[Leaf]) -> Names {
    NAMES.with_borrow_mut(|names| {
        if !names.iter().eq(columns.iter().map(|leaf| &leaf.name)) {
            *names = columns.iter().map(|leaf| leaf.name.clone()).collect();
        }
        names.clone()
    })
}

/// `gram_merge`: add a chunk of records, each to its own state.
unsafe extern "C" fn update_merge(info: Handle, chunk: Handle, states: *mut State) {
    aggregate_guard(info, "gram_merge", || {
        // SAFETY: a live chunk of records and one state a row.
        unsafe {
            let records = Vector::of_chunk(chunk, 0);
            for row in 0..api::duckdb_data_chunk_get_size(chunk) as usize {
                if let Some(Record { columns, moments }) = read_record(records, row)? {
                    let accumulator = Accumulator::from_moments(moments);
                    let group = Group { names: columns, policies: Policies::from([]), accumulator };
                    merge_into((*states.add(row)).cast(), &group)?;
                }
            }
        }
        Ok(())
    });
}

/// Merge states; the sources stay as they are, for window frames use them again.
unsafe extern "C" fn combine(info: Handle, sources: *mut State, targets: *mut State, n: u64) {
    aggregate_guard(info, "gram", || {
        for i in 0..n as usize {
            // SAFETY: `n` states on either side, each initialised.
            unsafe {
                let source: Slot = (*sources.add(i)).cast();
                if let Some(source) = (*source).as_ref() {
                    merge_into((*targets.add(i)).cast(), source)?;
                }
            }
        }
        Ok(())
    });
}

/// # Safety
/// `slot` is an initialised state that no other thread uses.
unsafe fn merge_into(slot: Slot, source: &Group) -> Result<(), String> {
    // SAFETY: see the caller's promise.
    unsafe {
        match (*slot).as_mut() {
            None => *slot = Box::into_raw(Box::new(source.clone())),
            Some(target) => {
                same_columns(&target.names, &source.names)?;
                target.accumulator.merge(&source.accumulator);
            }
        }
    }
    Ok(())
}

unsafe extern "C" fn finalize(info: Handle, states: *mut State, out: Handle, n: u64, offset: u64) {
    aggregate_guard(info, "gram", || {
        // SAFETY: `n` initialised states and an output of records.
        unsafe {
            let found = finished(states, n as usize)?;
            let records: Vec<_> =
                found.iter().map(|found| found.as_ref().map(Finished::parts)).collect();
            write_records(Vector::output(out), offset as usize, &records);
        }
        Ok(())
    });
}

/// The same for STRUCT(gram, missing), never NULL.
unsafe extern "C" fn finalize_counted(
    info: Handle,
    states: *mut State,
    out: Handle,
    n: u64,
    offset: u64,
) {
    aggregate_guard(info, "gram", || {
        // SAFETY: `n` initialised states and an output of the registered type.
        unsafe {
            let found = finished(states, n as usize)?;
            let (mut records, mut counts) = (Vec::new(), Vec::new());
            for found in &found {
                records.push(found.as_ref().map(Finished::parts));
                counts.push(found.as_ref().map_or(&[][..], |found| found.absent));
            }
            let out = Vector::output(out);
            write_records(out.child(0), offset as usize, &records);
            write_counts(out.child(1), offset as usize, &counts);
        }
        Ok(())
    });
}

/// What a state comes to.
struct Finished<'g> {
    names: Names,
    moments: Cow<'g, Moments>,
    absent: &'g [u64],
}

impl Finished<'_> {
    fn parts(&self) -> (&[String], &Moments) {
        (&self.names, &self.moments)
    }
}

/// # Safety
/// `n` initialised states, which live as long as the result.
unsafe fn finished<'g>(states: *mut State, n: usize) -> Result<Vec<Option<Finished<'g>>>, String> {
    let finish = |i: usize| {
        // SAFETY: see the caller's promise.
        let group = unsafe { (*(*states.add(i)).cast::<*mut Group>()).as_mut() };
        let Some(group) = group else { return Ok(None) };
        group.accumulator.finish();
        let Group { names: columns, policies, accumulator } = group;
        let filled = accumulator.filled();
        let (names, moments) = if policies.is_empty() {
            (columns.clone(), Cow::Borrowed(&filled.moments))
        } else {
            let layout = layout(policies, |_| true);
            (names(columns, &layout), filled.finish(policies, &layout))
        };
        check_overflow(&names, &moments)?;
        Ok(Some(Finished { names, moments, absent: accumulator.absent() }))
    };
    (0..n).map(finish).collect()
}

/// `gram_impute(record)`; NULL if it is.
unsafe extern "C" fn impute_mean(info: Handle, chunk: Handle, out: Handle) {
    scalar_guard(info, "gram_impute", || {
        // SAFETY: a live chunk of records and an output of records.
        unsafe {
            let records = Vector::of_chunk(chunk, 0);
            let imputed = |row| {
                let record = read_record(records, row)?;
                Ok(record.map(|record| impute(&record)))
            };
            let rows = api::duckdb_data_chunk_get_size(chunk) as usize;
            let found: Vec<_> = (0..rows).map(imputed).collect::<Result<_, String>>()?;
            let parts = found
                .iter()
                .map(|found| found.as_ref().map(|record| (&record.columns[..], &record.moments)));
            write_records(Vector::output(out), 0, &parts.collect::<Vec<_>>());
        }
        Ok(())
    });
}

/// `gram_remove(a, b)`; NULL if either is.
unsafe extern "C" fn remove(info: Handle, chunk: Handle, out: Handle) {
    scalar_guard(info, "gram_remove", || {
        // SAFETY: a live chunk of two records a row and an output of records.
        unsafe {
            let (wholes, parts) = (Vector::of_chunk(chunk, 0), Vector::of_chunk(chunk, 1));
            let difference = |row| {
                let whole = read_record(wholes, row)?;
                let Some((mut whole, part)) = whole.zip(read_record(parts, row)?) else {
                    return Ok(None);
                };
                whole.remove(&part).map(|()| Some(whole))
            };
            let rows = api::duckdb_data_chunk_get_size(chunk) as usize;
            let records: Vec<_> = (0..rows).map(difference).collect::<Result<_, String>>()?;
            let parts: Vec<_> = records
                .iter()
                .map(|record| record.as_ref().map(|record| (&record.columns[..], &record.moments)))
                .collect();
            write_records(Vector::output(out), 0, &parts);
        }
        Ok(())
    });
}

/// `dbselect_predict(sequence, row, budget)`; NULL without a sequence.
unsafe extern "C" fn predict(info: Handle, chunk: Handle, out: Handle) {
    scalar_guard(info, "anytime_predict", || {
        // SAFETY: a live chunk of the registered types and an output of predictions.
        unsafe {
            let rows = api::duckdb_data_chunk_get_size(chunk) as usize;
            let (sequences, out) = (Vector::of_chunk(chunk, 0), Vector::output(out));
            let mut leaves = leaves(Vector::of_chunk(chunk, 1))?.unwrap_or_default();
            // The row of a whole table may hold text, which no model asks for.
            leaves.retain(|leaf| leaf.check().is_ok());
            let names: Vec<String> = leaves.iter().map(|leaf| leaf.name.clone()).collect();
            let columns: Vec<_> = leaves.iter().map(|leaf| leaf.present(rows)).collect();
            // Only NULL is no limit: within a NaN nothing fits.
            let budget = leaf("budget", Vector::of_chunk(chunk, 2))?;
            let budgets = budget.doubles(rows);
            let mut unlimited = Missing::none();
            budget.mark_missing(rows, &mut unlimited);
            // Rows of one sequence share its list entry, constants all of them.
            let mut plans = HashMap::new();
            for row in 0..rows {
                let Some(entry) = sequences::sequence_entry(sequences, row) else {
                    sequences::write_prediction(out, row, None);
                    continue;
                };
                let plan = match plans.entry(entry) {
                    Entry::Occupied(plan) => plan.into_mut(),
                    Entry::Vacant(empty) => {
                        empty.insert(Plan::new(sequences::read_steps(sequences, entry)?, &names))
                    }
                };
                let budget = if unlimited.contains(row) { f64::INFINITY } else { budgets[row] };
                sequences::write_prediction(out, row, plan.predict(&columns, row, budget));
            }
        }
        Ok(())
    });
}

/// `fold_of(key, k [, seed])`: a number from 0 to k - 1.
unsafe extern "C" fn fold_of(info: Handle, chunk: Handle, out: Handle) {
    scalar_guard(info, "fold_of", || {
        // SAFETY: a live chunk of the registered types and an output of BIGINTs.
        unsafe {
            let rows = api::duckdb_data_chunk_get_size(chunk) as usize;
            let k = Vector::of_chunk(chunk, 1);
            let seeded = api::duckdb_data_chunk_get_column_count(chunk) > 2;
            let seeds = seeded.then(|| Vector::of_chunk(chunk, 2));
            // A NULL seed is the default.
            let begin = |row| match seeds.filter(|seeds| !seeds.is_null(row)) {
                Some(seeds) => fold::begin(seeds.get(row)),
                None => fold::begin(0),
            };
            let mut hashes = (0..rows).map(begin).collect::<Result<Vec<_>, _>>()?;
            mix_key(Vector::of_chunk(chunk, 0), &mut hashes)?;
            let folds = Vector::output(out).data::<i64>();
            for (row, hash) in hashes.into_iter().enumerate() {
                if k.is_null(row) {
                    return Err("k is NULL; it must be a whole number >= 2".to_string());
                }
                folds.add(row).write(fold::fold(hash, k.get(row))?);
            }
        }
        Ok(())
    });
}

fn aggregate_guard(info: Handle, function: &str, work: impl FnOnce() -> Result<(), String>) {
    // SAFETY: DuckDB's own handle, live during the call.
    let failed = |info, text| unsafe { api::duckdb_aggregate_function_set_error(info, text) };
    guard(info, failed, || work().map_err(|message| format!("{function}: {message}")));
}

fn scalar_guard(info: Handle, function: &str, work: impl FnOnce() -> Result<(), String>) {
    // SAFETY: DuckDB's own handle, live during the call.
    let failed = |info, text| unsafe { api::duckdb_scalar_function_set_error(info, text) };
    guard(info, failed, || work().map_err(|message| format!("{function}: {message}")));
}

/// Run `work`; hand an error or a panic to DuckDB as text.
fn guard(
    info: Handle,
    failed: impl FnOnce(Handle, *const c_char),
    work: impl FnOnce() -> Result<(), String>,
) -> bool {
    let message = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => return true,
        Ok(Err(message)) => message,
        Err(_) => "internal error: panic in the native library".to_string(),
    };
    let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
    failed(info, message.as_ptr());
    false
}

//! Entry points for DuckDB: an extension on the stable C API.
//!
//! | SQL | kind |
//! |---|---|
//! | `gram(row [, weight] [, options])` | aggregate; `row` is any STRUCT |
//! | `gram_missing(row [, weight] [, options])` | aggregate; missing numbers are 0, or a mean far from it, with indicators |
//! | `gram_mean(row [, weight] [, options])` | aggregate; missing numbers are the mean of the others |
//! | `dbselect_gram(row, policies [, weight])` | aggregate behind `dbselect.gram` |
//! | `gram_patterns(row [, weight] [, options])` | aggregate: a list of records, one a pattern of what is missing |
//! | `gram_merge(record)`, of such lists too | aggregate |
//! | `gram_em(patterns [, options])` | scalar: one record of all patterns, by EM |
//! | `fit_glm(row, target, family [, options])` | aggregate that keeps its rows; so are `summary_glm`, `glm_check` and `anytime_sequence_glm` |
//! | `glm_mean(family, predictor)` | scalar: the mean of a linear predictor |
//! | `gram_remove(a, b)`, of lists too | scalar |
//! | `dbselect_memory_limit(limit [, share])` | scalar behind `dbselect.memory_limit` |
//! | `gram_select(record, columns)` | scalar: the record of some columns |
//! | `gram_extend(record, sums, table [, options])` | scalar: with the columns of a table that is looked up |
//! | `fold_of(key, k [, seed])` | scalar; `key` of any type |
//! | `gram_impute(record)` | scalar: missing values are the mean, without indicators |
//! | `anytime_sequence(record, target [, options])` | scalar; so are all of `search::methods` |
//! | `dbselect_a_optimal(candidates, k, beta2, sigma2, scale_rows)` | scalar: which rows to observe, behind `dbselect.a_optimal` |
//! | `dbselect_allocate(segments, budget)` | scalar: a prefix for each of many sequences, behind `dbselect.allocate` and `dbselect.allocation` |
//! | `gram_check(record, target)` | scalar: why a record cannot be searched |
//! | `anytime_predict(sequence, row [, budget] [, options])` | scalar; `row` is any STRUCT |
//! | `predict(model or sequence, row [, options])`, `glm_predict` | scalar; a model is a STRUCT with intercept and coefficients |
//! | `evaluate(model or sequence, record [, target])` | scalar: the error on the rows of a record |
//! | `predict_available(record, target, row [, options])` | scalar: the prediction from the groups that the row has |
//! | `model_sql(model or sequence [, options])` | scalar: the prediction as an SQL expression |
//!
//! `names` gives them named arguments, as `dbselect.anytime_sequence(g, 'y', budget := 5)`.

mod aggregates;
mod allocations;
mod answers;
mod api;
mod asked;
mod designs;
mod glm;
mod grams;
mod lookups;
mod names;
mod patterns;
mod predictions;
mod records;
mod searches;
mod sequences;
mod states;
mod table;
mod types;
mod values;
mod vectors;

use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use api::{Access, Handle, Update, type_id};
use patterns::Merged;
use records::{Records, write_records};
use table::mix_key;
use types::{LogicalType, plain};
use values::Values;
use vectors::Vector;

use crate::kernel::fold;
use crate::linear::patterns::PatternSums;
use crate::linear::select::select;
use crate::memory;
use crate::methods::answer::{ARRIVED, JUDGED, JUDGED_STEPS};
use crate::methods::options;
use crate::methods::{METHODS, Method};
use crate::record::fills::impute;
use crate::record::gram::Record;
use crate::record::rows::Group;
use crate::words;

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
            if api::passes_a_state_a_row() {
                states::set_flat();
            }
            let mut connection = std::ptr::null_mut();
            if api::duckdb_connect(*((*access).get_database)(info), &mut connection) != 0 {
                return Err("cannot connect to register the functions".to_string());
            }
            states::budget::of_environment()?;
            let registered = register(connection).and_then(|()| {
                names::run(connection, states::budget::DEFAULT)?;
                match names::is_free(connection) {
                    true => names::attach(connection),
                    false => Ok(()),
                }
            });
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
        // A weight, options or both: options are a STRUCT.
        let rows: [&[LogicalType]; 3] = [&[any()], &[any(), any()], &[any(), any(), any()]];
        let text = || plain(type_id::VARCHAR);
        let told: [&[LogicalType]; 2] = [&[any(), text()], &[any(), text(), double()]];
        let to_record = |name: &CStr, overloads: &[&[LogicalType]], aggregate| {
            register_aggregate(connection, name, &[(overloads, &record(), &aggregate)])
        };
        let of_rows = Aggregate::of_record;
        to_record(c"gram", &rows, of_rows(aggregates::gram))?;
        to_record(c"gram_missing", &rows, of_rows(aggregates::gram_missing))?;
        to_record(c"gram_mean", &rows, of_rows(aggregates::gram_mean))?;
        to_record(c"dbselect_gram", &told, of_rows(aggregates::gram_told))?;
        // NULL fits all types, and must fit one best.
        let null = || plain(type_id::SQLNULL);
        let records: [&[LogicalType]; 3] = [&[record()], &[types::record_of_before()], &[null()]];
        let lists = types::patterns;
        let merging: [Overloaded<&Aggregate>; 2] = [
            (&records, &record(), &Aggregate::merging()),
            (&[&[lists()]], &lists(), &Aggregate::merging_patterns()),
        ];
        register_aggregate(connection, c"gram_merge", &merging)?;
        let gathering = (&rows[..], &lists(), &Aggregate::of_patterns());
        register_aggregate(connection, c"gram_patterns", &[gathering])?;
        let calls: [&[LogicalType]; 3] = [&[lists()], &[lists(), any()], &[null(), any()]];
        register_scalar(connection, c"gram_em", &calls, &record(), patterns::gram_em)?;
        // A row, a target, a family, and maybe options, in one STRUCT or two.
        let asked = [0, 1, 2].map(|more| arguments(&[&any, &text, &text], more));
        let asked = asked.each_ref().map(Vec::as_slice);
        for method in &crate::glm::request::METHODS {
            let name = CString::new(method.name).map_err(|error| error.to_string())?;
            let Some(returns) = method.returns() else { continue };
            let (returns, aggregate) = (types::of_answer(returns), Aggregate::of_rows(method));
            register_aggregate(connection, &name, &[(&asked, &returns, &aggregate)])?;
        }
        register_scalar(connection, c"gram_impute", &[&[record()]], &record(), impute_mean)?;
        let cut = [&record as &dyn Fn() -> LogicalType, &types::record_of_before, &null];
        let cut = cut.map(|record| arguments(&[record], 1));
        let cut: Vec<&[LogicalType]> = cut.iter().map(Vec::as_slice).collect();
        register_scalar(connection, c"gram_select", &cut, &record(), select_columns)?;
        let looked = [2, 3].map(|more| arguments(&[&record], more));
        let looked: Vec<&[LogicalType]> = looked.iter().map(Vec::as_slice).collect();
        register_scalar(connection, c"gram_extend", &looked, &record(), lookups::gram_extend)?;
        let told = [text(), double()];
        register_scalar(connection, c"glm_mean", &[&told], &double(), glm::mean)?;
        let limits: [&[LogicalType]; 2] = [&[text()], &[text(), double()]];
        let name = c"dbselect_memory_limit";
        register_scalar(connection, name, &limits, &text(), states::budget::memory_limit)?;
        let bigint = || plain(type_id::BIGINT);
        let two_records = [record(), record()];
        let two_of_before = [types::record_of_before(), types::record_of_before()];
        let nothing = [[record(), null()], [null(), record()], [null(), null()]];
        let pairs: [&[_]; 5] =
            [&two_records, &two_of_before, &nothing[0], &nothing[1], &nothing[2]];
        let removing: [Overloaded<api::ScalarCall>; 2] = [
            (&pairs, &record(), remove),
            (&[&[lists(), lists()]], &lists(), patterns::remove_lists),
        ];
        register_method(connection, c"gram_remove", &removing, None)?;
        let overloads: [&[_]; 2] = [&[any(), bigint()], &[any(), bigint(), bigint()]];
        register_scalar(connection, c"fold_of", &overloads, &bigint(), fold_of)?;
        // Of each record, nothing, a STRUCT of options, or two; columns before these.
        let kinds: [&dyn Fn() -> LogicalType; 3] = [&record, &types::record_of_before, &null];
        let asked = |most: usize| {
            let of = |record| (0..=most).map(move |n| arguments(&[record, &text], n));
            kinds.into_iter().flat_map(of).collect::<Vec<_>>()
        };
        for method in &METHODS {
            let name = CString::new(method.name).map_err(|error| error.to_string())?;
            let overloads = asked(method.places.len() + 2);
            let overloads: Vec<&[LogicalType]> = overloads.iter().map(Vec::as_slice).collect();
            let (returns, call): (LogicalType, api::ScalarCall) = match method.returns() {
                Some(returns) => (types::of_answer(returns), answers::answer),
                None => (types::sequence(), searches::search),
            };
            register_method(connection, &name, &[(&overloads, &returns, call)], Some(method))?;
        }
        let checks = asked(0);
        let checks: Vec<&[LogicalType]> = checks.iter().map(Vec::as_slice).collect();
        register_scalar(connection, c"gram_check", &checks, &text(), searches::gram_check)?;
        let design = arguments(&[], 5);
        let places = types::of_answer(&designs::PLACES);
        let name = c"dbselect_a_optimal";
        register_scalar(connection, name, &[&design], &places, designs::a_optimal)?;
        let gathered = types::of_answer(&allocations::GATHERED);
        let (name, found) = (c"dbselect_allocate", types::of_answer(&allocations::FOUND));
        let call = allocations::allocate_budget;
        register_scalar(connection, name, &[&[gathered, plain(type_id::ANY)]], &found, call)?;
        let prediction = types::prediction();
        let kinds: [&dyn Fn() -> LogicalType; 4] =
            [&types::sequence, &types::sequence_of_entries, &types::nothing_listed, &null];
        let rows = |sequence: &dyn Fn() -> LogicalType| {
            (0..3).map(|n| arguments(&[sequence, &any], n)).collect::<Vec<_>>()
        };
        let rows: Vec<_> = kinds.into_iter().flat_map(rows).collect();
        let rows: Vec<&[LogicalType]> = rows.iter().map(Vec::as_slice).collect();
        let (name, call) = (c"anytime_predict", predictions::anytime_predict);
        register_scalar(connection, name, &rows, &prediction, call)?;
        // Models have many types, which the call checks.
        let kinds: [&dyn Fn() -> LogicalType; 5] =
            [&types::sequence, &types::sequence_of_entries, &types::nothing_listed, &null, &any];
        let rows: Vec<_> =
            kinds.iter().flat_map(|of| (0..2).map(|n| arguments(&[*of, &any], n))).collect();
        let rows: Vec<&[LogicalType]> = rows.iter().map(Vec::as_slice).collect();
        register_scalar(connection, c"predict", &rows, &prediction, predictions::predict)?;
        let (name, call) = (c"glm_predict", predictions::glm_predict);
        register_scalar(connection, name, &rows, &prediction, call)?;
        let of_records: [&dyn Fn() -> LogicalType; 3] = [&record, &types::record_of_before, &null];
        let available: Vec<_> = of_records
            .into_iter()
            .flat_map(|of| (0..3).map(move |n| arguments(&[of, &text, &any], n)))
            .collect();
        let available: Vec<&[LogicalType]> = available.iter().map(Vec::as_slice).collect();
        let (name, returns) = (c"predict_available", types::of_answer(&ARRIVED));
        register_scalar(
            connection,
            name,
            &available,
            &returns,
            predictions::arrived::predict_available,
        )?;
        register_evaluate(connection, &of_records)?;
        let models: Vec<_> =
            kinds.iter().flat_map(|of| (0..2).map(|n| arguments(&[*of], n))).collect();
        let models: Vec<&[LogicalType]> = models.iter().map(Vec::as_slice).collect();
        register_scalar(connection, c"model_sql", &models, &text(), predictions::written::model_sql)
    }
}

/// Of sequences a list comes, of models one STRUCT.
///
/// # Safety
/// `connection` is live.
unsafe fn register_evaluate(
    connection: Handle,
    of_records: &[&dyn Fn() -> LogicalType],
) -> Result<(), String> {
    let (any, null) = (|| plain(type_id::ANY), || plain(type_id::SQLNULL));
    let kinds: [(&dyn Fn() -> LogicalType, _); 5] = [
        (&types::sequence, &JUDGED_STEPS),
        (&types::sequence_of_entries, &JUDGED_STEPS),
        (&types::nothing_listed, &JUDGED_STEPS),
        (&null, &JUDGED),
        (&any, &JUDGED),
    ];
    let mut overloads = Vec::new();
    for (model, returns) in kinds {
        for of in of_records {
            let returns = || types::of_answer(returns);
            overloads.extend((0..2).map(|n| (arguments(&[model, *of], n), returns())));
        }
    }
    let each: Vec<_> =
        overloads.iter().map(|(parameters, returns)| ([&parameters[..]], returns)).collect();
    let call: api::ScalarCall = predictions::judged::evaluate;
    let functions: Vec<Overloaded<api::ScalarCall>> =
        each.iter().map(|(parameters, returns)| (&parameters[..], *returns, call)).collect();
    // SAFETY: see the caller's promise; the call writes what each overload returns.
    unsafe { register_method(connection, c"evaluate", &functions, None) }
}

/// Some types, and then so many of any.
fn arguments(first: &[&dyn Fn() -> LogicalType], more: usize) -> Vec<LogicalType> {
    let more = (0..more).map(|_| plain(type_id::ANY));
    first.iter().map(|one| one()).chain(more).collect()
}

/// The parameters of functions of one name, what they return, and what they call.
type Overloaded<'f, F> = (&'f [&'f [LogicalType]], &'f LogicalType, F);

/// What DuckDB calls of an aggregate.
struct Aggregate {
    update: Update,
    combine: api::Combine,
    finalize: api::Finalize,
    destroy: api::StateDestroy,
    /// Which method it is, if it asks.
    method: Option<&'static Method>,
}

impl Aggregate {
    /// Of rows, to a record.
    fn of_record(update: Update) -> Aggregate {
        Aggregate {
            update,
            combine: aggregates::combine::<Group>,
            finalize: aggregates::finalize,
            destroy: aggregates::state_destroy::<Group>,
            method: None,
        }
    }

    /// Of rows, to a list of records.
    fn of_patterns() -> Aggregate {
        Aggregate {
            update: aggregates::gram_patterns,
            combine: aggregates::combine::<PatternSums>,
            finalize: patterns::finalize,
            destroy: aggregates::state_destroy::<PatternSums>,
            method: None,
        }
    }

    /// Of such lists, to one.
    fn merging_patterns() -> Aggregate {
        Aggregate {
            update: patterns::merge_lists,
            combine: aggregates::combine::<Merged>,
            finalize: patterns::finalize_merged,
            destroy: aggregates::state_destroy::<Merged>,
            method: None,
        }
    }

    /// Of records, to one.
    fn merging() -> Aggregate {
        Aggregate {
            update: aggregates::gram_merge,
            combine: aggregates::combine::<Record>,
            finalize: aggregates::finalize_merged,
            destroy: aggregates::state_destroy::<Record>,
            method: None,
        }
    }

    /// Of rows that are kept.
    fn of_rows(method: &'static Method) -> Aggregate {
        Aggregate {
            update: glm::update,
            combine: glm::combine,
            finalize: glm::finalize,
            destroy: glm::state_destroy,
            method: Some(method),
        }
    }
}

/// # Safety
/// `connection` is live, and the functions fit the parameters and the returned type.
unsafe fn register_aggregate(
    connection: Handle,
    name: &CStr,
    functions: &[Overloaded<&Aggregate>],
) -> Result<(), String> {
    // SAFETY: all handles are made here and destroyed here; DuckDB copies them.
    let state = unsafe {
        let mut set = api::duckdb_create_aggregate_function_set(name.as_ptr());
        let each = functions.iter().flat_map(|(overloads, returns, aggregate)| {
            overloads.iter().map(move |parameters| (parameters, returns, aggregate))
        });
        for (parameters, returns, aggregate) in each {
            let mut function = api::duckdb_create_aggregate_function();
            api::duckdb_aggregate_function_set_name(function, name.as_ptr());
            for parameter in parameters.iter() {
                api::duckdb_aggregate_function_add_parameter(function, parameter.handle());
            }
            api::duckdb_aggregate_function_set_return_type(function, returns.handle());
            api::duckdb_aggregate_function_set_special_handling(function);
            if let Some(method) = aggregate.method {
                let extra = std::ptr::from_ref(method).cast_mut().cast();
                api::duckdb_aggregate_function_set_extra_info(function, extra, None);
            }
            api::duckdb_aggregate_function_set_functions(
                function,
                aggregates::state_size,
                aggregates::state_init,
                aggregate.update,
                aggregate.combine,
                aggregate.finalize,
            );
            api::duckdb_aggregate_function_set_destructor(function, aggregate.destroy);
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
    // SAFETY: see the caller's promise.
    unsafe { register_method(connection, name, &[(overloads, returns, call)], None) }
}

/// The same of a function that asks which method it is.
///
/// # Safety
/// As above.
unsafe fn register_method(
    connection: Handle,
    name: &CStr,
    functions: &[Overloaded<api::ScalarCall>],
    method: Option<&'static Method>,
) -> Result<(), String> {
    // SAFETY: as above.
    let state = unsafe {
        let mut set = api::duckdb_create_scalar_function_set(name.as_ptr());
        let each = functions.iter().flat_map(|(overloads, returns, call)| {
            overloads.iter().map(move |parameters| (parameters, returns, *call))
        });
        for (parameters, returns, call) in each {
            let mut function = api::duckdb_create_scalar_function();
            api::duckdb_scalar_function_set_name(function, name.as_ptr());
            for parameter in parameters.iter() {
                api::duckdb_scalar_function_add_parameter(function, parameter.handle());
            }
            api::duckdb_scalar_function_set_return_type(function, returns.handle());
            // We see NULL arguments ourselves: a NULL budget is no budget.
            api::duckdb_scalar_function_set_special_handling(function);
            if let Some(method) = method {
                let extra = std::ptr::from_ref(method).cast_mut().cast();
                api::duckdb_scalar_function_set_extra_info(function, extra, None);
            }
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

/// `gram_impute(record)`; NULL if it is.
unsafe extern "C" fn impute_mean(info: Handle, chunk: Handle, out: Handle) {
    scalar_guard(info, "gram_impute", || {
        // SAFETY: a live chunk of records and an output of records.
        unsafe {
            let records = Records::of_chunk(chunk, 0);
            let imputed = |row| Ok(records.at(row)?.map(|record| impute(&record)));
            let rows = api::duckdb_data_chunk_get_size(chunk) as usize;
            let mut found: Vec<_> = (0..rows).map(imputed).collect::<Result<_, String>>()?;
            write_records(Vector::output(out), 0, &mut found)?;
        }
        Ok(())
    });
}

/// `gram_select(record, columns)`; NULL if the record is.
unsafe extern "C" fn select_columns(info: Handle, chunk: Handle, out: Handle) {
    scalar_guard(info, "gram_select", || {
        // SAFETY: a live chunk of records and columns, and an output of records.
        unsafe {
            let rows = api::duckdb_data_chunk_get_size(chunk) as usize;
            let records = Records::of_chunk(chunk, 0);
            let named = Values::of(Vector::of_chunk(chunk, 1), rows)?;
            let cut = |row| {
                let columns = named.at(row);
                let patterns = columns.texts().filter(|patterns| !patterns.is_empty());
                let patterns =
                    patterns.ok_or_else(|| options::refused("columns", &columns).message)?;
                let Some(record) = records.at(row)? else { return Ok(None) };
                select(&record, &patterns).map(Some).map_err(|error| error.message)
            };
            let mut found: Vec<_> = (0..rows).map(cut).collect::<Result<_, String>>()?;
            write_records(Vector::output(out), 0, &mut found)?;
        }
        Ok(())
    });
}

/// `gram_remove(a, b)`; NULL if either is.
unsafe extern "C" fn remove(info: Handle, chunk: Handle, out: Handle) {
    scalar_guard(info, "gram_remove", || {
        // SAFETY: a live chunk of two records a row and an output of records.
        unsafe {
            let (wholes, parts) = (Records::of_chunk(chunk, 0), Records::of_chunk(chunk, 1));
            let difference = |row| {
                let whole = wholes.at(row)?;
                let Some((mut whole, part)) = whole.zip(parts.at(row)?) else {
                    return Ok(None);
                };
                whole.remove(&part).map(|()| Some(whole))
            };
            let rows = api::duckdb_data_chunk_get_size(chunk) as usize;
            let mut records: Vec<_> = (0..rows).map(difference).collect::<Result<_, String>>()?;
            write_records(Vector::output(out), 0, &mut records)?;
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
    let work = || states::budget::check().and_then(|()| work());
    guard(info, failed, || work().map_err(|message| told_by(function, message)));
}

fn scalar_guard(info: Handle, function: &str, work: impl FnOnce() -> Result<(), String>) {
    // SAFETY: DuckDB's own handle, live during the call.
    let failed = |info, text| unsafe { api::duckdb_scalar_function_set_error(info, text) };
    guard(info, failed, || work().map_err(|message| told_by(function, message)));
}

/// An error of a function; some sentences are about the function: it has no such option.
fn told_by(function: &str, message: String) -> String {
    let message = words::sql::in_sql(&message);
    match message.strip_prefix(function) {
        Some(rest) if [" has ", " is given ", " needs "].iter().any(|is| rest.starts_with(is)) => {
            message
        }
        _ => format!("{function}: {message}"),
    }
}

/// Run `work`; hand an error or a panic to DuckDB as text.
fn guard(
    info: Handle,
    failed: impl FnOnce(Handle, *const c_char),
    work: impl FnOnce() -> Result<(), String>,
) -> bool {
    let message = match catch_unwind(AssertUnwindSafe(work)).map(memory::in_room) {
        Ok(Ok(())) => return true,
        Ok(Err(message)) => message,
        Err(_) => "internal error: panic in the native library".to_string(),
    };
    let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
    failed(info, message.as_ptr());
    false
}

//! Named arguments: macros over the functions, in a catalog of their own.
//!
//! DuckDB keeps `f(record, target, costs := {...})` for macros. A catalog in memory takes them,
//! so that nothing is written to the user's database, which may be read-only, and that every
//! connection of the process finds `dbselect.f`. They call the functions by their full name, which
//! no macro of the same name hides.

use std::ffi::{CStr, CString};

use super::api::{self, Handle};
use super::states::budget::limit;
use crate::glm::request::METHODS as OF_ROWS;
use crate::methods::{METHODS, Method, PREDICT_AVAILABLE};

/// An error if the name is somebody's: a database in a file, one in memory without our macros,
/// or a schema of the database that is open.
const IS_TAKEN: &str = "SELECT error('''dbselect'' is taken by ' || n) FROM (SELECT \
    (SELECT count(*) FROM duckdb_databases() WHERE lower(database_name) = 'dbselect' \
        AND (path IS NOT NULL OR NOT EXISTS (FROM duckdb_functions() \
            WHERE lower(database_name) = 'dbselect' AND comment LIKE '%dbselect.backward(g,%'))) \
    + (SELECT count(*) FROM duckdb_schemas() WHERE lower(schema_name) = 'dbselect' \
        AND database_name = current_database()) AS n) WHERE n > 0";
/// READ_WRITE, as a read-only database attaches others for reading only by default.
const ATTACH: &str = "ATTACH IF NOT EXISTS ':memory:' AS dbselect (READ_WRITE)";

/// The records of the facts by key as one value, which `gram_extend` takes.
const KEY_SUMS: &str = "CREATE OR REPLACE MACRO dbselect.main.key_sums(\"key\", record) AS \
    list({'key': \"key\", 'gram': record})";
/// The keys of the rows to observe: an aggregate, as `list` is one.
const A_OPTIMAL: (&str, &str, &str) = (
    "a_optimal",
    "(\"key\", \"row\", k, beta2 := NULL, sigma2 := NULL, scale_rows := NULL) AS \
         list_transform(list_select(list({'key': \"key\", 'row': \"row\"} ORDER BY \"key\"), \
         system.main.dbselect_a_optimal(list({'key': \"key\", 'row': \"row\"} ORDER BY \"key\"), \
         k, beta2, sigma2, scale_rows)), lambda one: one.key)",
    "The keys of the k rows to observe so that a linear model is known best: \
         dbselect.a_optimal(id, {'a': a, 'b': b}, 10)",
);
/// The sequences of a table as one list; a NULL is NaN, which the function refuses by its row.
const GATHERED: &str = "(sequences, budget := NULL, \"rows\" := 'rows', worth := NULL) AS TABLE \
    WITH numbered AS MATERIALIZED ( \
        SELECT row_number() OVER () AS n, s FROM query_table(sequences) AS s), \
    gathered AS (SELECT list({ \
            'n': n, \
            'rows': coalesce(struct_extract(s, \"rows\")::DOUBLE, 'nan'), \
            'worth': if(worth IS NULL, 1, \
                coalesce(struct_extract(s, coalesce(worth, \"rows\"))::DOUBLE, 'nan')), \
            'spent': coalesce([coalesce(x.spent::DOUBLE, 'nan') for x in s.sequence], []), \
            'explained': coalesce([coalesce(x.explained::DOUBLE, 'nan') for x in s.sequence], []) \
        }) AS segments FROM numbered), \
    found AS (SELECT system.main.dbselect_allocate(segments, budget) AS own FROM gathered)";
/// A prefix for each of them, and the whole: a name, what it selects, and what comes of it.
const ALLOCATE: [(&str, &str, &str); 2] = [
    (
        "allocate",
        ", chosen AS (SELECT unnest(own.chosen) AS own FROM found) \
         SELECT unnest(s), own.step, own.spent, own.explained \
         FROM numbered JOIN chosen ON numbered.n = own.n",
        "For each sequence of a table the step at which rows cost a budget on average and explain \
         most: FROM dbselect.allocate(''sequences'', budget := 8, worth := ''target_variance'')",
    ),
    (
        "allocate_summary",
        " SELECT own.value, own.spent, own.bound FROM found",
        "What dbselect.allocate explains and costs a row, on average, and what no choice of steps \
         exceeds: FROM dbselect.allocate_summary(''sequences'', budget := 8)",
    ),
];
/// Parameters of the aggregates of rows, and what is passed on of them: as DuckDB plans the query,
/// it computes the constant `_limit`, which sets the limit.
const GRAM: (&str, &str) = (
    "\"row\", weight := NULL, max_levels := NULL",
    concat!("\"row\", weight, {'max_levels': max_levels, '_limit': ", limit!(), "}"),
);
/// Parameters of a prediction, and what is passed on of them.
const PREDICT: (&str, &str) = (
    "model, \"row\", budget := NULL, handle_unknown := NULL, missing_columns := NULL",
    "model, \"row\", {'budget': budget, 'handle_unknown': handle_unknown, \
     'missing_columns': missing_columns}",
);
/// The limit of what groups hold, and a new one.
const MEMORY_LIMIT: &str = concat!(
    "CREATE OR REPLACE MACRO dbselect.main.memory_limit() AS ",
    limit!(),
    ", (bytes) AS system.main.dbselect_memory_limit(bytes::VARCHAR)"
);
/// The table of all functions, `FROM dbselect.functions()`, which release/functions.py writes.
const FUNCTIONS: &str = include_str!("functions.sql");
/// Parameters, what is passed on of them, and what comes of it.
const OTHERS: [(&str, &str, &str, &str); 14] = [
    (
        "gram",
        GRAM.0,
        GRAM.1,
        "The Gram record of rows: dbselect.gram({'a': a, 'y': y}, weight := w)",
    ),
    (
        "gram_missing",
        GRAM.0,
        GRAM.1,
        "The same, with indicators where numbers are missing: dbselect.gram_missing({'a': a})",
    ),
    (
        "gram_mean",
        GRAM.0,
        GRAM.1,
        "The same, with the mean where numbers are missing: dbselect.gram_mean({'a': a})",
    ),
    (
        "gram_patterns",
        "\"row\", weight := NULL, max_levels := NULL, max_patterns := NULL",
        concat!(
            "\"row\", weight, {'max_levels': max_levels, 'max_patterns': max_patterns, '_limit': ",
            limit!(),
            "}"
        ),
        "Gram records of rows with gaps, one a pattern of what is missing: \
         dbselect.gram_patterns({'a': a, 'y': y})",
    ),
    (
        "gram_em",
        "patterns, max_iterations := NULL, tolerance := NULL, prior := NULL",
        "patterns, {'max_iterations': max_iterations, 'tolerance': tolerance, 'prior': prior}",
        "One Gram record of all patterns of gaps, by EM under normality: dbselect.gram_em(p)",
    ),
    (
        "fold_of",
        "\"key\", k, seed := NULL",
        "\"key\", k, seed",
        "The fold of a key, from 0 to k - 1: dbselect.fold_of(id, 5, seed := 1)",
    ),
    (
        "gram_check",
        "record, target",
        "record, target",
        "Why no sequence can be computed from a Gram record, NULL if one can: \
         dbselect.gram_check(g, 'y')",
    ),
    (
        "gram_extend",
        "record, sums, \"table\", \"key\" := NULL, columns := NULL, name := NULL, \
         unmatched := NULL, max_levels := NULL",
        "record, sums, \"table\", {'key': \"key\", 'columns': columns, 'name': name, \
         'unmatched': unmatched, 'max_levels': max_levels}",
        "A Gram record with the columns of a table that is looked up by a key: \
         dbselect.gram_extend(g, dbselect.key_sums({'shop': shop}, g), (SELECT list(t) FROM t))",
    ),
    (
        "anytime_predict",
        "sequence, \"row\", budget := NULL, handle_unknown := NULL, missing_columns := NULL",
        "sequence, \"row\", budget, \
         {'handle_unknown': handle_unknown, 'missing_columns': missing_columns}",
        "The prediction of the longest prefix within the budget whose columns are all there: \
         dbselect.anytime_predict(s, {'a': 1.5}, budget := 5)",
    ),
    (
        "predict",
        PREDICT.0,
        PREDICT.1,
        "What a model of any method and family predicts, or a sequence within a budget: \
         dbselect.predict(m, {'a': 1.5}, budget := 5)",
    ),
    (
        "glm_predict",
        PREDICT.0,
        PREDICT.1,
        "The same of a model or a sequence of a family: dbselect.glm_predict(s, {'a': 1.5})",
    ),
    (
        "evaluate",
        "model, record, target := NULL",
        "model, record, target",
        "The error of a model, or of each step of a sequence, on the rows of a record: \
         dbselect.evaluate(m, g)",
    ),
    (
        "predict_available",
        "record, target, \"row\", options := NULL, groups := NULL, costs := NULL, \
         budget := NULL, level := NULL, handle_unknown := NULL, missing_columns := NULL, \
         accept_above := NULL, worth := NULL, payoff := NULL, intercept := NULL, ridge := NULL, \
         scale := NULL, always := NULL, shared := NULL, needs := NULL, one_of := NULL, \
         limits := NULL",
        "record, target, \"row\", options, {'groups': groups, 'costs': costs, 'budget': budget, \
         'level': level, 'handle_unknown': handle_unknown, 'missing_columns': missing_columns, \
         'accept_above': accept_above, 'worth': worth, 'payoff': payoff, \
         'intercept': intercept, 'ridge': ridge, 'scale': scale, 'always': always, 'shared': shared, 'needs': needs, \
         'one_of': one_of, 'limits': limits}",
        PREDICT_AVAILABLE.about,
    ),
    (
        "model_sql",
        "model, budget := NULL, handle_unknown := NULL",
        "model, {'budget': budget, 'handle_unknown': handle_unknown}",
        "The prediction of a model or a prefix as an SQL expression, which needs no extension: \
         dbselect.model_sql(m)",
    ),
];
/// Whether nothing of the user's is called as the catalog is, which would hide it or be hidden.
///
/// # Safety
/// `connection` is live.
pub unsafe fn is_free(connection: Handle) -> bool {
    // SAFETY: see the caller's promise.
    unsafe { run(connection, IS_TAKEN) }.is_ok()
}

/// Attach the catalog `dbselect` with the macros; the plain functions need none.
///
/// # Safety
/// `connection` is live, and has the functions registered.
pub unsafe fn attach(connection: Handle) -> Result<(), String> {
    // SAFETY: see the caller's promise.
    let run = |statement: &str| unsafe { run(connection, statement) };
    run(ATTACH)?;
    // SAFETY: see the caller's promise.
    let takes_places = unsafe { !api::is_before((1, 4)) };
    METHODS.iter().try_for_each(|method| {
        define(method.name, &bodies(method, takes_places), method.about, run)
    })?;
    run(KEY_SUMS)?;
    create(A_OPTIMAL.0, A_OPTIMAL.1, A_OPTIMAL.2, run)?;
    run(MEMORY_LIMIT)?;
    run(FUNCTIONS)?;
    ALLOCATE.iter().try_for_each(|(name, selected, does)| {
        run(&format!("CREATE OR REPLACE MACRO dbselect.main.{name}{GATHERED}{selected}"))?;
        run(&format!("COMMENT ON MACRO TABLE dbselect.main.{name} IS '{does}'"))
    })?;
    OF_ROWS
        .iter()
        .try_for_each(|method| define(method.name, &[body_of_rows(method)], method.about, run))?;
    OTHERS.iter().try_for_each(|(name, parameters, passed, does)| {
        define(name, &[(parameters.to_string(), passed.to_string())], does, run)
    })
}

/// What the macro of a method takes and passes on: its places, options, and all by name.
///
/// Before DuckDB 1.4 a parameter with a default had to be named: an overload for each number of
/// places that are given.
fn bodies(method: &Method, takes_places: bool) -> Vec<(String, String)> {
    let names = method.options();
    let places: Vec<&str> = method.places.iter().copied().chain(["options"]).collect();
    let named = |from: usize| names.iter().skip(from).copied().collect::<Vec<&str>>();
    let body = |given: usize, optional: &[&str], named: &[&str]| {
        // `limit` is a word of SQL.
        let own = |name: &str| if name == "limit" { "\"limit\"" } else { name }.to_string();
        let optional = optional.iter().chain(named).map(|name| format!("{} := NULL", own(name)));
        let first =
            ["record", "target"].iter().chain(&places[..given]).map(|name| name.to_string());
        let parameters: Vec<String> = first.clone().chain(optional).collect();
        let fields: Vec<String> =
            named.iter().map(|name| format!("'{name}': {}", own(name))).collect();
        let passed: Vec<String> = match given {
            0 if takes_places => {
                ["record", "target"].iter().chain(&places).map(|name| name.to_string()).collect()
            }
            _ => first.collect(),
        };
        // DuckDB knows no STRUCT without fields.
        let by_name = Some(format!("{{{}}}", fields.join(", "))).filter(|_| !fields.is_empty());
        let passed: Vec<String> = passed.into_iter().chain(by_name).collect();
        (parameters.join(", "), passed.join(", "))
    };
    match takes_places {
        true => vec![body(0, &places, &named(method.places.len()))],
        false => (0..=places.len())
            .map(|given| body(given, &[], &named(given.min(method.places.len()))))
            .collect(),
    }
}

/// The same of a method of rows.
fn body_of_rows(method: &Method) -> (String, String) {
    let first = "\"row\", target, family, options";
    let names = method.options();
    // `offset` is a word of SQL.
    let own = |name: &str| if name == "offset" { "offset_column" } else { name }.to_string();
    let named: Vec<String> = names.iter().map(|name| format!("{} := NULL", own(name))).collect();
    let fields: Vec<String> = names.iter().map(|name| format!("'{name}': {}", own(name))).collect();
    let parameters = format!("{first} := NULL, {}", named.join(", "));
    (parameters, format!("{first}, {{{}}}", fields.join(", ")))
}

/// Make a macro of overloads: parameters, and what is passed on of them.
fn define(
    name: &str,
    overloads: &[(String, String)],
    does: &str,
    run: impl Fn(&str) -> Result<(), String>,
) -> Result<(), String> {
    let overload = |(parameters, passed): &(String, String)| {
        format!("({parameters}) AS system.main.{name}({passed})")
    };
    let overloads: Vec<String> = overloads.iter().map(overload).collect();
    create(name, &overloads.join(", "), does, run)
}

/// Make a macro of its parameters and body.
fn create(
    name: &str,
    text: &str,
    does: &str,
    run: impl Fn(&str) -> Result<(), String>,
) -> Result<(), String> {
    let does = does.replace('\'', "''");
    run(&format!("CREATE OR REPLACE MACRO dbselect.main.{name}{text}"))?;
    run(&format!("COMMENT ON MACRO dbselect.main.{name} IS '{does}'"))
}

/// Run a statement; the error is DuckDB's.
///
/// # Safety
/// `connection` is live.
pub unsafe fn run(connection: Handle, statement: &str) -> Result<(), String> {
    let statement = CString::new(statement).map_err(|error| error.to_string())?;
    let mut result = api::Result::default();
    // SAFETY: see the caller's promise; the error is copied before the result is destroyed.
    unsafe {
        let state = api::duckdb_query(connection, statement.as_ptr(), &mut result);
        let error = api::duckdb_result_error(&mut result);
        let told = (state != 0).then(|| match error.is_null() {
            true => "DuckDB gives no reason".to_string(),
            false => CStr::from_ptr(error).to_string_lossy().into_owned(),
        });
        api::duckdb_destroy_result(&mut result);
        told.map_or(Ok(()), Err)
    }
}

//! What a chunk of calls asks for, and what is planned for it.
//!
//! Options are a STRUCT, or two, as the macros of `names` pass on what they are given by name; the
//! method's places may stand before them.

use std::sync::Arc;

use super::api::{self, Handle};
use super::grams::Grams;
use super::values::Values;
use super::vectors::{Vector, bytes, text};
use crate::methods::Method;
use crate::methods::options::OF_PYTHON;
use crate::record::gram::Names;
use crate::record::terms::Terms;
use crate::words::error::Error;
use crate::words::value::Value;

/// The method, target and options for each record of a chunk.
pub struct Asked<'c> {
    method: &'static Method,
    targets: Vector,
    options: Vec<Values<'c>>,
}

impl<'c> Asked<'c> {
    /// The arguments of a method.
    ///
    /// # Safety
    /// A live chunk of records, targets and options, which has that many rows and lives as long as the result.
    pub unsafe fn of_chunk(
        method: &'static Method,
        chunk: Handle,
        rows: usize,
    ) -> Result<Self, String> {
        // SAFETY: see the caller's promise.
        unsafe {
            let columns = api::duckdb_data_chunk_get_column_count(chunk);
            let options = |at| Values::of(Vector::of_chunk(chunk, at), rows);
            let options: Vec<Values> = (2..columns).map(options).collect::<Result<_, _>>()?;
            let has_place =
                |(at, given): (usize, &Values)| at < method.places.len() || given.has_names();
            if !options.iter().enumerate().all(has_place) {
                let way = named_arguments(method);
                return Err(format!("options must be a STRUCT of options by name; {way}"));
            }
            Ok(Asked { method, targets: Vector::of_chunk(chunk, 1), options })
        }
    }

    /// # Safety
    /// The chunk is live and has both rows.
    unsafe fn same(&self, a: usize, b: usize) -> bool {
        // SAFETY: see the caller's promise; no target of a request is NULL.
        unsafe {
            !self.targets.is_null(b)
                && bytes(self.targets, a) == bytes(self.targets, b)
                && self.options.iter().all(|options| options.same(a, b))
        }
    }

    /// The request of each row, read once where those of rows one after another are the same.
    ///
    /// # Safety
    /// The chunk is live and has that many rows.
    pub unsafe fn requests<R>(
        &self,
        rows: usize,
        read: impl Fn(&str, &[(String, Value)]) -> Result<R, Error>,
    ) -> Result<Vec<Arc<R>>, String> {
        let mut found: Vec<Arc<R>> = Vec::with_capacity(rows);
        for row in 0..rows {
            // SAFETY: see the caller's promise.
            let request = unsafe {
                match found.last() {
                    Some(last) if self.same(row - 1, row) => last.clone(),
                    _ => Arc::new(self.read(row, &read)?),
                }
            };
            found.push(request);
        }
        Ok(found)
    }

    /// # Safety
    /// The chunk is live and has that row.
    unsafe fn read<R>(
        &self,
        row: usize,
        read: impl Fn(&str, &[(String, Value)]) -> Result<R, Error>,
    ) -> Result<R, String> {
        // SAFETY: see the caller's promise.
        let (target, options) = unsafe {
            let options: Vec<Value> = self.options.iter().map(|given| given.at(row)).collect();
            (target_of(self.targets, row)?, options)
        };
        let named = options.into_iter().enumerate().flat_map(|(at, options)| match options {
            Value::Map(named) => named,
            Value::Nothing => Vec::new(),
            value => self
                .method
                .places
                .get(at)
                .map_or(Vec::new(), |place| vec![(place.to_string(), value)]),
        });
        // Names of a STRUCT have no case.
        let given: Vec<_> = named.map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
        if given.iter().any(|(name, _)| name.is_empty()) {
            return Err("options has a field without a name; name every field".to_string());
        }
        let method = self.method.name;
        let is_of_python = |name: &str| OF_PYTHON.contains(&(method, name));
        if let Some((name, _)) = given.iter().find(|(name, _)| is_of_python(name)) {
            return Err(format!(
                "{method} has no option '{name}' in SQL; dbselect.{method} has it in Python"
            ));
        }
        let known = self.method.options();
        read(&target, &given).map_err(|error| {
            match given.iter().all(|(name, _)| known.contains(&&name[..])) {
                true => error.message,
                false => format!("{}; {}", error.message, named_arguments(self.method)),
            }
        })
    }
}

/// DuckDB takes `f(g, 'y', costs := {...})` for a STRUCT at the place of the options, of a function
/// that is no macro.
fn named_arguments(method: &Method) -> String {
    format!("named arguments: dbselect.{}(...)", method.name)
}

/// The target of a row.
///
/// # Safety
/// A VARCHAR vector with that row.
pub unsafe fn target_of(targets: Vector, row: usize) -> Result<String, String> {
    if targets.is_null(row) {
        return Err("target is None; it must be the name of a column".to_string());
    }
    // SAFETY: see the caller's promise.
    Ok(unsafe { text(targets, row) })
}

/// The plans made so far: those of a chunk have mostly the same columns and options.
pub struct Plans<R, P> {
    plans: Vec<Known<R, P>>,
    last: usize,
}

/// A plan, and what it was made of.
pub struct Known<R, P> {
    request: Arc<R>,
    /// The columns of the records.
    pub columns: Names,
    /// How they came to be.
    pub terms: Arc<Terms>,
    /// The same as the records have it.
    json: Option<String>,
    /// What is planned for them.
    pub plan: P,
}

impl<R, P> Default for Plans<R, P> {
    fn default() -> Self {
        Plans { plans: Vec::new(), last: 0 }
    }
}

impl<R, P> Plans<R, P> {
    /// The plan of a request for a record that has a Gram; nothing if its columns or terms are
    /// those of none.
    ///
    /// # Safety
    /// The chunk is live and has that row.
    pub unsafe fn of(
        &mut self,
        request: &Arc<R>,
        grams: &Grams,
        row: usize,
        plan: impl Fn(&R, &[String], &Terms) -> Result<P, Error>,
    ) -> Result<Option<&Known<R, P>>, String> {
        // SAFETY: see the caller's promise.
        unsafe {
            let json = grams.terms(row);
            let is_it = |known: &Known<R, P>| {
                Arc::ptr_eq(&known.request, request)
                    && known.json.as_deref().map(str::as_bytes) == json
                    && grams.has_columns(row, &known.columns)
            };
            if !self.plans.get(self.last).is_some_and(is_it) {
                self.last = match self.plans.iter().position(is_it) {
                    Some(found) => found,
                    None => {
                        let Ok(Some(record)) = grams.record(row) else {
                            return Ok(None);
                        };
                        let plan = plan(request, &record.columns, &record.terms);
                        let plan = plan.map_err(|error| error.message)?;
                        let json = json.map(|json| String::from_utf8_lossy(json).into_owned());
                        let (columns, terms) = (record.columns, record.terms);
                        let request = request.clone();
                        self.plans.push(Known { request, columns, terms, json, plan });
                        self.plans.len() - 1
                    }
                };
            }
        }
        Ok(self.plans.get(self.last))
    }
}

//! One row at a time, as JSON: for services, where a frame would cost more than the prediction.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ffi::{CStr, CString, c_char};
use std::fmt::Write;
use std::slice;
use std::sync::{Mutex, PoisonError};

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use serde_json::{Map, Value};

use super::{guard, only_batch};
use crate::arrived::rows::{Arrivals, Found};
use crate::hosts::arrived::Asked;
use crate::kernel::chunk::Missing;
use crate::record::arrow::read_record;
use crate::record::inputs::{Column, Kind, MissingColumns, Rows};
use crate::record::texts::{Texts, Values};
use crate::words::nearest;

/// Sets of names of rows that are known to be right.
const MOST_SHAPES: usize = 1024;
/// How much a name is like one that a row lacks that is taken for it, mistyped.
const MISTYPED: f64 = 0.8;
/// Seconds of a day.
const DAY: f64 = 86_400.0;

/// A predictor of single rows.
pub struct RowPredictor {
    fields: Vec<Field>,
    absent: MissingColumns,
    state: Mutex<State>,
}

struct State {
    arrivals: Arrivals,
    /// Names of rows that were checked.
    seen: HashSet<Vec<String>>,
}

/// A field that is read.
struct Field {
    name: String,
    kind: Kind,
    /// What a second is in it, if it is a date.
    second: Option<f64>,
}

impl Field {
    /// The value of a row, by a name that may lead into objects and lists.
    fn of<'j>(&self, row: &'j Map<String, Value>) -> Option<&'j Value> {
        if let Some(value) = row.get(&self.name) {
            return Some(value);
        }
        let end = self.name.find(['.', '['])?;
        let (head, mut rest) = self.name.split_at(end);
        let mut value = row.get(head)?;
        while !rest.is_empty() {
            let inner = &rest[1..];
            let end = inner.find(['.', '[', ']']).unwrap_or(inner.len());
            value = match (rest.as_bytes()[0], value) {
                (_, Value::Null) => return Some(&Value::Null),
                (b'[', list) => list.get(inner[..end].parse::<usize>().ok()?.checked_sub(1)?)?,
                (_, object) => object.get(&inner[..end])?,
            };
            rest = inner[end..].trim_start_matches(']');
        }
        Some(value)
    }

    fn refuse(&self, value: &Value) -> String {
        let shown = match value {
            Value::String(text) => format!("'{text}'"),
            Value::Object(own) if own.contains_key("seconds") => "a date".to_string(),
            other => other.to_string(),
        };
        let wanted = match self.kind {
            Kind::Text => "the levels of its category are text",
            Kind::Boolean => "the levels of its category are boolean",
            Kind::Whole => "the levels of its category are integer",
            _ => "the fit has read a number there",
        };
        format!("ArgumentError: the row has {shown} in column '{}'; {wanted}", self.name)
    }

    /// A column of this one value.
    fn column<'j>(&self, value: Option<&'j Value>) -> Result<Column<'j>, String> {
        let value = value.unwrap_or(&Value::Null);
        let (mut number, mut text): (Option<f64>, Option<&str>) = (None, None);
        match (value, &self.kind) {
            (Value::Null, _) => {}
            (Value::String(own), Kind::Text) => text = Some(own),
            (_, Kind::Text) | (Value::String(_) | Value::Array(_), _) => {
                return Err(self.refuse(value));
            }
            (Value::Bool(truth), _) => number = Some(f64::from(u8::from(*truth))),
            (Value::Object(object), _) => match (object.get("seconds"), self.second) {
                (Some(seconds), Some(second)) => {
                    number = seconds.as_f64().map(|seconds| seconds * second);
                }
                _ => return Err(self.refuse(value)),
            },
            (Value::Number(own), _) => number = own.as_f64(),
        }
        let missing = |is: bool| {
            let mut missing = Missing::none();
            if is {
                missing.set(0, 1);
            }
            missing
        };
        let whole = value.as_i64().map_or(number.unwrap_or_default() as i128, i128::from);
        Ok(Column::new(
            self.name.clone(),
            (self.kind.clone(), String::new()),
            move || (Cow::Owned(vec![number.unwrap_or_default()]), missing(number.is_none())),
            move || vec![whole],
            move || {
                let bytes = text.unwrap_or_default().as_bytes();
                Texts { values: Values::Each(vec![bytes]), missing: missing(text.is_none()) }
            },
        ))
    }
}

impl RowPredictor {
    fn new(record: &arrow_array::RecordBatch, options: &str) -> Result<RowPredictor, String> {
        let records = record.column(0);
        let records = arrow_array::cast::AsArray::as_struct_opt(records).ok_or("no record")?;
        let record = read_record(records, 0)?.ok_or("no record")?;
        let asked = Asked::of(options)?;
        let fields: Vec<Field> = asked
            .fields(record.clone())?
            .into_iter()
            .map(|(name, kind)| {
                let unit = record.terms.dates.get(&name).and_then(Value::as_str);
                let second = unit.map(|unit| if unit == "days" { 1.0 / DAY } else { 1.0 });
                Field { name, kind, second }
            })
            .collect();
        let columns: Vec<Column> =
            fields.iter().map(|field| field.column(None)).collect::<Result<_, _>>()?;
        let absent = asked.absent();
        let arrivals = asked.plan(record, &columns)?.ok_or("gram record is damaged")?;
        let state = Mutex::new(State { arrivals, seen: HashSet::new() });
        Ok(RowPredictor { fields, absent, state })
    }

    fn predict(&self, json: &[u8], budget: f64) -> Result<String, String> {
        let row: Map<String, Value> = serde_json::from_slice(json)
            .map_err(|error| format!("ArgumentError: the row cannot be read: {error}"))?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { arrivals, seen } = &mut *state;
        let names: Vec<String> = row.keys().cloned().collect();
        if !seen.contains(&names) {
            self.check_names(&names, &arrivals.predictor.groups().names)?;
            if seen.len() >= MOST_SHAPES {
                seen.clear();
            }
            seen.insert(names);
        }
        let column = |field: &Field| field.column(field.of(&row));
        let columns: Vec<Column> = self.fields.iter().map(column).collect::<Result<_, _>>()?;
        let found = arrivals.predict(&columns, &Rows::All(1))?;
        Ok(written(arrivals, &found, budget))
    }

    /// Refuse a row that lacks a field, if it must not, or has nearly the name of one, or that of
    /// a group.
    fn check_names(&self, names: &[String], groups: &[String]) -> Result<(), String> {
        let top = |field: &Field| {
            let is_there = names.contains(&field.name);
            let end = field.name.find(['.', '[']).filter(|_| !is_there);
            field.name[..end.unwrap_or(field.name.len())].to_string()
        };
        let fields: Vec<String> = self.fields.iter().map(top).collect();
        let lacks: Vec<String> =
            fields.iter().filter(|field| !names.contains(field)).cloned().collect();
        if self.absent == MissingColumns::Error && !lacks.is_empty() {
            let lacks: Vec<&str> = lacks.iter().map(String::as_str).collect();
            let others: Vec<String> =
                names.iter().filter(|name| !fields.contains(name)).cloned().collect();
            return Err(format!("ColumnError: {}", nearest::lacking(&lacks, &others)));
        }
        for name in names.iter().filter(|name| !fields.contains(name)) {
            if let Some(near) = nearest::alike(name, &lacks, MISTYPED).first() {
                return Err(format!(
                    "ColumnError: the row has unknown column '{name}'; there is '{near}'"
                ));
            }
            if groups.contains(name) {
                return Err(format!(
                    "ColumnError: the row has '{name}', which is a group; give its columns"
                ));
            }
        }
        Ok(())
    }
}

/// The prediction of a row as JSON.
fn written(arrivals: &Arrivals, found: &Found, budget: f64) -> String {
    let all = arrivals.predictor.groups();
    let pattern = &found.patterns[0].pattern;
    let text = |group: usize| Value::from(&all.names[group][..]).to_string();
    let number = |x: f64| if x.is_finite() { format!("{x:?}") } else { "null".to_string() };
    let value = found.values[0];
    let names: Vec<String> = pattern.groups.iter().map(|&group| text(group)).collect();
    let mut out = String::with_capacity(256);
    let mut put = |name: &str, value: &str| {
        let sign = if out.is_empty() { '{' } else { ',' };
        let _ = write!(out, "{sign}\"{name}\":{value}");
    };
    put("prediction", &number(value));
    put("groups", &format!("[{}]", names.join(",")));
    put("spent", &number(pattern.spent));
    put("r2", &number(pattern.r2));
    put("sigma", &number(pattern.sigma));
    if let Some(level) = arrivals.predictor.level {
        let reach = pattern.reach(level);
        put("lower", &number(value - reach));
        put("upper", &number(value + reach));
    }
    let told = found.told(&arrivals.predictor, &[budget]);
    let next = told.shared[0].1;
    put("next_group", &next.map_or("null".to_string(), text));
    put("next_gain", &number(next.map_or(f64::NAN, |next| pattern.gains[next])));
    put("next_cost", &number(next.map_or(f64::NAN, |next| pattern.costs[next])));
    if let Some((accept, value)) = told.stakes.first() {
        put("accept", if *accept { "true" } else { "false" });
        put("next_value", &number(*value));
    }
    out.push('}');
    out
}

/// Make a predictor of the record in a stream, with options as JSON, as of the expression
/// `predict_available`; null comes back, or an error text for `dbselect_text_free`.
///
/// # Safety
/// `record` is a live Arrow C stream, `options` a NUL-terminated string, `out` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_arrived_new(
    record: *mut FFI_ArrowArrayStream,
    options: *const c_char,
    out: *mut *mut RowPredictor,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let (record, options) = unsafe { (only_batch(record)?, CStr::from_ptr(options)) };
        let made = RowPredictor::new(&record, &options.to_string_lossy())?;
        // SAFETY: see the caller's promise.
        unsafe { out.write(Box::into_raw(Box::new(made))) };
        Ok(())
    })
}

/// Predict a row, a JSON object, and write the answer, JSON for `dbselect_text_free`; may be
/// called from several threads at once. Null comes back, or an error text.
///
/// # Safety
/// `predictor` comes from `dbselect_arrived_new` and is not freed meanwhile; `row` holds `length`
/// bytes, and `out` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_arrived_row(
    predictor: *const RowPredictor,
    row: *const u8,
    length: usize,
    budget: f64,
    out: *mut *mut c_char,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let (predictor, row) = unsafe { (&*predictor, slice::from_raw_parts(row, length)) };
        let found = predictor.predict(row, budget)?;
        // SAFETY: see the caller's promise.
        unsafe { out.write(CString::new(found).unwrap_or_default().into_raw()) };
        Ok(())
    })
}

/// End a predictor.
///
/// # Safety
/// `predictor` comes from `dbselect_arrived_new` and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_arrived_free(predictor: *mut RowPredictor) {
    // SAFETY: see the caller's promise.
    drop(unsafe { Box::from_raw(predictor) });
}

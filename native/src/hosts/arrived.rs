//! Predictions from whatever has arrived, as an Arrow array.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, Float64Array, LargeListArray, StringViewArray, StructArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Fields};

use crate::arrived::pattern::Pattern;
use crate::arrived::predictor::Predictor;
use crate::arrived::rows::{Alike, Arrivals};
use crate::record::gram::Record;
use crate::record::inputs::{Column, Kind, MissingColumns, Rows, Unknown, fields_of};
use crate::record::prefix::Case;
use crate::search::value::Value;

/// What is asked beside records and rows.
pub struct Asked {
    target: String,
    given: Vec<(String, Value)>,
    unknown: Unknown,
    absent: MissingColumns,
}

impl Asked {
    /// Read JSON: `target`, and options by name.
    pub fn of(json: &str) -> Result<Asked, String> {
        let read = serde_json::from_str(json).map_err(|error| format!("options: {error}"))?;
        let Value::Map(mut given) = value_of(read) else {
            return Err("options must be named".to_string());
        };
        let mut text = |name: &str| {
            let at = given.iter().position(|(own, _)| own == name)?;
            match given.remove(at).1 {
                Value::Text(text) => Some(text),
                _ => None,
            }
        };
        let target = text("target").unwrap_or_default();
        let unknown = text("handle_unknown").map_or(Ok(Unknown::default()), |one| Unknown::of(&one));
        let absent = text("missing_columns");
        let absent = absent.map_or(Ok(MissingColumns::default()), |one| MissingColumns::of(&one));
        Ok(Asked { target, unknown: unknown?, absent: absent?, given })
    }

    /// What becomes of columns that rows lack.
    pub fn absent(&self) -> MissingColumns {
        self.absent
    }

    /// The fields that a record's groups read of a row, as the fit met them.
    pub fn fields(&self, record: Record) -> Result<Vec<(String, Kind)>, String> {
        let found = Predictor::of(record, &self.target, self.given.clone());
        let found = found.map_err(String::from)??;
        fields_of(&found.groups().members, found.terms.clone())
    }

    /// What predicts rows of some columns by a record; nothing if it cannot be used.
    pub fn plan(&self, record: Record, columns: &[Column]) -> Result<Option<Arrivals>, String> {
        let found = Predictor::of(record, &self.target, self.given.clone());
        let Ok(found) = found.map_err(|error| error.message)? else { return Ok(None) };
        Arrivals::new(found, columns, Case::Sensitive, self.unknown, self.absent).map(Some)
    }
}

fn value_of(json: serde_json::Value) -> Value {
    use serde_json::Value as Json;
    match json {
        Json::Null => Value::Nothing,
        Json::Bool(truth) => Value::Truth(truth),
        Json::Number(number) => match number.as_i64() {
            Some(whole) => Value::Whole(whole),
            None => Value::Number(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::Text(text),
        Json::Array(items) => Value::List(items.into_iter().map(value_of).collect()),
        Json::Object(entries) => {
            Value::Map(entries.into_iter().map(|(name, one)| (name, value_of(one))).collect())
        }
    }
}

fn texts() -> DataType {
    DataType::LargeList(Arc::new(Field::new_list_field(DataType::Utf8View, true)))
}

/// The type of a prediction, as `search::methods::answer::ARRIVED`.
pub fn data_type() -> DataType {
    DataType::Struct(fields())
}

fn fields() -> Fields {
    let number = DataType::Float64;
    let fields = [
        ("prediction", number.clone()),
        ("groups", texts()),
        ("spent", number.clone()),
        ("r2", number.clone()),
        ("sigma", number.clone()),
        ("lower", number.clone()),
        ("upper", number.clone()),
        ("next_group", DataType::Utf8View),
        ("next_gain", number.clone()),
        ("next_cost", number),
    ];
    fields.into_iter().map(|(name, of)| Field::new(name, of, true)).collect()
}

/// What rows of one pattern and one limit have in common.
struct Told {
    predictor: Arc<Predictor>,
    pattern: Arc<Pattern>,
    /// How far they lie from their predictions, if that is asked for.
    reach: f64,
    next: Option<usize>,
}

/// Predictions in the making, in the order of the rows.
#[derive(Default)]
pub struct Arrived {
    values: Vec<f64>,
    /// What each row has in common with others; `NOBODY` of a row without a prediction.
    told_at: Vec<u32>,
    told: Vec<Told>,
    known: HashMap<(*const Pattern, Option<usize>), u32>,
    first: usize,
}

/// Of a row without a prediction.
const NOBODY: u32 = u32::MAX;

impl Arrived {
    /// So many more rows, which have no prediction yet.
    pub fn begin(&mut self, rows: usize) {
        self.first = self.values.len();
        self.values.resize(self.first + rows, f64::NAN);
        self.told_at.resize(self.first + rows, NOBODY);
    }

    /// Write the predictions of some of these rows; `limits` has what the next group may cost.
    pub fn write(
        &mut self,
        predictor: &Arc<Predictor>,
        found: Alike,
        rows: &Rows,
        limits: &[f64],
    ) {
        let costs = &predictor.groups().costs;
        let mut last = (f64::NAN, NOBODY);
        for (&at, value) in found.at.iter().zip(found.values) {
            let row = rows.at(at);
            if limits[row] != last.0 {
                let next = found.pattern.next(costs, limits[row]);
                let key = (Arc::as_ptr(&found.pattern), next);
                let told = &mut self.told;
                let number = *self.known.entry(key).or_insert_with(|| {
                    let reach = predictor.level.map_or(f64::NAN, |level| found.pattern.reach(level));
                    let (predictor, pattern) = (predictor.clone(), found.pattern.clone());
                    told.push(Told { predictor, pattern, reach, next });
                    (told.len() - 1) as u32
                });
                last = (limits[row], number);
            }
            self.values[self.first + row] = value;
            self.told_at[self.first + row] = last.1;
        }
    }

    /// All as one array.
    pub fn finish(self) -> StructArray {
        let told = |row: usize| self.told.get(self.told_at[row] as usize);
        let rows = self.values.len();
        // What nobody has is NULL.
        let number = |value: &dyn Fn(&Told) -> f64| -> ArrayRef {
            let each: Vec<f64> = self.told.iter().map(value).collect();
            let of = |&at: &u32| each.get(at as usize).copied().unwrap_or(f64::NAN);
            numbers(self.told_at.iter().map(of).collect())
        };
        let bound = |sign: f64| {
            let reach: Vec<f64> = self.told.iter().map(|told| told.reach).collect();
            let own = |(&at, value): (&u32, &f64)| {
                reach.get(at as usize).map_or(f64::NAN, |reach| value + sign * reach)
            };
            numbers(self.told_at.iter().zip(&self.values).map(own).collect())
        };
        let mut names: Vec<&str> = Vec::new();
        let mut places = Vec::with_capacity(self.told.len());
        for one in &self.told {
            let all = &one.predictor.groups().names;
            let start = names.len();
            names.extend(one.pattern.groups.iter().map(|&group| &all[group][..]));
            places.push(start..names.len());
            names.push(one.next.map_or("", |next| &all[next]));
        }
        let names = StringViewArray::from_iter_values(names);
        let (mut ends, mut views) = (Vec::with_capacity(rows + 1), Vec::new());
        let (mut next_views, mut has_next) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
        ends.push(0i64);
        for row in 0..rows {
            let place = places.get(self.told_at[row] as usize).cloned().unwrap_or(0..0);
            views.extend_from_slice(&names.views()[place.clone()]);
            ends.push(views.len() as i64);
            let next = told(row).is_some_and(|told| told.next.is_some());
            next_views.push(if next { names.views()[place.end] } else { 0 });
            has_next.push(next);
        }
        let of_views = |views: Vec<u128>, valid: Option<NullBuffer>| -> ArrayRef {
            let buffers = names.data_buffers().to_vec().into();
            // SAFETY: the views are those of the array with these buffers, or of an empty text.
            Arc::new(unsafe { StringViewArray::new_unchecked(views.into(), buffers, valid) })
        };
        let there: NullBuffer = self.told_at.iter().map(|&at| at != NOBODY).collect();
        let item = Arc::new(Field::new_list_field(DataType::Utf8View, true));
        let ends = OffsetBuffer::new(ScalarBuffer::from(ends));
        let groups = LargeListArray::new(item, ends, of_views(views, None), Some(there.clone()));
        let cost = |told: &Told| {
            told.next.map_or(f64::NAN, |next| told.predictor.groups().costs[next])
        };
        let gain = |told: &Told| told.next.map_or(f64::NAN, |next| told.pattern.gains[next]);
        let arrays: Vec<ArrayRef> = vec![
            numbers(self.values.clone()),
            Arc::new(groups),
            number(&|told| told.pattern.spent),
            number(&|told| told.pattern.r2),
            number(&|told| told.pattern.sigma),
            bound(-1.0),
            bound(1.0),
            of_views(next_views, Some(has_next.into())),
            number(&gain),
            number(&cost),
        ];
        StructArray::new(fields(), arrays, Some(there))
    }
}

/// Numbers, NaN being NULL.
fn numbers(values: Vec<f64>) -> ArrayRef {
    let has_nulls = values.iter().any(|value| value.is_nan());
    let valid = has_nulls.then(|| values.iter().map(|value| !value.is_nan()).collect());
    Arc::new(Float64Array::new(values.into(), valid))
}

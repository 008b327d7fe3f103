//! Predictions from whatever has arrived, as an Arrow array.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, Float64Array, LargeListArray, StringViewArray, StructArray, UInt32Array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Fields};

use crate::arrived::pattern::Pattern;
use crate::arrived::predictor::Predictor;
use crate::arrived::rows::{Arrivals, Found};
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
        let read: serde_json::Value =
            serde_json::from_str(json).map_err(|error| format!("options: {error}"))?;
        let Value::Map(mut given) = Value::from(read) else {
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
        let unknown =
            text("handle_unknown").map_or(Ok(Unknown::default()), |one| Unknown::of(&one));
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

/// The type of `Arrived::apart`.
pub fn data_type_apart() -> DataType {
    DataType::Struct(fields_apart())
}

fn fields_apart() -> Fields {
    let field = |(name, of): (&str, DataType)| {
        Field::new(name, DataType::LargeList(Arc::new(Field::new_list_field(of, true))), true)
    };
    let of = [("values", DataType::Float64), ("at", DataType::UInt32), ("told", data_type())];
    of.into_iter().map(field).collect()
}

/// What rows of one pattern and one limit have in common.
struct Told {
    predictor: Arc<Predictor>,
    pattern: Arc<Pattern>,
    next: Option<usize>,
}

impl Told {
    /// How far rows lie from their predictions, if that is asked for.
    fn reach(&self) -> f64 {
        self.predictor.level.map_or(f64::NAN, |level| self.pattern.reach(level))
    }
}

/// Predictions in the making, in the order of the rows.
#[derive(Default)]
pub struct Arrived {
    values: Vec<f64>,
    /// What each row has in common with others; `NOBODY` of a row without a prediction.
    told_at: Vec<u32>,
    told: Vec<Told>,
    /// Where each pattern, by its address, and next group stand in `told`.
    known: HashMap<(usize, Option<usize>), u32>,
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

    /// Write the predictions of some of these rows; `limits` has what the next group may cost,
    /// of each or of all.
    pub fn write(&mut self, predictor: &Arc<Predictor>, found: Found, rows: &Rows, limits: &[f64]) {
        let own: Vec<f64> = match (rows, limits) {
            (Rows::These(rows), [_, _, ..]) => rows.iter().map(|&row| limits[row]).collect(),
            _ => limits.to_vec(),
        };
        let (shared, at) = found.shared(&predictor.groups().costs, &own);
        let told = |(at, next): (u32, Option<usize>)| {
            let (predictor, pattern) = (predictor.clone(), found.patterns[at as usize].clone());
            self.number_of(Told { predictor, pattern, next })
        };
        let numbers: Vec<u32> = shared.into_iter().map(told).collect();
        for (row, (value, at)) in found.values.into_iter().zip(at).enumerate() {
            let row = self.first + rows.at(row);
            self.values[row] = value;
            self.told_at[row] = numbers[at as usize];
        }
    }

    /// The number of what some rows have in common.
    fn number_of(&mut self, one: Told) -> u32 {
        let key = (Arc::as_ptr(&one.pattern) as usize, one.next);
        *self.known.entry(key).or_insert_with(|| {
            self.told.push(one);
            (self.told.len() - 1) as u32
        })
    }

    /// Take the rows of another after its own.
    pub fn append(&mut self, other: Arrived) {
        let numbers: Vec<u32> = other.told.into_iter().map(|one| self.number_of(one)).collect();
        let number = |at: &u32| numbers.get(*at as usize).copied().unwrap_or(NOBODY);
        self.told_at.extend(other.told_at.iter().map(number));
        self.values.extend(other.values);
    }

    /// One row of lists: the predictions, where each stands in what rows have in common, and
    /// that, as predictions of 0.
    pub fn apart(self) -> StructArray {
        let list = |items: ArrayRef| -> ArrayRef {
            let item = Field::new_list_field(items.data_type().clone(), true);
            let ends = OffsetBuffer::from_lengths([items.len()]);
            Arc::new(LargeListArray::new(Arc::new(item), ends, items, None))
        };
        let (values, at) = (self.number(|_| 0.0, true), UInt32Array::from(self.told_at));
        let (zeros, each) = (vec![0.0; self.told.len()], (0..self.told.len() as u32).collect());
        let told = Arrived { values: zeros, told_at: each, told: self.told, ..Arrived::default() };
        let lists = [values, Arc::new(at), Arc::new(told.finish())].map(list);
        StructArray::new(fields_apart(), lists.to_vec(), None)
    }

    /// All as one array.
    pub fn finish(self) -> StructArray {
        let rows = self.values.len();
        let there = self.has(|_| true);
        let number = |shared: &dyn Fn(&Told) -> f64| self.number(shared, false);
        let bound = |sign: f64| match self.told.iter().all(|told| told.predictor.level.is_none()) {
            true => Arc::new(Float64Array::new_null(rows)) as ArrayRef,
            false => self.number(|told| sign * told.reach(), true),
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
        let place = |at: u32| places.get(at as usize).cloned().unwrap_or(0..0);
        let mut ends = Vec::with_capacity(rows + 1);
        ends.push(0i64);
        let mut end = 0;
        ends.extend(self.told_at.iter().map(|&at| {
            end += place(at).len() as i64;
            end
        }));
        let mut views = Vec::with_capacity(end as usize);
        for &at in &self.told_at {
            views.extend_from_slice(&names.views()[place(at)]);
        }
        let nexts: Vec<u128> = places.iter().map(|place| names.views()[place.end]).collect();
        let next = |&at: &u32| nexts.get(at as usize).copied().unwrap_or_default();
        let of_views = |views: Vec<u128>, valid: Option<NullBuffer>| -> ArrayRef {
            let buffers = names.data_buffers().to_vec().into();
            // SAFETY: the views are those of the array with these buffers, or of an empty text.
            Arc::new(unsafe { StringViewArray::new_unchecked(views.into(), buffers, valid) })
        };
        let item = Arc::new(Field::new_list_field(DataType::Utf8View, true));
        let ends = OffsetBuffer::new(ScalarBuffer::from(ends));
        let groups = LargeListArray::new(item, ends, of_views(views, None), there.clone());
        let cost =
            |told: &Told| told.next.map_or(f64::NAN, |next| told.predictor.groups().costs[next]);
        let gain = |told: &Told| told.next.map_or(f64::NAN, |next| told.pattern.gains[next]);
        let arrays: Vec<ArrayRef> = vec![
            self.number(|_| 0.0, true),
            Arc::new(groups),
            number(&|told| told.pattern.spent),
            number(&|told| told.pattern.r2),
            number(&|told| told.pattern.sigma),
            bound(-1.0),
            bound(1.0),
            of_views(self.told_at.iter().map(next).collect(), self.has(|told| told.next.is_some())),
            number(&gain),
            number(&cost),
        ];
        StructArray::new(fields(), arrays, there)
    }

    /// Which rows have something; nothing if all have.
    fn has(&self, of: impl Fn(&Told) -> bool) -> Option<NullBuffer> {
        let each: Vec<bool> = self.told.iter().map(of).collect();
        let is_there = |&at: &u32| each.get(at as usize).copied().unwrap_or(false);
        let all = each.iter().all(|has| *has) && !self.told_at.contains(&NOBODY);
        (!all).then(|| self.told_at.iter().map(is_there).collect())
    }

    /// A number of each row: what it shares with others, plus its prediction if that is asked for;
    /// NaN is NULL.
    fn number(&self, shared: impl Fn(&Told) -> f64, and_value: bool) -> ArrayRef {
        let each: Vec<f64> = self.told.iter().map(shared).collect();
        let share = |&at: &u32| each.get(at as usize).copied().unwrap_or(f64::NAN);
        let shares = self.told_at.iter().map(share);
        let values: Vec<f64> = match and_value {
            true => shares.zip(&self.values).map(|(share, value)| share + value).collect(),
            false => shares.collect(),
        };
        if !values.iter().any(|value| value.is_nan()) {
            return Arc::new(Float64Array::new(values.into(), None));
        }
        let valid = values.iter().map(|value| !value.is_nan()).collect();
        Arc::new(Float64Array::new(values.into(), Some(valid)))
    }
}

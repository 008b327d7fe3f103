//! Predictions from whatever has arrived, as an Arrow array.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, LargeListArray, StringViewArray, StructArray,
    UInt32Array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, Fields};

use crate::arrived::predictor::{Known, Predictor};
use crate::arrived::rows::{Arrivals, Found, Told};
use crate::glm::family::Family;
use crate::record::gram::Record;
use crate::record::inputs::{Column, Kind, MissingColumns, Rows, Unknown, fields_of};
use crate::record::prefix::Case;
use crate::words::value::Value;

/// What is asked beside records and rows.
pub struct Asked {
    target: String,
    given: Vec<(String, Value)>,
    unknown: Unknown,
    absent: MissingColumns,
    /// Of the linear predictors that are predicted.
    family: Option<Family>,
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
        let family = text("family").map(|one| Family::parse(&one)).transpose()?;
        Ok(Asked { target, unknown: unknown?, absent: absent?, family, given })
    }

    /// Whether it is asked which rows are accepted.
    pub fn at_stake(&self) -> bool {
        let names = ["accept_above", "worth", "payoff"];
        self.given.iter().any(|(name, _)| names.contains(&&name[..]))
    }

    /// What becomes of columns that rows lack.
    pub fn absent(&self) -> MissingColumns {
        self.absent
    }

    /// The fields that a record's groups read of a row, as the fit met them.
    pub fn fields(&self, record: Record) -> Result<Vec<(String, Kind)>, String> {
        let found = Predictor::of(record, &self.target, self.given.clone(), self.family);
        let found = found.map_err(String::from)??;
        fields_of(&found.groups().members, found.terms.clone())
    }

    /// What predicts rows of some columns by a record; nothing if it cannot be used.
    pub fn plan(&self, record: Record, columns: &[Column]) -> Result<Option<Arrivals>, String> {
        let found = Predictor::of(record, &self.target, self.given.clone(), self.family);
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
        ("next_cost", number.clone()),
        ("accept", DataType::Boolean),
        ("next_value", number),
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
    let of = [
        ("values", DataType::Float64),
        ("at", DataType::UInt32),
        ("told", data_type()),
        ("accept", DataType::Boolean),
        ("next_value", DataType::Float64),
    ];
    of.into_iter().map(field).collect()
}

/// What rows of one pattern and one limit have in common.
struct InCommon {
    predictor: Arc<Predictor>,
    known: Arc<Known>,
    next: Option<usize>,
}

impl InCommon {
    /// How far rows lie from their predictions, if that is asked for.
    fn reach(&self) -> f64 {
        self.predictor.level.map_or(f64::NAN, |level| self.known.pattern.reach(level))
    }
}

/// What rows have in common, once each.
#[derive(Default)]
struct Shared {
    told: Vec<InCommon>,
    /// Where each pattern, by its address, and next group stand in `told`.
    known: HashMap<(usize, Option<usize>), u32>,
}

impl Shared {
    /// The number of what some rows have in common.
    fn number_of(&mut self, one: InCommon) -> u32 {
        let key = (Arc::as_ptr(&one.known) as usize, one.next);
        *self.known.entry(key).or_insert_with(|| {
            self.told.push(one);
            (self.told.len() - 1) as u32
        })
    }
}

/// Predictions in the making, in the order of the rows.
pub struct Arrived {
    values: Vec<f64>,
    /// What each row has in common with others; `NOBODY` of a row without a prediction.
    told_at: Vec<u32>,
    stakes: Vec<(bool, f64)>,
    shared: Mutex<Shared>,
}

/// Of a row without a prediction.
const NOBODY: u32 = u32::MAX;
/// Of a row of which nothing is accepted or bought.
const NO_STAKE: (bool, f64) = (false, f64::NAN);

/// Some rows of predictions, to be written.
pub struct Slot<'a> {
    values: &'a mut [f64],
    told_at: &'a mut [u32],
    stakes: &'a mut [(bool, f64)],
    shared: &'a Mutex<Shared>,
}

impl Slot<'_> {
    /// Write the predictions of some of these rows; `limits` has what the next group may cost,
    /// of each or of all.
    pub fn write(
        &mut self,
        predictor: &Arc<Predictor>,
        found: &Found,
        rows: &Rows,
        limits: &[f64],
    ) {
        let own: Cow<[f64]> = match (rows, limits) {
            (Rows::These(rows), [_, _, ..]) => rows.iter().map(|&row| limits[row]).collect(),
            _ => limits.into(),
        };
        let Told { shared: each, at, stakes } = found.told(predictor, &own);
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let number = |(at, next): (u32, Option<usize>)| {
            let (predictor, known) = (predictor.clone(), found.patterns[at as usize].clone());
            shared.number_of(InCommon { predictor, known, next })
        };
        let numbers: Vec<u32> = each.into_iter().map(number).collect();
        drop(shared);
        (0..).zip(stakes).for_each(|(at, stake)| self.stakes[rows.at(at)] = stake);
        let numbers = at.iter().map(|&at| numbers[at as usize]);
        match rows {
            Rows::All(_) => {
                self.values.copy_from_slice(&found.values);
                self.told_at.iter_mut().zip(numbers).for_each(|(own, number)| *own = number);
            }
            Rows::These(rows) => {
                for ((&row, &value), number) in rows.iter().zip(&found.values).zip(numbers) {
                    (self.values[row], self.told_at[row]) = (value, number);
                }
            }
        }
    }

    /// Leave all these rows without a prediction.
    pub fn clear(&mut self) {
        self.values.fill(f64::NAN);
        self.told_at.fill(NOBODY);
    }
}

impl Arrived {
    /// So many rows, each of which is written or cleared.
    ///
    /// `at_stake`: whether it is asked which are accepted.
    pub fn of_rows(rows: usize, at_stake: bool) -> Arrived {
        let stakes = vec![NO_STAKE; if at_stake { rows } else { 0 }];
        Arrived {
            values: vec![0.0; rows],
            told_at: vec![0; rows],
            stakes,
            shared: Mutex::default(),
        }
    }

    /// The rows in runs of some lengths.
    pub fn slots(&mut self, lengths: impl Iterator<Item = usize>) -> Vec<Mutex<Slot<'_>>> {
        let (mut values, mut told_at) = (&mut self.values[..], &mut self.told_at[..]);
        let mut stakes = &mut self.stakes[..];
        let shared = &self.shared;
        let slot = |length: usize| {
            let values = values.split_off_mut(..length).expect("as many values as rows");
            let told_at = told_at.split_off_mut(..length).expect("as many places as rows");
            let stakes =
                stakes.split_off_mut(..length.min(stakes.len())).expect("no more than there are");
            Mutex::new(Slot { values, told_at, stakes, shared })
        };
        lengths.map(slot).collect()
    }

    /// One row of lists: the predictions, where each stands in what rows have in common, and
    /// that, as predictions of 0.
    pub fn apart(self) -> StructArray {
        let list = |items: ArrayRef| -> ArrayRef {
            let item = Field::new_list_field(items.data_type().clone(), true);
            let ends = OffsetBuffer::from_lengths([items.len()]);
            Arc::new(LargeListArray::new(Arc::new(item), ends, items, None))
        };
        let (at_stake, stakes) = (!self.stakes.is_empty(), self.stakes());
        let (values, at) = (without_nan(self.values), UInt32Array::from(self.told_at));
        let told = self.shared.lock().unwrap_or_else(PoisonError::into_inner).told.len();
        let (values_told, each) = (vec![0.0; told], (0..told as u32).collect());
        let told =
            Arrived { values: values_told, told_at: each, stakes: Vec::new(), shared: self.shared };
        let [accept, value] = stakes.map(|of| if at_stake { of } else { of.slice(0, 0) });
        let lists = [values, Arc::new(at), Arc::new(told.finish()), accept, value].map(list);
        StructArray::new(fields_apart(), lists.to_vec(), None)
    }

    /// Which rows are accepted, and what buying next is worth; NULL where no row is at stake.
    fn stakes(&self) -> [ArrayRef; 2] {
        if self.stakes.is_empty() {
            let rows = self.values.len();
            return [
                Arc::new(BooleanArray::new_null(rows)),
                Arc::new(Float64Array::new_null(rows)),
            ];
        }
        let told = &self.shared.lock().unwrap_or_else(PoisonError::into_inner).told;
        let is_at_stake =
            |&at: &u32| told.get(at as usize).is_some_and(|own| own.predictor.stake.is_some());
        let (accept, value): (Vec<bool>, Vec<f64>) = self.stakes.iter().copied().unzip();
        let valid = self.told_at.iter().map(is_at_stake).zip(&self.values);
        let valid: NullBuffer = valid.map(|(own, value)| own && !value.is_nan()).collect();
        [Arc::new(BooleanArray::new(accept.into(), Some(valid))), without_nan(value)]
    }

    /// All as one array.
    pub fn finish(self) -> StructArray {
        let [accept, next_value] = self.stakes();
        let Arrived { values, told_at, shared, .. } = self;
        let Shared { told, .. } = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
        let each = Each { told: &told, at: &told_at };
        let bound = |sign: f64| match told.iter().all(|told| told.predictor.level.is_none()) {
            true => Arc::new(Float64Array::new_null(values.len())) as ArrayRef,
            false => {
                let reach = each.of(f64::NAN, |told| sign * told.reach());
                without_nan(values.iter().zip(reach).map(|(value, reach)| value + reach).collect())
            }
        };
        let mut names: Vec<&str> = Vec::new();
        let mut places = Vec::with_capacity(told.len());
        for one in &told {
            let all = &one.predictor.groups().names;
            let start = names.len();
            names.extend(one.known.pattern.groups.iter().map(|&group| &all[group][..]));
            places.push(start..names.len());
            names.push(one.next.map_or("", |next| &all[next]));
        }
        let names = StringViewArray::from_iter_values(names);
        let place = |at: &u32| places.get(*at as usize).cloned().unwrap_or(0..0);
        let ends = OffsetBuffer::from_lengths(told_at.iter().map(|at| place(at).len()));
        let mut views = Vec::with_capacity(ends[told_at.len()] as usize);
        told_at.iter().for_each(|at| views.extend_from_slice(&names.views()[place(at)]));
        let nexts: Vec<u128> = places.iter().map(|place| names.views()[place.end]).collect();
        let next = |&at: &u32| nexts.get(at as usize).copied().unwrap_or_default();
        let of_views = |views: Vec<u128>, valid: Option<NullBuffer>| -> ArrayRef {
            let buffers = names.data_buffers().to_vec().into();
            // SAFETY: the views are those of the array with these buffers, or of an empty text.
            Arc::new(unsafe { StringViewArray::new_unchecked(views.into(), buffers, valid) })
        };
        let there = each.has(|_| true);
        let item = Arc::new(Field::new_list_field(DataType::Utf8View, true));
        let groups = LargeListArray::new(item, ends, of_views(views, None), there.clone());
        let of_next = |of: &dyn Fn(&InCommon, usize) -> f64| {
            each.number(|told| told.next.map_or(f64::NAN, |next| of(told, next)))
        };
        let arrays: Vec<ArrayRef> = vec![
            without_nan(values.clone()),
            Arc::new(groups),
            each.number(|told| told.known.pattern.spent),
            each.number(|told| told.known.pattern.r2),
            each.number(|told| told.known.pattern.sigma),
            bound(-1.0),
            bound(1.0),
            of_views(told_at.iter().map(next).collect(), each.has(|told| told.next.is_some())),
            of_next(&|told, next| told.known.pattern.gains[next]),
            of_next(&|told, next| told.known.pattern.costs[next]),
            accept,
            next_value,
        ];
        StructArray::new(fields(), arrays, there)
    }
}

/// What each row has in common with others, by its number.
struct Each<'a> {
    told: &'a [InCommon],
    at: &'a [u32],
}

impl Each<'_> {
    /// Something of each row; `nothing` where it has no prediction.
    fn of<T: Copy>(&self, nothing: T, of: impl Fn(&InCommon) -> T) -> impl Iterator<Item = T> {
        let mut each: Vec<T> = self.told.iter().map(of).collect();
        each.push(nothing);
        self.at.iter().map(move |&at| each[(at as usize).min(each.len() - 1)])
    }

    /// Which rows have something; nothing if all have.
    fn has(&self, of: impl Fn(&InCommon) -> bool) -> Option<NullBuffer> {
        let all = self.told.iter().all(&of) && !self.at.contains(&NOBODY);
        (!all).then(|| self.of(false, of).collect())
    }

    /// A number of each row; NaN is NULL.
    fn number(&self, of: impl Fn(&InCommon) -> f64) -> ArrayRef {
        let valid = self.has(|told| !of(told).is_nan());
        Arc::new(Float64Array::new(self.of(0.0, of).collect(), valid))
    }
}

/// Numbers of rows; NaN is NULL.
fn without_nan(values: Vec<f64>) -> ArrayRef {
    let any = values.chunks(64).any(|some| some.iter().fold(false, |any, x| any | x.is_nan()));
    let valid = any.then(|| values.iter().map(|value| !value.is_nan()).collect());
    Arc::new(Float64Array::new(values.into(), valid))
}

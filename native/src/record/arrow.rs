//! Tables and Gram records, to and from Arrow arrays.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::LargeStringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{
    AnyDictionaryArray, Array, ArrayRef, ArrowPrimitiveType, Float64Array, Int64Array,
    LargeListArray, LargeStringArray, NullArray, PrimitiveArray, StructArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, Fields, TimeUnit};

use crate::kernel::accumulator::CHUNK_ROWS;
use crate::kernel::chunk::{Chunk, Missing, mark_nan};
use crate::kernel::fold::{DAY, MICROSECOND, MILLISECOND, SECOND, Value, mix, refusal};
use crate::kernel::gaps::Policy;
use crate::kernel::rank_update::triangle;
use crate::kernel::threads::{cores, of_each};
use crate::kernel::units::Units;
use crate::record::gram::{FIELDS, RawRecord, Record, Recorded, check_overflow, expect_ahead};
use crate::record::inputs::{self, Kind};
use crate::record::terms::Written;
use crate::record::texts::{Texts, Values};

/// One column of a flattened table: a number field, a child of a STRUCT field
/// (`demo.age`) or an element of a fixed-size ARRAY field (`emb[3]`).
pub struct Leaf {
    /// Name of the flattened column.
    pub name: String,
    values: ArrayRef,
    place: Place,
    masks: Vec<(NullBuffer, Place)>,
    is_field: bool,
}

/// How unsigned 128-bit integers, which Arrow does not know, are carried: only
/// Polars has them, and it has no fixed-size binary of its own.
pub const UNSIGNED_128: DataType = DataType::FixedSizeBinary(16);

/// Where row `r` of the table lies in an array: at `r * stride + start`.
#[derive(Clone, Copy)]
pub struct Place {
    stride: usize,
    start: usize,
}

impl Place {
    /// One element a row.
    pub const ROW: Place = Place { stride: 1, start: 0 };
    /// One element for all rows: a literal.
    pub const LITERAL: Place = Place { stride: 0, start: 0 };

    /// Whether all rows have the same element.
    pub fn is_literal(self) -> bool {
        self.stride == 0
    }

    /// Index of row `row` in the array.
    pub fn of(self, row: usize) -> usize {
        row * self.stride + self.start
    }
}

/// A column that is no part of a table, such as a weight.
pub fn leaf(name: &str, values: &ArrayRef, place: Place) -> Leaf {
    let mut leaves = Vec::with_capacity(1);
    flatten(name.to_string(), values, place, &[], &mut leaves);
    leaves.remove(0)
}

/// Flatten the fields of a table, in their order.
pub fn leaves(table: &StructArray, place: Place) -> Vec<Leaf> {
    let mut leaves = Vec::new();
    let masks: Vec<_> = table.nulls().map(|nulls| (nulls.clone(), place)).into_iter().collect();
    for (field, array) in table.fields().iter().zip(table.columns()) {
        let first = leaves.len();
        flatten(field.name().clone(), array, place, &masks, &mut leaves);
        let is_field = |leaf: &mut Leaf| leaf.is_field = leaf.name == *field.name();
        leaves[first..].iter_mut().for_each(is_field);
    }
    leaves
}

fn flatten(
    name: String,
    array: &ArrayRef,
    place: Place,
    masks: &[(NullBuffer, Place)],
    out: &mut Vec<Leaf>,
) {
    let mut masks = masks.to_vec();
    if let Some(nulls) = array.logical_nulls().filter(|nulls| nulls.null_count() > 0) {
        masks.push((nulls, place));
    }
    match array.data_type() {
        DataType::Struct(fields) => {
            for (field, child) in fields.iter().zip(array.as_struct().columns()) {
                flatten(format!("{name}.{}", field.name()), child, place, &masks, out);
            }
        }
        DataType::FixedSizeList(_, size) => {
            let size = *size as usize;
            let values = array.as_fixed_size_list().values();
            for element in 0..size {
                let place =
                    Place { stride: place.stride * size, start: place.start * size + element };
                flatten(format!("{name}[{}]", element + 1), values, place, &masks, out);
            }
        }
        _ => out.push(Leaf { name, values: array.clone(), place, masks, is_field: false }),
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// The texts of some rows of a dictionary.
fn coded(dictionary: &dyn AnyDictionaryArray, place: Place, rows: Range<usize>) -> Values<'_> {
    if dictionary.values().is_empty() {
        return Values::Coded(vec![Cow::Borrowed(&[])], vec![0; rows.len()]);
    }
    let texts = leaf("", dictionary.values(), Place::ROW);
    let values = match texts.texts(0..dictionary.values().len()).values {
        Values::Each(values) => values.into_iter().map(|text| Cow::Owned(text.to_vec())).collect(),
        Values::Coded(values, _) => {
            values.into_iter().map(|text| Cow::Owned(text.into_owned())).collect()
        }
    };
    let codes = dictionary.normalized_keys();
    Values::Coded(values, rows.map(|row| codes[place.of(row)] as u32).collect())
}

impl Leaf {
    /// The values, one a row where the column is a field of the table; see `of_rows`.
    pub fn values(&self) -> &ArrayRef {
        &self.values
    }

    /// What was found of each of the values, for the first `rows` rows.
    pub fn of_rows<T: Copy>(&self, found: Vec<T>, rows: usize) -> Vec<T> {
        match self.place {
            Place { stride: 1, start: 0 } => found,
            place => (0..rows).map(|row| found[place.of(row)]).collect(),
        }
    }

    /// Whether all rows have the same value.
    pub fn is_literal(&self) -> bool {
        self.place.is_literal()
    }

    /// Whether the column is a field of the table, not part of one.
    pub fn is_field(&self) -> bool {
        self.is_field
    }

    /// Whether the column holds text.
    pub fn is_text(&self) -> bool {
        match self.values.data_type() {
            DataType::Dictionary(_, texts) => is_text(texts),
            other => is_text(other),
        }
    }

    /// The column of `rows` as a prediction reads it.
    pub fn input(&self, rows: Range<usize>) -> inputs::Column<'_> {
        let data_type = self.values.data_type();
        let kind = match data_type {
            _ if self.is_text() => Kind::Text,
            DataType::Boolean => Kind::Boolean,
            DataType::Null => Kind::Nothing,
            other if other.is_integer() || *other == UNSIGNED_128 => Kind::Whole,
            DataType::Decimal128(_, 0) => Kind::Whole,
            other => match self.unit() {
                Some(unit) => Kind::Date(unit),
                None if self.is_number() => Kind::Number,
                None => Kind::Other(other.to_string()),
            },
        };
        let own = rows.clone();
        // What is no number is never asked for numbers.
        let numbers = move || (self.doubles(own.clone()).unwrap_or_default(), self.missing(own));
        let own = rows.clone();
        let integers = move || self.integers(own);
        let texts = move || self.texts(rows);
        let kind = (kind, data_type.to_string());
        inputs::Column::new(self.name.clone(), kind, numbers, integers, texts)
    }

    /// The values of `rows` as whole numbers of a unit where doubles do not hold them.
    fn units(&self, column: usize, rows: Range<usize>, doubles: &[f64]) -> Option<Units<'static>> {
        let per_one = match *self.values.data_type() {
            DataType::Int64 | DataType::UInt64 | UNSIGNED_128 => 1,
            DataType::Decimal32(_, scale)
            | DataType::Decimal64(_, scale)
            | DataType::Decimal128(_, scale) => 10i128.checked_pow(u32::try_from(scale).ok()?)?,
            DataType::Date64 => DAY / MILLISECOND,
            DataType::Timestamp(TimeUnit::Second, _) => 1,
            DataType::Timestamp(TimeUnit::Millisecond, _) => SECOND / MILLISECOND,
            DataType::Timestamp(TimeUnit::Microsecond, _) => SECOND / MICROSECOND,
            DataType::Timestamp(TimeUnit::Nanosecond, _) => SECOND,
            _ => return None,
        };
        Units::of(column, doubles, per_one, || self.integers(rows))
    }

    /// The whole numbers of `rows`, exactly: units of a fraction; none of a column of doubles.
    fn integers(&self, rows: Range<usize>) -> Vec<i128> {
        macro_rules! each {
            ($type:ty) => {{
                let values = self.values.as_primitive::<$type>().values();
                rows.map(|row| values[self.place.of(row)].into()).collect()
            }};
        }
        match self.values.data_type() {
            DataType::Int8 => each!(Int8Type),
            DataType::Int16 => each!(Int16Type),
            DataType::Int32 => each!(Int32Type),
            DataType::Int64 => each!(Int64Type),
            DataType::UInt8 => each!(UInt8Type),
            DataType::UInt16 => each!(UInt16Type),
            DataType::UInt32 => each!(UInt32Type),
            DataType::UInt64 => each!(UInt64Type),
            DataType::Decimal32(..) => each!(Decimal32Type),
            DataType::Decimal64(..) => each!(Decimal64Type),
            DataType::Decimal128(..) => each!(Decimal128Type),
            DataType::Date64 => each!(Date64Type),
            DataType::Timestamp(TimeUnit::Second, _) => each!(TimestampSecondType),
            DataType::Timestamp(TimeUnit::Millisecond, _) => each!(TimestampMillisecondType),
            DataType::Timestamp(TimeUnit::Microsecond, _) => each!(TimestampMicrosecondType),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => each!(TimestampNanosecondType),
            &UNSIGNED_128 => {
                let values = self.values.as_fixed_size_binary();
                let bytes = |row| values.value(self.place.of(row)).try_into();
                let number = |row| u128::from_le_bytes(bytes(row).expect("sixteen bytes"));
                // Levels have 64 bits: what does not fit is none.
                rows.map(|row| number(row).try_into().unwrap_or(i128::MAX)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// What the column counts since 1970, if it holds dates or timestamps.
    pub fn unit(&self) -> Option<&'static str> {
        match self.values.data_type() {
            DataType::Date32 | DataType::Date64 => Some("days"),
            DataType::Timestamp(..) => Some("seconds"),
            _ => None,
        }
    }

    /// The texts of `rows`.
    pub fn texts(&self, rows: Range<usize>) -> Texts<'_> {
        let missing = self.missing(rows.clone());
        let place = self.place;
        let values = match self.values.data_type() {
            DataType::Utf8 => {
                let texts = self.values.as_string::<i32>();
                Values::Each(rows.map(|row| texts.value(place.of(row)).as_bytes()).collect())
            }
            DataType::LargeUtf8 => {
                let texts = self.values.as_string::<i64>();
                Values::Each(rows.map(|row| texts.value(place.of(row)).as_bytes()).collect())
            }
            DataType::Utf8View => {
                let texts = self.values.as_string_view();
                let text = |row: usize| match texts.is_null(place.of(row)) {
                    true => &[][..], // A NULL may have a view of nothing.
                    false => texts.value(place.of(row)).as_bytes(),
                };
                Values::Each(rows.map(text).collect())
            }
            _ => coded(self.values.as_any_dictionary(), place, rows),
        };
        Texts { values, missing }
    }

    /// Whether the column is numeric or boolean.
    pub fn is_number(&self) -> bool {
        self.doubles(0..0).is_ok()
    }

    /// The values of `rows` as doubles, borrowed where they are doubles already.
    pub fn doubles(&self, rows: Range<usize>) -> Result<Cow<'_, [f64]>, String> {
        let values = &self.values;
        Ok(match values.data_type() {
            DataType::Float64 => {
                let values = values.as_primitive::<Float64Type>().values();
                match self.place {
                    Place { stride: 1, start: 0 } => Cow::Borrowed(&values[rows]),
                    place => Cow::Owned(rows.map(|row| values[place.of(row)]).collect()),
                }
            }
            DataType::Boolean => {
                let values = values.as_boolean().values();
                let one = |row| f64::from(u8::from(values.value(self.place.of(row))));
                Cow::Owned(rows.map(one).collect())
            }
            &UNSIGNED_128 => {
                let values = values.as_fixed_size_binary();
                let one = |row| {
                    let bytes = values.value(self.place.of(row));
                    u128::from_le_bytes(bytes.try_into().expect("sixteen bytes")) as f64
                };
                Cow::Owned(rows.map(one).collect())
            }
            DataType::Null => Cow::Owned(vec![0.0; rows.len()]),
            DataType::Float16 => self.convert::<Float16Type>(rows, |x| x.to_f64()),
            DataType::Float32 => self.convert::<Float32Type>(rows, f64::from),
            DataType::Int8 => self.convert::<Int8Type>(rows, f64::from),
            DataType::Int16 => self.convert::<Int16Type>(rows, f64::from),
            DataType::Int32 => self.convert::<Int32Type>(rows, f64::from),
            DataType::Int64 => self.convert::<Int64Type>(rows, |x| x as f64),
            DataType::UInt8 => self.convert::<UInt8Type>(rows, f64::from),
            DataType::UInt16 => self.convert::<UInt16Type>(rows, f64::from),
            DataType::UInt32 => self.convert::<UInt32Type>(rows, f64::from),
            DataType::UInt64 => self.convert::<UInt64Type>(rows, |x| x as f64),
            DataType::Decimal32(_, scale) => {
                let unit = 10f64.powi(i32::from(*scale));
                self.convert::<Decimal32Type>(rows, |x| f64::from(x) / unit)
            }
            DataType::Decimal64(_, scale) => {
                let unit = 10f64.powi(i32::from(*scale));
                self.convert::<Decimal64Type>(rows, |x| x as f64 / unit)
            }
            DataType::Decimal128(_, scale) => {
                let unit = 10f64.powi(i32::from(*scale));
                self.convert::<Decimal128Type>(rows, |x| x as f64 / unit)
            }
            DataType::Date32 => self.convert::<Date32Type>(rows, f64::from),
            DataType::Date64 => self.convert::<Date64Type>(rows, |x| x as f64 / 86_400e3),
            DataType::Timestamp(unit, _) => match unit {
                TimeUnit::Second => self.convert::<TimestampSecondType>(rows, |x| x as f64),
                TimeUnit::Millisecond => {
                    self.convert::<TimestampMillisecondType>(rows, |x| x as f64 / 1e3)
                }
                TimeUnit::Microsecond => {
                    self.convert::<TimestampMicrosecondType>(rows, |x| x as f64 / 1e6)
                }
                TimeUnit::Nanosecond => {
                    self.convert::<TimestampNanosecondType>(rows, |x| x as f64 / 1e9)
                }
            },
            other => {
                let cast = match other {
                    DataType::Duration(_) | DataType::Time32(_) | DataType::Time64(_) => {
                        "take its seconds"
                    }
                    DataType::List(_) | DataType::LargeList(_) => "cast it to a fixed-size array",
                    _ => "cast it",
                };
                return Err(format!(
                    "column '{}' has type {other}; columns must be numeric, boolean, dates or \
                     text: {cast}, or leave it out",
                    self.name
                ));
            }
        })
    }

    fn convert<T: ArrowPrimitiveType>(
        &self,
        rows: Range<usize>,
        number: impl Fn(T::Native) -> f64,
    ) -> Cow<'static, [f64]> {
        let values = self.values.as_primitive::<T>().values();
        Cow::Owned(rows.map(|row| number(values[self.place.of(row)])).collect())
    }

    /// The values of `rows` and where there is none: NULL or NaN.
    pub fn present(&self, rows: Range<usize>) -> Result<(Cow<'_, [f64]>, Missing), String> {
        let mut missing = self.missing(rows.clone());
        let values = self.doubles(rows)?;
        mark_nan(&values, &mut missing);
        Ok((values, missing))
    }

    /// The rows where this column is NULL; `rows` counts from 0.
    pub fn missing(&self, rows: Range<usize>) -> Missing {
        let mut missing = Missing::none();
        self.mark_missing(rows, &mut missing);
        missing
    }

    /// Mix the values, each as it is, into the hashes of their rows.
    fn mix(&self, missing: &Missing, hashes: &mut [u64]) -> Result<(), String> {
        let at = |row| self.place.of(row);
        mix_values(&self.values, &at, missing, hashes)
            .ok_or_else(|| refusal(&self.name, self.values.data_type()))
    }

    /// Set the rows where this column is NULL; `rows` counts from 0.
    pub fn mark_missing(&self, rows: Range<usize>, missing: &mut Missing) {
        for (nulls, place) in &self.masks {
            match place {
                Place { stride: 1, start: 0 } => {
                    let bits = nulls.inner().slice(rows.start, rows.len());
                    missing.set_invalid(bits.bit_chunks().iter_padded(), rows.len());
                }
                place => {
                    for row in rows.clone().filter(|&row| nulls.is_null(place.of(row))) {
                        missing.set(row - rows.start, rows.len());
                    }
                }
            }
        }
    }
}

/// Mix the values of a key into the hashes of its rows, one a row.
pub fn mix_key(
    name: &str,
    values: &ArrayRef,
    place: Place,
    hashes: &mut [u64],
) -> Result<(), String> {
    let mut leaves = Vec::new();
    flatten(name.to_string(), values, place, &[], &mut leaves);
    if matches!(values.data_type(), DataType::Struct(_) | DataType::FixedSizeList(..)) {
        return mix_row(&leaves.iter().collect::<Vec<_>>(), hashes);
    }
    leaves.iter().try_for_each(|leaf| leaf.mix(&leaf.missing(0..hashes.len()), hashes))
}

/// Mix the values of a row, as a Gram reads it, into the hashes of the rows.
pub fn mix_row(leaves: &[&Leaf], hashes: &mut [u64]) -> Result<(), String> {
    for leaf in leaves {
        if !leaf.is_number() {
            leaf.mix(&leaf.missing(0..hashes.len()), hashes)?;
            continue;
        }
        for (i, hashes) in hashes.chunks_mut(CHUNK_ROWS).enumerate() {
            let rows = i * CHUNK_ROWS..i * CHUNK_ROWS + hashes.len();
            let (numbers, missing) = leaf.present(rows)?;
            mix(hashes, &missing, |row| Value::Double(numbers[row]));
        }
    }
    Ok(())
}

/// Mix the values at some places, one a row, into the hashes; nothing if their
/// type is none that a key may have.
fn mix_values(
    values: &ArrayRef,
    at: &dyn Fn(usize) -> usize,
    missing: &Missing,
    hashes: &mut [u64],
) -> Option<()> {
    /// The values, of a primitive type, as what is hashed.
    macro_rules! each {
        ($type:ty, $x:ident => $value:expr) => {{
            let values = values.as_primitive::<$type>().values();
            mix(hashes, missing, |row| {
                let $x = values[at(row)];
                $value
            })
        }};
    }
    macro_rules! bytes {
        ($values:expr) => {{
            let values = $values;
            mix(hashes, missing, |row| Value::Bytes(values.value(at(row)).as_ref()))
        }};
    }
    let whole = |n: i128| Value::Whole(n);
    let decimal = |units: i128, scale: i8| match u8::try_from(scale) {
        Ok(scale) => Value::Decimal(units, scale),
        Err(_) => {
            Value::Whole(units.saturating_mul(10i128.saturating_pow(scale.unsigned_abs().into())))
        }
    };
    match values.data_type() {
        DataType::Null => mix(hashes, missing, |_| Value::Double(f64::NAN)),
        DataType::Boolean => {
            let values = values.as_boolean().values();
            mix(hashes, missing, |row| whole(values.value(at(row)).into()))
        }
        DataType::Float16 => each!(Float16Type, x => Value::Double(x.to_f64())),
        DataType::Float32 => each!(Float32Type, x => Value::Double(x.into())),
        DataType::Float64 => each!(Float64Type, x => Value::Double(x)),
        DataType::Int8 => each!(Int8Type, x => whole(x.into())),
        DataType::Int16 => each!(Int16Type, x => whole(x.into())),
        DataType::Int32 => each!(Int32Type, x => whole(x.into())),
        DataType::Int64 => each!(Int64Type, x => whole(x.into())),
        DataType::UInt8 => each!(UInt8Type, x => whole(x.into())),
        DataType::UInt16 => each!(UInt16Type, x => whole(x.into())),
        DataType::UInt32 => each!(UInt32Type, x => whole(x.into())),
        DataType::UInt64 => each!(UInt64Type, x => whole(x.into())),
        &UNSIGNED_128 => {
            let values = values.as_fixed_size_binary();
            let one = |row| values.value(at(row)).try_into().expect("sixteen bytes");
            mix(hashes, missing, |row| Value::Unsigned(u128::from_le_bytes(one(row))))
        }
        &DataType::Decimal32(_, scale) => {
            each!(Decimal32Type, x => decimal(x.into(), scale))
        }
        &DataType::Decimal64(_, scale) => {
            each!(Decimal64Type, x => decimal(x.into(), scale))
        }
        &DataType::Decimal128(_, scale) => each!(Decimal128Type, x => decimal(x, scale)),
        DataType::Utf8 => bytes!(values.as_string::<i32>()),
        DataType::LargeUtf8 => bytes!(values.as_string::<i64>()),
        DataType::Utf8View => bytes!(values.as_string_view()),
        DataType::Binary => bytes!(values.as_binary::<i32>()),
        DataType::LargeBinary => bytes!(values.as_binary::<i64>()),
        DataType::BinaryView => bytes!(values.as_binary_view()),
        DataType::Date32 => each!(Date32Type, x => whole(i128::from(x) * DAY)),
        DataType::Date64 => each!(Date64Type, x => whole(i128::from(x) * MILLISECOND)),
        DataType::Timestamp(TimeUnit::Second, _) => {
            each!(TimestampSecondType, x => whole(i128::from(x) * SECOND))
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            each!(TimestampMillisecondType, x => whole(i128::from(x) * MILLISECOND))
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            each!(TimestampMicrosecondType, x => whole(i128::from(x) * MICROSECOND))
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            each!(TimestampNanosecondType, x => whole(x.into()))
        }
        DataType::Dictionary(..) => {
            let dictionary = values.as_any_dictionary();
            // Without values every row is missing.
            if dictionary.values().is_empty() {
                let nothing: ArrayRef = Arc::new(NullArray::new(0));
                return mix_values(&nothing, at, missing, hashes);
            }
            let codes = dictionary.normalized_keys();
            mix_values(dictionary.values(), &|row| codes[at(row)], missing, hashes)?;
        }
        _ => return None,
    }
    Some(())
}

/// The values of `rows` in some columns, with the rows where each is NULL.
pub fn chunk<'a>(
    columns: &[&'a Leaf],
    weight: Option<&'a Leaf>,
    rows: Range<usize>,
    policies: &'a [Policy],
) -> Result<Chunk<'a>, String> {
    let nulls_of = |leaf: &Leaf| {
        let mut nulls = Missing::none();
        leaf.mark_missing(rows.clone(), &mut nulls);
        nulls
    };
    let nulls = columns.iter().map(|leaf| nulls_of(leaf)).collect();
    let missing = weight.map(nulls_of).unwrap_or_default();
    let leaves = columns;
    let columns: Vec<Cow<[f64]>> =
        leaves.iter().map(|leaf| leaf.doubles(rows.clone())).collect::<Result<_, _>>()?;
    let units_of = |(at, leaf): (usize, &&Leaf)| leaf.units(at, rows.clone(), &columns[at]);
    let units = leaves.iter().enumerate().filter_map(units_of).collect();
    let weight = weight.map(|leaf| leaf.doubles(rows.clone())).transpose()?;
    Ok(Chunk { rows: rows.len(), columns, weight, missing, nulls, units, policies })
}

/// The type of a Gram record.
pub fn record_type() -> DataType {
    DataType::Struct(record_fields())
}

fn record_fields() -> Fields {
    let list = |item| DataType::LargeList(Arc::new(Field::new("item", item, true)));
    let types = [
        list(DataType::LargeUtf8),
        DataType::Int64,
        DataType::Int64,
        list(DataType::Int64),
        DataType::Float64,
        list(DataType::Float64),
        list(DataType::Float64),
        list(DataType::Float64),
        DataType::LargeUtf8,
    ];
    FIELDS.iter().zip(types).map(|(name, data_type)| Field::new(*name, data_type, true)).collect()
}

/// Numbers below which records are written by one thread: some ten milliseconds.
const WORTH_THREADS: usize = 1 << 22;

/// Records as one Arrow array, in their order; an absent one is NULL. Many are written by all cores.
pub fn write_records<R: Recorded + Send>(records: &mut [Option<R>]) -> Result<StructArray, String> {
    let widths = || records.iter().map(width_of);
    let (width, entries) = (widths().sum(), widths().map(triangle).sum());
    let a_column = OffsetBuffer::<i64>::from_lengths(widths());
    let an_entry = OffsetBuffer::<i64>::from_lengths(widths().map(triangle));
    let valid = NullBuffer::from_iter(records.iter().map(Option::is_some));
    let valid = Some(valid).filter(|valid| valid.null_count() > 0);
    let (mut letters, mut ends) = (Vec::new(), Vec::with_capacity(width + 1));
    ends.push(0);
    let (mut terms, mut written) = (LargeStringBuilder::new(), Written::default());
    for record in records.iter() {
        let Some(record) = record else {
            terms.append_null();
            continue;
        };
        for name in record.columns().iter() {
            letters.extend_from_slice(name.as_bytes());
            ends.push(letters.len() as i64);
        }
        terms.append_option(written.json(record.terms()));
    }
    let [mut rows, mut skipped] = [(); 2].map(|()| vec![0; records.len()]);
    let mut missing = vec![0; width];
    let [mut weight, mut mean, mut mean_low, mut comoment] =
        [records.len(), width, width, entries].map(|length| vec![0.0; length]);
    let numbers = Numbers {
        rows: &mut rows,
        skipped: &mut skipped,
        weight: &mut weight,
        missing: &mut missing,
        mean: &mut mean,
        mean_low: &mut mean_low,
        comoment: &mut comoment,
    };
    let cores = if entries + 3 * width < WORTH_THREADS { 1 } else { cores() };
    numbers.write(records, cores)?;
    let fields = record_fields();
    let numbers = |values: Vec<f64>| Arc::new(Float64Array::from(values)) as ArrayRef;
    let counts = |values: Vec<i64>| Int64Array::new(values.into(), valid.clone());
    let list = |at: usize, offsets: &OffsetBuffer<i64>, values: ArrayRef| {
        let DataType::LargeList(item) = fields[at].data_type() else { unreachable!("a list") };
        let list = LargeListArray::new(item.clone(), offsets.clone(), values, valid.clone());
        Arc::new(list) as ArrayRef
    };
    // SAFETY: the letters are those of texts, one after the other, and so are their ends.
    let names = unsafe {
        LargeStringArray::new_unchecked(
            OffsetBuffer::new_unchecked(ends.into()),
            letters.into(),
            None,
        )
    };
    let arrays = vec![
        list(0, &a_column, Arc::new(names)),
        Arc::new(counts(rows)),
        Arc::new(counts(skipped)),
        list(3, &a_column, Arc::new(Int64Array::from(missing))),
        Arc::new(Float64Array::new(weight.into(), valid.clone())),
        list(5, &a_column, numbers(mean)),
        list(6, &a_column, numbers(mean_low)),
        list(7, &an_entry, numbers(comoment)),
        Arc::new(terms.finish()),
    ];
    Ok(StructArray::new(fields.clone(), arrays, valid.clone()))
}

fn width_of<R: Recorded>(record: &Option<R>) -> usize {
    record.as_ref().map_or(0, |record| record.columns().len())
}

/// Where the numbers of some records go, zeros before: one a record, a column or a pair of columns.
struct Numbers<'n> {
    rows: &'n mut [i64],
    skipped: &'n mut [i64],
    weight: &'n mut [f64],
    missing: &'n mut [i64],
    mean: &'n mut [f64],
    mean_low: &'n mut [f64],
    comoment: &'n mut [f64],
}

impl<'n> Numbers<'n> {
    /// Write the numbers of some records with so many threads.
    fn write<R: Recorded + Send>(
        mut self,
        records: &mut [Option<R>],
        cores: usize,
    ) -> Result<(), String> {
        if cores < 2 || records.len() < cores {
            return self.write_all(records);
        }
        let size = records.len().div_ceil(cores);
        let parts = records.chunks_mut(size).map(|some| (self.take(some), some)).collect();
        of_each(parts, |(own, some): (Numbers, &mut [Option<R>])| own.write_all(some))
            .into_iter()
            .collect()
    }

    /// Take away the places of some records, which come first.
    fn take<R: Recorded>(&mut self, records: &[Option<R>]) -> Numbers<'n> {
        fn cut<'n, T>(from: &mut &'n mut [T], length: usize) -> &'n mut [T] {
            from.split_off_mut(..length).unwrap_or_default()
        }
        let count = records.len();
        let widths = || records.iter().map(width_of);
        let (width, entries) = (widths().sum(), widths().map(triangle).sum());
        Numbers {
            rows: cut(&mut self.rows, count),
            skipped: cut(&mut self.skipped, count),
            weight: cut(&mut self.weight, count),
            missing: cut(&mut self.missing, width),
            mean: cut(&mut self.mean, width),
            mean_low: cut(&mut self.mean_low, width),
            comoment: cut(&mut self.comoment, entries),
        }
    }

    fn write_all<R: Recorded>(self, records: &mut [Option<R>]) -> Result<(), String> {
        let (mut column, mut entry) = (0, 0);
        for at in 0..records.len() {
            expect_ahead(records, at);
            let Some(record) = &mut records[at] else { continue };
            let names = record.columns().clone();
            let own = column..column + names.len();
            let entries = entry..entry + triangle(names.len());
            (column, entry) = (own.end, entries.end);
            for (out, &rows) in self.missing[own.clone()].iter_mut().zip(record.missing()) {
                *out = rows as i64;
            }
            record.with_moments(|moments| {
                check_overflow(&names, moments)?;
                self.rows[at] = moments.rows as i64;
                self.skipped[at] = moments.skipped as i64;
                self.weight[at] = moments.weight;
                let means = self.mean[own.clone()].iter_mut().zip(&mut self.mean_low[own]);
                for ((high, low), mean) in means.zip(moments.exact_means()) {
                    (*high, *low) = mean;
                }
                self.comoment[entries].copy_from_slice(&moments.comoment);
                Ok::<(), String>(())
            })?;
        }
        Ok(())
    }
}

/// Row `row` of an array of records; NULL gives nothing.
pub fn read_record(array: &StructArray, row: usize) -> Result<Option<Record>, String> {
    Records::of(array).at(row)
}

/// An array of records, whose fields are looked up once.
pub struct Records<'a> {
    array: &'a StructArray,
    fields: [Option<&'a ArrayRef>; FIELDS.len()],
}

impl<'a> Records<'a> {
    /// The records of an array, of which nothing is checked yet.
    pub fn of(array: &'a StructArray) -> Records<'a> {
        Records { array, fields: FIELDS.map(|name| array.column_by_name(name)) }
    }

    /// Row `row`; NULL gives nothing.
    pub fn at(&self, row: usize) -> Result<Option<Record>, String> {
        if self.array.is_null(row) {
            return Ok(None);
        }
        let raw = RawRecord {
            missing: self.optional(3, row, counts)?,
            mean_low: self.optional(6, row, numbers)?,
            terms: self.optional(8, row, string)?,
            columns: self.needed(0, row, strings)?,
            rows: self.needed(1, row, count)?,
            skipped: self.needed(2, row, count)?,
            weight: self.needed(4, row, number)?,
            mean: self.needed(5, row, numbers)?,
            comoment: self.needed(7, row, numbers)?,
        };
        raw.check().map(Some)
    }

    /// What a field, by its place in `FIELDS`, has in a row.
    fn needed<T>(&self, at: usize, row: usize, read: Read<T>) -> Result<T, String> {
        let absent = || field(self.array, FIELDS[at], "gram record");
        let found = self.fields[at].map_or_else(absent, Ok)?;
        refuse_nulls(found, FIELDS[at], row)?;
        read(found, FIELDS[at], row)
    }

    fn optional<T>(&self, at: usize, row: usize, read: Read<T>) -> Result<Option<T>, String> {
        let is_known = self.fields[at].is_some_and(|field| field.is_valid(row));
        is_known.then(|| self.needed(at, row, read)).transpose()
    }
}

/// Reads a row of an array that has a name.
type Read<T> = fn(&ArrayRef, &str, usize) -> Result<T, String>;

/// Refuse a field of a record that is NULL, or a list of some, in the words of every host.
fn refuse_nulls(field: &ArrayRef, name: &str, row: usize) -> Result<(), String> {
    if nulls_of(field).is_some_and(|nulls| nulls.is_null(row)) {
        return Err(format!("gram record has NULL in '{name}'"));
    }
    let Ok((range, elements)) = list_at(field, name, row) else {
        return Ok(());
    };
    if nulls_of(elements).is_some_and(|nulls| range.into_iter().any(|i| nulls.is_null(i))) {
        return Err(format!("gram record has a NULL element in '{name}'"));
    }
    Ok(())
}

/// Where values are NULL; threads that share an array do not count who holds it, if they can.
fn nulls_of(array: &ArrayRef) -> Option<Cow<'_, NullBuffer>> {
    match array.nulls() {
        None => array.logical_nulls().map(Cow::Owned),
        Some(_) if array.as_any_dictionary_opt().is_some() => array.logical_nulls().map(Cow::Owned),
        Some(nulls) => Some(Cow::Borrowed(nulls)),
    }
}

/// Where the list of row `row` lies among all list elements, and those.
fn list_at<'a>(
    array: &'a ArrayRef,
    name: &str,
    row: usize,
) -> Result<(Range<usize>, &'a ArrayRef), String> {
    let offsets = |start: i64, end: i64| start as usize..end as usize;
    if array.is_null(row) {
        return Err(format!("'{name}' is NULL; a list is needed"));
    }
    match array.data_type() {
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let at = list.value_offsets();
            Ok((offsets(at[row].into(), at[row + 1].into()), list.values()))
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            let at = list.value_offsets();
            Ok((offsets(at[row], at[row + 1]), list.values()))
        }
        other => Err(format!("'{name}' has type {other}; a list is needed")),
    }
}

/// A field of a record or of a step, by name.
pub fn field<'a>(array: &'a StructArray, name: &str, what: &str) -> Result<&'a ArrayRef, String> {
    array.column_by_name(name).ok_or_else(|| {
        let names: Vec<&str> = array.fields().iter().map(|field| field.name().as_str()).collect();
        format!("{what} has no field '{name}'; its fields are [{}]", names.join(", "))
    })
}

fn number(array: &ArrayRef, name: &str, row: usize) -> Result<f64, String> {
    if array.is_null(row) {
        return Err(format!("'{name}' is NULL; a number is needed"));
    }
    if array.data_type().is_nested() {
        return Err(format!("'{name}' has type {}; a number is needed", array.data_type()));
    }
    if let Some(doubles) = array.as_primitive_opt::<Float64Type>() {
        return Ok(doubles.value(row));
    }
    Ok(leaf(name, array, Place::ROW).doubles(row..row + 1)?[0])
}

fn numbers(array: &ArrayRef, name: &str, row: usize) -> Result<Vec<f64>, String> {
    let (range, values) = list_at(array, name, row)?;
    let values: &PrimitiveArray<Float64Type> = values
        .as_primitive_opt()
        .ok_or_else(|| format!("'{name}' holds {}; doubles are needed", values.data_type()))?;
    if values.null_count() > 0 && range.clone().any(|i| values.is_null(i)) {
        return Err(format!("'{name}' has a NULL element; numbers are needed"));
    }
    Ok(values.values()[range].to_vec())
}

fn count(array: &ArrayRef, name: &str, row: usize) -> Result<i64, String> {
    match array.as_primitive_opt::<Int64Type>() {
        Some(counts) if counts.is_valid(row) => Ok(counts.value(row)),
        _ => Ok(number(array, name, row)? as i64),
    }
}

fn counts(array: &ArrayRef, name: &str, row: usize) -> Result<Vec<i64>, String> {
    let (range, values) = list_at(array, name, row)?;
    range.map(|i| count(values, name, i)).collect()
}

fn strings(array: &ArrayRef, name: &str, row: usize) -> Result<Vec<String>, String> {
    let (range, values) = list_at(array, name, row)?;
    range.map(|i| string(values, name, i)).collect()
}

fn string(array: &ArrayRef, name: &str, row: usize) -> Result<String, String> {
    if array.is_null(row) {
        return Err(format!("'{name}' has a NULL element; names are needed"));
    }
    match array.data_type() {
        DataType::Utf8 => Ok(array.as_string::<i32>().value(row).to_string()),
        DataType::LargeUtf8 => Ok(array.as_string::<i64>().value(row).to_string()),
        DataType::Utf8View => Ok(array.as_string_view().value(row).to_string()),
        other => Err(format!("'{name}' holds {other}; names are needed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{BooleanArray, FixedSizeListArray, Float64Array, Int32Array};

    fn table() -> StructArray {
        let pair = |a: ArrayRef, b: ArrayRef| {
            let fields: Fields = vec![
                Field::new("old", a.data_type().clone(), true),
                Field::new("age", b.data_type().clone(), true),
            ]
            .into();
            StructArray::new(fields, vec![a, b], Some(vec![true, true, false].into()))
        };
        let demo = pair(
            Arc::new(BooleanArray::from(vec![true, false, true])),
            Arc::new(Int32Array::from(vec![Some(7), None, Some(9)])),
        );
        let item = Arc::new(Field::new("item", DataType::Float64, true));
        let values =
            Float64Array::from(vec![Some(1.0), Some(2.0), Some(3.0), Some(4.0), None, Some(6.0)]);
        let emb = FixedSizeListArray::new(item.clone(), 2, Arc::new(values), None);
        let fields: Fields = vec![
            Field::new("demo", demo.data_type().clone(), true),
            Field::new("emb", emb.data_type().clone(), true),
        ]
        .into();
        StructArray::new(fields, vec![Arc::new(demo), Arc::new(emb)], None)
    }

    #[test]
    fn nested_fields_flatten_to_named_columns() {
        for (table, rows) in [(table(), 0..3), (table().slice(1, 2), 0..2)] {
            let leaves = leaves(&table, Place::ROW);
            let names: Vec<&str> = leaves.iter().map(|leaf| leaf.name.as_str()).collect();
            assert_eq!(names, ["demo.old", "demo.age", "emb[1]", "emb[2]"]);
            let first = rows.len() - 2;
            let last = leaves[3].doubles(rows.clone()).unwrap();
            assert_eq!(last[first..], [4.0, 6.0][2 - (rows.len() - first)..]);
            let mut missing = Missing::none();
            leaves.iter().for_each(|leaf| leaf.mark_missing(rows.clone(), &mut missing));
            let found: Vec<bool> = rows.clone().map(|row| missing.contains(row)).collect();
            assert_eq!(found[first..], [true, true]);
            assert_eq!(found.len() == 3, !found[0]);
        }
    }

    #[test]
    fn a_range_of_rows_is_counted_from_its_start() {
        let leaves = leaves(&table(), Place::ROW);
        let mut missing = Missing::none();
        leaves.iter().for_each(|leaf| leaf.mark_missing(1..3, &mut missing));
        assert!(missing.contains(0) && missing.contains(1));
        assert_eq!(*leaves[2].doubles(1..2).unwrap(), [3.0]);
    }

    #[test]
    fn records_survive_the_round_trip() {
        let raw = RawRecord {
            columns: vec!["x".to_string(), "k.a".to_string()],
            rows: 3,
            skipped: 1,
            missing: Some(vec![4, 5]),
            weight: 3.0,
            mean: vec![1e8, 2.0],
            mean_low: Some(vec![1e-9, 0.0]),
            comoment: vec![2.0, 1.0, 4.0],
            terms: Some(
                r#"{"categories":[{"column":"k","levels":["a"],"rest":false}],"bases":[]}"#.into(),
            ),
        };
        let record = raw.check().unwrap();
        let array = write_records(&mut [None, Some(record.clone())]).unwrap();
        assert_eq!(array.data_type(), &record_type());
        assert!(read_record(&array, 0).unwrap().is_none());
        let back = read_record(&array, 1).unwrap().unwrap();
        assert_eq!(back.columns, record.columns);
        assert_eq!(back.moments.comoment, record.moments.comoment);
        let (mean, expected) = (back.moments.exact_mean(), record.moments.exact_mean());
        assert_eq!((mean.high, mean.low), (expected.high, expected.low));
        assert_eq!((&back.missing, &back.terms), (&record.missing, &record.terms));
        assert_eq!((back.moments.rows, back.moments.skipped), (3, 1));
    }
}

//! The row of a table, flattened into columns of numbers.

use std::borrow::Cow;
use std::collections::HashMap;
use std::slice;

use super::api::type_id;
use super::types::LogicalType;
use super::vectors::{Vector, bytes};
use crate::kernel::chunk::{Missing, mark_nan};
use crate::kernel::fold::{DAY, MICROSECOND, MILLISECOND, SECOND, Value, mix, refusal};
use crate::kernel::units::Units;
use crate::record::inputs::{self, Kind};
use crate::record::rows::Column;
use crate::record::texts::{Texts, Values};

/// One column of a flattened row: `crate::record::arrow::Leaf` is that of Arrow.
pub struct Leaf {
    /// Name of the flattened column.
    pub name: String,
    vector: Vector,
    number: Number,
    place: Place,
    masks: Vec<(*const u64, Place)>,
    is_field: bool,
}

#[derive(Clone, Copy, PartialEq)]
struct Place {
    stride: usize,
    start: usize,
}

impl Place {
    const ROW: Place = Place { stride: 1, start: 0 };

    fn of(self, row: usize) -> usize {
        row * self.stride + self.start
    }
}

/// How a number is stored, and the digits of a DECIMAL after the point.
#[derive(Clone, Copy)]
struct Number {
    stored_as: u32,
    scale: u8,
}

/// Why a type is none of rows.
pub fn no_row(own: u32) -> String {
    let is = type_id::name(own);
    format!(
        "row must be a STRUCT or a table name, not {is}; columns are a row as {{'a': a, 'b': b}}"
    )
}

/// Flatten a row of a chunk into numbers; nothing if the row has no type: NULL.
pub fn leaves(row: Vector) -> Result<Option<Vec<Leaf>>, String> {
    let row_type = row.logical_type();
    match row_type.id() {
        type_id::SQLNULL => return Ok(None),
        type_id::STRUCT => {}
        other => {
            return Err(no_row(other));
        }
    }
    let masks = mask_of(row, Place::ROW);
    let mut leaves = Vec::new();
    for (index, (name, field_type)) in row_type.fields().into_iter().enumerate() {
        if name.is_empty() {
            return Err("row has a field without a name; name every field".to_string());
        }
        let first = leaves.len();
        let field = row.child(index as u64);
        flatten(name.clone(), field, &field_type, Place::ROW, &masks, &mut leaves)?;
        leaves[first..].iter_mut().for_each(|leaf| leaf.is_field = leaf.name == name);
    }
    Ok(Some(leaves))
}

/// A plain number, such as a weight.
pub fn leaf(name: &str, vector: Vector) -> Result<Leaf, String> {
    let own = vector.logical_type();
    let mut leaves = Vec::with_capacity(1);
    flatten(name.to_string(), vector, &own, Place::ROW, &[], &mut leaves)?;
    let leaf = leaves.pop().filter(|leaf| leaf.name == name && leaf.check().is_ok());
    let is = type_id::name(own.id());
    leaf.ok_or_else(|| format!("{name} has type {is}; it must be numeric or boolean"))
}

/// Mix the values of a key into the hashes of its rows; see `crate::record::arrow::mix_key`.
///
/// # Safety
/// The chunk of the vector is live and has a row for every hash.
pub unsafe fn mix_key(key: Vector, hashes: &mut [u64]) -> Result<(), String> {
    let key_type = key.logical_type();
    let mut leaves = Vec::new();
    flatten("key".to_string(), key, &key_type, Place::ROW, &[], &mut leaves)?;
    let in_row = matches!(key_type.id(), type_id::STRUCT | type_id::ARRAY);
    let rows = hashes.len();
    for leaf in leaves {
        // SAFETY: see the caller's promise; what `check` passes is a number.
        unsafe {
            if in_row && leaf.check().is_ok() {
                let (numbers, missing) = leaf.present(rows);
                mix(hashes, &missing, |row| Value::Double(numbers[row]));
            } else {
                leaf.mix(&leaf.missing(rows), hashes)?;
            }
        }
    }
    Ok(())
}

fn mask_of(vector: Vector, place: Place) -> Vec<(*const u64, Place)> {
    let validity = vector.validity();
    if validity.is_null() { Vec::new() } else { vec![(validity, place)] }
}

fn flatten(
    name: String,
    vector: Vector,
    logical_type: &LogicalType,
    place: Place,
    masks: &[(*const u64, Place)],
    out: &mut Vec<Leaf>,
) -> Result<(), String> {
    let mut masks = masks.to_vec();
    masks.extend(mask_of(vector, place));
    let mut number = Number { stored_as: logical_type.id(), scale: 0 };
    match number.stored_as {
        type_id::STRUCT => {
            for (index, (child, child_type)) in logical_type.fields().into_iter().enumerate() {
                let name = format!("{name}.{child}");
                flatten(name, vector.child(index as u64), &child_type, place, &masks, out)?;
            }
            return Ok(());
        }
        type_id::ARRAY => {
            let ((size, item), items) = (logical_type.array(), vector.items());
            for element in 0..size {
                let name = format!("{name}[{}]", element + 1);
                let place =
                    Place { stride: place.stride * size, start: place.start * size + element };
                flatten(name, items, &item, place, &masks, out)?;
            }
            return Ok(());
        }
        type_id::DECIMAL => (number.stored_as, number.scale) = logical_type.decimal(),
        _ => {}
    }
    out.push(Leaf { name, vector, number, place, masks, is_field: false });
    Ok(())
}

impl Leaf {
    /// What the column is, before its values are read.
    pub fn column(&self) -> Column<'_> {
        let unit = match self.number.stored_as {
            type_id::DATE => Some("days"),
            other if units_of_second(other).is_some() => Some("seconds"),
            _ => None,
        };
        Column { name: &self.name, is_field: self.is_field, is_text: self.is_text(), unit }
    }

    /// The column of the first `rows` rows as a prediction reads it.
    ///
    /// # Safety
    /// The chunk has that many rows and lives as long as the result.
    pub unsafe fn input<'c>(&'c self, rows: usize) -> inputs::Column<'c> {
        let kind = match self.number.stored_as {
            _ if self.is_text() => Kind::Text,
            type_id::BOOLEAN => Kind::Boolean,
            type_id::FLOAT | type_id::DOUBLE => Kind::Number,
            type_id::SQLNULL => Kind::Nothing,
            _ if self.number.scale > 0 => Kind::Number,
            other => match self.column().unit {
                Some(unit) => Kind::Date(unit),
                None if self.check().is_ok() => Kind::Whole,
                None => Kind::Other(type_id::name(other).to_string()),
            },
        };
        let type_name = type_id::name(self.number.stored_as).to_string();
        // SAFETY: see the caller's promise; values are read as the kind just found.
        let (numbers, integers, texts) = (
            move || unsafe { (self.doubles(rows), self.missing(rows)) },
            move || unsafe { self.integers(rows) },
            move || unsafe { self.texts(rows) },
        );
        inputs::Column::new(self.name.clone(), (kind, type_name), numbers, integers, texts)
    }

    /// The first `rows` values as whole numbers of a unit where doubles do not hold them.
    ///
    /// # Safety
    /// As `doubles`.
    pub unsafe fn units(&self, column: usize, doubles: &[f64]) -> Option<Units<'static>> {
        let per_one = match self.number.stored_as {
            type_id::BIGINT | type_id::HUGEINT => 10i128.pow(self.number.scale.into()),
            type_id::UBIGINT | type_id::UHUGEINT => 1,
            other => units_of_second(other)? as i128,
        };
        // SAFETY: see the caller's promise.
        Units::of(column, doubles, per_one, || unsafe { self.integers(doubles.len()) })
    }

    /// The first `rows` whole numbers, exactly: units of a fraction; none of a column of doubles.
    ///
    /// # Safety
    /// As `doubles`.
    unsafe fn integers(&self, rows: usize) -> Vec<i128> {
        // SAFETY: the values are stored as the type says.
        unsafe {
            match self.number.stored_as {
                type_id::TINYINT => self.collect(rows, |x: i8| x.into()),
                type_id::SMALLINT => self.collect(rows, |x: i16| x.into()),
                type_id::INTEGER => self.collect(rows, |x: i32| x.into()),
                type_id::BIGINT => self.collect(rows, |x: i64| x.into()),
                type_id::HUGEINT => self.collect(rows, |x: Wide<i128>| x.0),
                type_id::UTINYINT => self.collect(rows, |x: u8| x.into()),
                type_id::USMALLINT => self.collect(rows, |x: u16| x.into()),
                type_id::UINTEGER => self.collect(rows, |x: u32| x.into()),
                type_id::UBIGINT => self.collect(rows, |x: u64| x.into()),
                // Levels have 64 bits: what does not fit is none.
                type_id::UHUGEINT => {
                    self.collect(rows, |x: Wide<u128>| { x.0 }.try_into().unwrap_or(i128::MAX))
                }
                other if units_of_second(other).is_some() => self.collect(rows, |x: i64| x.into()),
                _ => Vec::new(),
            }
        }
    }

    /// Whether the column holds text.
    pub fn is_text(&self) -> bool {
        matches!(self.number.stored_as, type_id::VARCHAR | type_id::ENUM)
    }

    /// The first `rows` texts.
    ///
    /// # Safety
    /// `is_text`, and the chunk has that many rows and lives as long as the result.
    pub unsafe fn texts<'c>(&self, rows: usize) -> Texts<'c> {
        // SAFETY: see the caller's promise; the bytes of a NULL are never read.
        unsafe {
            let missing = self.missing(rows);
            if self.number.stored_as == type_id::VARCHAR {
                let text = |row| match missing.contains(row) {
                    true => &[][..],
                    false => bytes(self.vector, self.place.of(row)),
                };
                return Texts { values: Values::Each((0..rows).map(text).collect()), missing };
            }
            let (mut numbers, mut levels) = (HashMap::new(), Vec::new());
            let logical_type = self.vector.logical_type();
            let stored = self.codes(rows);
            let code = |row: usize| {
                if missing.contains(row) {
                    return 0;
                }
                let code = stored[row] as u64;
                *numbers.entry(code).or_insert_with(|| {
                    levels.push(Cow::Owned(logical_type.level(code).into_bytes()));
                    levels.len() as u32 - 1
                })
            };
            let codes = (0..rows).map(code).collect();
            Texts { values: Values::Coded(levels, codes), missing }
        }
    }

    /// Refuse a column that is neither a number nor text.
    pub fn check_column(&self) -> Result<(), String> {
        if self.is_text() { Ok(()) } else { self.check() }
    }

    /// Refuse a column that is no number.
    pub fn check(&self) -> Result<(), String> {
        match self.number.stored_as {
            type_id::DATE => Ok(()),
            other if units_of_second(other).is_some() => Ok(()),
            type_id::BOOLEAN..=type_id::DOUBLE
            | type_id::HUGEINT
            | type_id::UHUGEINT
            | type_id::SQLNULL => Ok(()),
            other => {
                let name = &self.name;
                let cast = match other {
                    type_id::INTERVAL | type_id::TIME => format!("take its seconds, epoch({name})"),
                    type_id::LIST => format!("cast it to a fixed size, {name}::DOUBLE[3]"),
                    _ => format!("cast it, {name}::VARCHAR"),
                };
                Err(format!(
                    "column '{name}' has type {}; columns must be numeric, boolean, dates or text: \
                     {cast}, or leave it out with struct_pack(*COLUMNS(* EXCLUDE (...)))",
                    type_id::name(other)
                ))
            }
        }
    }

    /// The first `rows` values as doubles, borrowed where they are doubles.
    ///
    /// # Safety
    /// `check` passed, and the chunk has that many rows and lives as long as the
    /// result.
    pub unsafe fn doubles<'c>(&self, rows: usize) -> Cow<'c, [f64]> {
        let unit = 10f64.powi(self.number.scale.into());
        // SAFETY: the type of the vector says how its values are stored, and it
        // holds one for every row, or for every element of every row.
        unsafe {
            match self.number.stored_as {
                type_id::DOUBLE if self.place == Place::ROW => {
                    Cow::Borrowed(slice::from_raw_parts(self.vector.data(), rows))
                }
                type_id::DOUBLE => self.convert(rows, |x: f64| x),
                type_id::FLOAT => self.convert(rows, |x: f32| x.into()),
                // A BOOLEAN is a byte that need not be 0 or 1.
                type_id::BOOLEAN => self.convert(rows, |x: u8| f64::from(u8::from(x != 0))),
                type_id::TINYINT => self.convert(rows, |x: i8| x.into()),
                type_id::SMALLINT => self.convert(rows, |x: i16| f64::from(x) / unit),
                type_id::INTEGER => self.convert(rows, |x: i32| f64::from(x) / unit),
                type_id::BIGINT => self.convert(rows, |x: i64| x as f64 / unit),
                type_id::HUGEINT => self.convert(rows, |x: Wide<i128>| { x.0 } as f64 / unit),
                type_id::UTINYINT => self.convert(rows, |x: u8| x.into()),
                type_id::USMALLINT => self.convert(rows, |x: u16| x.into()),
                type_id::UINTEGER => self.convert(rows, |x: u32| x.into()),
                type_id::UBIGINT => self.convert(rows, |x: u64| x as f64),
                type_id::UHUGEINT => self.convert(rows, |x: Wide<u128>| { x.0 } as f64),
                // The infinities of DuckDB are the ends of the range.
                type_id::DATE => self.convert(rows, |x: i32| match x {
                    i32::MAX => f64::INFINITY,
                    x if x == -i32::MAX => f64::NEG_INFINITY,
                    x => x.into(),
                }),
                other if let Some(unit) = units_of_second(other) => {
                    self.convert(rows, |x: i64| match x {
                        i64::MAX => f64::INFINITY,
                        x if x == -i64::MAX => f64::NEG_INFINITY,
                        x => x as f64 / unit,
                    })
                }
                // NULL has no values; its mask leaves every row out.
                _ => Cow::Owned(vec![0.0; rows]),
            }
        }
    }

    /// # Safety
    /// The data are values of type `T`, enough for `rows` rows.
    unsafe fn convert<'c, T: Copy>(
        &self,
        rows: usize,
        number: impl Fn(T) -> f64,
    ) -> Cow<'c, [f64]> {
        // SAFETY: see the caller's promise.
        Cow::Owned(unsafe { self.collect(rows, number) })
    }

    /// # Safety
    /// As `convert`.
    unsafe fn collect<T: Copy, N>(&self, rows: usize, number: impl Fn(T) -> N) -> Vec<N> {
        let values: *const T = self.vector.data();
        // SAFETY: see the caller's promise.
        let value = |row| number(unsafe { *values.add(self.place.of(row)) });
        (0..rows).map(value).collect()
    }

    /// Mix the values, each as it is, into the hashes of their rows.
    ///
    /// # Safety
    /// The chunk is live and has a row for every hash.
    unsafe fn mix(&self, missing: &Missing, hashes: &mut [u64]) -> Result<(), String> {
        let scale = self.number.scale;
        let decimal = |units| Value::Decimal(units, scale);
        let whole = |n: i64, unit: i128| Value::Whole(i128::from(n) * unit);
        // SAFETY: the type of the vector says how its values are stored.
        unsafe {
            match self.number.stored_as {
                type_id::BOOLEAN => self.each(missing, hashes, |x: u8| whole((x != 0).into(), 1)),
                type_id::FLOAT => self.each(missing, hashes, |x: f32| Value::Double(x.into())),
                type_id::DOUBLE => self.each(missing, hashes, Value::Double),
                type_id::TINYINT => self.each(missing, hashes, |x: i8| whole(x.into(), 1)),
                type_id::SMALLINT => self.each(missing, hashes, |x: i16| decimal(x.into())),
                type_id::INTEGER => self.each(missing, hashes, |x: i32| decimal(x.into())),
                type_id::BIGINT => self.each(missing, hashes, |x: i64| decimal(x.into())),
                type_id::HUGEINT => self.each(missing, hashes, |x: Wide<i128>| decimal(x.0)),
                type_id::UTINYINT => self.each(missing, hashes, |x: u8| whole(x.into(), 1)),
                type_id::USMALLINT => self.each(missing, hashes, |x: u16| whole(x.into(), 1)),
                type_id::UINTEGER => self.each(missing, hashes, |x: u32| whole(x.into(), 1)),
                type_id::UBIGINT => self.each(missing, hashes, |x: u64| Value::Whole(x.into())),
                type_id::UHUGEINT => {
                    self.each(missing, hashes, |x: Wide<u128>| Value::Unsigned(x.0))
                }
                type_id::DATE => self.each(missing, hashes, |x: i32| whole(x.into(), DAY)),
                type_id::TIMESTAMP_S => self.each(missing, hashes, |x: i64| whole(x, SECOND)),
                type_id::TIMESTAMP_MS => self.each(missing, hashes, |x: i64| whole(x, MILLISECOND)),
                type_id::TIMESTAMP | type_id::TIMESTAMP_TZ => {
                    self.each(missing, hashes, |x: i64| whole(x, MICROSECOND))
                }
                type_id::TIMESTAMP_NS | type_id::TIMESTAMP_TZ_NS => {
                    self.each(missing, hashes, |x: i64| whole(x, 1))
                }
                // DuckDB keeps UUIDs as signed numbers that sort like their text.
                type_id::UUID => {
                    self.each(missing, hashes, |x: Wide<u128>| Value::Uuid(x.0 ^ (1 << 127)))
                }
                type_id::VARCHAR | type_id::BLOB => {
                    mix(hashes, missing, |row| Value::Bytes(bytes(self.vector, self.place.of(row))))
                }
                type_id::ENUM => self.mix_levels(missing, hashes),
                type_id::SQLNULL => mix(hashes, missing, |_| Value::Double(f64::NAN)),
                other => return Err(refusal(&self.name, type_id::name(other))),
            }
        }
        Ok(())
    }

    /// # Safety
    /// As `mix`, for an ENUM.
    unsafe fn mix_levels(&self, missing: &Missing, hashes: &mut [u64]) {
        let logical_type = self.vector.logical_type();
        let rows = hashes.len();
        // SAFETY: see the caller's promise.
        let codes = unsafe { self.codes(rows) };
        let mut levels = HashMap::new();
        for row in (0..rows).filter(|&row| !missing.contains(row)) {
            let code = codes[row] as u64;
            levels.entry(code).or_insert_with(|| logical_type.level(code));
        }
        mix(hashes, missing, |row| Value::Bytes(levels[&(codes[row] as u64)].as_bytes()));
    }

    /// The codes of an ENUM.
    ///
    /// # Safety
    /// As `doubles`, for an ENUM.
    unsafe fn codes<'c>(&self, rows: usize) -> Cow<'c, [f64]> {
        // SAFETY: the codes are stored as the type says.
        unsafe {
            match self.vector.logical_type().codes() {
                type_id::UTINYINT => self.convert(rows, |x: u8| x.into()),
                type_id::USMALLINT => self.convert(rows, |x: u16| x.into()),
                _ => self.convert(rows, |x: u32| x.into()),
            }
        }
    }

    /// # Safety
    /// The data are values of type `T`, one for every row that is not missing.
    unsafe fn each<'v, T: Copy>(
        &self,
        missing: &Missing,
        hashes: &mut [u64],
        value: impl Fn(T) -> Value<'v>,
    ) {
        let values: *const T = self.vector.data();
        // SAFETY: see the caller's promise.
        mix(hashes, missing, |row| value(unsafe { *values.add(self.place.of(row)) }));
    }

    /// The values as doubles and where there is none: NULL or NaN.
    ///
    /// # Safety
    /// As `doubles`.
    pub unsafe fn present<'c>(&self, rows: usize) -> (Cow<'c, [f64]>, Missing) {
        // SAFETY: see the caller's promise.
        let (values, mut missing) = unsafe { (self.doubles(rows), self.missing(rows)) };
        mark_nan(&values, &mut missing);
        (values, missing)
    }

    /// The rows where this column is NULL.
    ///
    /// # Safety
    /// As `mark_missing`.
    unsafe fn missing(&self, rows: usize) -> Missing {
        let mut missing = Missing::none();
        // SAFETY: see the caller's promise.
        unsafe { self.mark_missing(rows, &mut missing) };
        missing
    }

    /// Set the rows where this column is NULL.
    ///
    /// # Safety
    /// The chunk is live and has `rows` rows.
    pub unsafe fn mark_missing(&self, rows: usize, missing: &mut Missing) {
        if self.number.stored_as == type_id::SQLNULL {
            missing.set_all(rows);
        }
        for &(mask, place) in &self.masks {
            // SAFETY: a mask has a bit for every row or element.
            let word = |index: usize| unsafe { *mask.add(index) };
            if place == Place::ROW {
                missing.set_invalid((0..rows.div_ceil(64)).map(word), rows);
                continue;
            }
            for row in 0..rows {
                let at = place.of(row);
                if word(at / 64) >> (at % 64) & 1 == 0 {
                    missing.set(row, rows);
                }
            }
        }
    }
}

/// How many units of a timestamp make a second.
fn units_of_second(type_of: u32) -> Option<f64> {
    match type_of {
        type_id::TIMESTAMP_S => Some(1.0),
        type_id::TIMESTAMP_MS => Some(1e3),
        type_id::TIMESTAMP | type_id::TIMESTAMP_TZ => Some(1e6),
        type_id::TIMESTAMP_NS | type_id::TIMESTAMP_TZ_NS => Some(1e9),
        _ => None,
    }
}

/// DuckDB aligns 128-bit integers to eight bytes only.
#[repr(C, packed(8))]
#[derive(Clone, Copy)]
struct Wide<T>(T);

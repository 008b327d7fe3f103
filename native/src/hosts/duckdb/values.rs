//! Values of options in DuckDB vectors, whatever their types.

use std::borrow::Cow;
use std::ops::Range;

use super::api::type_id;
use super::table::leaf;
use super::types::LogicalType;
use super::vectors::{ListEntry, Vector, bytes, text};
use crate::words::value::Value;

/// A vector of values that a caller gives.
pub struct Values<'c> {
    vector: Vector,
    kind: Kind<'c>,
}

/// How the values lie.
enum Kind<'c> {
    Nothing,
    Truth(Cow<'c, [f64]>),
    Whole(Cow<'c, [f64]>),
    Number(Cow<'c, [f64]>),
    Text,
    /// An ENUM, and how its codes are stored.
    Level(LogicalType, u32),
    List(Box<Values<'c>>),
    /// An ARRAY of so many.
    Array(usize, Box<Values<'c>>),
    Struct(Vec<(String, Values<'c>)>),
    Map(Box<Values<'c>>, Box<Values<'c>>),
    Other(String),
}

impl<'c> Values<'c> {
    /// The first `rows` values of a vector.
    ///
    /// # Safety
    /// The vector is live for as long as the result, and has that many rows.
    pub unsafe fn of(vector: Vector, rows: usize) -> Result<Values<'c>, String> {
        let logical_type = vector.logical_type();
        // SAFETY: see the caller's promise; elements of lists are as many as DuckDB says.
        let kind = unsafe {
            let boxed = |vector, rows| Values::of(vector, rows).map(Box::new);
            match logical_type.id() {
                type_id::SQLNULL => Kind::Nothing,
                type_id::BOOLEAN => Kind::Truth(leaf("option", vector)?.doubles(rows)),
                type_id::TINYINT..=type_id::UBIGINT | type_id::HUGEINT | type_id::UHUGEINT => {
                    Kind::Whole(leaf("option", vector)?.doubles(rows))
                }
                type_id::FLOAT | type_id::DOUBLE | type_id::DECIMAL => {
                    Kind::Number(leaf("option", vector)?.doubles(rows))
                }
                type_id::VARCHAR => Kind::Text,
                type_id::ENUM => {
                    let stored = logical_type.codes();
                    Kind::Level(logical_type, stored)
                }
                type_id::LIST => Kind::List(boxed(vector.elements(), vector.length())?),
                type_id::ARRAY => {
                    let (size, _) = logical_type.array();
                    Kind::Array(size, boxed(vector.items(), rows * size)?)
                }
                type_id::MAP => {
                    let (entries, n) = (vector.elements(), vector.length());
                    let (keys, values) = (boxed(entries.child(0), n)?, boxed(entries.child(1), n)?);
                    match keys.kind {
                        Kind::Text | Kind::Nothing => Kind::Map(keys, values),
                        _ => Kind::Other("a MAP whose keys are no text".to_string()),
                    }
                }
                type_id::STRUCT => {
                    let fields = logical_type.fields().into_iter().enumerate();
                    let field = |(at, (name, _)): (usize, (String, _))| {
                        Ok((name, Values::of(vector.child(at as u64), rows)?))
                    };
                    Kind::Struct(fields.map(field).collect::<Result<_, String>>()?)
                }
                other => Kind::Other(format!("a {}", type_id::name(other))),
            }
        };
        Ok(Values { vector, kind })
    }

    /// Whether the values are of type STRUCT, or NULL of no type.
    pub fn has_names(&self) -> bool {
        matches!(self.kind, Kind::Struct(_) | Kind::Nothing)
    }

    /// The value of a row.
    ///
    /// # Safety
    /// The chunk is live and has that row.
    pub unsafe fn at(&self, row: usize) -> Value {
        if self.vector.is_null(row) {
            return Value::Nothing;
        }
        // SAFETY: see the caller's promise; the kind is that of the vector's type.
        unsafe {
            match &self.kind {
                Kind::Nothing => Value::Nothing,
                Kind::Truth(numbers) => Value::Truth(numbers[row] != 0.0),
                Kind::Whole(numbers) => Value::Whole(numbers[row] as i64),
                Kind::Number(numbers) => Value::Number(numbers[row]),
                Kind::Text => Value::Text(text(self.vector, row)),
                Kind::Level(levels, stored) => {
                    let level = levels.level(self.code(*stored, row));
                    Value::Text(level.to_string_lossy().into_owned())
                }
                Kind::List(items) => Value::List(self.elements(row).map(|i| items.at(i)).collect()),
                Kind::Array(size, items) => {
                    Value::List((row * size..(row + 1) * size).map(|i| items.at(i)).collect())
                }
                Kind::Struct(fields) => {
                    let value = |(name, values): &(String, Values)| (name.clone(), values.at(row));
                    Value::Map(fields.iter().map(value).collect())
                }
                Kind::Map(keys, values) => {
                    // No key of a MAP is NULL.
                    let entry = |i| (text(keys.vector, i), values.at(i));
                    Value::Map(self.elements(row).map(entry).collect())
                }
                Kind::Other(words) => Value::Other(words.clone()),
            }
        }
    }

    /// Whether two rows are known to have the same value: DuckDB makes many rows of a constant,
    /// and their lists share their elements.
    ///
    /// # Safety
    /// The chunk is live and has both rows.
    pub unsafe fn same(&self, a: usize, b: usize) -> bool {
        let nulls = (self.vector.is_null(a), self.vector.is_null(b));
        if nulls.0 || nulls.1 {
            return nulls.0 && nulls.1;
        }
        // SAFETY: as above.
        unsafe {
            match &self.kind {
                Kind::Nothing | Kind::Other(_) => true,
                Kind::Truth(numbers) | Kind::Whole(numbers) | Kind::Number(numbers) => {
                    numbers[a].to_bits() == numbers[b].to_bits()
                }
                Kind::Text => bytes(self.vector, a) == bytes(self.vector, b),
                Kind::Level(_, stored) => self.code(*stored, a) == self.code(*stored, b),
                Kind::List(_) | Kind::Map(..) => self.elements(a) == self.elements(b),
                Kind::Array(size, items) => {
                    (0..*size).all(|i| items.same(a * size + i, b * size + i))
                }
                Kind::Struct(fields) => fields.iter().all(|(_, values)| values.same(a, b)),
            }
        }
    }

    /// # Safety
    /// An ENUM with that row, which is not NULL, of codes that are stored so.
    unsafe fn code(&self, stored: u32, row: usize) -> u64 {
        // SAFETY: see the caller's promise.
        unsafe {
            match stored {
                type_id::UTINYINT => self.vector.get::<u8>(row).into(),
                type_id::USMALLINT => self.vector.get::<u16>(row).into(),
                _ => self.vector.get::<u32>(row).into(),
            }
        }
    }

    /// # Safety
    /// A LIST or MAP with that row, which is not NULL.
    unsafe fn elements(&self, row: usize) -> Range<usize> {
        // SAFETY: see the caller's promise.
        unsafe { self.vector.get::<ListEntry>(row).range() }
    }
}

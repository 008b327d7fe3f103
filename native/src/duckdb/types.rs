//! The SQL types of records, sequences and predictions.

use std::ffi::{CString, c_char};

use super::api::{self, type_id};
use super::vectors::LogicalType;
use crate::record::FIELDS;

/// Fields of a step of a sequence, in order, with their types.
pub const STEP_FIELDS: [(&str, Field); 12] = [
    ("step", Field::Plain(type_id::BIGINT)),
    ("action", Field::Plain(type_id::VARCHAR)),
    ("group", Field::Plain(type_id::VARCHAR)),
    ("cost", Field::Plain(type_id::DOUBLE)),
    ("spent", Field::Plain(type_id::DOUBLE)),
    ("score", Field::Plain(type_id::DOUBLE)),
    ("gain", Field::Plain(type_id::DOUBLE)),
    ("explained", Field::Plain(type_id::DOUBLE)),
    ("r2", Field::Plain(type_id::DOUBLE)),
    ("useful", Field::Plain(type_id::BOOLEAN)),
    ("intercept", Field::Plain(type_id::DOUBLE)),
    ("coefficients", Field::Coefficients),
];

/// The type of a field.
#[derive(Clone, Copy)]
pub enum Field {
    /// A type without parameters.
    Plain(u32),
    /// A list of such.
    List(u32),
    /// MAP(VARCHAR, DOUBLE).
    Coefficients,
}

/// A type without parameters.
pub fn plain(id: u32) -> LogicalType {
    // SAFETY: a new type, owned by the result.
    unsafe { LogicalType::own(api::duckdb_create_logical_type(id)) }
}

/// The Gram record.
pub fn record() -> LogicalType {
    let types = [
        Field::List(type_id::VARCHAR),
        Field::Plain(type_id::BIGINT),
        Field::Plain(type_id::BIGINT),
        Field::Plain(type_id::DOUBLE),
        Field::List(type_id::DOUBLE),
        Field::List(type_id::DOUBLE),
    ];
    let fields: Vec<_> = FIELDS.into_iter().zip(types).collect();
    structure(&fields)
}

/// A list of steps.
pub fn sequence() -> LogicalType {
    list(&structure(&STEP_FIELDS))
}

/// What `anytime_predict` returns.
pub fn prediction() -> LogicalType {
    structure(&[
        ("prediction", Field::Plain(type_id::DOUBLE)),
        ("step", Field::Plain(type_id::BIGINT)),
        ("spent", Field::Plain(type_id::DOUBLE)),
        ("next_group", Field::Plain(type_id::VARCHAR)),
    ])
}

fn list(item: &LogicalType) -> LogicalType {
    // SAFETY: the item type is copied; the new type is owned by the result.
    unsafe { LogicalType::own(api::duckdb_create_list_type(item.handle())) }
}

fn structure(fields: &[(&str, Field)]) -> LogicalType {
    let field_type = |field: &(&str, Field)| match field.1 {
        Field::Plain(id) => plain(id),
        Field::List(id) => list(&plain(id)),
        Field::Coefficients => {
            let (key, value) = (plain(type_id::VARCHAR), plain(type_id::DOUBLE));
            // SAFETY: both types are copied; the new one is owned by the result.
            unsafe { LogicalType::own(api::duckdb_create_map_type(key.handle(), value.handle())) }
        }
    };
    let types: Vec<LogicalType> = fields.iter().map(field_type).collect();
    let mut handles: Vec<_> = types.iter().map(LogicalType::handle).collect();
    let names: Vec<CString> =
        fields.iter().map(|field| CString::new(field.0).expect("no NUL in a field name")).collect();
    let mut names: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
    // SAFETY: two arrays of that length, which DuckDB copies from.
    unsafe {
        LogicalType::own(api::duckdb_create_struct_type(
            handles.as_mut_ptr(),
            names.as_mut_ptr(),
            fields.len() as u64,
        ))
    }
}

//! The SQL types of records, sequences and predictions.

use std::ffi::{CStr, CString, c_char};

use super::api::{self, Handle, type_id};
use crate::methods::answer::Type;
use crate::record::gram::{FIELDS, OPTIONAL};

/// A logical type that is destroyed when it goes out of scope.
pub struct LogicalType(Handle);

impl LogicalType {
    /// Take ownership of a type.
    ///
    /// # Safety
    /// `handle` is a live logical type that nobody else destroys.
    pub unsafe fn own(handle: Handle) -> LogicalType {
        LogicalType(handle)
    }

    /// The handle, on loan.
    pub fn handle(&self) -> Handle {
        self.0
    }

    /// Which type it is, without its parameters.
    pub fn id(&self) -> u32 {
        // SAFETY: the handle lives as long as `self`.
        unsafe { api::duckdb_get_type_id(self.0) }
    }

    /// Names and types of the fields of a STRUCT.
    pub fn fields(&self) -> Vec<(String, LogicalType)> {
        // SAFETY: the handle is a live STRUCT type; each name is copied and freed.
        unsafe {
            let field = |index| {
                let text = api::duckdb_struct_type_child_name(self.0, index);
                let name = CStr::from_ptr(text).to_string_lossy().into_owned();
                api::duckdb_free(text.cast());
                (name, LogicalType(api::duckdb_struct_type_child_type(self.0, index)))
            };
            (0..api::duckdb_struct_type_child_count(self.0)).map(field).collect()
        }
    }

    /// Size and element type of an ARRAY.
    pub fn array(&self) -> (usize, LogicalType) {
        // SAFETY: the handle is a live ARRAY type.
        unsafe {
            let size = api::duckdb_array_type_array_size(self.0) as usize;
            (size, LogicalType(api::duckdb_array_type_child_type(self.0)))
        }
    }

    /// The element type of a LIST.
    pub fn item(&self) -> LogicalType {
        // SAFETY: the handle is a live LIST type.
        unsafe { LogicalType(api::duckdb_list_type_child_type(self.0)) }
    }

    /// Whether another type is the same, of those that records are made of.
    fn is(&self, other: &LogicalType) -> bool {
        let same =
            |(a, b): (&(String, LogicalType), &(String, LogicalType))| a.0 == b.0 && a.1.is(&b.1);
        self.id() == other.id()
            && match self.id() {
                type_id::STRUCT => {
                    let (own, others) = (self.fields(), other.fields());
                    own.len() == others.len() && own.iter().zip(&others).all(same)
                }
                type_id::LIST => self.item().is(&other.item()),
                _ => true,
            }
    }

    /// How a DECIMAL is stored, and its digits after the point.
    pub fn decimal(&self) -> (u32, u8) {
        // SAFETY: the handle is a live DECIMAL type.
        unsafe { (api::duckdb_decimal_internal_type(self.0), api::duckdb_decimal_scale(self.0)) }
    }

    /// How the codes of an ENUM are stored.
    pub fn codes(&self) -> u32 {
        // SAFETY: the handle is a live ENUM type.
        unsafe { api::duckdb_enum_internal_type(self.0) }
    }

    /// The text of a code of an ENUM.
    pub fn level(&self, code: u64) -> CString {
        // SAFETY: the handle is a live ENUM type, which has that code; the text is
        // copied and freed.
        unsafe {
            let text = api::duckdb_enum_dictionary_value(self.0, code);
            let level = CStr::from_ptr(text).to_owned();
            api::duckdb_free(text.cast());
            level
        }
    }
}

impl Drop for LogicalType {
    fn drop(&mut self) {
        // SAFETY: owned, and destroyed once.
        unsafe { api::duckdb_destroy_logical_type(&mut self.0) }
    }
}

/// Fields of a step of a sequence, in order, with their types.
pub const STEP_FIELDS: [(&str, Field); 13] = [
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
    ("terms", Field::Plain(type_id::VARCHAR)),
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
    /// The same as a list of its entries: Parquet of a host that has no MAP.
    Entries,
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
        Field::List(type_id::BIGINT),
        Field::Plain(type_id::DOUBLE),
        Field::List(type_id::DOUBLE),
        Field::List(type_id::DOUBLE),
        Field::List(type_id::DOUBLE),
        Field::Plain(type_id::VARCHAR),
    ];
    let fields: Vec<_> = FIELDS.into_iter().zip(types).collect();
    structure(&fields)
}

/// The Gram record of before: without what is `OPTIONAL`.
pub fn record_of_before() -> LogicalType {
    let all = record().fields();
    let kept: Vec<_> = all.iter().filter(|(name, _)| !OPTIONAL.contains(&&name[..])).collect();
    let types: Vec<&LogicalType> = kept.iter().map(|(_, field)| field).collect();
    struct_of(&kept.iter().map(|(name, _)| &name[..]).collect::<Vec<_>>(), &types)
}

/// Whether a type is that of records, those of before among them.
pub fn is_record(of: &LogicalType) -> bool {
    of.is(&record()) || of.is(&record_of_before())
}

/// Records of rows with gaps, one a pattern.
pub fn patterns() -> LogicalType {
    list(&record())
}

/// A list of steps.
pub fn sequence() -> LogicalType {
    list(&structure(&STEP_FIELDS))
}

/// The type of what a method answers.
pub fn of_answer(of: &Type) -> LogicalType {
    match of {
        Type::Truth => plain(type_id::BOOLEAN),
        Type::Whole => plain(type_id::BIGINT),
        Type::Number => plain(type_id::DOUBLE),
        Type::Text => plain(type_id::VARCHAR),
        Type::List(item) => list(&of_answer(item)),
        Type::Coefficients => coefficients(),
        Type::Struct(fields) => {
            let types: Vec<_> = fields.iter().map(|(_, of)| of_answer(of)).collect();
            let types: Vec<&LogicalType> = types.iter().collect();
            struct_of(&fields.iter().map(|(name, _)| *name).collect::<Vec<_>>(), &types)
        }
    }
}

/// The same from a host that has no MAP, such as Polars; its vectors lie the same way.
pub fn sequence_of_entries() -> LogicalType {
    let fields = STEP_FIELDS.map(|(name, field)| match field {
        Field::Coefficients => (name, Field::Entries),
        _ => (name, field),
    });
    list(&structure(&fields))
}

/// An empty list, as `[]` is written.
pub fn nothing_listed() -> LogicalType {
    list(&plain(type_id::SQLNULL))
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

/// MAP(VARCHAR, DOUBLE).
fn coefficients() -> LogicalType {
    let (key, value) = (plain(type_id::VARCHAR), plain(type_id::DOUBLE));
    // SAFETY: both types are copied; the new one is owned by the result.
    unsafe { LogicalType::own(api::duckdb_create_map_type(key.handle(), value.handle())) }
}

fn structure(fields: &[(&str, Field)]) -> LogicalType {
    let field_type = |field: &(&str, Field)| match field.1 {
        Field::Plain(id) => plain(id),
        Field::List(id) => list(&plain(id)),
        Field::Coefficients => coefficients(),
        Field::Entries => list(&structure(&[
            ("key", Field::Plain(type_id::VARCHAR)),
            ("value", Field::Plain(type_id::DOUBLE)),
        ])),
    };
    let types: Vec<LogicalType> = fields.iter().map(field_type).collect();
    let types: Vec<&LogicalType> = types.iter().collect();
    struct_of(&fields.iter().map(|field| field.0).collect::<Vec<_>>(), &types)
}

fn struct_of(names: &[&str], types: &[&LogicalType]) -> LogicalType {
    let mut handles: Vec<_> = types.iter().map(|each| each.handle()).collect();
    let texts: Vec<CString> =
        names.iter().map(|name| CString::new(*name).expect("no NUL in a field name")).collect();
    let mut names: Vec<*const c_char> = texts.iter().map(|name| name.as_ptr()).collect();
    // SAFETY: two arrays of that length, which DuckDB copies from.
    unsafe {
        LogicalType::own(api::duckdb_create_struct_type(
            handles.as_mut_ptr(),
            names.as_mut_ptr(),
            types.len() as u64,
        ))
    }
}

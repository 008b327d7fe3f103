//! DuckDB's C API for extensions, stable band v1.2.0, by slot number.
//!
//! DuckDB hands every extension a table of function pointers whose order never
//! changes; `api!` names the ones used here, and tests compare their places and
//! signatures with the published bindings. Nothing is linked, so one file loads in every DuckDB
//! from 1.3 on that still offers the band. DuckDB 1.2 offers it too, but throws C++ exceptions
//! through the aggregates that it calls, which ends the process: `check_version` refuses it.
//!
//! A port to the C API v2 of DuckDB 2.0, whose functions are called `duckdb_v2_*`, would touch
//! this table and `VERSION`; the callbacks of `aggregates.rs`, `types.rs` and `searches.rs`, which
//! get one handle there and ask it for chunk, states and result; the registration in `mod.rs`,
//! where a bind callback decides the returned type and named arguments need no macros; and
//! `C_API` and the footer in `dbselect/doors/extension.py`, whose `C_STRUCT` means v1. Vectors,
//! records and everything without an engine stay as they are.

use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_void};
use std::sync::OnceLock;

/// The C API version asked for.
pub const VERSION: &CStr = c"v1.2.0";
/// The oldest DuckDB, major and minor, that calls our aggregates as the band says.
const OLDEST: (u32, u32) = (1, 3);
/// The oldest DuckDB that never passes one state for many rows.
const FLAT_STATES: (u32, u32) = (2, 0);
/// Length of the table at that version.
const N_SLOTS: usize = 404;

/// Any `duckdb_*` handle.
pub type Handle = *mut c_void;

/// What DuckDB passes to the entry point of an extension.
#[repr(C)]
pub struct Access {
    pub set_error: unsafe extern "C" fn(info: Handle, message: *const c_char),
    pub get_database: unsafe extern "C" fn(info: Handle) -> *mut Handle,
    pub get_api: unsafe extern "C" fn(info: Handle, version: *const c_char) -> *const Table,
}

/// The function pointers, as DuckDB lays them out.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Table([*const c_void; N_SLOTS]);

// SAFETY: the pointers are code, which every thread may call.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

static TABLE: OnceLock<Table> = OnceLock::new();

/// Keep a copy of DuckDB's table; later calls change nothing.
///
/// # Safety
/// `table` comes from `Access::get_api` for `VERSION`.
pub unsafe fn install(table: *const Table) {
    // SAFETY: see the caller's promise.
    TABLE.get_or_init(|| unsafe { *table });
}

/// Refuse a DuckDB that offers the band and does not keep it.
///
/// # Safety
/// `install` was called.
pub unsafe fn check_version() -> std::result::Result<(), String> {
    // SAFETY: see the caller's promise.
    let version = unsafe { version() };
    match release(&version) {
        Some(found) if found < OLDEST => Err(format!(
            "this is DuckDB {version}; dbselect needs DuckDB {}.{} or newer",
            OLDEST.0, OLDEST.1
        )),
        // A build of someone's own may be called anything.
        _ => Ok(()),
    }
}

/// Whether the library is older than a release, by its name.
///
/// # Safety
/// `install` was called.
pub unsafe fn is_before(other: (u32, u32)) -> bool {
    // SAFETY: see the caller's promise.
    release(&unsafe { version() }).is_some_and(|found| found < other)
}

/// Whether each update of an aggregate has a state a row, as the band says.
///
/// # Safety
/// `install` was called.
pub unsafe fn passes_a_state_a_row() -> bool {
    // SAFETY: see the caller's promise.
    release(&unsafe { version() }).is_some_and(|found| found >= FLAT_STATES)
}

/// # Safety
/// `install` was called.
unsafe fn version() -> Cow<'static, str> {
    // SAFETY: see the caller's promise; the text is DuckDB's own and lives as long as it.
    unsafe { CStr::from_ptr(duckdb_library_version()) }.to_string_lossy()
}

/// Major and minor of a version such as `v1.2.2` or `v1.5.0-dev12`.
fn release(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.strip_prefix('v')?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

macro_rules! api {
    ($($slot:literal $name:ident($($arg:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        $(
            /// The function of that name in DuckDB's C API.
            ///
            /// # Safety
            /// `install` was called, and the arguments are as duckdb.h says.
            pub unsafe fn $name($($arg: $type),*) $(-> $result)? {
                type Function = unsafe extern "C" fn($($type),*) $(-> $result)?;
                let table = TABLE.get().expect("DuckDB's C API is not installed");
                // SAFETY: the slot holds a function of this signature.
                let function: Function = unsafe { std::mem::transmute(table.0[$slot]) };
                // SAFETY: see the caller's promise.
                unsafe { function($($arg),*) }
            }
        )*

        #[cfg(test)]
        #[test]
        fn slots_are_where_the_published_bindings_have_them() {
            use libduckdb_sys::duckdb_ext_api_v1 as published;
            $(assert_eq!(
                std::mem::offset_of!(published, $name),
                $slot * size_of::<usize>(),
                stringify!($name)
            );)*
        }

        #[cfg(test)]
        #[test]
        fn signatures_are_the_published_ones() {
            use libduckdb_sys::duckdb_ext_api_v1 as published;
            $({
                type Ours = Option<unsafe extern "C" fn($($type),*) $(-> $result)?>;
                assert_eq!(
                    tests::plain(std::any::type_name::<Ours>()),
                    tests::plain(tests::type_of(|table: &published| table.$name)),
                    stringify!($name)
                );
            })*
        }
    };
}

api! {
    3 duckdb_connect(database: Handle, out: *mut Handle) -> u32;
    6 duckdb_disconnect(connection: *mut Handle);
    7 duckdb_library_version() -> *const c_char;
    13 duckdb_query(connection: Handle, statement: *const c_char, out: *mut Result) -> u32;
    14 duckdb_destroy_result(result: *mut Result);
    21 duckdb_result_error(result: *mut Result) -> *const c_char;
    25 duckdb_free(memory: *mut c_void);
    156 duckdb_create_logical_type(id: u32) -> Handle;
    159 duckdb_create_list_type(item: Handle) -> Handle;
    161 duckdb_create_map_type(key: Handle, value: Handle) -> Handle;
    163 duckdb_create_struct_type(types: *mut Handle, names: *mut *const c_char, n: u64) -> Handle;
    166 duckdb_get_type_id(logical_type: Handle) -> u32;
    168 duckdb_decimal_scale(logical_type: Handle) -> u8;
    169 duckdb_decimal_internal_type(logical_type: Handle) -> u32;
    170 duckdb_enum_internal_type(logical_type: Handle) -> u32;
    172 duckdb_enum_dictionary_value(logical_type: Handle, index: u64) -> *mut c_char;
    173 duckdb_list_type_child_type(logical_type: Handle) -> Handle;
    174 duckdb_array_type_child_type(logical_type: Handle) -> Handle;
    175 duckdb_array_type_array_size(logical_type: Handle) -> u64;
    178 duckdb_struct_type_child_count(logical_type: Handle) -> u64;
    179 duckdb_struct_type_child_name(logical_type: Handle, index: u64) -> *mut c_char;
    180 duckdb_struct_type_child_type(logical_type: Handle, index: u64) -> Handle;
    184 duckdb_destroy_logical_type(logical_type: *mut Handle);
    190 duckdb_data_chunk_get_vector(chunk: Handle, index: u64) -> Handle;
    191 duckdb_data_chunk_get_size(chunk: Handle) -> u64;
    189 duckdb_data_chunk_get_column_count(chunk: Handle) -> u64;
    193 duckdb_vector_get_column_type(vector: Handle) -> Handle;
    194 duckdb_vector_get_data(vector: Handle) -> *mut c_void;
    195 duckdb_vector_get_validity(vector: Handle) -> *mut u64;
    196 duckdb_vector_ensure_validity_writable(vector: Handle);
    198 duckdb_vector_assign_string_element_len(vector: Handle, row: u64, text: *const c_char, n: u64);
    199 duckdb_list_vector_get_child(vector: Handle) -> Handle;
    200 duckdb_list_vector_get_size(vector: Handle) -> u64;
    201 duckdb_list_vector_set_size(vector: Handle, size: u64) -> u32;
    202 duckdb_list_vector_reserve(vector: Handle, capacity: u64) -> u32;
    203 duckdb_struct_vector_get_child(vector: Handle, index: u64) -> Handle;
    204 duckdb_array_vector_get_child(vector: Handle) -> Handle;
    209 duckdb_create_scalar_function() -> Handle;
    210 duckdb_destroy_scalar_function(function: *mut Handle);
    211 duckdb_scalar_function_set_name(function: Handle, name: *const c_char);
    213 duckdb_scalar_function_set_special_handling(function: Handle);
    215 duckdb_scalar_function_add_parameter(function: Handle, logical_type: Handle);
    216 duckdb_scalar_function_set_return_type(function: Handle, logical_type: Handle);
    217 duckdb_scalar_function_set_extra_info(function: Handle, extra: *mut c_void, destroy: Option<Destroy>);
    218 duckdb_scalar_function_set_function(function: Handle, call: ScalarCall);
    220 duckdb_scalar_function_get_extra_info(info: Handle) -> *mut c_void;
    221 duckdb_scalar_function_set_error(info: Handle, message: *const c_char);
    222 duckdb_create_scalar_function_set(name: *const c_char) -> Handle;
    223 duckdb_destroy_scalar_function_set(set: *mut Handle);
    224 duckdb_add_scalar_function_to_set(set: Handle, function: Handle) -> u32;
    225 duckdb_register_scalar_function_set(connection: Handle, set: Handle) -> u32;
    226 duckdb_create_aggregate_function() -> Handle;
    227 duckdb_destroy_aggregate_function(function: *mut Handle);
    228 duckdb_aggregate_function_set_name(function: Handle, name: *const c_char);
    229 duckdb_aggregate_function_add_parameter(function: Handle, logical_type: Handle);
    230 duckdb_aggregate_function_set_return_type(function: Handle, logical_type: Handle);
    231 duckdb_aggregate_function_set_functions(
        function: Handle, size: StateSize, init: StateInit, update: Update, combine: Combine,
        finalize: Finalize);
    232 duckdb_aggregate_function_set_destructor(function: Handle, destroy: StateDestroy);
    234 duckdb_aggregate_function_set_special_handling(function: Handle);
    237 duckdb_aggregate_function_set_error(info: Handle, message: *const c_char);
    238 duckdb_create_aggregate_function_set(name: *const c_char) -> Handle;
    239 duckdb_destroy_aggregate_function_set(set: *mut Handle);
    240 duckdb_add_aggregate_function_to_set(set: Handle, function: Handle) -> u32;
    241 duckdb_register_aggregate_function_set(connection: Handle, set: Handle) -> u32;
}

/// `duckdb_result`, whose fields DuckDB keeps to itself.
#[repr(C)]
#[derive(Default)]
pub struct Result([usize; 6]);

/// The memory of one aggregate state; ours holds one pointer.
pub type State = *mut c_void;
pub type StateSize = unsafe extern "C" fn(info: Handle) -> u64;
pub type StateInit = unsafe extern "C" fn(info: Handle, state: State);
pub type StateDestroy = unsafe extern "C" fn(states: *mut State, n: u64);
pub type Update = unsafe extern "C" fn(info: Handle, chunk: Handle, states: *mut State);
pub type Combine =
    unsafe extern "C" fn(info: Handle, sources: *mut State, targets: *mut State, n: u64);
pub type Finalize =
    unsafe extern "C" fn(info: Handle, states: *mut State, out: Handle, n: u64, offset: u64);
pub type Destroy = unsafe extern "C" fn(extra: *mut c_void);
pub type ScalarCall = unsafe extern "C" fn(info: Handle, chunk: Handle, out: Handle);

/// `duckdb_type` numbers.
pub mod type_id {
    pub const BOOLEAN: u32 = 1;
    pub const TINYINT: u32 = 2;
    pub const SMALLINT: u32 = 3;
    pub const INTEGER: u32 = 4;
    pub const BIGINT: u32 = 5;
    pub const UTINYINT: u32 = 6;
    pub const USMALLINT: u32 = 7;
    pub const UINTEGER: u32 = 8;
    pub const UBIGINT: u32 = 9;
    pub const FLOAT: u32 = 10;
    pub const DOUBLE: u32 = 11;
    pub const TIMESTAMP: u32 = 12;
    pub const DATE: u32 = 13;
    pub const TIME: u32 = 14;
    pub const INTERVAL: u32 = 15;
    pub const HUGEINT: u32 = 16;
    pub const VARCHAR: u32 = 17;
    pub const BLOB: u32 = 18;
    pub const DECIMAL: u32 = 19;
    pub const TIMESTAMP_S: u32 = 20;
    pub const TIMESTAMP_MS: u32 = 21;
    pub const TIMESTAMP_NS: u32 = 22;
    pub const ENUM: u32 = 23;
    pub const LIST: u32 = 24;
    pub const STRUCT: u32 = 25;
    pub const MAP: u32 = 26;
    pub const UUID: u32 = 27;
    pub const TIMESTAMP_TZ: u32 = 31;
    pub const UHUGEINT: u32 = 32;
    pub const ARRAY: u32 = 33;
    pub const ANY: u32 = 34;
    pub const SQLNULL: u32 = 36;
    pub const TIMESTAMP_TZ_NS: u32 = 42;

    /// The SQL name of a type, for error messages.
    pub fn name(id: u32) -> &'static str {
        const NAMES: [&str; 43] = [
            "INVALID",
            "BOOLEAN",
            "TINYINT",
            "SMALLINT",
            "INTEGER",
            "BIGINT",
            "UTINYINT",
            "USMALLINT",
            "UINTEGER",
            "UBIGINT",
            "FLOAT",
            "DOUBLE",
            "TIMESTAMP",
            "DATE",
            "TIME",
            "INTERVAL",
            "HUGEINT",
            "VARCHAR",
            "BLOB",
            "DECIMAL",
            "TIMESTAMP_S",
            "TIMESTAMP_MS",
            "TIMESTAMP_NS",
            "ENUM",
            "LIST",
            "STRUCT",
            "MAP",
            "UUID",
            "UNION",
            "BIT",
            "TIME WITH TIME ZONE",
            "TIMESTAMP WITH TIME ZONE",
            "UHUGEINT",
            "ARRAY",
            "ANY",
            "BIGNUM",
            "NULL",
            "VARCHAR",
            "INTEGER",
            "TIME_NS",
            "GEOMETRY",
            "VARIANT",
            "TIMESTAMP_NS WITH TIME ZONE",
        ];
        NAMES.get(id as usize).unwrap_or(&"unknown")
    }
}

#[cfg(test)]
mod tests {
    use super::{OLDEST, Result, release};

    /// The type of a field.
    pub fn type_of<T, F>(_: impl Fn(&T) -> F) -> &'static str {
        std::any::type_name::<F>()
    }

    /// A signature as the machine sees it: of a pointer to what DuckDB keeps to itself there is no
    /// more to know than how many pointers it is, and a function that may be absent is a pointer.
    pub fn plain(signature: &str) -> String {
        let opaque = |word: &str| {
            let name = word.rsplit("::").next().unwrap_or(word);
            match name {
                "Result" | "duckdb_result" => "result".to_string(),
                "Option" => String::new(),
                _ if name.starts_with("_duckdb_") || name == "c_void" => "opaque".to_string(),
                _ => name.to_string(),
            }
        };
        let is_name = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
        let (mut plain, mut word) = (String::new(), String::new());
        for letter in signature.chars().chain([' ']) {
            if is_name(letter) {
                word.push(letter);
                continue;
            }
            plain += &opaque(&std::mem::take(&mut word));
            if !matches!(letter, '<' | '>' | ' ') {
                plain.push(letter);
            }
        }
        plain
    }

    #[test]
    fn a_signature_keeps_what_the_machine_sees() {
        type One = unsafe extern "C" fn(*mut libduckdb_sys::duckdb_connection, u64) -> u32;
        type Same = Option<unsafe extern "C" fn(*mut super::Handle, u64) -> u32>;
        type Other = Option<unsafe extern "C" fn(super::Handle, u64) -> u32>;
        let [one, same, other] = [
            std::any::type_name::<One>(),
            std::any::type_name::<Same>(),
            std::any::type_name::<Other>(),
        ]
        .map(plain);
        assert_eq!(one, same);
        assert_ne!(one, other);
    }

    #[test]
    fn a_result_is_as_long_as_the_published_one() {
        assert_eq!(size_of::<Result>(), size_of::<libduckdb_sys::duckdb_result>());
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(["v1.2.0", "v1.2.2", "v0.10.3"].iter().all(|v| release(v).unwrap() < OLDEST));
        assert!(["v1.3.0", "v1.10.1", "v2.0.0-dev7"].iter().all(|v| release(v).unwrap() >= OLDEST));
    }

    #[test]
    fn a_name_that_is_no_version_has_none() {
        assert!(["", "main", "v1", "1.2.0", "vx.y"].iter().all(|v| release(v).is_none()));
    }
}

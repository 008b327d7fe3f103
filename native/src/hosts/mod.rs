//! Entry points, one host each, and what hosts with Arrow share.
//!
//! | module | what |
//! |---|---|
//! | `arrived` | predictions from whatever has arrived, as an Arrow array |
//! | `duckdb` | an extension on the stable C API |
//! | `polars` | expression plugins |
//! | `python` | functions that Python calls through ctypes |
//! | `searches` | searches on an Arrow array of records |

pub mod arrived;
pub mod duckdb;
pub mod polars;
pub mod python;
pub mod searches;

//! Entry points, one host each, and what hosts with Arrow share.
//!
//! | module | what |
//! |---|---|
//! | `arrived` | predictions from whatever has arrived, as an Arrow array |
//! | `duckdb` | an extension on the stable C API |
//! | `polars` | expression plugins |
//! | `python` | functions that Python calls through ctypes |
//! | `searches` | searches on an Arrow array of records |
//! | `wasm` | searches for pages and Node, JSON in and out |

#[cfg(not(target_arch = "wasm32"))]
pub mod arrived;
#[cfg(not(target_arch = "wasm32"))]
pub mod duckdb;
#[cfg(not(target_arch = "wasm32"))]
pub mod polars;
#[cfg(not(target_arch = "wasm32"))]
pub mod python;
#[cfg(not(target_arch = "wasm32"))]
pub mod searches;
#[cfg(any(test, target_arch = "wasm32"))]
pub mod wasm;

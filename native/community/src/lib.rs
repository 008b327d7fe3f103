//! dbselect as an extension of DuckDB's community repository.
//!
//! All is in `dbselect-native`; this crate gives the library the name of the extension, of
//! which DuckDB makes that of the entry point, `dbselect_init_c_api`.

pub use dbselect_native::hosts::duckdb;

//! The accumulating kernel of dbselect, in one library for every host.
//!
//! A module imports of those above it in this table alone; `tests/layers.rs` checks it.
//!
//! | module | what |
//! |---|---|
//! | `words` | what errors say |
//! | `memory` | how many bytes the library holds |
//! | `kernel` | rows of numbers to centred moments; it knows no engine |
//! | `record` | the Gram record: how a table becomes one, what is read of it, to and from Arrow |
//! | `linear` | the linear model of one record: state, least squares, bounds, inference |
//! | `search` | which groups of columns buy most prediction: searches on one record |
//! | `methods` | what each method takes and returns, and how a record is asked |
//! | `glm` | generalised linear models of rows in memory |
//! | `arrived` | prediction from whatever groups of a row are there |
//! | `hosts` | entry points for DuckDB, Polars, Python and WebAssembly |

// Pages ask for searches alone.
#![cfg_attr(target_arch = "wasm32", allow(dead_code))]

pub mod arrived;
pub mod glm;
pub mod hosts;
pub mod kernel;
pub mod linear;
pub mod memory;
pub mod methods;
pub mod record;
pub mod search;
#[cfg(test)]
mod testing;
pub mod words;

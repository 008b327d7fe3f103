//! The accumulating kernel of dbselect, in one library for three hosts.
//!
//! | module | what |
//! |---|---|
//! | `kernel` | rows of numbers to centred moments; it knows no engine |
//! | `record` | the Gram record: how a table becomes one, what is read of it, to and from Arrow |
//! | `search` | which groups of columns buy most prediction: searches on one record |
//! | `glm` | generalised linear models of rows in memory |
//! | `memory` | how many bytes the library holds |
//! | `hosts` | entry points for DuckDB, Polars and Python |

pub mod glm;
pub mod hosts;
pub mod kernel;
pub mod memory;
pub mod record;
pub mod search;
#[cfg(test)]
mod testing;

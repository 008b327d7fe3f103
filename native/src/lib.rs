//! The accumulating kernel of dbselect, in one library for three hosts.
//!
//! | module | what |
//! |---|---|
//! | `kernel` | symmetric rank-k update, one tile per instruction set |
//! | `simd` | the same code, compiled for wider registers |
//! | `block` | a few rows, centred and packed for the kernel |
//! | `sums` | blocks around one center, multiplied and added up |
//! | `moments` | centred moments: add sums, merge, remove |
//! | `chunk` | rows in: what is missing left out, the rest checked |
//! | `gaps` | missing values filled, and indicators of where they were |
//! | `accumulator` | rows of one group or of many, buffered, to moments |
//! | `levels` | which level of a category a value is |
//! | `distinct` | how often each value of a column occurs |
//! | `categories` | sums by level, for columns of zeros and ones |
//! | `record` | the Gram record: names and moments, checked |
//! | `fold` | which fold a key lies in |
//! | `prefix` | which prefix of a sequence a row can be predicted with |
//! | `arrow` | tables and records, to and from Arrow arrays |
//! | `sequences` | sequences in an Arrow array |
//! | `search` | which groups of columns buy most prediction: searches on one record |
//! | `searches` | searches on an Arrow array of records |
//! | `duckdb`, `polars`, `python` | entry points, one host each |

pub mod accumulator;
pub mod arrow;
pub mod block;
pub mod categories;
pub mod chunk;
pub mod distinct;
pub mod duckdb;
pub mod fold;
pub mod gaps;
pub mod kernel;
pub mod levels;
pub mod moments;
pub mod polars;
pub mod prefix;
pub mod python;
pub mod record;
pub mod search;
pub mod searches;
pub mod sequences;
mod simd;
pub mod sums;
#[cfg(test)]
mod testing;

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
//! | `texts` | categories whose levels are found while the rows arrive |
//! | `rows` | rows of numbers and texts in, one record a group out |
//! | `terms` | how the columns of a table became those of a record |
//! | `record` | the Gram record: names and moments, checked |
//! | `fold` | which fold a key lies in |
//! | `state` | what one process knows of a table, as bytes for another |
//! | `inputs` | what a sequence reads of a row of the raw table |
//! | `prefix` | which prefix of a sequence a row can be predicted with |
//! | `convolution` | (max,+) convolution with a concave sequence |
//! | `projection` | the nearest vector with few nonzeros in few groups |
//! | `leaps` | the best set of groups within a budget |
//! | `arrow` | tables and records, to and from Arrow arrays |
//! | `sequences` | sequences in an Arrow array |
//! | `possible` | which comoments rows can have |
//! | `search` | which groups of columns buy most prediction: searches on one record |
//! | `searches` | searches on an Arrow array of records |
//! | `duckdb`, `polars`, `python` | entry points, one host each |

pub mod accumulator;
pub mod arrow;
pub mod block;
pub mod categories;
pub mod chunk;
pub mod convolution;
pub mod distinct;
pub mod duckdb;
pub mod fold;
pub mod gaps;
pub mod inputs;
pub mod kernel;
pub mod leaps;
pub mod levels;
pub mod moments;
pub mod polars;
pub mod possible;
pub mod prefix;
pub mod projection;
pub mod python;
pub mod record;
pub mod rows;
pub mod search;
pub mod searches;
pub mod sequences;
mod simd;
mod state;
pub mod sums;
pub mod terms;
#[cfg(test)]
mod testing;
pub mod texts;
pub mod units;

//! Rows of numbers to centred moments.
//!
//! | module | what |
//! |---|---|
//! | `rank_update` | symmetric rank-k update, one tile per instruction set |
//! | `simd` | the same code, compiled for wider registers |
//! | `block` | a few rows, centred and packed for the kernel |
//! | `sums` | blocks around one center, multiplied and added up |
//! | `moments` | centred moments: add sums, merge, remove |
//! | `chunk` | rows in: what is missing left out, the rest checked |
//! | `gaps` | missing values filled, and indicators of where they were |
//! | `accumulator` | rows of one group or of many, buffered, to moments |
//! | `few` | the first rows of a group among many |
//! | `fold` | which fold a key lies in |
//! | `possible` | which comoments rows can have |
//! | `state` | the sums of a pass so far, as bytes for another process |
//! | `threads` | work in pieces on all cores |
//! | `units` | numbers of more digits than a double has |

pub mod accumulator;
pub mod block;
pub mod chunk;
pub(crate) mod few;
pub mod fold;
pub mod gaps;
pub mod moments;
pub mod possible;
pub mod rank_update;
pub(crate) mod simd;
pub(crate) mod state;
pub mod sums;
pub mod threads;
pub mod units;

//! Sets of groups, chosen all at once.
//!
//! | module | what |
//! |---|---|
//! | `convolution` | (max,+) convolution with a concave sequence |
//! | `projection` | the nearest vector with few nonzeros in few groups |
//! | `exchange` | k groups, of which no one can be exchanged for a better one |
//! | `branch_and_bound` | the best set of groups within a budget, with proof |
//! | `leaps` | the best set of groups within a budget |

pub mod branch_and_bound;
pub mod convolution;
pub mod exchange;
pub mod leaps;
pub mod projection;

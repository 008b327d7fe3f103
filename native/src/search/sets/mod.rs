//! Sets of groups, chosen all at once.
//!
//! | module | what |
//! |---|---|
//! | `convolution` | (max,+) convolution with a concave sequence |
//! | `projection` | the nearest vector with few nonzeros in few groups |
//! | `exchange` | k groups, of which no one can be exchanged for a better one |
//! | `branch_and_bound` | the best set of groups within a budget, with proof |
//! | `groupwise`, `relaxation` | what groups within a budget can explain at most |
//! | `near` | every set within a budget that explains nearly as much as the best |
//! | `leaps` | the best set of groups within a budget |
//! | `exchange`, `dash` | k groups, improved one by one, or taken some at a time |
//! | `thresholding`, `polish`, `sght` | few columns in few groups, by hard thresholding |

pub mod branch_and_bound;
pub mod convolution;
pub mod dash;
pub mod exchange;
pub mod groupwise;
pub mod leaps;
pub mod near;
pub mod polish;
pub mod projection;
pub mod relaxation;
pub mod sght;
pub mod thresholding;

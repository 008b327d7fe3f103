//! The linear algebra of searches and fits.
//!
//! | module | what |
//! |---|---|
//! | `columns`, `select` | which columns a name or a pattern means; a record cut to these |
//! | `dense`, `panels`, `eigen`, `elimination` | small kernels of dense algebra |
//! | `cholesky`, `extremes` | factors with pivots; the least and the largest eigenvalue |
//! | `groupwise`, `relaxation` | what groups within a budget can explain at most |
//! | `certain` | whether doubles tell what every set explains |
//! | `state`, `refine` | what is selected, the last digits |
//! | `fit`, `inference` | least squares on named columns, and how certain it is |
//! | `told` | both as values |
//! | `diagnosis`, `singular` | how far columns depend on each other; singular values |
//! | `student`, `fisher`, `twofold` | Student's t, Fisher's F; sums in twice the digits |

pub mod certain;
mod cholesky;
pub mod columns;
pub(crate) mod dense;
mod diagnosis;
pub(crate) mod eigen;
mod elimination;
mod extremes;
mod fisher;
pub mod fit;
pub mod groupwise;
pub mod inference;
mod panels;
pub mod refine;
pub mod relaxation;
pub mod select;
mod singular;
pub mod state;
mod student;
mod told;
mod twofold;

//! The linear algebra of searches and fits.
//!
//! | module | what |
//! |---|---|
//! | `columns` | which columns a name or a pattern means |
//! | `dense`, `panels`, `eigen`, `elimination` | small kernels of dense algebra |
//! | `state`, `refine` | what is selected, the last digits |
//! | `fit`, `inference` | least squares on named columns, and how certain it is |
//! | `student`, `twofold` | Student's t; sums in twice the digits |

pub mod columns;
mod dense;
pub(crate) mod eigen;
mod elimination;
pub mod fit;
pub mod inference;
mod panels;
pub mod refine;
pub mod state;
mod student;
mod twofold;

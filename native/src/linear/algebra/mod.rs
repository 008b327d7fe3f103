//! Dense algebra and distributions, of numbers without a meaning.
//!
//! | module | what |
//! |---|---|
//! | `dense`, `panels`, `tile` | products of rows: one at a time, several, and their innermost step |
//! | `reflections` | rows that lost columns, made a triangle again |
//! | `elimination`, `factor`, `cholesky` | triangular factors, and what is solved by them |
//! | `eigen`, `extremes`, `singular` | eigenvalues, the least and the largest; singular values |
//! | `twofold` | sums in twice the digits |
//! | `student`, `fisher` | Student's t, Fisher's F |

pub mod cholesky;
pub mod dense;
pub mod eigen;
pub mod elimination;
pub mod extremes;
pub mod factor;
pub mod fisher;
pub mod panels;
pub mod reflections;
pub mod singular;
pub mod student;
pub mod tile;
pub mod twofold;

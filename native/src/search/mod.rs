//! Searches on Gram records: columns, rows, weight, means and comoments in, steps out.
//!
//! It knows no engine, no Arrow and no Python. One algorithm a file, each in the shape of its
//! twin in `dbselect/`, so that both can be read side by side:
//!
//! | module | what |
//! |---|---|
//! | `error`, `nearest` | mistakes in arguments; near names, for errors that help |
//! | `columns`, `groups`, `options` | what users give, matched and checked |
//! | `value`, `given` | values that a door was given by name, read into a request |
//! | `setup` | a request, matched to the columns of a record |
//! | `dense`, `panels`, `eigen`, `elimination` | small kernels of dense algebra |
//! | `problem`, `state`, `refine` | the linear problem, what is selected, the last digits |
//! | `criteria`, `ties`, `removal` | what a group is worth, and which is the best or least |
//! | `greedy`, `foba`, `backward` | the searches |
//! | `steps`, `sequence` | what they write down |
//! | `fit`, `inference` | least squares on named columns, and how certain it is |
//! | `student`, `twofold` | Student's t; sums in twice the digits |
//! | `run` | from a record to a sequence, in memory that is used again |

pub mod backward;
pub mod columns;
pub mod criteria;
mod dense;
mod eigen;
mod elimination;
pub mod error;
pub mod fit;
pub mod foba;
pub mod given;
pub mod greedy;
pub mod groups;
pub mod inference;
pub mod nearest;
pub mod options;
mod panels;
pub mod problem;
pub mod refine;
pub mod removal;
pub mod run;
pub mod sequence;
pub mod setup;
pub mod state;
pub mod steps;
mod student;
mod ties;
mod twofold;
pub mod value;

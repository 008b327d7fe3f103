//! Searches on Gram records: columns, rows, weight, means and comoments in, steps out.
//!
//! It depends on no engine, Arrow or Python. One algorithm a file, each in the shape of its
//! twin in `dbselect/`, so that both can be read side by side:
//!
//! | module | what |
//! |---|---|
//! | `error`, `nearest` | mistakes in arguments; near names, for errors that help |
//! | `groups`, `options` | what users give, matched and checked |
//! | `value`, `given` | values that a door was given by name, read into a request |
//! | `methods` | what each takes and returns, and how a record is asked |
//! | `setup` | a request, matched to the columns of a record |
//! | `problem` | the linear problem |
//! | `linear` | its algebra: what is selected, least squares, how certain they are |
//! | `algebra` | dense algebra and distributions |
//! | `walks` | searches that take or give back one group at a time |
//! | `steps`, `sequence` | what they write down |
//! | `penalised` | the lasso, the group lasso and their paths |
//! | `sets` | sets of groups, chosen all at once |
//! | `design` | which rows to observe, instead of which columns |
//! | `knockoffs`, `draws` | groups preferred to copies of them; random numbers |
//! | `run` | from a record to a sequence, in memory that is used again |

pub mod algebra;
pub mod design;
pub mod draws;
pub mod error;
pub mod given;
pub mod groups;
pub mod knockoffs;
pub mod linear;
pub mod methods;
pub mod nearest;
pub mod options;
pub mod penalised;
pub mod problem;
pub mod run;
pub mod sequence;
pub mod sets;
pub mod setup;
pub mod steps;
pub mod value;
pub mod walks;

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
//! | `criteria`, `ties`, `removal` | what a group is worth, and which is the best or least |
//! | `greedy`, `foba`, `floating`, `step`, `backward` | the searches |
//! | `steps`, `sequence` | what they write down |
//! | `sets` | sets of groups, chosen all at once |
//! | `run` | from a record to a sequence, in memory that is used again |

pub mod backward;
pub mod criteria;
pub mod error;
pub mod floating;
pub mod foba;
pub mod given;
pub mod greedy;
pub mod groups;
pub mod linear;
pub mod methods;
pub mod nearest;
pub mod options;
pub mod problem;
pub mod removal;
pub mod run;
pub mod sequence;
pub mod sets;
pub mod setup;
pub mod step;
pub mod steps;
pub(crate) mod ties;
pub mod value;

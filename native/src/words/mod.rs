//! What errors say.
//!
//! | module | what |
//! |---|---|
//! | `error` | mistakes in arguments, and values as Python shows them |
//! | `nearest` | near names, for errors that help |
//! | `value` | a value that a door passes on |
//! | `sql` | sentences that name values of Python, as SQL writes these |

pub mod error;
pub mod nearest;
pub mod sql;
pub mod value;

//! What errors say.
//!
//! | module | what |
//! |---|---|
//! | `error` | mistakes in arguments, and values as Python shows them |
//! | `nearest` | near names, for errors that help |

pub mod error;
pub mod nearest;

//! The Gram record: how rows of a table become one, and what is read of it.
//!
//! | module | what |
//! |---|---|
//! | `levels` | which level of a category a value is |
//! | `distinct` | how often each value of a column occurs |
//! | `categories` | sums by level, for columns of zeros and ones |
//! | `texts` | categories whose levels are found while the rows arrive |
//! | `rows` | rows of numbers and texts in, one record a group out |
//! | `kept` | rows of a group as they are, packed, for what reads them again and again |
//! | `packed` | numbers in as few bytes as hold them |
//! | `terms` | how the columns of a table became those of a record |
//! | `gram` | the Gram record: names and moments, checked |
//! | `fills` | what stands where values are missing, in two records or without indicators |
//! | `beside` | columns that are constant over the rows of a record |
//! | `keys` | numbers for the keys of rows |
//! | `inputs` | what a sequence reads of a row of the raw table |
//! | `prefix` | which prefix of a sequence a row can be predicted with |
//! | `expression` | a model as the text of an SQL expression |
//! | `arrow` | tables and records, to and from Arrow arrays |
//! | `sequences` | sequences in an Arrow array |

pub mod arrow;
pub mod beside;
pub mod categories;
pub mod distinct;
pub mod expression;
pub mod fills;
pub mod gram;
pub mod inputs;
pub mod kept;
pub mod keys;
pub mod levels;
mod packed;
pub mod prefix;
pub mod rows;
pub mod sequences;
pub mod terms;
pub mod texts;

//! Prediction of a row from whatever groups have arrived, and what each further one would add.
//!
//! The groups that a row has are its pattern. On a Gram the model of any pattern is one solve:
//!
//! ```text
//! w(S) = C_SS^-1 c_S          gain(g | S) = b_g' (C_gg|S)^-1 b_g,   b = c - C_.S w(S)
//! ```
//!
//! `methods::pattern` solves it.
//!
//! | module | what |
//! |---|---|
//! | `predictor` | the problem of a record, with the patterns solved so far |
//! | `stake` | what it is worth to accept a row, and to buy more before |
//! | `rows` | rows of a table, each by its pattern |
//!
//! Source: Hu, Grubb, Bagnell, Hebert (2016), eq. 1 and section 3; the pattern submodels of
//! Mercaldo, Blume (2020), Biostatistics 21, from moments.

pub mod predictor;
pub mod rows;
pub mod stake;

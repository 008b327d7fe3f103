//! The linear model of one record: what is selected, what it is worth, and how certain that is.
//!
//! | module | what |
//! |---|---|
//! | `algebra` | dense algebra and distributions |
//! | `fields`, `problem`, `groups` | what is said of a linear problem; it, and its groups of columns |
//! | `columns`, `select` | which columns a name or a pattern means; a record cut to these |
//! | `prices` | what sets of groups cost, and which may be bought |
//! | `bounds` | what groups within a budget can explain at most |
//! | `certain` | whether doubles tell what every set explains |
//! | `state`, `refine` | what is selected, the last digits |
//! | `fit`, `inference` | least squares on named columns, and how certain it is |
//! | `constrained` | coefficients under signs and linear equations |
//! | `prefixes` | the models on the way to a state |
//! | `judged` | the error of models on the record of other rows |
//! | `diagnosis` | how far columns depend on each other |
//! | `patterns`, `em` | rows with gaps: a record a pattern; one record of all by EM |

pub mod algebra;
pub mod bounds;
pub mod certain;
pub mod columns;
pub mod constrained;
mod diagnosis;
pub mod em;
pub mod fields;
pub mod fit;
pub mod groups;
pub mod inference;
pub mod judged;
pub mod patterns;
pub mod prefixes;
pub mod prices;
pub mod problem;
pub mod refine;
pub mod select;
pub mod state;

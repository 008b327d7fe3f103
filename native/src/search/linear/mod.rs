//! The linear problem of searches and fits: what is selected, and what models are worth.
//!
//! | module | what |
//! |---|---|
//! | `columns`, `select` | which columns a name or a pattern means; a record cut to these |
//! | `bounds`, `groupwise`, `relaxation` | what groups within a budget can explain at most |
//! | `certain` | whether doubles tell what every set explains |
//! | `state`, `refine` | what is selected, the last digits |
//! | `fit`, `inference` | least squares on named columns, and how certain it is |
//! | `prefixes` | the models on the way to a state |
//! | `told` | both as values |
//! | `diagnosis` | how far columns depend on each other |

pub mod bounds;
pub mod certain;
pub mod columns;
mod diagnosis;
pub mod fit;
pub mod groupwise;
pub mod inference;
pub mod prefixes;
pub mod refine;
pub mod relaxation;
pub mod select;
pub mod state;
mod told;

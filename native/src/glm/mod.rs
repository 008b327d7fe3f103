//! Generalised linear models of rows in memory: families, links, fits and a forward search.
//!
//! It knows no engine. One fit is a run of weighted least squares (Fisher's scoring), each a pass
//! over the rows that the kernel sums up, and `search::linear` solves.
//!
//! | module | what |
//! |---|---|
//! | `family`, `named` | a distribution of the target and a link; its text |
//! | `link`, `normal` | the mean of a predictor, and both tails of a probability |
//! | `written` | a mean as an SQL expression |
//! | `request` | what is asked, read from values by name |
//! | `intake` | which columns of a row are kept, and which values are refused |
//! | `rows`, `totals` | kept rows as columns of a problem; a pass over them, and what it sums up |
//! | `levels` | the two levels of a target |
//! | `problem` | the problem of a fit, and its quadratic model near some coefficients |
//! | `newton`, `secant` | the fit of some columns |
//! | `model` | a fit in the units of the table, with its standard errors |
//! | `sequence` | groups in the order in which they buy deviance |
//! | `answer`, `stored` | models, terms and sequences as values of declared types |

pub mod answer;
pub mod family;
pub mod intake;
pub mod levels;
pub mod link;
pub mod model;
pub mod named;
pub mod newton;
pub mod normal;
pub mod problem;
pub mod request;
pub mod rows;
mod secant;
pub mod sequence;
pub mod stored;
pub mod totals;
pub mod written;

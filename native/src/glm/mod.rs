//! Generalised linear models of rows in memory: families, links, fits and a forward search.
//!
//! It knows no engine. One fit is a run of weighted least squares (Fisher's scoring), each a pass
//! over the rows that the kernel sums up, and `search::linear` solves.
//!
//! | module | what |
//! |---|---|
//! | `family` | a distribution of the target and a link, by the text that users give |
//! | `link` | a link: the mean of a predictor, and both tails of a probability |
//! | `normal` | the normal distribution |
//! | `request` | what is asked, read from values by name |
//! | `intake` | which columns of a row are kept, and which values are refused |
//! | `rows` | kept rows as columns of a problem; a pass over them |
//! | `newton` | the fit of some columns |
//! | `secant` | the curvature that links other than the canonical one leave out |
//! | `model` | a fit in the units of the table, with its standard errors |
//! | `sequence` | groups in the order in which they buy deviance |
//! | `answer` | models, terms and sequences as values of declared types |

pub mod answer;
pub mod family;
pub mod intake;
pub mod link;
pub mod model;
pub mod newton;
pub mod normal;
pub mod request;
pub mod rows;
mod secant;
pub mod sequence;

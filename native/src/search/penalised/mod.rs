//! Penalised least squares: the lasso, the elastic net, the group lasso and its sparse groups.
//!
//! | module | what |
//! |---|---|
//! | `quadratic` | what is minimised, and how far a point is from its minimum |
//! | `curvature` | second derivatives of penalties, degrees of freedom, condition |
//! | `descent` | the minimum at one penalty |
//! | `path` | the minima over falling penalties |
//! | `factors`, `criterion` | what a penalty is multiplied by, and which one is preferred |

pub mod criterion;
pub mod curvature;
pub mod descent;
pub mod factors;
pub mod path;
pub mod quadratic;

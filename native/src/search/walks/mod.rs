//! Searches that take or give back one group at a time.
//!
//! Each is the twin of a walk of `dbselect/selection/`, which runs on any objective.
//!
//! | module | what |
//! |---|---|
//! | `moves` | groups that come or go together |
//! | `criteria`, `ties`, `removal` | what a group is worth, and which is the best or least |
//! | `greedy`, `foba`, `floating`, `step`, `backward` | the searches |

pub mod backward;
pub mod criteria;
pub mod floating;
pub mod foba;
pub mod greedy;
pub mod moves;
pub mod removal;
pub mod step;
pub mod ties;

//! Searches on Gram records: columns, rows, weight, means and comoments in, steps out.
//!
//! It depends on no engine, Arrow or Python, and knows no options by name. One algorithm a file;
//! `walks` have the shape of `dbselect/selection/`, so that both can be read side by side:
//!
//! | module | what |
//! |---|---|
//! | `walks` | searches that take or give back one group at a time |
//! | `steps`, `sequence` | what they write down |
//! | `penalised` | the lasso, the group lasso and their paths |
//! | `sets` | sets of groups, chosen all at once |
//! | `design` | which rows to observe, instead of which columns |
//! | `allocation` | one budget for the sequences of many segments |
//! | `knockoffs`, `draws` | groups preferred to copies of them; random numbers |

pub mod allocation;
pub mod design;
pub mod draws;
pub mod knockoffs;
pub mod penalised;
pub mod sequence;
pub mod sets;
pub mod steps;
pub mod walks;

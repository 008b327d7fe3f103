//! Which set of groups is the best, which are near it, and up to which price each group is in it.

pub mod across;
pub mod best_within;
pub mod break_even;
pub mod near_best;
pub mod worth;

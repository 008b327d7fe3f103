//! The best of some groups; ties go to the group named first.
//!
//! The twin of `dbselect/selection/ties.py`.

/// Scores closer than this share of the best are ties, decided by the order of names.
const TIE_SHARE: f64 = 1e-10;
/// Rises of what is explained below this are rounding, of columns that are not nearly dependent.
pub const LEAST_RISE: f64 = 1e-12;

/// The candidate with the largest score, the first of those that tie; nothing without one.
pub fn first_of_the_best(scores: &[f64], candidates: &[bool]) -> Option<usize> {
    let each = || scores.iter().zip(candidates).map(|(score, is)| (*score, *is));
    let best =
        each().filter(|(_, is)| *is).map(|(score, _)| score).fold(f64::NEG_INFINITY, f64::max);
    let least = if best.is_finite() { best - TIE_SHARE * best.abs() } else { best };
    each().position(|(score, is)| is && score >= least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_those_that_tie_is_taken() {
        let scores = [9.0, 1.0, 2.0 - 1e-12, 2.0, -3.0];
        assert_eq!(first_of_the_best(&scores, &[false, true, true, true, true]), Some(2));
        assert_eq!(first_of_the_best(&scores, &[false, false, false, false, true]), Some(4));
        assert_eq!(first_of_the_best(&[0.0, 0.0], &[true, true]), Some(0));
        assert_eq!(first_of_the_best(&scores, &[false; 5]), None);
    }
}

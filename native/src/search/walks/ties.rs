//! The best of some groups; ties go to the group named first.

/// Scores closer than this share of the best are ties, decided by the order of names.
pub const TIE_SHARE: f64 = 1e-10;
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

/// Candidates by falling scores, those that tie in the order of names.
pub fn best_first(scores: &[f64]) -> Vec<usize> {
    let (mut order, level) = levels(scores);
    order.sort_by_key(|&at| (level[at], at));
    order
}

/// Sizes >= 0 in which those that tie are equal, and those that are rounding 0.
pub fn levelled(sizes: &[f64]) -> Vec<f64> {
    let (order, level) = levels(sizes);
    let mut heads: Vec<f64> = Vec::new();
    for &at in &order {
        if level[at] == heads.len() {
            heads.push(sizes[at]);
        }
    }
    let least = TIE_SHARE * heads.first().copied().unwrap_or(0.0);
    let own = |&level: &usize| if heads[level] > least { heads[level] } else { 0.0 };
    level.iter().map(own).collect()
}

/// The candidates by falling scores, and for each how many steps larger than a tie stand above it.
fn levels(scores: &[f64]) -> (Vec<usize>, Vec<usize>) {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&i, &j| scores[j].total_cmp(&scores[i]));
    let mut level = vec![0; scores.len()];
    for pair in order.windows(2) {
        let (above, below) = (scores[pair[0]], scores[pair[1]]);
        let is_apart = below < above - TIE_SHARE * above.abs();
        level[pair[1]] = level[pair[0]] + usize::from(is_apart);
    }
    (order, level)
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

    #[test]
    fn what_ties_comes_by_name_and_is_made_equal() {
        let scores = [1.0, 2.0 - 1e-12, 0.0, 2.0, 1e-11];
        assert_eq!(best_first(&scores), [1, 3, 0, 4, 2]);
        assert_eq!(levelled(&scores), [1.0, 2.0, 0.0, 2.0, 0.0]);
        assert_eq!(levelled(&[]), [0.0; 0]);
    }
}

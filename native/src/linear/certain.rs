//! Whether doubles tell what every set of some columns explains.

use super::state::{CONDITION_LIMIT, RANK_SHARE, ROUNDING_SHARE, State};
use crate::linear::algebra::cholesky::{cholesky, solve};
use crate::linear::algebra::dense::dot;
use crate::linear::problem::Linear;

/// What is explained errs by this at the limit, as a share of the target's variance: w'w times the
/// rounding of C.
const CERTAIN: f64 = f64::EPSILON * CONDITION_LIMIT;

/// Whether doubles tell what every set of the selected columns explains, to six digits.
///
/// They do not at a condition number above the limit, nor where a column is aliased that may
/// explain something by what it has beyond the columns that determine it. Of a dependence those
/// columns count whose part in it is more than may be left of the aliased one: a set that lacks
/// the others has the dependence, too. O(|S|^3).
pub fn is_certain(state: &mut State) -> bool {
    if state.condition() > CONDITION_LIMIT {
        return false;
    }
    let (problem, support) = (state.problem, state.support());
    let width = problem.width();
    // Of the inverse of C_SS, from its factor.
    let mut diagonal = vec![0.0; support.len()];
    for row in state.inverse().chunks_exact(width.max(1)) {
        diagonal.iter_mut().zip(row).for_each(|(sum, m)| *sum += m * m);
    }
    let is_free = |&j: &usize| !problem.constant[j] && problem.ridge[j] == 0.0;
    state.aliased().into_iter().filter(is_free).all(|aliased| {
        let cross: Vec<f64> = support.iter().map(|&j| problem.row(aliased)[j]).collect();
        let mut weights = vec![0.0; support.len()];
        for (k, row) in state.inverse().chunks_exact(width.max(1)).enumerate() {
            let share = dot(&row[..=k], &cross[..=k]);
            weights.iter_mut().zip(&row[..=k]).for_each(|(w, m)| *w += share * m);
        }
        let least = RANK_SHARE * problem.variance(aliased);
        let takes_part = |(w, square): (&f64, &f64)| w * w / square > least;
        let parts = weights.iter().zip(&diagonal).map(takes_part);
        let columns: Vec<usize> =
            support.iter().zip(parts).filter(|(_, part)| *part).map(|(&j, _)| j).collect();
        own_gain(problem, &columns, aliased) <= CERTAIN
    })
}

/// What a column may explain beyond some others, if rounding hides it.
fn own_gain(problem: &Linear, columns: &[usize], aliased: usize) -> f64 {
    let row = |&i: &usize| {
        columns.iter().map(move |&j| if i == j { problem.variance(j) } else { problem.row(i)[j] })
    };
    let block: Vec<f64> = columns.iter().flat_map(row).collect();
    let Some(factor) = cholesky(&block, columns.len()) else {
        return f64::INFINITY;
    };
    let cross: Vec<f64> = columns.iter().map(|&j| problem.row(aliased)[j]).collect();
    let mut w = cross.clone();
    solve(&factor, &mut w);
    // The aliased column less what the others make of it.
    let slope = problem.target[aliased]
        - columns.iter().zip(&w).map(|(&j, w)| w * problem.target[j]).sum::<f64>();
    let fitted: Vec<f64> =
        block.chunks_exact(columns.len().max(1)).map(|row| dot(row, &w)).collect();
    let left = problem.variance(aliased) - 2.0 * dot(&w, &cross) + dot(&w, &fitted);
    let rounding = ROUNDING_SHARE * (1.0 + dot(&w, &w));
    slope * slope / (left - rounding).max(rounding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linear::problem::Gram;
    use crate::linear::state::Buffers;
    use crate::testing::{Lcg, moments};

    /// Whether a, the same with a share of some noise, and another column are certain to explain
    /// what they do of a target that is the noise.
    fn certain_at(share: f64) -> bool {
        let mut random = Lcg::new(3);
        let rows: Vec<Vec<f64>> = (0..200)
            .map(|_| {
                let [a, c, noise] = [(); 3].map(|()| random.uniform() - 0.5);
                vec![a, a + share * noise, c, noise + 0.1 * random.uniform()]
            })
            .collect();
        let (mean, comoment) = moments(&rows);
        let (mean, comoment) = (&mean[..], &comoment[..]);
        let gram = Gram {
            rows: 200,
            skipped: 0,
            weight: 200.0,
            mean,
            mean_low: &[],
            comoment,
            missing: &[],
        };
        let mut problem = Linear::default();
        problem.set_up(&gram, 3, &[0, 1, 2], 0.0, true);
        let starts = [0, 1, 2, 3];
        let mut state = State::new(&problem, &starts, Buffers::default());
        (0..3).for_each(|group| _ = state.add(group));
        is_certain(&mut state)
    }

    #[test]
    fn a_trace_that_may_explain_much_is_not_certain() {
        assert!(certain_at(1.0) && certain_at(0.1) && certain_at(0.0));
        assert!(!certain_at(1e-6) && !certain_at(5e-7));
    }
}

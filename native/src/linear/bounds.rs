//! How much any set of groups within a budget can explain.
//!
//! ```text
//! F(S + T) - F(S) <= 1/mu sum_{g in T} gain(g | S)
//! ```
//!
//! with mu the least eigenvalue of the conditional covariance of everything unselected, after each
//! group's own block is whitened. A set within a budget is then worth at most F(S) and the best
//! fractional knapsack of the gains, over mu; and never more than F(all). Every prefix of a
//! sequence gives such a bound, and the least one holds. Of groups that share columns mu is 0.
//!
//! Source: Hu, Grubb, Bagnell, Hebert (2016), Lemmas 3.1,
//! 3.3, 3.4; Das and Kempe (2011), Lemma 2.5.

use super::state::{Buffers, State};
use crate::linear::algebra::eigen::inverse_root;
use crate::linear::algebra::extremes::extremes;
use crate::linear::problem::Linear;
use crate::record::prefix::{BUDGET_SLACK, fits};

/// Prefixes at which mu is computed anew: it never falls from one to the next.
const CHECKPOINTS: usize = 4;

/// The most that any groups within each budget can explain, as a share of the target's variance.
///
/// Group g has the columns from `starts[g]` on. `order` numbers groups, whose prefixes serve as S;
/// the others follow. O(D^3), and O(J B) a
/// group for the knapsacks of B budgets.
pub fn upper_bounds(
    problem: &Linear,
    starts: &[usize],
    costs: &[f64],
    order: &[usize],
    budgets: &[f64],
) -> Vec<f64> {
    let mut state = State::new(problem, starts, Buffers::default());
    let rest = (0..costs.len()).filter(|group| !order.contains(group));
    let chain: Vec<usize> = order.iter().copied().chain(rest).collect();
    let every = chain.len().div_ceil(CHECKPOINTS);
    let mut bounds = vec![f64::INFINITY; budgets.len()];
    let (mut mu, mut gains) = (0.0_f64, Vec::new());
    for (position, &group) in chain.iter().enumerate() {
        if problem.same.is_empty() && position % every == 0 {
            mu = mu.max(least_eigenvalue(&state, &chain[position..]));
        }
        if mu > 0.0 {
            state.gains(&mut gains);
            let held = state.explained();
            let ranked = ranked(&gains, costs);
            for (bound, &budget) in bounds.iter_mut().zip(budgets) {
                *bound = bound.min(held + knapsack(&ranked, budget) / mu);
            }
        }
        state.add(group);
    }
    let all = state.explained().min(1.0);
    bounds.iter_mut().for_each(|bound| *bound = bound.min(all));
    bounds
}

/// Mu: of groups that are not selected, given those that are, each whitened; less what rounding
/// may have added.
fn least_eigenvalue(state: &State, groups: &[usize]) -> f64 {
    let columns: Vec<usize> = groups.iter().flat_map(|&group| state.columns(group)).collect();
    let width = columns.len();
    if width == 0 {
        return 1.0;
    }
    let mut c = state.conditional(&columns);
    let unit: Vec<f64> = columns.iter().map(|&j| 1.0 / state.problem.deviation(j)).collect();
    for (row, own) in c.chunks_exact_mut(width).zip(&unit) {
        row.iter_mut().zip(&unit).for_each(|(x, other)| *x *= own * other);
    }
    let (mut kept, mut start) = (Vec::new(), 0);
    for &group in groups {
        let at = start..start + state.columns(group).len();
        let size = at.len();
        let mut root: Vec<f64> =
            at.clone().flat_map(|i| c[i * width..][at.clone()].to_vec()).collect();
        inverse_root(&mut root, size);
        let is_there = |&k: &usize| (0..size).any(|i| root[i * size + k] != 0.0);
        kept.extend((0..size).filter(is_there).map(|k| start + k));
        whiten(&mut c, width, start, &root, size);
        start = at.end;
    }
    if kept.is_empty() {
        return 1.0;
    }
    let mut white: Vec<f64> = kept
        .iter()
        .flat_map(|&i| kept.iter().map(move |&j| (i, j)))
        .map(|(i, j)| c[i * width + j])
        .collect();
    (extremes(&mut white, kept.len()).0 - kept.len() as f64 * f64::EPSILON).max(0.0)
}

/// Multiply the rows and the columns of a group, which begin at `start`, by its root.
fn whiten(c: &mut [f64], width: usize, start: usize, root: &[f64], size: usize) {
    if let [root] = root {
        c[start * width..][..width].iter_mut().for_each(|x| *x *= root);
        c[start..].iter_mut().step_by(width).for_each(|x| *x *= root);
        return;
    }
    let mut own = Vec::with_capacity(size);
    for row in c.chunks_exact_mut(width) {
        own.clear();
        own.extend_from_slice(&row[start..start + size]);
        for (k, x) in row[start..start + size].iter_mut().enumerate() {
            *x = own.iter().enumerate().map(|(i, x)| x * root[i * size + k]).sum();
        }
    }
    let rows = &mut c[start * width..][..size * width];
    let own = rows.to_vec();
    for (k, row) in rows.chunks_exact_mut(width).enumerate() {
        row.fill(0.0);
        for (i, own) in own.chunks_exact(width).enumerate() {
            let share = root[i * size + k];
            row.iter_mut().zip(own).for_each(|(x, own)| *x += own * share);
        }
    }
}

/// Gains and costs, what buys most for its cost first.
fn ranked(gains: &[f64], costs: &[f64]) -> Vec<(f64, f64)> {
    let mut ranked: Vec<(f64, f64)> = gains.iter().copied().zip(costs.iter().copied()).collect();
    ranked.sort_by(|a, b| (b.0 / b.1).total_cmp(&(a.0 / a.1)));
    ranked
}

/// The best fractional knapsack within a budget; a group that costs more is in no set within it.
fn knapsack(ranked: &[(f64, f64)], budget: f64) -> f64 {
    let (mut left, mut gained) = (budget * (1.0 + BUDGET_SLACK), 0.0);
    for &(gain, cost) in ranked.iter().filter(|(_, cost)| fits(*cost, Some(budget))) {
        if left <= 0.0 {
            break;
        }
        gained += gain * (left / cost).min(1.0);
        left -= cost;
    }
    gained
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linear::groups::groups_of;
    use crate::linear::prices::Conditions;
    use crate::linear::problem::Gram;
    use crate::record::terms::Terms;

    #[test]
    fn no_set_within_a_budget_explains_more() {
        // Correlations of four columns with each other and with the target.
        let comoment =
            [1.0, 0.5, 1.0, 0.2, 0.3, 1.0, -0.1, 0.4, 0.1, 1.0, 0.5, 0.45, 0.3, 0.35, 1.0];
        let mean = [0.0; 5];
        let gram = Gram {
            rows: 9,
            skipped: 0,
            weight: 9.0,
            mean: &mean,
            mean_low: &[],
            missing: &[],
            comoment: &comoment,
        };
        let mut problem = Linear::default();
        problem.set_up(&gram, 4, &[0, 1, 2, 3], 0.0, true);
        let features: Vec<String> = ["a", "b", "c", "d"].map(str::to_string).to_vec();
        let given = vec![
            ("p".to_string(), vec!["a".to_string(), "b".to_string()]),
            ("q".to_string(), vec!["c".to_string()]),
            ("r".to_string(), vec!["d".to_string()]),
        ];
        let costs = ["p", "q", "r"].iter().zip([2.0, 1.0, 1.5]);
        let costs = costs.map(|(name, cost)| (name.to_string(), cost)).collect();
        let terms = Terms::default();
        let groups = groups_of(
            &features,
            Some(&given),
            Some(&costs),
            "y",
            &terms,
            true,
            &Conditions::default(),
        )
        .unwrap();
        let budgets = [0.5, 1.0, 1.5, 2.5, 3.0, 4.5];
        let bounds = upper_bounds(&problem, &groups.starts, &groups.costs, &[1, 0], &budgets);
        for (budget, bound) in budgets.iter().zip(&bounds) {
            for set in 0..8_usize {
                let chosen: Vec<usize> = (0..3).filter(|group| set >> group & 1 == 1).collect();
                let cost: f64 = chosen.iter().map(|&group| groups.costs[group]).sum();
                let mut state = State::new(&problem, &groups.starts, Buffers::default());
                chosen.iter().for_each(|&group| _ = state.add(group));
                assert!(cost > *budget || state.explained() <= bound + 1e-12);
            }
        }
        let mut all = State::new(&problem, &groups.starts, Buffers::default());
        (0..3).for_each(|group| _ = all.add(group));
        assert_eq!(bounds[0], 0.0);
        assert!((bounds[5] - all.explained()).abs() < 1e-12);
    }
}

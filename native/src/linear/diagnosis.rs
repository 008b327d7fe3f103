//! How far the columns of a model depend on each other, and what each alone has of the target.
//!
//! With A = C^-1 of unit-variance columns, w the coefficients and RSS the share of the target that
//! is left (R2_j is that of column j on the others):
//!
//! ```text
//! VIF_j         = A_jj = 1 / (1 - R2_j)
//! partial_j     = w_j / sqrt(w_j^2 + A_jj RSS)
//! semipartial_j = w_j / sqrt(A_jj)
//! ```
//!
//! The condition number is that of the rows themselves, the intercept's column among them, each
//! column scaled to length 1 and none centred. Sources: Marquardt (1970), Technometrics 12; Belsley,
//! Kuh, Welsch (1980), Regression Diagnostics, section 3.2; Cohen, Cohen, West, Aiken (2003),
//! Applied Multiple Regression, section 3.5.

use super::state::{RANK_ROUNDING, State};
use crate::linear::algebra::singular::singular_values;

/// What a column has of the target; NaN where it has nothing of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Partial {
    /// Of the column and the target.
    pub correlation: f64,
    /// Of both, less what the other columns explain of them.
    pub partial: f64,
    /// Of the target and the column less what the others explain of it.
    pub semipartial: f64,
}

/// A_jj of the selected columns, in the order of U.
fn factors_of(state: &mut State) -> Vec<f64> {
    state.invert();
    let mut factors = vec![0.0; state.support().len()];
    for (k, row) in state.inverse().chunks_exact(state.problem.width().max(1)).enumerate() {
        factors.iter_mut().zip(&row[..=k]).for_each(|(sum, m)| *sum += m * m);
    }
    factors
}

/// The variance inflation factor of each column of a state without a ridge, that holds all.
///
/// Infinite where columns before it determine the column; others are judged without these.
pub fn inflation(state: &mut State) -> Vec<f64> {
    let factors = factors_of(state);
    // Rounding takes the factor of a column that is orthogonal to all others below 1.
    let of = |column| state.place(column).map_or(f64::INFINITY, |row| factors[row].max(1.0));
    (0..state.problem.width()).map(of).collect()
}

/// What each column of such a state has of the target, alone and given the others.
///
/// `coef` has the coefficients, one for each row of U, and `left` RSS as a share of TSS. A partial
/// correlation is NaN, too, where the others leave nothing of the target but rounding.
pub fn partials(state: &mut State, coef: &[f64], left: f64) -> Vec<Partial> {
    let factors = factors_of(state);
    let problem = state.problem;
    let squares = 1.0 + coef.iter().map(|w| w * w).sum::<f64>();
    let of = |column: usize| {
        let correlation = match problem.constant[column] {
            true => f64::NAN,
            false => problem.target[column].clamp(-1.0, 1.0),
        };
        let nothing = Partial { correlation, partial: f64::NAN, semipartial: f64::NAN };
        let Some(row) = state.place(column) else {
            return nothing;
        };
        let semipartial = coef[row] / factors[row].sqrt();
        // What the others leave of the target.
        let alone = semipartial * semipartial + left;
        let is_there = alone > RANK_ROUNDING * squares;
        let partial = if is_there { semipartial / alone.sqrt() } else { f64::NAN };
        Partial { semipartial, partial, ..nothing }
    };
    (0..problem.width()).map(of).collect()
}

/// The condition number of the rows of the columns of a state that holds all, but for those that
/// columns before them determine.
///
/// With X = Q R the singular values are those of R, whose digits the products of a mean far from
/// 0 would lose.
pub fn condition_number(state: &mut State, intercept: bool) -> f64 {
    let problem = state.problem;
    let (width, rank) = (problem.width(), state.support().len());
    state.invert();
    let constant = usize::from(intercept);
    let size = rank + constant;
    // R a column after the other, divided by the root of the weight.
    let mut columns = vec![0.0; size * size];
    if intercept {
        columns[0] = 1.0;
    }
    for (k, factor) in
        triangle_of(state.inverse(), width, rank).chunks_exact(rank.max(1)).enumerate()
    {
        let column = state.support()[k];
        let mean = if intercept { problem.mean[column] / problem.spread[column] } else { 0.0 };
        let length = (1.0 + mean * mean).sqrt();
        let own = &mut columns[(k + constant) * size..(k + constant + 1) * size];
        if intercept {
            own[0] = mean / length;
        }
        own[constant..].iter_mut().zip(factor).for_each(|(to, from)| *to = from / length);
    }
    let lengths = singular_values(&mut columns, size);
    let largest = lengths.iter().copied().fold(0.0, f64::max);
    // Of no column at all it is that of the identity.
    (largest / lengths.iter().copied().fold(f64::INFINITY, f64::min)).max(1.0)
}

/// The columns of L', one after another, of M = L^-1 with rows of `width`: unit variance each.
fn triangle_of(m: &[f64], width: usize, rank: usize) -> Vec<f64> {
    let mut factor = vec![0.0; rank * rank];
    for k in 0..rank {
        let pivot = m[k * width + k];
        for j in 0..k {
            // sum_i M_ki L_ij = 0 for i from j to k.
            let sum: f64 = (j..k).map(|i| m[k * width + i] * factor[i * rank + j]).sum();
            factor[k * rank + j] = -sum / pivot;
        }
        factor[k * rank + k] = 1.0 / pivot;
    }
    factor
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linear::problem::{Gram, Linear};
    use crate::linear::state::Buffers;
    use crate::testing::DEPENDENT_GRAM;

    const GRAM: Gram = DEPENDENT_GRAM;

    fn of<T>(at: &[usize], answer: impl FnOnce(&mut State) -> T) -> T {
        let mut problem = Linear::default();
        problem.set_up(&GRAM, 3, at, 0.0, true);
        let starts = [0, at.len()];
        let mut state = State::new(&problem, &starts, Buffers::default());
        state.add(0);
        answer(&mut state)
    }

    #[test]
    fn a_column_that_others_determine_is_inflated_without_end_and_counts_no_more() {
        assert_eq!(of(&[0, 1, 2], inflation), [1.0, 1.0, f64::INFINITY]);
        let alone = of(&[0, 1], |state| condition_number(state, true));
        assert_eq!(of(&[0, 1, 2], |state| condition_number(state, true)), alone);
    }

    #[test]
    fn what_columns_have_of_the_target_is_by_the_textbook() {
        // y = 2 a + b / 2 + 1/2 exactly: r2 of a is 20/21, of b 1/21.
        let found = of(&[0, 1], |state| {
            let mut coef = Vec::new();
            state.coefficients(&mut coef);
            partials(state, &coef, 0.0)
        });
        for (one, r2) in found.iter().zip([20.0 / 21.0, 1.0 / 21.0f64]) {
            assert!((one.correlation - r2.sqrt()).abs() < 1e-15, "{one:?}");
            assert!((one.semipartial - r2.sqrt()).abs() < 1e-15 && one.partial == 1.0, "{one:?}");
        }
    }

    #[test]
    fn the_condition_number_is_that_of_scaled_rows() {
        // Columns 1, 1, 1, 1 and 1, 2, 3, 4 of length 1 have the product 10 / sqrt(4 * 30).
        let product = 10.0 / 120f64.sqrt();
        let expected = ((1.0 + product) / (1.0 - product)).sqrt();
        assert!((of(&[0], |state| condition_number(state, true)) - expected).abs() < 1e-13);
        assert_eq!(of(&[0], |state| condition_number(state, false)), 1.0);
    }
}

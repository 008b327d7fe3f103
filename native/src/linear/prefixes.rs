//! The models of all prefixes of the groups of a state, in the order taken.
//!
//! Leading rows of M are those of the inverses of leading blocks, so that a state that is at its
//! end knows the models before.

use super::state::State;

/// Write the coefficients after none, one, two, ... groups to `all`, zeros before: of each of them
/// a row of `width` doubles for each response, in which `place` says where a column stands.
pub fn prefix_coefficients(
    state: &mut State,
    width: usize,
    place: impl Fn(usize) -> usize,
    all: &mut [f64],
) {
    state.invert();
    let (columns, responses) = (state.problem.width(), state.problem.responses());
    let mut after = all.chunks_exact_mut((responses * width).max(1));
    let mut coef = vec![0.0; responses * state.support().len()];
    let rank = state.support().len();
    after.next();
    for (held, after) in state.held().iter().zip(after) {
        for row in held.rows() {
            let m = &state.inverse()[row * columns..][..=row];
            let z = &state.coordinates()[row * responses..][..responses];
            for (coef, z) in coef.chunks_exact_mut(rank).zip(z) {
                coef.iter_mut().zip(m).for_each(|(w, m)| *w += z * m);
            }
        }
        let used = &state.support()[..held.rows().end];
        for (coef, own) in coef.chunks_exact(rank.max(1)).zip(after.chunks_exact_mut(width.max(1)))
        {
            used.iter().zip(coef).for_each(|(&column, w)| own[place(column)] = *w);
        }
    }
}

/// What each group explains of each response beside those before it, a row for each group.
pub fn response_gains(state: &State) -> Vec<f64> {
    let responses = state.problem.responses();
    let mut gains = Vec::with_capacity(state.held().len() * responses);
    for held in state.held() {
        let rows = held.rows().start * responses..held.rows().end * responses;
        let z = &state.coordinates()[rows];
        gains.extend(
            (0..responses).map(|k| z.iter().skip(k).step_by(responses).map(|z| z * z).sum::<f64>()),
        );
    }
    gains
}

/// `tr(C_SS^-1 G_SS)`, the effective number of columns: the rank at ridge 0.
pub fn degrees(state: &mut State) -> f64 {
    let problem = state.problem;
    let rank = state.support().len() as f64;
    if state.support().iter().all(|&column| problem.ridge[column] == 0.0) {
        return rank;
    }
    state.invert();
    let rows = state.inverse().chunks_exact(problem.width()).enumerate();
    let ridge = |(m, &column): (&f64, &usize)| m * m * problem.ridge[column];
    let taken = rows.map(|(k, row)| row[..=k].iter().zip(state.support()).map(ridge).sum::<f64>());
    rank - taken.sum::<f64>()
}

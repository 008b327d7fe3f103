//! What each rule maximises per unit of cost, as a share of the target's variance.
//!
//! ```text
//! fr, score       gain(g | S)            = b_g' (C_gg|S)^-1 b_g
//! omp             whitened gradient      = b_g' (G_gg)^-1 b_g
//! omp-unwhitened  gradient               = b_g' b_g
//! omp-single      its largest entry      = max_j b_gj^2
//! ```
//!
//! Source: Hu, Grubb, Bagnell, Hebert (2016), Algorithms 1 and 2, sections 2 and 5.5.

use crate::linear::algebra::eigen::{EIGENVALUE_SHARE, inverse_root};
use crate::linear::problem::Linear;
use crate::linear::state::State;
use crate::search::steps::ROUNDING_GAIN;

/// A squared correlation below this is rounding: correlations err by some 1e-15.
const ROUNDING_GRADIENT: f64 = 1e-15 * 1e-15;
/// A whitened squared gradient below this is rounding: whitening divides by an eigenvalue.
const ROUNDING_WHITENED: f64 = ROUNDING_GRADIENT / EIGENVALUE_SHARE;

/// What a forward step maximises per unit of cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rule {
    /// The exact gain.
    #[default]
    Fr,
    /// On a Gram the same.
    Score,
    /// The gradient, whitened within the group.
    Omp,
    /// On a Gram the same: there the information is that of the columns.
    OmpInformation,
    /// The gradient as it is.
    OmpUnwhitened,
    /// Its largest entry.
    OmpSingle,
    /// The exact gain among groups that at most double the cost.
    Doubling,
}

/// A rule, made for one problem.
#[derive(Clone, Debug, Default)]
pub struct Criterion {
    rule: Rule,
    /// Rule omp: a root of the inverse of each group's block, one after another.
    roots: Vec<f64>,
    white: Vec<f64>,
}

impl Criterion {
    /// Make the rule for a problem whose group g has the columns from `starts[g]` on.
    pub fn set_up(&mut self, rule: Rule, problem: &Linear, starts: &[usize]) {
        self.rule = rule;
        self.roots.clear();
        if !matches!(rule, Rule::Omp | Rule::OmpInformation) {
            return;
        }
        for bounds in starts.windows(2) {
            let (columns, start) = (bounds[0]..bounds[1], self.roots.len());
            problem.append_correlations(columns.clone(), &mut self.roots);
            inverse_root(&mut self.roots[start..], columns.len());
        }
    }

    /// Write what each group that waits is worth, before its cost; 0 for the others.
    pub fn worth(&mut self, state: &mut State, scores: &mut Vec<f64>) {
        match self.rule {
            Rule::Fr | Rule::Score | Rule::Doubling => {
                state.gains(scores);
                scores.iter_mut().for_each(|gain| *gain = above(*gain, ROUNDING_GAIN));
            }
            Rule::Omp | Rule::OmpInformation => self.whitened(state, scores),
            Rule::OmpUnwhitened => of_gradient(state, scores, |sum, square| sum + square),
            Rule::OmpSingle => of_gradient(state, scores, f64::max),
        }
    }

    fn whitened(&mut self, state: &State, scores: &mut Vec<f64>) {
        scores.clear();
        let mut roots = &self.roots[..];
        for group in 0..state.size() {
            let columns = state.columns(group);
            let (root, rest) = roots.split_at(columns.len() * columns.len());
            roots = rest;
            let mut score = 0.0;
            for b in state.gradient().chunks_exact(state.problem.width().max(1)) {
                self.white.clear();
                self.white.resize(columns.len(), 0.0);
                for (row, b) in root.chunks_exact(columns.len().max(1)).zip(&b[columns.clone()]) {
                    self.white.iter_mut().zip(row).for_each(|(white, x)| *white += x * b);
                }
                score += self.white.iter().map(|white| white * white).sum::<f64>();
            }
            let waits = state.waiting()[group];
            scores.push(if waits { above(score, ROUNDING_WHITENED) } else { 0.0 });
        }
    }
}

/// Write what the squares of the gradient of each group add up to, in the caller's units.
fn of_gradient(state: &State, scores: &mut Vec<f64>, add: impl Fn(f64, f64) -> f64) {
    scores.clear();
    let square = |j: usize| {
        let (slopes, unit) = (state.gradient()[j..].iter(), state.problem.unit[j]);
        let squares =
            slopes.step_by(state.problem.width()).map(|b| above(b * b, ROUNDING_GRADIENT));
        squares.sum::<f64>() * (unit * unit)
    };
    scores.extend((0..state.size()).map(|group| {
        let waits = state.waiting()[group];
        if waits { state.columns(group).map(square).fold(0.0, &add) } else { 0.0 }
    }));
}

/// 0 for what is rounding, so that it is a tie.
fn above(value: f64, rounding: f64) -> f64 {
    if value > rounding { value } else { 0.0 }
}

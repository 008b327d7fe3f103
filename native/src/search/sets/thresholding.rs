//! Descent with hard thresholding: a step down the gradient, then the exact projection.
//!
//! ```text
//! minimise f(x) = 1/2 x'Gx - c'x  with at most s1 nonzeros in at most s2 groups
//!
//! u  = x, or with acceleration a point ahead of it
//! L  = a first guess at the curvature, doubled until the step is good enough
//! x+ = P(u - gradient(u) / L)
//! ```
//!
//! K responses have a row of x each, add up in f, and share the support: a column is kept by the
//! length of its K entries, which is the exact projection of all.
//!
//! Once the support has stayed the same for some steps, the least squares on it is the next point
//! (Foucart, 2011, hard thresholding pursuit), which saves hundreds of small steps.
//! `dbselect/selection/descent.py` has the descent for families, and says where and why
//! it departs from its source: Xiang, Yang, Ye (2014), Algorithms 1 and 2, Table 1.

use super::projection::{Groups, Limits, support};
use crate::linear::algebra::dense::dot;
use crate::linear::algebra::factor::Factor;
use crate::linear::problem::Linear;
use crate::linear::state::RANK_SHARE;
use crate::search::walks::ties::levelled;

/// Lambdas of the ridge solutions to start from, around 1, the variance of a column.
const START_RIDGES: [f64; 3] = [0.1, 1.0, 10.0];
/// Curvature of one column of unit variance: where nothing is known yet.
const UNIT_CURVATURE: f64 = 1.0;
/// Smallest curvature to start from: a tenth of a column's allows steps that are long, yet not
/// so long that many must be tried.
const SMALLEST_CURVATURE: f64 = 0.1;
/// What L is multiplied by until a step is good enough.
const GROWTH: f64 = 2.0;
/// Share of L/2 |x+ - x|^2 that counts as a decrease, as in Gong et al. (2013).
const DECREASE: f64 = 1e-5;
/// Steps on one support before its own minimum is taken.
const SETTLED_STEPS: usize = 3;

/// A row of the paper's Table 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Variant {
    /// Barzilai-Borwein steps, sufficient decrease.
    #[default]
    Ista,
    /// Barzilai-Borwein steps, Lipschitz.
    IstaL,
    /// The same, accelerated.
    Fista,
}

impl Variant {
    /// Variants by the name that users give.
    pub const NAMES: [(&str, Variant); 3] =
        [("ista", Variant::Ista), ("ista-l", Variant::IstaL), ("fista", Variant::Fista)];
}

/// How to descend, and when to stop.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long steps are.
    pub variant: Variant,
    /// Share of the objective by which a step must change it.
    pub tol: f64,
    /// Most steps.
    pub max_iter: usize,
}

/// Where a descent ended.
#[derive(Clone, Debug)]
pub struct Descent {
    /// On unit-variance columns, a row for each response.
    pub x: Vec<f64>,
    /// f at the start and after every step.
    pub history: Vec<f64>,
    /// Whether it ended because steps no longer changed f.
    pub converged: bool,
    /// Step lengths tried, each with a projection.
    pub projections: usize,
}

impl Descent {
    /// The lowest objective, that of x.
    pub fn objective(&self) -> f64 {
        self.history.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

/// Half the share of the variance left, less 1/2; with a ridge G + R.
pub struct LeastSquares<'p> {
    problem: &'p Linear,
    /// No curvature exceeds the trace.
    ceiling: f64,
}

/// A vector, with f and the gradient of f there.
#[derive(Clone)]
struct Point {
    x: Vec<f64>,
    value: f64,
    gradient: Vec<f64>,
}

impl<'p> LeastSquares<'p> {
    /// The function of a problem.
    pub fn of(problem: &'p Linear) -> LeastSquares<'p> {
        let ceiling = problem.width() as f64 + problem.ridge.iter().sum::<f64>();
        LeastSquares { problem, ceiling }
    }

    /// Nothing of each column, for each response.
    pub fn zero(&self) -> Vec<f64> {
        vec![0.0; self.problem.target.len()]
    }

    /// f at a point; O(s D) for s columns that are not 0.
    pub fn value(&self, x: &[f64]) -> f64 {
        self.at(x.to_vec()).value
    }

    fn at(&self, x: Vec<f64>) -> Point {
        let (problem, width) = (self.problem, self.problem.width());
        let mut image = vec![0.0; x.len()];
        for (x, image) in x.chunks_exact(width).zip(image.chunks_exact_mut(width)) {
            for (j, &share) in x.iter().enumerate().filter(|(_, share)| **share != 0.0) {
                image.iter_mut().zip(problem.row(j)).for_each(|(image, g)| *image += share * g);
                image[j] += share * problem.ridge[j];
            }
        }
        let value = 0.5 * dot(&x, &image) - dot(&problem.target, &x);
        let gradient = image.iter().zip(&problem.target).map(|(image, c)| image - c).collect();
        Point { x, value, gradient }
    }

    /// The factor of `G + ridge` on some columns.
    fn factor(&self, at: &[usize], ridge: f64) -> Factor {
        let mut factor = Factor::default();
        let write = |i: usize, row: &mut [f64]| {
            let products = self.problem.row(at[i]);
            row.iter_mut().zip(at).for_each(|(x, &j)| *x = products[j]);
            row[i] += self.problem.ridge[at[i]] + ridge;
        };
        // Rounding decides whether a column that depends on others ends the factor.
        factor.set_up(at.len(), write, |_| RANK_SHARE);
        factor
    }

    /// The least squares on some columns, 0 elsewhere; none if they depend on each other.
    fn least_on(&self, at: &[usize]) -> Option<Vec<f64>> {
        let factor = self.factor(at, 0.0);
        if factor.rank < at.len() {
            return None;
        }
        Some(self.solve(&factor, at))
    }

    /// The solutions of a factor of some columns, 0 elsewhere.
    fn solve(&self, factor: &Factor, at: &[usize]) -> Vec<f64> {
        let width = self.problem.width();
        let mut x = vec![0.0; self.problem.target.len()];
        for (x, target) in x.chunks_exact_mut(width).zip(self.problem.target.chunks_exact(width)) {
            let mut solved: Vec<f64> = at.iter().map(|&j| target[j]).collect();
            factor.solve(&mut solved);
            at.iter().zip(solved).for_each(|(&j, value)| x[j] = value);
        }
        x
    }

    /// `(G + lambda I)^-1 c` for each of the `START_RIDGES`.
    pub fn ridges(&self) -> Vec<Vec<f64>> {
        let all: Vec<usize> = (0..self.problem.width()).collect();
        let solved = |lambda| self.solve(&self.factor(&all, lambda), &all);
        START_RIDGES.map(solved).to_vec()
    }

    /// Take steps until the objective changes by at most `tol` of itself.
    ///
    /// Group g has the columns from `starts[g]` on; `start` is projected first.
    pub fn descend(
        &self,
        starts: &[usize],
        start: &[f64],
        limits: Limits,
        settings: Settings,
    ) -> Descent {
        let Settings { variant, tol, max_iter } = settings;
        let mut now = self.at(projected(start.to_vec(), self.problem.width(), starts, limits));
        let (mut before, mut best) = (now.clone(), now.clone());
        let mut history = vec![now.value];
        let (mut momentum, mut same, mut is_solved) = ((0.0, 1.0), 0, false);
        let mut projections = 0;
        for _ in 0..max_iter {
            let ahead = (variant == Variant::Fista).then(|| self.ahead(&before, &now, momentum));
            momentum = (momentum.1, (1.0 + f64::sqrt(1.0 + 4.0 * momentum.1 * momentum.1)) / 2.0);
            let u = ahead.as_ref().unwrap_or(&now);
            let (after, tried) = self.step(starts, u, curvature(&before, &now), limits, variant);
            projections += tried;
            let Some(after) = after else {
                return Descent { x: best.x, history, converged: true, projections };
            };
            let is_same = after.x.iter().zip(&now.x).all(|(a, b)| (*a != 0.0) == (*b != 0.0));
            same = if is_same { same + 1 } else { 0 };
            is_solved &= same > 0;
            before = std::mem::replace(&mut now, after);
            if same >= SETTLED_STEPS && !is_solved {
                is_solved = true;
                now = self.least_near(now);
                before = now.clone();
                momentum = (0.0, 1.0);
            }
            let last = history[history.len() - 1];
            history.push(now.value);
            if history.iter().all(|value| now.value <= *value) {
                best = now.clone();
            }
            if (now.value - last).abs() <= tol * now.value.abs() {
                return Descent { x: best.x, history, converged: true, projections };
            }
        }
        Descent { x: best.x, history, converged: false, projections }
    }

    /// The minimum on the support of a point, or the point where that is no lower.
    fn least_near(&self, now: Point) -> Point {
        let at = kept(&now.x, self.problem.width());
        match self.least_on(&at).map(|x| self.at(x)) {
            Some(least) if least.value < now.value => least,
            _ => now,
        }
    }

    /// The first good enough point, none if only rounding is left to gain, and how many were tried.
    fn step(
        &self,
        starts: &[usize],
        u: &Point,
        mut curvature: f64,
        limits: Limits,
        variant: Variant,
    ) -> (Option<Point>, usize) {
        let mut tried = 0;
        // Doubling passes between the largest curvature and twice that.
        while 2.0 * GROWTH * self.ceiling > curvature {
            let down = u.x.iter().zip(&u.gradient).map(|(x, slope)| x - slope / curvature);
            let after = self.at(projected(down.collect(), self.problem.width(), starts, limits));
            tried += 1;
            let (mut length, mut height, mut slope) = (0.0, 0.0, 0.0);
            for j in 0..u.x.len() {
                let step = after.x[j] - u.x[j];
                length += step * step;
                height += step * (after.gradient[j] - u.gradient[j]);
                slope += step * u.gradient[j];
            }
            // Half the curvature along the step: the height above a tangent without loss of
            // digits.
            let height = 0.5 * height;
            let is_enough = match variant {
                Variant::Ista => slope + height <= -0.5 * curvature * DECREASE * length,
                _ => height <= 0.5 * curvature * length,
            };
            if is_enough {
                return (Some(after), tried);
            }
            curvature *= GROWTH;
        }
        (None, tried)
    }

    /// `x_m + (a_(m-1) - 1) / a_m (x_m - x_(m-1))` (Algorithm 2).
    fn ahead(&self, before: &Point, now: &Point, momentum: (f64, f64)) -> Point {
        let share = (momentum.0 - 1.0) / momentum.1;
        let x = now.x.iter().zip(&before.x).map(|(now, before)| now + share * (now - before));
        self.at(x.collect())
    }
}

/// The curvature between two points, by Barzilai and Borwein.
fn curvature(before: &Point, now: &Point) -> f64 {
    let (mut length, mut height) = (0.0, 0.0);
    for j in 0..now.x.len() {
        let step = now.x[j] - before.x[j];
        length += step * step;
        height += step * (now.gradient[j] - before.gradient[j]);
    }
    if length == 0.0 { UNIT_CURVATURE } else { f64::max(SMALLEST_CURVATURE, height / length) }
}

/// The columns that some response keeps.
pub fn kept(x: &[f64], width: usize) -> Vec<usize> {
    (0..width).filter(|&j| x[j..].iter().step_by(width).any(|x| *x != 0.0)).collect()
}

/// The nearest vector within the limits, where sizes that tie are equal.
fn projected(mut x: Vec<f64>, width: usize, starts: &[usize], limits: Limits) -> Vec<f64> {
    let size = |j: usize| match x.len() == width {
        true => x[j].abs(),
        false => x[j..].iter().step_by(width).map(|x| x * x).sum::<f64>().sqrt(),
    };
    let sizes: Vec<f64> = (0..width).map(size).collect();
    let mut is_kept = vec![false; width];
    let groups = Groups { order: None, starts };
    support(&levelled(&sizes), &groups, limits).into_iter().for_each(|j| is_kept[j] = true);
    for x in x.chunks_exact_mut(width) {
        x.iter_mut().zip(&is_kept).filter(|(_, kept)| !**kept).for_each(|(x, _)| *x = 0.0);
    }
    x
}

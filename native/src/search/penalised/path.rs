//! Paths of penalised least squares: the lasso, the elastic net and their sparse groups.
//!
//! ```text
//! minimise  1/2 - c'w + 1/2 w'Gw + penalty P(w)
//! P(w) = sum_g norm_g ||w_g|| + sum_j absolute_j |w_j| + 1/2 sum_g square_g ||w_g||^2
//! ```
//!
//! over falling penalties, each from the minimum at the one before. The lasso is that of groups
//! of one column each, the elastic net has their squares, too, the cost-weighted group lasso has
//! `norm_g = cost(g)`, and the sparse group lasso takes some of both.
//!
//! All penalised groups are 0 from the largest *reach* of a group on, where the path starts: the
//! least t at which `||S(b_g, t absolute_g)|| <= t norm_g`, b = c - Gw at the least squares of
//! what is not penalised. Groups are ordered by the penalty at which they are first not 0. Of
//! those that enter at the same penalty, the one nearest to entering at the penalty before goes
//! first, by the reach of b = c - Gw: the first of all has the largest, but on a grid so coarse
//! that it is 0 again at the second penalty. Ties go to the group named first.
//!
//! The duality gap takes `s r` for the dual point, r the residual, of rows that the squares
//! prolong (`G + square` in the place of G), and s the largest share <= 1 that is feasible:
//! 1 / s is the largest reach at the penalty, at least 1. As `y'r = r'r + b'w`, it is
//! `penalty (P without its squares) - s b'w + (1 - s)^2 r'r / 2`, which loses no digits. What is
//! not penalised has b = 0, up to `violation`.
//!
//! Sources: Tibshirani (1996); Zou, Hastie (2005); Yuan, Lin (2006); Simon, Friedman, Hastie,
//! Tibshirani (2013); the baseline Sparse of Hu, Grubb, Bagnell, Hebert (2016), section 5.2.

use super::curvature::condition;
use super::descent::{Descent, Effort};
use super::quadratic::{Penalty, Quadratic, Violations, shrunk};
use crate::linear::constrained::{Active, Constrained};
use crate::linear::state::CONDITION_LIMIT;
use crate::search::walks::ties::first_of_the_best;

/// Steps to a reach, which rise to it, quadratically: the last ones change nothing.
const REACH_STEPS: usize = 60;
/// No gradient of a correlation is beyond it: so much of a penalty keeps all at 0.
const OUT_OF_REACH: f64 = 2.0;

/// At which penalties.
#[derive(Clone, Debug)]
pub enum Grid {
    /// Those given, falling.
    Given(Vec<f64>),
    /// So many, from the least one on at which every group is 0, down to a share of that.
    Geometric(usize, f64),
}

/// The minimum at each of L penalties.
#[derive(Clone, Debug, Default)]
pub struct Path {
    /// Falling.
    pub penalties: Vec<f64>,
    /// Coefficients, D for each penalty.
    pub w: Vec<f64>,
    /// ||w_g||, J for each penalty.
    pub lengths: Vec<f64>,
    /// 1 - RSS/TSS.
    pub r2: Vec<f64>,
    /// Duality gaps: how far at most from the minimum, the target having variance 1.
    pub gap: Vec<f64>,
    /// How far at most a group is from its optimality condition, in correlations.
    pub violation: Vec<f64>,
    /// Groups that are ever not 0, in the order of entry.
    pub entered: Vec<usize>,
    /// The number of the first penalty at which each of these is not 0.
    pub entered_at: Vec<usize>,
}

/// What finds minima, each from the one before.
#[derive(Debug)]
pub struct Minimiser<'s> {
    descent: Descent,
    /// The sign of each column, or 0, where groups are single columns.
    signs: Option<&'s [f64]>,
    active: Active,
}

impl<'s> Minimiser<'s> {
    /// Minima by a descent, under signs of columns by an active set.
    pub fn of(effort: Effort, signs: Option<&'s [f64]>) -> Minimiser<'s> {
        Minimiser { descent: Descent::of(effort), signs, active: Active::default() }
    }

    /// Bring w to the minimum of the quadratic and a penalty.
    fn minimise(&mut self, quadratic: &Quadratic, penalty: &Penalty, w: &mut [f64]) {
        let Some(signs) = self.signs else {
            return self.descent.minimise(quadratic, penalty, w);
        };
        let mut matrix = quadratic.products.to_vec();
        let diagonal = matrix.iter_mut().step_by(w.len() + 1);
        diagonal.zip(&penalty.square).for_each(|(entry, square)| *entry += square);
        let both = penalty.norm.iter().zip(&penalty.absolute);
        let absolute: Vec<f64> = both.map(|(norm, absolute)| norm + absolute).collect();
        let (matrix, absolute, target) = (&matrix, &absolute, &quadratic.target);
        let of = Constrained { matrix, target, absolute, signs, equations: &[] };
        // What has no end is told by its violation.
        let _ = of.minimise(&mut self.active);
        w.copy_from_slice(&self.active.w);
    }

    /// Write `b = c - Gw - square w`, and nothing where a sign keeps a column at 0.
    fn residual(&self, quadratic: &Quadratic, w: &[f64], penalty: &Penalty, b: &mut Vec<f64>) {
        quadratic.residual(w, penalty, b);
        for ((b, w), sign) in b.iter_mut().zip(w).zip(self.signs.unwrap_or_default()) {
            if *w == 0.0 && sign * *b < 0.0 {
                *b = 0.0;
            }
        }
    }
}

impl Path {
    /// The minimum at each penalty, for as long as `turn`, called after each, returns true.
    ///
    /// Some six Newton steps a penalty, O(|S|^3 / 3) each for |S| columns that are not 0.
    pub fn of(
        quadratic: &Quadratic,
        weights: &Penalty,
        grid: &Grid,
        mut minimiser: Minimiser,
        turn: &mut dyn FnMut(usize) -> bool,
    ) -> Path {
        let mut w = unpenalised(quadratic, weights, &mut minimiser);
        let (mut b, mut reaches) = (Vec::new(), Vec::new());
        minimiser.residual(quadratic, &w, &weights.times(0.0), &mut b);
        reach(quadratic, &b, weights, &mut reaches);
        let first = reaches.iter().copied().fold(0.0, f64::max);
        let mut found = Path { penalties: grid.penalties(first), ..Path::default() };
        let mut nearness: Vec<f64> = Vec::new();
        for (number, penalty) in found.penalties.clone().into_iter().enumerate() {
            let own = weights.times(penalty);
            if penalty < first {
                minimiser.minimise(quadratic, &own, &mut w);
            }
            minimiser.residual(quadratic, &w, &own, &mut b);
            reach(quadratic, &b, weights, &mut reaches);
            found.measure(quadratic, weights, &own, &w, &b, &reaches);
            let before = if number == 0 { &reaches } else { &nearness };
            found.enter(number, before);
            std::mem::swap(&mut nearness, &mut reaches);
            if !turn(number) {
                break;
            }
        }
        found
    }

    /// Append the minimum at the next penalty.
    fn measure(
        &mut self,
        quadratic: &Quadratic,
        weights: &Penalty,
        own: &Penalty,
        w: &[f64],
        b: &[f64],
        reaches: &[f64],
    ) {
        let penalty = self.penalties[self.r2.len()];
        let (mut explained, mut squares, mut penalised, mut bw) = (0.0, 0.0, 0.0, 0.0);
        for (j, &w) in w.iter().enumerate() {
            let group = quadratic.owner[j];
            explained += (quadratic.target[j] + b[j]) * w;
            squares += own.square[group] * w * w;
            penalised += weights.absolute[j] * w.abs();
            if weights.norm[group] > 0.0 || weights.absolute[j] > 0.0 {
                bw += b[j] * w;
            }
        }
        for group in 0..quadratic.size() {
            let length = quadratic.norm(group, w);
            penalised += weights.norm[group] * length;
            self.lengths.push(length);
        }
        // Of the rows that the squares prolong, and of the others.
        let rss = f64::max(1.0 - explained, 0.0);
        self.r2.push(1.0 - f64::max(rss - squares, 0.0));
        let furthest = reaches.iter().copied().fold(0.0, f64::max);
        let share = if furthest > penalty { penalty / furthest } else { 1.0 };
        let gap = penalty * penalised - share * bw + (1.0 - share).powi(2) * rss / 2.0;
        // Rounding may leave a gap of nothing just below 0.
        self.gap.push(gap.max(0.0));
        let mut violations = Violations::default();
        quadratic.violations(w, b, own, &mut violations);
        self.violation.push(violations.worst().1);
        self.w.extend_from_slice(w);
    }

    /// Note which groups are not 0 for the first time, by how near they were before.
    fn enter(&mut self, number: usize, nearness: &[f64]) {
        let size = nearness.len();
        let mut entering: Vec<bool> =
            self.lengths[number * size..].iter().map(|length| *length > 0.0).collect();
        self.entered.iter().for_each(|&group| entering[group] = false);
        while let Some(group) = first_of_the_best(nearness, &entering) {
            self.entered.push(group);
            self.entered_at.push(number);
            entering[group] = false;
        }
    }

    /// The coefficients at a penalty, of D columns.
    pub fn at(&self, number: usize, width: usize) -> &[f64] {
        &self.w[number * width..(number + 1) * width]
    }

    /// The largest condition number at any penalty: what rounding does to coefficients.
    ///
    /// O(D^3) for those that are ever not 0, and where these are nearly dependent at each
    /// penalty.
    pub fn condition(&self, quadratic: &Quadratic, weights: &Penalty) -> f64 {
        let width = quadratic.width();
        let mut ever = vec![0.0; width];
        for w in self.w.chunks_exact(width) {
            ever.iter_mut().zip(w).for_each(|(most, w)| *most = f64::max(*most, w.abs()));
        }
        let most = condition(quadratic, &weights.times(0.0), &ever);
        if most <= CONDITION_LIMIT {
            return most;
        }
        let each = self.penalties.iter().zip(self.w.chunks_exact(width));
        each.map(|(&penalty, w)| condition(quadratic, &weights.times(penalty), w))
            .fold(0.0, f64::max)
    }
}

impl Grid {
    /// The penalties, of which the largest that changes anything is known.
    fn penalties(&self, first: f64) -> Vec<f64> {
        match self {
            Grid::Given(penalties) => penalties.clone(),
            Grid::Geometric(count, ratio) => {
                let last = (count - 1).max(1) as f64;
                let at = |i: usize| first * (ratio.ln() * (i as f64 / last)).exp();
                (0..*count).map(at).collect()
            }
        }
    }
}

/// Write the least penalty at which each group would be 0, given its gradient b; 0 of what is
/// not penalised.
///
/// `||S(b_g, t absolute_g)|| - t norm_g` falls with t and is convex, so Newton steps from 0 rise
/// to its root and need no safeguard.
fn reach(quadratic: &Quadratic, b: &[f64], weights: &Penalty, reaches: &mut Vec<f64>) {
    reaches.clear();
    for group in 0..quadratic.size() {
        let (at, norm) = (quadratic.columns(group), weights.norm[group]);
        let mut t = 0.0;
        for _ in 0..REACH_STEPS {
            let (mut squares, mut fall) = (0.0, 0.0);
            for j in at.clone() {
                let absolute = weights.absolute[j];
                if norm > 0.0 || absolute > 0.0 {
                    let left = shrunk(b[j].abs(), t * absolute);
                    squares += left * left;
                    fall += left * absolute;
                }
            }
            let length = f64::sqrt(squares);
            let fall = norm + if length > 0.0 { fall / length } else { 0.0 };
            let height = length - t * norm;
            let step = if fall > 0.0 && height > 0.0 { height / fall } else { 0.0 };
            let next = t + step;
            if next <= t {
                break;
            }
            t = next;
        }
        reaches.push(t);
    }
}

/// The least squares of the columns that are not penalised, the others 0.
fn unpenalised(quadratic: &Quadratic, weights: &Penalty, minimiser: &mut Minimiser) -> Vec<f64> {
    let mut w = vec![0.0; quadratic.width()];
    let is_free = |j: usize| weights.norm[quadratic.owner[j]] == 0.0 && weights.absolute[j] == 0.0;
    if (0..w.len()).any(is_free) {
        let limit = |j: usize| OUT_OF_REACH * quadratic.magnitude(quadratic.owner[j]);
        let absolute = (0..w.len()).map(|j| if is_free(j) { 0.0 } else { limit(j) });
        let nothing = vec![0.0; quadratic.size()];
        let penalty =
            Penalty { absolute: absolute.collect(), norm: nothing.clone(), square: nothing };
        minimiser.minimise(quadratic, &penalty, &mut w);
    }
    w
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linear::algebra::dense::dot;
    use crate::search::penalised::curvature::degrees;
    use crate::testing::Lcg;

    /// Correlations of random columns of a common factor, and with a target.
    fn correlations(width: usize, rows: usize, seed: u64) -> (Vec<f64>, Vec<f64>) {
        let mut numbers = Lcg::new(seed);
        let common: Vec<f64> = (0..rows).map(|_| numbers.uniform()).collect();
        let mut unit = |make: &mut dyn FnMut(usize, f64) -> f64| -> Vec<f64> {
            let mut column: Vec<f64> = (0..rows).map(|i| make(i, numbers.uniform())).collect();
            let mean = column.iter().sum::<f64>() / rows as f64;
            column.iter_mut().for_each(|x| *x -= mean);
            let length = dot(&column, &column).sqrt();
            column.iter_mut().for_each(|x| *x /= length);
            column
        };
        let table: Vec<Vec<f64>> = (0..width).map(|_| unit(&mut |i, x| x + common[i])).collect();
        let target = unit(&mut |i, x| x + table[0][i] - 2.0 * table[width / 2][i]);
        let products = (0..width * width).map(|at| dot(&table[at / width], &table[at % width]));
        (products.collect(), table.iter().map(|column| dot(column, &target)).collect())
    }

    const STARTS: [usize; 5] = [0, 3, 4, 8, 12];

    /// What a penalty of 1 is: of the group lasso, the sparse one, and the elastic net.
    fn all_weights() -> [Penalty; 3] {
        let of = |norm: f64, absolute: f64, square: f64| Penalty {
            norm: vec![norm, 2.0 * norm, norm, 0.0],
            absolute: vec![absolute; 12],
            square: vec![square; 4],
        };
        [of(1.0, 0.0, 0.0), of(0.5, 0.5, 0.0), of(0.0, 0.7, 0.3)]
    }

    fn objective(quadratic: &Quadratic, penalty: &Penalty, w: &[f64]) -> f64 {
        let mut gradient = vec![0.0; w.len()];
        quadratic.subtract_product(w, &mut gradient);
        let norms = |g: usize| {
            let norm = quadratic.norm(g, w);
            penalty.norm[g] * norm + penalty.square[g] * norm * norm / 2.0
        };
        let absolute: f64 = w.iter().zip(&penalty.absolute).map(|(w, a)| w.abs() * a).sum();
        0.5 - dot(&gradient, w) / 2.0 - dot(&quadratic.target, w)
            + absolute
            + (0..quadratic.size()).map(norms).sum::<f64>()
    }

    fn path(quadratic: &Quadratic, weights: &Penalty, effort: Effort) -> Path {
        Path::of(
            quadratic,
            weights,
            &Grid::Geometric(12, 1e-3),
            Minimiser::of(effort, None),
            &mut |_| true,
        )
    }

    #[test]
    fn a_gap_bounds_how_far_a_rough_solution_is_from_the_minimum() {
        let (products, target) = correlations(12, 40, 1);
        let quadratic = Quadratic::new(&products, target, STARTS.to_vec());
        for weights in all_weights() {
            let best = path(&quadratic, &weights, Effort::default());
            assert!(best.violation.iter().chain(&best.gap).all(|&far| far <= 1e-10));
            let rough = Effort { optimal: 1e-2, ..Effort::default() };
            let rough = path(&quadratic, &weights, rough);
            assert!(rough.violation.iter().any(|&far| far > 1e-6));
            for (i, &penalty) in best.penalties.iter().enumerate() {
                let own = weights.times(penalty);
                let value = |path: &Path| objective(&quadratic, &own, path.at(i, 12));
                let excess = value(&rough) - value(&best);
                assert!((-1e-12..=rough.gap[i] + 1e-12).contains(&excess), "{i} {excess}");
            }
        }
    }

    #[test]
    fn descents_in_groups_alone_find_the_same_minimum() {
        let (products, target) = correlations(12, 60, 2);
        let quadratic = Quadratic::new(&products, target, STARTS.to_vec());
        for weights in all_weights() {
            let best = path(&quadratic, &weights, Effort::default());
            let alone = Effort { newton: false, most_steps: 20_000, ..Effort::default() };
            let alone = path(&quadratic, &weights, alone);
            let far = best.w.iter().zip(&alone.w).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(far < 1e-8, "{far}");
            assert_eq!(best.entered, alone.entered);
        }
    }

    #[test]
    fn a_path_that_is_ended_has_the_penalties_so_far() {
        let (products, target) = correlations(12, 60, 3);
        let quadratic = Quadratic::new(&products, target, STARTS.to_vec());
        let weights = &all_weights()[0];
        let grid = Grid::Given(vec![0.5, 0.1, 0.01]);
        let all = || Minimiser::of(Effort::default(), None);
        let whole = Path::of(&quadratic, weights, &grid, all(), &mut |_| true);
        let ended = Path::of(&quadratic, weights, &grid, all(), &mut |i| i < 1);
        assert_eq!((whole.r2.len(), &whole.r2[..2]), (3, &ended.r2[..]));
    }

    #[test]
    fn orthogonal_columns_are_shrunk_one_by_one_and_count_what_is_left() {
        let products: Vec<f64> = (0..16).map(|at| f64::from(u8::from(at % 5 == 0))).collect();
        let target = vec![0.5, -0.4, 0.2, 0.01];
        let quadratic = Quadratic::new(&products, target, (0..=4).collect());
        let weights = Penalty { norm: vec![0.5; 4], absolute: vec![0.0; 4], square: vec![0.5; 4] };
        let grid = Grid::Given(vec![0.2]);
        let found = Path::of(
            &quadratic,
            &weights,
            &grid,
            Minimiser::of(Effort::default(), None),
            &mut |_| true,
        );
        let expected = [0.4 / 1.1, -0.3 / 1.1, 0.1 / 1.1, 0.0];
        assert!(found.w.iter().zip(expected).all(|(w, x)| (w - x).abs() < 1e-12));
        assert_eq!((found.entered, found.entered_at), (vec![0, 1, 2], vec![0; 3]));
        let own = weights.times(0.2);
        assert!((degrees(&quadratic, &own, &found.w) - 3.0 / 1.1).abs() < 1e-10);
    }
}

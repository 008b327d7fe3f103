//! Minimise a quadratic and penalties on groups and columns, down to rounding.
//!
//! ```text
//! until the optimality conditions of `quadratic` hold:
//!     if what is 0 violates them by far the most:
//!         descend in each of those groups, one after another
//!     else:
//!         a Newton step on all columns that are not 0, as far along it as is best;
//!         descend in each group that it took towards 0
//! ```
//!
//! Where no column is 0 the objective is smooth, so Newton steps converge quadratically. Without
//! `absolute` the minimum over one group is exact and may be 0: with `G_gg + square = Q diag(e)
//! Q'` and `p = Q'(b_g + (G_gg + square) w_g)`, it is `w_g = Q (r p / (e r + norm))` at the
//! length r that solves `||p / (e r + norm)|| = 1`, if `||p|| > norm`. With `absolute` it has no
//! closed form: a group that must be 0 is set to 0, and in others proximal gradient steps find
//! which columns are not. Where a Newton step fails, all groups that are not 0 descend: block
//! coordinate descent, which converges on its own, only more slowly. No step raises the
//! objective by more than rounding.
//!
//! A Newton step is O(|S|^3 / 3) for |S| columns that are not 0, a descent in a group of s
//! columns O(D s). Memory: a copy of G_SS.
//!
//! Sources: Qin, Scheinberg, Goldfarb (2013), BCD-GL, for the minimum over one group; Simon,
//! Friedman, Hastie, Tibshirani (2013) for the sparse group lasso and its proximal steps;
//! Li, Fukushima, Qi, Yamashita (2004) for the damping of Newton steps by the gradient.

use super::curvature::Curvature;
use super::quadratic::{Penalty, Quadratic, Violations, shrunk};
use crate::linear::algebra::dense::dot;
use crate::linear::algebra::eigen::EIGENVALUE_SHARE;
use crate::linear::algebra::factor::Factor;
use crate::search::walks::ties::first_of_the_best;

/// Violations below this, in correlations, count as none: three digits below what callers
/// are promised, and above the rounding of b with coefficients up to 1e4.
pub const OPTIMAL: f64 = 1e-11;
/// Groups enter once the others violate by less than this share of what those do.
const ENTRY_SHARE: f64 = 0.1;
/// A group that a Newton step shortens to below this share may have to be 0.
const SHORTENED: f64 = 0.5;
/// What the bracket of the best share of a step leaves of a column that is 0 there, as a share
/// of the step.
const AT_ZERO: f64 = 1e-14;
/// Damping of a Newton step as a share of the columns' variances: so much times the violation,
/// which is 0 at the optimum, and a floor for dependent columns, above the rounding of G.
const DAMPING: f64 = 1e-3;
const DAMPING_FLOOR: f64 = 1e-12;
/// Limit on steps; a dozen is usual.
pub const MOST_STEPS: usize = 200;
/// Limit on steps to the length of one group, which rise to it; six are usual.
const LENGTH_STEPS: usize = 50;
/// Proximal steps in a group whose columns are penalised, too: enough to find which are 0;
/// Newton steps do the rest.
const PROXIMAL_STEPS: usize = 10;
/// Halvings of a step: its share is then known to the last digit.
const HALVINGS: usize = 53;

/// How near a minimum is looked for, and how.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Violations below this count as none.
    pub optimal: f64,
    /// Limit on steps.
    pub most_steps: usize,
    /// False for descents in single groups alone.
    pub newton: bool,
}

impl Default for Effort {
    fn default() -> Self {
        Effort { optimal: OPTIMAL, most_steps: MOST_STEPS, newton: true }
    }
}

/// The memory of a minimisation.
#[derive(Debug, Default)]
pub struct Descent {
    effort: Effort,
    violations: Violations,
    b: Vec<f64>,
    factor: Factor,
    direction: Vec<f64>,
    change: Vec<f64>,
}

impl Descent {
    /// A descent of another effort.
    pub fn of(effort: Effort) -> Descent {
        Descent { effort, ..Descent::default() }
    }

    /// Bring w, where to start, to the minimum of the quadratic and a penalty.
    ///
    /// It is optimal to `OPTIMAL`, unless rounding keeps it from that.
    pub fn minimise(&mut self, quadratic: &Quadratic, penalty: &Penalty, w: &mut [f64]) {
        let optimal = self.effort.optimal;
        for _ in 0..self.effort.most_steps {
            quadratic.residual(w, penalty, &mut self.b);
            quadratic.violations(w, &self.b, penalty, &mut self.violations);
            let (inside, worst) = self.violations.worst();
            // What is no number is no reason to go on either.
            if worst.is_nan() || worst <= optimal {
                break;
            }
            if inside <= ENTRY_SHARE * worst {
                let beyond = &self.violations.beyond;
                let mut entering: Vec<bool> = beyond.iter().map(|far| *far > optimal).collect();
                let mut order = Vec::new();
                while let Some(group) = first_of_the_best(beyond, &entering) {
                    order.push(group);
                    entering[group] = false;
                }
                self.descend(quadratic, order, penalty, w);
            } else {
                self.newton_step(quadratic, penalty, w, (DAMPING * inside).max(DAMPING_FLOOR));
            }
        }
    }

    /// Minimise over some groups, one after another; w and b change in place.
    ///
    /// Where columns are penalised, too, some steps towards the minimum are taken.
    fn descend(
        &mut self,
        quadratic: &Quadratic,
        groups: impl IntoIterator<Item = usize>,
        penalty: &Penalty,
        w: &mut [f64],
    ) {
        let optimal = self.effort.optimal;
        for group in groups {
            let at = quadratic.columns(group);
            let before = w[at.clone()].to_vec();
            let own = &mut w[at.clone()];
            if penalty.absolute[at.clone()].iter().any(|&x| x > 0.0) {
                proximal(quadratic, group, penalty, &self.b, optimal, own);
            } else {
                exact(quadratic, group, penalty, &self.b, optimal, own);
            }
            for ((j, before), now) in at.zip(&before).zip(own) {
                let change = *now - before;
                if change != 0.0 {
                    let row = quadratic.row(j);
                    self.b.iter_mut().zip(row).for_each(|(b, x)| *b -= change * x);
                    self.b[j] -= penalty.square[group] * change;
                }
            }
        }
    }

    /// Take a step to the minimum of the second-order model; w and b change in place.
    fn newton_step(
        &mut self,
        quadratic: &Quadratic,
        penalty: &Penalty,
        w: &mut [f64],
        damping: f64,
    ) {
        let at = quadratic.support(w, penalty);
        let curvature = Curvature::of(quadratic, penalty, w, &at);
        let write = |i: usize, row: &mut [f64]| {
            let products = quadratic.row(at[i]);
            row.iter_mut().zip(&at).for_each(|(x, &j)| *x = products[j]);
            curvature.add_to(i, row);
            row[i] += damping * products[at[i]];
        };
        self.factor.set_up(at.len(), write, |_| 0.0);
        let sign = |x: f64| if x == 0.0 { 0.0 } else { x.signum() };
        let slope_at = |(i, &j): (usize, &usize)| {
            self.b[j] - curvature.over_norm[i] * w[j] - penalty.absolute[j] * sign(w[j])
        };
        let mut step: Vec<f64> = at.iter().enumerate().map(slope_at).collect();
        self.factor.solve(&mut step);
        let is_solved = self.factor.rank == at.len() && self.effort.newton;
        let line = Line::of(quadratic, penalty, w, &at, &step);
        self.direction.clear();
        self.direction.resize(w.len(), 0.0);
        at.iter().zip(&step).for_each(|(&j, step)| self.direction[j] = *step);
        self.change.clear();
        self.change.resize(w.len(), 0.0);
        quadratic.subtract_product(&self.direction, &mut self.change);
        for &j in &at {
            self.change[j] -= penalty.square[quadratic.owner[j]] * self.direction[j];
        }
        // `change` is that of b, less than nothing where b falls.
        let slope = dot(&self.b, &self.direction);
        let second = -dot(&self.change, &self.direction);
        let rise = |share: f64| share * second - slope + line.rise(share);
        let groups = line.groups.iter().map(|group| group.number);
        let falls = rise(0.0) < 0.0;
        if !(is_solved && falls) {
            self.descend(quadratic, groups.collect::<Vec<_>>(), penalty, w);
            return;
        }
        // The derivative jumps where a column passes 0: a bracket, no Newton.
        let (mut share, mut end) = (1.0, 1.0);
        if rise(1.0) > 0.0 {
            share = 0.0;
            for _ in 0..HALVINGS {
                let middle = (share + end) / 2.0;
                *(if rise(middle) > 0.0 { &mut end } else { &mut share }) = middle;
            }
            share = end;
        }
        let before: Vec<f64> = at.iter().map(|&j| w[j]).collect();
        self.b.iter_mut().zip(&self.change).for_each(|(b, change)| *b += share * change);
        let mut shorter: Vec<usize> = Vec::new();
        for (i, &j) in at.iter().enumerate() {
            w[j] += share * step[i];
            if penalty.absolute[j] > 0.0 {
                // Least where the derivative jumps: a column is 0 there, which rounding must not
                // keep in.
                let size = w[j].abs();
                if size <= AT_ZERO * (before[i].abs() + step[i].abs()) {
                    w[j] = 0.0;
                } else if size < SHORTENED * before[i].abs() {
                    shorter.push(quadratic.owner[j]);
                }
            }
        }
        let is_shorter = |group: &&LineGroup| {
            shorter.binary_search(&group.number).is_ok()
                || quadratic.norm(group.number, w) < SHORTENED * group.ww.sqrt()
        };
        let groups: Vec<usize> =
            line.groups.iter().filter(is_shorter).map(|group| group.number).collect();
        self.descend(quadratic, groups, penalty, w);
    }
}

/// The penalties along a step.
struct Line<'l> {
    groups: Vec<LineGroup>,
    /// Of the columns whose absolute value is penalised: the penalty, w and its step.
    columns: Vec<(f64, f64, f64)>,
    penalty: &'l Penalty,
}

/// A group along a step: products of w and the step.
struct LineGroup {
    number: usize,
    ww: f64,
    wd: f64,
    dd: f64,
}

impl<'l> Line<'l> {
    fn of(
        quadratic: &Quadratic,
        penalty: &'l Penalty,
        w: &[f64],
        at: &[usize],
        step: &[f64],
    ) -> Line<'l> {
        let mut groups: Vec<LineGroup> = Vec::new();
        let mut columns = Vec::new();
        for (&j, &d) in at.iter().zip(step) {
            let number = quadratic.owner[j];
            if groups.last().is_none_or(|group| group.number != number) {
                groups.push(LineGroup { number, ww: 0.0, wd: 0.0, dd: 0.0 });
            }
            if let Some(group) = groups.last_mut() {
                group.ww += w[j] * w[j];
                group.wd += w[j] * d;
                group.dd += d * d;
            }
            if penalty.absolute[j] > 0.0 {
                columns.push((penalty.absolute[j], w[j], d));
            }
        }
        Line { groups, columns, penalty }
    }

    /// The derivative of the penalties, their squares aside, after a share of the step.
    fn rise(&self, share: f64) -> f64 {
        let of_group = |group: &LineGroup| {
            let LineGroup { number, ww, wd, dd } = *group;
            let limit = self.penalty.norm[number];
            if limit == 0.0 {
                return 0.0;
            }
            let square = ww + share * (2.0 * wd + share * dd);
            limit * (wd + share * dd) / square.max(f64::EPSILON.powi(2) * ww).sqrt()
        };
        let of_column = |&(absolute, w, d): &(f64, f64, f64)| {
            let now = w + share * d;
            if now == 0.0 { 0.0 } else { absolute * now.signum() * d }
        };
        self.groups.iter().map(of_group).sum::<f64>()
            + self.columns.iter().map(of_column).sum::<f64>()
    }
}

/// Replace the coefficients of a group by those at the minimum over them alone.
fn exact(
    quadratic: &Quadratic,
    group: usize,
    penalty: &Penalty,
    b: &[f64],
    optimal: f64,
    own: &mut [f64],
) {
    let (norm, square, at) = (penalty.norm[group], penalty.square[group], quadratic.columns(group));
    let least = norm + optimal * quadratic.magnitude(group);
    if let [w] = own {
        let value = quadratic.variance(at.start).max(0.0) + square;
        let p = b[at.start] + value * *w;
        *w = if p.abs() > least && value > 0.0 { shrunk(p, norm) / value } else { 0.0 };
        return;
    }
    let (values, vectors) = quadratic.spectrum(group);
    let values: Vec<f64> = values.iter().map(|value| value.max(0.0) + square).collect();
    let size = own.len();
    let mut p = vec![0.0; size];
    for ((row, b), w) in vectors.chunks_exact(size).zip(&b[at]).zip(&*own) {
        for ((p, x), value) in p.iter_mut().zip(row).zip(&values) {
            *p += x * (b + value * w);
        }
    }
    own.fill(0.0);
    if dot(&p, &p).sqrt() <= least {
        return;
    }
    if norm == 0.0 {
        let floor = EIGENVALUE_SHARE * values.iter().copied().fold(0.0, f64::max);
        let share = |(p, value): (&f64, &f64)| if *value > floor { p / value } else { 0.0 };
        p = p.iter().zip(&values).map(share).collect();
    } else {
        let length = length(&values, &p, norm);
        p.iter_mut().zip(&values).for_each(|(p, value)| *p *= length / (value * length + norm));
    }
    for (w, row) in own.iter_mut().zip(vectors.chunks_exact(size)) {
        *w = dot(row, &p);
    }
}

/// The r with `||p / (values r + limit)|| = 1`, given `||p|| > limit`.
///
/// `1 / ||p / (values r + limit)||` is concave in r, a mean of linear functions, so Newton steps
/// from 0 rise to the root and need no safeguard.
fn length(values: &[f64], p: &[f64], limit: f64) -> f64 {
    let mut length = 0.0;
    for _ in 0..LENGTH_STEPS {
        let (mut squares, mut fall) = (0.0, 0.0);
        for (value, p) in values.iter().zip(p) {
            let scale = value * length + limit;
            let square = (p / scale).powi(2);
            squares += square;
            fall += square * (value / scale);
        }
        let norm = f64::sqrt(squares);
        let step = (norm - 1.0) * squares / fall;
        let goes_on = fall > 0.0 && step > 4.0 * f64::EPSILON * length;
        if !goes_on {
            break;
        }
        length += step;
    }
    length
}

/// Take proximal gradient steps in a group of penalised columns, from its coefficients; 0 where
/// it must be 0.
fn proximal(
    quadratic: &Quadratic,
    group: usize,
    penalty: &Penalty,
    b: &[f64],
    optimal: f64,
    own: &mut [f64],
) {
    let (norm, square, at) = (penalty.norm[group], penalty.square[group], quadratic.columns(group));
    let absolute = &penalty.absolute[at.clone()];
    // The gradient where the group is 0.
    let product =
        |w: &[f64], j: usize| dot(&quadratic.row(at.start + j)[at.clone()], w) + square * w[j];
    let p: Vec<f64> = (0..own.len()).map(|j| b[at.start + j] + product(own, j)).collect();
    let left: f64 = p.iter().zip(absolute).map(|(p, absolute)| shrunk(*p, *absolute).powi(2)).sum();
    let largest = match own.len() {
        1 => quadratic.variance(at.start),
        _ => quadratic.spectrum(group).0.iter().copied().fold(0.0, f64::max),
    };
    let largest = largest.max(0.0) + square;
    if left.sqrt() <= norm + optimal * quadratic.magnitude(group) || largest <= 0.0 {
        own.fill(0.0);
        return;
    }
    for _ in 0..PROXIMAL_STEPS {
        let step = |j: usize| {
            let ahead = own[j] + (p[j] - product(own, j)) / largest;
            shrunk(ahead, absolute[j] / largest)
        };
        let ahead: Vec<f64> = (0..own.len()).map(step).collect();
        let length = dot(&ahead, &ahead).sqrt();
        let share = if length > 0.0 { (1.0 - norm / largest / length).max(0.0) } else { 1.0 };
        own.iter_mut().zip(&ahead).for_each(|(w, ahead)| *w = ahead * share);
    }
}

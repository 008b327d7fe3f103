//! The curvature that the expected information leaves out, from the passes of a fit.
//!
//! Fisher's scoring takes the expected information I for the curvature of the deviance. By links
//! that are not the canonical one the two differ. What the gradient g did along a step s shows the
//! difference:
//!
//! ```text
//! r = g(before) - g(after) - (I(before) + I(after)) s / 2
//! ```
//!
//! and near another point the curvature along s is `y = I s + r`, r times what I became there
//! along s, if that is less. With the pairs (s, y) of the steps taken, the oldest first, it
//! becomes, by BFGS, `B <- B - B s s'B / s'B s + y y' / s'y`, from `B = I` on. Where the deviance
//! is concave along s, or nearly so, y is moved towards `B s` until s'y is `LEAST_SHARE` of s'B s
//! (Powell 1978).
//!
//! Source: Dennis, Gay, Welsch (1981), ACM TOMS 7; Lange (1995), Statistica Sinica 5; Nocedal,
//! Wright (2006), chapter 6 and procedure 18.2.

use super::problem::{Expansion, Point};
use crate::linear::algebra::cholesky::{cholesky, solve};
use crate::linear::algebra::dense::dot;

/// Least curvature along a step, as a share of what is expected there.
const LEAST_SHARE: f64 = 0.05;

/// What a step showed; the intercept comes before the coefficients.
pub struct Secant {
    step: Vec<f64>,
    beyond: Vec<f64>,
    /// s'I s at both ends.
    pub before: f64,
    /// The same at the other one.
    pub after: f64,
}

/// What a step showed, from the expansions at both of its ends.
pub fn secant(before: &Expansion, after: &Expansion, moved: &Point) -> Secant {
    let step: Vec<f64> = [&[moved.intercept], &moved.coef[..]].concat();
    let first = times(&information(before), &step);
    let last = times(&information(after), &step);
    let change = gradient(before).into_iter().zip(gradient(after)).map(|(a, b)| a - b);
    let mean = first.iter().zip(&last).map(|(a, b)| 0.5 * (a + b));
    let beyond = change.zip(mean).map(|(change, mean)| change - mean).collect();
    Secant { before: dot(&step, &first), after: dot(&step, &last), step, beyond }
}

/// The step by the curvature that secants show, and the decrease of the deviance that it predicts,
/// per unit of weight; nothing if it has too few digits.
///
/// `used` are the numbers of those that may change, the intercept being 0; `ridge` is one a column.
pub fn secant_step(
    model: &Expansion,
    at: &Point,
    ridge: &[f64],
    used: &[usize],
    secants: &[Secant],
) -> Option<(Point, f64)> {
    let (slope, curvature) = curvature_of(model, at, ridge, used, secants);
    let n = used.len();
    let mut step = slope.clone();
    solve(&cholesky(&curvature, n)?, &mut step);
    let predicted = dot(&slope, &step);
    Some((placed(used, &step, at), predicted))
}

/// The point of some values, those of `used`; the others are 0.
pub fn placed(used: &[usize], values: &[f64], like: &Point) -> Point {
    let mut found = Point { intercept: 0.0, coef: vec![0.0; like.coef.len()] };
    for (&i, &value) in used.iter().zip(values) {
        match i {
            0 => found.intercept = value,
            _ => found.coef[i - 1] = value,
        }
    }
    found
}

/// The gradient downwards and the curvature of the penalised objective by secants, by `used`.
pub fn curvature_of(
    model: &Expansion,
    at: &Point,
    ridge: &[f64],
    used: &[usize],
    secants: &[Secant],
) -> (Vec<f64>, Vec<f64>) {
    let size = at.coef.len() + 1;
    let penalty = |i: usize| if i == 0 { 0.0 } else { ridge[i - 1] };
    let value = |i: usize| if i == 0 { 0.0 } else { at.coef[i - 1] };
    let all = information(model);
    let expected: Vec<f64> = used
        .iter()
        .flat_map(|&i| used.iter().map(move |&j| (i, j)))
        .map(|(i, j)| all[i * size + j])
        .collect();
    let slope = gradient(model);
    let slope: Vec<f64> = used.iter().map(|&i| slope[i] - penalty(i) * value(i)).collect();
    let n = used.len();
    let mut curvature = expected.clone();
    (0..n).for_each(|k| curvature[k * n + k] += penalty(used[k]));
    for one in secants {
        let s: Vec<f64> = used.iter().map(|&i| one.step[i]).collect();
        let forward = times(&curvature, &s);
        let along = dot(&s, &forward);
        let mut change = times(&expected, &s);
        let size = (2.0 * dot(&s, &change) / (one.before + one.after)).min(1.0);
        for (k, &i) in used.iter().enumerate() {
            change[k] += penalty(i) * s[k] + size * one.beyond[i];
        }
        let share = dot(&s, &change) / along;
        if share < LEAST_SHARE {
            let part = (1.0 - LEAST_SHARE) / (1.0 - share);
            change.iter_mut().zip(&forward).for_each(|(y, f)| *y = f + (*y - f) * part);
        }
        let bend = dot(&s, &change);
        for i in 0..n {
            for j in 0..n {
                curvature[i * n + j] +=
                    change[i] * change[j] / bend - forward[i] * forward[j] / along;
            }
        }
    }
    (slope, curvature)
}

/// The gradient by the intercept and by the coefficients, downwards.
fn gradient(model: &Expansion) -> Vec<f64> {
    let intercept = model.corner * model.start;
    let own = model.gradient.iter().zip(&model.follow).map(|(g, follow)| g + follow * intercept);
    [intercept].into_iter().chain(own).collect()
}

/// The expected information of the intercept and the coefficients, row by row.
fn information(model: &Expansion) -> Vec<f64> {
    let width = model.follow.len();
    let mut found = Vec::with_capacity((width + 1) * (width + 1));
    found.push(model.corner);
    found.extend(model.follow.iter().map(|follow| model.corner * follow));
    for (i, own) in model.follow.iter().enumerate() {
        found.push(model.corner * own);
        let row = &model.information[i * width..(i + 1) * width];
        found.extend(
            row.iter().zip(&model.follow).map(|(entry, other)| entry + model.corner * own * other),
        );
    }
    found
}

fn times(matrix: &[f64], x: &[f64]) -> Vec<f64> {
    matrix.chunks_exact(x.len()).map(|row| dot(row, x)).collect()
}

//! The second derivatives of a penalty where nothing is 0, what they leave of the freedom of a
//! fit, and how they enlarge the errors of G.
//!
//! The Hessian of `norm ||w_g||` is `norm (I / ||w_g|| - w_g w_g' / ||w_g||^3)`. Degrees of
//! freedom are `tr(G_SS (G_SS + P''(w))^-1)`: of the lasso the rank of the columns that are not
//! 0. Sources: Zou, Hastie, Tibshirani (2007), Tibshirani, Taylor (2012) and Vaiter, Deledalle,
//! Fadili, Peyre, Dossal (2017), Annals of the Institute of Statistical Mathematics 69.

use super::quadratic::{Penalty, Quadratic};
use crate::linear::algebra::dense::dot;
use crate::linear::algebra::factor::{Factor, largest_eigenvalue};
use crate::linear::state::RANK_SHARE;

/// Added to a Hessian without an inverse, as a share of the columns' variances: a thousand times
/// the rounding of G, and what it takes from degrees of freedom is below the sixth digit.
const LEAST_CURVATURE: f64 = 1e-12;

/// The Hessian of a penalty on some columns, block by block.
pub struct Curvature {
    /// `norm / ||w_g||` of the group of each column.
    pub over_norm: Vec<f64>,
    /// Where the columns of the group of each column begin among them.
    first: Vec<usize>,
    /// What the norm's part takes away is the product of two of these.
    along: Vec<f64>,
    diagonal: Vec<f64>,
}

impl Curvature {
    /// The Hessian at w, on the columns `at`, which come group by group.
    pub fn of(quadratic: &Quadratic, penalty: &Penalty, w: &[f64], at: &[usize]) -> Curvature {
        let mut found = Curvature {
            over_norm: Vec::with_capacity(at.len()),
            first: Vec::with_capacity(at.len()),
            along: Vec::with_capacity(at.len()),
            diagonal: Vec::with_capacity(at.len()),
        };
        for columns in at.chunk_by(|&i, &j| quadratic.owner[i] == quadratic.owner[j]) {
            let group = quadratic.owner[columns[0]];
            let norm = quadratic.norm(group, w);
            let curvature = penalty.norm[group] / norm;
            let first = found.first.len();
            // Of one column alone the norm has no curvature.
            let is_curved = columns.len() > 1;
            let along = if is_curved { curvature.sqrt() / norm } else { 0.0 };
            let own = penalty.square[group] + if is_curved { curvature } else { 0.0 };
            for &j in columns {
                found.over_norm.push(curvature);
                found.first.push(first);
                found.along.push(along * w[j]);
                found.diagonal.push(own);
            }
        }
        found
    }

    /// The entry of two columns of one group.
    fn entry(&self, i: usize, j: usize) -> f64 {
        let own = if i == j { self.diagonal[i] } else { 0.0 };
        own - self.along[i] * self.along[j]
    }

    /// Add row i, up to its diagonal.
    pub fn add_to(&self, i: usize, row: &mut [f64]) {
        for (j, x) in row.iter_mut().enumerate().skip(self.first[i]) {
            *x += self.entry(i, j);
        }
    }

    fn is_nothing(&self) -> bool {
        self.diagonal.iter().all(|&x| x == 0.0)
    }
}

/// The degrees of freedom at w, without the intercept; O(|S|^3).
pub fn degrees(quadratic: &Quadratic, penalty: &Penalty, w: &[f64]) -> f64 {
    let at = quadratic.support(w, penalty);
    let curvature = Curvature::of(quadratic, penalty, w, &at);
    let variance = |i: usize| quadratic.variance(at[i]);
    let mut factor = Factor::default();
    let products = |i: usize, row: &mut [f64]| {
        let products = quadratic.row(at[i]);
        row.iter_mut().zip(&at).for_each(|(x, &j)| *x = products[j]);
    };
    if curvature.is_nothing() {
        factor.set_up(at.len(), products, |i| RANK_SHARE * variance(i));
        return factor.rank as f64;
    }
    let write = |i: usize, row: &mut [f64]| {
        products(i, row);
        curvature.add_to(i, row);
        row[i] += LEAST_CURVATURE * variance(i);
    };
    factor.set_up(at.len(), write, |_| 0.0);
    if factor.rank < at.len() {
        return f64::NAN;
    }
    // tr(G H^-1) is |S| less the trace of H^-1 times what was added to G, and that is block by
    // block: the inverse is needed within groups alone.
    let (inverse, size) = (factor.inverse(), at.len());
    let row = |i: usize| &inverse[i * size..i * size + i + 1];
    let mut taken = 0.0;
    for i in 0..size {
        for j in curvature.first[i]..=i {
            let entry = dot(&row(i)[..=j], row(j));
            let twice = if i == j { 1.0 } else { 2.0 };
            taken += twice * curvature.entry(i, j) * entry;
            if i == j {
                taken += LEAST_CURVATURE * variance(i) * entry;
            }
        }
    }
    size as f64 - taken
}

/// By how much the errors of G are enlarged in the columns that are not 0.
///
/// The largest eigenvalue of their G over the least of the Hessian, on columns of unit variance
/// of which none depends on the others; both are estimates, of the first digit.
pub fn condition(quadratic: &Quadratic, penalty: &Penalty, w: &[f64]) -> f64 {
    let at = quadratic.support(w, penalty);
    if at.is_empty() {
        return 1.0;
    }
    let curvature = Curvature::of(quadratic, penalty, w, &at);
    let unit: Vec<f64> = at.iter().map(|&j| 1.0 / quadratic.variance(j).sqrt()).collect();
    let mut factor = Factor::default();
    let write = |i: usize, row: &mut [f64]| {
        let products = quadratic.row(at[i]);
        row.iter_mut().zip(&at).for_each(|(x, &j)| *x = products[j]);
        curvature.add_to(i, row);
        row.iter_mut().zip(&unit).for_each(|(x, own)| *x *= own * unit[i]);
    };
    factor.set_up(at.len(), write, |_| RANK_SHARE);
    let mut scaled = Vec::new();
    let times = |x: &mut Vec<f64>| {
        scaled.clear();
        scaled.resize(quadratic.width(), 0.0);
        at.iter().zip(&*x).zip(&unit).for_each(|((&j, x), unit)| scaled[j] = x * unit);
        for ((x, &j), unit) in x.iter_mut().zip(&at).zip(&unit) {
            *x = dot(quadratic.row(j), &scaled) * unit;
        }
    };
    let largest = largest_eigenvalue(at.len(), |i| factor.has(i), times);
    largest / factor.least_eigenvalue().max(f64::EPSILON)
}

//! Least squares on a Gram record to its last digits: residuals nearly without rounding.
//!
//! A Cholesky solution of `C w = c` loses log10(condition) of 16 digits. Each round
//!
//! ```text
//! r = c - C w  (as if in more digits)        w <- w + C^-1 r
//! ```
//!
//! brings back most of what the solver lost. The leading bits of C and w have products that
//! add up without rounding; the rest is 2^-20 of them, and so is its rounding.
//!
//! Source: Higham (2002), Accuracy and Stability of Numerical Algorithms, section 12.

use super::state::State;
use crate::linear::algebra::dense::{dot, subtract_combination};
use crate::linear::algebra::twofold::Twofold;
use crate::linear::problem::{Gram, Linear};

/// Condition numbers between which the coefficients of all prefixes are refined: below, they
/// keep ten of sixteen digits without that; above, a correction has no digit right.
const REFINED_CONDITIONS: (f64, f64) = (1e6, 1e14);
/// Each round brings back 16 - log10(condition) digits, and two are all that the Gram has.
const REFINED_ROUNDS: usize = 2;

/// Whether models of a condition are refined.
pub fn is_refined(condition: f64, ridge: f64) -> bool {
    ridge == 0.0 && (REFINED_CONDITIONS.0..=REFINED_CONDITIONS.1).contains(&condition)
}

/// Whether corrections of one model have digits that are right.
pub fn is_correctable(condition: f64) -> bool {
    condition <= REFINED_CONDITIONS.1
}

/// The comoments of the columns that a search ended with, in units near their deviations.
#[derive(Clone, Debug, Default)]
pub struct Refiner {
    /// Comoments of the columns, one for each row of U, row by row; diagonal 1/4 to 1.
    comoments: Vec<f64>,
    /// Comoments with the target.
    target: Vec<f64>,
    /// Powers of two: w in the table's units is w of the comoments times it.
    unit: Vec<f64>,
    /// w in the table's units is w on unit-variance columns times it.
    own: Vec<f64>,
    /// What brings a residual of comoments to correlations.
    share: Vec<f64>,
    /// Bits of a leading part, so that sums of their products are exact.
    bits: i32,
    w: Vec<f64>,
    high: Vec<f64>,
    left: Vec<f64>,
    step: Vec<f64>,
}

impl Refiner {
    /// Read the comoments; `at` numbers the columns of the problem in the record, `target` its
    /// target.
    pub fn set_up(&mut self, gram: &Gram, state: &State, at: &[usize], target: usize) {
        let problem = state.problem;
        let columns = || state.support().iter().copied();
        let unit = |j| power_of_two(-exponent(gram.comoment(at[j], at[j]).sqrt()));
        self.unit.clear();
        self.unit.extend(columns().map(unit));
        self.own.clear();
        self.own.extend(columns().map(|j| problem.target_spread / problem.spread[j]));
        self.share.clear();
        let share = |j| 1.0 / (gram.weight * problem.target_spread * problem.spread[j]);
        self.share.extend(columns().map(share));
        self.target.clear();
        let product = |(j, unit): (usize, &f64)| gram.comoment(at[j], target) * unit;
        self.target.extend(columns().zip(&self.unit).map(product));
        self.comoments.clear();
        for (i, unit) in columns().zip(&self.unit) {
            let entry = |(j, other): (usize, &f64)| gram.comoment(at[i], at[j]) * other * unit;
            self.comoments.extend(columns().zip(&self.unit).map(entry));
        }
        let width = i32::try_from(problem.width()).unwrap_or(i32::MAX);
        self.bits = (53 - (32 - width.leading_zeros() as i32)) / 2;
    }

    /// Refine the coefficients of a prefix, on unit-variance columns; `m` is the state's
    /// inverse factor, row k from k `width` on.
    pub fn refine(&mut self, problem: &Linear, m: &[f64], coef: &mut [f64]) {
        let width = problem.width();
        for _ in 0..REFINED_ROUNDS {
            self.residual(coef);
            // C^-1 r = M'(M r), of the leading block.
            self.step.clear();
            self.step.resize(coef.len(), 0.0);
            for (k, row) in m.chunks_exact(width).take(coef.len()).enumerate() {
                self.left[k] *= self.share[k];
                // Subtracted below.
                self.step[k] = -dot(&row[..=k], &self.left[..=k]);
            }
            subtract_combination(coef, &m[..coef.len() * width], width, &self.step);
        }
    }

    /// RSS of the model of all columns with coefficients near those of least squares, on
    /// unit-variance columns; `total` is the comoment of the target.
    ///
    /// `RSS = yy - w'c - w'(c - C w)`, in twice the digits: little may be left of yy.
    pub fn left_over(&mut self, coef: &[f64], total: f64) -> f64 {
        self.w.clear();
        let near = |((w, own), unit): ((&f64, &f64), &f64)| w * own / unit;
        self.w.extend(coef.iter().zip(&self.own).zip(&self.unit).map(near));
        let (mut left, mut slack) = (Twofold::of(total), 0.0);
        for (i, row) in self.comoments.chunks_exact(self.unit.len().max(1)).enumerate() {
            left.add(-self.w[i], self.target[i]);
            let mut gradient = Twofold::of(self.target[i]);
            row.iter().zip(&self.w).for_each(|(c, w)| gradient.add(-c, *w));
            slack += self.w[i] * gradient.value();
        }
        (left.value() - slack).clamp(0.0, total)
    }

    /// Write c - C w of a prefix to `left`, in the units of the comoments.
    fn residual(&mut self, coef: &[f64]) {
        let (size, count) = (self.unit.len(), coef.len());
        self.w.clear();
        let near = |((w, own), unit): ((&f64, &f64), &f64)| w * own / unit;
        self.w.extend(coef.iter().zip(&self.own).zip(&self.unit).map(near));
        let largest = self.w.iter().fold(0.0, |largest: f64, w| largest.max(w.abs()));
        let shift = rounder(exponent(largest) - self.bits);
        self.high.clear();
        self.high.extend(self.w.iter().map(|w| (w + shift) - shift));
        let shift = rounder(1 - self.bits);
        self.left.clear();
        for (i, row) in self.comoments.chunks_exact(size.max(1)).take(count).enumerate() {
            let (mut exact, mut rest) = (0.0, 0.0);
            for ((c, w), w_high) in row.iter().zip(&self.w).zip(&self.high) {
                let c_high = (c + shift) - shift;
                exact += w_high * c_high;
                rest += (w - w_high) * c_high + w * (c - c_high);
            }
            self.left.push(((self.target[i] - exact) - rest) / self.unit[i]);
        }
    }
}

/// The e of `x = m 2^e`, m from 1/2 to 1; 0 for 0.
fn exponent(x: f64) -> i32 {
    if x == 0.0 || !x.is_finite() {
        return 0;
    }
    if x.abs() < f64::MIN_POSITIVE {
        return exponent(x * power_of_two(64)) - 64;
    }
    ((x.to_bits() >> 52) & 0x7ff) as i32 - 1022
}

/// 2^e, for what exponents of roots and sums of doubles can be.
fn power_of_two(e: i32) -> f64 {
    f64::from_bits(((e.clamp(-1022, 1023) + 1023) as u64) << 52)
}

/// What added to a number and taken from it again rounds it to a multiple of 2^e.
fn rounder(e: i32) -> f64 {
    1.5 * power_of_two(e + 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponents_are_those_of_the_definition() {
        for x in [1.0, 0.5, 0.75, 3.0, 1e300, 1e-300, 5e-324, -6.5] {
            let m = x / 2f64.powi(exponent(x) / 2) / 2f64.powi(exponent(x) - exponent(x) / 2);
            assert!((0.5..1.0).contains(&m.abs()), "{x} {m}");
        }
        assert_eq!((exponent(0.0), power_of_two(-3), power_of_two(0)), (0, 0.125, 1.0));
    }

    #[test]
    fn rounding_keeps_a_multiple() {
        let shift = rounder(-4);
        for (x, rounded) in [(0.49, 0.5), (0.3, 0.3125), (-0.3, -0.3125), (0.03125, 0.0)] {
            assert_eq!((x + shift) - shift, rounded);
        }
    }
}

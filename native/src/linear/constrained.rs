//! Least squares, penalised or not, under signs of coefficients and linear equations.
//!
//! ```text
//! minimise  1/2 w'Cw - c'w + sum_j absolute_j |w_j|    so that  sign_j w_j >= 0  and  Aw = 0
//! ```
//!
//! A primal active set. Columns are held, each on its side of 0, or are 0. Until nothing changes:
//! go to the minimum over what is held, as far as every column stays on its side; one that reaches
//! 0 is let go. There, the column that violates the optimality conditions most is taken. One that
//! depends on those held trades places with one of them, along what they have in common. Each move
//! lowers the objective, so that no set of held columns comes twice, ties in rounding apart.
//!
//! At the minimum over the columns held, `C w + A'm = c - absolute side`, so with `C = LL'`,
//! `V = L^-1 A'` and `u = L^-1 (c - absolute side)`: `V'V m = V'u`, and `w = L'^-1 (u - V m)`.
//!
//! O(p^2) a move of p held columns and O(D^2) for the conditions of D columns; letting one go
//! factorises those after it anew, O(p^3 / 3) at most. Some 2 D moves.
//!
//! Sources: Lawson, Hanson (1974), chapter 23; Nocedal, Wright (2006), section 16.5.

use crate::linear::algebra::cholesky::{independent, solve};
use crate::linear::algebra::dense::dot;
use crate::linear::columns::match_columns;
use crate::linear::state::RANK_SHARE;
use crate::words::error::Error;

/// Violations of the optimality conditions below this, in correlations, count as none.
const OPTIMAL: f64 = 1e-12;
/// Beyond 0 by less than this, on unit-variance columns, is rounding.
const AT_ZERO: f64 = 1e-13;
/// An equation of which the columns explain less than this share holds for all coefficients.
const LEAST_SHARE: f64 = 1e-20;
/// Limit on moves, for each column; three are usual.
const MOVES: usize = 50;

/// The error where rounding keeps the moves from an end.
const NO_END: &str = "the columns are too nearly dependent for coefficients under signs; leave \
                      columns out, or give a ridge > 0";

/// What a model's coefficients have to meet.
#[derive(Clone, Debug, Default)]
pub struct Constraints {
    /// Name or glob of columns, and the sign of their coefficients: 1 or -1.
    pub signs: Vec<(String, f64)>,
    /// Names and globs of columns that have no correlation with the prediction.
    pub uncorrelated: Vec<String>,
}

impl Constraints {
    /// Whether there are any.
    pub fn is_empty(&self) -> bool {
        self.signs.is_empty() && self.uncorrelated.is_empty()
    }
}

/// The sign of each of some columns, 0 where it has none, of names and globs with signs.
pub fn signs_of(signs: &[(String, f64)], columns: &[String]) -> Result<Vec<f64>, Error> {
    let mut found = vec![0.0; columns.len()];
    for (pattern, sign) in signs {
        let named = match_columns(std::slice::from_ref(pattern), columns, "signs")?;
        for (own, name) in found.iter_mut().zip(columns).filter(|(_, name)| named.contains(name)) {
            if *own == -sign {
                return Err(Error::argument(format!(
                    "signs gives column '{name}' both '+' and '-'"
                )));
            }
            *own = *sign;
        }
    }
    Ok(found)
}

/// What is minimised.
#[derive(Clone, Copy, Debug)]
pub struct Constrained<'c> {
    /// C, row by row.
    pub matrix: &'c [f64],
    /// c.
    pub target: &'c [f64],
    /// Penalties on absolute values, >= 0.
    pub absolute: &'c [f64],
    /// 1 or -1 where a coefficient has a sign, else 0.
    pub signs: &'c [f64],
    /// Rows of A.
    pub equations: &'c [Vec<f64>],
}

/// The coefficients, and the columns that are held.
#[derive(Clone, Debug, Default)]
pub struct Active {
    /// D coefficients.
    pub w: Vec<f64>,
    /// How far the optimality conditions are violated, in correlations.
    pub violation: f64,
    held: Vec<usize>,
    /// Of each held column: 1 or -1, or 0 if it may pass 0.
    side: Vec<f64>,
    /// Rows of L.
    factor: Vec<Vec<f64>>,
}

impl Constrained<'_> {
    /// Bring coefficients that the constraints allow to the minimum.
    ///
    /// Starts from 0 without coefficients. The error is one sentence.
    pub fn minimise(&self, active: &mut Active) -> Result<(), String> {
        let width = self.target.len();
        self.begin(active);
        // Columns that depend on those held or that rounding brought.
        let mut idle = vec![false; width];
        for _ in 0..MOVES * (width + 1) {
            let (goal, multipliers) = self.goal(active);
            if let Some(place) = active.go(self, &goal) {
                active.release(self, place);
                continue;
            }
            let (entering, violation) = self.entering(active, &multipliers, &idle);
            active.violation = violation;
            let Some((column, side)) = entering else {
                active.clear(self);
                return Ok(());
            };
            if active.hold(self, column, side) {
                let goal = self.goal(active).0;
                // What moves brings others back that rounding kept out.
                let ahead = side * goal.last().copied().unwrap_or(0.0);
                let moves = ahead * self.deviation(column) >= -AT_ZERO;
                if moves {
                    idle.fill(false);
                } else {
                    idle[column] = true;
                    active.release(self, active.held.len() - 1);
                }
            } else if active.trade(self, column, side) {
                idle.fill(false);
            } else {
                idle[column] = true;
            }
        }
        Err(NO_END.to_string())
    }

    /// Hold the columns that are not 0, and those that may pass it.
    fn begin(&self, active: &mut Active) {
        let width = self.target.len();
        let held: Vec<(usize, f64)> =
            active.held.iter().copied().zip(active.side.iter().copied()).collect();
        active.w.resize(width, 0.0);
        (active.held, active.side, active.factor) = Default::default();
        let is_free = |j: usize| self.signs[j] == 0.0 && self.absolute[j] == 0.0;
        for j in (0..width).filter(|&j| is_free(j)) {
            active.hold(self, j, 0.0);
        }
        for (j, side) in held.into_iter().filter(|(j, _)| !is_free(*j)) {
            if !active.hold(self, j, side) {
                active.w[j] = 0.0;
            }
        }
    }

    fn entry(&self, i: usize, j: usize) -> f64 {
        self.matrix[i * self.target.len() + j]
    }

    fn deviation(&self, j: usize) -> f64 {
        self.entry(j, j).max(0.0).sqrt()
    }

    /// The minimum over the columns held, and the multipliers of the equations.
    fn goal(&self, active: &Active) -> (Vec<f64>, Vec<f64>) {
        let Active { held, side, factor, .. } = active;
        let forward = |mut x: Vec<f64>| {
            for (i, row) in factor.iter().enumerate() {
                x[i] = (x[i] - dot(&row[..i], &x[..i])) / row[i];
            }
            x
        };
        let c = held.iter().zip(side).map(|(&j, side)| self.target[j] - self.absolute[j] * side);
        let mut u = forward(c.collect());
        let of_held = |row: &Vec<f64>| forward(held.iter().map(|&j| row[j]).collect());
        let v: Vec<Vec<f64>> = self.equations.iter().map(of_held).collect();
        let products: Vec<f64> = v.iter().flat_map(|a| v.iter().map(|b| dot(a, b))).collect();
        let (kept, root) = independent(&products, v.len(), LEAST_SHARE);
        let mut own: Vec<f64> = kept.iter().map(|&k| dot(&v[k], &u)).collect();
        solve(&root, &mut own);
        let mut multipliers = vec![0.0; v.len()];
        for (&k, m) in kept.iter().zip(own) {
            multipliers[k] = m;
            u.iter_mut().zip(&v[k]).for_each(|(u, v)| *u -= m * v);
        }
        for (i, row) in factor.iter().enumerate().rev() {
            u[i] /= row[i];
            let share = u[i];
            u.iter_mut().zip(&row[..i]).for_each(|(x, entry)| *x -= share * entry);
        }
        (u, multipliers)
    }

    /// The column that is 0 and should not be, with its side, and by how much one violates that.
    fn entering(
        &self,
        active: &Active,
        multipliers: &[f64],
        idle: &[bool],
    ) -> (Option<(usize, f64)>, f64) {
        let (mut best, mut most) = (None, OPTIMAL);
        let mut is_held = vec![false; idle.len()];
        active.held.iter().for_each(|&j| is_held[j] = true);
        let mut violation: f64 = 0.0;
        for j in 0..idle.len() {
            let deviation = self.deviation(j);
            if deviation == 0.0 {
                continue;
            }
            let row = &self.matrix[j * idle.len()..][..idle.len()];
            let equations = self.equations.iter().zip(multipliers).map(|(row, m)| row[j] * m);
            let b = self.target[j] - dot(row, &active.w) - equations.sum::<f64>();
            if is_held[j] {
                let side = active.held.iter().position(|&other| other == j);
                let side = side.map_or(0.0, |place| active.side[place]);
                violation = violation.max((b - self.absolute[j] * side).abs() / deviation);
                continue;
            }
            let side = if self.signs[j] == 0.0 { b.signum() } else { self.signs[j] };
            // A column that may pass 0 is not held only where it depends on those that are.
            let is_free = self.signs[j] == 0.0 && self.absolute[j] == 0.0;
            let beyond = (side * b - self.absolute[j]) / deviation;
            if is_free || idle[j] {
                continue;
            }
            violation = violation.max(beyond);
            if beyond > most {
                (best, most) = (Some((j, side)), beyond);
            }
        }
        (best, violation)
    }
}

impl Active {
    /// Whether a column is held. One without sign and penalty is not only if it depends on others.
    pub fn holds(&self, column: usize) -> bool {
        self.held.contains(&column)
    }

    /// Set to 0 what only rounding keeps from it.
    fn clear(&mut self, of: &Constrained) {
        for (&j, _) in self.held.iter().zip(&self.side).filter(|(_, side)| **side != 0.0) {
            if self.w[j].abs() * of.deviation(j) < AT_ZERO {
                self.w[j] = 0.0;
            }
        }
    }

    /// The row of L of a column, and what is left of its variance.
    fn row(&self, of: &Constrained, column: usize) -> (Vec<f64>, f64) {
        let mut row: Vec<f64> = Vec::with_capacity(self.held.len() + 1);
        for (i, (&j, above)) in self.held.iter().zip(&self.factor).enumerate() {
            row.push((of.entry(column, j) - dot(&above[..i], &row)) / above[i]);
        }
        let left = of.entry(column, column) - dot(&row, &row);
        (row, left)
    }

    /// Hold a column too; false if it depends on those that are held.
    fn hold(&mut self, of: &Constrained, column: usize, side: f64) -> bool {
        let (mut row, left) = self.row(of, column);
        let is_apart = left > RANK_SHARE * of.entry(column, column) && left > 0.0;
        if is_apart {
            row.push(left.sqrt());
            self.factor.push(row);
            self.held.push(column);
            self.side.push(side);
        }
        is_apart
    }

    /// Let the column at a place go, which is 0 from now on.
    fn release(&mut self, of: &Constrained, place: usize) {
        let held = self.held.split_off(place);
        let side = self.side.split_off(place);
        self.factor.truncate(place);
        self.w[held[0]] = 0.0;
        for (&column, &side) in held.iter().zip(&side).skip(1) {
            // Those that stay are as independent as before.
            if !self.hold(of, column, side) {
                self.w[column] = 0.0;
            }
        }
    }

    /// Go towards coefficients as far as every column stays on its side; the place of one that
    /// leaves it.
    fn go(&mut self, of: &Constrained, goal: &[f64]) -> Option<usize> {
        let (mut share, mut first) = (1.0, None);
        for (place, &j) in self.held.iter().enumerate() {
            let (side, now) = (self.side[place], self.side[place] * self.w[j]);
            let ahead = side * goal[place];
            if side != 0.0 && ahead * of.deviation(j) < -AT_ZERO && now / (now - ahead) < share {
                (share, first) = (now / (now - ahead), Some(place));
            }
        }
        for (place, &j) in self.held.iter().enumerate() {
            let moved = self.w[j] + share * (goal[place] - self.w[j]);
            let is_beyond = self.side[place] * moved < 0.0;
            self.w[j] = if is_beyond { 0.0 } else { moved };
        }
        first
    }

    /// Put a column that depends on those held in the place of one of them; false if it can grow
    /// without end, which brings nothing.
    fn trade(&mut self, of: &Constrained, column: usize, side: f64) -> bool {
        let (mut change, _) = self.row(of, column);
        for (i, row) in self.factor.iter().enumerate().rev() {
            change[i] /= row[i];
            let share = change[i];
            change.iter_mut().zip(&row[..i]).for_each(|(x, entry)| *x -= share * entry);
        }
        let (mut length, mut first) = (f64::INFINITY, None);
        for (place, &j) in self.held.iter().enumerate() {
            // Coefficients change by the opposite of the combination.
            let fall = self.side[place] * side * change[place];
            let now = self.side[place] * self.w[j];
            if fall > AT_ZERO && now / fall < length {
                (length, first) = (now / fall, Some(place));
            }
        }
        let Some(place) = first else { return false };
        for (&j, change) in self.held.iter().zip(&change) {
            self.w[j] -= side * length * change;
        }
        self.w[column] = side * length;
        self.release(of, place);
        let is_held = self.hold(of, column, side);
        if !is_held {
            self.w[column] = 0.0;
        }
        is_held
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Lcg;

    const NEAR: f64 = 1e-9;

    /// The best of all signs of all columns: every set of held columns and sides, by enumeration.
    fn best_of_all(of: &Constrained) -> f64 {
        let width = of.target.len();
        let mut best: f64 = 0.0;
        for code in 0..3usize.pow(width as u32) {
            let digit = |j: usize| [0.0, 1.0, -1.0][code / 3usize.pow(j as u32) % 3];
            let mut active = Active { w: vec![0.0; width], ..Active::default() };
            let is_held = (0..width).filter(|&j| digit(j) != 0.0).all(|j| {
                (of.signs[j] == 0.0 || of.signs[j] == digit(j)) && active.hold(of, j, digit(j))
            });
            let goal = if is_held { of.goal(&active).0 } else { continue };
            if active.side.iter().zip(&goal).all(|(side, w)| side * w >= 0.0) {
                active.held.iter().zip(&goal).for_each(|(&j, w)| active.w[j] = *w);
                best = best.min(objective(of, &active.w));
            }
        }
        best
    }

    fn objective(of: &Constrained, w: &[f64]) -> f64 {
        let rows = of.matrix.chunks_exact(w.len());
        let quadratic: f64 = rows.zip(w).map(|(row, w_j)| w_j * dot(row, w)).sum();
        let penalty: f64 = w.iter().zip(of.absolute).map(|(w, x)| w.abs() * x).sum();
        quadratic / 2.0 - dot(of.target, w) + penalty
    }

    #[test]
    fn no_set_of_columns_on_their_sides_is_better() {
        let mut random = Lcg::new(7);
        for case in 0..60 {
            let (width, rows) = (5, 12);
            let mut x: Vec<Vec<f64>> =
                (0..rows).map(|_| (0..=width).map(|_| random.uniform() - 0.5).collect()).collect();
            if case % 3 == 0 {
                // Two that are opposite, and one that two others make.
                x.iter_mut().for_each(|row| (row[1], row[4]) = (-row[0], row[2] + row[3]));
            }
            let product = |a: usize, b: usize| x.iter().map(|row| row[a] * row[b]).sum::<f64>();
            let matrix: Vec<f64> = (0..width)
                .flat_map(|i| (0..width).map(move |j| (i, j)))
                .map(|(i, j)| product(i, j))
                .collect();
            let target: Vec<f64> = (0..width)
                .map(|j| product(j, width) + 0.5 * product(j, 0) - product(j, 2))
                .collect();
            let signs: Vec<f64> =
                (0..width).map(|j| [1.0, -1.0, 0.0][(case + j * j) % 3]).collect();
            let absolute: Vec<f64> =
                (0..width).map(|j| if (case + j) % 4 == 0 { 0.0 } else { 0.05 }).collect();
            let equations = match case % 2 {
                0 => Vec::new(),
                _ => vec![(0..width).map(|j| product(j, 3) - product(j, 1)).collect()],
            };
            let (absolute, equations) = (&absolute[..], &equations[..]);
            let of = Constrained {
                matrix: &matrix,
                target: &target,
                absolute,
                signs: &signs,
                equations,
            };
            let mut active = Active::default();
            of.minimise(&mut active).unwrap();
            let found = objective(&of, &active.w);
            let best = best_of_all(&of);
            assert!(found <= best + NEAR, "{case}: {found} {best} {:?}", active.w);
            assert!(active.w.iter().zip(&signs).all(|(w, sign)| w * sign >= 0.0));
            for row in equations {
                assert!(dot(row, &active.w).abs() < NEAR);
            }
            // From its end, nothing changes.
            let before = active.w.clone();
            of.minimise(&mut active).unwrap();
            assert!(before.iter().zip(&active.w).all(|(a, b)| (a - b).abs() < NEAR));
        }
    }
}

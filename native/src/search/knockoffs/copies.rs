//! Knockoffs of columns, made of a Gram alone: copies that add nothing about the target.
//!
//! With R the correlations of the columns and S block by block, one block a group, knockoffs have
//! the correlations R among each other and `R - S` with the columns. They are
//!
//! ```text
//! Xk = X (I - R^-1 S) + U L',    L L' = 2 S - S R^-1 S
//! ```
//!
//! with U orthonormal and orthogonal to X. So what they share with the target is known from the
//! Gram but for U'y, and of a random U this is known in distribution: the residual of y on X,
//! turned by a random rotation of the rows, of which the first D coordinates are seen. No row is
//! needed, and nothing is assumed of the columns.
//!
//! S is the one of maximum entropy: each block is half of what it may be given the others, again
//! and again, which maximises `log det (2 R - S) + log det S`.
//!
//! Sources: Barber, Candes (2015), section 2.1; Dai, Barber (2016) for groups; Candes, Fan,
//! Janson, Lv (2018), section 3.4.2; He et al. (2022), GhostKnockoffs, for products with the
//! target that are drawn; Gimenez, Zou (2019) for maximum entropy.

use std::ops::Range;

use crate::linear::algebra::dense::dot;
use crate::linear::algebra::factor::{Factor, largest_eigenvalue};
use crate::search::draws::Draws;

/// A sweep over all blocks that changes no entry by more than this is the last.
const SETTLED: f64 = 1e-6;
const MOST_SWEEPS: usize = 100;
/// What is left of a variance below this share of it is rounding.
const ROUNDING: f64 = 1e-12;

/// Columns beside their knockoffs, and what these share with the target.
pub struct Copies {
    size: usize,
    /// Correlations of the columns, row by row.
    correlations: Vec<f64>,
    /// S.
    pub blocks: Vec<f64>,
    /// Correlations of the columns with the target.
    target: Vec<f64>,
    /// Share of the target's variance that no column explains.
    left: f64,
    /// Dimensions of the residual.
    freedom: usize,
    rows: usize,
    /// What knockoffs share with the target, but for U'y.
    known: Vec<f64>,
    /// L', by which U'y comes in.
    root: Factor,
}

impl Copies {
    /// The knockoffs of independent columns of correlations R, `target` with the target's; group
    /// g has those from `starts[g]` on. There are more rows than columns.
    pub fn of(correlations: Vec<f64>, target: Vec<f64>, rows: usize, starts: &[usize]) -> Copies {
        let size = target.len();
        let blocks = blocks_of_most_entropy(&correlations, size, starts);
        let factor = factored(&correlations, size);
        let mut solved = target.clone();
        factor.solve(&mut solved);
        let left = f64::max(1.0 - dot(&target, &solved), 0.0);
        let of_group = |g: usize| starts[g]..starts[g + 1];
        let mut known = target.clone();
        // S K of R^-1 = K K', so that S R^-1 S is its square.
        let inverse = factor.inverse();
        let mut spread = vec![0.0; size * size];
        for at in (0..starts.len() - 1).map(of_group) {
            for i in at.clone() {
                let own = &blocks[i * size..(i + 1) * size];
                known[i] -= dot(&own[at.clone()], &solved[at.clone()]);
                let row = &mut spread[i * size..(i + 1) * size];
                for j in at.clone() {
                    let share = own[j];
                    let from = &inverse[j * size..j * size + j + 1];
                    row.iter_mut().zip(from).for_each(|(x, k)| *x += share * k);
                }
            }
        }
        let end = |i: usize| starts[starts.partition_point(|&start| start <= i)];
        let mut root = Factor::default();
        let write = |i: usize, row: &mut [f64]| {
            let own = &spread[i * size..i * size + size];
            for (j, x) in row.iter_mut().enumerate() {
                let used = end(j);
                *x = 2.0 * blocks[i * size + j] - dot(&own[..used], &spread[j * size..][..used]);
            }
        };
        root.set_up(size, write, |i| ROUNDING * blocks[i * (size + 1)]);
        let freedom = rows - 1 - size;
        Copies { size, correlations, blocks, target, left, freedom, rows, known, root }
    }

    /// Draw the correlations of the knockoffs with the target, U a random rotation's.
    pub fn fixed(&self, draws: &mut Draws) -> Vec<f64> {
        let mut noise: Vec<f64> = (0..self.size).map(|_| draws.normal()).collect();
        let unseen = match self.freedom - self.size.min(self.freedom) {
            0 => 0.0,
            rest => draws.chi_square(rest),
        };
        let share = (self.left / (dot(&noise, &noise) + unseen)).sqrt();
        noise.iter_mut().for_each(|x| *x *= share);
        self.with(&noise)
    }

    /// Draw them for rows of Gaussian columns: U has independent entries of variance 1 / n.
    pub fn second_order(&self, draws: &mut Draws) -> Vec<f64> {
        let share = 1.0 / (self.rows as f64).sqrt();
        let noise: Vec<f64> = (0..self.size).map(|_| draws.normal() * share).collect();
        self.with(&noise)
    }

    fn with(&self, noise: &[f64]) -> Vec<f64> {
        let moved = self.root.transposed_times(noise);
        self.known.iter().zip(moved).map(|(known, moved)| known + moved).collect()
    }

    /// Comoments of columns, knockoffs and target, each of variance 1: the lower triangle, row
    /// by row.
    pub fn comoments(&self, drawn: &[f64]) -> Vec<f64> {
        let (size, weight) = (self.size, self.rows as f64);
        let mut lower = Vec::with_capacity((2 * size + 1) * (size + 1));
        for i in 0..size {
            lower.extend_from_slice(&self.correlations[i * size..i * size + i + 1]);
        }
        for i in 0..size {
            let own = i * size..(i + 1) * size;
            let both = self.correlations[own.clone()].iter().zip(&self.blocks[own.clone()]);
            lower.extend(both.map(|(r, s)| r - s));
            lower.extend_from_slice(&self.correlations[own][..=i]);
        }
        lower.extend(self.target.iter().chain(drawn));
        lower.push(1.0);
        lower.iter_mut().for_each(|x| *x *= weight);
        lower
    }
}

/// S, block diagonal.
///
/// O(D^3) a sweep; some ten sweeps. Columns that nearly depend on those of other groups have
/// knockoffs near themselves, and no power.
fn blocks_of_most_entropy(correlations: &[f64], size: usize, starts: &[usize]) -> Vec<f64> {
    let groups = || starts.windows(2).map(|bounds| bounds[0]..bounds[1]);
    let mut blocks = vec![0.0; size * size];
    for i in groups().flat_map(|at| at.clone().map(move |i| (i, at.clone()))) {
        let (i, at) = i;
        let own = i * size + at.start..i * size + at.end;
        blocks[own.clone()].copy_from_slice(&correlations[own]);
    }
    // The largest share of them that R allows.
    let factor = factored(correlations, size);
    let roots = factored(&blocks, size);
    let times = |x: &mut Vec<f64>| {
        let mut moved = roots.transposed_times(x);
        factor.solve(&mut moved);
        *x = roots.times(&moved);
    };
    let share = f64::min(1.0, 1.0 / largest_eigenvalue(size, |_| true, times));
    blocks.iter_mut().for_each(|x| *x *= share);
    for _ in 0..MOST_SWEEPS {
        let both: Vec<f64> = correlations.iter().zip(&blocks).map(|(r, s)| 2.0 * r - s).collect();
        let Some(mut inverse) = inverted(&both, size) else {
            break;
        };
        let mut change = 0.0;
        for at in groups() {
            change = f64::max(change, halve(&mut blocks, &mut inverse, size, at));
        }
        if change < SETTLED {
            break;
        }
    }
    blocks
}

/// Make a block half of what it may be given the others, and the inverse of `2 R - S` that of
/// the new S; return the largest change.
fn halve(blocks: &mut [f64], inverse: &mut [f64], size: usize, at: Range<usize>) -> f64 {
    let count = at.len();
    let inner: Vec<f64> = at
        .clone()
        .flat_map(|i| &inverse[i * size + at.start..i * size + at.end])
        .copied()
        .collect();
    let mut most = inner.clone();
    if !invert(&mut most, count) {
        return 0.0;
    }
    let old = |i: usize, j: usize| blocks[(at.start + i) * size + at.start + j];
    let mut step = vec![0.0; count * count];
    for i in 0..count {
        for j in 0..count {
            let both = most[i * count + j] + most[j * count + i] + old(i, j) + old(j, i);
            step[i * count + j] = both / 4.0 - old(i, j);
        }
    }
    // step (I - inner step)^-1.
    let mut middle = product(&inner, &step, count);
    middle.iter_mut().for_each(|x| *x = -*x);
    (0..count).for_each(|i| middle[i * count + i] += 1.0);
    if !invert(&mut middle, count) {
        return 0.0;
    }
    let middle = product(&step, &middle, count);
    for (i, row) in step.chunks_exact(count).enumerate() {
        let own = &mut blocks[(at.start + i) * size..][at.clone()];
        own.iter_mut().zip(row).for_each(|(s, step)| *s += step);
    }
    let rows: Vec<f64> =
        at.clone().flat_map(|i| &inverse[i * size..(i + 1) * size]).copied().collect();
    for row in inverse.chunks_exact_mut(size) {
        let own: Vec<f64> = row[at.clone()].to_vec();
        for (j, from) in rows.chunks_exact(size).enumerate() {
            let share: f64 = (0..count).map(|k| own[k] * middle[k * count + j]).sum();
            row.iter_mut().zip(from).for_each(|(x, other)| *x += share * other);
        }
    }
    step.iter().fold(0.0, |most, x| f64::max(most, x.abs()))
}

fn factored(matrix: &[f64], size: usize) -> Factor {
    let mut factor = Factor::default();
    factor.set_up(size, |i, row| row.copy_from_slice(&matrix[i * size..i * size + i + 1]), |_| 0.0);
    factor
}

/// The inverse of a positive definite matrix; nothing of another.
fn inverted(matrix: &[f64], size: usize) -> Option<Vec<f64>> {
    let factor = factored(matrix, size);
    if factor.rank < size {
        return None;
    }
    let rows = factor.inverse();
    let mut inverse = vec![0.0; size * size];
    for i in 0..size {
        for j in 0..=i {
            let entry = dot(&rows[i * size..][..=j], &rows[j * size..][..=j]);
            inverse[i * size + j] = entry;
            inverse[j * size + i] = entry;
        }
    }
    Some(inverse)
}

fn product(a: &[f64], b: &[f64], size: usize) -> Vec<f64> {
    let entry = |at: usize| {
        let (i, j) = (at / size, at % size);
        (0..size).map(|k| a[i * size + k] * b[k * size + j]).sum()
    };
    (0..size * size).map(entry).collect()
}

/// Replace a small matrix by its inverse, by elimination with pivots; false where it has none.
fn invert(matrix: &mut [f64], size: usize) -> bool {
    let mut inverse = vec![0.0; size * size];
    (0..size).for_each(|i| inverse[i * size + i] = 1.0);
    for k in 0..size {
        let largest = |&i: &usize, &j: &usize| {
            matrix[i * size + k].abs().total_cmp(&matrix[j * size + k].abs())
        };
        let pivot = (k..size).max_by(largest).unwrap_or(k);
        if matrix[pivot * size + k] == 0.0 {
            return false;
        }
        for j in 0..size {
            matrix.swap(pivot * size + j, k * size + j);
            inverse.swap(pivot * size + j, k * size + j);
        }
        let one_over = 1.0 / matrix[k * size + k];
        for j in 0..size {
            matrix[k * size + j] *= one_over;
            inverse[k * size + j] *= one_over;
        }
        for i in (0..size).filter(|&i| i != k) {
            let share = matrix[i * size + k];
            for j in 0..size {
                matrix[i * size + j] -= share * matrix[k * size + j];
                inverse[i * size + j] -= share * inverse[k * size + j];
            }
        }
    }
    matrix.copy_from_slice(&inverse);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Correlations `near^|i - j|`.
    fn chain(size: usize, near: f64) -> Vec<f64> {
        (0..size * size).map(|at| near.powi((at / size).abs_diff(at % size) as i32)).collect()
    }

    #[test]
    fn blocks_meet_the_conditions_of_the_optimum() {
        // The derivative of log det (2 R - S) + log det S by a block is 0.
        for (size, starts) in [(5, vec![0, 1, 2, 3, 4, 5]), (7, vec![0, 2, 3, 7])] {
            let correlations = chain(size, 0.6);
            let blocks = blocks_of_most_entropy(&correlations, size, &starts);
            let both: Vec<f64> =
                correlations.iter().zip(&blocks).map(|(r, s)| 2.0 * r - s).collect();
            let inverse = inverted(&both, size).unwrap();
            for bounds in starts.windows(2) {
                let at = bounds[0]..bounds[1];
                for (i, j) in at.clone().flat_map(|i| at.clone().map(move |j| (i, j))) {
                    let entry = |k: usize| inverse[i * size + k] * blocks[k * size + j];
                    let sum: f64 = at.clone().map(entry).sum();
                    assert!((sum - f64::from(u8::from(i == j))).abs() < 1e-4);
                }
            }
        }
        let independent = blocks_of_most_entropy(&chain(3, 0.0), 3, &[0, 1, 2, 3]);
        assert!(independent.iter().zip(chain(3, 0.0)).all(|(s, r)| (s - r).abs() < 1e-6));
    }

    #[test]
    fn comoments_are_those_of_columns_of_unit_variance() {
        let copies = Copies::of(chain(3, 0.5), vec![0.5, 0.1, 0.0], 50, &[0, 1, 3]);
        let drawn = copies.fixed(&mut Draws::new(1));
        let lower = copies.comoments(&drawn);
        let at = |i: usize, j: usize| lower[i * (i + 1) / 2 + j] / 50.0;
        assert_eq!(lower.len(), 28);
        assert!((0..7).all(|i| (at(i, i) - 1.0).abs() < 1e-12));
        assert!((at(1, 0) - 0.5).abs() < 1e-15 && (at(4, 3) - 0.5).abs() < 1e-15);
        assert!((at(3, 1) - 0.5).abs() < 1e-15 && (at(5, 0) - 0.25).abs() < 1e-15);
        assert!((at(6, 0) - 0.5).abs() < 1e-15 && (at(6, 3) - drawn[0]).abs() < 1e-12);
        // Of columns and knockoffs and the target together: positive definite.
        let matrix: Vec<f64> =
            (0..49).map(|k| at((k / 7).max(k % 7), (k / 7).min(k % 7))).collect();
        assert!(inverted(&matrix, 7).is_some());
    }

    #[test]
    fn a_small_inverse_meets_its_definition() {
        let matrix = vec![0.0, 2.0, 1.0, 1.0, 0.0, 3.0, 2.0, 1.0, 0.5];
        let mut inverse = matrix.clone();
        assert!(invert(&mut inverse, 3));
        for (at, x) in product(&matrix, &inverse, 3).into_iter().enumerate() {
            assert!((x - f64::from(u8::from(at % 4 == 0))).abs() < 1e-14);
        }
        assert!(!invert(&mut [1.0, 1.0, 1.0, 1.0], 2));
    }
}

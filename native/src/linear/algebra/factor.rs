//! Factors of positive definite matrices, `H = L' L`, and what is solved by them.
//!
//! Rows of L come from the last to the first, so that each needs the first entries of those
//! before it alone: `panels` takes products of whole blocks. O(n^3 / 3).

use super::dense::{dot, subtract_combination};
use super::panels::{subtract_leading, subtract_triangle_of};

/// Rows that are factored at once.
const BLOCK: usize = 32;
/// Steps to an eigenvalue; what they are short of it is no power of ten.
const STEPS: usize = 30;

/// A factor L of a matrix of n columns; columns of which nothing is left have a row of zeros.
#[derive(Clone, Debug, Default)]
pub struct Factor {
    size: usize,
    /// Row n - 1 - k of L is row k here, of which the first n - k entries count.
    rows: Vec<f64>,
    /// Columns that are not left out.
    pub rank: usize,
}

impl Factor {
    /// Factor a matrix of which `write_row` writes a row up to its diagonal.
    ///
    /// A column is left out if no more than `floor(i)` is left of its variance, given those
    /// after it.
    pub fn set_up(
        &mut self,
        size: usize,
        mut write_row: impl FnMut(usize, &mut [f64]),
        floor: impl Fn(usize) -> f64,
    ) {
        self.size = size;
        self.rank = 0;
        self.rows.clear();
        self.rows.resize(size * size, 0.0);
        for (k, row) in self.rows.chunks_exact_mut(size.max(1)).enumerate() {
            write_row(size - 1 - k, &mut row[..size - k]);
        }
        for first in (0..size).step_by(BLOCK) {
            let end = (first + BLOCK).min(size);
            let (above, rest) = self.rows.split_at_mut(first * size);
            let block = &mut rest[..(end - first) * size];
            subtract_leading(block, above, size, size - first);
            for k in first..end {
                let column = size - 1 - k;
                let (before, own) = block.split_at_mut((k - first) * size);
                let row = &mut own[..=column];
                let mut shares = [0.0; BLOCK];
                for (share, row) in shares.iter_mut().zip(before.chunks_exact(size)) {
                    *share = row[column];
                }
                subtract_combination(row, before, size, &shares[..k - first]);
                let left = row[column];
                // What is no number is left out, too.
                if left > floor(column) {
                    let root = left.sqrt();
                    row.iter_mut().for_each(|x| *x /= root);
                    self.rank += 1;
                } else {
                    row.fill(0.0);
                }
            }
        }
    }

    /// Row `column` of L, up to its diagonal.
    fn row(&self, column: usize) -> &[f64] {
        let k = self.size - 1 - column;
        &self.rows[k * self.size..k * self.size + column + 1]
    }

    /// Whether a column is not left out.
    pub fn has(&self, column: usize) -> bool {
        self.row(column)[column] > 0.0
    }

    /// Replace x by `H^-1 x`, 0 for columns that are left out.
    pub fn solve(&self, x: &mut [f64]) {
        for column in (0..self.size).rev() {
            let row = self.row(column);
            let (before, own) = x[..=column].split_at_mut(column);
            let share = if row[column] > 0.0 { own[0] / row[column] } else { 0.0 };
            own[0] = share;
            subtract_combination(before, &row[..column], column.max(1), &[share]);
        }
        for column in 0..self.size {
            let row = self.row(column);
            if row[column] > 0.0 {
                x[column] = (x[column] - dot(&row[..column], &x[..column])) / row[column];
            }
        }
    }

    /// `L x`.
    pub fn times(&self, x: &[f64]) -> Vec<f64> {
        (0..self.size).map(|column| dot(self.row(column), &x[..=column])).collect()
    }

    /// `L' x`.
    pub fn transposed_times(&self, x: &[f64]) -> Vec<f64> {
        let mut product = vec![0.0; self.size];
        for (column, share) in x.iter().enumerate() {
            product.iter_mut().zip(self.row(column)).for_each(|(sum, l)| *sum += share * l);
        }
        product
    }

    /// Row by row, `L^-1`, whose row i has i + 1 entries; of a matrix without columns left out.
    pub fn inverse(&self) -> Vec<f64> {
        let size = self.size;
        let mut inverse = vec![0.0; size * size];
        for first in (0..size).step_by(BLOCK) {
            let end = (first + BLOCK).min(size);
            let (above, rest) = inverse.split_at_mut(first * size);
            let block = &mut rest[..(end - first) * size];
            // Row i of L stands at n - 1 - i.
            subtract_triangle_of(block, above, size, &self.rows, (size - 1 - first) * size);
            for i in first..end {
                let row = self.row(i);
                let (before, own) = block.split_at_mut((i - first) * size);
                let own = &mut own[..=i];
                subtract_combination(&mut own[..i], before, size, &row[first..i]);
                own.iter_mut().for_each(|x| *x /= row[i]);
                own[i] = 1.0 / row[i];
            }
        }
        inverse
    }

    /// The least eigenvalue, of columns that are not left out: a little more, at most.
    pub fn least_eigenvalue(&self) -> f64 {
        let inverse = |x: &mut Vec<f64>| self.solve(x);
        1.0 / largest_eigenvalue(self.size, |j| self.has(j), inverse)
    }
}

/// The largest eigenvalue of a matrix, on some of its columns, which `times` replaces a vector
/// by the product with: a little less, at most.
pub fn largest_eigenvalue(
    size: usize,
    has: impl Fn(usize) -> bool,
    mut times: impl FnMut(&mut Vec<f64>),
) -> f64 {
    // Nothing that a matrix of data is orthogonal to.
    let start = |j: usize| if has(j) { 1.0 + (j as f64 * 1.7).sin() / 2.0 } else { 0.0 };
    let mut x: Vec<f64> = (0..size).map(start).collect();
    let mut largest = 0.0;
    for _ in 0..STEPS {
        let length = dot(&x, &x).sqrt();
        x.iter_mut().for_each(|x| *x /= length);
        times(&mut x);
        (0..size).filter(|&j| !has(j)).for_each(|j| x[j] = 0.0);
        largest = dot(&x, &x).sqrt();
        if !(largest > 0.0 && largest.is_finite()) {
            break;
        }
    }
    largest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Lcg;

    /// Products of random columns, of which every third repeats the one before if asked for.
    fn products(size: usize, rows: usize, repeats: bool) -> Vec<f64> {
        let mut numbers = Lcg::new(size as u64);
        let mut table: Vec<Vec<f64>> =
            (0..size).map(|_| (0..rows).map(|_| numbers.uniform() - 0.5).collect()).collect();
        for j in (1..size).filter(|j| repeats && j % 3 == 2) {
            table[j] = table[j - 1].clone();
        }
        (0..size * size).map(|at| dot(&table[at / size], &table[at % size])).collect()
    }

    fn factor(matrix: &[f64], size: usize, floor: f64) -> Factor {
        let mut factor = Factor::default();
        let write = |i: usize, row: &mut [f64]| row.copy_from_slice(&matrix[i * size..][..=i]);
        factor.set_up(size, write, |j| floor * matrix[j * (size + 1)]);
        factor
    }

    #[test]
    fn a_solution_meets_its_equations_and_the_inverse_its_definition() {
        for size in [1, 2, 5, 31, 32, 33, 100] {
            let matrix = products(size, 2 * size + 5, false);
            let factor = factor(&matrix, size, 0.0);
            assert_eq!(factor.rank, size);
            let mut x: Vec<f64> = (0..size).map(|j| j as f64 - 1.5).collect();
            factor.solve(&mut x);
            for (i, row) in matrix.chunks_exact(size).enumerate() {
                assert!((dot(row, &x) - (i as f64 - 1.5)).abs() < 1e-9);
            }
            let inverse = factor.inverse();
            for i in 0..size {
                for j in 0..=i {
                    let entry = |k: usize| factor.row(i)[k] * inverse[k * size + j];
                    let sum: f64 = (j..=i).map(entry).sum();
                    assert!((sum - f64::from(u8::from(i == j))).abs() < 1e-10);
                }
            }
        }
    }

    #[test]
    fn columns_that_depend_on_others_are_left_out() {
        for size in [3, 6, 40] {
            let factor = factor(&products(size, 2 * size + 5, true), size, 1e-12);
            assert_eq!(factor.rank, size - size / 3);
        }
    }

    #[test]
    fn eigenvalues_of_a_diagonal_are_its_entries() {
        let entries = [0.5, 2.0, 1e-7, 3.0];
        let matrix: Vec<f64> =
            (0..16).map(|at| if at / 4 == at % 4 { entries[at / 4] } else { 0.0 }).collect();
        let factor = factor(&matrix, 4, 0.0);
        assert!((factor.least_eigenvalue() / 1e-7 - 1.0).abs() < 1e-6);
        let times = |x: &mut Vec<f64>| x.iter_mut().zip(entries).for_each(|(x, e)| *x *= e);
        assert!((largest_eigenvalue(4, |_| true, times) / 3.0 - 1.0).abs() < 1e-6);
    }
}

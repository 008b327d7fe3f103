//! Householder reflections of the rows of a matrix, each of few rows, one below the other.
//!
//! Where rows that make an upper triangle lose columns, the columns behind them reach below the
//! diagonal. A reflection for each ends that. A block of them is made from its own columns, and then
//! turns some columns of its rows after the others, so that rows are read once for the block and
//! not for each reflection; what a column becomes does not depend on those beside it. Source:
//! Golub, Van Loan (2013), Matrix Computations, sections 5.1 and 6.5.2.

use super::dense::dot;
use crate::kernel::simd::vectorised;
use crate::kernel::threads::of_each;

/// Reflections of a block: its rows of 256 columns stay in a second cache.
pub const BLOCK: usize = 128;
/// Columns that are turned at once: their sums fill eight of the sixteen AVX2 registers.
const PANEL: usize = 32;
/// Columns of a part, which one thread turns.
const PART: usize = 256;
/// Products of doubles below which a second thread gains nothing: half a millisecond.
const WORTH_THREADS: usize = 2_000_000;

/// Reflections `I - v v'`: the k-th of rows k to k + `reach`, and whether row k then changes its
/// sign, so that the diagonal is positive.
#[derive(Clone, Debug, Default)]
pub struct Reflections {
    vectors: Vec<f64>,
    signs: Vec<f64>,
}

impl Reflections {
    /// Make a block of reflections, after which nothing is below the diagonal of as many columns of
    /// rows of `width`, the first of which has its diagonal in the first row.
    pub fn set_up(&mut self, rows: &[f64], width: usize, columns: &[usize], reach: usize) {
        self.vectors.clear();
        self.signs.clear();
        for columns in columns.chunks(PANEL) {
            let first = self.signs.len();
            let end = (first + columns.len() + reach) * width;
            let size = columns.len();
            let mut panel: Vec<f64> = rows[..end]
                .chunks_exact(width)
                .flat_map(|row| columns.iter().map(move |&j| row[j]))
                .collect();
            let mut panel: Vec<&mut [f64]> = panel.chunks_exact_mut(size).collect();
            turn(&mut panel, &self.vectors, &self.signs);
            for j in 0..size {
                self.append(panel[first + j..=first + j + reach].iter().map(|row| row[j]));
                let own = (first + j) * (reach + 1);
                let rows = &mut panel[first + j..=first + j + reach];
                turn(rows, &self.vectors[own..], &self.signs[first + j..]);
            }
        }
    }

    /// Append the reflection after which nothing of a column is left but its first number.
    fn append(&mut self, column: impl Iterator<Item = f64>) {
        let first = self.vectors.len();
        self.vectors.extend(column);
        let v = &mut self.vectors[first..];
        let sign = if v[0] < 0.0 { -1.0 } else { 1.0 };
        v[0] += sign * dot(v, v).sqrt();
        let square = dot(v, v);
        // What is nothing stays as it is.
        let share = if square > 0.0 { (2.0 / square).sqrt() } else { 0.0 };
        v.iter_mut().for_each(|v| *v *= share);
        self.signs.push(if square > 0.0 { -sign } else { 1.0 });
    }

    /// Turn rows of matrices, each given with its width and the columns that have something: on all
    /// cores where that is worth it.
    pub fn turn(&self, matrices: Vec<(&mut [f64], usize, usize)>) {
        let mut parts: Vec<Vec<&mut [f64]>> = Vec::new();
        let mut columns = 0;
        for (rows, width, used) in matrices {
            let first = parts.len();
            columns += used;
            parts.extend((0..used.div_ceil(PART)).map(|_| Vec::new()));
            for row in rows.chunks_exact_mut(width) {
                let own = row[..used].chunks_mut(PART);
                own.zip(&mut parts[first..]).for_each(|(row, part)| part.push(row));
            }
        }
        let turned = |mut part: Vec<&mut [f64]>| turn(&mut part, &self.vectors, &self.signs);
        match self.vectors.len() * columns * 2 < WORTH_THREADS {
            true => parts.into_iter().for_each(turned),
            false => _ = of_each(parts, turned),
        }
    }
}

vectorised! {
    /// Reflect rows, the k-th time those from k on.
    fn turn(rows: &mut [&mut [f64]], vectors: &[f64], signs: &[f64]) {
        let width = rows.first().map_or(0, |row| row.len());
        let whole = width / PANEL * PANEL;
        for from in (0..whole).step_by(PANEL) {
            turn_columns(rows, from, PANEL, vectors, signs);
        }
        if whole < width {
            turn_columns(rows, whole, width - whole, vectors, signs);
        }
    }
}

/// Reflect up to `PANEL` columns of rows.
#[inline(always)]
fn turn_columns(
    rows: &mut [&mut [f64]],
    from: usize,
    count: usize,
    vectors: &[f64],
    signs: &[f64],
) {
    let Some(size) = vectors.len().checked_div(signs.len()) else { return };
    for ((v, sign), k) in vectors.chunks_exact(size).zip(signs).zip(0..) {
        let rows = &mut rows[k..k + size];
        let mut sums = [0.0; PANEL];
        for (row, v) in rows.iter().zip(v) {
            let row = &row[from..from + count];
            sums[..count].iter_mut().zip(row).for_each(|(sum, x)| *sum += v * x);
        }
        for (row, v) in rows.iter_mut().zip(v) {
            let row = &mut row[from..from + count];
            row.iter_mut().zip(&sums[..count]).for_each(|(x, sum)| *x -= v * sum);
        }
        rows[0][from..from + count].iter_mut().for_each(|x| *x *= sign);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Lcg;

    #[test]
    fn reflections_end_what_is_below_the_diagonal_and_keep_products() {
        for (size, reach) in [(1, 1), (5, 2), (40, 1), (70, 11)] {
            let (mut numbers, rows) = (Lcg::new(size as u64), size + reach);
            let entry = |at: usize, x: f64| if at / size > at % size + reach { 0.0 } else { x };
            let before: Vec<f64> =
                (0..rows * size).map(|at| entry(at, numbers.uniform() - 0.5)).collect();
            let columns: Vec<usize> = (0..size).collect();
            let (mut all, mut after) = (Reflections::default(), before.clone());
            all.set_up(&before, size, &columns, reach);
            all.turn(vec![(&mut after, size, size)]);
            let error = 1e-13 * rows as f64;
            for i in 0..size {
                assert!(after[i * size + i] > 0.0);
                for j in 0..size {
                    let product = |x: &[f64]| -> f64 {
                        (0..rows).map(|k| x[k * size + i] * x[k * size + j]).sum()
                    };
                    assert!((product(&after) - product(&before)).abs() < error);
                    assert!(i <= j || after[i * size + j].abs() < error);
                }
            }
        }
    }
}

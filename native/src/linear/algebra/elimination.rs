//! Symmetric elimination that leaves out columns of which nothing is left.

use crate::kernel::simd::vectorised;

vectorised! {
    /// Eliminate column by column, in place, leaving out those whose pivot is too small.
    ///
    /// `rows` are rows of `floor.len()` doubles, the lower triangle of a symmetric block on
    /// top; afterwards entry (i, j), i >= j, is what it is given the columns before j.
    /// `inverse` gets one over each pivot, 0 for a column that is left out; `below` is
    /// overwritten.
    pub fn eliminate(
        rows: &mut [f64],
        floor: &[f64],
        inverse: &mut Vec<f64>,
        below: &mut Vec<f64>,
    ) {
        let size = floor.len();
        inverse.clear();
        for (j, &floor) in floor.iter().enumerate() {
            let pivot = rows[j * size + j];
            // A pivot that is no number is left out, too.
            let one_over = if pivot > floor { 1.0 / pivot } else { 0.0 };
            inverse.push(one_over);
            take_out(rows, size, j, one_over, below);
        }
    }
}

vectorised! {
    /// Eliminate column j, as `eliminate` does; `one_over` is 0 for one that is left out.
    pub fn eliminate_column(
        rows: &mut [f64],
        size: usize,
        j: usize,
        one_over: f64,
        below: &mut Vec<f64>,
    ) {
        take_out(rows, size, j, one_over, below);
    }
}

#[inline(always)]
fn take_out(rows: &mut [f64], size: usize, j: usize, one_over: f64, below: &mut Vec<f64>) {
    if one_over == 0.0 {
        return;
    }
    below.clear();
    below.extend(rows[(j + 1) * size..].chunks_exact(size).map(|row| row[j]));
    for (i, row) in rows[(j + 1) * size..].chunks_exact_mut(size).enumerate() {
        let end = (j + 2 + i).min(size);
        let share = below[i] * one_over;
        for (x, other) in row[j + 1..end].iter_mut().zip(&*below) {
            *x -= share * other;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pivots_are_what_is_left_of_each_column() {
        // Columns (1, 0), (1, 1), (2, 1), the last the sum of the others, and a row (3, 5).
        let mut rows = vec![1., 0., 0., 1., 2., 0., 2., 3., 5., 3., 8., 11.];
        let (mut inverse, mut below) = (Vec::new(), Vec::new());
        eliminate(&mut rows, &[1e-12; 3], &mut inverse, &mut below);
        assert_eq!(inverse, [1.0, 1.0, 0.0]);
        let squared: f64 = rows[9..].iter().zip(&inverse).map(|(x, inverse)| x * x * inverse).sum();
        assert_eq!(squared, 34.0);
    }
}

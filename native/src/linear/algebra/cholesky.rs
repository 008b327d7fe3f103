//! Cholesky factors of symmetric matrices, and what is solved with them.
//!
//! Matrices are square, row by row; of a symmetric one the lower triangle is read. A factor L,
//! `L L' = A`, has zeros above its diagonal.
//!
//! Source: Higham (2002), Accuracy and Stability of Numerical Algorithms, section 10.3, for the
//! factor with pivots.

use super::dense::{dot, subtract_combination};

/// The factor of a matrix of `size` columns; nothing where that is not positive definite.
pub fn cholesky(matrix: &[f64], size: usize) -> Option<Vec<f64>> {
    let mut factor = vec![0.0; size * size];
    for i in 0..size {
        let (above, row) = factor.split_at_mut(i * size);
        for j in 0..=i {
            let left = matrix[i * size + j];
            row[j] = if j < i {
                let other = &above[j * size..][..=j];
                (left - dot(&row[..j], &other[..j])) / other[j]
            } else {
                let pivot = left - dot(&row[..i], &row[..i]);
                // What is no number is no pivot.
                let is_definite = pivot > 0.0;
                if !is_definite {
                    return None;
                }
                pivot.sqrt()
            };
        }
    }
    Some(factor)
}

/// Columns that do not depend on each other up to a `least` variance, those with the most left
/// first, and the factor of them.
pub fn independent(matrix: &[f64], size: usize, least: f64) -> (Vec<usize>, Vec<f64>) {
    let mut left: Vec<f64> = (0..size).map(|j| matrix[j * size + j]).collect();
    let mut rows = vec![0.0; size * size];
    let (mut kept, mut rest): (Vec<usize>, Vec<usize>) = (Vec::new(), (0..size).collect());
    loop {
        // The first of those with the most.
        let most = |best: Option<usize>, at: usize| match best {
            Some(other) if left[rest[at]] <= left[rest[other]] => Some(other),
            _ => Some(at),
        };
        let Some(at) = (0..rest.len()).fold(None, most).filter(|at| left[rest[*at]] > least) else {
            break;
        };
        let (pivot, rank) = (rest.swap_remove(at), kept.len());
        rest.sort_unstable();
        let root = left[pivot].sqrt();
        rows[pivot * size + rank] = root;
        for &j in &rest {
            let (low, high) = (pivot.min(j), pivot.max(j));
            let known = dot(&rows[j * size..][..rank], &rows[pivot * size..][..rank]);
            let entry = (matrix[high * size + low] - known) / root;
            rows[j * size + rank] = entry;
            left[j] -= entry * entry;
        }
        kept.push(pivot);
    }
    let rank = kept.len();
    let factor = kept.iter().flat_map(|&j| &rows[j * size..][..rank]).copied().collect();
    (kept, factor)
}

/// Solve `L L' x = b` in place.
pub fn solve(factor: &[f64], b: &mut [f64]) {
    let size = b.len();
    for i in 0..size {
        let row = &factor[i * size..][..=i];
        b[i] = (b[i] - dot(&row[..i], &b[..i])) / row[i];
    }
    for i in (0..size).rev() {
        let row = &factor[i * size..][..=i];
        b[i] /= row[i];
        let share = b[i];
        b.iter_mut().zip(&row[..i]).for_each(|(x, entry)| *x -= share * entry);
    }
}

/// The inverse of a factor, as it is a lower triangle.
pub fn inverse_factor(factor: &[f64], size: usize) -> Vec<f64> {
    let mut inverse = vec![0.0; size * size];
    for i in 0..size {
        let (above, row) = inverse.split_at_mut(i * size);
        let shares = &factor[i * size..][..i];
        subtract_combination(&mut row[..i], above, size, shares);
        let pivot = factor[i * size + i];
        row[..i].iter_mut().for_each(|x| *x /= pivot);
        row[i] = 1.0 / pivot;
    }
    inverse
}

/// The inverse of `L L'`, both triangles of it.
pub fn inverse(factor: &[f64], size: usize) -> Vec<f64> {
    let lower = inverse_factor(factor, size);
    let mut found = vec![0.0; size * size];
    for row in lower.chunks_exact(size.max(1)).enumerate() {
        let (k, row) = row;
        for (i, share) in row[..=k].iter().enumerate() {
            let out = &mut found[i * size..][..=i];
            out.iter_mut().zip(row).for_each(|(x, entry)| *x += share * entry);
        }
    }
    for i in 0..size {
        for j in 0..i {
            found[j * size + i] = found[i * size + j];
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Lcg;

    /// The products of the columns of random rows, the last column the sum of two others.
    fn products(size: usize) -> Vec<f64> {
        let mut random = Lcg::new(size as u64);
        let rows: Vec<Vec<f64>> = (0..3 * size)
            .map(|_| {
                let mut row: Vec<f64> = (0..size).map(|_| random.uniform() - 0.4).collect();
                row[size - 1] = row[0] + row[1];
                row
            })
            .collect();
        let entry = |at: usize| rows.iter().map(|row| row[at / size] * row[at % size]).sum();
        (0..size * size).map(entry).collect()
    }

    fn times(a: &[f64], b: &[f64], size: usize) -> Vec<f64> {
        let entry =
            |at: usize| (0..size).map(|k| a[at / size * size + k] * b[k * size + at % size]).sum();
        (0..size * size).map(entry).collect()
    }

    fn assert_near(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        found.iter().zip(expected).for_each(|(a, b)| assert!((a - b).abs() < 1e-11, "{a} {b}"));
    }

    #[test]
    fn inverses_and_solutions_are_those_of_the_definition() {
        for size in [3, 4, 9, 17] {
            let mut matrix = products(size);
            matrix[size * size - 1] += 1.0;
            let factor = cholesky(&matrix, size).unwrap();
            let unit: Vec<f64> =
                (0..size * size).map(|at| f64::from(at % (size + 1) == 0)).collect();
            assert_near(&times(&inverse(&factor, size), &matrix, size), &unit);
            assert_near(&times(&inverse_factor(&factor, size), &factor, size), &unit);
            let mut x: Vec<f64> = (0..size).map(|j| j as f64).collect();
            let b = x.clone();
            solve(&factor, &mut x);
            let back: Vec<f64> = matrix.chunks_exact(size).map(|row| dot(row, &x)).collect();
            assert_near(&back, &b);
        }
        assert!(cholesky(&[1.0, 2.0, 2.0, 1.0], 2).is_none());
        assert!(cholesky(&[f64::NAN], 1).is_none());
    }

    #[test]
    fn a_column_that_depends_on_others_is_left_out() {
        for size in [3, 5, 12] {
            let matrix = products(size);
            let (kept, factor) = independent(&matrix, size, 1e-12);
            assert_eq!(kept.len(), size - 1);
            let rank = size - 1;
            let block: Vec<f64> = kept
                .iter()
                .flat_map(|&i| kept.iter().map(move |&j| (i, j)))
                .map(|(i, j)| matrix[i * size + j])
                .collect();
            assert_near(&factor, &cholesky(&block, rank).unwrap());
            // Of all columns that are left each pivot is the largest.
            let pivots: Vec<f64> = (0..rank).map(|k| factor[k * rank + k]).collect();
            assert!(pivots.windows(2).all(|two| two[0] >= two[1]));
        }
        assert_eq!(independent(&[], 0, 0.0), (Vec::new(), Vec::new()));
    }
}

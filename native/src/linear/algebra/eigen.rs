//! Roots of the inverse of small symmetric blocks, by their eigenvalues.
//!
//! Householder's tridiagonal form and QL steps with implicit shifts, O(s^3). Source: Bowdler,
//! Martin, Reinsch, Wilkinson (1968), Numerische Mathematik 11 (tred2 and tql2).

/// Eigenvalues below this share of the largest count as 0.
pub const EIGENVALUE_SHARE: f64 = 1e-12;
/// QL steps for one eigenvalue; two are common.
const STEPS: usize = 60;

/// Replace a symmetric block of `size` columns, row by row, by W with `W W' = A^+`.
///
/// Columns of W that belong to eigenvalues of nothing are 0.
pub fn inverse_root(block: &mut [f64], size: usize) {
    match block {
        [] => return,
        [value] => {
            *value = if *value > 0.0 { 1.0 / value.sqrt() } else { 0.0 };
            return;
        }
        _ => (),
    }
    let values = eigen(block, size);
    let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let floor = (EIGENVALUE_SHARE * largest).max(0.0);
    for row in block.chunks_exact_mut(size) {
        for (entry, value) in row.iter_mut().zip(&values) {
            *entry *= if *value > floor { 1.0 / value.sqrt() } else { 0.0 };
        }
    }
}

/// Replace a symmetric matrix, row by row, by its eigenvectors, one a column, and return the
/// eigenvalues, in no order.
pub fn eigen(matrix: &mut [f64], size: usize) -> Vec<f64> {
    let (mut diagonal, mut beside) = tridiagonal(matrix, size);
    diagonalise(matrix, &mut diagonal, &mut beside);
    diagonal
}

/// Replace a symmetric matrix by Q and return the diagonals of the tridiagonal `Q' A Q`.
fn tridiagonal(q: &mut [f64], n: usize) -> (Vec<f64>, Vec<f64>) {
    let (mut d, mut e) = (vec![0.0; n], vec![0.0; n]);
    for i in (1..n).rev() {
        let (above, row) = q.split_at_mut(i * n);
        let row = &mut row[..i];
        let scale: f64 = row.iter().map(|x| x.abs()).sum();
        if i == 1 || scale == 0.0 {
            e[i] = row[i - 1];
            continue;
        }
        row.iter_mut().for_each(|x| *x /= scale);
        let mut h: f64 = row.iter().map(|x| x * x).sum();
        let last = row[i - 1];
        let g = -h.sqrt().copysign(last);
        e[i] = scale * g;
        h -= last * g;
        row[i - 1] = last - g;
        let mut sum = 0.0;
        for j in 0..i {
            above[j * n + i] = row[j] / h;
            let left: f64 = above[j * n..=j * n + j].iter().zip(&*row).map(|(a, b)| a * b).sum();
            let below: f64 = (j + 1..i).map(|k| above[k * n + j] * row[k]).sum();
            e[j] = (left + below) / h;
            sum += e[j] * row[j];
        }
        let half = sum / (h + h);
        for j in 0..i {
            let f = row[j];
            let g = e[j] - half * f;
            e[j] = g;
            for k in 0..=j {
                above[j * n + k] -= f * e[k] + g * row[k];
            }
        }
        d[i] = h;
    }
    e[0] = 0.0;
    for i in 0..n {
        let (above, row) = q.split_at_mut(i * n);
        if i > 0 && d[i] != 0.0 {
            for j in 0..i {
                let sum: f64 = (0..i).map(|k| row[k] * above[k * n + j]).sum();
                (0..i).for_each(|k| above[k * n + j] -= sum * above[k * n + i]);
            }
        }
        d[i] = row[i];
        row[i] = 1.0;
        row[..i].fill(0.0);
        (0..i).for_each(|j| above[j * n + i] = 0.0);
    }
    (d, e)
}

/// Turn the columns of Q so that the tridiagonal matrix becomes diagonal.
fn diagonalise(q: &mut [f64], d: &mut [f64], e: &mut [f64]) {
    let n = d.len();
    e.rotate_left(1);
    for l in 0..n {
        for _ in 0..STEPS {
            let is_nothing = |m: &usize| {
                let near = d[*m].abs() + d[*m + 1].abs();
                e[*m].abs() <= f64::EPSILON * near
            };
            let m = (l..n - 1).find(is_nothing).unwrap_or(n - 1);
            if m == l {
                break;
            }
            step(q, d, e, l, m);
        }
    }
}

/// One QL step on rows `l` to `m`.
fn step(q: &mut [f64], d: &mut [f64], e: &mut [f64], l: usize, m: usize) {
    let n = d.len();
    let shift = (d[l + 1] - d[l]) / (2.0 * e[l]);
    let mut g = d[m] - d[l] + e[l] / (shift + shift.hypot(1.0).copysign(shift));
    let (mut sine, mut cosine, mut p) = (1.0, 1.0, 0.0);
    for i in (l..m).rev() {
        let (f, b) = (sine * e[i], cosine * e[i]);
        let r = f.hypot(g);
        e[i + 1] = r;
        if r == 0.0 {
            // The matrix falls apart here.
            d[i + 1] -= p;
            e[m] = 0.0;
            return;
        }
        (sine, cosine) = (f / r, g / r);
        g = d[i + 1] - p;
        let r = (d[i] - g) * sine + 2.0 * cosine * b;
        p = sine * r;
        d[i + 1] = g + p;
        g = cosine * r - b;
        for row in q.chunks_exact_mut(n) {
            let (x, y) = (row[i], row[i + 1]);
            row[i + 1] = sine * x + cosine * y;
            row[i] = cosine * x - sine * y;
        }
    }
    d[l] -= p;
    e[l] = g;
    e[m] = 0.0;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Lcg;

    /// A Gram matrix of `rank` random rows.
    fn gram(n: usize, rank: usize, seed: u64) -> Vec<f64> {
        let mut numbers = Lcg::new(seed);
        let rows: Vec<f64> = (0..n * rank).map(|_| numbers.uniform() - 0.5).collect();
        let entry = |i: usize, j: usize| -> f64 {
            (0..rank).map(|k| rows[k * n + i] * rows[k * n + j]).sum()
        };
        (0..n * n).map(|at| entry(at / n, at % n)).collect()
    }

    fn product(a: &[f64], b: &[f64], n: usize) -> Vec<f64> {
        let entry =
            |i: usize, j: usize| -> f64 { (0..n).map(|k| a[i * n + k] * b[k * n + j]).sum() };
        (0..n * n).map(|at| entry(at / n, at % n)).collect()
    }

    fn transposed(a: &[f64], n: usize) -> Vec<f64> {
        (0..n * n).map(|at| a[at % n * n + at / n]).collect()
    }

    #[test]
    fn a_root_of_the_pseudo_inverse_meets_its_definition() {
        for (n, rank) in [(1, 1), (2, 2), (2, 1), (3, 3), (7, 7), (7, 4), (30, 30), (30, 12)] {
            let matrix = gram(n, rank, n as u64);
            let mut root = matrix.clone();
            inverse_root(&mut root, n);
            let inverse = product(&root, &transposed(&root, n), n);
            let back = product(&product(&matrix, &inverse, n), &matrix, n);
            let worst =
                matrix.iter().zip(&back).fold(0.0, |worst: f64, (a, b)| worst.max((a - b).abs()));
            assert!(worst < 1e-9, "{n} {rank} {worst}");
            let trace: f64 = product(&inverse, &matrix, n).iter().step_by(n + 1).sum();
            assert!((trace - rank as f64).abs() < 1e-6, "{n} {rank} {trace}");
        }
    }

    #[test]
    fn diagonal_and_empty_blocks_have_their_roots() {
        let mut block = vec![4.0, 0.0, 0.0, 0.25];
        inverse_root(&mut block, 2);
        let inverse = product(&block, &transposed(&block, 2), 2);
        assert!((inverse[0] - 0.25).abs() < 1e-15 && (inverse[3] - 4.0).abs() < 1e-15);
        let mut nothing = vec![0.0; 9];
        inverse_root(&mut nothing, 3);
        assert_eq!(nothing, [0.0; 9]);
    }
}

//! Singular values of small square matrices, to their last digits.
//!
//! Pairs of columns are rotated until all are orthogonal: their lengths are the singular values.
//! Source: Hestenes (1958), Journal of the Society for Industrial and Applied Mathematics 6;
//! Demmel, Veselic (1992), SIAM Journal on Matrix Analysis 13, for the digits of small ones.

use super::dense::dot;

/// Rounds of rotations of all pairs; some six to ten are common.
const MOST_ROUNDS: usize = 60;

/// The singular values of a matrix, its columns one after another, in no order; O(size^3) a round.
///
/// The columns become orthogonal.
pub fn singular_values(columns: &mut [f64], size: usize) -> Vec<f64> {
    for _ in 0..MOST_ROUNDS {
        let mut is_turned = false;
        for q in 1..size {
            for p in 0..q {
                is_turned |= rotate(columns, size, p, q);
            }
        }
        if !is_turned {
            break;
        }
    }
    columns.chunks_exact(size.max(1)).map(|column| dot(column, column).sqrt()).collect()
}

/// Make columns p < q orthogonal; false if they are.
fn rotate(columns: &mut [f64], size: usize, p: usize, q: usize) -> bool {
    let (before, rest) = columns.split_at_mut(q * size);
    let (a, b) = (&mut before[p * size..(p + 1) * size], &mut rest[..size]);
    let (aa, bb, ab) = (dot(a, a), dot(b, b), dot(a, b));
    if ab.abs() <= f64::EPSILON * (aa * bb).sqrt() {
        return false;
    }
    let tau = (bb - aa) / (2.0 * ab);
    let tangent = 1.0f64.copysign(tau) / (tau.abs() + tau.hypot(1.0));
    let cosine = 1.0 / tangent.hypot(1.0);
    let sine = cosine * tangent;
    for (a, b) in a.iter_mut().zip(b) {
        (*a, *b) = (cosine * *a - sine * *b, sine * *a + cosine * *b);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_of_a_known_matrix_are_found() {
        // [[3, 0], [4, 5]]: squares of 45 and 5.
        let mut found = singular_values(&mut [3.0, 4.0, 0.0, 5.0], 2);
        found.sort_by(f64::total_cmp);
        assert!((found[0] - 5f64.sqrt()).abs() < 1e-15 && (found[1] - 45f64.sqrt()).abs() < 1e-14);
    }

    #[test]
    fn small_ones_keep_their_digits() {
        // Columns of length 1 with an angle of 2e-9: sqrt(2) and about sqrt(2) sin(1e-9).
        let angle: f64 = 2e-9;
        let mut columns = [1.0, 0.0, angle.cos(), angle.sin()];
        let found = singular_values(&mut columns, 2);
        let least = found.into_iter().fold(f64::INFINITY, f64::min);
        assert!((least / (2f64.sqrt() * 1e-9) - 1.0).abs() < 1e-7, "{least}");
    }
}

//! Which comoments rows can have: none exceeds what its columns vary (Cauchy and Schwarz).

use crate::kernel::triangle;

/// How far above the bound rounding may lift a comoment: of columns that are multiples of each
/// other it lies on the bound, and removing rows may cost all but six digits.
const ROUNDING: f64 = 1e-4;
/// Deviation that rounding may give to a constant column, as a share of its mean.
const CONSTANT_ROUNDING: f64 = 1e-12;
/// Deviation whose square a double can lose: the root of the least normal number. Residuals of
/// rows that are told for certain are as small.
const LOST: f64 = 1.491_668_146_240_041_3e-154;

/// The first two columns whose comoment no rows can have, and the most that it could be.
pub fn impossible(mean: &[f64], weight: f64, comoment: &[f64]) -> Option<(usize, usize, f64)> {
    let size = |j: usize| {
        let constant = CONSTANT_ROUNDING * mean[j];
        comoment[triangle(j) + j].sqrt().max(weight.sqrt() * constant.abs()).max(LOST)
    };
    for i in 0..mean.len() {
        let own = size(i);
        for j in 0..i {
            let most = own * size(j);
            if comoment[triangle(i) + j].abs() > most + ROUNDING * most {
                return Some((i, j, most));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comoment_beyond_its_variances_is_found() {
        assert_eq!(impossible(&[0.0; 2], 3.0, &[1.0, 5.0, 1.0]), Some((1, 0, 1.0)));
        assert_eq!(impossible(&[0.0; 2], 3.0, &[1.0, -1.0, 1.0]), None);
        assert_eq!(impossible(&[0.0; 2], 3.0, &[1e-300, 1e300, 1.0]), Some((1, 0, 1e-150)));
    }

    #[test]
    fn a_variance_that_a_double_cannot_hold_is_none() {
        assert_eq!(LOST * LOST, f64::MIN_POSITIVE);
        assert_eq!(impossible(&[0.0; 2], 3.0, &[0.0, 1e-180, 1.0]), None);
        assert!(impossible(&[0.0; 2], 3.0, &[0.0, 1e-150, 1.0]).is_some());
    }

    #[test]
    fn a_constant_column_has_rounding() {
        assert_eq!(impossible(&[1e8, 0.0], 1.0, &[0.0, 1e-8, 1.0]), None);
        assert!(impossible(&[1e8, 0.0], 1.0, &[0.0, 1.0, 1.0]).is_some());
    }
}

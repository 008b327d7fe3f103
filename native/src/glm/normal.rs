//! The normal distribution, with the digits of its tails.
//!
//! Source: Abramowitz, Stegun (1964), 7.1.23 for the tail far out.

use std::f64::consts::{PI, SQRT_2};

/// From where on the asymptotic series of the scaled tail has all digits.
const FAR: f64 = 10.0;
/// Its terms.
const TERMS: i32 = 12;
/// Newton's steps to a quantile; six are many.
const STEPS: usize = 50;

/// The probability beyond z on one side.
pub fn tail(z: f64) -> f64 {
    0.5 * libm::erfc(z / SQRT_2)
}

/// The logarithm of the density.
pub fn log_density(z: f64) -> f64 {
    -0.5 * (z * z + (2.0 * PI).ln())
}

/// The density at z >= 0 over the probability beyond it, which stay in proportion where both are 0.
pub fn hazard(z: f64) -> f64 {
    let x = z / SQRT_2;
    if x <= FAR {
        return log_density(z).exp() / tail(z);
    }
    // erfc(x) exp(x^2) sqrt(pi) x is a sum of (2k - 1)!! / (-2 x^2)^k.
    let (mut term, mut sum) = (1.0, 1.0);
    for k in 1..=TERMS {
        term *= -f64::from(2 * k - 1) / (2.0 * x * x);
        sum += term;
    }
    z / sum
}

/// The number below which a share p of the distribution lies, 0 < p < 1.
pub fn quantile(p: f64) -> f64 {
    if p > 0.5 {
        return -quantile(1.0 - p);
    }
    // Newton's steps by the logarithm of the tail, which is concave.
    let mut z = 0.0;
    for _ in 0..STEPS {
        let step = (tail(z) / p).ln() / hazard(z);
        z += step;
        if step.abs() <= f64::EPSILON * z.abs() {
            break;
        }
    }
    -z
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_and_quantiles_are_those_of_tables() {
        // Abramowitz, Stegun (1964), tables 26.1 and 26.2.
        for (z, q) in [(0.0, 0.5), (1.0, 0.158_655_253_931_457), (5.0, 2.866_515_718_791_94e-7)] {
            assert!((tail(z) / q - 1.0).abs() < 1e-12);
            assert!((quantile(q) + z).abs() < 1e-12);
        }
        assert!((quantile(0.975) - 1.959_963_984_540_054).abs() < 1e-14);
        assert_eq!(quantile(0.5), 0.0);
    }

    #[test]
    fn the_hazard_is_continuous_where_its_formula_changes() {
        let z = FAR * SQRT_2;
        assert!((hazard(z) / hazard(z * (1.0 + 1e-15)) - 1.0).abs() < 1e-12);
        // Mills: z < hazard < z + 1 / z.
        assert!(hazard(1e3) > 1e3 && hazard(1e3) < 1e3 + 1e-3);
    }
}

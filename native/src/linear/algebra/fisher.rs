//! Fisher's F: how rare a ratio of variances is, and the test of nested models by it.
//!
//! ```text
//! F = (RSS0 - RSS1) / (r1 - r0) / (RSS1 / (n - r1)) ~ F(r1 - r0, n - r1)
//! P(F > f) = I_x(n/2, m/2)        x = n / (n + m f), m and n degrees of freedom
//! ```
//!
//! I is the incomplete beta function, as of `student`. Source: Seber, Lee (2003), Linear Regression
//! Analysis, section 4.3; Press, Teukolsky, Vetterling, Flannery (2007), Numerical Recipes, 6.4.

use std::f64::consts::PI;

use super::student::{fraction, gamma_ratio};

/// The test that one least-squares model explains no more than another that it contains.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FTest {
    /// By how much the rank is raised.
    pub df: i64,
    /// Rows beyond the rank of the larger model.
    pub df_residual: i64,
    /// F; NaN where the larger model has no more rank, or no rows are left to judge it.
    pub statistic: f64,
    /// How often one as large comes by chance.
    pub p_value: f64,
}

impl FTest {
    /// The test of what columns gain: RSS of the larger model, in the unit of `gained`.
    pub fn of(gained: f64, left: f64, df: i64, df_residual: i64) -> FTest {
        if df <= 0 || df_residual <= 0 {
            return FTest { df, df_residual, statistic: f64::NAN, p_value: f64::NAN };
        }
        let (m, n) = (df as f64, df_residual as f64);
        let statistic = gained.max(0.0) / m / (left / n);
        FTest { df, df_residual, statistic, p_value: beyond(statistic, df, df_residual) }
    }
}

/// P(F > f) for m and n degrees of freedom, both >= 1; NaN for NaN.
fn beyond(f: f64, m: i64, n: i64) -> f64 {
    if f.is_nan() {
        return f64::NAN;
    }
    let (a, b) = (n as f64 / 2.0, m as f64 / 2.0);
    let ratio = f * (b / a);
    let (x, y) = (1.0 / (1.0 + ratio), 1.0 / (1.0 + 1.0 / ratio));
    if y == 0.0 || x == 0.0 {
        return if y == 0.0 { 1.0 } else { 0.0 };
    }
    let log = -a * ratio.ln_1p() + b * y.ln() - log_beta(a, m);
    if x < (a + 1.0) / (a + b + 2.0) {
        log.exp() / a * fraction(a, b, x)
    } else {
        1.0 - log.exp() / b * fraction(b, a, y)
    }
}

/// ln B(a, m / 2), from the ratios of gamma functions a half or a whole apart.
fn log_beta(a: f64, m: i64) -> f64 {
    // B(a, 1/2) = Gamma(a) sqrt(pi) / Gamma(a + 1/2), B(a, 1) = 1 / a.
    let (mut at, first) = match m % 2 {
        1 => (0.5, (PI.sqrt() / gamma_ratio(a)).ln()),
        _ => (1.0, -a.ln()),
    };
    // B(a, b + 1) = B(a, b) b / (a + b).
    let mut sum = first;
    while at < m as f64 / 2.0 {
        sum -= (a / at).ln_1p();
        at += 1.0;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linear::algebra::student::Student;

    #[test]
    fn one_degree_of_freedom_is_the_square_of_students_t() {
        for n in [1, 2, 3, 10, 101, 5000] {
            for t in [1e-3f64, 0.5, 1.0, 2.5, 12.0] {
                let (found, expected) = (beyond(t * t, 1, n), Student::new(n as f64).beyond(t));
                assert!((found / expected - 1.0).abs() < 1e-11, "{n} {t} {found} {expected}");
            }
        }
    }

    #[test]
    fn two_degrees_of_freedom_have_a_closed_form() {
        // P(F(2, n) > f) = (1 + 2 f / n)^(-n / 2).
        for n in [1, 2, 7, 40, 1000] {
            for f in [1e-6f64, 0.3, 1.0, 4.0, 30.0] {
                let expected = (-(n as f64) / 2.0 * (2.0 * f / n as f64).ln_1p()).exp();
                let found = beyond(f, 2, n);
                assert!((found / expected - 1.0).abs() < 1e-12, "{n} {f} {found} {expected}");
            }
        }
    }

    #[test]
    fn what_is_not_judged_is_no_number() {
        assert!(FTest::of(0.1, 0.5, 0, 5).p_value.is_nan());
        assert!(FTest::of(0.1, 0.5, 2, 0).statistic.is_nan());
        assert_eq!(FTest::of(0.1, 0.0, 1, 5).p_value, 0.0);
        assert_eq!(FTest::of(-1e-17, 0.5, 1, 5).p_value, 1.0);
    }
}

//! The mean of a linear predictor as the text of an SQL expression of DuckDB.
//!
//! It is that of `Family::mean`, and NULL where there is none. DuckDB has neither exp(x) - 1 nor the
//! normal distribution: `1 - exp(-e)` is `2 tanh(e / 2) / (1 + tanh(e / 2))`, which keeps the digits
//! of a small e, and the normal tail is `erfc(z) = t Q(t) exp(-z^2)`, where `t = 2 / (2 + z)` and Q,
//! smooth from t = 0 (z infinite) to 1, is a polynomial by Chebyshev's interpolation.
//!
//! Source: Press et al. (2007), section 6.2.2 for t.

use std::f64::consts::{PI, SQRT_2};

use super::family::{Family, Kind};
use super::link::{BORDER, LARGEST_EXPONENT, LARGEST_LOG, Link};
use super::normal;

/// Terms of Q: the last ones are rounding.
const TERMS: usize = 30;

impl Family {
    /// The mean of a predictor, which is an SQL expression.
    pub fn sql(&self, eta: &str) -> String {
        let positive = |mean: &str| format!("CASE WHEN {eta} > 0e0 THEN {mean} END");
        // The last mean, where a fit may end.
        let from_zero = |mean: &str| {
            format!("CASE WHEN {eta} > 0e0 THEN {mean} WHEN {eta} > -{BORDER:e} THEN 0e0 END")
        };
        let is_binomial = self.kind == Kind::Binomial;
        match self.link {
            Link::Identity if self.kind == Kind::Gaussian => eta.to_string(),
            Link::Identity if is_binomial => {
                format!(
                    "CASE WHEN {eta} > 0e0 AND {eta} < 1e0 THEN {eta} \
                     WHEN abs({eta}) < {BORDER:e} THEN 0e0 \
                     WHEN abs({eta} - 1e0) < {BORDER:e} THEN 1e0 END"
                )
            }
            Link::Identity => from_zero(eta),
            Link::Log if is_binomial => format!("exp({})", within(eta, (-BORDER).ln_1p())),
            Link::Log => format!("exp({})", within(eta, LARGEST_LOG)),
            Link::Inverse if self.kind == Kind::Gaussian => format!("(1e0 / nullif({eta}, 0e0))"),
            Link::Inverse => positive(&format!("1e0 / {eta}")),
            Link::InverseSquared => positive(&format!("1e0 / sqrt({eta})")),
            Link::Sqrt => from_zero(&format!("{eta} * {eta}")),
            Link::Logit => format!("(1e0 / (1e0 + exp(-{eta})))"),
            Link::Cauchit => bound(eta, &cauchit()),
            Link::Cloglog => bound(&half(eta), "2e0 * tanh(x) / (1e0 + tanh(x))"),
            Link::Loglog => format!("exp(-{})", exponential(&format!("(-{eta})"))),
            Link::Probit => bound(eta, &probit()),
        }
    }
}

/// Half of exp(eta), as `Link` bounds it.
fn half(eta: &str) -> String {
    format!("(0.5e0 * {})", exponential(eta))
}

fn exponential(eta: &str) -> String {
    format!("exp({})", within(eta, LARGEST_EXPONENT))
}

/// An expression, at least -`LARGEST_LOG` and at most `most`; NULL where it is NULL.
fn within(eta: &str, most: f64) -> String {
    format!(
        "CASE WHEN {eta} > {most:e} THEN {most:e} WHEN {eta} < -{LARGEST_LOG:e} THEN \
         -{LARGEST_LOG:e} ELSE {eta} END"
    )
}

/// An expression of x, which stands for another one, so that its text is there once.
fn bound(eta: &str, of_x: &str) -> String {
    format!("list_transform([{eta}], lambda x: {of_x})[1]")
}

fn cauchit() -> String {
    let unit = 1.0 / PI;
    format!(
        "CASE WHEN x > 1e0 THEN 1e0 - atan(1e0 / x) * {unit:e} WHEN x < -1e0 THEN \
         atan(-1e0 / x) * {unit:e} ELSE 0.5e0 + atan(x) * {unit:e} END"
    )
}

/// The normal distribution at x.
fn probit() -> String {
    let t = format!("(2e0 / (2e0 + abs(x) * {:e}))", 1.0 / SQRT_2);
    let powers = scaled_tail();
    let horner = |sum: String, c: &f64| format!("({sum} * (2e0 * {t} - 1e0) + ({c:e}))");
    let polynomial = powers.iter().skip(1).fold(format!("({:e})", powers[0]), horner);
    let tail = format!("0.5e0 * {t} * {polynomial} * exp(x * x * -0.5e0)");
    format!("CASE WHEN x > 0e0 THEN 1e0 - {tail} ELSE {tail} END")
}

/// The coefficients of Q in powers of 2 t - 1, that of the highest first.
fn scaled_tail() -> Vec<f64> {
    let size = (TERMS + 1) as f64;
    let point = |k: usize| (PI * (k as f64 + 0.5) / size).cos();
    // erfc(z) exp(z^2) / t, where the density over the hazard is half of erfc.
    let value = |x: f64| {
        let t = 0.5 * (x + 1.0);
        let z = (2.0 / t - 2.0) * SQRT_2;
        2.0 / ((2.0 * PI).sqrt() * normal::hazard(z)) / t
    };
    let values: Vec<f64> = (0..=TERMS).map(|k| value(point(k))).collect();
    let coefficient = |j: usize| {
        let term = |(k, value): (usize, &f64)| value * (j as f64 * point(k).acos()).cos();
        let sum: f64 = values.iter().enumerate().map(term).sum();
        if j == 0 { sum / size } else { 2.0 * sum / size }
    };
    // T_j = 2 x T_(j-1) - T_(j-2), in powers of x.
    let (mut before, mut own) = (vec![0.0; TERMS + 1], vec![0.0; TERMS + 1]);
    own[0] = 1.0;
    let mut powers = vec![0.0; TERMS + 1];
    for j in 0..=TERMS {
        let share = coefficient(j);
        powers.iter_mut().zip(&own).for_each(|(power, c)| *power += share * c);
        let twice = if j == 0 { 1.0 } else { 2.0 };
        let shifted = [0.0].into_iter().chain(own.iter().copied());
        let next = shifted.zip(&before).map(|(c, before)| twice * c - before);
        let next: Vec<f64> = next.take(TERMS + 1).collect();
        (before, own) = (own, next);
    }
    powers.reverse();
    powers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_polynomial_has_the_digits_of_the_normal_tail() {
        let powers = scaled_tail();
        for z in [0.0, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0] {
            let t = 2.0 / (2.0 + z / SQRT_2);
            let q = powers.iter().fold(0.0, |sum, c| sum * (2.0 * t - 1.0) + c);
            let tail = 0.5 * t * q * (-0.5 * z * z).exp();
            // exp(-450) keeps its digits but for those of 450.
            assert!((tail / normal::tail(z) - 1.0).abs() < 1e-12, "{z}");
        }
    }

    #[test]
    fn a_mean_is_written_by_the_link() {
        let sql = |family: &str| Family::parse(family).unwrap().sql("eta");
        assert_eq!(sql("gaussian"), "eta");
        assert_eq!(sql("binomial"), "(1e0 / (1e0 + exp(-eta)))");
        let of_sqrt = "CASE WHEN eta > 0e0 THEN eta * eta WHEN eta > -1e-10 THEN 0e0 END";
        assert_eq!(sql("poisson(sqrt)"), of_sqrt);
        assert_eq!(sql("gamma(inverse)"), "CASE WHEN eta > 0e0 THEN 1e0 / eta END");
    }
}

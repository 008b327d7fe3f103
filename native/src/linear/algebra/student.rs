//! Student's t: how rare a statistic is, and how far a share of all reach.
//!
//! ```text
//! P(|T| > t) = I_x(n/2, 1/2)          x = n / (n + t^2)
//! ```
//!
//! I is the incomplete beta function, by its continued fraction: Press, Teukolsky, Vetterling,
//! Flannery (2007), Numerical Recipes, 6.4 and 6.14. It takes some times root n terms, so that for
//! many degrees of freedom the distribution is the normal one of a statistic that is nearly t:
//! Hill (1970), Algorithm 395, Communications of the ACM 13. Both keep twelve digits, also far out
//! in the tails.

use std::f64::consts::{PI, SQRT_2};

/// From here on the series of `gamma_ratio` has all digits of a double.
const SERIES_FROM: f64 = 40.0;
/// From here on Hill's normal statistic keeps twelve digits for every t up to 35.
const NORMAL_FROM: f64 = 10_000.0;
/// Terms of the fraction; it needs some times the root of the degrees of freedom at most.
const MOST_TERMS: usize = 10_000;
/// Rounds of a quantile: each adds a bit where the tails are heaviest.
const MOST_ROUNDS: usize = 1100;

/// Student's t with some degrees of freedom.
#[derive(Clone, Copy, Debug)]
pub struct Student {
    /// Degrees of freedom, > 0; of a ridge they need not be whole.
    free: f64,
    /// 1 / B(free / 2, 1/2).
    scale: f64,
}

impl Student {
    /// The distribution of some degrees of freedom > 0, of others that of 1.
    pub fn new(free: f64) -> Student {
        let free = if free > 0.0 { free } else { 1.0 };
        Student { free, scale: gamma_ratio(free / 2.0) / PI.sqrt() }
    }

    /// Whether it is that of some degrees of freedom.
    pub fn is_of(&self, free: f64) -> bool {
        self.free == free
    }

    /// P(|T| > |t|); NaN for NaN.
    pub fn beyond(&self, t: f64) -> f64 {
        if t.is_nan() {
            return f64::NAN;
        }
        if self.free >= NORMAL_FROM {
            return libm::erfc(self.normal(t) / SQRT_2);
        }
        let (a, b) = (self.free / 2.0, 0.5);
        // t^2 / n, whose square may be no double.
        let r = t.abs() / self.free.sqrt();
        let (x, y) = (1.0 / (1.0 + r * r), 1.0 / (1.0 + (1.0 / r) / r));
        let log = if r > 1e8 { 2.0 * r.ln() } else { (r * r).ln_1p() };
        let front = (-a * log).exp() * y.sqrt() * self.scale;
        if x < (a + 1.0) / (a + b + 2.0) {
            front / a * fraction(a, b, x)
        } else {
            1.0 - front / b * fraction(b, a, y)
        }
    }

    /// The normal statistic that is as rare as t.
    fn normal(&self, t: f64) -> f64 {
        let a = self.free - 0.5;
        let b = 48.0 * a * a;
        let y = a * (t * t / self.free).ln_1p();
        let top = (((-0.4 * y - 3.3) * y - 24.0) * y - 85.5) / (0.8 * y * y + 100.0 + b);
        ((top + y + 3.0) / b + 1.0) * y.sqrt()
    }

    /// What |T| does not exceed with a probability, in (0, 1).
    ///
    /// Newton's method from 0: the tail is convex, so that no step goes too far.
    pub fn within(&self, probability: f64) -> f64 {
        let rare = 1.0 - probability;
        let mut t: f64 = 0.0;
        for _ in 0..MOST_ROUNDS {
            let log = (t * t / self.free).ln_1p();
            let density = self.scale / self.free.sqrt() * (-(self.free + 1.0) / 2.0 * log).exp();
            let step = (self.beyond(t) - rare) / (2.0 * density);
            t += step.max(0.0);
            if step <= f64::EPSILON * t {
                break;
            }
        }
        t
    }
}

/// Gamma(a + 1/2) / Gamma(a), a > 0.
pub fn gamma_ratio(a: f64) -> f64 {
    // Gamma(a + 1/2) / Gamma(a) = (a / (a + 1/2)) Gamma(a + 3/2) / Gamma(a + 1).
    let (mut at, mut factor) = (a, 1.0);
    while at < SERIES_FROM {
        factor *= at / (at + 0.5);
        at += 1.0;
    }
    let terms = [
        1.0,
        -1.0 / 8.0,
        1.0 / 128.0,
        5.0 / 1024.0,
        -21.0 / 32768.0,
        -399.0 / 262_144.0,
        869.0 / 4_194_304.0,
        39325.0 / 33_554_432.0,
    ];
    factor * at.sqrt() * terms.iter().rev().fold(0.0, |sum, term| sum / at + term)
}

/// The continued fraction of the incomplete beta function, by Lentz's method.
pub fn fraction(a: f64, b: f64, x: f64) -> f64 {
    let away = |value: f64| if value.abs() < f64::MIN_POSITIVE { f64::MIN_POSITIVE } else { value };
    let (mut c, mut d) = (1.0, 1.0 / away(1.0 - (a + b) * x / (a + 1.0)));
    let mut found = d;
    for m in (1..MOST_TERMS).map(|m| m as f64) {
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / away(1.0 + even * d);
        c = away(1.0 + even / c);
        found *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / away(1.0 + odd * d);
        c = away(1.0 + odd / c);
        found *= d * c;
        if (d * c - 1.0).abs() <= f64::EPSILON {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_and_two_degrees_of_freedom_have_closed_forms() {
        for t in [0.0f64, 1e-3, 0.5, 1.0, 3.0, 40.0, 1e5, 1e12, 1e200] {
            let one = 2.0 / PI * (1.0 / t).atan();
            let root = (2.0 + t * t).sqrt();
            let two = 2.0 / (root * (root + t));
            for (free, expected) in [(1.0, one), (2.0, two)] {
                let found = Student::new(free).beyond(-t);
                let near = (found / expected - 1.0).abs() < 1e-13 || expected < 1e-300;
                assert!(near, "{free} {t} {found} {expected}");
            }
        }
    }

    #[test]
    fn a_quantile_has_its_share_within() {
        for free in [0.5, 1.0, 2.0, 2.999_999_999_997_7, 5.0, 30.0, 1000.5, 1e7] {
            let student = Student::new(free);
            for level in [1e-6, 0.5, 0.95, 0.999, 1.0 - 1e-12] {
                let left = student.beyond(student.within(level));
                assert!((left - (1.0 - level)).abs() < 1e-12, "{free} {level} {left}");
            }
        }
    }

    #[test]
    fn many_degrees_of_freedom_are_nearly_normal() {
        // The tail of the normal distribution, 2 (1 - Phi(3)).
        let found = Student::new(1e12).beyond(3.0);
        assert!((found / 0.002_699_796_063_260_188_6 - 1.0).abs() < 1e-10, "{found}");
    }

    #[test]
    fn both_ways_agree_where_they_meet() {
        let fraction = Student::new(NORMAL_FROM - 1.0);
        for t in [0.0, 1e-3, 0.5, 2.0, 9.0, 30.0] {
            let (found, near) = (fraction.beyond(t), libm::erfc(fraction.normal(t) / SQRT_2));
            assert!((found / near - 1.0).abs() < 1e-12, "{t} {found} {near}");
        }
    }
}

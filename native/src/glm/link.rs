//! Links: the mean of a linear predictor, and how steep it is there.
//!
//! Source: McCullagh, Nelder (1989), sections 2.2 and 4.3.

use std::f64::consts::PI;

use super::normal;

/// Largest logarithm of a mean, either way: no table counts to e^100, and sums of products of such
/// means stay finite, so that a step that far is seen to be a bad one.
pub const LARGEST_LOG: f64 = 100.0;
/// Largest exponent of the complementary log-log: exp of it leaves a probability that is not 0.
pub const LARGEST_EXPONENT: f64 = 6.5;
/// How far from the last mean allowed, where the row's own likelihood is largest, a predictor counts
/// as there: nothing is left to gain of that row, and its weight stays a number.
pub const BORDER: f64 = 1e-10;

/// What a linear predictor is a function of the mean of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Link {
    /// The mean itself.
    Identity,
    /// Its logarithm.
    Log,
    /// 1 over it.
    Inverse,
    /// 1 over its square.
    InverseSquared,
    /// Its root.
    Sqrt,
    /// The logarithm of the odds.
    Logit,
    /// The quantile of the normal distribution.
    Probit,
    /// log(-log(1 - mean)).
    Cloglog,
    /// -log(-log(mean)).
    Loglog,
    /// The quantile of Cauchy's distribution.
    Cauchit,
}

/// Links by the name that users give.
pub const LINKS: [(&str, Link); 10] = [
    ("identity", Link::Identity),
    ("log", Link::Log),
    ("inverse", Link::Inverse),
    ("inverse_squared", Link::InverseSquared),
    ("sqrt", Link::Sqrt),
    ("logit", Link::Logit),
    ("probit", Link::Probit),
    ("cloglog", Link::Cloglog),
    ("loglog", Link::Loglog),
    ("cauchit", Link::Cauchit),
];

/// A probability with the digits of both tails.
#[derive(Clone, Copy, Debug)]
pub struct Tails {
    /// The probability of 1.
    pub p: f64,
    /// Logarithms of the probabilities of 1 and of 0.
    pub logs: [f64; 2],
    /// The slope of the probability, over that of 1 and over that of 0.
    pub steep: [f64; 2],
}

impl Tails {
    /// Of the tail on the side of the predictor, q its probability, and of the other one.
    fn of_side(eta: f64, q: f64, logs: [f64; 2], steep: [f64; 2]) -> Tails {
        match eta > 0.0 {
            true => Tails { p: 1.0 - q, logs: [logs[1], logs[0]], steep: [steep[1], steep[0]] },
            false => Tails { p: q, logs, steep },
        }
    }
}

impl Link {
    /// The name that users give.
    pub fn name(self) -> &'static str {
        LINKS.iter().find(|(_, link)| *link == self).map_or("", |(name, _)| name)
    }

    /// The mean of a predictor and its slope; nothing where there is none. Of probabilities `tails`
    /// has more digits.
    pub fn mean(self, eta: f64) -> Option<(f64, f64)> {
        match self {
            Link::Identity => Some((eta, 1.0)),
            Link::Log => {
                let mean = eta.clamp(-LARGEST_LOG, LARGEST_LOG).exp();
                Some((mean, mean))
            }
            Link::Inverse => (eta != 0.0).then(|| (1.0 / eta, -1.0 / (eta * eta))),
            Link::InverseSquared => {
                (eta > 0.0).then(|| (1.0 / eta.sqrt(), -0.5 / (eta * eta.sqrt())))
            }
            Link::Sqrt => (eta > 0.0).then_some((eta * eta, 2.0 * eta)),
            _ => self.tails(eta).map(|tails| (tails.p, tails.p * tails.steep[0])),
        }
    }

    /// The probability of a predictor; nothing where there is none.
    pub fn tails(self, eta: f64) -> Option<Tails> {
        Some(match self {
            Link::Logit => {
                let small = (-eta.abs()).exp();
                let sure = 1.0 / (1.0 + small);
                let log_sure = -small.ln_1p();
                let (q, other) = (small * sure, sure);
                Tails::of_side(eta, q, [log_sure - eta.abs(), log_sure], [other, q])
            }
            Link::Probit => {
                let z = eta.abs();
                let (q, hazard) = (normal::tail(z), normal::hazard(z));
                let log_q = normal::log_density(z) - hazard.ln();
                let density = normal::log_density(z).exp();
                Tails::of_side(eta, q, [log_q, (-q).ln_1p()], [hazard, density / (1.0 - q)])
            }
            Link::Cauchit => {
                let z = eta.abs();
                let angle = if z > 1.0 { (1.0 / z).atan() } else { 0.5 * PI - z.atan() };
                let (q, slope) = (angle / PI, 1.0 / (PI * (1.0 + z * z)));
                Tails::of_side(eta, q, [q.ln(), (-q).ln_1p()], [slope / q, slope / (1.0 - q)])
            }
            Link::Cloglog => {
                let (e, q, p) = double_exponential(eta);
                Tails { p, logs: [p.ln(), -e], steep: [e * q / p, e] }
            }
            Link::Loglog => {
                let (e, p, q) = double_exponential(-eta);
                Tails { p, logs: [-e, q.ln()], steep: [e, e * p / q] }
            }
            Link::Log => {
                let log = eta.clamp(-LARGEST_LOG, (-BORDER).ln_1p());
                let (p, q) = (log.exp(), -log.exp_m1());
                Tails { p, logs: [log, q.ln()], steep: [1.0, p / q] }
            }
            Link::Identity if eta > 0.0 && eta < 1.0 => Tails {
                p: eta,
                logs: [eta.ln(), (-eta).ln_1p()],
                steep: [1.0 / eta, 1.0 / (1.0 - eta)],
            },
            _ => return None,
        })
    }

    /// The predictor of a mean; NaN where there is none.
    pub fn predictor(self, mean: f64) -> f64 {
        match self {
            Link::Identity => mean,
            Link::Log => mean.ln(),
            Link::Inverse => 1.0 / mean,
            Link::InverseSquared => 1.0 / (mean * mean),
            Link::Sqrt => mean.sqrt(),
            Link::Logit => mean.ln() - (-mean).ln_1p(),
            Link::Probit => normal::quantile(mean),
            Link::Cloglog => (-(-mean).ln_1p()).ln(),
            Link::Loglog => -(-mean.ln()).ln(),
            Link::Cauchit => (PI * (mean - 0.5)).tan(),
        }
    }
}

/// e = exp(eta), exp(-e) and 1 - exp(-e).
fn double_exponential(eta: f64) -> (f64, f64, f64) {
    let e = eta.clamp(-LARGEST_LOG, LARGEST_EXPONENT).exp();
    (e, (-e).exp(), -(-e).exp_m1())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slope_is_that_of_the_mean_and_the_predictor_its_inverse() {
        for (name, link) in LINKS {
            for eta in [0.2, 0.7, 0.95] {
                let eta = if link == Link::Log { -eta } else { eta };
                let at = |eta: f64| link.mean(eta).unwrap().0;
                let (mean, slope) = link.mean(eta).unwrap();
                let near = (at(eta + 1e-6) - at(eta - 1e-6)) / 2e-6;
                assert!((slope / near - 1.0).abs() < 1e-8, "{name}");
                assert!((link.predictor(mean) - eta).abs() < 1e-13, "{name}");
            }
        }
    }

    #[test]
    fn tails_have_their_digits_far_out() {
        for (name, link) in LINKS.into_iter().filter(|(_, link)| link.tails(0.5).is_some()) {
            for eta in [-30.0, -8.0, -0.3, 0.3, 8.0, 30.0] {
                let Some(tails) = link.tails(eta) else { continue };
                let [p, q] = tails.logs.map(f64::exp);
                assert!((p + q - 1.0).abs() < 1e-15, "{name} {eta}");
                // Both times their probabilities are the slope.
                if p > 0.0 && q > 0.0 {
                    let (a, b) = (tails.steep[0] * p, tails.steep[1] * q);
                    assert!((a / b - 1.0).abs() < 1e-12, "{name} {eta} {a} {b}");
                }
            }
        }
    }
}

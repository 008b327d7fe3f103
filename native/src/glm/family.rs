//! Families: a distribution of the target and a link, as formulas of a row.
//!
//! ```text
//! weight (dmu/deta)^2 / V(mu)      working residual (y - mu) / (dmu/deta)      deviance
//! ```
//!
//! | family | V | deviance |
//! |---|---|---|
//! | gaussian | 1 | `(y - mu)^2` |
//! | binomial | `mu (1 - mu)` | `-2 (y log(mu) + (1 - y) log(1 - mu))` |
//! | poisson | `mu` | `2 (y log(y / mu) - y + mu)` |
//! | gamma | `mu^2` | `2 (y / mu - 1 - log(y / mu))` |
//! | inverse_gaussian | `mu^3` | `(y - mu)^2 / (y mu^2)` |
//! | tweedie(p) | `mu^p` | `2 (y^(2-p) / ((1-p)(2-p)) - y mu^(1-p) / (1-p) + mu^(2-p) / (2-p))` |
//! | negative_binomial(a) | `mu + a mu^2` | `2 (y log(y / mu) - (y + 1/a) log((1 + a y) / (1 + a mu)))` |
//!
//! The twin of the formulas in `dbselect/glm/`. Source: McCullagh,
//! Nelder (1989), chapters 2, 4, 6, 8 and 9; Jorgensen (1987), JRSS B 49; Hilbe (2011).

use super::link::{BORDER, Link};

/// Smallest weight of a row, as that of a probability 1e-12 from certain: it keeps the working
/// residual below 1e12, which leaves sums of products far from overflow.
const WEIGHT_FLOOR: f64 = 1e-12;
/// Deviance of a row whose predictor has no mean: more than any that has one.
pub const FAR: f64 = 1e100;
/// Of a number below, the square times the least weight of a row is rounded.
const LEAST: f64 = 1e-140;

/// The distribution of the target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Normal errors.
    Gaussian,
    /// 0 or 1.
    Binomial,
    /// The variance is that power of the mean.
    Power(f64),
    /// The variance is the mean and that many of its squares.
    NegativeBinomial(f64),
}

/// A family and its link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Family {
    /// The text before the brackets.
    pub name: &'static str,
    /// The distribution.
    pub kind: Kind,
    /// The link.
    pub link: Link,
}

/// What a pass computes of a row.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// How much its working residual counts; > 0.
    pub weight: f64,
    /// The working residual.
    pub residual: f64,
    /// What it adds to the deviance.
    pub deviance: f64,
}

impl Family {
    /// Whether the target may be one of two levels.
    pub fn is_binomial(&self) -> bool {
        self.kind == Kind::Binomial
    }

    /// Whether the deviance is a quadratic function of the coefficients.
    pub fn is_quadratic(&self) -> bool {
        self.kind == Kind::Gaussian && self.link == Link::Identity
    }

    /// Whether the expected information is the curvature itself.
    pub fn is_canonical(&self) -> bool {
        let canonical = match self.kind {
            Kind::Gaussian => Link::Identity,
            Kind::Binomial => Link::Logit,
            Kind::Power(1.0) => Link::Log,
            Kind::Power(2.0) => Link::Inverse,
            Kind::Power(3.0) => Link::InverseSquared,
            _ => return false,
        };
        self.link == canonical
    }

    /// Whether the variance has a factor that the family does not fix.
    pub fn has_dispersion(&self) -> bool {
        match self.kind {
            Kind::Gaussian => true,
            Kind::Power(_) => self.name != "poisson",
            Kind::Binomial | Kind::NegativeBinomial(_) => false,
        }
    }

    /// Whether there is a mean at the predictor 0.
    pub fn is_at_zero(&self) -> bool {
        match self.link {
            Link::Identity => self.kind == Kind::Gaussian,
            Link::Log => self.kind != Kind::Binomial,
            Link::Inverse | Link::InverseSquared | Link::Sqrt => false,
            _ => true,
        }
    }

    /// Whether the mean is the exponential of the predictor, whatever that is.
    pub fn is_log(&self) -> bool {
        self.link == Link::Log && self.kind != Kind::Binomial
    }

    /// Whether a value of the target is allowed.
    pub fn allows(&self, y: f64) -> bool {
        match self.kind {
            Kind::Gaussian => true,
            Kind::Binomial => y == 0.0 || y == 1.0,
            Kind::Power(power) if power >= 2.0 => y > 0.0,
            Kind::Power(_) | Kind::NegativeBinomial(_) => y >= 0.0,
        }
    }

    /// The values that are allowed, in words.
    pub fn allowed(&self) -> &'static str {
        match self.kind {
            Kind::Gaussian => "a number",
            Kind::Binomial => "0/1 or boolean",
            Kind::Power(power) if power >= 2.0 => "> 0",
            Kind::Power(_) | Kind::NegativeBinomial(_) => ">= 0",
        }
    }

    /// The mean of a predictor; NaN where there is none.
    pub fn mean(&self, eta: f64) -> f64 {
        let (first, last) = self.borders();
        if let Some(border) = first.into_iter().chain(last).find(|at| (eta - at).abs() < BORDER)
            && self.mean_and_slope(eta).is_none()
        {
            return border;
        }
        self.mean_and_slope(eta).map_or(f64::NAN, |(mean, _)| mean)
    }

    /// The predictor of a mean; NaN where there is none.
    pub fn predictor(&self, mean: f64) -> f64 {
        let eta = self.link.predictor(mean);
        let back = self.mean_and_slope(eta).map_or(f64::NAN, |(mean, _)| mean);
        if eta.is_finite() && back.is_finite() { eta } else { f64::NAN }
    }

    fn mean_and_slope(&self, eta: f64) -> Option<(f64, f64)> {
        match self.kind {
            Kind::Binomial => self.link.tails(eta).map(|tails| (tails.p, tails.p * tails.steep[0])),
            Kind::Gaussian => self.link.mean(eta),
            // A mean is above 0.
            _ if self.link == Link::Log || eta > 0.0 => self.link.mean(eta),
            _ => None,
        }
    }

    /// The predictors of the first and the last mean, where the likelihood may be largest there: 0
    /// and 1, the means themselves but by the link log.
    fn borders(&self) -> (Option<f64>, Option<f64>) {
        match (self.kind, self.link) {
            (Kind::Gaussian, _) => (None, None),
            (Kind::Binomial, Link::Identity) => (Some(0.0), Some(1.0)),
            (Kind::Binomial, Link::Log) => (None, Some(0.0)),
            (_, Link::Identity | Link::Sqrt) => (Some(0.0), None),
            _ => (None, None),
        }
    }

    /// What a pass computes of a row.
    #[inline]
    pub fn row(&self, eta: f64, y: f64) -> Row {
        let (first, last) = self.borders();
        let at = |border: Option<f64>| border.filter(|at| (eta - at).abs() < BORDER);
        let inside = match (y == 0.0, y == 1.0 && self.kind == Kind::Binomial) {
            (true, _) => at(first).map(|at| at + BORDER),
            (_, true) => at(last).map(|at| at - BORDER),
            _ => None,
        };
        match inside {
            Some(inside) => Row { residual: 0.0, ..self.inner_row(inside, y) },
            None => self.inner_row(eta, y),
        }
    }

    #[inline]
    fn inner_row(&self, eta: f64, y: f64) -> Row {
        let far = |inside: f64| Row { deviance: FAR, ..self.inner_row(inside, y) };
        let (weight, score, deviance) = if self.kind == Kind::Binomial {
            let Some(tails) = self.link.tails(eta) else { return far(0.5) };
            let [of_one, of_none] = tails.steep;
            let (log, score) = match y > 0.0 {
                true => (tails.logs[0], of_one),
                false => (tails.logs[1], -of_none),
            };
            let is_far = self.link == Link::Log && eta > BORDER;
            (of_one * of_none, score, if is_far { FAR } else { -2.0 * log })
        } else {
            let Some((mean, slope)) = self.mean_and_slope(eta) else { return far(1.0) };
            let variance = self.variance(mean);
            (slope * slope / variance, (y - mean) * slope / variance, self.deviance(y, mean))
        };
        let weight = weight.max(WEIGHT_FLOOR);
        let residual = score / weight;
        let residual = if residual.abs() > LEAST { residual } else { 0.0 };
        Row { weight, residual, deviance }
    }

    fn variance(&self, mean: f64) -> f64 {
        match self.kind {
            Kind::Gaussian => 1.0,
            Kind::Binomial => mean * (1.0 - mean),
            Kind::Power(1.0) => mean,
            Kind::Power(2.0) => mean * mean,
            Kind::Power(3.0) => mean * mean * mean,
            Kind::Power(power) => mean.powf(power),
            Kind::NegativeBinomial(a) => mean * (1.0 + a * mean),
        }
    }

    fn deviance(&self, y: f64, mean: f64) -> f64 {
        let y_log = || if y > 0.0 { y * (y / mean).ln() } else { 0.0 };
        match self.kind {
            Kind::Gaussian => (y - mean) * (y - mean),
            Kind::Binomial => f64::NAN, // of the tails of the link
            Kind::Power(1.0) => 2.0 * (y_log() - (y - mean)),
            Kind::Power(2.0) => 2.0 * (y / mean - 1.0 - (y / mean).ln()),
            Kind::Power(3.0) => ((y - mean) / mean).powi(2) / y,
            Kind::Power(p) => {
                let own = if y > 0.0 { y.powf(2.0 - p) / ((1.0 - p) * (2.0 - p)) } else { 0.0 };
                let fitted = y * mean.powf(1.0 - p) / (1.0 - p) - mean.powf(2.0 - p) / (2.0 - p);
                2.0 * (own - fitted)
            }
            Kind::NegativeBinomial(a) => {
                let more = ((1.0 + a * y) / (1.0 + a * mean)).ln();
                2.0 * (y_log() - (y + 1.0 / a) * more)
            }
        }
    }
}

#[cfg(test)]
pub(in crate::glm) mod tests {
    use super::*;

    /// Families of all kinds.
    pub const TEXTS: [&str; 12] = [
        "gaussian",
        "gaussian(log)",
        "binomial",
        "binomial(probit)",
        "binomial(cauchit)",
        "poisson",
        "poisson(sqrt)",
        "gamma(inverse)",
        "inverse_gaussian(inverse_squared)",
        "tweedie(1.5)",
        "negative_binomial(0.8, identity)",
        "tweedie(2.5, inverse)",
    ];

    /// Half the slope of the deviance is the weight times the working residual, downwards.
    #[test]
    fn the_residual_is_the_slope_of_the_deviance() {
        for text in TEXTS {
            let family = Family::parse(text).unwrap();
            for y in [0.0, 1.0] {
                let y = if family.allows(y) { y } else { 0.5 };
                for eta in [0.3, 0.9] {
                    let at = |eta: f64| family.row(eta, y).deviance;
                    let slope = (at(eta + 1e-6) - at(eta - 1e-6)) / 2e-6;
                    let row = family.row(eta, y);
                    let own = -2.0 * row.weight * row.residual;
                    assert!((slope - own).abs() < 1e-7, "{text} {y} {eta}: {slope} {own}");
                }
            }
        }
    }

    #[test]
    fn a_predictor_without_a_mean_is_far() {
        for (text, eta) in [("gamma(inverse)", -1.0), ("binomial(identity)", 1.5)] {
            assert_eq!(Family::parse(text).unwrap().row(eta, 1.0).deviance, FAR);
        }
    }
}

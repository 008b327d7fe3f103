//! Which of some penalties an information criterion prefers.
//!
//! With n rows, r degrees of freedom with the intercept, J of what comes and goes and D columns,
//! and `L = -n/2 (log(2 pi RSS / n) + 1)`:
//!
//! ```text
//! AIC  = -2 L + 2 r                                    Akaike (1974)
//! BIC  = -2 L + r log n                                Schwarz (1978)
//! EBIC = BIC + 2 log binomial(J, held)                 Chen, Chen (2008), eq. 1
//! GIC  = -2 L + a r,   a = log(log n) log D            Fan, Tang (2013), section 4.1
//! Cp   = RSS / s2 - n + 2 r                            Mallows (1973)
//! adjusted r2 = 1 - (RSS / (n - r)) / (TSS / (n - 1))
//! ```
//!
//! s2 is RSS / (n - r) of the model on all columns. Degrees of freedom of the lasso: Zou, Hastie,
//! Tibshirani (2007), Annals of Statistics 35.

use std::f64::consts::PI;

/// Shares of the target's variance below this are rounding: a perfect fit counts as it.
const SMALLEST_SHARE: f64 = 1e-14;
/// GIC asks no less of a column than AIC, also for tables too narrow for its theory.
const SMALLEST_PENALTY: f64 = 2.0;

/// An information criterion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Criterion {
    /// Akaike's.
    Aic,
    /// Schwarz's.
    #[default]
    Bic,
    /// Extended, by Chen and Chen.
    Ebic,
    /// Generalised, by Fan and Tang.
    Gic,
    /// Mallows'.
    Cp,
    /// r2 for the degrees of freedom that are left.
    AdjustedR2,
}

/// What there is to choose from.
#[derive(Clone, Copy, Debug)]
pub struct Trials {
    /// n.
    pub rows: i64,
    /// TSS.
    pub total: f64,
    /// 1, or 0 through the origin.
    pub intercept: f64,
    /// J.
    pub units: usize,
    /// D.
    pub columns: usize,
    /// RSS / TSS of the model on all columns, and its degrees of freedom.
    pub left_all: f64,
    /// See above.
    pub degrees_all: f64,
}

impl Criterion {
    /// Criteria by the name that users give.
    pub const NAMES: [(&str, Criterion); 6] = [
        ("aic", Criterion::Aic),
        ("bic", Criterion::Bic),
        ("ebic", Criterion::Ebic),
        ("gic", Criterion::Gic),
        ("cp", Criterion::Cp),
        ("adjusted_r2", Criterion::AdjustedR2),
    ];

    /// The name that users give.
    pub fn name(self) -> &'static str {
        Criterion::NAMES.iter().find(|(_, one)| *one == self).map_or("", |(name, _)| name)
    }

    /// Its value, less is better; nothing where too few rows are left.
    ///
    /// `left` is RSS / TSS, `degrees` does without the intercept, `held` counts what is not 0.
    pub fn value(self, trials: &Trials, left: f64, degrees: f64, held: usize) -> Option<f64> {
        let (n, r) = (trials.rows as f64, trials.intercept + degrees);
        let left = left.max(SMALLEST_SHARE);
        let loss = n * ((2.0 * PI * left * trials.total / n).ln() + 1.0);
        let value = match self {
            Criterion::Aic => loss + 2.0 * r,
            Criterion::Bic => loss + r * n.ln(),
            Criterion::Ebic => {
                loss + r * n.ln() + 2.0 * log_binomial(trials.units as f64, held as f64)
            }
            Criterion::Gic => {
                let a = n.max(3.0).ln().ln() * (trials.columns.max(1) as f64).ln();
                loss + a.max(SMALLEST_PENALTY) * r
            }
            Criterion::Cp => {
                let free = n - trials.intercept - trials.degrees_all;
                let noise = trials.left_all.max(SMALLEST_SHARE) / free;
                if free > 0.0 { left / noise - n + 2.0 * r } else { f64::NAN }
            }
            Criterion::AdjustedR2 => left / (n - r) * (n - trials.intercept),
        };
        (n > r && !value.is_nan()).then_some(value)
    }
}

fn log_binomial(n: f64, k: f64) -> f64 {
    libm::lgamma(n + 1.0) - libm::lgamma(k + 1.0) - libm::lgamma(n - k + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn criteria_are_those_of_their_definitions() {
        let trials = Trials {
            rows: 100,
            total: 50.0,
            intercept: 1.0,
            units: 5,
            columns: 8,
            left_all: 0.2,
            degrees_all: 8.0,
        };
        let of = |criterion: Criterion| criterion.value(&trials, 0.4, 2.0, 2).unwrap();
        let loss = 100.0 * ((2.0 * PI * 0.2).ln() + 1.0);
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        near(of(Criterion::Aic), loss + 6.0);
        near(of(Criterion::Bic), loss + 3.0 * 100f64.ln());
        near(of(Criterion::Ebic) - of(Criterion::Bic), 2.0 * 10f64.ln());
        near(of(Criterion::Gic), loss + 3.0 * 100f64.ln().ln() * 8f64.ln());
        near(of(Criterion::Cp), 0.4 / (0.2 / 91.0) - 100.0 + 6.0);
        near(of(Criterion::AdjustedR2), 0.4 / 97.0 * 99.0);
        assert_eq!(Criterion::Aic.value(&trials, 0.4, 99.0, 2), None);
        for (name, one) in Criterion::NAMES {
            assert_eq!(one.name(), name);
        }
    }
}

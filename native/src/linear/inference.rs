//! Standard errors of the coefficients of one model, and the tests that rest on them.
//!
//! ```text
//! s2 = RSS / (n - r)          var(w) = s2 (X'X)^-1          t = w / se ~ t(n - r)
//! ```
//!
//! (X'X)^-1 is M'M in the columns' units; the entry of the intercept is 1 / weight +
//! mean' (X'X)^-1 mean. Source: Seber, Lee (2003), Linear Regression Analysis, chapters 3 and 4.

use super::columns::INTERCEPT;
use super::fit::Fitted;
use super::state::State;
use crate::linear::algebra::dense::dot;
use crate::linear::algebra::student::Student;
use crate::linear::problem::Gram;

/// Standard errors of a model.
#[derive(Clone, Debug, Default)]
pub struct Deviations {
    /// That of the intercept, if there is one.
    pub intercept: Option<f64>,
    /// One a column; NaN where it is aliased.
    pub columns: Vec<f64>,
    /// What a coefficient of 1 is in deviations of the target for one of the column; NaN where it
    /// is aliased, or the target has none.
    pub units: Vec<f64>,
    /// Sum of the squared residuals.
    pub left: f64,
    /// Standard deviation of the residuals; NaN where no row is left to estimate it.
    pub sigma: f64,
    /// n - r, rows that are left to estimate it; may be <= 0.
    pub free: i64,
}

/// The standard errors of least squares on what a state holds, `left` being its RSS.
pub fn deviations(state: &State, gram: &Gram, left: f64, intercept: bool) -> Deviations {
    let (problem, support) = (state.problem, state.support());
    let free = gram.rows - support.len() as i64 - i64::from(intercept);
    let variance = if free > 0 { left / free as f64 } else { f64::NAN };
    let mut columns = vec![f64::NAN; problem.width()];
    let mut squares = vec![0.0; support.len()];
    let shares = support.iter().map(|&column| problem.mean[column] / problem.spread[column]);
    let (shares, mut lever) = (shares.collect::<Vec<f64>>(), 0.0);
    for (k, row) in state.inverse().chunks_exact(problem.width().max(1)).enumerate() {
        squares.iter_mut().zip(&row[..=k]).for_each(|(sum, m)| *sum += m * m);
        lever += dot(&row[..=k], &shares[..=k]).powi(2);
    }
    let unit = (variance / gram.weight).sqrt();
    for (&column, square) in support.iter().zip(&squares) {
        columns[column] = unit * square.sqrt() / problem.spread[column];
    }
    let intercept = intercept.then(|| unit * (1.0 + lever).sqrt());
    Deviations { intercept, columns, units: Vec::new(), left, sigma: variance.sqrt(), free }
}

impl Deviations {
    /// Tell coefficients in deviations of columns and target; about 0 of a record for the origin.
    pub fn standardize(&mut self, gram: &Gram, target: usize, at: &[usize], aliased: &[bool]) {
        let spread = |column: usize| gram.comoment(column, column).sqrt();
        let all = spread(target);
        let unit = |(&column, &is_aliased): (&usize, &bool)| {
            if all > 0.0 && !is_aliased { spread(column) / all } else { f64::NAN }
        };
        self.units = at.iter().zip(aliased).map(unit).collect();
    }
}

/// A coefficient, how certain it is, and the test that it is 0; NaN where that is not defined.
#[derive(Clone, Copy, Debug)]
pub struct Term<'f> {
    /// `INTERCEPT`, or the column.
    pub name: &'f str,
    /// The coefficient.
    pub estimate: f64,
    /// Its standard error.
    pub std_error: f64,
    /// Their ratio.
    pub statistic: f64,
    /// How often one as large comes by chance, two-sided.
    pub p_value: f64,
    /// The coefficient in deviations of the target for one of the column.
    pub standardized: f64,
    /// Where its interval begins.
    pub low: f64,
    /// Where that ends.
    pub high: f64,
}

/// Student's t, which many models of a table share, and what it is within at a level.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tests {
    known: Option<(Student, f64, f64)>,
}

impl Tests {
    /// The tests of a model without a ridge, the intercept first.
    pub fn of<'f>(&mut self, fitted: &'f Fitted, level: f64) -> Vec<Term<'f>> {
        let Some(known) = &fitted.deviations else { return Vec::new() };
        let (student, reach) = self.at(known.free, level);
        let term = |(name, estimate, error, unit): (&'f str, f64, f64, f64)| {
            let statistic = estimate / error;
            Term {
                name,
                estimate,
                std_error: error,
                statistic,
                p_value: student.beyond(statistic),
                standardized: estimate * unit,
                low: estimate - error * reach,
                high: estimate + error * reach,
            }
        };
        let intercept = known.intercept.map(|error| (INTERCEPT, fitted.intercept, error, f64::NAN));
        let errors = known.columns.iter().zip(&known.units);
        let columns = fitted.columns.iter().zip(&fitted.coefficients).zip(errors);
        let columns = columns.map(|((name, w), (error, unit))| (name.as_str(), *w, *error, *unit));
        intercept.into_iter().chain(columns).map(term).collect()
    }

    fn at(&mut self, free: i64, level: f64) -> (Student, f64) {
        match self.known {
            Some((student, of, reach)) if student.is_of(free.max(1) as f64) && of == level => {
                (student, reach)
            }
            _ => {
                let student = Student::new(free as f64);
                let reach = student.within(level);
                self.known = Some((student, level, reach));
                (student, reach)
            }
        }
    }
}

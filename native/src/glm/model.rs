//! A fit in the units of the table: its problem, the model without columns, standard errors.
//!
//! With M'M the inverse of the information of the columns held, the intercept minimised out, a
//! coefficient b has the variance (M'M)_bb, and the intercept at the means of the columns
//! 1 / corner, apart from that; all over the sum of weights, times the dispersion.
//!
//! Source: McCullagh, Nelder (1989), section 4.4.

use super::family::FAR;
use super::newton::{Fit, Status};
use super::problem::{Expansion, Point, Problem};
use super::request::Request;
use super::rows::Rows;
use crate::linear::algebra::dense::dot;
use crate::linear::problem::{Gram, Linear, Raw, Target};
use crate::linear::state::{Buffers, CONDITION_LIMIT, State};

/// Share of the deviance that a step of the intercept would explain, below which it is settled.
const SETTLED: f64 = 1e-14;
/// Passes after which the intercept is taken as it is.
const INTERCEPT_PASSES: usize = 200;
/// Null deviance below which, a unit of weight, there is nothing to explain.
const ROUNDING_DEVIANCE: f64 = 1e-14;
/// What a tolerance is multiplied by where the link is not the canonical one: Fisher's scoring
/// errs by a share of the last step, not by its square.
const SCORING_SHARE: f64 = 1e-4;

/// Intercepts beside that of the mean offset which are tried in turn where a row has no mean
/// there, in units of the predictor.
fn shifts() -> impl Iterator<Item = f64> {
    (0..8).chain((-6..0).rev()).flat_map(|power| [-f64::powi(2.0, power), f64::powi(2.0, power)])
}

/// A problem and the model without columns; `data` is what the first pass found.
pub struct Start<'r> {
    /// What does not change.
    pub problem: Problem<'r>,
    /// The model without columns.
    pub null: Fit,
    /// Rows used.
    pub n_rows: i64,
    /// Mean of each column of the rows.
    pub means: Vec<f64>,
}

/// Set up the problem of some columns, given by their numbers among those of the rows.
///
/// The inner error is the reason why there is no model, one sentence.
pub fn start<'r>(
    request: &Request,
    rows: &'r Rows,
    at: Vec<usize>,
) -> Result<Result<Start<'r>, String>, String> {
    let family = request.family;
    let moments = rows.first()?;
    let mean = moments.exact_mean();
    let gram = Gram {
        rows: moments.rows as i64,
        skipped: rows.skipped() as i64,
        weight: moments.weight,
        mean: &mean.high,
        mean_low: &mean.low,
        comoment: &moments.comoment,
        missing: &[],
    };
    let target = rows.columns.len();
    let name = &request.target;
    let found = Target::at(name, target).usable(&gram, request.fields.intercept);
    let is_offset = !request.added().is_empty();
    match found {
        Err(reason) if gram.rows == 0 || !is_offset || gram.mean(target) == 0.0 => {
            return Ok(Err(reason));
        }
        _ => {}
    }
    let (mut linear, mut raw) = (Linear::default(), Raw::default());
    let about = match request.fields.intercept {
        true => gram,
        false => match raw.of(&gram) {
            Ok(raw) => raw,
            Err(reason) => return Ok(Err(reason)),
        },
    };
    linear.set_up(&about, target, &at, request.fields.ridge, request.fields.scale);
    let mut problem = Problem {
        rows,
        at,
        linear,
        weight: gram.weight,
        null_deviance: f64::NAN,
        tol: if family.is_canonical() { request.tol } else { request.tol * SCORING_SHARE },
        max_iter: request.max_iter,
        has_intercept: request.fields.intercept,
        is_canonical: family.is_canonical(),
        is_exact: family.is_quadratic(),
        bounded_weight: None,
    };
    let mut point = Point::default();
    if problem.has_intercept {
        point.intercept = family.predictor(gram.mean(target)) - rows.shift()?;
        if point.intercept.is_nan() {
            return Ok(Err(format!(
                "target '{name}' has the mean {}, which no predictor of family '{}' gives",
                gram.mean(target),
                family.text()
            )));
        }
    }
    let mut model = problem.expand(&[], &point)?;
    // An offset far from the mean one may leave a row without a mean; another intercept has one.
    let has_means = |model: &Expansion| model.deviance < FAR.sqrt() * problem.weight;
    let scale = family.predictor(gram.mean(target)).abs().max(1.0);
    for shift in shifts().filter(|_| is_offset) {
        if has_means(&model) {
            break;
        }
        let next = Point { intercept: point.intercept + scale * shift, coef: Vec::new() };
        if let Some(answer) = problem.tried(&[], &next).filter(has_means) {
            (point, model) = (next, answer);
        }
    }
    let mut share = 1.0;
    for _ in 1..INTERCEPT_PASSES {
        if share * model.settled * problem.weight <= SETTLED * model.deviance {
            break;
        }
        let next = Point { intercept: point.intercept + share * model.start, coef: Vec::new() };
        match problem.tried(&[], &next) {
            Some(answer) if answer.deviance <= model.deviance => {
                (point, model, share) = (next, answer, (2.0 * share).min(1.0));
            }
            _ => share *= 0.5,
        }
    }
    if model.deviance <= ROUNDING_DEVIANCE * problem.weight {
        return Ok(Err(format!(
            "target '{name}' is predicted exactly by the model without columns; there is nothing \
             to explain"
        )));
    }
    if model.deviance >= FAR.sqrt() * problem.weight {
        return Ok(Err(format!(
            "family '{}' has no mean for some rows without columns; take another link",
            family.text()
        )));
    }
    problem.null_deviance = model.deviance;
    problem.bounded_weight = (!family.is_at_zero()).then_some(model.corner);
    let status = Status::Converged;
    let (columns, dependent) = (Vec::new(), Vec::new());
    let (explained, steps, is_signed) = (0.0, 0, false);
    let null = Fit { columns, dependent, point, explained, status, steps, model, is_signed };
    Ok(Ok(Start { problem, null, n_rows: gram.rows, means: mean.high }))
}

/// How sure the coefficients of a fit are.
#[derive(Clone, Debug, Default)]
pub struct Precision {
    /// Standard error of the intercept; NaN if there is none.
    pub intercept: f64,
    /// One a column; NaN where it is aliased.
    pub columns: Vec<f64>,
    /// Whether each column depends linearly on columns before it.
    pub aliased: Vec<bool>,
    /// The factor of the variance: 1, or an estimate where the family does not fix it.
    pub dispersion: f64,
    /// Parameters, effective ones with a ridge.
    pub degrees: f64,
    /// Condition number of the columns.
    pub condition: f64,
    /// Share of the null deviance that signs of the coefficients cost; nothing without signs.
    pub price: Option<f64>,
}

/// How sure the coefficients of a fit are, by the information at its end.
pub fn precision(request: &Request, start: &Start, fit: &Fit) -> Precision {
    let Start { problem, n_rows, .. } = start;
    let Linear { mean, spread, .. } = &problem.linear;
    let size = fit.columns.len();
    let mut found = Precision {
        intercept: f64::NAN,
        columns: vec![f64::NAN; size],
        aliased: fit.dependent.clone(),
        degrees: f64::from(u8::from(problem.has_intercept)),
        condition: 1.0,
        dispersion: 1.0,
        price: None,
    };
    let mut lever = 0.0;
    if size > 0 {
        let near = problem.near(&fit.columns, &fit.dependent, &fit.point, &fit.model);
        let starts = [0, size];
        let mut state = State::new(&near, &starts, Buffers::default());
        state.add(0);
        found.condition = state.condition();
        let support = state.support();
        let at = |k: usize| mean[fit.columns[k]] / spread[fit.columns[k]] + fit.model.follow[k];
        let shares: Vec<f64> = support.iter().map(|&k| at(k)).collect();
        let mut squares = vec![0.0; support.len()];
        for (k, row) in state.inverse().chunks_exact(size).enumerate() {
            squares.iter_mut().zip(&row[..=k]).for_each(|(sum, m)| *sum += m * m);
            lever += dot(&row[..=k], &shares[..=k]).powi(2);
        }
        for (&k, square) in support.iter().zip(&squares) {
            found.columns[k] = square.sqrt() / spread[fit.columns[k]];
            found.degrees += 1.0 - near.ridge[k] * square;
        }
    }
    if problem.has_intercept {
        found.intercept = (1.0 / fit.model.corner + lever).sqrt();
    }
    if request.family.has_dispersion() {
        let free = *n_rows as f64 - found.degrees;
        found.dispersion = if free > 0.0 { fit.model.squares / free } else { f64::NAN };
    }
    if fit.is_signed && request.family.has_dispersion() {
        // Nobody knows how many parameters there are.
        found.dispersion = f64::NAN;
    }
    let is_normal = request.fields.ridge == 0.0 && !fit.is_signed;
    let has_none = !is_normal || fit.status != Status::Converged;
    let unit = if has_none { f64::NAN } else { (found.dispersion / problem.weight).sqrt() };
    found.intercept *= unit;
    found.columns.iter_mut().for_each(|error| *error *= unit);
    found
}

/// Intercept and coefficients of a fit in the units of the table.
pub fn in_units(problem: &Problem, fit: &Fit) -> (f64, Vec<f64>) {
    let Linear { mean, spread, constant, .. } = &problem.linear;
    let own = |(&j, w): (&usize, &f64)| if constant[j] { 0.0 } else { w / spread[j] };
    let coef: Vec<f64> = fit.columns.iter().zip(&fit.point.coef).map(own).collect();
    let shift: f64 = fit.columns.iter().zip(&coef).map(|(&j, w)| mean[j] * w).sum();
    (fit.point.intercept - shift, coef)
}

/// What a caller has to be warned of, the warnings of Python; nothing if that is nothing.
pub fn note(start: &Start, fit: &Fit, precision: &Precision, ridge: f64) -> Option<String> {
    let mut told = Vec::new();
    match fit.status {
        Status::Converged => {}
        Status::Separated => told.push(
            "some columns determine the target of some rows (separation), so the coefficients \
             diverge; these are from the last pass, and a ridge > 0 gives finite ones"
                .to_string(),
        ),
        Status::Limit => {
            told.push(format!("max_iter {} was reached before the fit converged", fit.steps));
        }
        Status::Stalled => told.push("no part of a step decreased the deviance".to_string()),
    }
    let rows = start.n_rows;
    let used = precision.aliased.iter().filter(|aliased| !**aliased).count() as i64;
    if ridge == 0.0 && i64::from(start.problem.has_intercept) + used >= rows {
        told.push(format!(
            "{rows} rows: it has as many coefficients as rows, which fit any target"
        ));
    }
    if fit.status == Status::Converged && precision.condition > CONDITION_LIMIT {
        let kept = (16.0 - precision.condition.log10()).max(0.0);
        told.push(format!(
            "the columns have condition number {:.1e}; coefficients keep about {kept:.0} of 16 \
             digits",
            precision.condition
        ));
    }
    (!told.is_empty()).then(|| told.join("; "))
}

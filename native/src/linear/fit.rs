//! Least squares on columns that the caller names: no search.
//!
//! Columns are matched, the problem scaled, dependent columns given 0, and coefficients refined.
//! Source: Higham (2002), section 12, for the refinement.

use std::collections::HashSet;

use super::columns::{features_of, match_columns, with_indicators};
use super::constrained::{Active, Constrained, Constraints, signs_of};
use super::diagnosis::{Partial, condition_number, inflation, partials};
use super::em::check_rows;
use super::fields::Fields;
use super::inference::{Deviations, deviations};
use super::refine::{Refiner, is_correctable};
use super::state::{Buffers, CONDITION_LIMIT, State, Trace};
use crate::kernel::possible::{INDEFINITE, is_possible};
use crate::linear::algebra::dense::dot;
use crate::linear::algebra::fisher::FTest;
use crate::linear::groups::groups_of;
use crate::linear::prices::Conditions;
use crate::linear::problem::{Gram, Linear, Raw, Target};
use crate::record::terms::Terms;
use crate::words::error::Error;

/// What is asked about least squares on some columns.
#[derive(Clone, Debug)]
pub enum Ask {
    /// The model.
    Model,
    /// Its coefficients with their tests, and intervals that hold them with a probability in (0, 1).
    Summary(f64),
    /// By how much dependence on the others inflates the variance of each.
    Inflation,
    /// What each column has of the target.
    Partials,
    /// The condition number of the rows.
    Condition,
    /// The test that the coefficients of these columns are all 0; default: of all.
    FTest(Option<Vec<String>>),
}

/// Which columns explain a target, and how.
#[derive(Clone, Debug)]
pub struct FitRequest {
    /// Column to predict.
    pub target: String,
    /// Names and globs; default: every column but the target.
    pub columns: Option<Vec<String>>,
    /// The other fields of the problem.
    pub fields: Fields,
    /// What is asked.
    pub ask: Ask,
    /// What the coefficients have to meet; of a model.
    pub constraints: Constraints,
}

impl FitRequest {
    /// A request with the defaults.
    pub fn of(target: &str) -> FitRequest {
        let target = target.to_string();
        let fields = Fields::default();
        let constraints = Constraints::default();
        FitRequest { target, columns: None, fields, ask: Ask::Model, constraints }
    }

    /// Match the request to the columns of a record; the error says that they have no such target.
    pub fn plan(&self, columns: &[String], terms: &Terms) -> Result<FitPlan, Error> {
        let target = Target::of(&self.target, columns, terms)?;
        if let Ask::Summary(_) | Ask::FTest(_) = &self.ask {
            check_rows(terms, "standard errors and tests")?;
        }
        let number = |name: &String| columns.iter().position(|column| column == name);
        let placed = |members: Vec<String>| {
            let tested = match &self.ask {
                Ask::FTest(Some(patterns)) => {
                    let tested = match_columns(patterns, &members, "tested")?;
                    members.iter().map(|name| tested.contains(name)).collect()
                }
                _ => vec![true; members.len()],
            };
            let at = members.iter().filter_map(number).collect();
            let signs = signs_of(&self.constraints.signs, &members)?;
            let apart = self.apart(columns)?.iter().filter_map(number).collect();
            Ok(Members { names: members, at, tested, signs, apart })
        };
        let members = self.members(columns, terms).and_then(placed);
        Ok(FitPlan { members, target, is_completed: terms.em.is_some() })
    }

    /// The columns that have no correlation with the prediction.
    fn apart(&self, columns: &[String]) -> Result<Vec<String>, Error> {
        if self.constraints.uncorrelated.is_empty() {
            return Ok(Vec::new());
        }
        let apart = match_columns(&self.constraints.uncorrelated, columns, "uncorrelated")?;
        if apart.contains(&self.target) {
            let target = &self.target;
            return Err(Error::argument(format!(
                "uncorrelated names the target '{target}'; a prediction without correlation with \
                 it is a constant"
            )));
        }
        Ok(apart)
    }

    /// The columns of the model, those of a field side by side, as groups of fields have them.
    fn members(&self, columns: &[String], terms: &Terms) -> Result<Vec<String>, Error> {
        let mut features = features_of(columns, &self.target, terms)?;
        if let Some(patterns) = &self.columns {
            let named = match_columns(patterns, columns, "columns")?;
            let known: HashSet<&str> = features.iter().map(String::as_str).collect();
            let used = named.iter().filter(|name| known.contains(name.as_str())).cloned();
            let used = used.collect();
            features = with_indicators(used, &known, &named.into_iter().collect());
        } else {
            // They predict only where `columns` names them.
            let apart = self.apart(columns)?;
            features.retain(|name| !apart.contains(name));
        }
        if features.is_empty() {
            return Err(Error::column(
                "columns is empty; at least one column besides the target is needed".to_string(),
            ));
        }
        Ok(groups_of(&features, None, None, &self.target, terms, false, &Conditions::default())?
            .members)
    }
}

/// A request beside the columns of some records, which it may not fit.
#[derive(Clone, Debug)]
pub struct FitPlan {
    target: Target,
    /// An error only where there is something to fit, as for searches.
    members: Result<Members, Error>,
    /// Whether EM completed the record.
    is_completed: bool,
}

impl FitPlan {
    /// Fit all columns, whose names are their numbers, to the target, which comes last.
    pub fn numbered(width: usize) -> FitPlan {
        let names = (0..width).map(|column| column.to_string()).collect();
        let (at, tested) = ((0..width).collect(), vec![true; width]);
        let members = Members { names, at, tested, signs: vec![0.0; width], apart: Vec::new() };
        FitPlan { target: Target::at("target", width), members: Ok(members), is_completed: false }
    }
}

/// The columns of a model, and their numbers in the record.
#[derive(Clone, Debug)]
struct Members {
    names: Vec<String>,
    at: Vec<usize>,
    /// Whether an F test is about each.
    tested: Vec<bool>,
    /// The sign of each coefficient, 0 where it has none.
    signs: Vec<f64>,
    /// Numbers of the columns that have no correlation with the prediction.
    apart: Vec<usize>,
}

/// A linear model on the columns of a plan.
#[derive(Clone, Debug, Default)]
pub struct Fitted {
    /// The columns, in the order of the coefficients.
    pub columns: Vec<String>,
    /// Constant term; 0 through the origin.
    pub intercept: f64,
    /// One a column, in the table's units; 0 where it is aliased.
    pub coefficients: Vec<f64>,
    /// Whether each column depends linearly on columns before it.
    pub aliased: Vec<bool>,
    /// Share of the target's variance that the penalised objective explains.
    pub explained: f64,
    /// 1 - RSS/TSS.
    pub r2: f64,
    /// Rows used.
    pub rows: i64,
    /// Rows left out.
    pub skipped: i64,
    /// Whether EM completed the record.
    pub is_completed: bool,
    /// Condition number of the columns' correlations.
    pub condition: f64,
    /// That of the dependent columns whose trace may explain much.
    pub trace: Option<Trace>,
    /// Standard errors; none with a ridge.
    pub deviations: Option<Deviations>,
    /// What else was asked, of least squares without a ridge.
    pub diagnosis: Option<Diagnosis>,
    /// What constraints cost.
    pub price: Option<Price>,
}

/// What constraints cost a model.
#[derive(Clone, Copy, Debug)]
pub struct Price {
    /// 1 - RSS/TSS without them less with them.
    pub r2: f64,
    /// How far the optimality conditions are violated, in correlations.
    pub violation: f64,
}

/// What a model's columns have to do with each other and with the target.
#[derive(Clone, Debug)]
pub enum Diagnosis {
    /// Variance inflation factors, one a column.
    Inflation(Vec<f64>),
    /// Correlations, one a column.
    Partials(Vec<Partial>),
    /// The condition number of the rows.
    Condition(f64),
    /// A test of some columns.
    FTest(FTest),
}

impl Fitted {
    /// Standard deviation of the residuals, by the rows that are left to estimate it.
    pub fn sigma(&self) -> Option<f64> {
        let known = self.deviations.as_ref().filter(|_| !self.is_completed);
        known.filter(|known| known.free > 0).map(|known| known.sigma)
    }

    /// The warnings about the model, those of Python; nothing if there are none.
    pub fn note(&self) -> Option<String> {
        let mut told = Vec::new();
        if self.is_completed {
            told.push("r2 is that of rows completed by EM, which have no sigma".to_string());
        }
        if self.deviations.as_ref().is_some_and(|known| known.free <= 0) {
            let rows = self.rows;
            told.push(format!(
                "{rows} rows: it has as many coefficients as rows, which fit any target"
            ));
        }
        if self.condition > CONDITION_LIMIT {
            let kept = (16.0 - self.condition.log10()).max(0.0);
            told.push(format!(
                "the columns have condition number {:.1e}; coefficients keep about {kept:.0} of 16 \
                 digits",
                self.condition
            ));
        }
        if let Some(price) = &self.price {
            told.push(format!("the constraints cost {:.4} of r2", price.r2));
        }
        if let Some(trace) = &self.trace {
            told.push(format!(
                "column '{}' nearly depends on the others: {:.0e} of its variance is its own, too \
                 little for doubles, so it gets coefficient 0, although it may explain {:.3} of the \
                 target's variance",
                self.columns[trace.column],
                trace.share,
                trace.gain.min(1.0)
            ));
        }
        (!told.is_empty()).then(|| told.join("; "))
    }
}

/// The memory of a fit, which serves the next one.
#[derive(Debug, Default)]
pub struct Fitter {
    problem: Linear,
    buffers: Buffers,
    refiner: Refiner,
    coef: Vec<f64>,
    raw: Raw,
    fitted: Fitted,
}

impl Fitter {
    /// Correlations of the columns of the last fit with its target.
    pub fn with_target(&self) -> &[f64] {
        &self.problem.target
    }

    /// L^-1 of the last fit, row by row, `L L'` being the comoments of the columns that are not
    /// aliased; `weight` is that of the record.
    pub fn inverse_factor(&self, weight: f64) -> Vec<f64> {
        let unit = |&column: &usize| self.problem.spread[column] * weight.sqrt();
        let units: Vec<f64> = self.buffers.support().iter().map(unit).collect();
        let mut factor = Vec::with_capacity(units.len() * units.len());
        for (k, row) in self.buffers.inverse().chunks_exact(self.problem.width()).enumerate() {
            factor.extend(row[..=k].iter().zip(&units).map(|(m, unit)| m / unit));
            factor.resize((k + 1) * units.len(), 0.0);
        }
        factor
    }

    /// Fit a record whose columns the plan was made for.
    ///
    /// The inner error is the reason why a record has no model; the outer one a mistake in the
    /// request.
    pub fn fit(
        &mut self,
        request: &FitRequest,
        plan: &FitPlan,
        gram: &Gram,
    ) -> Result<Result<&Fitted, String>, Error> {
        let Fields { intercept, ridge, scale, .. } = request.fields;
        let Fitter { problem, buffers, refiner, coef, raw, fitted } = self;
        let usable = plan
            .target
            .usable(gram, intercept)
            .and_then(|target| Ok((target, if intercept { *gram } else { raw.of(gram)? })));
        let (target, rows) = match usable {
            Ok(found) => found,
            Err(reason) => return Ok(Err(reason)),
        };
        let Members { names, at, tested, signs, apart } =
            plan.members.as_ref().map_err(Clone::clone)?;
        if fitted.columns != *names {
            fitted.columns.clone_from(names);
        }
        problem.set_up(&rows, target, at, ridge, scale);
        let is_test = matches!(request.ask, Ask::FTest(_));
        let starts: Vec<usize> = match is_test {
            true => (0..=at.len()).collect(),
            false => vec![0, at.len()],
        };
        let mut state = State::new(problem, &starts, std::mem::take(buffers));
        let (mut gained, mut df) = (0.0, 0);
        if is_test {
            // The columns that are tested come last.
            let numbers = || (0..at.len()).zip(tested);
            numbers().filter(|(_, tested)| !**tested).for_each(|(j, _)| {
                state.add(j);
            });
            let before = state.support().len();
            gained = numbers().filter(|(_, tested)| **tested).map(|(j, _)| state.add(j)).sum();
            df = (state.support().len() - before) as i64;
        } else {
            state.add(0);
        }
        fitted.is_completed = plan.is_completed;
        fitted.condition = state.condition();
        fitted.trace = if ridge == 0.0 { state.trace() } else { None };
        state.coefficients(coef);
        let is_possible = is_possible(state.explained()) && !state.is_indefinite();
        let mut left = f64::NAN;
        fitted.deviations = (ridge == 0.0).then(|| {
            refiner.set_up(&rows, &state, at, target);
            if is_correctable(fitted.condition) {
                refiner.refine(problem, state.inverse(), coef);
            }
            left = refiner.left_over(coef, rows.comoment(target, target));
            deviations(&state, &rows, left, intercept)
        });
        let share = left / rows.comoment(target, target);
        fitted.diagnosis = match &request.ask {
            Ask::Inflation => Some(Diagnosis::Inflation(inflation(&mut state))),
            Ask::Partials => Some(Diagnosis::Partials(partials(&mut state, coef, share))),
            Ask::Condition => Some(Diagnosis::Condition(condition_number(&mut state, intercept))),
            Ask::FTest(_) => {
                let free = gram.rows - state.support().len() as i64 - i64::from(intercept);
                Some(Diagnosis::FTest(FTest::of(gained, share, df, free)))
            }
            Ask::Model | Ask::Summary(_) => None,
        };
        fitted.write(&state, coef);
        if let Some(known) = &mut fitted.deviations {
            known.standardize(&rows, target, at, &fitted.aliased);
        }
        fitted.price = None;
        if !request.constraints.is_empty() {
            let equations = match equations(gram, problem, at, apart) {
                Ok(equations) => equations,
                Err(reason) => return Ok(Err(reason)),
            };
            if let Err(reason) = fitted.constrain(problem, signs, &equations) {
                return Ok(Err(reason));
            }
        }
        (fitted.rows, fitted.skipped) = (gram.rows, gram.skipped);
        *buffers = state.into_buffers();
        Ok(if is_possible { Ok(fitted) } else { Err(INDEFINITE.to_string()) })
    }
}

/// Correlations of columns with those that have none with the prediction, one of these a row, on
/// the scale of the problem.
fn equations(
    gram: &Gram,
    problem: &Linear,
    at: &[usize],
    apart: &[usize],
) -> Result<Vec<Vec<f64>>, String> {
    let row = |&other: &usize| {
        let total = gram.comoment(other, other);
        if gram.is_constant(other) || total <= 0.0 {
            return Err(
                "a column of uncorrelated is constant, so that nothing is correlated with \
                        it; leave it out"
                    .to_string(),
            );
        }
        let scale = (total * gram.weight).sqrt();
        let of = |(&j, spread): (&usize, &f64)| gram.comoment(j, other) / (scale * spread);
        Ok(at.iter().zip(&problem.spread).map(of).collect())
    };
    apart.iter().map(row).collect()
}

impl Fitted {
    /// Replace the model by the one that meets signs and equations.
    fn constrain(
        &mut self,
        problem: &Linear,
        signs: &[f64],
        equations: &[Vec<f64>],
    ) -> Result<(), String> {
        let width = problem.width();
        let matrix = problem.covariance(&(0..width).collect::<Vec<_>>());
        let (target, absolute) = (&problem.target, &vec![0.0; width]);
        let of = Constrained { matrix: &matrix, target, absolute, signs, equations };
        let mut active = Active::default();
        of.minimise(&mut active)?;
        let (mut linear, mut penalty, mut square) = (0.0, 0.0, 0.0);
        self.intercept = problem.target_mean;
        for (j, &w) in active.w.iter().enumerate() {
            let own = w * (problem.target_spread / problem.spread[j]);
            self.intercept -= own * problem.mean[j];
            self.coefficients[j] = own;
            // A column at 0 by its sign is no less independent.
            self.aliased[j] &= signs[j] == 0.0 && !active.holds(j);
            linear += w * target[j];
            penalty += w * w * problem.ridge[j];
            square += w * dot(&matrix[j * width..][..width], &active.w);
        }
        let free = self.r2;
        self.explained = (2.0 * linear - square).min(1.0);
        self.r2 = (2.0 * linear - square + penalty).min(1.0);
        // Rounding may leave less than nothing.
        self.price = Some(Price { r2: (free - self.r2).max(0.0), violation: active.violation });
        self.deviations = None;
        Ok(())
    }

    /// Write the coefficients of a state, `coef` on unit-variance columns.
    fn write(&mut self, state: &State, coef: &[f64]) {
        let problem = state.problem;
        (self.intercept, self.explained) = (problem.target_mean, state.explained().min(1.0));
        let mut penalty = 0.0;
        self.coefficients.clear();
        self.aliased.clear();
        for column in 0..problem.width() {
            let place = state.place(column);
            let w = place.map_or(0.0, |row| coef[row]);
            let own = w * (problem.target_spread / problem.spread[column]);
            self.intercept -= own * problem.mean[column];
            penalty += w * w * problem.ridge[column];
            self.coefficients.push(own);
            self.aliased.push(place.is_none());
        }
        self.r2 = (state.explained() + penalty).min(1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linear::inference::Tests;
    use crate::testing::DEPENDENT_GRAM;

    const GRAM: Gram = Gram { skipped: 1, ..DEPENDENT_GRAM };

    fn fitted(columns: &[&str], intercept: bool) -> Fitted {
        let columns = Some(columns.iter().map(|name| name.to_string()).collect());
        let fields = Fields { intercept, ..Fields::default() };
        let request = FitRequest { columns, fields, ..FitRequest::of("y") };
        let names = ["a", "b", "c", "y"].map(str::to_string);
        let plan = request.plan(&names, &Terms::default()).unwrap();
        Fitter::default().fit(&request, &plan, &GRAM).unwrap().unwrap().clone()
    }

    fn assert_near(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        for (a, b) in found.iter().zip(expected) {
            assert!((a - b).abs() < 1e-14, "{found:?} {expected:?}");
        }
    }

    #[test]
    fn a_line_through_four_points_has_the_errors_of_the_textbook() {
        // y = 0.5 + 2 a, RSS = 1, s2 = 1/2: var(a) = s2 / 5, var(intercept) = s2 (1/4 + 2.5^2 / 5).
        let model = fitted(&["a"], true);
        assert_near(&[model.intercept, model.coefficients[0], model.r2], &[0.5, 2.0, 20.0 / 21.0]);
        let known = model.deviations.as_ref().unwrap();
        assert_eq!(known.free, 2);
        let errors = [known.intercept.unwrap(), known.columns[0], known.sigma];
        assert_near(&errors, &[0.75f64.sqrt(), 0.1f64.sqrt(), 0.5f64.sqrt()]);
        // t = 2 / sqrt(0.1) at two degrees of freedom: p = 1 - t / sqrt(2 + t^2).
        let terms = Tests::default().of(&model, 0.95);
        assert_eq!((terms[0].name, terms[1].name), ("(intercept)", "a"));
        assert_near(&[terms[1].p_value], &[1.0 - (40.0f64 / 42.0).sqrt()]);
    }

    #[test]
    fn through_the_origin_raw_sums_count() {
        // sum a y = 65, sum a^2 = 30, sum y^2 = 142.
        let model = fitted(&["a"], false);
        assert_eq!(model.intercept, 0.0);
        assert_near(&[model.coefficients[0], model.r2], &[65.0 / 30.0, 65.0 * 65.0 / 30.0 / 142.0]);
    }

    #[test]
    fn a_dependent_column_is_0_and_named_and_a_full_model_is_told() {
        let model = fitted(&["a", "b", "c"], true);
        assert_eq!(model.aliased, [false, false, true]);
        assert_near(&model.coefficients, &[2.0, 0.5, 0.0]);
        assert_near(&[model.r2, model.sigma().unwrap()], &[1.0, 0.0]);
        assert_eq!(model.note(), None);
        let few = Gram { rows: 3, weight: 3.0, ..GRAM };
        let request = FitRequest::of("y");
        let names = ["a", "b", "c", "y"].map(str::to_string);
        let plan = request.plan(&names, &Terms::default()).unwrap();
        let mut fitter = Fitter::default();
        let model = fitter.fit(&request, &plan, &few).unwrap().unwrap();
        assert!(model.note().unwrap().starts_with("3 rows: it has as many coefficients as rows"));
        assert!(model.sigma().is_none());
    }
}

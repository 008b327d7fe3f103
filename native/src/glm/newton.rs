//! The fit of some columns: Newton's method, or Fisher's scoring, on unit-variance columns.
//!
//! A quadratic model of the objective (`problem`), scaled by the null deviance, is the problem of
//! `search::linear`, whose state gives the step, what it should explain, and which columns depend on
//! others. By links that are not the canonical one steps are by the curvature that the gradients of
//! the passes show (`secant`). A step that does not decrease the objective is halved, the
//! last one too; where not every predictor has a mean, a fit has converged only where the gradient
//! vanishes as well. Which columns depend on others is known from the columns and the row weights
//! alone, whatever a pass finds.
//!
//! Under signs of coefficients a step leads to the minimum of the quadratic model over those that
//! have them, by the active set of `linear::constrained`; all points on the way there have them
//! too. The last pass is at the end, and shows how far it violates the optimality conditions.
//!
//! The twin of `dbselect/glm/newton.py`. Source: McCullagh, Nelder (1989), section 2.5; Hu, Grubb,
//! Bagnell, Hebert (2016), appendix B.

use super::problem::{Expansion, Point, Problem};
use super::secant::{Secant, curvature_of, placed, secant, secant_step};
use crate::linear::algebra::dense::dot;
use crate::linear::constrained::{Active, Constrained};
use crate::linear::state::{Buffers, State};

/// A predicted decrease below this share of the null deviance is rounding.
const ROUNDING_SHARE: f64 = 1e-15;
/// A step that predicts less than this share of the null deviance but is as long as the one before
/// may be on its way to infinity; with a larger share at the limit of passes, a row far from all
/// others would count as separated.
const SEPARATION_SHARE: f64 = 1e-7;
/// The same at the limit of passes.
const LIMIT_SHARE: f64 = 1e-5;
/// Length of a step, as a share of the one before, above which it is as long.
const AS_LONG: f64 = 0.9;
/// What a step towards infinity predicts, at least, as a share of what the one before did.
const STEADY_SHARE: f64 = 0.05;
/// The same as `AS_LONG`, above which a step is too long to be the last.
const TOO_LONG: f64 = 0.3;
/// Curvature along a step, as a share of that along the one before, below which it is on its way
/// to nothing.
const WANING: f64 = 0.7;
/// Steps out at which the objective is higher, if there is a minimum near.
const FAR_OUT: f64 = 8.0;
/// Halvings of a step before it is given up: then it is a thousandth.
const HALVINGS: i32 = 10;
/// What a step must predict for its decrease to exceed the rounding of a sum over rows.
const HIDDEN_SHARE: f64 = 1e-12;
/// Largest violation of the optimality conditions under signs of a fit that has converged, in
/// correlations; usual are 1e-8.
const LARGEST_VIOLATION: f64 = 1e-4;

/// How a fit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// At a minimum.
    Converged,
    /// Some columns determine the target of some rows.
    Separated,
    /// `max_iter` was reached.
    Limit,
    /// No part of a step decreased the deviance.
    Stalled,
}

impl Status {
    /// Its name, as the steps of a sequence have it.
    pub fn name(self) -> &'static str {
        match self {
            Status::Converged => "converged",
            Status::Separated => "separated",
            Status::Limit => "limit",
            Status::Stalled => "stalled",
        }
    }
}

/// The best coefficients on some columns, as far as passes have shown.
#[derive(Clone, Debug)]
pub struct Fit {
    /// Numbers of the columns in the problem, in the order of the coefficients.
    pub columns: Vec<usize>,
    /// Whether each depends on those before it; then its coefficient is 0.
    pub dependent: Vec<bool>,
    /// The coefficients.
    pub point: Point,
    /// Decrease of the penalised deviance, as a share of the null deviance.
    pub explained: f64,
    /// How it ended.
    pub status: Status,
    /// Steps taken.
    pub steps: usize,
    /// The quadratic model at the point.
    pub model: Expansion,
    /// Whether its coefficients have signs.
    pub is_signed: bool,
}

/// A step, what it should explain as a share of the null deviance, and the columns it changes.
struct Step {
    point: Point,
    predicted: f64,
    /// Whether the information tells less than the columns do.
    lacks: bool,
}

/// The columns of a fit.
struct Held {
    columns: Vec<usize>,
    dependent: Vec<bool>,
    /// 1 or -1 where a coefficient has a sign, else 0; nothing if none has.
    signs: Option<Vec<f64>>,
}

impl Problem<'_> {
    /// The step on some columns, and what it should explain.
    fn step(
        &self,
        held: &Held,
        base: &Point,
        model: &Expansion,
        secants: &[Secant],
    ) -> Result<Step, String> {
        if let Some(signs) = &held.signs {
            return self.signed_step(&held.columns, signs, base, model, secants);
        }
        Ok(self.free_step(held, base, model, secants))
    }

    /// The step on columns whose coefficients have signs.
    fn signed_step(
        &self,
        columns: &[usize],
        signs: &[f64],
        base: &Point,
        model: &Expansion,
        secants: &[Secant],
    ) -> Result<Step, String> {
        let varies = |k: &usize| !self.linear.constant[columns[*k]];
        let mut used: Vec<usize> = (0..columns.len()).filter(varies).map(|k| k + 1).collect();
        if self.has_intercept {
            used.insert(0, 0);
        }
        let ridge: Vec<f64> = columns.iter().map(|&j| self.linear.ridge[j]).collect();
        let (slope, curvature) = curvature_of(model, base, &ridge, &used, secants);
        let n = used.len();
        let of = |i: &usize| if *i == 0 { base.intercept } else { base.coef[*i - 1] };
        let here: Vec<f64> = used.iter().map(of).collect();
        let row = |k: usize| &curvature[k * n..][..n];
        let scale = self.scale();
        let target: Vec<f64> =
            slope.iter().enumerate().map(|(k, g)| (g + dot(row(k), &here)) / scale).collect();
        let side = |i: &usize| if *i == 0 { 0.0 } else { signs[*i - 1] };
        let (absolute, signs) = (vec![0.0; n], used.iter().map(side).collect::<Vec<f64>>());
        let mut active = Active::default();
        Constrained {
            matrix: &curvature,
            target: &target,
            absolute: &absolute,
            signs: &signs,
            equations: &[],
        }
        .minimise(&mut active)?;
        let step: Vec<f64> = active.w.iter().zip(&here).map(|(w, x)| w * scale - x).collect();
        let bend: f64 = step.iter().enumerate().map(|(k, s)| s * dot(row(k), &step)).sum();
        let decrease = (2.0 * dot(&slope, &step) - bend).max(0.0);
        let predicted = decrease * self.weight / self.null_deviance;
        Ok(Step { point: placed(&used, &step, base), predicted, lacks: false })
    }

    /// The step on columns whose coefficients have no signs.
    fn free_step(&self, held: &Held, base: &Point, model: &Expansion, secants: &[Secant]) -> Step {
        let Held { columns, dependent, .. } = held;
        let settled = model.settled * self.weight / self.null_deviance;
        if columns.is_empty() {
            let point = Point { intercept: model.start, coef: Vec::new() };
            return Step { point, predicted: settled, lacks: false };
        }
        let near = self.near(columns, dependent, base, model);
        let starts = [0, columns.len()];
        let mut state = State::new(&near, &starts, Buffers::default());
        state.add(0);
        let lacks = state.support().len() < dependent.iter().filter(|is| !**is).count();
        if !secants.is_empty() {
            let mut used: Vec<usize> = state.support().iter().map(|&j| j + 1).collect();
            used.sort_unstable();
            if self.has_intercept {
                used.insert(0, 0);
            }
            if let Some((point, predicted)) = secant_step(model, base, &near.ridge, &used, secants)
            {
                let predicted = predicted * self.weight / self.null_deviance;
                return Step { point, predicted, lacks };
            }
        }
        let mut own = Vec::new();
        state.coefficients(&mut own);
        let mut coef = vec![0.0; columns.len()];
        for (&column, w) in state.support().iter().zip(&own) {
            coef[column] = w * self.scale();
        }
        let intercept = model.start - dot(&model.follow, &coef);
        Step { point: Point { intercept, coef }, predicted: state.explained() + settled, lacks }
    }

    /// Take Newton steps on some columns, from where a quadratic model is known.
    pub fn descend(
        &self,
        columns: Vec<usize>,
        mut base: Point,
        mut model: Expansion,
        signs: Option<Vec<f64>>,
    ) -> Result<Fit, String> {
        let held = Held { dependent: self.dependent(&columns), columns, signs };
        let (mut before, mut foreseen) = (f64::INFINITY, f64::INFINITY);
        let mut secants: Vec<Secant> = Vec::new();
        let (mut longest, mut length, mut predicted) = (f64::INFINITY, 0.0, 0.0);
        let (mut wanes, mut last) = (false, None);
        for steps in 0..self.max_iter {
            let step = self.step(&held, &base, &model, &secants)?;
            predicted = step.predicted;
            length = self.length(&held.columns, &step.point.coef);
            if self.is_last(predicted, length, before) {
                return self.settled(held, base, model, &secants, &step, steps + 1);
            }
            // Below the digits of the deviance the length of a step is rounding.
            let least = (STEADY_SHARE * foreseen).max(HIDDEN_SHARE);
            let is_steady = least < predicted && predicted < SEPARATION_SHARE;
            let falls = predicted * before * before < WANING * foreseen * length * length;
            wanes = falls && length > AS_LONG * before;
            if wanes && is_steady && self.is_endless(&held, &base, &model, &step.point) {
                return Ok(self.ended(held, base, model, Status::Separated, steps));
            }
            let found = self.shortened(&held.columns, &base, &model, &step);
            let Some((share, point, answer)) = found else {
                if predicted <= HIDDEN_SHARE {
                    // Below the digits of the deviance no step can be seen to decrease it.
                    return self.settled(held, base, model, &secants, &step, steps + 1);
                }
                return Ok(self.ended(held, base, model, Status::Stalled, steps));
            };
            if !self.is_canonical {
                let shown = secant(&model, &answer, &step.point.times(share));
                match WANING * shown.before < shown.after && shown.after < shown.before / WANING {
                    true => secants.push(shown),
                    // What is shown of another curvature is out of date.
                    false => secants.clear(),
                }
            }
            (base, model) = (point, answer);
            longest = TOO_LONG * before;
            (before, foreseen) = (length, predicted);
            last = Some(step.point);
        }
        // Rows that are certain keep a least weight, so that steps may become shorter at last.
        let late = length > longest && predicted < LIMIT_SHARE;
        let mut status = Status::Limit;
        if let Some(step) = last.filter(|_| wanes || late)
            && self.is_endless(&held, &base, &model, &step)
        {
            status = Status::Separated;
        }
        Ok(self.ended(held, base, model, status, self.max_iter))
    }

    fn is_last(&self, predicted: f64, length: f64, before: f64) -> bool {
        if self.is_exact || predicted <= ROUNDING_SHARE {
            return true;
        }
        predicted <= self.tol && (before.is_infinite() || length <= TOO_LONG * before)
    }

    /// Whether the objective is no higher far out along a step, so that it has no minimum near.
    fn is_endless(&self, held: &Held, base: &Point, model: &Expansion, step: &Point) -> bool {
        let columns = &held.columns[..];
        if self.linear.ridge.iter().all(|&ridge| ridge > 0.0) {
            return false; // there is one, far out as it may lie
        }
        let known = model.deviance + self.penalty(columns, base);
        let point = base.moved(step, FAR_OUT);
        let signs = held.signs.iter().flatten();
        if signs.zip(&point.coef).any(|(sign, w)| sign * w < 0.0) {
            return false; // the signs end the way there
        }
        let there = self.tried(columns, &point);
        there.is_some_and(|there| there.deviance + self.penalty(columns, &point) <= known)
    }

    /// Take a step, or half of it, or half of that, until the objective decreases: the share that
    /// was taken, the point, and what is known there.
    fn shortened(
        &self,
        columns: &[usize],
        base: &Point,
        model: &Expansion,
        step: &Step,
    ) -> Option<(f64, Point, Expansion)> {
        let known = model.deviance + self.penalty(columns, base);
        // No step explains more than is left.
        let whole = (known / self.null_deviance / step.predicted).min(1.0);
        for halvings in 0..=HALVINGS {
            let share = whole * 0.5f64.powi(halvings);
            let point = base.moved(&step.point, share);
            let Some(answer) = self.tried(columns, &point) else { continue };
            let rise = answer.deviance + self.penalty(columns, &point) - known;
            if rise <= ROUNDING_SHARE * self.null_deviance {
                return Some((share, point, answer));
            }
        }
        None
    }

    /// The fit that ends with a last step: a pass there, and the step that it shows without one, as
    /// that errs by far less; where not every predictor has a mean, with a pass there as well.
    fn settled(
        &self,
        held: Held,
        mut base: Point,
        mut model: Expansion,
        secants: &[Secant],
        last: &Step,
        steps: usize,
    ) -> Result<Fit, String> {
        if held.signs.is_some() {
            return Ok(self.closed(held, base, model, last, steps));
        }
        if last.lacks {
            return Ok(self.ended(held, base, model, Status::Stalled, steps));
        }
        if last.predicted > 0.0
            && let Some((_, point, answer)) = self.shortened(&held.columns, &base, &model, last)
        {
            (base, model) = (point, answer);
        }
        if self.bounded_weight.is_some() {
            let step = self.step(&held, &base, &model, secants)?;
            if step.predicted < last.predicted
                && let Some((_, point, answer)) =
                    self.shortened(&held.columns, &base, &model, &step)
            {
                (base, model) = (point, answer);
            }
            let status = match self.is_flat(&held.columns, &base, &model) {
                true => Status::Converged,
                false => Status::Stalled,
            };
            return Ok(self.ended(held, base, model, status, steps));
        }
        let step = self.step(&held, &base, &model, secants)?;
        let mut fit = self.ended(held, base, model, Status::Converged, steps);
        if step.predicted < last.predicted {
            fit.point = fit.point.moved(&step.point, 1.0);
        }
        Ok(fit)
    }

    /// The fit under signs that ends with a last step and a pass there.
    fn closed(
        &self,
        held: Held,
        mut base: Point,
        mut model: Expansion,
        last: &Step,
        steps: usize,
    ) -> Fit {
        let columns = &held.columns;
        if last.predicted > ROUNDING_SHARE {
            let point = base.moved(&last.point, 1.0);
            let known = model.deviance + self.penalty(columns, &base);
            let least = known + HIDDEN_SHARE * self.null_deviance;
            if let Some(answer) = self.tried(columns, &point)
                && answer.deviance + self.penalty(columns, &point) <= least
            {
                (base, model) = (point, answer);
            }
        }
        let is_flat = self.violation(&held, &base, &model) <= LARGEST_VIOLATION;
        let status = if is_flat { Status::Converged } else { Status::Stalled };
        self.ended(held, base, model, status, steps)
    }

    /// How far coefficients violate the optimality conditions under signs, in correlations.
    fn violation(&self, held: &Held, at: &Point, model: &Expansion) -> f64 {
        let of_intercept = model.corner * model.start;
        let mut largest = if self.has_intercept { of_intercept.abs() } else { 0.0 };
        for (k, &j) in held.columns.iter().enumerate() {
            if self.linear.constant[j] {
                continue;
            }
            let ahead = model.gradient[k] + model.follow[k] * of_intercept;
            let slope = ahead - self.linear.ridge[j] * at.coef[k];
            let sign = held.signs.as_ref().map_or(0.0, |signs| signs[k]);
            let is_at_zero = sign != 0.0 && at.coef[k] == 0.0;
            largest = largest.max(if is_at_zero { sign * slope } else { slope.abs() });
        }
        largest / (self.scale() * self.bounded_weight.unwrap_or(model.corner).sqrt())
    }

    /// The fit at a point, of which it is known what a pass gives.
    fn ended(
        &self,
        held: Held,
        point: Point,
        model: Expansion,
        status: Status,
        steps: usize,
    ) -> Fit {
        let Held { columns, mut dependent, signs } = held;
        let is_signed = signs.is_some();
        for (k, sign) in signs.iter().flatten().enumerate() {
            // A column at 0 by its sign is no less independent, nor is one that is not 0.
            dependent[k] &= *sign == 0.0 && point.coef[k] == 0.0;
        }
        let objective = model.deviance + self.penalty(&columns, &point);
        let explained = 1.0 - objective / self.null_deviance;
        Fit { columns, dependent, point, explained, status, steps, model, is_signed }
    }
}

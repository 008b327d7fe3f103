//! The problem of a fit on unit-variance columns, and its quadratic model near some coefficients.
//!
//! ```text
//! minimise  deviance / (2 n) + ridge / 2 * sum of squares of the coefficients
//! ```
//!
//! n is the sum of the row weights. A pass at some coefficients gives the deviance, the gradient
//! and the expected information, the intercept minimised out: with one, that is the comoment of
//! columns and working residual, by the working weights, and it needs no sum that cancels.
//!
//! The twin of `dbselect/glm/expansion.py`. Source: McCullagh, Nelder (1989), section 2.5.

use super::rows::{Predictor, Rows};
use crate::linear::algebra::dense::dot;
use crate::linear::problem::Linear;
use crate::linear::state::{Buffers, State};

/// What a step by the information of the model without columns may gain at a minimum, as a share of
/// the null deviance.
const FLAT: f64 = 1e-8;

/// Coefficients.
#[derive(Clone, Debug, Default)]
pub struct Point {
    /// The predictor at the means of the columns.
    pub intercept: f64,
    /// On unit-variance columns.
    pub coef: Vec<f64>,
}

impl Point {
    /// The point some share of a step away.
    pub fn moved(&self, step: &Point, share: f64) -> Point {
        let coef = self.coef.iter().zip(&step.coef).map(|(from, step)| from + share * step);
        Point { intercept: self.intercept + share * step.intercept, coef: coef.collect() }
    }

    /// A share of a step.
    pub fn times(&self, share: f64) -> Point {
        let coef = self.coef.iter().map(|x| share * x).collect();
        Point { intercept: share * self.intercept, coef }
    }
}

/// The quadratic model of the objective near a point, per unit of weight.
#[derive(Clone, Debug)]
pub struct Expansion {
    /// In all.
    pub deviance: f64,
    /// Decrease of the deviance by the intercept alone.
    pub settled: f64,
    /// One a column, the intercept minimised out.
    pub gradient: Vec<f64>,
    /// Likewise, row by row.
    pub information: Vec<f64>,
    /// Information of the intercept.
    pub corner: f64,
    /// The step of the intercept if no coefficient changes.
    pub start: f64,
    /// The intercept changes by `start - follow' step`.
    pub follow: Vec<f64>,
    /// Pearson's statistic.
    pub squares: f64,
}

impl Expansion {
    /// The same of some of the columns, by their places.
    pub fn of(&self, places: &[usize]) -> Expansion {
        let width = self.follow.len();
        let pick = |values: &[f64]| places.iter().map(|&j| values[j]).collect::<Vec<f64>>();
        let rows = places.iter().flat_map(|&i| pick(&self.information[i * width..(i + 1) * width]));
        Expansion {
            gradient: pick(&self.gradient),
            information: rows.collect(),
            follow: pick(&self.follow),
            ..*self
        }
    }
}

/// What does not change from pass to pass.
pub struct Problem<'r> {
    /// The rows.
    pub rows: &'r Rows<'r>,
    /// The number of each column of the problem among those of the rows.
    pub at: Vec<usize>,
    /// Means, spreads, ridge and correlations of the columns.
    pub linear: Linear,
    /// Sum of the row weights.
    pub weight: f64,
    /// Deviance of the model without columns.
    pub null_deviance: f64,
    /// Share of that which a step must predict for another pass.
    pub tol: f64,
    /// Limit on the steps of a fit.
    pub max_iter: usize,
    /// False for models through the origin.
    pub has_intercept: bool,
    /// Whether the information is the curvature itself.
    pub is_canonical: bool,
    /// Whether the objective is quadratic, so that the first pass determines the fit.
    pub is_exact: bool,
    /// The mean weight of a row in the model without columns, where not every predictor has a mean.
    pub bounded_weight: Option<f64>,
}

impl Problem<'_> {
    /// Make a pass at a point on some columns.
    pub fn expand(&self, columns: &[usize], point: &Point) -> Result<Expansion, String> {
        let Linear { mean, spread, constant, .. } = &self.linear;
        let inverse = |&j: &usize| if constant[j] { 0.0 } else { 1.0 / spread[j] };
        let inverse: Vec<f64> = columns.iter().map(inverse).collect();
        let slopes: Vec<f64> = point.coef.iter().zip(&inverse).map(|(w, x)| w * x).collect();
        let centers: Vec<f64> = columns.iter().map(|&j| mean[j]).collect();
        let at: Vec<usize> = columns.iter().map(|&j| self.at[j]).collect();
        let intercept = point.intercept;
        let sums = self.rows.pass(&Predictor {
            columns: &at,
            slopes: &slopes,
            centers: &centers,
            intercept,
        })?;
        let (moments, width) = (&sums.moments, columns.len());
        let share = moments.weight / self.weight;
        let residual = moments.mean_of(width);
        // On unit-variance columns; `distance_of` keeps the digits of a mean far from zero.
        let means: Vec<f64> =
            (0..width).map(|j| moments.distance_of(j, centers[j]) * inverse[j]).collect();
        let entry = |i: usize, j: usize, by: f64| moments.comoment_of(i, j) * by / self.weight;
        let mut gradient: Vec<f64> = (0..width).map(|j| entry(j, width, inverse[j])).collect();
        let pairs = (0..width).flat_map(|i| (0..width).map(move |j| (i, j)));
        let mut information: Vec<f64> =
            pairs.map(|(i, j)| entry(i, j, inverse[i] * inverse[j])).collect();
        let (mut start, mut follow, mut settled) = (residual, means, share * residual * residual);
        if !self.has_intercept {
            for i in 0..width {
                gradient[i] += share * residual * follow[i];
                for j in 0..width {
                    information[i * width + j] += share * follow[i] * follow[j];
                }
            }
            (start, settled) = (0.0, 0.0);
            follow.fill(0.0);
        }
        Ok(Expansion {
            deviance: sums.deviance,
            settled,
            gradient,
            information,
            corner: share,
            start,
            follow,
            squares: sums.squares,
        })
    }

    /// Make a pass where a step is tried: what cannot be summed there is too far.
    pub fn tried(&self, columns: &[usize], point: &Point) -> Option<Expansion> {
        self.expand(columns, point).ok().filter(|found| found.deviance.is_finite())
    }

    /// Whether each of some columns depends on those before it, by the row weights alone: it has the
    /// coefficient 0, whatever a pass finds.
    pub fn dependent(&self, columns: &[usize]) -> Vec<bool> {
        let mut dependent = vec![true; columns.len()];
        if !columns.is_empty() {
            let alone = self.alone(columns, vec![0.0; columns.len()]);
            let starts = [0, columns.len()];
            let mut state = State::new(&alone, &starts, Buffers::default());
            state.add(0);
            state.support().iter().for_each(|&k| dependent[k] = false);
        }
        dependent
    }

    /// The linear problem of some columns by the row weights alone.
    fn alone(&self, columns: &[usize], target: Vec<f64>) -> Linear {
        let pick = |values: &[f64]| columns.iter().map(|&j| values[j]).collect::<Vec<f64>>();
        Linear {
            correlations: columns.iter().flat_map(|&i| pick(self.linear.row(i))).collect(),
            target,
            unit: pick(&self.linear.unit),
            spread: vec![1.0; columns.len()],
            constant: columns.iter().map(|&j| self.linear.constant[j]).collect(),
            mean: vec![0.0; columns.len()],
            target_spread: 1.0,
            ridge: pick(&self.linear.ridge),
            ..Linear::default()
        }
    }

    /// Whether the gradient vanishes, where an information without bound may hide it.
    pub fn is_flat(&self, columns: &[usize], at: &Point, model: &Expansion) -> bool {
        let Some(weight) = self.bounded_weight else { return true };
        let of_intercept = model.corner * model.start;
        let slope = |k: usize| {
            let ridge = self.linear.ridge[columns[k]] * at.coef[k];
            model.gradient[k] + model.follow[k] * of_intercept - ridge
        };
        let mut gain = if self.has_intercept { of_intercept * of_intercept } else { 0.0 };
        if !columns.is_empty() {
            let alone = self.alone(columns, (0..columns.len()).map(slope).collect());
            let starts = [0, columns.len()];
            let mut state = State::new(&alone, &starts, Buffers::default());
            state.add(0);
            gain += dot(state.coordinates(), state.coordinates());
        }
        gain * self.weight <= FLAT * weight * self.null_deviance
    }

    /// The linear problem near a point on some columns, of which some depend on others.
    pub fn near(
        &self,
        columns: &[usize],
        dependent: &[bool],
        at: &Point,
        model: &Expansion,
    ) -> Linear {
        let scale = self.scale();
        let pick = |values: &[f64]| columns.iter().map(|&j| values[j]).collect::<Vec<f64>>();
        let ridge = pick(&self.linear.ridge);
        let slope = |k: usize| (model.gradient[k] - ridge[k] * at.coef[k]) / scale;
        let size = columns.len();
        Linear {
            correlations: model.information.clone(),
            target: (0..size).map(slope).collect(),
            unit: pick(&self.linear.unit),
            spread: vec![1.0; size],
            constant: dependent.to_vec(),
            mean: vec![0.0; size],
            target_spread: scale,
            ridge,
            ..Linear::default()
        }
    }

    /// What the ridge adds to the deviance.
    pub fn penalty(&self, columns: &[usize], point: &Point) -> f64 {
        let own = columns.iter().zip(&point.coef).map(|(&j, w)| self.linear.ridge[j] * w * w);
        self.weight * own.sum::<f64>()
    }

    /// What a coefficient is in the units of the linear problem.
    pub fn scale(&self) -> f64 {
        (self.null_deviance / self.weight).sqrt()
    }

    /// The standard deviation of what coefficients add to the predictors.
    pub fn length(&self, columns: &[usize], coef: &[f64]) -> f64 {
        let row = |&i: &usize| {
            let row = self.linear.row(i);
            columns.iter().zip(coef).map(|(&j, w)| row[j] * w).sum::<f64>()
        };
        let square: f64 = columns.iter().zip(coef).map(|(i, w)| w * row(i)).sum();
        square.max(0.0).sqrt()
    }
}

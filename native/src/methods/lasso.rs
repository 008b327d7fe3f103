//! The lasso, the elastic net and the sparse group lasso at one penalty: that of a user, or of
//! the one of a grid that a criterion prefers.

use std::borrow::Cow;

use crate::kernel::possible::INDEFINITE;
use crate::linear::constrained::signs_of;
use crate::linear::groups::Groups;
use crate::linear::problem::Linear;
use crate::linear::state::{Buffers, State};
use crate::methods::answer::{Cell, Found};
use crate::methods::chosen::Chosen;
use crate::methods::given::Given;
use crate::methods::options::{choice, refused, refused_by};
use crate::methods::question::{Choice, Setting};
use crate::methods::setup::{Limited, Plan};
use crate::search::penalised::criterion::{Criterion, Trials};
use crate::search::penalised::curvature::degrees;
use crate::search::penalised::descent::Effort;
use crate::search::penalised::factors::{Factors, Pilot};
use crate::search::penalised::path::{Grid, Minimiser, Path};
use crate::search::penalised::quadratic::{Penalty, Quadratic};
use crate::search::sets::exchange::GoesOn;
use crate::words::error::Error;
use crate::words::value::Value;

/// What is penalised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Penalised {
    /// Columns: `lasso`.
    Columns,
    /// Groups and columns: `sparse_group_lasso`.
    Groups,
}

/// The options of both.
#[derive(Clone, Debug)]
pub struct LassoOptions {
    /// What is penalised.
    pub of: Penalised,
    /// The penalty; default: that of a grid which `criterion` prefers.
    pub penalty: Option<f64>,
    /// What chooses the penalty.
    pub criterion: Criterion,
    /// Number of penalties of the grid.
    pub n_lambda: i64,
    /// Of columns 1 for the lasso, less for the elastic net; of groups 1 for the lasso, 0 for the
    /// group lasso.
    pub l1_ratio: f64,
    /// The last penalty of the grid as a share of the first.
    pub lambda_min_ratio: f64,
    /// Column, glob or group and the factor of its penalty.
    pub penalty_factors: Vec<(String, f64)>,
    /// Power of the adaptive lasso.
    pub adaptive: Option<f64>,
    /// Signs of coefficients, 1 or -1, by column or glob; of columns only.
    pub signs: Vec<(String, f64)>,
}

/// The minimum at each of some penalties.
#[derive(Clone, Debug)]
pub struct Minima {
    /// The minima, and what describes each.
    pub path: Path,
    /// Degrees of freedom of each, without the intercept.
    pub df: Vec<f64>,
    /// The largest condition number at any penalty.
    pub condition: f64,
}

/// A model at a penalty.
#[derive(Clone, Debug)]
struct Shrunk {
    /// Columns that are not 0, as the penalty shrank them.
    model: Chosen,
    /// The penalty, for columns and a target of unit variance.
    penalty: f64,
    /// Degrees of freedom without the intercept.
    df: f64,
    /// How far at most from the minimum.
    gap: f64,
    /// How far at most a gradient is from its optimality condition.
    violation: f64,
}

impl LassoOptions {
    /// Options by the names that users give.
    pub const NAMES: &[&str] = &[
        "lambda_min_ratio",
        "penalty_factors",
        "adaptive",
        "penalty",
        "criterion",
        "n_lambda",
        "l1_ratio",
        "signs",
    ];

    /// Those of groups.
    pub const OF_GROUPS: &[&str] = Self::NAMES.split_at(Self::NAMES.len() - 1).0;

    /// The defaults of a method.
    pub fn of(of: Penalised) -> LassoOptions {
        LassoOptions {
            of,
            penalty: None,
            criterion: Criterion::default(),
            n_lambda: 100,
            l1_ratio: if of == Penalised::Columns { 1.0 } else { 0.95 },
            lambda_min_ratio: 1e-3,
            penalty_factors: Vec::new(),
            adaptive: None,
            signs: Vec::new(),
        }
    }

    /// Read the options of a method.
    pub fn read(of: Penalised, given: &Given) -> Result<LassoOptions, Error> {
        let default = LassoOptions::of(of);
        Ok(LassoOptions {
            penalty: given.number("penalty")?,
            criterion: given.get("criterion").map_or(Ok(default.criterion), |name| {
                choice("criterion", name, &Criterion::NAMES)
            })?,
            n_lambda: given.count("n_lambda")?.unwrap_or(default.n_lambda),
            l1_ratio: given.number("l1_ratio")?.unwrap_or(default.l1_ratio),
            lambda_min_ratio: given.number("lambda_min_ratio")?.unwrap_or(default.lambda_min_ratio),
            penalty_factors: given.factors("penalty_factors")?,
            adaptive: given.number("adaptive")?,
            signs: given.signs()?,
            ..default
        })
    }

    /// The name of the method.
    fn method(&self) -> &'static str {
        match self.of {
            Penalised::Columns => "lasso",
            Penalised::Groups => "sparse_group_lasso",
        }
    }

    fn check_numbers(&self) -> Result<(), Error> {
        let positive = [("penalty", self.penalty), ("adaptive", self.adaptive)];
        for (name, number) in positive {
            if let Some(number) = number.filter(|number| !(*number > 0.0 && number.is_finite())) {
                return Err(refused_by(self.method(), name, &Value::Number(number)));
            }
        }
        if self.n_lambda < 2 {
            return Err(refused("n_lambda", &Value::Whole(self.n_lambda)));
        }
        if !(0.0..=1.0).contains(&self.l1_ratio) {
            return Err(refused("l1_ratio", &Value::Number(self.l1_ratio)));
        }
        if self.of == Penalised::Columns && self.l1_ratio == 0.0 {
            return Err(Error::argument(format!(
                "l1_ratio is {}; it must be a number above 0 and at most 1, as a ridge alone \
                 takes no column out",
                Value::Number(self.l1_ratio)
            )));
        }
        if !(self.lambda_min_ratio > 0.0 && self.lambda_min_ratio < 1.0) {
            return Err(refused("lambda_min_ratio", &Value::Number(self.lambda_min_ratio)));
        }
        Ok(())
    }

    /// Match the factors to the groups of a plan; refuse what leaves nothing penalised.
    fn factors(&self, plan: &Plan) -> Result<Factors, Error> {
        let factors = Factors::of(&plan.groups, &self.penalty_factors, &plan.first)?;
        let ratio = self.l1_ratio;
        if let (Some(name), true) = (&factors.own, ratio == 0.0) {
            return Err(Error::argument(format!(
                "penalty_factors names column '{name}'; without l1_ratio only groups are penalised"
            )));
        }
        let any = |factors: &[f64]| factors.iter().any(|&factor| factor > 0.0);
        let of_groups = self.of == Penalised::Groups && ratio < 1.0 && any(&factors.groups);
        if of_groups || (ratio > 0.0 && any(&factors.columns)) {
            return Ok(factors);
        }
        Err(Error::argument(
            "penalty_factors are 0 for all columns; a path penalises some".to_string(),
        ))
    }

    /// Where what is penalised begins among the columns, and what a penalty of 1 is.
    fn weights(
        &self,
        problem: &Linear,
        groups: &Groups,
        factors: &Factors,
    ) -> (Vec<usize>, Penalty) {
        let (width, ratio) = (problem.width(), self.l1_ratio);
        let pilot = self.adaptive.map(|power| Pilot::of(problem, &groups.starts, power));
        let adapted = |at| pilot.as_ref().map_or(1.0, |pilot| pilot.factor(at));
        let of_column = |j: usize| ratio * factors.columns[j] * adapted(j..j + 1);
        match self.of {
            Penalised::Columns => {
                let square = |factor: &f64| (1.0 - ratio) * factor;
                let weights = Penalty {
                    norm: (0..width).map(of_column).collect(),
                    absolute: vec![0.0; width],
                    square: factors.columns.iter().map(square).collect(),
                };
                ((0..=width).collect(), weights)
            }
            Penalised::Groups => {
                let of_group = |group: usize| {
                    let at = groups.starts[group]..groups.starts[group + 1];
                    (1.0 - ratio) * factors.groups[group] * groups.costs[group] * adapted(at)
                };
                let weights = Penalty {
                    norm: (0..groups.costs.len()).map(of_group).collect(),
                    absolute: (0..width).map(of_column).collect(),
                    square: vec![0.0; groups.costs.len()],
                };
                (groups.starts.clone(), weights)
            }
        }
    }

    /// The penalties: the one that is given, or a grid.
    pub fn grid(&self) -> Grid {
        match self.penalty {
            Some(penalty) => Grid::Given(vec![penalty]),
            None => Grid::Geometric(self.n_lambda as usize, self.lambda_min_ratio),
        }
    }

    /// The minima of a record at some penalties; one without gives the reason, one sentence.
    ///
    /// `goes_on` hears of every penalty.
    pub fn minima(
        &self,
        asked: &Setting,
        grid: &Grid,
        goes_on: &mut GoesOn,
    ) -> Result<Minima, String> {
        let (problem, plan) = (asked.problem, asked.plan);
        let factors = self.factors(plan).map_err(|error| error.message)?;
        let (starts, weights) = self.weights(problem, &plan.groups, &factors);
        let (products, c) = in_units(problem);
        let quadratic = Quadratic::new(&products, c, starts);
        if !quadratic.is_possible() {
            return Err(INDEFINITE.to_string());
        }
        let mut turn = |_| goes_on(None);
        let signs = match self.signs.is_empty() {
            true => None,
            false => {
                let members = &plan.groups.members;
                Some(signs_of(&self.signs, members).map_err(|error| error.message)?)
            }
        };
        let minimiser = Minimiser::of(Effort::default(), signs.as_deref());
        let path = Path::of(&quadratic, &weights, grid, minimiser, &mut turn);
        if path.r2.len() < path.penalties.len() {
            return Err("interrupted".to_string());
        }
        let df = |(&penalty, w): (&f64, &[f64])| degrees(&quadratic, &weights.times(penalty), w);
        let each = path.penalties.iter().zip(path.w.chunks_exact(problem.width()));
        let (df, condition) = (each.map(df).collect(), path.condition(&quadratic, &weights));
        Ok(Minima { path, df, condition })
    }

    /// The model of a record; one without gives the reason, one sentence.
    fn fit(&self, asked: &Setting) -> Result<Shrunk, String> {
        let minima = self.minima(asked, &self.grid(), &mut |_| true)?;
        let point = match self.penalty {
            Some(_) => 0,
            None => self.preferred(asked, &minima).ok_or_else(|| {
                let (name, rows) = (self.criterion.name(), asked.gram.rows);
                format!("{name} has no value: {rows} rows are too few for it")
            })?,
        };
        let (path, df, model) = (&minima.path, minima.df[point], minima.model(asked, point));
        let (gap, violation) = (path.gap[point], path.violation[point]);
        Ok(Shrunk { model, penalty: path.penalties[point], df, gap, violation })
    }

    /// The point that the criterion prefers, the first of equals.
    pub fn preferred(&self, asked: &Setting, minima: &Minima) -> Option<usize> {
        let Setting { problem, plan, gram, target, fields } = asked;
        let Minima { path, df, .. } = minima;
        let mut all = State::new(problem, &plan.groups.starts, Buffers::default());
        if self.criterion == Criterion::Cp {
            (0..all.size()).for_each(|group| {
                all.add(group);
            });
        }
        let units = path.lengths.len() / path.r2.len();
        let trials = Trials {
            rows: gram.rows,
            total: gram.comoment(*target, *target),
            intercept: f64::from(u8::from(fields.intercept)),
            units,
            columns: problem.width(),
            left_all: 1.0 - all.explained(),
            degrees_all: all.support().len() as f64,
        };
        let mut best: Option<(usize, f64)> = None;
        for (point, lengths) in path.lengths.chunks_exact(units).enumerate() {
            let held = lengths.iter().filter(|length| **length > 0.0).count();
            let value = self.criterion.value(&trials, 1.0 - path.r2[point], df[point], held);
            let is_less = |value: &f64| best.is_none_or(|(_, least)| *value < least);
            if let Some(value) = value.filter(is_less) {
                best = Some((point, value));
            }
        }
        best.map(|(point, _)| point)
    }
}

impl Minima {
    /// The model at a point.
    pub fn model(&self, asked: &Setting, point: usize) -> Chosen {
        let problem = asked.problem;
        let w = self.path.at(point, problem.width());
        let columns: Vec<usize> = (0..w.len()).filter(|&j| w[j] != 0.0).collect();
        let r2 = self.path.r2[point].min(1.0);
        Chosen {
            groups: asked.plan.groups.of_columns(&columns),
            coefficients: columns.iter().map(|&j| w[j] * problem.unit[j]).collect(),
            columns,
            explained: r2,
            r2,
            residual: 1.0 - r2,
            condition: self.condition,
            trace: None,
        }
    }
}

impl Limited for LassoOptions {
    fn of_rows(&self) -> Option<&'static str> {
        self.penalty.is_none().then_some("the criterion that chooses the penalty")
    }

    fn check(&self) -> Result<(), Error> {
        self.check_numbers()
    }

    fn check_plan(&self, plan: &Plan) -> Result<(), Error> {
        signs_of(&self.signs, &plan.groups.members)?;
        self.factors(plan).map(|_| ())
    }
}

impl Choice for LassoOptions {
    fn choose<'a>(
        &self,
        asked: &Setting<'a>,
        _: Buffers,
        _: &mut GoesOn,
    ) -> Result<(Found<'a>, Vec<f64>), String> {
        let Shrunk { model, penalty, df, gap, violation } = self.fit(asked)?;
        let more = [penalty, df, gap, violation].map(Cell::Number).to_vec();
        Ok((model.found(asked, more), Vec::new()))
    }
}

/// G and c in the units that the caller compares columns in.
fn in_units(problem: &Linear) -> (Cow<'_, [f64]>, Vec<f64>) {
    let unit = &problem.unit;
    if unit.iter().all(|&unit| unit == 1.0) {
        return (Cow::Borrowed(&problem.correlations), problem.target.clone());
    }
    let width = problem.width();
    let own = |at: usize| problem.correlations[at] * unit[at / width] * unit[at % width];
    let target = problem.target.iter().zip(unit).map(|(c, unit)| c * unit).collect();
    (Cow::Owned((0..width * width).map(own).collect()), target)
}

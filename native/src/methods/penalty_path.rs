//! `lasso_path` and `group_lasso_path`: the minima at falling penalties, and what describes each.

use super::answer::{Cell, Found};
use super::given::Given;
use super::question::{Choice, Setting};
use super::setup::{Limited, Plan};
use crate::linear::state::Buffers;
use crate::methods::lasso::{LassoOptions, Minima, Penalised};
use crate::search::penalised::path::Grid;
use crate::search::sets::exchange::GoesOn;
use crate::words::error::Error;

/// The options of both.
#[derive(Clone, Debug)]
pub struct PathOptions {
    lasso: LassoOptions,
    /// Penalties, falling; default: those of the model at one penalty.
    penalties: Option<Vec<f64>>,
}

impl PathOptions {
    /// Options by the names that users give.
    pub const NAMES: &[&str] = &[
        "signs",
        "penalties",
        "lambda_min_ratio",
        "penalty_factors",
        "adaptive",
        "penalty",
        "criterion",
        "n_lambda",
        "l1_ratio",
    ];

    /// Read the options of a call.
    pub fn read(of: Penalised, given: &Given) -> Result<PathOptions, Error> {
        let (lasso, penalties) = (LassoOptions::read(of, given)?, given.numbers("penalties")?);
        Ok(PathOptions { lasso, penalties })
    }
}

impl Limited for PathOptions {
    fn check(&self) -> Result<(), Error> {
        self.lasso.check()
    }

    fn limits(&self) -> (Option<f64>, Option<i64>) {
        self.lasso.limits()
    }

    fn check_plan(&self, plan: &Plan) -> Result<(), Error> {
        self.lasso.check_plan(plan)
    }
}

impl Choice for PathOptions {
    fn choose<'a>(
        &self,
        asked: &Setting<'a>,
        _: Buffers,
        goes_on: &mut GoesOn,
    ) -> Result<(Found<'a>, Vec<f64>), String> {
        let grid = self.penalties.clone().map_or_else(|| self.lasso.grid(), Grid::Given);
        let minima = self.lasso.minima(asked, &grid, goes_on)?;
        let preferred = self.lasso.preferred(asked, &minima);
        let Minima { path, df, condition } = &minima;
        let problem = asked.problem;
        let intercept = |point: usize| {
            let model = minima.model(asked, point);
            model.intercept(problem, &model.in_units(problem))
        };
        let intercepts: Vec<f64> = (0..path.r2.len()).map(intercept).collect();
        let spread = problem.spread.iter().map(|spread| problem.target_spread / spread);
        let numbers = |all: &[f64]| Cell::List(all.iter().copied().map(Cell::Number).collect());
        let count = |&count: &usize| Cell::Whole(count as i64);
        let counts = |all: &[usize]| Cell::List(all.iter().map(count).collect());
        let fields = vec![
            numbers(&path.penalties),
            numbers(&path.w),
            numbers(&problem.unit),
            numbers(&spread.collect::<Vec<f64>>()),
            numbers(&intercepts),
            numbers(&path.lengths),
            numbers(&path.r2),
            numbers(&path.gap),
            numbers(&path.violation),
            numbers(df),
            counts(&path.entered),
            counts(&path.entered_at),
            preferred.as_ref().map_or(Cell::Null, count),
        ];
        let cell = Cell::List(fields);
        Ok((Found { cell, condition: *condition, trace: None }, Vec::new()))
    }
}

//! The model of chosen groups, as every method that chooses answers it.

use std::borrow::Cow;

use super::answer::{Cell, Found};
use super::question::Setting;
use crate::linear::problem::Linear;
use crate::linear::refine::{Refiner, is_correctable};
use crate::linear::state::State;

/// A linear model on some columns of chosen groups.
#[derive(Clone, Debug, Default)]
pub struct Chosen {
    /// Numbers of the groups, in the order taken.
    pub groups: Vec<usize>,
    /// Numbers of the columns among those of the plan.
    pub columns: Vec<usize>,
    /// One a column, on unit-variance columns and target.
    pub coefficients: Vec<f64>,
    /// Share of the target's variance that the penalised objective explains.
    pub explained: f64,
    /// 1 - RSS/TSS.
    pub r2: f64,
    /// RSS / TSS, in more digits than 1 - r2 where little is left.
    pub residual: f64,
    /// Condition number of the columns' correlations.
    pub condition: f64,
    /// The dependent column whose trace may explain much.
    pub trace: Option<usize>,
}

impl Chosen {
    /// The least-squares or ridge model of what a state holds, in the order taken.
    pub fn of_state(setting: &Setting, state: &mut State) -> Chosen {
        let problem = setting.problem;
        let ridge = setting.fields.ridge;
        let mut coef = Vec::new();
        state.coefficients(&mut coef);
        let condition = state.condition();
        let trace = if ridge == 0.0 { state.trace() } else { None };
        let penalty = |(row, w): (usize, &f64)| w * w * problem.ridge[state.support()[row]];
        let explained = state.explained();
        let r2 = explained + coef.iter().enumerate().map(penalty).sum::<f64>();
        let mut residual = (1.0 - r2).max(0.0);
        if ridge == 0.0 && is_correctable(condition) {
            let mut refiner = Refiner::default();
            refiner.set_up(&setting.gram, state, &setting.plan.at, setting.target);
            refiner.refine(problem, state.inverse(), &mut coef);
            let total = setting.gram.comoment(setting.target, setting.target);
            residual = refiner.left_over(&coef, total) / total;
        }
        let groups: Vec<usize> = state.held().iter().map(|held| held.group).collect();
        let columns: Vec<usize> = groups.iter().flat_map(|&group| state.columns(group)).collect();
        let own = |&column: &usize| state.place(column).map_or(0.0, |row| coef[row]);
        Chosen {
            coefficients: columns.iter().map(own).collect(),
            groups,
            columns,
            explained: explained.min(1.0),
            r2: r2.min(1.0),
            residual,
            condition,
            trace: trace.map(|trace| trace.column),
        }
    }

    /// The model with what else a method says of it.
    pub fn found<'a>(&self, setting: &Setting<'a>, more: Vec<Cell<'a>>) -> Found<'a> {
        let (problem, groups) = (setting.problem, &setting.plan.groups);
        let name = |&column: &usize| Cell::text(&groups.members[column]);
        let own = self.in_units(problem);
        let entry = |(&column, &w): (&usize, &f64)| (Cow::from(&groups.members[column][..]), w);
        let mut fields = vec![
            Cell::List(self.columns.iter().map(name).collect()),
            Cell::List(self.groups.iter().map(|&group| Cell::text(&groups.names[group])).collect()),
            Cell::Number(self.intercept(problem, &own)),
            Cell::Map(self.columns.iter().zip(&own).map(entry).collect()),
            Cell::Number(self.explained),
            Cell::Number(self.r2),
            Cell::Number(groups.prices().spent(self.groups.iter().copied())),
        ];
        fields.extend(more);
        Found {
            cell: Cell::List(fields),
            condition: self.condition,
            trace: self.trace.map(|column| groups.members[column].as_str()),
        }
    }

    /// The coefficients in the table's units.
    pub fn in_units(&self, problem: &Linear) -> Vec<f64> {
        let unit = |column: usize| problem.target_spread / problem.spread[column];
        self.coefficients.iter().zip(&self.columns).map(|(w, &column)| w * unit(column)).collect()
    }

    /// The constant term beside coefficients in the table's units.
    pub fn intercept(&self, problem: &Linear, own: &[f64]) -> f64 {
        let shares = self.columns.iter().zip(own).map(|(&column, w)| w * problem.mean[column]);
        problem.target_mean - shares.sum::<f64>()
    }
}

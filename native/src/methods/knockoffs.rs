//! `knockoffs`: groups that a search prefers to copies of them.
//!
//! `dbselect/validation/knockoffs.py` takes any search with any options.

use super::answer::{Cell, Found};
use super::given::Given;
use super::options::{AnytimeOptions, FobaOptions, StepOptions, choice, refused};
use super::question::{Choice, Setting};
use super::run::Workspace;
use super::setup::{Limited, Method, Plan, Request};
use crate::linear::fields::Fields;
use crate::linear::problem::{Gram, Linear, Target};
use crate::linear::state::Buffers;
use crate::record::terms::Terms;
use crate::search::draws::Draws;
use crate::search::knockoffs::selection::{Selection, bound_of_each, select};
use crate::search::knockoffs::{Assumed, Made};
use crate::search::penalised::descent::Effort;
use crate::search::penalised::path::{Grid, Minimiser, Path};
use crate::search::penalised::quadratic::{Penalty, Quadratic};
use crate::search::sets::exchange::GoesOn;
use crate::search::steps::to_the_end;
use crate::words::error::Error;
use crate::words::value::Value;

/// Penalties of the group lasso that orders groups, and the last as a share of the first.
const PENALTIES: (usize, f64) = (50, 1e-3);

/// What orders groups and copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// `anytime_sequence`.
    #[default]
    Anytime,
    /// `foba`.
    Foba,
    /// The penalties at which groups enter the path of the group lasso.
    GroupLasso,
    /// `step`.
    Step,
}

/// The options of `knockoffs`.
#[derive(Clone, Debug)]
pub struct KnockoffOptions {
    /// Bound on the expected share of false groups among those selected.
    pub q: f64,
    /// What orders groups and copies.
    pub search: Order,
    /// What is assumed.
    pub kind: Assumed,
    /// Times that knockoffs are drawn.
    pub draws: i64,
}

impl KnockoffOptions {
    /// Options by the names that users give.
    pub const NAMES: &[&str] = &["q", "search", "kind", "draws"];

    /// Read the options of a call.
    pub fn read(given: &Given) -> Result<KnockoffOptions, Error> {
        let searches = [
            ("anytime_sequence", Order::Anytime),
            ("foba", Order::Foba),
            ("group_lasso", Order::GroupLasso),
            ("step", Order::Step),
        ];
        let kinds = [("fixed", Assumed::Fixed), ("second_order", Assumed::SecondOrder)];
        let search = given.get("search").map(|name| choice("search", name, &searches));
        let kind = given.get("kind").map(|name| choice("kind", name, &kinds));
        Ok(KnockoffOptions {
            q: given.number("q")?.unwrap_or(0.1),
            search: search.transpose()?.unwrap_or_default(),
            kind: kind.transpose()?.unwrap_or_default(),
            draws: given.count("draws")?.unwrap_or(1),
        })
    }

    /// Draw knockoffs, and order groups and copies by each draw.
    fn select(&self, asked: &Setting, made: &Made) -> Result<Selection, String> {
        let mut draws = Draws::new(asked.fields.seed);
        let mut statistics = Vec::new();
        for _ in 0..self.draws {
            let drawn = made.draw(self.kind, &mut draws);
            statistics.extend(self.statistic(asked, made, &drawn)?);
        }
        Ok(select(&statistics, asked.plan.groups.costs.len(), self.q))
    }

    /// How long before its copy each group comes: W, below 0 where it comes after.
    ///
    /// The first of both counts, from the end of the order: 2 J for the first of all.
    fn statistic(&self, asked: &Setting, made: &Made, drawn: &[f64]) -> Result<Vec<f64>, String> {
        let (width, rows) = (made.kept.len(), asked.gram.rows);
        let columns: Vec<String> = (0..2 * width)
            .map(|at| if at < width { format!("x{at}") } else { format!("k{}", at - width) })
            .chain(["y".to_string()])
            .collect();
        let groups = made.groups(&asked.plan.groups.costs, &columns);
        let (mean, comoment) = (vec![0.0; columns.len()], made.comoments(drawn));
        let gram = Gram {
            rows,
            skipped: 0,
            weight: rows as f64,
            mean: &mean,
            mean_low: &[],
            missing: &[],
            comoment: &comoment,
        };
        let number = |name: &String| columns.iter().position(|other| other == name);
        let at = groups.members.iter().filter_map(number).collect();
        let target = Target::of("y", &columns, &Terms::default()).map_err(|e| e.message)?;
        let (first, start) = (Vec::new(), Vec::new());
        let plan = Plan { target, groups, at, first, start, watched: Vec::new() };
        let scale = asked.fields.scale;
        let order = self.order(&plan, &gram, Fields { scale, ..Fields::default() })?;
        let size = plan.groups.costs.len();
        let mut left = vec![0.0; size];
        order.iter().enumerate().for_each(|(place, &group)| left[group] = (size - place) as f64);
        // The groups that have columns, and after each its copy.
        let mut next = 0;
        let of = |bounds: &[usize]| {
            if bounds[0] == bounds[1] {
                return 0.0;
            }
            let (own, copy) = (left[next], left[next + 1]);
            next += 2;
            if own == copy { 0.0 } else { f64::max(own, copy) * (own - copy).signum() }
        };
        Ok(made.starts.windows(2).map(of).collect())
    }

    /// The groups and copies that the search takes, in the order of their first steps.
    fn order(&self, plan: &Plan, gram: &Gram, fields: Fields) -> Result<Vec<usize>, String> {
        let method = match self.search {
            Order::Anytime => Method::Anytime(AnytimeOptions::default()),
            Order::Foba => Method::Foba(FobaOptions::default()),
            Order::Step => Method::Step(StepOptions::default()),
            Order::GroupLasso => return entries(plan, gram, &fields),
        };
        let (target, groups, costs) = ("y".to_string(), None, None);
        let request = Request { target, groups, costs, fields, method };
        let mut workspace = Workspace::default();
        let found = workspace.search(&request, plan, gram, &mut to_the_end)?;
        let mut order: Vec<usize> = Vec::new();
        for step in &found.steps {
            if !order.contains(&step.group) {
                order.push(step.group);
            }
        }
        Ok(order)
    }
}

/// The groups in the order in which they enter the path of the cost-weighted group lasso.
fn entries(plan: &Plan, gram: &Gram, fields: &Fields) -> Result<Vec<usize>, String> {
    let target = plan.target.usable(gram, true)?;
    let mut problem = Linear::default();
    problem.set_up(gram, target, &plan.at, 0.0, fields.scale);
    // Columns of unit variance: their units are all 1.
    let quadratic =
        Quadratic::new(&problem.correlations, problem.target.clone(), plan.groups.starts.clone());
    let weights = Penalty {
        norm: plan.groups.costs.clone(),
        absolute: vec![0.0; problem.width()],
        square: vec![0.0; plan.groups.costs.len()],
    };
    let grid = Grid::Geometric(PENALTIES.0, PENALTIES.1);
    Ok(Path::of(&quadratic, &weights, &grid, Minimiser::of(Effort::default(), None), &mut |_| true)
        .entered)
}

impl Limited for KnockoffOptions {
    fn of_rows(&self) -> Option<&'static str> {
        Some("knockoffs")
    }

    fn check(&self) -> Result<(), Error> {
        if self.draws < 1 {
            return Err(refused("draws", &Value::Whole(self.draws)));
        }
        if self.q > 0.0 && self.q < 1.0 {
            return Ok(());
        }
        Err(refused("q", &Value::Number(self.q)))
    }

    fn check_plan(&self, plan: &Plan) -> Result<(), Error> {
        let count = plan.groups.names.len();
        let least = (1.0 / bound_of_each(self.q, self.draws as usize)).ceil();
        if (count as f64) < least {
            return Err(Error::argument(format!(
                "q is {}; of {count} groups none could be selected, as at least {least} are \
                 always selected together",
                Value::Number(self.q)
            )));
        }
        Ok(())
    }
}

impl Choice for KnockoffOptions {
    fn choose<'a>(
        &self,
        asked: &Setting<'a>,
        _: Buffers,
        _: &mut GoesOn,
    ) -> Result<(Found<'a>, Vec<f64>), String> {
        let Setting { plan, problem, gram, .. } = asked;
        let name = &plan.target.name;
        let made = Made::of(problem, &plan.groups.starts, gram.rows, name, self.kind)?;
        let found = self.select(asked, &made)?;
        let Selection { statistic, frequency, e_value, selected } = &found;
        let mut order: Vec<usize> = (0..statistic.len()).collect();
        order.sort_by(|&i, &j| {
            e_value[j].total_cmp(&e_value[i]).then(statistic[j].total_cmp(&statistic[i]))
        });
        let row = |at: usize| {
            Cell::List(vec![
                Cell::text(&plan.groups.names[at]),
                Cell::Number(plan.groups.costs[at]),
                Cell::Number(statistic[at]),
                Cell::Number(frequency[at]),
                Cell::Number(e_value[at]),
                Cell::Truth(selected[at]),
            ])
        };
        let cell = Cell::List(order.into_iter().map(row).collect());
        Ok((Found { cell, condition: made.condition, trace: None }, Vec::new()))
    }
}

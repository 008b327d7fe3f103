//! Knockoffs: which groups a search prefers to copies that add nothing about the target.
//!
//! Each group gets a copy with the same correlations with all others and none of its own with
//! the target. A search orders groups and copies; a group that comes long before its copy is
//! selected. As many false groups come before their copies as after them, so those that come
//! after give the number of false ones to expect.
//!
//! | module | what |
//! |---|---|
//! | `copies` | what copies share with columns and target |
//! | `selection` | which groups are selected by how long before their copies they come |
//!
//! The twin of `dbselect/validation/knockoffs.py`, where the search may be any with any options.

pub mod copies;
pub mod selection;

use self::copies::Copies;
use self::selection::{Selection, bound_of_each, select};
use super::draws::Draws;
use super::penalised::descent::Effort;
use super::penalised::path::{Grid, Path};
use super::penalised::quadratic::{Penalty, Quadratic};
use super::run::Workspace;
use super::sets::exchange::GoesOn;
use super::steps::{is_possible, to_the_end};
use crate::kernel::possible::INDEFINITE;
use crate::linear::groups::Groups;
use crate::linear::problem::{Gram, Linear, Target};
use crate::linear::state::{Buffers, State};
use crate::methods::answer::{Cell, Found};
use crate::methods::given::Given;
use crate::methods::options::{AnytimeOptions, Fields, FobaOptions, StepOptions, choice, refused};
use crate::methods::question::{Choice, Setting};
use crate::methods::setup::{Limited, Method, Plan, Request};
use crate::methods::value::Value;
use crate::record::terms::Terms;
use crate::words::error::Error;

/// Penalties of the group lasso that orders groups, and the last as a share of the first.
const PENALTIES: (usize, f64) = (50, 1e-3);
/// A target whose share that is explained is nearer to 1 has no errors to test.
const EXACT: f64 = 1e-12;

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

/// What is assumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Assumed {
    /// Nothing of the columns; of the errors that they are normal, independent and of one
    /// variance.
    #[default]
    Fixed,
    /// That rows are those of normal columns.
    SecondOrder,
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

/// The knockoffs of the columns of some groups that do not depend on others.
pub struct Made {
    copies: Copies,
    /// Columns that are not dependent, as numbers among those of the plan.
    pub kept: Vec<usize>,
    /// Where the kept columns of each group begin, and where the last end.
    pub starts: Vec<usize>,
    /// Condition number of the columns' correlations.
    pub condition: f64,
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
        let (mean, comoment) = (vec![0.0; columns.len()], made.copies.comoments(drawn));
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
        let plan = Plan { target, groups, at, first, start };
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

impl Made {
    /// The knockoffs of the columns of a plan.
    ///
    /// A record that has none gives the reason, one sentence.
    pub fn of(
        problem: &Linear,
        starts: &[usize],
        rows: i64,
        target: &str,
        kind: Assumed,
    ) -> Result<Made, String> {
        let mut state = State::new(problem, starts, Buffers::default());
        (0..state.size()).for_each(|group| {
            state.add(group);
        });
        if !is_possible(state.explained()) || state.is_indefinite() {
            return Err(INDEFINITE.to_string());
        }
        let mut kept = state.support().to_vec();
        kept.sort_unstable();
        let width = kept.len();
        let least = if kind == Assumed::Fixed { 2 * width + 1 } else { width + 2 } as i64;
        if rows < least {
            let is_enough = kind == Assumed::Fixed && rows >= width as i64 + 2;
            let way = if is_enough { "; with kind 'second_order' less" } else { "" };
            return Err(format!(
                "{rows} rows are too few for {width} columns: {least} are needed{way}"
            ));
        }
        if kept.is_empty() {
            return Err("every column is constant, and has no knockoff".to_string());
        }
        if state.explained() >= 1.0 - EXACT {
            return Err(format!(
                "the columns explain '{target}' exactly; there are no errors to test"
            ));
        }
        let own = |&i: &usize| kept.iter().map(move |&j| (i, j));
        let correlations = kept.iter().flat_map(own).map(|(i, j)| problem.row(i)[j]).collect();
        let c = kept.iter().map(|&j| problem.target[j]).collect();
        let before = |start: &usize| kept.partition_point(|column| column < start);
        let starts: Vec<usize> = starts.iter().map(before).collect();
        let mut blocks = starts.clone();
        blocks.dedup();
        let copies = Copies::of(correlations, c, rows as usize, &blocks);
        Ok(Made { copies, kept, starts, condition: state.condition() })
    }

    /// Draw what the copies share with the target.
    pub fn draw(&self, kind: Assumed, draws: &mut Draws) -> Vec<f64> {
        match kind {
            Assumed::Fixed => self.copies.fixed(draws),
            Assumed::SecondOrder => self.copies.second_order(draws),
        }
    }

    /// Comoments of columns, copies and target.
    pub fn comoments(&self, drawn: &[f64]) -> Vec<f64> {
        self.copies.comoments(drawn)
    }

    /// The groups that have columns, each followed by its copy.
    fn groups(&self, costs: &[f64], columns: &[String]) -> Groups {
        let width = self.kept.len();
        let mut groups = Groups {
            names: Vec::new(),
            members: Vec::new(),
            same: Vec::new(),
            starts: vec![0],
            costs: Vec::new(),
        };
        for (bounds, cost) in self.starts.windows(2).zip(costs) {
            for first in [0, width] {
                if bounds[0] < bounds[1] {
                    let own = &columns[first + bounds[0]..first + bounds[1]];
                    groups.names.push(own[0].clone());
                    groups.members.extend_from_slice(own);
                    groups.starts.push(groups.members.len());
                    groups.costs.push(*cost);
                }
            }
        }
        groups
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
    Ok(Path::of(&quadratic, &weights, &grid, Effort::default(), &mut |_| true).entered)
}

impl Limited for KnockoffOptions {
    fn check(&self) -> Result<(), Error> {
        if self.draws < 1 {
            return Err(refused("draws", &Value::Whole(self.draws)));
        }
        if self.q > 0.0 && self.q < 1.0 {
            return Ok(());
        }
        Err(refused("q", &Value::Number(self.q)))
    }

    fn limits(&self) -> (Option<f64>, Option<i64>) {
        (None, None)
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

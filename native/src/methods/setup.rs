//! What every search begins with: a request, matched to the columns of a record.

use std::collections::HashMap;
use std::sync::Arc;

use super::options::{AnytimeOptions, BackwardOptions, FloatingOptions, FobaOptions, StepOptions};
use crate::linear::columns::{features_of, match_columns};
use crate::linear::em::check_rows;
use crate::linear::fields::Fields;
use crate::linear::groups::{Costs, GroupColumns, Groups, groups_of};
use crate::linear::problem::{Gram, Target};
use crate::record::prefix::fits;
use crate::record::terms::Terms;
use crate::search::walks::step::Direction;
use crate::words::error::{Error, rounded, shown};

/// Which search, and its options.
#[derive(Clone, Debug)]
pub enum Method {
    /// `anytime_sequence`.
    Anytime(AnytimeOptions),
    /// `foba`.
    Foba(FobaOptions),
    /// `backward`.
    Backward(BackwardOptions),
    /// `floating`.
    Floating(FloatingOptions),
    /// `step`.
    Step(StepOptions),
}

/// The options of a method of groups.
pub trait Limited {
    /// Refuse what no columns could make right.
    fn check(&self) -> Result<(), Error>;
    /// Limits on the summed cost and on the number of groups.
    fn limits(&self) -> (Option<f64>, Option<i64>) {
        (None, None)
    }
    /// Numbers of other groups than those to take first that it begins with.
    fn start(&self, _groups: &Groups, _first: &[usize]) -> Result<Vec<usize>, Error> {
        Ok(Vec::new())
    }
    /// Names and globs of columns to which predictions are compared, if any.
    fn watch(&self) -> Option<&[String]> {
        None
    }
    /// Whether a column may lie in several groups.
    fn takes_shared(&self) -> bool {
        false
    }
    /// What it is, if it counts the rows of a record.
    fn of_rows(&self) -> Option<&'static str> {
        None
    }
    /// Refuse what the groups of a record do not have.
    fn check_plan(&self, _: &Plan) -> Result<(), Error> {
        Ok(())
    }
}

impl Limited for Method {
    fn of_rows(&self) -> Option<&'static str> {
        matches!(self, Method::Step(_)).then_some("criteria of step")
    }

    fn check(&self) -> Result<(), Error> {
        match self {
            Method::Anytime(options) => options.check(),
            Method::Foba(options) => options.check(),
            Method::Backward(options) => options.check(),
            Method::Floating(options) => options.check(),
            Method::Step(options) => options.check(),
        }
    }

    fn limits(&self) -> (Option<f64>, Option<i64>) {
        match self {
            Method::Anytime(options) => (options.budget, options.max_groups),
            Method::Foba(options) => (options.backward.budget, None),
            Method::Backward(options) => (options.budget, None),
            Method::Floating(options) => (options.budget, options.max_groups),
            Method::Step(options) => (options.budget, None),
        }
    }

    fn start(&self, groups: &Groups, first: &[usize]) -> Result<Vec<usize>, Error> {
        let Method::Step(options) = self else {
            return Ok(Vec::new());
        };
        match &options.start {
            Some(names) => groups.others(names, "start", first),
            None if options.direction == Direction::Backward => {
                Ok((0..groups.names.len()).filter(|group| !first.contains(group)).collect())
            }
            None => Ok(Vec::new()),
        }
    }

    fn takes_shared(&self) -> bool {
        matches!(self, Method::Anytime(_))
    }
}

impl<M: Limited + ?Sized> Limited for Arc<M> {
    fn check(&self) -> Result<(), Error> {
        (**self).check()
    }

    fn limits(&self) -> (Option<f64>, Option<i64>) {
        (**self).limits()
    }

    fn start(&self, groups: &Groups, first: &[usize]) -> Result<Vec<usize>, Error> {
        (**self).start(groups, first)
    }

    fn watch(&self) -> Option<&[String]> {
        (**self).watch()
    }

    fn takes_shared(&self) -> bool {
        (**self).takes_shared()
    }

    fn of_rows(&self) -> Option<&'static str> {
        (**self).of_rows()
    }

    fn check_plan(&self, plan: &Plan) -> Result<(), Error> {
        (**self).check_plan(plan)
    }
}

/// A method and its arguments, the same for every record.
#[derive(Clone, Debug)]
pub struct Request<M = Method> {
    /// Column to predict.
    pub target: String,
    /// Name of each group -> columns or globs; default: every top-level field.
    pub groups: Option<GroupColumns>,
    /// Name of each group -> cost > 0; default: 1 each.
    pub costs: Option<Costs>,
    /// The other fields of the problem.
    pub fields: Fields,
    /// The method and its options.
    pub method: M,
}

/// A request, matched to some columns.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The column to predict.
    pub target: Target,
    /// Groups and costs.
    pub groups: Groups,
    /// Numbers of the columns of the groups, group by group.
    pub at: Vec<usize>,
    /// Numbers of the groups to take first.
    pub first: Vec<usize>,
    /// Numbers of other groups to begin with.
    pub start: Vec<usize>,
    /// Columns to which a prediction is compared, and their numbers in the record.
    pub watched: Vec<(String, usize)>,
}

/// A request beside some columns, whose groups may not fit them.
#[derive(Clone, Debug)]
pub struct Fit {
    target: Target,
    intercept: bool,
    plan: Result<Plan, Error>,
}

impl Fit {
    /// The plan for a record of these columns; the reason where that cannot be searched.
    ///
    /// Groups that do not fit are a mistake only where there is something to search: the
    /// levels of a category are unknown to a record without rows.
    pub fn plan(&self, gram: &Gram) -> Result<Result<&Plan, String>, Error> {
        match (&self.plan, self.target.usable(gram, self.intercept)) {
            (_, Err(reason)) => Ok(Err(reason)),
            (Ok(plan), Ok(_)) => Ok(Ok(plan)),
            (Err(error), Ok(_)) => Err(error.clone()),
        }
    }
}

impl<M: Limited> Request<M> {
    /// Refuse what no columns could make right.
    pub fn check(&self) -> Result<(), Error> {
        self.fields.check()?;
        self.method.check()
    }

    /// Match the request to the columns of a record, and to how these came to be.
    ///
    /// The error says that they have no such target.
    pub fn fit(&self, columns: &[String], terms: &Terms) -> Result<Fit, Error> {
        let target = Target::of(&self.target, columns, terms)?;
        let intercept = self.fields.intercept;
        Ok(Fit { plan: self.plan(target.clone(), columns, terms), target, intercept })
    }

    fn plan(&self, target: Target, columns: &[String], terms: &Terms) -> Result<Plan, Error> {
        if let Some(what) = self.method.of_rows() {
            check_rows(terms, what)?;
        }
        let features = features_of(columns, &self.target, terms)?;
        let (groups, costs) = (self.groups.as_ref(), self.costs.as_ref());
        let (sharing, told) = (self.method.takes_shared(), &self.fields.told);
        let groups = groups_of(&features, groups, costs, &self.target, terms, sharing, told)?;
        let numbers: HashMap<&str, usize> =
            columns.iter().enumerate().map(|(j, name)| (name.as_str(), j)).collect();
        let at = groups.members.iter().filter_map(|name| numbers.get(name.as_str()).copied());
        let at = at.collect();
        let mut plan = self.plan_of(target, groups, at)?;
        if let Some(patterns) = self.method.watch() {
            let named = match_columns(patterns, columns, "watch")?;
            plan.watched = named
                .into_iter()
                .filter_map(|name| numbers.get(name.as_str()).map(|&at| (name.clone(), at)))
                .collect();
        }
        Ok(plan)
    }

    /// The plan for groups, whose members have the numbers `at` in a record.
    pub fn plan_of(&self, target: Target, groups: Groups, at: Vec<usize>) -> Result<Plan, Error> {
        let (budget, max_groups) = self.method.limits();
        let groups = groups.under(&self.fields.told)?;
        let first = groups.numbers(&self.fields.always)?;
        let start = self.method.start(&groups, &first)?;
        let all = groups.prices().closed(&[&first[..], &start].concat());
        let start = all[first.len()..].to_vec();
        check_first(&groups, &[&first[..], &start].concat(), budget, max_groups)?;
        let plan = Plan { target, groups, at, first, start, watched: Vec::new() };
        self.method.check_plan(&plan)?;
        Ok(plan)
    }
}

/// Refuse groups to take first that go beyond the limits.
pub fn check_first(
    groups: &Groups,
    first: &[usize],
    budget: Option<f64>,
    max_groups: Option<i64>,
) -> Result<(), Error> {
    let cost = groups.prices().spent(first.iter().copied());
    if let Some(budget) = budget.filter(|_| !fits(cost, budget)) {
        return Err(Error::argument(format!(
            "always costs {} in all; that is over the budget of {}",
            rounded(cost),
            shown(budget)
        )));
    }
    match max_groups {
        Some(limit) if (first.len() as i64) > limit => Err(Error::argument(format!(
            "always names {} groups; max_groups allows {limit}",
            first.len()
        ))),
        _ => Ok(()),
    }
}

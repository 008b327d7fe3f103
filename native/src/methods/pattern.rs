//! The model of some groups, and what each of the others would add to it.

use std::borrow::Cow;

use crate::kernel::possible::{INDEFINITE, is_possible};
use crate::linear::algebra::student::Student;
use crate::linear::groups::Groups;
use crate::linear::prefixes::degrees;
use crate::linear::state::{Buffers, State};
use crate::methods::answer::{Cell, Found};
use crate::methods::chosen::Chosen;
use crate::methods::given::Given;
use crate::methods::options::refused_by;
use crate::methods::question::{Choice, Setting};
use crate::methods::setup::Limited;
use crate::record::prefix::fits;
use crate::search::sets::exchange::GoesOn;
use crate::search::steps::{Action, ROUNDING_GAIN};
use crate::search::walks::moves::together;
use crate::words::error::Error;

/// A pattern: groups that are there.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// Their numbers, ascending.
    pub groups: Vec<usize>,
    /// Constant term.
    pub intercept: f64,
    /// Columns of the groups with their coefficients, in the table's units; aliased ones have 0.
    pub coefficients: Vec<(String, f64)>,
    /// What the groups cost.
    pub spent: f64,
    /// Share of the target's variance that the model explains.
    pub r2: f64,
    /// Standard deviation of the residuals; NaN where no row is left to estimate it.
    pub sigma: f64,
    /// Rows that are left to estimate it, by the effective number of parameters; may be <= 0.
    pub free: f64,
    /// What each group would add, with those that it needs, to the share that is explained; 0 for
    /// those that are there.
    pub gains: Vec<f64>,
    /// What each group costs now, with those that it needs; infinite where it may not come.
    pub costs: Vec<f64>,
    /// The first to buy of each group and those that it needs.
    firsts: Vec<usize>,
}

impl Pattern {
    /// Solve for some groups, ascending; O(D^2 |S|) for D columns.
    ///
    /// The error says that the record is that of no rows.
    pub fn solve(asked: &Setting, groups: &[usize]) -> Result<Pattern, String> {
        let all = &asked.plan.groups;
        let mut state = State::new(asked.problem, &all.starts, Buffers::default());
        groups.iter().for_each(|&group| {
            state.add(group);
        });
        if state.is_indefinite() || !is_possible(state.explained()) {
            return Err(INDEFINITE.to_string());
        }
        let (prices, mut gains) = (all.prices(), Vec::new());
        together(&mut state, prices, Action::Add, &mut |state, all| state.gains(all), &mut gains);
        let (offers, waiting) = (prices.offers(state.waiting()), state.waiting().to_vec());
        let cost = |g: usize| if offers.is_open(g) { offers.costs[g] } else { f64::INFINITY };
        let first = |group: usize| prices.with_needs(group, &waiting)[0];
        let chosen = Chosen::of_state(asked, &mut state);
        let free = asked.gram.rows as f64
            - f64::from(u8::from(asked.fields.intercept))
            - degrees(&mut state);
        let left = chosen.residual * asked.gram.comoment(asked.target, asked.target);
        let sigma = if free > 0.0 { (left / free).sqrt() } else { f64::NAN };
        let own = chosen.in_units(asked.problem);
        let named = |(&column, w): (&usize, f64)| (all.members[column].clone(), w);
        Ok(Pattern {
            intercept: chosen.intercept(asked.problem, &own),
            coefficients: chosen.columns.iter().zip(own).map(named).collect(),
            spent: prices.spent(groups.iter().copied()),
            costs: (0..gains.len()).map(cost).collect(),
            firsts: (0..gains.len()).map(first).collect(),
            r2: chosen.r2,
            groups: groups.to_vec(),
            sigma,
            free,
            gains,
        })
    }

    /// The group that gains most for its cost among those that cost no more than a limit; the
    /// first of equals, and before it what it needs. Nothing if none gains more than rounding.
    pub fn next(&self, limit: f64) -> Option<usize> {
        let costs = &self.costs;
        let can = |&group: &usize| {
            self.gains[group] > ROUNDING_GAIN
                && costs[group].is_finite()
                && fits(costs[group], Some(limit))
        };
        // What costs nothing more comes first.
        let rate = |group: usize| self.gains[group] / costs[group].max(f64::MIN_POSITIVE);
        let best = |best: usize, group: usize| if rate(group) > rate(best) { group } else { best };
        (0..costs.len()).filter(can).reduce(best).map(|group| self.firsts[group])
    }

    /// How far from its prediction a row lies at most, with a probability.
    pub fn reach(&self, level: f64) -> f64 {
        self.sigma * Student::new(self.free).within(level)
    }

    fn cell<'a>(&self, all: &'a Groups) -> Cell<'a> {
        let name = |&group: &usize| Cell::text(&all.names[group]);
        let entries = |(name, w): &(String, f64)| (Cow::Owned(name.clone()), *w);
        Cell::List(vec![
            Cell::List(self.groups.iter().map(name).collect()),
            Cell::Number(self.intercept),
            Cell::Map(self.coefficients.iter().map(entries).collect()),
            Cell::Number(self.spent),
            Cell::Number(self.r2),
            Cell::Number(self.sigma),
            Cell::Number(self.free),
            Cell::List(self.gains.iter().map(|&gain| Cell::Number(gain)).collect()),
        ])
    }
}

/// Patterns that are asked for by the names of their groups.
#[derive(Clone, Debug)]
pub struct Available {
    sets: Vec<Vec<String>>,
}

impl Available {
    /// Read a list of lists of names.
    pub fn read(given: &Given) -> Result<Available, Error> {
        let Some(value) = given.get("available") else {
            return Ok(Available { sets: Vec::new() });
        };
        let refusal = || refused_by(given.method.name, "available", value);
        let sets = value.items().ok_or_else(refusal)?;
        let sets = sets.iter().map(|set| set.texts().ok_or_else(refusal));
        Ok(Available { sets: sets.collect::<Result<_, _>>()? })
    }
}

impl Limited for Available {
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }
}

impl Choice for Available {
    fn choose<'a>(
        &self,
        asked: &Setting<'a>,
        _: Buffers,
        _: &mut GoesOn,
    ) -> Result<(Found<'a>, Vec<f64>), String> {
        let all = &asked.plan.groups;
        let solved = |set: &Vec<String>| {
            let number =
                |name: &String| all.number(name, "available").map_err(|error| error.message);
            let mut groups: Vec<usize> = set.iter().map(number).collect::<Result<_, _>>()?;
            groups.sort_unstable();
            groups.dedup();
            Ok::<_, String>(Pattern::solve(asked, &groups)?.cell(all))
        };
        let cells = self.sets.iter().map(solved).collect::<Result<_, _>>()?;
        Ok((Found { cell: Cell::List(cells), condition: 1.0, trace: None }, Vec::new()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linear::problem::Linear;
    use crate::methods::PATTERNS;
    use crate::methods::given::read_choice;
    use crate::record::terms::Terms;
    use crate::testing::GRAM;
    use crate::words::value::Value;

    fn solved(groups: &[usize]) -> Pattern {
        let costs = [("a", 5.0), ("b", 1.0)].map(|(name, x)| (name.to_string(), Value::Number(x)));
        let given = [("costs".to_string(), Value::Map(costs.to_vec()))];
        let request = read_choice(&PATTERNS, "y", &given).unwrap();
        let fit = request.fit(&["a", "b", "y"].map(str::to_string), &Terms::default()).unwrap();
        let plan = fit.plan(&GRAM).unwrap().unwrap();
        let mut problem = Linear::default();
        problem.set_up(&GRAM, 2, &plan.at, 0.0, true);
        let (fields, target) = (&request.fields, 2);
        let asked = Setting { fields, plan, gram: GRAM, target, problem: &problem };
        Pattern::solve(&asked, groups).unwrap()
    }

    #[test]
    fn a_pattern_is_least_squares_and_gains_are_what_the_others_add() {
        // y = 0.5 + 2 a leaves RSS 1; y = 5.5 + 0.5 b leaves 20, of 21.
        let a = solved(&[0]);
        assert_eq!((a.intercept, a.spent, a.free), (0.5, 5.0, 2.0));
        assert!((a.r2 - 20.0 / 21.0).abs() < 1e-14 && (a.sigma - 0.5f64.sqrt()).abs() < 1e-14);
        assert!((a.gains[1] - 1.0 / 21.0).abs() < 1e-14 && a.gains[0] == 0.0);
        let none = solved(&[]);
        assert_eq!((none.intercept, none.r2, none.coefficients.len()), (5.5, 0.0, 0));
        assert!((none.gains[0] - 20.0 / 21.0).abs() < 1e-14);
    }

    #[test]
    fn the_next_group_gains_most_for_its_cost_within_the_limit() {
        assert_eq!(solved(&[]).next(f64::INFINITY), Some(0));
        assert_eq!(solved(&[]).next(4.0), Some(1));
        assert_eq!(solved(&[]).next(0.5), None);
        assert_eq!(solved(&[0, 1]).next(f64::INFINITY), None);
    }
}

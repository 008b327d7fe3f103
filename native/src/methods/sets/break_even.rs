//! `break_even`: the highest price at which each group is still bought, within a budget or at a
//! worth of what is explained.
//!
//! The best set with a group explains no more at a higher price, so that bisection finds the price
//! at which it falls to that of the best set without it.

use super::best_within::{BestWithinOptions, best_set};
use super::worth::{Per, prices_at_worth};
use crate::kernel::possible::{INDEFINITE, is_possible};
use crate::linear::state::{Buffers, State};
use crate::methods::answer::{Cell, Found};
use crate::methods::given::Given;
use crate::methods::options::refused_by;
use crate::methods::question::{Choice, Setting};
use crate::methods::setup::{Limited, Plan};
use crate::search::sets::branch_and_bound::{TIE, with};
use crate::search::sets::exchange::GoesOn;
use crate::search::walks::criteria::{Criterion, Rule};
use crate::search::walks::greedy::{Limits, greedy_search};
use crate::search::walks::moves::held;
use crate::words::error::Error;
use crate::words::value::Value;

/// Prices are exact up to this share of the budget, where costs have no unit.
const PRECISION: f64 = 1e-9;
/// Decimals of costs that may have one.
const DECIMALS: usize = 6;

/// The options of `break_even`.
#[derive(Clone, Copy, Debug)]
pub enum BreakEvenOptions {
    /// Limit on the summed cost, and on the time for each set.
    Within(BestWithinOptions),
    /// What is explained is worth something, among the prefixes of `anytime_sequence`.
    Worth(f64, Per),
}

impl BreakEvenOptions {
    /// Options by the names that users give, beside the budget.
    pub const NAMES: &[&str] = &["worth", "per", "time_limit"];

    /// Read what is given, a budget or a worth.
    pub fn read(given: &Given) -> Result<BreakEvenOptions, Error> {
        let (budget, worth) = (given.limit("budget")?, given.number("worth")?);
        let (per, time_limit) = (given.read("per", Per::of)?, given.number("time_limit")?);
        let time_limit = time_limit.unwrap_or(BestWithinOptions::TIME_LIMIT);
        let within = BestWithinOptions { budget: budget.unwrap_or(0.0), time_limit };
        within.check()?;
        let alone = |name: &str, of: &str, is_there: bool| match (is_there, given.get(name)) {
            (false, Some(value)) => {
                Err(Error::argument(format!("{name} is {value}; it goes with {of}")))
            }
            _ => Ok(()),
        };
        alone("time_limit", "budget", budget.is_some())?;
        alone("per", "worth", worth.is_some())?;
        match (budget, worth) {
            (Some(_), None) => Ok(BreakEvenOptions::Within(within)),
            (None, Some(worth)) => {
                Ok(BreakEvenOptions::Worth(worth, per.unwrap_or(Per::Explained)))
            }
            (Some(budget), Some(worth)) => Err(Error::argument(format!(
                "budget is {budget}, beside worth {worth}; give one or the other"
            ))),
            (None, None) => Err(Error::argument(
                "give a budget, the limit on the summed cost, or a worth, what explaining all \
                 of the variance is worth"
                    .to_string(),
            )),
        }
    }
}

impl Limited for BreakEvenOptions {
    fn check(&self) -> Result<(), Error> {
        match self {
            BreakEvenOptions::Within(options) if options.budget.is_infinite() => {
                let words = "budget is inf; break_even takes a finite one, as no price is above it";
                Err(Error::argument(words.to_string()))
            }
            BreakEvenOptions::Within(options) => options.check(),
            BreakEvenOptions::Worth(worth, _) if *worth > 0.0 && worth.is_finite() => Ok(()),
            BreakEvenOptions::Worth(worth, _) => {
                Err(refused_by("break_even", "worth", &Value::Number(*worth)))
            }
        }
    }

    fn limits(&self) -> (Option<f64>, Option<i64>) {
        match self {
            BreakEvenOptions::Within(options) => options.limits(),
            BreakEvenOptions::Worth(..) => (None, None),
        }
    }
}

impl Choice for BreakEvenOptions {
    /// No notes.
    fn choose<'a>(
        &self,
        asked: &Setting<'a>,
        memory: Buffers,
        goes_on: &mut GoesOn,
    ) -> Result<(Found<'a>, Vec<f64>), String> {
        let names = &asked.plan.groups.names;
        let empty = State::new(asked.problem, &asked.plan.groups.starts, memory);
        let found = match self {
            BreakEvenOptions::Within(options) => within(asked, &empty, *options, goes_on)?,
            BreakEvenOptions::Worth(worth, per) => at_worth(asked, &empty, *worth, *per)?,
        };
        let row = |(name, (price, is_proven)): (&'a String, (f64, Option<bool>))| {
            let is_proven = is_proven.map_or(Cell::Null, Cell::Truth);
            Cell::List(vec![Cell::text(name), Cell::Number(price), is_proven])
        };
        let cell = Cell::List(names.iter().zip(found).map(row).collect());
        Ok((Found { cell, condition: empty.clone().condition(), trace: None }, Vec::new()))
    }
}

/// The price of each group within a budget, and whether it is exact.
fn within(
    asked: &Setting,
    empty: &State,
    options: BestWithinOptions,
    goes_on: &mut GoesOn,
) -> Result<Vec<(f64, Option<bool>)>, String> {
    let Setting { plan, fields, .. } = *asked;
    let number = |name: &String| plan.groups.number(name, "always");
    let always = fields.always.iter().map(number).collect::<Result<Vec<usize>, Error>>();
    let set_ups = fields.told.shared.iter().map(|(_, cost, _)| *cost);
    let costs: Vec<f64> = plan.groups.costs.iter().copied().chain(set_ups).collect();
    let mut market = Market {
        plan,
        empty,
        always: always.map_err(|error| error.message)?,
        options,
        step: unit(&costs).max(PRECISION * options.budget),
        is_proven: true,
        goes_on,
    };
    let mut row = |group: usize| {
        market.is_proven = true;
        Ok((market.price(group)?, Some(market.is_proven)))
    };
    (0..plan.groups.names.len()).map(&mut row).collect()
}

/// The price of each group at a worth, by the order of `anytime_sequence`.
fn at_worth(
    asked: &Setting,
    empty: &State,
    worth: f64,
    per: Per,
) -> Result<Vec<(f64, Option<bool>)>, String> {
    let Setting { plan, problem, .. } = *asked;
    let (prices, always) = (plan.groups.prices(), &plan.first[..]);
    let (mut state, mut criterion) = (empty.clone(), Criterion::default());
    criterion.set_up(Rule::default(), problem, &plan.groups.starts);
    let limits = Limits { budget: None, max_groups: None, first_cost: None, always };
    let (scores, record) = (&mut Vec::new(), &mut |_, _: &mut State| Ok(()));
    let _ = greedy_search(&mut state, prices, &mut criterion, limits, scores, record);
    if state.is_indefinite() || !is_possible(state.explained()) {
        return Err(INDEFINITE.to_string());
    }
    let value = per.value(worth, problem.target_spread);
    let found = prices_at_worth(empty, prices, &held(&state), always.len(), value);
    Ok(found.into_iter().map(|price| (price, None)).collect())
}

/// Groups at their costs, of which one has another price.
struct Market<'m, 'p> {
    plan: &'m Plan,
    empty: &'m State<'p>,
    /// Groups of every set, by name.
    always: Vec<usize>,
    options: BestWithinOptions,
    /// How exact a price is.
    step: f64,
    /// Whether every set so far is the best.
    is_proven: bool,
    goes_on: &'m mut GoesOn<'m>,
}

impl Market<'_, '_> {
    /// What the best set explains and costs that holds some groups, at a price of one.
    fn best(&mut self, group: usize, price: f64, first: Vec<usize>) -> Result<(f64, f64), String> {
        let groups = self.plan.groups.priced(group, price);
        let plan = Plan { groups, first, ..self.plan.clone() };
        let (found, is_sure) = best_set(self.empty, &plan, &self.options, self.goes_on)?;
        self.is_proven &= found.is_proven && is_sure;
        let spent = plan.groups.prices().spent(found.groups.iter().copied());
        Ok((with(self.empty, &found.groups).explained(), spent))
    }

    /// The highest price at which a group is bought.
    fn price(&mut self, group: usize) -> Result<f64, String> {
        let (budget, step, prices) = (self.options.budget, self.step, self.plan.groups.prices());
        let others: Vec<usize> = self.always.iter().copied().filter(|&one| one != group).collect();
        let without = prices.closed(&others);
        let first = prices.closed(&[&others[..], &[group]].concat());
        if !prices.may_hold(&first) {
            return Ok(0.0);
        }
        // Without a group that others need which are bought in any case, there is no set.
        let rival = match without.contains(&group) {
            true => -1.0,
            false => self.best(group, 2.0 * budget + 1.0, without)?.0,
        };
        let most = budget - (prices.spent(first.iter().copied()) - prices.costs[group]);
        let mut paid = |asked: f64| -> Result<Option<f64>, String> {
            let (explained, spent) = self.best(group, asked, first.clone())?;
            Ok((explained > rival + TIE).then_some(asked.max(asked + budget - spent).min(most)))
        };
        // Most groups are worth nothing, or a whole number of units.
        let least = if most > 0.0 { paid(PRECISION * budget)? } else { None };
        let Some(mut low) = least else { return Ok(0.0) };
        if low == most || paid(most)?.is_some() {
            return Ok(most);
        }
        let mut high = most;
        while high - low > step {
            let asked = (low + high) / 2.0;
            match paid(asked)? {
                Some(more) => low = more,
                None => high = asked,
            }
        }
        // Twelve digits are those of sums of costs.
        Ok(format!("{low:.11e}").parse().unwrap_or(low))
    }
}

/// The largest power of ten up to 1 that divides all costs; 0 for more decimals.
fn unit(costs: &[f64]) -> f64 {
    let divides = |decimals: &usize| {
        let is = |cost: &f64| format!("{cost:.0$}", *decimals).parse() == Ok(*cost);
        costs.iter().all(is)
    };
    (0..=DECIMALS).find(divides).map_or(0.0, |decimals| 0.1_f64.powi(decimals as i32))
}

//! `break_even`: the highest price at which each group is still bought within a budget.
//!
//! The best set with a group explains no more at a higher price, so that bisection finds the price
//! at which it falls to that of the best set without it.

use super::best_within::{BestWithinOptions, best_set};
use crate::linear::state::{Buffers, State};
use crate::methods::answer::{Cell, Found};
use crate::methods::question::{Choice, Setting};
use crate::methods::setup::{Limited, Plan};
use crate::search::sets::branch_and_bound::{TIE, with};
use crate::search::sets::exchange::GoesOn;
use crate::words::error::Error;

/// Prices are exact up to this share of the budget, where costs have no unit.
const PRECISION: f64 = 1e-9;
/// Decimals of costs that may have one.
const DECIMALS: usize = 6;

/// The options of `break_even`.
#[derive(Clone, Copy, Debug)]
pub struct BreakEvenOptions {
    /// Limit on the summed cost, and on the time for each set.
    pub within_budget: BestWithinOptions,
}

impl Limited for BreakEvenOptions {
    fn check(&self) -> Result<(), Error> {
        self.within_budget.check()?;
        if self.within_budget.budget.is_finite() {
            return Ok(());
        }
        let words = "budget is inf; break_even takes a finite one, as no price is above it";
        Err(Error::argument(words.to_string()))
    }

    fn limits(&self) -> (Option<f64>, Option<i64>) {
        self.within_budget.limits()
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
        let Setting { plan, fields, .. } = *asked;
        let empty = State::new(asked.problem, &plan.groups.starts, memory);
        let number = |name: &String| plan.groups.number(name, "always");
        let always = fields.always.iter().map(number).collect::<Result<Vec<usize>, Error>>();
        let set_ups = fields.told.shared.iter().map(|(_, cost, _)| *cost);
        let costs: Vec<f64> = plan.groups.costs.iter().copied().chain(set_ups).collect();
        let mut market = Market {
            plan,
            empty: &empty,
            always: always.map_err(|error| error.message)?,
            options: self.within_budget,
            step: unit(&costs).max(PRECISION * self.within_budget.budget),
            is_proven: true,
            goes_on,
        };
        let mut row = |(group, name): (usize, &'a String)| {
            market.is_proven = true;
            let price = Cell::Number(market.price(group)?);
            Ok(Cell::List(vec![Cell::text(name), price, Cell::Truth(market.is_proven)]))
        };
        let rows = plan.groups.names.iter().enumerate().map(&mut row);
        let cell = Cell::List(rows.collect::<Result<_, String>>()?);
        Ok((Found { cell, condition: empty.clone().condition(), trace: None }, Vec::new()))
    }
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

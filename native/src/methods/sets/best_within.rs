//! `best_within`: the groups that explain most for a budget, with proof.

use std::time::{Duration, Instant};

use crate::kernel::possible::{INDEFINITE, is_possible};
use crate::linear::certain::is_certain;
use crate::linear::state::{Buffers, State};
use crate::methods::answer::{Cell, Found};
use crate::methods::chosen::Chosen;
use crate::methods::options::refused;
use crate::methods::question::{Choice, Setting};
use crate::methods::setup::{Limited, Plan};
use crate::record::prefix::fits;
use crate::search::sets::branch_and_bound::{BestSet, Task, branch_and_bound};
use crate::search::sets::exchange::{GoesOn, Limits, improve};
use crate::search::sets::groupwise::Groupwise;
use crate::search::walks::criteria::Criterion;
use crate::search::walks::criteria::Rule;
use crate::search::walks::greedy::{self, greedy_search};
use crate::words::error::Error;
use crate::words::value::Value;

/// Share of the time limit for leaps and bounds: what they do not prove in it they hardly ever do.
pub(super) const LEAPS_SHARE: f64 = 0.25;
/// Most seconds for them.
pub(super) const LEAPS_SECONDS: f64 = 2.0;

/// The options of `best_within`.
#[derive(Clone, Copy, Debug)]
pub struct BestWithinOptions {
    /// Limit on the summed cost.
    pub budget: f64,
    /// Seconds after which the best set found so far is returned.
    pub time_limit: f64,
}

impl BestWithinOptions {
    /// Options by the names that users give, beside the budget.
    pub const NAMES: &[&str] = &["time_limit"];
    /// The time limit unless one is given.
    pub const TIME_LIMIT: f64 = 10.0;
}

impl Limited for BestWithinOptions {
    fn check(&self) -> Result<(), Error> {
        let budget = Value::Number(self.budget);
        if self.budget.is_nan() || self.budget < 0.0 {
            return Err(Error::argument(format!("budget is {budget}; it must be a number >= 0")));
        }
        if self.time_limit > 0.0 {
            return Ok(());
        }
        Err(refused("time_limit", &Value::Number(self.time_limit)))
    }

    fn limits(&self) -> (Option<f64>, Option<i64>) {
        (Some(self.budget), None)
    }
}

impl Choice for BestWithinOptions {
    /// Beside the answer: the sets looked at, whether doubles tell what every set explains, the
    /// bound, and whether it is proven.
    fn choose<'a>(
        &self,
        asked: &Setting<'a>,
        memory: Buffers,
        goes_on: &mut GoesOn,
    ) -> Result<(Found<'a>, Vec<f64>), String> {
        let plan = asked.plan;
        let empty = State::new(asked.problem, &plan.groups.starts, memory);
        let (best, is_sure) = best_set(&empty, plan, self, goes_on)?;
        let mut state = empty.clone();
        best.groups.iter().for_each(|&group| _ = state.add(group));
        let chosen = Chosen::of_state(asked, &mut state);
        let is_proven = is_sure && best.is_proven;
        let bound = match (is_proven, is_sure) {
            (true, _) => chosen.explained,
            (_, true) => best.bound.min(1.0).max(chosen.explained),
            _ => 1.0,
        };
        let gap = bound - chosen.explained;
        let more = vec![Cell::Number(bound), Cell::Number(gap), Cell::Truth(is_proven)];
        let truth = |is: bool| f64::from(u8::from(is));
        let notes = vec![best.nodes as f64, truth(is_sure), bound, truth(is_proven)];
        Ok((chosen.found(asked, more), notes))
    }
}

/// The best set of a plan, and whether doubles tell what every set explains.
pub(super) fn best_set(
    empty: &State,
    plan: &Plan,
    options: &BestWithinOptions,
    goes_on: &mut GoesOn,
) -> Result<(BestSet, bool), String> {
    let BestWithinOptions { budget, time_limit } = *options;
    let mut goes_on = timed(time_limit, goes_on);
    let is_sure = certain(empty, plan, budget)?;
    let task = Task {
        empty,
        problem: &Groupwise::new(empty.problem, &plan.groups.starts, plan.groups.prices()),
        budget,
        always: &plan.first,
        leaps: Duration::from_secs_f64((LEAPS_SHARE * time_limit).min(LEAPS_SECONDS)),
    };
    let start = start(empty, plan, budget, &mut goes_on);
    Ok((branch_and_bound(&task, &start, &mut goes_on), is_sure))
}

/// Whether to go on, for a time: every look at the clock is a turn.
pub(super) fn timed<'g>(
    seconds: f64,
    goes_on: &'g mut GoesOn,
) -> impl FnMut(Option<f64>) -> bool + 'g {
    let begin = Instant::now();
    let time = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    move |change| change.is_some() || (goes_on(None) && begin.elapsed() < time)
}

/// Whether doubles tell what the sets within a budget explain; the error says that no rows have
/// such columns.
pub(super) fn certain(empty: &State, plan: &Plan, budget: f64) -> Result<bool, String> {
    let prices = plan.groups.prices();
    let left = budget - prices.spent(plan.first.iter().copied());
    let mut whole = empty.clone();
    plan.first.iter().for_each(|&group| _ = whole.add(group));
    let offers = prices.offers(whole.waiting());
    for group in (0..prices.costs.len()).filter(|group| !plan.first.contains(group)) {
        if fits(offers.costs[group], Some(left)) && offers.is_open(group) {
            whole.add(group);
        }
    }
    if whole.is_indefinite() || !is_possible(whole.explained()) {
        return Err(INDEFINITE.to_string());
    }
    Ok(is_certain(&mut whole))
}

/// The better of two sets: the greedy one, and that around the best single group.
pub(super) fn start<'p>(
    empty: &State<'p>,
    plan: &Plan,
    budget: f64,
    goes_on: &mut GoesOn,
) -> State<'p> {
    let (prices, always) = (plan.groups.prices(), &plan.first[..]);
    let limits = Limits { prices, budget: Some(budget), most: None, always };
    let (mut greedy, mut single) = (empty.clone(), empty.clone());
    let mut criterion = Criterion::default();
    criterion.set_up(Rule::Fr, empty.problem, &plan.groups.starts);
    let budget = Some(budget);
    let bounds = greedy::Limits { budget, max_groups: None, first_cost: None, always };
    let mut scores = Vec::new();
    // Nobody follows it.
    let _ =
        greedy_search(&mut greedy, prices, &mut criterion, bounds, &mut scores, &mut |_, _| Ok(()));
    always.iter().for_each(|&group| _ = single.add(group));
    improve(&mut greedy, &limits, goes_on);
    improve(&mut single, &limits, goes_on);
    if single.explained() > greedy.explained() { single } else { greedy }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::methods::Method;
    use crate::methods::question::{Asker, Question};
    use crate::record::terms::Terms;
    use crate::testing::GRAM;

    fn answer(budget: f64) -> (Vec<Cell<'static>>, Vec<f64>) {
        let costs = vec![("a".to_string(), Value::Whole(5)), ("b".to_string(), Value::Whole(1))];
        let given = [
            ("budget".to_string(), Value::Number(budget)),
            ("costs".to_string(), Value::Map(costs)),
        ];
        let method = Method::of("best_within").unwrap();
        let question = Arc::new(Question::read(method, "y", &given).unwrap());
        let names = ["a", "b", "y"].map(str::to_string);
        let planned = question.plan(&names, &Terms::default()).unwrap();
        let mut asker = Asker::default();
        let found = asker.follow(&question, &planned, &GRAM, &mut |_| true).unwrap().unwrap();
        let owned = |cell: &Cell| match cell {
            Cell::Number(number) => Cell::Number(*number),
            Cell::Truth(truth) => Cell::Truth(*truth),
            _ => Cell::Null,
        };
        (found.0.cell.items().iter().map(owned).collect(), found.1)
    }

    #[test]
    fn the_best_set_within_a_budget_has_its_proof() {
        // b alone explains 1/21, both all of it.
        for (budget, explained, spent) in [(0.5, 0.0, 0.0), (4.0, 1.0 / 21.0, 1.0), (6.0, 1.0, 6.0)]
        {
            let (cells, notes) = answer(budget);
            let near = |cell: &Cell, expected: f64| match cell {
                Cell::Number(found) => assert!((found - expected).abs() < 1e-14, "{found}"),
                other => panic!("{other:?}"),
            };
            near(&cells[4], explained);
            near(&cells[6], spent);
            near(&cells[7], explained);
            assert_eq!(&cells[8..], [Cell::Number(0.0), Cell::Truth(true)]);
            assert_eq!(notes[1..], [1.0, notes[2], 1.0]);
        }
    }

    #[test]
    fn what_is_no_limit_is_refused() {
        let read = |name: &str, value: Value| {
            let budget = ("budget".to_string(), Value::Whole(1));
            let given = [(name.to_string(), value)];
            let given =
                if name == "budget" { given.to_vec() } else { [&given[..], &[budget]].concat() };
            Question::read(Method::of("best_within").unwrap(), "y", &given).unwrap_err().message
        };
        let minus = read("budget", Value::Number(-1.0));
        assert_eq!(minus, "budget is -1.0; it must be a number >= 0");
        assert_eq!(read("budget", Value::Nothing), {
            "best_within needs option 'budget', which has no default"
        });
        assert!(read("time_limit", Value::Whole(0)).ends_with("be a number of seconds > 0"));
    }
}

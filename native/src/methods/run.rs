//! A search of one record after another, in memory that is used again.

use super::options::{AnytimeOptions, BackwardOptions, FloatingOptions, FobaOptions};
use super::setup::{Method, Plan, Request};
use crate::kernel::possible::{INDEFINITE, is_possible};
use crate::linear::fields::Fields;
use crate::linear::problem::{Gram, Linear, Raw};
use crate::linear::refine::{Refiner, is_refined};
use crate::linear::state::{Buffers, State, Trace};
use crate::search::sequence::Sequence;
use crate::search::steps::{Action, Choice, Interrupted, Record, Step, Stop, Turn};
use crate::search::walks::backward::{self, backward_search};
use crate::search::walks::criteria::{Criterion, Rule};
use crate::search::walks::floating::floating;
use crate::search::walks::foba::{self, foba};
use crate::search::walks::greedy::{self, greedy_search};
use crate::search::walks::removal::Usefulness;
use crate::search::walks::step::{self, Judge, step};
use crate::words::error::listed;

/// The memory of a search.
#[derive(Debug, Default)]
pub struct Workspace {
    raw: Raw,
    problem: Linear,
    buffers: Buffers,
    criterion: Criterion,
    refiner: Refiner,
    scores: Vec<f64>,
    coef: Vec<f64>,
    sequence: Sequence,
}

impl Workspace {
    /// The linear problem of the last search.
    pub fn problem(&self) -> &Linear {
        &self.problem
    }

    /// Search a record whose columns the plan was made for, for as long as `turn` returns true.
    ///
    /// A record that cannot be searched gives the reason, one sentence.
    pub fn search(
        &mut self,
        request: &Request,
        plan: &Plan,
        gram: &Gram,
        turn: &mut Turn,
    ) -> Result<&Sequence, String> {
        let Fields { intercept, ridge, scale, .. } = request.fields;
        let target = plan.target.usable(gram, intercept)?;
        let gram = &if intercept { *gram } else { self.raw.of(gram)? };
        self.problem.set_up(gram, target, &plan.at, ridge, scale);
        self.sequence.begin(&self.problem);
        let buffers = std::mem::take(&mut self.buffers);
        let Workspace { problem, criterion, refiner, scores, coef, sequence, .. } = self;
        let mut state = State::new(problem, &plan.groups.starts, buffers);
        let prices = plan.groups.prices();
        let searched = match &request.method {
            Method::Anytime(options) => {
                criterion.set_up(options.rule, problem, &plan.groups.starts);
                let mut record = |step, state: &mut State| {
                    state.invert_ahead();
                    write_down(sequence, turn, step)
                };
                let stop = anytime(&mut state, plan, options, criterion, scores, &mut record);
                let refined = is_refined(state.condition(), ridge).then(|| {
                    refiner.set_up(gram, &state, &plan.at, target);
                    refiner
                });
                push_prefixes(&mut state, refined, coef, sequence);
                Ok((stop, None))
            }
            Method::Foba(options) => {
                criterion.set_up(options.rule, problem, &plan.groups.starts);
                let mut record = recorder(sequence, turn);
                let limits = of_foba(options, &plan.first);
                Ok((foba(&mut state, prices, criterion, limits, options.nu, &mut record), None))
            }
            Method::Floating(options) => {
                criterion.set_up(options.rule, problem, &plan.groups.starts);
                let mut record = recorder(sequence, turn);
                let limits = of_floating(options, &plan.first);
                Ok((floating(&mut state, prices, criterion, limits, &mut record), None))
            }
            Method::Step(options) => {
                let (criterion, penalty) = (options.criterion, options.penalty);
                let judge = Judge::new(criterion, penalty, gram, target, intercept);
                let all = [&plan.first[..], &plan.start].concat();
                // All groups, where they may not be held together.
                let begun = match prices.may_hold(&all) {
                    true => all,
                    false => backward::begin(&state, prices, &plan.first),
                };
                let limits = step::Limits {
                    direction: options.direction,
                    budget: options.budget,
                    max_steps: most(options.max_steps),
                    always: &plan.first,
                    start: &begun[plan.first.len()..],
                };
                let mut record = recorder(sequence, turn);
                Ok((step(&mut state, prices, limits, judge, &mut record), None))
            }
            Method::Backward(options) => {
                let mut begun = 1.0;
                let mut record = recorder(sequence, turn);
                let found = backward(&mut state, plan, options, ridge, &mut begun, &mut record);
                drop(record);
                sequence.begun = begun;
                found
            }
        };
        if matches!(request.method, Method::Step(_)) && state.held().is_empty() {
            // A sequence that holds nothing in the end would be taken for one of `backward`, of
            // which the longest prefix within a budget comes right after all groups.
            let used = sequence.used;
            sequence.begin(problem);
            sequence.used = used;
        }
        sequence.condition = state.condition();
        sequence.used = sequence.used.max(state.support().len());
        sequence.aliased.extend(state.aliased());
        let trace = if ridge == 0.0 { state.trace() } else { None };
        let is_indefinite = state.is_indefinite();
        sequence.price(&plan.groups);
        self.buffers = state.into_buffers();
        let (stop, of_all) = searched?;
        self.sequence.stop = stop;
        self.sequence.trace = of_all.or(trace);
        let explained = self.sequence.steps.iter().all(|step| is_possible(step.explained));
        if is_indefinite || !explained {
            return Err(INDEFINITE.to_string());
        }
        self.sequence.limit_shares();
        let is_whole = stop != Stop::Interrupted;
        if is_whole && self.sequence.is_saturated(gram.rows, ridge, intercept) {
            self.sequence.stop = Stop::Saturated;
        }
        Ok(&self.sequence)
    }
}

/// A limit on a count.
fn most(limit: Option<i64>) -> Option<usize> {
    limit.and_then(|limit| usize::try_from(limit).ok())
}

/// What bounds `foba`.
fn of_foba<'l>(options: &FobaOptions, always: &'l [usize]) -> foba::Limits<'l> {
    foba::Limits {
        epsilon: options.epsilon,
        budget: options.backward.budget,
        max_groups: None,
        max_steps: most(options.backward.max_steps),
        usefulness: options.backward.backward,
        always,
    }
}

/// What bounds `floating`.
fn of_floating<'l>(options: &FloatingOptions, always: &'l [usize]) -> foba::Limits<'l> {
    foba::Limits {
        epsilon: 0.0,
        budget: options.budget,
        max_groups: most(options.max_groups),
        max_steps: most(options.max_steps),
        usefulness: Usefulness::Loss,
        always,
    }
}

/// Order groups by how much each buys for its cost.
fn anytime(
    state: &mut State,
    plan: &Plan,
    options: &AnytimeOptions,
    criterion: &mut Criterion,
    scores: &mut Vec<f64>,
    record: &mut Record,
) -> Stop {
    let offers = plan.groups.prices().offers(state.waiting());
    let cheapest = || offers.costs.iter().copied().fold(f64::INFINITY, f64::min);
    let limits = greedy::Limits {
        budget: options.budget,
        max_groups: most(options.max_groups),
        first_cost: (options.rule == Rule::Doubling)
            .then(|| options.c_min.unwrap_or_else(cheapest)),
        always: &plan.first,
    };
    let stop = greedy_search(state, plan.groups.prices(), criterion, limits, scores, record);
    stop.unwrap_or(Stop::Interrupted)
}

/// Append the model of every prefix of the groups added: `w = M'z` is a sum over the rows of M.
fn push_prefixes(
    state: &mut State,
    mut refiner: Option<&mut Refiner>,
    coef: &mut Vec<f64>,
    sequence: &mut Sequence,
) {
    let width = state.problem.width();
    state.invert();
    let mut refined = Vec::new();
    coef.clear();
    for step in 0..sequence.steps.len() {
        let rows = state.held()[step].rows();
        coef.resize(rows.end, 0.0);
        for row in rows {
            let z = state.coordinates()[row];
            let m = &state.inverse()[row * width..][..=row];
            coef.iter_mut().zip(m).for_each(|(w, m)| *w += z * m);
        }
        let mut found = &coef[..];
        if let Some(refiner) = &mut refiner {
            refined.clone_from(coef);
            refiner.refine(state.problem, state.inverse(), &mut refined);
            found = &refined;
        }
        let (groups, explained) = (&state.held()[..=step], sequence.steps[step].explained);
        sequence.push_model(state, groups.iter().map(|held| held.group), found, explained);
    }
}

/// Start from all groups and remove the least useful one, again and again.
///
/// Where coefficients rank the groups, columns that depend on others are an error that names
/// them: their coefficients are not unique. `begun` gets the condition of all columns.
fn backward(
    state: &mut State,
    plan: &Plan,
    options: &BackwardOptions,
    ridge: f64,
    begun: &mut f64,
    record: &mut Record,
) -> Result<(Stop, Option<Trace>), String> {
    let prices = plan.groups.prices();
    for group in backward::begin(state, prices, &plan.first) {
        let cost = prices.offers(state.waiting()).counted[group];
        let gain = state.add(group);
        let (score, explained) = (gain / cost, state.explained());
        let choice = Choice::Forced;
        let step = Step { action: Action::Add, group, score, gain, explained, choice };
        if record(step, state) == Err(Interrupted) {
            return Ok((Stop::Interrupted, None));
        }
    }
    *begun = state.condition();
    // A loss is defined for dependent columns, too.
    let dependent = match options.backward {
        Usefulness::Loss => Vec::new(),
        Usefulness::Coefficient => state.aliased(),
    };
    if !dependent.is_empty() && ridge == 0.0 {
        let names = listed(dependent.iter().map(|&j| plan.groups.members[j].as_str()));
        return Err(format!(
            "columns {names} depend linearly on others, so that coefficients are not certain; \
             take backward 'loss', leave them out, or give a ridge > 0"
        ));
    }
    // The groups held at the end do not show how the removed columns depended on each other.
    if state.is_indefinite() {
        return Err(INDEFINITE.to_string());
    }
    let trace = if ridge == 0.0 { state.trace() } else { None };
    let limits = backward::Limits {
        budget: options.budget,
        max_steps: most(options.max_steps),
        usefulness: options.backward,
        always: &plan.first,
    };
    let stop = backward_search(state, prices, limits, record);
    Ok((stop.unwrap_or(Stop::Interrupted), trace))
}

/// Write down a step and ask whether to go on: the one place where a search is interrupted.
fn write_down(sequence: &mut Sequence, turn: &mut Turn, step: Step) -> Result<(), Interrupted> {
    sequence.steps.push(step);
    if turn(&step) { Ok(()) } else { Err(Interrupted) }
}

/// Keep every step with its model.
fn recorder(
    sequence: &mut Sequence,
    turn: &mut Turn,
) -> impl FnMut(Step, &mut State) -> Result<(), Interrupted> {
    let mut coef = Vec::new();
    // In the order taken; that of the state changes where a removal takes groups anew.
    let mut held = Vec::new();
    move |step, state| {
        match step.action {
            Action::Add => held.push(step.group),
            Action::Remove => held.retain(|&group| group != step.group),
        }
        state.coefficients(&mut coef);
        sequence.push_model(state, held.iter().copied(), &coef, step.explained);
        write_down(sequence, turn, step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::options::StepOptions;
    use crate::record::terms::Terms;
    use crate::search::steps::to_the_end;
    use crate::testing::GRAM;

    fn request(method: Method) -> (Request, Plan) {
        request_with(method, Fields::default())
    }

    fn request_with(method: Method, fields: Fields) -> (Request, Plan) {
        let costs = Some(vec![("b".to_string(), 1.0), ("a".to_string(), 50.0)]);
        let request = Request { target: "y".to_string(), groups: None, costs, fields, method };
        let columns = ["a", "b", "y"].map(str::to_string);
        let fit = request.fit(&columns, &Terms::default()).unwrap();
        let plan = fit.plan(&GRAM).unwrap().unwrap().clone();
        (request, plan)
    }

    #[test]
    fn the_cheap_group_comes_first_and_every_prefix_has_its_model() {
        let (request, plan) = request(Method::Anytime(AnytimeOptions::default()));
        let mut workspace = Workspace::default();
        for _ in 0..2 {
            let found = workspace.search(&request, &plan, &GRAM, &mut to_the_end).unwrap();
            let order: Vec<usize> = found.steps.iter().map(|step| step.group).collect();
            assert_eq!((order, &found.spent[..]), (vec![1, 0], &[0.0, 1.0, 51.0][..]));
            assert_eq!((&found.columns[..], &found.ends[..]), (&[1, 1, 0][..], &[0, 1, 3][..]));
            let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-14, "{a} {b}");
            found.coefficients.iter().zip([0.5, 0.5, 2.0]).for_each(|(a, b)| near(*a, b));
            found.intercept.iter().zip([5.5, 5.5, 0.5]).for_each(|(a, b)| near(*a, b));
            found.r2.iter().zip([0.0, 1.0 / 21.0, 1.0]).for_each(|(a, b)| near(*a, b));
            assert_eq!((found.stop, found.condition), (Stop::Exhausted, 1.0));
        }
    }

    #[test]
    fn through_the_origin_a_model_has_no_constant_term() {
        let fields = Fields { intercept: false, ..Fields::default() };
        let (request, plan) = request_with(Method::Anytime(AnytimeOptions::default()), fields);
        let mut workspace = Workspace::default();
        let found = workspace.search(&request, &plan, &GRAM, &mut to_the_end).unwrap();
        // Of sum a y = 65, sum a a = 30, sum b y = 2, sum b b = 4 and sum y y = 142.
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-14, "{a} {b}");
        assert_eq!(found.intercept, [0.0; 3]);
        found
            .coefficients
            .iter()
            .zip([65.0 / 30.0, 65.0 / 30.0, 0.5])
            .for_each(|(a, b)| near(*a, b));
        let r2 = [0.0, 65.0 * 65.0 / 30.0 / 142.0, (1.0 + 65.0 * 65.0 / 30.0) / 142.0];
        found.r2.iter().zip(r2).for_each(|(a, b)| near(*a, b));
        // A target of one value is not nothing; one of zeros is.
        let one = Gram { comoment: &[5.0, 0.0, 4.0, 0.0, 0.0, 0.0], ..GRAM };
        assert!(workspace.search(&request, &plan, &one, &mut to_the_end).is_ok());
        let zero = Gram { mean: &[2.5, 0.0, 0.0], ..one };
        let error = workspace.search(&request, &plan, &zero, &mut to_the_end).unwrap_err();
        assert_eq!(error, "target 'y' is constant (4 rows)");
    }

    #[test]
    fn an_elimination_ends_with_the_model_without_columns() {
        let (request, plan) = request(Method::Backward(BackwardOptions::default()));
        let mut workspace = Workspace::default();
        let found = workspace.search(&request, &plan, &GRAM, &mut to_the_end).unwrap();
        let order: Vec<usize> = found.steps.iter().map(|step| step.group).collect();
        // A loss of 20/21 for 50 is less than one of 1/21 for 1.
        assert_eq!((order, found.stop), (vec![0, 1, 0, 1], Stop::Empty));
        assert_eq!(found.spent, [0.0, 50.0, 51.0, 1.0, 0.0]);
        assert_eq!(found.spent.last().map(|spent| spent.to_bits()), Some(0));
        assert_eq!(found.intercept.last(), Some(&5.5));
    }

    #[test]
    fn a_search_that_is_interrupted_has_the_steps_so_far() {
        // At each step, the last one included.
        let methods = [
            Method::Anytime(AnytimeOptions::default()),
            Method::Foba(FobaOptions::default()),
            Method::Backward(BackwardOptions::default()),
            Method::Floating(FloatingOptions::default()),
            Method::Step(StepOptions::default()),
        ];
        for method in methods {
            let (request, plan) = request(method);
            let mut workspace = Workspace::default();
            let whole = workspace.search(&request, &plan, &GRAM, &mut to_the_end).unwrap().clone();
            for count in 1..=whole.steps.len() {
                let mut told = Vec::new();
                let mut turn = |step: &Step| {
                    told.push(*step);
                    told.len() < count
                };
                let found = workspace.search(&request, &plan, &GRAM, &mut turn).unwrap();
                assert_eq!(found.stop, Stop::Interrupted);
                assert_eq!(found.steps, whole.steps[..count]);
                assert_eq!(found.spent, whole.spent[..=count]);
                assert_eq!(found.r2, whole.r2[..=count]);
                assert_eq!(found.intercept, whole.intercept[..=count]);
                assert_eq!(found.ends, whole.ends[..=count]);
                let end = whole.ends[count];
                assert_eq!(found.columns, whole.columns[..end]);
                assert_eq!(found.coefficients, whole.coefficients[..end]);
                told.iter_mut().for_each(|step| step.explained = step.explained.min(1.0));
                assert_eq!(told, found.steps);
            }
        }
    }

    #[test]
    fn a_record_without_rows_or_spread_says_so() {
        let (request, plan) = request(Method::Foba(FobaOptions::default()));
        let mut workspace = Workspace::default();
        let nothing = Gram { rows: 0, skipped: 3, weight: 0.0, ..GRAM };
        let error = workspace.search(&request, &plan, &nothing, &mut to_the_end).unwrap_err();
        assert_eq!(error, "no usable rows: 3 rows were skipped");
        let constant = Gram { comoment: &[0.0; 6], ..GRAM };
        let error = workspace.search(&request, &plan, &constant, &mut to_the_end).unwrap_err();
        assert_eq!(error, "target 'y' is constant (4 rows)");
        let small = Gram { weight: 1e-200, mean: &[1e-150; 3], ..constant };
        let error = workspace.search(&request, &plan, &small, &mut to_the_end).unwrap_err();
        assert!(error.starts_with("target 'y' is constant (4 rows), or so small that"), "{error}");
    }
}

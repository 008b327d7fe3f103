//! A search of one record after another, in memory that is used again.
//!
//! The twin of `dbselect/methods/anytime.py` and `foba.py`: from a record to a sequence.

use super::backward::{self, backward_search};
use super::criteria::Criterion;
use super::error::listed;
use super::foba::{self, foba_search};
use super::greedy::{self, greedy_search};
use super::options::{AnytimeOptions, BackwardOptions, FobaOptions, Rule, Usefulness};
use super::problem::{Gram, Linear, unusable};
use super::refine::{Refiner, is_refined};
use super::sequence::Sequence;
use super::setup::{Method, Plan, Request};
use super::state::{Buffers, State};
use super::steps::{Action, Choice, Step, Stop, is_possible};

/// The memory of a search.
#[derive(Debug, Default)]
pub struct Workspace {
    problem: Linear,
    buffers: Buffers,
    criterion: Criterion,
    refiner: Refiner,
    scores: Vec<f64>,
    coef: Vec<f64>,
    sequence: Sequence,
}

impl Workspace {
    /// Search a record whose columns the plan was made for.
    ///
    /// A record that cannot be searched gives the reason, one sentence.
    pub fn search(
        &mut self,
        request: &Request,
        plan: &Plan,
        gram: &Gram,
    ) -> Result<&Sequence, String> {
        if let Some(reason) = unusable(gram, &request.target, plan.target, plan.mark) {
            return Err(reason);
        }
        let (ridge, scale) = match &request.method {
            Method::Anytime(options) => (options.ridge, options.scale),
            Method::Foba(options) => (options.backward.ridge, true),
            Method::Backward(options) => (options.ridge, true),
        };
        self.problem.set_up(gram, plan.target, &plan.at, ridge, scale);
        self.sequence.begin(&self.problem);
        let buffers = std::mem::take(&mut self.buffers);
        let Workspace { problem, criterion, refiner, scores, coef, sequence, .. } = self;
        let mut state = State::new(problem, &plan.groups.starts, buffers);
        let searched = match &request.method {
            Method::Anytime(options) => {
                criterion.set_up(options.rule, problem, &plan.groups.starts);
                let steps = &mut sequence.steps;
                let stop = anytime(&mut state, plan, options, criterion, scores, steps);
                let refined = is_refined(state.condition(), ridge).then(|| {
                    refiner.set_up(gram, &state, &plan.at, plan.target);
                    refiner
                });
                push_prefixes(&mut state, refined, coef, sequence);
                Ok(stop)
            }
            Method::Foba(options) => {
                criterion.set_up(options.rule, problem, &plan.groups.starts);
                Ok(foba(&mut state, plan, options, criterion, sequence))
            }
            Method::Backward(options) => backward(&mut state, plan, options, sequence),
        };
        sequence.condition = state.condition();
        sequence.aliased.extend(state.aliased());
        sequence.price(&plan.groups);
        self.buffers = state.into_buffers();
        self.sequence.stop = searched?;
        if !self.sequence.steps.iter().all(|step| is_possible(step.explained)) {
            return Err("gram record has comoments that no rows can have".to_string());
        }
        Ok(&self.sequence)
    }
}

/// Order groups by how much each buys for its cost.
fn anytime(
    state: &mut State,
    plan: &Plan,
    options: &AnytimeOptions,
    criterion: &mut Criterion,
    scores: &mut Vec<f64>,
    steps: &mut Vec<Step>,
) -> Stop {
    let costs = &plan.groups.costs;
    let cheapest = || costs.iter().copied().fold(f64::INFINITY, f64::min);
    let limits = greedy::Limits {
        budget: options.budget,
        max_groups: options.max_groups.and_then(|limit| usize::try_from(limit).ok()),
        first_cost: (options.rule == Rule::Doubling)
            .then(|| options.c_min.unwrap_or_else(cheapest)),
        always: &plan.first,
    };
    greedy_search(state, costs, criterion, limits, scores, steps)
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

/// Add groups greedily, and give back those that later ones made dispensable.
fn foba(
    state: &mut State,
    plan: &Plan,
    options: &FobaOptions,
    criterion: &mut Criterion,
    sequence: &mut Sequence,
) -> Stop {
    let limits = foba::Limits {
        epsilon: options.epsilon,
        nu: options.nu,
        budget: options.backward.budget,
        max_steps: options.backward.max_steps.and_then(|limit| usize::try_from(limit).ok()),
        usefulness: options.backward.backward,
        always: &plan.first,
    };
    let mut record = recorder(sequence);
    foba_search(state, &plan.groups.costs, criterion, limits, &mut record)
}

/// Start from all groups and remove the least useful one, again and again.
///
/// The error says which columns depend on others, so that the order of removals would decide
/// what a group is worth.
fn backward(
    state: &mut State,
    plan: &Plan,
    options: &BackwardOptions,
    sequence: &mut Sequence,
) -> Result<Stop, String> {
    let costs = &plan.groups.costs;
    let rest = (0..costs.len()).filter(|group| !plan.first.contains(group));
    let order: Vec<usize> = plan.first.iter().copied().chain(rest).collect();
    let mut record = recorder(sequence);
    for group in order {
        let gain = state.add(group);
        let (score, explained) = (gain / costs[group], state.explained());
        let choice = Choice::Forced;
        record(Step { action: Action::Add, group, score, gain, explained, choice }, state);
    }
    // Within a group a loss is that of all its columns, whichever of them is aliased.
    let dependent = match options.backward {
        Usefulness::Loss => state.entangled(),
        Usefulness::Coefficient => state.aliased(),
    };
    if !dependent.is_empty() && options.ridge == 0.0 {
        let names = listed(dependent.iter().map(|&j| plan.groups.members[j].as_str()));
        return Err(format!(
            "columns {names} depend linearly on others; backward elimination needs groups that \
             do not: leave them out, or give a ridge > 0"
        ));
    }
    let limits = backward::Limits {
        budget: options.budget,
        max_steps: options.max_steps.and_then(|limit| usize::try_from(limit).ok()),
        usefulness: options.backward,
        always: &plan.first,
    };
    Ok(backward_search(state, costs, limits, &mut record))
}

/// Keep every step with its model.
fn recorder(sequence: &mut Sequence) -> impl FnMut(Step, &mut State) {
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
        sequence.steps.push(step);
    }
}

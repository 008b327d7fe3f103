//! `best_within` of several records: the groups whose worst or mean explained share is largest.
//!
//! The records lie side by side in one, whose matrix has a block for each: a group has its columns
//! of every record. What a set explains of it is the mean of what it explains of each. The least of
//! the shares has the least of their bounds as bound.

use std::sync::Arc;

use super::best_within::{BestWithinOptions, best_set, certain, start, timed};
use crate::kernel::rank_update::triangle;
use crate::linear::fields::Fields;
use crate::linear::groups::Groups;
use crate::linear::problem::{Gram, Linear, Raw, Target};
use crate::linear::state::{Buffers, State};
use crate::methods::answer::{Cell, Found};
use crate::methods::chosen::Chosen;
use crate::methods::question::Setting;
use crate::methods::setup::{Fit, Limited, Plan, Request};
use crate::search::sets::exchange::GoesOn;
use crate::search::sets::groupwise::Groupwise;
use crate::search::sets::near::Near;
use crate::words::error::Error;
use crate::words::value::Value;

/// What is maximised of the shares that a set explains of the records.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Share {
    /// The least.
    Worst,
    /// Their mean.
    Mean,
}

impl Share {
    /// Read one by the name that users give.
    pub fn of(name: &Value) -> Option<Share> {
        match name {
            Value::Text(name) if name == "worst" => Some(Share::Worst),
            Value::Text(name) if name == "mean" => Some(Share::Mean),
            _ => None,
        }
    }
}

/// The options of `best_within` for several records.
#[derive(Clone, Copy, Debug)]
pub struct AcrossOptions {
    /// Limit on the summed cost, and on the time.
    pub within_budget: BestWithinOptions,
    /// What is maximised.
    pub share: Share,
}

impl Limited for AcrossOptions {
    fn check(&self) -> Result<(), Error> {
        self.within_budget.check()
    }

    fn limits(&self) -> (Option<f64>, Option<i64>) {
        self.within_budget.limits()
    }
}

/// One of the records.
pub struct Part<'a> {
    /// The question beside its columns.
    pub fit: Arc<Fit>,
    /// Its numbers.
    pub gram: Gram<'a>,
    /// How its columns came to be, as a model says it.
    pub terms: Option<String>,
}

/// The memory of an answer, which borrows from it.
#[derive(Default)]
pub struct Memory {
    raws: Vec<Raw>,
    problems: Vec<Linear>,
}

/// A set, what is known of it, and the groups.
struct Best {
    groups: Vec<usize>,
    nodes: u64,
    is_sure: bool,
    is_proven: bool,
    bound: f64,
}

/// Ask records; the inner error is the reason why one has no answer, the outer one a mistake.
///
/// The notes are those of `best_within`.
pub fn best_across<'a>(
    request: &'a Request<AcrossOptions>,
    parts: &'a [Part<'a>],
    memory: &'a mut Memory,
    goes_on: &mut GoesOn,
) -> Result<Result<(Found<'a>, Vec<f64>), String>, Error> {
    let Fields { intercept, ridge, scale, .. } = request.fields;
    if ridge > 0.0 && !scale {
        return Err(Error::argument(
            "scale is False; the columns of several records have variance 1 in each for a ridge"
                .to_string(),
        ));
    }
    let mut plans: Vec<&Plan> = Vec::with_capacity(parts.len());
    for (at, part) in parts.iter().enumerate() {
        let plan = match part.fit.plan(&part.gram)? {
            Ok(plan) => plan,
            Err(reason) => return Ok(Err(reason)),
        };
        let groups = &plans.first().unwrap_or(&plan).groups;
        if plan.groups.names != groups.names || plan.groups.members != groups.members {
            return Err(Error::argument(format!(
                "record {at} has other columns than record 0: all must have the same groups"
            )));
        }
        plans.push(plan);
    }
    if plans.is_empty() {
        return Err(Error::argument("there is no record; give at least one".to_string()));
    }
    let Memory { raws, problems } = memory;
    raws.resize(parts.len(), Raw::default());
    problems.resize_with(parts.len(), Linear::default);
    let mut grams = Vec::with_capacity(parts.len());
    for (part, raw) in parts.iter().zip(raws) {
        match if intercept { Ok(part.gram) } else { raw.of(&part.gram) } {
            Ok(gram) => grams.push(gram),
            Err(reason) => return Ok(Err(reason)),
        }
    }
    let mut settings = Vec::with_capacity(parts.len());
    for ((plan, gram), problem) in plans.into_iter().zip(grams).zip(problems) {
        let target = match plan.target.usable(&gram, intercept) {
            Ok(target) => target,
            Err(reason) => return Ok(Err(reason)),
        };
        problem.set_up(&gram, target, &plan.at, ridge, scale);
        settings.push(Setting { fields: &request.fields, plan, gram, target, problem });
    }
    let best = match best_of(&settings, &request.method, ridge, goes_on) {
        Ok(best) => best,
        Err(reason) => return Ok(Err(reason)),
    };
    Ok(Ok(told(&best, &settings, parts, request.method.share)))
}

/// The best set of records side by side.
fn best_of(
    settings: &[Setting],
    options: &AcrossOptions,
    ridge: f64,
    goes_on: &mut GoesOn,
) -> Result<Best, String> {
    let AcrossOptions { within_budget, share } = options;
    let joined = Joined::of(settings);
    let (at, target) = (&joined.plan.at, joined.plan.at.len());
    let mut problem = Linear::default();
    problem.set_up(&joined.gram(), target, at, ridge, true);
    let starts = &joined.plan.groups.starts;
    let empty = State::new(&problem, starts, Buffers::default());
    if *share == Share::Mean {
        let (best, is_sure) = best_set(&empty, &joined.plan, within_budget, goes_on)?;
        let is_proven = is_sure && best.is_proven;
        let bound = if is_sure { best.bound.min(1.0) } else { 1.0 };
        return Ok(Best { groups: best.groups, nodes: best.nodes, is_sure, is_proven, bound });
    }
    let BestWithinOptions { budget, time_limit } = *within_budget;
    let mut goes_on = timed(time_limit, goes_on);
    let is_sure = certain(&empty, &joined.plan, budget)?;
    let whole = Groupwise::new(&problem, starts, joined.plan.groups.prices());
    let problems = whole.parts(&problem, starts, settings.len());
    let near = Near { problems: &problems, budget, always: &joined.plan.first, most: 1 };
    let begin = start(&empty, &joined.plan, budget, &mut goes_on);
    let mut groups: Vec<usize> = begin.held().iter().map(|held| held.group).collect();
    groups.sort_unstable();
    let found = near.best(near.value(&groups), &mut goes_on);
    if let Some(set) = found.sets.first() {
        groups.clone_from(&set.groups);
    }
    let bound = if is_sure { found.bound } else { 1.0 };
    let is_proven = found.is_complete && is_sure;
    Ok(Best { groups, nodes: found.nodes, is_sure, is_proven, bound })
}

/// The answer: the set, and its model of each record.
fn told<'a>(
    best: &Best,
    settings: &[Setting<'a>],
    parts: &[Part],
    share: Share,
) -> (Found<'a>, Vec<f64>) {
    let (mut models, mut shares, mut condition) = (Vec::new(), Vec::new(), 1.0_f64);
    for (setting, part) in settings.iter().zip(parts) {
        let starts = &setting.plan.groups.starts;
        let mut state = State::new(setting.problem, starts, Buffers::default());
        best.groups.iter().for_each(|&group| _ = state.add(group));
        let chosen = Chosen::of_state(setting, &mut state);
        shares.push(chosen.explained);
        condition = condition.max(chosen.condition);
        let Cell::List(mut model) = chosen.found(setting, Vec::new()).cell else { continue };
        model.push(part.terms.clone().map_or(Cell::Null, |terms| Cell::Text(terms.into())));
        models.push(Cell::List(model));
    }
    let explained = match share {
        Share::Worst => shares.iter().copied().fold(f64::INFINITY, f64::min),
        Share::Mean => shares.iter().sum::<f64>() / shares.len() as f64,
    };
    let bound = if best.is_proven { explained } else { best.bound.max(explained) };
    let groups: &'a Groups = &settings[0].plan.groups;
    let cell = Cell::List(vec![
        Cell::List(best.groups.iter().map(|&group| Cell::text(&groups.names[group])).collect()),
        Cell::Number(groups.prices().spent(best.groups.iter().copied())),
        Cell::Number(explained),
        Cell::Number(bound),
        Cell::Number(bound - explained),
        Cell::Truth(best.is_proven),
        Cell::List(models),
    ]);
    let truth = |is: bool| f64::from(u8::from(is));
    let notes = vec![best.nodes as f64, truth(best.is_sure), bound, truth(best.is_proven)];
    (Found { cell, condition, trace: None }, notes)
}

/// Records side by side as one, columns and the target of variance 1 in each.
struct Joined {
    plan: Plan,
    rows: i64,
    mean: Vec<f64>,
    comoment: Vec<f64>,
}

impl Joined {
    /// Group by group, record by record in each.
    fn of(settings: &[Setting]) -> Joined {
        let (plan, count) = (settings[0].plan, settings.len());
        let starts = &plan.groups.starts;
        let column = |record: usize| move |j: usize| (record, j);
        let columns: Vec<(usize, usize)> = starts
            .windows(2)
            .flat_map(|ends| {
                let own = ends[0]..ends[1];
                (0..count).flat_map(move |record| own.clone().map(column(record)))
            })
            .collect();
        let width = columns.len();
        let scale = |record: usize, j: usize| {
            let Setting { gram, plan, problem, .. } = &settings[record];
            let square = gram.comoment(plan.at[j], plan.at[j]);
            if problem.constant[j] || square <= 0.0 { 0.0 } else { 1.0 / square.sqrt() }
        };
        let mut comoment = Vec::with_capacity(triangle(width + 1));
        for (at, &(record, j)) in columns.iter().enumerate() {
            let Setting { gram, plan, .. } = &settings[record];
            comoment.extend(columns[..at].iter().map(|&(other, k)| match other == record {
                true => gram.comoment(plan.at[j], plan.at[k]) * scale(record, j) * scale(record, k),
                false => 0.0,
            }));
            comoment.push(if scale(record, j) > 0.0 { 1.0 } else { 0.0 });
        }
        for &(record, j) in &columns {
            let Setting { gram, plan, target, .. } = &settings[record];
            let total = gram.comoment(*target, *target) * count as f64;
            let own = gram.comoment(plan.at[j], *target) * scale(record, j);
            comoment.push(own / total.sqrt());
        }
        comoment.push(1.0);
        let groups = Groups {
            members: (0..width).map(|at| at.to_string()).collect(),
            starts: starts.iter().map(|start| start * count).collect(),
            ..plan.groups.clone()
        };
        let rows = settings.iter().map(|setting| setting.gram.rows).min().unwrap_or_default();
        let (target, at) = (Target::at("target", width), (0..width).collect());
        let plan = Plan { target, groups, at, ..plan.clone() };
        Joined { plan, rows, mean: vec![0.0; width + 1], comoment }
    }

    fn gram(&self) -> Gram<'_> {
        let Joined { rows, mean, comoment, .. } = self;
        Gram { rows: *rows, skipped: 0, weight: 1.0, mean, mean_low: &[], comoment, missing: &[] }
    }
}

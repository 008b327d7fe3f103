//! Groups in the order in which they buy deviance for their cost: every candidate is refitted.
//!
//! ```text
//! while some group fits the budget:
//!     take the fitting group with the largest (explained(S + g) - explained(S)) / cost(g)
//! ```
//!
//! Ties go to the group named first. One pass at the model held gives the information of all
//! columns, from which the fit with each candidate starts; each then makes passes over the columns
//! of its own. Source: Hu, Grubb, Bagnell, Hebert (2016), Algorithm 1 and appendix B.

use super::model::{Precision, Start, in_units, precision};
use super::newton::Fit;
use super::problem::{Expansion, Point};
use super::request::Request;
use crate::linear::groups::Groups;
use crate::record::prefix::fits;
use crate::search::steps::{Action, Choice, Step, Stop};
use crate::search::walks::greedy::ended;
use crate::search::walks::ties::first_of_the_best;

/// Share of the null deviance below which a gain is what two refits leave.
const REFIT_ROUNDING: f64 = 1e-12;

/// A model of a prefix.
#[derive(Clone, Debug)]
pub struct Prefix {
    /// The fit; its columns are those of the groups held, in the order taken.
    pub fit: Fit,
    /// Constant term in the units of the table.
    pub intercept: f64,
    /// One a column of the fit.
    pub coefficients: Vec<f64>,
    /// How sure they are.
    pub precision: Precision,
}

/// What a search found.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// The steps 1, 2, ...
    pub steps: Vec<Step>,
    /// The models, that without columns first.
    pub prefixes: Vec<Prefix>,
    /// Summed cost of the groups held, from step 0 on.
    pub spent: Vec<f64>,
    /// Why it ended.
    pub stop: Stop,
}

/// Search the groups of a problem whose columns are those of all groups, in their order.
pub fn search(
    request: &Request,
    start: &Start,
    groups: &Groups,
    always: &[usize],
) -> Result<Sequence, String> {
    let prefix = |fit: Fit| {
        let (intercept, coefficients) = in_units(&start.problem, &fit);
        let precision = precision(request, start, &fit);
        Prefix { fit, intercept, coefficients, precision }
    };
    let mut prefixes = vec![prefix(start.null.clone())];
    let (mut steps, mut bought, mut spent) = (Vec::<Step>::new(), Vec::new(), vec![0.0]);
    let prices = groups.prices();
    let mut waiting = vec![true; groups.costs.len()];
    let mut forced = always.iter();
    let mut held = start.null.clone();
    let mut cost = 0.0;
    let stop = loop {
        if !waiting.contains(&true) {
            break Stop::Exhausted;
        }
        if request.max_groups.is_some_and(|most| steps.len() >= most) {
            break Stop::Steps;
        }
        let offers = prices.offers(&waiting);
        let all_of = |group: usize| prices.with_needs(group, &waiting);
        let open: Vec<bool> =
            (0..waiting.len()).map(|group| waiting[group] && offers.is_open(group)).collect();
        let within = |group: usize| open[group] && fits(cost + offers.costs[group], request.budget);
        let room = |group: usize| {
            request.max_groups.is_none_or(|most| steps.len() + all_of(group).len() <= most)
        };
        if !(0..waiting.len()).any(within) {
            break if open.contains(&true) { Stop::Budget } else { ended(&waiting) };
        }
        let fitting: Vec<bool> =
            (0..waiting.len()).map(|group| within(group) && room(group)).collect();
        if !fitting.contains(&true) {
            break Stop::Steps;
        }
        let all = expand_all(start, &held)?;
        let next = forced.next().copied();
        let tried = |group: usize| next.map_or(fitting[group], |next| next == group);
        let mut found: Vec<Option<Fit>> = vec![None; waiting.len()];
        let mut scores = vec![0.0; waiting.len()];
        for group in (0..waiting.len()).filter(|&group| tried(group)) {
            let fit = extended(start, groups, &held, &all, &all_of(group))?;
            scores[group] = gain(&fit, &held) / offers.counted[group];
            found[group] = Some(fit);
        }
        let (group, choice) = match next {
            Some(group) => (group, Choice::Forced),
            None => {
                let choice = if fitting == open { Choice::Free } else { Choice::Limited };
                match first_of_the_best(&scores, &fitting) {
                    Some(group) => (group, choice),
                    None => break Stop::Budget,
                }
            }
        };
        let score = scores[group];
        for member in all_of(group) {
            let fit = match found[group].take_if(|_| member == group) {
                Some(fit) => fit,
                None => extended(start, groups, &held, &expand_all(start, &held)?, &[member])?,
            };
            let gain = fit.explained - held.explained;
            waiting[member] = false;
            let explained = fit.explained;
            steps.push(Step { action: Action::Add, group: member, score, gain, explained, choice });
            bought.push(member);
            cost = match prices.are_sums() {
                true => cost + groups.costs[member],
                false => prices.spent(bought.iter().copied()),
            };
            spent.push(cost);
            prefixes.push(prefix(fit.clone()));
            held = fit;
        }
    };
    let used = prefixes
        .iter()
        .map(|prefix| prefix.precision.aliased.iter().filter(|aliased| !**aliased).count() as i64);
    let used = used.max().unwrap_or_default() + i64::from(start.problem.has_intercept);
    let is_full = request.fields.ridge == 0.0 && used >= start.n_rows;
    let stop = if is_full { Stop::Saturated } else { stop };
    Ok(Sequence { steps, prefixes, spent, stop })
}

/// What a refit explains more; what two refits leave is nothing.
fn gain(fit: &Fit, held: &Fit) -> f64 {
    let gain = fit.explained - held.explained;
    if gain > REFIT_ROUNDING { gain } else { 0.0 }
}

/// The quadratic model of all columns at a fit.
fn expand_all(start: &Start, held: &Fit) -> Result<Expansion, String> {
    let problem = &start.problem;
    let every: Vec<usize> = (0..problem.at.len()).collect();
    let mut coef = vec![0.0; every.len()];
    for (&column, w) in held.columns.iter().zip(&held.point.coef) {
        coef[column] = *w;
    }
    problem.expand(&every, &Point { intercept: held.point.intercept, coef })
}

/// The fit with more groups, from where one ended.
fn extended(
    start: &Start,
    groups: &Groups,
    held: &Fit,
    all: &Expansion,
    more: &[usize],
) -> Result<Fit, String> {
    let own = more.iter().flat_map(|&group| groups.starts[group]..groups.starts[group + 1]);
    let columns: Vec<usize> = held.columns.iter().copied().chain(own).collect();
    let mut coef = held.point.coef.clone();
    coef.resize(columns.len(), 0.0);
    let point = Point { intercept: held.point.intercept, coef };
    let model = all.of(&columns);
    start.problem.descend(columns, point, model, None)
}

//! Bi-level selection by hard thresholding: few columns in few groups.
//!
//! Descents start from projections, of ridge solutions or of what is given, and the best of their
//! ends counts. Where it is
//! cheap, what a descent keeps is polished by exchanges, and so are columns that forward steps
//! choose. What is kept is fitted again by least squares. Source: Xiang, Yang, Ye (2014).

use std::collections::HashSet;

use super::exchange::GoesOn;
use super::polish::{Within, forward, polish};
use super::projection::Limits;
use super::thresholding::{Descent, LeastSquares, Settings, Variant, kept};
use crate::kernel::possible::INDEFINITE;
use crate::linear::algebra::dense::dot;
use crate::linear::groups::Groups;
use crate::linear::problem::Linear;
use crate::linear::state::{Buffers, State};
use crate::methods::answer::Found;
use crate::methods::chosen::Chosen;
use crate::methods::given::Given;
use crate::methods::options::{choice, refused};
use crate::methods::question::{Choice, Setting};
use crate::methods::setup::{Limited, Plan};
use crate::methods::value::Value;
use crate::search::steps::is_possible;
use crate::search::walks::ties::LEAST_RISE;
use crate::words::error::Error;

/// Columns times the square of most columns up to which exchanges are tried: a turn of them takes
/// a second there.
const POLISH_WORK: f64 = 1e8;

/// What descents start from, before its projection.
#[derive(Clone, Debug, Default)]
enum Start {
    /// Three ridge solutions.
    #[default]
    Ridge,
    /// Nothing.
    Zero,
    /// Coefficients of columns as they are, by name.
    Given(Vec<(String, f64)>),
}

impl Start {
    fn read(value: &Value) -> Result<Start, Error> {
        let number = |(name, value): &(String, Value)| Some((name.clone(), value.number()?));
        match value {
            Value::Map(entries) => {
                let entries: Option<Vec<_>> = entries.iter().map(number).collect();
                entries.map(Start::Given).ok_or_else(|| refused("start", value))
            }
            _ => choice("start", value, &[("ridge", Start::Ridge), ("zero", Start::Zero)]),
        }
    }

    /// The vectors, on unit-variance columns.
    fn vectors(&self, function: &LeastSquares, asked: &Setting) -> Vec<Vec<f64>> {
        let Setting { problem, plan, .. } = asked;
        let zero = || function.zero();
        match self {
            Start::Ridge => function.ridges(),
            Start::Zero => vec![zero()],
            Start::Given(entries) => {
                let mut x = zero();
                for (name, value) in entries {
                    let column = plan.groups.members.iter().position(|member| member == name);
                    if let Some(j) = column {
                        x[j] = value * problem.spread[j] / problem.target_spread;
                    }
                }
                vec![x]
            }
        }
    }
}

/// The options of `sght`.
#[derive(Clone, Debug)]
pub struct SghtOptions {
    /// s1.
    pub max_columns: i64,
    /// s2.
    pub max_groups: i64,
    /// How long steps are.
    pub variant: Variant,
    /// Where they begin.
    start: Start,
    /// Whether the columns kept are fitted again without the descent.
    pub refit: bool,
    /// Whether exchanges of columns follow the descent, where they are cheap.
    pub polish: bool,
    /// Share by which a step must change the objective.
    pub tol: f64,
    /// Limit on the steps of a descent.
    pub max_iter: i64,
    /// Of several responses the number of each in the record, and its share of all variance.
    responses: Vec<(usize, f64)>,
}

/// Where the best of some descents ended, and what came after it.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The descent, or the columns that took its place.
    pub descent: Descent,
    /// f after the exchanges, that of x; none without any.
    pub polished: Option<f64>,
    /// Whole changes of columns that came after the steps; none if none were tried.
    pub exchanges: Option<usize>,
    /// Whether forward steps took the place of a descent.
    pub is_forward: bool,
}

impl Ended {
    /// The lowest objective, that of x.
    fn objective(&self) -> f64 {
        self.polished.unwrap_or_else(|| self.descent.objective())
    }
}

impl SghtOptions {
    /// Options by the names that users give.
    pub const NAMES: &[&str] = &["variant", "refit", "polish", "tol", "max_iter"];
    /// Those that stand before the others.
    pub const PLACES: &[&str] = &["max_columns", "max_groups"];

    /// The defaults, within two limits.
    pub fn within(max_columns: i64, max_groups: i64) -> SghtOptions {
        SghtOptions {
            max_columns,
            max_groups,
            variant: Variant::default(),
            start: Start::default(),
            refit: true,
            polish: true,
            tol: 1e-8,
            max_iter: 500,
            responses: Vec::new(),
        }
    }

    /// Read the options of a call.
    pub fn read(given: &Given) -> Result<SghtOptions, Error> {
        let default = SghtOptions::within(1, 1);
        let own = SghtOptions {
            variant: given.get("variant").map_or(Ok(default.variant), Variant::of)?,
            start: given.get("start").map_or(Ok(default.start), Start::read)?,
            refit: given.truth("refit")?.unwrap_or(default.refit),
            polish: given.truth("polish")?.unwrap_or(default.polish),
            tol: given.number("tol")?.unwrap_or(default.tol),
            max_iter: given.count("max_iter")?.unwrap_or(default.max_iter),
            responses: given
                .factors("responses")?
                .into_iter()
                .map(|(number, share)| Ok((number.parse().map_err(|_| no_number(&number))?, share)))
                .collect::<Result<_, Error>>()?,
            max_columns: given.needed("max_columns", Given::count)?,
            max_groups: given.needed("max_groups", Given::count)?,
        };
        Ok(own)
    }

    fn check_numbers(&self) -> Result<(), Error> {
        let counts = [
            ("max_columns", self.max_columns),
            ("max_groups", self.max_groups),
            ("max_iter", self.max_iter),
        ];
        if let Some((name, count)) = counts.into_iter().find(|(_, count)| *count < 1) {
            return Err(refused(name, &Value::Whole(count)));
        }
        if self.tol >= 0.0 && self.tol.is_finite() {
            return Ok(());
        }
        Err(refused("tol", &Value::Number(self.tol)))
    }

    /// The limits, within what a plan has.
    pub fn limits_of(&self, groups: &Groups) -> Result<Limits, Error> {
        let each = [
            ("max_columns", self.max_columns, groups.members.len()),
            ("max_groups", self.max_groups, groups.names.len()),
        ];
        for (name, limit, most) in each {
            if !(1..=most as i64).contains(&limit) {
                return Err(Error::argument(format!(
                    "{name} is {limit}; it must be a whole number from 1 to {most}"
                )));
            }
        }
        Ok(Limits { columns: self.max_columns as usize, groups: self.max_groups as usize })
    }

    /// The best end of the descents within some limits, from projections of some vectors.
    fn descend(
        &self,
        function: &LeastSquares,
        problem: &Linear,
        starts: &[usize],
        vectors: &[Vec<f64>],
        limits: Limits,
    ) -> Ended {
        let settings =
            Settings { variant: self.variant, tol: self.tol, max_iter: self.max_iter as usize };
        let alone = |descent| Ended { descent, polished: None, exchanges: None, is_forward: false };
        let descend = |start: &Vec<f64>| function.descend(starts, start, limits, settings);
        let mut ends: Vec<Ended> = vectors.iter().map(|start| alone(descend(start))).collect();
        let work = problem.width() as f64 * (limits.columns as f64).powi(2);
        if self.polish && self.refit && work <= POLISH_WORK {
            ends = polished(function, problem, starts, ends, limits);
        }
        lowest(ends)
    }

    /// The problem of several responses; none of one.
    fn joint(&self, asked: &Setting) -> Option<Linear> {
        let Setting { problem, plan, gram, fields, .. } = asked;
        if self.responses.is_empty() {
            return None;
        }
        let mut joint = Linear { target: Vec::new(), ..(*problem).clone() };
        let mut own = Linear::default();
        for &(response, share) in &self.responses {
            own.set_up(gram, response, &plan.at, fields.ridge, fields.scale);
            joint.target.extend(own.target.iter().map(|c| c * share.sqrt()));
        }
        Some(joint)
    }

    /// The model of a record, where the descent ended, and kept columns that depend on others; one
    /// without gives the reason, one sentence.
    fn fit(&self, asked: &Setting) -> Result<(Chosen, Ended, Vec<usize>), String> {
        let Setting { problem, plan, gram, target, fields } = asked;
        let limits = self.limits_of(&plan.groups).map_err(|error| error.message)?;
        let joint = self.joint(asked);
        let problem = joint.as_ref().unwrap_or(problem);
        let (function, starts) = (LeastSquares::of(problem), &plan.groups.starts);
        let vectors = self.start.vectors(&function, asked);
        let ended = self.descend(&function, problem, starts, &vectors, limits);
        let x = &ended.descent.x;
        let columns = kept(x, problem.width());
        if columns.is_empty() {
            return Ok((Chosen { condition: 1.0, ..Chosen::default() }, ended, Vec::new()));
        }
        let at: Vec<usize> = columns.iter().map(|&j| plan.at[j]).collect();
        let mut own = Linear::default();
        own.set_up(gram, *target, &at, fields.ridge, fields.scale);
        let whole = [0, at.len()];
        let mut state = State::new(&own, &whole, Buffers::default());
        state.add(0);
        if !is_possible(state.explained()) || state.is_indefinite() {
            return Err(INDEFINITE.to_string());
        }
        let mut w: Vec<f64> = columns.iter().map(|&j| x[j]).collect();
        let mut aliased = Vec::new();
        if self.refit {
            aliased.extend((0..w.len()).filter(|&j| state.place(j).is_none()).map(|j| columns[j]));
            let mut coef = Vec::new();
            state.coefficients(&mut coef);
            w = (0..w.len()).map(|j| state.place(j).map_or(0.0, |row| coef[row])).collect();
        }
        let mut left = own.target.clone();
        for (j, share) in w.iter().enumerate() {
            left.iter_mut().zip(own.row(j)).for_each(|(b, g)| *b -= share * g);
        }
        let r2 = dot(&w, &own.target) + dot(&w, &left);
        let penalty: f64 = w.iter().zip(&own.ridge).map(|(w, ridge)| w * w * ridge).sum();
        let trace = if fields.ridge == 0.0 { state.trace() } else { None };
        let chosen = Chosen {
            groups: plan.groups.of_columns(&columns),
            coefficients: w,
            explained: (r2 - penalty).min(1.0),
            r2: r2.min(1.0),
            residual: (1.0 - r2).max(0.0),
            condition: state.condition(),
            trace: trace.map(|trace| columns[trace.column]),
            columns,
        };
        Ok((chosen, ended, aliased))
    }
}

fn no_number(text: &str) -> Error {
    Error::argument(format!("response '{text}' is no number of a column"))
}

impl Limited for SghtOptions {
    fn check(&self) -> Result<(), Error> {
        self.check_numbers()
    }

    fn limits(&self) -> (Option<f64>, Option<i64>) {
        (None, None)
    }

    fn check_plan(&self, plan: &Plan) -> Result<(), Error> {
        self.limits_of(&plan.groups).map(|_| ())
    }
}

impl Choice for SghtOptions {
    /// Beside the answer: whether steps no longer changed f, the exchanges that followed and f
    /// after them, NaN if none were tried, whether forward steps took the place of the descent, step
    /// lengths tried, how many columns depend on others and how many values f had; then these columns,
    /// these values, and what is kept, on unit-variance columns.
    fn choose<'a>(
        &self,
        asked: &Setting<'a>,
        _: Buffers,
        _: &mut GoesOn,
    ) -> Result<(Found<'a>, Vec<f64>), String> {
        let (chosen, ended, aliased) = self.fit(asked)?;
        let Ended { descent, polished, exchanges, is_forward } = ended;
        let truth = |truth: bool| f64::from(u8::from(truth));
        let mut notes = vec![
            truth(descent.converged),
            exchanges.map_or(f64::NAN, |count| count as f64),
            polished.unwrap_or(f64::NAN),
            truth(is_forward),
            descent.projections as f64,
            aliased.len() as f64,
            descent.history.len() as f64,
        ];
        notes.extend(aliased.into_iter().map(|column| column as f64));
        notes.extend(descent.history);
        notes.extend(descent.x);
        Ok((chosen.found(asked, Vec::new()), notes))
    }
}

/// The descent that ends lowest, of those that differ by rounding the first.
fn lowest(mut ends: Vec<Ended>) -> Ended {
    let least = ends.iter().map(Ended::objective).fold(f64::INFINITY, f64::min);
    let first = ends.iter().position(|end| end.objective() <= least + LEAST_RISE);
    ends.swap_remove(first.unwrap_or(0))
}

/// Descents after exchanges, and what forward steps and exchanges choose.
fn polished(
    function: &LeastSquares,
    problem: &Linear,
    starts: &[usize],
    ends: Vec<Ended>,
    limits: Limits,
) -> Vec<Ended> {
    let singles: Vec<usize> = (0..=problem.width()).collect();
    let of_group = |g: usize| std::iter::repeat_n(g, starts[g + 1] - starts[g]);
    let group: Vec<usize> = (0..starts.len() - 1).flat_map(of_group).collect();
    let within = Within { group: &group, limits };
    let mut found: Vec<Ended> = Vec::new();
    let mut supports: HashSet<Vec<usize>> = HashSet::new();
    for end in &ends {
        let x = &end.descent.x;
        let support = kept(x, problem.width());
        if supports.insert(support.clone()) {
            let mut state = State::new(problem, &singles, Buffers::default());
            support.into_iter().for_each(|column| {
                state.add(column);
            });
            let exchanges = polish(&mut state, within);
            found.push(after(function, end.clone(), &mut state, exchanges));
        }
    }
    let mut state = State::new(problem, &singles, Buffers::default());
    forward(&mut state, within, None);
    let exchanges = polish(&mut state, within);
    let least = Ended { is_forward: true, ..lowest(ends) };
    found.push(after(function, least, &mut state, exchanges));
    found
}

/// A descent that ends at a state, which may have another support.
fn after(function: &LeastSquares, end: Ended, state: &mut State, exchanges: usize) -> Ended {
    if exchanges == 0 && !end.is_forward {
        return Ended { exchanges: Some(0), ..end };
    }
    let mut coef = Vec::new();
    state.coefficients(&mut coef);
    let mut x = function.zero();
    let rows = x.chunks_exact_mut(state.problem.width());
    for (x, coef) in rows.zip(coef.chunks_exact(state.support().len().max(1))) {
        state.support().iter().zip(coef).for_each(|(&j, w)| x[j] = *w);
    }
    let polished = Some(function.value(&x));
    let descent = Descent { x, ..end.descent };
    Ended { descent, polished, exchanges: Some(exchanges), ..end }
}

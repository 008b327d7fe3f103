//! `sght`: few columns in few groups, by hard thresholding.

use super::answer::Found;
use super::chosen::Chosen;
use super::given::Given;
use super::options::{choice, refused};
use super::question::{Choice, Setting};
use super::setup::{Limited, Plan};
use crate::kernel::possible::{INDEFINITE, is_possible};
use crate::linear::algebra::dense::dot;
use crate::linear::groups::Groups;
use crate::linear::problem::Linear;
use crate::linear::state::{Buffers, State};
use crate::search::sets::exchange::GoesOn;
use crate::search::sets::projection::Limits;
use crate::search::sets::sght::{Ended, descend};
use crate::search::sets::thresholding::{LeastSquares, Settings, Variant, kept};
use crate::words::error::Error;
use crate::words::value::Value;

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
            variant: given
                .get("variant")
                .map_or(Ok(default.variant), |name| choice("variant", name, &Variant::NAMES))?,
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
        let settings =
            Settings { variant: self.variant, tol: self.tol, max_iter: self.max_iter as usize };
        let polishes = self.polish && self.refit;
        let ended = descend(&function, problem, starts, &vectors, limits, settings, polishes);
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

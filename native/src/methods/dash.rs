//! `dash`: k groups in few adaptive rounds, random sets of good ones at a time.

use super::answer::Found;
use super::chosen::Chosen;
use super::question::{Choice, Setting};
use crate::kernel::possible::{INDEFINITE, is_possible};
use crate::linear::state::{Buffers, State};
use crate::methods::given::Given;
use crate::methods::options::{check_count, refused_by};
use crate::methods::setup::{Limited, Plan};
use crate::search::sets::dash::{Ask, best_guess};
use crate::search::sets::exchange::GoesOn;
use crate::words::error::Error;
use crate::words::value::Value;

/// The options of `dash`.
#[derive(Clone, Debug)]
pub struct DashOptions {
    /// Number of groups to choose.
    pub k: i64,
    /// Number of random sets that make up the k groups.
    pub rounds: Option<i64>,
    /// Random sets that are averaged in a query.
    pub samples: i64,
    /// Slack of the thresholds, and ratio of the grids of guesses.
    pub epsilon: f64,
    /// Value of the best k groups.
    pub opt: Option<f64>,
    /// How near to submodular the objective is.
    pub alpha: Option<f64>,
    /// Whether to do as the source does, and no more.
    pub literal: bool,
}

impl DashOptions {
    /// Options by the names that users give, beside k.
    pub const NAMES: &[&str] = &["rounds", "samples", "epsilon", "opt", "alpha"];

    /// Read the options of a call.
    pub fn read(given: &Given) -> Result<DashOptions, Error> {
        Ok(DashOptions {
            rounds: given.count("rounds")?,
            samples: given.count("samples")?.unwrap_or(5),
            epsilon: given.number("epsilon")?.unwrap_or(0.1),
            opt: given.number("opt")?,
            alpha: given.number("alpha")?,
            literal: given.truth("literal")?.unwrap_or(false),
            k: given.needed("k", Given::count)?,
        })
    }
}

impl Limited for DashOptions {
    fn check(&self) -> Result<(), Error> {
        check_count("k", Some(self.k))?;
        check_count("rounds", self.rounds)?;
        check_count("samples", Some(self.samples))?;
        let refused = |name, number| Err(refused_by("dash", name, &Value::Number(number)));
        if !(self.epsilon > 0.0 && self.epsilon < 1.0) {
            return refused("epsilon", self.epsilon);
        }
        if let Some(opt) = self.opt.filter(|opt| !(*opt > 0.0 && opt.is_finite())) {
            return refused("opt", opt);
        }
        if let Some(alpha) = self.alpha.filter(|alpha| !(*alpha > 0.0 && *alpha <= 1.0)) {
            return refused("alpha", alpha);
        }
        match self.rounds.filter(|rounds| *rounds > self.k) {
            None => Ok(()),
            Some(rounds) => Err(Error::argument(format!(
                "rounds is {rounds}; there are only k = {} to choose",
                self.k
            ))),
        }
    }

    fn check_plan(&self, plan: &Plan) -> Result<(), Error> {
        let (k, size, first) = (self.k, plan.groups.names.len() as i64, plan.first.len() as i64);
        if k > size {
            let allowed = format!("it must be a whole number from 1 to {size}");
            return Err(Error::argument(format!("k is {k}; {allowed}")));
        }
        if first > k {
            return Err(Error::argument(format!("always names {first} groups; k allows {k}")));
        }
        Ok(())
    }
}

impl Choice for DashOptions {
    /// Beside the answer: sets whose value was computed, the guesses of the run, sets that stalled,
    /// groups that completed a set, the bound, and what was explained after each adaptive round.
    fn choose<'a>(
        &self,
        asked: &Setting<'a>,
        memory: Buffers,
        goes_on: &mut GoesOn,
    ) -> Result<(Found<'a>, Vec<f64>), String> {
        let count = |number: i64| usize::try_from(number).unwrap_or(usize::MAX);
        let ask = Ask {
            k: count(self.k),
            rounds: self.rounds.map(count),
            samples: count(self.samples),
            epsilon: self.epsilon,
            opt: self.opt,
            alpha: self.alpha,
            seed: asked.fields.seed,
            literal: self.literal,
        };
        let mut start = State::new(asked.problem, &asked.plan.groups.starts, memory);
        asked.plan.first.iter().for_each(|&group| {
            start.add(group);
        });
        let run = best_guess(&start, &ask, goes_on).ok_or("interrupted")?;
        let mut state = run.state;
        if state.is_indefinite() || !is_possible(state.explained()) {
            return Err(INDEFINITE.to_string());
        }
        let found = Chosen::of_state(asked, &mut state).found(asked, Vec::new());
        let counts = [run.queries, run.stalled, run.completed].map(|count| count as f64);
        let mut notes = vec![counts[0], run.opt, run.alpha, counts[1], counts[2], run.bound];
        notes.extend(run.history);
        Ok((found, notes))
    }
}

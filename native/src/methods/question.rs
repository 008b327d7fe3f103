//! A question about records: read once, planned once for records alike, asked of each.

use std::fmt::Debug;
use std::sync::Arc;

use super::answer::{Found, Type};
use super::{Kind, Method};
use crate::linear::fields::Fields;
use crate::linear::fit::{FitPlan, FitRequest, Fitter};
use crate::linear::inference::Tests;
use crate::linear::problem::{Gram, Linear, Raw};
use crate::linear::state::Buffers;
use crate::methods::given::{read_across, read_choice, read_fit};
use crate::methods::sets::across::AcrossOptions;
use crate::methods::setup::{Fit, Limited, Plan, Request};
use crate::record::terms::Terms;
use crate::search::sets::exchange::GoesOn;
use crate::words::error::Error;
use crate::words::value::Value;

/// The options of a method that chooses groups, which answers by them.
pub trait Choice: Limited + Debug + Send + Sync {
    /// What the method answers for a record whose columns the plan was made for, and numbers that
    /// tell how it was found.
    ///
    /// A record that has no answer gives the reason, one sentence. `goes_on` hears of every turn,
    /// and ends the search where it returns false.
    fn choose<'a>(
        &self,
        asked: &Setting<'a>,
        memory: Buffers,
        goes_on: &mut GoesOn,
    ) -> Result<(Found<'a>, Vec<f64>), String>;
}

/// A record set up for a choice of groups.
pub struct Setting<'a> {
    /// Ridge, seed and what else is said of the problem.
    pub fields: &'a Fields,
    /// Groups, costs, and groups to take first.
    pub plan: &'a Plan,
    /// The record; its raw moments for models through the origin.
    pub gram: Gram<'a>,
    /// The number of the target in it.
    pub target: usize,
    /// The linear problem of the plan's columns.
    pub problem: &'a Linear,
}

/// What is asked.
#[derive(Debug)]
pub enum Question {
    /// Of groups.
    Groups(Request<Arc<dyn Choice>>),
    /// Of groups, of several records at once.
    Records(Request<AcrossOptions>),
    /// Of least squares on named columns.
    Columns(FitRequest),
}

/// A question beside the columns of some records.
pub enum Planned {
    /// Of groups.
    Groups(Fit),
    /// Of columns.
    Columns(FitPlan),
}

impl Question {
    /// Read a question of a method, by the names that users give; NULL is the default.
    pub fn read(
        method: &'static Method,
        target: &str,
        given: &[(String, Value)],
    ) -> Result<Question, Error> {
        match method.kind {
            Kind::Records(_) => read_across(method, target, given).map(Question::Records),
            Kind::Columns(_) => {
                let request = read_fit(method, target, given)?;
                request.check().map(|()| Question::Columns(request))
            }
            _ => {
                let request = read_choice(method, target, given)?;
                request.check().map(|()| Question::Groups(request))
            }
        }
    }

    /// Match the question to the columns of records; the error says that they have no such target.
    pub fn plan(&self, columns: &[String], terms: &Terms) -> Result<Planned, Error> {
        Ok(match self {
            Question::Groups(request) => Planned::Groups(request.fit(columns, terms)?),
            Question::Records(request) => Planned::Groups(request.fit(columns, terms)?),
            Question::Columns(request) => Planned::Columns(request.plan(columns, terms)?),
        })
    }
}

impl Method {
    /// The type of what it answers, unless that is a sequence.
    pub fn returns(&self) -> Option<&'static Type> {
        match self.kind {
            Kind::Sequence => None,
            Kind::Groups(returns)
            | Kind::Columns(returns)
            | Kind::Records(returns)
            | Kind::Rows(returns) => Some(returns),
        }
    }
}

/// The memory of answers, which serves the next one.
#[derive(Default)]
pub struct Asker {
    fitter: Fitter,
    tests: Tests,
    raw: Raw,
    problem: Linear,
}

impl Asker {
    /// Ask a record; the inner error is the reason why it has no answer, the outer one a mistake
    /// in the question.
    pub fn ask<'a>(
        &'a mut self,
        question: &'a Question,
        planned: &'a Planned,
        gram: &'a Gram,
    ) -> Result<Result<Found<'a>, String>, Error> {
        let found = self.follow(question, planned, gram, &mut |_| true)?;
        Ok(found.map(|(found, _)| found))
    }

    /// Ask a record, and follow the answer in the making, as `Choice::choose` says.
    pub fn follow<'a>(
        &'a mut self,
        question: &'a Question,
        planned: &'a Planned,
        gram: &'a Gram,
        goes_on: &mut GoesOn,
    ) -> Result<Result<(Found<'a>, Vec<f64>), String>, Error> {
        match (question, planned) {
            (Question::Columns(request), Planned::Columns(plan)) => {
                let fitted = self.fitter.fit(request, plan, gram)?;
                Ok(fitted.map(|fitted| {
                    let price =
                        fitted.price.map_or(Vec::new(), |price| vec![price.r2, price.violation]);
                    (fitted.answer(request, &mut self.tests), price)
                }))
            }
            (Question::Groups(request), Planned::Groups(fit)) => {
                Ok(fit.plan(gram)?.and_then(|plan| self.choose(request, plan, gram, goes_on)))
            }
            _ => Err(Error::argument("the plan is for another question".to_string())),
        }
    }

    fn choose<'a>(
        &'a mut self,
        request: &'a Request<Arc<dyn Choice>>,
        plan: &'a Plan,
        gram: &'a Gram,
        goes_on: &mut GoesOn,
    ) -> Result<(Found<'a>, Vec<f64>), String> {
        let Fields { intercept, ridge, scale, .. } = request.fields;
        let target = plan.target.usable(gram, intercept)?;
        let Asker { raw, problem, .. } = self;
        let gram = if intercept { *gram } else { raw.of(gram)? };
        problem.set_up(&gram, target, &plan.at, ridge, scale);
        let setting = Setting { fields: &request.fields, plan, gram, target, problem };
        request.method.choose(&setting, Buffers::default(), goes_on)
    }
}

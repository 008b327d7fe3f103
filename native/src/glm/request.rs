//! What is asked of rows: a family, a target, and options by the names that users give.

use super::family::Family;
use crate::linear::fields::Fields;
use crate::linear::groups::{Costs, GroupColumns};
use crate::methods::conditions::conditions;
use crate::methods::given::Given;
use crate::methods::options::{refused, refused_by};
use crate::methods::{Kind, Method};
use crate::record::kept::MAX_BYTES;
use crate::words::error::Error;
use crate::words::value::Value;

use super::{answer, stored};

/// Share of the null deviance that the next step of a fit explains, below which it is the last.
const TOL: f64 = 1e-10;
/// Steps after which a fit gives up; eight are many.
const MAX_ITER: usize = 25;
/// The probability with which an interval of a summary holds its coefficient, unless one is given.
const LEVEL: f64 = 0.95;
/// The only policy for what is missing: other ones need the rows before they are kept.
const SKIP: &str = "skip";
/// The only rule of a search.
const RULE: &str = "fr";

/// The functions of rows.
pub static METHODS: [Method; 4] = [
    Method {
        name: "fit_glm",
        about: "A generalised linear model of rows, as of a target of 0 and 1: \
                dbselect.fit_glm({'y': y, 'a': a}, 'y', 'binomial')",
        places: &[],
        own: &["columns", "signs"],
        kind: Kind::Rows(&answer::FIT_GLM),
    },
    Method {
        name: "summary_glm",
        about: "The coefficients of a generalised linear model with standard errors, tests and \
                intervals: dbselect.summary_glm({'y': y, 'a': a}, 'y', 'binomial')",
        places: &[],
        own: &["columns", "level"],
        kind: Kind::Rows(&answer::SUMMARY_GLM),
    },
    Method {
        name: "glm_check",
        about: "Why rows have no generalised linear model, NULL if they have one: \
                dbselect.glm_check({'y': y, 'a': a}, 'y', 'binomial')",
        places: &[],
        own: &["columns"],
        kind: Kind::Rows(&answer::GLM_CHECK),
    },
    Method {
        name: "anytime_sequence_glm",
        about: "Groups of columns in the order in which they buy deviance, from rows: \
                dbselect.anytime_sequence_glm({'y': y, 'a': a, 'b': b}, 'y', 'binomial', \
                costs := {'a': 1, 'b': 5}, budget := 5)",
        places: &[],
        own: &[
            "groups",
            "costs",
            "rule",
            "budget",
            "max_groups",
            "always",
            "shared",
            "needs",
            "one_of",
            "limits",
        ],
        kind: Kind::Rows(&stored::SEQUENCE_GLM),
    },
];

/// What is asked.
#[derive(Clone, Debug)]
pub struct Request {
    /// Which function is asked.
    pub method: &'static Method,
    /// Distribution of the target, and link.
    pub family: Family,
    /// Column to predict.
    pub target: String,
    /// Of a fit: names and globs; default: every column that is nothing else.
    pub columns: Option<Vec<String>>,
    /// Of a fit: name or glob of columns, and the sign of their coefficients, 1 or -1.
    pub signs: Vec<(String, f64)>,
    /// Of a search.
    pub groups: Option<GroupColumns>,
    /// Of the groups.
    pub costs: Option<Costs>,
    /// Limit on the summed cost.
    pub budget: Option<f64>,
    /// Limit on the number of groups.
    pub max_groups: Option<usize>,
    /// Column of row weights.
    pub weight: Option<String>,
    /// Column that is added to the predictor.
    pub offset: Option<String>,
    /// Column of which the logarithm is added.
    pub exposure: Option<String>,
    /// The level that counts as 1.
    pub positive: Option<Value>,
    /// The other fields of the problem.
    pub fields: Fields,
    /// Share of the null deviance that a step must predict for another pass.
    pub tol: f64,
    /// Limit on the steps of a fit.
    pub max_iter: usize,
    /// Limit on the bytes of the rows of a group.
    pub max_bytes: usize,
    /// Of a summary: the probability of its intervals.
    pub level: f64,
}

impl Request {
    /// Read a request of a function; NULL is the default.
    pub fn read(
        method: &'static Method,
        target: &str,
        family: &str,
        values: &[(String, Value)],
    ) -> Result<Request, Error> {
        let given = Given { method, values };
        given.check()?;
        let whole = |name: &str| {
            let found = given.count(name)?;
            let count = |n: i64| usize::try_from(n).ok().filter(|n| *n > 0);
            let count = |n| count(n).ok_or_else(|| refused(name, &Value::Whole(n)));
            found.map(count).transpose()
        };
        let share = |name: &str, default: f64| match given.number(name)? {
            Some(x) if !(x > 0.0 && x < 1.0) => {
                Err(refused_by(method.name, name, &Value::Number(x)))
            }
            found => Ok(found.unwrap_or(default)),
        };
        for (name, only) in [("null_policy", SKIP), ("rule", RULE)] {
            if let Some(value) = given.get(name)
                && *value != Value::Text(only.to_string())
            {
                return Err(Error::argument(format!(
                    "{name} is {value}; {} has '{only}' alone, and Python's dbselect the others, \
                     in passes over a table",
                    method.name
                )));
            }
        }
        let default = Fields::default();
        let request = Request {
            method,
            family: Family::parse(family)?,
            target: target.to_string(),
            columns: given.names("columns")?,
            signs: given.signs()?,
            groups: given.groups()?,
            costs: given.costs()?,
            budget: given.number("budget")?,
            max_groups: whole("max_groups")?,
            weight: given.text("weight")?,
            offset: given.text("offset")?,
            exposure: given.text("exposure")?,
            positive: given.get("positive").cloned(),
            fields: Fields {
                intercept: given.truth("intercept")?.unwrap_or(default.intercept),
                ridge: given.number("ridge")?.unwrap_or(default.ridge),
                scale: given.truth("scale")?.unwrap_or(default.scale),
                always: given.names("always")?.unwrap_or_default(),
                told: conditions(&given)?,
                ..default
            },
            tol: share("tol", TOL)?,
            max_iter: whole("max_iter")?.unwrap_or(MAX_ITER),
            max_bytes: whole("max_bytes")?.unwrap_or(MAX_BYTES),
            level: share("level", LEVEL)?,
        };
        request.check().map(|()| request)
    }

    /// The columns that are added to the predictor.
    pub fn added(&self) -> Vec<&String> {
        self.offset.iter().chain(&self.exposure).collect()
    }

    /// Refuse what cannot mean anything together.
    fn check(&self) -> Result<(), Error> {
        self.fields.check()?;
        if let Some(budget) = self.budget
            && (budget.is_nan() || budget < 0.0)
        {
            return Err(refused("budget", &Value::Number(budget)));
        }
        if self.fields.ridge > 0.0 && self.method.name == "summary_glm" {
            return Err(Error::argument(format!(
                "ridge is {}; standard errors are those of maximum likelihood, at ridge 0",
                Value::Number(self.fields.ridge)
            )));
        }
        let (family, link) = (self.family.text(), self.family.link.name());
        if let Some(exposure) = &self.exposure
            && link != "log"
        {
            return Err(Error::argument(format!(
                "exposure is '{exposure}'; its logarithm is added where the link is log, and \
                 family '{family}' has the link {link}"
            )));
        }
        if let Some(positive) = &self.positive
            && !self.family.is_binomial()
        {
            return Err(Error::argument(format!(
                "positive is {positive}; only family 'binomial' has a level that counts as 1"
            )));
        }
        if !(self.fields.intercept || self.family.is_at_zero()) {
            return Err(Error::argument(format!(
                "intercept is False; the model without columns has the predictor 0 then, at which \
                 family '{family}' has no mean"
            )));
        }
        let apart = [Some(&self.target), self.weight.as_ref(), self.offset.as_ref()];
        let apart: Vec<&String> = apart.into_iter().flatten().chain(&self.exposure).collect();
        match apart.iter().enumerate().find(|(at, name)| apart[..*at].contains(name)) {
            None => Ok(()),
            Some((_, name)) => Err(Error::column(format!(
                "column '{name}' is given twice as target, weight, offset or exposure"
            ))),
        }
    }
}

//! A search as a door asks for it, values by name, read into a request.
//!
//! The twin of `dbselect/problem/records.py`: every door of the library makes the
//! same request of the same words, and refuses the same ones.

use std::sync::Arc;

use super::conditions::conditions;
use super::options::{
    AnytimeOptions, BackwardOptions, CONDITIONS, FloatingOptions, FobaOptions, NO_SETS, OF_PYTHON,
    REFUSED, StepOptions, refused, refused_by,
};
use super::setup::{self, Request};
use crate::linear::constrained::Constraints;
use crate::linear::fields::Fields;
use crate::linear::fit::{Ask, FitRequest};
use crate::linear::groups::{Costs, GroupColumns};
use crate::methods::dash::DashOptions;
use crate::methods::exchange::ExchangeOptions;
use crate::methods::knockoffs::KnockoffOptions;
use crate::methods::lasso::{LassoOptions, Penalised};
use crate::methods::pattern::Available;
use crate::methods::penalty_path::PathOptions;
use crate::methods::question::Choice;
use crate::methods::sets::across::{AcrossOptions, Share};
use crate::methods::sets::best_within::BestWithinOptions;
use crate::methods::sets::break_even::BreakEvenOptions;
use crate::methods::sets::near_best::NearBestOptions;
use crate::methods::sght::SghtOptions;
use crate::methods::{Kind, METHODS, Method};
use crate::search::walks::criteria::Rule;
use crate::search::walks::removal::Usefulness;
use crate::search::walks::step::{Direction, Information};
use crate::words::error::Error;
use crate::words::nearest::{near, unknown};
use crate::words::value::Value;

/// The probability with which an interval of a summary holds its coefficient, unless one is given.
const LEVEL: f64 = 0.95;

/// Read a request of a method, by the name that users give; NULL is the default.
///
/// The options are those that the method has, and each is of a type that it takes;
/// `Request::check` says whether the values are allowed.
pub fn read_request(
    method: &'static Method,
    target: &str,
    values: &[(String, Value)],
) -> Result<Request, Error> {
    let given = Given { method, values };
    given.check()?;
    let options = match method.name {
        "anytime_sequence" => setup::Method::Anytime(anytime(&given)?),
        "foba" => setup::Method::Foba(foba(&given)?),
        "backward" => setup::Method::Backward(backward(&given)?),
        "floating" => setup::Method::Floating(floating(&given)?),
        "step" => setup::Method::Step(step(&given)?),
        other => return Err(no_method(other)),
    };
    let (groups, costs, fields) = (given.groups()?, given.costs()?, given.fields()?);
    Ok(Request { target: target.to_string(), groups, costs, fields, method: options })
}

/// Read a request of a method that chooses groups.
pub fn read_choice(
    method: &'static Method,
    target: &str,
    values: &[(String, Value)],
) -> Result<Request<Arc<dyn Choice>>, Error> {
    let given = Given { method, values };
    given.check()?;
    let (groups, costs, fields) = (given.groups()?, given.costs()?, given.fields()?);
    let options = choice(&given)?;
    Ok(Request { target: target.to_string(), groups, costs, fields, method: options })
}

/// Read a request of the best groups for several records.
pub fn read_across(
    method: &'static Method,
    target: &str,
    values: &[(String, Value)],
) -> Result<Request<AcrossOptions>, Error> {
    let given = Given { method, values };
    given.check()?;
    let (groups, costs, fields) = (given.groups()?, given.costs()?, given.fields()?);
    let share = given.read("share", Share::of)?.unwrap_or(Share::Worst);
    let method = AcrossOptions { within_budget: within_budget(&given)?, share };
    let request = Request { target: target.to_string(), groups, costs, fields, method };
    request.check().map(|()| request)
}

/// Read a request of least squares on named columns.
pub fn read_fit(
    method: &'static Method,
    target: &str,
    values: &[(String, Value)],
) -> Result<FitRequest, Error> {
    let given = Given { method, values };
    given.check()?;
    let ask = match method.name {
        "fit" => Ask::Model,
        "summary" => Ask::Summary(given.number("level")?.unwrap_or(LEVEL)),
        "vif" => Ask::Inflation,
        "partial_correlations" => Ask::Partials,
        "condition_number" => Ask::Condition,
        "f_test" => Ask::FTest(given.names("tested")?),
        other => return Err(no_method(other)),
    };
    let (columns, fields) = (given.names("columns")?, given.fields()?);
    let uncorrelated = given.names("uncorrelated")?.unwrap_or_default();
    let constraints = Constraints { signs: given.signs()?, uncorrelated };
    Ok(FitRequest { target: target.to_string(), columns, fields, ask, constraints })
}

/// What a choice of groups is by.
fn choice(given: &Given) -> Result<Arc<dyn Choice>, Error> {
    Ok(match given.method.name {
        "patterns" | "predict_available" => Arc::new(Available::read(given)?),
        "lasso" => Arc::new(LassoOptions::read(Penalised::Columns, given)?),
        "sparse_group_lasso" => Arc::new(LassoOptions::read(Penalised::Groups, given)?),
        "lasso_path" => Arc::new(PathOptions::read(Penalised::Columns, given)?),
        "group_lasso_path" => Arc::new(PathOptions::read(Penalised::Groups, given)?),
        "sght" => Arc::new(SghtOptions::read(given)?),
        "knockoffs" => Arc::new(KnockoffOptions::read(given)?),
        "dash" => Arc::new(DashOptions::read(given)?),
        "exchange" => Arc::new(ExchangeOptions {
            k: given.needed("k", Given::count)?,
            start: given.names("start")?.unwrap_or_default(),
            budget: given.number("budget")?,
        }),
        "best_within" => match given.get("share") {
            None => Arc::new(within_budget(given)?),
            Some(share) => {
                given.read("share", Share::of)?;
                return Err(Error::argument(format!(
                    "share is {share}; it is for several records: the first argument must be a \
                     list of them"
                )));
            }
        },
        "near_best" => Arc::new(NearBestOptions {
            within_budget: within_budget(given)?,
            within: given.number("within")?.unwrap_or(NearBestOptions::WITHIN),
            limit: given.count("limit")?.unwrap_or(NearBestOptions::LIMIT),
            watch: given.names("watch")?.unwrap_or_default(),
        }),
        "break_even" => Arc::new(BreakEvenOptions::read(given)?),
        other => return Err(no_method(other)),
    })
}

fn within_budget(given: &Given) -> Result<BestWithinOptions, Error> {
    Ok(BestWithinOptions {
        budget: given.needed("budget", Given::limit)?,
        time_limit: given.number("time_limit")?.unwrap_or(BestWithinOptions::TIME_LIMIT),
    })
}

fn no_method(name: &str) -> Error {
    Error::argument(format!("there is no method '{name}'"))
}

fn anytime(given: &Given) -> Result<AnytimeOptions, Error> {
    Ok(AnytimeOptions {
        rule: given.get("rule").map_or(Ok(Rule::default()), Rule::of)?,
        budget: given.number("budget")?,
        max_groups: given.count("max_groups")?,
        c_min: given.number("c_min")?,
    })
}

fn foba(given: &Given) -> Result<FobaOptions, Error> {
    let default = FobaOptions::default();
    Ok(FobaOptions {
        backward: backward(given)?,
        epsilon: given.number("epsilon")?.unwrap_or(default.epsilon),
        nu: given.number("nu")?.unwrap_or(default.nu),
        rule: given.get("rule").map_or(Ok(default.rule), Rule::of_foba)?,
    })
}

fn backward(given: &Given) -> Result<BackwardOptions, Error> {
    Ok(BackwardOptions {
        backward: given.get("backward").map_or(Ok(Usefulness::default()), Usefulness::of)?,
        max_steps: given.count("max_steps")?,
        budget: given.number("budget")?,
    })
}

fn floating(given: &Given) -> Result<FloatingOptions, Error> {
    Ok(FloatingOptions {
        rule: given.get("rule").map_or(Ok(Rule::default()), Rule::of_foba)?,
        max_groups: given.count("max_groups")?,
        max_steps: given.count("max_steps")?,
        budget: given.number("budget")?,
    })
}

fn step(given: &Given) -> Result<StepOptions, Error> {
    let criterion = given.get("criterion");
    Ok(StepOptions {
        criterion: criterion.map_or(Ok(Information::default()), Information::of)?,
        penalty: given.number("penalty")?,
        direction: given.get("direction").map_or(Ok(Direction::default()), Direction::of)?,
        start: given.names("start")?,
        max_steps: given.count("max_steps")?,
        budget: given.number("budget")?,
    })
}

/// Values by name, for a method.
pub struct Given<'g> {
    /// Who takes them.
    pub method: &'static Method,
    /// NULL is none.
    pub values: &'g [(String, Value)],
}

/// Options of `fit` that no search takes.
const CONSTRAINTS: [&str; 2] = ["signs", "uncorrelated"];

impl<'g> Given<'g> {
    /// Refuse options that the method does not have, and such as come twice.
    pub fn check(&self) -> Result<(), Error> {
        let method = self.method.name;
        let names: Vec<String> = self.method.options().into_iter().map(str::to_string).collect();
        for (at, (name, value)) in self.values.iter().enumerate() {
            let is_of_rows = Fields::OF_ROWS.contains(&&name[..]) && !names.contains(name);
            if is_of_rows && is_there(value) {
                return Err(Error::argument(format!(
                    "{name} is {value}; a record holds no rows: {method} of a table, in Python or \
                     on the command line, takes it"
                )));
            }
            if !names.contains(name) && Fields::NAMES.contains(&&name[..]) {
                if is_there(value) {
                    return Err(Error::argument(format!(
                        "{name} is {value}; {method} is of least squares on the columns, which \
                         has {} of the fields of a problem",
                        Fields::OF_LEAST_SQUARES.join(" and ")
                    )));
                }
            } else if !names.contains(name) && !OF_PYTHON.contains(&(method, name)) {
                return Err(Error::argument(self.unknown(name, value, &names)));
            }
            let is_same = |(other, value): &(String, Value)| other == name && is_there(value);
            if is_there(value) && self.values[..at].iter().any(is_same) {
                return Err(Error::argument(format!("{method} is given {name} twice")));
            }
        }
        Ok(())
    }

    /// The error for an unknown option, which may be a group or its cost in the wrong place.
    fn unknown(&self, name: &str, value: &Value, names: &[String]) -> String {
        let method = self.method.name;
        if CONSTRAINTS.contains(&name) {
            let is_of_groups = matches!(self.method.kind, Kind::Sequence | Kind::Groups(_));
            let reason = if is_of_groups || method == "anytime_sequence_glm" {
                format!(
                    "its order and bounds are those of least squares, and under {name} a group \
                     that gains nothing alone may pay beside others; fit takes it, for the groups \
                     that are chosen"
                )
            } else if method == "fit_glm" {
                "it is a condition on the Gram of a linear model; fit takes it".to_string()
            } else {
                format!("under {name} coefficients are not normal; fit takes it")
            };
            return format!("{method} has no option '{name}': {reason}");
        }
        if names.iter().any(|known| known == "groups") && value.texts().is_some() {
            return format!(
                "{method} has no option '{name}'; groups are given as {{'groups': {{'{name}': \
                 {value}}}}}"
            );
        }
        if names.iter().any(|known| known == "costs")
            && value.number().is_some()
            && near(name, names).is_empty()
            && !METHODS
                .iter()
                .any(|method| method.own.contains(&name) || method.places.contains(&name))
        {
            return format!(
                "{method} has no option '{name}'; costs are given as {{'costs': {{'{name}': {value}}}}}"
            );
        }
        format!("{method} has {}", unknown("option", name, names))
    }

    /// A value that is there.
    pub fn get(&self, name: &str) -> Option<&'g Value> {
        let mut found = self.values.iter().filter(|(other, _)| other == name);
        found.find(|(_, value)| is_there(value)).map(|(_, value)| value)
    }

    /// The value of an option, as `of` reads it.
    pub fn read<T>(
        &self,
        name: &str,
        of: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let read = |value| of(value).ok_or_else(|| refused_by(self.method.name, name, value));
        self.get(name).map(read).transpose()
    }

    /// A number.
    pub fn number(&self, name: &str) -> Result<Option<f64>, Error> {
        self.read(name, Value::number)
    }

    /// A whole number.
    pub fn count(&self, name: &str) -> Result<Option<i64>, Error> {
        self.read(name, |value| match value {
            Value::Whole(count) => Some(*count),
            _ => None,
        })
    }

    /// A budget that must not be NULL.
    pub fn limit(&self, name: &str) -> Result<Option<f64>, Error> {
        let read = |value: &Value| {
            let words = || format!("{name} is {value}; it must be a number >= 0");
            value.number().ok_or_else(|| Error::argument(words()))
        };
        self.get(name).map(read).transpose()
    }

    /// The value of an option without a default.
    pub fn needed<T>(
        &self,
        name: &str,
        read: impl Fn(&Self, &str) -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        read(self, name)?.ok_or_else(|| {
            let method = self.method.name;
            Error::argument(format!("{method} needs option '{name}', which has no default"))
        })
    }

    /// True or false.
    pub fn truth(&self, name: &str) -> Result<Option<bool>, Error> {
        self.read(name, |value| match value {
            Value::Truth(truth) => Some(*truth),
            _ => None,
        })
    }

    /// A text.
    pub fn text(&self, name: &str) -> Result<Option<String>, Error> {
        self.read(name, |value| match value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        })
    }

    /// A list of texts.
    pub fn names(&self, name: &str) -> Result<Option<Vec<String>>, Error> {
        self.read(name, Value::texts)
    }

    /// A list of numbers.
    pub fn numbers(&self, name: &str) -> Result<Option<Vec<f64>>, Error> {
        self.read(name, |value| value.items()?.iter().map(Value::number).collect())
    }

    /// Numbers >= 0 by name; none by default.
    pub fn factors(&self, name: &str) -> Result<Vec<(String, f64)>, Error> {
        let factor = |(key, value): &(String, Value)| {
            let number = value.number().filter(|number| *number >= 0.0 && number.is_finite());
            number.map(|number| (key.clone(), number)).ok_or_else(|| {
                Error::argument(format!("{name} of '{key}' is {value}; it must be a number >= 0"))
            })
        };
        match self.get(name) {
            None => Ok(Vec::new()),
            Some(Value::Map(entries)) => entries.iter().map(factor).collect(),
            Some(other) => Err(refused(name, other)),
        }
    }

    /// Signs of coefficients by name, 1 or -1; none by default.
    pub fn signs(&self) -> Result<Vec<(String, f64)>, Error> {
        let sign = |(name, value): &(String, Value)| match value {
            Value::Text(text) if text == "+" => Ok((name.clone(), 1.0)),
            Value::Text(text) if text == "-" => Ok((name.clone(), -1.0)),
            _ => {
                Err(Error::argument(format!("signs of '{name}' is {value}; it must be '+' or '-'")))
            }
        };
        match self.get("signs") {
            None => Ok(Vec::new()),
            Some(Value::Map(entries)) => entries.iter().map(sign).collect(),
            Some(other) => Err(refused("signs", other)),
        }
    }

    fn fields(&self) -> Result<Fields, Error> {
        let default = Fields::default();
        let fields = Fields {
            intercept: self.truth("intercept")?.unwrap_or(default.intercept),
            ridge: self.number("ridge")?.unwrap_or(default.ridge),
            scale: self.truth("scale")?.unwrap_or(default.scale),
            always: self.names("always")?.unwrap_or_default(),
            seed: self.count("seed")?.unwrap_or(default.seed),
            told: conditions(self)?,
        };
        fields.check()?;
        for (_, field, reason) in REFUSED.iter().filter(|(name, ..)| *name == self.method.name) {
            if let Some(value) = self.get(field).filter(|value| is_asked(value)) {
                return Err(Error::argument(format!("{field} is {value}; {reason}")));
            }
        }
        let method = self.method.name;
        for field in CONDITIONS.iter().filter(|_| NO_SETS.contains(&method)) {
            if let Some(value) = self.get(field).filter(|value| is_asked(value)) {
                return Err(Error::argument(format!(
                    "{field} is {value}; {method} weighs groups one by one and prices no sets: \
                     anytime_sequence, exchange and best_within do"
                )));
            }
        }
        Ok(fields)
    }

    /// The groups, if they are given.
    pub(crate) fn groups(&self) -> Result<Option<GroupColumns>, Error> {
        let group = |(name, means): &(String, Value)| {
            let columns = match means {
                // `groups_of` says that the group is empty.
                Value::Nothing => Some(Vec::new()),
                Value::Text(column) => Some(vec![column.clone()]),
                other => other.texts(),
            };
            columns.map(|columns| (name.clone(), columns)).ok_or_else(|| {
                let words = match means {
                    Value::Map(_) => costs_meant(&means.to_string()),
                    Value::Whole(_) | Value::Number(_) => {
                        costs_meant(&format!("{{'{name}': {means}}}"))
                    }
                    _ => "it must list columns or globs".to_string(),
                };
                Error::group(format!("group '{name}' is {means}; {words}"))
            })
        };
        match self.get("groups") {
            None => Ok(None),
            Some(Value::Map(groups)) => {
                groups.iter().map(group).collect::<Result<_, _>>().map(Some)
            }
            Some(other) => {
                let named = |name: &String| format!("'{name}': ['{name}']");
                let names = match other {
                    Value::Text(name) => Some(vec![name.clone()]),
                    other => other.texts(),
                };
                let meant = names.map_or(String::new(), |names| {
                    let named: Vec<String> = names.iter().map(named).collect();
                    format!(", as {{{}}}", named.join(", "))
                });
                Err(Error::group(format!(
                    "groups is {other}; it must map names to lists of columns{meant}"
                )))
            }
        }
    }

    /// Their costs, if they are given.
    pub(crate) fn costs(&self) -> Result<Option<Costs>, Error> {
        let cost = |(name, cost): &(String, Value)| {
            let number = cost.number().map(|number| (name.clone(), number));
            number.ok_or_else(|| {
                Error::group(format!(
                    "group '{name}' has cost {cost}; costs must be > 0 and finite"
                ))
            })
        };
        match self.get("costs") {
            None => Ok(None),
            Some(Value::Map(costs)) => costs.iter().map(cost).collect::<Result<_, _>>().map(Some),
            Some(other) => Err(Error::group(format!(
                "costs is {other}; it must map group names to numbers > 0"
            ))),
        }
    }
}

/// The call that a mapping or a number in the place of columns meant.
fn costs_meant(costs: &str) -> String {
    format!(
        "a group lists columns or globs, and costs are given by name: costs={costs} in Python, \
         {{'costs': {costs}}} as options in SQL"
    )
}

fn is_there(value: &Value) -> bool {
    *value != Value::Nothing
}

/// Whether the value of a field asks for something: of a number, of groups, of an intercept.
fn is_asked(value: &Value) -> bool {
    match value {
        Value::List(items) => !items.is_empty(),
        Value::Map(entries) => !entries.is_empty(),
        Value::Truth(truth) => !truth,
        _ => value.number().is_some_and(|number| number != 0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: &str, given: &[(&str, Value)]) -> Result<Request, String> {
        let given: Vec<_> =
            given.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
        read_request(Method::of(method).unwrap(), "y", &given).map_err(|error| error.message)
    }

    #[test]
    fn null_is_the_default() {
        let all: Vec<_> = Method::of("foba")
            .unwrap()
            .options()
            .into_iter()
            .map(|name| (name, Value::Nothing))
            .collect();
        let request = read("foba", &all).unwrap();
        assert!(request.groups.is_none() && request.costs.is_none());
        assert_eq!(
            format!("{:?}", request.method),
            format!("{:?}", read("foba", &[]).unwrap().method)
        );
    }

    #[test]
    fn what_no_option_takes_is_named() {
        let text = || Value::Text("nonsense".to_string());
        for method in ["anytime_sequence", "foba", "backward", "floating", "step"] {
            for name in Method::of(method).unwrap().options() {
                let error = read(method, &[(name, text())]).unwrap_err();
                assert!(error.starts_with(&format!("{name} is 'nonsense'; it must")), "{error}");
            }
            let error = read(method, &[("rigde", Value::Nothing)]).unwrap_err();
            assert_eq!(error, format!("{method} has unknown option 'rigde'; there is 'ridge'"));
            let error = read(method, &[("ridge", Value::Whole(1)), ("ridge", Value::Whole(1))]);
            assert_eq!(error.unwrap_err(), format!("{method} is given ridge twice"));
        }
        let group = |means| Value::Map(vec![("g".to_string(), means)]);
        let error = read("foba", &[("groups", group(Value::Whole(5)))]).unwrap_err();
        assert!(error.ends_with("{'costs': {'g': 5}} as options in SQL"), "{error}");
        let error = read("foba", &[("costs", group(Value::Nothing))]).unwrap_err();
        assert_eq!(error, "group 'g' has cost None; costs must be > 0 and finite");
        let one = read("foba", &[("groups", group(text()))]).unwrap();
        assert_eq!(one.groups, Some(vec![("g".to_string(), vec!["nonsense".to_string()])]));
    }
}

//! The options of each method, which check themselves, and their defaults.
//!
//! The twin of `dbselect/spec/options.py` and `fields.py`, without what needs the rows of a table;
//! a test compares names, defaults and what is allowed.

use crate::linear::em;
use crate::linear::fields::Fields;
use crate::linear::fit::{Ask, FitRequest};
use crate::search::walks::criteria::Rule;
use crate::search::walks::removal::Usefulness;
use crate::search::walks::step::{Direction, Information};
use crate::words::error::{Error, listed};
use crate::words::nearest::unknown;
use crate::words::value::Value;

/// What an option may be, where it is not one of some names.
const ALLOWED: [(&str, &str); 63] = [
    ("shared", "map names to (cost, groups)"),
    ("needs", "map groups to the groups that must be bought with them"),
    ("one_of", "be a list of lists of group names"),
    ("limits", "map units to (costs by group, limit, 'sum' or 'max')"),
    ("tested", "be a list of column names and globs"),
    ("columns", "be a list of column names and globs"),
    ("share", "be one of ['worst', 'mean']"),
    ("within", "be a number from 0 to 1"),
    ("limit", "be a whole number >= 1"),
    ("watch", "be a list of column names and globs"),
    ("signs", "map columns and globs to '+' or '-'"),
    ("uncorrelated", "be a list of column names and globs"),
    ("available", "list the groups of each pattern"),
    ("accept_above", "be a finite number"),
    ("worth", "be a finite number other than 0"),
    ("break_even.worth", "be a number > 0"),
    ("per", "be one of ['explained', 'rmse']"),
    ("payoff", "be two numbers: what a row earns if its target is 1, and loses if it is 0"),
    ("level", "lie between 0 and 1, both excluded"),
    ("ridge", "be a number >= 0"),
    ("scale", "be True or False"),
    ("intercept", "be True or False"),
    ("budget", "be a number >= 0, or None for no limit"),
    ("max_groups", "be a whole number >= 1"),
    ("max_steps", "be a whole number >= 1"),
    ("always", "be a list of group names"),
    ("time_limit", "be a number of seconds > 0"),
    ("k", "be a whole number >= 1"),
    ("start", "be a list of group names"),
    ("penalty", "be a number >= 0"),
    ("seed", "be a whole number from 0 to 2^63 - 1"),
    ("c_min", "be a number > 0"),
    ("epsilon", "be a number >= 0"),
    ("nu", "lie between 0 and 1, both excluded"),
    ("lasso.penalty", "be a number > 0"),
    ("sparse_group_lasso.penalty", "be a number > 0"),
    ("n_lambda", "be a whole number >= 2"),
    ("l1_ratio", "be a number from 0 to 1"),
    ("lambda_min_ratio", "lie between 0 and 1, both excluded"),
    ("penalty_factors", "map columns, globs or groups to numbers >= 0"),
    ("adaptive", "be a number > 0"),
    ("max_columns", "be a whole number >= 1"),
    ("refit", "be True or False"),
    ("polish", "be True or False"),
    ("tol", "be a number >= 0"),
    ("max_iter", "be a whole number >= 1"),
    ("q", "lie between 0 and 1, both excluded"),
    ("draws", "be a whole number >= 1"),
    ("rounds", "be a whole number >= 1"),
    ("samples", "be a whole number >= 1"),
    ("dash.epsilon", "lie between 0 and 1, both excluded"),
    ("opt", "be a number > 0"),
    ("alpha", "lie in (0, 1]"),
    ("fit_glm.tol", "lie between 0 and 1, both excluded"),
    ("summary_glm.tol", "lie between 0 and 1, both excluded"),
    ("anytime_sequence_glm.tol", "lie between 0 and 1, both excluded"),
    ("max_bytes", "be a whole number >= 1"),
    ("weight", "be the name of a field of the row"),
    ("offset", "be the name of a field of the row"),
    ("exposure", "be the name of a field of the row"),
    ("beta2", "be a number > 0"),
    ("sigma2", "be a number > 0"),
    ("scale_rows", "be True or False"),
];

/// Fields of a problem that a method refuses, and why; those of `dbselect/options/refusals.py`
/// that a record can answer.
pub const REFUSED: [(&str, &str, &str); 8] = [
    (
        "step",
        "ridge",
        "a criterion counts parameters, and a ridge makes them fewer: choose by rows held out, as \
         cross_validate does",
    ),
    ("lasso", "ridge", "the penalty of lasso takes its place: l1_ratio below 1 adds a squared one"),
    (
        "sparse_group_lasso",
        "ridge",
        "the penalty of sparse_group_lasso takes its place: l1_ratio below 1 adds a squared one",
    ),
    (
        "sght",
        "always",
        "sght keeps the largest coefficients and cannot force a group: best_within and exchange \
         can",
    ),
    (
        "near_best",
        "intercept",
        "correlations are about means, which models through the origin do not have: best_within \
         takes it",
    ),
    ("knockoffs", "always", "a group that is forced cannot come before its copy"),
    ("knockoffs", "intercept", "copies have the correlations of centred columns"),
    ("knockoffs", "ridge", "the statistics of knockoffs are those of least squares"),
];

/// Methods that weigh groups one by one, and take no conditions on sets of them.
pub const NO_SETS: [&str; 5] = ["lasso", "sparse_group_lasso", "sght", "dash", "knockoffs"];
/// The conditions that these refuse.
pub const CONDITIONS: [&str; 4] = ["shared", "needs", "one_of", "limits"];

/// Methods and options of theirs that Python offers, and no engine.
pub const OF_PYTHON: [(&str, &str); 3] =
    [("dash", "literal"), ("sght", "start"), ("sght", "responses")];

/// Refuse the value of an option.
pub fn refused(option: &str, value: &Value) -> Error {
    refused_by("", option, value)
}

/// Refuse the value of an option that a method may allow less of than others.
pub fn refused_by(method: &str, option: &str, value: &Value) -> Error {
    let own = format!("{method}.{option}");
    let of = |name: &str| ALLOWED.iter().find(|(other, _)| *other == name);
    let allowed = of(&own).or_else(|| of(option)).map_or("", |(_, words)| words);
    Error::argument(format!("{option} is {value}; it must {allowed}"))
}

impl Rule {
    /// Rules by the name that users give; the last one has a cost limit, and FoBa does not take it.
    const NAMES: [(&str, Rule); 7] = [
        ("fr", Rule::Fr),
        ("score", Rule::Score),
        ("omp", Rule::Omp),
        ("omp-information", Rule::OmpInformation),
        ("omp-unwhitened", Rule::OmpUnwhitened),
        ("omp-single", Rule::OmpSingle),
        ("doubling", Rule::Doubling),
    ];

    /// The rule of a name.
    pub fn of(name: &Value) -> Result<Rule, Error> {
        choice("rule", name, &Rule::NAMES)
    }

    /// The name that users give.
    fn name(self) -> &'static str {
        Rule::NAMES.iter().find(|(_, rule)| *rule == self).map_or("", |(name, _)| name)
    }

    /// The rule of a forward step of FoBa.
    pub fn of_foba(name: &Value) -> Result<Rule, Error> {
        choice("rule", name, &Rule::NAMES[..6])
    }
}

impl Usefulness {
    /// The kind of a name.
    pub fn of(name: &Value) -> Result<Usefulness, Error> {
        let names = [("loss", Usefulness::Loss), ("coefficient", Usefulness::Coefficient)];
        choice("backward", name, &names)
    }
}

impl Information {
    /// The criterion of a name.
    pub fn of(name: &Value) -> Result<Information, Error> {
        choice("criterion", name, &[("aic", Information::Aic), ("bic", Information::Bic)])
    }
}

impl Direction {
    /// The direction of a name.
    pub fn of(name: &Value) -> Result<Direction, Error> {
        let names = [
            ("both", Direction::Both),
            ("forward", Direction::Forward),
            ("backward", Direction::Backward),
        ];
        choice("direction", name, &names)
    }
}

/// The value of a name, one of some.
pub fn choice<T: Clone>(option: &str, name: &Value, names: &[(&str, T)]) -> Result<T, Error> {
    let is_it = |other: &str| matches!(name, Value::Text(text) if text == other);
    let found = names.iter().find(|(other, _)| is_it(other)).map(|(_, one)| one.clone());
    found.ok_or_else(|| {
        let names = listed(names.iter().map(|(name, _)| *name));
        Error::argument(format!("{option} is {name}; it must be one of {names}"))
    })
}

impl Fields {
    /// Fields by the names that users give.
    pub const NAMES: &[&str] =
        &["intercept", "ridge", "scale", "always", "seed", "shared", "needs", "one_of", "limits"];
    /// Those that least squares on named columns depend on.
    pub const OF_LEAST_SQUARES: &[&str] = &["intercept"];
    /// Those that only a table can answer.
    pub const OF_ROWS: &[&str] = &[
        "family",
        "weight",
        "offset",
        "exposure",
        "positive",
        "null_policy",
        "rows",
        "gram",
        "terms",
    ];

    /// Refuse fields that no Gram could make right.
    pub fn check(&self) -> Result<(), Error> {
        if !(self.ridge >= 0.0 && self.ridge.is_finite()) {
            return Err(refused("ridge", &Value::Number(self.ridge)));
        }
        if self.seed < 0 {
            return Err(refused("seed", &Value::Whole(self.seed)));
        }
        Ok(())
    }
}

impl FitRequest {
    /// Refuse what no columns could make right.
    pub fn check(&self) -> Result<(), Error> {
        self.fields.check()?;
        match self.ask {
            Ask::Summary(level) if !(level > 0.0 && level < 1.0) => {
                Err(refused("level", &Value::Number(level)))
            }
            _ => Ok(()),
        }
    }
}

/// The options of `anytime_sequence`.
#[derive(Clone, Debug, Default)]
pub struct AnytimeOptions {
    /// What a step maximises.
    pub rule: Rule,
    /// Limit on the summed cost.
    pub budget: Option<f64>,
    /// Limit on the number of groups.
    pub max_groups: Option<i64>,
    /// Rule doubling: the largest cost of the first group; default: the cheapest there is.
    pub c_min: Option<f64>,
}

impl AnytimeOptions {
    /// Options by the names that users give.
    pub const NAMES: &[&str] = &["rule", "budget", "max_groups", "c_min"];

    /// Refuse options that no Gram could make right.
    pub fn check(&self) -> Result<(), Error> {
        check_budget(self.budget)?;
        check_count("max_groups", self.max_groups)?;
        match self.c_min {
            Some(c_min) if self.rule != Rule::Doubling => Err(Error::argument(format!(
                "c_min is {}; rule '{}' has none, 'doubling' of the linear model has",
                Value::Number(c_min),
                self.rule.name()
            ))),
            Some(c_min) if !(c_min > 0.0 && c_min.is_finite()) => {
                Err(refused("c_min", &Value::Number(c_min)))
            }
            _ => Ok(()),
        }
    }
}

/// The options of `backward`.
#[derive(Clone, Debug, Default)]
pub struct BackwardOptions {
    /// What makes a group the least useful one.
    pub backward: Usefulness,
    /// Limit on the removals.
    pub max_steps: Option<i64>,
    /// Removal ends as soon as what is held fits it.
    pub budget: Option<f64>,
}

impl BackwardOptions {
    /// Options by the names that users give.
    pub const NAMES: &[&str] = &["backward", "max_steps", "budget"];

    /// Refuse options that no Gram could make right.
    pub fn check(&self) -> Result<(), Error> {
        check_count("max_steps", self.max_steps)?;
        check_budget(self.budget)
    }
}

/// The options of `foba`: those of its backward steps, and what a forward step takes.
#[derive(Clone, Debug)]
pub struct FobaOptions {
    /// Those of its backward steps; `max_steps` counts additions, too.
    pub backward: BackwardOptions,
    /// Share of the target's variance that a group must gain.
    pub epsilon: f64,
    /// Share of a gain that a removal may lose.
    pub nu: f64,
    /// What a forward step maximises; not `Rule::Doubling`.
    pub rule: Rule,
}

impl Default for FobaOptions {
    fn default() -> Self {
        let backward = BackwardOptions::default();
        FobaOptions { backward, epsilon: 0.0, nu: 0.5, rule: Rule::Fr }
    }
}

impl FobaOptions {
    /// Options by the names that users give.
    pub const NAMES: &[&str] = &["rule", "epsilon", "nu", "backward", "max_steps", "budget"];

    /// Refuse options that no Gram could make right.
    pub fn check(&self) -> Result<(), Error> {
        self.backward.check()?;
        if !(self.epsilon >= 0.0 && self.epsilon.is_finite()) {
            return Err(refused("epsilon", &Value::Number(self.epsilon)));
        }
        if self.nu > 0.0 && self.nu < 1.0 {
            return Ok(());
        }
        Err(refused("nu", &Value::Number(self.nu)))
    }
}

/// The options of `floating`.
#[derive(Clone, Debug, Default)]
pub struct FloatingOptions {
    /// What a forward step maximises; not `Rule::Doubling`.
    pub rule: Rule,
    /// Limit on the number of groups.
    pub max_groups: Option<i64>,
    /// Limit on additions and removals together.
    pub max_steps: Option<i64>,
    /// Limit on the summed cost.
    pub budget: Option<f64>,
}

impl FloatingOptions {
    /// Options by the names that users give.
    pub const NAMES: &[&str] = &["rule", "max_groups", "max_steps", "budget"];

    /// Refuse options that no Gram could make right.
    pub fn check(&self) -> Result<(), Error> {
        check_count("max_groups", self.max_groups)?;
        check_count("max_steps", self.max_steps)?;
        check_budget(self.budget)
    }
}

/// The options of `step`.
#[derive(Clone, Debug, Default)]
pub struct StepOptions {
    /// What is lowered.
    pub criterion: Information,
    /// Price of a parameter, in place of the criterion's.
    pub penalty: Option<f64>,
    /// Which moves there are.
    pub direction: Direction,
    /// Groups to begin with; default: none, or all where groups are only removed.
    pub start: Option<Vec<String>>,
    /// Limit on the moves after the start.
    pub max_steps: Option<i64>,
    /// Limit on the summed cost.
    pub budget: Option<f64>,
}

impl StepOptions {
    /// Options by the names that users give.
    pub const NAMES: &[&str] =
        &["criterion", "penalty", "direction", "start", "max_steps", "budget"];

    /// Refuse options that no Gram could make right.
    pub fn check(&self) -> Result<(), Error> {
        match self.penalty {
            Some(penalty) if !(penalty >= 0.0 && penalty.is_finite()) => {
                return Err(refused("penalty", &Value::Number(penalty)));
            }
            _ => {}
        }
        check_count("max_steps", self.max_steps)?;
        check_budget(self.budget)
    }
}

/// Refuse what is no limit on the summed cost.
pub fn check_budget(budget: Option<f64>) -> Result<(), Error> {
    match budget {
        Some(budget) if budget.is_nan() || budget < 0.0 => {
            Err(refused("budget", &Value::Number(budget)))
        }
        _ => Ok(()),
    }
}

/// Refuse what is no count, or none at all.
pub fn check_count(name: &str, count: Option<i64>) -> Result<(), Error> {
    match count {
        Some(count) if count < 1 => Err(refused(name, &Value::Whole(count))),
        _ => Ok(()),
    }
}

/// Names of the options of `gram_em`.
const EM_NAMES: [&str; 3] = ["max_iterations", "tolerance", "prior"];

/// Read the options of `gram_em`; NULL is the default.
pub fn em_options(given: &Value) -> Result<em::Options, String> {
    let mut found = em::Options::default();
    let entries = match given {
        Value::Nothing => &[],
        Value::Map(entries) => &entries[..],
        _ => return Err("options must be a STRUCT, as {'max_iterations': 1000}".to_string()),
    };
    for (name, value) in entries {
        let refused = |allowed: &str| Err(format!("{name} is {value}; it must be {allowed}"));
        match (&name.to_ascii_lowercase()[..], value, value.number()) {
            (name, Value::Nothing, _) if EM_NAMES.contains(&name) => {}
            ("max_iterations", &Value::Whole(steps), _) if steps > 0 => {
                found.max_iterations = steps as usize;
            }
            ("max_iterations", ..) => return refused("a whole number >= 1"),
            ("tolerance", _, Some(most)) if most > 0.0 && most.is_finite() => {
                found.tolerance = most;
            }
            ("tolerance", ..) => return refused("a number > 0"),
            ("prior", _, Some(rows)) if rows >= 0.0 && rows.is_finite() => found.prior = Some(rows),
            ("prior", ..) => return refused("a number of rows >= 0"),
            _ => return Err(unknown("option", name, &EM_NAMES.map(str::to_string))),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_there_is_not_is_shown_with_those_there_are() {
        let text = |name: &str| Value::Text(name.to_string());
        assert_eq!(Rule::of(&text("omp-single")), Ok(Rule::OmpSingle));
        let error = Rule::of_foba(&text("doubling")).unwrap_err();
        assert!(error.message.contains("rule is 'doubling'; it must be one of ['fr', 'score'"));
        assert!(!error.message.ends_with("'doubling']"));
        assert!(Usefulness::of(&text("")).is_err());
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        let anytime = AnytimeOptions::default;
        let wrong = [
            AnytimeOptions { budget: Some(-0.5), ..anytime() },
            AnytimeOptions { max_groups: Some(0), ..anytime() },
            AnytimeOptions { c_min: Some(1.0), ..anytime() },
            AnytimeOptions { c_min: Some(0.0), rule: Rule::Doubling, ..anytime() },
        ];
        assert!(wrong.iter().all(|options| options.check().is_err()));
        assert!(AnytimeOptions { budget: Some(f64::INFINITY), ..anytime() }.check().is_ok());
        let fields = Fields::default;
        for ridge in [f64::NAN, f64::INFINITY, -1.0] {
            assert!(Fields { ridge, ..fields() }.check().is_err());
        }
        assert!(fields().check().is_ok() && Fields { seed: -1, ..fields() }.check().is_err());
        for (epsilon, nu) in [(-1.0, 0.5), (0.0, 0.0), (0.0, 1.0), (f64::NAN, 0.5)] {
            assert!(FobaOptions { epsilon, nu, ..FobaOptions::default() }.check().is_err());
        }
    }

    #[test]
    fn what_no_columns_make_right_is_refused() {
        let ridge = |ridge| Fields { ridge, ..Fields::default() };
        let wrong = [
            FitRequest { fields: ridge(-1.0), ..FitRequest::of("y") },
            FitRequest { ask: Ask::Summary(1.0), ..FitRequest::of("y") },
        ];
        assert!(wrong.iter().all(|request| request.check().is_err()));
    }
}

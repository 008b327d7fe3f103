//! The methods of a record: what each takes, and what it returns.
//!
//! A new one is a line here, its options in `options` and `given`, and a `Choice` that answers.
//!
//! | module | what |
//! |---|---|
//! | `value`, `given` | values that a door was given by name, read into a request |
//! | `options` | the options of each method, checked |
//! | `setup` | a request, matched to the columns of a record |
//! | `run` | from a record to a sequence, in memory that is used again |
//! | `question` | a method as it is asked of records |
//! | `answer` | what a method returns, and its type |
//! | `told` | fits as answers |
//! | `sets` | the best set of one record or several, those near it, prices up to which groups are bought |
//! | `dash`, `exchange`, `sght` | sets of groups, asked and answered |
//! | `lasso`, `knockoffs`, `pattern` | a penalty, copies, groups that are there: the same |
//! | `design` | which rows to observe, as it is asked |
//! | `em` | the options of `gram_em` |
//! | `chosen` | the model of a set of groups |
//! | `penalty_path` | the minima at falling penalties |

pub mod answer;
pub mod chosen;
pub mod conditions;
pub mod dash;
mod design;
pub mod exchange;
pub mod given;
pub mod knockoffs;
pub mod lasso;
pub mod options;
pub mod pattern;
pub mod penalty_path;
pub mod question;
pub mod run;
pub mod sets;
pub mod setup;
pub mod sght;
mod told;

use self::answer::Type;
use self::dash::DashOptions;
use self::exchange::ExchangeOptions;
use self::knockoffs::KnockoffOptions;
use self::lasso::LassoOptions;
use self::options::{AnytimeOptions, BackwardOptions, FloatingOptions, FobaOptions, StepOptions};
use self::penalty_path::PathOptions;
use self::sets::break_even::BreakEvenOptions;
use self::sets::near_best::NearBestOptions;
use self::sght::SghtOptions;
use crate::linear::fields::Fields;

/// What functions of rows take beside their own.
pub const OF_ROWS: &[&str] = &[
    "weight",
    "offset",
    "exposure",
    "positive",
    "intercept",
    "ridge",
    "scale",
    "tol",
    "max_iter",
    "max_bytes",
    "null_policy",
];

/// A method of a Gram record and a target.
#[derive(Debug)]
pub struct Method {
    /// Its name in every door.
    pub name: &'static str,
    /// What it does, and a call of it by named arguments.
    pub about: &'static str,
    /// Options that may stand before the others by their place.
    pub places: &'static [&'static str],
    /// Options beside groups, costs and fields.
    pub own: &'static [&'static str],
    /// What it runs on, and the type of what it returns.
    pub kind: Kind,
}

/// What a method runs on.
#[derive(Debug)]
pub enum Kind {
    /// Groups; it returns a sequence.
    Sequence,
    /// Groups.
    Groups(&'static Type),
    /// Least squares on named columns.
    Columns(&'static Type),
    /// Groups, of several records at once.
    Records(&'static Type),
    /// Rows, which an aggregate keeps.
    Rows(&'static Type),
}

impl Method {
    /// The method of a name.
    pub fn of(name: &str) -> Option<&'static Method> {
        if name == "best_across" {
            return Some(&BEST_ACROSS);
        }
        METHODS
            .iter()
            .chain([&PATTERNS, &LASSO_PATH, &GROUP_LASSO_PATH])
            .find(|method| method.name == name)
    }

    /// The names of all that it takes after the target.
    pub fn options(&self) -> Vec<&'static str> {
        let groups: &[&str] = match self.kind {
            Kind::Columns(_) | Kind::Rows(_) => &[],
            _ => &["groups", "costs"],
        };
        let fields = match self.kind {
            Kind::Rows(_) => OF_ROWS,
            Kind::Columns(_) if self.name != "fit" => Fields::OF_LEAST_SQUARES,
            _ => Fields::NAMES,
        };
        [self.places, groups, self.own, fields].concat()
    }
}

/// The models of patterns, and the gains of the groups that each lacks.
pub static PATTERNS: Method = Method {
    name: "patterns",
    about: "The model of each of some sets of groups",
    places: &[],
    own: &["available"],
    kind: Kind::Groups(&answer::PATTERNS),
};

/// `best_within` of several records; users know it by that name.
pub static BEST_ACROSS: Method = Method {
    name: "best_within",
    about: "The groups whose worst or mean explained share of several records is largest",
    places: &["budget"],
    own: BEST_WITHIN,
    kind: Kind::Records(&answer::ACROSS),
};

/// What `best_within` takes beside the budget.
const BEST_WITHIN: &[&str] = &["time_limit", "share"];

/// The lasso or the elastic net at falling penalties.
pub static LASSO_PATH: Method = Method {
    name: "lasso_path",
    about: "The lasso or the elastic net at falling penalties",
    places: &[],
    own: PathOptions::NAMES,
    kind: Kind::Groups(&answer::PATH),
};

/// The group lasso or the sparse group lasso at falling penalties.
pub static GROUP_LASSO_PATH: Method = Method {
    name: "group_lasso_path",
    about: "The group lasso or the sparse group lasso at falling penalties",
    places: &[],
    own: PathOptions::NAMES.split_at(1).1,
    kind: Kind::Groups(&answer::PATH),
};

/// Rows predicted from the groups that they have; an option of rows is read by the hosts.
pub static PREDICT_AVAILABLE: Method = Method {
    name: "predict_available",
    about: "The prediction of a row from whatever groups it has, and which to buy next: \
            dbselect.predict_available(g, 'y', {'a': 1.5}, costs := {'a': 1, 'b': 5})",
    places: &[],
    own: &[
        "budget",
        "level",
        "handle_unknown",
        "missing_columns",
        "accept_above",
        "worth",
        "payoff",
    ],
    kind: Kind::Groups(&answer::ARRIVED),
};

/// All methods, in the order of the documentation.
pub static METHODS: [Method; 20] = [
    Method {
        name: "anytime_sequence",
        about: "Groups of columns in the order in which they buy prediction, from a Gram record: \
                dbselect.anytime_sequence(g, 'y', costs := {'a': 1, 'b': 5}, budget := 5)",
        places: &[],
        own: AnytimeOptions::NAMES,
        kind: Kind::Sequence,
    },
    Method {
        name: "foba",
        about: "Groups added greedily, and given back where later ones made them dispensable: \
                dbselect.foba(g, 'y', nu := 0.5)",
        places: &[],
        own: FobaOptions::NAMES,
        kind: Kind::Sequence,
    },
    Method {
        name: "backward",
        about: "All groups, then without the least useful one, again and again: \
                dbselect.backward(g, 'y', budget := 5)",
        places: &[],
        own: BackwardOptions::NAMES,
        kind: Kind::Sequence,
    },
    Method {
        name: "floating",
        about: "Groups added greedily, and fewer again where these explain more than ever for the \
                cost: dbselect.floating(g, 'y', max_groups := 5)",
        places: &[],
        own: FloatingOptions::NAMES,
        kind: Kind::Sequence,
    },
    Method {
        name: "step",
        about: "The group added or removed that lowers AIC most, until none does, as R's step: \
                dbselect.step(g, 'y', criterion := 'bic')",
        places: &[],
        own: StepOptions::NAMES,
        kind: Kind::Sequence,
    },
    Method {
        name: "exchange",
        about: "k groups taken greedily, then exchanged one for another until none of that helps: \
                dbselect.exchange(g, 'y', 3, costs := {'a': 1, 'b': 5}, budget := 5)",
        places: &["k"],
        own: ExchangeOptions::NAMES,
        kind: Kind::Groups(&answer::MODEL),
    },
    Method {
        name: "best_within",
        about: "The groups that explain most for a budget, with proof or what none can exceed; of a \
                list of records the worst or mean share: \
                dbselect.best_within(g, 'y', 5, costs := {'a': 1, 'b': 5})",
        places: &["budget"],
        own: BEST_WITHIN,
        kind: Kind::Groups(&answer::PROOF),
    },
    Method {
        name: "near_best",
        about: "Every set of groups within a budget that explains nearly as much as the best: \
                dbselect.near_best(g, 'y', 5, within := 0.01)",
        places: &["budget"],
        own: NearBestOptions::NAMES,
        kind: Kind::Groups(&answer::NEAR),
    },
    Method {
        name: "break_even",
        about: "The highest price at which each group is still bought within a budget, or at a worth \
                of explained variance: dbselect.break_even(g, 'y', worth := 100, \
                costs := {'a': 1, 'b': 5})",
        places: &["budget"],
        own: BreakEvenOptions::NAMES,
        kind: Kind::Groups(&answer::PRICES),
    },
    Method {
        name: "dash",
        about: "k groups in few adaptive rounds, random sets of good ones at a time: \
                dbselect.dash(g, 'y', 3, seed := 1)",
        places: &["k"],
        own: DashOptions::NAMES,
        kind: Kind::Groups(&answer::MODEL),
    },
    Method {
        name: "sght",
        about: "A model on few columns in few groups, by hard thresholding: \
                dbselect.sght(g, 'y', 10, 3)",
        places: SghtOptions::PLACES,
        own: SghtOptions::NAMES,
        kind: Kind::Groups(&answer::MODEL),
    },
    Method {
        name: "lasso",
        about: "The lasso or the elastic net at a penalty, or where a criterion prefers it: \
                dbselect.lasso(g, 'y', l1_ratio := 0.5)",
        places: &[],
        own: LassoOptions::NAMES,
        kind: Kind::Groups(&answer::PENALISED),
    },
    Method {
        name: "sparse_group_lasso",
        about: "The sparse group lasso at a penalty, or where a criterion prefers it: \
                dbselect.sparse_group_lasso(g, 'y', penalty := 0.1)",
        places: &[],
        own: LassoOptions::OF_GROUPS,
        kind: Kind::Groups(&answer::PENALISED),
    },
    Method {
        name: "knockoffs",
        about: "Groups that a search prefers to copies of them, with a bound on the share of false \
                ones: dbselect.knockoffs(g, 'y', q := 0.2)",
        places: &[],
        own: KnockoffOptions::NAMES,
        kind: Kind::Groups(&answer::SELECTION),
    },
    Method {
        name: "fit",
        about: "Least squares on some columns of a Gram record: coefficients, r2, and what is \
                dependent: dbselect.fit(g, 'y', ['a', 'b'])",
        places: &["columns"],
        own: &["signs", "uncorrelated"],
        kind: Kind::Columns(&answer::FIT),
    },
    Method {
        name: "summary",
        about: "The coefficients of least squares with standard errors, tests and intervals: \
                dbselect.summary(g, 'y', ['a', 'b'], level := 0.9)",
        places: &["columns"],
        own: &["level"],
        kind: Kind::Columns(&answer::SUMMARY),
    },
    Method {
        name: "vif",
        about: "By how much dependence on the other columns inflates the variance of each \
                coefficient: dbselect.vif(g, 'y', ['a', 'b'])",
        places: &["columns"],
        own: &[],
        kind: Kind::Columns(&answer::VIF),
    },
    Method {
        name: "partial_correlations",
        about: "The correlation of each column with the target, alone and given the others: \
                dbselect.partial_correlations(g, 'y', ['a', 'b'])",
        places: &["columns"],
        own: &[],
        kind: Kind::Columns(&answer::PARTIALS),
    },
    Method {
        name: "condition_number",
        about: "The condition number of the rows of some columns, each scaled to length 1: \
                dbselect.condition_number(g, 'y', ['a', 'b'])",
        places: &["columns"],
        own: &[],
        kind: Kind::Columns(&answer::NUMBER),
    },
    Method {
        name: "f_test",
        about: "The F test that the coefficients of some columns of a model are all 0: \
                dbselect.f_test(g, 'y', ['b'], columns := ['a', 'b'])",
        places: &["tested", "columns"],
        own: &[],
        kind: Kind::Columns(&answer::F_TEST),
    },
];

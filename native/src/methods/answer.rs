//! What a method answers: values of a declared type, which each host writes as its own.

use std::borrow::Cow;

/// The type of an answer; NULL is a value of each.
#[derive(Debug, PartialEq)]
pub enum Type {
    /// BOOLEAN.
    Truth,
    /// BIGINT.
    Whole,
    /// DOUBLE.
    Number,
    /// VARCHAR.
    Text,
    /// A list of one type.
    List(&'static Type),
    /// MAP(VARCHAR, DOUBLE).
    Coefficients,
    /// STRUCT of named fields.
    Struct(&'static [(&'static str, Type)]),
}

impl Type {
    /// Whether it is a model or a list of models, whose last field is how the columns of the raw
    /// table became its own.
    pub fn has_terms(&self) -> bool {
        match self {
            Type::Struct(fields) => fields.last().is_some_and(|(name, _)| *name == "terms"),
            Type::List(item) => item.has_terms(),
            _ => false,
        }
    }
}

/// A value of such a type.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell<'a> {
    /// NULL.
    Null,
    /// Of `Type::Truth`.
    Truth(bool),
    /// Of `Type::Whole`.
    Whole(i64),
    /// Of `Type::Number`; NaN is NULL.
    Number(f64),
    /// Of `Type::Text`.
    Text(Cow<'a, str>),
    /// The elements of a list, or the fields of a STRUCT in their order.
    List(Vec<Cell<'a>>),
    /// The entries of a map.
    Map(Vec<(Cow<'a, str>, f64)>),
}

impl<'a> Cell<'a> {
    /// A text on loan.
    pub fn text(text: &'a str) -> Cell<'a> {
        Cell::Text(Cow::Borrowed(text))
    }

    /// A list of texts on loan.
    pub fn texts(texts: impl IntoIterator<Item = &'a String>) -> Cell<'a> {
        Cell::List(texts.into_iter().map(|text| Cell::text(text)).collect())
    }

    /// Coefficients by name.
    pub fn map(names: &'a [String], values: &[f64]) -> Cell<'a> {
        let entry = |(name, value): (&'a String, &f64)| (Cow::Borrowed(&name[..]), *value);
        Cell::Map(names.iter().zip(values).map(entry).collect())
    }

    /// Append the terms to a model, or to each of a list of them.
    pub fn add_terms(&mut self, of: &Type, terms: Option<&str>) {
        let Cell::List(items) = self else { return };
        match of {
            Type::List(item) => items.iter_mut().for_each(|model| model.add_terms(item, terms)),
            _ => items.push(terms.map_or(Cell::Null, |terms| Cell::Text(terms.to_string().into()))),
        }
    }

    /// The elements of a list or the fields of a STRUCT; none of another value.
    pub fn items(&self) -> &[Cell<'a>] {
        match self {
            Cell::List(items) => items,
            _ => &[],
        }
    }
}

/// The answer to a question about a record, and what a caller may have to be warned of.
#[derive(Clone, Debug)]
pub struct Found<'a> {
    /// Of the type that the method returns.
    pub cell: Cell<'a>,
    /// Condition number of the columns that coefficients were computed for.
    pub condition: f64,
    /// The dependent column whose trace may explain much.
    pub trace: Option<&'a str>,
}

/// The fields that all models of chosen groups begin with.
macro_rules! model {
    ($($name:literal: $type:expr),*) => {
        Type::Struct(&[
            ("columns", Type::List(&Type::Text)),
            ("groups", Type::List(&Type::Text)),
            ("intercept", Type::Number),
            ("coefficients", Type::Coefficients),
            ("explained", Type::Number),
            ("r2", Type::Number),
            ("spent", Type::Number),
            $(($name, $type),)*
            ("terms", Type::Text)
        ])
    };
}

/// A model of chosen groups.
pub static MODEL: Type = model!();
/// The same with what no other can exceed.
pub static PROOF: Type = model!("bound": Type::Number, "gap": Type::Number, "proven": Type::Truth);
/// The groups that are best for several records, and their model of each.
pub static ACROSS: Type = Type::Struct(&[
    ("groups", Type::List(&Type::Text)),
    ("spent", Type::Number),
    ("explained", Type::Number),
    ("bound", Type::Number),
    ("gap", Type::Number),
    ("proven", Type::Truth),
    ("models", Type::List(&MODEL)),
]);
/// Sets of groups, the best first; `complete`, `cut` and `bound` are about all of them.
pub static NEAR: Type = Type::List(&Type::Struct(&[
    ("groups", Type::List(&Type::Text)),
    ("spent", Type::Number),
    ("explained", Type::Number),
    ("r2", Type::Number),
    ("correlations", Type::Coefficients),
    ("complete", Type::Truth),
    ("cut", Type::Whole),
    ("bound", Type::Number),
]));
/// The price up to which each group is bought, and whether it is exact.
pub static PRICES: Type = Type::List(&Type::Struct(&[
    ("group", Type::Text),
    ("price", Type::Number),
    ("proven", Type::Truth),
]));
/// The same at a penalty.
pub static PENALISED: Type = model!(
    "penalty": Type::Number, "df": Type::Number, "gap": Type::Number, "violation": Type::Number
);
/// The minima at L falling penalties, of D columns in J groups; rows of a table follow one another.
pub static PATH: Type = Type::Struct(&[
    ("penalties", Type::List(&Type::Number)),
    // In the unit of the problem, (L, D), and what turns them into those of the table, (D,).
    ("w", Type::List(&Type::Number)),
    ("unit", Type::List(&Type::Number)),
    ("spread", Type::List(&Type::Number)),
    ("intercept", Type::List(&Type::Number)),
    ("lengths", Type::List(&Type::Number)),
    ("r2", Type::List(&Type::Number)),
    ("gap", Type::List(&Type::Number)),
    ("violation", Type::List(&Type::Number)),
    ("df", Type::List(&Type::Number)),
    ("entered", Type::List(&Type::Whole)),
    ("entered_at", Type::List(&Type::Whole)),
    ("preferred", Type::Whole),
]);
/// A group and whether it was selected, an element each.
pub static SELECTION: Type = Type::List(&Type::Struct(&[
    ("group", Type::Text),
    ("cost", Type::Number),
    ("statistic", Type::Number),
    ("frequency", Type::Number),
    ("e_value", Type::Number),
    ("selected", Type::Truth),
]));
/// Least squares on named columns.
pub static FIT: Type = Type::Struct(&[
    ("intercept", Type::Number),
    ("coefficients", Type::Coefficients),
    ("explained", Type::Number),
    ("r2", Type::Number),
    ("sigma", Type::Number),
    ("rows", Type::Whole),
    ("skipped", Type::Whole),
    ("aliased", Type::List(&Type::Text)),
    ("note", Type::Text),
    ("terms", Type::Text),
]);
/// Its coefficients with their tests, a term an element.
pub static SUMMARY: Type = Type::List(&Type::Struct(&[
    ("term", Type::Text),
    ("estimate", Type::Number),
    ("std_error", Type::Number),
    ("statistic", Type::Number),
    ("p_value", Type::Number),
    ("standardized", Type::Number),
    ("low", Type::Number),
    ("high", Type::Number),
]));
/// Variance inflation, a column an element.
pub static VIF: Type = Type::List(&Type::Struct(&[("column", Type::Text), ("vif", Type::Number)]));
/// What each column has of the target, a column an element.
pub static PARTIALS: Type = Type::List(&Type::Struct(&[
    ("column", Type::Text),
    ("correlation", Type::Number),
    ("partial", Type::Number),
    ("semipartial", Type::Number),
]));
/// A test of nested models.
pub static F_TEST: Type = Type::Struct(&[
    ("df", Type::Whole),
    ("df_residual", Type::Whole),
    ("statistic", Type::Number),
    ("p_value", Type::Number),
]);
/// The models of patterns: `gains` has what each group would add, in the order of the groups.
pub static PATTERNS: Type = Type::List(&Type::Struct(&[
    ("groups", Type::List(&Type::Text)),
    ("intercept", Type::Number),
    ("coefficients", Type::Coefficients),
    ("spent", Type::Number),
    ("r2", Type::Number),
    ("sigma", Type::Number),
    ("free", Type::Number),
    ("gains", Type::List(&Type::Number)),
]));
/// A row predicted from the groups that it has.
pub static ARRIVED: Type = Type::Struct(&[
    ("prediction", Type::Number),
    ("groups", Type::List(&Type::Text)),
    ("spent", Type::Number),
    ("r2", Type::Number),
    ("sigma", Type::Number),
    ("lower", Type::Number),
    ("upper", Type::Number),
    ("next_group", Type::Text),
    ("next_gain", Type::Number),
    ("next_cost", Type::Number),
    ("accept", Type::Truth),
    ("next_value", Type::Number),
]);
/// The error of a model on other rows.
pub static JUDGED: Type =
    Type::Struct(&[("r2", Type::Number), ("mse", Type::Number), ("rmse", Type::Number)]);
/// The same of each step of a sequence.
pub static JUDGED_STEPS: Type = Type::List(&Type::Struct(&[
    ("step", Type::Whole),
    ("group", Type::Text),
    ("spent", Type::Number),
    ("r2", Type::Number),
    ("mse", Type::Number),
    ("rmse", Type::Number),
]));
/// One number.
pub static NUMBER: Type = Type::Number;

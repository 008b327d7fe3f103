//! What is wrong with an argument, in one sentence, and which kind of mistake it is.

use std::fmt;

/// The kinds of mistakes, by the names of the classes in `dbselect/errors.py`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An argument has a value that is not allowed.
    Argument,
    /// A column is unknown or named twice.
    Column,
    /// Groups or their costs do not fit the columns or each other.
    Group,
}

/// A mistake in the arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Which kind it is.
    pub kind: Kind,
    /// What, the value, what is allowed.
    pub message: String,
}

impl Error {
    /// An argument out of range.
    pub fn argument(message: String) -> Error {
        Error { kind: Kind::Argument, message }
    }

    /// A column that is unknown or named twice.
    pub fn column(message: String) -> Error {
        Error { kind: Kind::Column, message }
    }

    /// Groups or costs that do not fit.
    pub fn group(message: String) -> Error {
        Error { kind: Kind::Group, message }
    }
}

impl fmt::Display for Error {
    /// The class that Python raises, then the sentence.
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let class = match self.kind {
            Kind::Argument => "ArgumentError",
            Kind::Column => "ColumnError",
            Kind::Group => "GroupError",
        };
        write!(out, "{class}: {}", self.message)
    }
}

/// Texts as Python shows a list of them.
pub fn listed<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    let texts: Vec<String> = texts.into_iter().map(|text| format!("'{text}'")).collect();
    format!("[{}]", texts.join(", "))
}

/// A number as Python shows it.
pub fn shown(number: f64) -> String {
    if number.is_nan() { "nan".to_string() } else { format!("{number:?}") }
}

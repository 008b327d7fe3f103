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

impl From<Error> for String {
    fn from(error: Error) -> String {
        error.to_string()
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

/// A sum to six digits, without the rounding of its terms.
pub fn rounded(sum: f64) -> String {
    format!("{sum:.5e}").parse().map_or_else(|_| shown(sum), |digits: f64| digits.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_lists_are_shown_as_python_shows_them() {
        assert_eq!((shown(1.0), shown(f64::NAN)), ("1.0".to_string(), "nan".to_string()));
        assert_eq!((rounded(0.1 + 0.2), rounded(2.0)), ("0.3".to_string(), "2".to_string()));
        assert_eq!(listed(["a", "b"]), "['a', 'b']");
    }
}

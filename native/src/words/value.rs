//! A value passed for an option, not yet checked.

use std::fmt;

use crate::words::error::shown;

/// What an engine's value means, whatever its type there.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// NULL.
    Nothing,
    /// True or false.
    Truth(bool),
    /// A whole number.
    Whole(i64),
    /// Any other number.
    Number(f64),
    /// Text.
    Text(String),
    /// A list of values.
    List(Vec<Value>),
    /// Values by name, in their order.
    Map(Vec<(String, Value)>),
    /// What no option takes, in words.
    Other(String),
}

impl From<serde_json::Value> for Value {
    fn from(json: serde_json::Value) -> Value {
        use serde_json::Value as Json;
        match json {
            Json::Null => Value::Nothing,
            Json::Bool(truth) => Value::Truth(truth),
            Json::Number(number) => match number.as_i64() {
                Some(whole) => Value::Whole(whole),
                None => Value::Number(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Value::Text(text),
            Json::Array(items) => Value::List(items.into_iter().map(Value::from).collect()),
            Json::Object(entries) => {
                Value::Map(entries.into_iter().map(|(name, one)| (name, one.into())).collect())
            }
        }
    }
}

impl Value {
    /// The value as a number, if it is one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Whole(number) => Some(*number as f64),
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// The items of a list, if it is one.
    pub fn items(&self) -> Option<&[Value]> {
        match self {
            Value::List(items) => Some(items),
            _ => None,
        }
    }

    /// The value as a list of texts, if it is one.
    pub fn texts(&self) -> Option<Vec<String>> {
        let items = self.items()?;
        let text = |item: &Value| match item {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        };
        items.iter().map(text).collect()
    }
}

impl fmt::Display for Value {
    /// The value as Python shows it.
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Value::Nothing => write!(out, "None"),
            Value::Truth(true) => write!(out, "True"),
            Value::Truth(false) => write!(out, "False"),
            Value::Whole(number) => write!(out, "{number}"),
            Value::Number(number) => write!(out, "{}", shown(*number)),
            Value::Text(text) => write!(out, "'{text}'"),
            Value::List(items) => {
                let items: Vec<String> = items.iter().map(Value::to_string).collect();
                write!(out, "[{}]", items.join(", "))
            }
            Value::Map(entries) => {
                let entries: Vec<String> =
                    entries.iter().map(|(name, value)| format!("'{name}': {value}")).collect();
                write!(out, "{{{}}}", entries.join(", "))
            }
            Value::Other(words) => write!(out, "{words}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_as_python_shows_them() {
        let list = Value::List(vec![Value::Whole(1), Value::Nothing, Value::Truth(true)]);
        let map = Value::Map(vec![("a".to_string(), list), ("b".to_string(), Value::Number(2.0))]);
        assert_eq!(map.to_string(), "{'a': [1, None, True], 'b': 2.0}");
        assert_eq!(Value::Text("x".to_string()).to_string(), "'x'");
    }

    #[test]
    fn a_list_of_texts_holds_nothing_else() {
        let text = || Value::Text("x".to_string());
        assert_eq!(Value::List(vec![text()]).texts(), Some(vec!["x".to_string()]));
        assert_eq!(Value::List(vec![text(), Value::Nothing]).texts(), None);
        assert_eq!(text().texts(), None);
    }
}

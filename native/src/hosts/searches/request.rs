//! Requests as JSON: a method, a target, and options by name.

use serde::Deserialize;
use serde_json::{Map, Value as Json};

use crate::methods::Method;
use crate::methods::answer::Type;
use crate::methods::given;
use crate::methods::question::Question;
use crate::methods::setup::Request;
use crate::words::value::Value;

/// The name of the only entry of an object that means a number which JSON lacks.
const NOT_FINITE: &str = "\0";

#[derive(Deserialize)]
struct Asked {
    method: String,
    target: String,
    given: Map<String, Json>,
}

/// A request of a search; what is null has its default.
pub fn read_request(asked: &str) -> Result<Request, String> {
    let (method, target, values) = read(asked)?;
    Ok(given::read_request(method, &target, &values)?)
}

/// A question of another method, and the type of its answers.
pub fn read_question(asked: &str) -> Result<(Question, &'static Type), String> {
    let (method, target, values) = read(asked)?;
    let returns = method.returns().ok_or_else(|| format!("{} is a search", method.name))?;
    Ok((Question::read(method, &target, &values)?, returns))
}

type Named = Vec<(String, Value)>;

fn read(asked: &str) -> Result<(&'static Method, String, Named), String> {
    let asked: Asked = serde_json::from_str(asked).map_err(|error| format!("request: {error}"))?;
    let name = &asked.method;
    let method = Method::of(name).ok_or_else(|| format!("there is no method '{name}'"))?;
    let values = asked.given.into_iter().map(|(name, json)| (name, with_numbers(json.into())));
    // A table has a column for the options of every method.
    Ok((method, asked.target, values.filter(|(_, value)| *value != Value::Nothing).collect()))
}

/// The value with the numbers that JSON lacks.
fn with_numbers(value: Value) -> Value {
    match value {
        Value::List(items) => Value::List(items.into_iter().map(with_numbers).collect()),
        Value::Map(entries) => match &entries[..] {
            [(name, Value::Text(number))] if name == NOT_FINITE => {
                Value::Number(number.parse().unwrap_or(f64::NAN))
            }
            _ => {
                let entry = |(name, one)| (name, with_numbers(one));
                Value::Map(entries.into_iter().map(entry).collect())
            }
        },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_json_lacks_are_read() {
        let asked = r#"{"method": "foba", "target": "y", "given": {"budget": {"\u0000": "-inf"},
            "costs": {"a": {"\u0000": "nan"}, "b": 2}, "always": null}}"#;
        let (method, target, given) = read(asked).unwrap();
        assert_eq!((method.name, &target[..], given.len()), ("foba", "y", 2));
        assert_eq!(given[0], ("budget".to_string(), Value::Number(f64::NEG_INFINITY)));
        let Value::Map(costs) = &given[1].1 else { panic!("costs by name") };
        assert!(costs[0].1.number().unwrap().is_nan() && costs[1].1 == Value::Whole(2));
    }
}

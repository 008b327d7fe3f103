//! The options of `gram_em`.

use super::value::Value;
use crate::linear::em::Options;
use crate::words::nearest::unknown;

/// Their names.
const NAMES: [&str; 3] = ["max_iterations", "tolerance", "prior"];

/// Read the options that a caller gives by name; NULL is the default.
pub fn options(given: &Value) -> Result<Options, String> {
    let mut found = Options::default();
    let entries = match given {
        Value::Nothing => &[],
        Value::Map(entries) => &entries[..],
        _ => return Err("options must be a STRUCT, as {'max_iterations': 1000}".to_string()),
    };
    for (name, value) in entries {
        let refused = |allowed: &str| Err(format!("{name} is {value}; it must be {allowed}"));
        match (&name.to_ascii_lowercase()[..], value, value.number()) {
            (name, Value::Nothing, _) if NAMES.contains(&name) => {}
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
            _ => return Err(unknown("option", name, &NAMES.map(str::to_string))),
        }
    }
    Ok(found)
}

//! Conditions on prices as doors write them: set-ups, needs, rivals and further limits.

use super::given::Given;
use super::options::refused;
use crate::linear::prices::{Conditions, NamedLimit};
use crate::words::error::Error;
use crate::words::value::Value;

/// How the costs of a further unit add up.
const HOW: [&str; 2] = ["sum", "max"];

/// Read the conditions of a problem.
pub fn conditions(given: &Given) -> Result<Conditions, Error> {
    let entries = |name: &str| match given.get(name) {
        None => Ok(&[][..]),
        Some(Value::Map(entries)) => Ok(&entries[..]),
        Some(other) => Err(refused(name, other)),
    };
    let shared = entries("shared")?.iter().map(|(name, value)| set_up(name, value));
    let limits = entries("limits")?.iter().map(|(unit, value)| limit(unit, value));
    let needs = entries("needs")?.iter().map(|(name, value)| {
        let wrong = || wrong("needs", name, value, "list the groups that must be bought with it");
        Ok((name.clone(), names(value).ok_or_else(wrong)?))
    });
    let list = |value: &Value| {
        names(value).filter(|names| !names.is_empty()).ok_or_else(|| {
            Error::argument(format!("one_of has {value}; each item must be a list of group names"))
        })
    };
    let one_of = match given.get("one_of") {
        None => Vec::new(),
        Some(Value::List(lists)) => lists.iter().map(list).collect::<Result<_, _>>()?,
        Some(other) => return Err(refused("one_of", other)),
    };
    Ok(Conditions {
        shared: shared.collect::<Result<_, _>>()?,
        needs: needs.collect::<Result<_, Error>>()?,
        one_of,
        limits: limits.collect::<Result<_, _>>()?,
    })
}

/// A list of names, or one.
fn names(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Text(name) => Some(vec![name.clone()]),
        Value::Nothing => Some(Vec::new()),
        other => other.texts(),
    }
}

fn wrong(field: &str, name: &str, value: &Value, allowed: &str) -> Error {
    Error::argument(format!("{field} of '{name}' is {value}; it must {allowed}"))
}

/// The parts of a value by name, or by place; those of a row of SQL, `(1, ['a'])`, have no names.
fn part<'v>(value: &'v Value, name: &str, place: usize) -> Option<&'v Value> {
    match value {
        Value::Map(entries) => {
            let is = |(at, (other, _)): &(usize, &(String, Value))| {
                other == name || other.is_empty() && *at == place
            };
            entries.iter().enumerate().find(is).map(|(_, (_, value))| value)
        }
        other => other.items().and_then(|items| items.get(place)),
    }
}

/// Whether a value has no other parts than some.
fn has_only(value: &Value, known: &[&str]) -> bool {
    match value {
        Value::Map(entries) if entries.len() > known.len() => false,
        Value::Map(entries) => {
            entries.iter().all(|(name, _)| name.is_empty() || known.contains(&&name[..]))
        }
        other => other.items().is_some_and(|items| items.len() <= known.len()),
    }
}

fn set_up(name: &str, value: &Value) -> Result<(String, f64, Vec<String>), Error> {
    let cost = part(value, "cost", 0).and_then(Value::number);
    let cost = cost.filter(|cost| *cost > 0.0 && cost.is_finite());
    let groups = part(value, "groups", 1).and_then(names).filter(|groups| !groups.is_empty());
    match (cost, groups) {
        (Some(cost), Some(groups)) if has_only(value, &["cost", "groups"]) => {
            Ok((name.to_string(), cost, groups))
        }
        _ => Err(wrong("shared", name, value, "have a cost > 0 and the groups that share it")),
    }
}

fn limit(unit: &str, value: &Value) -> Result<NamedLimit, Error> {
    let is_size = |number: &f64| *number >= 0.0 && number.is_finite();
    let most = part(value, "limit", 1).and_then(Value::number).filter(is_size);
    let cost = |(name, cost): &(String, Value)| {
        cost.number().filter(is_size).map(|cost| (name.clone(), cost))
    };
    let costs: Option<Vec<(String, f64)>> = match part(value, "costs", 0) {
        Some(Value::Map(costs)) => costs.iter().map(cost).collect(),
        _ => None,
    };
    let how = match part(value, "how", 2) {
        None | Some(Value::Nothing) => Some(HOW[0]),
        Some(Value::Text(how)) => HOW.iter().find(|other| *other == how).copied(),
        Some(_) => None,
    };
    match (costs, most, how) {
        (Some(costs), Some(most), Some(how)) if has_only(value, &["costs", "limit", "how"]) => {
            Ok((unit.to_string(), costs, most, how == HOW[1]))
        }
        _ => Err(wrong(
            "limits",
            unit,
            value,
            "have costs >= 0 by group, a limit >= 0, and 'sum' or 'max'",
        )),
    }
}

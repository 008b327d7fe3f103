//! A model as the text of an SQL expression, for engines that have no extension.
//!
//! It reads the table as it was read for the fit, as `Predicting.sql` in
//! `dbselect/results/prediction/predict.py` does, which also writes curves, entries, several classes
//! and other dialects than DuckDB's. `glm::written` writes the mean of a family.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value;

use crate::kernel::gaps::SUFFIX;
use crate::record::inputs::{Column, Input, Inputs, Lookup, Part, Source, Unknown};
use crate::record::prefix::Step;
use crate::record::terms::Terms;

/// Write the prediction of one model; NULL where a column is NULL that the fit did not fill.
pub fn expression(step: &Step, terms: Arc<Terms>, unknown: Unknown) -> Result<String, String> {
    if !terms.entries.is_empty() {
        return Err(refused("fields of entries"));
    }
    let names = || step.coefficients.iter().map(|(name, _)| &name[..]);
    let made = made(names(), &terms);
    // A table that has all there is to read, of whatever type.
    let columns = [Column::nothing()];
    let place = |name: &str| (!made.contains(name)).then_some(0);
    let inputs = Inputs::new(names(), terms.clone(), &columns, place)?;
    if unknown == Unknown::Mean {
        inputs.check_shares()?;
    }
    let model = inputs.model(step.intercept, &step.coefficients).map_err(|fields| {
        format!("the model reads no column of the table for '{}'", fields.join("', '"))
    })?;
    let mut known: HashMap<String, &str> = HashMap::new();
    let mut parts = vec![number(model.intercept)];
    for part in &model.parts {
        let input = inputs.input(part);
        let name = input.source.name();
        if let Some(other) = known.insert(name.to_lowercase(), name).filter(|other| *other != name)
        {
            return Err(format!(
                "columns '{other}' and '{name}' are one column to SQL, which ignores case; rename \
                 one"
            ));
        }
        parts.push(term(part, input, &terms, unknown)?);
    }
    Ok(format!("({})", parts.join(" + ")))
}

fn refused(what: &str) -> String {
    format!("model_sql writes no {what}; model.sql() in Python does")
}

/// The columns that are made of others, and lie in no table.
pub(super) fn made(names: impl Iterator<Item = impl AsRef<str>>, terms: &Terms) -> HashSet<String> {
    let wanted: HashSet<String> = names.map(|name| name.as_ref().to_string()).collect();
    let mut made: HashSet<String> = HashSet::new();
    for category in &terms.categories {
        made.extend(category.names().into_iter().chain([category.missing()]));
    }
    made.extend(terms.computed.iter().flat_map(|term| term.names.clone()));
    made.extend(super::inputs::curves(terms).flat_map(|(_, names)| names));
    let marks = wanted.iter().filter(|name| {
        let base = name.strip_suffix(SUFFIX);
        base.is_some_and(|base| wanted.contains(base) || terms.indicators.iter().any(|x| x == base))
    });
    made.extend(marks.cloned().collect::<Vec<_>>());
    // What lies in the table by such a name is a field.
    made.retain(|name| !terms.flat.contains(name));
    made
}

/// What a field adds.
fn term(part: &Part, input: &Input, terms: &Terms, unknown: Unknown) -> Result<String, String> {
    let name = path(input.source.name(), terms);
    let or_missing = |value: &str, own: String| match part.missing {
        Some(missing) => format!(
            "CASE WHEN {value} IS NULL OR NOT isfinite({value}) THEN {} ELSE {own} END",
            number(missing)
        ),
        None => own,
    };
    match &input.source {
        Source::Curve(curve) if curve.is_log() => {
            let value = format!("CAST({name} AS DOUBLE)");
            let log = format!("CASE WHEN {value} > 0e0 THEN ln({value}) END");
            Ok(or_missing(&value, format!("{} * {log}", number(part.coefficients[0]))))
        }
        Source::Curve(_) => Err(refused("curves")),
        Source::Levels(lookup) => Ok(levels(part, lookup, &name, unknown)),
        Source::Number(own) => {
            let value = match terms.dates.get(own).and_then(Value::as_str) {
                Some("days") => format!("(epoch({name}) / 86400e0)"),
                Some(_) => format!("epoch({name})"),
                None => format!("CAST({name} AS DOUBLE)"),
            };
            let own = format!("{} * {value}", number(part.coefficients[0]));
            Ok(or_missing(&value, own))
        }
    }
}

fn levels(part: &Part, lookup: &Lookup, name: &str, unknown: Unknown) -> String {
    let or_null = |x: Option<f64>| x.map_or("CAST(NULL AS DOUBLE)".to_string(), number);
    let other = match unknown {
        _ if lookup.rest => or_null(part.coefficients.last().copied()),
        Unknown::Unavailable => or_null(None),
        Unknown::Mean => or_null(part.mean),
        Unknown::Error => {
            let column = literal(&format!("column '{}' has the level '", lookup.column));
            format!("error({column} || CAST({name} AS VARCHAR) || '''; the fit has not seen it')")
        }
    };
    let text = lookup.levels.iter().any(Value::is_string);
    // Of an ENUM, too, which no other text may be compared with.
    let value = if text { format!("CAST({name} AS VARCHAR)") } else { name.to_string() };
    let cases: Vec<String> = lookup
        .levels
        .iter()
        .zip(&part.coefficients)
        .map(|(level, &x)| {
            let level = level.as_str().map_or_else(|| level.to_string(), literal);
            format!("WHEN {level} THEN {}", number(x))
        })
        .collect();
    let found = match cases.is_empty() {
        true => other,
        false => format!("CASE {value} {} ELSE {other} END", cases.join(" ")),
    };
    format!("CASE WHEN {name} IS NULL THEN {} ELSE {found} END", or_null(part.missing))
}

/// A double: with an exponent, or an engine would take it for a decimal.
fn number(x: f64) -> String {
    if x.is_sign_negative() { format!("({x:e})") } else { format!("{x:e}") }
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A flattened column in the table: a field, a child of a STRUCT, an element of an ARRAY.
fn path(name: &str, terms: &Terms) -> String {
    match steps(name).filter(|_| !terms.flat.iter().any(|flat| flat == name)) {
        None => quoted(name),
        // In brackets, or the field would be taken for a table of that name.
        Some((field, steps)) => format!("({}){steps}", quoted(field)),
    }
}

/// The field of a name, and the steps into it as SQL; nothing if it is a field.
fn steps(name: &str) -> Option<(&str, String)> {
    let start = name.find(['.', '[']).filter(|start| *start > 0)?;
    let (field, mut rest) = name.split_at(start);
    let mut found = String::new();
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let (element, after) = inner.split_once(']')?;
            element.parse::<u64>().ok()?;
            found.push_str(&format!("[{element}]"));
            rest = after;
        } else {
            let inner = rest.strip_prefix('.')?;
            let end = inner.find(['.', '[', ']']).unwrap_or(inner.len());
            let (child, after) = inner.split_at(end);
            if child.is_empty() {
                return None;
            }
            found.push_str(&format!(".{}", quoted(child)));
            rest = after;
        }
    }
    Some((field, found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::terms;

    fn written(coefficients: &[(&str, f64)], json: Option<&str>) -> Result<String, String> {
        let coefficients = coefficients.iter().map(|(name, x)| (name.to_string(), *x)).collect();
        let step = Step { step: 0, group: None, spent: 0.0, intercept: 1.5, coefficients };
        expression(&step, terms::read(json).unwrap(), Unknown::Unavailable)
    }

    #[test]
    fn names_lead_into_fields() {
        let found = written(&[("a\"b", 2.0), ("demo.age", -0.25), ("emb[3]", 1.0)], None);
        let parts = [
            "(1.5e0",
            "2e0 * CAST(\"a\"\"b\" AS DOUBLE)",
            "(-2.5e-1) * CAST((\"demo\").\"age\" AS DOUBLE)",
            "1e0 * CAST((\"emb\")[3] AS DOUBLE))",
        ];
        assert_eq!(found.unwrap(), parts.join(" + "));
    }

    #[test]
    fn columns_that_differ_by_case_are_refused() {
        let found = written(&[("a", 1.0), ("A", 1.0)], None);
        assert!(found.unwrap_err().contains("are one column to SQL"));
    }
}

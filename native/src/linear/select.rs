//! A record cut to some of its columns.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::columns::{match_columns, with_indicators};
use crate::kernel::gaps::SUFFIX;
use crate::record::gram::Record;
use crate::record::inputs::curves;
use crate::record::terms::{Terms, sources};
use crate::words::error::Error;

/// The record of some columns, by name, field or glob, in that order.
///
/// Indicators of missing values follow their columns. The rows are those that the record used:
/// what was skipped for a column that is gone stays skipped. Columns that were made of one column
/// of the table stay together, as those of a category and of a curve do.
pub fn select(record: &Record, patterns: &[String]) -> Result<Record, Error> {
    let names = match_columns(patterns, &record.columns, "columns")?;
    let known: HashSet<&str> = record.columns.iter().map(String::as_str).collect();
    let named = names.iter().cloned().collect();
    let names = with_indicators(names, &known, &named);
    let made = made(&record.terms);
    check_whole(record, &names, &made)?;
    let kept: HashSet<&str> =
        names.iter().map(|name| made.get(name).unwrap_or(name)).map(|name| &name[..]).collect();
    let number: HashMap<&str, usize> =
        record.columns.iter().enumerate().map(|(at, name)| (&name[..], at)).collect();
    let order: Vec<usize> =
        names.iter().filter_map(|name| number.get(&name[..]).copied()).collect();
    let cut = record.arranged(&order);
    Ok(Record { terms: Arc::new(terms_of(&record.terms, &names, &kept)), ..cut })
}

/// The column of the table that each made column comes from.
fn made(terms: &Terms) -> HashMap<String, String> {
    let mut found = sources(terms);
    for (column, names) in curves(terms) {
        found.extend(names.into_iter().map(|name| (name, column.clone())));
    }
    found
}

fn check_whole(
    record: &Record,
    names: &[String],
    made: &HashMap<String, String>,
) -> Result<(), Error> {
    let taken: HashSet<&String> = names.iter().collect();
    let of: HashSet<&String> = names.iter().filter_map(|name| made.get(name)).collect();
    let is_left = |name: &&String| {
        made.get(*name).is_some_and(|head| of.contains(head)) && !taken.contains(name)
    };
    match record.columns.iter().find(is_left) {
        Some(left) => Err(Error::column(format!(
            "columns names a part of what '{}' became, without '{left}'; name '{}', or all of it",
            made[left], made[left]
        ))),
        None => Ok(()),
    }
}

/// The terms of some columns, which come from columns of the table.
fn terms_of(terms: &Terms, names: &[String], kept: &HashSet<&str>) -> Terms {
    let has = |name: &String| names.contains(name);
    let is_kept = |column: Option<&str>| column.is_none_or(|column| kept.contains(column));
    let of = |map: &serde_json::Map<String, serde_json::Value>| {
        let own = map.iter().filter(|(name, _)| has(name));
        own.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    let bases = terms.bases.iter();
    let column = |basis: &serde_json::Value| {
        basis.get("column").and_then(|one| one.as_str().map(str::to_string))
    };
    Terms {
        categories: terms
            .categories
            .iter()
            .filter(|one| is_kept(Some(&one.column)))
            .cloned()
            .collect(),
        bases: bases.filter(|basis| is_kept(column(basis).as_deref())).cloned().collect(),
        dates: of(&terms.dates),
        means: of(&terms.means),
        indicators: terms
            .indicators
            .iter()
            .filter(|name| has(&format!("{name}{SUFFIX}")))
            .cloned()
            .collect(),
        flat: terms.flat.iter().filter(|name| is_kept(Some(name))).cloned().collect(),
        entries: terms.entries.clone(),
        computed: terms
            .computed
            .iter()
            .filter(|term| term.names.iter().any(has))
            .cloned()
            .collect(),
        formula: terms.formula.clone(),
        dropped: terms.dropped.clone(),
        em: terms.em.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::gram::RawRecord;

    fn record() -> Record {
        let names = ["a", "k.x", "k.y", "b", "b.missing"].map(str::to_string);
        let terms = r#"{"categories": [{"column": "k", "levels": ["x", "y"], "rest": false}],
            "bases": [], "indicators": ["b"], "dates": {"a": "days"}}"#;
        let comoment =
            (0..15).map(|at| if [0, 2, 5, 9, 14].contains(&at) { 1.0 } else { at as f64 / 20.0 });
        RawRecord {
            columns: names.to_vec(),
            rows: 9,
            missing: Some(vec![0, 0, 0, 3, 3]),
            weight: 9.0,
            mean: vec![1.0, 2.0, 3.0, 4.0, 5.0],
            comoment: comoment.collect(),
            terms: Some(terms.to_string()),
            ..RawRecord::default()
        }
        .check()
        .unwrap()
    }

    fn cut(patterns: &[&str]) -> Result<Record, String> {
        let patterns: Vec<String> = patterns.iter().map(|name| name.to_string()).collect();
        select(&record(), &patterns).map_err(|error| error.message)
    }

    #[test]
    fn columns_come_in_the_order_asked_for_with_what_belongs_to_them() {
        let found = cut(&["b", "a"]).unwrap();
        assert_eq!(&found.columns[..], ["b", "b.missing", "a"]);
        assert_eq!(found.missing, [3, 3, 0]);
        assert_eq!(
            (&found.terms.indicators[..], found.terms.dates.len()),
            (&["b".to_string()][..], 1)
        );
        assert!(found.terms.categories.is_empty());
        let found = cut(&["k"]).unwrap();
        assert_eq!(
            (&found.columns[..], found.terms.categories.len()),
            (&["k.x".to_string(), "k.y".to_string()][..], 1)
        );
        assert!(found.terms.indicators.is_empty() && found.terms.dates.is_empty());
    }

    #[test]
    fn a_part_of_a_category_is_none() {
        let error = cut(&["a", "k.x"]).unwrap_err();
        assert_eq!(
            error,
            "columns names a part of what 'k' became, without 'k.y'; name 'k', or all of it"
        );
        assert!(cut(&["z"]).unwrap_err().starts_with("columns names unknown column 'z'"));
    }
}

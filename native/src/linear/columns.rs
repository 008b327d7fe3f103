//! Column names: which of them a pattern means, and which belong together.
//!
//! The twin of `dbselect/record/columns.py`.

use std::collections::{HashMap, HashSet};

use crate::kernel::gaps::SUFFIX;
use crate::record::inputs::curves;
use crate::record::terms::Terms;
use crate::words::error::Error;
use crate::words::nearest::unknown;

/// Top-level field of a flattened column: `demo.age` and `demo[1]` lie in `demo`.
pub fn field_of(column: &str) -> &str {
    match column.split(['.', '[']).next() {
        Some(field) if !field.is_empty() => field,
        _ => column,
    }
}

/// The top-level field of the table that each column of a record comes from.
pub fn fields_of(columns: &[String], terms: &Terms) -> Vec<String> {
    let mut made: HashMap<String, String> = HashMap::new();
    for (column, names) in curves(terms) {
        made.extend(names.into_iter().map(|name| (name, column.clone())));
    }
    for category in &terms.categories {
        let names = category.names().into_iter().chain([category.missing()]);
        made.extend(names.map(|name| (name, category.column.clone())));
    }
    let source = |name: &String| made.get(name).unwrap_or(name).clone();
    let marks: HashMap<String, String> =
        terms.indicators.iter().map(|name| (format!("{name}{SUFFIX}"), source(name))).collect();
    let computed: HashMap<&String, &String> = (terms.computed.iter())
        .flat_map(|term| term.names.iter().map(|name| (name, &term.group)))
        .collect();
    let field = |name: &String| {
        let plain = name.strip_suffix(SUFFIX).map(str::to_string);
        if let Some(&group) = computed.get(plain.as_ref().unwrap_or(name)) {
            return group.clone();
        }
        let source = marks.get(name).cloned().unwrap_or_else(|| source(name));
        if terms.flat.contains(&source) { source } else { field_of(&source).to_string() }
    };
    columns.iter().map(field).collect()
}

/// Name of the intercept among the terms of a model; no column that explains is called so.
pub const INTERCEPT: &str = "(intercept)";

/// Refuse a column that has that name.
pub fn check_intercept(columns: &[String]) -> Result<(), Error> {
    match columns.iter().any(|name| name == INTERCEPT) {
        false => Ok(()),
        true => Err(Error::column(format!(
            "column '{INTERCEPT}' has the name of the intercept; rename it"
        ))),
    }
}

/// The columns that may explain a target: not itself, nor its indicator, nor, of a level, any
/// other level of its category. No reference level does.
pub fn features_of(columns: &[String], target: &str, terms: &Terms) -> Result<Vec<String>, Error> {
    check_intercept(columns)?;
    let mut apart = vec![target.to_string(), format!("{target}{SUFFIX}")];
    for category in &terms.categories {
        let levels: Vec<String> =
            category.names().into_iter().chain([category.missing()]).collect();
        if levels.iter().any(|level| level == target) {
            apart.extend(levels);
        }
        apart.extend(category.reference_name());
    }
    for term in &terms.computed {
        if term.of.iter().chain(&term.names).any(|name| name == target) {
            let marks = term.names.iter().map(|name| format!("{name}{SUFFIX}"));
            apart.extend(term.names.iter().cloned().chain(marks));
        }
    }
    Ok(columns.iter().filter(|name| !apart.contains(name)).cloned().collect())
}

/// Some columns, each with its indicator `x.missing` after it.
///
/// `names` are the columns there are, `named` those that somebody asks for by name, which
/// follow no other.
pub fn with_indicators(
    columns: Vec<String>,
    names: &HashSet<&str>,
    named: &HashSet<String>,
) -> Vec<String> {
    let mut found = Vec::with_capacity(columns.len());
    for column in columns {
        let mark = format!("{column}{SUFFIX}");
        found.push(column);
        if names.contains(mark.as_str()) && !named.contains(&mark) {
            found.push(mark);
        }
    }
    found
}

/// Columns that some patterns mean, in the order of the patterns.
///
/// A pattern is a column, a nested field at any depth (all of its columns), or a glob in
/// which `*` stands for any text and `?` for one character; a glob's columns come in the
/// order of `names`. `what` is the argument that the patterns come from, for errors.
pub fn match_columns(
    patterns: &[String],
    names: &[String],
    what: &str,
) -> Result<Vec<String>, Error> {
    let known: HashSet<&str> = names.iter().map(String::as_str).collect();
    let mut found: Vec<String> = Vec::new();
    let mut taken: HashSet<&str> = HashSet::new();
    let mut exact: HashSet<&str> = HashSet::new();
    for pattern in patterns {
        let means: Vec<&String> = if known.contains(pattern.as_str()) {
            if !exact.insert(pattern) {
                return Err(Error::column(format!("{what} names column '{pattern}' twice")));
            }
            vec![pattern]
        } else {
            meant(pattern, names)
        };
        if means.is_empty() {
            let unknown = unknown("column", pattern, names);
            return Err(Error::column(format!("{what} names {unknown}")));
        }
        found.extend(means.into_iter().filter(|name| taken.insert(name)).cloned());
    }
    Ok(found)
}

/// The columns of a nested field; of a glob where no field has the name.
fn meant<'n>(pattern: &str, names: &'n [String]) -> Vec<&'n String> {
    let within =
        |name: &str| name.strip_prefix(pattern).is_some_and(|rest| rest.starts_with(['.', '[']));
    let means: Vec<&String> = names.iter().filter(|name| within(name)).collect();
    if !means.is_empty() || !pattern.contains(['*', '?']) {
        return means;
    }
    let pattern: Vec<char> = pattern.chars().collect();
    names.iter().filter(|name| glob(&pattern, &name.chars().collect::<Vec<_>>())).collect()
}

/// Whether a pattern means a column, a field that it lies in, or a name by a glob.
pub fn is_meant(pattern: &str, name: &str) -> bool {
    pattern == name || !meant(pattern, &[name.to_string()]).is_empty()
}

/// Whether a glob means a whole name.
fn glob(pattern: &[char], name: &[char]) -> bool {
    // The last star, and where the text that it stands for would end next.
    let mut star: Option<(usize, usize)> = None;
    let (mut p, mut n) = (0, 0);
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(&letter) if letter == '?' || letter == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, end)) => {
                    star = Some((at, end + 1));
                    (p, n) = (at + 1, end + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&letter| letter == '*')
}

/// Index of a column among the columns there are.
pub fn position(column: &str, names: &[String], what: &str) -> Result<usize, Error> {
    if let Some(at) = names.iter().position(|name| name == column) {
        return Ok(at);
    }
    let is_made =
        |name: &&String| name.strip_prefix(column).is_some_and(|rest| rest.starts_with(['.', '[']));
    Err(Error::column(match names.iter().find(is_made) {
        Some(made) => format!(
            "{what} names '{column}', of which there is a column for each level or part, as \
             '{made}'; give one of these, cast text that holds numbers before the sums, or give \
             the table and family 'multinomial' for all levels"
        ),
        None => format!("{what} names {}", unknown("column", column, names)),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| text.to_string()).collect()
    }

    fn matched(patterns: &[&str], names: &[&str]) -> Result<Vec<String>, Error> {
        match_columns(&texts(patterns), &texts(names), "columns")
    }

    #[test]
    fn a_pattern_is_a_column_a_field_or_a_glob() {
        let names = ["a", "demo.age", "demo.job.pay", "emb[1]", "emb[2]", "dem", "x*"];
        let cases: [(&[&str], &[&str]); 8] = [
            (&["a"], &["a"]),
            (&["demo"], &["demo.age", "demo.job.pay"]),
            (&["demo.job"], &["demo.job.pay"]),
            (&["emb"], &["emb[1]", "emb[2]"]),
            (&["emb[2]", "emb"], &["emb[2]", "emb[1]"]),
            (&["?em*"], &["demo.age", "demo.job.pay", "dem"]),
            (&["x*"], &["x*"]),
            (&["*a*e"], &["demo.age"]),
        ];
        for (patterns, expected) in cases {
            assert_eq!(matched(patterns, &names).unwrap(), expected, "{patterns:?}");
        }
    }

    #[test]
    fn what_means_nothing_or_is_named_twice_is_refused() {
        let error = matched(&["ab", "c*"], &["ab"]).unwrap_err();
        assert_eq!(error.message, "columns names unknown column 'c*'; there is 'ab'");
        let error = matched(&["ab", "ab"], &["ab"]).unwrap_err();
        assert_eq!(error.message, "columns names column 'ab' twice");
    }

    #[test]
    fn terms_tell_the_fields_of_what_they_made() {
        let json = r#"{"flat": ["a.b"], "indicators": ["a.b.poly1", "c.d"],
            "bases": [{"column": "a.b", "degree": 2, "center": 0.0, "scale": 1.0}],
            "categories": [{"column": "k.l", "levels": ["u.v"], "rest": true}]}"#;
        let terms = crate::record::terms::read(Some(json)).unwrap();
        let columns = [
            "a.b",
            "a.b.poly2",
            "a.b.poly1.missing",
            "c.d",
            "c.d.missing",
            "k.l.u.v",
            "k.l.other",
            "k.l.missing",
            "a.c",
        ];
        let fields = fields_of(&texts(&columns), &terms);
        assert_eq!(fields, ["a.b", "a.b", "a.b", "c", "c", "k", "k", "k", "a"]);
    }

    #[test]
    fn a_field_is_what_comes_before_a_dot_or_a_bracket() {
        let fields = ["a", "demo.age", "emb[2]", ".x", "[1]"].map(field_of);
        assert_eq!(fields, ["a", "demo", "emb", ".x", "[1]"]);
    }
}

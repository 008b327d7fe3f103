//! How a table is looked up: options, and the keys of rows.

use crate::hosts::duckdb::table::Leaf;
use crate::record::texts::{Limit, Texts, Values};
use crate::words::nearest::unknown;
use crate::words::value::Value;

/// Whole numbers beyond this are no keys: doubles do not tell them apart.
const MOST_KEY: f64 = 9_007_199_254_740_992.0;

/// What becomes of rows whose key the table does not have, or has with a NULL.
#[derive(Clone, Copy, PartialEq)]
pub enum Unmatched {
    /// 0 and an indicator of each number.
    Indicator,
    /// They are left out.
    Skip,
    /// They are refused.
    Error,
}

/// The options.
pub struct Asked {
    key: Value,
    /// Names and globs of the table's columns; default: all but the key.
    pub columns: Option<Vec<String>>,
    /// Field that the columns are put into.
    pub name: Option<String>,
    /// What becomes of rows without a value.
    pub unmatched: Unmatched,
    /// How many levels a text may have.
    pub limit: Limit,
}

const OPTIONS: [&str; 5] = ["key", "columns", "name", "unmatched", "max_levels"];

impl Asked {
    /// Read the options; NULL is the default.
    pub fn read(given: &Value) -> Result<Asked, String> {
        let mut asked = Asked {
            key: Value::Nothing,
            columns: None,
            name: None,
            unmatched: Unmatched::Indicator,
            limit: Limit::default(),
        };
        let fields = match given {
            Value::Nothing => &[][..],
            Value::Map(fields) => fields,
            other => return Err(format!("options is {other}; it must be a STRUCT of options")),
        };
        for (name, value) in fields.iter().filter(|(_, value)| *value != Value::Nothing) {
            let must = |what: &str| format!("{name} is {value}; it must {what}");
            match &name.to_ascii_lowercase()[..] {
                "key" => asked.key = value.clone(),
                "columns" => {
                    let columns = value.texts().ok_or_else(|| must("list names and globs"))?;
                    asked.columns = Some(columns);
                }
                "name" => match value {
                    Value::Text(text) if !text.is_empty() && !text.contains(['.', '[']) => {
                        asked.name = Some(text.clone());
                    }
                    _ => return Err(must("be text without '.' and '['")),
                },
                "unmatched" => {
                    asked.unmatched = match value {
                        Value::Text(text) if text == "indicator" => Unmatched::Indicator,
                        Value::Text(text) if text == "skip" => Unmatched::Skip,
                        Value::Text(text) if text == "error" => Unmatched::Error,
                        _ => return Err(must("be one of ['indicator', 'skip', 'error']")),
                    }
                }
                "max_levels" => match value {
                    Value::Whole(levels) if *levels >= 1 => {
                        asked.limit = Limit { levels: *levels as usize, rest: true };
                    }
                    _ => return Err(must("be a whole number >= 1")),
                },
                "many" | "order" => {
                    return Err(format!(
                        "{name} is Python's; here one row a key is needed: aggregate the table by \
                         its key first, GROUP BY"
                    ));
                }
                _ => return Err(unknown("option", name, &OPTIONS.map(str::to_string))),
            }
        }
        Ok(asked)
    }

    /// What the table calls the fields of a key.
    pub fn key_of(&self, ours: &[String]) -> Result<Vec<String>, String> {
        let fields = |names: Vec<String>| match names.len() == ours.len() {
            true => Ok(names),
            false => Err(format!("key is {}; the sums are by {ours:?}", self.key)),
        };
        match &self.key {
            Value::Nothing => Ok(ours.to_vec()),
            Value::Text(name) => fields(vec![name.clone()]),
            Value::Map(entries) => {
                let of = |own: &String| {
                    let found = entries.iter().find(|(name, _)| name == own);
                    match found.map(|(_, theirs)| theirs) {
                        Some(Value::Text(theirs)) => Ok(theirs.clone()),
                        _ => Err(format!("key is {}; it must name '{own}'", self.key)),
                    }
                };
                fields(ours.iter().map(of).collect::<Result<_, String>>()?)
            }
            other => fields(other.texts().ok_or_else(|| {
                format!("key is {other}; it must list fields, or map those of the sums to them")
            })?),
        }
    }
}

/// A value of a field of a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The bits of a double.
    Number(u64),
    /// The bytes.
    Text(Vec<u8>),
}

/// The keys of some rows; nothing where a field is NULL.
///
/// # Safety
/// The leaves are live, and have the rows.
pub unsafe fn keys_of(
    fields: &[&Leaf],
    rows: std::ops::Range<usize>,
) -> Result<Vec<Option<Vec<Part>>>, String> {
    let mut keys = vec![Some(Vec::with_capacity(fields.len())); rows.len()];
    for leaf in fields {
        leaf.check_column()?;
        // SAFETY: see the caller's promise.
        let parts: Vec<Option<Part>> = unsafe {
            if leaf.is_text() {
                let Texts { values, missing } = leaf.texts(rows.end);
                let text = |row: usize| match &values {
                    Values::Each(texts) => texts[row].to_vec(),
                    Values::Coded(texts, codes) => texts[codes[row] as usize].to_vec(),
                };
                rows.clone()
                    .map(|row| (!missing.contains(row)).then(|| Part::Text(text(row))))
                    .collect()
            } else {
                let (numbers, missing) = leaf.present(rows.end);
                if let Some(large) =
                    rows.clone().map(|row| numbers[row]).find(|x| x.abs() > MOST_KEY)
                {
                    return Err(format!(
                        "key '{}' has {large:e}, beyond 2^53; cast it to VARCHAR on both sides",
                        leaf.name
                    ));
                }
                // -0.0 is 0.
                let part = |row: usize| Part::Number((numbers[row] + 0.0).to_bits());
                rows.clone().map(|row| (!missing.contains(row)).then(|| part(row))).collect()
            }
        };
        for (key, part) in keys.iter_mut().zip(parts) {
            match (key.as_mut(), part) {
                (Some(parts), Some(part)) => parts.push(part),
                _ => *key = None,
            }
        }
    }
    Ok(keys)
}

/// A key in words.
pub fn told(key: &[Part]) -> String {
    let part = |part: &Part| match part {
        Part::Number(bits) => f64::from_bits(*bits).to_string(),
        Part::Text(text) => format!("'{}'", String::from_utf8_lossy(text)),
    };
    key.iter().map(part).collect::<Vec<_>>().join(", ")
}

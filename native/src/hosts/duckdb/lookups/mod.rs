//! A record with the columns of a table that is looked up by a key, as a scalar function.

mod keys;

use std::collections::HashMap;
use std::sync::Arc;

use self::keys::{Asked, Part, Unmatched, keys_of, told};
use super::api::{self, Handle, type_id};
use super::records::{Records, write_records};
use super::scalar_guard;
use super::table::{Leaf, leaves};
use super::types;
use super::values::Values;
use super::vectors::{ListEntry, Vector};
use crate::kernel::chunk::{Chunk, Labels, Missing};
use crate::kernel::gaps::Policy;
use crate::linear::columns::match_columns;
use crate::record::gram::Record;
use crate::record::rows::{Column, Group, Rows, Shape, terms_of};
use crate::record::terms::sources;
use crate::record::texts::{Texts, Values as TextValues};
use crate::words::nearest::unknown;
use crate::words::value::Value;

/// `gram_extend(record, sums, table [, options])`; NULL if one of the three is.
///
/// The sums are `key_sums({'k': k}, gram)`, a LIST of STRUCT(key, gram); the table is a LIST of its
/// rows.
pub unsafe extern "C" fn gram_extend(info: Handle, chunk: Handle, out: Handle) {
    scalar_guard(info, "gram_extend", || {
        // SAFETY: a live chunk of records and three of any type, and an output of records.
        unsafe {
            let rows = api::duckdb_data_chunk_get_size(chunk) as usize;
            let records = Records::of_chunk(chunk, 0);
            let (sums, table) = (Vector::of_chunk(chunk, 1), Vector::of_chunk(chunk, 2));
            let options = match api::duckdb_data_chunk_get_column_count(chunk) {
                3 => None,
                _ => Some(Values::of(Vector::of_chunk(chunk, 3), rows)?),
            };
            let is_there = is_list(sums, "sums", "key_sums({'k': k}, gram)")?
                && is_list(table, "table", "a list of its rows, (SELECT list(t) FROM t)")?;
            let extended = |row: usize| {
                let given = options.as_ref().map_or(Value::Nothing, |options| options.at(row));
                let asked = Asked::read(&given)?;
                let nulls = [sums, table].iter().any(|vector| vector.is_null(row));
                match records.at(row)? {
                    Some(record) if is_there && !nulls => {
                        let sums = Sums::of(sums, sums.get(row))?;
                        let table = Table::of(table, table.get(row), &sums, &asked)?;
                        sums.joined(&record, &table, &asked).map(Some)
                    }
                    _ => Ok(None),
                }
            };
            let mut found: Vec<_> = (0..rows).map(extended).collect::<Result<_, String>>()?;
            write_records(Vector::output(out), 0, &mut found)?;
        }
        Ok(())
    });
}

/// Whether a vector holds lists, and not NULL of no type; the error says what it must be.
fn is_list(vector: Vector, name: &str, must: &str) -> Result<bool, String> {
    match vector.logical_type().id() {
        type_id::SQLNULL => Ok(false),
        type_id::LIST => Ok(true),
        other => Err(format!("{name} has type {}; it must be {must}", type_id::name(other))),
    }
}

/// The records of the facts by key.
struct Sums {
    fields: Vec<String>,
    are_texts: Vec<bool>,
    keys: Vec<Option<Vec<Part>>>,
    records: Vec<Record>,
}

impl Sums {
    /// # Safety
    /// A live LIST vector that has the entry.
    unsafe fn of(lists: Vector, entry: ListEntry) -> Result<Sums, String> {
        let items = lists.elements();
        let item_type = items.logical_type();
        let names: Vec<String> = match item_type.id() {
            type_id::STRUCT => item_type.fields().into_iter().map(|(name, _)| name).collect(),
            _ => Vec::new(),
        };
        if names != ["key", "gram"] {
            return Err(
                "sums must be key_sums({'k': k}, gram), a LIST of STRUCT(key, gram)".to_string()
            );
        }
        if !types::is_record(&items.child(1).logical_type()) {
            return Err("the sums must have Gram records as 'gram'".to_string());
        }
        let key = items.child(0);
        if key.logical_type().id() != type_id::STRUCT {
            return Err("the key of the sums must be a STRUCT of its fields, {'k': k}".to_string());
        }
        let fields = leaves(key)?.unwrap_or_default();
        // SAFETY: see the caller's promise.
        unsafe {
            let keys = keys_of(&fields.iter().collect::<Vec<_>>(), entry.range())?;
            let all = Records::of(items.child(1));
            let (mut kept, mut records) = (Vec::new(), Vec::new());
            for (row, key) in entry.range().zip(keys) {
                if let Some(record) = all.at(row)? {
                    kept.push(key);
                    records.push(record);
                }
            }
            let are_texts = fields.iter().map(Leaf::is_text).collect();
            let fields = fields.into_iter().map(|leaf| leaf.name).collect();
            Ok(Sums { fields, are_texts, keys: kept, records })
        }
    }

    /// The record of the joined rows.
    fn joined(&self, record: &Record, table: &Table, asked: &Asked) -> Result<Record, String> {
        let mut all: Option<Record> = None;
        let place: HashMap<&String, usize> = match self.records.first() {
            Some(first) => first.columns.iter().enumerate().map(|(at, name)| (name, at)).collect(),
            None => return Err("sums are of no rows".to_string()),
        };
        let lacking = record.columns.iter().find(|name| !place.contains_key(name));
        let (mut rows, mut weight) = (0, 0.0);
        let mut gaps: HashMap<&String, u64> = HashMap::new();
        for (key, own) in self.keys.iter().zip(&self.records) {
            rows += own.moments.rows;
            weight += own.moments.weight;
            let found = key.as_ref().and_then(|key| table.rows.get(key));
            let one = found.map_or(&table.nothing, |&at| &table.records[at]);
            let is_left = one.record.moments.rows == 0 && own.moments.rows > 0;
            for name in &one.gaps {
                *gaps.entry(name).or_default() += own.moments.rows + own.moments.skipped;
            }
            if is_left && asked.unmatched != Unmatched::Skip {
                let rows = own.moments.rows;
                let way = match asked.unmatched {
                    Unmatched::Error => "unmatched 'error' allows none",
                    _ => {
                        "text has no indicator: take unmatched 'skip', or give it a level of its own"
                    }
                };
                let told = key.as_ref().map_or("NULL".to_string(), |key| told(key));
                return Err(format!(
                    "the table lacks a value for {rows} rows, of key {told}; {way}"
                ));
            }
            let one = own.beside(&one.record)?;
            match &mut all {
                Some(all) => all.merge(&one)?,
                None => all = Some(one),
            }
        }
        let is_same = rows == record.moments.rows
            && (weight - record.moments.weight).abs() <= 1e-9 * weight.abs();
        match (lacking, all) {
            (Some(name), _) => Err(format!("the sums by key lack column '{name}' of the record")),
            _ if !is_same => Err(format!(
                "the record is of {} rows of weight {}, the sums by key are of {rows} of weight \
                 {weight}; both must be of the same",
                record.moments.rows, record.moments.weight
            )),
            (None, Some(mut all)) => {
                let from = sources(&all.terms);
                for (name, count) in all.columns.iter().zip(&mut all.missing) {
                    if let Some(rows) = from.get(name).and_then(|text| gaps.get(text)) {
                        *count = *rows;
                    }
                }
                Ok(all)
            }
            (None, None) => Err("sums are of no rows".to_string()),
        }
    }
}

/// The rows of the table that is looked up: a record of each.
struct Table {
    rows: HashMap<Vec<Part>, usize>,
    records: Vec<Looked>,
    /// That of a row without any value.
    nothing: Looked,
}

/// A row of the table.
struct Looked {
    record: Record,
    /// The columns of text without a value, which no level stands for.
    gaps: Vec<String>,
}

impl Table {
    /// # Safety
    /// A live LIST vector that has the entry.
    unsafe fn of(
        lists: Vector,
        entry: ListEntry,
        sums: &Sums,
        asked: &Asked,
    ) -> Result<Table, String> {
        let items = lists.elements();
        if items.logical_type().id() != type_id::STRUCT {
            return Err("table must list rows: (SELECT list(t) FROM t)".to_string());
        }
        let all = leaves(items)?.unwrap_or_default();
        let theirs = asked.key_of(&sums.fields)?;
        let names: Vec<String> = all.iter().map(|leaf| leaf.name.clone()).collect();
        let mut key = Vec::new();
        for ((name, own), is_text) in theirs.iter().zip(&sums.fields).zip(&sums.are_texts) {
            let found = all.iter().find(|leaf| leaf.name == *name);
            let found =
                found.ok_or_else(|| format!("key names {}", unknown("column", name, &names)))?;
            if found.is_text() != *is_text {
                return Err(format!(
                    "key '{own}' of the sums and '{name}' of the table are text and a number; cast one"
                ));
            }
            key.push(found);
        }
        let rest: Vec<String> =
            names.iter().filter(|name| !theirs.contains(name)).cloned().collect();
        if rest.is_empty() {
            return Err(format!("the table has no column beside its key; it has {names:?}"));
        }
        let wanted = match &asked.columns {
            Some(patterns) => {
                match_columns(patterns, &rest, "columns").map_err(|error| error.message)?
            }
            None => rest,
        };
        let columns: Vec<&Leaf> =
            wanted.iter().filter_map(|name| all.iter().find(|leaf| leaf.name == *name)).collect();
        columns.iter().try_for_each(|leaf| leaf.check_column())?;
        let called = |name: &String| match &asked.name {
            Some(prefix) => format!("{prefix}.{name}"),
            None => name.clone(),
        };
        let called: Vec<String> = wanted.iter().map(called).collect();
        let shape = shape_of(&columns, &called, asked)?;
        // SAFETY: see the caller's promise.
        unsafe {
            let keys = keys_of(&key, entry.range())?;
            let mut rows = HashMap::new();
            let mut records = Vec::with_capacity(keys.len());
            let read = read(&columns, entry.range().end);
            for (at, key) in entry.range().zip(keys) {
                let Some(key) = key else { continue };
                if rows.contains_key(&key) {
                    return Err(format!(
                        "the table has several rows of key {}; a row of the facts takes one: \
                         aggregate the table by its key first",
                        told(&key)
                    ));
                }
                rows.insert(key, records.len());
                records.push(record_of(&shape, &read, Some(at))?);
            }
            let nothing = record_of(&shape, &read, None)?;
            Ok(Table { rows, records, nothing })
        }
    }
}

fn shape_of(leaves: &[&Leaf], called: &[String], asked: &Asked) -> Result<Arc<Shape>, String> {
    let column = |(leaf, name): (&&Leaf, &String)| {
        let own = leaf.column();
        (name.clone(), own.is_field && asked.name.is_none(), own.is_text, own.unit)
    };
    let columns: Vec<_> = leaves.iter().zip(called).map(column).collect();
    let fields: Vec<Column> = columns
        .iter()
        .map(|(name, is_field, is_text, unit)| Column {
            name,
            is_field: *is_field,
            is_text: *is_text,
            unit: *unit,
        })
        .collect();
    let policy = match asked.unmatched {
        Unmatched::Indicator => Policy::Indicator,
        _ => Policy::Skip,
    };
    let numbers = fields.iter().filter(|column| !column.is_text).count();
    let base = terms_of(&fields);
    Ok(Arc::new(Shape::of(&fields, vec![policy; numbers], asked.limit, base)?))
}

/// The columns of the table: numbers with their gaps, and texts.
struct Read<'c> {
    numbers: Vec<(std::borrow::Cow<'c, [f64]>, Missing)>,
    texts: Vec<Texts<'c>>,
}

/// # Safety
/// The leaves are live, and have the rows.
unsafe fn read<'c>(leaves: &[&Leaf], rows: usize) -> Read<'c> {
    let (texts, numbers): (Vec<&&Leaf>, Vec<&&Leaf>) =
        leaves.iter().partition(|leaf| leaf.is_text());
    // SAFETY: see the caller's promise.
    unsafe {
        Read {
            numbers: numbers.iter().map(|leaf| leaf.present(rows)).collect(),
            texts: texts.iter().map(|leaf| leaf.texts(rows)).collect(),
        }
    }
}

/// The record of one row, or of one without any value.
fn record_of(shape: &Arc<Shape>, read: &Read, at: Option<usize>) -> Result<Looked, String> {
    let gap = |is_missing: bool| {
        let mut missing = Missing::none();
        if is_missing {
            missing.set(0, 1);
        }
        missing
    };
    let number = |(values, missing): &(std::borrow::Cow<[f64]>, Missing)| {
        let value = at.filter(|&at| !missing.contains(at)).map(|at| values[at]);
        (value.unwrap_or_default(), gap(value.is_none()))
    };
    let (values, nulls): (Vec<f64>, Vec<Missing>) = read.numbers.iter().map(number).unzip();
    let text = |texts: &Texts| {
        let value = at.filter(|&at| !texts.missing.contains(at)).map(|at| match &texts.values {
            TextValues::Each(each) => each[at].to_vec(),
            TextValues::Coded(each, codes) => each[codes[at] as usize].to_vec(),
        });
        (value.clone().unwrap_or_default(), gap(value.is_none()))
    };
    let texts: Vec<(Vec<u8>, Missing)> = read.texts.iter().map(text).collect();
    let mut run = Rows {
        numbers: Chunk {
            rows: 1,
            columns: values.into_iter().map(|value| vec![value].into()).collect(),
            weight: None,
            missing: Missing::none(),
            nulls,
            units: Vec::new(),
            policies: &shape.policies,
        },
        texts: texts
            .iter()
            .map(|(text, missing)| Texts {
                values: TextValues::Each(vec![&text[..]]),
                missing: missing.clone(),
            })
            .collect(),
    };
    run.leave_out();
    let mut group = Group::new(shape);
    group.add(&run, Labels { columns: &shape.numbers, weight: "weight" })?;
    let gap = |(name, text): (&String, &Texts)| text.missing.contains(0).then(|| name.clone());
    let gaps = shape.texts.iter().zip(&run.texts).filter_map(gap).collect();
    Ok(Looked { record: group.finish()?, gaps })
}

//! Gram records: of rows that are known, merged and removed to exact sums; and altered ones,
//! of which every search gives an error, a reason or a sequence that holds together.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef, StructArray};
use arrow_schema::{Field, Fields};
use dbselect_native::record::arrow::{read_record, write_records};
use dbselect_native::record::fills::impute;
use dbselect_native::record::gram::{RawRecord, Record};
use serde_json::{Map, Value as Json, json};

use crate::anything;
use crate::draw::Draw;
use crate::host::{check, no_panic, search};

/// Share of sqrt(c_ii c_jj) of the whole by which a part may be off.
const ROUNDING: f64 = 1e-13;
/// How far a share of the variance may lie beyond 1.
const SHARE: f64 = 1e-9;
const TERMS: [&str; 6] = [
    r#"{"categories":[],"bases":[]}"#,
    r#"{"categories":[{"column":"a","levels":["u","v"],"rest":false,"null_policy":"skip"}],"bases":[]}"#,
    r#"{"categories":[{"column":"a","levels":[1,true],"rest":true,"null_policy":"indicator"}],"bases":[]}"#,
    r#"{"categories":[],"bases":[{"column":"a","kind":"spline","knots":[0,1,2]}],"dates":{"b":"days"}}"#,
    r#"{"means":{"a":1.5,"b":"x"},"indicators":["a"],"flat":["a.b"]}"#,
    "[1",
];

/// Draw rows, or records that are none.
pub fn case(draw: &mut Draw) -> Result<(), String> {
    match draw.below(3) {
        0 => of_rows(draw),
        _ => altered(draw),
    }
}

/// Whole numbers, row by row.
type Rows = Vec<Vec<i64>>;

fn rows(draw: &mut Draw, width: usize) -> Rows {
    let centers: Vec<i64> = (0..width).map(|_| draw.of(&[0, 1, -1000, 1 << 30])).collect();
    let count = draw.below(12) + 1;
    (0..count).map(|_| centers.iter().map(|center| center + draw.within(50)).collect()).collect()
}

/// W times the comoment, exactly.
fn scaled(rows: &Rows, i: usize, j: usize) -> i128 {
    let sum = |of: &dyn Fn(&Vec<i64>) -> i128| rows.iter().map(of).sum::<i128>();
    let products = sum(&|row| i128::from(row[i]) * i128::from(row[j]));
    let (one, two) = (sum(&|row| row[i].into()), sum(&|row| row[j].into()));
    rows.len() as i128 * products - one * two
}

fn comoment(rows: &Rows, i: usize, j: usize) -> f64 {
    scaled(rows, i, j) as f64 / rows.len() as f64
}

/// The record of some rows, as a host hands it over.
fn raw(columns: &[String], rows: &Rows) -> RawRecord {
    let width = columns.len();
    let n = rows.len() as f64;
    let sum = |j: usize| rows.iter().map(|row| i128::from(row[j])).sum::<i128>();
    let mean: Vec<f64> = (0..width).map(|j| sum(j) as f64 / n).collect();
    let low = |j: usize| {
        // What rounding took: the remainder of the division, exactly.
        let whole = (sum(j) / rows.len() as i128) as f64;
        ((sum(j) % rows.len() as i128) as f64 / n) - (mean[j] - whole)
    };
    RawRecord {
        columns: columns.to_vec(),
        rows: rows.len() as i64,
        mean_low: Some((0..width).map(low).collect()),
        weight: n,
        comoment: (0..width)
            .flat_map(|i| (0..=i).map(move |j| (i, j)))
            .map(|(i, j)| comoment(rows, i, j))
            .collect(),
        mean,
        ..RawRecord::default()
    }
}

/// Merge and take away records of rows that are known.
fn of_rows(draw: &mut Draw) -> Result<(), String> {
    let width = draw.below(5) + 1;
    let columns = draw.names(width);
    let (one, two) = (rows(draw, width), rows(draw, width));
    let both: Rows = one.iter().chain(&two).cloned().collect();
    let mut record = raw(&columns, &one).check()?;
    let part = raw(&columns, &two).check()?;
    record.merge(&part)?;
    let written = write_records(&mut [Some(record), None])?;
    let mut record = read_record(&written, 0)?.ok_or("a record is NULL")?;
    compare(&record, &both, &both)?;
    if record.remove(&part).is_ok() {
        compare(&record, &one, &both)?;
    }
    Ok(())
}

/// Compare with exact sums; rounding is a share of what the whole varies.
fn compare(record: &Record, rows: &Rows, whole: &Rows) -> Result<(), String> {
    let found = &record.moments;
    if found.rows as usize != rows.len() || found.weight != rows.len() as f64 {
        return Err(format!("{} rows of weight {}, not {}", found.rows, found.weight, rows.len()));
    }
    for i in 0..record.columns.len() {
        for j in 0..=i {
            let exact = comoment(rows, i, j);
            let allowed = ROUNDING * (comoment(whole, i, i) * comoment(whole, j, j)).sqrt();
            let value = found.comoment[i * (i + 1) / 2 + j];
            if (value - exact).abs() > allowed {
                return Err(format!("comoment ({i}, {j}) is {value}, not {exact}"));
            }
        }
    }
    Ok(())
}

/// Records of which some are altered, through every search.
fn altered(draw: &mut Draw) -> Result<(), String> {
    let width = draw.below(6) + 1;
    let columns = draw.names(width);
    let count = draw.below(3) + 1;
    let mut records = Vec::new();
    for _ in 0..count {
        let mut record = raw(&columns, &rows(draw, width));
        while draw.one_in(3) {
            alter(draw, &mut record);
        }
        records.push(no_panic(record.check())?);
    }
    if let [Some(one), Some(two), ..] = &records[..] {
        let (mut sum, mut rest) = (one.clone(), one.clone());
        no_panic(sum.merge(two))?;
        no_panic(rest.remove(two))?;
        impute(&sum);
        written_again(&mut [Some(sum), Some(impute(one))])?;
    }
    let mut written = write_records(&mut records)?;
    if draw.one_in(3) {
        written = other_fields(draw, written);
    }
    let written: ArrayRef = Arc::new(written);
    let target =
        if draw.one_in(6) { draw.names(1) } else { vec![columns[draw.below(width)].clone()] };
    no_panic(check(&written, &target[0]))?;
    let request = request(draw, &target[0], &columns);
    let Some(found) = no_panic(search(&written, &request))? else { return Ok(()) };
    holds_together(&found, written.len())
}

/// What is written can be read, or was refused before.
fn written_again(records: &mut [Option<Record>]) -> Result<(), String> {
    let Some(written) = no_panic(write_records(records))? else { return Ok(()) };
    for (row, record) in records.iter().enumerate() {
        let Some(again) = no_panic(read_record(&written, row))?.flatten() else { continue };
        let same =
            record.as_ref().is_some_and(|one| one.moments.comoment == again.moments.comoment);
        if !same {
            return Err("a record is another once it is written".to_string());
        }
    }
    Ok(())
}

/// Alter one field of a record.
fn alter(draw: &mut Draw, record: &mut RawRecord) {
    let any = draw.double();
    let number = draw.of(&[0, -1, 1, 5, i64::MAX, i64::MIN]);
    let width = record.columns.len();
    match draw.below(12) {
        0 => record.rows = number,
        1 => record.skipped = number,
        2 => record.weight = any,
        3 => record.missing = Some(vec![number; width]),
        4 => record.mean[draw.below(width)] = any,
        5 | 6 => {
            let entries = record.comoment.len().max(1);
            if let Some(entry) = record.comoment.get_mut(draw.below(entries)) {
                *entry = any;
            }
        }
        7 => record.mean_low = Some(vec![any; width]),
        8 => record.comoment.truncate(draw.below(width)),
        9 => record.terms = Some(draw.of(&TERMS).to_string()),
        10 => {
            let mut terms = draw.of(&TERMS).as_bytes().to_vec();
            let at = draw.below(terms.len());
            terms[at] = draw.of(b"0a\"]}{,:");
            record.terms = String::from_utf8(terms).ok();
        }
        _ => record.columns = draw.names(width),
    }
}

/// Give a field of the records another type, another name, or none.
fn other_fields(draw: &mut Draw, records: StructArray) -> StructArray {
    let rows = records.len();
    let (fields, mut arrays, nulls) = records.into_parts();
    let mut fields: Vec<Field> = fields.iter().map(|field| field.as_ref().clone()).collect();
    let at = draw.below(fields.len());
    match draw.below(4) {
        0 => {
            fields.remove(at);
            arrays.remove(at);
        }
        1 => fields[at] = fields[at].clone().with_name("rows"),
        _ => {
            arrays[at] = anything::array(draw, rows, 2);
            fields[at] = Field::new(fields[at].name(), arrays[at].data_type().clone(), true);
        }
    }
    let nulls = if draw.one_in(3) { None } else { nulls };
    StructArray::new(Fields::from(fields), arrays, nulls)
}

/// What a search is asked, most of it sound.
fn request(draw: &mut Draw, target: &str, columns: &[String]) -> String {
    let methods = ["anytime_sequence", "anytime_sequence", "foba", "backward", "dash"];
    let rules = ["fr", "omp", "omp-unwhitened", "omp-single", "doubling", "best"];
    let mut given = Map::new();
    for name in [
        "rule",
        "ridge",
        "scale",
        "budget",
        "max_groups",
        "max_steps",
        "always",
        "c_min",
        "epsilon",
        "nu",
        "backward",
    ] {
        if !draw.one_in(6) {
            continue;
        }
        let any = if draw.one_in(3) { draw.double() } else { draw.below(4) as f64 / 2.0 };
        let value = match name {
            _ if draw.one_in(20) => any_json(draw, 2),
            "rule" => draw.of(&rules).into(),
            "backward" => draw.of(&["loss", "weight", "none"]).into(),
            "scale" => draw.one_in(2).into(),
            "max_groups" | "max_steps" => draw.within(4).into(),
            "always" => json!([columns[draw.below(columns.len())]]),
            _ => number(any),
        };
        given.insert(name.to_string(), value);
    }
    if draw.one_in(4) {
        let others = columns.iter().filter(|column| *column != target);
        let mut cost = || if draw.one_in(20) { number(draw.double()) } else { json!(1.5) };
        let costs: Map<String, Json> = others.map(|column| (column.clone(), cost())).collect();
        given.insert("costs".to_string(), costs.into());
    }
    if draw.one_in(4) {
        let names = draw.names(2);
        let mut group = |name: String| (name, json!([draw.of(&["*", "a*", "x[12]", &columns[0]])]));
        let groups: Map<String, Json> = names.into_iter().map(&mut group).collect();
        given.insert("groups".to_string(), groups.into());
    }
    json!({"method": draw.of(&methods), "target": target, "given": given}).to_string()
}

/// A number as a request has it, also one that JSON lacks.
fn number(x: f64) -> Json {
    if x.is_finite() { json!(x) } else { json!({"\0": x.to_string()}) }
}

/// Any value, nested so deep at most.
fn any_json(draw: &mut Draw, depth: usize) -> Json {
    match draw.below(if depth == 0 { 4 } else { 6 }) {
        0 => Json::Null,
        1 => draw.one_in(2).into(),
        2 => number(draw.double()),
        3 => draw.names(1).swap_remove(0).into(),
        4 => (0..draw.below(3)).map(|_| any_json(draw, depth - 1)).collect(),
        _ => {
            let names = draw.names(2);
            names.into_iter().map(|name| (name, any_json(draw, depth - 1))).collect()
        }
    }
}

/// Every record has a sequence or a reason; shares are shares, numbers are finite.
fn holds_together(found: &StructArray, rows: usize) -> Result<(), String> {
    if found.len() != rows {
        return Err(format!("{} answers to {rows} records", found.len()));
    }
    let sequences = found.column_by_name("sequence").ok_or("no sequences")?.as_list::<i32>();
    let status = found.column_by_name("status").ok_or("no status")?;
    for row in 0..rows {
        let steps = sequences.value(row);
        if steps.is_empty() != status.is_valid(row) {
            return Err(format!("{} steps and status {:?}", steps.len(), status.slice(row, 1)));
        }
        let steps = steps.as_struct();
        let numbers = |name: &str| {
            let column = steps.column_by_name(name).ok_or_else(|| format!("no {name}"))?;
            Ok::<_, String>(column.as_primitive::<Float64Type>().values().to_vec())
        };
        for name in ["r2", "explained"] {
            if let Some(share) =
                numbers(name)?.iter().find(|x| !(-SHARE..=1.0 + SHARE).contains(*x))
            {
                return Err(format!("{name} is {share}"));
            }
        }
        for name in ["spent", "cost", "gain", "intercept"] {
            if let Some(number) = numbers(name)?.iter().find(|x| !x.is_finite()) {
                return Err(format!("{name} is {number}"));
            }
        }
        let maps = steps.column_by_name("coefficients").ok_or("no coefficients")?.as_map();
        let values = maps.values().as_primitive::<Float64Type>();
        let ends = maps.value_offsets();
        let own = &values.values()[ends[0] as usize..ends[steps.len()] as usize];
        if let Some(number) = own.iter().find(|x| !x.is_finite()) {
            return Err(format!("a coefficient is {number}"));
        }
    }
    Ok(())
}

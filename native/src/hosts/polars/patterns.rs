//! Records of rows with gaps, as lists of one a pattern.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, LargeListArray, StructArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field};

use super::{Input, gathered};
use crate::kernel::gaps::Policy;
use crate::linear::em::em;
use crate::linear::patterns::{PatternSums, merge};
use crate::methods::options::em_options;
use crate::record::arrow::{read_record, record_type, write_records};
use crate::record::gram::Record;
use crate::record::texts::Limit;
use crate::words::value::Value;

/// The type of a list of records.
pub fn data_type() -> DataType {
    DataType::LargeList(Arc::new(Field::new("item", record_type(), true)))
}

/// `patterns(row, options [, weight])`: a list, NULL for no rows.
///
/// The options are the most patterns, and the most levels of a text, if any.
pub fn of_rows(inputs: &[Input]) -> Result<LargeListArray, String> {
    let [row, told, weight @ ..] = inputs else { return Err("two inputs are needed".into()) };
    let told = text_of(told);
    let (most, levels) = told.split_once(' ').unwrap_or((&told, ""));
    let most = most.parse().map_err(|_| format!("max_patterns is {most}"))?;
    let limit = match levels {
        "" => Limit::default(),
        levels => Limit::of(levels.parse().map_err(|_| format!("max_levels is {levels}"))?)?,
    };
    let mut inputs = vec![row.clone()];
    inputs.extend_from_slice(weight);
    let begin = |shape: &Arc<_>| PatternSums::new(shape, most);
    let sums =
        gathered(&inputs, Policy::Skip, limit, begin, |sums: &mut PatternSums, rows, labels| {
            sums.add(&rows, labels)
        })?;
    written(vec![sums.map(|mut sums| sums.finish()).transpose()?])
}

/// `merge_patterns(list)`: one list, NULL if there is none.
pub fn merged(inputs: &[Input]) -> Result<LargeListArray, String> {
    let mut total: Option<Vec<Record>> = None;
    for records in lists(&inputs[0])?.into_iter().flatten() {
        merge(total.get_or_insert_default(), records)?;
    }
    written(vec![total])
}

/// `em(list, options)`: a record a list; the options are JSON.
pub fn completed(inputs: &[Input]) -> Result<StructArray, String> {
    let [patterns, told] = inputs else { return Err("two inputs are needed".into()) };
    let told: serde_json::Value =
        serde_json::from_str(&text_of(told)).map_err(|error| error.to_string())?;
    let told = em_options(&Value::from(told))?;
    let complete = |records: Option<Vec<Record>>| match records {
        Some(records) => Ok(em(&[records], told)?.pop()),
        None => Ok(None),
    };
    let mut found: Vec<_> =
        lists(patterns)?.into_iter().map(complete).collect::<Result<_, String>>()?;
    write_records(&mut found)
}

fn text_of(input: &Input) -> String {
    let texts = input.chunks.first().and_then(|chunk| chunk.as_string_view_opt());
    texts
        .filter(|texts| !texts.is_empty())
        .map(|texts| texts.value(0).to_string())
        .unwrap_or_default()
}

/// The lists of records of an input, a list a row.
fn lists(input: &Input) -> Result<Vec<Option<Vec<Record>>>, String> {
    let mut found = Vec::new();
    for array in &input.chunks {
        let lists = array.as_list_opt::<i64>().ok_or_else(|| input.not_a_struct())?;
        for row in 0..lists.len() {
            let records = lists.is_valid(row).then(|| lists.value(row));
            let read = |records: Arc<dyn Array>| {
                let records = records.as_struct_opt().ok_or_else(|| input.not_a_struct())?;
                (0..records.len()).filter_map(|at| read_record(records, at).transpose()).collect()
            };
            found.push(records.map(read).transpose()?);
        }
    }
    Ok(found)
}

fn written(lists: Vec<Option<Vec<Record>>>) -> Result<LargeListArray, String> {
    let lengths = lists.iter().map(|list| list.as_ref().map_or(0, Vec::len));
    let offsets = OffsetBuffer::<i64>::from_lengths(lengths);
    let valid = NullBuffer::from_iter(lists.iter().map(Option::is_some));
    let mut records: Vec<_> = lists.into_iter().flatten().flatten().map(Some).collect();
    let records = Arc::new(write_records(&mut records)?);
    let item = Arc::new(Field::new("item", record_type(), true));
    Ok(LargeListArray::new(item, offsets, records, Some(valid)))
}

//! How often each value of a column occurs.

use std::hash::Hash;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType};
use arrow_schema::DataType;

use crate::record::levels::{DENSE, Map, short_of_view};

/// A value, by a row that has it, and its number of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Count {
    /// One of the rows.
    pub row: usize,
    /// How many there are.
    pub rows: u64,
}

impl Count {
    fn add(&mut self, row: usize) {
        *self = Count { row, rows: self.rows + 1 };
    }
}

/// The distinct values of a column without NULLs, of a type that Polars exports, in any
/// order. Numbers are the same if their bits are.
pub fn distinct(values: &ArrayRef) -> Result<Vec<Count>, String> {
    Ok(match values.data_type() {
        DataType::Utf8View => {
            let texts = values.as_string_view();
            let (mut short, mut long) = (Map::default(), Map::default());
            for (row, &view) in texts.views().iter().enumerate() {
                match short_of_view(view) {
                    Some(text) => add(&mut short, text, row),
                    None => add(&mut long, texts.value(row), row),
                }
            }
            short.into_values().chain(long.into_values()).collect()
        }
        DataType::Dictionary(..) => {
            let dictionary = values.as_any_dictionary();
            // Without values there are no rows, and no codes to look up.
            if dictionary.values().is_empty() {
                return Ok(Vec::new());
            }
            let mut counts = vec![Count::default(); dictionary.values().len()];
            let keys = dictionary.normalized_keys().into_iter().enumerate();
            keys.for_each(|(row, key)| counts[key].add(row));
            met(counts)
        }
        DataType::Boolean => {
            let mut counts = vec![Count::default(); 2];
            let values = values.as_boolean().values().iter().enumerate();
            values.for_each(|(row, value)| counts[usize::from(value)].add(row));
            met(counts)
        }
        DataType::Float64 => {
            let mut counts = Map::default();
            let values = values.as_primitive::<Float64Type>().values().iter().enumerate();
            values.for_each(|(row, x)| add(&mut counts, x.to_bits(), row));
            counts.into_values().collect()
        }
        DataType::Int8 => integers::<Int8Type>(values),
        DataType::Int16 => integers::<Int16Type>(values),
        DataType::Int32 => integers::<Int32Type>(values),
        DataType::Int64 => integers::<Int64Type>(values),
        DataType::UInt8 => integers::<UInt8Type>(values),
        DataType::UInt16 => integers::<UInt16Type>(values),
        DataType::UInt32 => integers::<UInt32Type>(values),
        DataType::UInt64 => integers::<UInt64Type>(values),
        other => return Err(format!("values have type {other}, of which none are counted")),
    })
}

fn integers<T: ArrowPrimitiveType<Native: Into<i128> + Ord>>(values: &ArrayRef) -> Vec<Count> {
    let values = values.as_primitive::<T>().values();
    let Some((first, last)) = values.iter().copied().min().zip(values.iter().copied().max()) else {
        return Vec::new();
    };
    let (first, last): (i128, i128) = (first.into(), last.into());
    if last - first < DENSE as i128 {
        let mut counts = vec![Count::default(); (last - first) as usize + 1];
        for (row, &x) in values.iter().enumerate() {
            counts[(x.into() - first) as usize].add(row);
        }
        return met(counts);
    }
    let mut counts = Map::default();
    values.iter().enumerate().for_each(|(row, &x)| add(&mut counts, x.into(), row));
    counts.into_values().collect()
}

fn add<K: Hash + Eq>(counts: &mut Map<K, Count>, value: K, row: usize) {
    counts.entry(value).or_default().add(row);
}

fn met(mut counts: Vec<Count>) -> Vec<Count> {
    counts.retain(|count| count.rows > 0);
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::*;
    use std::sync::Arc;

    /// The values by their text, each with its number of rows, sorted by that.
    fn counted(values: impl Array + 'static, texts: &[&str]) -> Vec<(u64, String)> {
        let counts = distinct(&(Arc::new(values) as ArrayRef)).unwrap();
        let mut found: Vec<_> =
            counts.iter().map(|count| (count.rows, texts[count.row].to_string())).collect();
        found.sort();
        found
    }

    #[test]
    fn every_value_is_counted_once_with_a_row_that_has_it() {
        let texts = ["a", "", "more than twelve bytes", "a", "more than twelve bytes", "a"];
        let expected = [(1, ""), (2, "more than twelve bytes"), (3, "a")];
        let expected = expected.map(|(rows, text)| (rows, text.to_string()));
        assert_eq!(counted(StringViewArray::from_iter_values(texts), &texts), expected);
        let dictionary: DictionaryArray<Int8Type> = texts.into_iter().collect();
        assert_eq!(counted(dictionary, &texts), expected);
        // What stands for the texts, near and far from each other.
        for number in [7_i64, i64::MAX / 30] {
            let numbers = texts.map(|text| text.len() as i64 * number + i64::MIN);
            assert_eq!(counted(Int64Array::from(numbers.to_vec()), &texts), expected);
        }
        let doubles = texts.map(|text| text.len() as f64);
        assert_eq!(counted(Float64Array::from(doubles.to_vec()), &texts), expected);
    }

    #[test]
    fn no_rows_have_no_values() {
        assert_eq!(counted(Int64Array::from(Vec::<i64>::new()), &[]), []);
        let nothing: [&str; 0] = [];
        let dictionary: DictionaryArray<Int8Type> = nothing.into_iter().collect();
        assert_eq!(counted(dictionary, &[]), []);
        assert_eq!(counted(BooleanArray::from(vec![true, true]), &["1", "1"]).len(), 1);
    }
}

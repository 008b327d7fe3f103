//! Numbers for the keys of rows: equal keys have one number, in the order in which they are met.
//!
//! A key of one field of at most eight bytes is its own word. Other keys are written as bytes, field
//! after field, and their word is the hash of these; bytes are compared wherever words are equal, so
//! that no two keys ever become one. As keys, all NaN are one, and -0.0 is 0.0.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{ArrowNativeType, Buffer, NullBuffer};
use arrow_schema::DataType;
use xxhash_rust::xxh3::xxh3_64;

use crate::kernel::block::{ROWS_AHEAD, prefetch};

/// Bytes of a word.
const WORD: usize = size_of::<u64>();
/// An odd number without a pattern: 2^64 divided by the golden ratio.
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// The keys met so far.
#[derive(Default)]
pub struct Keys {
    /// A word and the number of its key, plus 1; 0 is no key. A power of two of them.
    table: Vec<(u64, u32)>,
    /// The word of each key.
    words: Vec<u64>,
    /// The bytes of the keys, one after the other, and where each ends; none of words that are keys.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// The number of NULL among words that are keys, plus 1.
    null: u32,
}

/// Keys on their way in.
enum Given {
    /// Words that are keys, and which of them are NULL.
    Words(Vec<u64>, Option<NullBuffer>),
    /// The bytes of the keys, and where each ends.
    Bytes(Vec<u8>, Vec<usize>),
}

impl Keys {
    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The number of the key of each row; `new` gets the rows of keys that were not met before.
    pub fn numbers(
        &mut self,
        fields: &[(&str, &ArrayRef)],
        new: &mut impl FnMut(usize),
    ) -> Result<Vec<u32>, String> {
        Ok(match given(fields)? {
            Given::Words(words, nulls) => {
                let is_null = |row| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
                self.number(words.len(), |row| words[row], &[], &[], is_null, new)
            }
            Given::Bytes(bytes, ends) => self.bytes_numbers(&bytes, &ends, new),
        })
    }

    /// The numbers of other keys; those that were not met before are added.
    pub fn merge(&mut self, other: &Keys, new: &mut impl FnMut(usize)) -> Vec<u32> {
        if !other.ends.is_empty() {
            return self.bytes_numbers(&other.bytes, &other.ends, new);
        }
        let is_null = |row| other.null as usize == row + 1;
        self.number(other.len(), |row| other.words[row], &[], &[], is_null, new)
    }

    fn bytes_numbers(
        &mut self,
        bytes: &[u8],
        ends: &[usize],
        new: &mut impl FnMut(usize),
    ) -> Vec<u32> {
        let words: Vec<u64> =
            (0..ends.len()).map(|row| xxh3_64(&bytes[range(ends, row)])).collect();
        self.number(ends.len(), |row| words[row], bytes, ends, |_| false, new)
    }

    fn number(
        &mut self,
        rows: usize,
        word: impl Fn(usize) -> u64,
        bytes: &[u8],
        ends: &[usize],
        is_null: impl Fn(usize) -> bool,
        new: &mut impl FnMut(usize),
    ) -> Vec<u32> {
        let mut found = Vec::with_capacity(rows);
        for row in 0..rows {
            if row + ROWS_AHEAD < rows && !self.table.is_empty() {
                let place = self.place(word(row + ROWS_AHEAD));
                prefetch(&self.table[place..=place]);
            }
            if is_null(row) {
                if self.null == 0 {
                    self.null = self.add(0, &[], false);
                    new(row);
                }
                found.push(self.null - 1);
                continue;
            }
            // At most half of the places are taken.
            if 2 * self.len() >= self.table.len() {
                self.grow();
            }
            let (word, key) = (word(row), ends.get(row).map(|_| &bytes[range(ends, row)]));
            let mut place = self.place(word);
            let number = loop {
                let (known, number) = self.table[place];
                if number == 0 {
                    let number = self.add(word, key.unwrap_or_default(), key.is_some());
                    self.table[place] = (word, number);
                    new(row);
                    break number;
                }
                let own = |number: u32| &self.bytes[range(&self.ends, number as usize - 1)];
                if known == word && key.is_none_or(|key| own(number) == key) {
                    break number;
                }
                place = (place + 1) & (self.table.len() - 1);
            };
            found.push(number - 1);
        }
        found
    }

    /// Add a key and return its number, plus 1.
    fn add(&mut self, word: u64, key: &[u8], has_bytes: bool) -> u32 {
        self.words.push(word);
        if has_bytes {
            self.bytes.extend_from_slice(key);
            self.ends.push(self.bytes.len());
        }
        self.words.len() as u32
    }

    /// Where a word stands in the table, unless others stand there.
    fn place(&self, word: u64) -> usize {
        // The table has a power of two of places: the first bits of the product choose one.
        (word.wrapping_mul(FACTOR) >> (u64::BITS - self.table.len().ilog2())) as usize
    }

    fn grow(&mut self) {
        let length = (4 * self.table.len()).max(1 << 10);
        self.table.clear();
        self.table.resize(length, (0, 0));
        for (number, &word) in (1..).zip(&self.words) {
            if number == self.null {
                continue;
            }
            let mut place = self.place(word);
            while self.table[place].1 != 0 {
                place = (place + 1) & (length - 1);
            }
            self.table[place] = (word, number);
        }
    }
}

/// Where the bytes of a key lie.
fn range(ends: &[usize], row: usize) -> std::ops::Range<usize> {
    row.checked_sub(1).map_or(0, |before| ends[before])..ends[row]
}

/// The keys of rows of some fields.
fn given(fields: &[(&str, &ArrayRef)]) -> Result<Given, String> {
    let columns: Vec<Column> =
        fields.iter().map(|(name, array)| Column::of(name, array)).collect::<Result<_, _>>()?;
    let rows = fields.first().map_or(0, |(_, array)| array.len());
    if let [Column { nulls, part: Part::Fixed(values, width @ 1..=WORD) }] = &columns[..] {
        let word = |value: &[u8]| {
            let mut word = [0; WORD];
            word[..*width].copy_from_slice(value);
            u64::from_le_bytes(word)
        };
        let words = values.chunks_exact(*width).map(word).collect();
        return Ok(Given::Words(words, nulls.clone()));
    }
    let (mut bytes, mut ends) = (Vec::new(), Vec::with_capacity(rows));
    for row in 0..rows {
        columns.iter().for_each(|column| column.write(row, &mut bytes));
        ends.push(bytes.len());
    }
    Ok(Given::Bytes(bytes, ends))
}

/// A field of keys.
struct Column<'a> {
    nulls: Option<NullBuffer>,
    part: Part<'a>,
}

enum Part<'a> {
    /// No values.
    Nothing,
    /// So many bytes each.
    Fixed(Buffer, usize),
    /// Texts or blobs.
    Bytes(Box<dyn Fn(usize) -> &'a [u8] + 'a>),
    /// Those of some values, by code.
    Coded(Vec<usize>, Box<Column<'a>>),
    /// Side by side.
    Struct(Vec<Column<'a>>),
    /// From one end to the next.
    Lists(Vec<usize>, Box<Column<'a>>),
}

impl<'a> Column<'a> {
    fn of(name: &str, array: &'a ArrayRef) -> Result<Column<'a>, String> {
        let inner = |values: &'a ArrayRef| Ok::<_, String>(Box::new(Column::of(name, values)?));
        macro_rules! bytes {
            ($values:expr) => {{
                let values = $values;
                Part::Bytes(Box::new(move |row| values.value(row).as_ref()))
            }};
        }
        macro_rules! ends {
            ($lists:expr) => {{
                let lists = $lists;
                let ends = lists.value_offsets().iter().map(|end| end.as_usize()).collect();
                Part::Lists(ends, inner(lists.values())?)
            }};
        }
        let part = match array.data_type() {
            DataType::Null => Part::Nothing,
            DataType::Boolean => {
                let values = array.as_boolean().values().iter().map(u8::from);
                Part::Fixed(values.collect(), 1)
            }
            DataType::Float32 => {
                let values = array.as_primitive::<arrow_array::types::Float32Type>().values();
                let whole = |x: &f32| if x.is_nan() { f32::NAN } else { x + 0.0 };
                Part::Fixed(values.iter().map(whole).collect(), 4)
            }
            DataType::Float64 => {
                let values = array.as_primitive::<arrow_array::types::Float64Type>().values();
                let whole = |x: &f64| if x.is_nan() { f64::NAN } else { x + 0.0 };
                Part::Fixed(values.iter().map(whole).collect(), WORD)
            }
            DataType::Utf8 => bytes!(array.as_string::<i32>()),
            DataType::LargeUtf8 => bytes!(array.as_string::<i64>()),
            DataType::Utf8View => bytes!(array.as_string_view()),
            DataType::Binary => bytes!(array.as_binary::<i32>()),
            DataType::LargeBinary => bytes!(array.as_binary::<i64>()),
            DataType::BinaryView => bytes!(array.as_binary_view()),
            DataType::FixedSizeBinary(_) => bytes!(array.as_fixed_size_binary()),
            DataType::Dictionary(..) => {
                let coded = array.as_any_dictionary();
                match coded.values().is_empty() {
                    true => Part::Nothing,
                    false => Part::Coded(coded.normalized_keys(), inner(coded.values())?),
                }
            }
            DataType::Struct(_) => {
                let children = array.as_struct().columns();
                Part::Struct(
                    children.iter().map(|c| Column::of(name, c)).collect::<Result<_, _>>()?,
                )
            }
            DataType::FixedSizeList(_, size) => {
                let ends = (0..=array.len()).map(|row| row * *size as usize).collect();
                Part::Lists(ends, inner(array.as_fixed_size_list().values())?)
            }
            DataType::List(_) => ends!(array.as_list::<i32>()),
            DataType::LargeList(_) => ends!(array.as_list::<i64>()),
            other => match other.primitive_width() {
                Some(width) => Part::Fixed(array.to_data().buffers()[0].clone(), width),
                None => return Err(format!("key '{name}' has type {other}; cast it to text")),
            },
        };
        Ok(Column { nulls: array.logical_nulls(), part })
    }

    /// Write the value of a row so that no other value is written so.
    fn write(&self, row: usize, out: &mut Vec<u8>) {
        let is_there = self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        out.push(is_there.into());
        if !is_there {
            return;
        }
        match &self.part {
            Part::Nothing => {}
            Part::Fixed(values, width) => out.extend_from_slice(&values[row * width..][..*width]),
            Part::Bytes(value) => {
                let value = value(row);
                out.extend_from_slice(&value.len().to_le_bytes());
                out.extend_from_slice(value);
            }
            Part::Coded(codes, values) => values.write(codes[row], out),
            Part::Struct(children) => children.iter().for_each(|child| child.write(row, out)),
            Part::Lists(ends, values) => {
                let items = ends[row]..ends[row + 1];
                out.extend_from_slice(&items.len().to_le_bytes());
                items.for_each(|item| values.write(item, out));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Float64Array, Int64Array, StringArray};

    use super::*;

    fn numbers(keys: &mut Keys, arrays: &[ArrayRef]) -> (Vec<u32>, Vec<usize>) {
        let fields: Vec<(&str, &ArrayRef)> = arrays.iter().map(|array| ("k", array)).collect();
        let mut new = Vec::new();
        let found = keys.numbers(&fields, &mut |row| new.push(row)).unwrap();
        (found, new)
    }

    #[test]
    fn equal_keys_have_one_number() {
        let whole: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), None, Some(0), Some(7)]));
        let text: ArrayRef =
            Arc::new(StringArray::from(vec![Some("a"), None, Some(""), Some("a")]));
        let both = [whole.clone(), text.clone()];
        for arrays in [&[whole.clone()][..], &[text], &both] {
            let mut keys = Keys::default();
            assert_eq!(numbers(&mut keys, arrays), (vec![0, 1, 2, 0], vec![0, 1, 2]));
            let last: Vec<ArrayRef> = arrays.iter().map(|array| array.slice(1, 3)).collect();
            assert_eq!(numbers(&mut keys, &last), (vec![1, 2, 0], vec![]));
            let mut others = Keys::default();
            numbers(&mut others, &last[..]);
            let mut new = Vec::new();
            assert_eq!(others.merge(&keys, &mut |key| new.push(key)), [2, 0, 1]);
            assert_eq!((others.len(), new), (3, vec![]));
        }
        let zeros: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN, -f64::NAN]));
        assert_eq!(numbers(&mut Keys::default(), &[zeros]).0, [0, 0, 1, 1]);
    }

    #[test]
    fn many_keys_keep_their_numbers() {
        for text in [false, true] {
            let all = |k: std::ops::Range<i64>| -> ArrayRef {
                match text {
                    true => Arc::new(StringArray::from_iter_values(k.map(|k| k.to_string()))),
                    false => Arc::new(Int64Array::from_iter_values(k.map(|k| k << 32))),
                }
            };
            let mut keys = Keys::default();
            assert!(numbers(&mut keys, &[all(0..5000)]).0.into_iter().eq(0..5000));
            assert!(numbers(&mut keys, &[all(4000..9000)]).0.into_iter().eq(4000..9000));
            assert_eq!(keys.len(), 9000);
        }
    }

    #[test]
    fn values_that_are_cut_elsewhere_are_other_keys() {
        let text = |texts: [&str; 2]| Arc::new(StringArray::from(texts.to_vec())) as ArrayRef;
        let found = numbers(&mut Keys::default(), &[text(["ab", "a"]), text(["c", "bc"])]);
        assert_eq!(found.0, [0, 1]);
    }
}

//! Which level of a category a value is.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType};
use arrow_schema::DataType;

/// Most slots of a table that integers are looked up in by their place.
pub(crate) const DENSE: usize = 1 << 16;
/// Longest text that Arrow's views, and so the short texts here, hold in themselves.
const SHORT: usize = 12;

pub(crate) type Map<K, V = u32> = HashMap<K, V, BuildHasherDefault<Multiply>>;

/// Texts, each with its number.
#[derive(Clone, Debug, Default)]
pub struct Dictionary {
    short: Map<u128>,
    long: Map<Box<[u8]>>,
}

impl Dictionary {
    /// The number of a text, if it has one.
    pub fn get(&self, text: &[u8]) -> Option<u32> {
        match short(text) {
            Some(text) => self.short.get(&text).copied(),
            None => self.long.get(text).copied(),
        }
    }

    /// Give a text a number.
    pub fn insert(&mut self, text: &[u8], number: u32) {
        match short(text) {
            Some(text) => self.short.insert(text, number),
            None => self.long.insert(text.into(), number),
        };
    }
}

/// The levels of a category, each with its number.
#[derive(Default)]
pub struct Levels {
    /// What all other values have.
    others: u32,
    texts: Dictionary,
    integers: Map<i128>,
    /// The integers from the first on, where they lie close enough to each other.
    dense: Vec<u32>,
    first: i128,
    /// Codes of false and true.
    booleans: [u32; 2],
}

impl Levels {
    /// Levels by their text: `"AA"`, `"-7"`, `"true"`.
    pub fn new(texts: &[String], others: u32) -> Levels {
        let mut levels = Levels { others, booleans: [others; 2], ..Levels::default() };
        for (code, text) in (0..).zip(texts) {
            levels.texts.insert(text.as_bytes(), code);
            if let Ok(integer) = text.parse() {
                levels.integers.insert(integer, code);
            }
            if let Ok(boolean) = text.parse::<bool>() {
                levels.booleans[usize::from(boolean)] = code;
            }
        }
        levels.first = levels.integers.keys().copied().min().unwrap_or(0);
        let last = levels.integers.keys().copied().max().unwrap_or(0);
        if last.checked_sub(levels.first).is_some_and(|range| range < DENSE as i128) {
            levels.dense = vec![others; (last - levels.first) as usize + 1];
            for (integer, &code) in &levels.integers {
                levels.dense[(integer - levels.first) as usize] = code;
            }
        }
        levels
    }

    /// The code of each value; what it is for a NULL means nothing.
    pub fn codes(&self, values: &ArrayRef) -> Result<Vec<u32>, String> {
        Ok(match values.data_type() {
            DataType::Utf8View => {
                let texts = values.as_string_view();
                let views = texts.views().iter().enumerate();
                let code = |(row, &view): (usize, &u128)| match short_of_view(view) {
                    Some(text) => self.of_short(text),
                    // A NULL may have a view of nothing.
                    None if texts.is_null(row) => self.others,
                    None => self.of_text(texts.value(row).as_bytes()),
                };
                views.map(code).collect()
            }
            DataType::Utf8 => {
                let texts = values.as_string::<i32>();
                (0..texts.len()).map(|row| self.of_text(texts.value(row).as_bytes())).collect()
            }
            DataType::LargeUtf8 => {
                let texts = values.as_string::<i64>();
                (0..texts.len()).map(|row| self.of_text(texts.value(row).as_bytes())).collect()
            }
            DataType::Dictionary(..) => {
                let dictionary = values.as_any_dictionary();
                if dictionary.values().is_empty() {
                    return Ok(vec![self.others; values.len()]);
                }
                let codes = self.codes(dictionary.values())?;
                dictionary.normalized_keys().into_iter().map(|key| codes[key]).collect()
            }
            DataType::Boolean => {
                let values = values.as_boolean().values();
                values.iter().map(|value| self.booleans[usize::from(value)]).collect()
            }
            DataType::Null => vec![self.others; values.len()],
            DataType::Int8 => self.of_integers::<Int8Type>(values),
            DataType::Int16 => self.of_integers::<Int16Type>(values),
            DataType::Int32 => self.of_integers::<Int32Type>(values),
            DataType::Int64 => self.of_integers::<Int64Type>(values),
            DataType::UInt8 => self.of_integers::<UInt8Type>(values),
            DataType::UInt16 => self.of_integers::<UInt16Type>(values),
            DataType::UInt32 => self.of_integers::<UInt32Type>(values),
            DataType::UInt64 => self.of_integers::<UInt64Type>(values),
            other => return Err(format!("a category has type {other}, which has no levels")),
        })
    }

    fn of_integers<T: ArrowPrimitiveType<Native: Into<i128>>>(
        &self,
        values: &ArrayRef,
    ) -> Vec<u32> {
        let values = values.as_primitive::<T>().values().iter();
        if self.dense.is_empty() {
            let code = |x: &T::Native| self.integers.get(&(*x).into()).copied();
            return values.map(|x| code(x).unwrap_or(self.others)).collect();
        }
        let place = |x: &T::Native| usize::try_from((*x).into() - self.first).ok();
        let code = |x| place(x).and_then(|at| self.dense.get(at)).copied();
        values.map(|x| code(x).unwrap_or(self.others)).collect()
    }

    fn of_text(&self, text: &[u8]) -> u32 {
        self.texts.get(text).unwrap_or(self.others)
    }

    fn of_short(&self, text: u128) -> u32 {
        self.texts.short.get(&text).copied().unwrap_or(self.others)
    }
}

/// The text that a view holds in itself, without what may lie behind its end.
pub(crate) fn short_of_view(view: u128) -> Option<u128> {
    let length = view as u32 as usize;
    (length <= SHORT).then(|| view & (u128::MAX >> (96 - 8 * length)))
}

/// A short text as Arrow's views hold it: its length in 32 bits, then its bytes.
fn short(text: &[u8]) -> Option<u128> {
    let mut bytes = [0; 16];
    bytes[0] = text.len().try_into().ok()?;
    bytes.get_mut(4..4 + text.len())?.copy_from_slice(text);
    Some(u128::from_le_bytes(bytes))
}

/// A hash of one multiplication a word: the levels are few, and no enemy chose them.
#[derive(Default)]
pub(crate) struct Multiply(u64);

impl Multiply {
    fn mix(&mut self, word: u64) {
        // The fractional part of the golden ratio, as in Knuth (1973), section 6.4.
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

impl Hasher for Multiply {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
    }

    fn write_u128(&mut self, x: u128) {
        self.mix(x as u64);
        self.mix((x >> 64) as u64);
    }

    fn write_i128(&mut self, x: i128) {
        self.write_u128(x as u128);
    }

    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::*;
    use std::sync::Arc;

    fn codes(levels: &[&str], values: impl Array + 'static) -> Vec<u32> {
        let levels: Vec<String> = levels.iter().map(|level| level.to_string()).collect();
        Levels::new(&levels, levels.len() as u32).codes(&(Arc::new(values) as ArrayRef)).unwrap()
    }

    #[test]
    fn a_text_of_any_length_and_layout_is_its_level_or_none() {
        let levels = ["", "a", "twelve bytes", "more than twelve bytes", "größer"];
        let texts = [
            "größer",
            "more than twelve bytes",
            "a\0",
            "",
            "more than twelve bytez",
            "a",
            "twelve bytes",
        ];
        let expected = [4, 3, 5, 0, 5, 1, 2];
        assert_eq!(codes(&levels, StringArray::from_iter_values(texts)), expected);
        assert_eq!(codes(&levels, LargeStringArray::from_iter_values(texts)), expected);
        assert_eq!(codes(&levels, StringViewArray::from_iter_values(texts)), expected);
        let dictionary: DictionaryArray<Int8Type> = texts.into_iter().collect();
        assert_eq!(codes(&levels, dictionary.slice(2, 3)), expected[2..5]);
    }

    #[test]
    fn integers_near_and_far_from_each_other_are_their_levels() {
        let values = [-7_i64, 8, i64::MAX, 0, 300];
        let far = i64::MAX.to_string();
        assert_eq!(codes(&["-7", "0", "300"], Int64Array::from(values.to_vec())), [0, 3, 3, 1, 2]);
        assert_eq!(codes(&["-7", &far], Int64Array::from(values.to_vec())), [0, 2, 1, 2, 2]);
        assert_eq!(codes(&["250", "3"], UInt8Array::from(vec![3, 250, 4])), [1, 0, 2]);
    }

    #[test]
    fn booleans_are_their_levels() {
        assert_eq!(codes(&["true"], BooleanArray::from(vec![true, false])), [0, 1]);
    }
}

//! A run of rows on its way in: what is missing is left out or marked, the rest is checked.
//!
//! A row with something missing is left out, unless its column's missing values
//! are to be filled: those become NaN. An infinite value and a negative weight
//! are errors.

use std::borrow::Cow;
use std::ops::Range;

use crate::kernel::block::{BLOCK_ROWS, dot, prefetch, sum};
use crate::kernel::gaps::Policy;
use crate::kernel::units::Units;

/// Columns to ask for ahead of the one that is read.
const COLUMNS_AHEAD: usize = 4;

/// The bits of each byte, a byte each.
const SPREAD: [u64; 256] = {
    let mut all = [0; 256];
    let mut at = 0;
    while at < 256 * 8 {
        all[at / 8] |= ((((at / 8) >> (at % 8)) & 1) as u64) << (8 * (at % 8));
        at += 1;
    }
    all
};

/// One bit a row, set where something is missing.
#[derive(Clone, Default)]
pub struct Missing(Vec<u64>);

impl Missing {
    /// Nothing is missing.
    pub fn none() -> Missing {
        Missing::default()
    }

    /// Set row `row` of `rows`.
    pub fn set(&mut self, row: usize, rows: usize) {
        self.words(rows)[row / 64] |= 1 << (row % 64);
    }

    /// Set every row whose bit is not set in `valid`, 64 rows a word.
    pub fn set_invalid(&mut self, valid: impl Iterator<Item = u64>, rows: usize) {
        let words = self.words(rows);
        for (word, valid) in words.iter_mut().zip(valid) {
            *word |= !valid;
        }
        // What lies past the last row must not look like a row left out.
        if let Some(last) = words.last_mut().filter(|_| !rows.is_multiple_of(64)) {
            *last &= u64::MAX >> (64 - rows % 64);
        }
    }

    /// Set all rows.
    pub fn set_all(&mut self, rows: usize) {
        self.words(rows).fill(u64::MAX);
    }

    /// Set the rows that `other` has, of as many.
    pub fn set_those_of(&mut self, other: &Missing, rows: usize) {
        for (word, more) in self.words(rows).iter_mut().zip(&other.0) {
            *word |= more;
        }
    }

    /// Set a bit of the byte of each row that is set; eight rows a word, the first in the lowest.
    pub fn spread(&self, bytes: &mut [u64], bit: usize) {
        for (some, word) in bytes.chunks_mut(8).zip(&self.0) {
            for (eight, byte) in some.iter_mut().zip(word.to_le_bytes()) {
                *eight |= SPREAD[usize::from(byte)] << bit;
            }
        }
    }

    /// How many rows are set.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// The rows that are set.
    pub fn rows(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(at, &word)| bits(at, word))
    }

    /// The bits of 64 rows.
    pub fn word(&self, at: usize) -> u64 {
        self.0.get(at).copied().unwrap_or_default()
    }

    /// The part for `rows`, which start at a multiple of 64.
    fn slice(&self, rows: Range<usize>) -> Missing {
        let words = self.0.len().min(rows.start / 64)..self.0.len().min(rows.end.div_ceil(64));
        Missing(self.0[words].to_vec())
    }

    /// Whether row `row` is set.
    pub fn contains(&self, row: usize) -> bool {
        self.0.get(row / 64).is_some_and(|word| word >> (row % 64) & 1 == 1)
    }

    /// Whether nothing is missing.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    fn words(&mut self, rows: usize) -> &mut [u64] {
        self.0.resize(rows.div_ceil(64), 0);
        &mut self.0
    }
}

/// The rows whose bits are set in a word.
pub fn bits(at: usize, word: u64) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(word), |left| Some(left & (left - 1)))
        .take(word.count_ones() as usize)
        .map(move |left| at * 64 + left.trailing_zeros() as usize)
}

/// A run of rows as columns of doubles.
pub struct Chunk<'a> {
    /// Number of rows.
    pub rows: usize,
    /// One slice of `rows` values a column; what a missing row holds is unread.
    pub columns: Vec<Cow<'a, [f64]>>,
    /// Weight of each row; 1 each if absent.
    pub weight: Option<Cow<'a, [f64]>>,
    /// Rows with a NULL weight.
    pub missing: Missing,
    /// The rows in which each column is NULL.
    pub nulls: Vec<Missing>,
    /// The columns whose values doubles do not hold, which `columns` has rounded.
    pub units: Vec<Units<'a>>,
    /// What becomes of the missing values of each column; none given: its rows are left out.
    pub policies: &'a [Policy],
}

/// Names of the columns and of the weight, for the error messages.
#[derive(Clone, Copy)]
pub struct Labels<'n> {
    /// One name a column.
    pub columns: &'n [String],
    /// What to call the weight.
    pub weight: &'n str,
}

/// The rows of a block that are used: weight above 0, nothing missing but what is filled.
#[derive(Default)]
pub(crate) struct Screened<'a> {
    /// How many there are.
    pub rows: usize,
    /// The used rows, one slice a column.
    pub columns: Vec<Cow<'a, [f64]>>,
    /// The columns whose values doubles do not hold, until `rebase`.
    pub units: Vec<Units<'a>>,
    /// What each column is measured from; 0 where there is no entry.
    pub base: Vec<f64>,
    /// Columns with NaN where a value is missing and is to be filled.
    pub holes: Vec<usize>,
    /// The columns with missing values, each with its rows: of all, also those left out.
    pub absent: Vec<(usize, Missing)>,
    /// Their weights.
    pub weight: Option<Cow<'a, [f64]>>,
    /// The rows left out, numbered before they were.
    pub missing: Missing,
    /// How many those are.
    pub skipped: usize,
    /// Sums of the columns where they are known already: all rows used, no weight.
    pub sums: Vec<f64>,
}

impl Screened<'_> {
    /// A column of 1 where another is missing, 0 elsewhere; not once it is filled.
    pub fn indicator(&self, column: usize) -> Cow<'static, [f64]> {
        let values = &self.columns[column];
        if self.holes.contains(&column) {
            values.iter().map(|x| f64::from(u8::from(x.is_nan()))).collect()
        } else {
            Cow::Borrowed(zeros(values.len()))
        }
    }

    /// What a column is measured from.
    pub fn base_of(&self, column: usize) -> f64 {
        self.base.get(column).copied().unwrap_or_default()
    }

    /// Measure columns from other numbers than 0, one a column: those near their values let
    /// all digits stay.
    pub fn rebase(&mut self, base: Vec<f64>) {
        for (j, &base) in base.iter().enumerate().filter(|(_, base)| **base != 0.0) {
            let present = self.columns[j].to_mut().iter_mut().enumerate().filter(|x| !x.1.is_nan());
            match self.units.iter().find(|units| units.column == j) {
                Some(units) => {
                    let less = units.less(base);
                    present.for_each(|(row, x)| *x = less(row));
                }
                None => present.for_each(|(_, x)| *x -= base),
            }
        }
        self.units.clear();
        self.sums.clear();
        self.base = base;
    }

    /// The value of each column that is nearest to its mean.
    ///
    /// Whole numbers differ from one of their own by whole numbers, so that their
    /// products add up without rounding, which a rounded mean does not let them.
    pub fn center(&self, columns: &[&[f64]]) -> Vec<f64> {
        let nearest = |(column, mean): (&&[f64], f64)| {
            let nearer = |a: f64, b: f64| if (b - mean).abs() < (a - mean).abs() { b } else { a };
            column.iter().copied().reduce(nearer).unwrap_or(mean)
        };
        columns.iter().zip(self.means(columns)).map(nearest).collect()
    }

    fn means(&self, columns: &[&[f64]]) -> Vec<f64> {
        let rows = columns.first().map_or(0, |column| column.len()) as f64;
        match &self.weight {
            Some(weight) => {
                let total = sum(weight);
                columns.iter().map(|column| dot(column, weight) / total).collect()
            }
            None if self.sums.is_empty() => {
                columns.iter().map(|column| sum(column) / rows).collect()
            }
            None => self.sums.iter().map(|sum| sum / rows).collect(),
        }
    }
}

impl Chunk<'_> {
    /// Whether nothing is known to be missing, no row has a weight, and doubles hold all values.
    pub(crate) fn is_plain(&self) -> bool {
        self.weight.is_none()
            && self.units.is_empty()
            && self.missing.is_empty()
            && self.nulls.iter().all(|nulls| nulls.is_empty())
    }

    /// The blocks of the chunk, each with the number of its first row: small
    /// enough that what is screened is still in the cache when it is packed.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = (usize, Chunk<'_>)> {
        (0..self.rows).step_by(BLOCK_ROWS).map(|start| {
            let rows = start..(start + BLOCK_ROWS).min(self.rows);
            fn cut<'c>(values: &'c [f64], rows: &Range<usize>) -> Cow<'c, [f64]> {
                Cow::Borrowed(&values[rows.clone()])
            }
            let block = Chunk {
                rows: rows.len(),
                columns: self.columns.iter().map(|column| cut(column, &rows)).collect(),
                weight: self.weight.as_ref().map(|weight| cut(weight, &rows)),
                missing: self.missing.slice(rows.clone()),
                nulls: self.nulls.iter().map(|nulls| nulls.slice(rows.clone())).collect(),
                units: self.units.iter().map(|units| units.slice(rows.clone())).collect(),
                policies: self.policies,
            };
            (start, block)
        })
    }
}

impl<'a> Chunk<'a> {
    /// Leave out incomplete rows, mark what is to be filled; refuse infinite values, numbers
    /// too close for a mean to distinguish, and negative weights.
    pub(crate) fn screen(mut self, labels: Labels) -> Result<Screened<'a>, String> {
        self.mark_weights(labels)?;
        let sums = self.sums();
        // A sum is finite only if every value is: one fast test a column.
        let suspects: Vec<usize> = (0..sums.len()).filter(|&j| !sums[j].is_finite()).collect();
        for &j in &suspects {
            mark_nan(&self.columns[j], &mut self.nulls[j]);
        }
        let mut holes = Vec::new();
        for (j, nulls) in self.nulls.iter().enumerate().filter(|(_, nulls)| !nulls.is_empty()) {
            if self.policies.get(j).is_some_and(Policy::fills) {
                let column = self.columns[j].to_mut();
                nulls.rows().for_each(|row| column[row] = f64::NAN);
                holes.push(j);
            } else {
                self.missing.set_those_of(nulls, self.rows);
            }
        }
        for &j in &suspects {
            let label = || format!("column '{}'", labels.columns[j]);
            refuse_infinite(&self.columns[j], &self.missing, label)?;
        }
        let nulls = std::mem::take(&mut self.nulls).into_iter().enumerate();
        let absent = nulls.filter(|(_, nulls)| !nulls.is_empty()).collect();
        let whole = self.missing.is_empty();
        let screened = if whole { self.whole(sums) } else { self.compact() };
        for units in &screened.units {
            let label = || format!("column '{}'", labels.columns[units.column]);
            units.check_spread(&screened.columns[units.column], label)?;
        }
        Ok(Screened { holes, absent, ..screened })
    }

    /// Leave out rows of weight 0 or NaN; refuse other weights that are no weights.
    fn mark_weights(&mut self, labels: Labels) -> Result<(), String> {
        let Some(weight) = &self.weight else { return Ok(()) };
        for (row, &w) in weight.iter().enumerate() {
            if w > 0.0 || self.missing.contains(row) {
                continue;
            }
            if w < 0.0 {
                return Err(format!("{} is negative ({w}); weights must be >= 0", labels.weight));
            }
            self.missing.set(row, self.rows);
        }
        refuse_infinite(weight, &self.missing, || labels.weight.to_string())
    }

    fn sums(&self) -> Vec<f64> {
        let sum_ahead = |(j, column): (usize, &Cow<[f64]>)| {
            if let Some(ahead) = self.columns.get(j + COLUMNS_AHEAD) {
                prefetch(ahead);
            }
            sum(column)
        };
        self.columns.iter().enumerate().map(sum_ahead).collect()
    }

    /// Use every row; the sums of the columns are known, or none is.
    pub(crate) fn whole(self, sums: Vec<f64>) -> Screened<'a> {
        let Chunk { rows, columns, weight, missing, units, .. } = self;
        let sums = if weight.is_none() { sums } else { Vec::new() };
        Screened { rows, columns, units, weight, missing, sums, ..Screened::default() }
    }

    /// Copy the rows that are used.
    fn compact(self) -> Screened<'a> {
        let kept: Vec<usize> = (0..self.rows).filter(|&row| !self.missing.contains(row)).collect();
        let pick = |values: &Cow<[f64]>| Cow::Owned(kept.iter().map(|&row| values[row]).collect());
        Screened {
            rows: kept.len(),
            columns: self.columns.iter().map(pick).collect(),
            units: self.units.iter().map(|units| units.picked(&kept)).collect(),
            weight: self.weight.as_ref().map(pick),
            skipped: self.rows - kept.len(),
            missing: self.missing,
            ..Screened::default()
        }
    }
}

/// A column of zeros, at most a block long.
pub(crate) fn zeros(rows: usize) -> &'static [f64] {
    static ZEROS: [f64; BLOCK_ROWS] = [0.0; BLOCK_ROWS];
    &ZEROS[..rows]
}

/// Set the rows where a value is NaN.
pub fn mark_nan(values: &[f64], missing: &mut Missing) {
    for (at, some) in values.chunks(64).enumerate() {
        // Most have none, which the vector unit sees.
        if some.iter().fold(false, |any, x| any | x.is_nan()) {
            for (row, _) in some.iter().enumerate().filter(|(_, x)| x.is_nan()) {
                missing.set(at * 64 + row, values.len());
            }
        }
    }
}

fn refuse_infinite(
    values: &[f64],
    missing: &Missing,
    label: impl Fn() -> String,
) -> Result<(), String> {
    let infinite = |(row, x): &(usize, &f64)| x.is_infinite() && !missing.contains(*row);
    match values.iter().enumerate().find(infinite) {
        None => Ok(()),
        Some((_, x)) => {
            Err(format!("{} has an infinite value ({x}); values must be finite", label()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn infinite_values_and_negative_weights_are_refused() {
        let refusal = |value: f64, weight: f64| {
            let chunk = Chunk {
                rows: 3,
                columns: vec![Cow::Owned(vec![1.0, 2.0, 3.0]), Cow::Owned(vec![4.0, 5.0, value])],
                weight: Some(Cow::Owned(vec![1.0, 1.0, weight])),
                missing: Missing::none(),
                nulls: vec![Missing::none(); 2],
                units: Vec::new(),
                policies: &[],
            };
            let columns = ["a".to_string(), "b".to_string()];
            chunk.screen(Labels { columns: &columns, weight: "weight 'w'" }).err()
        };
        assert!(refusal(f64::NEG_INFINITY, 1.0).unwrap().contains("'b' has an infinite"));
        assert!(refusal(0.0, -2.0).unwrap().contains("weight 'w' is negative (-2)"));
        assert!(refusal(0.0, f64::INFINITY).unwrap().contains("weight 'w' has an infinite"));
        // A row of weight 0 is left out, whatever it holds.
        assert_eq!(refusal(f64::INFINITY, 0.0), None);
        // Finite values whose sum overflows are not mistaken for infinite ones.
        assert_eq!(refusal(f64::MAX, 1.0), None);
    }

    #[test]
    fn what_lies_past_the_last_row_is_not_left_out() {
        let mut missing = Missing::none();
        missing.set_invalid([u64::MAX, 0b11].into_iter(), 66);
        assert!(missing.is_empty());
        missing.set_invalid([u64::MAX, 0b01].into_iter(), 66);
        assert!(missing.contains(65) && !missing.contains(64));
        assert!(missing.slice(64..66).contains(1));
    }
}

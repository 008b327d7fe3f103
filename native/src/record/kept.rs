//! Rows of a group, kept as they are for what reads them again and again.
//!
//! A column of numbers is packed block by block, in as few bytes as hold its values; of text the
//! number of its level is kept. Blocks are shared, so that two groups merge without a copy of
//! their rows.

use std::borrow::Cow;
use std::sync::Arc;

use crate::record::packed::Packed;
use crate::record::texts::{Levels, MAX_LEVELS, Texts};

/// Rows of a block: enough that what comes with a block costs nothing.
const BLOCK_ROWS: usize = 8192;
/// Bytes that the rows of a group may take, unless another limit is given.
pub const MAX_BYTES: usize = 2 << 30;

/// A column that is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name in the flattened row.
    pub name: String,
    /// Whether it holds text.
    pub is_text: bool,
}

/// The columns that are kept, and how much of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// The columns.
    pub columns: Vec<Column>,
    /// Limit on the bytes of the rows of a group.
    pub max_bytes: usize,
    /// What to do where that is too little, the end of a sentence.
    pub instead: String,
}

/// The values of a column of a chunk.
pub enum Values<'c> {
    /// Numbers.
    Numbers(Cow<'c, [f64]>),
    /// Texts.
    Texts(Texts<'c>),
}

/// Some rows, packed.
#[derive(Debug)]
struct Block {
    rows: usize,
    columns: Vec<Packed>,
}

impl Block {
    fn bytes(&self) -> usize {
        self.columns.iter().map(Packed::bytes).sum()
    }
}

/// The rows of a group.
#[derive(Clone, Debug)]
pub struct Kept {
    /// What is kept.
    pub shape: Arc<Shape>,
    /// Rows that were left out.
    pub skipped: u64,
    /// One a column; those of numbers have none.
    levels: Vec<Levels>,
    blocks: Vec<Arc<Block>>,
    /// Bytes of the blocks.
    packed: usize,
    /// The last rows, fewer than a block: one list a column.
    last: Vec<Vec<f64>>,
}

impl Kept {
    /// A group without rows.
    pub fn new(shape: &Arc<Shape>) -> Kept {
        let n_columns = shape.columns.len();
        Kept {
            shape: shape.clone(),
            skipped: 0,
            levels: vec![Levels::default(); n_columns],
            blocks: Vec::new(),
            packed: 0,
            last: vec![Vec::new(); n_columns],
        }
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        let last = self.last.first().map_or(0, Vec::len);
        self.blocks.iter().map(|block| block.rows).sum::<usize>() + last
    }

    /// The levels of a column of text, in the order of their numbers.
    pub fn levels(&self, column: usize) -> impl Iterator<Item = &[u8]> {
        self.levels[column].texts.iter().map(|text| &text[..])
    }

    /// How many runs of rows there are.
    pub fn parts(&self) -> usize {
        self.blocks.len() + usize::from(self.last.first().is_some_and(|last| !last.is_empty()))
    }

    /// The values of a column in a run of rows, in the place of those in `out`; of text the numbers
    /// of the levels.
    pub fn read(&self, part: usize, column: usize, out: &mut Vec<f64>) {
        out.clear();
        match self.blocks.get(part) {
            Some(block) => block.columns[column].read(out),
            None => out.extend_from_slice(&self.last[column]),
        }
    }

    /// Add some rows of a chunk, of which nothing is missing; one list of values a column.
    pub fn add(&mut self, chunk: &[Values], rows: &[usize]) -> Result<(), String> {
        for (at, values) in chunk.iter().enumerate() {
            let last = &mut self.last[at];
            match values {
                Values::Numbers(numbers) => last.extend(rows.iter().map(|&row| numbers[row])),
                Values::Texts(texts) => {
                    let codes = self.levels[at].number_all(texts, rows);
                    last.extend(codes.into_iter().map(f64::from));
                }
            }
        }
        self.settle()
    }

    /// Add the rows of another group.
    pub fn merge(&mut self, other: &Kept) -> Result<(), String> {
        if !Arc::ptr_eq(&self.shape, &other.shape) && self.shape != other.shape {
            return Err("the rows of a group differ in their columns".to_string());
        }
        self.skipped += other.skipped;
        let number = |(own, others): (&mut Levels, &Levels)| {
            let codes = others.texts.iter().map(|text| f64::from(own.number(text)));
            codes.collect::<Vec<f64>>()
        };
        let codes: Vec<_> = self.levels.iter_mut().zip(&other.levels).map(number).collect();
        let is_same = |codes: &Vec<f64>| codes.iter().enumerate().all(|(k, &x)| x == k as f64);
        let same = codes.iter().all(is_same);
        let mut values = Vec::new();
        for part in 0..other.blocks.len() {
            if same {
                self.push(other.blocks[part].clone());
                continue;
            }
            let pack = |at: usize| {
                other.read(part, at, &mut values);
                translate(&self.shape.columns[at], &codes[at], &mut values);
                Packed::of(&values)
            };
            let columns = (0..codes.len()).map(pack).collect();
            self.push(Arc::new(Block { rows: other.blocks[part].rows, columns }));
        }
        for (at, last) in self.last.iter_mut().enumerate() {
            values.clone_from(&other.last[at]);
            translate(&self.shape.columns[at], &codes[at], &mut values);
            last.append(&mut values);
        }
        self.settle()
    }

    fn push(&mut self, block: Arc<Block>) {
        self.packed += block.bytes();
        self.blocks.push(block);
    }

    /// Pack the last rows once they are a block, and refuse more than there may be.
    fn settle(&mut self) -> Result<(), String> {
        while self.last.first().is_some_and(|last| last.len() >= BLOCK_ROWS) {
            let pack = |last: &mut Vec<f64>| {
                let rest = last.split_off(BLOCK_ROWS);
                Packed::of(&std::mem::replace(last, rest))
            };
            let columns = self.last.iter_mut().map(pack).collect();
            self.push(Arc::new(Block { rows: BLOCK_ROWS, columns }));
        }
        let Shape { columns, max_bytes, instead } = &*self.shape;
        for (column, levels) in columns.iter().zip(&self.levels) {
            if levels.texts.len() > MAX_LEVELS {
                return Err(format!(
                    "column '{}' has more than {MAX_LEVELS} levels; leave it out, or take fewer",
                    column.name
                ));
            }
        }
        let last = self.last.iter().map(|last| 8 * last.len()).sum::<usize>();
        if self.packed + last <= *max_bytes {
            return Ok(());
        }
        Err(format!(
            "{} rows of {} columns in one group take more than the {max_bytes} bytes of max_bytes; \
             {instead}",
            self.rows(),
            columns.len()
        ))
    }
}

/// Replace the numbers of levels by those of another group.
fn translate(column: &Column, codes: &[f64], values: &mut [f64]) {
    if column.is_text {
        values.iter_mut().for_each(|x| *x = codes[*x as usize]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::chunk::Missing;
    use crate::record::texts;

    fn shape(max_bytes: usize) -> Arc<Shape> {
        let column = |name: &str, is_text| Column { name: name.to_string(), is_text };
        let columns = vec![column("x", false), column("k", true)];
        Arc::new(Shape { columns, max_bytes, instead: "take fewer".to_string() })
    }

    /// Rows whose number and level follow from where they stand.
    fn add(kept: &mut Kept, rows: std::ops::Range<usize>, levels: [&str; 2]) {
        let x: Vec<f64> = rows.clone().map(|row| row as f64 / 3.0).collect();
        let texts = rows.clone().map(|row| levels[row % 2].as_bytes()).collect();
        let texts = Texts { values: texts::Values::Each(texts), missing: Missing::none() };
        let all: Vec<usize> = (0..rows.len()).collect();
        kept.add(&[Values::Numbers(x.into()), Values::Texts(texts)], &all).unwrap();
    }

    fn rows_of(kept: &Kept) -> Vec<(f64, String)> {
        let (mut found, mut x, mut codes) = (Vec::new(), Vec::new(), Vec::new());
        let levels: Vec<&[u8]> = kept.levels(1).collect();
        for part in 0..kept.parts() {
            kept.read(part, 0, &mut x);
            kept.read(part, 1, &mut codes);
            let level = |code: &f64| String::from_utf8_lossy(levels[*code as usize]).into_owned();
            found.extend(x.iter().copied().zip(codes.iter().map(level)));
        }
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
        found
    }

    #[test]
    fn merged_groups_have_the_rows_of_both() {
        let shape = shape(MAX_BYTES);
        let (mut one, mut two) = (Kept::new(&shape), Kept::new(&shape));
        add(&mut one, 0..20_000, ["a", "b"]);
        add(&mut two, 20_000..30_001, ["b", "a"]);
        let before = rows_of(&two);
        one.merge(&two).unwrap();
        let level = |row: usize| if row.is_multiple_of(2) == (row < 20_000) { "a" } else { "b" };
        let expected: Vec<_> =
            (0..30_001).map(|row| (row as f64 / 3.0, level(row).to_string())).collect();
        assert_eq!(one.rows(), 30_001);
        assert_eq!(rows_of(&one), expected);
        assert_eq!(rows_of(&two), before);
    }

    #[test]
    fn rows_beyond_the_limit_are_refused() {
        let mut kept = Kept::new(&shape(1000));
        let texts =
            || Texts { values: texts::Values::Each(vec![b"a"; 70]), missing: Missing::none() };
        let all: Vec<usize> = (0..70).collect();
        let chunk = [Values::Numbers(vec![0.5; 70].into()), Values::Texts(texts())];
        assert_eq!(
            kept.add(&chunk, &all).unwrap_err(),
            "70 rows of 2 columns in one group take more than the 1000 bytes of max_bytes; take \
             fewer"
        );
    }
}

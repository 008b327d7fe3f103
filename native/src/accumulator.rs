//! Rows in, moments out: screening, a small buffer of rows, then the kernel.
//!
//! A chunk arrives as columns of doubles. Rows with something missing are left
//! out, an infinite value or a negative weight is an error. A chunk that
//! belongs to one group goes to the kernel as columns; rows that scatter over
//! groups wait in a buffer per group until there are enough for a block.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Range;

use crate::block::{BLOCK_ROWS, Block, dot, prefetch, stride, sum, turn};
use crate::moments::Moments;

/// Rows screened at a time: they stay in the caches until the kernel has them.
pub const CHUNK_ROWS: usize = 8 * BLOCK_ROWS;
/// Columns to ask for ahead of the one that is read.
const COLUMNS_AHEAD: usize = 4;
/// Rows to look ahead for groups, which lie all over memory.
const ROWS_AHEAD: usize = 8;
/// Rows turned from columns to rows at a time, inside an L1 cache.
const TURN_ROWS: usize = 64;

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

#[derive(Default)]
struct Scratch {
    block: Block,
    rows: Vec<f64>,
}

/// One bit a row, set where the row is left out.
#[derive(Clone, Default)]
pub struct Missing(Vec<u64>);

impl Missing {
    /// No row is left out.
    pub fn none() -> Missing {
        Missing::default()
    }

    /// Leave out row `row` of `rows`.
    pub fn set(&mut self, row: usize, rows: usize) {
        self.words(rows)[row / 64] |= 1 << (row % 64);
    }

    /// Leave out every row whose bit is not set in `valid`, 64 rows a word.
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

    /// Leave out all rows.
    pub fn set_all(&mut self, rows: usize) {
        self.words(rows).fill(u64::MAX);
    }

    /// The part for `rows`, which start at a multiple of 64.
    fn slice(&self, rows: Range<usize>) -> Missing {
        let words = self.0.len().min(rows.start / 64)..self.0.len().min(rows.end.div_ceil(64));
        Missing(self.0[words].to_vec())
    }

    /// Whether row `row` is left out.
    pub fn contains(&self, row: usize) -> bool {
        self.0.get(row / 64).is_some_and(|word| word >> (row % 64) & 1 == 1)
    }

    /// Whether every row is used.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    fn words(&mut self, rows: usize) -> &mut [u64] {
        self.0.resize(rows.div_ceil(64), 0);
        &mut self.0
    }
}

/// A run of rows as columns of doubles.
pub struct Chunk<'a> {
    /// Number of rows.
    pub rows: usize,
    /// One slice of `rows` values a column; what a missing row holds is unread.
    pub columns: Vec<Cow<'a, [f64]>>,
    /// Weight of each row; 1 each if absent.
    pub weight: Option<Cow<'a, [f64]>>,
    /// Rows with a NULL in some column or in the weight.
    pub missing: Missing,
}

/// Names of the columns and of the weight, for the error messages.
#[derive(Clone, Copy)]
pub struct Labels<'n> {
    /// One name a column.
    pub columns: &'n [String],
    /// What to call the weight.
    pub weight: &'n str,
}

/// The rows of a block that are used: no NULL, no NaN, weight above 0.
struct Screened<'a> {
    columns: Vec<Cow<'a, [f64]>>,
    weight: Option<Cow<'a, [f64]>>,
    missing: Missing,
    skipped: usize,
    /// Sums of the columns where they are known already: all rows used, no weight.
    sums: Vec<f64>,
}

impl Screened<'_> {
    /// Mean of each column, rounded.
    fn center(&self, columns: &[&[f64]]) -> Vec<f64> {
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
    /// The blocks of the chunk, each with the number of its first row: small
    /// enough that what is screened is still in the cache when it is packed.
    fn blocks(&self) -> impl Iterator<Item = (usize, Chunk<'_>)> {
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
            };
            (start, block)
        })
    }
}

impl<'a> Chunk<'a> {
    /// Leave out incomplete rows; refuse infinite values and negative weights.
    fn screen(mut self, labels: Labels) -> Result<Screened<'a>, String> {
        if let Some(weight) = &self.weight {
            for (row, &w) in weight.iter().enumerate() {
                if (w <= 0.0 || w.is_nan()) && !self.missing.contains(row) {
                    if w < 0.0 {
                        let label = labels.weight;
                        return Err(format!("{label} is negative ({w}); weights must be >= 0"));
                    }
                    self.missing.set(row, self.rows);
                }
            }
        }
        // A sum is finite only if every value is: one fast test a column.
        let mut sums = Vec::with_capacity(self.columns.len());
        for (j, column) in self.columns.iter().enumerate() {
            if let Some(ahead) = self.columns.get(j + COLUMNS_AHEAD) {
                prefetch(ahead);
            }
            sums.push(sum(column));
        }
        let suspects: Vec<usize> = (0..sums.len()).filter(|&j| !sums[j].is_finite()).collect();
        for &j in &suspects {
            for (row, x) in self.columns[j].iter().enumerate() {
                if x.is_nan() {
                    self.missing.set(row, self.rows);
                }
            }
        }
        let column = |&j: &usize| (format!("column '{}'", labels.columns[j]), &self.columns[j]);
        let weight = self.weight.iter().map(|weight| (labels.weight.to_string(), weight));
        for (label, column) in suspects.iter().map(column).chain(weight) {
            for (row, x) in column.iter().enumerate() {
                if x.is_infinite() && !self.missing.contains(row) {
                    return Err(format!(
                        "{label} has an infinite value ({x}); values must be finite"
                    ));
                }
            }
        }
        if self.missing.is_empty() {
            let Chunk { columns, weight, missing, .. } = self;
            let sums = if weight.is_none() { sums } else { Vec::new() };
            return Ok(Screened { columns, weight, missing, sums, skipped: 0 });
        }
        let kept: Vec<usize> = (0..self.rows).filter(|&row| !self.missing.contains(row)).collect();
        let compact =
            |values: &Cow<[f64]>| Cow::Owned(kept.iter().map(|&row| values[row]).collect());
        Ok(Screened {
            columns: self.columns.iter().map(compact).collect(),
            weight: self.weight.as_ref().map(compact),
            skipped: self.rows - kept.len(),
            missing: self.missing,
            sums: Vec::new(),
        })
    }
}

/// The moments of one group while rows still arrive.
#[derive(Clone, Debug)]
pub struct Accumulator {
    moments: Moments,
    buffer: Vec<f64>,
    buffer_weight: Vec<f64>,
}

impl Accumulator {
    /// An accumulator that has seen no row.
    pub fn new(width: usize) -> Accumulator {
        Accumulator { moments: Moments::new(width), buffer: Vec::new(), buffer_weight: Vec::new() }
    }

    /// An accumulator that continues from known moments.
    pub fn from_moments(moments: Moments) -> Accumulator {
        Accumulator { moments, buffer: Vec::new(), buffer_weight: Vec::new() }
    }

    /// Number of columns.
    pub fn width(&self) -> usize {
        self.moments.width()
    }

    /// Add all rows of a chunk.
    pub fn add(&mut self, chunk: &Chunk, labels: Labels) -> Result<(), String> {
        SCRATCH.with_borrow_mut(|Scratch { block, .. }| {
            for (_, rows) in chunk.blocks() {
                let rows = rows.screen(labels)?;
                let columns: Vec<&[f64]> = rows.columns.iter().map(|column| &column[..]).collect();
                block.pack_columns(&columns, &rows.center(&columns), rows.weight.as_deref());
                self.moments.add(block);
                self.moments.skipped += rows.skipped as u64;
            }
            Ok(())
        })
    }

    /// Add the rows of other accumulators of the same width.
    pub fn merge(&mut self, other: &Accumulator) {
        self.moments.merge(&other.moments);
        let stride = stride(self.width());
        for (row, &weight) in other.buffer.chunks_exact(stride.max(1)).zip(&other.buffer_weight) {
            SCRATCH.with_borrow_mut(|scratch| self.add_row(row, weight, &mut scratch.block));
        }
    }

    /// The moments of all rows added so far.
    pub fn finish(&mut self) -> &Moments {
        SCRATCH.with_borrow_mut(|scratch| self.flush(&mut scratch.block));
        &self.moments
    }

    /// Ask for the memory that the next row goes to.
    fn expect_row(&mut self) {
        let stride = stride(self.width());
        let spare = self.buffer.spare_capacity_mut();
        let row = spare.len().min(stride);
        prefetch(&spare[..row]);
    }

    fn add_row(&mut self, row: &[f64], weight: f64, block: &mut Block) {
        self.buffer.extend_from_slice(row);
        self.buffer_weight.push(weight);
        if self.buffer_weight.len() == buffer_rows(self.width()) {
            self.flush(block);
        }
    }

    fn flush(&mut self, block: &mut Block) {
        if self.buffer_weight.is_empty() {
            return;
        }
        prefetch(&self.moments.comoment);
        block.pack_rows(&self.buffer, self.moments.width(), Some(&self.buffer_weight));
        self.moments.add(block);
        self.buffer.clear();
        self.buffer_weight.clear();
    }
}

/// Rows a group holds back. With as many rows as columns, a flush moves as much
/// memory for the rows as for their comoment; fewer than 32 keep the kernel short
/// of work, more than 128 gain nothing.
fn buffer_rows(width: usize) -> usize {
    width.clamp(32, 128)
}

/// Give every row of a chunk to the accumulator of its group.
///
/// `group_of` maps a row number of the chunk to its accumulator; it is called
/// for every row, used or skipped.
pub fn scatter<'g>(
    chunk: &Chunk,
    labels: Labels,
    mut group_of: impl FnMut(usize) -> &'g mut Accumulator,
) -> Result<(), String> {
    let stride = stride(chunk.columns.len());
    SCRATCH.with_borrow_mut(|Scratch { block, rows: turned }| {
        for (start, rows) in chunk.blocks() {
            let n_rows = rows.rows;
            let rows = rows.screen(labels)?;
            let columns: Vec<&[f64]> = rows.columns.iter().map(|column| &column[..]).collect();
            let mut kept = 0;
            for row in 0..n_rows {
                if row + ROWS_AHEAD < n_rows {
                    group_of(start + row + ROWS_AHEAD).expect_row();
                }
                let group = group_of(start + row);
                if rows.missing.contains(row) {
                    group.moments.skipped += 1;
                    continue;
                }
                if kept % TURN_ROWS == 0 {
                    turn(&columns, kept..(kept + TURN_ROWS).min(columns[0].len()), turned);
                }
                let values = &turned[kept % TURN_ROWS * stride..][..stride];
                let weight = rows.weight.as_ref().map_or(1.0, |weight| weight[kept]);
                group.add_row(values, weight, block);
                kept += 1;
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::triangle;
    use crate::testing::Lcg;

    const NAMES: [&str; 3] = ["a", "b", "c"];

    fn with_labels<T>(work: impl FnOnce(Labels) -> T) -> T {
        let names = NAMES.map(str::to_string);
        work(Labels { columns: &names, weight: "weight 'w'" })
    }

    fn chunk(columns: &[Vec<f64>], weight: Option<&[f64]>) -> Chunk<'static> {
        Chunk {
            rows: columns[0].len(),
            columns: columns.iter().map(|x| Cow::Owned(x.clone())).collect(),
            weight: weight.map(|w| Cow::Owned(w.to_vec())),
            missing: Missing::none(),
        }
    }

    fn random_columns(rows: usize) -> Vec<Vec<f64>> {
        let mut random = Lcg::new(11);
        (0..3).map(|_| (0..rows).map(|_| random.uniform()).collect()).collect()
    }

    fn moments_of(columns: &[Vec<f64>], weight: Option<&[f64]>) -> Moments {
        let mut all = Accumulator::new(3);
        with_labels(|labels| all.add(&chunk(columns, weight), labels)).unwrap();
        all.finish().clone()
    }

    #[test]
    fn scattered_rows_give_what_each_group_gives_alone() {
        let columns = random_columns(1000);
        let weight: Vec<f64> = (0..1000).map(|r| (r % 5) as f64).collect();
        let mut groups: Vec<Accumulator> = (0..7).map(|_| Accumulator::new(3)).collect();
        let base = groups.as_mut_ptr();
        // SAFETY: the test hands out one reference at a time into a live vector.
        let group_of = |row: usize| unsafe { &mut *base.add(row % 7) };
        with_labels(|labels| scatter(&chunk(&columns, Some(&weight)), labels, group_of)).unwrap();
        for (g, group) in groups.iter_mut().enumerate() {
            let pick = |x: &Vec<f64>| x.iter().skip(g).step_by(7).copied().collect::<Vec<f64>>();
            let mine: Vec<Vec<f64>> = columns.iter().map(pick).collect();
            let expected = moments_of(&mine, Some(&pick(&weight)));
            let found = group.finish();
            assert_eq!((found.rows, found.skipped), (expected.rows, expected.skipped));
            assert_eq!(found.weight, expected.weight);
            for (x, y) in found.comoment.iter().zip(&expected.comoment) {
                assert!((x - y).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn merge_includes_what_is_still_buffered() {
        let columns = random_columns(50);
        let mut halves = [Accumulator::new(3), Accumulator::new(3)];
        let base = halves.as_mut_ptr();
        // SAFETY: as above.
        let group_of = |row: usize| unsafe { &mut *base.add(row / 25) };
        with_labels(|labels| scatter(&chunk(&columns, None), labels, group_of)).unwrap();
        let [mut first, second] = halves;
        first.merge(&second);
        let expected = moments_of(&columns, None);
        let found = first.finish();
        assert_eq!(found.rows, 50);
        assert_eq!(found.comoment.len(), triangle(3));
        for (x, y) in found.comoment.iter().zip(&expected.comoment) {
            assert!((x - y).abs() < 1e-13);
        }
    }

    #[test]
    fn incomplete_rows_are_left_out_and_counted() {
        let mut columns = random_columns(6);
        let expected =
            moments_of(&columns.iter().map(|x| x[3..].to_vec()).collect::<Vec<_>>(), None);
        columns[1][0] = f64::NAN;
        let mut dirty = chunk(&columns, Some(&[1.0, 0.0, 1.0, 1.0, 1.0, 1.0]));
        dirty.missing.set(2, 6);
        let mut all = Accumulator::new(3);
        with_labels(|labels| all.add(&dirty, labels)).unwrap();
        let found = all.finish();
        assert_eq!((found.rows, found.skipped), (3, 3));
        assert_eq!(found.comoment, expected.comoment);
    }

    #[test]
    fn infinite_values_and_negative_weights_are_refused() {
        let refusal = |value: f64, weight: f64| {
            let mut columns = random_columns(4);
            columns[1][2] = value;
            let chunk = chunk(&columns, Some(&[1.0, 1.0, weight, 1.0]));
            with_labels(|labels| chunk.screen(labels).err())
        };
        assert!(refusal(f64::NEG_INFINITY, 1.0).unwrap().contains("'b' has an infinite"));
        assert!(refusal(0.0, -2.0).unwrap().contains("weight 'w' is negative (-2)"));
        assert!(refusal(0.0, f64::INFINITY).unwrap().contains("weight 'w' has an infinite"));
        // A row of weight 0 is left out, whatever it holds.
        assert_eq!(refusal(f64::INFINITY, 0.0), None);
        // Finite values whose sum overflows are not mistaken for infinite ones.
        assert_eq!(refusal(f64::MAX, 1.0), None);
    }
}

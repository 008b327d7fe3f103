//! The first rows of a group among many, in as little memory as they need.
//!
//! Of few columns they are summed about the first of them, in place: that row, the sum of the
//! others' distances from it, and the lower triangle of the products of these, one after the
//! other; of one row there is nothing but the row. Products about the first row are exact for
//! whole numbers. Its own distance from the mean is among those that the products add up: of n rows
//! of weight 1 they exceed the comoment at most n + 1 times, which costs log2(n + 1) bits,
//! however far out the row lies. Of more columns a triangle takes more memory than the rows, which
//! are kept as they are until they fill a block.

use crate::kernel::block::{center_of_rows, prefetch, stride};
use crate::kernel::moments::{Moments, SETTLED_ROWS};
use crate::kernel::rank_update::triangle;
use crate::kernel::simd::vectorised;
use crate::kernel::sums::Sums;

/// Columns up to which rows are summed one by one, some nanoseconds each.
const SUMMED_COLUMNS: usize = 16;
/// Rows that are kept at most: the kernel's time with so many is not that of writing its sums.
const KEPT_ROWS: usize = 64;
/// The weights of kept rows.
const ONES: [f64; KEPT_ROWS] = [1.0; KEPT_ROWS];

/// Few rows of weight 1 without missing values.
#[derive(Clone, Debug)]
pub(crate) struct Few {
    width: u32,
    rows: u32,
    /// Rows left out.
    pub skipped: u64,
    values: Vec<f64>,
}

impl Few {
    /// No rows.
    pub fn new(width: usize) -> Few {
        Few { width: width as u32, rows: 0, skipped: 0, values: Vec::new() }
    }

    /// Number of columns.
    pub fn width(&self) -> usize {
        self.width as usize
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows as usize
    }

    fn is_summed(&self) -> bool {
        self.width() <= SUMMED_COLUMNS
    }

    /// Whether so many rows more are still few.
    pub fn can_take(&self, rows: usize) -> bool {
        self.rows() + rows <= self.most()
    }

    fn most(&self) -> usize {
        // With half as many rows as columns, these take the memory of their triangle.
        match self.is_summed() {
            true => SETTLED_ROWS as usize,
            false => (self.width() / 2).min(KEPT_ROWS),
        }
    }

    /// Ask for the memory that the next row goes to.
    pub fn expect_row(&self) {
        if self.is_summed() {
            self.expect();
        }
    }

    /// Ask for all that is known of the rows.
    pub fn expect(&self) {
        prefetch(&self.values);
    }

    /// Add a row that can be taken, as wide as whole panels.
    pub fn add_row(&mut self, row: &[f64]) {
        let width = self.width();
        if !self.is_summed() {
            // Twice the room, but for no more rows than can be taken.
            if self.values.len() == self.values.capacity() {
                let more = self.rows().max(4).min(self.most() - self.rows());
                self.values.reserve_exact(more * row.len());
            }
            self.values.extend_from_slice(row);
        } else if self.rows == 0 {
            self.values.reserve_exact(width);
            self.values.extend_from_slice(&row[..width]);
        } else {
            self.widen();
            add_distance(&mut self.values, &row[..width], 1.0);
        }
        self.rows += 1;
    }

    /// Add the rows of another that can be taken.
    pub fn merge(&mut self, other: &Few) {
        self.skipped += other.skipped;
        if self.rows == 0 {
            self.values.clone_from(&other.values);
        } else if !self.is_summed() {
            self.values.extend_from_slice(&other.values);
        } else if other.rows > 0 {
            self.widen();
            let width = self.width();
            if other.rows > 1 {
                // x - o = (x - o') + (o' - o).
                let apart: Vec<f64> =
                    other.values[..width].iter().zip(&self.values).map(|(x, o)| x - o).collect();
                let sums = &other.values[width..2 * width];
                for (sum, more) in self.values[width..].iter_mut().zip(&other.values[width..]) {
                    *sum += more;
                }
                for i in 0..width {
                    let row = &mut self.values[2 * width + triangle(i)..][..=i];
                    for (j, entry) in row.iter_mut().enumerate() {
                        *entry += apart[i] * sums[j] + sums[i] * apart[j];
                    }
                }
            }
            add_distance(&mut self.values, &other.values[..width], f64::from(other.rows));
        }
        self.rows += other.rows;
    }

    /// Make room for sums beside the first row.
    fn widen(&mut self) {
        let length = 2 * self.width() + triangle(self.width());
        if self.values.len() < length {
            self.values.reserve_exact(length - self.values.len());
            self.values.resize(length, 0.0);
        }
    }

    /// The memory of rows that were kept, for others.
    pub fn into_room(mut self) -> Vec<f64> {
        self.values.clear();
        if self.is_summed() { Vec::new() } else { self.values }
    }

    /// The rows, as wide as whole panels, where they are kept.
    pub fn kept_rows(&self) -> Option<impl Iterator<Item = &[f64]>> {
        (!self.is_summed()).then(|| self.values.chunks_exact(stride(self.width())))
    }

    /// The moments of the rows.
    pub fn moments(&self, scratch: &mut Sums) -> Moments {
        let mut moments = Moments::default();
        self.write(&mut moments, scratch);
        moments
    }

    /// Let moments be those of the rows.
    pub fn write(&self, moments: &mut Moments, scratch: &mut Sums) {
        let width = self.width();
        moments.clear(width);
        moments.skipped = self.skipped;
        if self.rows == 0 {
            return;
        }
        if self.is_summed() {
            let (first, rest) = self.values.split_at(width);
            let nothing = [0.0; SUMMED_COLUMNS];
            let (sums, products) = rest.split_at_checked(width).unwrap_or((&nothing[..width], &[]));
            moments.set_sums(u64::from(self.rows), first, sums, products);
        } else {
            let ones = &ONES[..self.rows()];
            scratch.start(&center_of_rows(&self.values, width, ones));
            scratch.add_rows(&self.values, ones);
            moments.add(scratch);
        }
    }
}

vectorised! {
/// Add rows of some weight, all at some place, to sums about a first row.
fn add_distance(values: &mut [f64], row: &[f64], weight: f64) {
    let (first, rest) = values.split_at_mut(row.len());
    let (sums, products) = rest.split_at_mut(row.len());
    let mut distance = [0.0; SUMMED_COLUMNS];
    let mut start = 0;
    for i in 0..row.len() {
        distance[i] = row[i] - first[i];
        let weighted = weight * distance[i];
        sums[i] += weighted;
        let products = &mut products[start..=start + i];
        for (product, distance) in products.iter_mut().zip(&distance) {
            *product += weighted * distance;
        }
        start += i + 1;
    }
}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Lcg;

    /// Some rows of whole numbers, 1e8 times their spread from 0, as wide as whole panels.
    fn sample(width: usize, rows: usize) -> Vec<Vec<f64>> {
        let mut random = Lcg::new(8);
        let mut row = || (0..width).map(|_| 1e11 + (random.uniform() * 1024.0).floor()).collect();
        let mut rows: Vec<Vec<f64>> = (0..rows).map(|_| row()).collect();
        rows.iter_mut().for_each(|row| row.resize(stride(width), 0.0));
        rows
    }

    fn few_of(width: usize, rows: &[Vec<f64>]) -> Few {
        let mut few = Few::new(width);
        rows.iter().for_each(|row| few.add_row(row));
        few
    }

    #[test]
    fn they_give_the_definition_also_far_from_zero() {
        for (width, n) in [(1, 32), (4, 32), (16, 32), (17, 8), (70, 32)] {
            let rows = sample(width, n);
            let mut parts = few_of(width, &[]);
            for part in [&rows[..1], &rows[1..5], &[], &rows[5..6], &rows[6..]] {
                assert!(parts.can_take(part.len()));
                parts.merge(&few_of(width, part));
            }
            assert!(!parts.can_take(32));
            for few in [few_of(width, &rows), parts] {
                let moments = few.moments(&mut Sums::default());
                assert_eq!((moments.rows, moments.weight), (n as u64, n as f64));
                let whole = |row: usize, column: usize| rows[row][column] as i128;
                let sum = |i: usize| (0..n).map(|r| whole(r, i)).sum::<i128>();
                let mean = moments.exact_mean();
                for i in 0..width {
                    let mean = (mean.high[i] - 1e11) + mean.low[i];
                    let expected = (sum(i) - n as i128 * 100_000_000_000) as f64 / n as f64;
                    assert!((mean - expected).abs() < 1e-12 * 1024.0);
                    for j in 0..=i {
                        let products = (0..n).map(|r| whole(r, i) * whole(r, j)).sum::<i128>();
                        // A power of two of rows: exact.
                        let expected = (n as i128 * products - sum(i) * sum(j)) as f64 / n as f64;
                        let found = moments.comoment[triangle(i) + j];
                        assert!((found - expected).abs() < 1e-14 * 1024.0 * 1024.0 * n as f64);
                    }
                }
            }
        }
    }

    #[test]
    fn one_row_takes_the_memory_of_a_row() {
        assert_eq!(few_of(4, &sample(4, 1)).values.capacity(), 4);
        assert_eq!(few_of(4, &sample(4, 2)).values.capacity(), 18);
    }
}

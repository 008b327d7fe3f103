//! Combinations of rows, taken from several rows at once: what wide searches spend their time on.
//!
//! A row that is read serves every row that it is taken from. Blocks of rows are packed, so that
//! they stay in the first cache, and a tile of five rows by eight doubles stays in registers
//! from the first row of a block to the last.

use std::ops::Range;
use std::slice::Chunks;

use super::dense::{subtract, subtract_combination};
use super::tile::{LANES, TILE, subtract_tile};
use crate::kernel::simd::vectorised;
use crate::kernel::threads::of_each;

/// Rows of a block, and stretches of `LANES` of each: 16 KB, half of a first cache.
const ROWS: usize = 32;
const STRETCHES: usize = 8;
/// Rows below which packing costs more than it saves.
const WORTH_PACKING: usize = 8;

vectorised! {
    /// Take from each of some rows a combination of others: `x_i -= sum_k share(k, i) row_k`.
    ///
    /// All rows have `width` doubles. The shares of row k are `size` doubles of itself, from
    /// `first` on, one for each of the `size` rows in `x`.
    pub fn subtract_products(x: &mut [f64], rows: &[f64], width: usize, first: usize) {
        take(x, rows, width, |_| width, |k, i| rows[k * width + first + i]);
    }
}

vectorised! {
    /// As `subtract_products`, where the share of row k in row i is its double at `columns[i]`.
    pub fn subtract_columns(x: &mut [f64], rows: &[f64], width: usize, columns: &[usize]) {
        take(x, rows, width, |_| width, |k, i| rows[k * width + columns[i]]);
    }
}

vectorised! {
    /// As `subtract_products`, of the rows of a lower triangle: row k has k + 1 doubles, and
    /// then zeros. The share of row k in row i stands in row k of `shares`, at `columns[i]`.
    pub fn subtract_triangle(
        x: &mut [f64],
        rows: &[f64],
        width: usize,
        shares: &[f64],
        columns: &[usize],
    ) {
        take(x, rows, width, |end| end, |k, i| shares[k * width + columns[i]]);
    }
}

vectorised! {
    /// As `subtract_products`, of the first `used` doubles of rows alone: the share of row k in
    /// row i is the `used - 1 - i`th double of row k.
    pub fn subtract_leading(x: &mut [f64], rows: &[f64], width: usize, used: usize) {
        take(x, rows, width, |_| used, |k, i| rows[k * width + used - 1 - i]);
    }
}

vectorised! {
    /// As `subtract_triangle`, where the shares of row i stand in a row of their own: the one of
    /// row k at `last - i * width + k`.
    pub fn subtract_triangle_of(
        x: &mut [f64],
        rows: &[f64],
        width: usize,
        shares: &[f64],
        last: usize,
    ) {
        take(x, rows, width, |end| end, |k, i| shares[last - i * width + k]);
    }
}

vectorised! {
    /// As `subtract_products`, where the share of row k in row i stands in `shares`, the shares in
    /// row i one after the other.
    pub fn subtract_shares(x: &mut [f64], rows: &[f64], width: usize, shares: &[f64]) {
        let count = rows.len() / width;
        take(x, rows, width, |_| width, |k, i| shares[i * count + k]);
    }
}

/// Products of doubles below which a second thread gains nothing: half a millisecond.
const WORTH_THREADS: usize = 4_000_000;
/// Stretches of a part, so that its rows stay in a second cache and every core gets some.
const PART: usize = 32;
/// Rows of a block that is read where it lies: a line of each stays in the first cache while all
/// sums of a stretch take from it, and a processor reads ahead in no more rows at once.
const READ_AT_ONCE: usize = 16;

/// As `subtract_columns`, at some columns of all rows, in ascending order, and it may be at columns
/// beside these: on all cores where that is worth it.
pub fn subtract_columns_at(
    x: &mut [f64],
    rows: &[f64],
    width: usize,
    columns: &[usize],
    at: &[usize],
) {
    if width < LANES {
        return subtract_columns(x, rows, width, columns);
    }
    let shares = gathered(rows, width, columns);
    let mut starts: Vec<usize> = at.iter().map(|j| stretch_of(*j, width)).collect();
    starts.dedup();
    subtract_stretches(x, rows, width, &shares, &starts, |_| 0);
}

/// Doubles of a part of one row.
const WIDE_PART: usize = 1024;

/// As `subtract_combination`, on all cores where that is worth it.
pub fn subtract_wide_combination(x: &mut [f64], rows: &[f64], width: usize, shares: &[f64]) {
    if x.len() * shares.len() < WORTH_THREADS {
        return subtract_combination(x, rows, width, shares);
    }
    let parts = x.chunks_mut(WIDE_PART).zip((0..).step_by(WIDE_PART)).collect();
    of_each(parts, |(x, from): (&mut [f64], usize)| {
        subtract_combination(x, &rows[from..], width, shares);
    });
}

/// As `subtract_triangle`, on all cores where that is worth it.
pub fn subtract_wide_triangle(
    x: &mut [f64],
    rows: &[f64],
    width: usize,
    shares: &[f64],
    columns: &[usize],
) {
    let (count, size) = (rows.len() / width, x.len() / width);
    if width < LANES || size < TILE || size * count * count / 2 < WORTH_THREADS {
        return subtract_triangle(x, rows, width, shares, columns);
    }
    let packed = gathered(&shares[..count * width], width, columns);
    let starts: Vec<usize> = (0..count).step_by(LANES).map(|j| stretch_of(j, width)).collect();
    // Rows before a stretch have nothing in it.
    subtract_stretches(x, rows, width, &packed, &starts, |at| at);
}

/// Some columns of rows, row by row.
fn gathered(rows: &[f64], width: usize, columns: &[usize]) -> Vec<f64> {
    rows.chunks_exact(width).flat_map(|row| columns.iter().map(move |&j| row[j])).collect()
}

/// Where the stretch of a column begins; the last one may share columns with that before it.
fn stretch_of(column: usize, width: usize) -> usize {
    (column - column % LANES).min(width - LANES)
}

/// Take combinations of rows from others at the stretches that begin at some columns, those of a
/// stretch from its first row on; `shares` has a share for each of the others, row by row.
fn subtract_stretches(
    x: &mut [f64],
    rows: &[f64],
    width: usize,
    shares: &[f64],
    starts: &[usize],
    first: impl Fn(usize) -> usize + Sync,
) {
    let size = x.len() / width;
    let mut sums = vec![[0.0; LANES]; size * starts.len()];
    let before = &*x;
    let answer = |(sums, starts): (&mut [[f64; LANES]], &[usize])| {
        for (sums, &at) in sums.chunks_mut(size).zip(starts) {
            let own = sums.iter_mut().zip(before.chunks_exact(width));
            own.for_each(|(sums, row)| sums.copy_from_slice(&row[at..at + LANES]));
        }
        let first = first(starts[0]);
        take_at(sums, &rows[first * width..], width, &shares[first * size..], starts);
    };
    let parts = sums.chunks_mut(PART * size).zip(starts.chunks(PART));
    match shares.len() * starts.len() * LANES < WORTH_THREADS {
        true => parts.for_each(answer),
        false => _ = of_each(parts.collect(), answer),
    }
    for (sums, &at) in sums.chunks(size).zip(starts) {
        let own = x.chunks_exact_mut(width).zip(sums);
        own.for_each(|(row, sums)| row[at..at + LANES].copy_from_slice(sums));
    }
}

/// Take combinations of rows, at some stretches of these, from the sums of each of them.
fn take_at(
    sums: &mut [[f64; LANES]],
    rows: &[f64],
    width: usize,
    shares: &[f64],
    starts: &[usize],
) {
    let size = sums.len() / starts.len();
    let blocks = rows.chunks(READ_AT_ONCE * width).zip(shares.chunks(READ_AT_ONCE * size));
    for (rows, shares) in blocks {
        for (sums, &at) in sums.chunks_mut(size).zip(starts) {
            for (sums, from) in sums.chunks_mut(TILE).zip((0..).step_by(TILE)) {
                let (rows, shares) = (rows[at..].chunks(width), shares[from..].chunks(size));
                match sums.len() {
                    1 => take_tile::<1>(sums, rows, shares),
                    2 => take_tile::<2>(sums, rows, shares),
                    3 => take_tile::<3>(sums, rows, shares),
                    4 => take_tile::<4>(sums, rows, shares),
                    _ => take_tile::<TILE>(sums, rows, shares),
                }
            }
        }
    }
}

/// Take a combination of what begins the rows from N sums, with what begins the shares.
#[inline(always)]
fn take_tile<const N: usize>(sums: &mut [[f64; LANES]], rows: Chunks<f64>, shares: Chunks<f64>) {
    let (rows, shares) = (rows.filter_map(|row| row.first_chunk()), shares);
    if let Some(sums) = sums.first_chunk_mut() {
        subtract_tile::<N>(sums, rows.zip(shares.filter_map(|share| share.first_chunk())));
    }
}

/// Take combinations of rows; those before row `end` have `used(end)` doubles.
#[inline(always)]
fn take(
    x: &mut [f64],
    rows: &[f64],
    width: usize,
    used: impl Fn(usize) -> usize,
    share: impl Fn(usize, usize) -> f64,
) {
    if x.len() <= width || rows.len() < WORTH_PACKING * width {
        for (four, first) in rows.chunks(4 * width).zip((0..).step_by(4)) {
            let used = used(first + four.len() / width);
            for (i, x) in x.chunks_exact_mut(width).enumerate() {
                subtract(&mut x[..used], four, width, |k| share(first + k, i));
            }
        }
        return;
    }
    let mut memory = [[0.0; LANES]; ROWS * STRETCHES];
    let mut packed = Packed { stretches: &mut memory, count: 0 };
    for (rows, first) in rows.chunks(ROWS * width).zip((0..).step_by(ROWS)) {
        let used = used(first + rows.len() / width);
        for from in (0..used).step_by(STRETCHES * LANES) {
            let part = from..(from + STRETCHES * LANES).min(used);
            packed.fill(rows, width, part.clone());
            for (x, i) in x.chunks_mut(TILE * width).zip((0..).step_by(TILE)) {
                let share = |k: usize, row: usize| share(first + k, i + row);
                packed.take(x, width, part.clone(), share);
            }
        }
    }
}

/// A part of each row of a block: all first stretches of eight doubles, then all second ones.
struct Packed<'m> {
    stretches: &'m mut [[f64; LANES]],
    /// Rows of the block.
    count: usize,
}

impl Packed<'_> {
    /// Copy a part of some rows; what is beyond its end goes to sums that nobody reads.
    #[inline(always)]
    fn fill(&mut self, rows: &[f64], width: usize, part: Range<usize>) {
        self.count = rows.len() / width;
        for (k, row) in rows.chunks_exact(width).enumerate() {
            let (whole, rest) = row[part.clone()].as_chunks::<LANES>();
            let own = self.stretches[k..].iter_mut().step_by(self.count);
            for (stretch, row) in own.zip(whole) {
                *stretch = *row;
            }
            if !rest.is_empty() {
                self.stretches[k + whole.len() * self.count][..rest.len()].copy_from_slice(rest);
            }
        }
    }

    /// Take a combination of the rows from the same part of each of up to `TILE` others.
    #[inline(always)]
    fn take(
        &self,
        x: &mut [f64],
        width: usize,
        part: Range<usize>,
        share: impl Fn(usize, usize) -> f64,
    ) {
        match x.len() / width {
            1 => self.take_from::<1>(x, width, part, share),
            2 => self.take_from::<2>(x, width, part, share),
            3 => self.take_from::<3>(x, width, part, share),
            4 => self.take_from::<4>(x, width, part, share),
            _ => self.take_from::<TILE>(x, width, part, share),
        }
    }

    /// Take a combination of the rows from the same part of each of N others.
    #[inline(always)]
    fn take_from<const N: usize>(
        &self,
        x: &mut [f64],
        width: usize,
        part: Range<usize>,
        share: impl Fn(usize, usize) -> f64,
    ) {
        let mut shares = [[0.0; N]; ROWS];
        for (k, shares) in shares[..self.count].iter_mut().enumerate() {
            *shares = std::array::from_fn(|row| share(k, row));
        }
        for (at, rows) in part.clone().step_by(LANES).zip(self.stretches.chunks(self.count)) {
            let end = (at + LANES).min(part.end);
            let mut sums = [[0.0; LANES]; N];
            for (row, sums) in sums.iter_mut().enumerate() {
                sums[..end - at].copy_from_slice(&x[row * width + at..row * width + end]);
            }
            subtract_tile(&mut sums, rows.iter().zip(&shares[..self.count]));
            for (row, sums) in sums.iter().enumerate() {
                x[row * width + at..row * width + end].copy_from_slice(&sums[..end - at]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Lcg;

    /// Width, rows taken, and rows they are taken from.
    const SHAPES: [(usize, usize, usize); 8] = [
        (1, 0, 1),
        (3, 2, 2),
        (5, 4, 1),
        (7, 9, 3),
        (1100, 6, 2),
        (71, 67, 4),
        (64, 64, 7),
        (130, 33, 9),
    ];

    /// x, the rows, and random numbers.
    fn numbers(width: usize, count: usize, size: usize) -> (Vec<f64>, Vec<f64>, Lcg) {
        let mut numbers = Lcg::new((width + count) as u64);
        let mut some = |n: usize| (0..n).map(|_| numbers.uniform()).collect::<Vec<f64>>();
        (some(width * size), some(width * count), numbers)
    }

    #[test]
    fn combinations_of_rows_are_those_of_the_definition() {
        for (width, count, size) in SHAPES {
            let (x, rows, _) = numbers(width, count, size);
            let (first, mut found) = (width - size.min(width), x.clone());
            subtract_products(&mut found, &rows, width, first);
            for (at, found) in found.iter().enumerate() {
                let (i, j) = (at / width, at % width);
                let term = |k: usize| rows[k * width + first + i] * rows[k * width + j];
                let expected = x[at] - (0..count).map(term).sum::<f64>();
                assert!((found - expected).abs() < 1e-13 * (1 + count) as f64);
            }
            let columns: Vec<usize> = (first..width).take(size).collect();
            let mut by_columns = x.clone();
            if columns.len() == size {
                subtract_columns(&mut by_columns, &rows, width, &columns);
                assert_eq!(by_columns, found);
            }
        }
    }

    #[test]
    fn some_columns_are_those_of_all_and_parts_those_of_the_whole() {
        for (width, count, size) in [(71, 67, 4), (7, 9, 3), (900, 700, 10)] {
            let (x, mut rows, mut random) = numbers(width, count, size);
            let columns: Vec<usize> = (0..width).filter(|_| random.uniform() < 0.5).collect();
            let (mut all, mut some) = (x.clone(), x.clone());
            subtract_products(&mut all, &rows, width, 1);
            let first: Vec<usize> = (1..=size).collect();
            subtract_columns_at(&mut some, &rows, width, &first, &columns);
            for (at, some) in some.iter().enumerate() {
                let is = |expected: f64| (some - expected).abs() < 1e-13 * count as f64;
                assert!(is(all[at]) || !columns.contains(&(at % width)) && is(x[at]));
            }
            let shares: Vec<f64> = rows.iter().take(count).copied().collect();
            let (mut own, mut parts) = (x[..width].to_vec(), x[..width].to_vec());
            subtract_combination(&mut own, &rows, width, &shares);
            subtract_wide_combination(&mut parts, &rows, width, &shares);
            assert_eq!(own, parts);
            rows.truncate(count.min(width) * width);
            for (k, row) in rows.chunks_exact_mut(width).enumerate() {
                row[k + 1..].fill(0.0);
            }
            let columns: Vec<usize> = (0..size).collect();
            let (mut own, mut parts) = (x.clone(), x.clone());
            let shares: Vec<f64> = (0..width * width).map(|_| random.uniform()).collect();
            subtract_triangle(&mut own, &rows, width, &shares, &columns);
            subtract_wide_triangle(&mut parts, &rows, width, &shares, &columns);
            let error = 1e-13 * count as f64;
            assert!(own.iter().zip(&parts).all(|(a, b)| (a - b).abs() < error));
        }
    }

    #[test]
    fn shares_may_stand_elsewhere() {
        for (width, count, size) in SHAPES {
            let (x, rows, mut random) = numbers(width, count, size);
            let shares: Vec<f64> = (0..size * count).map(|_| random.uniform()).collect();
            let mut found = x.clone();
            subtract_shares(&mut found, &rows, width, &shares);
            for (at, found) in found.iter().enumerate() {
                let (i, j) = (at / width, at % width);
                let term = |k: usize| shares[i * count + k] * rows[k * width + j];
                let expected = x[at] - (0..count).map(term).sum::<f64>();
                assert!((found - expected).abs() < 1e-13 * (1 + count) as f64);
            }
        }
    }

    #[test]
    fn what_lies_behind_the_diagonals_of_a_triangle_is_nothing() {
        for (width, count, size) in SHAPES.into_iter().filter(|(width, count, _)| count <= width) {
            let (x, mut rows, mut random) = numbers(width, count, size);
            for (k, row) in rows.chunks_exact_mut(width).enumerate() {
                row[k + 1..].fill(0.0);
            }
            let shares: Vec<f64> = (0..width * count).map(|_| random.uniform()).collect();
            let columns: Vec<usize> = (0..size).map(|i| (3 * i) % width).collect();
            let mut found = x.clone();
            subtract_triangle(&mut found, &rows, width, &shares, &columns);
            for (at, found) in found.iter().enumerate() {
                let (i, j) = (at / width, at % width);
                let term = |k: usize| shares[k * width + columns[i]] * rows[k * width + j];
                let expected = x[at] - (0..count).map(term).sum::<f64>();
                assert!((found - expected).abs() < 1e-13 * (1 + count) as f64);
            }
        }
    }
}

//! Categories: a column of 0 and 1 for each level, of which no row is ever built.
//!
//! The products of such columns are sums over the rows of a level: with a number,
//! the sum of that number; with a level of another category, a cell of the cross
//! table of the two; with a level of the same category, nothing but its own count.
//! A row costs one addition a number and category, and one a pair of categories,
//! however many levels there are.
//!
//! Numbers are summed around a center near their mean, so that a mean 1e8 times
//! the spread costs no digits.

use crate::block::{stride, turn};
use crate::chunk::{Chunk, Labels};
use crate::kernel::triangle;
use crate::moments::Moments;
use crate::simd::vectorised;

/// Rows after which the center is first set to the mean; a first row may lie far off.
const FIRST_RECENTRING: u64 = 32;

/// A column of codes: the number of each row's level, from 0; any code beyond the
/// levels is a row of none.
pub struct Category {
    /// Name of the column of codes.
    pub column: String,
    /// Names of the levels' columns.
    pub levels: Vec<String>,
}

/// Where the sums of some categories lie.
pub struct Layout {
    /// Doubles of a row of numbers.
    stride: usize,
    width: usize,
    /// First slot of each category. One slot a level, and one for rows of none.
    starts: Vec<usize>,
    /// Slots of each category.
    slots: Vec<usize>,
    /// First cell of the cross table of categories `a > b`, at `triangle(a) - a + b`.
    tables: Vec<usize>,
    cells: usize,
}

impl Layout {
    /// The layout of categories beside `width` numbers.
    pub fn new(width: usize, categories: &[Category]) -> Layout {
        let slots: Vec<usize> = categories.iter().map(|c| c.levels.len() + 1).collect();
        let starts = (0..slots.len()).map(|c| slots[..c].iter().sum()).collect();
        let (mut tables, mut cells) = (Vec::new(), 0);
        for a in 0..slots.len() {
            for b in 0..a {
                tables.push(cells);
                cells += slots[a] * slots[b];
            }
        }
        Layout { stride: stride(width), width, starts, slots, tables, cells }
    }

    fn n_slots(&self) -> usize {
        self.slots.iter().sum()
    }

    /// The cell of a level of category `a` and one of `b < a`.
    fn cell(&self, a: usize, b: usize, of_a: usize, of_b: usize) -> usize {
        self.tables[triangle(a) - a + b] + of_a * self.slots[b] + of_b
    }

    /// Every level: its category and its number there.
    fn levels(&self) -> Vec<(usize, usize)> {
        let of = |(c, &slots): (usize, &usize)| (0..slots - 1).map(move |level| (c, level));
        self.slots.iter().enumerate().flat_map(of).collect()
    }
}

/// The sums by level over some rows.
#[derive(Clone, Debug)]
pub struct LevelSums {
    rows: u64,
    skipped: u64,
    weight: f64,
    /// Weight of each slot.
    counts: Vec<f64>,
    /// Sum of w (x - center) of each slot, row by row.
    sums: Vec<f64>,
    /// Weight of each pair of slots of two categories.
    cross: Vec<f64>,
    center: Vec<f64>,
    recentre_at: u64,
}

impl LevelSums {
    /// The sums of no rows.
    pub fn new(layout: &Layout) -> LevelSums {
        LevelSums {
            rows: 0,
            skipped: 0,
            weight: 0.0,
            counts: vec![0.0; layout.n_slots()],
            sums: vec![0.0; layout.n_slots() * layout.stride],
            cross: vec![0.0; layout.cells],
            center: vec![0.0; layout.stride],
            recentre_at: FIRST_RECENTRING,
        }
    }

    /// Add a row: its numbers, as long as the stride, its weight and its codes.
    fn add_row(&mut self, layout: &Layout, row: &[f64], weight: f64, codes: &[usize]) {
        if self.rows == 0 {
            self.center.copy_from_slice(row);
        }
        for (a, &of_a) in codes.iter().enumerate() {
            let slot = layout.starts[a] + of_a;
            self.counts[slot] += weight;
            let sums = &mut self.sums[slot * layout.stride..][..layout.stride];
            add_centred(sums, row, &self.center, weight);
            for (b, &of_b) in codes[..a].iter().enumerate() {
                self.cross[layout.cell(a, b, of_a, of_b)] += weight;
            }
        }
        self.rows += 1;
        self.weight += weight;
        if self.rows == self.recentre_at {
            let mean: Vec<f64> = self.total(layout).iter().map(|sum| sum / self.weight).collect();
            let center = self.center.iter().zip(&mean).map(|(c, mean)| c + mean).collect();
            self.recentre(layout, center);
            self.recentre_at *= 2;
        }
    }

    /// Add the sums over other rows.
    pub fn merge(&mut self, layout: &Layout, mut other: LevelSums) {
        if self.rows == 0 {
            other.skipped += self.skipped;
            *self = other;
            return;
        }
        self.rows += other.rows;
        self.skipped += other.skipped;
        if other.weight > 0.0 {
            self.weight += other.weight;
            other.recentre(layout, self.center.clone());
            add_to(&mut self.counts, &other.counts);
            add_to(&mut self.sums, &other.sums);
            add_to(&mut self.cross, &other.cross);
        }
    }

    /// Sum of w (x - center) over all rows: each has one slot in the first category.
    fn total(&self, layout: &Layout) -> Vec<f64> {
        let mut total = vec![0.0; layout.stride];
        let sums = &self.sums[..layout.slots[0] * layout.stride];
        sums.chunks_exact(layout.stride.max(1)).for_each(|sums| add_to(&mut total, sums));
        total
    }

    fn recentre(&mut self, layout: &Layout, center: Vec<f64>) {
        let shift: Vec<f64> = self.center.iter().zip(&center).map(|(from, to)| from - to).collect();
        let sums = self.sums.chunks_exact_mut(layout.stride.max(1));
        for (sums, count) in sums.zip(&self.counts) {
            sums.iter_mut().zip(&shift).for_each(|(sum, shift)| *sum += count * shift);
        }
        self.center = center;
    }

    /// The moments of the numbers, which are known, followed by those of the levels.
    pub fn finish(&self, layout: &Layout, numbers: &Moments) -> Moments {
        let levels = layout.levels();
        let mut mean = numbers.mean();
        let mut comoment = numbers.comoment.clone();
        let weight = if self.weight > 0.0 { self.weight } else { 1.0 };
        let total = self.total(layout);
        for (at, &(a, of_a)) in levels.iter().enumerate() {
            let slot = layout.starts[a] + of_a;
            let count = self.counts[slot];
            let share = count / weight;
            mean.push(share);
            let sums = &self.sums[slot * layout.stride..][..layout.width];
            comoment.extend(sums.iter().zip(&total).map(|(sum, total)| sum - share * total));
            comoment.extend(levels[..at].iter().map(|&(b, of_b)| {
                let both = if a == b { 0.0 } else { self.cross[layout.cell(a, b, of_a, of_b)] };
                both - share * self.counts[layout.starts[b] + of_b]
            }));
            comoment.push((share * (self.weight - count)).max(0.0));
        }
        Moments::from_parts(self.rows, self.skipped, self.weight, mean, comoment)
    }
}

/// Give every row of a chunk to the sums of its group.
///
/// `codes` holds the codes of each category, `sums_of` maps a row number of the
/// chunk to the sums of its group; it is called for every row, used or skipped.
pub fn scatter<'g>(
    layout: &Layout,
    chunk: &Chunk,
    codes: &[impl AsRef<[f64]>],
    labels: Labels,
    mut sums_of: impl FnMut(usize) -> &'g mut LevelSums,
) -> Result<(), String> {
    let mut turned = Vec::new();
    let mut row_codes = vec![0; codes.len()];
    for (start, rows) in chunk.blocks() {
        let n_rows = rows.rows;
        let rows = rows.screen(labels)?;
        let columns: Vec<&[f64]> = rows.columns.iter().map(|column| &column[..]).collect();
        turn(&columns, 0..n_rows - rows.skipped, &mut turned);
        let mut kept = 0;
        for row in 0..n_rows {
            let sums = sums_of(start + row);
            if rows.missing.contains(row) {
                sums.skipped += 1;
                continue;
            }
            for (c, codes) in codes.iter().enumerate() {
                let code = codes.as_ref()[start + row] as usize;
                row_codes[c] = code.min(layout.slots[c] - 1);
            }
            let values = &turned[kept * layout.stride..][..layout.stride];
            let weight = rows.weight.as_ref().map_or(1.0, |weight| weight[kept]);
            sums.add_row(layout, values, weight, &row_codes);
            kept += 1;
        }
    }
    Ok(())
}

vectorised! {
/// `sums += w (x - center)`.
fn add_centred(sums: &mut [f64], x: &[f64], center: &[f64], weight: f64) {
    for ((sum, x), center) in sums.iter_mut().zip(x).zip(center) {
        *sum += weight * (x - center);
    }
}
}

fn add_to(sums: &mut [f64], others: &[f64]) {
    sums.iter_mut().zip(others).for_each(|(sum, other)| *sum += other);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accumulator::Accumulator;
    use crate::chunk::Missing;
    use crate::testing::Lcg;
    use std::borrow::Cow;

    const NAMES: [&str; 5] = ["x", "a0", "a1", "a2", "b0"];

    struct Sample {
        x: Vec<f64>,
        weight: Vec<f64>,
        codes: [Vec<f64>; 2],
    }

    /// A number far from zero, NaN now and then, and two categories with rows of no level.
    fn sample(rows: usize) -> Sample {
        let mut random = Lcg::new(5);
        let mut draw = |n: f64| (random.uniform() * n).floor();
        let x = (0..rows).map(|_| if draw(20.0) == 0.0 { f64::NAN } else { 1e6 + draw(64.0) });
        let x = x.collect();
        let weight = (0..rows).map(|_| draw(4.0) / 2.0).collect();
        let codes = [4.0, 2.0].map(|n| (0..rows).map(|_| draw(n)).collect());
        Sample { x, weight, codes }
    }

    fn chunk<'a>(columns: &[&'a [f64]], weight: &'a [f64]) -> Chunk<'a> {
        Chunk {
            rows: weight.len(),
            columns: columns.iter().map(|x| Cow::Borrowed(*x)).collect(),
            weight: Some(Cow::Borrowed(weight)),
            missing: Missing::none(),
        }
    }

    fn moments(columns: &[&[f64]], weight: &[f64]) -> Moments {
        let names = NAMES.map(str::to_string);
        let labels = Labels { columns: &names, weight: "weight" };
        let mut all = Accumulator::new(columns.len());
        all.add(&chunk(columns, weight), labels).unwrap();
        all.finish().clone()
    }

    #[test]
    fn sums_by_level_give_the_moments_of_columns_of_zeros_and_ones() {
        let Sample { x, weight, codes } = sample(3000);
        let category = |column: &str, levels: &[&str]| Category {
            column: column.to_string(),
            levels: levels.iter().map(|level| level.to_string()).collect(),
        };
        let layout = Layout::new(1, &[category("a", &["a0", "a1", "a2"]), category("b", &["b0"])]);
        let names = ["x".to_string()];
        let labels = Labels { columns: &names, weight: "weight" };
        let mut parts = [(); 3].map(|()| LevelSums::new(&layout));
        let base = parts.as_mut_ptr();
        // SAFETY: the test hands out one reference at a time into a live array.
        let sums_of = |row: usize| unsafe { &mut *base.add(row % 3) };
        scatter(&layout, &chunk(&[&x], &weight), &codes, labels, sums_of).unwrap();
        let mut all = LevelSums::new(&layout);
        parts.into_iter().for_each(|part| all.merge(&layout, part));
        let found = all.finish(&layout, &moments(&[&x], &weight));

        let level = |c: usize, level: f64| -> Vec<f64> {
            codes[c].iter().map(|&code| f64::from(u8::from(code == level))).collect()
        };
        let dense = [level(0, 0.0), level(0, 1.0), level(0, 2.0), level(1, 0.0)];
        let columns: Vec<&[f64]> =
            std::iter::once(&x[..]).chain(dense.iter().map(|column| &column[..])).collect();
        let expected = moments(&columns, &weight);
        assert_eq!((found.rows, found.skipped), (expected.rows, expected.skipped));
        assert_eq!(found.weight, expected.weight);
        for (x, y) in found.mean().iter().zip(expected.mean()) {
            assert!((x - y).abs() <= 1e-15 * y);
        }
        assert_eq!(found.comoment.len(), triangle(5));
        for (x, y) in found.comoment.iter().zip(&expected.comoment) {
            assert!((x - y).abs() < 1e-13 * expected.comoment[0]);
        }
    }
}

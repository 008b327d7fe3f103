//! The (max,+) convolution of a sequence with a concave one.
//!
//! ```text
//! best(k) = max over t of row(k - t) + gains(t)
//! ```
//!
//! As `gains` is concave, a later source k - t that beats an earlier one for some k beats
//! it for every larger k: the best source never falls as k grows. So when the k in the
//! middle is solved, the sources of the others lie on either side of its own.

use crate::kernel::simd::vectorised;

/// Gains up to this length are tried one by one, which is faster than halving.
pub const ONE_BY_ONE: usize = 64;
/// Cells that are solved at once; rows are a multiple of it long.
const LANES: usize = 16;
/// Less than every sum: what stands before a row.
const NONE: i64 = i64::MIN / 2;

/// Rows of sums, each with room before and after it.
pub struct Rows {
    cells: Vec<i64>,
    stride: usize,
    width: usize,
}

impl Rows {
    /// `count` rows of `width` zeros.
    pub fn new(count: usize, width: usize) -> Self {
        let stride = ONE_BY_ONE + width.next_multiple_of(LANES);
        let mut cells = vec![0; count * stride];
        cells.chunks_exact_mut(stride).for_each(|row| row[..ONE_BY_ONE].fill(NONE));
        Rows { cells, stride, width }
    }

    /// Row `number`.
    pub fn row(&self, number: usize) -> &[i64] {
        &self.cells[number * self.stride + ONE_BY_ONE..][..self.width]
    }

    /// Make a row a copy of the one before it.
    pub fn repeat(&mut self, number: usize) {
        let start = number * self.stride;
        self.cells.copy_within(start - self.stride..start, start);
    }

    /// Raise each k of a row to the best sum of the row before it and some gains, where
    /// that is more, and write the least t of that sum to `taken`, else 0.
    ///
    /// Every row starts with 0 and never falls. `gains` start with 0 and are concave, and
    /// `taken` is as long as a row.
    pub fn raise(&mut self, number: usize, gains: &[i64], taken: &mut Vec<i64>) {
        let (before, after) = self.cells.split_at_mut(number * self.stride);
        let row = &before[before.len() - self.stride..];
        let total = &mut after[ONE_BY_ONE..self.stride];
        taken.resize(total.len(), 0);
        if gains.len() <= ONE_BY_ONE {
            one_by_one(row, gains, total, taken);
        } else {
            let whole = Whole { row: &row[ONE_BY_ONE..], gains };
            whole.halve((0, self.width), (0, self.width - 1), total, taken);
        }
        taken.truncate(self.width);
    }
}

vectorised! {
    /// Try every t, O(K m). The cells after the width of a row are of no meaning.
    fn one_by_one(row: &[i64], gains: &[i64], total: &mut [i64], taken: &mut [i64]) {
        let cells = total.chunks_exact_mut(LANES).zip(taken.chunks_exact_mut(LANES));
        for (block, (total, taken)) in cells.enumerate() {
            let start = ONE_BY_ONE + block * LANES;
            let mut best = [0; LANES];
            let mut least = [0; LANES];
            best.copy_from_slice(&row[start..start + LANES]);
            for (t, gain) in gains.iter().enumerate().skip(1) {
                let source = &row[start - t..start - t + LANES];
                for lane in 0..LANES {
                    let sum = source[lane].wrapping_add(*gain);
                    let more = sum > best[lane];
                    best[lane] = if more { sum } else { best[lane] };
                    least[lane] = if more { t as i64 } else { least[lane] };
                }
            }
            for lane in 0..LANES {
                let more = best[lane] > total[lane];
                total[lane] = if more { best[lane] } else { total[lane] };
                taken[lane] = if more { least[lane] } else { 0 };
            }
        }
    }
}

/// A row and the gains that are added to it.
struct Whole<'w> {
    row: &'w [i64],
    gains: &'w [i64],
}

impl Whole<'_> {
    /// Solve the k from one number up to another, whose sources lie from one number to
    /// another; O(K log K) for all.
    fn halve(
        &self,
        (first, end): (usize, usize),
        (low, high): (usize, usize),
        total: &mut [i64],
        taken: &mut [i64],
    ) {
        if first == end {
            return;
        }
        let k = first + (end - first) / 2;
        let (mut best, mut source) = (NONE, low);
        for s in low..=high.min(k) {
            // More than there is to take gains what there is.
            let sum = self.row[s] + self.gains[(k - s).min(self.gains.len() - 1)];
            if sum >= best {
                (best, source) = (sum, s);
            }
        }
        let more = best > total[k];
        taken[k] = if more { (k - source) as i64 } else { 0 };
        total[k] = total[k].max(best);
        self.halve((first, k), (low, source), total, taken);
        self.halve((k + 1, end), (source, high), total, taken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Lcg;

    /// The definition: the best sum and the least t, for each k.
    fn defined(row: &[i64], gains: &[i64]) -> Vec<(i64, i64)> {
        let best = |k: usize| {
            let sums = (0..gains.len().min(k + 1)).map(|t| (row[k - t] + gains[t], -(t as i64)));
            sums.max().map(|(sum, t)| (sum, -t)).unwrap()
        };
        (0..row.len()).map(best).collect()
    }

    fn rising(random: &mut Lcg, length: usize, most: f64) -> Vec<i64> {
        let steps = (1..length).map(|_| (random.uniform() * most) as i64);
        std::iter::once(0)
            .chain(steps.scan(0, |sum, step| {
                *sum += step;
                Some(*sum)
            }))
            .collect()
    }

    fn concave(random: &mut Lcg, length: usize) -> Vec<i64> {
        let mut steps: Vec<i64> = (1..length).map(|_| (random.uniform() * 9.0) as i64).collect();
        steps.sort_by(|a, b| b.cmp(a));
        let mut sum = 0;
        std::iter::once(0)
            .chain(steps.into_iter().map(|step| {
                sum += step;
                sum
            }))
            .collect()
    }

    #[test]
    fn both_ways_equal_the_definition() {
        let mut random = Lcg::new(3);
        for width in [2, 3, 16, 40, 129] {
            for length in [1, 2, 5, 33, ONE_BY_ONE, ONE_BY_ONE + 1, 100] {
                let row = rising(&mut random, width, 6.0);
                let least = rising(&mut random, width, 9.0);
                let gains = concave(&mut random, length.min(width));
                let expected = defined(&row, &gains);
                let mut rows = Rows::new(2, width);
                rows.cells[ONE_BY_ONE..][..width].copy_from_slice(&row);
                let (mut total, mut taken) = (least.clone(), vec![0; width]);
                Whole { row: &row, gains: &gains }.halve(
                    (0, width),
                    (0, width - 1),
                    &mut total,
                    &mut taken,
                );
                let stride = rows.stride;
                rows.cells[stride + ONE_BY_ONE..][..width].copy_from_slice(&least);
                let mut least_taken = Vec::new();
                rows.raise(1, &gains, &mut least_taken);
                for (k, (best, t)) in expected.into_iter().enumerate() {
                    let expected = if best > least[k] { (best, t) } else { (least[k], 0) };
                    assert_eq!((total[k], taken[k]), expected);
                    assert_eq!((rows.row(1)[k], least_taken[k]), expected);
                }
            }
        }
    }
}

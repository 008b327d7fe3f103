//! Weighted second moments that are centred while they accumulate.
//!
//! Rows are centred near their mean before they are multiplied, and what was
//! summed around unequal centers is merged by Chan, Golub and LeVeque's formula
//! (1983, eq. 2.1). Sums of raw products are never formed.
//!
//! The mean is kept as `origin + offset`: the origin is a double fixed by the
//! first block and the offset is of the size of the spread, so that a mean 1e8
//! times the spread costs no digits when block means are subtracted.

use crate::kernel::rank_update::triangle;
use crate::kernel::simd::vectorised;
use crate::kernel::state::state;
use crate::kernel::sums::Sums;

/// Share of a column's variation that rounding may take away too much when rows
/// are removed: stored means are rounded, which costs digits far from zero.
const REMOVED_SHARE: f64 = 1e-6;
/// Share of a column's variation that must be left when rows are removed: rounding of what was
/// there, 1e-16 of it, would take more than six of the digits of less.
const LEFT_SHARE: f64 = 1e-10;
/// As above, for a column of 0 and 1: below it none of the rows left has the rarer value, as one
/// of n rows varies by more than 1 / n of all.
const LEFT_OF_INDICATOR: f64 = 1e-13;
/// How nearly a column of 0 and 1 has as its mean square its mean.
const INDICATOR_ROUNDING: f64 = 1e-9;
/// Share of a column's variation below which what is left of it, once another number stands
/// where it is missing, is rounding: the column counts as constant.
const ROUNDING_SHARE: f64 = 1e-12;
/// Rows after which the mean is near that of more rows of the kind. A center that
/// is off by t deviations costs about 2 log10(t) digits of the block it serves.
pub const SETTLED_ROWS: u64 = 32;

/// Rows that a state may count: more than there are, and sums of many states fit 64 bits.
pub(crate) const MOST_COUNTED: u64 = 1 << 56;

/// Means as the sums of two doubles each.
#[derive(Clone, Debug, Default)]
pub struct Mean {
    /// The means as one double each.
    pub high: Vec<f64>,
    /// What rounding took from them.
    pub low: Vec<f64>,
}

/// Count, weight, mean and comoment of some rows.
#[derive(Clone, Debug, Default)]
pub struct Moments {
    /// Rows used.
    pub rows: u64,
    /// Rows left out.
    pub skipped: u64,
    /// Sum of the row weights.
    pub weight: f64,
    /// Sum of w (x - mean)(x - mean)', lower triangle, row by row.
    pub comoment: Vec<f64>,
    origin: Vec<f64>,
    offset: Vec<f64>,
}

state!(Moments { rows, skipped, weight, comoment, origin, offset });

/// What is left of columns when rows are removed.
pub struct Left {
    /// Columns of which only rounding of what is taken away is left.
    pub lost: Vec<usize>,
    /// Columns that vary no more, whose comoments are 0.
    pub gone: Vec<usize>,
}

impl Left {
    /// Judge the variations `after` by those `before`, at the mean and weight of before.
    ///
    /// Fails where less than nothing is left.
    pub fn of(
        rows_left: u64,
        weight: f64,
        mean: &[f64],
        before: &[f64],
        after: &[f64],
    ) -> Result<Left, String> {
        let (mut lost, mut gone) = (Vec::new(), Vec::new());
        for (j, (&before, &after)) in before.iter().zip(after).enumerate() {
            if after < -REMOVED_SHARE * before {
                return Err("cannot remove rows that vary more than all rows together; \
                            the second record must be a part of the first"
                    .to_string());
            }
            // A column is 0 or 1 in every row if its mean square is its mean.
            let expected = weight * mean[j] * (1.0 - mean[j]);
            let is_indicator = (before - expected).abs() <= INDICATOR_ROUNDING * before;
            // One row varies by nothing.
            if rows_left == 1 || before == 0.0 || is_indicator && after < LEFT_OF_INDICATOR * before
            {
                gone.push(j);
            } else if !is_indicator && after < LEFT_SHARE * before {
                lost.push(j);
            }
        }
        Ok(Left { lost, gone })
    }

    /// What is wrong with a column of which only rounding is left.
    pub fn told(column: &str) -> String {
        format!(
            "cannot remove these rows: what is left of column '{column}' is rounding of what is \
             taken away; merge the records of the rows that stay, or leave the column out"
        )
    }
}

impl Moments {
    /// The moments of no rows.
    pub fn new(width: usize) -> Moments {
        let mut moments = Moments::default();
        moments.clear(width);
        moments
    }

    /// Begin anew without rows.
    pub(crate) fn clear(&mut self, width: usize) {
        (self.rows, self.skipped, self.weight) = (0, 0, 0.0);
        let each = [(&mut self.comoment, triangle(width)), (&mut self.origin, width)];
        for (values, length) in each.into_iter().chain([(&mut self.offset, width)]) {
            values.clear();
            values.resize(length, 0.0);
        }
    }

    /// Moments read from a record; the lengths must agree.
    pub fn from_parts(
        rows: u64,
        skipped: u64,
        weight: f64,
        mean: Mean,
        comoment: Vec<f64>,
    ) -> Moments {
        debug_assert_eq!(comoment.len(), triangle(mean.high.len()));
        Moments { rows, skipped, weight, comoment, origin: mean.high, offset: mean.low }
    }

    /// Number of columns.
    pub fn width(&self) -> usize {
        self.origin.len()
    }

    /// Whether the lengths agree, and the counts are such as rows have: of bytes that were
    /// forged they may not be.
    pub(crate) fn is_sound(&self) -> bool {
        self.offset.len() == self.width()
            && self.comoment.len() == triangle(self.width())
            && self.rows.max(self.skipped) <= MOST_COUNTED
            && self.weight >= 0.0
            && self.weight.is_finite()
    }

    /// Whether the mean is one of enough rows to serve as the center of the next
    /// block: a single outlier does not decide it.
    pub fn is_settled(&self) -> bool {
        self.rows >= SETTLED_ROWS
    }

    /// Weighted mean of each column, as the sum of two doubles.
    pub fn exact_mean(&self) -> Mean {
        let (high, low) = self.exact_means().unzip();
        Mean { high, low }
    }

    /// The same, column by column.
    pub fn exact_means(&self) -> impl Iterator<Item = (f64, f64)> {
        self.origin.iter().zip(&self.offset).map(|(&origin, &offset)| {
            let high = origin + offset;
            (high, lost(origin, offset, high))
        })
    }

    /// Weighted mean of each column.
    pub fn mean(&self) -> Vec<f64> {
        self.origin.iter().zip(&self.offset).map(|(origin, offset)| origin + offset).collect()
    }

    /// Weighted mean of each column, measured from a base: 0 where that has no entry.
    pub fn mean_from(&self, base: &[f64]) -> Vec<f64> {
        let from = |j: usize| base.get(j).copied().unwrap_or_default();
        (0..self.width()).map(|j| (self.origin[j] - from(j)) + self.offset[j]).collect()
    }

    /// Weighted mean of one column.
    pub fn mean_of(&self, column: usize) -> f64 {
        self.origin[column] + self.offset[column]
    }

    /// Weighted mean of one column, measured from a number.
    pub fn distance_of(&self, column: usize, from: f64) -> f64 {
        (self.origin[column] - from) + self.offset[column]
    }

    /// The comoment of two columns.
    pub fn comoment_of(&self, column: usize, other: usize) -> f64 {
        self.comoment[at_pair(column, other)]
    }

    /// Append a column that is 0 in every row.
    pub fn widen(&mut self) {
        self.origin.push(0.0);
        self.offset.push(0.0);
        self.comoment.resize(triangle(self.width()), 0.0);
    }

    /// Let a column that is constant be another constant.
    pub fn set_constant(&mut self, column: usize, value: f64) {
        (self.origin[column], self.offset[column]) = (value, 0.0);
    }

    /// Some of the columns in another order; none is a column of zeros.
    pub fn arranged(&self, at: &[Option<usize>]) -> Moments {
        let entry = |(i, j): (Option<usize>, Option<usize>)| {
            i.zip(j).map_or(0.0, |(i, j)| self.comoment[at_pair(i, j)])
        };
        let pick = |values: &[f64]| at.iter().map(|j| j.map_or(0.0, |j| values[j])).collect();
        let rows = at.iter().enumerate();
        Moments {
            comoment: rows
                .flat_map(|(k, &i)| at[..=k].iter().map(move |&j| (i, j)))
                .map(entry)
                .collect(),
            origin: pick(&self.origin),
            offset: pick(&self.offset),
            ..*self
        }
    }

    /// Add a multiple of another column to a column of every row.
    pub fn shift(&mut self, column: usize, other: usize, factor: f64) {
        if factor == 0.0 {
            return;
        }
        let before = self.comoment[at_pair(column, column)];
        let between = self.comoment[at_pair(column, other)];
        let variance = self.comoment[at_pair(other, other)];
        for j in (0..self.width()).filter(|&j| j != column) {
            self.comoment[at_pair(column, j)] += factor * self.comoment[at_pair(other, j)];
        }
        self.comoment[at_pair(column, column)] += factor * (2.0 * between + factor * variance);
        // A step may be far larger than the spread, which the offset must not be.
        let step = self.offset[column] + factor * self.mean_of(other);
        let origin = self.origin[column] + step;
        self.offset[column] = lost(self.origin[column], step, origin);
        self.origin[column] = origin;
        if self.comoment[at_pair(column, column)] < ROUNDING_SHARE * before {
            (0..self.width()).for_each(|j| self.comoment[at_pair(column, j)] = 0.0);
        }
        self.clear_rounding();
    }

    /// Let a column that is constant where its indicator is 1 have its mean there: what
    /// is left of it is uncorrelated with the indicator.
    pub fn impute_mean(&mut self, column: usize, indicator: usize) {
        let variance = self.comoment[at_pair(indicator, indicator)];
        if variance > 0.0 {
            let between = self.comoment[at_pair(column, indicator)];
            self.shift(column, indicator, -between / variance);
        }
    }

    /// Add the rows of some sums.
    pub fn add(&mut self, sums: &Sums) {
        if sums.rows == 0 {
            return;
        }
        sums.add_products_to(&mut self.comoment);
        // The rows were centred by a rounded mean; their residual sum corrects that.
        let (base, center, residual) = (sums.base(), sums.center(), sums.residual());
        if self.weight == 0.0 {
            for j in 0..self.width() {
                let origin = base[j] + center[j];
                self.origin[j] = origin;
                self.offset[j] = lost(base[j], center[j], origin) + residual[j] / sums.weight;
            }
            add_outer(&mut self.comoment, -1.0 / sums.weight, residual, 0.0, residual);
        } else {
            let distance: Vec<f64> = (0..self.width())
                .map(|j| {
                    ((base[j] - self.origin[j]) + center[j])
                        + (residual[j] / sums.weight - self.offset[j])
                })
                .collect();
            let total = self.weight + sums.weight;
            let between = self.weight * (sums.weight / total);
            add_outer(&mut self.comoment, -1.0 / sums.weight, residual, between, &distance);
            self.move_mean(&distance, sums.weight / total);
        }
        self.rows += sums.rows;
        self.weight += sums.weight;
        self.clear_rounding();
    }

    /// Let moments of no rows be those of rows of weight 1: the first of them, the sum of the others'
    /// distances from it, and the lower triangle of the products of these, empty if all are 0.
    pub(crate) fn set_sums(&mut self, rows: u64, first: &[f64], sums: &[f64], products: &[f64]) {
        (self.rows, self.weight) = (rows, rows as f64);
        self.origin.copy_from_slice(first);
        self.comoment[..products.len()].copy_from_slice(products);
        add_square(&mut self.comoment, -1.0 / self.weight, sums);
        self.offset.iter_mut().zip(sums).for_each(|(offset, sum)| *offset = sum / self.weight);
        self.clear_rounding();
    }

    /// Add the moments of other rows of the same columns.
    pub fn merge(&mut self, other: &Moments) {
        debug_assert_eq!(self.width(), other.width());
        if other.weight > 0.0 {
            if self.weight == 0.0 {
                let (rows, skipped) = (self.rows, self.skipped);
                self.clone_from(other);
                self.rows += rows;
                self.skipped += skipped;
                return;
            }
            let total = self.weight + other.weight;
            let distance = self.distance_to(other);
            let between = self.weight * (other.weight / total);
            add_to(&mut self.comoment, &other.comoment, 1.0);
            add_outer(&mut self.comoment, between, &distance, 0.0, &distance);
            self.move_mean(&distance, other.weight / total);
            self.weight = total;
        }
        self.rows += other.rows;
        self.skipped += other.skipped;
    }

    /// Take away rows that were part of these: the inverse of `merge`.
    ///
    /// Returns the columns of which only rounding of what is taken away is left. Fails where
    /// `other` holds more rows or weight than these moments do.
    pub fn remove(&mut self, other: &Moments) -> Result<Vec<usize>, String> {
        debug_assert_eq!(self.width(), other.width());
        if other.rows > self.rows || other.skipped > self.skipped {
            return Err(format!(
                "cannot remove {} rows and {} skipped rows from {} and {}; \
                 the second record must be a part of the first",
                other.rows, other.skipped, self.rows, self.skipped
            ));
        }
        self.rows -= other.rows;
        self.skipped -= other.skipped;
        if self.rows == 0 {
            *self = Moments { skipped: self.skipped, ..Moments::new(self.width()) };
            return Ok(Vec::new());
        }
        let mut lost = Vec::new();
        if other.weight > 0.0 {
            let rest = self.weight - other.weight;
            if rest <= 0.0 {
                return Err(format!(
                    "cannot remove weight {} from weight {}; \
                     the second record must be a part of the first",
                    other.weight, self.weight
                ));
            }
            let before = self.variances();
            let distance = self.distance_to(other);
            let between = other.weight * (self.weight / rest);
            add_to(&mut self.comoment, &other.comoment, -1.0);
            add_outer(&mut self.comoment, -between, &distance, 0.0, &distance);
            let mean: Vec<f64> = (0..self.width()).map(|j| self.mean_of(j)).collect();
            let left = Left::of(self.rows, self.weight, &mean, &before, &self.variances())?;
            self.move_mean(&distance, -other.weight / rest);
            self.weight = rest;
            self.clear_rounding();
            for j in left.gone {
                (0..self.width()).for_each(|i| self.comoment[at_pair(i, j)] = 0.0);
            }
            lost = left.lost;
        }
        Ok(lost)
    }

    /// The comoment of each column with itself.
    fn variances(&self) -> Vec<f64> {
        (0..self.width()).map(|j| self.comoment[triangle(j) + j]).collect()
    }

    /// Rounding may leave the variance of a constant column just below zero.
    fn clear_rounding(&mut self) {
        for j in 0..self.width() {
            let variance = &mut self.comoment[triangle(j) + j];
            if *variance < 0.0 {
                *variance = 0.0;
            }
        }
    }

    /// Mean of `other` minus the mean of these.
    fn distance_to(&self, other: &Moments) -> Vec<f64> {
        (0..self.width())
            .map(|j| (other.origin[j] - self.origin[j]) + (other.offset[j] - self.offset[j]))
            .collect()
    }

    fn move_mean(&mut self, distance: &[f64], share: f64) {
        for (offset, distance) in self.offset.iter_mut().zip(distance) {
            *offset += share * distance;
        }
    }
}

/// What the sum of two doubles lost by rounding, which is a double (Knuth 1969, 4.2.2).
fn lost(a: f64, b: f64, sum: f64) -> f64 {
    let back = sum - a;
    (a - (sum - back)) + (b - back)
}

/// Where the entry of two columns lies.
fn at_pair(i: usize, j: usize) -> usize {
    triangle(i.max(j)) + i.min(j)
}

vectorised! {
/// `comoment += a x x' + b y y'`.
fn add_outer(comoment: &mut [f64], a: f64, x: &[f64], b: f64, y: &[f64]) {
    for i in 0..x.len() {
        let (ax, by) = (a * x[i], b * y[i]);
        let row = &mut comoment[triangle(i)..triangle(i + 1)];
        for ((entry, x), y) in row.iter_mut().zip(x).zip(y) {
            *entry += ax * x + by * y;
        }
    }
}
}

vectorised! {
/// `comoment += a x x'`.
fn add_square(comoment: &mut [f64], a: f64, x: &[f64]) {
    for i in 0..x.len() {
        let ax = a * x[i];
        let row = &mut comoment[triangle(i)..triangle(i + 1)];
        row.iter_mut().zip(x).for_each(|(entry, x)| *entry += ax * x);
    }
}
}

fn add_to(entries: &mut [f64], others: &[f64], sign: f64) {
    for (entry, other) in entries.iter_mut().zip(others) {
        *entry += sign * other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::block::BLOCK_ROWS;
    use crate::kernel::rank_update::LANES;
    use crate::testing::Lcg;

    const WIDTH: usize = 11;

    struct Sample {
        columns: Vec<Vec<f64>>,
        weight: Vec<f64>,
    }

    fn sample(rows: usize, offset: f64, seed: u64) -> Sample {
        let mut random = Lcg::new(seed);
        let columns = (0..WIDTH)
            .map(|_| (0..rows).map(|_| offset + (random.uniform() * 1024.0).floor()).collect())
            .collect();
        // Weights are whole numbers of quarters: exact in every formula.
        let weight = (0..rows).map(|_| (1.0 + (random.uniform() * 16.0).floor()) / 4.0).collect();
        Sample { columns, weight }
    }

    /// Two passes over the rows, relative to `offset`, where all sums are exact.
    fn definition(sample: &Sample, offset: f64, weighted: bool) -> (Vec<f64>, Vec<f64>) {
        let weight = |r: usize| if weighted { sample.weight[r] } else { 1.0 };
        let rows = sample.weight.len();
        let total: f64 = (0..rows).map(weight).sum();
        let mean: Vec<f64> = sample
            .columns
            .iter()
            .map(|x| (0..rows).map(|r| weight(r) * (x[r] - offset)).sum::<f64>() / total)
            .collect();
        let mut comoment = Vec::new();
        for i in 0..WIDTH {
            for j in 0..=i {
                let (x, y) = (&sample.columns[i], &sample.columns[j]);
                comoment.push(
                    (0..rows)
                        .map(|r| weight(r) * (x[r] - offset - mean[i]) * (y[r] - offset - mean[j]))
                        .sum(),
                );
            }
        }
        (mean, comoment)
    }

    fn accumulate(sample: &Sample, from: usize, to: usize, weighted: bool) -> Moments {
        let mut moments = Moments::new(WIDTH);
        let mut sums = Sums::default();
        for start in (from..to).step_by(BLOCK_ROWS) {
            let end = (start + BLOCK_ROWS).min(to);
            let columns: Vec<&[f64]> = sample.columns.iter().map(|x| &x[start..end]).collect();
            // Any center will do; the first row is one that is seldom the mean.
            let center: Vec<f64> = columns.iter().map(|x| x[0]).collect();
            sums.start(&center);
            sums.add_columns(&columns, weighted.then_some(&sample.weight[start..end]));
            moments.add(&sums);
        }
        moments
    }

    fn assert_close(found: &[f64], expected: &[f64], tolerance: f64) {
        let scale = expected.iter().fold(0.0, |max: f64, x| max.max(x.abs()));
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() <= tolerance * scale, "{found} {expected}");
        }
    }

    #[test]
    fn blocks_give_the_definition_also_far_from_zero() {
        for offset in [0.0, 1e8 * 1024.0] {
            for weighted in [false, true] {
                let sample = sample(3000, offset, 7);
                let (mean, comoment) = definition(&sample, offset, weighted);
                let moments = accumulate(&sample, 0, 3000, weighted);
                let found: Vec<f64> = moments
                    .origin
                    .iter()
                    .zip(&moments.offset)
                    .map(|(origin, rest)| (origin - offset) + rest)
                    .collect();
                assert_close(&found, &mean, 1e-14);
                assert_close(&moments.comoment, &comoment, 1e-14);
            }
        }
    }

    #[test]
    fn rows_and_columns_pack_alike() {
        let sample = sample(BLOCK_ROWS, 3.0, 9);
        let stride = WIDTH.div_ceil(LANES) * LANES;
        let mut rows = vec![0.0; BLOCK_ROWS * stride];
        for (j, column) in sample.columns.iter().enumerate() {
            for (r, x) in column.iter().enumerate() {
                rows[r * stride + j] = *x;
            }
        }
        for weighted in [false, true] {
            let weight = weighted.then_some(&sample.weight[..]);
            let ones = vec![1.0; BLOCK_ROWS];
            let mut sums = Sums::default();
            sums.start(&[3.0; WIDTH]);
            sums.add_rows(&rows, weight.unwrap_or(&ones));
            let mut moments = Moments::new(WIDTH);
            moments.add(&sums);
            let expected = accumulate(&sample, 0, BLOCK_ROWS, weighted);
            assert_eq!(moments.weight, expected.weight);
            assert_close(&moments.mean(), &expected.mean(), 1e-14);
            assert_close(&moments.comoment, &expected.comoment, 1e-14);
        }
    }

    #[test]
    fn a_weighted_constant_has_no_negative_variance() {
        let mut random = Lcg::new(4);
        let mut sums = Sums::default();
        for _ in 0..2000 {
            let x = [random.uniform() * 16.0 - 8.0];
            let weight = [random.uniform() * 4.0 + 0.1];
            sums.start(&[x[0] * weight[0] / weight[0]]);
            sums.add_columns(&[&x], Some(&weight));
            let mut moments = Moments::new(1);
            moments.add(&sums);
            assert!(moments.comoment[0] >= 0.0);
        }
    }

    #[test]
    fn merge_is_associative_commutative_and_has_an_identity() {
        let sample = sample(900, 1e6, 3);
        let part = |from, to| accumulate(&sample, from, to, true);
        let (a, b, c) = (part(0, 1), part(1, 400), part(400, 900));
        let whole = part(0, 900);
        let merged = |parts: [&Moments; 3]| {
            let mut total = Moments::new(WIDTH);
            parts.into_iter().for_each(|part| total.merge(part));
            total
        };
        let mut right = b.clone();
        right.merge(&c);
        let mut nested = a.clone();
        nested.merge(&right);
        nested.merge(&Moments::new(WIDTH));
        for total in [merged([&a, &b, &c]), merged([&c, &a, &b]), nested] {
            assert_eq!((total.rows, total.weight), (whole.rows, whole.weight));
            assert_close(&total.mean(), &whole.mean(), 1e-15);
            assert_close(&total.comoment, &whole.comoment, 1e-14);
        }
    }

    #[test]
    fn merge_keeps_every_count() {
        let mut empty = Moments { skipped: 2, ..Moments::new(WIDTH) };
        let mut other = accumulate(&sample(5, 0.0, 1), 0, 5, false);
        other.skipped = 3;
        empty.merge(&other);
        assert_eq!((empty.rows, empty.skipped), (5, 5));
        empty.merge(&Moments { skipped: 1, ..Moments::new(WIDTH) });
        assert_eq!((empty.rows, empty.skipped), (5, 6));
    }

    #[test]
    fn remove_undoes_merge() {
        let sample = sample(700, 50.0, 5);
        let (a, b) = (accumulate(&sample, 0, 300, true), accumulate(&sample, 300, 700, true));
        let mut total = a.clone();
        total.merge(&b);
        total.remove(&b).unwrap();
        assert_eq!((total.rows, total.weight), (a.rows, a.weight));
        assert_close(&total.mean(), &a.mean(), 1e-14);
        assert_close(&total.comoment, &a.comoment, 1e-13);
        total.remove(&a).unwrap();
        assert_eq!((total.rows, total.weight), (0, 0.0));
        assert!(total.comoment.iter().all(|x| *x == 0.0));
        assert!(total.remove(&a).unwrap_err().contains("must be a part"));
    }
}

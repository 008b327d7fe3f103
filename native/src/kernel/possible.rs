//! Which moments rows can have: no comoment exceeds what its columns vary (Cauchy and Schwarz), of
//! what columns vary beyond others nothing is negative, and rounding takes a mean's last bit.

use crate::kernel::rank_update::triangle;

/// How far above the bound rounding may lift a comoment: of columns that are multiples of each
/// other it lies on the bound, and removing rows may cost all but six digits.
const ROUNDING: f64 = 1e-4;
/// Deviation that rounding may give to a constant column, as a share of its mean.
const CONSTANT_ROUNDING: f64 = 1e-12;
/// Squares below 1e-308 are rounded to multiples of 5e-324: of sums of less than this a row,
/// fewer than twelve digits are left.
pub const LEAST_SQUARE: f64 = 5e-312;
/// Share of its variance that a column must have beyond others for a third to be compared with
/// what is left of both: there, rounding of the sixth digit stays below `LEFT_ROUNDING`.
pub const LEAST_LEFT: f64 = 1e-2;
/// By how much what is left of unit-variance columns may be negative, or exceed its bound.
pub const LEFT_ROUNDING: f64 = 1e-2;
/// Share of the target's variance that rows never explain; rounding adds some 1e-4 to 1.
const IMPOSSIBLE: f64 = 2.0;
/// Columns that are taken away from others: D^2 operations each, so that a look costs no more
/// than some steps of a search.
const MOST_TAKEN: usize = 64;

/// What is wrong with moments.
#[derive(Debug, PartialEq)]
pub enum Fault {
    /// What rounding took from the mean of a column is more than that can take.
    Low(usize, f64, f64),
    /// The variance of a column is no double, though its comoment is one.
    Wide(usize, f64),
    /// The squares of a column are too small for the digits of a double.
    Small(usize),
    /// The comoment of two columns, and the most that it could be.
    Large(usize, usize, f64),
}

impl Fault {
    /// In a sentence.
    pub fn told(&self, columns: &[String], comoment: impl Fn(usize, usize) -> f64) -> String {
        match *self {
            Fault::Low(j, low, mean) => format!(
                "gram record has {} in 'mean_low' for column '{}'; rounding takes no more than the \
                 last bit of its mean, {}",
                short(low),
                columns[j],
                short(mean)
            ),
            Fault::Wide(j, weight) => format!(
                "column '{}' varies too much: its variance, {} by a weight of {}, overflows a \
                 double; divide it, or multiply the weights, by a power of ten",
                columns[j],
                short(comoment(j, j)),
                short(weight)
            ),
            Fault::Small(j) => format!(
                "column '{}' is too small: its squares, times the weights, lose their digits \
                 below 1e-308; multiply it, or the weights, by a power of ten",
                columns[j]
            ),
            Fault::Large(i, j, most) => format!(
                "gram record has comoments that no rows can have: {} of columns '{}' and '{}', \
                 which vary so that it is {} at most",
                short(comoment(i, j)),
                columns[j],
                columns[i],
                short(most)
            ),
        }
    }
}

/// A number without hundreds of zeros.
fn short(x: f64) -> String {
    if x == 0.0 || (1e-4..1e9).contains(&x.abs()) { format!("{x}") } else { format!("{x:e}") }
}

/// What is wrong with the moments of some rows, column by column and two by two.
///
/// `mean_low` may be empty, of records that do not know it; `comoment` takes columns i >= j.
pub fn fault(
    rows: u64,
    weight: f64,
    mean: &[f64],
    mean_low: &[f64],
    comoment: impl Fn(usize, usize) -> f64,
) -> Option<Fault> {
    let beyond = |(low, mean): (&f64, &f64)| low.abs() > last_bit(*mean);
    if let Some(j) = mean_low.iter().zip(mean).position(beyond) {
        return Some(Fault::Low(j, mean_low[j], mean[j]));
    }
    let variance = |j: usize| comoment(j, j);
    let is_wide = |&j: &usize| weight < 1.0 && weight > 0.0 && !(variance(j) / weight).is_finite();
    if let Some(j) = (0..mean.len()).find(is_wide) {
        return Some(Fault::Wide(j, weight));
    }
    let constant = |j: usize| weight.sqrt() * (CONSTANT_ROUNDING * mean[j]).abs();
    let sizes: Vec<f64> = (0..mean.len()).map(|j| variance(j).sqrt().max(constant(j))).collect();
    let least = LEAST_SQUARE * rows as f64;
    let is_small = |&j: &usize| variance(j) < least;
    let varies = |j: &usize| variance(*j) > 0.0 && variance(*j).sqrt() > constant(*j);
    for i in 0..mean.len() {
        for j in 0..i {
            let most = sizes[i] * sizes[j];
            let product = comoment(i, j);
            if product.abs() > most + ROUNDING * most {
                // What has no square left may well have a product.
                let implied = |other: usize| product * (product / variance(other));
                return Some(match (is_small(&j), is_small(&i)) {
                    (true, _) if implied(i) < least => Fault::Small(j),
                    (_, true) if implied(j) < least => Fault::Small(i),
                    _ => Fault::Large(i, j, most),
                });
            }
        }
    }
    (0..mean.len()).find(|j| is_small(j) && varies(j)).map(Fault::Small)
}

/// Entry (i, j), i >= j, of a packed lower triangle.
pub fn packed(comoment: &[f64]) -> impl Fn(usize, usize) -> f64 + Copy + '_ {
    |i, j| comoment[triangle(i) + j]
}

/// What the last bit of a double is worth, at most.
fn last_bit(x: f64) -> f64 {
    (f64::EPSILON * x.abs()).max(f64::from_bits(1))
}

/// Whether three or more columns agree with each other as no rows can, though each two may.
///
/// Columns are taken away one after another, that which varies most first: what is left of the
/// others is a covariance again. Up to `MOST_TAKEN` of them; O(D^2) each.
pub fn is_indefinite(comoment: &[f64]) -> bool {
    let mut width = 0;
    while triangle(width) < comoment.len() {
        width += 1;
    }
    let scale: Vec<f64> = (0..width).map(|j| 1.0 / comoment[triangle(j) + j].sqrt()).collect();
    let varied: Vec<usize> = (0..width).filter(|&j| scale[j].is_finite()).collect();
    let mut left: Vec<Vec<f64>> = varied
        .iter()
        .map(|&i| {
            let entry = |&j: &usize| comoment[triangle(i.max(j)) + i.min(j)] * scale[i] * scale[j];
            varied.iter().map(entry).collect()
        })
        .collect();
    for _ in 0..MOST_TAKEN.min(varied.len()) {
        let last = (0..left.len()).max_by(|&i, &j| left[i][i].total_cmp(&left[j][j]));
        let Some(pivot) = last.filter(|&j| left[j][j] > LEAST_LEFT) else { break };
        let row = left[pivot].clone();
        for (i, entries) in left.iter_mut().enumerate() {
            let share = row[i] / row[pivot];
            entries.iter_mut().zip(&row).for_each(|(entry, x)| *entry -= share * x);
        }
        if (0..left.len()).any(|j| left[j][j] < -LEFT_ROUNDING) {
            return true;
        }
    }
    let most = |i: usize, j: usize| (left[i][i].max(0.0) * left[j][j].max(0.0)).sqrt();
    let exceeds = |i: usize, j: usize| left[i][j].abs() > most(i, j) + LEFT_ROUNDING;
    (0..left.len()).any(|i| (0..i).any(|j| exceeds(i, j)))
}

/// Whether so much is explained of the variance of some rows; where it is not, comoments are
/// those of no rows.
pub fn is_possible(explained: f64) -> bool {
    explained < IMPOSSIBLE
}

/// That columns agree as no rows let them.
pub const INDEFINITE: &str = "gram record has comoments that no rows can have: each two of its \
                              columns may agree as they do, but not three or more together";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_all_is_impossible() {
        assert!(is_possible(1.0 + 1e-4));
        assert!(!is_possible(4.0) && !is_possible(f64::NAN));
    }

    #[test]
    fn a_comoment_beyond_its_variances_is_found() {
        let large = |comoment: &[f64]| fault(3, 3.0, &[0.0; 2], &[], packed(comoment));
        assert_eq!(large(&[1.0, 5.0, 1.0]), Some(Fault::Large(1, 0, 1.0)));
        assert_eq!(large(&[1.0, -1.0, 1.0]), None);
        assert_eq!(large(&[1e-300, 1e300, 1.0]), Some(Fault::Large(1, 0, 1e-150)));
    }

    #[test]
    fn a_constant_column_has_rounding() {
        assert_eq!(fault(1, 1.0, &[1e8, 0.0], &[], packed(&[0.0, 1e-8, 1.0])), None);
        assert!(fault(1, 1.0, &[1e8, 0.0], &[], packed(&[0.0, 1.0, 1.0])).is_some());
    }

    #[test]
    fn squares_without_digits_are_told() {
        let small = |comoment: &[f64]| fault(9, 9.0, &[0.0; 2], &[], packed(comoment));
        assert_eq!(small(&[1e-315, 1e-158, 1.0]), Some(Fault::Small(0)));
        assert_eq!(small(&[1.0, 1e-170, 0.0]), Some(Fault::Small(1)));
        assert_eq!(small(&[1e-310, 1e-156, 1.0]), None);
    }

    #[test]
    fn rounding_takes_the_last_bit_of_a_mean() {
        let low = |mean: f64, low: f64| fault(3, 3.0, &[mean], &[low], packed(&[1.0]));
        assert_eq!(low(1.0, f64::EPSILON), None);
        assert_eq!(low(-1e300, 1e284), None);
        assert_eq!(low(0.0, 5e-324), None);
        assert_eq!(low(1.0, 0.5), Some(Fault::Low(0, 0.5, 1.0)));
        assert_eq!(low(0.0, -1e-17), Some(Fault::Low(0, -1e-17, 0.0)));
    }

    #[test]
    fn a_variance_that_is_no_double_is_found() {
        let wide = |weight: f64| fault(3, weight, &[0.0; 2], &[], packed(&[0.0, 0.0, 1e4]));
        assert_eq!(wide(1e-303), None);
        assert_eq!(wide(1e-305), Some(Fault::Wide(1, 1e-305)));
    }

    #[test]
    fn three_columns_that_agree_by_twos_only_are_found() {
        assert!(is_indefinite(&[1.0, 0.9, 1.0, -0.9, 0.9, 1.0]));
        assert!(!is_indefinite(&[1.0, 0.9, 1.0, 0.7, 0.9, 1.0]));
        // The first two are one: what the third has in common with them must be, too.
        assert!(is_indefinite(&[1.0, 1.0, 1.0, 0.9, 0.5, 1.0]));
        assert!(!is_indefinite(&[4.0, -2.0, 1.0, 1.8, -0.9, 1.0]));
        assert!(!is_indefinite(&[0.0, 0.0, 1.0]));
    }
}

//! Exact projection of a vector onto few nonzeros in few groups (`sght_project`).
//!
//! ```text
//! T(i, j, k) = max( T(i-1, j, k), max_t T(i-1, j-1, k-t) + CH(i, t) )
//! ```
//!
//! The method, its source and how ties are broken stand in
//! `dbselect/selection/projection.py`. Squares are whole numbers of one unit, so that sums
//! are exact.

use std::cmp::Reverse;

use crate::search::sets::convolution::Rows;

/// Bits of the largest sum of squares: 63 would fit, three are left for rounding upwards.
const SUM_BITS: i32 = 60;

/// Where the entries of each group of a vector stand.
pub struct Groups<'g> {
    /// The entries by group, then by index; none where they stand so.
    pub order: Option<&'g [usize]>,
    /// Where each group starts in that order, and where the last ends.
    pub starts: &'g [usize],
}

/// The most entries, and the most groups with an entry, that may be kept.
#[derive(Clone, Copy)]
pub struct Limits {
    /// s1, at least 1.
    pub columns: usize,
    /// s2, at least 1.
    pub groups: usize,
}

/// The largest entries of each group: what any projection can keep.
pub struct Best {
    /// Nonzero; by group, then largest first, then by index.
    pub entries: Vec<usize>,
    /// Where each group with such entries starts, and the last ends.
    starts: Vec<usize>,
    /// Their squares as whole numbers, at least 1.
    units: Vec<i64>,
    /// Units are multiples of this power of 2.
    pub power: i32,
}

impl Best {
    /// The `limit` largest entries of each group.
    pub fn new(v: &[f64], groups: &Groups, limit: usize) -> Self {
        let entry = |at: usize| groups.order.map_or(at, |order| order[at]);
        // Doubles without a sign are ordered as their bits are.
        let size = |entry: usize| v[entry].abs().to_bits();
        let (mut entries, mut starts) = (Vec::new(), vec![0]);
        let (mut sizes, mut kept) = (Vec::new(), Vec::new());
        for bounds in groups.starts.windows(2) {
            let members = || (bounds[0]..bounds[1]).map(entry);
            let mut least = 1;
            if bounds[1] - bounds[0] > limit {
                sizes.clear();
                sizes.extend(members().map(size));
                let last = sizes.len() - limit;
                least = (*sizes.select_nth_unstable(last).1).max(1);
            }
            kept.clear();
            kept.extend(members().filter(|&entry| size(entry) >= least));
            // Stable, so that equal entries stay in the order of their index.
            kept.sort_by_key(|&entry| Reverse(size(entry)));
            kept.truncate(limit);
            if !kept.is_empty() {
                entries.extend_from_slice(&kept);
                starts.push(entries.len());
            }
        }
        let magnitudes: Vec<f64> = entries.iter().map(|&entry| v[entry].abs()).collect();
        let (units, power) = units(&magnitudes, limit);
        Best { entries, starts, units, power }
    }

    fn n_groups(&self) -> usize {
        self.starts.len() - 1
    }

    fn size(&self, group: usize) -> usize {
        self.starts[group + 1] - self.starts[group]
    }

    /// The places in `entries` to keep if one limit implies the other (Lemma 1).
    fn decided_by_one_limit(&self, limits: Limits) -> Option<Vec<usize>> {
        let sizes = (0..self.n_groups()).map(|group| self.size(group));
        let owner: Vec<usize> =
            sizes.enumerate().flat_map(|(group, size)| std::iter::repeat_n(group, size)).collect();
        let largest = largest(&self.units, limits.columns);
        let mut held = vec![false; self.n_groups()];
        largest.iter().for_each(|&place| held[owner[place]] = true);
        if held.iter().filter(|&&held| held).count() <= limits.groups {
            return Some(largest);
        }
        let total = |bounds: &[usize]| self.units[bounds[0]..bounds[1]].iter().sum();
        let totals: Vec<i64> = self.starts.windows(2).map(total).collect();
        let groups = crate::search::sets::projection::largest(&totals, limits.groups);
        let size: usize = groups.iter().map(|&group| self.size(group)).sum();
        let places = |group: usize| self.starts[group]..self.starts[group + 1];
        (size <= limits.columns).then(|| groups.into_iter().flat_map(places).collect())
    }

    /// The groups that are among the best `max_groups` for some number of entries.
    ///
    /// A group that takes part with t entries is, else a better one could replace it.
    fn contenders(&self, max_groups: usize) -> Vec<usize> {
        if self.n_groups() <= max_groups {
            return (0..self.n_groups()).collect();
        }
        let mut totals = vec![0; self.n_groups()];
        let mut wanted = vec![false; self.n_groups()];
        let longest = (0..self.n_groups()).map(|group| self.size(group)).max().unwrap_or(0);
        for rank in 0..longest {
            for (group, total) in totals.iter_mut().enumerate() {
                if self.size(group) > rank {
                    *total += self.units[self.starts[group] + rank];
                }
            }
            largest(&totals, max_groups).into_iter().for_each(|group| wanted[group] = true);
        }
        (0..self.n_groups()).filter(|&group| wanted[group]).collect()
    }
}

/// How many entries a group gives, in as few bytes as the limit needs.
pub trait Count: Copy + Default {
    /// A number that fits.
    fn of(taken: i64) -> Self;
    /// As a number of entries.
    fn number(self) -> usize;
}

macro_rules! count {
    ($($type:ty),*) => {$(
        impl Count for $type {
            fn of(taken: i64) -> Self {
                taken as $type
            }
            fn number(self) -> usize {
                self as usize
            }
        }
    )*};
}

count!(u8, u16, u32);

/// The best support for pairs of limits (Algorithm 3).
pub struct Table<C> {
    /// T of all groups, in units; (max_groups + 1) x (max_columns + 1).
    pub totals: Vec<i64>,
    /// Where each group that can be kept starts among the best entries.
    pub starts: Vec<usize>,
    /// How many entries each of them gives; m x max_groups x (max_columns + 1).
    pub choices: Vec<C>,
}

impl<C: Count> Table<C> {
    /// The table for every limit on groups from `least_groups` to the largest; of smaller
    /// ones, what these do not need is left undone.
    pub fn new(best: &Best, limits: Limits, least_groups: usize) -> Self {
        let width = limits.columns + 1;
        let contenders = best.contenders(limits.groups);
        let mut rows = Rows::new(limits.groups + 1, width);
        let mut choices = vec![C::default(); contenders.len() * limits.groups * width];
        let (mut gains, mut taken) = (Vec::new(), Vec::new());
        for (number, &group) in contenders.iter().enumerate() {
            gains.clear();
            gains.push(0);
            let units = &best.units[best.starts[group]..best.starts[group + 1]];
            gains.extend(units.iter().scan(0, |sum, unit| {
                *sum += unit;
                Some(*sum)
            }));
            // So many groups there are: to allow more changes nothing.
            let most = limits.groups.min(number + 1);
            // So few are out of reach of what is asked for, whatever the later groups give.
            let later = contenders.len() - 1 - number;
            let least = least_groups.min(contenders.len()).saturating_sub(later).max(1);
            if most == number + 1 {
                rows.repeat(most);
            }
            let choices = &mut choices[number * limits.groups * width..][..limits.groups * width];
            for row in (least..=most).rev() {
                rows.raise(row, &gains, &mut taken);
                let cells = choices[(row - 1) * width..row * width].iter_mut();
                cells.zip(&taken).for_each(|(choice, &taken)| *choice = C::of(taken));
            }
            for row in most..limits.groups {
                choices.copy_within((most - 1) * width..most * width, row * width);
            }
        }
        for row in contenders.len() + 1..=limits.groups {
            rows.repeat(row);
        }
        let totals = (0..=limits.groups).flat_map(|row| rows.row(row).to_vec()).collect();
        let starts = contenders.iter().map(|&group| best.starts[group]).collect();
        Table { totals, starts, choices }
    }

    /// The places in `entries` to keep, following the choices back (Algorithm 4).
    fn places(&self, limits: Limits) -> Vec<usize> {
        let (mut groups, mut columns) = (limits.groups, limits.columns);
        let mut places = Vec::new();
        for (number, &start) in self.starts.iter().enumerate().rev() {
            if groups == 0 {
                break;
            }
            let at = (number * limits.groups + groups - 1) * (limits.columns + 1) + columns;
            let taken = self.choices[at].number();
            if taken > 0 {
                places.extend(start..start + taken);
                (groups, columns) = (groups - 1, columns - taken);
            }
        }
        places
    }
}

/// The entries to keep, in no order.
pub fn support(v: &[f64], groups: &Groups, limits: Limits) -> Vec<usize> {
    let best = Best::new(v, groups, limits.columns);
    let places = best.decided_by_one_limit(limits).unwrap_or_else(|| match limits.columns {
        0..=0xff => Table::<u8>::new(&best, limits, limits.groups).places(limits),
        0x100..=0xffff => Table::<u16>::new(&best, limits, limits.groups).places(limits),
        _ => Table::<u32>::new(&best, limits, limits.groups).places(limits),
    });
    places.into_iter().map(|place| best.entries[place]).collect()
}

/// The places of the `count` largest values; of equal ones the first.
fn largest(values: &[i64], count: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..values.len()).collect();
    if count < places.len() {
        places.select_nth_unstable_by_key(count, |&place| (Reverse(values[place]), place));
        places.truncate(count);
    }
    places
}

/// Squares as whole numbers, at least 1, of a unit, and its power of 2.
///
/// Powers of 2 keep squares of whole numbers exact; rounding upwards keeps their order.
fn units(magnitudes: &[f64], limit: usize) -> (Vec<i64>, i32) {
    let most = magnitudes.iter().copied().fold(0.0, f64::max);
    if most == 0.0 {
        return (Vec::new(), 0);
    }
    let power = exponent(most);
    let squares: Vec<f64> = magnitudes.iter().map(|&x| scaled(x, -power).powi(2)).collect();
    let mut ordered = squares.clone();
    let last = ordered.len().saturating_sub(limit);
    let (_, &mut least, larger) = ordered.select_nth_unstable_by(last, f64::total_cmp);
    let shift = SUM_BITS - exponent(least + larger.iter().sum::<f64>());
    let unit = |&square: &f64| (scaled(square, shift).ceil() as i64).max(1);
    (squares.iter().map(unit).collect(), 2 * power - shift)
}

/// The e of ``x = f 2^e`` with f from 1/2 to 1, for x > 0.
fn exponent(x: f64) -> i32 {
    if x < f64::MIN_POSITIVE {
        return exponent(x * power_of_2(54)) - 54;
    }
    (x.to_bits() >> 52) as i32 - 1022
}

/// ``x 2^power``, in two steps, as the power alone may be no double.
fn scaled(x: f64, power: i32) -> f64 {
    x * power_of_2(power / 2) * power_of_2(power - power / 2)
}

fn power_of_2(power: i32) -> f64 {
    f64::from_bits(((power + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Lcg;

    /// The largest sum of squares that a support within the limits has, by trying all.
    fn brute_force(v: &[f64], labels: &[usize], limits: Limits) -> f64 {
        let value = |kept: usize| {
            let kept: Vec<usize> = (0..v.len()).filter(|entry| kept >> entry & 1 == 1).collect();
            let mut groups: Vec<usize> = kept.iter().map(|&entry| labels[entry]).collect();
            groups.dedup();
            let allowed = kept.len() <= limits.columns && groups.len() <= limits.groups;
            if allowed { kept.iter().map(|&entry| v[entry] * v[entry]).sum() } else { 0.0 }
        };
        (0..1 << v.len()).map(value).fold(0.0, f64::max)
    }

    #[test]
    fn no_support_is_better() {
        let mut random = Lcg::new(8);
        let starts = [0, 3, 4, 8, 10];
        let labels = [0, 0, 0, 1, 2, 2, 2, 2, 3, 3];
        for _ in 0..30 {
            let v: Vec<f64> = (0..10).map(|_| (random.uniform() * 9.0).floor() - 4.0).collect();
            for (columns, groups) in (1..=10).flat_map(|s1| (1..=4).map(move |s2| (s1, s2))) {
                let limits = Limits { columns, groups };
                let kept = support(&v, &Groups { order: None, starts: &starts }, limits);
                let value: f64 = kept.iter().map(|&entry| v[entry] * v[entry]).sum();
                assert_eq!(value, brute_force(&v, &labels, limits));
                assert!(kept.len() <= columns);
            }
        }
    }

    #[test]
    fn powers_of_2_scale_exactly() {
        for x in [1.0, 0.75, 3.0, f64::MIN_POSITIVE, 5e-324, f64::MAX] {
            let fraction = scaled(x, -exponent(x));
            assert!((0.5..1.0).contains(&fraction));
            assert_eq!(scaled(fraction, exponent(x)), x);
        }
    }
}

//! Missing values that are filled: a constant in their place, and a column that says where.
//!
//! A filled column is `x + f m`: x is 0 where the value is missing, its indicator m
//! is 1 there and 0 elsewhere. With m among the columns, the moments for one f are a
//! linear map of those for any other. While rows arrive, f is near the values that
//! are present, so that a mean far from zero costs no digits; at the end f becomes
//! what was asked for. An indicator begins with the first missing value of its
//! column: it was 0 before, which takes no work to make up for.
//!
//! Beside an indicator f is 0 in a record, unless that is far from the values present: of
//! these 0 would leave few digits, and their mean stands there, which the terms state.
//! `dbselect/record/policies.py` is the same rule.

use std::borrow::Cow;
use std::sync::Arc;

use crate::kernel::chunk::{Screened, zeros};
use crate::kernel::moments::Moments;
use crate::kernel::state::state;

/// What the name of an indicator adds to that of its column.
pub const SUFFIX: &str = ".missing";
/// Share of the weight that is taken for nothing beside rounding.
pub const NO_SHARE: f64 = 1e-14;
/// Deviations between 0 and the mean of what is present beyond which that mean stands for what
/// is missing: 0 leaves ten of 16 digits there, and two less for every factor of ten.
const FAR: f64 = 1e3;
/// Parts of a deviation to which such a mean is rounded: however it is summed, it is one number.
const PARTS: f64 = 1024.0;

/// What becomes of a column's missing values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Their rows are left out.
    Skip,
    /// They become the mean of the values present.
    Mean,
    /// They become 0, or the mean where 0 is far from it, and the indicator follows its column.
    Indicator,
    /// They become some constant near the values present, and the indicator follows.
    Near,
    /// They become 0, and another column has the indicator.
    Zero,
}

impl Policy {
    /// The policy of a letter.
    pub fn of(letter: u8) -> Option<Policy> {
        match letter {
            b's' => Some(Policy::Skip),
            b'm' => Some(Policy::Mean),
            b'i' => Some(Policy::Indicator),
            b'n' => Some(Policy::Near),
            b'z' => Some(Policy::Zero),
            _ => None,
        }
    }

    /// Whether rows with a missing value are used.
    pub fn fills(&self) -> bool {
        *self != Policy::Skip
    }

    fn lists(&self) -> bool {
        matches!(self, Policy::Indicator | Policy::Near)
    }
}

/// A column that had missing values.
#[derive(Clone, Copy, Debug)]
struct Gap {
    column: usize,
    /// What stands in their place.
    fill: f64,
    /// Whether any value was present: if not, the fill is a guess.
    is_known: bool,
}

state!(Gap { column, fill, is_known });

/// Moments of some columns, then of the indicators of those with missing values.
#[derive(Clone, Debug)]
pub struct Filled {
    /// Columns first, then one indicator for each gap.
    pub moments: Moments,
    width: usize,
    gaps: Vec<Gap>,
}

state!(Filled { moments, width, gaps });

impl Filled {
    /// Columns without missing values.
    pub fn new(moments: Moments) -> Filled {
        Filled { width: moments.width(), moments, gaps: Vec::new() }
    }

    /// Number of columns, indicators not counted.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Whether nothing was missing so far.
    pub fn is_whole(&self) -> bool {
        self.gaps.is_empty()
    }

    /// Whether the rows change which indicators there are, or a fill.
    pub fn can_learn(&self, holes: &[usize]) -> bool {
        self.gaps.iter().any(|gap| !gap.is_known)
            || holes.iter().any(|&column| self.gap_of(column).is_none())
    }

    /// Begin the indicators of columns with their first missing value, and fill
    /// columns that had nothing else so far with what is present now.
    pub(crate) fn learn(&mut self, rows: &Screened) {
        for &column in &rows.holes {
            if self.gap_of(column).is_none() {
                let is_known = self.moments.weight > 0.0;
                self.open(Gap { column, fill: self.moments.mean_of(column), is_known });
            }
        }
        for gap in self.gaps.iter_mut().filter(|gap| !gap.is_known) {
            if let Some(near) = nearest_present(&rows.columns[gap.column]) {
                let near = near + rows.base_of(gap.column);
                *gap = Gap { fill: near, is_known: true, ..*gap };
                self.moments.set_constant(gap.column, near);
            }
        }
    }

    /// Fill what is missing and append the indicators.
    pub(crate) fn fill(&self, rows: &mut Screened) {
        for gap in &self.gaps {
            let indicator = rows.indicator(gap.column);
            if rows.holes.contains(&gap.column) {
                let fill = gap.fill - rows.base_of(gap.column);
                let column = rows.columns[gap.column].to_mut();
                column.iter_mut().filter(|x| x.is_nan()).for_each(|x| *x = fill);
            }
            rows.columns.push(indicator);
        }
        // What was summed had no fills in it.
        rows.sums.resize(if rows.holes.is_empty() { rows.sums.len() } else { 0 }, 0.0);
        if !rows.sums.is_empty() {
            rows.sums.resize(rows.columns.len(), 0.0);
        }
    }

    /// Columns without missing values, with the indicators that go with them.
    pub fn with_indicators<'c>(&self, mut columns: Vec<&'c [f64]>) -> Vec<&'c [f64]> {
        let n_rows = columns.first().map_or(0, |column| column.len());
        columns.extend(self.gaps.iter().map(|_| zeros(n_rows)));
        columns
    }

    /// Add the rows of others of the same columns.
    pub fn merge(&mut self, other: &Filled) {
        if self.is_whole() && other.is_whole() {
            self.moments.merge(&other.moments);
            return;
        }
        for gap in &other.gaps {
            if self.gap_of(gap.column).is_none() {
                let here = self.moments.weight > 0.0;
                let fill = if here { self.moments.mean_of(gap.column) } else { gap.fill };
                self.open(Gap { fill, is_known: here || gap.is_known, ..*gap });
            }
        }
        let gap_there = |gap: &Gap| other.gap_of(gap.column);
        for gap in self.gaps.iter_mut().filter(|gap| !gap.is_known && other.moments.weight > 0.0) {
            let (fill, is_known) = match gap_there(gap) {
                Some(at) => (other.gaps[at].fill, other.gaps[at].is_known),
                None => (other.moments.mean_of(gap.column), true),
            };
            *gap = Gap { fill, is_known, ..*gap };
            self.moments.set_constant(gap.column, fill);
        }
        let columns = (0..self.width).map(Some);
        let indicators = self.gaps.iter().map(|gap| gap_there(gap).map(|at| self.width + at));
        let mut moments = other.moments.arranged(&columns.chain(indicators).collect::<Vec<_>>());
        for (indicator, gap) in (self.width..).zip(&self.gaps) {
            if let Some(at) = gap_there(gap) {
                moments.shift(gap.column, indicator, gap.fill - other.gaps[at].fill);
            }
        }
        self.moments.merge(&moments);
    }

    /// Columns with a missing value in a row that was used.
    pub fn gaps(&self) -> impl Iterator<Item = usize> {
        let met = |(indicator, _): &(usize, &Gap)| self.moments.mean_of(*indicator) > 0.0;
        (self.width..).zip(&self.gaps).filter(met).map(|(_, gap)| gap.column)
    }

    /// What stands in the place of a column's missing values while rows arrive.
    pub fn fill_of(&self, column: usize) -> Option<f64> {
        self.gap_of(column).map(|at| self.gaps[at].fill)
    }

    /// What stands in the place of a column's missing values beside their indicator.
    pub fn fill_beside(&self, column: usize) -> f64 {
        let Some(at) = self.gap_of(column) else { return 0.0 };
        let indicator = self.width + at;
        if self.moments.mean_of(indicator) == 0.0 {
            return 0.0;
        }
        Present::of(&self.moments, column, indicator, self.gaps[at].fill).fill()
    }

    /// The moments with what was asked for in the place of missing values.
    ///
    /// `columns` are those of a record, as `layout` gives them.
    pub fn finish(&self, policies: &[Policy], layout: &[Place]) -> Cow<'_, Moments> {
        if self.is_whole() && layout.len() == self.width {
            return Cow::Borrowed(&self.moments);
        }
        let mut moments = self.moments.clone();
        for (indicator, gap) in (self.width..).zip(&self.gaps) {
            match policies[gap.column] {
                Policy::Mean if gap.is_known => moments.impute_mean(gap.column, indicator),
                Policy::Indicator => {
                    let fill = self.fill_beside(gap.column);
                    moments.shift(gap.column, indicator, fill - gap.fill);
                }
                Policy::Zero => moments.shift(gap.column, indicator, -gap.fill),
                _ => {}
            }
        }
        let at = |place: &Place| match *place {
            Place::Column(column) => Some(column),
            Place::Indicator(column) => self.gap_of(column).map(|at| self.width + at),
        };
        Cow::Owned(moments.arranged(&layout.iter().map(at).collect::<Vec<_>>()))
    }

    fn open(&mut self, gap: Gap) {
        self.moments.widen();
        self.gaps.push(gap);
    }

    /// Whether these are moments of some columns and of an indicator for each of their gaps.
    pub(crate) fn is_sound(&self, width: usize) -> bool {
        let is_first = |(at, gap): (usize, &Gap)| {
            gap.column < width && self.gap_of(gap.column) == Some(at) && gap.fill.is_finite()
        };
        self.width == width
            && self.moments.is_sound()
            && self.moments.width() == width + self.gaps.len()
            && self.gaps.iter().enumerate().all(is_first)
    }

    fn gap_of(&self, column: usize) -> Option<usize> {
        self.gaps.iter().position(|gap| gap.column == column)
    }
}

/// The bits of a double that are its power of two.
const EXPONENT: u64 = 0x7ff << 52;

/// The values of a column that are present.
#[derive(Clone, Copy)]
pub struct Present {
    weight: f64,
    mean: f64,
    comoment: f64,
}

impl Present {
    /// Those of a column in which some number stands where its indicator is 1.
    pub fn of(moments: &Moments, column: usize, indicator: usize, fill: f64) -> Present {
        let absent = moments.mean_of(indicator);
        let present = 1.0 - absent;
        if present <= NO_SHARE {
            return Present { weight: 0.0, mean: 0.0, comoment: 0.0 };
        }
        let apart = moments.distance_of(column, fill);
        let between = moments.weight * (absent / present) * apart * apart;
        Present {
            weight: moments.weight * present,
            mean: fill + apart / present,
            comoment: (moments.comoment_of(column, column) - between).max(0.0),
        }
    }

    /// Those of two sets of rows together.
    pub fn and(self, other: Present) -> Present {
        if self.weight == 0.0 {
            return other;
        }
        let (weight, distance) = (self.weight + other.weight, other.mean - self.mean);
        let share = other.weight / weight;
        Present {
            weight,
            mean: self.mean + share * distance,
            comoment: self.comoment + other.comoment + self.weight * share * distance * distance,
        }
    }

    /// What stands where values are missing, beside these.
    pub fn fill(self) -> f64 {
        let is_far = self.mean.abs() * self.weight.sqrt() > FAR * self.comoment.sqrt();
        if !is_far || !self.mean.is_finite() {
            return 0.0;
        }
        let deviation = (self.comoment / self.weight).sqrt();
        // The power of two below it.
        let unit = f64::from_bits(deviation.to_bits() & EXPONENT) / PARTS;
        let rounded = (self.mean / unit).round_ties_even() * unit;
        if rounded.is_finite() { rounded } else { self.mean }
    }
}

/// A column of a finished record.
#[derive(Clone, Copy)]
pub enum Place {
    /// A column of the table.
    Column(usize),
    /// The indicator of a column.
    Indicator(usize),
}

/// The columns of a record: an indicator follows its column where the policy lists
/// it and `has_gaps` says so.
pub fn layout(policies: &[Policy], has_gaps: impl Fn(usize) -> bool) -> Vec<Place> {
    let mut layout = Vec::with_capacity(policies.len());
    for (column, policy) in policies.iter().enumerate() {
        layout.push(Place::Column(column));
        if policy.lists() && has_gaps(column) {
            layout.push(Place::Indicator(column));
        }
    }
    layout
}

/// Their names.
pub fn names(columns: &Arc<[String]>, layout: &[Place]) -> Arc<[String]> {
    if layout.len() == columns.len() {
        return columns.clone();
    }
    let name = |place: &Place| match *place {
        Place::Column(column) => columns[column].clone(),
        Place::Indicator(column) => format!("{}{SUFFIX}", columns[column]),
    };
    layout.iter().map(name).collect()
}

/// The value nearest to the mean of those that are no NaN: a constant is left as it is.
fn nearest_present(values: &[f64]) -> Option<f64> {
    let present = || values.iter().copied().filter(|x| !x.is_nan());
    let count = present().count() as f64;
    let mean: f64 = present().map(|x| x / count).sum();
    present().reduce(|a, b| if (b - mean).abs() < (a - mean).abs() { b } else { a })
}

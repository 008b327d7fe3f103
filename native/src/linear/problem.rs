//! The linear problem on a Gram record, columns and target scaled to unit variance.
//!
//! ```text
//! C = G + diag(ridge)          F(S) = c_S' C_SS^-1 c_S
//! b = c - C_.S w(S)            gain(g | S) = b_g' (C_gg|S)^-1 b_g
//! ```
//!
//! K responses share C: c and b have a row for each, and F and gains are sums over them.
//!
//! Source: Hu, Grubb, Bagnell, Hebert (2016), eq. 1 and section 3.

use std::collections::HashMap;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use crate::kernel::gaps::{NO_SHARE, SUFFIX};
use crate::kernel::possible::{INDEFINITE, LEAST_SQUARE, fault, is_indefinite, packed};
use crate::kernel::rank_update::triangle;
use crate::linear::columns::position;
use crate::record::terms::Terms;
use crate::words::error::Error;

/// A column is constant where its deviation is below this share of its mean, the rounding of
/// the means of constant blocks; or of what rounding took from the mean, where a record knows it.
const CONSTANT_SHARE: f64 = 16.0 * f64::EPSILON;
/// The same where rounding took nothing: sums about a number beside the mean leave that share of
/// a constant, 4 times epsilon to the power of 1.5.
const SUMS_SHARE: f64 = 1.3e-23;
/// Numbers below it that vary by so little are one number, computed in several ways; whole
/// numbers and times beyond it may differ by so little indeed.
const LARGE: f64 = 1e9;
/// No type of whole numbers or decimals varies by so small a share of its mean, however much is
/// known of that: an intercept would overflow.
const LEAST_SHARE: f64 = 1e-90;
/// Rows and columns of a square of correlations that are computed together.
const SQUARE: usize = 32;
/// What else a target without a square may be, where its mean has none either.
const UNDERFLOW: &str = ", or so small that its squares, times the weights, underflow; multiply it, \
                         or all weights (which leaves the fit as it is), by a power of ten";

/// The numbers of a sound Gram record of d columns.
#[derive(Clone, Copy, Debug)]
pub struct Gram<'r> {
    /// Rows used.
    pub rows: i64,
    /// Rows left out.
    pub skipped: i64,
    /// Sum of the row weights.
    pub weight: f64,
    /// Weighted means, of length d.
    pub mean: &'r [f64],
    /// What rounding took from the means; of length d, or empty.
    pub mean_low: &'r [f64],
    /// Sums of w (x - mean)(x - mean)', lower triangle, row by row.
    pub comoment: &'r [f64],
    /// Rows in which each column is missing; of length d, or empty.
    pub missing: &'r [i64],
}

impl Gram<'_> {
    /// Mean of a column.
    pub fn mean(&self, column: usize) -> f64 {
        self.mean[column] + self.mean_low.get(column).copied().unwrap_or(0.0)
    }

    /// Comoment of two columns.
    pub fn comoment(&self, a: usize, b: usize) -> f64 {
        self.comoment[triangle(a.max(b)) + a.min(b)]
    }

    /// Sum of the weighted products of two columns, about 0.
    fn raw(&self, a: usize, b: usize) -> f64 {
        self.comoment(a, b) + self.weight * self.mean(a) * self.mean(b)
    }

    /// Whether the numbers can be those of rows; their lengths are known to fit.
    pub fn is_sound(&self) -> bool {
        let Gram { rows, skipped, weight, .. } = *self;
        let counts = rows >= 0 && skipped >= 0 && weight >= 0.0 && weight.is_finite();
        let mut lists = [self.mean, self.comoment, self.mean_low].into_iter();
        counts
            && (rows > 0) == (weight > 0.0)
            && lists.all(|list| list.iter().all(|x| x.is_finite()))
            && (0..self.mean.len()).all(|j| self.comoment(j, j) >= 0.0)
            && fault(rows as u64, weight, self.mean, self.mean_low, packed(self.comoment)).is_none()
    }

    /// Whether a column may have no square because its values, or the weights, are so small.
    fn may_underflow(&self, column: usize) -> bool {
        let mean = self.mean(column).abs();
        let length = mean * self.weight.sqrt();
        0.0 < length && length < (LEAST_SQUARE * self.rows as f64).sqrt()
    }

    /// Standard deviation of a column.
    fn deviation(&self, column: usize) -> f64 {
        (self.comoment(column, column) / self.weight).sqrt()
    }

    /// Whether a column is constant but for rounding. Large integers and timestamps may vary by less
    /// than the rounding of their mean: where a record knows what that took, its sums are
    /// around both.
    pub fn is_constant(&self, column: usize) -> bool {
        let mean = self.mean[column].abs();
        let low = self.mean_low.get(column).copied().unwrap_or_default().abs();
        let least = match mean < LARGE {
            true => CONSTANT_SHARE * mean,
            false if low == 0.0 => SUMS_SHARE * mean,
            false => CONSTANT_SHARE * low,
        };
        self.deviation(column) <= least.max(LEAST_SHARE * mean)
    }
}

/// A record for models through the origin: raw moments, and means of 0.
///
/// Means of 0 leave an intercept of 0, so that a search needs no option for it.
#[derive(Clone, Debug, Default)]
pub struct Raw {
    mean: Vec<f64>,
    comoment: Vec<f64>,
}

impl Raw {
    /// The record of the same rows; the error says that its moments are beyond doubles.
    pub fn of<'r>(&'r mut self, gram: &Gram) -> Result<Gram<'r>, String> {
        self.mean.clear();
        self.mean.resize(gram.mean.len(), 0.0);
        self.comoment.clear();
        for a in 0..gram.mean.len() {
            self.comoment.extend((0..=a).map(|b| gram.raw(a, b)));
        }
        if self.comoment.iter().all(|entry| entry.is_finite()) {
            let Raw { mean, comoment } = self;
            return Ok(Gram { mean, mean_low: &[], comoment, missing: &[], ..*gram });
        }
        Err("gram record has a value in 'comoment' that is not finite".to_string())
    }
}

/// The column to predict, among those of a record.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// Its number; nothing of a level of a category that no row has.
    at: Option<usize>,
    /// The number of its indicator of missing values, if there is one.
    mark: Option<usize>,
    /// Whether it is its mean where it is missing.
    is_filled: bool,
}

impl Target {
    /// The column of a number, which may have any name.
    pub fn at(name: &str, at: usize) -> Target {
        Target { name: name.to_string(), at: Some(at), mark: None, is_filled: false }
    }

    /// Find a target; the error says that there is no such column.
    ///
    /// A level that these rows have not is one that those of another segment may have.
    pub fn of(name: &str, columns: &[String], terms: &Terms) -> Result<Target, Error> {
        let at = match position(name, columns, "target") {
            Err(_) if terms.may_have_level(name) => None,
            found => Some(found?),
        };
        let mark = format!("{name}{SUFFIX}");
        let mark = columns.iter().position(|column| *column == mark);
        let is_filled = terms.means.contains_key(name);
        Ok(Target { name: name.to_string(), at, mark, is_filled })
    }

    /// Why no sequence can be computed from a record, whichever its groups.
    pub fn reason(&self, gram: &Gram) -> Option<String> {
        let indefinite = || is_indefinite(gram.comoment).then(|| INDEFINITE.to_string());
        self.usable(gram, true).err().or_else(indefinite)
    }

    /// The number of the target in a record, or why no sequence can be computed from that.
    ///
    /// Through the origin, a model of no column explains nothing of a target of one value.
    pub fn usable(&self, gram: &Gram, intercept: bool) -> Result<usize, String> {
        let Target { name, at, mark, is_filled } = self;
        if gram.rows == 0 {
            return Err(format!("no usable rows: {} rows were skipped", gram.skipped));
        }
        let Some(at) = *at else {
            return Err(format!(
                "target '{name}' is a level that no row has ({})",
                rows_told(gram)
            ));
        };
        if mark.is_some_and(|mark| gram.mean(mark) > NO_SHARE) {
            return Err(format!(
                "target '{name}' is 0 in rows where it is missing; give it null_policy 'skip'"
            ));
        }
        let filled = gram.missing.get(at).copied().filter(|&rows| *is_filled && rows > 0);
        if let Some(rows) = filled {
            return Err(format!(
                "target '{name}' is its mean in {rows} rows where it is missing; give it \
                 null_policy 'skip', or leave these rows out"
            ));
        }
        let has_nothing = if intercept { gram.is_constant(at) } else { gram.raw(at, at) == 0.0 };
        if has_nothing {
            let or = if gram.may_underflow(at) { UNDERFLOW } else { "" };
            return Err(format!("target '{name}' is constant ({}){or}", rows_told(gram)));
        }
        Ok(at)
    }
}

/// The rows used, and those left out if there are any, in words.
fn rows_told(gram: &Gram) -> String {
    let left_out =
        if gram.skipped == 0 { String::new() } else { format!(", {} skipped", gram.skipped) };
    format!("{} rows{left_out}", gram.rows)
}

/// Correlations that lie elsewhere, of the columns of a problem.
pub trait Rows: Debug + Send + Sync {
    /// Write those of some columns with all columns, row by row.
    fn read(&self, columns: &[usize], rows: &mut [f64]);

    /// Append those of the columns of a group among themselves, row by row.
    fn append_block(&self, columns: Range<usize>, blocks: &mut Vec<f64>);

    /// That of a column with itself: its variance.
    fn variance(&self, column: usize) -> f64;
}

/// The problem of explaining a target by D columns: everything that does not change.
#[derive(Clone, Debug, Default)]
pub struct Linear {
    /// Correlations, row by row; a constant column has a row of zeros. Empty where they lie
    /// elsewhere.
    pub correlations: Vec<f64>,
    /// Where they lie, if not here.
    pub rows: Option<Arc<dyn Rows>>,
    /// Correlations with the target; of K responses K rows, each times the root of its share.
    pub target: Vec<f64>,
    /// Added to the diagonal.
    pub ridge: Vec<f64>,
    /// Variances by which rounding is judged, where they are not those of the columns.
    pub scale: Vec<f64>,
    /// What a step of 1 is in the units that the caller compares columns in.
    pub unit: Vec<f64>,
    /// Standard deviation of each column, 1 for constant ones.
    pub spread: Vec<f64>,
    /// Whether a column is constant.
    pub constant: Vec<bool>,
    /// Mean of each column.
    pub mean: Vec<f64>,
    /// Of each column the first that is the same, as in another group; empty where all differ.
    ///
    /// The same with its ridge: one that is selected leaves nothing of the others, which then
    /// take no part, as if there were one.
    pub same: Vec<usize>,
    /// Mean of the target.
    pub target_mean: f64,
    /// Standard deviation of the target.
    pub target_spread: f64,
}

impl Linear {
    /// D, the number of columns.
    pub fn width(&self) -> usize {
        self.ridge.len()
    }

    /// K, the number of responses.
    pub fn responses(&self) -> usize {
        self.target.len().checked_div(self.width()).unwrap_or(1)
    }

    /// The correlations of a column with all others, of a problem that has them.
    pub fn row(&self, column: usize) -> &[f64] {
        &self.correlations[column * self.width()..(column + 1) * self.width()]
    }

    /// Append the rows of C of some columns.
    pub fn append_rows(&self, columns: &[usize], rows: &mut Vec<f64>) {
        let (width, start) = (self.width(), rows.len());
        match &self.rows {
            None => columns.iter().for_each(|&column| rows.extend_from_slice(self.row(column))),
            Some(elsewhere) => {
                rows.resize(start + columns.len() * width, 0.0);
                elsewhere.read(columns, &mut rows[start..]);
            }
        }
        for (row, &column) in rows[start..].chunks_exact_mut(width.max(1)).zip(columns) {
            match self.same.get(column) {
                None => row[column] += self.ridge[column],
                Some(first) => {
                    let both = row.iter_mut().zip(&self.same);
                    both.filter(|(_, other)| *other == first)
                        .for_each(|(entry, _)| *entry += self.ridge[column]);
                }
            }
        }
    }

    /// C of some columns, row by row.
    pub fn covariance(&self, columns: &[usize]) -> Vec<f64> {
        let (mut row, mut covariance) = (Vec::new(), Vec::new());
        for &column in columns {
            row.clear();
            self.append_rows(&[column], &mut row);
            covariance.extend(columns.iter().map(|&other| row[other]));
        }
        covariance
    }

    /// Append the correlations of the columns of a group.
    pub fn append_correlations(&self, columns: Range<usize>, blocks: &mut Vec<f64>) {
        match &self.rows {
            None => {
                let rows = columns.clone().map(|j| &self.row(j)[columns.clone()]);
                rows.for_each(|row| blocks.extend_from_slice(row));
            }
            Some(elsewhere) => elsewhere.append_block(columns, blocks),
        }
    }

    /// Append the block of C of the columns of a group.
    pub fn append_block(&self, columns: Range<usize>, blocks: &mut Vec<f64>) {
        let start = blocks.len();
        self.append_correlations(columns.clone(), blocks);
        let diagonal = blocks[start..].iter_mut().step_by(columns.len() + 1);
        diagonal.zip(&self.ridge[columns]).for_each(|(entry, ridge)| *entry += ridge);
    }

    /// Diagonal entry of C.
    pub fn variance(&self, column: usize) -> f64 {
        let own = match &self.rows {
            None => self.correlations[column * (self.width() + 1)],
            Some(elsewhere) => elsewhere.variance(column),
        };
        own + self.ridge[column]
    }

    /// The variance by which rounding of a column is judged.
    pub fn scale(&self, column: usize) -> f64 {
        self.scale.get(column).copied().unwrap_or_else(|| self.variance(column))
    }

    /// Its root, 1 where that is 0.
    pub fn deviation(&self, column: usize) -> f64 {
        let variance = self.scale(column);
        if variance > 0.0 { variance.sqrt() } else { 1.0 }
    }

    /// Set up the problem of a target and some columns, given by their numbers in a record.
    ///
    /// `ridge` is on columns of unit variance, with `scale` false on the columns as they are. A
    /// column that comes twice is the same.
    pub fn set_up(&mut self, gram: &Gram, target: usize, at: &[usize], ridge: f64, scale: bool) {
        let root = gram.weight.sqrt();
        self.target_mean = gram.mean(target);
        self.target_spread = gram.deviation(target);
        self.clear();
        for &column in at {
            let (mean, deviation) = (gram.mean(column), gram.deviation(column));
            let constant = gram.is_constant(column);
            let spread = if constant { 1.0 } else { deviation };
            let unit = if scale { 1.0 } else { spread };
            self.mean.push(mean);
            self.constant.push(constant);
            self.spread.push(spread);
            self.unit.push(unit);
            self.ridge.push(ridge / (unit * unit));
        }
        let of_column = |(spread, constant): (&f64, &bool)| {
            if *constant { 0.0 } else { 1.0 / (spread * root) }
        };
        let inverses: Vec<f64> = self.spread.iter().zip(&self.constant).map(of_column).collect();
        let width = at.len();
        self.correlations.resize(width * width, 0.0);
        // In squares, whose transposes stay in the first cache.
        for (top, left) in
            (0..width).step_by(SQUARE).flat_map(|i| (0..=i).step_by(SQUARE).map(move |j| (i, j)))
        {
            for i in top..(top + SQUARE).min(width) {
                for j in left..(left + SQUARE).min(i) {
                    let entry = gram.comoment(at[i], at[j]) * inverses[j] * inverses[i];
                    self.correlations[i * width + j] = entry;
                    self.correlations[j * width + i] = entry;
                }
            }
        }
        for (i, (&a, own)) in at.iter().zip(&inverses).enumerate() {
            self.correlations[i * width + i] = f64::from(!self.constant[i]);
            self.target.push(gram.comoment(a, target) * own / (self.target_spread * root));
        }
        first_of_same(at, &mut self.same);
    }

    fn clear(&mut self) {
        self.rows = None;
        self.constant.clear();
        let vectors = [
            &mut self.correlations,
            &mut self.target,
            &mut self.ridge,
            &mut self.unit,
            &mut self.spread,
            &mut self.mean,
        ];
        vectors.into_iter().for_each(Vec::clear);
    }
}

/// Write the place of the first of the same among some numbers; nothing where all differ.
pub fn first_of_same(numbers: &[usize], same: &mut Vec<usize>) {
    same.clear();
    if numbers.is_sorted_by(|a, b| a < b) {
        return;
    }
    let mut first = HashMap::with_capacity(numbers.len());
    same.extend(numbers.iter().enumerate().map(|(at, number)| *first.entry(number).or_insert(at)));
    if first.len() == numbers.len() {
        same.clear();
    }
}

//! The Gram record: column names and their moments, checked on the way in.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::kernel::block::ROWS_AHEAD;
use crate::kernel::gaps::SUFFIX;
use crate::kernel::moments::{Left, Mean, Moments};
use crate::kernel::possible::{fault, packed};
use crate::kernel::rank_update::triangle;
use crate::record::fills::Joint;
use crate::record::terms::{self, Terms};

/// Fields of the record, in order, as every host names them.
pub const FIELDS: [&str; 9] =
    ["columns", "rows", "skipped", "missing", "weight", "mean", "mean_low", "comoment", "terms"];
/// Those that a record may have NULL in: nothing is known to be missing, to have been lost by
/// rounding, or to have been made of something else.
pub const OPTIONAL: [&str; 3] = ["missing", "mean_low", "terms"];

/// Rows that a record can count; two counts of so many fit 64 bits.
const MOST_ROWS: u64 = i64::MAX as u64;

/// Column names, shared by all groups of one query.
pub type Names = Arc<[String]>;

/// The statistics of one group of rows.
#[derive(Clone, Debug)]
pub struct Record {
    /// One name a column, in the order of the moments.
    pub columns: Names,
    /// Count, mean and comoment.
    pub moments: Moments,
    /// Rows in which each column is missing, also those left out.
    pub missing: Vec<u64>,
    /// How the columns of the table became these.
    pub terms: Arc<Terms>,
}

/// What a host writes as a record.
pub trait Recorded {
    /// One name a column.
    fn columns(&self) -> &Names;
    /// How the columns of the table became these.
    fn terms(&self) -> &Arc<Terms>;
    /// Rows in which each column is missing; empty if none is.
    fn missing(&self) -> &[u64];
    /// Show the moments.
    fn with_moments<T>(&mut self, show: impl FnOnce(&Moments) -> T) -> T;
    /// Ask for its memory, where that lies apart.
    fn expect(&self) {}
    /// Ask for the memory of its moments, once its own is there.
    fn expect_moments(&self) {}
}

/// Ask for the memory of the records some places after one.
pub fn expect_ahead<R: Recorded>(records: &[Option<R>], at: usize) {
    let ahead = |places: usize| records.get(at + places).into_iter().flatten();
    ahead(2 * ROWS_AHEAD).for_each(Recorded::expect);
    ahead(ROWS_AHEAD).for_each(Recorded::expect_moments);
}

impl Recorded for Record {
    fn columns(&self) -> &Names {
        &self.columns
    }

    fn terms(&self) -> &Arc<Terms> {
        &self.terms
    }

    fn missing(&self) -> &[u64] {
        &self.missing
    }

    fn with_moments<T>(&mut self, show: impl FnOnce(&Moments) -> T) -> T {
        show(&self.moments)
    }
}

/// A record as a host hands it over, not yet trusted.
#[derive(Default)]
pub struct RawRecord {
    /// Column names.
    pub columns: Vec<String>,
    /// Rows used.
    pub rows: i64,
    /// Rows left out.
    pub skipped: i64,
    /// Rows in which each column is missing; none where the host does not know.
    pub missing: Option<Vec<i64>>,
    /// Sum of the row weights.
    pub weight: f64,
    /// Weighted means.
    pub mean: Vec<f64>,
    /// What rounding took from them; none where the host does not know.
    pub mean_low: Option<Vec<f64>>,
    /// Lower triangle, row by row.
    pub comoment: Vec<f64>,
    /// JSON, or nothing.
    pub terms: Option<String>,
}

impl RawRecord {
    /// Check lengths and values; the error names the field that is wrong.
    pub fn check(self) -> Result<Record, String> {
        let width = self.columns.len();
        let missing = self.missing.unwrap_or_else(|| vec![0; width]);
        let mean_low = self.mean_low.unwrap_or_else(|| vec![0.0; width]);
        let lengths = [
            ("missing", missing.len(), width),
            ("mean", self.mean.len(), width),
            ("mean_low", mean_low.len(), width),
            ("comoment", self.comoment.len(), triangle(width)),
        ];
        for (field, found, expected) in lengths {
            if found != expected {
                return Err(format!(
                    "gram record has {found} values in '{field}'; {width} columns need {expected}"
                ));
            }
        }
        let counts = [("rows", self.rows), ("skipped", self.skipped)].into_iter();
        for (field, count) in counts.chain(missing.iter().map(|&count| ("missing", count))) {
            if count < 0 {
                return Err(format!("gram record has {count} in '{field}'; it must be >= 0"));
            }
        }
        if !(self.weight >= 0.0 && self.weight.is_finite()) {
            return Err(format!(
                "gram record has {} in 'weight'; it must be finite and >= 0",
                self.weight
            ));
        }
        if (self.rows > 0) != (self.weight > 0.0) {
            return Err(format!(
                "gram record has {} rows of total weight {}; both must be 0 or neither",
                self.rows, self.weight
            ));
        }
        let columns = distinct(self.columns)?;
        let lists = [("mean", &self.mean), ("mean_low", &mean_low), ("comoment", &self.comoment)];
        for (field, values) in lists {
            if let Some(value) = values.iter().find(|value| !value.is_finite()) {
                return Err(format!("gram record has {value} in '{field}'; values must be finite"));
            }
        }
        for (j, name) in columns.iter().enumerate() {
            let variance = self.comoment[triangle(j) + j];
            if variance < 0.0 {
                return Err(format!(
                    "gram record has {variance} on the diagonal of 'comoment' for column \
                     '{name}'; it must be >= 0"
                ));
            }
        }
        let (mean, comoment) = (&self.mean, packed(&self.comoment));
        if let Some(fault) = fault(self.rows as u64, self.weight, mean, &mean_low, comoment) {
            return Err(fault.told(&columns, comoment));
        }
        let (rows, skipped) = (self.rows as u64, self.skipped as u64);
        let mean = Mean { high: self.mean, low: mean_low };
        Ok(Record {
            columns,
            moments: Moments::from_parts(rows, skipped, self.weight, mean, self.comoment),
            missing: missing.into_iter().map(|count| count as u64).collect(),
            terms: terms::read(self.terms.as_deref())
                .map_err(|error| format!("gram record has {error}"))?,
        })
    }
}

thread_local! {
    /// The names of the record that was read last: a column of records has few lists of them.
    static LAST: RefCell<Names> = RefCell::new(Arc::new([]));
}

/// Names to share, which no two columns have.
fn distinct(columns: Vec<String>) -> Result<Names, String> {
    LAST.with_borrow_mut(|last| {
        if last[..] != columns[..] {
            let mut names = HashSet::new();
            if let Some(name) = columns.iter().find(|name| !names.insert(*name)) {
                return Err(format!("gram record has column '{name}' twice"));
            }
            *last = columns.into();
        }
        Ok(last.clone())
    })
}

impl Record {
    /// Add the rows of another record, with the columns of both.
    pub fn merge(&mut self, other: &Record) -> Result<(), String> {
        let other = self.align(other)?;
        let counts = [
            (self.moments.rows, other.moments.rows),
            (self.moments.skipped, other.moments.skipped),
        ];
        let missing = self.missing.iter().copied().zip(other.missing.iter().copied());
        if counts.into_iter().chain(missing).any(|(count, more)| count + more > MOST_ROWS) {
            return Err(format!("cannot merge records of more than {MOST_ROWS} rows"));
        }
        self.moments.merge(&other.moments);
        self.missing.iter_mut().zip(&other.missing).for_each(|(count, more)| *count += more);
        check_overflow(&self.columns, &self.moments)
    }

    /// Whether another record has the same columns, terms and moments, to the last digit.
    pub fn is(&self, other: &Record) -> bool {
        let (own, others) = (&self.moments, &other.moments);
        let mean = |moments: &Moments| {
            let Mean { high, low } = moments.exact_mean();
            (high, low)
        };
        (own.rows, own.weight) == (others.rows, others.weight)
            && self.columns == other.columns
            && own.comoment == others.comoment
            && mean(own) == mean(others)
            && self.terms == other.terms
    }

    /// Take away the rows of a record that is a part of this one.
    pub fn remove(&mut self, other: &Record) -> Result<(), String> {
        let other = self.align(other)?;
        if let Some(&column) = self.moments.remove(&other.moments)?.first() {
            return Err(Left::told(&self.columns[column]));
        }
        let counts = self.missing.iter_mut().zip(&other.missing);
        counts.for_each(|(count, less)| *count = count.saturating_sub(*less));
        check_overflow(&self.columns, &self.moments)
    }

    /// The record with its columns in another order.
    pub fn arranged(&self, order: &[usize]) -> Record {
        let at: Vec<Option<usize>> = order.iter().copied().map(Some).collect();
        Record {
            columns: order.iter().map(|&j| self.columns[j].clone()).collect(),
            moments: self.moments.arranged(&at),
            missing: order.iter().map(|&j| self.missing[j]).collect(),
            terms: self.terms.clone(),
        }
    }

    /// Give both the columns of both, and the same numbers where values are missing.
    fn align<'r>(&mut self, other: &'r Record) -> Result<Cow<'r, Record>, String> {
        let same_terms = Arc::ptr_eq(&self.terms, &other.terms) || self.terms == other.terms;
        let same = Arc::ptr_eq(&self.columns, &other.columns) || self.columns == other.columns;
        let (own, others) = (self.terms.clone(), &other.terms);
        let mut aligned = Cow::Borrowed(other);
        if !(same && same_terms) {
            let (columns, terms) = terms::union(&self.columns, &own, &other.columns, others)?;
            let (columns, terms) = (Names::from(columns), Arc::new(terms));
            *self = self.spread(&columns, &terms);
            aligned = Cow::Owned(other.spread(&columns, &terms));
        }
        let fills = Joint::of(self, &aligned, &own, others);
        if own.has_fills() || others.has_fills() || fills.iter().any(Joint::moves) {
            Joint::put(&fills, self, aligned.to_mut());
        }
        Ok(aligned)
    }

    /// The record with some columns, 0 in every row where it has none.
    pub fn spread(&self, columns: &Names, terms: &Arc<Terms>) -> Record {
        let own = terms::marked(&self.columns, &self.terms, terms);
        let places: HashMap<&String, usize> =
            own.iter().enumerate().map(|(at, name)| (name, at)).collect();
        let sources = terms::sources(terms);
        let source = |name: &String| sources.get(name).cloned().unwrap_or_else(|| name.clone());
        let missing_in: HashMap<String, u64> = own
            .iter()
            .zip(&self.missing)
            .rev()
            .map(|(name, &count)| (source(name), count))
            .collect();
        let is_mark = |name: &String| {
            let marks = |column: &String| format!("{column}{SUFFIX}") == *name;
            terms.indicators.iter().any(marks)
        };
        let count = |name: &String| match places.get(name) {
            Some(&at) => self.missing[at],
            None if is_mark(name) => 0,
            None => missing_in.get(&source(name)).copied().unwrap_or_default(),
        };
        let at: Vec<Option<usize>> = columns.iter().map(|name| places.get(name).copied()).collect();
        Record {
            columns: columns.clone(),
            moments: self.moments.arranged(&at),
            missing: columns.iter().map(count).collect(),
            terms: terms.clone(),
        }
    }
}

/// Refuse moments that overflowed, naming the column.
pub fn check_overflow(columns: &[String], moments: &Moments) -> Result<(), String> {
    if moments.comoment.iter().all(|x| x.is_finite()) {
        return Ok(());
    }
    let weight = moments.weight;
    if !weight.is_finite() || !weight.recip().is_finite() {
        let size = if weight < 1.0 { "small" } else { "large" };
        return Err(format!(
            "the weights are too {size}: they add up to {weight:.1e}; multiply all by one number"
        ));
    }
    let overflowed = |j: &usize| !moments.comoment[triangle(*j) + *j].is_finite();
    let name = (0..columns.len()).find(overflowed).map_or("", |j| columns[j].as_str());
    let mean = weight / moments.rows as f64;
    if mean > 1.0 {
        return Err(format!(
            "column '{name}' and the weights, {mean:.1e} on average, are too large together: the \
             sum of weighted squares overflows a double; divide all weights by one number"
        ));
    }
    Err(format!("column '{name}' is too large: its sum of squares overflows a double"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| name.to_string()).collect()
    }

    fn raw() -> RawRecord {
        RawRecord {
            columns: names(&["x", "y"]),
            rows: 3,
            skipped: 1,
            weight: 3.0,
            mean: vec![1.0, 2.0],
            comoment: vec![2.0, 1.0, 4.0],
            ..RawRecord::default()
        }
    }

    #[test]
    fn a_sound_record_passes() {
        let record = raw().check().unwrap();
        assert_eq!((record.moments.rows, record.moments.skipped), (3, 1));
        assert_eq!(record.moments.mean(), [1.0, 2.0]);
    }

    #[test]
    fn each_fault_is_named() {
        type Fault = fn(&mut RawRecord);
        let faults: [(Fault, &str); 10] = [
            (|r| r.columns = names(&["x", "x"]), "column 'x' twice"),
            (|r| r.mean.truncate(1), "1 values in 'mean'; 2 columns need 2"),
            (|r| r.comoment.push(0.0), "4 values in 'comoment'; 2 columns need 3"),
            (|r| r.rows = -1, "-1 in 'rows'"),
            (|r| r.weight = f64::NAN, "NaN in 'weight'"),
            (|r| r.weight = 0.0, "3 rows of total weight 0"),
            (|r| r.mean[1] = f64::NAN, "NaN in 'mean'"),
            (|r| r.comoment[2] = -4.0, "for column 'y'"),
            (|r| r.mean_low = Some(vec![0.5, 0.0]), "0.5 in 'mean_low' for column 'x'"),
            (|r| r.comoment[1] = 5.0, "5 of columns 'x' and 'y'"),
        ];
        for (fault, message) in faults {
            let mut record = raw();
            fault(&mut record);
            let error = record.check().unwrap_err();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn unequal_columns_show_the_difference() {
        let error = terms::difference(&names(&["x", "y"]), &names(&["x", "z"]));
        assert!(error.contains("first: 'y'") && error.contains("second: 'z'"), "{error}");
    }

    #[test]
    fn the_order_of_columns_does_not_depend_on_which_record_is_first() {
        let none = Terms::default();
        for (one, two) in [(["x", "y"], ["y", "x"]), (["y", "x"], ["x", "y"])] {
            let (found, _) = terms::union(&names(&one), &none, &names(&two), &none).unwrap();
            assert_eq!(found, ["x", "y"]);
        }
        let (found, _) =
            terms::union(&names(&["y", "x"]), &none, &names(&["y", "x"]), &none).unwrap();
        assert_eq!(found, ["y", "x"]);
    }

    #[test]
    fn an_overflow_names_its_column() {
        let mut moments = raw().check().unwrap().moments;
        moments.comoment[2] = f64::INFINITY;
        let error = check_overflow(&raw().columns, &moments).unwrap_err();
        assert!(error.contains("'y' is too large"), "{error}");
    }
}

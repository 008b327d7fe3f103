//! The Gram record: column names and their moments, checked on the way in.

use std::collections::HashSet;
use std::sync::Arc;

use crate::kernel::triangle;
use crate::moments::Moments;

/// Fields of the record, in order, as every host names them.
pub const FIELDS: [&str; 6] = ["columns", "rows", "skipped", "weight", "mean", "comoment"];

/// Column names, shared by all groups of one query.
pub type Names = Arc<[String]>;

/// The statistics of one group of rows.
#[derive(Clone, Debug)]
pub struct Record {
    /// One name a column, in the order of the moments.
    pub columns: Names,
    /// Count, mean and comoment.
    pub moments: Moments,
}

/// A record as a host hands it over, not yet trusted.
pub struct RawRecord {
    /// Column names.
    pub columns: Names,
    /// Rows used.
    pub rows: i64,
    /// Rows left out.
    pub skipped: i64,
    /// Sum of the row weights.
    pub weight: f64,
    /// Weighted means.
    pub mean: Vec<f64>,
    /// Lower triangle, row by row.
    pub comoment: Vec<f64>,
}

impl RawRecord {
    /// Check lengths and values; the error names the field that is wrong.
    pub fn check(self) -> Result<Record, String> {
        let width = self.columns.len();
        let lengths =
            [("mean", self.mean.len(), width), ("comoment", self.comoment.len(), triangle(width))];
        for (field, found, expected) in lengths {
            if found != expected {
                return Err(format!(
                    "gram record has {found} values in '{field}'; {width} columns need {expected}"
                ));
            }
        }
        for (field, count) in [("rows", self.rows), ("skipped", self.skipped)] {
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
        let mut names = HashSet::new();
        if let Some(name) = self.columns.iter().find(|name| !names.insert(*name)) {
            return Err(format!("gram record has column '{name}' twice"));
        }
        for (field, values) in [("mean", &self.mean), ("comoment", &self.comoment)] {
            if let Some(value) = values.iter().find(|value| !value.is_finite()) {
                return Err(format!("gram record has {value} in '{field}'; values must be finite"));
            }
        }
        for (j, name) in self.columns.iter().enumerate() {
            let variance = self.comoment[triangle(j) + j];
            if variance < 0.0 {
                return Err(format!(
                    "gram record has {variance} on the diagonal of 'comoment' for column \
                     '{name}'; it must be >= 0"
                ));
            }
        }
        let (rows, skipped) = (self.rows as u64, self.skipped as u64);
        let moments = Moments::from_parts(rows, skipped, self.weight, self.mean, self.comoment);
        Ok(Record { columns: self.columns, moments })
    }
}

impl Record {
    /// Add the rows of another record of the same columns.
    pub fn merge(&mut self, other: &Record) -> Result<(), String> {
        same_columns(&self.columns, &other.columns)?;
        self.moments.merge(&other.moments);
        Ok(())
    }

    /// Take away the rows of a record that is a part of this one.
    pub fn remove(&mut self, other: &Record) -> Result<(), String> {
        same_columns(&self.columns, &other.columns)?;
        self.moments.remove(&other.moments)
    }
}

/// Refuse moments that overflowed, naming the column.
pub fn check_overflow(columns: &[String], moments: &Moments) -> Result<(), String> {
    if moments.comoment.iter().all(|x| x.is_finite()) {
        return Ok(());
    }
    let overflowed = |j: &usize| !moments.comoment[triangle(*j) + *j].is_finite();
    let name = (0..columns.len()).find(overflowed).map_or("", |j| columns[j].as_str());
    Err(format!("column '{name}' is too large: its sum of squares overflows a double"))
}

/// Equal lists, or a sentence that shows where they differ.
pub fn same_columns(a: &Names, b: &Names) -> Result<(), String> {
    if Arc::ptr_eq(a, b) || a == b {
        return Ok(());
    }
    let only = |these: &Names, those: &Names| {
        let names: Vec<String> = these
            .iter()
            .filter(|name| !those.contains(name))
            .map(|name| format!("'{name}'"))
            .collect();
        if names.is_empty() { "none".to_string() } else { names.join(", ") }
    };
    let (first, second) = (only(a, b), only(b, a));
    if first == "none" && second == "none" {
        return Err(format!(
            "gram records have the same columns in another order: [{}] and [{}]",
            a.join(", "),
            b.join(", ")
        ));
    }
    Err(format!(
        "gram records have unequal columns; only in the first: {first}; only in the second: {second}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Names {
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
        let faults: [(Fault, &str); 8] = [
            (|r| r.columns = names(&["x", "x"]), "column 'x' twice"),
            (|r| r.mean.truncate(1), "1 values in 'mean'; 2 columns need 2"),
            (|r| r.comoment.push(0.0), "4 values in 'comoment'; 2 columns need 3"),
            (|r| r.rows = -1, "-1 in 'rows'"),
            (|r| r.weight = f64::NAN, "NaN in 'weight'"),
            (|r| r.weight = 0.0, "3 rows of total weight 0"),
            (|r| r.mean[1] = f64::NAN, "NaN in 'mean'"),
            (|r| r.comoment[2] = -4.0, "for column 'y'"),
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
        let error = same_columns(&names(&["x", "y"]), &names(&["x", "z"])).unwrap_err();
        assert!(error.contains("first: 'y'") && error.contains("second: 'z'"), "{error}");
        let error = same_columns(&names(&["x", "y"]), &names(&["y", "x"])).unwrap_err();
        assert!(error.contains("another order"), "{error}");
    }

    #[test]
    fn an_overflow_names_its_column() {
        let mut moments = raw().check().unwrap().moments;
        moments.comoment[2] = f64::INFINITY;
        let error = check_overflow(&raw().columns, &moments).unwrap_err();
        assert!(error.contains("'y' is too large"), "{error}");
    }
}

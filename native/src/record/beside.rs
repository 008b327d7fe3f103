//! Columns that are constant over the rows of a record, put beside its own.
//!
//! What a table holds for a key is the same in all rows of that key: the comoments of such columns
//! are 0, within and with others. The records of all keys, extended and merged, are the record of
//! the joined rows. Source: aggregates pushed through a join, as in Schleich, Olteanu, Ciucanu
//! (2016), section 3.

use std::sync::Arc;

use super::gram::{Names, Record};
use super::terms::Terms;
use crate::kernel::moments::{Mean, Moments};
use crate::kernel::rank_update::triangle;

impl Record {
    /// The record with the columns of another, of one row, beside its own: those of a row that all
    /// of its rows have. Where that row was left out, so are all of these.
    pub fn beside(&self, row: &Record) -> Result<Record, String> {
        if let Some(name) = row.columns.iter().find(|name| self.columns.contains(name)) {
            return Err(format!(
                "the table has a column '{name}', which the record has, too; give name, a prefix \
                 for the table's columns, or choose other columns"
            ));
        }
        let (own, other) = (&self.moments, &row.moments);
        let (d, p) = (own.width(), other.width());
        let columns: Names = self.columns.iter().chain(row.columns.iter()).cloned().collect();
        let read = own.rows + own.skipped;
        let missing = row.missing.iter().map(|&count| if count > 0 { read } else { 0 });
        let missing = self.missing.iter().copied().chain(missing).collect();
        let terms = match row.terms.is_empty() {
            true => self.terms.clone(),
            false => Arc::new(together(&self.terms, &row.terms)),
        };
        let is_used = other.rows > 0;
        let mut comoment = vec![0.0; triangle(d + p)];
        let mut mean = Mean { high: vec![0.0; d + p], low: vec![0.0; d + p] };
        if is_used {
            comoment[..triangle(d)].copy_from_slice(&own.comoment);
            let (first, second) = (own.exact_mean(), other.exact_mean());
            mean.high = [first.high, second.high].concat();
            mean.low = [first.low, second.low].concat();
        }
        let (rows, skipped, weight) = match is_used {
            true => (own.rows, own.skipped, own.weight),
            false => (0, read, 0.0),
        };
        let moments = Moments::from_parts(rows, skipped, weight, mean, comoment);
        Ok(Record { columns, moments, missing, terms })
    }
}

fn together(one: &Terms, two: &Terms) -> Terms {
    let mut all = one.clone();
    all.categories.extend(two.categories.iter().cloned());
    all.bases.extend(two.bases.iter().cloned());
    all.dates.extend(two.dates.clone());
    all.means.extend(two.means.clone());
    all.indicators.extend(two.indicators.iter().cloned());
    all.flat.extend(two.flat.iter().cloned());
    all.entries.extend(two.entries.iter().cloned());
    all.computed.extend(two.computed.iter().cloned());
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::gram::RawRecord;

    fn record(name: &str, values: &[f64]) -> Record {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        RawRecord {
            columns: vec![name.to_string()],
            rows: values.len() as i64,
            weight: n,
            mean: vec![mean],
            comoment: vec![values.iter().map(|x| (x - mean).powi(2)).sum()],
            ..RawRecord::default()
        }
        .check()
        .unwrap()
    }

    #[test]
    fn merged_over_keys_it_is_the_record_of_the_joined_rows() {
        // x = 1, 3 of a key with z = 10, and x = 8 of one with z = 40.
        let mut all = record("x", &[1.0, 3.0]).beside(&record("z", &[10.0])).unwrap();
        all.merge(&record("x", &[8.0]).beside(&record("z", &[40.0])).unwrap()).unwrap();
        assert_eq!(&all.columns[..], ["x", "z"]);
        assert_eq!(all.moments.exact_mean().high, [4.0, 20.0]);
        let near = |(a, b): (&f64, f64)| (a - b).abs() < 1e-12;
        assert!(all.moments.comoment.iter().zip([26.0, 120.0, 600.0]).all(near));
    }

    #[test]
    fn a_row_that_was_left_out_leaves_all_out() {
        let nothing = RawRecord {
            columns: vec!["z".to_string()],
            skipped: 1,
            missing: Some(vec![1]),
            mean: vec![0.0],
            comoment: vec![0.0],
            ..RawRecord::default()
        };
        let found = record("x", &[1.0, 3.0]).beside(&nothing.check().unwrap()).unwrap();
        assert_eq!((found.moments.rows, found.moments.skipped), (0, 2));
        assert_eq!((found.missing, found.moments.weight), (vec![0, 2], 0.0));
        assert!(record("x", &[1.0]).beside(&record("x", &[1.0])).is_err());
    }
}

//! What stands where values are missing, where records meet or lose their indicators.

use std::collections::HashMap;
use std::sync::Arc;

use crate::kernel::gaps::{NO_SHARE, Present, SUFFIX};
use crate::record::gram::Record;
use crate::record::terms::Terms;

/// A record's columns without indicators; where one is 1, its column has its mean.
pub fn impute(record: &Record) -> Record {
    let Record { columns, moments, missing, terms } = record;
    let places: HashMap<&str, usize> =
        columns.iter().enumerate().map(|(j, name)| (name.as_str(), j)).collect();
    let (mut moments, mut terms) = (moments.clone(), Terms::clone(terms));
    let mut marks = Vec::new();
    for name in std::mem::take(&mut terms.indicators) {
        let (column, mark) = (places.get(&name[..]), places.get(&format!("{name}{SUFFIX}")[..]));
        let (Some(&column), Some(&mark)) = (column, mark) else { continue };
        if 1.0 - moments.mean_of(mark) > NO_SHARE {
            moments.impute_mean(column, mark);
        }
        terms.means.insert(name, moments.mean_of(column).into());
        marks.push(mark);
    }
    let kept: Vec<usize> = (0..columns.len()).filter(|j| !marks.contains(j)).collect();
    Record {
        columns: kept.iter().map(|&j| columns[j].clone()).collect(),
        missing: kept.iter().map(|&j| missing[j]).collect(),
        moments: moments.arranged(&kept.into_iter().map(Some).collect::<Vec<_>>()),
        terms: Arc::new(terms),
    }
}

/// What stands where a column is missing in two records, and what a record of the rows of both
/// has there.
pub struct Joint {
    column: usize,
    indicator: usize,
    here: f64,
    there: f64,
    fill: f64,
}

impl Joint {
    /// Those of two records of the same columns; `own` and `others` say what stands there now.
    pub fn of(one: &Record, two: &Record, own: &Terms, others: &Terms) -> Vec<Joint> {
        let mut found = Vec::with_capacity(one.terms.indicators.len());
        let mut from = 0;
        // Indicators follow their columns, in the order of these.
        for name in &one.terms.indicators {
            let marks = |other: &String| other.strip_suffix(SUFFIX) == Some(name);
            let Some(column) = place_of(&one.columns, from, |other| other == name) else {
                continue;
            };
            let Some(indicator) = place_of(&one.columns, column, marks) else { continue };
            from = indicator;
            let (here, there) = (own.fill(name), others.fill(name));
            let has_gaps = [one, two].iter().any(|each| each.moments.mean_of(indicator) > 0.0);
            let present = Present::of(&one.moments, column, indicator, here);
            let both = present.and(Present::of(&two.moments, column, indicator, there));
            let fill = if has_gaps { both.fill() } else { 0.0 };
            found.push(Joint { column, indicator, here, there, fill });
        }
        found
    }

    /// Whether both records have another number there, or one of them.
    pub fn moves(&self) -> bool {
        self.fill != self.here || self.fill != self.there
    }

    /// Let both records have these numbers, and their terms state them.
    pub fn put(fills: &[Joint], one: &mut Record, two: &mut Record) {
        let mut terms = Terms::clone(&one.terms);
        for joint in fills {
            let name = &one.columns[joint.column];
            terms.means.shift_remove(name);
            if joint.fill != 0.0 {
                terms.means.insert(name.clone(), joint.fill.into());
            }
            one.moments.shift(joint.column, joint.indicator, joint.fill - joint.here);
            two.moments.shift(joint.column, joint.indicator, joint.fill - joint.there);
        }
        one.terms = Arc::new(terms);
        two.terms = one.terms.clone();
    }
}

/// Where something is among columns, looked for from one of them on.
fn place_of(columns: &[String], from: usize, is: impl Fn(&String) -> bool) -> Option<usize> {
    let later = columns[from..].iter().position(&is).map(|at| from + at);
    later.or_else(|| columns[..from].iter().position(is))
}

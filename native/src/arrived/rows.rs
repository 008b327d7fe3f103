//! Rows of a table, each predicted by the pattern of the groups that it has.
//!
//! A row has a group if all fields of it are there: a NULL, a NaN and an infinite value are not,
//! unless the fit filled them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use super::predictor::{Bits, Known, MOST_PATTERNS, Predictor};
use crate::kernel::chunk::Missing;
use crate::methods::pattern::Pattern;
use crate::record::inputs::{Column, Inputs, MissingColumns, Model, Rows, Unknown};
use crate::record::prefix::{Case, placing, refused_columns};

/// Of a set and a byte that no row has had.
const NONE: u32 = u32::MAX;

/// A predictor, matched to the columns of a table.
pub struct Arrivals {
    /// What predicts.
    pub predictor: Arc<Predictor>,
    inputs: Inputs,
    /// The fields of each group, or those that the table lacks of it.
    groups: Vec<Result<Model, Vec<String>>>,
    models: HashMap<Bits, (Arc<Known>, Arc<Model>)>,
    unknown: Unknown,
}

/// Rows, predicted.
pub struct Found {
    /// The patterns that they have.
    pub patterns: Vec<Arc<Known>>,
    /// Which of these each row has.
    pub at: Vec<u32>,
    /// What is predicted for each row.
    pub values: Vec<f64>,
}

/// What rows have in common: the number of their pattern, and the group to buy next.
pub type Shared = (u32, Option<usize>);

/// What rows have in common, and what else is known of each.
pub struct Told<'f> {
    /// What they have in common.
    pub shared: Vec<Shared>,
    /// Which of that each row has.
    pub at: Cow<'f, [u32]>,
    /// What is accepted, and what buying next is worth above its cost, NaN where nothing is; empty
    /// if no row is at stake.
    pub stakes: Vec<(bool, f64)>,
}

impl Found {
    /// What rows have in common, and which of that each row has.
    ///
    /// `limits` has what the next group of each row may cost, or one for all.
    pub fn told(&self, predictor: &Predictor, limits: &[f64]) -> Told<'_> {
        let next = |at: u32, limit: f64| self.patterns[at as usize].pattern.next(limit);
        if let ([limit], None) = (limits, predictor.stake) {
            let shared = (0..self.patterns.len() as u32).map(|at| (at, next(at, *limit))).collect();
            return Told { shared, at: Cow::Borrowed(&self.at), stakes: Vec::new() };
        }
        let (mut shared, mut known, mut stakes) = (Vec::new(), HashMap::new(), Vec::new());
        let mut number = |row: usize, &at: &u32| {
            let limit = limits[row.min(limits.len() - 1)];
            let Some(stake) = predictor.stake else {
                return *known.entry((at, limit.to_bits())).or_insert_with(|| {
                    shared.push((at, next(at, limit)));
                    shared.len() as u32 - 1
                });
            };
            let (offers, value) = (&self.patterns[at as usize].offers, self.values[row]);
            let best = stake.best(offers, value, limit);
            stakes.push((stake.margin(value) > 0.0, best.map_or(f64::NAN, |(_, net)| net)));
            let group = best.map(|(group, _)| group);
            *known.entry((at, group.map_or(u64::MAX, |group| group as u64))).or_insert_with(|| {
                shared.push((at, group));
                shared.len() as u32 - 1
            })
        };
        let at = self.at.iter().enumerate().map(|(row, at)| number(row, at)).collect();
        Told { shared, at: Cow::Owned(at), stakes }
    }
}

impl Arrivals {
    /// Match a predictor to the columns of a table.
    pub fn new(
        predictor: Arc<Predictor>,
        columns: &[Column],
        case: Case,
        unknown: Unknown,
        absent: MissingColumns,
    ) -> Result<Arrivals, String> {
        let all = predictor.groups();
        let names = all.members.iter().map(String::as_str);
        let inputs = Inputs::new(names, predictor.terms.clone(), columns, placing(columns, case))?;
        if unknown == Unknown::Mean {
            inputs.check_shares()?;
        }
        let unit = |name: &String| (name.clone(), 1.0);
        let group = |at: &[usize]| {
            let coefficients: Vec<_> = all.members[at[0]..at[1]].iter().map(unit).collect();
            inputs.model(0.0, &coefficients)
        };
        let groups: Vec<_> = all.starts.windows(2).map(group).collect();
        if absent == MissingColumns::Error {
            let lacking = groups.iter().filter_map(|group| group.as_ref().err());
            refused_columns(lacking, &inputs.unread(columns))?;
        }
        Ok(Arrivals { predictor, inputs, groups, models: HashMap::new(), unknown })
    }

    /// Predict some rows; the error is that of a level that the fit has not seen.
    pub fn predict(&mut self, columns: &[Column], rows: &Rows) -> Result<Found, String> {
        let count = rows.count();
        let mut whole: Bits = vec![0u64; self.groups.len().div_ceil(64).max(1)].into();
        let mut lacking = Vec::new();
        for (group, fields) in self.groups.iter().enumerate() {
            let Ok(fields) = fields else { continue };
            whole[group / 64] |= 1 << (group % 64);
            let lacks = self.inputs.lacking(fields, columns, rows, self.unknown)?;
            if !lacks.is_empty() {
                lacking.push((group, lacks));
            }
        }
        let (keys, at) = kinds(whole, &lacking, count);
        let (mut patterns, mut models) = (Vec::new(), Vec::new());
        for key in &keys {
            let (pattern, model) = self.solved(key)?;
            patterns.push(pattern);
            models.push(model);
        }
        let values = self.inputs.values_there(&models, &at, columns, rows, self.unknown)?;
        Ok(Found { patterns, at, values })
    }

    fn solved(&mut self, key: &[u64]) -> Result<(Arc<Known>, Arc<Model>), String> {
        if let Some(known) = self.models.get(key) {
            return Ok(known.clone());
        }
        if self.models.len() >= MOST_PATTERNS {
            self.models.clear();
        }
        let known = self.predictor.pattern(key)?;
        let Pattern { intercept, coefficients, .. } = &known.pattern;
        let model = self.inputs.model(*intercept, coefficients);
        let model = model.map_err(|fields| format!("no field '{}'", fields.join("', '")))?;
        let found = (known, Arc::new(model));
        self.models.insert(key.into(), found.clone());
        Ok(found)
    }
}

/// The different sets of groups that rows have, and which of them each has; `lacking` has the
/// groups that some rows lack of `whole`, with these rows.
///
/// Eight groups at a time, a byte a row: rows of one set and one byte have one set.
fn kinds(whole: Bits, lacking: &[(usize, Missing)], count: usize) -> (Vec<Bits>, Vec<u32>) {
    let (mut keys, mut at) = (vec![whole], vec![0u32; count]);
    let mut bytes = Vec::new();
    for eight in lacking.chunks(8) {
        bytes.clear();
        bytes.resize(count.div_ceil(8), 0u64);
        for (bit, (_, lacks)) in eight.iter().enumerate() {
            lacks.spread(&mut bytes, bit);
        }
        let mut known = vec![NONE; keys.len() << 8];
        let mut found = Vec::new();
        for (some, bytes) in at.chunks_mut(8).zip(&bytes) {
            for (kind, byte) in some.iter_mut().zip(bytes.to_le_bytes()) {
                let own = &mut known[(*kind as usize) << 8 | usize::from(byte)];
                if *own == NONE {
                    *own = found.len() as u32;
                    found.push((*kind, byte));
                }
                *kind = *own;
            }
        }
        let without = |(kind, byte): (u32, u8)| {
            let mut key = keys[kind as usize].clone();
            let lost = eight.iter().enumerate().filter(|(bit, _)| byte >> bit & 1 == 1);
            lost.for_each(|(_, (group, _))| key[group / 64] &= !(1 << (group % 64)));
            key
        };
        keys = found.into_iter().map(without).collect();
    }
    (keys, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_one_set_have_one_key() {
        // Group g is lacking where bit g % 5 of the row is set, of 70 groups and 100 rows.
        let lacks = |row: usize, group: usize| row >> (group % 5) & 1 == 1;
        let mut lacking: Vec<_> = (0..70).map(|group| (group, Missing::none())).collect();
        for (group, missing) in &mut lacking {
            (0..100).filter(|&row| lacks(row, *group)).for_each(|row| missing.set(row, 100));
        }
        let (keys, at) = kinds(vec![u64::MAX, (1 << 6) - 1].into(), &lacking, 100);
        assert_eq!((keys.len(), at.len()), (32, 100));
        for (row, kind) in at.iter().enumerate() {
            let key = &keys[*kind as usize];
            let has = |group: usize| key[group / 64] >> (group % 64) & 1 == 1;
            assert!((0..70).all(|group| has(group) != lacks(row, group)));
        }
    }
}

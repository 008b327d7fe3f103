//! Rows of a table, each predicted by the pattern of the groups that it has.
//!
//! A row has a group if all fields of it are there: a NULL, a NaN and an infinite value are not,
//! unless the fit filled them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use super::predictor::{Bits, MOST_PATTERNS, Predictor};
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
    models: HashMap<Bits, (Arc<Pattern>, Arc<Model>)>,
    unknown: Unknown,
}

/// Rows, predicted.
pub struct Found {
    /// The patterns that they have.
    pub patterns: Vec<Arc<Pattern>>,
    /// Which of these each row has.
    pub at: Vec<u32>,
    /// What is predicted for each row.
    pub values: Vec<f64>,
}

/// What rows have in common: the number of their pattern, and the group to buy next.
pub type Shared = (u32, Option<usize>);

impl Found {
    /// What rows have in common, and which of that each row has.
    ///
    /// `limits` has what the next group of each row may cost, or one for all.
    pub fn shared(&self, limits: &[f64]) -> (Vec<Shared>, Cow<'_, [u32]>) {
        let next = |at: u32, limit: f64| self.patterns[at as usize].next(limit);
        if let [limit] = *limits {
            let all = (0..self.patterns.len() as u32).map(|at| (at, next(at, limit))).collect();
            return (all, Cow::Borrowed(&self.at));
        }
        let (mut all, mut known) = (Vec::new(), HashMap::new());
        let number = |(&at, &limit): (&u32, &f64)| {
            *known.entry((at, limit.to_bits())).or_insert_with(|| {
                all.push((at, next(at, limit)));
                all.len() as u32 - 1
            })
        };
        let numbers: Vec<u32> = self.at.iter().zip(limits).map(number).collect();
        (all, Cow::Owned(numbers))
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
            refused_columns(groups.iter().filter_map(|group| group.as_ref().err()), columns)?;
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

    fn solved(&mut self, key: &[u64]) -> Result<(Arc<Pattern>, Arc<Model>), String> {
        if let Some(known) = self.models.get(key) {
            return Ok(known.clone());
        }
        if self.models.len() >= MOST_PATTERNS {
            self.models.clear();
        }
        let pattern = self.predictor.pattern(key)?;
        let model = self.inputs.model(pattern.intercept, &pattern.coefficients);
        let model = model.map_err(|fields| format!("no field '{}'", fields.join("', '")))?;
        let found = (pattern, Arc::new(model));
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

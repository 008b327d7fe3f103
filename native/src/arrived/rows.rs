//! Rows of a table, each predicted by the pattern of the groups that it has.
//!
//! A row has a group if all fields of it are there: a NULL, a NaN and an infinite value are not,
//! unless the fit filled them.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use super::pattern::Pattern;
use super::predictor::{Bits, MOST_PATTERNS, Predictor};
use crate::record::inputs::{Column, Inputs, MissingColumns, Model, Rows, Unknown};
use crate::record::prefix::{Case, placing, refused_columns};

/// Slots of the keys that rows have in turn, and an odd number that mixes their bits.
const SLOTS: usize = 256;
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

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
    pub fn shared(&self, costs: &[f64], limits: &[f64]) -> (Vec<Shared>, Vec<u32>) {
        let next = |at: u32, limit: f64| self.patterns[at as usize].next(costs, limit);
        if let [limit] = *limits {
            let all = (0..self.patterns.len() as u32).map(|at| (at, next(at, limit))).collect();
            return (all, self.at.clone());
        }
        let (mut all, mut known) = (Vec::new(), HashMap::new());
        let number = |(&at, &limit): (&u32, &f64)| {
            *known.entry((at, limit.to_bits())).or_insert_with(|| {
                all.push((at, next(at, limit)));
                all.len() as u32 - 1
            })
        };
        let numbers = self.at.iter().zip(limits).map(number).collect();
        (all, numbers)
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
        let (count, words) = (rows.count(), self.groups.len().div_ceil(64).max(1));
        let mut whole = vec![0u64; words];
        let mut lacking = Vec::new();
        for (group, fields) in self.groups.iter().enumerate() {
            let Ok(fields) = fields else { continue };
            whole[group / 64] |= 1 << (group % 64);
            let lacks = self.inputs.lacking(fields, columns, rows, self.unknown)?;
            if !lacks.is_empty() {
                lacking.push((group, lacks));
            }
        }
        let (keys, at) = match lacking.is_empty() {
            true => (whole, vec![0; count]),
            false => {
                let mut keys = whole.repeat(count);
                for (group, lacks) in &lacking {
                    let (word, bit) = (group / 64, 1 << (group % 64));
                    lacks.rows().for_each(|row| keys[row * words + word] &= !bit);
                }
                if words == 1 {
                    kinds(keys.iter().copied(), mixed)
                } else {
                    let mix = |key: &[u64]| key.iter().fold(0, |all, word| mixed(all ^ word));
                    let (keys, at) = kinds(keys.chunks_exact(words), mix);
                    (keys.concat(), at)
                }
            }
        };
        let (mut patterns, mut models) = (Vec::new(), Vec::new());
        for key in keys.chunks_exact(words) {
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

fn mixed(word: u64) -> u64 {
    word.wrapping_mul(MIX).rotate_left(32)
}

/// The different keys, as they come first, and which of them each is.
fn kinds<K: Copy + Eq + Hash>(
    keys: impl Iterator<Item = K>,
    mix: impl Fn(K) -> u64,
) -> (Vec<K>, Vec<u32>) {
    let (mut firsts, mut known) = (Vec::new(), HashMap::new());
    // Slots of keys by a hash; a key that finds another there is looked up.
    let mut slots: [Option<(K, u32)>; SLOTS] = [None; SLOTS];
    let number = |key: K| {
        let slot = &mut slots[mix(key) as usize % SLOTS];
        if let Some((_, kind)) = slot.filter(|(own, _)| *own == key) {
            return kind;
        }
        let kind = *known.entry(key).or_insert_with(|| {
            firsts.push(key);
            firsts.len() as u32 - 1
        });
        *slot = Some((key, kind));
        kind
    };
    let found = keys.map(number).collect();
    (firsts, found)
}

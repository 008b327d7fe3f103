//! Rows of a table, each predicted by the pattern of the groups that it has.
//!
//! A row has a group if all fields of it are there: a NULL, a NaN and an infinite value are not,
//! unless the fit filled them.

use std::collections::HashMap;
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
    models: HashMap<Bits, (Arc<Pattern>, Model)>,
    unknown: Unknown,
}

/// Rows of one pattern.
pub struct Alike {
    /// Their pattern.
    pub pattern: Arc<Pattern>,
    /// Which they are among those asked for, ascending.
    pub at: Vec<usize>,
    /// What is predicted for each.
    pub values: Vec<f64>,
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
    pub fn predict(&mut self, columns: &[Column], rows: &Rows) -> Result<Vec<Alike>, String> {
        let (count, words) = (rows.count(), self.groups.len().div_ceil(64));
        let mut keys = vec![0u64; count * words];
        let mut lacks = vec![false; count];
        for (group, fields) in self.groups.iter().enumerate() {
            let Ok(fields) = fields else { continue };
            lacks.fill(false);
            self.inputs.mark_lacking(fields, columns, rows, self.unknown, &mut lacks)?;
            let own = keys.iter_mut().skip(group / 64).step_by(words);
            own.zip(&lacks).for_each(|(key, lacks)| *key |= u64::from(!lacks) << (group % 64));
        }
        let key = |at: usize| &keys[at * words..(at + 1) * words];
        let (kind_of, firsts) = kinds(&keys, words);
        // Rows by their kind, in their order.
        let mut ends = vec![0; firsts.len() + 1];
        kind_of.iter().for_each(|&kind| ends[kind as usize + 1] += 1);
        (1..ends.len()).for_each(|kind| ends[kind] += ends[kind - 1]);
        let (starts, mut next) = (ends.clone(), ends);
        let mut order = vec![0; count];
        for (at, &kind) in kind_of.iter().enumerate() {
            order[next[kind as usize]] = at;
            next[kind as usize] += 1;
        }
        let alike = firsts.iter().zip(starts.windows(2));
        alike
            .map(|(&first, ends)| self.alike(columns, rows, key(first), &order[ends[0]..ends[1]]))
            .collect()
    }

    fn alike(
        &mut self,
        columns: &[Column],
        rows: &Rows,
        key: &[u64],
        at: &[usize],
    ) -> Result<Alike, String> {
        if !self.models.contains_key(key) {
            if self.models.len() >= MOST_PATTERNS {
                self.models.clear();
            }
            let pattern = self.predictor.pattern(key)?;
            let model = self.inputs.model(pattern.intercept, &pattern.coefficients);
            let model = model.map_err(|fields| format!("no field '{}'", fields.join("', '")))?;
            self.models.insert(key.into(), (pattern, model));
        }
        let (pattern, model) = &self.models[key];
        let these: Vec<usize>;
        if let Rows::All(count) = rows
            && at.len() == *count
        {
            // Column by column, as none is left for a look of its own but for what was filled.
            let (values, left) = self.inputs.values(model, columns, rows, self.unknown);
            if !left.contains(&true) {
                return Ok(Alike { pattern: pattern.clone(), at: at.to_vec(), values });
            }
        }
        let which = match rows {
            Rows::All(_) => at,
            Rows::These(rows) => {
                these = at.iter().map(|&at| rows[at]).collect();
                &these
            }
        };
        let values = self.inputs.values_there(model, columns, which, self.unknown)?;
        Ok(Alike { pattern: pattern.clone(), at: at.to_vec(), values })
    }
}

/// Which kind each key is of, and where each kind comes first.
fn kinds(keys: &[u64], words: usize) -> (Vec<u32>, Vec<usize>) {
    let (mut known, mut firsts) = (HashMap::new(), Vec::new());
    let mut found: Vec<u32> = Vec::with_capacity(keys.len() / words.max(1));
    // Slots of keys by a hash; a key that finds another there is looked up.
    let mut slots: [(&[u64], u32); SLOTS] = [(&[], 0); SLOTS];
    for (at, key) in keys.chunks_exact(words.max(1)).enumerate() {
        let mixed = key.iter().fold(0u64, |mixed, word| (mixed ^ word).wrapping_mul(MIX));
        let slot = &mut slots[(mixed >> 56) as usize % SLOTS];
        if slot.0 != key {
            let kind = *known.entry(key).or_insert_with(|| {
                firsts.push(at);
                firsts.len() as u32 - 1
            });
            *slot = (key, kind);
        }
        found.push(slot.1);
    }
    (found, firsts)
}

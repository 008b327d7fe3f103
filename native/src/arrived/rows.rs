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
        let inputs =
            Inputs::new(names, predictor.terms.clone(), columns, placing(columns, case))?;
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
        let mut order: Vec<usize> = (0..count).collect();
        if (1..count).any(|at| key(at) != key(0)) {
            order.sort_unstable_by(|&a, &b| key(a).cmp(key(b)).then(a.cmp(&b)));
        }
        let alike = order.chunk_by(|&a, &b| key(a) == key(b));
        alike.map(|at| self.alike(columns, rows, key(at[0]), at)).collect()
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
        let which = match rows {
            Rows::All(count) if at.len() == *count => Rows::All(*count),
            _ => {
                these = at.iter().map(|&at| rows.at(at)).collect();
                Rows::These(&these)
            }
        };
        let (mut values, left) = self.inputs.values(model, columns, &which, self.unknown);
        for (own, _) in left.iter().enumerate().filter(|(_, left)| **left) {
            let value = self.inputs.value(model, columns, which.at(own), self.unknown)?;
            values[own] = value.unwrap_or(f64::NAN);
        }
        Ok(Alike { pattern: pattern.clone(), at: at.to_vec(), values })
    }
}

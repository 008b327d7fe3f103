//! What is planned once for all records of equal columns.

use std::collections::{HashMap, HashSet};

use super::records::Columns;
use crate::search::error::Error;
use crate::terms::{self, Terms};

/// The columns of a record, and its terms as it has them.
type Key = (Vec<String>, Option<String>);

/// The plans made so far, by the columns and terms they are for.
pub struct Plans<P> {
    /// No plan where columns are no list of different names, or terms are none.
    plans: Vec<(Key, Option<P>)>,
    numbers: HashMap<Key, usize>,
    last: usize,
}

impl<P> Default for Plans<P> {
    fn default() -> Self {
        Plans { plans: Vec::new(), numbers: HashMap::new(), last: 0 }
    }
}

impl<P> Plans<P> {
    /// The plan of a record; nothing if its columns or terms are those of none.
    pub fn of(
        &mut self,
        columns: &Columns,
        row: usize,
        plan: &impl Fn(&[String], &Terms) -> Result<P, Error>,
    ) -> Result<Option<&P>, Error> {
        let range = columns.names.of(row);
        let names = range.clone().map(|i| columns.texts.at(i));
        let last = self.plans.get(self.last).map(|(last, _)| last);
        let is_last = last.is_some_and(|(last, terms)| {
            names.eq(last.iter().map(|name| Some(&name[..])))
                && columns.terms(row) == terms.as_deref()
        });
        if !is_last {
            let Some(names) = columns.texts.all(range) else {
                return Ok(None);
            };
            self.last = self.number((names, columns.terms(row).map(str::to_string)), plan)?;
        }
        Ok(self.plans.get(self.last).and_then(|(_, plan)| plan.as_ref()))
    }

    fn number(
        &mut self,
        key: Key,
        plan: &impl Fn(&[String], &Terms) -> Result<P, Error>,
    ) -> Result<usize, Error> {
        if let Some(&number) = self.numbers.get(&key) {
            return Ok(number);
        }
        let (names, json) = &key;
        let mut seen = HashSet::new();
        let different = names.iter().all(|name| seen.insert(name));
        let plan = match terms::read(json.as_deref()) {
            Ok(terms) if different => Some(plan(names, &terms)?),
            _ => None,
        };
        self.numbers.insert(key.clone(), self.plans.len());
        self.plans.push((key, plan));
        Ok(self.plans.len() - 1)
    }
}

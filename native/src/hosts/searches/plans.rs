//! What is planned once for all records of equal columns.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::records::Columns;
use crate::record::terms::{self, Terms};
use crate::words::error::Error;

/// The columns of a record, and its terms as it has them.
type Key = (Vec<String>, Option<String>);

/// A plan and the terms that it is for; nothing where columns are no list of different names, or
/// terms are none.
type Known<P> = Option<(P, Arc<Terms>)>;

/// A plan with the columns and terms that it is for.
pub struct Planned<'p, P> {
    pub plan: &'p P,
    pub columns: &'p [String],
    pub terms: &'p Terms,
}

/// The plans made so far, by the columns and terms they are for.
pub struct Plans<P> {
    plans: Vec<(Key, Known<P>)>,
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
    ) -> Result<Option<Planned<'_, P>>, Error> {
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
        Ok(self.plans.get(self.last).and_then(|((columns, _), plan)| {
            let (plan, terms) = plan.as_ref()?;
            Some(Planned { plan, columns, terms })
        }))
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
            Ok(terms) if different => Some((plan(names, &terms)?, terms)),
            _ => None,
        };
        self.numbers.insert(key.clone(), self.plans.len());
        self.plans.push((key, plan));
        Ok(self.plans.len() - 1)
    }
}

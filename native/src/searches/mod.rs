//! Searches on an Arrow array of records: requests and records in, sequences out.
//!
//! Records are read where they lie. Those of equal columns share one plan, and all searches
//! the same memory, so that a million small segments cost a million small searches.

mod answers;
mod records;
pub mod request;

use std::collections::{HashMap, HashSet};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StringArray, StructArray};

use self::answers::Answers;
use self::records::Columns;
use crate::arrow::read_record;
use crate::search::error::Error;
use crate::search::problem::{Gram, Target};
use crate::search::run::Workspace;
use crate::search::setup::Request;

/// Search every record of an array.
///
/// The answer has a row for each: `sequence`, a list of steps, empty where there is none;
/// `status`, why there is none; and of those that there are `stop`, `choices` of the steps
/// from 1 on, `aliased` columns and the `condition` of the columns selected.
pub fn search_records(records: &ArrayRef, request: &Request) -> Result<StructArray, String> {
    request.check()?;
    let mut found = Answers::default();
    let mut workspace = Workspace::default();
    each(
        records,
        |columns| request.plan(columns),
        |record| match record {
            Ok((plan, gram)) => match workspace.search(request, plan, gram) {
                Ok(sequence) => found.push(sequence, &plan.groups),
                Err(reason) => found.push_none(&reason),
            },
            Err(reason) => found.push_none(&reason),
        },
    )?;
    Ok(found.finish())
}

/// Say of every record of an array why it cannot be searched for a target; NULL if it can.
pub fn check_records(records: &ArrayRef, target: &str) -> Result<StringArray, String> {
    let mut reasons: Vec<Option<String>> = Vec::with_capacity(records.len());
    each(
        records,
        |columns| Target::of(target, columns),
        |record| {
            reasons.push(record.map_or_else(Some, |(target, gram)| target.unusable(gram)));
            Ok(())
        },
    )?;
    Ok(reasons.into_iter().collect())
}

/// Give every record, with what is planned for its columns, or what is wrong with it.
fn each<P>(
    records: &ArrayRef,
    plan: impl Fn(&[String]) -> Result<P, Error>,
    mut answer: impl FnMut(Result<(&P, &Gram), String>) -> Result<(), String>,
) -> Result<(), String> {
    let no_rows = || Err("no rows".to_string());
    if records.null_count() == records.len() {
        return (0..records.len()).try_for_each(|_| answer(no_rows()));
    }
    let records = records.as_struct_opt().ok_or_else(|| {
        format!("RecordError: a gram record must be a mapping, not {}", records.data_type())
    })?;
    let columns = Columns::new(records).map_err(|error| format!("RecordError: {error}"))?;
    let views = columns.views()?;
    let mut plans = Plans::default();
    for row in 0..records.len() {
        let gram = views.gram(row).filter(|_| columns.are_present(row));
        let plan = match gram {
            Some(_) if records.is_valid(row) => plans.of(&columns, row, &plan)?,
            _ => None,
        };
        answer(match (plan, &gram) {
            (Some(plan), Some(gram)) => Ok((plan, gram)),
            _ if records.is_null(row) => no_rows(),
            _ => {
                let reason = read_record(records, row).err();
                Err(reason.unwrap_or_else(|| "gram record is damaged".to_string()))
            }
        })?;
    }
    Ok(())
}

/// The plans made so far, by the columns they are for.
struct Plans<P> {
    /// No plan where columns are no list of different names.
    plans: Vec<(Vec<String>, Option<P>)>,
    numbers: HashMap<Vec<String>, usize>,
    last: usize,
}

impl<P> Default for Plans<P> {
    fn default() -> Self {
        Plans { plans: Vec::new(), numbers: HashMap::new(), last: 0 }
    }
}

impl<P> Plans<P> {
    /// The plan of a record; nothing if its columns are those of none.
    fn of(
        &mut self,
        columns: &Columns,
        row: usize,
        plan: &impl Fn(&[String]) -> Result<P, Error>,
    ) -> Result<Option<&P>, Error> {
        let range = columns.names.of(row);
        let names = range.clone().map(|i| columns.texts.at(i));
        let last = self.plans.get(self.last).map(|(last, _)| last);
        if !last.is_some_and(|last| names.eq(last.iter().map(|name| Some(&name[..])))) {
            let Some(names) = columns.texts.all(range) else {
                return Ok(None);
            };
            self.last = self.number(names, plan)?;
        }
        Ok(self.plans.get(self.last).and_then(|(_, plan)| plan.as_ref()))
    }

    fn number(
        &mut self,
        names: Vec<String>,
        plan: &impl Fn(&[String]) -> Result<P, Error>,
    ) -> Result<usize, Error> {
        if let Some(&number) = self.numbers.get(&names) {
            return Ok(number);
        }
        let mut seen = HashSet::new();
        let different = names.iter().all(|name| seen.insert(name));
        let plan = different.then(|| plan(&names)).transpose()?;
        self.numbers.insert(names.clone(), self.plans.len());
        self.plans.push((names, plan));
        Ok(self.plans.len() - 1)
    }
}

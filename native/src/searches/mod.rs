//! Searches on an Arrow array of records: requests and records in, sequences out.
//!
//! Records are read where they lie. Those of equal columns share one plan, and all searches
//! the same memory, so that a million small segments cost a million small searches.

mod answers;
mod records;
pub mod request;

use std::collections::{HashMap, HashSet};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StructArray};

use self::answers::Answers;
use self::records::Columns;
use crate::arrow::read_record;
use crate::search::error::Error;
use crate::search::run::Workspace;
use crate::search::setup::{Plan, Request};

/// Search every record of an array.
///
/// The answer has a row for each: `sequence`, a list of steps, empty where there is none;
/// `status`, why there is none; and of those that there are `stop`, `choices` of the steps
/// from 1 on, `aliased` columns and the `condition` of the columns selected.
pub fn search_records(records: &ArrayRef, request: &Request) -> Result<StructArray, String> {
    request.check()?;
    let mut found = Answers::default();
    if records.null_count() == records.len() {
        (0..records.len()).try_for_each(|_| found.push_none("no rows"))?;
        return Ok(found.finish());
    }
    let records = records.as_struct_opt().ok_or_else(|| {
        format!("RecordError: a gram record must be a mapping, not {}", records.data_type())
    })?;
    let columns = Columns::new(records).map_err(|error| format!("RecordError: {error}"))?;
    let views = columns.views()?;
    let mut plans = Plans::new(request);
    let mut workspace = Workspace::default();
    for row in 0..records.len() {
        if records.is_null(row) {
            found.push_none("no rows")?;
            continue;
        }
        let gram = views.gram(row).filter(|_| columns.are_present(row));
        let plan = match gram {
            Some(_) => plans.of(&columns, row)?,
            None => None,
        };
        let (Some(gram), Some(plan)) = (gram, plan) else {
            let reason = read_record(records, row).err();
            found.push_none(reason.as_deref().unwrap_or("gram record is damaged"))?;
            continue;
        };
        match workspace.search(request, plan, &gram) {
            Ok(sequence) => found.push(sequence, &plan.groups)?,
            Err(reason) => found.push_none(&reason)?,
        }
    }
    Ok(found.finish())
}

/// The plans made so far, by the columns they are for.
struct Plans<'r> {
    request: &'r Request,
    /// No plan where columns are no list of different names.
    plans: Vec<(Vec<String>, Option<Plan>)>,
    numbers: HashMap<Vec<String>, usize>,
    last: usize,
}

impl<'r> Plans<'r> {
    fn new(request: &'r Request) -> Plans<'r> {
        Plans { request, plans: Vec::new(), numbers: HashMap::new(), last: 0 }
    }

    /// The plan of a record; nothing if its columns are those of none.
    fn of(&mut self, columns: &Columns, row: usize) -> Result<Option<&Plan>, Error> {
        let of_row = columns.names.of(row);
        let names = || of_row.clone().map(|i| columns.texts.at(i));
        let last = self.plans.get(self.last).map(|(last, _)| last);
        let same = last.is_some_and(|last| names().eq(last.iter().map(|name| Some(&name[..]))));
        if !same {
            let Some(names) = columns.texts.all(of_row) else {
                return Ok(None);
            };
            self.last = self.number(names)?;
        }
        Ok(self.plans.get(self.last).and_then(|(_, plan)| plan.as_ref()))
    }

    fn number(&mut self, names: Vec<String>) -> Result<usize, Error> {
        if let Some(&number) = self.numbers.get(&names) {
            return Ok(number);
        }
        let mut seen = HashSet::new();
        let different = names.iter().all(|name| seen.insert(name));
        let plan = different.then(|| self.request.plan(&names)).transpose()?;
        self.numbers.insert(names.clone(), self.plans.len());
        self.plans.push((names, plan));
        Ok(self.plans.len() - 1)
    }
}

//! Searches on an Arrow array of records: requests and records in, sequences out.
//!
//! Records are read where they lie. Those of equal columns share one plan, and the searches of
//! a thread the same memory, so that a million small segments cost a million small searches.
//! Every answer is that of its record alone: neither its order nor a digit depends on the
//! number of threads.

mod answers;
mod cells;
mod plans;
mod records;
pub mod request;

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, Float64Array, StringArray, StructArray};

use self::answers::{Answers, Ends, Texting, list, structs};
use self::cells::Cells;
use self::plans::{Planned, Plans};
use self::records::{Columns, Views};
use crate::kernel::threads::in_pieces;
use crate::linear::problem::{Gram, Target};
use crate::methods::answer::{Cell, Found, Type};
use crate::methods::question::{Asker, Question};
use crate::methods::run::Workspace;
use crate::methods::sets::across::{AcrossOptions, Memory, Part, best_across};
use crate::methods::setup::Request;
use crate::record::arrow::read_record;
use crate::record::terms::Terms;
use crate::search::sets::exchange::GoesOn;
use crate::search::steps::to_the_end;
use crate::words::error::Error;

/// Search every record of an array, on all cores if there is much to do.
///
/// The answer has a row for each: `sequence`, a list of steps, empty where there is none;
/// `status`, why there is none; and of those that there are `stop`, `choices` of the steps
/// from 1 on, `aliased` columns, the `condition` of the columns selected, and the aliased column
/// whose `trace` may explain much, empty if there is none.
pub fn search_records(records: &ArrayRef, request: &Request) -> Result<StructArray, String> {
    request.check()?;
    let Some(records) = Records::of(records)? else {
        return Ok(Answers::none(records.len())?.finish());
    };
    let views = records.columns.views()?;
    let pieces =
        in_pieces(records.rows.len(), views.work(), |rows| records.search(&views, rows, request));
    let mut all = Answers::default();
    for piece in pieces {
        all.append(piece?)?;
    }
    Ok(all.finish())
}

/// Ask every record of an array, on all cores if there is much to do.
///
/// The answer has a row for each: `found`, of the type that the method returns, NULL where there is
/// none; `status`, why there is none; and of those that there are the `condition` of the columns
/// and the aliased column whose `trace` may explain much, empty if there is none; and `notes`,
/// numbers that tell how an answer was found.
///
/// `goes_on` is called after every turn and returns whether to go on; the array then has one
/// record. A question about several records at once has one answer.
pub fn answer_records(
    records: &ArrayRef,
    question: &Question,
    returns: &'static Type,
    goes_on: Option<&mut GoesOn>,
) -> Result<StructArray, String> {
    let count = records.len();
    if goes_on.is_some() && count != 1 {
        return Err(format!("ArgumentError: turn follows one record; there are {count}"));
    }
    let mut all = Told::new(returns);
    let Some(records) = Records::of(records)? else {
        (0..records.len()).try_for_each(|_| all.push(Err(NO_ROWS.to_string())))?;
        return Ok(all.finish());
    };
    let views = records.columns.views()?;
    if let Question::Records(request) = question {
        records.answer_together(&views, request, &mut all)?;
        return Ok(all.finish());
    }
    let pieces = match goes_on {
        Some(goes_on) => vec![records.answer(&views, 0..1, question, returns, goes_on)],
        None => in_pieces(records.rows.len(), views.work(), |rows| {
            records.answer(&views, rows, question, returns, &mut |_| true)
        }),
    };
    pieces.into_iter().try_for_each(|piece| all.append(piece?))?;
    Ok(all.finish())
}

/// Say of every record of an array why it cannot be searched for a target; NULL if it can.
pub fn check_records(records: &ArrayRef, target: &str) -> Result<StringArray, String> {
    let Some(records) = Records::of(records)? else {
        return Ok((0..records.len()).map(|_| Some(NO_ROWS)).collect());
    };
    let mut reasons: Vec<Option<String>> = Vec::with_capacity(records.rows.len());
    records.each(
        &records.columns.views()?,
        0..records.rows.len(),
        |columns, terms| Target::of(target, columns, terms),
        |record| {
            reasons.push(record.map_or_else(Some, |(planned, gram)| planned.plan.reason(gram)));
            Ok(())
        },
    )?;
    Ok(reasons.into_iter().collect())
}

/// Answers to one question, so far.
struct Told {
    found: Cells,
    status: Texting,
    is_none: Vec<bool>,
    condition: Vec<f64>,
    trace: Texting,
    notes: Vec<f64>,
    note_ends: Ends,
}

impl Told {
    fn new(returns: &'static Type) -> Told {
        Told {
            found: Cells::new(returns),
            status: Texting::default(),
            is_none: Vec::new(),
            condition: Vec::new(),
            trace: Texting::default(),
            notes: Vec::new(),
            note_ends: Ends::default(),
        }
    }

    /// The answer of a record and what is noted beside it, or why it has none.
    fn push(&mut self, found: Result<(Found, Vec<f64>), String>) -> Result<(), String> {
        let reason = found.as_ref().err();
        self.status.push(reason.map_or("", |reason| reason))?;
        self.is_none.push(reason.is_some());
        let (found, notes) = found.ok().unzip();
        self.notes.extend(notes.unwrap_or_default());
        self.note_ends.push(self.notes.len())?;
        self.found.push(found.as_ref().map_or(&Cell::Null, |found| &found.cell))?;
        self.condition.push(found.as_ref().map_or(0.0, |found| found.condition));
        self.trace.push(found.and_then(|found| found.trace).unwrap_or_default())
    }

    fn append(&mut self, more: Told) -> Result<(), String> {
        self.found.append(more.found)?;
        self.status.append(more.status)?;
        self.is_none.extend(more.is_none);
        self.condition.extend(more.condition);
        self.notes.extend(more.notes);
        self.note_ends.append(more.note_ends)?;
        self.trace.append(more.trace)
    }

    fn finish(self) -> StructArray {
        let notes = Arc::new(Float64Array::from(self.notes));
        structs([
            ("found", self.found.finish()),
            ("status", Arc::new(self.status.finish(Some(self.is_none.into())))),
            ("condition", Arc::new(Float64Array::from(self.condition))),
            ("trace", Arc::new(self.trace.finish(None))),
            ("notes", list(self.note_ends, notes)),
        ])
    }
}

/// The status of a NULL.
const NO_ROWS: &str = "no rows";

/// An array of records and its fields.
struct Records<'r> {
    rows: &'r StructArray,
    columns: Columns,
}

impl<'r> Records<'r> {
    /// The records of an array; nothing if all are NULL, of whatever type.
    fn of(records: &'r ArrayRef) -> Result<Option<Records<'r>>, String> {
        if records.logical_null_count() == records.len() {
            return Ok(None);
        }
        let rows = records.as_struct_opt().ok_or_else(|| {
            format!("RecordError: a gram record must be a mapping, not {}", records.data_type())
        })?;
        let columns = Columns::new(rows).map_err(|error| format!("RecordError: {error}"))?;
        Ok(Some(Records { rows, columns }))
    }

    /// Search some records.
    fn search(
        &self,
        views: &Views,
        rows: Range<usize>,
        request: &Request,
    ) -> Result<Answers, String> {
        let mut found = Answers::default();
        let mut workspace = Workspace::default();
        self.each(
            views,
            rows,
            |columns, terms| request.fit(columns, terms),
            |record| match record {
                Ok((planned, gram)) => {
                    let searched = planned.plan.plan(gram)?.and_then(|plan| {
                        Ok((workspace.search(request, plan, gram, &mut to_the_end)?, &plan.groups))
                    });
                    match searched {
                        Ok((sequence, groups)) => {
                            let terms = planned.terms.of_model(planned.columns, |at| gram.mean(at));
                            found.push(sequence, groups, terms.as_deref())
                        }
                        Err(reason) => found.push_none(&reason),
                    }
                }
                Err(reason) => found.push_none(&reason),
            },
        )?;
        Ok(found)
    }

    /// Ask some records.
    fn answer(
        &self,
        views: &Views,
        rows: Range<usize>,
        question: &Question,
        returns: &'static Type,
        goes_on: &mut GoesOn,
    ) -> Result<Told, String> {
        let (mut told, mut asker) = (Told::new(returns), Asker::default());
        self.each(
            views,
            rows,
            |columns, terms| question.plan(columns, terms),
            |record| {
                let (planned, gram) = match record {
                    Ok(record) => record,
                    Err(reason) => return told.push(Err(reason)),
                };
                let mut found = asker.follow(question, planned.plan, gram, goes_on)?;
                if returns.has_terms()
                    && let Ok((found, _)) = &mut found
                {
                    let terms = planned.terms.of_model(planned.columns, |at| gram.mean(at));
                    found.cell.add_terms(returns, terms.as_deref());
                }
                told.push(found)
            },
        )?;
        Ok(told)
    }

    /// Ask all records at once.
    fn answer_together(
        &self,
        views: &Views,
        request: &Request<AcrossOptions>,
        told: &mut Told,
    ) -> Result<(), String> {
        let mut fits = Vec::new();
        let mut reason = None;
        self.each(
            views,
            0..self.rows.len(),
            |columns, terms| request.fit(columns, terms).map(Arc::new),
            |record| {
                match record {
                    Ok((planned, _)) => fits.push(planned.plan.clone()),
                    Err(told) => reason = Some(told),
                }
                Ok(())
            },
        )?;
        if let Some(reason) = reason {
            return told.push(Err(reason));
        }
        let grams = (0..self.rows.len()).filter_map(|row| views.gram(row));
        let part = |(fit, gram)| Part { fit, gram, terms: None };
        let parts: Vec<Part> = fits.into_iter().zip(grams).map(part).collect();
        let mut memory = Memory::default();
        told.push(best_across(request, &parts, &mut memory, &mut |_| true)?)
    }

    /// Give some records, each with what is planned for its columns, or what is wrong with it.
    fn each<P>(
        &self,
        views: &Views,
        rows: Range<usize>,
        plan: impl Fn(&[String], &Terms) -> Result<P, Error>,
        mut answer: impl FnMut(Result<(Planned<P>, &Gram), String>) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut plans = Plans::default();
        for row in rows {
            let gram = views.gram(row).filter(|_| self.columns.are_present(row));
            let plan = match gram {
                Some(_) if self.rows.is_valid(row) => plans.of(&self.columns, row, &plan)?,
                _ => None,
            };
            answer(match (plan, &gram) {
                (Some(plan), Some(gram)) => Ok((plan, gram)),
                _ if self.rows.is_null(row) => Err(NO_ROWS.to_string()),
                _ => {
                    let reason = read_record(self.rows, row).err();
                    Err(reason.unwrap_or_else(|| "gram record is damaged".to_string()))
                }
            })?;
        }
        Ok(())
    }
}

//! Fitted models of many records, column by column, as one Arrow array.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, ListArray, StructArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, Fields};

use super::NO_ROWS;
use super::answers::{Ends, Texting, list, maps, structs};
use crate::search::linear::fit::Fitted;
use crate::search::linear::inference::Term;

/// What is computed for every record.
pub enum Models {
    /// The model.
    Fits(Box<Fits>),
    /// Its coefficients, one by one.
    Summaries(Box<Summaries>),
}

/// The fields that all answers share.
#[derive(Default)]
struct Told {
    status: Texting,
    is_there: Vec<bool>,
    condition: Vec<f64>,
    trace: Texting,
}

/// Models so far.
#[derive(Default)]
pub struct Fits {
    told: Told,
    intercept: Vec<f64>,
    ends: Ends,
    names: Texting,
    values: Vec<f64>,
    explained: Vec<f64>,
    r2: Vec<f64>,
    sigma: Vec<Option<f64>>,
    rows: Vec<i64>,
    skipped: Vec<i64>,
    aliased_ends: Ends,
    aliased: Texting,
    has_note: Vec<bool>,
    notes: Texting,
}

/// Summaries so far.
#[derive(Default)]
pub struct Summaries {
    told: Told,
    ends: Ends,
    names: Texting,
    /// Estimates, standard errors, statistics, p-values, standardised ones, ends of intervals.
    numbers: [Vec<f64>; 7],
}

impl Told {
    fn push(&mut self, found: Result<&Fitted, &str>) -> Result<(), String> {
        self.status.push(found.err().unwrap_or_default())?;
        self.is_there.push(found.is_ok());
        let fitted = found.ok();
        self.condition.push(fitted.map_or(0.0, |fitted| fitted.condition));
        let trace = fitted.and_then(|fitted| Some(&fitted.columns[fitted.trace?.column]));
        self.trace.push(trace.map_or("", |name| name.as_str()))
    }

    fn append(&mut self, more: Told) -> Result<(), String> {
        self.status.append(more.status)?;
        self.is_there.extend(more.is_there);
        self.condition.extend(more.condition);
        self.trace.append(more.trace)
    }

    fn there(&self) -> NullBuffer {
        self.is_there.clone().into()
    }

    fn finish(self, found: ArrayRef) -> StructArray {
        let is_not: NullBuffer = self.is_there.iter().map(|is| !is).collect();
        structs([
            ("found", found),
            ("status", Arc::new(self.status.finish(Some(is_not)))),
            ("condition", Arc::new(Float64Array::from(self.condition))),
            ("trace", Arc::new(self.trace.finish(None))),
        ])
    }
}

impl Models {
    /// No models so far.
    pub fn new(is_summary: bool) -> Models {
        match is_summary {
            true => Models::Summaries(Box::default()),
            false => Models::Fits(Box::default()),
        }
    }

    /// A column of NULLs.
    pub fn none(is_summary: bool, rows: usize) -> Result<Models, String> {
        let mut found = Models::new(is_summary);
        (0..rows).try_for_each(|_| found.push_none(NO_ROWS))?;
        Ok(found)
    }

    /// A record without a model, and why.
    pub fn push_none(&mut self, reason: &str) -> Result<(), String> {
        match self {
            Models::Fits(fits) => {
                fits.told.push(Err(reason))?;
                fits.push(&Fitted::default())
            }
            Models::Summaries(summaries) => {
                summaries.told.push(Err(reason))?;
                summaries.push(&[])
            }
        }
    }

    /// The model of a record.
    pub fn push<'f>(
        &mut self,
        fitted: &'f Fitted,
        terms: impl FnOnce() -> Vec<Term<'f>>,
    ) -> Result<(), String> {
        match self {
            Models::Fits(fits) => {
                fits.told.push(Ok(fitted))?;
                fits.push(fitted)
            }
            Models::Summaries(summaries) => {
                summaries.told.push(Ok(fitted))?;
                summaries.push(&terms())
            }
        }
    }

    /// Add the answers for the records that follow, of the same question.
    pub fn append(&mut self, more: Models) -> Result<(), String> {
        match (self, more) {
            (Models::Fits(fits), Models::Fits(more)) => fits.append(*more),
            (Models::Summaries(summaries), Models::Summaries(more)) => summaries.append(*more),
            _ => Err("answers to different questions".to_string()),
        }
    }

    /// The answers as one array.
    pub fn finish(self) -> StructArray {
        match self {
            Models::Fits(fits) => fits.finish(),
            Models::Summaries(summaries) => summaries.finish(),
        }
    }
}

impl Fits {
    fn push(&mut self, fitted: &Fitted) -> Result<(), String> {
        let columns = &fitted.columns[..fitted.coefficients.len()];
        for (name, aliased) in columns.iter().zip(&fitted.aliased) {
            self.names.push(name)?;
            if *aliased {
                self.aliased.push(name)?;
            }
        }
        self.values.extend_from_slice(&fitted.coefficients);
        self.ends.push(self.values.len())?;
        self.aliased_ends.push(self.aliased.count())?;
        self.intercept.push(fitted.intercept);
        self.explained.push(fitted.explained);
        self.r2.push(fitted.r2);
        self.sigma.push(fitted.sigma());
        self.rows.push(fitted.rows);
        self.skipped.push(fitted.skipped);
        let note = fitted.note();
        self.has_note.push(note.is_some());
        self.notes.push(&note.unwrap_or_default())
    }

    fn append(&mut self, more: Fits) -> Result<(), String> {
        self.told.append(more.told)?;
        self.intercept.extend(more.intercept);
        self.ends.append(more.ends)?;
        self.names.append(more.names)?;
        self.values.extend(more.values);
        self.explained.extend(more.explained);
        self.r2.extend(more.r2);
        self.sigma.extend(more.sigma);
        self.rows.extend(more.rows);
        self.skipped.extend(more.skipped);
        self.aliased_ends.append(more.aliased_ends)?;
        self.aliased.append(more.aliased)?;
        self.has_note.extend(more.has_note);
        self.notes.append(more.notes)
    }

    fn finish(self) -> StructArray {
        let number = |values: Vec<f64>| Arc::new(Float64Array::from(values)) as ArrayRef;
        let fields: [(&str, ArrayRef); 9] = [
            ("intercept", number(self.intercept)),
            ("coefficients", Arc::new(maps(self.ends, self.names, self.values))),
            ("explained", number(self.explained)),
            ("r2", number(self.r2)),
            ("sigma", Arc::new(Float64Array::from(self.sigma))),
            ("rows", Arc::new(Int64Array::from(self.rows))),
            ("skipped", Arc::new(Int64Array::from(self.skipped))),
            ("aliased", list(self.aliased_ends, Arc::new(self.aliased.finish(None)))),
            ("note", Arc::new(self.notes.finish(Some(self.has_note.into())))),
        ];
        let field =
            |(name, array): &(&str, ArrayRef)| Field::new(*name, array.data_type().clone(), true);
        let types: Fields = fields.iter().map(field).collect();
        let arrays = fields.into_iter().map(|(_, array)| array).collect();
        let found = StructArray::new(types, arrays, Some(self.told.there()));
        self.told.finish(Arc::new(found))
    }
}

impl Summaries {
    fn push(&mut self, terms: &[Term]) -> Result<(), String> {
        for term in terms {
            self.names.push(term.name)?;
            let Term { estimate, std_error, statistic, p_value, standardized, low, high, .. } =
                *term;
            let numbers = [estimate, std_error, statistic, p_value, standardized, low, high];
            self.numbers.iter_mut().zip(numbers).for_each(|(all, one)| all.push(one));
        }
        self.ends.push(self.numbers[0].len())
    }

    fn append(&mut self, more: Summaries) -> Result<(), String> {
        self.told.append(more.told)?;
        self.ends.append(more.ends)?;
        self.names.append(more.names)?;
        self.numbers.iter_mut().zip(more.numbers).for_each(|(all, more)| all.extend(more));
        Ok(())
    }

    fn finish(self) -> StructArray {
        // NaN is what is not defined.
        let number = |values: Vec<f64>| {
            let known = values.into_iter().map(|x| (!x.is_nan()).then_some(x));
            Arc::new(known.collect::<Float64Array>()) as ArrayRef
        };
        let [estimate, std_error, statistic, p_value, standardized, low, high] =
            self.numbers.map(number);
        let terms = structs([
            ("term", Arc::new(self.names.finish(None)) as ArrayRef),
            ("estimate", estimate),
            ("std_error", std_error),
            ("statistic", statistic),
            ("p_value", p_value),
            ("standardized", standardized),
            ("low", low),
            ("high", high),
        ]);
        let item = Arc::new(Field::new("item", DataType::Struct(terms.fields().clone()), true));
        let there = Some(self.told.there());
        let found = ListArray::new(item, self.ends.finish(), Arc::new(terms), there);
        self.told.finish(Arc::new(found))
    }
}

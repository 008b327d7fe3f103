//! Sequences of many records, column by column, as one Arrow array.

use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int8Array, Int64Array, ListArray,
    MapArray, StringArray, StructArray,
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Fields};

use super::NO_ROWS;
use crate::linear::groups::Groups;
use crate::search::sequence::Sequence;
use crate::search::steps::{Action, Choice, Stop};

/// The answers so far, column by column.
#[derive(Default)]
pub struct Answers {
    status: Texting,
    stop: Vec<i8>,
    is_sequence: Vec<bool>,
    condition: Vec<f64>,
    trace: Texting,
    aliased_ends: Ends,
    aliased: Texting,
    ends: Ends,
    choices: Vec<i8>,
    choice_ends: Ends,
    steps: Steps,
}

/// The steps of all sequences.
#[derive(Default)]
struct Steps {
    step: Vec<i64>,
    is_start: Vec<bool>,
    action: Texting,
    group: Texting,
    cost: Vec<f64>,
    spent: Vec<f64>,
    score: Vec<f64>,
    gain: Vec<f64>,
    explained: Vec<f64>,
    r2: Vec<f64>,
    useful: Vec<bool>,
    intercept: Vec<f64>,
    ends: Ends,
    names: Texting,
    values: Vec<f64>,
    has_terms: Vec<bool>,
    terms: Texting,
}

/// Where lists or texts in the making end, the first beginning at 0.
pub(super) struct Ends(Vec<i32>);

impl Default for Ends {
    fn default() -> Self {
        Ends(vec![0])
    }
}

impl Ends {
    pub(super) fn push(&mut self, length: usize) -> Result<(), String> {
        self.0.push(i32::try_from(length).map_err(|_| {
            "the sequences are too long for one array; search fewer records at a time".to_string()
        })?);
        Ok(())
    }

    fn count(&self) -> usize {
        self.0.len() - 1
    }

    pub(super) fn last(&self) -> usize {
        self.0.last().map_or(0, |&end| end as usize)
    }

    pub(super) fn append(&mut self, more: Ends) -> Result<(), String> {
        let before = self.last();
        more.0[1..].iter().try_for_each(|&end| self.push(before + end as usize))
    }

    pub(super) fn finish(self) -> OffsetBuffer<i32> {
        OffsetBuffer::new(ScalarBuffer::from(self.0))
    }
}

/// Texts in the making.
#[derive(Default)]
pub(super) struct Texting {
    bytes: Vec<u8>,
    ends: Ends,
}

impl Texting {
    pub(super) fn push(&mut self, text: &str) -> Result<(), String> {
        self.bytes.extend_from_slice(text.as_bytes());
        self.ends.push(self.bytes.len())
    }

    pub(super) fn count(&self) -> usize {
        self.ends.count()
    }

    pub(super) fn append(&mut self, more: Texting) -> Result<(), String> {
        self.bytes.extend_from_slice(&more.bytes);
        self.ends.append(more.ends)
    }

    pub(super) fn finish(self, valid: Option<NullBuffer>) -> StringArray {
        StringArray::new(self.ends.finish(), Buffer::from_vec(self.bytes), valid)
    }
}

impl Answers {
    /// A record without a sequence, and why.
    pub fn push_none(&mut self, reason: &str) -> Result<(), String> {
        self.status.push(reason)?;
        self.stop.push(0);
        self.condition.push(0.0);
        self.trace.push("")?;
        self.push_ends(false)
    }

    /// A column of NULLs.
    pub fn none(rows: usize) -> Result<Answers, String> {
        let mut found = Answers::default();
        (0..rows).try_for_each(|_| found.push_none(NO_ROWS))?;
        Ok(found)
    }

    /// The sequence of a record of some terms.
    pub fn push(
        &mut self,
        sequence: &Sequence,
        groups: &Groups,
        terms: Option<&str>,
    ) -> Result<(), String> {
        self.status.push("")?;
        self.stop.push(sequence.stop as i8);
        self.condition.push(sequence.condition);
        self.trace.push(sequence.trace.map_or("", |trace| &groups.members[trace.column]))?;
        for &column in &sequence.aliased {
            self.aliased.push(&groups.members[column])?;
        }
        self.choices.extend(sequence.steps.iter().map(|step| step.choice as i8));
        self.steps.push(sequence, groups, terms)?;
        self.push_ends(true)
    }

    /// Add the answers for the records that follow.
    pub fn append(&mut self, more: Answers) -> Result<(), String> {
        if self.is_sequence.is_empty() {
            *self = more;
            return Ok(());
        }
        self.status.append(more.status)?;
        self.stop.extend(more.stop);
        self.is_sequence.extend(more.is_sequence);
        self.condition.extend(more.condition);
        self.trace.append(more.trace)?;
        self.aliased_ends.append(more.aliased_ends)?;
        self.aliased.append(more.aliased)?;
        self.ends.append(more.ends)?;
        self.choices.extend(more.choices);
        self.choice_ends.append(more.choice_ends)?;
        self.steps.append(more.steps)
    }

    fn push_ends(&mut self, is_sequence: bool) -> Result<(), String> {
        self.is_sequence.push(is_sequence);
        self.ends.push(self.steps.step.len())?;
        self.choice_ends.push(self.choices.len())?;
        self.aliased_ends.push(self.aliased.count())
    }

    pub fn finish(self) -> StructArray {
        let is = || Some(NullBuffer::from(self.is_sequence.clone()));
        let is_not: NullBuffer = self.is_sequence.iter().map(|is| !is).collect();
        let stop = dictionary(Int8Array::new(self.stop.into(), is()), &Stop::NAMES);
        let choices = dictionary(Int8Array::from(self.choices), &Choice::NAMES);
        let fields: [(&str, ArrayRef); 7] = [
            ("sequence", list(self.ends, Arc::new(self.steps.finish()))),
            ("status", Arc::new(self.status.finish(Some(is_not)))),
            ("stop", stop),
            ("choices", list(self.choice_ends, choices)),
            ("aliased", list(self.aliased_ends, Arc::new(self.aliased.finish(None)))),
            ("condition", Arc::new(Float64Array::new(self.condition.into(), is()))),
            ("trace", Arc::new(self.trace.finish(None))),
        ];
        structs(fields)
    }
}

impl Steps {
    fn push(
        &mut self,
        sequence: &Sequence,
        groups: &Groups,
        terms: Option<&str>,
    ) -> Result<(), String> {
        self.is_start.push(true);
        self.has_terms.push(terms.is_some());
        self.terms.push(terms.unwrap_or_default())?;
        self.action.push("start")?;
        self.group.push("")?;
        for zeros in [&mut self.cost, &mut self.score, &mut self.gain, &mut self.explained] {
            zeros.push(0.0);
        }
        self.useful.push(true);
        for (step, paid) in sequence.steps.iter().zip(&sequence.paid) {
            self.is_start.push(false);
            self.has_terms.push(false);
            self.terms.push("")?;
            self.action.push(match step.action {
                Action::Add => "add",
                Action::Remove => "remove",
            })?;
            self.group.push(&groups.names[step.group])?;
            self.cost.push(*paid);
            self.score.push(step.score);
            self.gain.push(step.gain);
            self.explained.push(step.explained);
            self.useful.push(step.is_useful());
        }
        self.step.extend(0..=sequence.steps.len() as i64);
        self.spent.extend_from_slice(&sequence.spent);
        self.r2.extend_from_slice(&sequence.r2);
        self.intercept.extend_from_slice(&sequence.intercept);
        let before = self.values.len();
        for &column in &sequence.columns {
            self.names.push(&groups.members[column])?;
        }
        self.values.extend_from_slice(&sequence.coefficients);
        for &model in &sequence.ends {
            self.ends.push(before + model)?;
        }
        Ok(())
    }

    fn append(&mut self, more: Steps) -> Result<(), String> {
        self.step.extend(more.step);
        self.is_start.extend(more.is_start);
        self.action.append(more.action)?;
        self.group.append(more.group)?;
        self.cost.extend(more.cost);
        self.spent.extend(more.spent);
        self.score.extend(more.score);
        self.gain.extend(more.gain);
        self.explained.extend(more.explained);
        self.r2.extend(more.r2);
        self.useful.extend(more.useful);
        self.intercept.extend(more.intercept);
        self.ends.append(more.ends)?;
        self.names.append(more.names)?;
        self.values.extend(more.values);
        self.has_terms.extend(more.has_terms);
        self.terms.append(more.terms)
    }

    fn finish(self) -> StructArray {
        let taken: Option<NullBuffer> = Some(self.is_start.iter().map(|start| !start).collect());
        let number = |values: Vec<f64>| Arc::new(Float64Array::from(values)) as ArrayRef;
        let maps = maps(self.ends, self.names, self.values, None);
        structs([
            ("step", Arc::new(Int64Array::from(self.step))),
            ("action", Arc::new(self.action.finish(None))),
            ("group", Arc::new(self.group.finish(taken.clone()))),
            ("cost", number(self.cost)),
            ("spent", number(self.spent)),
            ("score", Arc::new(Float64Array::new(self.score.into(), taken))),
            ("gain", number(self.gain)),
            ("explained", number(self.explained)),
            ("r2", number(self.r2)),
            ("useful", Arc::new(BooleanArray::from(self.useful))),
            ("intercept", number(self.intercept)),
            ("coefficients", Arc::new(maps)),
            ("terms", Arc::new(self.terms.finish(Some(self.has_terms.into())))),
        ])
    }
}

/// Numbers of names, as a dictionary.
fn dictionary(numbers: Int8Array, names: &[&str]) -> ArrayRef {
    let names = StringArray::from_iter_values(names);
    Arc::new(DictionaryArray::<Int8Type>::new(numbers, Arc::new(names)))
}

/// Maps from texts to numbers.
pub(super) fn maps(
    ends: Ends,
    names: Texting,
    values: Vec<f64>,
    there: Option<NullBuffer>,
) -> MapArray {
    let values = Arc::new(Float64Array::from(values));
    let entries = structs_of([
        (Field::new("key", DataType::Utf8, false), Arc::new(names.finish(None))),
        (Field::new("value", DataType::Float64, true), values),
    ]);
    let field = Field::new("entries", entries.data_type().clone(), false);
    MapArray::new(Arc::new(field), ends.finish(), entries, there, false)
}

pub(super) fn list(ends: Ends, values: ArrayRef) -> ArrayRef {
    let field = Arc::new(Field::new("item", values.data_type().clone(), true));
    Arc::new(ListArray::new(field, ends.finish(), values, None))
}

pub(super) fn structs<const N: usize>(fields: [(&str, ArrayRef); N]) -> StructArray {
    structs_of(fields.map(|(name, array)| {
        let field = Field::new(name, array.data_type().clone(), true);
        (field, array)
    }))
}

fn structs_of<const N: usize>(fields: [(Field, ArrayRef); N]) -> StructArray {
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = fields.into_iter().unzip();
    StructArray::new(Fields::from(fields), arrays, None)
}

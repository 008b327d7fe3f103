//! Sequences of many records, column by column, as one Arrow array.

use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int8Array, Int64Array, ListArray,
    MapArray, StringArray, StructArray,
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Fields};

use crate::search::groups::Groups;
use crate::search::sequence::Sequence;
use crate::search::steps::{Action, Choice, Stop};

/// The answers so far, column by column.
#[derive(Default)]
pub struct Answers {
    status: Texting,
    stop: Vec<i8>,
    is_sequence: Vec<bool>,
    condition: Vec<f64>,
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
}

/// Where lists or texts in the making end, the first beginning at 0.
struct Ends(Vec<i32>);

impl Default for Ends {
    fn default() -> Self {
        Ends(vec![0])
    }
}

impl Ends {
    fn push(&mut self, length: usize) -> Result<(), String> {
        self.0.push(i32::try_from(length).map_err(|_| {
            "the sequences are too long for one array; search fewer records at a time".to_string()
        })?);
        Ok(())
    }

    fn count(&self) -> usize {
        self.0.len() - 1
    }

    fn finish(self) -> OffsetBuffer<i32> {
        OffsetBuffer::new(ScalarBuffer::from(self.0))
    }
}

/// Texts in the making.
#[derive(Default)]
struct Texting {
    bytes: Vec<u8>,
    ends: Ends,
}

impl Texting {
    fn push(&mut self, text: &str) -> Result<(), String> {
        self.bytes.extend_from_slice(text.as_bytes());
        self.ends.push(self.bytes.len())
    }

    fn finish(self, valid: Option<NullBuffer>) -> StringArray {
        StringArray::new(self.ends.finish(), Buffer::from_vec(self.bytes), valid)
    }
}

impl Answers {
    /// A record without a sequence, and why.
    pub fn push_none(&mut self, reason: &str) -> Result<(), String> {
        self.status.push(reason)?;
        self.stop.push(0);
        self.condition.push(0.0);
        self.push_ends(false)
    }

    pub fn push(&mut self, sequence: &Sequence, groups: &Groups) -> Result<(), String> {
        self.status.push("")?;
        self.stop.push(sequence.stop as i8);
        self.condition.push(sequence.condition);
        for &column in &sequence.aliased {
            self.aliased.push(&groups.members[column])?;
        }
        self.choices.extend(sequence.steps.iter().map(|step| step.choice as i8));
        self.steps.push(sequence, groups)?;
        self.push_ends(true)
    }

    fn push_ends(&mut self, is_sequence: bool) -> Result<(), String> {
        self.is_sequence.push(is_sequence);
        self.ends.push(self.steps.step.len())?;
        self.choice_ends.push(self.choices.len())?;
        self.aliased_ends.push(self.aliased.ends.count())
    }

    pub fn finish(self) -> StructArray {
        let is = || Some(NullBuffer::from(self.is_sequence.clone()));
        let is_not: NullBuffer = self.is_sequence.iter().map(|is| !is).collect();
        let stop = dictionary(Int8Array::new(self.stop.into(), is()), &Stop::NAMES);
        let choices = dictionary(Int8Array::from(self.choices), &Choice::NAMES);
        let fields: [(&str, ArrayRef); 6] = [
            ("sequence", list(self.ends, Arc::new(self.steps.finish()))),
            ("status", Arc::new(self.status.finish(Some(is_not)))),
            ("stop", stop),
            ("choices", list(self.choice_ends, choices)),
            ("aliased", list(self.aliased_ends, Arc::new(self.aliased.finish(None)))),
            ("condition", Arc::new(Float64Array::new(self.condition.into(), is()))),
        ];
        structs(fields)
    }
}

impl Steps {
    fn push(&mut self, sequence: &Sequence, groups: &Groups) -> Result<(), String> {
        self.is_start.push(true);
        self.action.push("start")?;
        self.group.push("")?;
        for zeros in [&mut self.cost, &mut self.score, &mut self.gain, &mut self.explained] {
            zeros.push(0.0);
        }
        self.useful.push(true);
        for step in &sequence.steps {
            self.is_start.push(false);
            self.action.push(match step.action {
                Action::Add => "add",
                Action::Remove => "remove",
            })?;
            self.group.push(&groups.names[step.group])?;
            self.cost.push(groups.costs[step.group]);
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

    fn finish(self) -> StructArray {
        let taken: Option<NullBuffer> = Some(self.is_start.iter().map(|start| !start).collect());
        let number = |values: Vec<f64>| Arc::new(Float64Array::from(values)) as ArrayRef;
        let entries = structs_of([
            (Field::new("key", DataType::Utf8, false), Arc::new(self.names.finish(None))),
            (Field::new("value", DataType::Float64, true), number(self.values)),
        ]);
        let field = Field::new("entries", entries.data_type().clone(), false);
        let maps = MapArray::new(Arc::new(field), self.ends.finish(), entries, None, false);
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
        ])
    }
}

/// Numbers of names, as a dictionary.
fn dictionary(numbers: Int8Array, names: &[&str]) -> ArrayRef {
    let names = StringArray::from_iter_values(names);
    Arc::new(DictionaryArray::<Int8Type>::new(numbers, Arc::new(names)))
}

fn list(ends: Ends, values: ArrayRef) -> ArrayRef {
    let field = Arc::new(Field::new("item", values.data_type().clone(), true));
    Arc::new(ListArray::new(field, ends.finish(), values, None))
}

fn structs<const N: usize>(fields: [(&str, ArrayRef); N]) -> StructArray {
    structs_of(fields.map(|(name, array)| {
        let field = Field::new(name, array.data_type().clone(), true);
        (field, array)
    }))
}

fn structs_of<const N: usize>(fields: [(Field, ArrayRef); N]) -> StructArray {
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = fields.into_iter().unzip();
    StructArray::new(Fields::from(fields), arrays, None)
}

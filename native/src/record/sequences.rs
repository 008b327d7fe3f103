//! Sequences in an Arrow array: their steps, and which rows have the same ones.
//!
//! Polars copies one sequence to every row of a table, and a join the sequence of
//! a segment to each of its rows. They are compared by content, field by field as
//! Arrow stores them, which costs far less than to read one.

use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, Float64Array, Int64Array, LargeListArray, PrimitiveArray,
    StringViewArray, StructArray,
};
use arrow_buffer::{ArrowNativeType, ScalarBuffer};

use crate::record::arrow::field;
use crate::record::prefix::Step;
use crate::record::terms::{self, Terms};

/// A column of sequences.
pub struct Sequences {
    /// The steps of each row.
    lists: LargeListArray,
    step: Int64Array,
    group: StringViewArray,
    spent: Float64Array,
    intercept: Float64Array,
    /// The coefficients of each step.
    coefficients: LargeListArray,
    names: StringViewArray,
    values: Float64Array,
    /// The terms, in the first step of each sequence.
    terms: StringViewArray,
}

impl Sequences {
    /// Match an array to the type of a sequence.
    pub fn new(array: &ArrayRef) -> Result<Sequences, String> {
        let (lists, steps) = list_of_structs(array, "steps")?;
        let field = |name: &str| field(&steps, name, "sequence");
        let (coefficients, entries) = list_of_structs(field("coefficients")?, "coefficients")?;
        let [names, values] = entries.columns() else {
            return Err("sequence has 'coefficients' that do not map names to numbers".to_string());
        };
        let step = numbers::<Int64Type>(field("step")?, "step")?;
        let group = text(field("group")?, "group")?;
        let spent = numbers::<Float64Type>(field("spent")?, "spent")?;
        let intercept = numbers::<Float64Type>(field("intercept")?, "intercept")?;
        let names = text(names, "coefficients")?;
        let values = numbers::<Float64Type>(values, "coefficients")?;
        let terms = text(field("terms")?, "terms")?;
        let needed: [(&str, &dyn Array); 8] = [
            ("steps", &steps),
            ("step", &step),
            ("spent", &spent),
            ("intercept", &intercept),
            ("coefficients", &coefficients),
            ("coefficients", &entries),
            ("coefficients", &names),
            ("coefficients", &values),
        ];
        match needed.iter().find(|(_, array)| array.null_count() > 0) {
            Some((name, _)) => Err(format!("sequence has a NULL in '{name}'")),
            None => Ok(Sequences {
                lists,
                step,
                group,
                spent,
                intercept,
                coefficients,
                names,
                values,
                terms,
            }),
        }
    }

    /// Whether some rows share the steps of the first of them.
    pub fn are_one(&self, mut rows: impl Iterator<Item = usize>) -> bool {
        let Some(first) = rows.next() else { return true };
        let steps = |row: usize| range(&self.lists, row..row + 1);
        rows.all(|row| row == first || self.lists.is_valid(row) && steps(row) == steps(first))
    }

    /// The sequence of a row; nothing if it is NULL.
    pub fn at(&self, row: usize) -> Option<Sequence<'_>> {
        let steps = range(&self.lists, row..row + 1);
        self.lists.is_valid(row).then_some(Sequence { all: self, steps })
    }
}

fn list_of_structs(array: &ArrayRef, name: &str) -> Result<(LargeListArray, StructArray), String> {
    let lists = array.as_list_opt::<i64>();
    let structs = lists.and_then(|lists| lists.values().as_struct_opt());
    let both = lists.cloned().zip(structs.cloned());
    both.ok_or_else(|| wrong_type(array, name, "a list of structs"))
}

fn numbers<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    name: &str,
) -> Result<PrimitiveArray<T>, String> {
    array.as_primitive_opt().cloned().ok_or_else(|| wrong_type(array, name, "numbers"))
}

fn text(array: &ArrayRef, name: &str) -> Result<StringViewArray, String> {
    array.as_string_view_opt().cloned().ok_or_else(|| wrong_type(array, name, "text"))
}

fn wrong_type(array: &ArrayRef, name: &str, needed: &str) -> String {
    format!("sequence has '{name}' of type {}; it must be {needed}", array.data_type())
}

/// Where the elements of some lists lie.
fn range(lists: &LargeListArray, rows: Range<usize>) -> Range<usize> {
    let offsets = lists.value_offsets();
    offsets[rows.start] as usize..offsets[rows.end] as usize
}

/// The sequence of one row, equal to another if all that a prediction needs is.
pub struct Sequence<'s> {
    all: &'s Sequences,
    steps: Range<usize>,
}

impl Sequence<'_> {
    /// Read the steps, in their order.
    pub fn steps(&self) -> Vec<Step> {
        let all = self.all;
        let term = |i| (all.names.value(i).to_string(), all.values.value(i));
        let step = |i| Step {
            step: all.step.value(i),
            group: all.group.is_valid(i).then(|| all.group.value(i).to_string()),
            spent: all.spent.value(i),
            intercept: all.intercept.value(i),
            coefficients: range(&all.coefficients, i..i + 1).map(term).collect(),
        };
        self.steps.clone().map(step).collect()
    }
}

impl Sequence<'_> {
    /// How the columns of the table became those of the sequence.
    pub fn terms(&self) -> Result<Arc<Terms>, String> {
        let own = &self.all.terms;
        let first = self.steps.clone().find(|&step| own.is_valid(step));
        terms::read(first.map(|step| own.value(step)))
            .map_err(|error| format!("sequence has {error}"))
    }
}

impl PartialEq for Sequence<'_> {
    fn eq(&self, other: &Sequence) -> bool {
        debug_assert!(std::ptr::eq(self.all, other.all));
        let (all, a, b) = (self.all, &self.steps, &other.steps);
        let terms = |steps: &Range<usize>| range(&all.coefficients, steps.clone());
        let (terms_a, terms_b) = (terms(a), terms(b));
        let same_lengths = || {
            let length = |i| all.coefficients.value_length(i);
            a.clone().map(length).eq(b.clone().map(length))
        };
        a == b
            || same(all.step.values(), a, b)
                && same(all.spent.values(), a, b)
                && same(all.intercept.values(), a, b)
                && same_text(&all.group, a, b)
                && same_text(&all.terms, a, b)
                && same_lengths()
                && same_text(&all.names, &terms_a, &terms_b)
                && same(all.values.values(), &terms_a, &terms_b)
    }
}

/// Whether two stretches of an array hold the same bytes.
fn same<T: ArrowNativeType>(values: &ScalarBuffer<T>, a: &Range<usize>, b: &Range<usize>) -> bool {
    let bytes = |stretch: &Range<usize>| {
        &values.inner()[stretch.start * size_of::<T>()..stretch.end * size_of::<T>()]
    };
    bytes(a) == bytes(b)
}

fn same_text(texts: &StringViewArray, a: &Range<usize>, b: &Range<usize>) -> bool {
    let text = |i| texts.is_valid(i).then(|| texts.value(i));
    // Equal views have equal text; long text may have been copied elsewhere.
    texts.null_count() == 0 && same(texts.views(), a, b)
        || a.clone().map(text).eq(b.clone().map(text))
}

impl Eq for Sequence<'_> {}

impl Hash for Sequence<'_> {
    /// Unequal models hardly ever agree in the last intercept.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let last = self.all.intercept.values()[self.steps.clone()].last();
        last.map(|intercept| intercept.to_bits()).hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_buffer::OffsetBuffer;
    use arrow_schema::Field;

    type Term = (&'static str, f64);

    /// One step: its group, its intercept and its coefficients.
    type Row = (Option<&'static str>, Option<f64>, &'static [Term]);

    const LONG: &str = "a name of more than twelve bytes";

    fn structs(fields: Vec<(&str, ArrayRef)>) -> ArrayRef {
        let field = |(name, array): (&str, ArrayRef)| {
            (Arc::new(Field::new(name, array.data_type().clone(), true)), array)
        };
        Arc::new(StructArray::from(fields.into_iter().map(field).collect::<Vec<_>>()))
    }

    fn lists(lengths: Vec<usize>, values: ArrayRef) -> ArrayRef {
        let field = Arc::new(Field::new("item", values.data_type().clone(), true));
        Arc::new(LargeListArray::new(field, OffsetBuffer::from_lengths(lengths), values, None))
    }

    /// Sequences of two steps each, of which only the last is given.
    fn sequences(last: &[Row]) -> Result<Sequences, String> {
        let first: Row = (None, Some(1.0), &[]);
        let steps: Vec<Row> = last.iter().flat_map(|last| [first, *last]).collect();
        let terms: Vec<Term> = steps.iter().flat_map(|step| step.2).copied().collect();
        let names = StringViewArray::from_iter_values(terms.iter().map(|term| term.0));
        let values = Float64Array::from_iter_values(terms.iter().map(|term| term.1));
        let entries = structs(vec![("key", Arc::new(names)), ("value", Arc::new(values))]);
        let number = |i: usize| (i % 2) as f64;
        let steps = structs(vec![
            (
                "step",
                Arc::new(Int64Array::from_iter_values((0..steps.len()).map(|i| i as i64 % 2))),
            ),
            ("group", Arc::new(steps.iter().map(|step| step.0).collect::<StringViewArray>())),
            ("spent", Arc::new(Float64Array::from_iter_values((0..steps.len()).map(number)))),
            ("intercept", Arc::new(steps.iter().map(|step| step.1).collect::<Float64Array>())),
            ("coefficients", lists(steps.iter().map(|step| step.2.len()).collect(), entries)),
            ("terms", Arc::new(steps.iter().map(|_| None::<&str>).collect::<StringViewArray>())),
        ]);
        Sequences::new(&lists(vec![2; last.len()], steps))
    }

    #[test]
    fn sequences_are_equal_where_all_that_predicts_is() {
        let model: Row = (Some("g"), Some(2.0), &[(LONG, 1.0), ("y", -1.0)]);
        let all = sequences(&[
            model,
            model,
            (Some("h"), model.1, model.2),
            (model.0, Some(3.0), model.2),
            (model.0, model.1, &[(LONG, 1.0), ("z", -1.0)]),
            (model.0, model.1, &[(LONG, 1.0), ("y", -2.0)]),
            (model.0, model.1, &[(LONG, 1.0)]),
            (None, model.1, model.2),
        ])
        .unwrap();
        let at = |row| all.at(row).unwrap();
        assert!(at(0) == at(1));
        for row in 2..8 {
            assert!(at(0) != at(row), "{row}");
        }
        assert_eq!(at(0).steps(), at(1).steps());
    }

    #[test]
    fn steps_are_read_as_they_are_stored() {
        let all =
            sequences(&[(Some("g"), Some(2.0), &[("x", 1.0)]), (None, Some(4.0), &[(LONG, 5.0)])])
                .unwrap();
        let last = |row| all.at(row).unwrap().steps().pop().unwrap();
        let step = |group: Option<&str>, intercept, name: &str, coefficient| Step {
            step: 1,
            group: group.map(str::to_string),
            spent: 1.0,
            intercept,
            coefficients: vec![(name.to_string(), coefficient)],
        };
        assert_eq!(last(0), step(Some("g"), 2.0, "x", 1.0));
        assert_eq!(last(1), step(None, 4.0, LONG, 5.0));
    }

    #[test]
    fn a_null_is_named() {
        let error = sequences(&[(None, Some(0.0), &[]), (None, None, &[])]).err();
        assert!(error.unwrap().contains("NULL in 'intercept'"));
    }
}

//! Sequences and rows: a prediction is the sum that its steps say, of the longest prefix whose
//! columns a row has; altered sequences are errors.

use std::sync::Arc;

use arrow_array::builder::StringViewBuilder;
use arrow_array::{
    Array, ArrayRef, Float64Array, Int64Array, LargeListArray, StringViewArray, StructArray,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::Field;
use dbselect_native::record::arrow::{Place, leaves};
use dbselect_native::record::inputs::{Column, MissingColumns, Unknown};
use dbselect_native::record::prefix::{Case, Plan};
use dbselect_native::record::sequences::Sequences;

use crate::anything;
use crate::draw::Draw;
use crate::host::no_panic;
use crate::tables::Table;

/// Share of the sum of what is added up by which a prediction may be off.
const ROUNDING: f64 = 1e-14;

/// One step: its price, and the model of the groups held.
struct Step {
    spent: f64,
    intercept: f64,
    /// Columns by their number in the table, with coefficients.
    terms: Vec<(usize, f64)>,
}

/// Draw a table and a sequence over its columns.
pub fn case(draw: &mut Draw) -> Result<(), String> {
    let table = Table::of(draw);
    let steps = steps(draw, table.asked.columns.len());
    let names = &table.asked.columns;
    let array = sequence(&steps, names, draw.one_in(8));
    let batch = StructArray::from(table.batch.clone());
    let leaves = leaves(&batch, Place::ROW);
    let rows = table.batch.num_rows();
    let columns: Vec<Column> = leaves.iter().map(|leaf| leaf.input(0..rows)).collect();
    let case = draw.of(&[Case::Sensitive, Case::Insensitive]);
    if draw.one_in(3) {
        return altered(draw, array, &columns, rows);
    }
    let sequences = Sequences::new(&array)?;
    let one = sequences.at(0).ok_or("the sequence is NULL")?;
    let plan = Plan::new(&one.steps(), one.terms()?, &columns, case, Unknown::default())?;
    let budget = if draw.one_in(2) { f64::INFINITY } else { draw.below(8) as f64 };
    for row in 0..rows {
        let found = plan.predict(&columns, row, budget, MissingColumns::Error)?;
        let found = found.map(|one| (one.step, one.value));
        let exact = steps.iter().enumerate().rev().find_map(|(step, one)| {
            let terms = one.terms.iter().map(|&(column, factor)| {
                let column = &table.columns[column];
                column.values[row].map(|x| x as f64 * 2f64.powi(column.power) * factor)
            });
            let terms: Option<Vec<f64>> = terms.collect();
            terms.filter(|_| one.spent <= budget).map(|terms| (step as i64, one.intercept, terms))
        });
        match (found, exact) {
            (None, None) => {}
            (Some((step, value)), Some((right, intercept, terms))) if step == right => {
                let size = intercept.abs() + terms.iter().map(|x| x.abs()).sum::<f64>();
                let sum = intercept + terms.iter().sum::<f64>();
                if (value - sum).abs() > ROUNDING * size {
                    return Err(format!("row {row}: {value}, not {sum}"));
                }
            }
            (found, exact) => return Err(format!("row {row}: {found:?}, not {exact:?}")),
        }
    }
    Ok(())
}

/// Steps that each add a column.
fn steps(draw: &mut Draw, columns: usize) -> Vec<Step> {
    let mut spent = 0.0;
    let mut steps = vec![Step { spent, intercept: draw.within(9) as f64, terms: Vec::new() }];
    for column in 0..columns {
        if draw.one_in(3) {
            continue;
        }
        spent += (draw.below(4) + 1) as f64 / 2.0;
        let mut held: Vec<usize> =
            steps.iter().flat_map(|one| &one.terms).map(|one| one.0).collect();
        held.sort_unstable();
        held.dedup();
        held.push(column);
        let terms = held.into_iter().map(|at| (at, draw.within(100) as f64 / 8.0)).collect();
        steps.push(Step { spent, intercept: draw.within(9) as f64, terms });
    }
    steps
}

/// The sequence as Polars has it.
fn sequence(steps: &[Step], names: &[String], has_terms: bool) -> ArrayRef {
    let number = |of: &dyn Fn(&Step) -> f64| {
        Arc::new(Float64Array::from_iter_values(steps.iter().map(of))) as ArrayRef
    };
    let all = || steps.iter().flat_map(|step| &step.terms);
    let mut keys = StringViewBuilder::new();
    all().for_each(|(column, _)| keys.append_value(&names[*column]));
    let values = Float64Array::from_iter_values(all().map(|(_, factor)| *factor));
    let entries = [("key", Arc::new(keys.finish()) as ArrayRef), ("value", Arc::new(values))];
    let entries = structs(entries.to_vec());
    let ends = OffsetBuffer::from_lengths(steps.iter().map(|step| step.terms.len()));
    let groups = (0..steps.len()).map(|step| (step > 0).then(|| format!("g{step}")));
    let terms = (0..steps.len())
        .map(|step| (step == 0 && has_terms).then_some(r#"{"categories":[],"bases":[]}"#));
    let fields: Vec<(&str, ArrayRef)> = vec![
        ("step", Arc::new(Int64Array::from_iter_values(0..steps.len() as i64))),
        ("group", Arc::new(StringViewArray::from_iter(groups))),
        ("spent", number(&|step| step.spent)),
        ("intercept", number(&|step| step.intercept)),
        ("coefficients", list(entries, ends)),
        ("terms", Arc::new(StringViewArray::from_iter(terms))),
    ];
    list(structs(fields), OffsetBuffer::from_lengths([steps.len()]))
}

fn structs(fields: Vec<(&str, ArrayRef)>) -> StructArray {
    StructArray::from(
        fields
            .into_iter()
            .map(|(name, array)| {
                (Arc::new(Field::new(name, array.data_type().clone(), true)), array)
            })
            .collect::<Vec<_>>(),
    )
}

fn list(values: StructArray, ends: OffsetBuffer<i64>) -> ArrayRef {
    let item = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    Arc::new(LargeListArray::new(item, ends, Arc::new(values), None))
}

/// A sequence of which a field is of any type or any bits.
fn altered(
    draw: &mut Draw,
    array: ArrayRef,
    columns: &[Column],
    rows: usize,
) -> Result<(), String> {
    let lists = array.as_any().downcast_ref::<LargeListArray>().expect("a list");
    let (_, ends, steps, nulls) = lists.clone().into_parts();
    let steps = steps.as_any().downcast_ref::<StructArray>().expect("steps").clone();
    let length = steps.len();
    let (fields, mut arrays, _) = steps.into_parts();
    let at = draw.below(arrays.len());
    let texts = [
        r#"{"categories":[],"bases":[]}"#,
        r#"{"categories":[],"bases":[],"means":{"a":1}}"#,
        r#"{"categories":[{"column":"a","levels":[1],"rest":true}],"bases":[]}"#,
        r#"{"categories":[{"column":"a","levels":[1],"rest":false,"shares":[1,0]}],"bases":[]}"#,
        r#"{"categories":[{"column":"a","levels":[1],"rest":false,"shares":[1]}],"bases":[]}"#,
        "]",
        "{\"bases\":[{\"column\":\"a\"}]}",
    ];
    arrays[at] = match fields[at].name().as_str() {
        "terms" if draw.one_in(2) => {
            let text = draw.of(&texts);
            Arc::new(StringViewArray::from_iter((0..length).map(|_| Some(text))))
        }
        "spent" | "intercept" if draw.one_in(2) => {
            Arc::new(Float64Array::from_iter_values((0..length).map(|_| draw.double())))
        }
        "step" if draw.one_in(2) => {
            Arc::new(Int64Array::from_iter_values((0..length).map(|_| draw.word() as i64)))
        }
        _ => anything::array(draw, length, 3),
    };
    let names = fields.iter().map(|field| field.name().as_str());
    let steps = structs(names.zip(arrays).collect());
    let item = Arc::new(Field::new_list_field(steps.data_type().clone(), true));
    let array: ArrayRef = Arc::new(LargeListArray::new(item, ends, Arc::new(steps), nulls));
    let Some(sequences) = no_panic(Sequences::new(&array))? else { return Ok(()) };
    let Some(one) = sequences.at(0) else { return Ok(()) };
    let Some(terms) = no_panic(one.terms())? else { return Ok(()) };
    let unknown = draw.of(&[Unknown::Unavailable, Unknown::Error, Unknown::Mean]);
    let plan = Plan::new(&one.steps(), terms, columns, Case::Insensitive, unknown);
    let Some(plan) = no_panic(plan)? else { return Ok(()) };
    let missing_columns = draw.of(&[MissingColumns::Error, MissingColumns::Unavailable]);
    for row in 0..rows {
        no_panic(plan.predict(columns, row, 4.0, missing_columns))?;
    }
    Ok(())
}

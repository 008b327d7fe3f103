//! Arrays of any type and any bits: a record that holds together, or an error.

use std::sync::Arc;

use arrow_array::types::{Int8Type, Int32Type};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, FixedSizeListArray, LargeListArray, LargeStringArray,
    ListArray, NullArray, PrimitiveArray, RecordBatch, RunArray, StringArray, StringViewArray,
    StructArray, UnionArray, make_array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, Fields, IntervalUnit, Schema, TimeUnit, UnionFields};
use dbselect_native::record::arrow::{Place, leaves, read_record};

use crate::draw::Draw;
use crate::host::{Asked, Reader, distinct, folds, no_panic};

/// Types whose values are some bytes each, and how many.
const PLAIN: [(DataType, usize); 34] = [
    (DataType::Int8, 1),
    (DataType::Int16, 2),
    (DataType::Int32, 4),
    (DataType::Int64, 8),
    (DataType::UInt8, 1),
    (DataType::UInt16, 2),
    (DataType::UInt32, 4),
    (DataType::UInt64, 8),
    (DataType::Float16, 2),
    (DataType::Float32, 4),
    (DataType::Float64, 8),
    (DataType::Decimal32(9, 2), 4),
    (DataType::Decimal32(9, -120), 4),
    (DataType::Decimal64(18, 18), 8),
    (DataType::Decimal128(38, 0), 16),
    (DataType::Decimal128(38, 38), 16),
    (DataType::Decimal128(38, -100), 16),
    (DataType::Decimal256(76, 3), 32),
    (DataType::Date32, 4),
    (DataType::Date64, 8),
    (DataType::Time32(TimeUnit::Second), 4),
    (DataType::Time64(TimeUnit::Nanosecond), 8),
    (DataType::Timestamp(TimeUnit::Second, None), 8),
    (DataType::Timestamp(TimeUnit::Millisecond, None), 8),
    (DataType::Timestamp(TimeUnit::Microsecond, None), 8),
    (DataType::Timestamp(TimeUnit::Nanosecond, None), 8),
    (DataType::Duration(TimeUnit::Second), 8),
    (DataType::Interval(IntervalUnit::YearMonth), 4),
    (DataType::Interval(IntervalUnit::DayTime), 8),
    (DataType::Interval(IntervalUnit::MonthDayNano), 16),
    (DataType::FixedSizeBinary(16), 16),
    (DataType::FixedSizeBinary(0), 0),
    (DataType::FixedSizeBinary(3), 3),
    (DataType::Boolean, 1),
];

/// Draw a table of any columns and read it in every way.
pub fn case(draw: &mut Draw) -> Result<(), String> {
    let rows = draw.below(60);
    let names = draw.names(4);
    let columns: Vec<ArrayRef> = (0..draw.below(4) + 1).map(|_| array(draw, rows, 3)).collect();
    let fields: Fields = names
        .iter()
        .zip(&columns)
        .map(|(name, column)| Field::new(name, column.data_type().clone(), true))
        .collect();
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(schema, columns).expect("a table");
    let table = StructArray::from(batch.clone());
    let all = leaves(&table, Place::ROW);
    for leaf in &all {
        leaf.input(0..rows);
        if leaf.is_text() {
            leaf.texts(0..rows);
        }
    }
    let mut asked = Asked::default();
    let mut found: Vec<String> = all.iter().map(|leaf| leaf.name.clone()).collect();
    if draw.one_in(4) {
        asked.weight = found.pop();
    }
    if draw.one_in(8) {
        let levels = vec!["0".to_string(), "a".to_string(), "-1".to_string()];
        let field = draw.below(batch.num_columns());
        let column = names[field].clone();
        asked.categories.push((column, levels.clone(), levels, draw.of(&["s", "i"]).to_string()));
    }
    // Of what is no number the whole pass is refused: half of the time, only numbers are asked.
    if draw.one_in(2) {
        let is_number =
            |name: &String| all.iter().any(|leaf| leaf.name == *name && leaf.is_number());
        found.retain(is_number);
    }
    asked.policies = found.iter().map(|_| draw.of(&['s', 'm', 'i', 'n', 'z'])).collect();
    if asked.categories.iter().any(|one| one.3 == "i") {
        asked.categories[0].2.push("missing".to_string());
    }
    asked.columns = found;
    let reader = Reader::new(&asked);
    if no_panic(reader.add(std::slice::from_ref(&batch)))?.is_some()
        && let Some((_, records)) = no_panic(reader.finish())?
    {
        // What is written can be read, but for names that come twice, and columns so small that
        // they are named.
        for row in 0..records.len() {
            match read_record(&records, row) {
                Err(error) if error.contains("twice") || error.contains("is too small") => {}
                Err(error) => return Err(error),
                Ok(_) => {}
            }
        }
    }
    let k = draw.of(&[2, 10, 1, 0, -1, i64::MAX]);
    let seed = draw.word() as i64;
    no_panic(folds(&batch, &[], k, seed))?;
    no_panic(folds(&batch, &asked.columns, k, seed))?;
    if batch.column(0).logical_null_count() == 0 {
        no_panic(distinct(&batch))?;
    }
    Ok(())
}

/// An array of any type; nested ones to some depth.
pub fn array(draw: &mut Draw, rows: usize, depth: usize) -> ArrayRef {
    let kinds = if depth == 0 { 6 } else { 13 };
    let before = draw.of(&[0, 0, 0, 1, 9]);
    let length = rows + before;
    let whole: ArrayRef = match draw.below(kinds) {
        0..=3 => plain(draw, length),
        4 => texts(draw, length),
        5 => Arc::new(NullArray::new(length)),
        6 => {
            let children: Vec<ArrayRef> =
                (0..draw.below(3)).map(|_| array(draw, length, depth - 1)).collect();
            let names = ["x", "y", "x"];
            let fields: Fields = names
                .iter()
                .zip(&children)
                .map(|(name, child)| Field::new(*name, child.data_type().clone(), true))
                .collect();
            let nulls = nulls(draw, length);
            let array = StructArray::try_new_with_length(fields, children, nulls, length);
            Arc::new(array.expect("a struct"))
        }
        7 => {
            let size = draw.below(4);
            let values = array(draw, length * size, depth - 1);
            let item = Arc::new(Field::new_list_field(values.data_type().clone(), true));
            let nulls = nulls(draw, length);
            let list =
                FixedSizeListArray::try_new_with_length(item, size as i32, values, nulls, length);
            Arc::new(list.expect("a list"))
        }
        8 => {
            let lengths: Vec<usize> = (0..length).map(|_| draw.below(3)).collect();
            let values = array(draw, lengths.iter().sum(), depth - 1);
            let item = Arc::new(Field::new_list_field(values.data_type().clone(), true));
            let nulls = nulls(draw, length);
            match draw.one_in(2) {
                true => {
                    let ends = OffsetBuffer::from_lengths(lengths);
                    Arc::new(ListArray::new(item, ends, values, nulls))
                }
                false => {
                    let ends = OffsetBuffer::from_lengths(lengths);
                    Arc::new(LargeListArray::new(item, ends, values, nulls))
                }
            }
        }
        9 | 10 => {
            let count = draw.below(5);
            let values = array(draw, count, 0);
            let key = |draw: &mut Draw| {
                (count > 0 && !draw.one_in(5)).then(|| draw.below(count.max(1)) as i8)
            };
            let keys = PrimitiveArray::<Int8Type>::from_iter((0..length).map(|_| key(draw)));
            Arc::new(DictionaryArray::try_new(keys, values).expect("a dictionary"))
        }
        11 if length > 0 => {
            let ends = PrimitiveArray::<Int32Type>::from(vec![length as i32]);
            let values = array(draw, 1, 0);
            Arc::new(RunArray::try_new(&ends, &values).expect("a run"))
        }
        _ => {
            let children = vec![array(draw, length, 0), array(draw, length, 0)];
            let fields = ["p", "q"].iter().zip(&children);
            let fields =
                fields.map(|(name, child)| Field::new(*name, child.data_type().clone(), true));
            let fields = UnionFields::try_new([0, 1], fields).expect("two fields");
            let ids: ScalarBuffer<i8> = (0..length).map(|_| draw.below(2) as i8).collect();
            let offsets = draw.one_in(2).then(|| (0..length as i32).collect::<ScalarBuffer<i32>>());
            Arc::new(UnionArray::try_new(fields, ids, offsets, children).expect("a union"))
        }
    };
    whole.slice(before, rows)
}

/// Values of any bits, or whole numbers near 0.
fn plain(draw: &mut Draw, length: usize) -> ArrayRef {
    let (data_type, width) = PLAIN[draw.below(PLAIN.len())].clone();
    let mut bytes = match draw.below(3) {
        0 => draw.bytes(length * width),
        1 => vec![0; length * width],
        _ => (0..length * width)
            .map(|at| if at % width.max(1) == 0 { draw.below(100) as u8 } else { 0 })
            .collect(),
    };
    if data_type == DataType::Float64 {
        bytes = (0..length).flat_map(|_| draw.double().to_le_bytes()).collect();
    }
    let data = ArrayData::builder(data_type)
        .len(length)
        .add_buffer(bytes.into())
        .nulls(nulls(draw, length))
        .align_buffers(true)
        .build();
    make_array(data.expect("an array"))
}

fn texts(draw: &mut Draw, length: usize) -> ArrayRef {
    let text = |draw: &mut Draw| (!draw.one_in(6)).then(|| draw.names(1).remove(0));
    let texts: Vec<Option<String>> = (0..length).map(|_| text(draw)).collect();
    match draw.below(3) {
        0 => Arc::new(StringArray::from(texts)),
        1 => Arc::new(LargeStringArray::from(texts)),
        _ => Arc::new(StringViewArray::from_iter(texts)),
    }
}

fn nulls(draw: &mut Draw, length: usize) -> Option<NullBuffer> {
    let gap = draw.of(&[0, 0, 2, 10]);
    (gap > 0).then(|| (0..length).map(|_| !draw.one_in(gap)).collect())
}

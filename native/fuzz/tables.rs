//! Tables whose sums are known: values are whole numbers times a power of two, as many bits wide
//! as leave every product and sum exact in 128 bits.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::types::*;
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, Decimal128Array, DictionaryArray,
    FixedSizeListArray, Float32Array, Float64Array, Int32Array, LargeStringArray, PrimitiveArray,
    RecordBatch, StringArray, StringViewArray, StructArray,
};
use arrow_buffer::NullBuffer;
use arrow_schema::{Field, Fields, Schema};
use dbselect_native::record::arrow::read_record;
use dbselect_native::record::gram::Record;

use crate::draw::Draw;
use crate::host::{Asked, Reader};

/// Share of sqrt(c_ii c_jj) by which c_ij may be off: some roundings a row.
const ROUNDING: f64 = 1e-13;
/// Share of the weight times a mean squared by which a column that hardly varies may be off:
/// differences from a center are rounded to the last bit of the values.
const LAST_BITS: f64 = 1e-30;
const MOST_ROWS: usize = 200;
/// Widest number: 2^40 squared, times 2^21 for rows and weights, times a sum of weights.
const MOST: i64 = 1 << 40;
const LEVELS: [&str; 5] = ["a", "b", "", "\u{e9}\u{1F600}", "a longer text than a view holds"];

/// A column of the record to come.
pub struct Column {
    pub name: String,
    /// What the table has, in units of 2^power; nothing where it is missing.
    pub values: Vec<Option<i64>>,
    pub power: i32,
    policy: u8,
}

/// A table and what is known of it.
pub struct Table {
    pub batch: RecordBatch,
    pub columns: Vec<Column>,
    pub asked: Asked,
    weights: Column,
    groups: Vec<usize>,
}

/// Draw a table, read it in parts, and compare with exact sums.
pub fn case(draw: &mut Draw) -> Result<(), String> {
    let table = Table::of(draw);
    let parts = cut(draw, table.batch.num_rows());
    let batches: Vec<RecordBatch> =
        parts.iter().map(|rows| table.batch.slice(rows.start, rows.len())).collect();
    let readers = [Reader::new(&table.asked), Reader::new(&table.asked)];
    let split = draw.below(batches.len() + 1);
    for (reader, batches) in readers.iter().zip([&batches[..split], &batches[split..]]) {
        if !batches.is_empty() {
            reader.add(batches)?;
        }
    }
    // What the second reader knows goes on in the first, as from another process.
    let (part, keys) = readers[1].state(b"note")?;
    readers[0].load(&part, &keys)?;
    table.compare(&readers[0].finish()?)
}

impl Table {
    /// A table of some columns of any type, weights, groups and a category.
    pub fn of(draw: &mut Draw) -> Table {
        let rows = draw.below(MOST_ROWS) + 1;
        let n_columns = draw.below(6) + 1;
        let names = draw.names(n_columns + 3);
        let (mut fields, mut arrays): (Vec<Field>, Vec<ArrayRef>) = Default::default();
        let mut columns = Vec::new();
        let mut put = |name: &str, array: ArrayRef| {
            fields.push(Field::new(name, array.data_type().clone(), true));
            arrays.push(array);
        };
        for name in &names[..n_columns] {
            let (array, more) = field(draw, name, rows);
            put(name, array);
            columns.extend(more);
        }
        // A field and a part of another can have one name: the library takes the last.
        let is_twice = |name: &String| columns.iter().filter(|one| one.name == *name).count() > 1;
        let taken = names.iter().any(|name| {
            columns.iter().any(|one| one.name == *name && !names[..n_columns].contains(name))
        });
        if taken || columns.iter().any(|one| is_twice(&one.name)) {
            return Table::of(draw);
        }
        let [weight, group, category] = &names[n_columns..] else { unreachable!() };
        let mut asked = Asked {
            columns: columns.iter().map(|column| column.name.clone()).collect(),
            policies: columns.iter().map(|column| column.policy as char).collect(),
            ..Asked::default()
        };
        let mut weights = plain(weight, vec![Some(1); rows]);
        if draw.one_in(2) {
            let values = (0..rows).map(|_| (!draw.one_in(12)).then(|| draw.below(16) as i64));
            let values: Vec<_> = values.collect();
            let power = draw.of(&[0, 0, -300, 300]);
            put(weight, doubles(draw, &values, power));
            weights = Column { power, ..plain(weight, values) };
            asked.weight = Some(weight.clone());
        }
        let n_groups = if draw.one_in(3) { draw.below(5) + 1 } else { 1 };
        let groups: Vec<usize> = (0..rows).map(|_| draw.below(n_groups)).collect();
        if n_groups > 1 {
            put(group, Arc::new(Int32Array::from_iter_values(groups.iter().map(|&g| g as i32))));
            asked.group = Some(group.clone());
        }
        if draw.one_in(3) {
            let codes = (0..rows).map(|_| (!draw.one_in(9)).then(|| draw.below(LEVELS.len())));
            let codes: Vec<Option<usize>> = codes.collect();
            put(category, texts(draw, &codes));
            let known = draw.below(LEVELS.len()) + 1;
            let names: Vec<String> =
                (0..known).map(|level| format!("{category}.={level}")).collect();
            for (level, name) in names.iter().enumerate() {
                let is_level = |code: &Option<usize>| code.map(|code| i64::from(code == level));
                let values = codes.iter().map(is_level).collect();
                columns.push(plain(name, values));
            }
            let levels = LEVELS[..known].iter().map(|level| level.to_string()).collect();
            asked.categories.push((category.clone(), levels, names, "s".to_string()));
        }
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).expect("a table");
        Table { batch, columns, asked, weights, groups }
    }

    /// What is known of some rows of it.
    pub fn rows(&self, rows: Range<usize>) -> Table {
        let some = |column: &Column| Column {
            values: column.values[rows.clone()].to_vec(),
            name: column.name.clone(),
            ..*column
        };
        Table {
            batch: self.batch.slice(rows.start, rows.len()),
            columns: self.columns.iter().map(some).collect(),
            weights: some(&self.weights),
            groups: self.groups[rows.clone()].to_vec(),
            asked: self.asked.clone(),
        }
    }

    /// Compare the records of the groups of some keys.
    pub fn compare(&self, (keys, records): &(Vec<i32>, StructArray)) -> Result<(), String> {
        for (row, &key) in keys.iter().enumerate() {
            let record = read_record(records, row)?.ok_or("a record is NULL")?;
            self.compare_group(&record, key as usize)?;
        }
        let mut all: Vec<i32> = self.groups.iter().map(|&group| group as i32).collect();
        let mut found = keys.clone();
        [&mut all, &mut found].into_iter().for_each(|keys| keys.sort_unstable());
        all.dedup();
        let is_one = self.asked.group.is_none();
        if is_one || found == all { Ok(()) } else { Err(format!("keys {found:?}, not {all:?}")) }
    }

    /// Whether a row is used.
    fn uses(&self, row: usize) -> bool {
        self.weights.values[row].is_some_and(|weight| weight > 0)
            && self.columns.iter().all(|one| one.policy != b's' || one.values[row].is_some())
    }

    /// Compare the record of a group with exact sums.
    fn compare_group(&self, record: &Record, group: usize) -> Result<(), String> {
        let names: Vec<&String> = self.columns.iter().map(|column| &column.name).collect();
        if record.columns.iter().ne(names) {
            return Err(format!("columns are {:?}", record.columns));
        }
        let all: Vec<usize> =
            (0..self.groups.len()).filter(|&row| self.groups[row] == group).collect();
        let rows: Vec<usize> = all.iter().copied().filter(|&row| self.uses(row)).collect();
        let moments = &record.moments;
        let counts = (moments.rows as usize, moments.skipped as usize);
        if counts != (rows.len(), all.len() - rows.len()) {
            return Err(format!("{counts:?} rows and skipped; {} of {}", rows.len(), all.len()));
        }
        for (column, &missing) in self.columns.iter().zip(&record.missing) {
            let exact = all.iter().filter(|&&row| column.values[row].is_none()).count();
            if missing as usize != exact {
                return Err(format!("{missing} missing in {:?}, not {exact}", column.name));
            }
        }
        let weight = |row: usize| i128::from(self.weights.values[row].unwrap_or(0));
        let value = |j: usize, row: usize| i128::from(self.columns[j].values[row].unwrap_or(0));
        let total: i128 = rows.iter().map(|&row| weight(row)).sum();
        let unit = 2f64.powi(self.weights.power);
        if moments.weight != total as f64 * unit {
            return Err(format!("weight {}, not {}", moments.weight, total as f64 * unit));
        }
        if rows.is_empty() {
            return Ok(());
        }
        let sum = |j: usize| rows.iter().map(|&row| weight(row) * value(j, row)).sum::<i128>();
        let sums: Vec<i128> = (0..self.columns.len()).map(sum).collect();
        let exact = |i: usize, j: usize| {
            let products = rows.iter().map(|&row| weight(row) * value(i, row) * value(j, row));
            let scaled = total * products.sum::<i128>() - sums[i] * sums[j];
            scaled as f64 / total as f64
        };
        let mean = moments.exact_mean();
        let scale = |j: usize| 2f64.powi(self.columns[j].power);
        for i in 0..self.columns.len() {
            let true_mean = sums[i] as f64 / total as f64;
            let spread = (exact(i, i) / total as f64).sqrt();
            let off = ((mean.high[i] + mean.low[i]) / scale(i) - true_mean).abs();
            if off > 4.0 * f64::EPSILON * true_mean.abs() + ROUNDING * spread {
                return Err(format!("mean of {:?} is off by {off}", self.columns[i].name));
            }
            for j in 0..=i {
                let found = moments.comoment[i * (i + 1) / 2 + j] / unit / scale(i) / scale(j);
                let bits =
                    |j: usize| total as f64 * (sums[j] as f64 / total as f64).powi(2) * LAST_BITS;
                let allowed =
                    ROUNDING * (exact(i, i) * exact(j, j)).sqrt() + (bits(i) * bits(j)).sqrt();
                if (found - exact(i, j)).abs() > allowed {
                    let names = (&self.columns[i].name, &self.columns[j].name);
                    return Err(format!("comoment of {names:?} is {found}, not {}", exact(i, j)));
                }
            }
        }
        Ok(())
    }
}

/// Cut rows into parts, some of them empty.
pub fn cut(draw: &mut Draw, rows: usize) -> Vec<Range<usize>> {
    let mut ends: Vec<usize> = (0..draw.below(4)).map(|_| draw.below(rows + 1)).collect();
    ends.extend([0, rows]);
    ends.sort_unstable();
    ends.windows(2).map(|pair| pair[0]..pair[1]).collect()
}

fn plain(name: &str, values: Vec<Option<i64>>) -> Column {
    Column { name: name.to_string(), values, power: 0, policy: b's' }
}

/// A field of the table and the columns that come of it.
fn field(draw: &mut Draw, name: &str, rows: usize) -> (ArrayRef, Vec<Column>) {
    match draw.below(6) {
        0 => within_struct(draw, name, rows),
        1 => elements(draw, name, rows),
        _ => {
            let (array, column) = numbers(draw, name, rows);
            (array, vec![column])
        }
    }
}

/// A struct of two columns, itself missing in places.
fn within_struct(draw: &mut Draw, name: &str, rows: usize) -> (ArrayRef, Vec<Column>) {
    let valid: Vec<bool> = (0..rows).map(|_| !draw.one_in(10)).collect();
    let (mut fields, mut arrays, mut columns) = (Vec::new(), Vec::new(), Vec::new());
    for child in ["x", "y.z"] {
        let (array, mut column) = numbers(draw, &format!("{name}.{child}"), rows);
        let hidden = column.values.iter_mut().zip(&valid).filter(|(_, valid)| !**valid);
        hidden.for_each(|(value, _)| *value = None);
        fields.push(Field::new(child, array.data_type().clone(), true));
        arrays.push(array);
        columns.push(column);
    }
    let array = StructArray::new(Fields::from(fields), arrays, Some(NullBuffer::from(valid)));
    (Arc::new(array), columns)
}

/// A list of as many elements in every row.
fn elements(draw: &mut Draw, name: &str, rows: usize) -> (ArrayRef, Vec<Column>) {
    let size = draw.below(3) + 1;
    let (array, all) = numbers(draw, name, rows * size);
    let valid: Vec<bool> = (0..rows).map(|_| !draw.one_in(10)).collect();
    let column = |element: usize| Column {
        name: format!("{name}[{}]", element + 1),
        values: (0..rows).map(|r| all.values[r * size + element].filter(|_| valid[r])).collect(),
        ..Column { values: Vec::new(), name: String::new(), ..all }
    };
    let columns = (0..size).map(column).collect();
    let item = Arc::new(Field::new_list_field(array.data_type().clone(), true));
    let nulls = Some(NullBuffer::from(valid));
    (Arc::new(FixedSizeListArray::new(item, size as i32, array, nulls)), columns)
}

/// Numbers of one type, with a mean that may be far from 0.
fn numbers(draw: &mut Draw, name: &str, rows: usize) -> (ArrayRef, Column) {
    let kind = draw.below(13);
    let (low, high, power) = match kind {
        0 => (-100, 100, 0),
        1 => (-30_000, 30_000, 0),
        2 => (-(1 << 30), 1 << 30, 0),
        4 => (0, 200, 0),
        5 => (0, 60_000, 0),
        6 => (0, 1 << 31, 0),
        7 => (0, MOST, 0),
        8 => (0, 1, 0),
        9 => (-(1 << 23), 1 << 23, draw.within(20) as i32),
        3 | 10 => (-MOST, MOST, 0),
        _ => (-MOST, MOST, draw.within(60) as i32),
    };
    let spread = 1 << draw.below((high - low).ilog2() as usize + 1);
    let center = low + (draw.word() % (high - low + 1) as u64) as i64;
    let gap = draw.of(&[0, 0, 5, 30]);
    let mut one = || {
        let value = (center + draw.within(spread)).clamp(low, high);
        (gap == 0 || !draw.one_in(gap)).then_some(value)
    };
    let values: Vec<Option<i64>> = (0..rows).map(|_| one()).collect();
    let array = match kind {
        0 => whole::<Int8Type>(draw, &values, |x| x as i8),
        1 => whole::<Int16Type>(draw, &values, |x| x as i16),
        2 => whole::<Int32Type>(draw, &values, |x| x as i32),
        3 => whole::<Int64Type>(draw, &values, |x| x),
        4 => whole::<UInt8Type>(draw, &values, |x| x as u8),
        5 => whole::<UInt16Type>(draw, &values, |x| x as u16),
        6 => whole::<UInt32Type>(draw, &values, |x| x as u32),
        7 => whole::<UInt64Type>(draw, &values, |x| x as u64),
        8 => padded(draw, &values, |values| {
            Arc::new(BooleanArray::from_iter(values.iter().map(|x| x.map(|x| x == 1))))
        }),
        9 => {
            let unit = 2f32.powi(power);
            let nan = draw.one_in(2);
            padded(draw, &values, |values| match nan {
                true => Arc::new(Float32Array::from_iter_values(
                    values.iter().map(|x| x.map_or(f32::NAN, |x| x as f32 * unit)),
                )),
                false => Arc::new(Float32Array::from_iter(
                    values.iter().map(|x| x.map(|x| x as f32 * unit)),
                )),
            })
        }
        10 => padded(draw, &values, |values| {
            let values = values.iter().map(|x| x.map(i128::from));
            let array = Decimal128Array::from_iter(values).with_precision_and_scale(38, 0);
            Arc::new(array.expect("38 digits"))
        }),
        _ => doubles(draw, &values, power),
    };
    let policy = draw.of(b"sssz");
    (array, Column { name: name.to_string(), values, power, policy })
}

/// Whole numbers times a power of 2, NaN or NULL where one is missing.
fn doubles(draw: &mut Draw, values: &[Option<i64>], power: i32) -> ArrayRef {
    let (unit, nan) = (2f64.powi(power), draw.one_in(2));
    padded(draw, values, |values| {
        let numbers = values.iter().map(|x| x.map(|x| x as f64 * unit));
        match nan {
            true => {
                Arc::new(Float64Array::from_iter_values(numbers.map(|x| x.unwrap_or(f64::NAN))))
            }
            false => Arc::new(Float64Array::from_iter(numbers)),
        }
    })
}

fn whole<T: ArrowPrimitiveType>(
    draw: &mut Draw,
    values: &[Option<i64>],
    to: impl Fn(i64) -> T::Native,
) -> ArrayRef {
    padded(draw, values, |values| {
        Arc::new(PrimitiveArray::<T>::from_iter(values.iter().map(|x| x.map(&to))))
    })
}

/// Build an array that begins and ends beyond what is seen of it, as slices do.
fn padded(
    draw: &mut Draw,
    values: &[Option<i64>],
    build: impl FnOnce(&[Option<i64>]) -> ArrayRef,
) -> ArrayRef {
    let (before, after) = (draw.of(&[0, 0, 1, 7, 64]), draw.of(&[0, 3]));
    let mut longer = vec![Some(1); before];
    longer.extend_from_slice(values);
    longer.extend(vec![None; after]);
    build(&longer).slice(before, values.len())
}

/// The levels of some codes, in one of the ways to hold text.
fn texts(draw: &mut Draw, codes: &[Option<usize>]) -> ArrayRef {
    let texts = codes.iter().map(|code| code.map(|code| LEVELS[code]));
    match draw.below(4) {
        0 => Arc::new(StringArray::from_iter(texts)),
        1 => Arc::new(LargeStringArray::from_iter(texts)),
        2 => Arc::new(StringViewArray::from_iter(texts)),
        _ => {
            let keys =
                PrimitiveArray::<Int8Type>::from_iter(codes.iter().map(|c| c.map(|c| c as i8)));
            let levels = StringArray::from_iter_values(LEVELS);
            Arc::new(DictionaryArray::try_new(keys, Arc::new(levels)).expect("codes of levels"))
        }
    }
}

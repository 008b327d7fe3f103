//! Gram records in an Arrow array, read where they lie.

use std::borrow::Cow;
use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, LargeStringArray, StringArray, StringViewArray, StructArray};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

use crate::kernel::rank_update::triangle;
use crate::linear::problem::Gram;
use crate::record::arrow::{Leaf, Place, field, leaf};

/// What a search of few columns costs, as the cube of a width: some microseconds.
const LEAST_WORK: f64 = 1e3;

/// The fields of an array of records.
pub struct Columns {
    /// Where the names of each record lie, and all names.
    pub names: Lists,
    /// As above.
    pub texts: Texts,
    /// Rows, skipped and weight.
    numbers: [Leaf; 3],
    /// Mean and comoment.
    lists: [(Lists, Leaf); 2],
    /// What rounding took from the mean, and rows in which columns are missing, where known.
    optional: [Option<Optional>; 2],
    /// How the columns came to be, where records say it.
    terms: Option<Texts>,
    nulls: Vec<NullBuffer>,
}

impl Columns {
    pub fn new(records: &StructArray) -> Result<Columns, String> {
        let field = |name: &str| field(records, name, "gram record");
        let (names, texts) = Lists::new(field("columns")?, "columns")?;
        let number = |name: &str| numbers(name, field(name)?);
        let list = |array: &ArrayRef, name: &str| {
            let (places, values) = Lists::new(array, name)?;
            Ok::<_, String>((places, numbers(name, &values)?))
        };
        let optional = |name: &str| {
            let array = records.column_by_name(name);
            let array = array.filter(|array| *array.data_type() != DataType::Null);
            let of =
                |array: &ArrayRef| Ok::<_, String>((list(array, name)?, array.logical_nulls()));
            array.map(of).transpose()
        };
        let terms = records.column_by_name("terms");
        let terms = terms.filter(|array| *array.data_type() != DataType::Null);
        let needed = ["columns", "rows", "skipped", "weight", "mean", "comoment"];
        let nulls =
            |name: &&str| records.column_by_name(name).and_then(|array| array.logical_nulls());
        Ok(Columns {
            names,
            texts: Texts::new(&texts, "columns")?,
            numbers: [number("rows")?, number("skipped")?, number("weight")?],
            lists: [list(field("mean")?, "mean")?, list(field("comoment")?, "comoment")?],
            optional: [optional("mean_low")?, optional("missing")?],
            terms: terms.map(|array| Texts::new(array, "terms")).transpose()?,
            nulls: needed.iter().filter_map(nulls).collect(),
        })
    }

    /// Whether no field of a record is NULL.
    pub fn are_present(&self, row: usize) -> bool {
        self.nulls.iter().all(|nulls| nulls.is_valid(row))
    }

    /// How the columns of a record came to be, as JSON.
    pub fn terms(&self, row: usize) -> Option<&str> {
        self.terms.as_ref().and_then(|terms| terms.at(row))
    }

    pub fn views<'c>(&'c self) -> Result<Views<'c>, String> {
        let [rows, skipped, weight] = &self.numbers;
        let numbers = [doubles(rows)?, doubles(skipped)?, doubles(weight)?];
        let list = |(places, leaf): &'c (Lists, Leaf)| Ok::<_, String>((places, doubles(leaf)?));
        let [mean, comoment] = &self.lists;
        let optional = |known: &'c Option<Optional>| {
            let of = |(found, nulls): &'c Optional| Ok::<_, String>((list(found)?, nulls.as_ref()));
            known.as_ref().map(of).transpose()
        };
        let [mean_low, missing] = &self.optional;
        let counts = |((places, values), nulls): (List<'c>, _)| {
            let of = |&count: &f64| if count.is_nan() { -1 } else { count as i64 };
            ((places, Cow::Owned(values.iter().map(of).collect())), nulls)
        };
        Ok(Views {
            names: &self.names,
            numbers,
            lists: [list(mean)?, list(comoment)?],
            mean_low: optional(mean_low)?,
            missing: optional(missing)?.map(counts),
        })
    }
}

/// An array, if it holds numbers.
fn numbers(name: &str, array: &ArrayRef) -> Result<Leaf, String> {
    if array.data_type().is_nested() {
        return Err(format!("'{name}' has type {}; a number is needed", array.data_type()));
    }
    let leaf = leaf(name, array, Place::ROW);
    leaf.doubles(0..0)?;
    Ok(leaf)
}

/// All values of an array as doubles, NaN for NULL.
fn doubles(leaf: &Leaf) -> Result<Cow<'_, [f64]>, String> {
    let (mut values, missing) = leaf.present(0..leaf.values().len())?;
    if !missing.is_empty() {
        missing.rows().for_each(|row| values.to_mut()[row] = f64::NAN);
    }
    Ok(values)
}

/// A list that a record may have NULL in, and the records that do.
type Optional = ((Lists, Leaf), Option<NullBuffer>);

/// Where the lists of an array lie, and the numbers of all.
type List<'c, T = f64> = (&'c Lists, Cow<'c, [T]>);
/// The same, NULL in some records.
type Known<'c, T> = Option<(List<'c, T>, Option<&'c NullBuffer>)>;

/// The numbers of an array of records, as doubles.
pub struct Views<'c> {
    names: &'c Lists,
    numbers: [Cow<'c, [f64]>; 3],
    lists: [List<'c>; 2],
    mean_low: Known<'c, f64>,
    missing: Known<'c, i64>,
}

impl Views<'_> {
    /// What it costs to search all records: D^3 each, and what a search takes at least.
    pub fn work(&self) -> f64 {
        self.names.lengths().map(|width| (width as f64).powi(3) + LEAST_WORK).sum()
    }

    /// The numbers of a record; nothing if they are not those of one.
    pub fn gram(&self, row: usize) -> Option<Gram<'_>> {
        let width = self.names.of(row).len();
        let missing = known(&self.missing, row, width)?;
        if missing.iter().any(|&count| count < 0) {
            return None;
        }
        let [rows, skipped, weight] = &self.numbers;
        let (rows, skipped, weight) = (rows[row], skipped[row], weight[row]);
        let gram = Gram {
            rows: rows as i64,
            skipped: skipped as i64,
            weight,
            mean: list_of(&self.lists[0], row, width)?,
            comoment: list_of(&self.lists[1], row, triangle(width))?,
            mean_low: known(&self.mean_low, row, width)?,
            missing,
        };
        gram.is_sound().then_some(gram)
    }
}

/// The numbers of a list; nothing if there are not so many.
fn list_of<'v, T: Clone>(
    (places, values): &'v List<T>,
    row: usize,
    length: usize,
) -> Option<&'v [T]> {
    values.get(places.of(row)).filter(|list| list.len() == length)
}

/// The same of a list that a record may lack, then none.
fn known<'v, T: Clone>(list: &'v Known<T>, row: usize, length: usize) -> Option<&'v [T]> {
    match list {
        Some((found, nulls)) if nulls.is_none_or(|nulls| nulls.is_valid(row)) => {
            list_of(found, row, length)
        }
        _ => Some(&[]),
    }
}

/// Where each list of an array lies among the elements of all.
pub struct Lists(Vec<usize>);

impl Lists {
    /// The places and the elements.
    pub fn new(array: &ArrayRef, name: &str) -> Result<(Lists, ArrayRef), String> {
        Ok(match array.data_type() {
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                let places = list.value_offsets().iter().map(|&at| at as usize);
                (Lists(places.collect()), list.values().clone())
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                let places = list.value_offsets().iter().map(|&at| at as usize);
                (Lists(places.collect()), list.values().clone())
            }
            DataType::FixedSizeList(_, size) => {
                let list = array.as_fixed_size_list();
                let places = (0..=list.len()).map(|row| row * *size as usize);
                (Lists(places.collect()), list.values().clone())
            }
            other => return Err(format!("'{name}' has type {other}; a list is needed")),
        })
    }

    /// How many elements each list has.
    fn lengths(&self) -> impl Iterator<Item = usize> {
        self.0.windows(2).map(|places| places[1] - places[0])
    }

    pub fn of(&self, row: usize) -> Range<usize> {
        self.0[row]..self.0[row + 1]
    }
}

/// Text, as the hosts store it.
pub enum Texts {
    Short(StringArray),
    Long(LargeStringArray),
    View(StringViewArray),
}

impl Texts {
    pub fn new(array: &ArrayRef, name: &str) -> Result<Texts, String> {
        Ok(match array.data_type() {
            DataType::Utf8 => Texts::Short(array.as_string().clone()),
            DataType::LargeUtf8 => Texts::Long(array.as_string().clone()),
            DataType::Utf8View => Texts::View(array.as_string_view().clone()),
            other => return Err(format!("'{name}' holds {other}; text is needed")),
        })
    }

    /// Some texts; nothing if one is NULL.
    pub fn all(&self, range: Range<usize>) -> Option<Vec<String>> {
        range.map(|i| self.at(i).map(str::to_string)).collect()
    }

    pub fn at(&self, i: usize) -> Option<&str> {
        match self {
            Texts::Short(texts) => texts.is_valid(i).then(|| texts.value(i)),
            Texts::Long(texts) => texts.is_valid(i).then(|| texts.value(i)),
            Texts::View(texts) => texts.is_valid(i).then(|| texts.value(i)),
        }
    }
}

//! What a sequence reads of a row of the raw table, field by field.
//!
//! The columns of a model are those of a record: levels, curves, indicators. Terms state from
//! which field each comes, so that a row costs a look at each field, however many levels or
//! splines it has. `dbselect/record/inputs.py` is the same rule.

use std::borrow::Cow;
use std::cell::LazyCell;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::ops::Deref;
use std::sync::Arc;

use serde_json::Value;

use crate::kernel::chunk::{Missing, bits};
use crate::kernel::gaps::SUFFIX;
use crate::record::levels::Dictionary;
use crate::record::terms::{Category, Terms, integer};
use crate::record::texts::{Texts, Values};

/// Degree of the splines' pieces.
const CUBIC: usize = 3;
/// Seconds of a day.
const DAY: f64 = 86_400.0;

/// What a column of a table holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Numbers with a fraction.
    Number,
    /// Whole numbers.
    Whole,
    /// Booleans.
    Boolean,
    /// Text.
    Text,
    /// Dates or timestamps, in days or seconds since 1970.
    Date(&'static str),
    /// Nothing but NULL.
    Nothing,
    /// Something of a type that no model reads.
    Other(String),
}

/// What is read of a column when a row first needs it.
type Lazy<'c, T> = LazyCell<T, Box<dyn FnOnce() -> T + 'c>>;

/// A column of the rows at hand.
pub struct Column<'c> {
    /// Name of the flattened column.
    pub name: String,
    /// What it holds.
    pub kind: Kind,
    /// The type of that, for errors.
    pub type_name: String,
    /// An infinite value is missing as NaN is: no fit takes one. What is missing is finite here,
    /// so that 0 times it is 0.
    numbers: Lazy<'c, (Cow<'c, [f64]>, Missing)>,
    /// Whole numbers as they are: doubles are exact only up to 2^53.
    integers: Lazy<'c, Vec<i128>>,
    texts: Lazy<'c, Texts<'c>>,
}

impl<'c> Column<'c> {
    /// A column; its kind decides which of the values are read.
    pub fn new(
        name: String,
        (kind, type_name): (Kind, String),
        numbers: impl FnOnce() -> (Cow<'c, [f64]>, Missing) + 'c,
        integers: impl FnOnce() -> Vec<i128> + 'c,
        texts: impl FnOnce() -> Texts<'c> + 'c,
    ) -> Column<'c> {
        let finite = || {
            let (mut values, mut missing) = numbers();
            take_out_not_finite(&mut values, &mut missing);
            (values, missing)
        };
        let numbers = LazyCell::new(Box::new(finite) as Box<dyn FnOnce() -> _ + 'c>);
        let integers = LazyCell::new(Box::new(integers) as Box<dyn FnOnce() -> _ + 'c>);
        let texts = LazyCell::new(Box::new(texts) as Box<dyn FnOnce() -> _ + 'c>);
        Column { name, kind, type_name, numbers, integers, texts }
    }

    /// A column of NULL.
    pub fn nothing() -> Column<'c> {
        let kind = (Kind::Nothing, "NULL".to_string());
        let numbers = || (Cow::Owned(Vec::new()), Missing::none());
        let texts = || Texts { values: Values::Each(Vec::new()), missing: Missing::none() };
        Column::new(String::new(), kind, numbers, Vec::new, texts)
    }

    /// The number of a row, if it has one.
    pub fn number(&self, row: usize) -> Option<f64> {
        let (values, missing) = &*self.numbers;
        (!missing.contains(row)).then(|| values[row])
    }

    /// The whole number of a row; a boolean is 0 or 1.
    fn integer(&self, row: usize) -> Option<i128> {
        let number = self.number(row)?;
        Some(if self.kind == Kind::Whole { self.integers[row] } else { number as i128 })
    }

    fn text(&self, row: usize) -> Option<&[u8]> {
        let Texts { values, missing } = &*self.texts;
        (!missing.contains(row)).then(|| match values {
            Values::Each(texts) => texts[row],
            Values::Coded(texts, codes) => &texts[codes[row] as usize],
        })
    }
}

/// Rows of the columns at hand.
pub enum Rows<'r> {
    /// As many as there are.
    All(usize),
    /// Those with these numbers.
    These(&'r [usize]),
}

impl Rows<'_> {
    /// How many they are.
    pub fn count(&self) -> usize {
        match self {
            Rows::All(count) => *count,
            Rows::These(rows) => rows.len(),
        }
    }

    /// The number of one of them.
    pub fn at(&self, at: usize) -> usize {
        match self {
            Rows::All(_) => at,
            Rows::These(rows) => rows[at],
        }
    }
}

/// What becomes of a level that the fit has not seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Unknown {
    /// Its group is not there.
    #[default]
    Unavailable,
    /// An error.
    Error,
    /// It counts as the mean effect of the levels over the rows of the fit.
    Mean,
}

impl Unknown {
    /// The one that a caller names.
    pub fn of(name: &str) -> Result<Unknown, String> {
        match name {
            "unavailable" => Ok(Unknown::Unavailable),
            "error" => Ok(Unknown::Error),
            "mean" => Ok(Unknown::Mean),
            _ => Err(format!(
                "handle_unknown is '{name}'; it must be one of ['unavailable', 'error', 'mean']"
            )),
        }
    }
}

/// What becomes of a column of the sequence that the type of the rows lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MissingColumns {
    /// An error, if a prefix within the budget needs it.
    #[default]
    Error,
    /// Its group is not available in any row.
    Unavailable,
}

impl MissingColumns {
    /// The one that a caller names.
    pub fn of(name: &str) -> Result<MissingColumns, String> {
        match name {
            "error" => Ok(MissingColumns::Error),
            "unavailable" => Ok(MissingColumns::Unavailable),
            _ => Err(format!(
                "missing_columns is '{name}'; it must be one of ['error', 'unavailable']"
            )),
        }
    }
}

/// A field of the table, and how the columns of a model come of it.
pub(super) struct Input {
    pub(super) source: Source,
    /// Where the field stands in the rows; absent if they lack it.
    column: Option<usize>,
    /// What one unit of the column is in units of the fit.
    unit: f64,
}

/// What a field is.
pub(super) enum Source {
    Number(String),
    Levels(Lookup),
    Curve(Curve),
}

/// The levels of a category.
pub(super) struct Lookup {
    pub(super) column: String,
    pub(super) levels: Vec<Value>,
    /// The columns: one a level, then that of all other values, if there is one.
    names: Vec<String>,
    missing: String,
    kind: Option<Kind>,
    texts: Dictionary,
    /// Whole numbers, and booleans as 0 and 1.
    integers: HashMap<i128, u32>,
    pub(super) rest: bool,
    /// The mean of each of `names`, then of `missing`, over the rows of the fit, if it is known.
    shares: Option<Vec<f64>>,
}

impl Lookup {
    fn new(category: &Category) -> Lookup {
        let (mut texts, mut integers) = (Dictionary::default(), HashMap::new());
        for (code, level) in (0..).zip(&category.levels) {
            match level {
                Value::String(text) => texts.insert(text.as_bytes(), code),
                Value::Bool(flag) => {
                    integers.insert(i128::from(*flag), code);
                }
                other => {
                    integers.insert(integer(other), code);
                }
            }
        }
        let kind = category.levels.first().map(|level| match level {
            Value::String(_) => Kind::Text,
            Value::Bool(_) => Kind::Boolean,
            _ => Kind::Whole,
        });
        Lookup {
            column: category.column.clone(),
            levels: category.levels.clone(),
            names: category.names(),
            missing: category.missing(),
            kind,
            texts,
            integers,
            rest: category.rest,
            shares: category.shares.clone(),
        }
    }

    /// What the levels add to a prediction in the mean over the rows of the fit.
    fn mean(&self, coefficient: impl Fn(&String) -> f64) -> Option<f64> {
        let columns = self.names.iter().chain([&self.missing]);
        let shares = self.shares.as_ref()?;
        Some(columns.zip(shares).map(|(name, share)| share * coefficient(name)).sum())
    }

    /// The code of a row's level, and whether it has a value at all.
    fn code(&self, column: &Column, row: usize) -> (bool, Option<u32>) {
        if column.kind == Kind::Text {
            let text = column.text(row);
            return (text.is_some(), text.and_then(|text| self.texts.get(text)));
        }
        let level = column.integer(row);
        (level.is_some(), level.and_then(|level| self.integers.get(&level).copied()))
    }

    /// A row's value, for errors.
    fn shown(&self, column: &Column, row: usize) -> String {
        match column.kind {
            Kind::Text => String::from_utf8_lossy(column.text(row).unwrap_or_default()).into(),
            Kind::Boolean => (column.number(row) == Some(1.0)).to_string(),
            _ => column.integer(row).unwrap_or_default().to_string(),
        }
    }
}

/// Polynomials or splines of a number, or its logarithm.
pub(super) struct Curve {
    column: String,
    names: Vec<String>,
    shape: Shape,
}

enum Shape {
    /// Legendre polynomials of (x - center) / scale.
    Poly { center: f64, scale: f64 },
    /// Cubic B-splines on these knots, three more on either side.
    Spline { knots: Vec<f64> },
    /// The natural logarithm, of numbers above 0.
    Log,
}

/// The columns that come of each basis, after the column of the table that it is of.
pub fn curves(terms: &Terms) -> impl Iterator<Item = (String, Vec<String>)> {
    terms.bases.iter().filter_map(Curve::new).map(|curve| (curve.column, curve.names))
}

impl Curve {
    /// What a record of terms holds.
    fn new(basis: &Value) -> Option<Curve> {
        let column = basis.get("column")?.as_str()?.to_string();
        let number = |name| basis.get(name)?.as_f64();
        let named = |kind: &str, n| (1..=n).map(|k| format!("{column}.{kind}{k}")).collect();
        let Some(knots) = basis.get("knots") else {
            if basis.get("degree").is_none() {
                let names = vec![format!("{column}.log")];
                return Some(Curve { column, names, shape: Shape::Log });
            }
            let names = named("poly", number("degree")? as usize);
            let shape = Shape::Poly { center: number("center")?, scale: number("scale")? };
            return Some(Curve { column, names, shape });
        };
        let knots: Option<Vec<f64>> = knots.as_array()?.iter().map(Value::as_f64).collect();
        let knots = knots.filter(|knots| knots.len() > 1)?;
        let names = named("spline", knots.len() + CUBIC - 2);
        Some(Curve { column, names, shape: Shape::Spline { knots: extended(&knots) } })
    }

    /// Whether it is the logarithm.
    pub(super) fn is_log(&self) -> bool {
        matches!(self.shape, Shape::Log)
    }

    /// The sum of the columns, each times its coefficient; one of splines more has none.
    /// Nothing where there is no logarithm.
    fn value(&self, x: f64, coefficients: &[f64]) -> Option<f64> {
        match &self.shape {
            Shape::Poly { center, scale } => Some(legendre((x - center) / scale, coefficients)),
            Shape::Spline { knots } => Some(spline(x, knots, coefficients)),
            Shape::Log => (x > 0.0).then(|| x.ln() * coefficients[0]),
        }
    }
}

/// Add knots beyond the outer ones, as far apart as the nearest two.
fn extended(knots: &[f64]) -> Vec<f64> {
    let (first, last) = (knots[0], knots[knots.len() - 1]);
    let (begin, end) = (knots[1] - first, last - knots[knots.len() - 2]);
    let before = (1..=CUBIC).rev().map(|k| first - k as f64 * begin);
    let after = (1..=CUBIC).map(|k| last + k as f64 * end);
    before.chain(knots.iter().copied()).chain(after).collect()
}

/// Sum of c_k P_k(z), k from 1, by Clenshaw's recurrence (1955).
fn legendre(z: f64, coefficients: &[f64]) -> f64 {
    let (mut next, mut after) = (0.0, 0.0);
    for (at, c) in coefficients.iter().enumerate().rev() {
        let k = (at + 1) as f64;
        let own = c + (2.0 * k + 1.0) / (k + 1.0) * z * next - (k + 1.0) / (k + 2.0) * after;
        (next, after) = (own, next);
    }
    z * next - 0.5 * after
}

/// Sum of cubic B-splines by de Boor's recurrence (1972), constant beyond the outer knots.
fn spline(x: f64, knots: &[f64], coefficients: &[f64]) -> f64 {
    let (first, last) = (CUBIC, knots.len() - CUBIC - 1);
    let x = x.clamp(knots[first], knots[last]);
    let inner = &knots[first + 1..last];
    let k = first + inner.partition_point(|&knot| knot <= x);
    let mut d = [0.0; CUBIC + 1];
    for (j, value) in d.iter_mut().enumerate() {
        *value = coefficients.get(k - CUBIC + j).copied().unwrap_or_default();
    }
    for r in 1..=CUBIC {
        for j in (r..=CUBIC).rev() {
            let (low, high) = (knots[k + j - CUBIC], knots[k + j + 1 - r]);
            let share = (x - low) / (high - low);
            d[j] = (1.0 - share) * d[j - 1] + share * d[j];
        }
    }
    d[CUBIC]
}

impl Source {
    /// The name of the field.
    pub(super) fn name(&self) -> &str {
        match self {
            Source::Number(name) => name,
            Source::Levels(lookup) => &lookup.column,
            Source::Curve(curve) => &curve.column,
        }
    }

    /// The columns that come of it, but for that of what is missing.
    fn names(&self) -> &[String] {
        match self {
            Source::Number(name) => std::slice::from_ref(name),
            Source::Levels(lookup) => &lookup.names,
            Source::Curve(curve) => &curve.names,
        }
    }

    /// The column that is 1 where it is missing.
    fn mark(&self) -> String {
        match self {
            Source::Levels(lookup) => lookup.missing.clone(),
            other => format!("{}{SUFFIX}", other.names()[0]),
        }
    }
}

/// What a field adds to a prediction.
pub(super) struct Part {
    input: usize,
    /// One a column of the field.
    pub(super) coefficients: Vec<f64>,
    /// Where it is missing; absent if there is no prediction then.
    pub(super) missing: Option<f64>,
    /// The mean effect of its levels, if it has any and their shares are known.
    pub(super) mean: Option<f64>,
}

/// The model of a prefix, matched to the columns of a table.
pub struct Model {
    pub(super) intercept: f64,
    pub(super) parts: Vec<Part>,
}

/// The values of a column of numbers, and its coefficient in each model.
type Weighed<'v> = (&'v [f64], Vec<f64>);

/// The fields that a sequence reads, matched to the columns of a table.
pub struct Inputs {
    inputs: Vec<Input>,
    /// Which of them each column comes of.
    owners: HashMap<String, usize>,
    terms: Arc<Terms>,
}

impl Inputs {
    /// Match the columns of a sequence; `place` finds one of the table by its name.
    pub fn new<'n>(
        names: impl Iterator<Item = &'n str>,
        terms: Arc<Terms>,
        columns: &[Column],
        place: impl Fn(&str) -> Option<usize>,
    ) -> Result<Inputs, String> {
        let mut order = Vec::new();
        let mut wanted: HashSet<&str> = HashSet::new();
        order.extend(names.filter(|name| wanted.insert(name)));
        let mut found = Inputs { inputs: Vec::new(), owners: HashMap::new(), terms: terms.clone() };
        for term in &terms.computed {
            let mut lacking = term.names.iter().filter(|name| wanted.contains(&name[..]));
            if let Some(name) = lacking.find(|name| place(name).is_none()) {
                return Err(format!(
                    "sequence has a column '{name}' that is computed of others; model.sql() in \
                     Python writes the prediction as SQL"
                ));
            }
        }
        let curves = terms.bases.iter().map(|basis| Curve::new(basis).map(Source::Curve));
        let levels = terms.categories.iter().map(|one| Some(Source::Levels(Lookup::new(one))));
        for source in levels.chain(curves) {
            let source = source.ok_or("sequence has terms with a basis that is none")?;
            let own: Vec<String> = [source.names(), &[source.mark()]].concat();
            let used: Vec<&String> = own.iter().filter(|name| wanted.contains(&name[..])).collect();
            // Columns that are made already are numbers as they are; without the field, also if
            // the table has some of them only. The indicator of what is missing may be its own.
            let has_all = used.iter().all(|name| place(name).is_some());
            let mark = source.mark();
            let mut made = used.iter().filter(|name| **name != mark.as_str());
            let has_some = place(source.name()).is_none() && made.any(|name| place(name).is_some());
            if used.is_empty() || has_all || has_some {
                continue;
            }
            found.add(source, own, columns, &place)?;
        }
        for &name in &order {
            if found.owners.contains_key(name) {
                continue;
            }
            let base = name.strip_suffix(SUFFIX).filter(|base| {
                let known = wanted.contains(base) || terms.indicators.iter().any(|x| x == base);
                known && place(name).is_none()
            });
            let own = base.unwrap_or(name).to_string();
            let mark = format!("{own}{SUFFIX}");
            let follows =
                wanted.contains(&mark[..]) && place(&mark).is_none() && !terms.flat.contains(&mark);
            let owned = if follows { vec![own.clone(), mark] } else { vec![own.clone()] };
            found.add(Source::Number(own), owned, columns, &place)?;
        }
        Ok(found)
    }

    fn add(
        &mut self,
        source: Source,
        names: Vec<String>,
        columns: &[Column],
        place: impl Fn(&str) -> Option<usize>,
    ) -> Result<(), String> {
        let mut column = place(source.name());
        if column.is_none() && !self.terms.flat.iter().any(|flat| flat == source.name()) {
            column = within_nothing(source.name(), columns, &place)?;
        }
        let unit = column.map_or(Ok(1.0), |at| self.unit(&source, &columns[at]))?;
        let number = self.inputs.len();
        self.owners.extend(names.into_iter().map(|name| (name, number)));
        self.inputs.push(Input { source, column, unit });
        Ok(())
    }

    /// What one unit of a column is in units of the fit; refuse a column of another type.
    fn unit(&self, source: &Source, column: &Column) -> Result<f64, String> {
        let is = format!("column '{}' has type {}", column.name, column.type_name);
        if column.kind == Kind::Nothing {
            return Ok(1.0);
        }
        if let Source::Levels(lookup) = source {
            return match &lookup.kind {
                Some(kind) if *kind != column.kind => {
                    let levels = match kind {
                        Kind::Text => "text",
                        Kind::Boolean => "boolean",
                        _ => "integer",
                    };
                    Err(format!("{is}; the levels of its category are {levels}"))
                }
                _ => Ok(1.0),
            };
        }
        let learnt = self.terms.dates.get(source.name()).and_then(Value::as_str);
        match (&column.kind, learnt) {
            (Kind::Number | Kind::Whole | Kind::Boolean, _) => Ok(1.0),
            (Kind::Date(unit), Some(learnt)) if *unit == learnt => Ok(1.0),
            (Kind::Date(_), Some("days")) => Ok(1.0 / DAY),
            (Kind::Date(_), Some(_)) => Ok(DAY),
            _ => Err(format!("{is}; the fit has read a number there")),
        }
    }

    /// The column and the unit of each coefficient of a model of numbers, none of which is filled
    /// where it is missing; nothing for other models.
    pub(super) fn factors(&self, model: &Model) -> Option<Vec<(usize, f64)>> {
        let factor = |(at, part): (usize, &Part)| {
            let input = &self.inputs[part.input];
            let is_plain = matches!(input.source, Source::Number(_)) && part.missing.is_none();
            (is_plain && part.input == at).then_some((input.column?, input.unit))
        };
        model.parts.iter().enumerate().map(factor).collect()
    }

    /// Refuse a category without the shares of its levels, of which there is no mean effect.
    pub fn check_shares(&self) -> Result<(), String> {
        let lacks = |input: &Input| match &input.source {
            Source::Levels(lookup) => !lookup.rest && lookup.shares.is_none(),
            _ => false,
        };
        match self.inputs.iter().find(|input| lacks(input)) {
            Some(input) => Err(no_shares(input.source.name())),
            None => Ok(()),
        }
    }

    /// The field that a part of a model is of.
    pub(super) fn input(&self, part: &Part) -> &Input {
        &self.inputs[part.input]
    }

    /// A model of some columns, matched to the table; the fields that it lacks if there are any.
    pub fn model(
        &self,
        intercept: f64,
        coefficients: &[(String, f64)],
    ) -> Result<Model, Vec<String>> {
        let own: HashMap<&str, f64> =
            coefficients.iter().map(|(name, x)| (name.as_str(), *x)).collect();
        let mut order: Vec<usize> = Vec::new();
        let mut met: HashSet<usize> = HashSet::new();
        for (name, _) in coefficients {
            let input = self.owners[name];
            if met.insert(input) {
                order.push(input);
            }
        }
        let lacking = order.iter().map(|&input| &self.inputs[input]);
        let lacking = lacking.filter(|input| input.column.is_none());
        let lacking: Vec<String> = lacking.map(|input| input.source.name().to_string()).collect();
        if !lacking.is_empty() {
            return Err(lacking);
        }
        let part = |input: usize| {
            let source = &self.inputs[input].source;
            let names = source.names();
            let of = |name: &String| own.get(&name[..]).copied().unwrap_or_default();
            let mark = source.mark();
            let missing =
                match own.get(&mark[..]).filter(|_| self.owners.get(&mark) == Some(&input)) {
                    Some(mark) => Some(mark + self.filled(names, &own).unwrap_or_default()),
                    None => self.filled(names, &own),
                };
            let mean = match source {
                Source::Levels(lookup) => lookup.mean(of),
                _ => None,
            };
            Part { input, coefficients: names.iter().map(of).collect(), missing, mean }
        };
        Ok(Model { intercept, parts: order.into_iter().map(part).collect() })
    }

    /// What columns add where they have their means, if they do.
    fn filled(&self, names: &[String], coefficients: &HashMap<&str, f64>) -> Option<f64> {
        let product = |name: &String| {
            let mean = self.terms.means.get(name).and_then(Value::as_f64)?;
            Some(mean * coefficients.get(&name[..])?)
        };
        names.iter().filter_map(product).fold(None, |sum, x| Some(sum.unwrap_or(0.0) + x))
    }

    /// The names of columns that nothing is read of.
    pub fn unread(&self, columns: &[Column]) -> Vec<String> {
        let is_read = |at: usize| self.inputs.iter().any(|input| input.column == Some(at));
        let others = columns.iter().enumerate().filter(|(at, _)| !is_read(*at));
        others.map(|(_, column)| column.name.clone()).collect()
    }

    /// Those of some rows that lack a field of a model: it is missing, or has a level that counts
    /// as missing.
    pub fn lacking(
        &self,
        model: &Model,
        columns: &[Column],
        rows: &Rows,
        unknown: Unknown,
    ) -> Result<Missing, String> {
        let (mut lacks, count) = (Missing::none(), rows.count());
        for part in &model.parts {
            let own = self.lacking_part(part, columns, rows, unknown)?;
            if !own.is_empty() {
                lacks.set_those_of(&own, count);
            }
        }
        Ok(lacks)
    }

    /// The same of one part of a model.
    fn lacking_part<'c>(
        &self,
        part: &Part,
        columns: &'c [Column],
        rows: &Rows,
        unknown: Unknown,
    ) -> Result<Cow<'c, Missing>, String> {
        let (mut lacks, count) = (Missing::none(), rows.count());
        let input = &self.inputs[part.input];
        match (&input.source, input.column.map(|at| &columns[at]), rows) {
            (_, None, _) => lacks.set_all(count),
            (Source::Number(_), ..) if part.missing.is_some() => {}
            (Source::Number(_), Some(column), Rows::All(_)) => {
                return Ok(Cow::Borrowed(&column.numbers.1));
            }
            _ => {
                for at in 0..count {
                    if self.part(part, columns, rows.at(at), unknown)?.is_none() {
                        lacks.set(at, count);
                    }
                }
            }
        }
        Ok(Cow::Owned(lacks))
    }

    /// Which of as many models, tried in their order, is the first that each of some rows may
    /// have and lacks no field of; `None` where it is none.
    ///
    /// A level that the fit has not seen is an error, if it is one, in rows that try its model.
    pub fn first_there(
        &self,
        models: &[(&Model, impl Fn(usize) -> bool)],
        columns: &[Column],
        rows: &Rows,
        unknown: Unknown,
    ) -> Result<Vec<Option<usize>>, String> {
        let count = rows.count();
        let mut found = vec![None; count];
        // A bit a row, 64 a word.
        let mut waiting = vec![u64::MAX; count.div_ceil(64)];
        waiting.iter_mut().skip(count / 64).for_each(|last| *last >>= 64 - count % 64);
        // By field, and whether what is missing is filled.
        let mut known: HashMap<(usize, bool), Cow<Missing>> = HashMap::new();
        for (number, (model, may)) in models.iter().enumerate() {
            if waiting.iter().all(|word| *word == 0) {
                break;
            }
            let mut lacks = Missing::none();
            for part in &model.parts {
                let own = match known.entry((part.input, part.missing.is_some())) {
                    Entry::Occupied(own) => own.into_mut(),
                    Entry::Vacant(empty) => {
                        let own = match unknown {
                            Unknown::Error => Unknown::Unavailable,
                            other => other,
                        };
                        empty.insert(self.lacking_part(part, columns, rows, own)?)
                    }
                };
                if own.is_empty() {
                    continue;
                }
                if unknown == Unknown::Error {
                    for (at, word) in waiting.iter().enumerate() {
                        for row in bits(at, word & own.word(at)).filter(|&row| may(row)) {
                            self.part(part, columns, rows.at(row), unknown)?;
                        }
                    }
                }
                lacks.set_those_of(own, count);
            }
            for (at, word) in waiting.iter_mut().enumerate() {
                for row in bits(at, *word & !lacks.word(at)).filter(|&row| may(row)) {
                    found[row] = Some(number);
                    *word &= !(1 << (row % 64));
                }
            }
        }
        Ok(found)
    }

    /// What models predict of rows that lack no field of theirs; `kinds` has the model of each.
    pub fn values_there(
        &self,
        models: &[impl Deref<Target = Model>],
        kinds: &[u32],
        columns: &[Column],
        rows: &Rows,
        unknown: Unknown,
    ) -> Result<Vec<f64>, String> {
        // Of each field, its part of each model.
        let mut parts: Vec<Vec<Option<&Part>>> = vec![Vec::new(); self.inputs.len()];
        for (kind, model) in models.iter().enumerate() {
            for part in &model.parts {
                let own = &mut parts[part.input];
                own.resize(models.len(), None);
                own[kind] = Some(part);
            }
        }
        let mut sums: Vec<f64> = match models {
            [model] => vec![model.intercept; kinds.len()],
            _ => kinds.iter().map(|&kind| models[kind as usize].intercept).collect(),
        };
        // Numbers, each with its coefficient in each model: 0 where the model does not read it.
        let mut numbers: Vec<Weighed> = Vec::new();
        for (input, parts) in self.inputs.iter().zip(&parts).filter(|(_, own)| !own.is_empty()) {
            let is_filled = parts.iter().flatten().any(|part| part.missing.is_some());
            let column = input.column.filter(|_| !is_filled).map(|at| &columns[at]);
            if let (Source::Number(_), Some(column)) = (&input.source, column) {
                let of = |part: &Option<&Part>| part.map_or(0.0, |part| part.coefficients[0]);
                let each = parts.iter().map(|part| input.unit * of(part)).collect();
                numbers.push((&column.numbers.0, each));
                continue;
            }
            for (at, (sum, &kind)) in sums.iter_mut().zip(kinds).enumerate() {
                if let Some(part) = parts[kind as usize] {
                    let value = self.part(part, columns, rows.at(at), unknown)?;
                    *sum += value.unwrap_or(f64::NAN);
                }
            }
        }
        for some in numbers.chunks(4) {
            match <&[Weighed; 4]>::try_from(some) {
                Ok(four) => add_products(four, kinds, rows, &mut sums),
                Err(_) => some.iter().for_each(|one| {
                    add_products(std::array::from_ref(one), kinds, rows, &mut sums);
                }),
            }
        }
        Ok(sums)
    }

    /// What a model predicts of a row; nothing if something is missing.
    pub fn value(
        &self,
        model: &Model,
        columns: &[Column],
        row: usize,
        unknown: Unknown,
    ) -> Result<Option<f64>, String> {
        let mut sum = Some(model.intercept);
        for part in &model.parts {
            let value = self.part(part, columns, row, unknown)?;
            sum = sum.zip(value).map(|(sum, value)| sum + value);
            // An error is looked for to the end, so that it does not depend on the order.
            if sum.is_none() && unknown != Unknown::Error {
                break;
            }
        }
        Ok(sum)
    }

    fn part(
        &self,
        part: &Part,
        columns: &[Column],
        row: usize,
        unknown: Unknown,
    ) -> Result<Option<f64>, String> {
        let input = &self.inputs[part.input];
        let Some(column) = input.column.map(|at| &columns[at]) else { return Ok(None) };
        let number = || column.number(row).map(|x| x * input.unit);
        Ok(match &input.source {
            Source::Number(_) => match number() {
                Some(x) => Some(x * part.coefficients[0]),
                None => part.missing,
            },
            Source::Curve(curve) => match number() {
                Some(x) => curve.value(x, &part.coefficients),
                None => part.missing,
            },
            Source::Levels(lookup) => match lookup.code(column, row) {
                (false, _) => part.missing,
                (true, Some(code)) => Some(part.coefficients[code as usize]),
                (true, None) if lookup.rest => part.coefficients.last().copied(),
                (true, None) => match unknown {
                    Unknown::Unavailable => None,
                    Unknown::Mean => part.mean,
                    Unknown::Error => {
                        let shown = lookup.shown(column, row);
                        return Err(format!(
                            "column '{}' has the level '{shown}', which the fit has not seen",
                            lookup.column
                        ));
                    }
                },
            },
        })
    }
}

/// Add some columns to the sums of rows, each times its coefficient in the model of the row.
///
/// Several at a time, so that the sum and the kind of a row are read once for all of them.
fn add_products<const K: usize>(
    columns: &[Weighed; K],
    kinds: &[u32],
    rows: &Rows,
    sums: &mut [f64],
) {
    let of_kind = |kind: usize| std::array::from_fn(|k| columns[k].1[kind]);
    let weights: Vec<[f64; K]> = (0..columns[0].1.len()).map(of_kind).collect();
    let most = columns.iter().fold(usize::MAX, |most, (values, _)| most.min(values.len()));
    // Of one length, which is checked once for all.
    let values: [&[f64]; K] = std::array::from_fn(|k| &columns[k].0[..most]);
    let add = |sum: &mut f64, row: usize, weights: &[f64; K]| {
        *sum = (0..K).fold(*sum, |sum, k| sum + values[k][row] * weights[k]);
    };
    let each = sums.iter_mut().zip(kinds).enumerate();
    match (rows, &weights[..]) {
        (Rows::All(_), [weights]) => each.for_each(|(row, (sum, _))| add(sum, row, weights)),
        (rows, weights) => {
            each.for_each(|(at, (sum, &kind))| add(sum, rows.at(at), &weights[kind as usize]));
        }
    }
}

/// Mark the rows where a value is NaN or infinite, and put 0 there.
fn take_out_not_finite(values: &mut Cow<'_, [f64]>, missing: &mut Missing) {
    let count = values.len();
    for start in (0..count).step_by(64) {
        let some = start..(start + 64).min(count);
        // Most have none, which the vector unit sees.
        if values[some.clone()].iter().fold(false, |any, x| any | !x.is_finite()) {
            let values = &mut values.to_mut()[some.clone()];
            for (value, row) in values.iter_mut().zip(some).filter(|(x, _)| !x.is_finite()) {
                missing.set(row, count);
                *value = 0.0;
            }
        }
    }
}

/// The fields that some columns come of, of a table like that of the fit.
pub fn fields_of(names: &[String], terms: Arc<Terms>) -> Result<Vec<(String, Kind)>, String> {
    let made = super::expression::made(names.iter(), &terms);
    let columns = [Column::nothing()];
    let place = |name: &str| (!made.contains(name)).then_some(0);
    let inputs = Inputs::new(names.iter().map(String::as_str), terms, &columns, place)?;
    let field = |input: Input| {
        let kind = match &input.source {
            Source::Levels(lookup) => lookup.kind.clone().unwrap_or(Kind::Text),
            _ => Kind::Number,
        };
        (input.source.name().to_string(), kind)
    };
    Ok(inputs.inputs.into_iter().map(field).collect())
}

/// The error of a category whose levels have no shares. `no_shares` in
/// `dbselect/record/inputs.py` says the same.
fn no_shares(column: &str) -> String {
    format!(
        "handle_unknown is 'mean', which needs the share of each level of '{column}' in the rows \
         of the fit, and the sequence was stored without them; search again, or take \
         'unavailable' or 'error'"
    )
}

/// The column that holds nothing but NULL where the fit has read another within it; refuse a
/// LIST or a number instead of an ARRAY or a STRUCT.
fn within_nothing(
    name: &str,
    columns: &[Column],
    place: impl Fn(&str) -> Option<usize>,
) -> Result<Option<usize>, String> {
    let ends = name.char_indices().filter(|(_, c)| matches!(c, '.' | '[')).map(|(at, _)| at);
    let within: Vec<usize> = ends.filter_map(|end| place(&name[..end])).collect();
    match within.iter().map(|&at| &columns[at]).find(|column| column.kind != Kind::Nothing) {
        Some(Column { name: own, type_name, .. }) => {
            Err(format!("column '{own}' has type {type_name}; the fit has read '{name}' in it"))
        }
        None => Ok(within.first().copied()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logarithm_is_of_numbers_above_zero() {
        let curve = Curve::new(&serde_json::json!({"column": "hours"})).unwrap();
        assert_eq!(curve.names, ["hours.log"]);
        // The last bit of a logarithm is the machine's.
        assert!((curve.value(2.5, &[1.0]).unwrap() - 2.5f64.ln()).abs() < 1e-15);
        assert_eq!(curve.value(0.0, &[1.0]), None);
        assert_eq!(curve.value(-1.0, &[1.0]), None);
    }

    #[test]
    fn curves_are_their_definitions() {
        let c = [0.5, -2.0, 3.0];
        for z in [-1.5, -0.3, 0.0, 1.0f64] {
            let p = [z, 1.5 * z * z - 0.5, 2.5 * z.powi(3) - 1.5 * z];
            let sum: f64 = p.iter().zip(c).map(|(p, c)| p * c).sum();
            assert!((legendre(z, &c) - sum).abs() < 1e-14);
        }
        assert_eq!(legendre(0.7, &[]), 0.0);
        // B-splines on even knots sum to 1, the last of them too.
        let knots = extended(&[0.0, 1.0, 2.0, 3.0]);
        assert_eq!(knots, [-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        for x in [-9.0, 0.0, 0.4, 1.0, 2.9, 3.0, 7.0] {
            assert!((spline(x, &knots, &[1.0; 6]) - 1.0).abs() < 1e-14);
        }
        // At an even knot, 1/6, 4/6 and 1/6.
        assert!((spline(1.0, &knots, &[0.0, 1.0, 0.0]) - 1.0 / 6.0).abs() < 1e-15);
        assert!((spline(1.0, &knots, &[0.0, 0.0, 1.0]) - 4.0 / 6.0).abs() < 1e-15);
        assert_eq!(spline(-5.0, &knots, &[6.0]), 1.0);
    }
}

//! Rows of numbers and texts in, one record a group of rows out.

use std::cell::RefCell;
use std::collections::HashSet;
use std::hash::BuildHasherDefault;
use std::sync::Arc;
use std::{mem, slice};

use serde_json::Value;

use crate::kernel::accumulator::{Accumulator, scatter, scatter_and};
use crate::kernel::block::{ROWS_AHEAD, prefetch};
use crate::kernel::chunk::{Chunk, Labels, Missing, Screened};
use crate::kernel::gaps::{self, Filled, Place, Policy};
use crate::kernel::moments::Moments;
use crate::kernel::units::Units;
use crate::record::categories::{Layout, Scratch};
use crate::record::gram::{Names, Record, Recorded, check_overflow};
use crate::record::levels::Multiply;
use crate::record::terms::{self, Category, Terms};
use crate::record::texts::{Found, Kept, Limit, Met, TextSums, Texts};

/// What the fields of a row are, in their order.
#[derive(Debug, PartialEq)]
pub struct Shape {
    /// Names of the columns of numbers.
    pub numbers: Names,
    /// What becomes of their missing values; none given: rows without one are left out.
    pub policies: Vec<Policy>,
    /// Names of the columns of text.
    pub texts: Vec<String>,
    /// The columns in the order of the record.
    pub order: Vec<Item>,
    /// The terms, except what the rows decide: levels, means, and which indicators there are.
    pub base: Arc<Terms>,
    /// How many levels a text may have.
    pub limit: Limit,
    /// The levels that its groups have met.
    pub met: Met,
}

/// A column, by its number among those of its kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Item {
    /// Of numbers.
    Number(usize),
    /// Of text.
    Text(usize),
}

/// A column of a table, before its values are read.
pub struct Column<'n> {
    /// Name of the flattened column.
    pub name: &'n str,
    /// Whether it is a field of the row itself.
    pub is_field: bool,
    /// Whether it holds text.
    pub is_text: bool,
    /// What it counts since 1970, if it holds dates.
    pub unit: Option<&'static str>,
}

impl Shape {
    /// The shape of a row of some columns; `policies` are those of the numbers.
    pub fn of(
        columns: &[Column],
        policies: Vec<Policy>,
        limit: Limit,
        base: Terms,
    ) -> Result<Shape, String> {
        check_distinct(columns.iter().map(|column| column.name))?;
        let base = Arc::new(base);
        let (mut numbers, mut texts, mut order) = (Vec::new(), Vec::new(), Vec::new());
        for column in columns {
            let into = if column.is_text { &mut texts } else { &mut numbers };
            let at = into.len();
            order.push(if column.is_text { Item::Text(at) } else { Item::Number(at) });
            into.push(column.name.to_string());
        }
        let met = Met::of(texts.len(), &policies);
        Ok(Shape { numbers: numbers.into(), policies, texts, order, base, limit, met })
    }

    /// Whether a row with anything missing is left out.
    fn is_plain(&self) -> bool {
        !self.policies.iter().any(Policy::fills)
    }
}

/// Refuse columns of which two have one name.
pub(crate) fn check_distinct<'n>(mut names: impl Iterator<Item = &'n str>) -> Result<(), String> {
    let mut met: HashSet<&'n str, BuildHasherDefault<Multiply>> = HashSet::default();
    met.reserve(names.size_hint().0);
    match names.find(|name| !met.insert(*name)) {
        None => Ok(()),
        Some(name) => Err(format!(
            "two columns of the record would have the name '{name}': a field of that name, and \
             a child, an element, a level or an indicator of another field; rename one of the \
             fields"
        )),
    }
}

/// The terms that follow from the columns of a table alone.
pub fn terms_of(columns: &[Column]) -> Terms {
    let dated = |column: &Column| Some((column.name.to_string(), Value::from(column.unit?)));
    // The name of a field may look like that of a child or an element of another.
    let looks_nested = |name: &str| name.find(['.', '[']).is_some_and(|at| at > 0);
    let flat = columns.iter().filter(|column| column.is_field && looks_nested(column.name));
    Terms {
        dates: columns.iter().filter_map(dated).collect(),
        flat: flat.map(|column| column.name.to_string()).collect(),
        ..Terms::default()
    }
}

/// A run of rows: numbers, and texts beside them.
pub struct Rows<'c> {
    /// The numbers; `missing` has the rows where a weight is NULL.
    pub numbers: Chunk<'c>,
    /// One a column of text.
    pub texts: Vec<Texts<'c>>,
}

impl Rows<'_> {
    /// Leave out the rows in which a text is missing.
    pub fn leave_out(&mut self) {
        for texts in &self.texts {
            self.numbers.missing.set_those_of(&texts.missing, self.numbers.rows);
        }
    }

    /// The numbers of some of the rows in some of the columns, in ascending order.
    pub(crate) fn picked(&self, rows: &[usize], columns: &[usize]) -> Chunk<'_> {
        let pick = |values: &[f64]| rows.iter().map(|&row| values[row]).collect();
        let marks = |marks: &Missing| {
            let mut found = Missing::none();
            for (at, _) in rows.iter().enumerate().filter(|&(_, &row)| marks.contains(row)) {
                found.set(at, rows.len());
            }
            found
        };
        let units = |units: &Units| {
            let column = columns.binary_search(&units.column).ok()?;
            Some(units.picked(rows).of_column(column))
        };
        Chunk {
            rows: rows.len(),
            columns: columns.iter().map(|&j| pick(&self.numbers.columns[j])).collect(),
            weight: self.numbers.weight.as_ref().map(|weight| pick(weight)),
            missing: marks(&self.numbers.missing),
            nulls: columns.iter().map(|&j| marks(&self.numbers.nulls[j])).collect(),
            units: self.numbers.units.iter().filter_map(units).collect(),
            policies: self.numbers.policies,
        }
    }
}

/// The statistics of a group while its rows arrive.
#[derive(Clone)]
pub struct Group {
    shape: Arc<Shape>,
    numbers: Accumulator,
    texts: Option<Box<TextSums>>,
}

impl Group {
    /// A group without rows.
    pub fn new(shape: &Arc<Shape>) -> Group {
        let texts = || TextSums::new(&shape.met, shape.limit);
        Group {
            shape: shape.clone(),
            numbers: Accumulator::new(shape.numbers.len()),
            texts: (!shape.texts.is_empty()).then(texts).map(Box::new),
        }
    }

    /// Add all rows of a run.
    pub fn add(&mut self, rows: &Rows, labels: Labels) -> Result<(), String> {
        if rows.texts.is_empty() {
            return self.numbers.add(&rows.numbers, labels);
        }
        let all: Vec<usize> = (0..rows.numbers.rows).collect();
        self.add_some(&rows.numbers, &rows.texts.iter().collect::<Vec<_>>(), &all, labels)
    }

    /// Ask for the memory of its moments.
    pub fn expect_moments(&self) {
        self.numbers.expect_moments();
    }

    /// Add rows of which the numbers stand in `chunk`, and the texts at some places.
    pub(crate) fn add_some(
        &mut self,
        chunk: &Chunk,
        texts: &[&Texts],
        at: &[usize],
        labels: Labels,
    ) -> Result<(), String> {
        let Some(sums) = &mut self.texts else { return self.numbers.add(chunk, labels) };
        let met = &self.shape.met;
        let numbers = met.numbers(texts.iter().copied(), at);
        let codes = sums.codes(&self.shape.texts, texts, at, (met, &numbers))?;
        let codes: Vec<&[u32]> = codes.iter().map(|codes| &codes[..]).collect();
        self.numbers.add_and(chunk, labels, |start, rows| sums.add(start, rows, &codes))
    }

    /// Add the rows of another group.
    pub fn merge(&mut self, other: &Group) -> Result<(), String> {
        if !Arc::ptr_eq(&self.shape, &other.shape) && self.shape != other.shape {
            let (own, others) = (&self.shape, &other.shape);
            return Err(terms::difference(
                &[&own.numbers[..], &own.texts].concat(),
                &[&others.numbers[..], &others.texts].concat(),
            ));
        }
        self.numbers.merge(&other.numbers);
        match (&mut self.texts, &other.texts) {
            (Some(own), Some(others)) => {
                own.merge(&self.shape.texts, others, [&self.shape.met, &other.shape.met])
            }
            _ => Ok(()),
        }
    }

    /// The record of all rows so far, which stays in the form of its sums, where their columns are
    /// those of the record.
    pub fn plain(&mut self) -> Option<Plain<'_>> {
        let Group { shape, numbers, texts } = self;
        let is_plain = texts.is_none() && shape.is_plain();
        is_plain.then_some(Plain { columns: &shape.numbers, terms: &shape.base, numbers })
    }

    /// The record of all rows so far.
    pub fn finish(&mut self) -> Result<Record, String> {
        if let Some(mut plain) = self.plain() {
            let (columns, terms) = (plain.columns.clone(), plain.terms.clone());
            let mut missing = plain.missing().to_vec();
            missing.resize(columns.len(), 0);
            let moments = plain.with_moments(Moments::clone);
            check_overflow(&columns, &moments)?;
            return Ok(Record { columns, moments, missing, terms });
        }
        let places = gaps::layout(&self.shape.policies, |_| true);
        let Group { shape, numbers, texts } = self;
        if let (Some(texts), true) = (texts.as_deref(), shape.is_plain()) {
            // Of most groups others have the levels too.
            let found = numbers.with_moments(|own| texts.finish(&shape.met, own, None, &places));
            let levels = found.columns.iter().flat_map(|own| {
                own.levels.iter().copied().chain([if own.rest { u32::MAX - 1 } else { u32::MAX }])
            });
            let (columns, terms) = shape.met.head(levels.collect(), || {
                let categories = shape.categories(&found.columns);
                let columns = shape.columns(&places, &categories)?;
                Ok((columns, Arc::new(shape.terms(&found.moments, None, &[], &[], categories))))
            })?;
            return shape.record(numbers, (columns, terms), &places, Some(texts), found);
        }
        numbers.finish();
        let filled = numbers.filled();
        let own = filled.finish(&shape.policies, &places);
        let found = match texts {
            None => Found { columns: Vec::new(), moments: own.into_owned() },
            Some(texts) => texts.finish(&shape.met, &own, Some(filled), &places),
        };
        let categories = shape.categories(&found.columns);
        let columns = shape.columns(&places, &categories)?;
        let names = gaps::names(&shape.numbers, &places);
        let terms = shape.terms(&found.moments, Some(filled), &names, &places, categories);
        shape.record(numbers, (columns, Arc::new(terms)), &places, texts.as_deref(), found)
    }
}

/// Sums whose columns are those of their record.
pub struct Plain<'g> {
    /// Names of the columns.
    pub columns: &'g Names,
    /// The terms of the record.
    pub terms: &'g Arc<Terms>,
    /// The sums.
    pub numbers: &'g mut Accumulator,
}

impl Recorded for Plain<'_> {
    fn columns(&self) -> &Names {
        self.columns
    }

    fn terms(&self) -> &Arc<Terms> {
        self.terms
    }

    fn missing(&self) -> &[u64] {
        self.numbers.absent()
    }

    fn with_moments<T>(&mut self, show: impl FnOnce(&Moments) -> T) -> T {
        self.numbers.with_moments(show)
    }

    fn expect(&self) {
        prefetch(slice::from_ref(self.numbers));
    }

    fn expect_moments(&self) {
        self.numbers.expect_moments();
    }
}

/// Add the rows of a run, each to its own group.
///
/// `group_of` maps a row to its group, and `known` does so as in `scatter`.
pub fn add_scattered<'g>(
    rows: &Rows,
    labels: Labels,
    known: impl Fn(usize) -> Option<&'g Group>,
    mut group_of: impl FnMut(usize) -> &'g mut Group,
) -> Result<(), String> {
    if rows.texts.is_empty() {
        let known = |row| known(row).map(|group| &group.numbers);
        return scatter(&rows.numbers, labels, known, |row| &mut group_of(row).numbers);
    }
    // Numbered once for all groups, each row by itself is added to the sums by level of its own.
    let shape = group_of(0).shape.clone();
    let all: Vec<usize> = (0..rows.numbers.rows).collect();
    let met = shape.met.numbers(&rows.texts, &all);
    let layout = Layout::of(&shape.policies, &vec![0; shape.texts.len()]);
    let group_of = RefCell::new(group_of);
    let (mut block, mut codes) = (Scratch::default(), vec![0; shape.texts.len()]);
    let mut failed = Ok(());
    let mut add_texts = |start: usize, screened: &Screened| -> Result<(), String> {
        block.turn(&layout, start, screened);
        let mut used = block.used.clone().into_iter().enumerate().peekable();
        for row in (start..).take(screened.rows + screened.skipped) {
            let sums_of =
                |at: usize| if at < all.len() { known(at)?.texts.as_deref() } else { None };
            sums_of(row + ROWS_AHEAD).inspect(|sums| sums.expect());
            sums_of(row + ROWS_AHEAD / 2).inspect(|sums| sums.expect_sums());
            let Group { shape: own, texts: Some(sums), .. } = (group_of.borrow_mut())(row) else {
                continue;
            };
            for (c, code) in codes.iter_mut().enumerate() {
                let is_there = !rows.texts[c].missing.contains(row);
                let number = || own.met.of_other(&shape.met, c, met[c][row]);
                *code = sums.code(c, is_there.then(number));
            }
            let at = used.next_if(|&(_, own)| own == row).map(|(at, _)| (at, &mut block));
            sums.add_row(&own.texts, &own.met, screened, at, &codes)?;
        }
        Ok(())
    };
    scatter_and(
        &rows.numbers,
        labels,
        |row| known(row).map(|group| &group.numbers),
        |row| &mut (group_of.borrow_mut())(row).numbers,
        |start, screened| {
            if failed.is_ok() {
                failed = add_texts(start, screened);
            }
        },
    )?;
    failed
}

impl Shape {
    /// The categories of a record.
    fn categories(&self, found: &[Kept]) -> Vec<Category> {
        let both = found.iter().zip(&self.texts).enumerate();
        both.map(|(at, (own, column))| own.category(&self.met, at, column)).collect()
    }

    /// The places of the columns of a record, numbers before levels, in the order of the row:
    /// `number` gives those of a number, and `levels` how many levels each text has.
    fn arranged(&self, places: &[Place], levels: &[usize]) -> Vec<usize> {
        let (mut at, mut level, mut order) = (0, places.len(), Vec::new());
        for item in &self.order {
            match item {
                Item::Number(j) => {
                    let own = |place: &Place| match place {
                        Place::Column(column) | Place::Indicator(column) => column == j,
                    };
                    let count = places[at..].iter().take_while(|place| own(place)).count();
                    order.extend(at..at + count);
                    at += count;
                }
                Item::Text(t) => {
                    let count = levels.get(*t).copied().unwrap_or_default();
                    order.extend(level..level + count);
                    level += count;
                }
            }
        }
        order
    }

    /// The names of the columns of a record.
    fn columns(&self, places: &[Place], categories: &[Category]) -> Result<Names, String> {
        let levels: Vec<Vec<String>> = categories.iter().map(Category::names).collect();
        let order = self.arranged(places, &levels.iter().map(Vec::len).collect::<Vec<_>>());
        let names = gaps::names(&self.numbers, places);
        let mut names: Vec<String> =
            names.iter().cloned().chain(levels.into_iter().flatten()).collect();
        let columns: Names = order.into_iter().map(|at| mem::take(&mut names[at])).collect();
        check_distinct(columns.iter().map(|name| &name[..]))?;
        Ok(columns)
    }

    /// The record of some rows.
    fn record(
        &self,
        numbers: &Accumulator,
        (columns, terms): (Names, Arc<Terms>),
        places: &[Place],
        texts: Option<&TextSums>,
        found: Found,
    ) -> Result<Record, String> {
        let levels: Vec<usize> = found.columns.iter().map(Kept::count).collect();
        let order = self.arranged(places, &levels);
        let of_number = |place: &Place| match *place {
            Place::Column(j) => numbers.absent().get(j).copied().unwrap_or_default(),
            Place::Indicator(_) => 0,
        };
        let of_level = |(t, &count): (usize, &usize)| {
            std::iter::repeat_n(texts.map_or(0, |texts| texts.absent(t)), count)
        };
        let missing: Vec<u64> = places
            .iter()
            .map(of_number)
            .chain(levels.iter().enumerate().flat_map(of_level))
            .collect();
        let moments = match order.iter().enumerate().all(|(at, place)| *place == at) {
            true => found.moments,
            false => found.moments.arranged(&order.iter().copied().map(Some).collect::<Vec<_>>()),
        };
        check_overflow(&columns, &moments)?;
        let missing = order.iter().map(|&at| missing[at]).collect();
        Ok(Record { columns, moments, missing, terms })
    }

    /// The terms of a record of some numbers, which may be filled, and categories.
    fn terms(
        &self,
        moments: &Moments,
        filled: Option<&Filled>,
        names: &[String],
        places: &[Place],
        categories: Vec<Category>,
    ) -> Terms {
        let mut terms = Terms::clone(&self.base);
        for (at, place) in places.iter().enumerate() {
            let Place::Column(j) = *place else { continue };
            match self.policies[j] {
                Policy::Mean => {
                    terms.means.insert(names[at].clone(), moments.mean_of(at).into());
                }
                Policy::Indicator => {
                    terms.indicators.push(names[at].clone());
                    let fill = filled.map_or(0.0, |filled| filled.fill_beside(j));
                    if fill != 0.0 {
                        terms.means.insert(names[at].clone(), fill.into());
                    }
                }
                _ => {}
            }
        }
        terms.categories.extend(categories);
        terms
    }
}

//! Categories whose levels are found while the rows arrive.
//!
//! A text column of a row becomes a column of 0 and 1 for each of its levels. Levels are
//! numbered as they come; room for more of them is made by doubling. At the end they stand
//! in ascending order, and levels of no row that was used are none.

use std::borrow::Cow;
use std::slice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::kernel::block::prefetch;
use crate::kernel::chunk::{Missing, Screened};
use crate::kernel::gaps::{Filled, Place, Policy};
use crate::kernel::moments::Moments;
use crate::record::categories::{Layout, LevelSums, Scratch};
use crate::record::levels::{Dictionary, Map};
use crate::record::terms::{Category, SKIP};

/// Default limit on the levels of a column: more are an error.
pub const MAX_LEVELS: usize = 1000;
/// Most levels of a column of which the most frequent are kept.
const MOST_LEVELS: usize = 1 << 16;
/// Room for levels to begin with.
const FEW_LEVELS: usize = 8;
/// Most doubles that the sums by level of a group may take: 4 GiB.
const MOST_DOUBLES: usize = 1 << 29;

/// The texts of a column of a chunk.
pub struct Texts<'c> {
    /// What the rows have.
    pub values: Values<'c>,
    /// Where there is no value.
    pub missing: Missing,
}

/// Texts row by row, or by their numbers in a list of texts.
pub enum Values<'c> {
    /// One text a row.
    Each(Vec<&'c [u8]>),
    /// The texts, and for each row the number of its own.
    Coded(Vec<Cow<'c, [u8]>>, Vec<u32>),
}

/// How many levels a text column may have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// The number.
    pub levels: usize,
    /// Whether the most frequent are kept, and all others become one level.
    pub rest: bool,
}

impl Default for Limit {
    fn default() -> Limit {
        Limit { levels: MAX_LEVELS, rest: false }
    }
}

impl Limit {
    /// The limit that a caller gives.
    pub fn of(levels: i64) -> Result<Limit, String> {
        match usize::try_from(levels) {
            Ok(levels) if levels > 0 => Ok(Limit { levels, rest: true }),
            _ => Err(format!("max_levels is {levels}; it must be a whole number >= 1")),
        }
    }
}

/// The levels of a column so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Levels {
    /// The texts, in the order in which they came.
    pub(crate) texts: Vec<Box<[u8]>>,
    numbers: Dictionary,
}

impl Levels {
    /// The number of a text.
    pub(crate) fn number(&mut self, text: &[u8]) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return number;
        }
        let number = self.texts.len() as u32;
        self.numbers.insert(text, number);
        self.texts.push(text.into());
        number
    }

    /// The number of the text of some rows of a chunk; 0 where it is missing.
    pub(crate) fn number_all(&mut self, texts: &Texts, rows: &[usize]) -> Vec<u32> {
        let is_present = |row: &usize| !texts.missing.contains(*row);
        match &texts.values {
            Values::Each(values) => {
                let number =
                    |row: &usize| if is_present(row) { self.number(values[*row]) } else { 0 };
                rows.iter().map(number).collect()
            }
            Values::Coded(values, codes) => {
                let mut known: Vec<Option<u32>> = vec![None; values.len()];
                for &row in rows.iter().filter(|row| is_present(row)) {
                    let code = codes[row] as usize;
                    known[code].get_or_insert_with(|| self.number(&values[code]));
                }
                let number = |row: &usize| match is_present(row) {
                    true => known[codes[*row] as usize].unwrap_or_default(),
                    false => 0,
                };
                rows.iter().map(number).collect()
            }
        }
    }
}

/// The levels that the groups of one shape have met, by column: each text is kept once, and
/// looked up once a row, however many groups have it.
#[derive(Debug)]
pub struct Met {
    columns: Vec<Mutex<Levels>>,
    /// Where the sums of few levels lie, which most groups share.
    few: Arc<Layout>,
}

/// What shapes have met is no part of what they are.
impl PartialEq for Met {
    fn eq(&self, _: &Met) -> bool {
        true
    }
}

impl Met {
    /// None of some columns, beside numbers of some policies.
    pub fn of(columns: usize, policies: &[Policy]) -> Met {
        Met {
            columns: (0..columns).map(|_| Mutex::default()).collect(),
            few: Arc::new(Layout::of(policies, &vec![FEW_LEVELS; columns])),
        }
    }

    fn column(&self, at: usize) -> MutexGuard<'_, Levels> {
        self.columns[at].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number here of each text of some rows of a chunk; 0 where it is missing.
    pub fn numbers<'t>(
        &self,
        texts: impl IntoIterator<Item = &'t Texts<'t>>,
        rows: &[usize],
    ) -> Vec<Vec<u32>> {
        let of = |(at, texts)| self.column(at).number_all(texts, rows);
        texts.into_iter().enumerate().map(of).collect()
    }

    fn text(&self, column: usize, number: u32) -> Box<[u8]> {
        self.column(column).texts[number as usize].clone()
    }

    /// The number here of a text that has a number elsewhere.
    pub fn of_other(&self, other: &Met, column: usize, number: u32) -> u32 {
        if std::ptr::eq(self, other) {
            return number;
        }
        // One lock at a time: two threads may merge two groups with each other's.
        let text = other.text(column, number);
        self.column(column).number(&text)
    }
}

/// The levels of a column of a group: their numbers in `Met`, in the order in which they came.
#[derive(Clone, Debug, Default)]
struct Own {
    met: Vec<u32>,
    /// Their places, of more than are looked at one by one.
    places: Map<u32>,
}

/// Most levels of a group that are looked at one by one.
const FEW_SEARCHED: usize = 32;

impl Own {
    /// The place of a level.
    fn place(&mut self, number: u32) -> u32 {
        let known = match self.places.is_empty() {
            true => self.met.iter().position(|&own| own == number).map(|at| at as u32),
            false => self.places.get(&number).copied(),
        };
        known.unwrap_or_else(|| {
            self.met.push(number);
            if self.met.len() > FEW_SEARCHED {
                let from = if self.places.is_empty() { 0 } else { self.met.len() - 1 };
                self.places
                    .extend((from as u32..).zip(&self.met[from..]).map(|(at, &own)| (own, at)));
            }
            self.met.len() as u32 - 1
        })
    }
}

/// The sums by level of one group of rows.
#[derive(Clone, Debug)]
pub struct TextSums {
    columns: Vec<Own>,
    limit: Limit,
    /// Rows in which each column is missing, also those left out.
    absent: Vec<u64>,
    policies: Vec<Policy>,
    layout: Arc<Layout>,
    sums: LevelSums,
}

/// The text columns of a finished record.
pub struct Found {
    /// Their levels.
    pub categories: Vec<Category>,
    /// Rows in which each column is missing.
    pub absent: Vec<u64>,
    /// The moments of the numbers, then those of the levels.
    pub moments: Moments,
}

impl TextSums {
    /// No rows of some text columns beside numbers of some policies.
    pub fn new(met: &Met, policies: &[Policy], limit: Limit) -> TextSums {
        let n_columns = met.columns.len();
        TextSums {
            columns: vec![Own::default(); n_columns],
            limit,
            absent: vec![0; n_columns],
            policies: policies.to_vec(),
            layout: met.few.clone(),
            sums: LevelSums::default(),
        }
    }

    /// The codes of some rows of a chunk, of which `met` has the numbers; makes room for new ones,
    /// and counts what is missing there.
    pub fn codes(
        &mut self,
        names: &[String],
        texts: &[&Texts],
        rows: &[usize],
        met: &[Vec<u32>],
    ) -> Result<Vec<Vec<u32>>, String> {
        let mut codes = Vec::with_capacity(texts.len());
        for (c, (texts, met)) in texts.iter().zip(met).enumerate() {
            let absent = |row: &&usize| texts.missing.contains(**row);
            self.absent[c] += rows.iter().filter(absent).count() as u64;
            let own = &mut self.columns[c];
            let code = |(&row, &number): (&usize, &u32)| match texts.missing.contains(row) {
                true => 0,
                false => own.place(number),
            };
            codes.push(rows.iter().zip(met).map(code).collect());
        }
        self.make_room(names)?;
        Ok(codes)
    }

    /// The code of a level with a number in what the group's shape has met; nothing where the text
    /// is missing, which is counted.
    pub fn code(&mut self, column: usize, number: Option<u32>) -> u32 {
        match number {
            Some(number) => self.columns[column].place(number),
            None => {
                self.absent[column] += 1;
                0
            }
        }
    }

    /// Add row `at` of a block, whose row is one of the chunk's, or leave it out.
    pub(crate) fn add_row(
        &mut self,
        names: &[String],
        rows: &Screened,
        used: Option<(usize, &mut Scratch)>,
        codes: &[u32],
    ) -> Result<(), String> {
        let room = |(c, own): (usize, &Own)| own.met.len() <= self.layout.columns_of(c);
        if !self.columns.iter().enumerate().all(room) {
            self.make_room(names)?;
        }
        self.sums.grow(&self.layout, 1);
        match used {
            Some((at, block)) => self.sums.add_row(&self.layout, rows, block, at, codes),
            None => self.sums.skip_row(),
        }
        Ok(())
    }

    /// Ask for its memory.
    pub(crate) fn expect(&self) {
        prefetch(slice::from_ref(self));
    }

    /// Ask for that of its sums, once its own is there.
    pub(crate) fn expect_sums(&self) {
        self.sums.expect();
        prefetch(&self.columns);
    }

    /// Add the rows of a block that begins at a row of what was numbered.
    pub(crate) fn add(&mut self, start: usize, rows: &Screened, codes: &[&[u32]]) {
        self.sums.grow(&self.layout, 1);
        self.sums.add(&self.layout, start, rows, codes, |_| 0);
    }

    /// Add the rows of others of the same columns.
    ///
    /// `met` is what the shapes of both have met.
    pub fn merge(
        &mut self,
        names: &[String],
        other: &TextSums,
        met: [&Met; 2],
    ) -> Result<(), String> {
        let [own_met, other_met] = met;
        let both = self.columns.iter_mut().zip(&other.columns).enumerate();
        let codes: Vec<Vec<usize>> = both
            .map(|(c, (own, others))| {
                let numbers = others.met.iter();
                let place = |&number| own.place(own_met.of_other(other_met, c, number)) as usize;
                numbers.map(place).collect()
            })
            .collect();
        self.make_room(names)?;
        self.absent.iter_mut().zip(&other.absent).for_each(|(rows, more)| *rows += more);
        let settled = other.sums.settled(&other.layout, &self.layout, &codes);
        self.sums.merge(&self.layout, settled);
        Ok(())
    }

    /// Double the room of the columns that have more levels than that.
    fn make_room(&mut self, names: &[String]) -> Result<(), String> {
        let Limit { levels: most, rest } = self.limit;
        for (name, levels) in names.iter().zip(&self.columns) {
            let found = levels.met.len();
            if !rest && found > most {
                return Err(format!(
                    "column '{name}' has {found} levels or more, above {most}; leave it out, or \
                     give max_levels to keep the most frequent and take all others as one"
                ));
            }
            if found > MOST_LEVELS {
                return Err(format!(
                    "column '{name}' has more than {MOST_LEVELS} levels; leave it out"
                ));
            }
        }
        let room = |(c, levels): (usize, &Own)| {
            let (mut room, needed) = (self.layout.columns_of(c), levels.met.len());
            while room < needed {
                room *= 2;
            }
            room
        };
        let rooms: Vec<usize> = self.columns.iter().enumerate().map(room).collect();
        if (0..rooms.len()).all(|c| rooms[c] == self.layout.columns_of(c)) {
            return Ok(());
        }
        let layout = Layout::of(&self.policies, &rooms);
        if layout.doubles() > MOST_DOUBLES {
            let counts = self.columns.iter().map(|levels| levels.met.len());
            let counts: Vec<String> =
                names.iter().zip(counts).map(|(name, n)| format!("'{name}' {n}")).collect();
            return Err(format!(
                "the columns of text have too many levels together to be counted by pairs ({}); \
                 leave some out",
                counts.join(", ")
            ));
        }
        let same = |levels: &Own| (0..levels.met.len()).collect();
        let codes: Vec<Vec<usize>> = self.columns.iter().map(same).collect();
        self.sums = self.sums.settled(&self.layout, &layout, &codes);
        self.layout = Arc::new(layout);
        Ok(())
    }

    /// The levels in ascending order and the moments: those of the numbers, then the levels'.
    pub fn finish(&self, names: &[String], met: &Met, filled: &Filled, places: &[Place]) -> Found {
        let mut codes = Vec::new();
        let mut categories = Vec::new();
        for (c, (name, own)) in names.iter().zip(&self.columns).enumerate() {
            let weights = self.sums.weights(&self.layout, c);
            let texts: Vec<Box<[u8]>> = {
                let levels = met.column(c);
                own.met.iter().map(|&number| levels.texts[number as usize].clone()).collect()
            };
            let (kept, rest) = self.kept(&texts, &weights);
            // Beyond the kept levels lies the rest, if there is one, or no level.
            let mut code_of: Vec<usize> = vec![kept.len(); texts.len()];
            for (place, &code) in kept.iter().enumerate() {
                code_of[code] = place;
            }
            codes.push(code_of);
            let text = |&code: &usize| String::from_utf8_lossy(&texts[code]).into_owned();
            categories.push(Category {
                column: name.clone(),
                levels: kept.iter().map(|code| Value::String(text(code))).collect(),
                rest,
                null_policy: SKIP.to_string(),
                shares: None,
                reference: None,
            });
        }
        let widths: Vec<usize> = categories
            .iter()
            .map(|category| category.levels.len() + usize::from(category.rest))
            .collect();
        let layout = Layout::of(&self.policies, &widths);
        let mut sums = self.sums.settled(&self.layout, &layout, &codes);
        sums.grow(&layout, 1);
        let moments = sums.finish(&layout, 0, filled, places);
        Found { categories, absent: self.absent.clone(), moments }
    }

    /// The codes of the levels that have a column each, in ascending order of their texts,
    /// and whether one more column is that of all others.
    fn kept(&self, texts: &[Box<[u8]>], weights: &[f64]) -> (Vec<usize>, bool) {
        let mut kept: Vec<usize> = (0..texts.len()).filter(|&code| weights[code] > 0.0).collect();
        kept.sort_by(|&a, &b| texts[a].cmp(&texts[b]));
        let rest = self.limit.rest && kept.len() > self.limit.levels;
        if rest {
            // The sort is stable: of equally frequent levels the first are kept.
            kept.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]));
            kept.truncate(self.limit.levels);
            kept.sort_by(|&a, &b| texts[a].cmp(&texts[b]));
        }
        (kept, rest)
    }
}

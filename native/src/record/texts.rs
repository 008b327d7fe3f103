//! Categories whose levels are found while the rows arrive.
//!
//! A text column of a row becomes a column of 0 and 1 for each of its levels. Levels are
//! numbered as they come; room for more of them is made by doubling. At the end they stand
//! in ascending order, and levels of no row that was used are none.

use std::borrow::Cow;
use std::cell::RefCell;
use std::hash::Hash;
use std::slice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::kernel::block::prefetch;
use crate::kernel::chunk::{Missing, Screened};
use crate::kernel::gaps::{Filled, Place, Policy};
use crate::kernel::moments::Moments;
use crate::record::categories::{Layout, LevelSums, Scratch};
use crate::record::gram::Names;
use crate::record::levels::{Dictionary, Map};
use crate::record::terms::{Category, SKIP, Terms};

/// Default limit on the levels of a column: more are an error.
pub const MAX_LEVELS: usize = 1000;
/// Most levels of a column of which the most frequent are kept.
const MOST_LEVELS: usize = 1 << 16;
/// Room for levels to begin with: between these, for as many as other groups have.
const FEWEST_LEVELS: usize = 4;
const FEW_LEVELS: usize = 8;
/// Layouts and heads of records that are kept for others.
const MOST_KEPT: usize = 4096;
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
    policies: Vec<Policy>,
    /// Where the sums of so many levels a column lie.
    layouts: Mutex<Map<Vec<usize>, Arc<Layout>>>,
    /// The columns and terms of records without gaps, by the levels of each of their columns.
    heads: Mutex<Map<Vec<u32>, Head>>,
}

/// The names of the columns of a record, and its terms.
pub type Head = (Names, Arc<Terms>);

/// What shapes have met is no part of what they are.
impl PartialEq for Met {
    fn eq(&self, _: &Met) -> bool {
        true
    }
}

fn locked<T>(these: &Mutex<T>) -> MutexGuard<'_, T> {
    these.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The value of a key, made if it is not among those that are kept.
fn kept<K: Eq + Hash, V: Clone>(
    known: &Mutex<Map<K, V>>,
    key: K,
    make: impl FnOnce(&K) -> Result<V, String>,
) -> Result<V, String> {
    if let Some(value) = locked(known).get(&key) {
        return Ok(value.clone());
    }
    let value = make(&key)?;
    let mut known = locked(known);
    if known.len() < MOST_KEPT {
        known.insert(key, value.clone());
    }
    Ok(value)
}

impl Met {
    /// None of some columns, beside numbers of some policies.
    pub fn of(columns: usize, policies: &[Policy]) -> Met {
        Met {
            columns: (0..columns).map(|_| Mutex::default()).collect(),
            policies: policies.to_vec(),
            layouts: Mutex::default(),
            heads: Mutex::default(),
        }
    }

    fn column(&self, at: usize) -> MutexGuard<'_, Levels> {
        locked(&self.columns[at])
    }

    /// Where the sums of so many levels a column lie: most groups share it.
    fn layout(&self, levels: Vec<usize>) -> Arc<Layout> {
        kept(&self.layouts, levels, |levels| Ok(Arc::new(Layout::of(&self.policies, levels))))
            .expect("it cannot fail")
    }

    /// What `make` gives for the levels of the columns of a record, made once for most of them.
    pub fn head(
        &self,
        levels: Vec<u32>,
        make: impl FnOnce() -> Result<Head, String>,
    ) -> Result<Head, String> {
        kept(&self.heads, levels, |_| make())
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
            if self.met.is_empty() {
                self.met.reserve_exact(FEW_LEVELS);
            }
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
    /// Rows in which each column is missing, also those left out; empty if none is.
    absent: Vec<u64>,
    layout: Arc<Layout>,
    sums: LevelSums,
}

/// The text columns of a finished record.
pub struct Found {
    /// What each has.
    pub columns: Vec<Kept>,
    /// The moments of the numbers, then those of the levels.
    pub moments: Moments,
}

/// The levels of a text column of a finished record.
pub struct Kept {
    /// Their numbers in `Met`, in ascending order of the texts.
    pub levels: Vec<u32>,
    /// Whether one more column is that of all others.
    pub rest: bool,
}

impl Kept {
    /// How many columns come of it.
    pub fn count(&self) -> usize {
        self.levels.len() + usize::from(self.rest)
    }

    /// The category of a column of text.
    pub fn category(&self, met: &Met, at: usize, column: &str) -> Category {
        let known = met.column(at);
        let text =
            |&level: &u32| String::from_utf8_lossy(&known.texts[level as usize]).into_owned();
        Category {
            column: column.to_string(),
            levels: self.levels.iter().map(|level| Value::String(text(level))).collect(),
            rest: self.rest,
            null_policy: SKIP.to_string(),
            shares: None,
            reference: None,
        }
    }
}

thread_local! {
    /// The sums of a group whose record is written.
    static SETTLED: RefCell<LevelSums> = RefCell::default();
}

impl TextSums {
    /// No rows of some text columns.
    pub fn new(met: &Met, limit: Limit) -> TextSums {
        let rooms = (0..met.columns.len()).map(|c| {
            let known = met.column(c).texts.len();
            known.next_power_of_two().clamp(FEWEST_LEVELS, FEW_LEVELS)
        });
        TextSums {
            columns: vec![Own::default(); met.columns.len()],
            limit,
            absent: Vec::new(),
            layout: met.layout(rooms.collect()),
            sums: LevelSums::default(),
        }
    }

    fn count_absent(&mut self, column: usize, rows: u64) {
        if rows > 0 {
            self.absent.resize(self.columns.len(), 0);
            self.absent[column] += rows;
        }
    }

    /// The codes of some rows of a chunk, of which `met` has the numbers; makes room for new ones,
    /// and counts what is missing there.
    pub fn codes(
        &mut self,
        names: &[String],
        texts: &[&Texts],
        rows: &[usize],
        (met, numbers): (&Met, &[Vec<u32>]),
    ) -> Result<Vec<Vec<u32>>, String> {
        let mut codes = Vec::with_capacity(texts.len());
        for (c, (texts, numbers)) in texts.iter().zip(numbers).enumerate() {
            let absent = |row: &&usize| texts.missing.contains(**row);
            self.count_absent(c, rows.iter().filter(absent).count() as u64);
            let own = &mut self.columns[c];
            let code = |(&row, &number): (&usize, &u32)| match texts.missing.contains(row) {
                true => 0,
                false => own.place(number),
            };
            codes.push(rows.iter().zip(numbers).map(code).collect());
        }
        self.make_room(names, met)?;
        Ok(codes)
    }

    /// The code of a level with a number in what the group's shape has met; nothing where the text
    /// is missing, which is counted.
    pub fn code(&mut self, column: usize, number: Option<u32>) -> u32 {
        match number {
            Some(number) => self.columns[column].place(number),
            None => {
                self.count_absent(column, 1);
                0
            }
        }
    }

    /// Add row `at` of a block, whose row is one of the chunk's, or leave it out.
    pub(crate) fn add_row(
        &mut self,
        names: &[String],
        met: &Met,
        rows: &Screened,
        used: Option<(usize, &mut Scratch)>,
        codes: &[u32],
    ) -> Result<(), String> {
        if !self.has_room() {
            self.make_room(names, met)?;
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
        self.make_room(names, own_met)?;
        (0..).zip(&other.absent).for_each(|(c, &rows)| self.count_absent(c, rows));
        SETTLED.with_borrow_mut(|settled| {
            other.sums.settle(&other.layout, &self.layout, &codes, settled);
            self.sums.merge(&self.layout, settled);
        });
        Ok(())
    }

    /// Whether each level has a place in the layout.
    fn has_room(&self) -> bool {
        let room = |(c, own): (usize, &Own)| own.met.len() <= self.layout.columns_of(c);
        self.columns.iter().enumerate().all(room)
    }

    /// Double the room of the columns that have more levels than that.
    fn make_room(&mut self, names: &[String], met: &Met) -> Result<(), String> {
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
        if self.has_room() {
            return Ok(());
        }
        let room = |(c, levels): (usize, &Own)| {
            let (mut room, needed) = (self.layout.columns_of(c), levels.met.len());
            while room < needed {
                room *= 2;
            }
            room
        };
        let rooms: Vec<usize> = self.columns.iter().enumerate().map(room).collect();
        let layout = met.layout(rooms);
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
        let mut settled = LevelSums::default();
        self.sums.settle(&self.layout, &layout, &codes, &mut settled);
        (self.sums, self.layout) = (settled, layout);
        Ok(())
    }

    /// The levels that have columns, in ascending order, and the moments: those of the numbers at
    /// `places`, which may be `filled`, then the levels'.
    pub fn finish(
        &self,
        met: &Met,
        numbers: &Moments,
        filled: Option<&Filled>,
        places: &[Place],
    ) -> Found {
        let (mut codes, mut found) = (Vec::new(), Vec::new());
        for (c, own) in self.columns.iter().enumerate() {
            let (kept, rest) = self.kept(own, &met.column(c), &self.sums.weights(&self.layout, c));
            // Beyond the kept levels lies the rest, if there is one, or no level.
            let mut code_of: Vec<usize> = vec![kept.len(); own.met.len()];
            for (place, &code) in kept.iter().enumerate() {
                code_of[code] = place;
            }
            codes.push(code_of);
            found.push(Kept { levels: kept.iter().map(|&code| own.met[code]).collect(), rest });
        }
        let layout = met.layout(found.iter().map(Kept::count).collect());
        let moments = SETTLED.with_borrow_mut(|sums| {
            self.sums.settle(&self.layout, &layout, &codes, sums);
            sums.grow(&layout, 1);
            sums.finish(&layout, 0, numbers, filled, places)
        });
        Found { columns: found, moments }
    }

    /// Rows in which a column is missing.
    pub fn absent(&self, column: usize) -> u64 {
        self.absent.get(column).copied().unwrap_or_default()
    }

    /// The codes of the levels that have a column each, in ascending order of their texts,
    /// and whether one more column is that of all others.
    fn kept(&self, own: &Own, levels: &Levels, weights: &[f64]) -> (Vec<usize>, bool) {
        let text = |code: &usize| &levels.texts[own.met[*code] as usize];
        let mut kept: Vec<usize> = (0..own.met.len()).filter(|&code| weights[code] > 0.0).collect();
        kept.sort_by(|a, b| text(a).cmp(text(b)));
        let rest = self.limit.rest && kept.len() > self.limit.levels;
        if rest {
            // The sort is stable: of equally frequent levels the first are kept.
            kept.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]));
            kept.truncate(self.limit.levels);
            kept.sort_by(|a, b| text(a).cmp(text(b)));
        }
        (kept, rest)
    }
}

//! Rows with gaps: one record for each pattern of columns that are missing together.
//!
//! The records of a table are those of its patterns, each of the columns that its rows have. Two
//! patterns are one where they have the same columns of the table, however their levels differ.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::select::select;
use crate::kernel::chunk::{Labels, Missing, mark_nan};
use crate::kernel::gaps::Policy;
use crate::record::gram::{Names, Record};
use crate::record::rows::{Group, Item, Rows, Shape};
use crate::record::terms::{Terms, heads, sources};
use crate::record::texts::Met;

/// Patterns that are kept, unless another limit is given.
pub const MAX_PATTERNS: usize = 200;

/// The columns of the table that a record has.
fn key(record: &Record) -> BTreeSet<String> {
    heads(&record.terms, &record.columns).into_iter().collect()
}

/// The sums of each pattern while rows arrive.
#[derive(Clone)]
pub struct PatternSums {
    shape: Arc<Shape>,
    most: usize,
    /// By the columns that are missing, a bit each: numbers, then texts.
    groups: HashMap<Vec<u64>, Group>,
    /// Patterns that were joined, as there were too many.
    joined: Vec<Record>,
}

impl PatternSums {
    /// No rows, of which at most so many patterns are kept.
    pub fn new(shape: &Arc<Shape>, most: usize) -> PatternSums {
        PatternSums { shape: shape.clone(), most, groups: HashMap::new(), joined: Vec::new() }
    }

    /// Add all rows of a run.
    pub fn add(&mut self, rows: &Rows, labels: Labels) -> Result<(), String> {
        let all: Vec<usize> = (0..rows.numbers.rows).collect();
        self.add_some(rows, &Gaps::of(rows), &all, labels)
    }

    /// Add some rows of a run that has these gaps.
    pub fn add_some(
        &mut self,
        rows: &Rows,
        gaps: &Gaps,
        at: &[usize],
        labels: Labels,
    ) -> Result<(), String> {
        let (width, texts) = (rows.numbers.columns.len(), &rows.texts);
        let mut members: HashMap<&[u64], Vec<usize>> = HashMap::new();
        for run in at.chunk_by(|&a, &b| gaps.of_row(a) == gaps.of_row(b)) {
            members.entry(gaps.of_row(run[0])).or_default().extend(run);
        }
        for (mask, at) in members {
            let has = |column: &usize| mask[column / 64] >> (column % 64) & 1 == 0;
            let columns: Vec<usize> = (0..width).filter(has).collect();
            let group = match self.groups.get_mut(mask) {
                Some(group) => group,
                None => {
                    let own = Arc::new(part_of(&self.shape, has));
                    self.groups.entry(mask.to_vec()).or_insert(Group::new(&own))
                }
            };
            let names: Vec<String> = columns.iter().map(|&j| labels.columns[j].clone()).collect();
            let labels = Labels { columns: &names, ..labels };
            let is_there = |(t, _): &(usize, _)| has(&(width + t));
            let texts: Vec<_> =
                texts.iter().enumerate().filter(is_there).map(|(_, texts)| texts).collect();
            group.add_some(&rows.picked(&at, &columns), &texts, &at, labels)?;
        }
        match self.groups.len() > 2 * self.most {
            true => self.settle(),
            false => Ok(()),
        }
    }

    /// Join patterns, so that as many are left as are kept.
    fn settle(&mut self) -> Result<(), String> {
        let mut records = std::mem::take(&mut self.joined);
        let finished = self.groups.drain().map(|(_, mut group)| group.finish());
        merge(&mut records, finished.collect::<Result<Vec<_>, _>>()?)?;
        self.joined = reduced(records, self.most)?;
        Ok(())
    }

    /// Add the rows of others.
    pub fn merge(&mut self, other: &PatternSums) -> Result<(), String> {
        if self.shape != other.shape {
            return Err("the rows of one group have different columns".to_string());
        }
        for (mask, group) in &other.groups {
            match self.groups.get_mut(mask) {
                Some(own) => own.merge(group)?,
                None => {
                    self.groups.insert(mask.clone(), group.clone());
                }
            }
        }
        merge(&mut self.joined, other.joined.clone())
    }

    /// The record of each pattern, of most rows first.
    pub fn finish(&mut self) -> Result<Vec<Record>, String> {
        self.settle()?;
        Ok(self.joined.clone())
    }
}

/// What each row of a run lacks: a bit a column, numbers first, then texts.
pub struct Gaps {
    words: usize,
    masks: Vec<u64>,
}

impl Gaps {
    /// Those of a run.
    pub fn of(rows: &Rows) -> Gaps {
        let (numbers, texts) = (&rows.numbers, &rows.texts);
        let width = numbers.columns.len();
        let words = (width + texts.len()).div_ceil(64).max(1);
        let mut masks = vec![0u64; numbers.rows * words];
        let mut mark = |column: usize, missing: &Missing| {
            for row in missing.rows().filter(|&row| row < numbers.rows) {
                masks[row * words + column / 64] |= 1 << (column % 64);
            }
        };
        for (j, (values, nulls)) in numbers.columns.iter().zip(&numbers.nulls).enumerate() {
            let mut nulls = nulls.clone();
            mark_nan(values, &mut nulls);
            mark(j, &nulls);
        }
        texts.iter().enumerate().for_each(|(t, texts)| mark(width + t, &texts.missing));
        Gaps { words, masks }
    }

    fn of_row(&self, row: usize) -> &[u64] {
        &self.masks[row * self.words..][..self.words]
    }
}

/// The shape of rows that lack some of the columns.
fn part_of(shape: &Shape, has: impl Fn(&usize) -> bool) -> Shape {
    let width = shape.numbers.len();
    let numbers: Vec<usize> = (0..width).filter(&has).collect();
    let texts: Vec<usize> = (0..shape.texts.len()).filter(|t| has(&(width + t))).collect();
    let place = |item: &Item| match *item {
        Item::Number(j) => numbers.binary_search(&j).ok().map(Item::Number),
        Item::Text(t) => texts.binary_search(&t).ok().map(Item::Text),
    };
    let names: Names = numbers.iter().map(|&j| shape.numbers[j].clone()).collect();
    let texts_left: Vec<String> = texts.iter().map(|&t| shape.texts[t].clone()).collect();
    let is_left = |name: &String| names.contains(name) || texts_left.contains(name);
    let mut base = Terms::clone(&shape.base);
    base.dates.retain(|name, _| is_left(name));
    base.flat.retain(is_left);
    let policies = vec![Policy::Skip; names.len()];
    Shape {
        met: Met::of(texts_left.len(), &policies),
        policies,
        order: shape.order.iter().filter_map(place).collect(),
        base: Arc::new(base),
        limit: shape.limit,
        numbers: names,
        texts: texts_left,
    }
}

/// Add records to those of patterns.
pub fn merge(records: &mut Vec<Record>, more: Vec<Record>) -> Result<(), String> {
    let mut places: HashMap<BTreeSet<String>, usize> = records.iter().map(key).zip(0..).collect();
    for record in more {
        match places.entry(key(&record)) {
            Entry::Occupied(place) => records[*place.get()].merge(&record)?,
            Entry::Vacant(place) => {
                place.insert(records.len());
                records.push(record);
            }
        }
    }
    Ok(())
}

/// Take away patterns that are a part of others.
pub fn remove(records: &mut Vec<Record>, part: &[Record]) -> Result<(), String> {
    for less in part {
        let own = key(less);
        let Some(at) = records.iter().position(|record| key(record) == own) else {
            let names: Vec<String> = own.iter().map(|name| format!("'{name}'")).collect();
            return Err(format!(
                "cannot remove the pattern of columns [{}]; the first has no such pattern",
                names.join(", ")
            ));
        };
        if records[at].moments.rows == less.moments.rows {
            records.remove(at);
        } else {
            records[at].remove(less)?;
        }
    }
    Ok(())
}

/// At most so many patterns: the rarest joins the one with which the fewest values are lost, on
/// the columns that both have. The columns that rows lose by that are in the terms.
pub fn reduced(mut records: Vec<Record>, most: usize) -> Result<Vec<Record>, String> {
    // Of most rows first, so that it does not matter in which order they came.
    let order = |a: &Record, b: &Record| {
        b.moments.rows.cmp(&a.moments.rows).then_with(|| a.columns.cmp(&b.columns))
    };
    if records.len() <= most.max(1) {
        records.sort_by(order);
        return Ok(records);
    }
    // The columns of the table that each has: a bit a column.
    let keys: Vec<BTreeSet<String>> = records.iter().map(key).collect();
    let names: BTreeSet<&String> = keys.iter().flatten().collect();
    let numbers: HashMap<&str, usize> = names.iter().map(|name| &name[..]).zip(0..).collect();
    let bits = |key: &BTreeSet<String>| {
        let mut bits = vec![0u64; names.len().div_ceil(64)];
        key.iter().map(|name| numbers[&name[..]]).for_each(|at| bits[at / 64] |= 1 << (at % 64));
        bits
    };
    let count = |bits: &[u64]| bits.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
    let mut keyed: Vec<(Vec<u64>, Record)> = keys.iter().map(bits).zip(records).collect();
    loop {
        keyed.sort_by(|(_, a), (_, b)| order(a, b));
        if keyed.len() <= most.max(1) {
            return Ok(keyed.into_iter().map(|(_, record)| record).collect());
        }
        let Some((own, rare)) = keyed.pop() else { continue };
        // Values that are lost, of either.
        let lost = |(other, record): &(Vec<u64>, Record)| {
            let both =
                other.iter().zip(&own).map(|(a, b)| u64::from((a & b).count_ones())).sum::<u64>();
            let of = |columns: u64, record: &Record| columns.saturating_mul(record.moments.rows);
            of(count(other) - both, record).saturating_add(of(count(&own) - both, &rare))
        };
        let Some(at) = (0..keyed.len()).min_by_key(|&at| lost(&keyed[at])) else { continue };
        let (key, other) = keyed.swap_remove(at);
        let both: Vec<u64> = own.iter().zip(&key).map(|(a, b)| a & b).collect();
        let is_kept = |head: &String| {
            let at = numbers.get(&head[..]).copied();
            at.is_some_and(|at| both[at / 64] >> (at % 64) & 1 == 1)
        };
        let mut joined = cut(other, is_kept)?;
        joined.merge(&cut(rare, is_kept)?)?;
        match keyed.iter_mut().find(|(key, _)| *key == both) {
            Some((_, record)) => record.merge(&joined)?,
            None => keyed.push((both, joined)),
        }
    }
}

/// A record of some of its columns, which says what it lost.
fn cut(record: Record, is_kept: impl Fn(&String) -> bool) -> Result<Record, String> {
    let own = heads(&record.terms, &record.columns);
    let (left, lost): (Vec<String>, Vec<String>) = own.into_iter().partition(is_kept);
    if lost.is_empty() {
        return Ok(record);
    }
    let mut found = match left.is_empty() {
        true => Record { terms: Arc::default(), ..record.arranged(&[]) },
        false => select(&record, &left).map_err(|error| error.message)?,
    };
    let terms = Arc::make_mut(&mut found.terms);
    terms.dropped.extend(lost);
    terms.dropped.sort();
    terms.dropped.dedup();
    Ok(found)
}

/// The columns of all patterns, in the order of the table as far as it is known, and their terms.
pub struct Aligned {
    /// All columns.
    pub columns: Names,
    /// The terms of all.
    pub terms: Arc<Terms>,
}

impl Aligned {
    /// The columns and terms of some patterns together.
    pub fn of(records: &[Record]) -> Result<Aligned, String> {
        let mut sorted: Vec<&Record> = records.iter().collect();
        sorted.sort_by(|a, b| {
            b.columns.len().cmp(&a.columns.len()).then_with(|| a.columns.cmp(&b.columns))
        });
        let (mut terms, mut order) = (None::<Terms>, Vec::<String>::new());
        for record in sorted {
            terms = Some(match terms {
                None => Terms::clone(&record.terms),
                Some(terms) => terms.beside(&record.terms)?,
            });
            // What is new comes before what follows it, if that is known, else at the end.
            let mut end = order.len();
            for head in heads(&record.terms, &record.columns).into_iter().rev() {
                match order.iter().position(|known| *known == head) {
                    Some(known) => end = known,
                    None => order.insert(end, head),
                }
            }
        }
        let terms = terms.unwrap_or_default();
        let met: HashSet<&String> = records.iter().flat_map(|one| one.columns.iter()).collect();
        let mut blocks = terms.blocks();
        let block = |head: String| blocks.remove(&head[..]).unwrap_or_else(|| vec![head]);
        let columns: Vec<String> =
            order.into_iter().flat_map(block).filter(|name| met.contains(name)).collect();
        Ok(Aligned { columns: columns.into(), terms: Arc::new(terms) })
    }

    /// A record with all levels of the columns that it has, and where these are among all.
    pub fn located(&self, record: &Record) -> (Record, Vec<usize>) {
        let own = key(record);
        let of = sources(&self.terms);
        let has = |j: &usize| own.contains(of.get(&self.columns[*j]).unwrap_or(&self.columns[*j]));
        let at: Vec<usize> = (0..self.columns.len()).filter(has).collect();
        let names: Names = at.iter().map(|&j| self.columns[j].clone()).collect();
        (record.spread(&names, &self.terms), at)
    }
}

//! Rows in, moments out, one group of rows each.
//!
//! A chunk that belongs to one group goes to the kernel as columns. Rows that
//! scatter over groups wait in a buffer of their group until there are enough
//! for a block. Missing values that are to be filled wait there as NaN. The first rows of a
//! group among many take no more memory than they need, see `few`.

use std::borrow::Cow;
use std::cell::RefCell;
use std::{mem, slice};

use crate::kernel::block::{
    BLOCK_ROWS, ROWS_AHEAD, center_of_rows, prefetch, prefetch_at, stride, turn,
};
use crate::kernel::chunk::{Chunk, Labels, Screened};
use crate::kernel::few::Few;
use crate::kernel::gaps::Filled;
use crate::kernel::moments::{MOST_COUNTED, Moments, SETTLED_ROWS};
use crate::kernel::state::{State, Words};
use crate::kernel::sums::Sums;

/// Rows handed over at a time: they stay in the caches until the kernel has them,
/// and the merge with what came before is little work beside theirs.
pub const CHUNK_ROWS: usize = 16 * BLOCK_ROWS;
/// Rows of a block below which they wait for others.
const FEW_ROWS: usize = SETTLED_ROWS as usize;
/// Rows turned from columns to rows at a time, inside an L1 cache.
const TURN_ROWS: usize = 64;

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

#[derive(Default)]
struct Scratch {
    sums: Sums,
    rows: Vec<f64>,
    moments: Moments,
}

/// The moments of one group while rows still arrive.
#[derive(Clone, Debug)]
pub struct Accumulator {
    form: Form,
    /// Rows in which each column is missing, also those left out; empty if none is.
    absent: Box<[u64]>,
}

#[derive(Clone, Debug)]
enum Form {
    Few(Few),
    Many(Box<Many>),
}

impl State for Accumulator {
    // Once finished, no row waits in its buffer.
    fn write(&self, out: &mut Vec<u8>) {
        self.filled().write(out);
        self.absent().to_vec().write(out);
    }

    fn read(from: &mut Words) -> Result<Accumulator, String> {
        let (filled, absent) = (Filled::read(from)?, Vec::read(from)?);
        Ok(Accumulator { form: Form::Many(Many::of(filled, Vec::new())), absent: absent.into() })
    }
}

impl Accumulator {
    /// An accumulator that has seen no row.
    pub fn new(width: usize) -> Accumulator {
        Accumulator { form: Form::Few(Few::new(width)), absent: Box::default() }
    }

    /// Number of columns.
    pub fn width(&self) -> usize {
        match &self.form {
            Form::Few(few) => few.width(),
            Form::Many(many) => many.filled.width(),
        }
    }

    /// Rows in which each column was missing, also those left out; empty if none was.
    pub fn absent(&self) -> &[u64] {
        &self.absent
    }

    /// Whether it has seen no row.
    pub fn is_empty(&self) -> bool {
        matches!(&self.form, Form::Few(few) if few.rows() == 0 && few.skipped == 0)
            && self.absent.is_empty()
    }

    /// The form that any row can be added to.
    fn many(&mut self) -> &mut Many {
        if let Form::Few(_) = &self.form {
            SCRATCH.with_borrow_mut(|scratch| self.settle(&mut scratch.sums));
        }
        match &mut self.form {
            Form::Many(many) => many,
            Form::Few(_) => unreachable!("it was turned into the other form"),
        }
    }

    /// Turn the form of few rows into the other.
    fn settle(&mut self, sums: &mut Sums) {
        if let Form::Few(few) = &mut self.form {
            let filled = Filled::new(few.moments(sums));
            let room = mem::replace(few, Few::new(0)).into_room();
            self.form = Form::Many(Many::of(filled, room));
        }
    }

    /// Add all rows of a chunk.
    pub fn add(&mut self, chunk: &Chunk, labels: Labels) -> Result<(), String> {
        self.add_and(chunk, labels, |_, _| {})
    }

    /// `add`, and show each block, by the number of its first row, for more to be done with it.
    pub(crate) fn add_and(
        &mut self,
        chunk: &Chunk,
        labels: Labels,
        mut more: impl FnMut(usize, &Screened),
    ) -> Result<(), String> {
        self.many();
        let Accumulator { form: Form::Many(many), absent } = self else {
            unreachable!("it was turned into the other form")
        };
        let width = many.filled.width();
        many.add_and(chunk, labels, |start, rows| {
            for (column, missing) in &rows.absent {
                count(absent, width, *column, missing.count());
            }
            more(start, rows);
        })
    }

    /// Add the rows of other accumulators of the same width.
    pub fn merge(&mut self, other: &Accumulator) {
        for (column, &rows) in other.absent().iter().enumerate() {
            self.count_absent(column, rows);
        }
        match (&mut self.form, &other.form) {
            (Form::Few(own), Form::Few(more)) if own.can_take(more.rows()) => own.merge(more),
            (_, Form::Few(few)) => {
                let many = self.many();
                SCRATCH.with_borrow_mut(|Scratch { sums, .. }| match few.kept_rows() {
                    Some(rows) if many.base.is_empty() => {
                        many.filled.moments.skipped += few.skipped;
                        rows.for_each(|row| many.push_row(row, 1.0, &[], sums));
                    }
                    _ => many.filled.merge(&Filled::new(few.moments(sums))),
                });
            }
            (_, Form::Many(many)) => self.many().merge(many),
        }
    }

    /// The moments of all rows added so far.
    pub fn finish(&mut self) -> &Filled {
        let many = self.many();
        SCRATCH.with_borrow_mut(|scratch| many.flush(&mut scratch.sums));
        &many.filled
    }

    /// What `finish` returned.
    pub fn filled(&self) -> &Filled {
        match &self.form {
            Form::Many(many) => &many.filled,
            Form::Few(_) => unreachable!("it is finished"),
        }
    }

    /// Show the moments of all rows, if nothing that was missing was filled, and keep them in as
    /// little memory as before.
    pub fn with_moments<T>(&mut self, show: impl FnOnce(&Moments) -> T) -> T {
        match &self.form {
            Form::Few(few) => SCRATCH.with_borrow_mut(|Scratch { sums, moments, .. }| {
                few.write(moments, sums);
                show(moments)
            }),
            Form::Many(_) => show(&self.finish().moments),
        }
    }

    /// Whether these are sums of some columns: of bytes that were forged they may not be.
    pub(crate) fn is_sound(&self, width: usize) -> bool {
        self.filled().is_sound(width)
            && (self.absent().is_empty() || self.absent().len() == width)
            && self.absent().iter().all(|&rows| rows <= MOST_COUNTED)
    }

    fn count_absent(&mut self, column: usize, rows: u64) {
        let width = self.width();
        count(&mut self.absent, width, column, rows);
    }

    /// Leave out a row.
    fn skip(&mut self) {
        match &mut self.form {
            Form::Few(few) => few.skipped += 1,
            Form::Many(many) => many.filled.moments.skipped += 1,
        }
    }

    /// Ask for the memory that the next row goes to.
    fn expect_row(&self) {
        match &self.form {
            Form::Few(few) => few.expect_row(),
            Form::Many(many) => many.expect_row(),
        }
    }

    /// Ask for the memory of the sums.
    pub fn expect_moments(&self) {
        match &self.form {
            Form::Few(few) => few.expect(),
            Form::Many(many) => prefetch(slice::from_ref(&**many)),
        }
    }

    /// Add row `at` of some that belong to many groups, whose values stand in `row`.
    fn add_scattered(&mut self, row: &[f64], rows: &Screened, at: usize, sums: &mut Sums) {
        let weight = rows.weight.as_ref().map_or(1.0, |weight| weight[at]);
        let is_whole = rows.units.is_empty() && !rows.holes.iter().any(|&j| row[j].is_nan());
        if let Form::Few(few) = &mut self.form {
            if is_whole && weight == 1.0 && few.can_take(1) {
                return few.add_row(row);
            }
            self.settle(sums);
        }
        if let Form::Many(many) = &mut self.form {
            many.add_row(row, rows, at, sums);
        }
    }
}

/// Count rows in which a column is missing.
fn count(absent: &mut Box<[u64]>, width: usize, column: usize, rows: u64) {
    if rows > 0 && absent.is_empty() {
        *absent = vec![0; width].into();
    }
    if rows > 0 {
        absent[column] += rows;
    }
}

/// Moments, and rows that wait for more.
#[derive(Clone, Debug)]
struct Many {
    filled: Filled,
    buffer: Vec<f64>,
    buffer_weight: Vec<f64>,
    /// Columns with NaN in the buffer.
    holes: Vec<usize>,
    /// What the columns of the buffer are measured from; empty if from 0.
    base: Vec<f64>,
}

impl Many {
    fn of(filled: Filled, buffer: Vec<f64>) -> Box<Many> {
        let buffer_weight = Vec::new();
        Box::new(Many { filled, buffer, buffer_weight, holes: Vec::new(), base: Vec::new() })
    }

    /// Add all rows of a chunk, and show each block.
    ///
    /// Once there are rows, their mean is a center near that of all that follow,
    /// so the blocks of the chunk share it and are merged with the moments as one. A few
    /// rows wait in the buffer: a small table is one block, however an engine cuts it.
    fn add_and(
        &mut self,
        chunk: &Chunk,
        labels: Labels,
        mut more: impl FnMut(usize, &Screened),
    ) -> Result<(), String> {
        SCRATCH.with_borrow_mut(|Scratch { sums, rows: turned, .. }| {
            let mut blocks = chunk.blocks();
            while !self.filled.moments.is_settled() {
                let Some((start, rows)) = blocks.next() else { return Ok(()) };
                let rows = rows.screen(labels)?;
                more(start, &rows);
                self.filled.moments.skipped += rows.skipped as u64;
                if rows.columns.is_empty() {
                    continue;
                }
                if rows.rows >= FEW_ROWS {
                    self.add_block(rows, sums);
                } else if rows.rows > 0 {
                    let columns = slices(&rows.columns);
                    let stride = stride(columns.len());
                    turn(&columns, 0..rows.rows, stride, turned);
                    for (r, row) in turned.chunks_exact(stride).enumerate() {
                        self.add_row(row, &rows, r, sums);
                    }
                }
            }
            let base = self.base_of(chunk);
            sums.start_from(&base, &self.filled.moments.mean_from(&base));
            for (start, rows) in blocks {
                // A block that packs to finite sums has nothing that is missing.
                if rows.is_plain() && !self.filled.can_learn(&[]) {
                    let columns = self.filled.with_indicators(slices(&rows.columns));
                    if sums.add_finite(&columns) {
                        more(start, &rows.whole(Vec::new()));
                        continue;
                    }
                }
                let mut rows = rows.screen(labels)?;
                more(start, &rows);
                self.filled.moments.skipped += rows.skipped as u64;
                if self.filled.can_learn(&rows.holes) {
                    self.filled.moments.add(sums);
                    self.filled.learn(&rows);
                    sums.start_from(&base, &self.filled.moments.mean_from(&base));
                }
                if !base.is_empty() {
                    rows.rebase(base.clone());
                }
                self.filled.fill(&mut rows);
                sums.add_columns(&slices(&rows.columns), rows.weight.as_deref());
            }
            self.filled.moments.add(sums);
            Ok(())
        })
    }

    /// Add the rows of others of the same width.
    fn merge(&mut self, other: &Many) {
        if self.base != other.base && !other.buffer.is_empty() {
            let mut settled = other.clone();
            SCRATCH.with_borrow_mut(|scratch| settled.flush(&mut scratch.sums));
            return self.merge(&settled);
        }
        self.filled.merge(&other.filled);
        let stride = stride(self.filled.width());
        for (row, &weight) in other.buffer.chunks_exact(stride.max(1)).zip(&other.buffer_weight) {
            SCRATCH.with_borrow_mut(|scratch| {
                self.push_row(row, weight, &other.holes, &mut scratch.sums)
            });
        }
    }

    /// Add a block around a center of its own.
    fn add_block(&mut self, mut rows: Screened, sums: &mut Sums) {
        if !rows.units.is_empty() {
            let mut base = vec![0.0; self.filled.width()];
            for column in rows.units.iter().map(|units| units.column) {
                let first = rows.columns[column].iter().find(|x| !x.is_nan());
                base[column] = first.copied().unwrap_or_default();
            }
            rows.rebase(base);
        }
        self.filled.learn(&rows);
        self.filled.fill(&mut rows);
        let columns = slices(&rows.columns);
        sums.start_from(&rows.base, &rows.center(&columns));
        sums.add_columns(&columns, rows.weight.as_deref());
        self.filled.moments.add(sums);
    }

    /// Ask for the memory that the next row goes to.
    fn expect_row(&self) {
        let spare = self.buffer.capacity() - self.buffer.len();
        prefetch_at(self.buffer.as_ptr_range().end, spare.min(stride(self.filled.width())));
    }

    /// What the columns of a chunk are measured from once the mean is settled: empty if from 0.
    fn base_of(&self, chunk: &Chunk) -> Vec<f64> {
        let mut base = Vec::new();
        for column in chunk.units.iter().map(|units| units.column) {
            base.resize(self.filled.width(), 0.0);
            base[column] = self.filled.moments.mean_of(column);
        }
        base
    }

    /// Add row `at` of some, whose values stand in `row`.
    fn add_row(&mut self, row: &[f64], rows: &Screened, at: usize, sums: &mut Sums) {
        let weight = rows.weight.as_ref().map_or(1.0, |weight| weight[at]);
        if rows.units.is_empty() && self.base.is_empty() {
            return self.push_row(row, weight, &rows.holes, sums);
        }
        self.approach(row, rows, sums);
        let mut row = row.to_vec();
        row.iter_mut().zip(&self.base).for_each(|(x, base)| *x -= base);
        for units in &rows.units {
            let (x, base) = (&mut row[units.column], self.base[units.column]);
            if !x.is_nan() {
                *x = units.less(base)(at);
            }
        }
        self.push_row(&row, weight, &rows.holes, sums);
    }

    /// Measure the columns that doubles do not hold from numbers near them.
    fn approach(&mut self, row: &[f64], rows: &Screened, sums: &mut Sums) {
        for column in rows.units.iter().map(|units| units.column) {
            let known = self.base.get(column).copied().unwrap_or_default();
            if known == 0.0 && !row[column].is_nan() {
                self.flush(sums);
                self.base.resize(self.filled.width(), 0.0);
                self.base[column] = row[column];
            }
        }
        self.base.resize(self.filled.width(), 0.0);
    }

    /// Add a row that is measured from the base, in which some of `holes` may be missing.
    fn push_row(&mut self, row: &[f64], weight: f64, holes: &[usize], sums: &mut Sums) {
        for &column in holes {
            if row[column].is_nan() && !self.holes.contains(&column) {
                self.holes.push(column);
            }
        }
        self.buffer.extend_from_slice(row);
        self.buffer_weight.push(weight);
        if self.buffer_weight.len() == buffer_rows(self.filled.width()) {
            self.flush(sums);
        }
    }

    fn flush(&mut self, sums: &mut Sums) {
        if self.buffer_weight.is_empty() {
            return;
        }
        prefetch(&self.filled.moments.comoment);
        if self.filled.is_whole() && self.holes.is_empty() {
            let moments = &mut self.filled.moments;
            let center = if moments.is_settled() {
                moments.mean_from(&self.base)
            } else {
                center_of_rows(&self.buffer, moments.width(), &self.buffer_weight)
            };
            sums.start_from(&self.base, &center);
            sums.add_rows(&self.buffer, &self.buffer_weight);
            moments.add(sums);
        } else {
            let rows = self.buffered();
            self.add_block(rows, sums);
        }
        self.buffer.clear();
        self.buffer_weight.clear();
    }

    /// The rows of the buffer as columns.
    fn buffered(&mut self) -> Screened<'static> {
        let stride = stride(self.filled.width());
        let column = |j| self.buffer.iter().skip(j).step_by(stride).copied().collect();
        Screened {
            rows: self.buffer_weight.len(),
            columns: (0..self.filled.width()).map(|j| Cow::Owned(column(j))).collect(),
            weight: Some(Cow::Owned(self.buffer_weight.clone())),
            holes: mem::take(&mut self.holes),
            base: self.base.clone(),
            ..Screened::default()
        }
    }
}

fn slices<'c>(columns: &'c [Cow<[f64]>]) -> Vec<&'c [f64]> {
    columns.iter().map(|column| &column[..]).collect()
}

/// Rows a group holds back. With as many rows as columns, a flush moves as much
/// memory for the rows as for their comoment; fewer than 32 keep the kernel short
/// of work, and of thousands of groups more than 64 lie outside the caches.
fn buffer_rows(width: usize) -> usize {
    width.clamp(32, 64)
}

/// Give every row of a chunk to the accumulator of its group.
///
/// `group_of` maps a row number of the chunk to its accumulator; it is called
/// for every row, used or skipped. `known` does so, ahead of that, where there is one already, and
/// does not read it.
pub fn scatter<'g>(
    chunk: &Chunk,
    labels: Labels,
    known: impl Fn(usize) -> Option<&'g Accumulator>,
    group_of: impl FnMut(usize) -> &'g mut Accumulator,
) -> Result<(), String> {
    scatter_and(chunk, labels, known, group_of, |_, _| {})
}

/// `scatter`, and show each block, by the number of its first row, for more to be done with it.
pub(crate) fn scatter_and<'g>(
    chunk: &Chunk,
    labels: Labels,
    known: impl Fn(usize) -> Option<&'g Accumulator>,
    mut group_of: impl FnMut(usize) -> &'g mut Accumulator,
    mut more: impl FnMut(usize, &Screened),
) -> Result<(), String> {
    let stride = stride(chunk.columns.len());
    SCRATCH.with_borrow_mut(|Scratch { sums, rows: turned, .. }| {
        for (start, rows) in chunk.blocks() {
            let n_rows = rows.rows;
            let rows = rows.screen(labels)?;
            more(start, &rows);
            if rows.columns.is_empty() {
                continue;
            }
            for (column, absent) in &rows.absent {
                absent.rows().for_each(|row| group_of(start + row).count_absent(*column, 1));
            }
            let columns = slices(&rows.columns);
            let mut kept = 0;
            for row in 0..n_rows {
                let ahead = |rows: usize| {
                    let at = start + row + rows;
                    if at < chunk.rows { known(at) } else { None }
                };
                ahead(2 * ROWS_AHEAD).into_iter().map(slice::from_ref).for_each(prefetch);
                ahead(ROWS_AHEAD).into_iter().for_each(Accumulator::expect_row);
                let group = group_of(start + row);
                if rows.missing.contains(row) {
                    group.skip();
                    continue;
                }
                if kept % TURN_ROWS == 0 {
                    turn(&columns, kept..(kept + TURN_ROWS).min(rows.rows), stride, turned);
                }
                let values = &turned[kept % TURN_ROWS * stride..][..stride];
                group.add_scattered(values, &rows, kept, sums);
                kept += 1;
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::chunk::Missing;
    use crate::kernel::rank_update::triangle;
    use crate::testing::Lcg;

    const NAMES: [&str; 3] = ["a", "b", "c"];

    fn with_labels<T>(work: impl FnOnce(Labels) -> T) -> T {
        let names = NAMES.map(str::to_string);
        work(Labels { columns: &names, weight: "weight 'w'" })
    }

    fn chunk(columns: &[Vec<f64>], weight: Option<&[f64]>) -> Chunk<'static> {
        Chunk {
            rows: columns[0].len(),
            columns: columns.iter().map(|x| Cow::Owned(x.clone())).collect(),
            weight: weight.map(|w| Cow::Owned(w.to_vec())),
            missing: Missing::none(),
            nulls: vec![Missing::none(); 3],
            units: Vec::new(),
            policies: &[],
        }
    }

    fn random_columns(rows: usize) -> Vec<Vec<f64>> {
        let mut random = Lcg::new(11);
        (0..3).map(|_| (0..rows).map(|_| random.uniform()).collect()).collect()
    }

    fn moments_of(columns: &[Vec<f64>], weight: Option<&[f64]>) -> Moments {
        let mut all = Accumulator::new(3);
        with_labels(|labels| all.add(&chunk(columns, weight), labels)).unwrap();
        all.finish().moments.clone()
    }

    #[test]
    fn scattered_rows_give_what_each_group_gives_alone() {
        let columns = random_columns(1000);
        let weight: Vec<f64> = (0..1000).map(|r| (r % 5) as f64).collect();
        let mut groups: Vec<Accumulator> = (0..7).map(|_| Accumulator::new(3)).collect();
        let base = groups.as_mut_ptr();
        // SAFETY: the test hands out one reference at a time into a live vector.
        let group_of = |row: usize| unsafe { &mut *base.add(row % 7) };
        with_labels(|labels| scatter(&chunk(&columns, Some(&weight)), labels, |_| None, group_of))
            .unwrap();
        for (g, group) in groups.iter_mut().enumerate() {
            let pick = |x: &Vec<f64>| x.iter().skip(g).step_by(7).copied().collect::<Vec<f64>>();
            let mine: Vec<Vec<f64>> = columns.iter().map(pick).collect();
            let expected = moments_of(&mine, Some(&pick(&weight)));
            let found = &group.finish().moments;
            assert_eq!((found.rows, found.skipped), (expected.rows, expected.skipped));
            assert_eq!(found.weight, expected.weight);
            for (x, y) in found.comoment.iter().zip(&expected.comoment) {
                assert!((x - y).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn rows_that_share_a_center_give_what_each_part_gives_alone() {
        let mut columns = random_columns(2000);
        // A trend, so that the mean of the first rows is far from that of the last.
        for (row, x) in columns[0].iter_mut().enumerate() {
            *x += row as f64;
        }
        columns[1][1000] = f64::NAN;
        let weight: Vec<f64> = (0..2000).map(|r| (r % 5) as f64).collect();
        for weight in [None, Some(&weight[..])] {
            let mut parts = Accumulator::new(3);
            for start in (0..2000).step_by(100) {
                let rows = start..start + 100;
                let part: Vec<_> = columns.iter().map(|x| x[rows.clone()].to_vec()).collect();
                let mut alone = Accumulator::new(3);
                let chunk = chunk(&part, weight.map(|weight| &weight[rows]));
                with_labels(|labels| alone.add(&chunk, labels)).unwrap();
                parts.merge(&alone);
            }
            let (found, expected) = (moments_of(&columns, weight), &parts.finish().moments);
            assert_eq!((found.rows, found.skipped), (expected.rows, expected.skipped));
            assert_eq!(found.weight, expected.weight);
            for (x, y) in found.mean().iter().zip(expected.mean()) {
                assert!((x - y).abs() < 1e-13 * y);
            }
            let variance = |j: usize| expected.comoment[triangle(j) + j];
            for (i, j) in (0..3).flat_map(|i| (0..=i).map(move |j| (i, j))) {
                let at = triangle(i) + j;
                let error = (found.comoment[at] - expected.comoment[at]).abs();
                assert!(error < 1e-13 * (variance(i) * variance(j)).sqrt());
            }
        }
    }

    #[test]
    fn merge_includes_what_is_still_buffered() {
        let columns = random_columns(50);
        let mut halves = [Accumulator::new(3), Accumulator::new(3)];
        let base = halves.as_mut_ptr();
        // SAFETY: as above.
        let group_of = |row: usize| unsafe { &mut *base.add(row / 25) };
        with_labels(|labels| scatter(&chunk(&columns, None), labels, |_| None, group_of)).unwrap();
        let [mut first, second] = halves;
        first.merge(&second);
        let expected = moments_of(&columns, None);
        let found = &first.finish().moments;
        assert_eq!(found.rows, 50);
        assert_eq!(found.comoment.len(), triangle(3));
        for (x, y) in found.comoment.iter().zip(&expected.comoment) {
            assert!((x - y).abs() < 1e-13);
        }
    }

    #[test]
    fn incomplete_rows_are_left_out_and_counted() {
        let mut columns = random_columns(6);
        let expected =
            moments_of(&columns.iter().map(|x| x[3..].to_vec()).collect::<Vec<_>>(), None);
        columns[1][0] = f64::NAN;
        let mut dirty = chunk(&columns, Some(&[1.0, 0.0, 1.0, 1.0, 1.0, 1.0]));
        dirty.missing.set(2, 6);
        let mut all = Accumulator::new(3);
        with_labels(|labels| all.add(&dirty, labels)).unwrap();
        let found = &all.finish().moments;
        assert_eq!((found.rows, found.skipped), (3, 3));
        assert_eq!(found.comoment, expected.comoment);
    }
}

//! Categories: a column of 0 and 1 for each level, of which no row is ever built.
//!
//! The products of such columns are sums over the rows of a level: with a number,
//! the sum of that number; with a level of another category, a cell of the cross
//! table of the two; with a level of the same category, nothing but its own count.
//! A row costs one addition a number and category, and one a pair of categories,
//! however many levels there are. Its weight is summed as one more number.
//!
//! Numbers are summed around a center near their mean, so that a mean 1e8 times
//! the spread costs no digits. Of a number that may be missing, what is present is
//! summed, and beside it where it is missing: what to fill is known at the end.

use std::cell::RefCell;
use std::ops::Range;

use crate::kernel::block::{BLOCK_ROWS, prefetch, stride, turn};
use crate::kernel::chunk::Screened;
use crate::kernel::gaps::{Filled, Place, Policy};
use crate::kernel::moments::{MOST_COUNTED, Moments};
use crate::kernel::rank_update::{LANES, triangle};
use crate::kernel::simd::vectorised;
use crate::kernel::state::state;
use crate::record::arrow::Leaf;
use crate::record::levels::Levels;

/// Rows after which the center is first set to the mean; a first row may lie far off.
const FIRST_RECENTRING: u64 = 32;
/// Rows to look ahead for levels, which lie all over memory.
const ROWS_AHEAD: usize = 8;
/// Rows to look ahead for cells of cross tables: one takes less time than a row of numbers.
const CELLS_AHEAD: usize = 32;

/// Sums of a group that are worth asking for before it is known which of them a row goes to.
const EXPECTED: usize = 128;

/// A column of which each level becomes a column of 0 and 1.
pub struct Category {
    /// Name of the column.
    pub column: String,
    /// Names of the columns that come of it, one a code; values of other codes have none.
    /// The last is that of what is missing, where the policy fills.
    pub names: Vec<String>,
    /// What becomes of what is missing.
    pub policy: Policy,
    levels: Levels,
}

impl Category {
    /// Levels by their text, and the names as above.
    pub fn new(column: String, levels: &[String], names: Vec<String>, policy: Policy) -> Category {
        // Other values have the column after the levels', if there is one besides that of
        // what is missing.
        let has_others = names.len() - usize::from(policy.fills()) > levels.len();
        let others = if has_others { levels.len() } else { names.len() };
        Category { levels: Levels::new(levels, others as u32), column, names, policy }
    }

    /// The code of each of the first `rows` rows.
    pub fn codes(&self, leaf: &Leaf, rows: usize) -> Result<Vec<u32>, String> {
        let mut codes = leaf.of_rows(self.levels.codes(leaf.values())?, rows);
        if self.policy.fills() {
            let missing = self.names.len() as u32 - 1;
            leaf.missing(0..rows).rows().for_each(|row| codes[row] = missing);
        }
        Ok(codes)
    }
}

/// Where the sums of some categories lie, in doubles from the first of a group.
#[derive(Clone, Debug)]
pub struct Layout {
    /// What becomes of each number that is missing.
    policies: Vec<Policy>,
    /// Numbers that are filled; where they are missing follows the numbers in a row, and
    /// then its weight.
    gaps: Vec<usize>,
    /// Doubles of a row.
    stride: usize,
    /// First slot of each category: one slot a column, and one for rows of none.
    starts: Vec<usize>,
    /// Slots of each category.
    slots: Vec<usize>,
    /// First cell of the cross table of each category with those before it, which has a
    /// row for each of its slots and a column for each of theirs.
    tables: Vec<usize>,
    n_slots: usize,
    n_cells: usize,
}

impl Layout {
    /// The layout of categories beside numbers of some policies.
    pub fn new(policies: &[Policy], categories: &[Category]) -> Layout {
        let columns: Vec<usize> = categories.iter().map(|c| c.names.len()).collect();
        Layout::of(policies, &columns)
    }

    /// The layout of categories of some numbers of columns beside numbers of some policies.
    pub fn of(policies: &[Policy], columns: &[usize]) -> Layout {
        let policies = policies.to_vec();
        let gaps: Vec<usize> = (0..policies.len()).filter(|&j| policies[j].fills()).collect();
        let slots: Vec<usize> = columns.iter().map(|columns| columns + 1).collect();
        let (mut starts, mut n_slots) = (Vec::new(), 0);
        let (mut tables, mut n_cells) = (Vec::new(), 0);
        for slots in &slots {
            starts.push(n_slots);
            tables.push(n_cells);
            n_cells += slots * n_slots;
            n_slots += slots;
        }
        let stride = stride(policies.len() + gaps.len() + 1);
        Layout { policies, gaps, stride, starts, slots, tables, n_slots, n_cells }
    }

    /// Doubles that one group takes.
    pub fn doubles(&self) -> usize {
        self.n_slots * self.stride + self.n_cells
    }

    /// How many columns a category has.
    pub fn columns_of(&self, category: usize) -> usize {
        self.slots[category] - 1
    }

    /// Each number that is filled, and where a row says that it is missing.
    fn gaps(&self) -> impl Iterator<Item = (usize, usize)> {
        self.gaps.iter().copied().zip(self.policies.len()..)
    }

    /// Where a row says that a number is missing.
    fn gap_of(&self, number: usize) -> Option<usize> {
        self.gaps().find(|&(column, _)| column == number).map(|(_, at)| at)
    }

    /// Where a row has its weight.
    fn weight(&self) -> usize {
        self.policies.len() + self.gaps.len()
    }

    /// The first cell of a row of the cross table of a category.
    fn cells(&self, category: usize, code: usize) -> usize {
        self.tables[category] + code * self.starts[category]
    }

    /// The slots of a category.
    fn slots_of(&self, category: usize) -> Range<usize> {
        self.starts[category]..self.starts[category] + self.slots[category]
    }
}

/// The sums by level over the rows of any number of groups.
#[derive(Clone, Debug, Default)]
pub struct LevelSums {
    groups: Vec<Count>,
    /// Sum of w (x - center) of each slot, group by group.
    sums: Vec<f64>,
    /// Weight of each pair of slots of two categories.
    cross: Vec<f64>,
    /// A center near the mean of each group.
    centers: Vec<f64>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

#[derive(Clone, Debug)]
struct Count {
    rows: u64,
    skipped: u64,
    recentre_at: u64,
}

/// The rows of a block that are used.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    /// Their numbers side by side, then w (x - center).
    values: Vec<f64>,
    weight: Vec<f64>,
    groups: Vec<usize>,
    /// Their numbers in the chunk.
    pub(crate) used: Vec<usize>,
    /// Their slot in each category.
    slots: Vec<Vec<usize>>,
    /// Where they are added.
    places: Vec<usize>,
}

impl Scratch {
    /// Take the numbers and weights of a block that begins at a row of a chunk.
    pub(crate) fn turn(&mut self, layout: &Layout, start: usize, rows: &Screened) {
        let gaps: Vec<_> = layout.gaps.iter().map(|&column| rows.indicator(column)).collect();
        let columns: Vec<&[f64]> =
            rows.columns.iter().chain(&gaps).map(|column| &column[..]).collect();
        turn(&columns, 0..rows.rows, layout.stride, &mut self.values);
        let all = start..start + rows.rows + rows.skipped;
        self.used.clear();
        self.used.extend(all.filter(|row| !rows.missing.contains(row - start)));
        self.weight.clear();
        match &rows.weight {
            Some(weight) => self.weight.extend_from_slice(weight),
            None => self.weight.resize(rows.rows, 1.0),
        }
    }
}

state!(LevelSums { groups, sums, cross, centers });
state!(Count { rows, skipped, recentre_at });

impl LevelSums {
    /// Make room for groups up to a number.
    pub fn grow(&mut self, layout: &Layout, length: usize) {
        if length > self.groups.len() {
            let none = Count { rows: 0, skipped: 0, recentre_at: FIRST_RECENTRING };
            self.groups.resize(length, none);
            self.sums.resize(length * layout.n_slots * layout.stride, 0.0);
            self.cross.resize(length * layout.n_cells, 0.0);
            self.centers.resize(length * layout.stride, 0.0);
        }
    }

    /// Add the rows of a block that begins at a row of a chunk.
    ///
    /// `codes` holds the codes of each category, and `group_of` maps a row number of
    /// the chunk to its group, for which there is room.
    pub(crate) fn add(
        &mut self,
        layout: &Layout,
        start: usize,
        rows: &Screened,
        codes: &[&[u32]],
        group_of: impl Fn(usize) -> usize,
    ) {
        if codes.is_empty() {
            return;
        }
        let mut scratch = SCRATCH.take();
        scratch.turn(layout, start, rows);
        let all = start..start + rows.rows + rows.skipped;
        if rows.skipped > 0 {
            let skipped = all.clone().filter(|row| rows.missing.contains(row - start));
            skipped.for_each(|row| self.groups[group_of(row)].skipped += 1);
        }
        scratch.groups.clear();
        scratch.groups.extend(scratch.used.iter().map(|&row| group_of(row)));
        scratch.slots.resize(codes.len(), Vec::new());
        for (c, (into, codes)) in scratch.slots.iter_mut().zip(codes).enumerate() {
            prefetch(&codes[all.end..codes.len().min(all.end + BLOCK_ROWS)]);
            let (first, last) = (layout.starts[c], layout.slots[c] - 1);
            let slot = |&code: &u32| first + last.min(code as usize);
            into.clear();
            if rows.skipped == 0 {
                into.extend(codes[all.clone()].iter().map(slot));
            } else {
                into.extend(scratch.used.iter().map(|&row| slot(&codes[row])));
            }
        }
        self.center(layout, &mut scratch);
        self.center_units(layout, rows, &mut scratch);
        if !rows.holes.is_empty() {
            // What is missing adds nothing.
            scratch.values.iter_mut().filter(|x| x.is_nan()).for_each(|x| *x = 0.0);
        }
        let Scratch { values, weight, groups, slots, places, .. } = &mut scratch;
        for (a, of_a) in slots.iter().enumerate() {
            let both = || groups.iter().zip(of_a);
            places.clear();
            places.extend(both().map(|(group, slot)| group * layout.n_slots + slot));
            add_rows(&mut self.sums, places, values, layout.stride);
            if a == 0 {
                continue; // There is none before it.
            }
            let first = layout.starts[a];
            places.clear();
            places.extend(
                both().map(|(group, slot)| group * layout.n_cells + layout.cells(a, slot - first)),
            );
            for of_b in &slots[..a] {
                add_cells(&mut self.cross, places, of_b, weight);
            }
        }
        SCRATCH.set(scratch);
    }

    /// Ask for the memory of the first group.
    pub(crate) fn expect(&self) {
        prefetch(&self.groups);
        prefetch(&self.centers);
        prefetch(&self.sums[..self.sums.len().min(EXPECTED)]);
    }

    /// Leave a row of the first group out.
    pub(crate) fn skip_row(&mut self) {
        self.groups[0].skipped += 1;
    }

    /// Add row `at` of the used ones of a block to the first group, whose slots are
    /// `slots`: as `add`, without what only many rows are worth.
    pub(crate) fn add_row(
        &mut self,
        layout: &Layout,
        rows: &Screened,
        block: &mut Scratch,
        at: usize,
        codes: &[u32],
    ) {
        let stride = layout.stride;
        let (row, weight) = (&mut block.values[at * stride..][..stride], block.weight[at]);
        let count = &mut self.groups[0];
        if count.rows == 0 {
            let numbers = self.centers.iter_mut().zip(&row[..layout.policies.len()]);
            numbers.for_each(|(center, &x)| *center = if x.is_nan() { 0.0 } else { x });
        } else if count.rows >= count.recentre_at {
            count.recentre_at = 2 * count.rows;
            let mean = self.mean(layout, 0);
            self.recentre(layout, 0, &mean);
        }
        self.groups[0].rows += 1;
        center_rows(row, &[weight], &[0], &self.centers, stride, layout.weight());
        for units in &rows.units {
            let value = &mut row[units.column];
            if !value.is_nan() {
                *value = weight * units.less(self.centers[units.column])(at);
            }
        }
        if !rows.holes.is_empty() {
            row.iter_mut().filter(|x| x.is_nan()).for_each(|x| *x = 0.0);
        }
        let slot = |c: usize| layout.starts[c] + (layout.slots[c] - 1).min(codes[c] as usize);
        for a in 0..codes.len() {
            add_rows(&mut self.sums, &[slot(a)], row, stride);
            let cells = layout.cells(a, slot(a) - layout.starts[a]);
            (0..a).for_each(|b| self.cross[cells + slot(b)] += weight);
        }
    }

    /// Count the rows of a block and centre their numbers. The center of a group follows
    /// its mean: it is set anew whenever the rows have doubled.
    fn center(&mut self, layout: &Layout, block: &mut Scratch) {
        let stride = layout.stride;
        let mut row = 0;
        for run in block.groups.chunk_by(|a, b| a == b) {
            let group = run[0];
            let count = &mut self.groups[group];
            if count.rows == 0 {
                let rows = &block.values[row * stride..][..run.len() * stride];
                let centers = &mut self.centers[group * stride..][..layout.policies.len()];
                for (j, center) in centers.iter_mut().enumerate() {
                    let first = rows[j..].iter().step_by(stride).find(|x| !x.is_nan());
                    *center = first.copied().unwrap_or_default();
                }
            } else if count.rows >= count.recentre_at {
                count.recentre_at = 2 * count.rows;
                let mean = self.mean(layout, group);
                self.recentre(layout, group, &mean);
            }
            self.groups[group].rows += run.len() as u64;
            row += run.len();
        }
        let Scratch { values, weight, groups, .. } = block;
        center_rows(values, weight, groups, &self.centers, stride, layout.weight());
    }

    /// Centre the numbers that doubles do not hold by what they are.
    fn center_units(&self, layout: &Layout, rows: &Screened, block: &mut Scratch) {
        for units in &rows.units {
            for (row, &group) in block.groups.iter().enumerate() {
                let value = &mut block.values[row * layout.stride + units.column];
                if !value.is_nan() {
                    let center = self.centers[group * layout.stride + units.column];
                    *value = block.weight[row] * units.less(center)(row);
                }
            }
        }
    }

    /// Add the sums over other rows.
    pub fn merge(&mut self, layout: &Layout, other: &mut LevelSums) {
        if self.groups.len() < other.groups.len() {
            std::mem::swap(self, other);
        }
        let stride = layout.stride;
        for group in 0..other.groups.len() {
            let center = self.centers[group * stride..][..stride].to_vec();
            if self.groups[group].rows > 0 {
                other.recentre(layout, group, &center);
            }
        }
        for (group, (count, more)) in self.groups.iter_mut().zip(&other.groups).enumerate() {
            if count.rows == 0 {
                let at = group * stride..(group + 1) * stride;
                self.centers[at.clone()].copy_from_slice(&other.centers[at]);
            }
            count.rows += more.rows;
            count.skipped += more.skipped;
        }
        add_to(&mut self.sums, &other.sums);
        add_to(&mut self.cross, &other.cross);
    }

    /// The sums with each group at another number, up to which there is room.
    pub fn placed(self, layout: &Layout, at: &[usize], length: usize) -> LevelSums {
        let mut found = LevelSums::default();
        found.grow(layout, length);
        let per_group = layout.n_slots * layout.stride;
        let both = |width: usize| {
            let place = move |(from, to): (usize, usize)| {
                (from * width..(from + 1) * width, to * width..(to + 1) * width)
            };
            at.iter().copied().take(self.groups.len()).enumerate().map(place)
        };
        for (from, to) in both(per_group) {
            found.sums[to].copy_from_slice(&self.sums[from]);
        }
        for (from, to) in both(layout.n_cells) {
            found.cross[to].copy_from_slice(&self.cross[from]);
        }
        for (from, to) in both(layout.stride) {
            found.centers[to].copy_from_slice(&self.centers[from]);
        }
        for (count, &to) in self.groups.into_iter().zip(at) {
            found.groups[to] = count;
        }
        found
    }

    /// Whether these are sums of some groups in a layout: of bytes that were forged they may
    /// not be.
    pub(crate) fn is_sound(&self, layout: &Layout, groups: usize) -> bool {
        self.groups.len() == groups
            && self.sums.len() == groups * layout.n_slots * layout.stride
            && self.cross.len() == groups * layout.n_cells
            && self.centers.len() == groups * layout.stride
            && self.groups.iter().all(|count| count.rows.max(count.skipped) <= MOST_COUNTED)
    }

    /// Weight of the rows of the first group that have each code of a category.
    pub fn weights(&self, layout: &Layout, category: usize) -> Vec<f64> {
        let slots = layout.starts[category]..layout.starts[category] + layout.columns_of(category);
        let weight = |slot: usize| self.sums.get(slot * layout.stride + layout.weight());
        slots.map(|slot| weight(slot).copied().unwrap_or_default()).collect()
    }

    /// Let `found` be the sums of the first group in another layout of the same numbers and
    /// categories.
    ///
    /// `codes` maps the codes of each category to those of the other layout, where codes
    /// without a column are added to those of no level.
    pub fn settle(
        &self,
        layout: &Layout,
        onto: &Layout,
        codes: &[Vec<usize>],
        found: &mut LevelSums,
    ) {
        found.clear();
        if self.groups.is_empty() {
            return;
        }
        found.grow(onto, 1);
        found.groups.clone_from(&self.groups);
        found.centers.clone_from(&self.centers);
        let slot_of = |c: usize, code: usize| {
            let last = onto.columns_of(c);
            codes[c].get(code).map_or(last, |&code| last.min(code))
        };
        // Slots beyond the codes have no rows.
        let last = |c: usize| layout.columns_of(c);
        let all = |c: usize| (0..codes[c].len().min(last(c))).chain([last(c)]);
        for a in 0..layout.slots.len() {
            for code in all(a) {
                let (from, to) = (layout.starts[a] + code, onto.starts[a] + slot_of(a, code));
                let sums = &self.sums[from * layout.stride..][..layout.stride];
                add_to(&mut found.sums[to * onto.stride..][..onto.stride], sums);
                let (from, to) = (layout.cells(a, code), onto.cells(a, slot_of(a, code)));
                for b in 0..a {
                    for other in all(b) {
                        found.cross[to + onto.starts[b] + slot_of(b, other)] +=
                            self.cross[from + layout.starts[b] + other];
                    }
                }
            }
        }
    }

    /// Forget all groups, and keep their memory.
    fn clear(&mut self) {
        self.groups.clear();
        [&mut self.sums, &mut self.cross, &mut self.centers].into_iter().for_each(Vec::clear);
    }

    /// Sum of w (x - center) over a group: each row has one slot in the first category.
    fn total(&self, layout: &Layout, group: usize) -> Vec<f64> {
        let mut total = vec![0.0; layout.stride];
        let sums = &self.sums[group * layout.n_slots * layout.stride..];
        let sums = &sums[..layout.slots[0] * layout.stride];
        sums.chunks_exact(layout.stride).for_each(|sums| add_to(&mut total, sums));
        total
    }

    /// The mean of what is present of each number; 0 of where it is missing.
    fn mean(&self, layout: &Layout, group: usize) -> Vec<f64> {
        let total = self.total(layout, group);
        let mut mean = self.centers[group * layout.stride..][..layout.stride].to_vec();
        for (j, center) in mean[..layout.policies.len()].iter_mut().enumerate() {
            let missing = layout.gap_of(j).map_or(0.0, |at| total[at]);
            let present = total[layout.weight()] - missing;
            if present > 0.0 {
                *center += total[j] / present;
            }
        }
        mean
    }

    fn recentre(&mut self, layout: &Layout, group: usize, to: &[f64]) {
        let center = &mut self.centers[group * layout.stride..][..layout.stride];
        let shift: Vec<f64> = center.iter().zip(to).map(|(from, to)| from - to).collect();
        center.copy_from_slice(to);
        let slots = layout.n_slots * layout.stride;
        for sums in self.sums[group * slots..][..slots].chunks_exact_mut(layout.stride) {
            let weight = sums[layout.weight()];
            sums.iter_mut().zip(&shift).for_each(|(sum, shift)| *sum += weight * shift);
            for (column, at) in layout.gaps() {
                sums[column] -= sums[at] * shift[column];
            }
        }
    }

    /// The moments of a group: those of the numbers, which are known, then the levels'.
    ///
    /// `numbers` are those of the record, at `places`, and `filled` what they come of where any
    /// may be missing.
    pub fn finish(
        &self,
        layout: &Layout,
        group: usize,
        numbers: &Moments,
        filled: Option<&Filled>,
        places: &[Place],
    ) -> Moments {
        let Count { rows, skipped, .. } = self.groups[group];
        let levels = LevelMoments::of(self, layout, group);
        let width = places.len() + layout.n_slots - layout.slots.len();
        let mut mean = numbers.exact_mean();
        mean.high.reserve_exact(width - places.len());
        mean.low.reserve_exact(width - places.len());
        let mut comoment = Vec::with_capacity(triangle(width));
        comoment.extend_from_slice(&numbers.comoment);
        let fills = filled.map(|filled| self.fills(layout, group, filled)).unwrap_or_default();
        let as_placed = |sums: &[f64], place: &Place| match *place {
            Place::Column(j) => sums[j] + layout.gap_of(j).map_or(0.0, |at| fills[j] * sums[at]),
            Place::Indicator(j) => layout.gap_of(j).map_or(0.0, |at| sums[at]),
        };
        let total = self.total(layout, group);
        let all = total[layout.weight()];
        let totals: Vec<f64> = places.iter().map(|place| as_placed(&total, place)).collect();
        for a in 0..layout.slots.len() {
            for slot in layout.slots_of(a).take(layout.columns_of(a)) {
                mean.high.push(levels.shares[slot]);
                mean.low.push(0.0);
                let with_number = |slot: usize, at: usize| {
                    let sum = as_placed(levels.sums_of(slot), &places[at]);
                    sum - levels.shares[slot] * totals[at]
                };
                comoment.extend((0..places.len()).map(|at| match slot == levels.heaviest[a] {
                    true => levels.others(a).fold(0.0, |left, slot| left - with_number(slot, at)),
                    false => with_number(slot, at),
                }));
                levels.add_comoments(a, slot, &mut comoment);
            }
        }
        Moments::from_parts(rows, skipped, all, mean, comoment)
    }

    /// What stands in the place of each number that is missing, less its center.
    fn fills(&self, layout: &Layout, group: usize, filled: &Filled) -> Vec<f64> {
        let centers = &self.centers[group * layout.stride..];
        let mean = self.mean(layout, group);
        let fill = |(j, policy): (usize, &Policy)| match policy {
            Policy::Skip => 0.0,
            Policy::Mean => mean[j] - centers[j],
            Policy::Near => filled.fill_of(j).unwrap_or(centers[j]) - centers[j],
            Policy::Indicator => filled.fill_beside(j) - centers[j],
            Policy::Zero => -centers[j],
        };
        layout.policies.iter().enumerate().map(fill).collect()
    }

    /// Whether a category is missing in a row that was used, where it may be.
    fn has_gaps(&self, layout: &Layout, category: usize) -> bool {
        let missing = layout.starts[category] + layout.slots[category] - 2;
        let at = missing * layout.stride + layout.weight();
        self.sums.chunks_exact(layout.n_slots * layout.stride).any(|sums| sums[at] > 0.0)
    }
}

/// The comoments of the levels of a group.
///
/// In every row the slots of a category add up to 1, so that the comoments of anything with all of
/// them add up to 0. Those of the heaviest slot are computed as minus the sum of the others': as
/// differences of weights that are nearly equal they would err by epsilon times the weight of all
/// rows, which is n epsilon of a variance that one row of n makes. All others have no more than
/// half of the weight, and err by some epsilon of themselves. So dependences between levels hold to
/// a share of a variance that does not depend on the number of rows or on their weights, which is
/// what the rank test of `linear::state` takes for granted.
struct LevelMoments<'s> {
    layout: &'s Layout,
    sums: &'s [f64],
    cross: &'s [f64],
    /// Weight of each slot.
    weights: Vec<f64>,
    /// The mean of each slot's column.
    shares: Vec<f64>,
    /// Weight of all slots of each category, and 1 of no rows.
    total: Vec<f64>,
    /// The slot of most weight of each category.
    heaviest: Vec<usize>,
}

impl<'s> LevelMoments<'s> {
    fn of(sums: &'s LevelSums, layout: &'s Layout, group: usize) -> LevelMoments<'s> {
        let (slots, cells) = (layout.n_slots * layout.stride, layout.n_cells);
        let sums_of_group = &sums.sums[group * slots..][..slots];
        let weight = |sums: &[f64]| sums[layout.weight()];
        let mut found = LevelMoments {
            layout,
            sums: sums_of_group,
            cross: &sums.cross[group * cells..][..cells],
            weights: sums_of_group.chunks_exact(layout.stride).map(weight).collect(),
            shares: Vec::with_capacity(layout.n_slots),
            total: Vec::with_capacity(layout.slots.len()),
            heaviest: Vec::with_capacity(layout.slots.len()),
        };
        for category in 0..layout.slots.len() {
            let slots = layout.slots_of(category);
            let total: f64 = found.weights[slots.clone()].iter().sum();
            let total = if total > 0.0 { total } else { 1.0 };
            let heavier = |&a: &usize, &b: &usize| found.weights[a].total_cmp(&found.weights[b]);
            let heaviest = slots.clone().max_by(heavier).unwrap_or_default();
            found.shares.extend(found.weights[slots].iter().map(|weight| weight / total));
            found.total.push(total);
            found.heaviest.push(heaviest);
        }
        found
    }

    /// The sums of a slot.
    fn sums_of(&self, slot: usize) -> &'s [f64] {
        &self.sums[slot * self.layout.stride..][..self.layout.stride]
    }

    /// The slots of a category but the heaviest.
    fn others(&self, category: usize) -> impl Iterator<Item = usize> {
        let heaviest = self.heaviest[category];
        self.layout.slots_of(category).filter(move |&slot| slot != heaviest)
    }

    /// Append the comoments of a slot of category `a` with all columns before it, and with itself.
    fn add_comoments(&self, a: usize, slot: usize, into: &mut Vec<f64>) {
        for b in 0..a {
            let others = self.layout.slots_of(b).take(self.layout.columns_of(b));
            into.extend(others.map(|other| self.comoment(a, slot, b, other)));
        }
        let (share, first) = (self.shares[slot], self.layout.starts[a]);
        into.extend(self.weights[first..slot].iter().map(|weight| -share * weight));
        let rest = match slot == self.heaviest[a] {
            true => self.others(a).map(|other| self.weights[other]).sum(),
            false => self.total[a] - self.weights[slot],
        };
        into.push(share * rest);
    }

    /// The comoment of a slot of category `a` and one of category `b` before it.
    fn comoment(&self, a: usize, slot: usize, b: usize, other: usize) -> f64 {
        if slot == self.heaviest[a] {
            self.others(a).fold(0.0, |left, slot| left - self.comoment(a, slot, b, other))
        } else if other == self.heaviest[b] {
            self.others(b).fold(0.0, |left, other| left - self.comoment(a, slot, b, other))
        } else {
            let code = slot - self.layout.starts[a];
            let both = self.cross[self.layout.cells(a, code) + other];
            both - self.shares[slot] * self.weights[other]
        }
    }
}

/// Which columns of categories a record has: the column of what is missing is not among
/// them where the other columns take its mean, or nothing is missing.
pub struct Listed<'c> {
    categories: &'c [Category],
    is_listed: Vec<bool>,
}

impl<'c> Listed<'c> {
    /// The columns of categories with some sums.
    pub fn new(layout: &Layout, categories: &'c [Category], sums: &LevelSums) -> Listed<'c> {
        let lists = |(c, category): (usize, &Category)| match category.policy {
            Policy::Skip => true,
            Policy::Mean => false,
            _ => sums.has_gaps(layout, c),
        };
        Listed { categories, is_listed: categories.iter().enumerate().map(lists).collect() }
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = String> {
        let own = |(category, &all): (&'c Category, &bool)| {
            let n_names = category.names.len() - usize::from(!all);
            category.names[..n_names].iter().cloned()
        };
        self.categories.iter().zip(&self.is_listed).flat_map(own)
    }

    /// How many columns each category has.
    pub fn counts(&self) -> impl Iterator<Item = usize> {
        let count = |(category, &all): (&Category, &bool)| category.names.len() - usize::from(!all);
        self.categories.iter().zip(&self.is_listed).map(count)
    }

    /// What becomes of what is missing, column by column.
    pub fn policies(&self) -> impl Iterator<Item = Policy> {
        let policies = self.categories.iter().map(|category| category.policy);
        self.counts().zip(policies).flat_map(|(n, policy)| std::iter::repeat_n(policy, n))
    }

    /// Moments of some numbers and all columns of the categories, as a record has them.
    pub fn of(&self, mut moments: Moments) -> Moments {
        if self.is_listed.iter().all(|&is_listed| is_listed) {
            return moments;
        }
        let n_columns: usize = self.categories.iter().map(|category| category.names.len()).sum();
        let mut first = moments.width() - n_columns;
        let mut kept: Vec<Option<usize>> = (0..first).map(Some).collect();
        for (category, &is_listed) in self.categories.iter().zip(&self.is_listed) {
            let end = first + category.names.len();
            if category.policy == Policy::Mean && moments.mean_of(end - 1) < 1.0 {
                // A level is 0 where its category is missing.
                (first..end - 1).for_each(|level| moments.impute_mean(level, end - 1));
            }
            kept.extend((first..end - usize::from(!is_listed)).map(Some));
            first = end;
        }
        moments.arranged(&kept)
    }
}

vectorised! {
/// Replace rows, whole panels each, by w (x - center), each with the center of its group,
/// and put w where it belongs.
fn center_rows(
    values: &mut [f64],
    weight: &[f64],
    groups: &[usize],
    centers: &[f64],
    stride: usize,
    weight_at: usize,
) {
    let rows = values.chunks_exact_mut(stride).zip(weight).zip(groups);
    for ((row, weight), group) in rows {
        let (center, _) = centers[group * stride..][..stride].as_chunks::<LANES>();
        let (panels, _) = row.as_chunks_mut::<LANES>();
        for (xs, center) in panels.iter_mut().zip(center) {
            xs.iter_mut().zip(center).for_each(|(x, center)| *x = weight * (*x - center));
        }
        row[weight_at] = *weight;
    }
}
}

vectorised! {
/// Add each row, whole panels, to the sums of its slot.
fn add_rows(sums: &mut [f64], slots: &[usize], rows: &[f64], stride: usize) {
    for (r, (&slot, row)) in slots.iter().zip(rows.chunks_exact(stride)).enumerate() {
        if let Some(ahead) = slots.get(r + ROWS_AHEAD) {
            let (sums, _) = sums[ahead * stride..][..stride].as_chunks::<LANES>();
            sums.iter().for_each(|sums| prefetch(sums));
        }
        let (sums, _) = sums[slot * stride..][..stride].as_chunks_mut::<LANES>();
        let (row, _) = row.as_chunks::<LANES>();
        for (sums, row) in sums.iter_mut().zip(row) {
            sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
        }
    }
}
}

/// Add the weight of each row to its cell: a column of a row of the cross tables.
fn add_cells(sums: &mut [f64], rows: &[usize], columns: &[usize], weight: &[f64]) {
    let cells = rows.iter().zip(columns).map(|(row, column)| row + column);
    let mut ahead = cells.clone().skip(CELLS_AHEAD);
    for (cell, weight) in cells.zip(weight) {
        if let Some(ahead) = ahead.next() {
            prefetch(&sums[ahead..=ahead]);
        }
        sums[cell] += weight;
    }
}

fn add_to(sums: &mut [f64], others: &[f64]) {
    sums.iter_mut().zip(others).for_each(|(sum, other)| *sum += other);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::accumulator::Accumulator;
    use crate::kernel::chunk::{Chunk, Labels, Missing};
    use crate::testing::Lcg;
    use std::borrow::Cow;

    const NAMES: [&str; 5] = ["x", "a0", "a1", "a2", "b0"];

    const NUMBER: [Place; 1] = [Place::Column(0)];

    struct Sample {
        x: Vec<f64>,
        weight: Vec<f64>,
        codes: [Vec<u32>; 2],
    }

    /// A number far from zero, NaN now and then, and two categories with rows of no level.
    fn sample(rows: usize) -> Sample {
        let mut random = Lcg::new(5);
        let mut draw = |n: f64| (random.uniform() * n).floor();
        let x = (0..rows).map(|_| if draw(20.0) == 0.0 { f64::NAN } else { 1e6 + draw(64.0) });
        let x = x.collect();
        let weight = (0..rows).map(|_| draw(4.0) / 2.0).collect();
        let codes = [4.0, 2.0].map(|n| (0..rows).map(|_| draw(n) as u32).collect());
        Sample { x, weight, codes }
    }

    fn chunk<'a>(columns: &[&'a [f64]], weight: &'a [f64]) -> Chunk<'a> {
        Chunk {
            rows: weight.len(),
            columns: columns.iter().map(|x| Cow::Borrowed(*x)).collect(),
            weight: Some(Cow::Borrowed(weight)),
            missing: Missing::none(),
            nulls: vec![Missing::none(); columns.len()],
            units: Vec::new(),
            policies: &[],
        }
    }

    /// Add the rows of a chunk of one number.
    fn add(
        sums: &mut LevelSums,
        layout: &Layout,
        chunk: &Chunk,
        codes: &[&[u32]],
        group_of: impl Fn(usize) -> usize,
    ) {
        let labels = Labels { columns: &["x".to_string()], weight: "weight" };
        for (start, rows) in chunk.blocks() {
            sums.add(layout, start, &rows.screen(labels).unwrap(), codes, &group_of);
        }
    }

    fn filled(columns: &[&[f64]], weight: &[f64]) -> Filled {
        let names = NAMES.map(str::to_string);
        let labels = Labels { columns: &names, weight: "weight" };
        let mut all = Accumulator::new(columns.len());
        all.add(&chunk(columns, weight), labels).unwrap();
        all.finish().clone()
    }

    #[test]
    fn sums_by_level_give_the_moments_of_columns_of_zeros_and_ones() {
        let Sample { x, weight, codes } = sample(3000);
        let category = |column: &str, names: &[&str]| {
            let names = names.iter().map(|name| name.to_string()).collect();
            Category::new(column.to_string(), &[], names, Policy::Skip)
        };
        let categories = [category("a", &["a0", "a1", "a2"]), category("b", &["b0"])];
        let layout = Layout::new(&[Policy::Skip], &categories);
        let codes_of = codes.each_ref().map(|codes| &codes[..]);
        let chunk = chunk(&[&x], &weight);
        for groups in [1, 3] {
            let mut parts = LevelSums::default();
            parts.grow(&layout, groups);
            add(&mut parts, &layout, &chunk, &codes_of, |row| row % groups);
            for group in 0..groups {
                let pick = |values: &[f64]| -> Vec<f64> {
                    values.iter().skip(group).step_by(groups).copied().collect()
                };
                let dense = [(0, 0), (0, 1), (0, 2), (1, 0)].map(|(c, level): (usize, u32)| {
                    pick(&codes[c].iter().map(|&c| f64::from(c == level)).collect::<Vec<_>>())
                });
                let x = pick(&x);
                let weight = pick(&weight);
                let columns: Vec<&[f64]> =
                    std::iter::once(&x[..]).chain(dense.iter().map(|column| &column[..])).collect();
                let found = finished(&parts, &layout, group, &filled(&[&x], &weight));
                assert_close(&found, &filled(&columns, &weight).moments);
            }
        }
    }

    #[test]
    fn merged_sums_are_those_of_all_rows() {
        let Sample { x, weight, codes } = sample(1000);
        let names = vec!["a0".to_string(), "a1".to_string()];
        let category = Category::new("a".to_string(), &[], names, Policy::Skip);
        let layout = Layout::new(&[Policy::Skip], &[category]);
        let sums_of = |rows: std::ops::Range<usize>, groups: usize| {
            let mut sums = LevelSums::default();
            sums.grow(&layout, groups);
            let chunk = chunk(&[&x[rows.clone()]], &weight[rows.clone()]);
            let codes = &codes[0][rows];
            // Group 0 of two is empty.
            add(&mut sums, &layout, &chunk, &[codes], |_| groups - 1);
            sums
        };
        for groups in [1, 2] {
            let mut merged = sums_of(0..100, 1);
            merged.merge(&layout, &mut sums_of(100..1000, groups));
            let all = sums_of(0..1000, 1);
            let numbers = filled(&[&x], &weight);
            if groups == 1 {
                assert_close(
                    &finished(&merged, &layout, 0, &numbers),
                    &finished(&all, &layout, 0, &numbers),
                );
            }
            let counts: Vec<u64> = merged.groups.iter().map(|count| count.rows).collect();
            assert_eq!(counts.iter().sum::<u64>(), all.groups[0].rows);
            assert_eq!(counts.len(), groups);
        }
    }

    fn finished(sums: &LevelSums, layout: &Layout, group: usize, filled: &Filled) -> Moments {
        let numbers = filled.finish(&layout.policies, &NUMBER);
        sums.finish(layout, group, &numbers, Some(filled), &NUMBER)
    }

    fn assert_close(found: &Moments, expected: &Moments) {
        assert_eq!((found.rows, found.skipped), (expected.rows, expected.skipped));
        assert_eq!(found.weight, expected.weight);
        for (x, y) in found.mean().iter().zip(expected.mean()) {
            assert!((x - y).abs() <= 1e-15 * y);
        }
        assert_eq!(found.comoment.len(), expected.comoment.len());
        for (x, y) in found.comoment.iter().zip(&expected.comoment) {
            assert!((x - y).abs() < 1e-13 * expected.comoment[0]);
        }
    }
}

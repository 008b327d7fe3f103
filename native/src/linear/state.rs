//! What is selected of a linear model, and what every other group would add.
//!
//! The state keeps `U = L^-1 C_S.` and `z = L^-1 c_S` with `L L' = C_SS`, one row for each
//! selected column. Then `b = c - U'z`, the conditional covariance of a group is
//! `C_gg - U_g' U_g` and `F(S) = z'z`, so a new group costs one product with U, O(D |S| |g|),
//! and a full sequence O(D^3), for every rule. `M = L^-1` is brought up to date where
//! coefficients, `w = M'z`, are asked for.
//!
//! Rank: a column is aliased, takes no part and gets coefficient 0, when what is left of its
//! variance, given the columns before it, is below `RANK_SHARE` of it, or no more than the
//! rounding of what was taken from it: with `w` the column's coefficients on those before,
//! that errs by some `eps (1 + w'w)`. Both take for granted that an entry of C errs by some eps of
//! the deviations of its two columns, however small these are: `record::categories` sees to it for
//! levels of few rows among many.
//!
//! K responses share U: b has K rows, and a row of z K coordinates. What is explained, gained or
//! lost is the sum over them.
//!
//! A column that lies in several groups is as many columns here, the same with its ridge
//! (`Linear::same`): one that is selected leaves the others aliased.
//!
//! Source: Hu, Grubb, Bagnell, Hebert (2016), eq. 1 and section 3; the paper solves anew for every
//! candidate.

use std::collections::HashSet;
use std::ops::Range;

use crate::kernel::possible::{LEAST_LEFT, LEFT_ROUNDING};
use crate::linear::algebra::dense::{dot, subtract_combination};
use crate::linear::algebra::elimination::{eliminate, eliminate_column};
use crate::linear::algebra::panels::{
    subtract_columns, subtract_columns_at, subtract_products, subtract_shares, subtract_triangle,
    subtract_wide_combination, subtract_wide_triangle,
};
use crate::linear::algebra::reflections::{BLOCK, Reflections};
use crate::linear::problem::Linear;

/// Share of its own variance below which a column is aliased: conditional variances carry an
/// error of some 1e-15 for a small w, so what is left still has three digits.
pub const RANK_SHARE: f64 = 1e-12;
/// What is left of a variance, as a share of 1 + w'w, below which it is rounding: exact
/// dependences leave up to 6e-15.
pub const RANK_ROUNDING: f64 = 1e-14;
/// Share of its own variance below which what is left of a column may be rounding: above, w'w
/// would exceed 1e10, so that the columns before it are nearly dependent themselves.
const DOUBTFUL_SHARE: f64 = 1e-4;
/// Share of its own variance below which what is left of a column has lost half of its digits to
/// the rounding of rotations.
const NEAR_SHARE: f64 = 1e-8;
/// Weight in an aliased column, both of unit variance, below which a column that goes leaves the
/// other aliased: its square stays below `RANK_SHARE` even where a hundred of them add up.
const DEPENDENT_WEIGHT: f64 = 1e-7;
/// Condition number above which the selected columns themselves lose their digits.
pub const CONDITION_LIMIT: f64 = 1e10;
/// Share of a column's variance that rounding may leave of one that depends on others.
pub const ROUNDING_SHARE: f64 = 1e-15;
/// Share of the target's variance above which its possible loss is reported.
const TOLD_SHARE: f64 = 1e-3;
/// Rows of M that are computed at once, so that those before are read so much less often.
const ROWS_AT_ONCE: usize = 32;
/// Columns of several groups that are added at once, for the same reason.
const COLUMNS_AT_ONCE: usize = 64;
/// Products of doubles from which on an addition passes over the columns that are selected.
const WIDE: usize = 1_000_000;
/// The place of a column that has no row in U.
const NO_ROW: usize = usize::MAX;

/// A selected group: its rows in U, one for each column that is not aliased.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// Number of the group.
    pub group: usize,
    start: usize,
    rank: usize,
}

impl Held {
    /// Its rows in U.
    pub fn rows(&self) -> Range<usize> {
        self.start..self.start + self.rank
    }
}

/// A column that depends on others but for a trace.
#[derive(Clone, Copy, Debug)]
pub struct Trace {
    /// Its number.
    pub column: usize,
    /// What is its own of its variance.
    pub share: f64,
    /// What that may explain of the target's.
    pub gain: f64,
}

/// An aliased column that depends on columns of other groups.
#[derive(Clone, Debug)]
struct Dependence {
    /// Its number among those of `Inverse::aliased`.
    at: usize,
    column: usize,
    group: usize,
    /// The other groups.
    on: Vec<usize>,
}

/// What losses need of C_SS^-1, `M'M`: sums over the rows of M, so that a group that is added
/// brings only those of its own. A group that goes turns the rows after it, and all begin anew.
#[derive(Clone, Debug, Default)]
struct Inverse {
    /// Rows of M, and selected groups, that the sums have taken in.
    rows: usize,
    groups: usize,
    /// Of each of these groups the block of -C_SS^-1, one after another.
    blocks: Vec<f64>,
    /// The aliased columns of these groups, and the place of the group of each among them.
    aliased: Vec<(usize, usize)>,
    /// Rows of D doubles, one for each of these columns: what each row of U weighs in it, with
    /// its sign changed.
    weights: Vec<f64>,
    /// What each group would lose, and the coefficients; empty where what is selected has changed
    /// since.
    losses: Vec<f64>,
    coef: Vec<f64>,
}

impl Inverse {
    fn clear(&mut self) {
        (self.rows, self.groups) = (0, 0);
        self.blocks.clear();
        self.aliased.clear();
        self.weights.clear();
        self.losses.clear();
        self.coef.clear();
    }

    /// What each of some rows of U weighs in an aliased column.
    fn weights(&self, at: usize, width: usize, rows: Range<usize>) -> impl Iterator<Item = f64> {
        self.weights[at * width..][rows].iter().map(|weight| -weight)
    }
}

/// The arrays of a state without the problem; their memory serves the next one.
#[derive(Clone, Debug, Default)]
pub struct Buffers {
    held: Vec<Held>,
    waiting: Vec<bool>,
    /// The gradient, a row for each response.
    b: Vec<f64>,
    /// What must be left of the variance of each column.
    floor: Vec<f64>,
    /// Conditional covariance of each group that waits, one after another, given the first
    /// `given` rows of U; `gains` brings them up to date.
    blocks: Vec<f64>,
    given: usize,
    /// Where the block of each group begins.
    block_starts: Vec<usize>,
    /// Column of each row of U, and the row of each column.
    support: Vec<usize>,
    place: Vec<usize>,
    u: Vec<f64>,
    /// K coordinates for each row of U.
    z: Vec<f64>,
    /// M, rows of D doubles, of which row k has k + 1; as many as were asked for.
    m: Vec<f64>,
    inverse: Inverse,
    scratch: Scratch,
}

impl Buffers {
    /// The column of each row of U of the last state.
    pub fn support(&self) -> &[usize] {
        &self.support
    }

    /// M of the last state, as far as it was asked for.
    pub fn inverse(&self) -> &[f64] {
        &self.m
    }
}

/// Overwritten by every call.
#[derive(Clone, Debug, Default)]
struct Scratch {
    rows: Vec<f64>,
    floor: Vec<f64>,
    inverse: Vec<f64>,
    below: Vec<f64>,
    shares: Vec<f64>,
    factor: Vec<f64>,
    kept: Vec<usize>,
    reflections: Reflections,
}

/// The selected groups and what every other group would add.
#[derive(Clone)]
pub struct State<'p> {
    /// What does not change.
    pub problem: &'p Linear,
    starts: &'p [usize],
    own: Buffers,
}

impl<'p> State<'p> {
    /// A state without selected groups; group g has the columns from `starts[g]` on.
    pub fn new(problem: &'p Linear, starts: &'p [usize], buffers: Buffers) -> State<'p> {
        let mut state = State { problem, starts, own: buffers };
        state.clear();
        state
    }

    /// Select no group.
    fn clear(&mut self) {
        let (size, width, problem) = (self.size(), self.problem.width(), self.problem);
        let own = &mut self.own;
        own.held.clear();
        own.support.clear();
        own.u.clear();
        own.z.clear();
        own.m.clear();
        // No row is copied when another comes; what is never written takes address space alone.
        own.u.reserve(problem.correlations.len());
        own.m.reserve(problem.correlations.len());
        own.inverse.clear();
        own.waiting.clear();
        own.waiting.resize(size, true);
        own.place.clear();
        own.place.resize(width, NO_ROW);
        own.b.clear();
        own.b.extend_from_slice(&problem.target);
        own.floor.clear();
        // A constant column is aliased whatever the ridge.
        own.floor.extend((0..width).map(|j| {
            if problem.constant[j] { f64::INFINITY } else { RANK_SHARE * problem.scale(j) }
        }));
        self.own_blocks();
    }

    /// Make the blocks anew, given no row of U.
    fn own_blocks(&mut self) {
        let (problem, starts) = (self.problem, self.starts);
        let Buffers { blocks, block_starts, given, .. } = &mut self.own;
        blocks.clear();
        block_starts.clear();
        for columns in starts.windows(2).map(|bounds| bounds[0]..bounds[1]) {
            block_starts.push(blocks.len());
            problem.append_block(columns, blocks);
        }
        *given = 0;
    }

    /// The state of a problem that gave these arrays back.
    pub fn resumed(problem: &'p Linear, starts: &'p [usize], buffers: Buffers) -> State<'p> {
        State { problem, starts, own: buffers }
    }

    /// Give the memory back.
    pub fn into_buffers(self) -> Buffers {
        self.own
    }

    /// How many doubles a row of U has: one where there is no column, and no row.
    fn row_width(&self) -> usize {
        self.problem.width().max(1)
    }

    /// J, the number of groups.
    pub fn size(&self) -> usize {
        self.starts.len() - 1
    }

    /// The columns of a group.
    pub fn columns(&self, group: usize) -> Range<usize> {
        self.starts[group]..self.starts[group + 1]
    }

    /// The selected groups, in the order taken.
    pub fn held(&self) -> &[Held] {
        &self.own.held
    }

    /// Whether each group is not selected.
    pub fn waiting(&self) -> &[bool] {
        &self.own.waiting
    }

    /// The gradient, a row for each response.
    pub fn gradient(&self) -> &[f64] {
        &self.own.b
    }

    /// The column of each row of U.
    pub fn support(&self) -> &[usize] {
        &self.own.support
    }

    /// The row of a column, if it has one.
    pub fn place(&self, column: usize) -> Option<usize> {
        let place = self.own.place[column];
        (place != NO_ROW).then_some(place)
    }

    /// Coordinates of the target, of K responses K for each row of U: `z'z` is explained, `w = M'z`.
    pub fn coordinates(&self) -> &[f64] {
        &self.own.z
    }

    /// F of the selected groups, as a share of the target's variance.
    pub fn explained(&self) -> f64 {
        dot(&self.own.z, &self.own.z)
    }

    /// The selected columns that depend on columns selected before them, each once, in order.
    pub fn aliased(&self) -> Vec<usize> {
        let of = |held: &Held| self.columns(held.group);
        let columns = self.held().iter().flat_map(of).filter(|&j| self.place(j).is_none());
        let mut columns: Vec<usize> = columns.collect();
        let same = &self.problem.same;
        if !same.is_empty() {
            let mut there: HashSet<usize> = self.support().iter().map(|&j| same[j]).collect();
            columns.retain(|&j| there.insert(same[j]));
        }
        columns.sort_unstable();
        columns
    }

    /// What is left of each column's variance, given the first rows of U.
    pub fn left(&self, rows: usize) -> Vec<f64> {
        let width = self.row_width();
        let mut left: Vec<f64> =
            (0..self.problem.width()).map(|j| self.problem.variance(j)).collect();
        for row in self.own.u[..rows * width].chunks_exact(width) {
            left.iter_mut().zip(row).for_each(|(left, u)| *left -= u * u);
        }
        left
    }

    /// The covariance of some columns given the selected ones, row by row.
    pub fn conditional(&self, columns: &[usize]) -> Vec<f64> {
        let mut covariance = self.problem.covariance(columns);
        if !columns.is_empty() {
            subtract_products(&mut covariance, &self.factor_at(columns), columns.len(), 0);
        }
        covariance
    }

    /// U at some columns, row by row.
    pub fn factor_at(&self, columns: &[usize]) -> Vec<f64> {
        let width = self.row_width();
        let rows = self.own.u[..self.own.support.len() * width].chunks_exact(width);
        rows.flat_map(|row| columns.iter().map(|&j| row[j])).collect()
    }

    /// Whether less than nothing is left of a column, as of no rows' columns; O(D |S|).
    ///
    /// Only columns that vary much beyond those before them are asked: what rounding does to
    /// others, they multiply.
    pub fn is_indefinite(&self) -> bool {
        let width = self.row_width();
        let is_far = |(row, &column): (usize, &usize)| {
            let pivot = self.own.u[row * width + column];
            pivot * pivot > LEAST_LEFT * self.problem.variance(column)
        };
        let far = self.own.support.iter().enumerate().take_while(|&at| is_far(at)).count();
        let variance = |j: usize| self.problem.variance(j);
        self.left(far).iter().enumerate().any(|(j, &left)| left < -LEFT_ROUNDING * variance(j))
    }

    /// Of the columns that depend on selected ones that which would gain most by the trace that
    /// is its own, if that is much.
    pub fn trace(&mut self) -> Option<Trace> {
        let left = self.left(self.own.support.len());
        let aliased: HashSet<usize> = self.aliased().into_iter().collect();
        let depends = |&j: &usize| {
            let is_out = self.place(j).is_none() && !self.problem.constant[j];
            is_out && (left[j] <= RANK_SHARE * self.problem.variance(j) || aliased.contains(&j))
        };
        let dependent: Vec<usize> = (0..left.len()).filter(depends).collect();
        if dependent.is_empty() || self.condition() > CONDITION_LIMIT {
            return None;
        }
        let trace = |column: usize| {
            let own = self.problem.variance(column);
            let share = (left[column] / own).max(ROUNDING_SHARE);
            let slopes = self.own.b[column..].iter().step_by(left.len());
            let square: f64 = slopes.map(|slope| slope * slope).sum();
            Trace { column, share, gain: square / own / share }
        };
        let worst = dependent.into_iter().map(trace).max_by(|a, b| a.gain.total_cmp(&b.gain));
        worst.filter(|trace| trace.gain > TOLD_SHARE)
    }

    /// The aliased columns that depend on columns of other groups.
    ///
    /// Of all levels of a category, which add up to 1, one is aliased whatever else there is:
    /// that brings nothing back.
    fn dependences(&mut self) -> Vec<Dependence> {
        self.take_in();
        let width = self.row_width();
        let Buffers { held, support, inverse, .. } = &self.own;
        let deviations: Vec<f64> = support.iter().map(|&j| self.problem.deviation(j)).collect();
        let mut found = Vec::new();
        for (at, &(column, owner)) in inverse.aliased.iter().enumerate() {
            let least = DEPENDENT_WEIGHT * self.problem.deviation(column);
            let depends = |(place, other): &(usize, &Held)| {
                let weights = inverse.weights(at, width, other.rows());
                *place != owner
                    && weights
                        .zip(&deviations[other.rows()])
                        .any(|(w, unit)| w.abs() * unit > least)
            };
            let others = held.iter().enumerate().filter(depends);
            let on: Vec<usize> = others.map(|(_, other)| other.group).collect();
            if !on.is_empty() {
                found.push(Dependence { at, column, group: held[owner].group, on });
            }
        }
        found
    }

    /// Bring the sums of `Inverse` up to date.
    fn take_in(&mut self) {
        self.invert();
        let width = self.row_width();
        let Buffers { held, place, support, u, m, inverse, scratch, .. } = &mut self.own;
        let Inverse { rows: first, groups, blocks, aliased, weights, .. } = inverse;
        let mut start = 0;
        for (at, held) in held.iter().enumerate() {
            let size = held.rank;
            if at >= *groups {
                blocks.resize(start + size * size, 0.0);
                let columns = self.starts[held.group]..self.starts[held.group + 1];
                aliased.extend(columns.filter(|&j| place[j] == NO_ROW).map(|j| (j, at)));
            }
            if size == 0 {
                continue;
            }
            // Rows before its own have nothing in its columns.
            let rows = m.chunks_exact(width).skip((*first).max(held.start));
            scratch.rows.clear();
            rows.for_each(|row| scratch.rows.extend_from_slice(&row[held.rows()]));
            subtract_products(&mut blocks[start..start + size * size], &scratch.rows, size, 0);
            start += size * size;
        }
        let known = weights.len();
        weights.resize(aliased.len() * width, 0.0);
        let (before, new) = weights.split_at_mut(known);
        let columns: Vec<usize> = aliased.iter().map(|&(column, _)| column).collect();
        let (columns, entered) = columns.split_at(known / width);
        scratch.shares.clear();
        for &column in columns {
            let new_rows = *first..support.len();
            scratch.shares.extend(new_rows.map(|row| u[row * width + column]));
        }
        subtract_shares(before, &m[*first * width..], width, &scratch.shares);
        subtract_triangle(new, m, width, u, entered);
        (*first, *groups) = (support.len(), held.len());
    }

    /// The groups after a group that have an aliased column that depends on it, or on these.
    ///
    /// Without the group it may not be aliased.
    fn dependents(&mut self, position: usize) -> Vec<usize> {
        let dependences = self.dependences();
        let mut going = vec![self.own.held[position].group];
        for other in &self.own.held[position + 1..] {
            let depends = |one: &Dependence| {
                one.group == other.group && one.on.iter().any(|on| going.contains(on))
            };
            if dependences.iter().any(depends) {
                going.push(other.group);
            }
        }
        going.split_off(1)
    }

    /// Write gain(g | S) of each of the J groups; 0 for the selected ones.
    pub fn gains(&mut self, gains: &mut Vec<f64>) {
        self.descend();
        let width = self.row_width();
        let Buffers { waiting, blocks, block_starts, b, floor, scratch, .. } = &mut self.own;
        gains.clear();
        for (group, waits) in waiting.iter().enumerate() {
            let (columns, start) =
                (self.starts[group]..self.starts[group + 1], block_starts[group]);
            let gain = match columns.len() {
                _ if !waits => 0.0,
                0 => 0.0,
                1 if blocks[start] > floor[columns.start] => {
                    let slopes = b[columns.start..].iter().step_by(width);
                    slopes.map(|b| b * b).sum::<f64>() * (1.0 / blocks[start])
                }
                1 => 0.0,
                size => {
                    // b rides along as K more rows: elimination turns them into L^-1 b.
                    scratch.rows.clear();
                    scratch.rows.extend_from_slice(&blocks[start..start + size * size]);
                    for b in b.chunks_exact(width) {
                        scratch.rows.extend_from_slice(&b[columns.clone()]);
                    }
                    eliminate(
                        &mut scratch.rows,
                        &floor[columns],
                        &mut scratch.inverse,
                        &mut scratch.below,
                    );
                    let last = scratch.rows[size * size..].chunks_exact(size);
                    let squared = |row: &[f64]| -> f64 {
                        row.iter().zip(&scratch.inverse).map(|(x, inverse)| x * x * inverse).sum()
                    };
                    last.map(squared).sum()
                }
            };
            gains.push(gain);
        }
    }

    /// Select a group and return its gain.
    pub fn add(&mut self, group: usize) -> f64 {
        self.add_all(&[group])
    }

    /// Select several groups and return what they gain together.
    pub fn add_all(&mut self, groups: &[usize]) -> f64 {
        let (mut gain, mut first, mut width) = (0.0, 0, 0);
        for (at, &group) in groups.iter().enumerate() {
            let size = self.columns(group).len();
            if at > first && width + size > COLUMNS_AT_ONCE {
                gain += self.add_at_once(&groups[first..at]);
                (first, width) = (at, 0);
            }
            width += size;
        }
        if first < groups.len() { gain + self.add_at_once(&groups[first..]) } else { gain }
    }

    /// Select several groups in one step.
    fn add_at_once(&mut self, groups: &[usize]) -> f64 {
        let (width, responses) = (self.row_width(), self.problem.responses());
        let columns: Vec<usize> = groups.iter().flat_map(|&group| self.columns(group)).collect();
        let rank = self.own.support.len();
        self.own.u.truncate(rank * width);
        self.problem.append_rows(&columns, &mut self.own.u);
        self.condition_new(&columns);
        self.factor(&columns);
        self.forward(&columns);
        let new_rank = self.own.scratch.kept.len();
        let Buffers { support, place, u, z, b, scratch, held, waiting, .. } = &mut self.own;
        for (row, &k) in scratch.kept.iter().enumerate() {
            support.push(columns[k]);
            place[columns[k]] = rank + row;
        }
        u.truncate((rank + new_rank) * width);
        descend_gradient(b, &u[rank * width..], width, &z[rank * responses..]);
        let (mut kept, mut start, mut end) = (scratch.kept.iter().peekable(), rank, 0);
        for &group in groups {
            end += self.starts[group + 1] - self.starts[group];
            let mut own = 0;
            while kept.next_if(|&&k| k < end).is_some() {
                own += 1;
            }
            waiting[group] = false;
            held.push(Held { group, start, rank: own });
            start += own;
        }
        self.own.inverse.losses.clear();
        self.own.inverse.coef.clear();
        let new = &self.own.z[rank * responses..];
        dot(new, new)
    }

    /// Take from the rows of new columns, which follow those of U, what those explain.
    fn condition_new(&mut self, columns: &[usize]) {
        let (width, rank) = (self.row_width(), self.own.support.len());
        let Buffers { u, support, place, .. } = &mut self.own;
        let (rows, new) = u.split_at_mut(rank * width);
        if columns.len() * rank * width < WIDE {
            return subtract_columns(new, rows, width, columns);
        }
        if let &[column] = columns {
            let shares: Vec<f64> = rows.chunks_exact(width).map(|row| row[column]).collect();
            return subtract_wide_combination(new, rows, width, &shares);
        }
        let others: Vec<usize> = (0..width).filter(|&j| place[j] == NO_ROW).collect();
        subtract_columns_at(new, rows, width, columns, &others);
        // Nothing is left of the columns that have a row.
        new.chunks_exact_mut(width).for_each(|row| support.iter().for_each(|&j| row[j] = 0.0));
    }

    /// Take from the blocks of the groups that wait what rows of U explain that they lack.
    fn descend(&mut self) {
        let width = self.row_width();
        let Buffers { waiting, blocks, given, block_starts, support, u, .. } = &mut self.own;
        let new = *given..support.len();
        *given = new.end;
        for row in u[new.start * width..new.end * width].chunks_exact(width) {
            for (group, start) in block_starts.iter().enumerate() {
                let own = &row[self.starts[group]..self.starts[group + 1]];
                if !waiting[group] || own.is_empty() {
                    continue;
                }
                let block = &mut blocks[*start..start + own.len() * own.len()];
                for (i, block) in block.chunks_exact_mut(own.len()).enumerate() {
                    for (x, other) in block[..=i].iter_mut().zip(own) {
                        *x -= own[i] * other;
                    }
                }
            }
        }
    }

    /// Factor the conditional block of new columns, whose rows follow those of U.
    ///
    /// Leaves the lower triangle in `scratch.factor`, and in `scratch.kept` which columns,
    /// counted from the first, are not aliased.
    fn factor(&mut self, columns: &[usize]) {
        self.copy_block(columns);
        let Scratch { factor, floor, inverse, below, kept, .. } = &mut self.own.scratch;
        floor.clear();
        floor.extend(columns.iter().map(|&j| self.own.floor[j]));
        eliminate(factor, floor, inverse, below);
        kept.clear();
        kept.extend((0..columns.len()).filter(|&k| inverse[k] > 0.0));
        let is_doubtful = |&k: &usize| {
            let share = (factor[k * columns.len() + k] * inverse[k].sqrt())
                / self.problem.deviation(columns[k]);
            share * share <= DOUBTFUL_SHARE
        };
        if kept.iter().any(is_doubtful) {
            self.eliminate_certain(columns);
        }
        let Scratch { factor, inverse, .. } = &mut self.own.scratch;
        for row in factor.chunks_exact_mut(columns.len().max(1)) {
            row.iter_mut().zip(&*inverse).for_each(|(x, inverse)| *x *= inverse.sqrt());
        }
    }

    /// Copy the conditional block of new columns, whose rows follow those of U.
    fn copy_block(&mut self, columns: &[usize]) {
        let (width, rank) = (self.row_width(), self.own.support.len());
        let Buffers { u, scratch, .. } = &mut self.own;
        scratch.factor.clear();
        for row in u[rank * width..].chunks_exact(width) {
            scratch.factor.extend(columns.iter().map(|&j| row[j]));
        }
    }

    /// Eliminate anew, without columns of which rounding may be all that is left.
    ///
    /// What is left of the last column of a triangular factor R of unit-variance columns, as a
    /// share of 1 + w'w, is `1 / |R^-1 e|^2`, e the last unit vector: a row of M. Each column
    /// is judged when it comes, so that one that goes costs nothing but its row.
    fn eliminate_certain(&mut self, columns: &[usize]) {
        self.copy_block(columns);
        self.invert();
        let (width, size) = (self.row_width(), columns.len());
        let rank = self.own.support.len();
        let Buffers { u, m, support, scratch, .. } = &mut self.own;
        let Scratch { factor, floor, inverse, below, shares, kept, .. } = scratch;
        inverse.clear();
        kept.clear();
        for k in 0..size {
            let pivot = factor[k * size + k];
            let mut one_over = if pivot > floor[k] { 1.0 / pivot } else { 0.0 };
            if one_over > 0.0 {
                shares.clear();
                shares.extend((0..rank).map(|i| u[i * width + columns[k]]));
                let root = |&other: &usize| factor[k * size + other] * inverse[other].sqrt();
                shares.extend(kept.iter().map(root));
                append_inverse(m, width, shares, pivot.sqrt());
                kept.push(k);
                let own = &m[(rank + kept.len() - 1) * width..][..rank + kept.len()];
                let new = kept.iter().map(|&other| columns[other]);
                let length: f64 = own
                    .iter()
                    .zip(support.iter().copied().chain(new))
                    .map(|(entry, column)| (entry * self.problem.deviation(column)).powi(2))
                    .sum();
                if 1.0 / length < RANK_ROUNDING {
                    kept.pop();
                    m.truncate((rank + kept.len()) * width);
                    one_over = 0.0;
                }
            }
            inverse.push(one_over);
            eliminate_column(factor, size, k, one_over, below);
        }
        m.truncate(rank * width);
    }

    /// Turn the rows of new columns into rows of U, and append their coordinates.
    fn forward(&mut self, columns: &[usize]) {
        let (width, size) = (self.row_width(), columns.len());
        let (rank, responses) = (self.own.support.len(), self.problem.responses());
        let Buffers { u, z, b, scratch, .. } = &mut self.own;
        let Scratch { factor, kept, shares, .. } = scratch;
        let new = &mut u[rank * width..];
        z.truncate(rank * responses);
        for (row, &k) in kept.iter().enumerate() {
            new.copy_within(k * width..(k + 1) * width, row * width);
            let (before, rest) = new.split_at_mut(row * width);
            let own = &mut rest[..width];
            shares.clear();
            shares.extend(kept[..row].iter().map(|&other| factor[k * size + other]));
            subtract_combination(own, before, width, shares);
            let pivot = factor[k * size + k];
            own.iter_mut().for_each(|x| *x /= pivot);
            let mut left: Vec<f64> = b[columns[k]..].iter().step_by(width).copied().collect();
            subtract_combination(&mut left, &z[rank * responses..], responses, shares);
            z.extend(left.iter().map(|left| left / pivot));
        }
    }

    /// Bring M up to date, some rows at a time.
    pub fn invert(&mut self) {
        self.invert_rows(self.own.support.len());
    }

    /// Bring M up to date by all rows at a time that it lacks, so that little is left to do at the
    /// end of a search.
    pub fn invert_ahead(&mut self) {
        let known = self.own.m.len() / self.row_width();
        let more = (self.own.support.len() - known) / ROWS_AT_ONCE;
        self.invert_rows(known + more * ROWS_AT_ONCE);
    }

    fn invert_rows(&mut self, end: usize) {
        let width = self.row_width();
        let Buffers { u, m, support, scratch, .. } = &mut self.own;
        let mut first = m.len() / width;
        for columns in support[first..end].chunks(ROWS_AT_ONCE) {
            m.resize((first + columns.len()) * width, 0.0);
            let (above, own) = m.split_at_mut(first * width);
            subtract_wide_triangle(own, above, width, u, columns);
            for (i, &column) in columns.iter().enumerate() {
                let share = |row: usize| u[row * width + column];
                scratch.shares.clear();
                scratch.shares.extend((first..first + i).map(share));
                let (before, rest) = own.split_at_mut(i * width);
                let row = &mut rest[..first + i + 1];
                subtract_combination(&mut row[..first + i], before, width, &scratch.shares);
                finish_inverse(row, share(first + i));
            }
            first += columns.len();
        }
    }

    /// M, row k from k D on, as it was when `invert` was last called.
    pub fn inverse(&self) -> &[f64] {
        &self.own.m
    }

    /// Write w(S) on unit-variance columns, one coefficient for each row of U; of K responses one
    /// after the other.
    pub fn coefficients(&mut self, coef: &mut Vec<f64>) {
        self.invert();
        let (width, responses) = (self.row_width(), self.problem.responses());
        let Buffers { support, m, z, inverse, .. } = &mut self.own;
        let rank = support.len();
        if inverse.coef.len() != z.len() {
            inverse.coef.clear();
            inverse.coef.resize(z.len(), 0.0);
            for (k, own) in inverse.coef.chunks_exact_mut(rank.max(1)).enumerate() {
                let shares: Vec<f64> = z.iter().skip(k).step_by(responses).copied().collect();
                subtract_lower(own, m, width, &shares);
                own.iter_mut().for_each(|w| *w = -*w);
            }
        }
        coef.clear();
        coef.extend_from_slice(&inverse.coef);
    }

    /// Bound the condition number of C_SS by the square of that of its factor, in the 1-norm.
    pub fn condition(&mut self) -> f64 {
        self.invert();
        let width = self.row_width();
        let Buffers { u, m, support, .. } = &self.own;
        let column = |(k, &column): (usize, &usize)| -> f64 {
            (0..=k).map(|i| u[i * width + column].abs()).sum()
        };
        let norm = support.iter().enumerate().map(column).fold(0.0, f64::max);
        let row = |(k, row): (usize, &[f64])| -> f64 { row[..=k].iter().map(|x| x.abs()).sum() };
        let of_inverse = m.chunks_exact(width).enumerate().map(row).fold(0.0, f64::max);
        if support.is_empty() { 1.0 } else { (norm * of_inverse).powi(2) }
    }

    /// Write loss(g | S) of each of the J groups; 0 for those not selected.
    ///
    /// Asked again at once, they are copied; after an addition they cost the sums over its own rows
    /// of M alone, after a removal those over all: O(|S|^2 |g|) for groups of |g| columns. Aliased
    /// columns of other groups that depend on the group stand in for it, as far as they can.
    pub fn losses(&mut self, losses: &mut Vec<f64>) {
        losses.clear();
        losses.extend_from_slice(&self.own.inverse.losses);
        if !losses.is_empty() {
            return;
        }
        losses.resize(self.size(), 0.0);
        let dependences = self.dependences();
        let mut coef = Vec::new();
        self.coefficients(&mut coef);
        let mut start = 0;
        for at in 0..self.own.held.len() {
            let Held { group, rank, .. } = self.own.held[at];
            let block = start..start + rank * rank;
            start = block.end;
            if rank > 0 {
                let stand_in: Vec<_> =
                    dependences.iter().filter(|one| one.on.contains(&group)).collect();
                losses[group] = self
                    .loss(at, block, &coef, &stand_in)
                    .unwrap_or_else(|| self.clone().remove(group));
            }
        }
        self.own.inverse.losses.extend_from_slice(losses);
    }

    /// The loss of a selected group for which aliased columns stand in; none if in doubt.
    ///
    /// With B its block of C_SS^-1, at `block` in those of `Inverse`: given the other groups, the
    /// group's columns have covariance B^-1 and gradient B^-1 w, and aliased columns are W times
    /// them, so that what is lost is the least (w - W y)' B^-1 (w - W y).
    fn loss(
        &mut self,
        at: usize,
        block: Range<usize>,
        coef: &[f64],
        stand_in: &[&Dependence],
    ) -> Option<f64> {
        let (width, responses) = (self.row_width(), self.problem.responses());
        let rank = self.own.support.len();
        let Buffers { inverse: sums, held, scratch, floor: floors, .. } = &mut self.own;
        let held = held[at];
        let size = held.rank;
        let Scratch { rows, floor, inverse, below, .. } = scratch;
        rows.clear();
        rows.extend(sums.blocks[block].iter().map(|x| -x));
        coef.chunks_exact(rank).for_each(|coef| rows.extend_from_slice(&coef[held.rows()]));
        stand_in.iter().for_each(|one| rows.extend(sums.weights(one.at, width, held.rows())));
        floor.clear();
        floor.resize(size, 0.0);
        eliminate(rows, floor, inverse, below);
        // Rows below the block are now L^-1 of what they were, but for the roots of the pivots.
        let mut below: Vec<Vec<f64>> = rows[size * size..]
            .chunks_exact(size)
            .map(|row| row.iter().zip(&*inverse).map(|(x, inverse)| x * inverse.sqrt()).collect())
            .collect();
        let (rest, others) = below.split_at_mut(responses);
        for (k, one) in stand_in.iter().enumerate() {
            let (before, from) = others.split_at_mut(k);
            let own = &mut from[0];
            before.iter().for_each(|direction| leave(own, direction));
            let left = dot(own, own);
            if left <= floors[one.column] {
                own.fill(0.0);
            } else if left <= DOUBTFUL_SHARE * self.problem.variance(one.column) {
                return None;
            }
            rest.iter_mut().for_each(|rest| leave(rest, own));
        }
        Some(rest.iter().map(|rest| dot(rest, rest)).sum())
    }

    /// Give a selected group back and return its loss.
    pub fn remove(&mut self, group: usize) -> f64 {
        let before = self.explained();
        let Some(position) = self.own.held.iter().position(|held| held.group == group) else {
            return 0.0;
        };
        let again = self.dependents(position);
        again.iter().rev().for_each(|&other| self.take_out(other));
        self.take_out(group);
        // What follows from U is computed anew.
        self.own.b.copy_from_slice(&self.problem.target);
        let (width, Buffers { b, u, z, .. }) = (self.row_width(), &mut self.own);
        descend_gradient(b, u, width, z);
        self.own_blocks();
        for other in again {
            self.add(other);
        }
        if self.is_doubtful() {
            let held: Vec<usize> = self.own.held.iter().map(|held| held.group).collect();
            self.clear();
            held.into_iter().for_each(|group| {
                self.add(group);
            });
        }
        before - self.explained()
    }

    /// Whether so little is left of a selected column that rotations cost half of its digits.
    fn is_doubtful(&self) -> bool {
        let width = self.row_width();
        let is_near = |(row, &column): (usize, &usize)| {
            self.own.u[row * width + column].powi(2) <= NEAR_SHARE * self.problem.scale(column)
        };
        self.own.support.iter().enumerate().any(is_near)
    }

    /// Rotate the rows of a group to the end of U and drop them.
    fn take_out(&mut self, group: usize) {
        let Some(position) = self.own.held.iter().position(|held| held.group == group) else {
            return;
        };
        self.invert();
        self.own.inverse.clear();
        let (width, responses) = (self.row_width(), self.problem.responses());
        let Buffers { held, waiting, support, place, u, z, m, scratch, .. } = &mut self.own;
        let Held { start, rank: size, .. } = held.remove(position);
        waiting[group] = true;
        let rank = support.len();
        support.drain(start..start + size);
        place[self.starts[group]..self.starts[group + 1]].fill(NO_ROW);
        for (row, &column) in support.iter().enumerate().skip(start) {
            place[column] = row;
        }
        held[position..].iter_mut().for_each(|held| held.start -= size);
        if size == 0 {
            return;
        }
        let reflections = &mut scratch.reflections;
        for (columns, first) in support[start..].chunks(BLOCK).zip((start..).step_by(BLOCK)) {
            // The columns reach `size` rows below the diagonal.
            let end = first + columns.len() + size;
            let rows = &mut u[first * width..end * width];
            reflections.set_up(rows, width, columns, size);
            let of_m = &mut m[first * width..end * width];
            reflections.turn(vec![(rows, width, width), (of_m, width, end)]);
            let of_z = &mut z[first * responses..end * responses];
            reflections.turn(vec![(of_z, responses, responses)]);
        }
        let left = rank - size;
        u.truncate(left * width);
        m.truncate(left * width);
        z.truncate(left * responses);
        for (k, row) in m.chunks_exact_mut(width).enumerate().skip(start) {
            row.copy_within(start + size..rank, start);
            row[k + 1..rank].fill(0.0);
        }
    }
}

/// Take from the gradient of each response what rows of U explain of it, of which it has the
/// coordinates.
fn descend_gradient(b: &mut [f64], rows: &[f64], width: usize, z: &[f64]) {
    let responses = b.len().checked_div(width).unwrap_or_default();
    for (k, b) in b.chunks_exact_mut(width.max(1)).enumerate() {
        let shares: Vec<f64> = z.iter().skip(k).step_by(responses).copied().collect();
        subtract_wide_combination(b, rows, width, &shares);
    }
}

/// Take from a vector what is along a direction; of none, nothing.
fn leave(vector: &mut [f64], direction: &[f64]) {
    let square = dot(direction, direction);
    if square > 0.0 {
        let share = dot(vector, direction) / square;
        vector.iter_mut().zip(direction).for_each(|(x, y)| *x -= share * y);
    }
}

/// Append a row to M, the inverse of a lower triangle: that of a row of the triangle, its
/// entries before the diagonal and the one on it.
fn append_inverse(m: &mut Vec<f64>, width: usize, before: &[f64], diagonal: f64) {
    let row = before.len();
    m.resize((row + 1) * width, 0.0);
    let (above, own) = m.split_at_mut(row * width);
    subtract_lower(&mut own[..row], above, width, before);
    finish_inverse(&mut own[..=row], diagonal);
}

/// Take a combination of the rows of a lower triangle from one.
fn subtract_lower(x: &mut [f64], rows: &[f64], width: usize, shares: &[f64]) {
    for (four, (shares, at)) in rows.chunks(4 * width).zip(shares.chunks(4).zip((0..).step_by(4))) {
        // What lies behind their diagonals is 0.
        let end = (at + 4).min(x.len());
        subtract_combination(&mut x[..end], four, width, shares);
    }
}

/// Divide a row of M by the entry on the diagonal, up to its own.
fn finish_inverse(row: &mut [f64], diagonal: f64) {
    row.iter_mut().for_each(|x| *x /= diagonal);
    row[row.len() - 1] = 1.0 / diagonal;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::rank_update::triangle;
    use crate::linear::problem::{Gram, first_of_same};
    use crate::testing::Lcg;

    /// The problem of the last of some columns, of random rows; `spoil` changes a row.
    fn problem(width: usize, ridge: f64, spoil: impl Fn(&mut [f64])) -> Linear {
        let (mut numbers, rows) = (Lcg::new(7), 40);
        let mut sums = vec![0.0; triangle(width + 1)];
        let mut mean = vec![0.0; width + 1];
        let mut table: Vec<Vec<f64>> = Vec::new();
        for _ in 0..rows {
            let mut row: Vec<f64> = (0..=width).map(|_| numbers.uniform()).collect();
            row[width] += row[..width].iter().sum::<f64>();
            spoil(&mut row);
            mean.iter_mut().zip(&row).for_each(|(mean, x)| *mean += x / rows as f64);
            table.push(row);
        }
        for row in &table {
            for i in 0..=width {
                for j in 0..=i {
                    sums[triangle(i) + j] += (row[i] - mean[i]) * (row[j] - mean[j]);
                }
            }
        }
        let gram = Gram {
            rows: rows as i64,
            skipped: 0,
            weight: rows as f64,
            mean: &mean,
            mean_low: &[],
            missing: &[],
            comoment: &sums,
        };
        let mut problem = Linear::default();
        problem.set_up(&gram, width, &(0..width).collect::<Vec<_>>(), ridge, true);
        problem
    }

    fn holding<'p>(problem: &'p Linear, starts: &'p [usize], groups: &[usize]) -> State<'p> {
        let mut state = State::new(problem, starts, Buffers::default());
        groups.iter().for_each(|&group| {
            state.add(group);
        });
        state
    }

    /// What is left of the gradient, `c - C w`.
    fn gradient(state: &mut State) -> Vec<f64> {
        let mut coef = Vec::new();
        state.coefficients(&mut coef);
        let problem = state.problem;
        let left = |i: usize| {
            let entry = |j: usize| problem.row(i)[j] + if i == j { problem.ridge[j] } else { 0.0 };
            let terms = state.support().iter().zip(&coef).map(|(&j, w)| entry(j) * w);
            problem.target[i] - terms.sum::<f64>()
        };
        (0..problem.width()).map(left).collect()
    }

    fn assert_near(found: &[f64], expected: &[f64], error: f64) {
        assert_eq!(found.len(), expected.len());
        for (a, b) in found.iter().zip(expected) {
            assert!((a - b).abs() <= error, "{found:?} {expected:?}");
        }
    }

    const STARTS: [usize; 5] = [0, 2, 3, 6, 7];

    #[test]
    fn coefficients_solve_the_normal_equations() {
        for ridge in [0.0, 0.3] {
            let problem = problem(7, ridge, |_| ());
            let mut state = holding(&problem, &STARTS, &[2, 0]);
            let left = gradient(&mut state);
            assert_near(&left, state.gradient(), 1e-13);
            assert!([3, 4, 5, 0, 1].iter().all(|&j: &usize| left[j].abs() < 1e-13));
        }
    }

    #[test]
    fn a_gain_is_what_the_group_adds_and_a_loss_what_it_takes() {
        let problem = problem(7, 0.1, |_| ());
        let mut state = holding(&problem, &STARTS, &[1, 2]);
        let (mut gains, mut losses, before) = (Vec::new(), Vec::new(), state.explained());
        state.gains(&mut gains);
        assert_eq!((gains[1], gains[2]), (0.0, 0.0));
        for group in [0, 3] {
            let gain = state.clone().add(group);
            let after = holding(&problem, &STARTS, &[1, 2, group]).explained();
            assert_near(&[gain, gains[group]], &[after - before; 2], 1e-14);
        }
        state.losses(&mut losses);
        for (group, other) in [(1, 2), (2, 1)] {
            let after = holding(&problem, &STARTS, &[other]).explained();
            assert_near(&[losses[group]], &[before - after], 1e-14);
        }
    }

    #[test]
    fn several_responses_are_the_sum_of_each_alone() {
        let alone: Vec<Linear> = [1.0, -2.0, 0.5]
            .iter()
            .map(|share| problem(7, 0.1, |row| row[7] += share * row[3] * row[1] + row[5]))
            .collect();
        let target = alone.iter().flat_map(|one| one.target.clone()).collect();
        let joint = Linear { target, ..alone[0].clone() };
        let mut state = holding(&joint, &STARTS, &[]);
        let mut each: Vec<State> = alone.iter().map(|one| holding(one, &STARTS, &[])).collect();
        let sum_of = |each: &mut [State], write: fn(&mut State, &mut Vec<f64>)| {
            let mut sums = [0.0; 4];
            for state in each {
                let mut own = Vec::new();
                write(state, &mut own);
                sums.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
            }
            sums
        };
        for (group, adds) in [(2, true), (0, true), (3, true), (0, false), (1, true)] {
            let change =
                |state: &mut State| if adds { state.add(group) } else { state.remove(group) };
            let expected: f64 = each.iter_mut().map(change).sum();
            let (mut gains, mut losses, mut coef) = (Vec::new(), Vec::new(), Vec::new());
            assert_near(&[change(&mut state)], &[expected], 1e-13);
            state.gains(&mut gains);
            assert_near(&gains, &sum_of(&mut each, |state, own| state.gains(own)), 1e-13);
            state.losses(&mut losses);
            assert_near(&losses, &sum_of(&mut each, |state, own| state.losses(own)), 1e-13);
            state.coefficients(&mut coef);
            let parts = coef.chunks_exact(state.support().len());
            for ((one, part), b) in each.iter_mut().zip(parts).zip(state.gradient().chunks(7)) {
                let mut own = Vec::new();
                one.coefficients(&mut own);
                assert_near(part, &own, 1e-12);
                assert_near(b, one.gradient(), 1e-13);
            }
        }
    }

    #[test]
    fn groups_added_at_once_are_those_added_one_by_one() {
        let dependent = |row: &mut [f64]| row[3] = 2.0 * row[0] - row[2];
        for ridge in [0.0, 0.3] {
            let problem = problem(7, ridge, dependent);
            let mut once = holding(&problem, &STARTS, &[]);
            once.add(3);
            let gain = once.add_all(&[0, 2, 1]);
            let before = holding(&problem, &STARTS, &[3]).explained();
            let mut each = holding(&problem, &STARTS, &[3, 0, 2, 1]);
            assert_near(&[gain], &[each.explained() - before], 1e-14);
            assert_eq!((once.support(), once.aliased()), (each.support(), each.aliased()));
            let rows = |state: &State| -> Vec<_> { state.held().iter().map(Held::rows).collect() };
            assert_eq!(rows(&once), rows(&each));
            let (mut found, mut expected) = (Vec::new(), Vec::new());
            once.losses(&mut found);
            each.losses(&mut expected);
            assert_near(&found, &expected, 1e-13);
        }
    }

    #[test]
    fn a_column_of_two_groups_counts_once_and_stays_while_one_has_it() {
        for ridge in [0.0, 0.3] {
            let apart = problem(7, ridge, |_| ());
            // Groups of columns 0 and 1, of 1 and 2, and of 2.
            let at = [0, 1, 1, 2, 2];
            let pick = |values: &[f64]| at.iter().map(|&j| values[j]).collect::<Vec<f64>>();
            let mut shared = Linear {
                correlations: at.iter().flat_map(|&i| pick(apart.row(i))).collect(),
                target: pick(&apart.target),
                ridge: pick(&apart.ridge),
                constant: vec![false; 5],
                ..Linear::default()
            };
            first_of_same(&at, &mut shared.same);
            let ends = [0, 1, 2, 3, 4, 5, 6, 7];
            let explained = |columns: &[usize]| holding(&apart, &ends, columns).explained();
            let mut state = holding(&shared, &[0, 2, 4, 5], &[0, 1]);
            let (mut gains, mut losses) = (Vec::new(), Vec::new());
            assert_near(&[state.explained()], &[explained(&[0, 1, 2])], 1e-14);
            state.gains(&mut gains);
            state.losses(&mut losses);
            assert_near(&gains, &[0.0; 3], 1e-14);
            let lost = [0, 2].map(|gone| {
                let rest: Vec<usize> = [0, 1, 2].into_iter().filter(|&j| j != gone).collect();
                explained(&[0, 1, 2]) - explained(&rest)
            });
            assert_near(&losses, &[lost[0], lost[1], 0.0], 1e-13);
            assert!(state.aliased().is_empty());
            state.remove(0);
            assert_near(&[state.explained()], &[explained(&[1, 2])], 1e-14);
            assert_eq!(state.support(), [2, 3]);
        }
    }

    #[test]
    fn a_removal_leaves_what_would_be_without_the_group() {
        for (order, gone) in [([0, 2, 3, 1], 0), ([0, 2, 3, 1], 2), ([3, 1, 0, 2], 2)] {
            let problem = problem(7, 0.0, |_| ());
            let mut state = holding(&problem, &STARTS, &order);
            state.invert();
            state.remove(gone);
            let rest: Vec<usize> = order.into_iter().filter(|group| *group != gone).collect();
            let mut fresh = holding(&problem, &STARTS, &rest);
            let (mut found, mut expected) = (Vec::new(), Vec::new());
            state.gains(&mut found);
            fresh.gains(&mut expected);
            assert_near(&found, &expected, 1e-13);
            state.coefficients(&mut found);
            fresh.coefficients(&mut expected);
            assert_near(&found, &expected, 1e-12);
            assert_near(state.gradient(), fresh.gradient(), 1e-13);
            assert_eq!(state.support(), fresh.support());
            assert!((state.condition() / fresh.condition() - 1.0).abs() < 1e-10);
        }
    }

    #[test]
    fn a_dependent_column_is_aliased_until_what_it_depends_on_is_gone() {
        let problem = problem(7, 0.0, |row| row[3] = 2.0 * row[0] - row[2]);
        let mut state = holding(&problem, &STARTS, &[0, 1, 2]);
        assert_eq!((state.aliased(), &state.dependences()[0].on[..]), (vec![3], &[0, 1][..]));
        let mut losses = Vec::new();
        state.losses(&mut losses);
        state.remove(1);
        assert!(losses[1].abs() < 1e-13);
        assert!(state.aliased().is_empty());
    }

    #[test]
    fn gains_and_losses_asked_for_all_along_are_those_of_refits() {
        let dependent = |row: &mut [f64]| {
            row[3] = 2.0 * row[0] - row[2];
            row[5] = 1.0 - row[4] - row[6];
        };
        for (ridge, asks_always) in [(0.0, true), (0.0, false), (0.3, true)] {
            let problem = problem(7, ridge, dependent);
            let mut state = holding(&problem, &STARTS, &[]);
            let mut now: Vec<usize> = Vec::new();
            for group in [0, 1, 2, 3, 1, 0, 1, 3, 0, 2] {
                if now.contains(&group) {
                    now.retain(|&other| other != group);
                    state.remove(group);
                } else {
                    now.push(group);
                    state.add(group);
                }
                if !asks_always && now.len() != 3 {
                    continue;
                }
                let explained = |groups: &[usize]| holding(&problem, &STARTS, groups).explained();
                let (mut gains, mut losses) = (Vec::new(), Vec::new());
                state.gains(&mut gains);
                state.losses(&mut losses);
                for group in 0..4 {
                    let others: Vec<usize> = now.iter().copied().filter(|&k| k != group).collect();
                    let change = explained(&[&others[..], &[group]].concat()) - explained(&others);
                    let expected = if now.contains(&group) { [0.0, change] } else { [change, 0.0] };
                    assert_near(&[gains[group], losses[group]], &expected, 1e-12);
                }
            }
        }
    }

    #[test]
    fn levels_that_add_up_to_one_alias_within_their_group_alone() {
        let levels = |row: &mut [f64]| row[5] = 1.0 - row[3] - row[4];
        let problem = problem(7, 0.0, levels);
        let mut state = holding(&problem, &STARTS, &[0, 2]);
        assert!(state.aliased() == [5] && state.dependences().is_empty());
    }

    #[test]
    fn the_condition_of_two_columns_is_that_of_their_factor() {
        let problem = problem(2, 0.0, |row| row[1] += 3.0 * row[0]);
        let mut state = holding(&problem, &[0, 1, 2], &[0, 1]);
        let r = problem.row(0)[1];
        let s = (1.0 - r * r).sqrt();
        // R = [1 r; 0 s] and its inverse [1 -r/s; 0 1/s].
        let expected = ((r.abs() + s).max(1.0) * ((r.abs() + 1.0) / s)).powi(2);
        assert!((state.condition() / expected - 1.0).abs() < 1e-12);
    }
}

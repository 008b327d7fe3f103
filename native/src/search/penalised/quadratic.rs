//! A quadratic on groups of columns, penalties on both, and how far a point is from its minimum.
//!
//! ```text
//! 1/2 w'Gw - c'w + sum_g norm_g ||w_g|| + sum_j absolute_j |w_j| + 1/2 sum_g square_g ||w_g||^2
//!
//! b = c - Gw - square w                        S(b, a) = sign(b) max(|b| - a, 0)
//! optimal:  b_j = norm_g w_j / ||w_g|| + absolute_j sign(w_j)     where w_j != 0
//!           |b_j| <= absolute_j                                   where only w_j = 0
//!           ||S(b_g, absolute_g)|| <= norm_g                      where w_g = 0
//! ```

use std::cell::OnceCell;
use std::ops::Range;

use crate::kernel::possible::LEFT_ROUNDING;
use crate::linear::algebra::dense::{dot, subtract_combination};
use crate::linear::algebra::eigen::eigen;
use crate::linear::algebra::factor::Factor;

/// What is added to the quadratic, >= 0 throughout.
#[derive(Clone, Debug)]
pub struct Penalty {
    /// On the norm of each of the J groups.
    pub norm: Vec<f64>,
    /// On the absolute value of each of the D columns.
    pub absolute: Vec<f64>,
    /// On half the square of each group's norm.
    pub square: Vec<f64>,
}

impl Penalty {
    /// Another penalty, so many times this one.
    pub fn times(&self, factor: f64) -> Penalty {
        let times = |values: &[f64]| values.iter().map(|value| value * factor).collect();
        let Penalty { norm, absolute, square } = self;
        Penalty { norm: times(norm), absolute: times(absolute), square: times(square) }
    }
}

/// `1/2 w'Gw - c'w` and groups of columns: what no penalty changes.
#[derive(Clone, Debug)]
pub struct Quadratic<'g> {
    /// G, row by row.
    pub products: &'g [f64],
    /// c, in the range of G.
    pub target: Vec<f64>,
    /// Where the columns of each group begin, and where the last ends.
    pub starts: Vec<usize>,
    /// The group of each column.
    pub owner: Vec<usize>,
    /// The largest deviation of a column of each group: |b_j| is at most that of column j, so
    /// that violations are shares of it.
    magnitude: Vec<f64>,
    /// Eigenvalues and eigenvectors, one a column, of the block of each group that was asked for.
    spectra: Vec<OnceCell<(Vec<f64>, Vec<f64>)>>,
}

/// How far each group is from optimal, as shares of its magnitude.
#[derive(Clone, Debug, Default)]
pub struct Violations {
    /// In what is not 0.
    pub inside: Vec<f64>,
    /// In what is 0.
    pub beyond: Vec<f64>,
}

impl Violations {
    /// The largest of the first kind, and of both.
    pub fn worst(&self) -> (f64, f64) {
        let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
        let inside = most(&self.inside);
        (inside, inside.max(most(&self.beyond)))
    }
}

impl<'g> Quadratic<'g> {
    /// A quadratic of D columns; group g has those from `starts[g]` on.
    pub fn new(products: &'g [f64], target: Vec<f64>, starts: Vec<usize>) -> Quadratic<'g> {
        let width = target.len();
        let variance = |j: usize| products[j * (width + 1)];
        let groups = || starts.windows(2).map(|bounds| bounds[0]..bounds[1]);
        let owner = groups().enumerate().flat_map(|(g, at)| std::iter::repeat_n(g, at.len()));
        let largest = |at: Range<usize>| {
            let deviation = at.map(variance).fold(0.0, f64::max).sqrt();
            if deviation > 0.0 { deviation } else { 1.0 }
        };
        Quadratic {
            owner: owner.collect(),
            magnitude: groups().map(largest).collect(),
            spectra: groups().map(|_| OnceCell::new()).collect(),
            products,
            target,
            starts,
        }
    }

    /// Whether no combination of columns has a variance below nothing, by more than rounding:
    /// then they can be those of rows. O(D^3 / 3).
    pub fn is_possible(&self) -> bool {
        let mut factor = Factor::default();
        let write = |i: usize, row: &mut [f64]| {
            row.copy_from_slice(&self.row(i)[..=i]);
            row[i] += LEFT_ROUNDING * self.variance(i);
        };
        factor.set_up(self.width(), write, |_| 0.0);
        factor.rank == (0..self.width()).filter(|&j| self.variance(j) > 0.0).count()
    }

    /// D, the number of columns.
    pub fn width(&self) -> usize {
        self.target.len()
    }

    /// J, the number of groups.
    pub fn size(&self) -> usize {
        self.starts.len() - 1
    }

    /// The columns of a group.
    pub fn columns(&self, group: usize) -> Range<usize> {
        self.starts[group]..self.starts[group + 1]
    }

    /// A row of G.
    pub fn row(&self, column: usize) -> &[f64] {
        &self.products[column * self.width()..(column + 1) * self.width()]
    }

    /// Diagonal entry of G.
    pub fn variance(&self, column: usize) -> f64 {
        self.products[column * (self.width() + 1)]
    }

    /// The largest deviation of a column of a group.
    pub fn magnitude(&self, group: usize) -> f64 {
        self.magnitude[group]
    }

    /// Eigenvalues of the block of a group, and their vectors, one a column.
    pub fn spectrum(&self, group: usize) -> (&[f64], &[f64]) {
        let (values, vectors) = self.spectra[group].get_or_init(|| {
            let at = self.columns(group);
            let rows = at.clone().map(|j| &self.row(j)[at.clone()]);
            let mut block: Vec<f64> = rows.flatten().copied().collect();
            (eigen(&mut block, at.len()), block)
        });
        (values, vectors)
    }

    /// ||w_g||.
    pub fn norm(&self, group: usize, w: &[f64]) -> f64 {
        match self.columns(group) {
            at if at.len() == 1 => w[at.start].abs(),
            at => dot(&w[at.clone()], &w[at]).sqrt(),
        }
    }

    /// Take `G change` from b.
    pub fn subtract_product(&self, change: &[f64], b: &mut [f64]) {
        for (four, change) in self.products.chunks(4 * self.width()).zip(change.chunks(4)) {
            if change.iter().any(|&x| x != 0.0) {
                subtract_combination(b, four, self.width(), change);
            }
        }
    }

    /// Write `b = c - Gw - square w`.
    pub fn residual(&self, w: &[f64], penalty: &Penalty, b: &mut Vec<f64>) {
        b.clear();
        b.extend_from_slice(&self.target);
        self.subtract_product(w, b);
        for ((b, w), group) in b.iter_mut().zip(w).zip(&self.owner) {
            *b -= penalty.square[*group] * w;
        }
    }

    /// The columns that are not 0, or would not be but by chance, as their groups are not.
    ///
    /// A constant column is 0 whatever the others are.
    pub fn support(&self, w: &[f64], penalty: &Penalty) -> Vec<usize> {
        let of_group = |group: usize| {
            let held = self.norm(group, w) > 0.0;
            let is_in = move |&j: &usize| {
                (w[j] != 0.0 || (held && penalty.absolute[j] == 0.0)) && self.variance(j) > 0.0
            };
            self.columns(group).filter(is_in)
        };
        (0..self.size()).flat_map(of_group).collect()
    }

    /// Write how far each group is from optimal.
    pub fn violations(&self, w: &[f64], b: &[f64], penalty: &Penalty, found: &mut Violations) {
        found.inside.clear();
        found.beyond.clear();
        for group in 0..self.size() {
            let norm = self.norm(group, w);
            let held = norm > 0.0;
            let share = penalty.norm[group] / if held { norm } else { 1.0 };
            let (mut inside, mut beyond) = (0.0, 0.0);
            for j in self.columns(group) {
                let (left, absolute) = (b[j] - share * w[j], penalty.absolute[j]);
                if w[j] != 0.0 || (held && absolute == 0.0) {
                    let sign = if w[j] != 0.0 { w[j].signum() } else { 0.0 };
                    inside += (left - absolute * sign).powi(2);
                } else {
                    beyond += shrunk(left, absolute).powi(2);
                }
            }
            let over = if held { 0.0 } else { penalty.norm[group] };
            let magnitude = self.magnitude[group];
            found.inside.push(inside.sqrt() / magnitude);
            found.beyond.push((beyond.sqrt() - over).max(0.0) / magnitude);
        }
    }
}

/// `S(b, absolute)`.
pub fn shrunk(b: f64, absolute: f64) -> f64 {
    (b.abs() - absolute).max(0.0).copysign(b)
}

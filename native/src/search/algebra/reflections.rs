//! Householder reflections of the rows of a matrix, each of few rows, one below the other.
//!
//! Where rows that make an upper triangle lose columns, the columns behind them reach below the
//! diagonal. A reflection for each ends that. Columns are turned in panels, by all reflections one
//! after the other, so that rows are read once and not once for each reflection; what a column
//! becomes does not depend on the others of its panel. Source: Golub, Van Loan (2013), Matrix
//! Computations, sections 5.1 and 6.5.2.

use super::dense::dot;
use crate::kernel::simd::vectorised;

/// Columns of a panel: its sums fill eight of the sixteen AVX2 registers.
pub const PANEL: usize = 32;
/// Columns of a narrow one.
pub const NARROW: usize = 8;

/// Reflections `I - v v'`: the k-th of rows k to k + `reach`, and whether row k then changes its
/// sign, so that the diagonal is positive.
#[derive(Clone, Debug, Default)]
pub struct Reflections {
    reach: usize,
    vectors: Vec<f64>,
    signs: Vec<f64>,
}

impl Reflections {
    /// None yet, of rows that reach so far below the diagonal.
    pub fn set_up(&mut self, reach: usize) {
        self.reach = reach;
        self.vectors.clear();
        self.signs.clear();
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.signs.len()
    }

    /// Turn the rows of a panel of up to `PANEL` columns, the first of which is row `from`; nothing
    /// was in those before.
    pub fn turn(&self, panel: &mut Panel, from: usize) {
        let own = (&self.vectors[from * (self.reach + 1)..], &self.signs[from..]);
        match panel {
            Panel::Narrow(rows) => turn_narrow(rows, own.0, own.1),
            Panel::Wide(rows) => turn_wide(rows, own.0, own.1),
        }
    }

    /// Append the reflections after which nothing is below the diagonal of some columns: of a panel
    /// that those before have turned, column j of which has its diagonal in row `count() + j`.
    pub fn append(&mut self, panel: &mut Panel, columns: usize) {
        let first = self.count();
        for j in 0..columns {
            let own = first + j;
            let mut v: Vec<f64> = (own..=own + self.reach).map(|i| panel.row(i)[j]).collect();
            let length = dot(&v, &v).sqrt();
            let sign = if v[0] < 0.0 { -1.0 } else { 1.0 };
            v[0] += sign * length;
            // What is nothing stays as it is.
            let square = dot(&v, &v);
            let share = if square > 0.0 { (2.0 / square).sqrt() } else { 0.0 };
            self.vectors.extend(v.iter().map(|v| v * share));
            self.signs.push(if square > 0.0 { -sign } else { 1.0 });
            let last = (&self.vectors[own * (self.reach + 1)..], &self.signs[own..]);
            match panel {
                Panel::Narrow(rows) => {
                    turn_narrow(&mut rows[own..=own + self.reach], last.0, last.1)
                }
                Panel::Wide(rows) => turn_wide(&mut rows[own..=own + self.reach], last.0, last.1),
            }
            (own + 1..=own + self.reach).for_each(|i| panel.row_mut(i)[j] = 0.0);
        }
    }
}

/// Some columns of consecutive rows.
pub enum Panel {
    /// Up to `NARROW`.
    Narrow(Vec<[f64; NARROW]>),
    /// Up to `PANEL`.
    Wide(Vec<[f64; PANEL]>),
}

impl Panel {
    /// Copy some columns of rows of `width`.
    pub fn of(rows: &[f64], width: usize, columns: &[usize]) -> Panel {
        if columns.len() <= NARROW {
            Panel::Narrow(copied(rows, width, columns))
        } else {
            Panel::Wide(copied(rows, width, columns))
        }
    }

    /// A row.
    pub fn row(&self, i: usize) -> &[f64] {
        match self {
            Panel::Narrow(rows) => &rows[i],
            Panel::Wide(rows) => &rows[i],
        }
    }

    fn row_mut(&mut self, i: usize) -> &mut [f64] {
        match self {
            Panel::Narrow(rows) => &mut rows[i],
            Panel::Wide(rows) => &mut rows[i],
        }
    }
}

fn copied<const N: usize>(rows: &[f64], width: usize, columns: &[usize]) -> Vec<[f64; N]> {
    let copy = |row: &[f64]| {
        let mut own = [0.0; N];
        own.iter_mut().zip(columns).for_each(|(x, &j)| *x = row[j]);
        own
    };
    rows.chunks_exact(width).map(copy).collect()
}

vectorised! {
    fn turn_narrow(rows: &mut [[f64; NARROW]], vectors: &[f64], signs: &[f64]) {
        turn(rows, vectors, signs);
    }
}

vectorised! {
    fn turn_wide(rows: &mut [[f64; PANEL]], vectors: &[f64], signs: &[f64]) {
        turn(rows, vectors, signs);
    }
}

/// Reflect rows, the k-th time those from k on, as far as there are rows.
#[inline(always)]
fn turn<const N: usize>(rows: &mut [[f64; N]], vectors: &[f64], signs: &[f64]) {
    let Some(size) = vectors.len().checked_div(signs.len()) else { return };
    for ((v, sign), k) in vectors.chunks_exact(size).zip(signs).zip(0..) {
        let Some(rows) = rows.get_mut(k..k + size) else { return };
        let mut sums = [0.0; N];
        for (row, v) in rows.iter().zip(v) {
            sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += v * x);
        }
        for (row, v) in rows.iter_mut().zip(v) {
            row.iter_mut().zip(&sums).for_each(|(x, sum)| *x -= v * sum);
        }
        rows[0].iter_mut().for_each(|x| *x *= sign);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Lcg;

    #[test]
    fn reflections_end_what_is_below_the_diagonal_and_keep_products() {
        for (size, reach) in [(1, 1), (5, 2), (40, 1), (70, 11)] {
            let (mut numbers, rows) = (Lcg::new(size as u64), size + reach);
            let entry = |at: usize, x: f64| if at / size > at % size + reach { 0.0 } else { x };
            let before: Vec<f64> =
                (0..rows * size).map(|at| entry(at, numbers.uniform() - 0.5)).collect();
            let columns: Vec<usize> = (0..size).collect();
            let (mut all, mut after) = (Reflections::default(), before.clone());
            all.set_up(reach);
            for columns in columns.chunks(PANEL) {
                let mut panel = Panel::of(&before, size, columns);
                all.turn(&mut panel, 0);
                all.append(&mut panel, columns.len());
                for (i, row) in after.chunks_exact_mut(size).enumerate() {
                    columns.iter().zip(panel.row(i)).for_each(|(&j, x)| row[j] = *x);
                }
            }
            for i in 0..size {
                assert!(after[i * size + i] > 0.0);
                for j in 0..size {
                    let product = |x: &[f64]| -> f64 {
                        (0..rows).map(|k| x[k * size + i] * x[k * size + j]).sum()
                    };
                    assert!((product(&after) - product(&before)).abs() < 1e-13 * rows as f64);
                    assert!(i <= j || after[i * size + j] == 0.0);
                }
            }
        }
    }
}

//! What a pass sums up of runs of kept rows, by the kernel.

use crate::kernel::accumulator::Accumulator;
use crate::kernel::chunk::{Chunk, Labels, Missing};
use crate::kernel::gaps::Place;
use crate::kernel::moments::Moments;
use crate::record::categories::{Layout, LevelSums};

/// The kept columns that a pass reads.
pub struct Cut {
    /// Those of numbers.
    pub numbers: Vec<usize>,
    /// Those of text, by their numbers among these.
    pub texts: Vec<usize>,
    /// Where the sums by level lie.
    pub layout: Layout,
    /// Where each column of the pass stands in the sums, the computed one last.
    pub order: Vec<Option<usize>>,
    /// Names of the numbers and the computed column, for errors that there are not.
    pub names: Vec<String>,
}

/// A run of rows, as a pass reads them.
pub struct Run {
    /// How many.
    pub rows: usize,
    /// One list a column of numbers.
    pub numbers: Vec<Vec<f64>>,
    /// The places of the levels of each text.
    pub codes: Vec<Vec<u32>>,
    /// The target.
    pub target: Vec<f64>,
    /// The weights of the rows.
    pub weight: Option<Vec<f64>>,
    /// What is added to the predictor; empty if nothing is.
    pub added: Vec<f64>,
}

/// What is computed of a run.
pub struct Computed {
    /// One more column.
    pub own: Vec<f64>,
    /// The weights that it is summed by.
    pub weight: Option<Vec<f64>>,
    /// What the rows add to the deviance.
    pub deviance: f64,
    /// What they add to Pearson's statistic.
    pub squares: f64,
}

/// The sums of some runs.
pub struct Total {
    numbers: Accumulator,
    levels: LevelSums,
    deviance: Sum,
    squares: Sum,
}

impl Total {
    /// The sums of no rows.
    pub fn new(cut: &Cut) -> Total {
        let mut levels = LevelSums::default();
        levels.grow(&cut.layout, 1);
        Total {
            numbers: Accumulator::new(cut.names.len()),
            levels,
            deviance: Sum::default(),
            squares: Sum::default(),
        }
    }

    /// Add a run.
    pub fn add(&mut self, cut: &Cut, run: &Run, computed: Computed) -> Result<(), String> {
        let Computed { own, weight, deviance, squares } = computed;
        let chunk = Chunk {
            rows: run.rows,
            columns: run.numbers.iter().chain([&own]).map(|values| values[..].into()).collect(),
            weight: weight.as_ref().map(|weight| weight[..].into()),
            missing: Missing::none(),
            nulls: vec![Missing::none(); cut.names.len()],
            units: Vec::new(),
            policies: &[],
        };
        let labels = Labels { columns: &cut.names, weight: "weight" };
        let codes: Vec<&[u32]> = run.codes.iter().map(|codes| &codes[..]).collect();
        let Total { numbers, levels, .. } = self;
        match codes.is_empty() {
            true => numbers.add(&chunk, labels)?,
            false => numbers.add_and(&chunk, labels, |start, rows| {
                levels.add(&cut.layout, start, rows, &codes, |_| 0);
            })?,
        }
        self.deviance.add(deviance);
        self.squares.add(squares);
        Ok(())
    }

    /// Add the sums of other runs.
    pub fn merge(&mut self, cut: &Cut, mut other: Total) {
        other.numbers.finish();
        self.numbers.merge(&other.numbers);
        self.levels.merge(&cut.layout, &mut other.levels);
        self.deviance.add(other.deviance.total());
        self.squares.add(other.squares.total());
    }

    /// What all runs sum up to.
    pub fn finish(&mut self, cut: &Cut) -> Sums {
        self.numbers.finish();
        let filled = self.numbers.filled();
        let places: Vec<Place> = (0..cut.names.len()).map(Place::Column).collect();
        let moments = match cut.texts.is_empty() {
            true => filled.moments.arranged(&cut.order),
            false => {
                let levels = self.levels.finish(&cut.layout, 0, &filled.moments, None, &places);
                levels.arranged(&cut.order)
            }
        };
        Sums { moments, deviance: self.deviance.total(), squares: self.squares.total() }
    }
}

/// What a pass sums up.
pub struct Sums {
    /// Of the columns, in their order, and the working residual, weighted.
    pub moments: Moments,
    /// The deviance.
    pub deviance: f64,
    /// The sum of squares of the working residuals, weighted: Pearson's statistic.
    pub squares: f64,
}

/// A sum that carries what rounding takes (Neumaier 1974).
#[derive(Clone, Copy, Default)]
pub struct Sum {
    high: f64,
    low: f64,
}

impl Sum {
    /// Add a number.
    pub fn add(&mut self, x: f64) {
        let sum = self.high + x;
        self.low += match self.high.abs() >= x.abs() {
            true => (self.high - sum) + x,
            false => (x - sum) + self.high,
        };
        self.high = sum;
    }

    /// The sum.
    pub fn total(&self) -> f64 {
        self.high + self.low
    }
}

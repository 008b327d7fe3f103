//! Random numbers and small records for the unit tests.

use crate::linear::problem::Gram;

/// Columns a, 1, 2, 3, 4; b, 1, -1, -1, 1; and y = 2 a + b / 2 + 1/2.
pub const GRAM: Gram = Gram {
    rows: 4,
    skipped: 0,
    weight: 4.0,
    mean: &[2.5, 0.0, 5.5],
    mean_low: &[],
    missing: &[],
    comoment: &[5.0, 0.0, 4.0, 10.0, 2.0, 21.0],
};

/// The same with c, twice a, before y.
pub const DEPENDENT_GRAM: Gram = Gram {
    mean: &[2.5, 0.0, 5.0, 5.5],
    comoment: &[5.0, 0.0, 4.0, 10.0, 0.0, 20.0, 10.0, 2.0, 20.0, 21.0],
    ..GRAM
};

/// A linear congruential generator (Knuth's MMIX constants).
pub struct Lcg(u64);

impl Lcg {
    pub fn new(seed: u64) -> Self {
        Lcg(seed)
    }

    /// The next number in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Means of some rows, and the lower triangle of their comoments, row by row.
pub fn moments(rows: &[Vec<f64>]) -> (Vec<f64>, Vec<f64>) {
    let (width, count) = (rows[0].len(), rows.len() as f64);
    let mean: Vec<f64> =
        (0..width).map(|j| rows.iter().map(|row| row[j]).sum::<f64>() / count).collect();
    let product = |i: usize, j: usize| -> f64 {
        rows.iter().map(|row| (row[i] - mean[i]) * (row[j] - mean[j])).sum()
    };
    let comoment = (0..width).flat_map(|i| (0..=i).map(move |j| (i, j)));
    let comoment = comoment.map(|(i, j)| product(i, j)).collect();
    (mean, comoment)
}

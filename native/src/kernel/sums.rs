//! Sums over rows around one center, on their way to moments.
//!
//! Blocks that share a center need no merge: their products add up in the tiles
//! that the kernel works on, which are put into a packed triangle once for all.

use crate::kernel::block::{Block, stride};
use crate::kernel::rank_update::{Kernel, Tile, add_tiles, n_tiles};

/// Weighted sums over rows around a center near their mean. Reused as scratch
/// space: `start` begins anew.
#[derive(Default)]
pub struct Sums {
    /// Number of rows.
    pub(crate) rows: u64,
    /// Sum of their weights.
    pub(crate) weight: f64,
    width: usize,
    base: Vec<f64>,
    center: Vec<f64>,
    residual: Vec<f64>,
    tiles: Vec<Tile>,
    block: Block,
}

impl Sums {
    /// Begin with no rows and a center.
    pub fn start(&mut self, center: &[f64]) {
        self.start_from(&[], center);
    }

    /// Begin with no rows, whose columns are measured from a base, as the center is: 0 where
    /// the base has no entry.
    pub fn start_from(&mut self, base: &[f64], center: &[f64]) {
        let lanes = stride(center.len());
        (self.rows, self.weight, self.width) = (0, 0.0, center.len());
        self.base.clear();
        self.base.extend_from_slice(base);
        self.base.resize(center.len(), 0.0);
        self.center.clear();
        self.center.extend_from_slice(center);
        self.center.resize(lanes, 0.0);
        self.residual.clear();
        self.residual.resize(lanes, 0.0);
        self.tiles.clear();
        self.tiles.resize(n_tiles(center.len()), Tile::default());
    }

    /// Add a block of columns.
    pub fn add_columns(&mut self, columns: &[&[f64]], weight: Option<&[f64]>) {
        self.block.pack_columns(columns, &self.center, weight);
        self.add_block();
    }

    /// Add a block of columns if every value is finite; return whether it was.
    pub fn add_finite(&mut self, columns: &[&[f64]]) -> bool {
        self.block.pack_columns(columns, &self.center, None);
        let finite = self.block.is_finite();
        if finite {
            self.add_block();
        }
        finite
    }

    /// Add a block of weighted rows that lie one after the other, `stride` apart.
    pub fn add_rows(&mut self, values: &[f64], weight: &[f64]) {
        self.block.pack_rows(values, &self.center, weight);
        self.add_block();
    }

    fn add_block(&mut self) {
        let block = &self.block;
        Kernel::best().rank_k(&block.panels, self.width, &mut self.tiles);
        self.rows += block.rows as u64;
        self.weight += block.weight;
        for (residual, more) in self.residual.iter_mut().zip(&block.residual) {
            *residual += more;
        }
    }

    /// What each column is measured from.
    pub(crate) fn base(&self) -> &[f64] {
        &self.base
    }

    /// What was subtracted from each column: nearly its mean.
    pub(crate) fn center(&self) -> &[f64] {
        &self.center[..self.width]
    }

    /// Sum of w (x - center) of each column: what the center lacks.
    pub(crate) fn residual(&self) -> &[f64] {
        &self.residual[..self.width]
    }

    /// Add the sum of w (x - center)(x - center)' to a packed lower triangle.
    pub(crate) fn add_products_to(&self, comoment: &mut [f64]) {
        add_tiles(&self.tiles, self.width, comoment);
    }
}

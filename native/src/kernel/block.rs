//! A few rows on their way to the kernel: centred, weighted and packed.

use std::ops::Range;

use crate::kernel::rank_update::LANES;
use crate::kernel::simd::vectorised;

/// Rows packed at a time: 128 rows of 200 columns are 200 kB, which fit an L2
/// cache twice, unpacked and packed, with room for the sums of their products.
pub const BLOCK_ROWS: usize = 128;
// Maps of missing rows are cut into blocks at whole words.
const _: () = assert!(BLOCK_ROWS.is_multiple_of(64));
/// Columns turned into rows at a time: four by four doubles fill AVX2 registers.
const QUAD: usize = 4;

/// A few rows, centred, scaled by the root of their weight and packed for the
/// kernel. Reused as scratch space from block to block.
#[derive(Default)]
pub struct Block {
    /// Number of rows.
    pub(crate) rows: usize,
    /// Sum of their weights.
    pub(crate) weight: f64,
    /// The rows as the kernel wants them.
    pub(crate) panels: Vec<f64>,
    /// Sum of w (x - center) of each lane.
    pub(crate) residual: Vec<f64>,
    root_weight: Vec<f64>,
}

/// Row weights and their roots.
#[derive(Clone, Copy)]
struct Weights<'w> {
    weight: &'w [f64],
    root: &'w [f64],
}

impl Block {
    /// Pack columns of equal length, at most `BLOCK_ROWS` rows, around a center
    /// near the mean of each, as long as whole panels.
    pub fn pack_columns(&mut self, columns: &[&[f64]], center: &[f64], weight: Option<&[f64]>) {
        let rows = columns.first().map_or(0, |column| column.len());
        self.start(rows, center.len(), weight);
        if rows == 0 {
            return;
        }
        let Block { panels, residual, root_weight, .. } = self;
        let weights = weight.map(|weight| Weights { weight, root: root_weight });
        for (first, quad) in (0..).step_by(QUAD).zip(columns.chunks(QUAD)) {
            columns[first..].iter().skip(QUAD).take(QUAD).for_each(|ahead| prefetch(ahead));
            let lanes = first..first + QUAD;
            let cells = &mut panels[first / LANES * LANES * rows + first % LANES..];
            pack_quad(quad, &center[lanes.clone()], weights, &mut residual[lanes], cells, LANES);
        }
    }

    /// Pack weighted rows that lie one after the other, as many doubles apart as
    /// the center is long, around that.
    pub fn pack_rows(&mut self, values: &[f64], center: &[f64], weight: &[f64]) {
        self.start(weight.len(), center.len(), Some(weight));
        if weight.is_empty() {
            return;
        }
        let Block { panels, residual, root_weight, .. } = self;
        pack_rows(values, weight, root_weight, center, residual, panels);
    }

    /// Whether every value was finite: one that is not spoils its column's sum.
    pub fn is_finite(&self) -> bool {
        self.residual.iter().all(|residual| residual.is_finite())
    }

    /// Make the scratch space fit the rows; spare lanes keep what they hold.
    fn start(&mut self, rows: usize, lanes: usize, weight: Option<&[f64]>) {
        debug_assert!(rows <= BLOCK_ROWS && lanes.is_multiple_of(LANES));
        self.rows = rows;
        self.panels.resize(lanes * rows, 0.0);
        self.weight = weight.map_or(rows as f64, sum);
        self.root_weight.clear();
        self.root_weight.extend(weight.unwrap_or_default().iter().map(|w| w.sqrt()));
        self.residual.clear();
        self.residual.resize(lanes, 0.0);
    }
}

/// The value of each column that is nearest to its weighted mean, as `Screened::center`,
/// of rows that lie one after the other.
pub fn center_of_rows(values: &[f64], width: usize, weight: &[f64]) -> Vec<f64> {
    let mut mean = vec![0.0; stride(width)];
    add_rows(values, weight, &mut mean);
    let total = sum(weight);
    mean.iter_mut().for_each(|sum| *sum /= total);
    let mut center = values[..mean.len()].to_vec();
    approach(values, &mean, &mut center);
    center.truncate(width);
    center
}

/// Doubles from one row to the next where rows lie side by side: whole panels.
pub fn stride(width: usize) -> usize {
    width.div_ceil(LANES) * LANES
}

/// Write some rows of the columns side by side, `stride` doubles apart; spare
/// lanes are zero.
pub fn turn(columns: &[&[f64]], rows: Range<usize>, stride: usize, out: &mut Vec<f64>) {
    out.clear();
    out.resize(rows.len() * stride, 0.0);
    if rows.is_empty() {
        return;
    }
    for (lane, quad) in (0..).step_by(QUAD).zip(columns.chunks(QUAD)) {
        let mut cut: [&[f64]; QUAD] = [&[]; QUAD];
        for (cut, column) in cut.iter_mut().zip(quad) {
            *cut = &column[rows.clone()];
        }
        let mut sums = [0.0; QUAD];
        pack_quad(&cut[..quad.len()], &[0.0; QUAD], None, &mut sums, &mut out[lane..], stride);
    }
}

/// Accumulators of a sum: enough independent chains to hide the latency of an
/// addition, and shorter chains lose less to rounding.
const CHAINS: usize = 16;

/// Bytes that a processor moves at a time.
#[cfg(target_arch = "x86_64")]
const CACHE_LINE: usize = 64;

/// Rows to look ahead for what groups hold, which lies all over memory, and twice as many for
/// the groups themselves.
pub const ROWS_AHEAD: usize = 16;

/// Ask for memory ahead of its use. A block reads a little of every column and a
/// group's moments now and then: too little for the hardware to see a stream.
pub fn prefetch<T>(values: &[T]) {
    prefetch_at(values.as_ptr(), values.len());
}

/// `prefetch`, of so many values at an address, whatever is there.
#[cfg_attr(not(target_arch = "x86_64"), expect(unused_variables))]
pub fn prefetch_at<T>(start: *const T, length: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..length).step_by((CACHE_LINE / size_of::<T>()).max(1)) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint, which reads nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(line).cast()) }
    }
}

vectorised! {
/// Sum of some values.
pub fn sum(values: &[f64]) -> f64 {
    let mut sums = [0.0; CHAINS];
    let chunks = values.chunks_exact(CHAINS);
    let rest: f64 = chunks.remainder().iter().sum();
    for chunk in chunks {
        for (sum, x) in sums.iter_mut().zip(chunk) {
            *sum += x;
        }
    }
    sums.iter().sum::<f64>() + rest
}
}

vectorised! {
/// Sum of the products of values and weights.
pub fn dot(values: &[f64], weight: &[f64]) -> f64 {
    let mut sums = [0.0; CHAINS];
    let (xs, ws) = (values.chunks_exact(CHAINS), weight.chunks_exact(CHAINS));
    let rest: f64 = xs.remainder().iter().zip(ws.remainder()).map(|(x, w)| x * w).sum();
    for (x, w) in xs.zip(ws) {
        for ((sum, x), w) in sums.iter_mut().zip(x).zip(w) {
            *sum += x * w;
        }
    }
    sums.iter().sum::<f64>() + rest
}
}

vectorised! {
/// `sums += sum over rows of w x`, rows as long as `sums`.
fn add_rows(values: &[f64], weight: &[f64], sums: &mut [f64]) {
    for (row, w) in values.chunks_exact(sums.len()).zip(weight) {
        for (sum, x) in sums.iter_mut().zip(row) {
            *sum += w * x;
        }
    }
}
}

vectorised! {
/// Replace each center by the value of a row that is nearer to the mean.
fn approach(values: &[f64], mean: &[f64], center: &mut [f64]) {
    for row in values.chunks_exact(mean.len()) {
        for ((center, mean), x) in center.iter_mut().zip(mean).zip(row) {
            *center = if (x - mean).abs() < (*center - mean).abs() { *x } else { *center };
        }
    }
}
}

vectorised! {
/// Centre and weight rows, add to the residuals and write panels.
fn pack_rows(
    values: &[f64],
    weight: &[f64],
    root: &[f64],
    center: &[f64],
    residual: &mut [f64],
    panels: &mut [f64],
) {
    let size = LANES * weight.len();
    for (r, row) in values.chunks_exact(center.len()).enumerate() {
        let (w, root) = (weight[r], root[r]);
        for (lane, panel) in (0..row.len()).step_by(LANES).zip(panels.chunks_exact_mut(size)) {
            let cells = &mut panel[r * LANES..][..LANES];
            let (x, center) = (&row[lane..][..LANES], &center[lane..][..LANES]);
            let residual = &mut residual[lane..][..LANES];
            for i in 0..LANES {
                let centred = x[i] - center[i];
                residual[i] += w * centred;
                cells[i] = root * centred;
            }
        }
    }
}
}

/// Centre and weight up to four columns, add to their residuals and write each
/// row's values side by side, `stride` doubles from row to row.
fn pack_quad(
    columns: &[&[f64]],
    center: &[f64],
    weights: Option<Weights>,
    residual: &mut [f64],
    cells: &mut [f64],
    stride: usize,
) {
    #[cfg_attr(not(target_arch = "x86_64"), expect(unused_mut))]
    let mut done = 0;
    #[cfg(target_arch = "x86_64")]
    if columns.len() == QUAD && std::is_x86_feature_detected!("avx2") {
        let columns: [&[f64]; QUAD] = std::array::from_fn(|j| columns[j]);
        // SAFETY: avx2 was detected.
        done = unsafe { x86::pack_quad(columns, center, weights, residual, cells, stride) };
    }
    for (j, column) in columns.iter().enumerate() {
        for (r, x) in column.iter().enumerate().skip(done) {
            let (w, root) = weights.map_or((1.0, 1.0), |w| (w.weight[r], w.root[r]));
            let centred = x - center[j];
            residual[j] += w * centred;
            cells[r * stride + j] = root * centred;
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{QUAD, Weights};
    use std::arch::x86_64::*;

    /// `super::pack_quad` for as many whole quads of rows as there are; returns
    /// how many rows that were.
    #[target_feature(enable = "avx2")]
    pub fn pack_quad(
        columns: [&[f64]; QUAD],
        center: &[f64],
        weights: Option<Weights>,
        residual: &mut [f64],
        cells: &mut [f64],
        stride: usize,
    ) -> usize {
        let rows = columns[0].len() / QUAD * QUAD;
        // What the unchecked loads and stores below rely on.
        assert!(columns.iter().all(|column| column.len() >= rows));
        assert!(weights.is_none_or(|w| w.weight.len() >= rows && w.root.len() >= rows));
        assert!(rows == 0 || cells.len() >= (rows - 1) * stride + QUAD);
        let centers: [__m256d; QUAD] = std::array::from_fn(|j| _mm256_set1_pd(center[j]));
        let mut residuals = [_mm256_setzero_pd(); QUAD];
        for r in (0..rows).step_by(QUAD) {
            // SAFETY: four values from row `r` on, and r + 4 <= rows.
            let load = |values: &[f64]| unsafe { _mm256_loadu_pd(values.as_ptr().add(r)) };
            let mut x: [__m256d; QUAD] =
                std::array::from_fn(|j| _mm256_sub_pd(load(columns[j]), centers[j]));
            match weights {
                None => {
                    for j in 0..QUAD {
                        residuals[j] = _mm256_add_pd(residuals[j], x[j]);
                    }
                }
                Some(weights) => {
                    let (w, root) = (load(weights.weight), load(weights.root));
                    for j in 0..QUAD {
                        residuals[j] = _mm256_add_pd(residuals[j], _mm256_mul_pd(w, x[j]));
                        x[j] = _mm256_mul_pd(root, x[j]);
                    }
                }
            }
            // Transpose: column vectors of four rows become row vectors of four columns.
            let (even01, odd01) = (_mm256_unpacklo_pd(x[0], x[1]), _mm256_unpackhi_pd(x[0], x[1]));
            let (even23, odd23) = (_mm256_unpacklo_pd(x[2], x[3]), _mm256_unpackhi_pd(x[2], x[3]));
            let turned = [
                _mm256_permute2f128_pd::<0x20>(even01, even23),
                _mm256_permute2f128_pd::<0x20>(odd01, odd23),
                _mm256_permute2f128_pd::<0x31>(even01, even23),
                _mm256_permute2f128_pd::<0x31>(odd01, odd23),
            ];
            for (i, row) in turned.into_iter().enumerate() {
                // SAFETY: row r + i < rows has four cells, as asserted.
                unsafe { _mm256_storeu_pd(cells.as_mut_ptr().add((r + i) * stride), row) };
            }
        }
        for (residual, sums) in residual.iter_mut().zip(residuals) {
            let mut parts = [0.0; QUAD];
            // SAFETY: four doubles.
            unsafe { _mm256_storeu_pd(parts.as_mut_ptr(), sums) };
            *residual += parts.iter().sum::<f64>();
        }
        rows
    }
}

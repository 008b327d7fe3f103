//! Symmetric rank-k update: `comoment += sum over rows of x x'`, lower triangle.
//!
//! Rows arrive packed in panels of eight columns, so that eight doubles of one
//! row fill one cache line. Every pair of panels is one tile of 8 x 8 sums kept
//! in registers. The instruction set is chosen once, at run time; the portable
//! tile is plain Rust, which the compiler turns into NEON on aarch64.

use std::sync::OnceLock;

use crate::simd::vectorised;

/// Columns in a panel: eight doubles are one AVX-512 register and one cache line.
pub const LANES: usize = 8;

/// Column panels that one row panel meets at a time: three tiles of eight sums
/// fill 24 of the 32 AVX-512 registers and use every broadcast three times.
const STRIP: usize = 3;

type Tile = [[f64; LANES]; LANES];
/// Multiply one panel by up to `STRIP` others, into as many tiles.
type StripFn = fn(&[f64], &[&[f64]], &mut [Tile; STRIP]);

/// One way to compute a tile.
#[derive(Clone, Copy)]
pub struct Kernel {
    /// The instruction set, for reports.
    pub name: &'static str,
    strip: StripFn,
}

impl Kernel {
    /// The fastest kernel that this machine runs.
    pub fn best() -> Kernel {
        static BEST: OnceLock<Kernel> = OnceLock::new();
        *BEST.get_or_init(|| Kernel::available()[0])
    }

    /// Every kernel that this machine runs, fastest first.
    pub fn available() -> Vec<Kernel> {
        let mut kernels = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            if std::is_x86_feature_detected!("avx512f") {
                kernels.push(Kernel { name: "avx512", strip: x86::strip_avx512 });
            }
            if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma") {
                kernels.push(Kernel { name: "avx2", strip: x86::strip_avx2 });
            }
        }
        kernels.push(Kernel { name: "portable", strip: strip_portable });
        kernels
    }

    /// Add `sum x x'` over the packed rows to `comoment`.
    ///
    /// `panels` holds `ceil(width / 8)` panels of `8 * rows` doubles, the spare
    /// lanes of the last one zero. `comoment` is the lower triangle of a
    /// `width x width` matrix, row by row.
    pub fn rank_k(&self, panels: &[f64], width: usize, comoment: &mut [f64]) {
        let n_panels = width.div_ceil(LANES);
        if n_panels == 0 {
            return;
        }
        let size = panels.len() / n_panels;
        let panel = |index: usize| &panels[index * size..(index + 1) * size];
        let mut tiles = [[[0.0; LANES]; LANES]; STRIP];
        for row_panel in 0..n_panels {
            for first in (0..=row_panel).step_by(STRIP) {
                let last = (first + STRIP).min(row_panel + 1);
                let mut others: [&[f64]; STRIP] = [&[]; STRIP];
                for (other, column_panel) in others.iter_mut().zip(first..last) {
                    *other = panel(column_panel);
                }
                (self.strip)(panel(row_panel), &others[..last - first], &mut tiles);
                for (tile, column_panel) in tiles.iter().zip(first..last) {
                    add_tile(tile, row_panel * LANES, column_panel * LANES, width, comoment);
                }
            }
        }
    }
}

vectorised! {
/// Add a tile whose first entry is (`row`, `column`) to the packed triangle.
fn add_tile(tile: &Tile, row: usize, column: usize, width: usize, comoment: &mut [f64]) {
    for (i, sums) in (row..width).zip(tile) {
        let end = (column + LANES).min(i + 1);
        let start = triangle(i) + column;
        let entries = &mut comoment[start..start + end - column];
        for (entry, sum) in entries.iter_mut().zip(sums) {
            *entry += sum;
        }
    }
}
}

/// Where row `i` of a packed lower triangle begins; also the length of `i` rows.
pub const fn triangle(i: usize) -> usize {
    i * (i + 1) / 2
}

fn strip_portable(a: &[f64], others: &[&[f64]], tiles: &mut [Tile; STRIP]) {
    for (b, tile) in others.iter().zip(tiles) {
        let mut sums = [[0.0; LANES]; LANES];
        for (x, y) in a.chunks_exact(LANES).zip(b.chunks_exact(LANES)) {
            for (row, &xi) in sums.iter_mut().zip(x) {
                for (sum, &yj) in row.iter_mut().zip(y) {
                    *sum += xi * yj;
                }
            }
        }
        *tile = sums;
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{LANES, STRIP, Tile};
    use std::arch::x86_64::*;

    pub fn strip_avx512(a: &[f64], others: &[&[f64]], tiles: &mut [Tile; STRIP]) {
        // SAFETY: listed in `Kernel::available` only where avx512f was detected.
        unsafe {
            match *others {
                [b] => avx512(a, [b], tiles),
                [b, c] => avx512(a, [b, c], tiles),
                [b, c, d] => avx512(a, [b, c, d], tiles),
                _ => unreachable!("a strip has one to three panels"),
            }
        }
    }

    pub fn strip_avx2(a: &[f64], others: &[&[f64]], tiles: &mut [Tile; STRIP]) {
        for (b, tile) in others.iter().zip(tiles) {
            // SAFETY: listed in `Kernel::available` only where avx2 and fma were.
            unsafe { avx2(a, b, tile) }
        }
    }

    #[target_feature(enable = "avx512f")]
    fn avx512<const N: usize>(a: &[f64], others: [&[f64]; N], tiles: &mut [Tile; STRIP]) {
        // What the unchecked loads below rely on.
        assert!(others.iter().all(|b| b.len() >= a.len()));
        let mut sums = [[_mm512_setzero_pd(); LANES]; N];
        for (r, x) in a.chunks_exact(LANES).enumerate() {
            // SAFETY: row `r` of each panel is eight doubles.
            let y: [__m512d; N] = std::array::from_fn(|t| unsafe {
                _mm512_loadu_pd(others[t].as_ptr().add(r * LANES))
            });
            for i in 0..LANES {
                let x = _mm512_set1_pd(x[i]);
                for t in 0..N {
                    sums[t][i] = _mm512_fmadd_pd(x, y[t], sums[t][i]);
                }
            }
        }
        for (tile, sums) in tiles.iter_mut().zip(sums) {
            for (row, sum) in tile.iter_mut().zip(sums) {
                // SAFETY: a row of a tile is eight doubles.
                unsafe { _mm512_storeu_pd(row.as_mut_ptr(), sum) }
            }
        }
    }

    #[target_feature(enable = "avx2,fma")]
    fn avx2(a: &[f64], b: &[f64], tile: &mut Tile) {
        // Four rows at a time: eight sums and their operands fit 16 registers.
        for half in [0, 4] {
            let mut sums = [[_mm256_setzero_pd(); 2]; 4];
            for (x, y) in a.chunks_exact(LANES).zip(b.chunks_exact(LANES)) {
                // SAFETY: `y` is a chunk of exactly eight doubles: two loads of four.
                let (low, high) =
                    unsafe { (_mm256_loadu_pd(y.as_ptr()), _mm256_loadu_pd(y.as_ptr().add(4))) };
                for i in 0..4 {
                    let x = _mm256_set1_pd(x[half + i]);
                    sums[i][0] = _mm256_fmadd_pd(x, low, sums[i][0]);
                    sums[i][1] = _mm256_fmadd_pd(x, high, sums[i][1]);
                }
            }
            for (row, sum) in tile[half..half + 4].iter_mut().zip(sums) {
                // SAFETY: a row of a tile is eight doubles: two stores of four.
                unsafe {
                    _mm256_storeu_pd(row.as_mut_ptr(), sum[0]);
                    _mm256_storeu_pd(row.as_mut_ptr().add(4), sum[1]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Lcg;

    /// The definition, without panels or tiles.
    fn outer_products(rows: &[Vec<f64>], width: usize) -> Vec<f64> {
        let mut sums = vec![0.0; triangle(width)];
        for row in rows {
            for i in 0..width {
                for j in 0..=i {
                    sums[triangle(i) + j] += row[i] * row[j];
                }
            }
        }
        sums
    }

    fn pack(rows: &[Vec<f64>], width: usize) -> Vec<f64> {
        let mut panels = vec![0.0; width.div_ceil(LANES) * LANES * rows.len()];
        for (r, row) in rows.iter().enumerate() {
            for (j, &value) in row.iter().enumerate() {
                panels[(j / LANES * rows.len() + r) * LANES + j % LANES] = value;
            }
        }
        panels
    }

    #[test]
    fn every_kernel_adds_the_outer_products() {
        let mut random = Lcg::new(1);
        for width in [1, 2, 7, 8, 9, 16, 17, 51] {
            for n_rows in [1, 3, 32, 257] {
                let rows: Vec<Vec<f64>> = (0..n_rows)
                    .map(|_| (0..width).map(|_| random.uniform() - 0.5).collect())
                    .collect();
                let expected = outer_products(&rows, width);
                for kernel in Kernel::available() {
                    let mut sums = vec![1.0; triangle(width)];
                    kernel.rank_k(&pack(&rows, width), width, &mut sums);
                    for (sum, expected) in sums.iter().zip(&expected) {
                        let error = (sum - 1.0 - expected).abs();
                        assert!(error < 1e-13 * n_rows as f64, "{}: {error}", kernel.name);
                    }
                }
            }
        }
    }

    #[test]
    fn no_columns_is_no_work() {
        Kernel::best().rank_k(&[], 0, &mut []);
    }
}

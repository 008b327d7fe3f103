//! Symmetric rank-k update: `tiles += sum over rows of x x'`, lower triangle.
//!
//! Rows arrive packed in panels of eight columns, so that eight doubles of one
//! row fill one cache line. Every pair of panels is one tile of 8 x 8 sums, kept
//! in registers from the first row to the last. The instruction set is chosen
//! once, at run time; the portable tile is plain Rust, which the compiler turns
//! into NEON on aarch64.

use std::sync::OnceLock;

use crate::kernel::simd::vectorised;

/// Columns in a panel: eight doubles are one AVX-512 register and one cache line.
pub const LANES: usize = 8;

/// Column panels that one row panel meets at a time: three tiles of eight sums
/// fill 24 of the 32 AVX-512 registers and use every broadcast three times.
const STRIP: usize = 3;

/// Sums of products of the columns of two panels.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
pub struct Tile([[f64; LANES]; LANES]);

/// Multiply one panel by up to `STRIP` others and add to as many tiles.
type StripFn = fn(&[f64], &[&[f64]], &mut [Tile]);

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

    /// Add `sum x x'` over the packed rows to `tiles`.
    ///
    /// `panels` holds `ceil(width / 8)` panels of `8 * rows` doubles; what the
    /// spare lanes of the last one hold goes to sums that nobody reads. There are
    /// `n_tiles(width)` tiles: the lower triangle of pairs of panels, row by row.
    pub fn rank_k(&self, panels: &[f64], width: usize, tiles: &mut [Tile]) {
        let n_panels = width.div_ceil(LANES);
        if n_panels == 0 {
            return;
        }
        let size = panels.len() / n_panels;
        let panel = |index: usize| &panels[index * size..(index + 1) * size];
        for row_panel in 0..n_panels {
            let tiles = &mut tiles[triangle(row_panel)..triangle(row_panel + 1)];
            for (strip, tiles) in tiles.chunks_mut(STRIP).enumerate() {
                let mut others: [&[f64]; STRIP] = [&[]; STRIP];
                for (other, column_panel) in others.iter_mut().zip(strip * STRIP..=row_panel) {
                    *other = panel(column_panel);
                }
                (self.strip)(panel(row_panel), &others[..tiles.len()], tiles);
            }
        }
    }
}

/// How many tiles the columns need.
pub fn n_tiles(width: usize) -> usize {
    triangle(width.div_ceil(LANES))
}

vectorised! {
/// Add tiles to the lower triangle of a `width x width` matrix, row by row.
pub fn add_tiles(tiles: &[Tile], width: usize, comoment: &mut [f64]) {
    for i in 0..width {
        let tiles = &tiles[triangle(i / LANES)..];
        let (whole, rest) = comoment[triangle(i)..triangle(i + 1)].as_chunks_mut::<LANES>();
        for (entries, tile) in whole.iter_mut().zip(tiles) {
            for (entry, sum) in entries.iter_mut().zip(&tile.0[i % LANES]) {
                *entry += sum;
            }
        }
        for (entry, sum) in rest.iter_mut().zip(&tiles[i / LANES].0[i % LANES]) {
            *entry += sum;
        }
    }
}
}

/// Where row `i` of a packed lower triangle begins; also the length of `i` rows.
pub const fn triangle(i: usize) -> usize {
    i * (i + 1) / 2
}

fn strip_portable(a: &[f64], others: &[&[f64]], tiles: &mut [Tile]) {
    for (b, tile) in others.iter().zip(tiles) {
        let mut sums = tile.0;
        for (x, y) in a.chunks_exact(LANES).zip(b.chunks_exact(LANES)) {
            for (row, &xi) in sums.iter_mut().zip(x) {
                for (sum, &yj) in row.iter_mut().zip(y) {
                    *sum += xi * yj;
                }
            }
        }
        tile.0 = sums;
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{LANES, Tile};
    use std::arch::x86_64::*;

    pub fn strip_avx512(a: &[f64], others: &[&[f64]], tiles: &mut [Tile]) {
        // SAFETY: listed in `Kernel::available` only where avx512f was detected.
        unsafe {
            match (others, tiles) {
                (&[b], [t]) => avx512(a, [b], [t]),
                (&[b, c], [t, u]) => avx512(a, [b, c], [t, u]),
                (&[b, c, d], [t, u, v]) => avx512(a, [b, c, d], [t, u, v]),
                _ => unreachable!("a strip has one to three panels and as many tiles"),
            }
        }
    }

    pub fn strip_avx2(a: &[f64], others: &[&[f64]], tiles: &mut [Tile]) {
        for (b, tile) in others.iter().zip(tiles) {
            // SAFETY: listed in `Kernel::available` only where avx2 and fma were.
            unsafe { avx2(a, b, tile) }
        }
    }

    #[target_feature(enable = "avx512f")]
    fn avx512<const N: usize>(a: &[f64], others: [&[f64]; N], tiles: [&mut Tile; N]) {
        // What the unchecked loads below rely on.
        assert!(others.iter().all(|b| b.len() >= a.len()));
        // SAFETY: a row of a tile is eight doubles.
        let load = |t: usize, i: usize| unsafe { _mm512_loadu_pd(tiles[t].0[i].as_ptr()) };
        let mut sums: [[__m512d; LANES]; N] =
            std::array::from_fn(|t| std::array::from_fn(|i| load(t, i)));
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
        for (tile, sums) in tiles.into_iter().zip(sums) {
            for (row, sum) in tile.0.iter_mut().zip(sums) {
                // SAFETY: a row of a tile is eight doubles.
                unsafe { _mm512_storeu_pd(row.as_mut_ptr(), sum) }
            }
        }
    }

    #[target_feature(enable = "avx2,fma")]
    fn avx2(a: &[f64], b: &[f64], tile: &mut Tile) {
        // Four rows at a time: eight sums and their operands fit 16 registers.
        for rows in [0..4, 4..8] {
            let half = rows.start;
            // SAFETY: a row of a tile is eight doubles: two loads of four.
            let load = |row: &[f64; LANES]| unsafe {
                [_mm256_loadu_pd(row.as_ptr()), _mm256_loadu_pd(row.as_ptr().add(4))]
            };
            let mut sums: [[__m256d; 2]; 4] = std::array::from_fn(|i| load(&tile.0[half + i]));
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
            for (row, sum) in tile.0[rows].iter_mut().zip(sums) {
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
                    let mut tiles = vec![Tile::default(); n_tiles(width)];
                    // In two parts: the second adds to the tiles of the first.
                    let (first, second) = rows.split_at(n_rows / 3);
                    kernel.rank_k(&pack(first, width), width, &mut tiles);
                    kernel.rank_k(&pack(second, width), width, &mut tiles);
                    let mut sums = vec![1.0; triangle(width)];
                    add_tiles(&tiles, width, &mut sums);
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

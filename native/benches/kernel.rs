//! Time of the rank-k update alone, and of a whole block with packing and merge.
//!
//! `cargo bench --bench kernel` prints a table: nanoseconds a row, medians of 9.

use std::time::Instant;

use dbselect_native::kernel::block::{BLOCK_ROWS, Block, stride};
use dbselect_native::kernel::moments::Moments;
use dbselect_native::kernel::rank_update::{Kernel, Tile, n_tiles};
use dbselect_native::kernel::sums::Sums;

const REPEATS: usize = 200;

fn main() {
    println!("{:>9} {:>7} {:>12} {:>9}", "kernel", "columns", "update ns/row", "Gflop/s");
    for width in [10, 50, 200, 500] {
        let columns: Vec<Vec<f64>> = (0..width)
            .map(|j| (0..BLOCK_ROWS).map(|r| ((r * 7 + j * 13) % 101) as f64).collect())
            .collect();
        let columns: Vec<&[f64]> = columns.iter().map(|column| &column[..]).collect();
        let panels = vec![0.5; stride(width) * BLOCK_ROWS];
        let mut tiles = vec![Tile::default(); n_tiles(width)];
        let flops = (width * (width + 1)) as f64;
        for kernel in Kernel::available() {
            let ns = median_ns(|| kernel.rank_k(&panels, width, &mut tiles));
            println!("{:>9} {width:>7} {ns:>12.1} {:>9.1}", kernel.name, flops / ns);
        }
        let mut center = vec![50.0; width];
        let (mut sums, mut moments) = (Sums::default(), Moments::new(width));
        let ns = median_ns(|| {
            sums.start(&center);
            sums.add_columns(&columns, None);
            moments.add(&sums);
        });
        println!("{:>9} {width:>7} {ns:>12.1} {:>9.1}", "block", flops / ns);
        center.resize(stride(width), 0.0);
        let mut block = Block::default();
        let ns = median_ns(|| block.pack_columns(&columns, &center, None));
        println!("{:>9} {width:>7} {ns:>12.1}", "pack");
    }
}

fn median_ns(mut work: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..9)
        .map(|_| {
            let start = Instant::now();
            (0..REPEATS).for_each(|_| work());
            start.elapsed().as_nanos() as f64 / (REPEATS * BLOCK_ROWS) as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[4]
}

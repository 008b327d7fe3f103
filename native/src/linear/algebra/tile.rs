//! The innermost step of `panels`: products of doubles, in registers from first to last.
//!
//! Written in intrinsics, since compilers keep such sums in memory, one double at a time. No
//! product and sum are fused, so that every processor finds the same bits.

/// Doubles of a tile side by side: two AVX2 registers, or one of AVX-512.
pub const LANES: usize = 8;
/// Rows of a tile: its sums fill ten of the sixteen AVX2 registers, and none waits for another.
pub const TILE: usize = 5;

/// Take from N rows of sums a combination of others: `sums_i -= sum_k shares_k[i] row_k`, of
/// terms of a row and its shares.
#[inline(always)]
pub fn subtract_tile<'t, const N: usize>(
    sums: &mut [[f64; LANES]; N],
    terms: impl Iterator<Item = (&'t [f64; LANES], &'t [f64; N])>,
) {
    #[cfg(target_arch = "x86_64")]
    {
        if std::is_x86_feature_detected!("avx512f") {
            // SAFETY: avx512f was detected.
            return unsafe { x86::in_512_bits(sums, terms) };
        }
        if std::is_x86_feature_detected!("avx") {
            // SAFETY: avx was detected.
            return unsafe { x86::in_256_bits(sums, terms) };
        }
    }
    portable(sums, terms);
}

fn portable<'t, const N: usize>(
    sums: &mut [[f64; LANES]; N],
    terms: impl Iterator<Item = (&'t [f64; LANES], &'t [f64; N])>,
) {
    for (row, shares) in terms {
        for (sums, share) in sums.iter_mut().zip(shares) {
            sums.iter_mut().zip(row).for_each(|(sum, x)| *sum -= share * x);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::LANES;
    use std::arch::x86_64::*;

    #[target_feature(enable = "avx512f")]
    pub fn in_512_bits<'t, const N: usize>(
        sums: &mut [[f64; LANES]; N],
        terms: impl Iterator<Item = (&'t [f64; LANES], &'t [f64; N])>,
    ) {
        let mut wide = [_mm512_setzero_pd(); N];
        for i in 0..N {
            // SAFETY: eight doubles.
            wide[i] = unsafe { _mm512_loadu_pd(sums[i].as_ptr()) };
        }
        for (row, shares) in terms {
            // SAFETY: eight doubles.
            let row = unsafe { _mm512_loadu_pd(row.as_ptr()) };
            for i in 0..N {
                let product = _mm512_mul_pd(_mm512_set1_pd(shares[i]), row);
                wide[i] = _mm512_sub_pd(wide[i], product);
            }
        }
        for i in 0..N {
            // SAFETY: eight doubles.
            unsafe { _mm512_storeu_pd(sums[i].as_mut_ptr(), wide[i]) };
        }
    }

    #[target_feature(enable = "avx")]
    pub fn in_256_bits<'t, const N: usize>(
        sums: &mut [[f64; LANES]; N],
        terms: impl Iterator<Item = (&'t [f64; LANES], &'t [f64; N])>,
    ) {
        let mut wide = [[_mm256_setzero_pd(); 2]; N];
        for i in 0..N {
            for (half, x) in wide[i].iter_mut().zip(sums[i].as_chunks::<4>().0) {
                // SAFETY: four doubles.
                *half = unsafe { _mm256_loadu_pd(x.as_ptr()) };
            }
        }
        for (row, shares) in terms {
            // SAFETY: eight doubles, four and four.
            let row =
                unsafe { [_mm256_loadu_pd(row.as_ptr()), _mm256_loadu_pd(row[4..].as_ptr())] };
            for i in 0..N {
                let share = _mm256_set1_pd(shares[i]);
                for (half, row) in wide[i].iter_mut().zip(row) {
                    *half = _mm256_sub_pd(*half, _mm256_mul_pd(share, row));
                }
            }
        }
        for i in 0..N {
            for (half, x) in wide[i].iter().zip(sums[i].as_chunks_mut::<4>().0) {
                // SAFETY: four doubles.
                unsafe { _mm256_storeu_pd(x.as_mut_ptr(), *half) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Lcg;

    #[test]
    fn every_processor_finds_the_same_bits() {
        let mut numbers = Lcg::new(7);
        let mut eight = || -> [f64; LANES] { std::array::from_fn(|_| numbers.uniform()) };
        let rows: Vec<[f64; LANES]> = (0..33).map(|_| eight()).collect();
        let shares: Vec<[f64; TILE]> = (0..33).map(|_| *eight().first_chunk().unwrap()).collect();
        let sums: [[f64; LANES]; TILE] = std::array::from_fn(|_| eight());
        let mut expected = sums;
        portable(&mut expected, rows.iter().zip(&shares));
        let mut found = sums;
        subtract_tile(&mut found, rows.iter().zip(&shares));
        assert_eq!(found, expected);
        #[cfg(target_arch = "x86_64")]
        if std::is_x86_feature_detected!("avx") {
            let mut found = sums;
            // SAFETY: avx was detected.
            unsafe { x86::in_256_bits(&mut found, rows.iter().zip(&shares)) };
            assert_eq!(found, expected);
        }
    }
}

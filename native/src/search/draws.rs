//! Random numbers that depend on a seed alone: neither on the machine nor on the engine.
//!
//! The n-th is the XXH3 hash (64 bits) of n with the seed, as folds and sampled rows are drawn.
//! Sources: Box, Muller (1958) for normal numbers; Marsaglia, Tsang (2000), ACM Transactions on
//! Mathematical Software 26, for gamma and so chi-square ones; Fisher, Yates (1938) for sets.

use std::f64::consts::PI;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A stream of random numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Draws {
    seed: u64,
    drawn: u64,
}

impl Draws {
    /// The stream of a seed.
    pub fn new(seed: i64) -> Draws {
        Draws { seed: seed as u64, drawn: 0 }
    }

    /// The same after so many numbers were drawn.
    pub fn after(seed: i64, drawn: u64) -> Draws {
        Draws { drawn, ..Draws::new(seed) }
    }

    /// How many numbers were drawn.
    pub fn drawn(&self) -> u64 {
        self.drawn
    }

    fn bits(&mut self) -> u64 {
        let bits = xxh3_64_with_seed(&self.drawn.to_le_bytes(), self.seed);
        self.drawn += 1;
        bits
    }

    /// A number in (0, 1].
    fn uniform(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// A whole number below a limit.
    fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.bits()) * limit as u128) >> 64) as usize
    }

    /// A number of mean 0 and variance 1.
    pub fn normal(&mut self) -> f64 {
        let length = libm::sqrt(-2.0 * libm::log(self.uniform()));
        length * libm::cos(2.0 * PI * self.uniform())
    }

    /// A sum of so many squares of normal numbers, at least one.
    pub fn chi_square(&mut self, degrees: usize) -> f64 {
        if degrees == 1 {
            return self.normal().powi(2);
        }
        let d = degrees as f64 / 2.0 - 1.0 / 3.0;
        loop {
            let x = self.normal();
            let v = (1.0 + x / libm::sqrt(9.0 * d)).powi(3);
            if v > 0.0 && libm::log(self.uniform()) < x * x / 2.0 + d - d * v + d * libm::log(v) {
                return 2.0 * d * v;
            }
        }
    }

    /// Some of a list, each once, in random order; all if there are no more.
    pub fn some_of(&mut self, of: &[usize], count: usize) -> Vec<usize> {
        let mut rest = of.to_vec();
        for at in 0..count.min(rest.len()) {
            let other = at + self.below(rest.len() - at);
            rest.swap(at, other);
        }
        rest.truncate(count);
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean and variance of some numbers.
    fn moments(count: usize, mut draw: impl FnMut() -> f64) -> (f64, f64) {
        let numbers: Vec<f64> = (0..count).map(|_| draw()).collect();
        let mean = numbers.iter().sum::<f64>() / count as f64;
        let squares = numbers.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>();
        (mean, squares / count as f64)
    }

    #[test]
    fn moments_are_those_of_the_distributions() {
        let mut draws = Draws::new(5);
        let (mean, variance) = moments(40_000, || draws.normal());
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.03, "{mean} {variance}");
        for degrees in [1, 2, 3, 50] {
            let (mean, variance) = moments(40_000, || draws.chi_square(degrees));
            let d = degrees as f64;
            assert!((mean / d - 1.0).abs() < 0.03, "{degrees} {mean}");
            assert!((variance / (2.0 * d) - 1.0).abs() < 0.1, "{degrees} {variance}");
        }
    }

    #[test]
    fn every_one_of_a_list_is_drawn_as_often_and_once() {
        let (mut draws, mut counts) = (Draws::new(1), [0; 5]);
        for _ in 0..10_000 {
            let mut some = draws.some_of(&[3, 4, 5, 6, 7], 2);
            some.iter().for_each(|one| counts[one - 3] += 1);
            some.dedup();
            assert_eq!(some.len(), 2);
        }
        assert!(counts.iter().all(|count: &i32| (count - 4000).abs() < 250), "{counts:?}");
        assert_eq!(draws.some_of(&[1, 2], 5).len(), 2);
    }

    #[test]
    fn a_seed_has_one_stream() {
        let first = |seed| Draws::new(seed).normal();
        assert_eq!(first(3).to_bits(), first(3).to_bits());
        assert!(first(3) != first(4));
    }
}

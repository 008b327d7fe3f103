//! The best row, again and again, of more rows than fit in memory.
//!
//! ```text
//! while fewer than k rows are taken:
//!     take the row with the largest gain f(S + x) - f(S)
//! ```
//!
//! Ties go to the lowest row number. The result is that of evaluating every gain at every step, yet
//! many are not: a row's variance x'Px never grows, so what it was at any earlier time bounds the
//! gain (`Posterior::least_variance`). The rows are held in parts, by falling variance; a step
//! evaluates parts until none that is left had enough variance to reach the best gain found. The
//! same holds for rows out of memory: a reading holds the rows of the largest variances, as many as
//! fit, and one number for all others; while that is too small for the best gain in memory, no
//! reading is needed.
//!
//! With all rows in memory there is one reading. A step costs O(d) for each row evaluated; a reading
//! yields at least one row, so there are at most k.
//!
//! Source: SDS_MA of Qian, Singer (2019); lazy evaluation as Minoux (1978), whose bounds, the old
//! gains, hold for submodular functions only and are replaced.

use std::collections::HashMap;
use std::mem;

use super::held::{Held, NONE, Run};
use super::posterior::Posterior;
use super::tracked::{Gains, Tracked};

/// Gains closer than this share of the best are ties: they carry an error of some 1e-14.
const TIE_SHARE: f64 = 1e-12;
/// Rows evaluated together: enough for products to pay, few enough to leave many out.
const PART_ROWS: usize = 1024;
/// A reading that is not as the one before.
const CHANGED: &str = "SourceError: the source gives other rows, or the same in another order, \
    each time that it is read; raise memory_limit, or write the rows to Parquet";

/// A row that was taken.
#[derive(Clone, Debug, PartialEq)]
pub struct Pick {
    /// Its number.
    pub row: usize,
    /// What it gained.
    pub gain: f64,
}

/// Rows that are taken one by one.
pub struct Greedy {
    /// What is known after the rows taken.
    pub posterior: Posterior,
    capacity: usize,
    parts: Vec<Part>,
    /// Largest variance of the rows out of memory.
    outside: f64,
    /// The rows taken, by their numbers.
    taken: HashMap<usize, Vec<f64>>,
    reading: Reading,
}

/// A reading of all rows that is under way.
struct Reading {
    held: Held,
    /// Rows that beat all before them and tie with the last.
    leaders: Vec<(f64, usize, Vec<f64>)>,
    /// Rows taken before that came again.
    again: usize,
}

/// Rows that are evaluated together.
struct Part {
    numbers: Vec<usize>,
    rows: Tracked,
    taken: Vec<usize>,
    /// Largest variance when last seen.
    largest: f64,
}

impl Part {
    fn gains(&mut self, posterior: &Posterior) -> Vec<f64> {
        let Gains { mut gains, mut variance } = self.rows.gains(posterior);
        for &at in &self.taken {
            (gains[at], variance[at]) = (NONE, NONE);
        }
        self.largest = largest(&variance);
        gains
    }
}

impl Greedy {
    /// No row is taken, and none is known; `capacity` of them, two at least, are held in memory.
    pub fn new(posterior: Posterior, capacity: usize) -> Greedy {
        let reading = Reading::new(posterior.width(), capacity);
        let taken = HashMap::new();
        Greedy { posterior, capacity, parts: Vec::new(), outside: NONE, taken, reading }
    }

    /// Take the best row in memory; nothing if it may be elsewhere, so that all rows are to be read.
    pub fn best(&mut self) -> Option<Pick> {
        let mut best = NONE;
        let mut seen: Vec<(usize, Vec<f64>)> = Vec::new();
        let mut order: Vec<usize> = (0..self.parts.len()).collect();
        order.sort_by(|&a, &b| self.parts[b].largest.total_cmp(&self.parts[a].largest));
        for which in order {
            let part = &mut self.parts[which];
            if part.largest < self.posterior.least_variance(tie(best)) {
                break;
            }
            let gains = part.gains(&self.posterior);
            best = best.max(largest(&gains));
            seen.push((which, gains));
        }
        if best == NONE || self.outside >= self.posterior.least_variance(tie(best)) {
            self.parts.clear();
            return None;
        }
        let ties = seen.iter().flat_map(|(which, gains)| {
            let near = gains.iter().enumerate().filter(|(_, gain)| **gain >= tie(best));
            let numbers = &self.parts[*which].numbers;
            near.map(move |(at, _)| (numbers[at], *which, at))
        });
        let (number, which, at) = ties.min()?;
        let part = &mut self.parts[which];
        part.taken.push(at);
        let x = part.rows.row(at, self.posterior.width()).to_vec();
        Some(self.take(number, x))
    }

    /// Read some rows, by increasing number; whether each may be taken before the next reading.
    pub fn read(&mut self, numbers: &[usize], x: &[f64]) -> Result<Vec<bool>, String> {
        let width = self.posterior.width();
        let Gains { gains, variance } = Tracked::new(x.to_vec()).gains(&self.posterior);
        let Reading { held, leaders, again } = &mut self.reading;
        let mut are_held = Vec::with_capacity(numbers.len());
        for (at, (&number, x)) in numbers.iter().zip(x.chunks_exact(width)).enumerate() {
            if let Some(before) = self.taken.get(&number) {
                if before != x {
                    return Err(CHANGED.to_string());
                }
                *again += 1;
                are_held.push(false);
                continue;
            }
            let leads = leaders.last().is_none_or(|(last, ..)| gains[at] > *last);
            if leads {
                leaders.retain(|(gain, ..)| *gain >= tie(gains[at]));
                leaders.push((gains[at], number, x.to_vec()));
            }
            are_held.push(held.add(number, x, variance[at]) || leads);
        }
        Ok(are_held)
    }

    /// Take the best of the rows read, and hold those of the largest variances.
    pub fn best_read(&mut self) -> Result<Pick, String> {
        let reading = Reading::new(self.posterior.width(), self.capacity);
        let Reading { held, leaders, again } = mem::replace(&mut self.reading, reading);
        // The first of all rows that ties with the best beats all before it, so it comes first.
        let best = leaders.into_iter().next();
        let best = best.filter(|_| again == self.taken.len()).ok_or(CHANGED)?;
        let (_, number, x) = best;
        let part = |Run { numbers, x, largest }: Run| {
            let taken = numbers.iter().position(|own| *own == number).into_iter().collect();
            Part { numbers, rows: Tracked::new(x), taken, largest }
        };
        self.parts = held.parts(PART_ROWS).into_iter().map(part).collect();
        self.outside = held.outside;
        Ok(self.take(number, x))
    }

    fn take(&mut self, row: usize, x: Vec<f64>) -> Pick {
        let gain = self.posterior.add(&x);
        self.taken.insert(row, x);
        Pick { row, gain }
    }
}

impl Reading {
    fn new(width: usize, capacity: usize) -> Reading {
        Reading { held: Held::new(width, capacity), leaders: Vec::new(), again: 0 }
    }
}

fn largest(numbers: &[f64]) -> f64 {
    numbers.iter().copied().fold(NONE, f64::max)
}

/// The least gain that counts as the best.
fn tie(best: f64) -> f64 {
    best * (1.0 - TIE_SHARE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Lcg;

    /// The rows taken, and the readings that it took.
    fn taken(x: &[f64], width: usize, k: usize, capacity: usize) -> (Vec<usize>, usize) {
        let mut greedy = Greedy::new(Posterior::new(width, 1.0, 1.0), capacity);
        let (mut rows, mut readings) = (Vec::new(), 0);
        while rows.len() < k {
            let pick = greedy.best().unwrap_or_else(|| {
                readings += 1;
                for (block, x) in x.chunks(7 * width).enumerate() {
                    let numbers: Vec<usize> =
                        (0..x.len() / width).map(|at| 7 * block + at).collect();
                    greedy.read(&numbers, x).unwrap();
                }
                greedy.best_read().unwrap()
            });
            rows.push(pick.row);
        }
        (rows, readings)
    }

    /// The rows by the gains of all at each step.
    fn expected(x: &[f64], width: usize, k: usize) -> Vec<usize> {
        let mut posterior = Posterior::new(width, 1.0, 1.0);
        let mut rows: Vec<usize> = Vec::new();
        for _ in 0..k {
            let mut gains = Tracked::new(x.to_vec()).gains(&posterior).gains;
            rows.iter().for_each(|&row| gains[row] = NONE);
            let best = largest(&gains);
            let row = gains.iter().position(|gain| *gain >= tie(best)).unwrap();
            posterior.add(&x[row * width..][..width]);
            rows.push(row);
        }
        rows
    }

    #[test]
    fn rows_are_those_of_all_gains_whatever_fits_in_memory() {
        for (width, spread) in [(3, 0.0), (4, 2.0)] {
            let mut random = Lcg::new(width as u64);
            let mut x = Vec::new();
            for _ in 0..400 {
                let size = (spread * random.uniform()).exp();
                // Whole numbers tie.
                x.extend((0..width).map(|_| (9.0 * random.uniform()).floor() * size));
            }
            let own = expected(&x, width, 30);
            for capacity in [2, 20, 400] {
                let (rows, readings) = taken(&x, width, 30, capacity);
                assert_eq!(rows, own, "{capacity}");
                assert!(readings <= 30 && (capacity < 400 || readings == 1));
            }
        }
    }

    #[test]
    fn few_rows_are_evaluated_where_few_are_long() {
        let (width, mut random) = (5, Lcg::new(9));
        let mut x = Vec::new();
        for _ in 0..20_000 {
            let size = (4.0 * random.uniform()).exp();
            x.extend((0..width).map(|_| (random.uniform() - 0.5) * size));
        }
        let numbers: Vec<usize> = (0..20_000).collect();
        let mut greedy = Greedy::new(Posterior::new(width, 1.0, 1.0), 20_000);
        greedy.read(&numbers, &x).unwrap();
        greedy.best_read().unwrap();
        for _ in 1..30 {
            greedy.best().unwrap();
        }
        let looks: usize = greedy.parts.iter().map(|part| part.rows.looks).sum();
        assert!(4 * looks < 30 * greedy.parts.len(), "{looks}");
    }

    #[test]
    fn a_reading_that_differs_is_refused() {
        let x = [1.0, 3.0, 2.0, 5.0];
        let mut greedy = Greedy::new(Posterior::new(1, 1.0, 1.0), 2);
        greedy.read(&[0, 1, 2, 3], &x).unwrap();
        assert_eq!(greedy.best_read().unwrap().row, 3);
        assert!(greedy.read(&[3], &[4.0]).is_err());
        assert!(greedy.best_read().is_err());
    }
}

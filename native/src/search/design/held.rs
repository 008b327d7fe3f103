//! The rows of the largest variances among those added, as many as fit.

/// Rows that are held, and the largest variance of those let go.
pub struct Held {
    width: usize,
    capacity: usize,
    /// Number, and variance, of each row that is held.
    rows: Vec<(usize, f64)>,
    x: Vec<f64>,
    /// Largest variance of the rows let go; `NONE` if there are none.
    pub outside: f64,
}

/// Some of the rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Their numbers.
    pub numbers: Vec<usize>,
    /// Their values, row by row.
    pub x: Vec<f64>,
    /// The largest variance among them.
    pub largest: f64,
}

/// No variance and no gain: of a row that was taken, of the rows let go if there are none.
pub const NONE: f64 = -1.0;

impl Held {
    /// Room for `capacity` rows, two at least.
    pub fn new(width: usize, capacity: usize) -> Held {
        Held { width, capacity, rows: Vec::new(), x: Vec::new(), outside: NONE }
    }

    /// Hold a row, or let it go; whether it is held.
    pub fn add(&mut self, number: usize, x: &[f64], variance: f64) -> bool {
        let enters = variance > self.outside;
        if enters {
            self.rows.push((number, variance));
            self.x.extend_from_slice(x);
            if self.rows.len() > self.capacity {
                self.let_go();
            }
        }
        enters
    }

    /// Let half of the rows go, so that others enter for a while before the next are.
    fn let_go(&mut self) {
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        let gone = self.rows.len() - self.capacity / 2;
        let variance = |at: &usize| self.rows[*at].1;
        order.select_nth_unstable_by(gone, |a, b| variance(a).total_cmp(&variance(b)));
        self.outside = order[..gone].iter().map(variance).fold(self.outside, f64::max);
        let mut kept = order.split_off(gone);
        kept.sort_unstable();
        for (to, &from) in kept.iter().enumerate() {
            self.rows[to] = self.rows[from];
            self.x.copy_within(from * self.width..(from + 1) * self.width, to * self.width);
        }
        self.rows.truncate(kept.len());
        self.x.truncate(kept.len() * self.width);
    }

    /// The rows by falling variance, in parts of `size`.
    pub fn parts(&self, size: usize) -> Vec<Run> {
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        order.sort_by(|&a, &b| self.rows[b].1.total_cmp(&self.rows[a].1));
        let part = |at: &[usize]| {
            let numbers = at.iter().map(|&at| self.rows[at].0).collect();
            let row = |&at: &usize| &self.x[at * self.width..(at + 1) * self.width];
            let x = at.iter().flat_map(row).copied().collect();
            Run { numbers, x, largest: self.rows[at[0]].1 }
        };
        order.chunks(size).map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_are_held() {
        let mut held = Held::new(1, 4);
        for (number, variance) in [5.0, 1.0, 9.0, 3.0, 7.0, 2.0].into_iter().enumerate() {
            held.add(number, &[variance], variance);
        }
        // Of five rows the largest two stayed; the last did not enter.
        assert_eq!(held.outside, 5.0);
        let run = |number, value| Run { numbers: vec![number], x: vec![value], largest: value };
        assert_eq!(held.parts(1), [run(2, 9.0), run(4, 7.0)]);
    }
}

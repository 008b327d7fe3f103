//! The rows of a table as candidates of a design in memory.

use super::greedy::Greedy;
use super::posterior::Posterior;
use crate::linear::algebra::dense::dot;
use crate::words::error::{Error, shown};

/// Largest size of a value: fourth powers times the square of a variance stay finite.
const LARGEST: f64 = 1e60;

/// Rows that are read at a time, whose products take twice their memory.
const BLOCK_ROWS: usize = 4096;

/// Which rows are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Asked {
    /// How many, one at least.
    pub k: usize,
    /// Prior precision of each coefficient, > 0.
    pub beta2: f64,
    /// Variance of the noise, > 0.
    pub sigma2: f64,
    /// Whether rows are scaled to norm 1.
    pub scale_rows: bool,
}

/// Candidates of `width` columns, added row by row.
pub struct Candidates {
    names: Vec<String>,
    is_scaled: bool,
    numbers: Vec<usize>,
    x: Vec<f64>,
}

impl Candidates {
    /// None yet, of columns of these names.
    pub fn new(names: Vec<String>, asked: &Asked) -> Candidates {
        Candidates { names, is_scaled: asked.scale_rows, numbers: Vec::new(), x: Vec::new() }
    }

    /// Add a row.
    pub fn add(
        &mut self,
        number: usize,
        row: impl Iterator<Item = f64> + Clone,
    ) -> Result<(), Error> {
        if let Some((at, value)) = row.clone().enumerate().find(|(_, value)| value.abs() > LARGEST)
        {
            return Err(Error::column(format!(
                "column '{}' has the value {}; values must be finite and at most 1e+60",
                self.names[at],
                shown(value)
            )));
        }
        let first = self.x.len();
        self.x.extend(row);
        if self.is_scaled {
            let own = &mut self.x[first..];
            let norm = dot(own, own).sqrt();
            own.iter_mut().filter(|_| norm > 0.0).for_each(|x| *x /= norm);
        }
        self.numbers.push(number);
        Ok(())
    }

    /// The numbers of the rows that are chosen, in their order; all if k is more.
    pub fn choose(&self, asked: &Asked) -> Result<Vec<usize>, String> {
        let posterior = Posterior::new(self.names.len(), asked.beta2, asked.sigma2);
        let mut greedy = Greedy::new(posterior, self.numbers.len().max(2));
        let mut found = Vec::new();
        while found.len() < asked.k.min(self.numbers.len()) {
            let pick = match greedy.best() {
                Some(pick) => pick,
                None => {
                    let rows = self.x.chunks(BLOCK_ROWS * self.names.len());
                    for (numbers, x) in self.numbers.chunks(BLOCK_ROWS).zip(rows) {
                        greedy.read(numbers, x)?;
                    }
                    greedy.best_read()?
                }
            };
            found.push(pick.row);
        }
        Ok(found)
    }
}

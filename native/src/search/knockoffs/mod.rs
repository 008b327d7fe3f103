//! Knockoffs: which groups a search prefers to copies that add nothing about the target.
//!
//! Each group gets a copy with the same correlations with all others and none of its own with
//! the target. A search orders groups and copies; a group that comes long before its copy is
//! selected. As many false groups come before their copies as after them, so those that come
//! after give the number of false ones to expect.
//!
//! | module | what |
//! |---|---|
//! | `copies` | what copies share with columns and target |
//! | `selection` | which groups are selected by how long before their copies they come |

pub mod copies;
pub mod selection;

use self::copies::Copies;
use super::draws::Draws;
use crate::kernel::possible::{INDEFINITE, is_possible};
use crate::linear::groups::Groups;
use crate::linear::problem::Linear;
use crate::linear::state::{Buffers, State};

/// A target whose share that is explained is nearer to 1 has no errors to test.
const EXACT: f64 = 1e-12;

/// What is assumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Assumed {
    /// Nothing of the columns; of the errors that they are normal, independent and of one
    /// variance.
    #[default]
    Fixed,
    /// That rows are those of normal columns.
    SecondOrder,
}

/// The knockoffs of the columns of some groups that do not depend on others.
pub struct Made {
    copies: Copies,
    /// Columns that are not dependent, as numbers among those of the plan.
    pub kept: Vec<usize>,
    /// Where the kept columns of each group begin, and where the last end.
    pub starts: Vec<usize>,
    /// Condition number of the columns' correlations.
    pub condition: f64,
}

impl Made {
    /// The knockoffs of the columns of a plan.
    ///
    /// A record that has none gives the reason, one sentence.
    pub fn of(
        problem: &Linear,
        starts: &[usize],
        rows: i64,
        target: &str,
        kind: Assumed,
    ) -> Result<Made, String> {
        let mut state = State::new(problem, starts, Buffers::default());
        (0..state.size()).for_each(|group| {
            state.add(group);
        });
        if !is_possible(state.explained()) || state.is_indefinite() {
            return Err(INDEFINITE.to_string());
        }
        let mut kept = state.support().to_vec();
        kept.sort_unstable();
        let width = kept.len();
        let least = if kind == Assumed::Fixed { 2 * width + 1 } else { width + 2 } as i64;
        if rows < least {
            let is_enough = kind == Assumed::Fixed && rows >= width as i64 + 2;
            let way = if is_enough { "; with kind 'second_order' less" } else { "" };
            return Err(format!(
                "{rows} rows are too few for {width} columns: {least} are needed{way}"
            ));
        }
        if kept.is_empty() {
            return Err("every column is constant, and has no knockoff".to_string());
        }
        if state.explained() >= 1.0 - EXACT {
            return Err(format!(
                "the columns explain '{target}' exactly; there are no errors to test"
            ));
        }
        let own = |&i: &usize| kept.iter().map(move |&j| (i, j));
        let correlations = kept.iter().flat_map(own).map(|(i, j)| problem.row(i)[j]).collect();
        let c = kept.iter().map(|&j| problem.target[j]).collect();
        let before = |start: &usize| kept.partition_point(|column| column < start);
        let starts: Vec<usize> = starts.iter().map(before).collect();
        let mut blocks = starts.clone();
        blocks.dedup();
        let copies = Copies::of(correlations, c, rows as usize, &blocks);
        Ok(Made { copies, kept, starts, condition: state.condition() })
    }

    /// Draw what the copies share with the target.
    pub fn draw(&self, kind: Assumed, draws: &mut Draws) -> Vec<f64> {
        match kind {
            Assumed::Fixed => self.copies.fixed(draws),
            Assumed::SecondOrder => self.copies.second_order(draws),
        }
    }

    /// Comoments of columns, copies and target.
    pub fn comoments(&self, drawn: &[f64]) -> Vec<f64> {
        self.copies.comoments(drawn)
    }

    /// The groups that have columns, each followed by its copy.
    pub fn groups(&self, costs: &[f64], columns: &[String]) -> Groups {
        let width = self.kept.len();
        let mut groups = Groups { starts: vec![0], ..Groups::default() };
        for (bounds, cost) in self.starts.windows(2).zip(costs) {
            for first in [0, width] {
                if bounds[0] < bounds[1] {
                    let own = &columns[first + bounds[0]..first + bounds[1]];
                    groups.names.push(own[0].clone());
                    groups.members.extend_from_slice(own);
                    groups.starts.push(groups.members.len());
                    groups.costs.push(*cost);
                }
            }
        }
        groups
    }
}

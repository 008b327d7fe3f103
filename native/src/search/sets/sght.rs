//! Bi-level selection by hard thresholding: few columns in few groups.
//!
//! Descents start from projections, of ridge solutions or of what is given, and the best of their
//! ends counts. Where it is cheap, what a descent keeps is polished by exchanges, and so are
//! columns that forward steps choose. What is kept is fitted again by least squares. Source: Xiang, Yang, Ye (2014).

use std::collections::HashSet;

use super::polish::{Within, forward, polish};
use super::projection::Limits;
use super::thresholding::{Descent, LeastSquares, Settings, kept};
use crate::linear::problem::Linear;
use crate::linear::state::{Buffers, State};
use crate::search::walks::ties::{LEAST_RISE, TIE_SHARE};

/// Columns times the square of most columns up to which exchanges are tried: a turn of them takes
/// a second there.
const POLISH_WORK: f64 = 1e8;

/// Where the best of some descents ended, and what came after it.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The descent, or the columns that took its place.
    pub descent: Descent,
    /// f after the exchanges, that of x; none without any.
    pub polished: Option<f64>,
    /// Whole changes of columns that came after the steps; none if none were tried.
    pub exchanges: Option<usize>,
    /// Whether forward steps took the place of a descent.
    pub is_forward: bool,
}

impl Ended {
    /// The lowest objective, that of x.
    fn objective(&self) -> f64 {
        self.polished.unwrap_or_else(|| self.descent.objective())
    }
}

/// The best end of the descents within some limits, from projections of some vectors.
///
/// `polishes` has exchanges of columns follow, where they are cheap.
pub fn descend(
    function: &LeastSquares,
    problem: &Linear,
    starts: &[usize],
    vectors: &[Vec<f64>],
    limits: Limits,
    settings: Settings,
    polishes: bool,
) -> Ended {
    let alone = |descent| Ended { descent, polished: None, exchanges: None, is_forward: false };
    let descend = |start: &Vec<f64>| function.descend(starts, start, limits, settings);
    let mut ends: Vec<Ended> = vectors.iter().map(|start| alone(descend(start))).collect();
    let work = problem.width() as f64 * (limits.columns as f64).powi(2);
    if polishes && work <= POLISH_WORK {
        ends = polished(function, problem, starts, ends, limits);
    }
    lowest(ends)
}

/// The descent that ends lowest, of those that differ by rounding the first.
fn lowest(mut ends: Vec<Ended>) -> Ended {
    let least = ends.iter().map(Ended::objective).fold(f64::INFINITY, f64::min);
    let first = ends.iter().position(|end| end.objective() <= least + LEAST_RISE);
    ends.swap_remove(first.unwrap_or(0))
}

/// Descents after exchanges, and what forward steps and exchanges choose.
///
/// Where forward steps explain all, many sets do and rounding alone would decide between them:
/// then those of the forward steps, whose gains are apart, are the only ones.
fn polished(
    function: &LeastSquares,
    problem: &Linear,
    starts: &[usize],
    ends: Vec<Ended>,
    limits: Limits,
) -> Vec<Ended> {
    let singles: Vec<usize> = (0..=problem.width()).collect();
    let of_group = |g: usize| std::iter::repeat_n(g, starts[g + 1] - starts[g]);
    let group: Vec<usize> = (0..starts.len() - 1).flat_map(of_group).collect();
    let within = Within { group: &group, limits };
    let mut state = State::new(problem, &singles, Buffers::default());
    forward(&mut state, within, None);
    let exchanges = polish(&mut state, within);
    let least = Ended { is_forward: true, ..lowest(ends.clone()) };
    let walked = after(function, least, &mut state, exchanges);
    if state.explained() >= 1.0 - TIE_SHARE {
        return vec![walked];
    }
    let mut found: Vec<Ended> = Vec::new();
    let mut supports: HashSet<Vec<usize>> = HashSet::new();
    for end in ends {
        let support = kept(&end.descent.x, problem.width());
        if supports.insert(support.clone()) {
            let mut state = State::new(problem, &singles, Buffers::default());
            support.into_iter().for_each(|column| {
                state.add(column);
            });
            let exchanges = polish(&mut state, within);
            found.push(after(function, end, &mut state, exchanges));
        }
    }
    found.push(walked);
    found
}

/// A descent that ends at a state, which may have another support.
fn after(function: &LeastSquares, end: Ended, state: &mut State, exchanges: usize) -> Ended {
    if exchanges == 0 && !end.is_forward {
        return Ended { exchanges: Some(0), ..end };
    }
    let mut coef = Vec::new();
    state.coefficients(&mut coef);
    let mut x = function.zero();
    let rows = x.chunks_exact_mut(state.problem.width());
    for (x, coef) in rows.zip(coef.chunks_exact(state.support().len().max(1))) {
        state.support().iter().zip(coef).for_each(|(&j, w)| x[j] = *w);
    }
    let polished = Some(function.value(&x));
    let descent = Descent { x, ..end.descent };
    Ended { descent, polished, exchanges: Some(exchanges), ..end }
}

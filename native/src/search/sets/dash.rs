//! DASH: add a random set of good groups at a time, in few adaptive rounds.
//!
//! ```text
//! S = {}
//! repeat r times:
//!     X = all but S,  t = (1 - eps) (OPT - f(S))
//!     while  E_R[f_S(R)] < alpha^2 t / r:                  R: a random subset of X of size k/r
//!         X = X - {a : E_R[f_{S + (R - a)}(a)] < alpha (1 + eps/2) t / k}
//!     S = S + R
//! ```
//!
//! Expectations are means over m sampled sets: one adaptive round. The twin of
//! `dbselect/selection/dash.py`, which has it for families, lazy rows and other objectives, and says
//! where and why it departs from its source: Qian, Singer (2019), Algorithm 1; Balkanski, Singer
//! (2018). What is drawn is drawn by `draws`, so that a seed has one answer in every engine.

use std::collections::HashMap;

use super::exchange::GoesOn;
use crate::search::draws::Draws;
use crate::search::linear::state::State;
use crate::search::walks::ties::{TIE_SHARE, best_first, first_of_the_best};

/// The least alpha that is guessed: below it, random sets pass unfiltered.
const LEAST_ALPHA: f64 = 0.5;
/// Guesses in a row that reach less than the best one before the lower ones are given up: values
/// fall with the thresholds, and a lower guess hardly ever wins.
const PATIENCE: usize = 2;

/// What a run is asked.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// Groups to hold in the end.
    pub k: usize,
    /// Number of sets; default: some log2 of the groups, and then no run takes more adaptive
    /// rounds than greedy, which is k.
    pub rounds: Option<usize>,
    /// Sets that an expectation is a mean of.
    pub samples: usize,
    /// Slack of the thresholds, and ratio of the grids of guesses.
    pub epsilon: f64,
    /// Value of the best k groups; default: a grid of guesses.
    pub opt: Option<f64>,
    /// How near to submodular the objective is; default: a grid of guesses.
    pub alpha: Option<f64>,
    /// Of what is drawn.
    pub seed: i64,
}

/// How groups were chosen.
#[derive(Clone)]
pub struct Run<'p> {
    /// With k groups.
    pub state: State<'p>,
    /// What was explained after each adaptive round.
    pub history: Vec<f64>,
    /// Sets whose value was computed.
    pub queries: usize,
    /// The guess that it ran under.
    pub opt: f64,
    /// See above.
    pub alpha: f64,
    /// Sets taken because a filter step removed no group.
    pub stalled: usize,
    /// Groups taken because too few passed the filter.
    pub completed: usize,
    /// No groups explain more; NaN if that was not computed.
    pub bound: f64,
}

/// What some random sets would add, and what each group would beside them.
struct Look<'p> {
    /// The stream after they were drawn.
    after: Draws,
    sets: Vec<Vec<usize>>,
    /// With each of the sets, until the best one alone is left.
    trials: Vec<State<'p>>,
    at_best: usize,
    gain: f64,
    marginal: Option<Vec<f64>>,
}

/// Groups held, those left, how many a set has, and the stream.
type Key = (Vec<usize>, Vec<usize>, usize, Draws);
/// Adaptive rounds by what they follow: runs under several guesses share their common rounds, as a
/// guess counts by its thresholds alone.
type Looks<'p> = HashMap<Key, Look<'p>>;

impl<'p> Look<'p> {
    fn of(state: &State<'p>, left: &[usize], size: usize, samples: usize, draws: &Draws) -> Self {
        let mut after = draws.clone();
        let sets: Vec<Vec<usize>> = (0..samples).map(|_| after.some_of(left, size)).collect();
        let mut gains = Vec::new();
        let trial = |set: &Vec<usize>| {
            let mut trial = state.clone();
            gains.push(set.iter().map(|&group| trial.add(group)).sum::<f64>());
            trial
        };
        let trials: Vec<State> = sets.iter().map(trial).collect();
        let at_best = first_of_the_best(&gains, &vec![true; samples]).unwrap_or(0);
        let gain = gains.iter().sum::<f64>() / samples as f64;
        Look { after, sets, trials, at_best, gain, marginal: None }
    }

    /// The state with the best of the sets.
    fn best(&mut self) -> State<'p> {
        self.keep_best();
        self.trials[0].clone()
    }

    fn keep_best(&mut self) {
        if self.trials.len() > 1 {
            self.trials = vec![self.trials.swap_remove(self.at_best)];
        }
    }

    /// What each group adds to the sets, itself aside, in the mean; `state` is the one before.
    fn marginal(&mut self, state: &State<'p>) -> &[f64] {
        let Look { sets, trials, marginal, at_best, .. } = self;
        let (mut gains, mut losses) = (Vec::new(), Vec::new());
        marginal.get_or_insert_with(|| {
            let mut sums = vec![0.0; state.size()];
            for (number, set) in sets.iter().enumerate() {
                let mut again;
                let trial = match trials.len() == sets.len() {
                    true => &mut trials[number],
                    false => {
                        again = state.clone();
                        set.iter().for_each(|&group| {
                            again.add(group);
                        });
                        &mut again
                    }
                };
                trial.gains(&mut gains);
                trial.losses(&mut losses);
                for ((sum, gain), loss) in sums.iter_mut().zip(&gains).zip(&losses) {
                    *sum += (gain + loss) / sets.len() as f64;
                }
            }
            if trials.len() == sets.len() && trials.len() > 1 {
                *trials = vec![trials.swap_remove(*at_best)];
            }
            sums
        })
    }
}

/// Choose k groups in `rounds` sets; none if the search does not go on.
fn search<'p>(
    start: &State<'p>,
    ask: &Ask,
    (opt, alpha): (f64, f64),
    looks: &mut Looks<'p>,
    goes_on: &mut GoesOn,
) -> Option<Run<'p>> {
    let Ask { k, samples, epsilon, .. } = *ask;
    let rounds = ask.rounds.unwrap_or_else(|| default_rounds(start.size(), k));
    let mut draws = Draws::new(ask.seed);
    let mut run = Run {
        state: start.clone(),
        history: Vec::new(),
        queries: 0,
        opt,
        alpha,
        stalled: 0,
        completed: 0,
        bound: f64::NAN,
    };
    for done in 0..rounds {
        let size = (k - run.state.held().len()).div_ceil(rounds - done);
        if size == 0 {
            break;
        }
        let unselected = waiting(&run.state);
        let mut left = unselected.clone();
        let t = (1.0 - epsilon) * (opt - run.state.explained());
        loop {
            if size == 1 {
                let mut gains = Vec::new();
                run.state.gains(&mut gains);
                if let Some(group) = first_of_the_best(&gains, run.state.waiting()) {
                    run.state.add(group);
                }
                run.queries += unselected.len();
                break;
            }
            let held = run.state.held().iter().map(|held| held.group).collect();
            let key = (held, left.clone(), size, draws.clone());
            let look = looks
                .entry(key)
                .or_insert_with(|| Look::of(&run.state, &left, size, samples, &draws));
            draws = look.after.clone();
            run.queries += samples;
            if reaches(look.gain, alpha * alpha * t / rounds as f64) {
                run.state = look.best();
                break;
            }
            run.queries += samples * unselected.len();
            let least = alpha * (1.0 + epsilon / 2.0) * t / k as f64;
            let marginal = look.marginal(&run.state);
            let is_kept = |group: &usize| reaches(marginal[*group], least);
            let kept: Vec<usize> = left.iter().copied().filter(is_kept).collect();
            if kept.len() == left.len() {
                run.stalled += 1;
                run.state = look.best();
                break;
            }
            let spent = run.history.len() + 1 + rounds - done;
            if kept.len() < size || (ask.rounds.is_none() && spent > k) {
                let values: Vec<f64> = unselected.iter().map(|&group| marginal[group]).collect();
                for at in best_first(&values).into_iter().take(size) {
                    run.state.add(unselected[at]);
                }
                run.completed += size;
                break;
            }
            run.history.push(run.state.explained());
            if !goes_on(Some(run.state.explained())) {
                return None;
            }
            left = kept;
        }
        run.history.push(run.state.explained());
        if !goes_on(Some(run.state.explained())) {
            return None;
        }
    }
    Some(run)
}

/// Run under guesses of OPT and alpha, and return the best run; none if it does not go on.
///
/// OPT is `(1 + eps)^i max_a f(a)` from f(all) down, with the largest alpha; then alpha is
/// `(1 + eps)^-i` from 1 down, with the OPT that won. A guess of OPT that a run has reached is too
/// low and is left out, and so is every guess once a run has f(all), or once `PATIENCE` in a row
/// reached less; of runs that tie, the first wins. What is given is not guessed.
pub fn best_guess<'p>(start: &State<'p>, ask: &Ask, goes_on: &mut GoesOn) -> Option<Run<'p>> {
    let alphas = ask.alpha.map_or_else(|| powers(1.0, LEAST_ALPHA, ask.epsilon), |one| vec![one]);
    let (mut bound, mut opts) = (f64::NAN, ask.opt.into_iter().collect::<Vec<_>>());
    if opts.is_empty() {
        let mut all = start.clone();
        waiting(&all).into_iter().for_each(|group| {
            all.add(group);
        });
        bound = all.explained();
        let mut gains = Vec::new();
        start.clone().gains(&mut gains);
        opts = powers(bound, gains.iter().copied().fold(0.0, f64::max), ask.epsilon);
    }
    let mut looks = Looks::new();
    let mut best = search(start, ask, (opts[0], alphas[0]), &mut looks, goes_on)?;
    let mut better = |mut best: Run<'p>, others: Vec<(f64, f64)>| {
        let mut behind = 0;
        for (opt, alpha) in others {
            // No guess can win against all there is, and one below what is reached is too low.
            let known = if bound.is_nan() || bound == 0.0 { opt } else { f64::min(opt, bound) };
            if behind == PATIENCE || reaches(best.state.explained(), known) {
                break;
            }
            let other = search(start, ask, (opt, alpha), &mut looks, goes_on)?;
            let reached = best.state.explained();
            let is_better = other.state.explained() > reached + TIE_SHARE * reached.abs();
            behind = if is_better { 0 } else { behind + 1 };
            if is_better {
                best = other;
            }
        }
        Some(best)
    };
    best = better(best, opts[1..].iter().map(|&opt| (opt, alphas[0])).collect())?;
    let won = best.opt;
    best = better(best, alphas[1..].iter().map(|&alpha| (won, alpha)).collect())?;
    Some(Run { bound, ..best })
}

/// Sets unless asked: `log2(n)`, at most `k / 4`, but four, or k, where there are so few that a set
/// of several hardly saves a round.
fn default_rounds(size: usize, k: usize) -> usize {
    let few = k.div_ceil(4).min((size.max(2) as f64).log2().ceil() as usize);
    few.max(k.min(4))
}

fn waiting(state: &State) -> Vec<usize> {
    (0..state.size()).filter(|&group| state.waiting()[group]).collect()
}

/// Whether a number is at least another, which a tie is.
fn reaches(value: f64, least: f64) -> bool {
    value >= least - TIE_SHARE * least.abs()
}

/// `largest (1 + epsilon)^-i` as long as it is not below `least`.
fn powers(largest: f64, least: f64, epsilon: f64) -> Vec<f64> {
    let steps = match least > 0.0 {
        true => ((largest / least).max(1.0).ln() / epsilon.ln_1p() + 1e-9) as i32,
        false => 0,
    };
    (0..=steps).map(|i| largest * (1.0 + epsilon).powi(-i)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::linear::state::Buffers;
    use crate::search::problem::Linear;

    /// Independent columns that explain 1/2, 1/4, 1/8, ... of the target.
    fn problem(width: usize) -> Linear {
        Linear {
            correlations: (0..width * width)
                .map(|at| f64::from(u8::from(at % (width + 1) == 0)))
                .collect(),
            target: (1..=width).map(|j| 0.5f64.powi(j as i32).sqrt()).collect(),
            ridge: vec![0.0; width],
            unit: vec![1.0; width],
            spread: vec![1.0; width],
            constant: vec![false; width],
            mean: vec![0.0; width],
            ..Linear::default()
        }
    }

    const ASK: Ask =
        Ask { k: 4, rounds: None, samples: 5, epsilon: 0.1, opt: None, alpha: None, seed: 0 };

    fn chosen(ask: &Ask, goes_on: &mut GoesOn) -> Option<Vec<usize>> {
        let (problem, starts) = (problem(12), (0..=12).collect::<Vec<_>>());
        let state = State::new(&problem, &starts, Buffers::default());
        let run = best_guess(&state, ask, goes_on)?;
        assert!(run.queries > 0 && run.bound >= run.state.explained());
        assert_eq!(run.history.last(), Some(&run.state.explained()));
        Some(run.state.held().iter().map(|held| held.group).collect())
    }

    #[test]
    fn as_many_rounds_as_groups_are_greedy() {
        let ask = Ask { rounds: Some(4), ..ASK };
        assert_eq!(chosen(&ask, &mut |_| true), Some(vec![0, 1, 2, 3]));
        assert_eq!(chosen(&ASK, &mut |_| true), Some(vec![0, 1, 2, 3]));
    }

    #[test]
    fn sets_of_several_reach_most_and_a_seed_has_one_answer() {
        for seed in 0..5 {
            let ask = Ask { rounds: Some(2), seed, ..ASK };
            let found = chosen(&ask, &mut |_| true).unwrap();
            assert_eq!(found.len(), 4);
            let explained: f64 = found.iter().map(|&j| 0.5f64.powi(j as i32 + 1)).sum();
            assert!(explained > 0.7 * 0.9375, "{found:?}");
            assert_eq!(chosen(&ask, &mut |_| true), Some(found));
        }
    }

    #[test]
    fn a_search_that_does_not_go_on_has_no_answer() {
        assert_eq!(chosen(&ASK, &mut |_| false), None);
    }
}

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
//! Expectations are means over m sampled sets, asked side by side for all guesses of OPT and alpha:
//! one adaptive round. A set that is taken without having been asked is one of the next round.
//! `dbselect/selection/dash.py` has it for families, lazy rows and other objectives, and says where
//! and why it departs from its source, unless it is literal: Qian, Singer (2019), Algorithm 1;
//! Balkanski, Singer (2018). What is drawn is drawn by `draws`, so that a seed has one answer in
//! every engine.

use std::collections::{HashMap, HashSet};

use super::exchange::GoesOn;
use crate::linear::state::State;
use crate::search::draws::Draws;
use crate::search::walks::ties::{TIE_SHARE, best_first, first_of_the_best};

/// The alphas that are guessed.
const ALPHAS: [f64; 2] = [1.0, 0.5];

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
    /// Whether to do as the source does, and no more: X goes on from set to set, the first set that
    /// is drawn is taken, nothing fills a set, and the guesses are those that it prints.
    pub literal: bool,
}

impl Ask {
    /// The alphas that are guessed, of n groups.
    fn alphas(&self, n: usize) -> Vec<f64> {
        match self.alpha {
            Some(alpha) => vec![alpha],
            None if self.literal => self.printed(n).map(|power| 1.0 / power).collect(),
            None => ALPHAS.to_vec(),
        }
    }

    /// The powers of 1 + epsilon of the paper's grids, for i from 0 to ln(n) / epsilon.
    fn printed(&self, n: usize) -> impl Iterator<Item = f64> {
        let ratio = 1.0 + self.epsilon;
        (0..=((n as f64).ln() / self.epsilon + 1e-9) as i32).map(move |i| ratio.powi(i))
    }

    /// Filter steps of a set after which a literal run never ends, by Lemma 20.
    fn most_filters(&self, n: usize) -> usize {
        ((n.max(2) as f64).ln() / (self.epsilon / 2.0).ln_1p()).ceil() as usize
    }
}

/// How groups were chosen.
#[derive(Clone)]
pub struct Run<'p> {
    /// With k groups.
    pub state: State<'p>,
    /// The most that was explained after each adaptive round.
    pub history: Vec<f64>,
    /// Sets whose value was computed.
    pub queries: usize,
    /// The guess that it ran under; NaN of the groups that are best alone.
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

/// Random sets of some groups, and the set that is best by the last means; an empty set for one, and
/// none at the end.
#[derive(Clone)]
struct Question {
    sets: Vec<Vec<usize>>,
    first: Vec<usize>,
    /// Whether the groups held are asked, too.
    is_new: bool,
    key: Key,
}

/// What the sets add in the mean, what each group adds beside them, and the state with the set that
/// is taken: the best, or literally the first.
struct Look<'p> {
    gain: f64,
    marginal: Vec<f64>,
    taken: State<'p>,
}

/// A sorted set and how many groups may be more or less, so that the value is known.
type Known = (Vec<usize>, usize);

impl Question {
    /// The sets whose value the answer has.
    fn known(&self, held: &[usize]) -> Vec<Known> {
        let around = self.sets.iter().map(|set| (joined(held, set), 1));
        around.chain([(joined(held, &self.first), 0)]).collect()
    }

    /// Whether earlier answers have all values.
    fn is_known(&self, held: &[usize], known: &HashSet<Known>) -> bool {
        let is_near = |set: &[usize]| {
            known.iter().any(|(near, most)| {
                let common = set.iter().filter(|group| near.binary_search(group).is_ok()).count();
                set.len() + near.len() - 2 * common <= *most
            })
        };
        self.sets.iter().all(|set| known.contains(&(joined(held, set), 1)))
            && (self.first.is_empty() || is_near(&joined(held, &self.first)))
            && (!self.is_new || is_near(held))
    }
}

fn joined(held: &[usize], set: &[usize]) -> Vec<usize> {
    let mut all = [held, set].concat();
    all.sort_unstable();
    all
}

/// Groups held, those left, the set by the means, how many a set has, and the stream.
type Key = (Vec<usize>, Vec<usize>, Vec<usize>, usize, Draws);

impl<'p> Look<'p> {
    fn of(state: &State<'p>, question: &Question, literal: bool) -> Self {
        let Question { sets, first, .. } = question;
        let asked = sets.iter().chain((!first.is_empty()).then_some(first));
        let mut gains = Vec::new();
        let trial = |set: &Vec<usize>| {
            let mut trial = state.clone();
            gains.push(set.iter().map(|&group| trial.add(group)).sum::<f64>());
            trial
        };
        let mut trials: Vec<State> = asked.map(trial).collect();
        let mut marginal = vec![0.0; state.size()];
        let (mut more, mut less) = (Vec::new(), Vec::new());
        for trial in &mut trials[..sets.len()] {
            trial.gains(&mut more);
            trial.losses(&mut less);
            for ((sum, gain), loss) in marginal.iter_mut().zip(&more).zip(&less) {
                *sum += (gain + loss) / sets.len() as f64;
            }
        }
        let gain = gains[..sets.len()].iter().sum::<f64>() / sets.len() as f64;
        let best = first_of_the_best(&gains, &vec![!literal; gains.len()]).unwrap_or(0);
        let taken = trials.into_iter().nth(best).unwrap_or_else(|| state.clone());
        Look { gain, marginal, taken }
    }
}

/// A run under one guess, which waits for the answer to a question.
struct Guess<'p> {
    run: Run<'p>,
    left: Vec<usize>,
    /// Of the last answer, or of the groups alone.
    means: Option<Vec<f64>>,
    /// Whether the means are the gains of what is held now.
    is_fresh: bool,
    draws: Draws,
    /// Sets done, and answers had.
    done: usize,
    asked: usize,
    /// Filter steps of this set.
    filters: usize,
    /// Whether the groups held were taken without having been asked.
    is_new: bool,
    question: Option<Question>,
}

impl<'p> Guess<'p> {
    fn new(start: &State<'p>, ask: &Ask, (opt, alpha): (f64, f64), alone: Option<&[f64]>) -> Self {
        let run = Run {
            state: start.clone(),
            history: Vec::new(),
            queries: 0,
            opt,
            alpha,
            stalled: 0,
            completed: 0,
            bound: f64::NAN,
        };
        let mut guess = Guess {
            run,
            left: Vec::new(),
            means: alone.map(<[f64]>::to_vec),
            is_fresh: alone.is_some(),
            draws: Draws::new(ask.seed),
            done: 0,
            asked: usize::from(alone.is_some()),
            filters: 0,
            is_new: false,
            question: None,
        };
        guess.begin_set(ask);
        guess
    }

    fn rounds(&self, ask: &Ask) -> usize {
        ask.rounds.unwrap_or_else(|| default_rounds(self.run.state.size(), ask.k))
    }

    fn size(&self, ask: &Ask) -> usize {
        (ask.k - self.run.state.held().len()).div_ceil(self.rounds(ask) - self.done)
    }

    /// Ask about the next set, if there is one; a set of one needs no answer where gains are known.
    fn begin_set(&mut self, ask: &Ask) {
        if self.done == self.rounds(ask) || self.size(ask) == 0 {
            return self.end();
        }
        self.filters = 0;
        if ask.literal && self.done > 0 {
            self.left.retain(|&group| self.run.state.waiting()[group]);
        } else {
            self.left = waiting(&self.run.state);
        }
        if self.size(ask) == 1 && self.is_fresh {
            self.take_one(ask);
        } else {
            self.wonder(ask);
        }
    }

    fn wonder(&mut self, ask: &Ask) {
        let size = self.size(ask);
        if self.left.len() < size {
            // Literally the end: what is left of X.
            self.left.iter().for_each(|&group| {
                self.run.state.add(group);
            });
            self.is_new = !self.left.is_empty();
            return self.end();
        }
        let is_one = size == 1 && !ask.literal;
        let first = match &self.means {
            Some(means) if !is_one && !ask.literal => best_of(means, &self.left, size),
            _ => Vec::new(),
        };
        let sets = match is_one {
            true => vec![Vec::new()],
            false => (0..ask.samples).map(|_| self.draws.some_of(&self.left, size)).collect(),
        };
        self.ask(sets, first, size);
    }

    fn ask(&mut self, sets: Vec<Vec<usize>>, first: Vec<usize>, size: usize) {
        let held = self.held();
        let key = (held, self.left.clone(), first.clone(), size, self.draws.clone());
        let is_new = std::mem::take(&mut self.is_new);
        self.question = Some(Question { sets, first, is_new, key });
    }

    fn held(&self) -> Vec<usize> {
        self.run.state.held().iter().map(|held| held.group).collect()
    }

    /// Ask about the groups held, if nothing did.
    fn end(&mut self) {
        self.question = None;
        self.left.clear();
        if self.is_new {
            self.ask(Vec::new(), Vec::new(), 0);
        }
    }

    fn take_one(&mut self, ask: &Ask) {
        let means = self.means.take().unwrap_or_default();
        if let Some(group) = first_of_the_best(&means, self.run.state.waiting()) {
            self.run.state.add(group);
        }
        self.means = Some(means);
        self.next_set(ask);
    }

    fn next_set(&mut self, ask: &Ask) {
        self.is_fresh = false;
        self.done += 1;
        self.begin_set(ask);
    }

    /// Take an answer: go on with a set, or filter and ask again.
    fn hear(&mut self, ask: &Ask, question: &Question, look: &Look<'p>) {
        if question.sets.is_empty() {
            return self.end();
        }
        let (size, rounds) = (self.size(ask), self.rounds(ask));
        let t = (1.0 - ask.epsilon) * (self.run.opt - self.run.state.explained());
        let alpha = self.run.alpha;
        self.asked += 1;
        self.is_fresh = false;
        self.means = Some(look.marginal.clone());
        if size == 1 && !ask.literal {
            return self.take_one(ask);
        }
        if reaches(look.gain, alpha * alpha * t / rounds as f64) {
            self.run.state = look.taken.clone();
            return self.next_set(ask);
        }
        let least = alpha * (1.0 + ask.epsilon / 2.0) * t / ask.k as f64;
        let is_kept = |group: &usize| reaches(look.marginal[*group], least);
        let kept: Vec<usize> = self.left.iter().copied().filter(is_kept).collect();
        self.filters += 1;
        if ask.literal {
            if self.filters == ask.most_filters(self.run.state.size()) {
                return self.end();
            }
            self.left = kept;
            return self.wonder(ask);
        }
        if kept.len() == self.left.len() {
            self.run.stalled += 1;
            self.run.state = look.taken.clone();
            return self.next_set(ask);
        }
        // A last set of several that is completed is asked on its own.
        let to_go = rounds - self.done;
        let last = usize::from((ask.k - self.run.state.held().len()) / to_go > 1);
        let is_late = ask.rounds.is_none() && self.asked + to_go + last > ask.k;
        if kept.len() < size || is_late {
            for group in best_of(&look.marginal, &waiting(&self.run.state), size) {
                self.run.state.add(group);
            }
            self.is_new = true;
            self.run.completed += size;
            return self.next_set(ask);
        }
        self.left = kept;
        self.wonder(ask);
    }
}

/// Run under all guesses of OPT and alpha side by side, and return the best run; none if it does
/// not go on.
///
/// OPT is `f(all) (1 + eps)^-i`, at least `max_a f(a)`, alpha one of `ALPHAS`: all pairs. A guess of
/// OPT that anything asked has reached is too low and is left out; of runs that tie, the first
/// wins; the groups that are best alone are one more answer. What is given is not guessed. Literally
/// OPT is `(1 + eps)^i max_a f(a)` and alpha `(1 + eps)^-i`, and all are followed to their ends.
pub fn best_guess<'p>(start: &State<'p>, ask: &Ask, goes_on: &mut GoesOn) -> Option<Run<'p>> {
    let alphas = ask.alphas(start.size());
    let (mut bound, mut opts) = (f64::NAN, ask.opt.into_iter().collect::<Vec<_>>());
    let (mut alone, mut top, mut reached) = (None, None, 0.0);
    let (mut history, mut queries) = (Vec::new(), 0);
    let with = |groups: Vec<usize>| {
        let mut state = start.clone();
        groups.into_iter().for_each(|group| {
            state.add(group);
        });
        state
    };
    if opts.is_empty() {
        let mut gains = Vec::new();
        start.clone().gains(&mut gains);
        let largest = gains.iter().copied().fold(0.0, f64::max);
        queries = start.size();
        if ask.literal {
            opts = ask.printed(start.size()).map(|power| largest * power).collect();
        } else {
            bound = with(waiting(start)).explained();
            opts = powers(bound, largest, ask.epsilon);
            queries += 1;
        }
        history.push(start.explained() + largest);
        if !goes_on(history.last().copied()) {
            return None;
        }
        if !ask.literal {
            let best = with(best_of(&gains, &waiting(start), ask.k - start.held().len()));
            reached = if ask.k > 1 { best.explained() } else { 0.0 };
            top = Some(best);
            alone = Some(gains);
        }
    }
    let pairs = opts.iter().flat_map(|&opt| alphas.iter().map(move |&alpha| (opt, alpha)));
    let mut guesses: Vec<Guess> =
        pairs.map(|pair| Guess::new(start, ask, pair, alone.as_deref())).collect();
    let mut dropped = vec![false; guesses.len()];
    let is_open = |guess: &Guess| guess.question.is_some();
    queries += usize::from(top.is_some() && guesses.iter().any(is_open));
    let mut looks: HashMap<Key, Look> = HashMap::new();
    let mut known = HashSet::new();
    if ask.opt.is_none() {
        let held: Vec<usize> = start.held().iter().map(|held| held.group).collect();
        known.insert((joined(&held, &[]), 1));
    }
    loop {
        let open: Vec<usize> = (0..guesses.len())
            .filter(|&at| !dropped[at] && guesses[at].question.is_some())
            .collect();
        if open.is_empty() {
            break;
        }
        for guess in open.iter().map(|&at| &guesses[at]) {
            known.extend(guess.question.iter().flat_map(|question| question.known(&guess.held())));
        }
        for &at in &open {
            let guess = &mut guesses[at];
            let Some(question) = guess.question.clone() else { continue };
            let state = &guess.run.state;
            let look = looks.entry(question.key.clone()).or_insert_with(|| {
                let sets = question.sets.iter().chain([&question.first]);
                queries += question.sets.len() * (state.size() - state.held().len());
                queries += sets.filter(|set| !set.is_empty()).count();
                queries += usize::from(question.is_new);
                Look::of(state, &question, ask.literal)
            });
            guess.hear(ask, &question, look);
            while let Some(question) = guess.question.take() {
                if !question.is_known(&guess.held(), &known) {
                    guess.question = Some(question);
                    break;
                }
                let look = Look::of(&guess.run.state, &question, ask.literal);
                guess.hear(ask, &question, &look);
            }
            if guess.question.as_ref().is_none_or(|question| !question.is_new) {
                reached = f64::max(reached, guess.run.state.explained());
            }
        }
        let is_low = |guess: &Guess| {
            if ask.literal {
                return false;
            }
            let known = if bound.is_nan() || bound == 0.0 { guess.run.opt } else { bound };
            reaches(reached, f64::min(guess.run.opt, known))
        };
        let going: Vec<usize> =
            open.iter().copied().filter(|&at| guesses[at].question.is_some()).collect();
        let low: Vec<usize> = going.iter().copied().filter(|&at| is_low(&guesses[at])).collect();
        // Some run is always followed to its end.
        let has_end = (0..guesses.len()).any(|at| !dropped[at] && !is_open(&guesses[at]));
        let kept = usize::from(!has_end && low.len() == going.len());
        low.into_iter().skip(kept).for_each(|at| dropped[at] = true);
        history.push(reached);
        if !goes_on(Some(reached)) {
            return None;
        }
    }
    let ended = guesses.into_iter().zip(dropped).filter(|(_, dropped)| !dropped);
    let mut runs = ended.map(|(guess, _)| guess.run);
    let mut best = runs.next()?;
    let top = top.map(|state| Run {
        state,
        opt: f64::NAN,
        alpha: f64::NAN,
        stalled: 0,
        completed: 0,
        ..best.clone()
    });
    for other in runs.chain(top) {
        let reached = best.state.explained();
        if other.state.explained() > reached + TIE_SHARE * reached.abs() {
            best = other;
        }
    }
    Some(Run { bound, history, queries, ..best })
}

/// The best of some groups by their values.
fn best_of(values: &[f64], of: &[usize], count: usize) -> Vec<usize> {
    let own: Vec<f64> = of.iter().map(|&group| values[group]).collect();
    best_first(&own).into_iter().take(count).map(|at| of[at]).collect()
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
    use crate::linear::problem::Linear;
    use crate::linear::state::Buffers;

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

    const ASK: Ask = Ask {
        k: 4,
        rounds: None,
        samples: 5,
        epsilon: 0.1,
        opt: None,
        alpha: None,
        seed: 0,
        literal: false,
    };

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

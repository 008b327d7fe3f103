"""DASH: add a random set of good candidates at a time, in few adaptive rounds.

    S = {}, X = all
    repeat r times:
        t = (1 - eps) (OPT - f(S))
        while  E_R[f_S(R)] < alpha^2 t / r:                  R: a random subset of X of size k/r
            X = X - {a : E_R[f_{S + (R - a)}(a)] < alpha (1 + eps/2) t / k}
        S = S + R

Expectations are means over m sampled sets, asked for all guesses of OPT and alpha side by side: one
adaptive round is one batch of queries. Guesses ask the same until they decide differently; that is
asked once.

Source: Qian, Singer (2019), Algorithm 1, appendices G and H. Departures, which `LITERAL` leaves
out: X starts anew for each set, as in Balkanski and Singer (2018), since a candidate may become
useful after others; beside the m sets the one that is best by the last means is asked, and the best
of all is taken; where X or the limit of adaptive rounds runs out, the set is the best by the last
means; where a filter step leaves everybody in, the best set is taken as it is; alpha is one of
`ALPHAS`; and the k candidates that are best alone are one more answer. So it always ends with k. A
set of one is the one with the largest gain.
"""

import math
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import Any, Generic

import numpy as np

from dbselect._native import RandomSets
from dbselect.linear.problem import Index
from dbselect.objectives.contract import (
    O,
    Objective,
    ReadsAhead,
    ask_around,
    ask_sets,
    with_added,
)
from dbselect.record.gram import Vector
from dbselect.record.steps import BUDGET_SLACK, Stop
from dbselect.selection.ties import TIE_SHARE, Mask, best_first, first_of_the_best

#: The alphas that are guessed: what is reached hardly depends on them, and below the last
#: random sets pass unfiltered.
ALPHAS = (1.0, 0.5)

#: Takes the value of the objective after every adaptive round.
Told = Callable[[float], None]
#: Maps a function over questions, which may be asked side by side, as `map` of an executor does.
Together = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]


@dataclass(frozen=True)
class Run(Generic[O]):
    """How k candidates were selected."""

    objective: O  # with k candidates selected
    history: list[float]  # the best value after each adaptive round
    queries: int  # sets whose value was computed
    # opt, alpha: the guess that won
    opt: float | None = None
    alpha: float | None = None
    stalled: int = 0  # sets taken because a filter step removed no candidate
    completed: int = 0  # candidates taken because too few passed the filter
    bound: float | None = None  # upper bound on the value of any set; None if not computed
    # what ended it before k were selected, so that this is the best set so far; None if none
    stop: Stop | None = None


@dataclass(frozen=True)
class Practice:
    """What is done beside Algorithm 1."""

    restarts: bool = True  # X starts anew for each set
    # the best of the sets is taken, of which one is the best by the last means; else the first
    takes_best: bool = True
    completes: bool = True  # a set is always full
    # guesses; none for the paper's own, ``(1 + eps)^-i`` for i to ln(n) / eps
    alphas: tuple[float, ...] = ALPHAS


PRACTICE, LITERAL = Practice(), Practice(False, False, False, ())


@dataclass(frozen=True)
class DashAsk:
    """What is asked of a run."""

    k: int  # how many of the n candidates to select
    # r, number of sets; None: `default_rounds`, and then no run takes more adaptive rounds than
    # greedy, which is k
    rounds: int | None = None
    samples: int = 5  # m, sets that an expectation is a mean of
    epsilon: float = 0.1  # in (0, 1), slack of the thresholds and ratio of the guesses
    opt: float | None = None  # > 0, best value of k candidates; None to guess
    alpha: float | None = None  # in (0, 1], differential submodularity; None to guess
    seed: int = 0
    practice: Practice = PRACTICE


@dataclass(frozen=True, eq=False)
class Question(Generic[O]):
    """Random sets of some candidates beside those held, and what every candidate adds to them."""

    objective: O  # with those held
    left: Index  # X
    sets: list[list[int]]  # sampled from X; none at all for one candidate
    first: list[int]  # the best by the last means; empty if it is not asked
    drawn: int  # numbers drawn after the sets

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells questions apart."""
        own = tuple(self.objective.held), self.left.tobytes(), tuple(self.first)
        return (*own, self.drawn, len(self.sets[0]))

    @property
    def queries(self) -> int:
        """Sets whose value is asked: each sample, with another candidate, or less one."""
        others = self.objective.size - len(self.objective.held)
        return len(self.sets) * others + sum(map(bool, [*self.sets, self.first]))


@dataclass(frozen=True, eq=False)
class Look(Generic[O]):
    """What a question tells: the mean gain, the means of all candidates, and two states."""

    gain: float
    marginal: Vector
    sampled: O
    best: O


def look_at(question: Question[O]) -> Look[O]:
    """Ask a question, each of whose sets is a state of its own."""
    sets = [*question.sets, question.first] if question.first else question.sets
    trials = [question.objective.copy() for _ in sets]
    gains = np.array([t.add_all(R) if R else 0.0 for t, R in zip(trials, sets, strict=True)])
    m = len(question.sets)
    # Beside no sample nobody is lost.
    lost = (lambda trial: trial.losses()) if question.sets[0] else (lambda _: 0.0)
    marginal = np.mean([trial.gains() + lost(trial) for trial in trials[:m]], axis=0)
    at = first_of_the_best(gains, np.ones(len(gains), dtype=bool))
    if not sets[0]:
        trials = [question.objective]
    return Look(float(gains[:m].mean()), np.asarray(marginal), trials[0], trials[at])


def _ask(questions: Iterable[Question[O]]) -> None:
    """Ask at once for all values of some questions, of an objective that has to be asked."""
    each = list(questions)
    if each and hasattr(each[0].objective, "ask"):
        sets = [(one.objective, R) for one in each for R in [*one.sets, one.first]]
        ask_sets(each[0].objective, [[*objective.held, *R] for objective, R in sets])
        ask_around([with_added(one.objective, R) for one in each for R in one.sets])


def dash_search(
    objective: O, ask: DashAsk, opt: float, alpha: float, alone: Vector | None = None
) -> Generator[Question[O], Look[O], Run[O]]:
    """Select k candidates under one guess, a question a round; `alone` are gains asked before."""
    k, epsilon, practice = ask.k, ask.epsilon, ask.practice
    rounds = ask.rounds or default_rounds(objective.size, k)
    draws = RandomSets(ask.seed)
    # By Lemma 20 a literal run that has not ended by then never does.
    most = math.ceil(math.log(max(objective.size, 2)) / math.log1p(epsilon / 2.0))
    fresh = alone is not None
    means = np.empty(0) if alone is None else alone
    asked, stalled, completed = int(fresh), 0, 0
    left = np.empty(0, np.intp)
    for done in range(rounds):
        size = -(-(k - len(objective.held)) // (rounds - done))
        if not size:
            break
        unselected = np.flatnonzero(_unselected(objective))
        anew = practice.restarts or not done
        left = unselected if anew else np.setdiff1d(left, objective.held)
        t = (1.0 - epsilon) * (opt - objective.value)
        for turn in count(1):
            if len(left) < size:
                # Literally the end: what is left of X.
                return Run(with_added(objective, left.tolist()), [], asked, opt, alpha)
            one = size == 1 and practice.takes_best
            if not (one and fresh):
                known = practice.takes_best and not one and len(means)
                first = left[best_first(means[left])[:size]].tolist() if known else []
                sets = [[]] if one else draws.sets(left, size, ask.samples)
                look = yield Question(objective, left, sets, first, draws.drawn)
                asked, means, fresh = asked + 1, look.marginal, False
            if one:
                taken = [first_of_the_best(means, _unselected(objective))]
                objective, fresh = with_added(objective, taken), False
                break
            if _reaches(look.gain, alpha**2 * t / rounds):
                objective = look.best if practice.takes_best else look.sampled
                break
            kept = left[_reaches(means[left], alpha * (1.0 + epsilon / 2.0) * t / k)]
            if practice.completes and len(kept) == len(left):
                stalled += 1
                objective = look.best
                break
            late = ask.rounds is None and asked + rounds - done > k
            if practice.completes and (len(kept) < size or late):
                taken = unselected[best_first(means[unselected])[:size]].tolist()
                objective = with_added(objective, taken)
                completed += size
                break
            if turn == most:
                return Run(objective, [], asked, opt, alpha)
            left = kept
    return Run(objective, [], asked, opt, alpha, stalled, completed)


def default_rounds(size: int, k: int) -> int:
    """Return ``log2(n)``, at most ``k / 4`` for half of greedy's rounds, but at least 4 or k."""
    few = min(-(-k // 4), math.ceil(math.log2(max(size, 2))))
    return max(few, min(k, 4))


def best_guess(
    objective: O, ask: DashAsk, told: Told = lambda _: None, together: Together = map
) -> Run[O]:
    """Run DASH under all guesses of OPT and alpha side by side, and return the best run.

    OPT is ``(1 + eps)^i max_a f(a)``, at most f(all) or what is known to be no less, alpha ``(1 +
    eps)^-i``. A guess of OPT that an answer has reached is too low; of runs that tie the first
    wins.
    """
    n, practice = objective.size, ask.practice
    bound, opts, alone, queries = None, [ask.opt or 0.0], None, 0
    history: list[float] = []
    if ask.opt is None:
        bound, alone = _most(objective), objective.gains()
        opts, queries = _powers(bound, float(alone.max()), ask.epsilon), n + 1
        history = [float(alone.max())]
    guesses = [(opt, alpha) for opt in opts for alpha in _alphas(ask, n)]
    known = alone if practice.takes_best else None
    runs = {guess: dash_search(objective, ask, *guess, known) for guess in guesses}
    answers: dict[tuple[Any, ...], Look[O]] = {}
    ends: dict[tuple[float, float], Run[O]] = {}
    asks: dict[tuple[float, float], Question[O]] = {}
    reached, top = 0.0, []
    if known is not None:
        # The k that are best alone are asked with the first sets.
        free = np.flatnonzero(_unselected(objective))
        alike = free[best_first(known[free])[: ask.k - len(objective.held)]]
        top = [Run(with_added(objective, alike.tolist()), [], 0)]
        reached = top[0].objective.value if ask.k > 1 else reached

    def goes_on(guess: tuple[float, float], look: Any) -> float:
        """Take a run to its next question, or to its end; return what it has reached."""
        try:
            asks[guess] = runs[guess].send(look)
            return asks[guess].objective.value
        except StopIteration as end:
            asks.pop(guess, None)
            ends[guess] = end.value
            return float(end.value.objective.value)

    for value in history:
        told(value)
    for guess in guesses:
        goes_on(guess, None)
    queries += bool(asks and top)
    while asks:
        new = {one.key: one for one in asks.values() if one.key not in answers}
        if isinstance(objective, ReadsAhead):
            sets = chain.from_iterable([*one.sets, one.first] for one in new.values())
            objective.expect(list(dict.fromkeys(chain.from_iterable(sets))))
        _ask(new.values())
        answers |= zip(new, together(look_at, new.values()), strict=True)
        queries += sum(one.queries for one in new.values())
        values = [goes_on(guess, answers[one.key]) for guess, one in list(asks.items())]
        # Sets that were drawn are not drawn again in a later round.
        answers = {key: look for key, look in answers.items() if not key[-1]}
        reached = max(reached, *values)
        low = [guess for guess in asks if _reaches(reached, min(guess[0], bound or guess[0]))]
        # Some run is always followed to its end.
        for guess in low[not ends and len(low) == len(asks) :]:
            del asks[guess]
        history.append(reached)
        told(reached)
    every = [*(ends[guess] for guess in guesses if guess in ends), *top]
    best = every[0]
    for other in every[1:]:
        best = _better(best, other)
    return replace(best, history=history, queries=queries, bound=bound)


def _alphas(ask: DashAsk, n: int) -> list[float]:
    if ask.alpha is not None:
        return [ask.alpha]
    if ask.practice.alphas:
        return list(ask.practice.alphas)
    return _powers(1.0, (1.0 + ask.epsilon) ** -(math.log(max(n, 2)) / ask.epsilon), ask.epsilon)


def _most(objective: Objective) -> float:
    """Return what no candidates exceed: the value of all, unless that would read too much."""
    if isinstance(objective, ReadsAhead):
        return objective.most
    return with_added(objective, np.flatnonzero(_unselected(objective)).tolist()).value


def _reaches(values: Any, least: float) -> Any:
    """Return whether a number, or each of some, is at least another, which a tie is."""
    return values >= least - TIE_SHARE * abs(least)


def _better(best: Run[O], other: Run[O]) -> Run[O]:
    """Return the run that reached more, the first if they tie."""
    reached = best.objective.value
    return other if other.objective.value > reached + TIE_SHARE * abs(reached) else best


@dataclass(frozen=True)
class Limits:
    """What a choice of candidates one by one may take."""

    k: int  # most candidates
    first: tuple[int, ...] = ()  # candidates to take first, within k and the budget
    budget: float | None = None  # limit on the summed cost; None = no limit
    costs: Vector | None = None  # shape (n,), > 0; None where nothing has a cost
    start: tuple[int, ...] = ()  # candidates that exchanges begin with, the first ones among them

    def fitting(self, taken: Sequence[int], size: int) -> Mask:
        """Return which of the n candidates may be added to those taken."""
        fitting = np.full(size, len(taken) < self.k)
        fitting[list(taken)] = False
        if self.budget is not None and self.costs is not None:
            spent = self.costs[list(taken)].sum() + self.costs
            fitting &= spent <= self.budget * (1.0 + BUDGET_SLACK)
        return fitting


def greedy_choice(objective: O, limits: Limits, told: Told = lambda _: None) -> Run[O]:
    """Take the fitting candidate of the largest gain, again and again, an adaptive round each."""
    objective = with_added(objective, limits.first)
    history: list[float] = []
    queries = 0
    while (candidates := limits.fitting(objective.held, objective.size)).any():
        objective.add(first_of_the_best(objective.gains(), candidates))
        history.append(objective.value)
        told(objective.value)
        queries += int(candidates.sum())
    return Run(objective, history, queries)


def top_k_choice(objective: O, limits: Limits) -> Run[O]:
    """Take the candidates with the largest values alone that fit: one adaptive round."""
    gains = objective.gains()
    return _taken(objective, best_first(gains).tolist(), limits, len(gains))


def random_choice(objective: O, limits: Limits, rng: np.random.Generator) -> Run[O]:
    """Take candidates that fit at random: no query."""
    drawn = rng.choice(objective.size, limits.k, replace=False)
    # Where some of the k do not fit, the others follow in random order.
    rest = np.setdiff1d(np.arange(objective.size), drawn)
    return _taken(objective, [*drawn.tolist(), *rng.permutation(rest).tolist()], limits, 0)


def _taken(objective: O, order: Sequence[int], limits: Limits, queries: int) -> Run[O]:
    """Take the first candidates of an order that fit."""
    taken = list(limits.first)
    for candidate in order:
        if len(taken) == limits.k:
            break
        if limits.fitting(taken, objective.size)[candidate]:
            taken.append(candidate)
    objective = with_added(objective, taken)
    return Run(objective, [objective.value], queries)


def _unselected(objective: Objective) -> Mask:
    unselected = np.ones(objective.size, dtype=bool)
    unselected[objective.held] = False
    return unselected


def _powers(largest: float, least: float, epsilon: float) -> list[float]:
    """Return ``largest (1 + epsilon)^-i`` as long as it is not below `least`."""
    steps = int(np.log(max(largest / least, 1.0)) / np.log1p(epsilon) + 1e-9) if least > 0 else 0
    return [largest * (1.0 + epsilon) ** -i for i in range(steps + 1)]

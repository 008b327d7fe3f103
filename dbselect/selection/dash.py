"""DASH: add a random set of good candidates at a time, in few adaptive rounds.

    S = {}
    repeat r times:
        X = all but S,  t = (1 - eps) (OPT - f(S))
        while  E_R[f_S(R)] < alpha^2 t / r:                  R: a random subset of X of size k/r
            X = X - {a : E_R[f_{S + (R - a)}(a)] < alpha (1 + eps/2) t / k}
        S = S + R

Expectations are means over m sampled sets, whose queries are asked side by side: one
adaptive round. A round costs m additions of k/r candidates and m times all gains.

Source: Qian, Singer (2019), Algorithm 1. Departures: X starts anew for each
set, as in Balkanski and Singer (2018), since a candidate may become useful after others;
of the m sets the best is taken; where X or the limit of adaptive rounds runs out, the set is
the best by the last means; where a filter step leaves everybody in, the best sampled set is
taken as it is. So it always ends. The result records the last two. A set of one is the one
with the largest gain.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, Generic, TypeVar

import numpy as np

from dbselect._native import RandomSets
from dbselect.linear.problem import Index
from dbselect.objectives.contract import Objective, ReadsAhead, ask_around, ask_sets
from dbselect.record.gram import Vector
from dbselect.record.steps import BUDGET_SLACK, Stop
from dbselect.selection.ties import TIE_SHARE, Mask, best_first, first_of_the_best

#: The least alpha that is guessed: below it, random sets pass unfiltered.
LEAST_ALPHA = 0.5
#: Guesses in a row that reach less than the best one before the lower ones are given up: values
#: fall with the thresholds, and a lower guess hardly ever wins (10 tables of the paper's design).
PATIENCE = 2

#: Takes the value of the objective after every adaptive round.
Told = Callable[[float], None]
O = TypeVar("O", bound=Objective)  # noqa: E741 - the objective


@dataclass(frozen=True)
class Run(Generic[O]):
    """How k candidates were selected.

    Parameters
    ----------
    objective : with k candidates selected
    history : value after each adaptive round
    queries : sets whose value was computed
    opt, alpha : the guess that DASH ran under
    stalled : sets taken because a filter step removed no candidate
    completed : candidates taken because too few passed the filter
    bound : upper bound on the value of any set; None if not computed
    stop : what ended it before k were selected, so that this is the best set so far; None if none
    """

    objective: O
    history: list[float]
    queries: int
    opt: float | None = None
    alpha: float | None = None
    stalled: int = 0
    completed: int = 0
    bound: float | None = None
    stop: Stop | None = None


class Looks(Generic[O]):
    """A cache of adaptive rounds: runs under several guesses share their common rounds.

    What follows a round depends on the guess only by its thresholds. So runs of one seed are
    equal until they decide differently, and the queries up to there are made once.
    """

    def __init__(self, samples: int) -> None:
        self.samples = samples
        self._known: dict[tuple[tuple[int, ...], bytes, int, int], _Look[O]] = {}

    def at(self, objective: O, left: Index, size: int, draws: RandomSets) -> "_Look[O]":
        """Return the gains of random sets of `left`; `draws` go on as if they were drawn."""
        key = tuple(objective.held), left.tobytes(), size, draws.drawn
        look = self._known.get(key)
        if look is None:
            sets = draws.sets(left, size, self.samples)
            look = self._known[key] = _Look(objective, sets, draws.drawn)
        draws.drawn = look.drawn
        return look


class _Look(Generic[O]):
    """What some random sets would add, and what each candidate would beside them.

    The states with the sets are kept until one of the two is used: a later guess has lower
    thresholds and hardly ever uses the other.
    """

    def __init__(self, objective: O, sets: list[list[int]], drawn: int) -> None:
        self.drawn = drawn
        self._objective = objective
        self._sets = sets
        if isinstance(objective, ReadsAhead):
            objective.expect(list(dict.fromkeys(chain.from_iterable(sets))))
        ask_sets(objective, [[*objective.held, *R] for R in sets])
        self._trials = [objective.copy() for _ in sets]
        gains = np.array([trial.add_all(R) for trial, R in zip(self._trials, sets, strict=True)])
        self.gain = float(gains.mean())
        self._at_best = first_of_the_best(gains, np.ones(len(gains), dtype=bool))

    @cached_property
    def best(self) -> O:
        """The objective with the best of the sets."""
        best = self._trials[self._at_best]
        self._trials = []
        return best

    @cached_property
    def marginal(self) -> Vector:
        """What each of the n candidates adds to the sets, itself aside, in the mean."""
        trials = self._trials or [_with(self._objective, R) for R in self._sets]
        self._trials = [trials[self._at_best]]
        self._at_best = 0
        ask_around(trials)
        return np.asarray(np.mean([trial.gains() + trial.losses() for trial in trials], axis=0))


def dash_search(
    objective: O,
    k: int,
    *,
    rounds: int,
    epsilon: float,
    opt: float,
    alpha: float,
    draws: RandomSets,
    looks: Looks[O],
    limit: int | None = None,
    told: Told = lambda _: None,
) -> Run[O]:
    """Select k candidates in `rounds` sets.

    Parameters
    ----------
    objective : without selected candidates; left as it is
    k : how many of the n candidates to select
    rounds : r, number of sets, at most k
    epsilon : in (0, 1), slack of the thresholds
    opt : > 0, guess of the best value of k candidates
    alpha : in (0, 1], guess of the differential submodularity
    looks : what is known from other guesses, and how many sets an expectation is a mean of
    limit : most adaptive rounds, at least `rounds`: where one more filter step would exceed
        it, the set is the best by the last means; None = no limit
    told : takes the value after every adaptive round
    """
    history: list[float] = []
    queries = stalled = completed = 0
    for done in range(rounds):
        size = -(-(k - len(objective.held)) // (rounds - done))
        if not size:
            break
        left = unselected = np.flatnonzero(_unselected(objective))
        t = (1.0 - epsilon) * (opt - objective.value)
        while True:
            if size == 1:
                objective = _with(objective, [_best_of(objective)])
                queries += len(unselected)
                break
            look = looks.at(objective, left, size, draws)
            queries += looks.samples
            if _reaches(look.gain, alpha**2 * t / rounds):
                objective = look.best
                break
            queries += looks.samples * len(unselected)
            least = alpha * (1.0 + epsilon / 2.0) * t / k
            kept = left[_reaches(look.marginal[left], least)]
            if len(kept) == len(left):
                stalled += 1
                objective = look.best
                break
            spent = len(history) + 1 + rounds - done
            if len(kept) < size or (limit is not None and spent > limit):
                best = unselected[best_first(look.marginal[unselected])[:size]]
                objective = _with(objective, best.tolist())
                completed += size
                break
            history.append(objective.value)
            told(objective.value)
            left = kept
        history.append(objective.value)
        told(objective.value)
    return Run(objective, history, queries, opt, alpha, stalled, completed)


def default_rounds(size: int, k: int) -> int:
    """Return the number of sets that is taken unless asked: ``log2(n)``, at most ``k / 4``.

    But four, or k, where there are so few that a set of several hardly saves a round.

    A set takes some two adaptive rounds, so that there are half as many as greedy has.
    """
    few = min(-(-k // 4), int(np.ceil(np.log2(max(size, 2)))))
    return max(few, min(k, 4))


def _best_of(objective: Objective) -> int:
    return first_of_the_best(objective.gains(), _unselected(objective))


def best_guess(
    objective: O,
    k: int,
    *,
    rounds: int | None,
    samples: int,
    epsilon: float,
    opt: float | None,
    alpha: float | None,
    seed: int,
    told: Told = lambda _: None,
) -> Run[O]:
    """Run DASH under guesses of OPT and alpha, and return the best run.

    Unless `rounds` are given, no run takes more adaptive rounds than greedy, which is k.

    OPT is ``(1 + eps)^i max_a f(a)`` from f(all), or what is known to be no less, down, with
    the largest alpha; then alpha is ``(1 + eps)^-i`` from 1 down, with the OPT that won. A
    guess of OPT that a run has reached is too low and is left out, and so is every guess once a
    run has f(all), or once `PATIENCE` in a row reached less; of runs that tie, the first wins.
    What is given is not guessed.
    """
    alphas = _powers(1.0, LEAST_ALPHA, epsilon) if alpha is None else [alpha]
    most: float | None = None
    opts = [opt] if opt is not None else []
    if not opts:
        most = _most(objective)
        opts = _powers(most, float(objective.gains().max()), epsilon)
    looks: Looks[O] = Looks(samples)

    def run(opt: float, alpha: float) -> Run[O]:
        return dash_search(
            objective, k, rounds=rounds or default_rounds(objective.size, k), epsilon=epsilon,
            opt=opt, alpha=alpha, draws=RandomSets(seed), looks=looks, limit=None if rounds else k,
            told=told,
        )  # fmt: skip

    def best_of(best: Run[O], others: Iterable[tuple[float, float]]) -> Run[O]:
        behind = 0
        for value, ease in others:
            # No guess can win against all there is, and one below what is reached is too low.
            if behind == PATIENCE or _reaches(best.objective.value, min(value, most or value)):
                break
            other = run(value, ease)
            won = _better(best, other)
            behind = 0 if won is other else behind + 1
            best = won
        return best

    best = best_of(run(opts[0], alphas[0]), ((guess, alphas[0]) for guess in opts[1:]))
    won = best.opt or opts[0]
    best = best_of(best, ((won, other) for other in alphas[1:]))
    return replace(best, bound=most)


def _most(objective: Objective) -> float:
    """Return what no candidates exceed: the value of all, unless that would read too much."""
    if isinstance(objective, ReadsAhead):
        return objective.most
    return _with(objective, np.flatnonzero(_unselected(objective)).tolist()).value


def _reaches(values: Any, least: float) -> Any:
    """Return whether a number, or each of some, is at least another, which a tie is."""
    return values >= least - TIE_SHARE * abs(least)


def _better(best: Run[O], other: Run[O]) -> Run[O]:
    """Return the run that reached more, the first if they tie."""
    reached = best.objective.value
    return other if other.objective.value > reached + TIE_SHARE * abs(reached) else best


@dataclass(frozen=True)
class Limits:
    """What a choice of candidates one by one may take.

    Parameters
    ----------
    k : most candidates
    first : candidates to take first, within k and the budget
    budget : limit on the summed cost; None = no limit
    costs : shape (n,), > 0; None where nothing has a cost
    start : candidates that exchanges begin with, the first ones among them
    """

    k: int
    first: tuple[int, ...] = ()
    budget: float | None = None
    costs: Vector | None = None
    start: tuple[int, ...] = ()

    def fitting(self, taken: Sequence[int], size: int) -> Mask:
        """Return which of the n candidates may be added to those taken."""
        fitting = np.full(size, len(taken) < self.k)
        fitting[list(taken)] = False
        if self.budget is not None and self.costs is not None:
            spent = self.costs[list(taken)].sum() + self.costs
            fitting &= spent <= self.budget * (1.0 + BUDGET_SLACK)
        return fitting


def greedy_choice(objective: O, limits: Limits, told: Told = lambda _: None) -> Run[O]:
    """Take the candidate with the largest gain of those that fit, again and again.

    As many adaptive rounds as there are candidates taken, those to take first aside.
    """
    objective = _with(objective, limits.first)
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
    objective = _with(objective, taken)
    return Run(objective, [objective.value], queries)


def _with(objective: O, candidates: Sequence[int]) -> O:
    """Return an objective that changes alone, with some candidates selected."""
    objective = objective.copy()
    if candidates:
        objective.add_all(candidates)
    return objective


def _unselected(objective: Objective) -> Mask:
    unselected = np.ones(objective.size, dtype=bool)
    unselected[objective.held] = False
    return unselected


def _powers(largest: float, least: float, epsilon: float) -> list[float]:
    """Return ``largest (1 + epsilon)^-i`` as long as it is not below `least`."""
    steps = int(np.log(max(largest / least, 1.0)) / np.log1p(epsilon) + 1e-9) if least > 0 else 0
    return [largest * (1.0 + epsilon) ** -i for i in range(steps + 1)]

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
of the m sets the best is taken; where X runs out, the set is the best by the last means;
where a filter step leaves everybody in, the best sampled set is taken as it is. So it
always ends. The result records the last two.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from dbselect.objectives.contract import Objective
from dbselect.record.gram import Vector
from dbselect.record.steps import BUDGET_SLACK
from dbselect.selection.ties import TIE_SHARE, Mask, first_of_the_best

#: The least alpha that is guessed: below it, random sets pass unfiltered.
LEAST_ALPHA = 0.5

O = TypeVar("O", bound=Objective)  # noqa: E741 - the objective


@dataclass(frozen=True)
class Run(Generic[O]):
    """How k candidates were selected.

    Parameters
    ----------
    objective : with k candidates selected
    history : value after each adaptive round
    queries : sets whose value was asked for
    opt, alpha : the guess that DASH ran under
    stalled : sets taken because a filter step left everybody in
    completed : candidates taken because too few passed the filter
    """

    objective: O
    history: list[float]
    queries: int
    opt: float | None = None
    alpha: float | None = None
    stalled: int = 0
    completed: int = 0


def dash_search(
    objective: O,
    k: int,
    *,
    rounds: int,
    samples: int,
    epsilon: float,
    opt: float,
    alpha: float,
    rng: np.random.Generator,
) -> Run[O]:
    """Select k candidates in `rounds` sets.

    Parameters
    ----------
    objective : without selected candidates; left as it is
    k : how many of the n candidates to select
    rounds : r, number of sets, at most k
    samples : m, sets that an expectation is a mean of
    epsilon : in (0, 1), slack of the thresholds
    opt : > 0, guess of the best value of k candidates
    alpha : in (0, 1], guess of the differential submodularity
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
            sets = [rng.choice(left, size, replace=False).tolist() for _ in range(samples)]
            trials = [objective.copy() for _ in range(samples)]
            gains = np.array([trial.add_all(R) for trial, R in zip(trials, sets, strict=True)])
            queries += samples
            if gains.mean() >= alpha**2 * t / rounds:
                objective = trials[int(gains.argmax())]
                break
            marginal = np.mean([trial.gains() + trial.losses() for trial in trials], axis=0)
            queries += samples * len(unselected)
            kept = left[marginal[left] >= alpha * (1.0 + epsilon / 2.0) * t / k]
            if len(kept) == len(left):
                stalled += 1
                objective = trials[int(gains.argmax())]
                break
            history.append(objective.value)
            if len(kept) < size:
                best = unselected[np.argsort(-marginal[unselected], kind="stable")[:size]]
                objective = objective.copy()
                objective.add_all(best.tolist())
                completed += size
                break
            left = kept
        history.append(objective.value)
    return Run(objective, history, queries, opt, alpha, stalled, completed)


def default_rounds(size: int, k: int) -> int:
    """Return the number of sets that is taken unless asked: ``2 log2(n)``, at most k."""
    return min(k, int(np.ceil(2.0 * np.log2(max(size, 2)))))


def best_guess(
    objective: O,
    k: int,
    *,
    rounds: int,
    samples: int,
    epsilon: float,
    opt: float | None,
    alpha: float | None,
    seed: int,
) -> Run[O]:
    """Run DASH under guesses of OPT and alpha, and return the best run.

    OPT is ``(1 + eps)^i max_a f(a)`` from f(all) down, with the largest alpha; then alpha
    is ``(1 + eps)^-i`` from 1 down, with the OPT that won. A guess of OPT that a run has
    reached is too low and is left out; of runs that tie, the first wins. What is given
    is not guessed.
    """
    alphas = _powers(1.0, LEAST_ALPHA, epsilon) if alpha is None else [alpha]
    if opt is None:
        whole = objective.copy()
        whole.add_all(np.flatnonzero(_unselected(objective)).tolist())
        opts = _powers(whole.value, float(objective.gains().max()), epsilon)
    else:
        opts = [opt]

    def run(opt: float, alpha: float) -> Run[O]:
        rng = np.random.default_rng(seed)
        return dash_search(
            objective, k, rounds=rounds, samples=samples, epsilon=epsilon, opt=opt, alpha=alpha,
            rng=rng,
        )  # fmt: skip

    best = run(opts[0], alphas[0])
    for guess in opts[1:]:
        if guess <= best.objective.value:
            break
        best = _better(best, run(guess, alphas[0]))
    won = best.opt or opts[0]
    for other in alphas[1:]:
        best = _better(best, run(won, other))
    return best


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
    """

    k: int
    first: tuple[int, ...] = ()
    budget: float | None = None
    costs: Vector | None = None

    def fitting(self, taken: Sequence[int], size: int) -> Mask:
        """Return which of the n candidates may be added to those taken."""
        fitting = np.full(size, len(taken) < self.k)
        fitting[list(taken)] = False
        if self.budget is not None and self.costs is not None:
            spent = self.costs[list(taken)].sum() + self.costs
            fitting &= spent <= self.budget * (1.0 + BUDGET_SLACK)
        return fitting


def greedy_choice(objective: O, limits: Limits) -> Run[O]:
    """Take the candidate with the largest gain of those that fit, again and again.

    As many adaptive rounds as there are candidates taken, those to take first aside.
    """
    objective = _with(objective, limits.first)
    history: list[float] = []
    queries = 0
    while (candidates := limits.fitting(objective.held, objective.size)).any():
        objective.add(first_of_the_best(objective.gains(), candidates))
        history.append(objective.value)
        queries += int(candidates.sum())
    return Run(objective, history, queries)


def top_k_choice(objective: O, limits: Limits) -> Run[O]:
    """Take the candidates with the largest values alone that fit: one adaptive round."""
    gains = objective.gains()
    return _taken(objective, np.argsort(-gains, kind="stable").tolist(), limits, len(gains))


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

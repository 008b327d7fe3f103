"""DASH: add a random set of good candidates at a time, in few adaptive rounds.

    S = {}, X = all
    repeat r times:
        t = (1 - eps) (OPT - f(S))
        while  E_R[f_S(R)] < alpha^2 t / r:                  R: a random subset of X of size k/r
            X = X - {a : E_R[f_{S + (R - a)}(a)] < alpha (1 + eps/2) t / k}
        S = S + R

Expectations are means over m sampled sets. All guesses of OPT and alpha run side by side: one
adaptive round is one batch of queries, and guesses that have decided alike so far share their
queries. A set that is taken without having been a query is one of the next batch.

Source: Qian, Singer (2019), Algorithm 1, appendices G and H. Departures, which `LITERAL` leaves
out: X starts anew for each set, as in Balkanski and Singer (2018), since a candidate may become
useful after others; beside the m sets, the set that is best by the last means is evaluated, and the
best of all is taken; if X or the limit of adaptive rounds runs out, the set is the best by the last
means; if a filter step removes no candidate, the best set is taken as it is; alpha is one of
`ALPHAS`; OPT is at most f(all), and a guess that has been reached ends; and the k candidates that
are best alone are one more result. So k candidates are always selected. A set of size one is the
candidate with the largest gain.
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
    ask_sets,
    sets_around,
    with_added,
)
from dbselect.record.gram import Vector
from dbselect.record.prices import SUMS, Prices
from dbselect.record.steps import Stop, within
from dbselect.selection.moves import (
    TIE_SHARE,
    Mask,
    best_first,
    first_of_the_best,
    together,
    with_room,
)

#: Guesses of alpha: the value reached hardly depends on them, and below the last one random
#: sets pass unfiltered.
ALPHAS = (1.0, 0.5)

#: Takes the value of the objective after each adaptive round.
Report = Callable[[float], None]
#: Maps a function over questions, possibly in parallel, as `map` of an executor does.
Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]


@dataclass(frozen=True)
class Run(Generic[O]):
    """Result of selecting k candidates."""

    objective: O  # with k candidates selected
    history: list[float]  # the best value after each adaptive round
    queries: int  # sets whose value was computed
    # opt, alpha: the guess that won
    opt: float | None = None
    alpha: float | None = None
    stalled: int = 0  # sets taken because a filter step removed no candidate
    completed: int = 0  # candidates taken because too few passed the filter
    bound: float | None = None  # upper bound on the value of any set; None if not computed
    # what ended the run early, with the best set so far; None if it was complete
    stop: Stop | None = None


@dataclass(frozen=True)
class Practice:
    """Departures from Algorithm 1."""

    restarts: bool = True  # X starts anew for each set
    # take the best of the random sets and the set best by the last means; else the first set
    takes_best: bool = True
    completes: bool = True  # a set is always full
    bounded: bool = True  # guesses of OPT fall from f(all), and end once they are reached
    # guesses; none for those of the paper, ``(1 + eps)^-i`` for i to ln(n) / eps
    alphas: tuple[float, ...] = ALPHAS


PRACTICE, LITERAL = Practice(), Practice(False, False, False, False, ())


@dataclass(frozen=True)
class DashSettings:
    """Settings of a run."""

    k: int  # how many of the n candidates to select
    # r, number of sets; None: `default_rounds`, and then no run takes more adaptive rounds than
    # greedy, which is k
    rounds: int | None = None
    samples: int = 5  # m, sampled sets per expectation
    epsilon: float = 0.1  # in (0, 1), slack of the thresholds and ratio of the guesses
    opt: float | None = None  # > 0, best value of k candidates; None to guess
    alpha: float | None = None  # in (0, 1], differential submodularity; None to guess
    seed: int = 0
    practice: Practice = PRACTICE


#: A set and how many candidates may be more or less, so that the value is known.
Known = tuple[frozenset[int], int]


@dataclass(frozen=True, eq=False)
class Question(Generic[O]):
    """A batch of queries: random sets, alone and with or without each candidate."""

    objective: O  # with the selected candidates
    pool: Index  # X
    sets: list[list[int]]  # sampled from X; an empty one for one candidate, none at the end
    first: list[int]  # the best by the last means; empty to skip it
    drawn: int  # numbers drawn after the sets
    is_new: bool = False  # whether the selected set is one of the queries

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for equal questions."""
        sets = tuple(self.objective.held), self.pool.tobytes(), tuple(self.first)
        return (*sets, self.drawn, [*map(len, self.sets), -1][0])

    @property
    def queries(self) -> int:
        """Number of sets to evaluate: each sample, alone and with or without each candidate."""
        unselected = self.objective.size - len(self.objective.held)
        alone = sum(map(bool, [*self.sets, self.first])) + self.is_new
        return len(self.sets) * unselected + alone

    def known(self) -> set[Known]:
        """Return the sets whose value the answer has, as centres and how many may differ."""
        held = self.objective.held
        around = {(frozenset([*held, *R]), 1) for R in self.sets}
        return around | {(frozenset([*held, *self.first]), 0)}

    def is_known(self, known: set[Known]) -> bool:
        """Return whether earlier answers have all values; costs O(k) each."""
        exact = [self.first] * bool(self.first) + [[]] * self.is_new
        sets = [frozenset([*self.objective.held, *more]) for more in exact]
        held = self.objective.held
        return all((frozenset([*held, *R]), 1) in known for R in self.sets) and all(
            any(len(one ^ near) <= most for near, most in known) for one in sets
        )

    def all_sets(self) -> list[list[int]]:
        """Return the sets to evaluate, if the objective takes batches."""
        with_sets = [with_added(self.objective, R) for R in self.sets]
        last = [*self.objective.held, *self.first]
        around = chain.from_iterable(map(sets_around, with_sets))
        return [self.objective.held, last, *(each.held for each in with_sets), *around]


@dataclass(frozen=True, eq=False)
class RoundAnswer(Generic[O]):
    """Mean gain of the sets, mean marginal values of all candidates, and two states."""

    gain: float
    marginal: Vector
    sampled: O
    best: O


def answered_round(question: Question[O]) -> RoundAnswer[O]:
    """Evaluate the sets of a question, each as a state of its own."""
    if not question.sets:
        return RoundAnswer(0.0, np.empty(0), question.objective, question.objective)
    sets = [*question.sets, question.first] if question.first else question.sets
    trials = [question.objective.copy() for _ in sets]
    gains = np.array([t.add_all(R) if R else 0.0 for t, R in zip(trials, sets, strict=True)])
    m = len(question.sets)
    # An empty sample has no losses.
    losses = (lambda trial: trial.losses()) if question.sets[0] else (lambda _: 0.0)
    marginal = np.mean([trial.gains() + losses(trial) for trial in trials[:m]], axis=0)
    at = first_of_the_best(gains, np.ones(len(gains), dtype=bool))
    if not sets[0]:
        trials = [question.objective]
    return RoundAnswer(float(gains[:m].mean()), np.asarray(marginal), trials[0], trials[at])


def _ask(objective: O, questions: Iterable[Question[O]], more: Iterable[list[int]]) -> None:
    """Evaluate the sets of the questions, and more, in one batch, if the objective takes any."""
    if hasattr(objective, "ask"):
        ask_sets(objective, [*more, *chain.from_iterable(q.all_sets() for q in questions)])


def dash_search(
    objective: O, settings: DashSettings, opt: float, alpha: float, alone: Vector | None = None
) -> Generator[Question[O], RoundAnswer[O], Run[O]]:
    """Select k candidates under one guess, one question a round; `alone` are the first gains."""
    k, epsilon, practice = settings.k, settings.epsilon, settings.practice
    rounds = settings.rounds or default_rounds(objective.size, k)
    draws = RandomSets(settings.seed)
    # By Lemma 20 a literal run that filters more often never ends.
    most = math.ceil(math.log(max(objective.size, 2)) / math.log1p(epsilon / 2.0))
    fresh, is_new = alone is not None, False
    means = np.empty(0) if alone is None else alone
    n_asked, stalled, completed = int(fresh), 0, 0
    pool = np.empty(0, np.intp)
    for done in range(rounds):
        size = -(-(k - len(objective.held)) // (rounds - done))
        if not size:
            break
        unselected = np.flatnonzero(_unselected(objective))
        anew = practice.restarts or not done
        pool = unselected if anew else np.setdiff1d(pool, objective.held)
        for turn in count(1):
            if len(pool) < size:
                # The literal run ends with the rest of X.
                objective = with_added(objective, pool.tolist())
                if len(pool):
                    yield _of_selected(objective, draws)
                return Run(objective, [], n_asked, opt, alpha)
            is_single = size == 1 and practice.takes_best
            if not (is_single and fresh):
                is_ranked = practice.takes_best and not is_single and len(means)
                first = pool[best_first(means[pool])[:size]].tolist() if is_ranked else []
                sets = [[]] if is_single else draws.sets(pool, size, settings.samples)
                answer = yield Question(objective, pool, sets, first, draws.drawn, is_new)
                n_asked, means, fresh, is_new = n_asked + 1, answer.marginal, False, False
            if is_single:
                taken = [first_of_the_best(means, _unselected(objective))]
                objective, fresh = with_added(objective, taken), False
                break
            t = (1.0 - epsilon) * (opt - objective.value)
            if _reaches(answer.gain, alpha**2 * t / rounds):
                objective = answer.best if practice.takes_best else answer.sampled
                break
            passed = pool[_reaches(means[pool], alpha * (1.0 + epsilon / 2.0) * t / k)]
            if practice.completes and len(passed) == len(pool):
                stalled += 1
                objective = answer.best
                break
            # A last set of several that is completed is a query of its own.
            last = (k - len(objective.held)) // (rounds - done) > 1
            late = settings.rounds is None and n_asked + rounds - done + last > k
            if practice.completes and (len(passed) < size or late):
                taken = unselected[best_first(means[unselected])[:size]].tolist()
                objective, is_new = with_added(objective, taken), True
                completed += size
                break
            if turn == most:
                return Run(objective, [], n_asked, opt, alpha)
            pool = passed
    if is_new:
        yield _of_selected(objective, draws)
    return Run(objective, [], n_asked, opt, alpha, stalled, completed)


def _of_selected(objective: O, draws: RandomSets) -> Question[O]:
    """Return a question of the selected set alone."""
    return Question(objective, np.empty(0, np.intp), [], [], draws.drawn, True)


def default_rounds(size: int, k: int) -> int:
    """Return ``log2(n)``, at most ``k / 4`` for half of greedy's rounds, but at least 4 or k."""
    few = min(-(-k // 4), math.ceil(math.log2(max(size, 2))))
    return max(few, min(k, 4))


def best_guess(
    objective: O, settings: DashSettings, report: Report = lambda _: None, map_: Map = map
) -> Run[O]:
    """Run DASH under all guesses of OPT and alpha side by side, and return the best run.

    OPT is ``f(all) (1 + eps)^-i``, at least max_a f(a), or with an upper bound on f(all); a guess
    that a run has reached is too low. The paper's, of a literal run, are ``(1 + eps)^i max_a f(a)``
    and alpha ``(1 + eps)^-i``, both for i from 0 to ln(n) / eps. Of runs that tie the first wins.
    """
    practice = settings.practice
    opts, alone, bound = _opts(objective, settings)
    history = [] if alone is None else [objective.value + float(alone.max())]
    queries = 0 if alone is None else objective.size + practice.bounded
    guesses = [(opt, alpha) for opt in opts for alpha in _alphas(settings, objective.size)]
    singles = alone if practice.takes_best else None
    runs = {guess: dash_search(objective, settings, *guess, singles) for guess in guesses}
    answers: dict[tuple[Any, ...], RoundAnswer[O]] = {}
    ends: dict[tuple[float, float], Run[O]] = {}
    pending: dict[tuple[float, float], Question[O]] = {}
    reached, top = 0.0, []
    known: set[Known] = {(frozenset(objective.held), 1)} if alone is not None else set()
    if singles is not None:
        # The k that are best alone are evaluated with the first sets.
        free = np.flatnonzero(_unselected(objective))
        top_k = free[best_first(singles[free])[: settings.k - len(objective.held)]]
        top = [Run(with_added(objective, top_k.tolist()), [], 0)]

    def advance(guess: tuple[float, float], answer: Any) -> float:
        """Advance a run to its next question or its end; return the value reached."""
        try:
            question = runs[guess].send(answer)
            while question.is_known(known):
                question = runs[guess].send(answered_round(question))
            pending[guess] = question
            return 0.0 if question.is_new else question.objective.value
        except StopIteration as end:
            pending.pop(guess, None)
            ends[guess] = end.value
            return float(end.value.objective.value)

    for value in history:
        report(value)
    for guess in guesses:
        advance(guess, None)
    queries += bool(pending and top)
    while pending:
        new = {q.key: q for q in pending.values() if q.key not in answers}
        if isinstance(objective, ReadsAhead):
            sets = chain.from_iterable([*q.sets, q.first] for q in new.values())
            objective.expect(list(dict.fromkeys(chain.from_iterable(sets))))
        _ask(objective, new.values(), [run.objective.held for run in top])
        answers |= zip(new, map_(answered_round, new.values()), strict=True)
        known.update(*(question.known() for question in new.values()))
        reached = max([reached, *(run.objective.value for run in top)])
        queries += sum(q.queries for q in new.values())
        values = [advance(guess, answers[q.key]) for guess, q in list(pending.items())]
        # Random sets do not come again in a later round.
        answers = {key: answer for key, answer in answers.items() if not key[-1]}
        reached = max(reached, *values)
        low = [guess for guess in pending if _reaches(reached, min(guess[0], bound or guess[0]))]
        # At least one run goes on to its end.
        for guess in low[not ends and len(low) == len(pending) :] if practice.bounded else []:
            del pending[guess]
        history.append(reached)
        report(reached)
    results = [*(ends[guess] for guess in guesses if guess in ends), *top]
    best = results[0]
    for other in results[1:]:
        best = _better(best, other)
    return replace(best, history=history, queries=queries, bound=bound)


def _opts(
    objective: Objective, settings: DashSettings
) -> tuple[list[float], Vector | None, float | None]:
    """Return the guesses of OPT, and if it is not given the gains and the upper bound."""
    if settings.opt is not None:
        return [settings.opt], None, None
    n, is_bounded = objective.size, settings.practice.bounded
    whole = [list(range(n))] if is_bounded else []
    _ask(objective, [], [objective.held, *whole, *sets_around(objective)])
    alone = objective.gains()
    largest = float(alone.max())
    if not is_bounded:
        return [largest * power for power in _printed(n, settings.epsilon)], alone, None
    bound = _upper_bound(objective)
    return _powers(bound, largest, settings.epsilon), alone, bound


def _alphas(settings: DashSettings, n: int) -> list[float]:
    if settings.alpha is not None:
        return [settings.alpha]
    if settings.practice.alphas:
        return list(settings.practice.alphas)
    return [1.0 / power for power in _printed(n, settings.epsilon)]


def _printed(n: int, epsilon: float) -> list[float]:
    """Return the powers of 1 + epsilon of the paper's grids, for i from 0 to ln(n) / epsilon."""
    return [(1.0 + epsilon) ** i for i in range(int(math.log(n) / epsilon + 1e-9) + 1)]


def _upper_bound(objective: Objective) -> float:
    """Return an upper bound on the value: that of all candidates, unless it reads too much."""
    if isinstance(objective, ReadsAhead):
        return objective.most
    return with_added(objective, np.flatnonzero(_unselected(objective)).tolist()).value


def _reaches(values: Any, least: float) -> Any:
    """Return whether values are at least `least`, or tie with it."""
    return values >= least - TIE_SHARE * abs(least)


def _better(best: Run[O], other: Run[O]) -> Run[O]:
    """Return the run that reached more, the first if they tie."""
    reached = best.objective.value
    return other if other.objective.value > reached + TIE_SHARE * abs(reached) else best


@dataclass(frozen=True)
class Limits:
    """Limits on candidates that are chosen one by one."""

    k: int  # most candidates
    first: tuple[int, ...] = ()  # candidates to take first, within k and the budget
    budget: float | None = None  # limit on the summed cost; None = no limit
    prices: Prices = SUMS  # of the candidates
    start: tuple[int, ...] = ()  # start of the exchanges, with `first` among them

    def fitting(self, taken: Sequence[int], size: int) -> Mask:
        """Return which of the `size` candidates may be added to those taken."""
        fitting = np.full(size, len(taken) < self.k)
        fitting[list(taken)] = False
        if self.budget is None and self.prices.are_sums:
            return fitting
        offers = self.prices.offers(taken)
        affordable = within(self.prices.spent(taken) + offers.costs, self.budget)
        return offers.among(fitting) & affordable & with_room(self.prices, taken, self.k)


def greedy_choice(objective: O, limits: Limits, report: Report = lambda _: None) -> Run[O]:
    """Repeatedly take the fitting candidate with the largest gain, in an adaptive round each."""
    objective = with_added(objective, limits.first)
    history: list[float] = []
    queries = 0
    while (candidates := limits.fitting(objective.held, objective.size)).any():
        gains = together(objective, limits.prices, "add")
        best = first_of_the_best(gains, candidates)
        for candidate in limits.prices.with_needs(best, objective.held):
            objective.add(candidate)
        history.append(objective.value)
        report(objective.value)
        queries += int(candidates.sum())
    return Run(objective, history, queries)


def top_k_choice(objective: O, limits: Limits) -> Run[O]:
    """Take the fitting candidates with the largest gains alone: one adaptive round."""
    gains = objective.gains()
    return _taken(objective, best_first(gains).tolist(), limits, len(gains))


def random_choice(objective: O, limits: Limits, rng: np.random.Generator) -> Run[O]:
    """Take random candidates that fit, without queries."""
    drawn = rng.choice(objective.size, limits.k, replace=False)
    # If some of the k do not fit, the others follow in random order.
    rest = np.setdiff1d(np.arange(objective.size), drawn)
    return _taken(objective, [*drawn.tolist(), *rng.permutation(rest).tolist()], limits, 0)


def _taken(objective: O, order: Sequence[int], limits: Limits, queries: int) -> Run[O]:
    """Take the first candidates of an order that fit."""
    taken = list(limits.first)
    for candidate in order:
        if len(taken) == limits.k:
            break
        if candidate not in taken and limits.fitting(taken, objective.size)[candidate]:
            taken += limits.prices.with_needs(candidate, taken)
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

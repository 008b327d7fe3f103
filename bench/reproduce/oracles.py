"""DASH where it is meant to win: a slow oracle with parallel queries."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import polars as pl

import dbselect as ds
from dbselect.linear.problem import linear
from dbselect.linear.state import LinearState
from dbselect.selection.dash import DashSettings, best_guess
from reproduce.claims import said
from reproduce.dash import D1, gram_of, names_of, regression, timed
from reproduce.page import Study, prose, spread, table
from reproduce.published import QIAN

#: Seconds of a query, and numbers of parallel queries.
WAIT, WORKERS = 0.05, (2, 8, 32, 500)


def makespan(batches: Iterable[int], workers: int) -> float:
    """Return the seconds of rounds of queries, each of which waits `WAIT`."""
    return WAIT * sum(math.ceil(batch / workers) for batch in batches)


def dash_batches(state: LinearState, k: int, seed: int, **guess: float) -> tuple[list[int], float]:
    """Return the number of queries in each round of DASH, and the value it reaches."""
    batches = [] if guess else [state.size + 1]

    def together(answer: Any, questions: Iterable[Any]) -> list[Any]:
        batch = list(questions)
        batches.append(sum(question.queries for question in batch))
        return [answer(question) for question in batch]

    run = best_guess(state, DashSettings(k, seed=seed, **guess), map_=together)
    return batches, run.objective.value


def greedy_batches(state: LinearState, k: int) -> tuple[list[int], float]:
    """Return the same for greedy: every candidate, k times."""
    state = state.copy()
    for _ in range(k):
        state.add(int(np.argmax(state.gains())))
    return [state.size - held for held in range(k)], state.value


def lazy_batches(state: LinearState, k: int, workers: int) -> tuple[list[int], float]:
    """Return the same for lazy greedy, which queries the most promising candidates in batches.

    The last gain of a candidate counts as its bound, as if f were submodular.
    """
    state, batches = state.copy(), [state.size]
    gains = bound = state.gains()
    fresh = np.ones(state.size, dtype=bool)
    while len(state.held) < k:
        while not fresh[best := int(np.argmax(bound))]:
            order = np.argsort(-bound, kind="stable")
            stale = order[~fresh[order]][:workers]
            bound[stale], fresh[stale] = gains[stale], True
            batches.append(len(stale))
        state.add(best)
        gains, bound, fresh = state.gains(), bound.copy(), np.zeros(state.size, dtype=bool)
        bound[state.held] = -1.0
    return batches, state.value


def waited(workers: int) -> tuple[float, float]:
    """Return the seconds of rounds of queries that really wait, and those of `makespan`."""
    batches = [40, 20, 41, 7]
    start = time.perf_counter()
    with ThreadPoolExecutor(workers) as pool:
        for batch in batches:
            list(pool.map(lambda _: time.sleep(WAIT), range(batch)))
    return time.perf_counter() - start, makespan(batches, workers)


def slow(study: Study) -> Iterator[str]:
    """Compare DASH with greedy and lazy greedy by the time that their queries take."""
    seeds, ks = study.seeds(20), study.of((25, 100, 200), (5,))
    yield "## DASH: a slow oracle, asked in parallel (Qian, Singer)"
    real = ", ".join(
        f"{took[0]:.2f} s for {took[1]:.2f} with {workers}"
        for workers in (2, 8, 32)
        for took in [waited(workers)]
    )
    yield prose(
        f"""
        Published: two to eight times as fast as parallel greedy. D1's {D1[0]} features, a query
        waits {WAIT * 1000:g} ms, those of a round are asked side by side by so many workers, those
        of greedy and of lazy greedy (a batch of the most promising) likewise. Times are those of
        the queries, counted round by round; real waiting takes {real} workers. "one guess" has OPT
        and alpha given, the value of all features and 1/2; else all guesses are asked.
        {len(seeds)} tables; seconds, means.
        """
    )
    rows, times = [], {}
    for k in ks:
        parts: dict[str, list[Any]] = {name: [] for name in ("greedy", "DASH", "one guess")}
        lazy: dict[int, list[float]] = {workers: [] for workers in WORKERS}
        for seed in seeds:
            names = names_of(D1[0])
            problem = linear(gram_of(*regression(seed, D1)), "y", names, 0.0)
            state = LinearState(problem, [np.array([j]) for j in range(D1[0])])
            parts["greedy"].append(greedy_batches(state, k))
            parts["DASH"].append(dash_batches(state, k, seed))
            parts["one guess"].append(dash_batches(state, k, seed, opt=1.0, alpha=0.5))
            for workers in WORKERS:
                lazy[workers].append(makespan(lazy_batches(state, k, workers)[0], workers))
        greedy = np.array([value for _, value in parts["greedy"]])
        for workers in WORKERS:
            seconds = {
                name: np.array([makespan(batches, workers) for batches, _ in results])
                for name, results in parts.items()
            } | {"lazy greedy": np.array(lazy[workers])}
            times[k, workers] = seconds
            rows.append({"k": k, "workers": workers}
                        | {name: float(took.mean()) for name, took in seconds.items()})  # fmt: skip
        shares = ", ".join(
            f"{name} {spread(np.array([value for _, value in parts[name]]) / greedy)}"
            for name in ("DASH", "one guess")
        )
        rounds = ", ".join(
            f"{name} {np.mean([len(batches) for batches, _ in results]):.0f}"
            for name, results in parts.items()
        )
        yield prose(f"k = {k}: values as shares of greedy's: {shares}; rounds: {rounds}.")
    yield table(rows)
    claims = []
    for (k, workers), seconds in times.items():
        for other in ("greedy", "lazy greedy"):
            claim = f"k = {k}, {workers} workers: DASH, one guess, is twice as fast as {other}"
            margins = seconds[other] / seconds["one guess"] - 2
            claims.append(said(QIAN, f"slow oracle, against {other}", claim, margins))
    yield study.judge(*claims)


#: Returns the values of a batch of sets of columns.
BatchValues = Callable[[list[list[int]]], Sequence[float]]


def explained(X: np.ndarray, y: np.ndarray, columns: list[int]) -> float:
    """Return the share of variance that a refit of all rows explains."""
    design = np.column_stack([np.ones(len(y)), X[:, columns]])
    coef, *_ = np.linalg.lstsq(design, y, rcond=None)
    return 1.0 - float(np.mean((y - design @ coef) ** 2) / np.var(y))


def lazily(values_of: BatchValues, width: int, k: int, batch: int) -> tuple[float, int]:
    """Return the value of lazy greedy, and its number of queries."""
    selected: list[int] = []
    value, n_queries = 0.0, 0
    bound = np.full(width, np.inf)
    while len(selected) < k:
        fresh: set[int] = set()
        while (best := int(np.argmax(bound))) not in fresh:
            stale = [int(j) for j in np.argsort(-bound, kind="stable") if j not in fresh][:batch]
            bound[stale] = np.array(values_of([[*selected, j] for j in stale])) - value
            fresh.update(stale)
            n_queries += len(stale)
        value += bound[best]
        bound[best] = -np.inf
        selected.append(best)
    return value, n_queries


def refitted(
    seed: int, design: tuple[int, int, float], rows: int, k: int, workers: int
) -> Iterator[dict[str, Any]]:
    """Yield the value, the queries and the seconds of each method on one table."""
    X, y = regression(seed, design, rows)
    groups = {name: [name] for name in names_of(design[0])}

    def score_of(columns: list[int]) -> float:
        return explained(X, y, columns)

    with ThreadPoolExecutor(workers) as pool:
        lazy = partial(lazily, lambda sets: list(pool.map(score_of, sets)), len(groups), k, workers)
        (value, queries), took = timed(lazy)
        yield {"method": "lazy greedy", "value": value, "queries": queries, "seconds": took}
        for method, work in {
            "greedy": partial(ds.greedy, k=k),
            "DASH": partial(ds.dash, k=k, seed=seed),
            "DASH, one guess": partial(ds.dash, k=k, seed=seed, opt=1.0, alpha=0.5),
        }.items():
            score = ds.objectives.Score(
                lambda names: score_of([int(name[1:]) for name in names]), groups, executor=pool,
                check=False, empty=0.0,
            )  # fmt: skip
            chosen, took = timed(partial(work, score))
            figures = {"value": chosen.diagnostics.value, "queries": score.queries, "seconds": took}
            yield {"method": method} | figures


def refits(study: Study) -> Iterator[str]:
    """Compare DASH with greedy and lazy greedy where a query refits all rows."""
    seeds, rows = study.seeds(20), study.of(100_000, 2_000)
    (width, true, covariance), k, workers = (24, 12, 0.4), study.of(6, 3), 2
    yield "## DASH: an oracle that refits 100,000 rows"
    yield prose(
        f"""
        As above, but a query is a refit by `numpy.linalg.lstsq` of {rows:,} rows of D1's kind
        ({width} features, {true} true ones, covariance {covariance}), {workers} side by side on two
        cores; DASH and greedy ask by `ds.objectives.Score(..., executor=)`, which asks a set once.
        Lazy greedy takes what a candidate gained last for a bound, and misses gains that rise.
        Seconds are of the clock, means of {len(seeds)} tables.
        """
    )
    design = (width, true, covariance)
    runs = pl.DataFrame(
        {"seed": seed, **run} for seed in seeds for run in refitted(seed, design, rows, k, workers)
    )
    means = runs.drop("seed").group_by("method", maintain_order=True).mean()
    yield table(means.to_dicts())
    seconds = runs.pivot("method", index="seed", values="seconds")
    yield study.judge(*(
        said(QIAN, "refits of all rows", f"DASH, one guess, is twice as fast as {other}",
             seconds[other] / seconds["DASH, one guess"] - 2)
        for other in ("greedy", "lazy greedy")
    ))  # fmt: skip

"""DASH where it is meant to win: large k, a slow oracle, and parallel queries."""

import math
import time
from collections.abc import Iterable, Iterator
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

#: Seconds of a query, counted and real, and numbers of parallel queries.
WAIT, REAL_WAIT, WORKERS = 0.05, 0.2, (2, 8, 32, 500)
#: Features, k and workers of runs that really wait, and the guess of DASH; none for all guesses.
REAL: list[tuple[int, int, int, dict[str, float]]] = [
    (24, 8, 64, {}),
    (24, 8, 64, {"opt": 1.0, "alpha": 0.5}),
    (96, 48, 300, {"opt": 1.0, "alpha": 0.5}),
]


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


def waited(seed: int, width: int, k: int, workers: int, guess: dict[str, float]) -> Iterator[Any]:
    """Yield the method, rounds, value and seconds of the product, where each query really waits."""
    X, y = regression(seed, (width, width // 4, D1[2]), 500)
    X, y = X - X.mean(axis=0), y - y.mean()
    G, c = X.T @ X, X.T @ y / float(y @ y)

    def slow_score(columns: list[str]) -> float:
        time.sleep(REAL_WAIT)
        at = [int(name[1:]) for name in columns]
        return float(c[at] @ np.linalg.solve(G[np.ix_(at, at)], X[:, at].T @ y))

    with ThreadPoolExecutor(workers) as pool:
        for method, work in (("greedy", ds.greedy), ("DASH", partial(ds.dash, seed=seed, **guess))):
            score = ds.objectives.Score(
                slow_score, {name: [name] for name in names_of(width)}, executor=pool, empty=0.0,
                check=False,
            )  # fmt: skip
            found, took = timed(partial(work, score, k=k))
            yield method, found.diagnostics.rounds, found.diagnostics.value, took


def slow(study: Study) -> Iterator[str]:
    """Compare DASH with greedy by the time that their queries take."""
    seeds, ks = study.seeds(20), study.of((100, 200), (5,))
    yield "## DASH: a slow oracle, asked in parallel (Qian, Singer)"
    yield prose(
        f"""
        Published: for large k two to eight times as fast as parallel greedy. D1's {D1[0]} features,
        a query waits {WAIT * 1000:g} ms, those of a round are asked side by side by so many
        workers. Times are those of the product's batches, counted round by round. "one guess" has
        OPT and alpha given, the value of all features and 1/2; else all guesses are asked.
        {len(seeds)} tables; seconds, means.
        """
    )
    rows, claims = [], []
    for k in ks:
        parts: dict[str, list[Any]] = {name: [] for name in ("greedy", "DASH", "one guess")}
        for seed in seeds:
            problem = linear(gram_of(*regression(seed, D1)), "y", names_of(D1[0]), 0.0)
            state = LinearState(problem, [np.array([j]) for j in range(D1[0])])
            parts["greedy"].append(greedy_batches(state, k))
            parts["DASH"].append(dash_batches(state, k, seed))
            parts["one guess"].append(dash_batches(state, k, seed, opt=1.0, alpha=0.5))
        greedy = np.array([value for _, value in parts["greedy"]])
        for workers in WORKERS:
            seconds = {name: np.array([makespan(batches, workers) for batches, _ in results])
                       for name, results in parts.items()}  # fmt: skip
            rows.append({"k": k, "workers": workers}
                        | {name: float(took.mean()) for name, took in seconds.items()})  # fmt: skip
            claim = f"k = {k}, {workers} workers: DASH, one guess, is twice as fast as greedy"
            margins = seconds["greedy"] / seconds["one guess"] - 2
            claims.append(said(QIAN, "slow oracle", claim, margins))
        figures = ", ".join(
            f"{name} {np.mean([len(batches) for batches, _ in results]):.1f} rounds and "
            f"{spread(np.array([value for _, value in results]) / greedy)} of greedy's value"
            for name, results in parts.items() if name != "greedy"
        )  # fmt: skip
        yield prose(f"k = {k}: {figures}.")
    yield table(rows)
    yield prose(
        f"""
        The product itself, `ds.greedy` and `ds.dash` on a `Score` with an executor, where each
        query sleeps {REAL_WAIT:g} s: seconds of the clock, means of 3 tables.
        """
    )
    yield table(real(*size) for size in study.of(REAL, [(8, 3, 32, {})]))
    yield study.judge(*claims)


def real(width: int, k: int, workers: int, guess: dict[str, float]) -> dict[str, Any]:
    """Return a row of runs that really wait."""
    runs = pl.DataFrame(
        [run for seed in range(1000, 1003) for run in waited(seed, width, k, workers, guess)],
        ["method", "rounds", "value", "seconds"], orient="row",
    )  # fmt: skip
    figures: dict[str, Any] = {
        "features": width, "k": k, "workers": workers, "guesses": "one" if guess else "all"
    }  # fmt: skip
    for name in ("greedy", "DASH"):
        own = runs.filter(method=name).mean().row(0, named=True)
        figures |= {f"{name}, rounds": own["rounds"], f"{name}, seconds": own["seconds"]}
    return figures | {"DASH / greedy": float(
        runs.filter(method="DASH")["value"].sum() / runs.filter(method="greedy")["value"].sum()
    )}  # fmt: skip

"""FAST, lazy and stochastic greedy and DASH: questions and batches of a score.

    python bench/successors.py  # some minutes; writes its table of SCORES.md

FAST (Breuer, Balkanski, Singer 2020) is written here as it is described there.
"""

import math
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import dbselect as ds

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from reproduce.dash import D1, regression
from reproduce.page import spread, table

SEEDS, EPSILON, MANY, KS = range(1000, 1003), 0.1, 300, (25, 50)
#: Groups that estimate which share of all is above FAST's threshold; its bound asks for all here.
TRIED = 20

Value = Callable[[list[int]], float]


class Rounds(Executor):
    """Answers at once, and counts the batches of a score."""

    _max_workers = 1

    def __init__(self) -> None:
        self.count = 0

    def submit(self, call: Any, /, *given: Any, **named: Any) -> Future[Any]:
        """Answer a question; the last argument is its number within the batch."""
        self.count += given[-1] == 0
        answer: Future[Any] = Future()
        answer.set_result(call(*given, **named))
        return answer


class Asked:
    """A function of sets, whose distinct questions and batches are counted."""

    def __init__(self, value: Value) -> None:
        self.value, self.known, self.rounds = value, {frozenset[int](): 0.0}, 0

    def batch(self, sets: list[list[int]]) -> np.ndarray:
        """Return the values of sets that are asked side by side."""
        new = [held for held in sets if frozenset(held) not in self.known]
        self.rounds += bool(new)
        self.known |= {frozenset(held): self.value(held) for held in new}
        return np.array([self.known[frozenset(held)] for held in sets])


def fast(ask: Asked, k: int, rng: np.random.Generator) -> float:
    """Return the best value of FAST: a binary search over guesses of OPT."""
    singles = np.sort(ask.batch([[a] for a in range(MANY)]))[::-1]
    guesses = np.geomspace(singles[0], singles[:k].sum(), math.ceil(math.log(k) / EPSILON))
    low, high, best = 0, len(guesses) - 1, 0.0
    while low <= high:
        at = (low + high) // 2
        value = float(ask.batch([under(ask, k, guesses[at], rng)])[0])
        best = max(best, value)
        low, high = (at + 1, high) if value >= (1 - 1 / math.e) * guesses[at] else (low, at - 1)
    return best


def under(ask: Asked, k: int, opt: float, rng: np.random.Generator) -> list[int]:
    """Return the set of one guess of OPT: long prefixes of random orders above a threshold."""
    held: list[int] = []
    for _ in range(math.ceil(1 / EPSILON)):
        threshold = (1 - EPSILON) * (opt - ask.batch([held])[0]) / k
        pool = np.setdiff1d(np.arange(MANY), held)
        while len(held) < k:
            values = ask.batch([held, *([*held, int(a)] for a in pool)])
            pool = pool[values[1:] - values[0] >= threshold]
            if not len(pool):
                break
            order = rng.permutation(pool)[: k - len(held)].tolist()
            powers = (1 + EPSILON) ** np.arange(math.log(len(order) + 1) / math.log(1 + EPSILON))
            ends = sorted({min(len(order), math.floor(power)) for power in powers} | {len(order)})
            low, high = 0, len(ends) - 1
            while low < high:
                at = (low + high + 1) // 2
                prefix = [*held, *order[: ends[at]]]
                tried = rng.choice(pool, min(len(pool), TRIED), replace=False)
                rest = [int(a) for a in tried if a not in prefix]
                more = ask.batch([prefix, *([*prefix, a] for a in rest)])
                good = np.mean(more[1:] - more[0] >= threshold) if rest else 1.0
                low, high = (at, high) if good >= 1 - 2 * EPSILON else (low, at - 1)
            held += order[: ends[low]]
            pool = np.setdiff1d(pool, held)
    return held


def coverage(seed: int) -> Value:
    """Return how much random groups cover, which is submodular."""
    rng = np.random.default_rng(seed)
    covers = rng.random((MANY, 2000)) < rng.uniform(0.002, 0.03, (MANY, 1))
    worth = rng.exponential(size=2000)
    return lambda held: float(covers[held].any(axis=0) @ worth)


def facility(seed: int) -> Value:
    """Return how near random places are to the nearest of some, which is submodular."""
    rng = np.random.default_rng(seed)
    people, places = rng.normal(size=(1000, 1, 3)), rng.normal(size=(MANY, 3))
    near = np.exp(-((people - places) ** 2).sum(axis=2)).T.copy()
    return lambda held: float(near[held].max(axis=0).mean()) if held else 0.0


def explained(seed: int) -> Value:
    """Return r2 of columns of D1's kind, whose gains rise where columns suppress each other."""
    X, y = regression(seed, (MANY, 60, D1[2]))
    X, y = X - X.mean(axis=0), y - y.mean()
    G, c, total = X.T @ X, X.T @ y, float(y @ y)
    return lambda held: float(c[held] @ np.linalg.solve(G[np.ix_(held, held)], c[held])) / total


def questions(name: str, made: Callable[[int], Value], k: int) -> Iterator[dict[str, Any]]:
    """Yield the value, questions and batches of each way to choose k of MANY groups."""
    found: dict[str, list[tuple[float, int, int]]] = {}
    for seed in SEEDS:
        value = made(seed)
        sample = math.ceil(MANY / k * math.log(1 / EPSILON))
        drawn = partial(ds.greedy, sample=sample, seed=seed)
        ways = {
            "greedy": ds.greedy,
            "lazy": partial(ds.greedy, lazy=True),
            f"sample={sample}": drawn,
            f"sample={sample}, lazy": partial(drawn, lazy=True),
            "DASH": partial(ds.dash, seed=seed),
            "DASH, one guess": partial(ds.dash, opt=value(list(range(MANY))), alpha=0.5, seed=seed),
        }
        for way, search in ways.items():
            rounds = Rounds()
            source = ds.objectives.Score(
                lambda names, value=value: value([int(name) for name in names]),
                {str(j): [str(j)] for j in range(MANY)}, empty=0.0, check=False, executor=rounds,
            )  # fmt: skip
            reached = search(source, k=k).diagnostics.value
            found.setdefault(way, []).append((reached, source.queries, rounds.count))
        ask = Asked(value)
        reached = fast(ask, k, np.random.default_rng(seed))
        found.setdefault("FAST", []).append((reached, len(ask.known) - 1, ask.rounds))
    greedy = np.array([row[0] for row in found["greedy"]])
    for way, rows in found.items():
        values, asked, batches = np.array(rows).T
        yield {"objective": name, "k": k, "way": way, "share of greedy's value":
               spread(values / greedy), "questions": f"{asked.mean():,.0f}",
               "batches": f"{batches.mean():.0f}"}  # fmt: skip


def write(page: Path, heading: str, made: str) -> None:
    """Write a table below its heading of the page, at the end if it is new."""
    before, _, after = page.read_text().partition(f"\n## {heading}\n")
    rest = "".join(f"\n## {later}" for later in after.split("\n## ")[1:])
    page.write_text(f"{before.rstrip()}\n\n## {heading}\n\n{made}\n{rest}")


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    kinds = {"coverage": coverage, "facility location": facility, "r2": explained}
    write(
        Path(__file__).with_name("SCORES.md"),
        "Fewer questions",
        table(row for name, made in kinds.items() for k in KS for row in questions(name, made, k)),
    )

"""What later papers add to the methods here: fewer questions to a score, no grid of sparsity.

    python bench/successors.py  # two minutes; writes "Successors of the papers" of SCORES.md

Stochastic and lazy greedy are `ds.greedy(score, sample=..., lazy=True)`; FAST (Breuer, Balkanski,
Singer 2020) and double-sparse iterative hard thresholding (Zhang, Li, Liu, Yin, JMLR 25:369, 2024)
are written here, to be in or out by what these tables say.
"""

import math
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import dbselect as ds

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from reproduce.bilevel import simulated
from reproduce.dash import D1, regression
from reproduce.page import spread, table

SEEDS, EPSILON = range(1000, 1003), 0.1
#: Groups, chosen groups.
MANY, K = 300, 40

Value = Callable[[list[int]], float]


class Asked:
    """A function of sets, whose distinct questions and batches are counted."""

    def __init__(self, value: Value) -> None:
        self.value, self.known, self.rounds = value, dict[frozenset[int], float](), 0

    def batch(self, sets: list[list[int]]) -> np.ndarray:
        """Return the values of sets that are asked side by side."""
        new = [held for held in sets if frozenset(held) not in self.known]
        self.rounds += bool(new)
        self.known |= {frozenset(held): self.value(held) for held in new}
        return np.array([self.known[frozenset(held)] for held in sets])


def fast(ask: Asked, n: int, k: int, rng: np.random.Generator) -> list[int]:
    """Return the best set of FAST over guesses of OPT: adaptive sequencing, binary searches."""
    singles = np.sort(ask.batch([[a] for a in range(n)]))[::-1]
    guesses = np.geomspace(singles[0], singles[:k].sum(), max(2, math.ceil(math.log(k) / EPSILON)))
    low, high, best = 0, len(guesses) - 1, (0.0, list[int]())
    while low <= high:
        at = (low + high) // 2
        held = under(ask, n, k, guesses[at], rng)
        value = float(ask.batch([held])[0])
        best = max(best, (value, held))
        low, high = (at + 1, high) if value >= (1 - 1 / math.e) * guesses[at] else (low, at - 1)
    return best[1]


def under(ask: Asked, n: int, k: int, opt: float, rng: np.random.Generator) -> list[int]:
    """Return the set of one guess of OPT: long prefixes of random orders above a threshold."""
    held: list[int] = []
    for _ in range(math.ceil(1 / EPSILON)):
        now = float(ask.batch([held])[0]) if held else 0.0
        threshold = (1 - EPSILON) * (opt - now) / k
        pool = np.setdiff1d(np.arange(n), held)
        while len(held) < k:
            gains = ask.batch([[*held, int(a)] for a in pool])
            gains -= ask.batch([held])[0] if held else 0.0
            pool = pool[gains >= threshold]
            if not len(pool):
                break
            order = rng.permutation(pool)[: k - len(held)].tolist()
            powers = range(math.ceil(math.log(len(order) + 1, 1 + EPSILON)) + 1)
            ends = sorted({min(len(order), math.floor((1 + EPSILON) ** i)) for i in powers})
            low, high = 0, len(ends) - 1
            while low < high:
                at = (low + high + 1) // 2
                prefix = [*held, *order[: ends[at]]]
                tried = rng.choice(pool, min(len(pool), 20), replace=False)
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


def explained(seed: int) -> Value:
    """Return r2 of columns of D1's kind, whose gains rise where columns suppress each other."""
    X, y = regression(seed, (MANY, 60, D1[2]))
    X, y = X - X.mean(axis=0), y - y.mean()
    G, c, total = X.T @ X, X.T @ y, float(y @ y)
    return lambda held: float(c[held] @ np.linalg.solve(G[np.ix_(held, held)], c[held])) / total


def questions(name: str, made: Callable[[int], Value]) -> Iterator[dict[str, Any]]:
    """Yield the value, questions and batches of each way to choose K of MANY groups."""
    found: dict[str, list[tuple[float, int, int]]] = {}
    for seed in SEEDS:
        value = made(seed)
        groups = {str(j): [str(j)] for j in range(MANY)}

        def score(names: list[str], value: Value = value) -> float:
            return value([int(name) for name in names])

        sample = math.ceil(MANY / K * math.log(1 / EPSILON))
        ways = {
            "greedy": ds.greedy,
            "lazy": partial(ds.greedy, lazy=True),
            f"sample of {sample}": partial(ds.greedy, sample=sample, seed=seed),
            f"sample of {sample}, lazy": partial(ds.greedy, sample=sample, lazy=True, seed=seed),
            "DASH, one guess": partial(ds.dash, opt=value(list(range(MANY))), alpha=0.5, seed=seed),
        }
        for way, search in ways.items():
            source = ds.objectives.Score(score, groups, empty=0.0, check=False)
            chosen = search(source, k=K)
            rounds = chosen.diagnostics.rounds
            found.setdefault(way, []).append((chosen.diagnostics.value, source.queries, rounds))
        ask = Asked(value)
        held = fast(ask, MANY, K, np.random.default_rng(seed))
        found.setdefault("FAST", []).append((value(held), len(ask.known), ask.rounds))
    greedy = np.array([row[0] for row in found["greedy"]])
    for way, rows in found.items():
        values, asked, rounds = np.array(rows).T
        batches = "one at a time" if "lazy" in way else f"{rounds.mean():.0f}"
        yield {"objective": name, "way": way, "share of greedy's value": spread(values / greedy),
               "questions": f"{asked.mean():.0f}", "batches": batches}  # fmt: skip


def double_sparse(X: np.ndarray, y: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the weights of double-sparse thresholding along falling thresholds, by its criterion.

    A column is kept above the threshold, a group if what it keeps has a mean square above it for
    `most` columns, for each of a few; columns have norm sqrt(n). The criterion is n log RSS / n
    + columns log p log log n, of a refit.
    """
    n, p = X.shape
    best: tuple[float, np.ndarray] = (math.inf, np.zeros(p))
    for most in (1, 2, 5, 10):
        w = np.zeros(p)
        level = float(np.abs(X.T @ y / n).max())
        while level > 0.01:
            for _ in range(5):
                v = w + X.T @ (y - X @ w) / n
                v[np.abs(v) < level] = 0.0
                squares = np.bincount(labels, v**2)
                v[squares[labels] < most * level**2] = 0.0
                w = v if np.count_nonzero(v) < n / 2 else w
            kept = np.flatnonzero(w)
            if 0 < len(kept) < n / 2:
                fitted = np.zeros(p)
                fitted[kept] = np.linalg.lstsq(X[:, kept], y, rcond=None)[0]
                rss = float(((y - X @ fitted) ** 2).sum())
                criterion = n * math.log(rss / n) + len(kept) * math.log(p) * math.log(math.log(n))
                best = min(best, (criterion, fitted), key=lambda end: end[0])
            level *= 0.9
    return best[1]


def thresholds() -> Iterator[dict[str, Any]]:
    """Yield the errors of `sght` with `cross_validate`, and of double-sparse thresholding."""
    limits = [(times * s2, s2) for s2 in (2, 4, 6, 8) for times in (2, 4, 8)]
    for columns in (3, 10):
        rows: dict[str, list[tuple[float, ...]]] = {}
        for seed in range(1000, 1020):
            data = simulated(seed, columns)
            X, y = data.X, data.y
            labels = np.repeat(np.arange(len(data.sizes)), data.sizes)
            true = (labels < 6) & (np.arange(X.shape[1]) % 10 < columns)
            center, scale, level = X.mean(axis=0), X.std(axis=0), y.mean()
            w = double_sparse((X - center) / scale, y - level, labels) / scale
            ends = {"double-sparse": (w, level - center @ w)}
            frame = pl.DataFrame(np.column_stack([X, y]), schema=[*data.names, "y"])
            parts = ds.gram_by(frame.with_row_index("row"), columns=[*data.names, "y"], fold=5,
                               key="row")  # fmt: skip
            grid = [{"max_columns": s1, "max_groups": s2} for s1, s2 in limits]
            judged = ds.cross_validate(parts, "y", "sght", grid, groups=data.groups)
            chosen = judged.model()
            coef = np.array([chosen.coefficients.get(name, 0.0) for name in data.names])
            ends["sght, cross_validate"] = coef, chosen.intercept
            for name, (coef, intercept) in ends.items():
                rest = data.test_target - intercept - data.test_rows @ coef
                kept = coef != 0
                rows.setdefault(name, []).append(
                    (float((rest**2).mean()), (kept & ~true).sum(), (true & ~kept).sum())
                )
        for name, figures in rows.items():
            error, false, missed = np.array(figures).T
            yield {"true columns of a group": columns, "method": name,
                   "squared error, other rows": spread(error), "false columns": spread(false),
                   "missed columns": spread(missed)}  # fmt: skip


def main(page: Path) -> None:
    """Write both tables into the page below their heading."""
    kinds = {"coverage": coverage, "r2": explained}
    rows = [row for name, made in kinds.items() for row in questions(name, made)]
    heading = "## Successors of the papers\n"
    text = page.read_text()
    before, _, after = text.partition(heading)
    rest = "".join(f"\n## {later}" for later in after.split("\n## ")[1:])
    page.write_text(
        f"{before.rstrip()}\n\n{heading}\n{table(rows)}\n\n{table(thresholds())}\n{rest}"
    )


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    main(Path(__file__).with_name("SCORES.md"))

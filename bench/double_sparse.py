"""Double-sparse thresholding, which finds its own limits, beside `sght` with `cross_validate`.

    python bench/double_sparse.py  # two minutes; writes its table of SCORES.md

Zhang, Li, Liu, Yin (JMLR 25:369, 2024) is written here as it is described there.
"""

import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import dbselect as ds

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from reproduce.bilevel import NOISE, Grouped, cubic, simulated
from reproduce.page import spread, table
from successors import write

SEEDS = range(1000, 1006)
#: Falling thresholds, and columns of a group, in powers of the size of the largest.
FALL, POWERS = 0.9, 5
#: Candidates of `sght`: columns, groups.
LIMITS = [(times * s2, s2) for s2 in (2, 4, 6, 8) for times in (3, 8)]
Made = tuple[Grouped, np.ndarray | None]


def correlated(seed: int, per_group: int) -> Made:
    """Return the same with columns of which every two have a correlation of a half."""
    data, true = bilevel(seed, per_group)
    rng = np.random.default_rng(seed + 1)
    common = rng.standard_normal((len(data.X) * 2, 1))
    w = np.linalg.lstsq(data.X[:, true], data.y, rcond=None)[0]
    X = (np.vstack([data.X, data.test_rows]) + common) / np.sqrt(2)
    y = X[:, true] @ w + NOISE * rng.standard_normal(len(X))
    n = len(data.X)
    return Grouped(X[:n], y[:n], X[n:], y[n:], data.sizes), true


def boston(seed: int, _: int) -> Made:
    """Return half of Boston Housing with squares and cubes, whose truth is not known."""
    return cubic(seed), None


def bilevel(seed: int, per_group: int) -> tuple[Grouped, np.ndarray]:
    """Return the design of the page of papers: six groups of 20 count."""
    data = simulated(seed, per_group)
    at = np.arange(data.X.shape[1])
    return data, (at < 60) & (at % 10 < per_group)


def double_sparse(X: np.ndarray, y: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the weights of double-sparse thresholding, of columns whose mean square is 1.

    For `most` columns of a group, a column is kept above a falling threshold, and a group whose
    kept squares exceed `most` squared thresholds. Refits are judged by the paper's criterion
    for one `most`, and between those by the extended BIC.
    """
    (n, p), size = X.shape, int(np.bincount(labels).max())
    groups, ends = len(np.unique(labels)), []

    def step(w: np.ndarray) -> np.ndarray:
        v = w + X.T @ (y - X @ w) / n
        v[np.abs(v) < level] = 0.0
        v[np.bincount(labels, v**2)[labels] < most * level**2] = 0.0
        return v

    def refit(w: np.ndarray) -> tuple[np.ndarray, float]:
        kept, fitted = w != 0, np.zeros(p)
        fitted[kept] = np.linalg.lstsq(X[:, kept], y, rcond=None)[0]
        return fitted, float(((y - X @ fitted) ** 2).mean())

    def penalty(w: np.ndarray) -> float:
        held = np.count_nonzero(np.bincount(labels, w**2))
        held = max(held, np.count_nonzero(w) / most, 1e-9)
        return held * (math.log(math.e * groups / held) + most * math.log(math.e * size / most))

    for most in size ** (np.arange(1, POWERS + 1) / (POWERS - 1)).clip(max=1.0):
        least = math.log(math.e * groups) / most + math.log(math.e * size / most)
        w, level = np.zeros(p), max(math.sqrt(least * (y @ y)) / n, np.abs(X.T @ y).max() / n)
        level *= FALL ** (math.ceil(most / 3) - 1)
        while True:
            w = step(w)
            level *= FALL**2
            if not level >= 2 * math.sqrt(((y - X @ w) ** 2).mean() * least / n):
                break
        w, noise = refit(w)
        best = noise + penalty(w) * noise / (2 * n), w, noise
        bottom = math.log(math.e * size / most) * math.sqrt(noise) / n
        while level >= bottom:
            w, error = refit(step(w))
            if np.count_nonzero(w) >= min(n, p / 5):
                break
            best = min(best, (error + penalty(w) * noise / (2 * n), w, error), key=lambda e: e[0])
            w = best[1]
            level *= FALL
        columns = np.count_nonzero(best[1])
        ends.append((n * math.log(best[2]) + columns * (math.log(p) + math.log(n)), best[1]))
    return min(ends, key=lambda end: end[0])[1]


def cross_validated(data: Grouped) -> tuple[np.ndarray, float]:
    """Return the weights and intercept of `sght`, whose limits are chosen by five folds."""
    frame = pl.DataFrame(np.column_stack([data.X, data.y]), schema=[*data.names, "y"])
    rows = frame.with_row_index("row")
    parts = ds.gram_by(rows, columns=[*data.names, "y"], fold=5, key="row")
    grid = [{"max_columns": s1, "max_groups": s2} for s1, s2 in LIMITS if s1 <= len(data.names)]
    model = ds.cross_validate(parts, "y", "sght", grid, groups=data.groups).model()
    return np.array([model.coefficients.get(name, 0.0) for name in data.names]), model.intercept


def standardised(data: Grouped) -> tuple[np.ndarray, float]:
    """Return the same of double-sparse thresholding."""
    labels = np.repeat(np.arange(len(data.sizes)), data.sizes)
    center, scale, level = data.X.mean(axis=0), data.X.std(axis=0), data.y.mean()
    w = double_sparse((data.X - center) / scale, data.y - level, labels) / scale
    return w, level - center @ w


def counted(columns: np.ndarray) -> str:
    """Return a spread, where the truth is known."""
    return "unknown" if np.isnan(columns).any() else spread(columns)


def rows() -> Iterator[dict[str, Any]]:
    """Yield the errors and seconds of both, for each design."""
    for design, name, columns in DESIGNS:
        figures: dict[str, list[tuple[float, ...]]] = {}
        for seed in SEEDS:
            data, true = design(seed, columns)
            for way, choose in WAYS.items():
                start = time.process_time()
                coef, intercept = choose(data)
                took = time.process_time() - start
                rest, kept = data.test_target - intercept - data.test_rows @ coef, coef != 0
                share = float((rest**2).mean() / data.test_target.var())
                wrong = (
                    (np.nan, np.nan)
                    if true is None
                    else ((kept & ~true).sum(), (true & ~kept).sum())
                )
                figures.setdefault(way, []).append((share, kept.sum(), *wrong, took))
        for way, values in figures.items():
            share, kept, false, missed, took = np.array(values).T
            yield {"data": name, "method": way, "not explained, other rows": spread(share),
                   "columns": spread(kept), "false": counted(false), "missed": counted(missed),
                   "seconds": f"{took.mean():.2g}"}  # fmt: skip
            print(name, way, spread(share), spread(false), spread(missed), flush=True)


#: Methods, and data with the true columns of a group.
WAYS = {"`sght`, `cross_validate`": cross_validated, "double-sparse": standardised}
DESIGNS: list[tuple[Callable[[int, int], Made], str, int]] = [
    (bilevel, "three columns of six groups", 3),
    (bilevel, "ten columns of six groups", 10),
    (correlated, "three, correlated", 3),
    (boston, "Boston, squares and cubes", 0),
]


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    write(Path(__file__).with_name("SCORES.md"), "Limits of columns and groups", table(rows()))

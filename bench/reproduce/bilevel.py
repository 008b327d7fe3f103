"""Xiang, Yang, Ye (2014): Tables 3 and 4 of SGHT."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from mlxtend.data import boston_housing_data

import dbselect as ds
from reproduce.claims import judged
from reproduce.origin import vector
from reproduce.page import Study, beside, prose
from reproduce.published import XIANG_3, XIANG_4
from reproduce.sparse_group_lasso import sparse_group_lasso
from reproduce.thresholding import descents

#: Table 3: 100 rows, 20 groups of 10 columns. Of the six true groups case 1 has three columns
#: each, case 2 all ten: 18 and 60, as NO - FP + FN of the published rows.
ROWS, GROUPS, SIZE, TRUE_GROUPS = 100, 20, 10, 6
TRUE_COLUMNS = {"case 1": 3, "case 2": 10}
#: Inferred from the scale of Figure 5: values of the true groups, the same inside a group.
VALUES = (10.0, 8.0, 6.0, 4.0, 2.0, 1.0)
#: Inferred on seeds 0 to 9, of 1, 4 and 8: the deviation of the noise by which OMP and gOMP miss
#: what they do.
NOISE = 4.0
#: Candidates as published: (s1, s2), steps of OMP, and groups of gOMP; of 2, 4, ..., 10 groups
#: those of ten columns that 80 training rows can fit.
LIMITS = [(times * s2, s2) for s2 in (2, 4, 6, 8, 10) for times in (2, 4, 6, 8, 10)]
COLUMNS, WHOLE = list(range(6, 61, 6)), [2, 4, 6]
FOLDS = 5
#: What the paper prints is chosen by the least error; beside it the simplest within one
#: standard error.
SIMPLEST = ", 1 s.e."

#: Weights by candidate, simplest first.
Path = Mapping[Any, np.ndarray]


@dataclass(frozen=True)
class Grouped:
    """Rows to train on and to test on, with their groups.

    Parameters
    ----------
    X, test_rows : shape (n, d), columns group by group
    y, test_target : shape (n,)
    sizes : columns of each group
    """

    X: np.ndarray
    y: np.ndarray
    test_rows: np.ndarray
    test_target: np.ndarray
    sizes: list[int]

    @property
    def names(self) -> list[str]:
        """The columns."""
        return [f"x{j}" for j in range(self.X.shape[1])]

    @property
    def groups(self) -> dict[str, list[str]]:
        """The columns of each group."""
        parts = np.split(np.array(self.names), np.cumsum(self.sizes)[:-1])
        return {f"g{g}": part.tolist() for g, part in enumerate(parts)}


def simulated(seed: int, per_group: int, noise: float = NOISE) -> Grouped:
    """Return independent normal columns, of which six groups make the target."""
    rng = np.random.default_rng(seed)
    truth = np.zeros((GROUPS, SIZE))
    for group, value in enumerate(VALUES):
        truth[group, :per_group] = value
    X = rng.standard_normal((2 * ROWS, GROUPS * SIZE))
    y = X @ truth.ravel() + noise * rng.standard_normal(2 * ROWS)
    return Grouped(X[:ROWS], y[:ROWS], X[ROWS:], y[ROWS:], [SIZE] * GROUPS)


def cubic(seed: int) -> Grouped:
    """Return half of Boston Housing to train on, with squares and cubes of all features."""
    X, y = boston_housing_data()
    columns = (X[:, :, None] ** [1, 2, 3]).reshape(len(y), -1)
    order = np.random.default_rng(seed).permutation(len(y))
    half = len(y) // 2
    train, test = columns[order[:half]], columns[order[half:]]
    return Grouped(train, y[order[:half]], test, y[order[half:]], [3] * X.shape[1])


def greedy_path(data: Grouped, sizes: list[int], alone: bool) -> Callable[..., Path]:
    """Return OMP over columns, or over whole groups."""

    def path(X: np.ndarray, y: np.ndarray) -> Path:
        gram = ds.gram(np.column_stack([X, y]), columns=[*data.names, "y"])
        groups = None if alone else data.groups
        sequence = ds.anytime_sequence(gram, "y", groups, rule="omp", max_groups=sizes[-1])
        most = len(sequence.steps) - 1
        return {size: vector(sequence.at(size=min(size, most)), data.names) for size in sizes}

    return path


def literal_path(data: Grouped, limits: list[tuple[int, int]]) -> Callable[..., Path]:
    """Return the descent of the paper, on rows, from zero; columns are of unit variance."""

    def path(X: np.ndarray, y: np.ndarray) -> Path:
        spread = X.std(axis=0)
        solutions = descents((X - X.mean(axis=0)) / spread, y - y.mean(), data.sizes, limits)
        return {pair: x / spread for pair, x in solutions.items()}

    return path


def chosen(data: Grouped, path: Callable[..., Path]) -> dict[str, np.ndarray]:
    """Return the weights that five folds choose: by the least error, and the simplest near it."""
    fold, errors = np.arange(len(data.y)) % FOLDS, []
    for held_out_fold in range(FOLDS):
        is_held, rest = fold == held_out_fold, fold != held_out_fold
        X, y = data.X[rest], data.y[rest]
        residual = data.y[is_held] - y.mean()
        centred = data.X[is_held] - X.mean(axis=0)
        errors.append([((residual - centred @ w) ** 2).mean() for w in path(X, y).values()])
    error = np.mean(errors, axis=0)
    best = int(error.argmin())
    within = error[best] + np.std(errors, axis=0, ddof=1)[best] / np.sqrt(FOLDS)
    weights = list(path(data.X, data.y).values())
    return {"": weights[best], SIMPLEST: weights[int(np.flatnonzero(error <= within)[0])]}


def models(
    data: Grouped, limits: list[tuple[int, int]], columns: list[int], whole: list[int]
) -> dict[str, tuple[np.ndarray, float]]:
    """Return the weights of each method, and its seconds."""
    limits = sorted(limits)
    searches = {
        "SGHT": literal_path(data, limits),
        "OMP": greedy_path(data, columns, alone=True),
        "gOMP": greedy_path(data, whole, alone=False),
    }
    weights = {}
    for method, path in searches.items():
        start = time.perf_counter()
        both = chosen(data, path)
        took = time.perf_counter() - start
        weights |= {method + choice: (w, took) for choice, w in both.items()}
    start = time.perf_counter()
    frame = pl.DataFrame(np.column_stack([data.X, data.y]), schema=[*data.names, "y"])
    lasso = sparse_group_lasso(frame, data.groups, FOLDS)
    took = time.perf_counter() - start
    for choice, rule in (("", "best"), (SIMPLEST, "one_standard_error")):
        w = np.array([lasso[rule][0].get(name, 0.0) for name in data.names])
        weights["sgLasso" + choice] = (w, took)
    return weights


def counts(w: np.ndarray, data: Grouped, true: np.ndarray) -> dict[str, float]:
    """Return how many groups and columns a model has, has wrongly, and misses."""
    ends = np.cumsum([0, *data.sizes[:-1]])
    figures = {}
    for kind, taken, real in (
        ("groups", np.logical_or.reduceat(w != 0, ends), np.logical_or.reduceat(true, ends)),
        ("columns", w != 0, true),
    ):
        figures |= {
            kind: float(taken.sum()),
            f"false {kind}": float((taken & ~real).sum()),
            f"missed {kind}": float((real & ~taken).sum()),
        }
    return figures


def error(w: np.ndarray, data: Grouped) -> float:
    """Return the summed squared error on the test rows."""
    residual = data.test_target - data.y.mean() - (data.test_rows - data.X.mean(axis=0)) @ w
    return float(residual @ residual)


def table_3(study: Study) -> Iterator[str]:
    """Repeat Table 3."""
    seeds = study.seeds(50, 1)
    first = simulated(0, SIZE)
    # The solver is compiled at the first call, which is not to be timed.
    frame = pl.DataFrame(np.column_stack([first.X, first.y]), schema=[*first.names, "y"])
    sparse_group_lasso(frame, first.groups, FOLDS)
    yield "## SGHT: groups and columns of a made-up truth (Xiang et al., Table 3)"
    yield prose(
        f"""
        Published: 100 rows, 200 normal columns in 20 groups, six of them true, values the same
        inside a group (Figure 5), five-fold cross-validation, 10 runs. Here {len(seeds)} runs.
        Inferred: the values are {", ".join(f"{value:g}" for value in VALUES)}, the noise has a
        deviation of {NOISE:g}, of 1, 4 and 8 the one by which OMP and gOMP missed what they do on
        seeds 0 to 9, and in case 1 three columns of each true group count, since NO - FP + FN is
        18. SGHT is the paper's descent on rows (ISTA-L from zero, `sght_on_rows`);
        OMP and gOMP are dbselect's on the Grams of the folds, gOMP of
        at most 6 groups, as 80 rows fit no more; the sparse group lasso is that of skglm. Columns
        are standardised, of which the paper is silent. The two fractional models and DC are not
        run, which leaves out 251 orders of Tables 3 and 4: their authors published no code, and
        what is written of them leaves regularisers, starts and stops open. Claims are of the least
        error of the folds, as published; "1 s.e." takes the simplest within a standard error.
        """
    )
    for case, per_group in TRUE_COLUMNS.items():
        true = np.tile(np.arange(SIZE) < per_group, GROUPS) & (
            np.arange(GROUPS * SIZE) < TRUE_GROUPS * SIZE
        )
        rows = []
        for seed in seeds:
            data = simulated(seed, per_group)
            for method, (w, took) in models(data, LIMITS, COLUMNS, WHOLE).items():
                rows.append({"seed": seed, "method": method, "seconds": took,
                             **counts(w, data, true)})  # fmt: skip
        runs, printed = pl.DataFrame(rows), XIANG_3[case]
        yield f"{printed.table}:"
        yield beside(printed, runs, ["SGHT, 1 s.e.", "OMP, 1 s.e."])
        yield study.judge(*judged(printed, runs))


def table_4(study: Study) -> Iterator[str]:
    """Repeat Table 4."""
    seeds = study.seeds(20, 1)
    limits = [(times * s2, s2) for s2 in range(1, 7) for times in (1, 2, 3)]
    rows = []
    for seed in seeds:
        data = cubic(seed)
        everything = ds.gram(np.column_stack([data.X, data.y]), columns=[*data.names, "y"])
        weights = models(data, limits, list(range(1, 21)), list(range(1, 11)))
        weights["all 39 columns"] = (vector(ds.fit(everything, "y"), data.names), 0.0)
        for method, (w, _) in weights.items():
            figures = counts(w, data, np.zeros(len(w), dtype=bool))
            sizes = {"groups": figures["groups"], "columns": figures["columns"]}
            rows.append({"seed": seed, "method": method, **sizes, "squared error": error(w, data)})
    runs = pl.DataFrame(rows)
    yield "## SGHT: Boston Housing with squares and cubes (Xiang et al., Table 4)"
    least = runs["squared error"].min()
    yield prose(
        f"""
        Published: 13 features with their squares and cubes, half of 506 rows to train on,
        five-fold cross-validation, 10 splits, "mse". Here {len(seeds)} splits. A mean squared
        error of 8,000 is 100 times the variance of the prices, so the error is taken to be summed
        over the 253 test rows; the published 545 would be 2.2 a row, of prices in 1000 dollars.
        The least of all models and splits here is {least:,.0f}. Inferred: s2 from 1 to 6, s1 one,
        two or three times as many; 1 to 20 columns of OMP, 1 to 10 groups of gOMP.
        """
    )
    yield beside(XIANG_4, runs, ["SGHT, 1 s.e.", "all 39 columns"])
    yield study.judge(*judged(XIANG_4, runs))

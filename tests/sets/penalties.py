"""Problems of penalised paths, and how far a point of one is from its optimality conditions."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from problems import Problem, random_problem, rounding
from reference import Table

#: What the optimality conditions are promised to hold to, in correlations.
PROMISED = 1e-8
COSTS = (1.0, 5.0, 20.0, 100.0)


def units(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Return A and t with ``A'A = G``, ``A't = c`` and ``t't = 1`` for the problem's scaling."""
    table = problem.table
    A = table.A * (1.0 if table.scale else table.deviation)
    return A, table.t / np.linalg.norm(table.t)


def weights(problem: Problem, path: Any) -> np.ndarray:
    """Return w of every point for the columns of A, from the coefficients in the table's units."""
    number = {name: j for j, name in enumerate(path.columns)}
    coef = path.coef[:, [number[name] for name in problem.table.names]]
    spread = problem.table.deviation if problem.table.scale else 1.0
    return coef * spread / np.linalg.norm(problem.table.t)


def costs_of(problem: Problem) -> np.ndarray:
    return np.array([problem.costs[name] for name in problem.groups])


def violation(
    problem: Problem, path: Any, norm: Any = 0.0, absolute: Any = 0.0, square: Any = 0.0
) -> float:
    """Return how far the path is from optimal, from the rows, in correlations.

    Parameters
    ----------
    norm : factors of ||w_g||, costs included, one for every group; 0: every column is alone
    absolute, square : factors of |w_j| and of w_j^2 / 2, one for every column
    """
    A, t = units(problem)
    width = A.shape[1]
    absolute, square = np.broadcast_to(absolute, width), np.broadcast_to(square, width)
    groups = [*problem.groups.values()] if np.ndim(norm) else [[j] for j in range(width)]
    norms = np.broadcast_to(norm, len(groups))
    worst = 0.0
    for penalty, w in zip(path.penalties, weights(problem, path), strict=True):
        b = A.T @ (t - A @ w) - penalty * square * w
        for factor, at in zip(norms, groups, strict=True):
            own, gradient = w[at], b[at]
            limit, each = penalty * factor, penalty * absolute[at]
            deviation = np.linalg.norm(A[:, at], axis=0).max() or 1.0
            beyond = np.sign(gradient) * np.maximum(np.abs(gradient) - each, 0)
            if own.any():
                left = gradient - each * np.sign(own) - limit * own / np.linalg.norm(own)
                distance = np.linalg.norm(np.where(own, left, beyond))
            else:
                distance = np.linalg.norm(beyond) - limit
            worst = max(worst, distance / deviation)
    return worst


def assert_fits_rows(problem: Problem, path: Any) -> None:
    """Compare r2 and intercepts with those of the coefficients on the rows."""
    table = problem.table
    X = table.X[:, [table.names.index(name) for name in path.columns]]
    residual = table.y[:, None] - path.intercept - X @ path.coef.T
    assert np.abs(table.share @ residual).max() <= rounding(table) * np.abs(table.y).max()
    rss = table.share @ residual**2
    np.testing.assert_allclose(path.r2, 1 - rss / (table.t @ table.t), rtol=0, atol=1e-10)
    assert path.r2[0] == 0


def priced(rng: np.random.Generator, problem: Problem) -> Problem:
    return replace(problem, costs={name: rng.choice(COSTS) for name in problem.groups})


def mixed(rng: np.random.Generator, rows: int = 60, **asked) -> Problem:
    """Return a dozen correlated groups of 1 to 7 columns."""
    return priced(rng, random_problem(rng, (1, 3, 7, 1, 2, 4, 5, 1, 6, 2, 3, 1), rows, **asked))


def correlated(rng: np.random.Generator) -> Problem:
    """Let columns of a group share all but a hundredth of their variance."""
    problem = mixed(rng)
    X = problem.table.X / problem.table.deviation
    for columns in problem.groups.values():
        X[:, columns] = X[:, columns[:1]] + 0.1 * rng.normal(size=(len(X), len(columns)))
    return problem.with_table(X=X)


def duplicated(rng: np.random.Generator) -> Problem:
    """Put another column in the place of a third of them, in another unit, with either sign."""
    problem = mixed(rng)
    X = problem.table.X.copy()
    for to, of in rng.choice(X.shape[1], (12, 2)):
        X[:, to] = X[:, of] * rng.choice([-3.0, 1.0, 0.01])
    return problem.with_table(X=X)


def dummies(rng: np.random.Generator) -> Problem:
    """Return indicators of all levels of some factors: each group adds up to a constant."""
    sizes = (2, 3, 5, 4, 2)
    levels = [np.eye(size)[rng.integers(0, size, 80)] for size in sizes]
    X = np.hstack(levels)
    members = np.split(np.arange(16), np.cumsum(sizes)[:-1])
    groups = {f"g{i}": at.tolist() for i, at in enumerate(members)}
    y = X @ rng.normal(size=16) + 0.3 * rng.normal(size=80)
    return priced(rng, Problem(Table(X, y), groups, {}))


def with_constants(rng: np.random.Generator) -> Problem:
    """Make a column of a large group and all columns of a small one constant."""
    problem = mixed(rng)
    X = problem.table.X.copy()
    X[:, [problem.groups["g2"][3], *problem.groups["g4"]]] = 0.3
    return problem.with_table(X=X)


def of_single_columns(rng: np.random.Generator) -> Problem:
    return priced(rng, random_problem(rng, (1,) * 20, rows=40))


def exactly_linear(rng: np.random.Generator) -> Problem:
    """Make the target a sum of columns without noise."""
    problem = mixed(rng)
    X = problem.table.X / problem.table.deviation
    return problem.with_table(X=X, y=X[:, ::3].sum(axis=1))


def of_one_group(rng: np.random.Generator) -> Problem:
    return random_problem(rng, (6,))


KINDS: dict[str, Callable[[np.random.Generator], Problem]] = {
    "mixed": mixed,
    "weighted": partial(mixed, weighted=True),
    "columns as they are": partial(mixed, scale=False),
    "fewer rows than columns": partial(mixed, rows=20),
    "a handful of rows": partial(mixed, rows=5),
    "correlated": correlated,
    "duplicated": duplicated,
    "dummies": dummies,
    "constants": with_constants,
    "single columns": of_single_columns,
    "exactly linear": exactly_linear,
    "one group": of_one_group,
}

kinds = pytest.mark.parametrize("kind", list(KINDS))
seeds = pytest.mark.parametrize("seed", range(3))

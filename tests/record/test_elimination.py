"""Groups of many columns that nearly depend on each other: which are kept, and how fast."""

from fractions import Fraction

import numpy as np
import polars as pl
import pytest

import dbselect as ds
from dbselect.linear.problem import Linear, linear
from dbselect.linear.state import LinearState

#: What is left of a variance, as a share of 1 + w'w, that the library takes for rounding.
RANK_ROUNDING = 1e-14


def smooth(columns: int, decay: float, rows: int = 300) -> pl.DataFrame:
    """Return columns that are points of smooth curves, as a spectrum has, and a target."""
    rng = np.random.default_rng(0)
    waves = np.cos(np.pi * np.outer(np.arange(40), np.linspace(0, 1, columns)))
    X = rng.normal(size=(rows, 40)) @ (np.exp(-decay * np.arange(40))[:, None] * waves)
    y = X[:, 0] + X[:, -1] + 0.1 * rng.normal(size=rows)
    return pl.DataFrame(X, schema=[f"x{j}" for j in range(columns)]).with_columns(y=pl.Series(y))


def left(problem: Linear, before: list[int], column: int) -> float:
    """Return what is left of a column beyond others, over 1 + w'w, in exact numbers."""
    at = [*before, column]
    rows = [
        [Fraction(float(problem.G[i, j])) for j in at] + [Fraction(int(i == j)) for j in at]
        for i in at
    ]
    for k, pivot in enumerate(rows):
        for row in rows[k + 1 :]:
            share = row[k] / pivot[k]
            row[:] = [x - share * other for x, other in zip(row, pivot, strict=True)]
    size = len(at)
    return float(rows[-1][size - 1] / sum(x * x for x in rows[-1][size:]))


def test_of_nearly_dependent_columns_those_are_kept_that_exact_numbers_tell_apart():
    table = smooth(36, 1.2)
    problem = linear(ds.gram(table), "y", table.columns[:-1])
    order = [*range(12, 36), *range(12)]
    state = LinearState(problem, [np.arange(12, 36), np.arange(12)])
    state.add(0)
    state.add(1)
    kept = state.support
    assert 5 < len(kept) < 24
    for at, column in enumerate(order):
        before = [one for one in order[:at] if one in kept]
        found = left(problem, before, column)
        # Some eps of the exact numbers is what a floating-point elimination can tell.
        if found > 2 * RANK_ROUNDING:
            assert column in kept
        if found < RANK_ROUNDING / 2:
            assert column not in kept


@pytest.mark.filterwarnings("ignore::dbselect.errors.ConditionWarning")
def test_a_group_of_hundreds_of_nearly_dependent_columns_is_fitted():
    table = smooth(600, 0.4)
    found = ds.anytime_sequence(table, "y", {"spectrum": table.columns[:-1]})
    X, y = table.drop("y").to_numpy(), table["y"].to_numpy()
    X = np.column_stack([np.ones(len(y)), X])
    rss = ((y - X @ np.linalg.lstsq(X, y, rcond=1e-9)[0]) ** 2).sum()
    assert found.r2[-1] == pytest.approx(1 - rss / ((y - y.mean()) ** 2).sum(), abs=2e-3)
    assert len(found.aliased) > 550

"""Digits kept: large means against exact arithmetic."""

from fractions import Fraction
from functools import reduce
from operator import add

import numpy as np
import polars as pl
import pytest
from problems import EPS

import dbselect as ds

#: Steps of the grid on which the data lie: every sum of their products fits an int64.
GRID = 2.0**-20


def exact_comoment(steps: np.ndarray, row_weight: np.ndarray) -> np.ndarray:
    """Return the comoment of whole numbers, rounded once; whole-number weights."""
    weight = int(row_weight.sum())
    sums = (row_weight @ steps).tolist()
    products = ((steps * row_weight[:, None]).T @ steps).tolist()
    return np.array(
        [
            [float(product - Fraction(sums[i] * sums[j], weight)) for j, product in enumerate(row)]
            for i, row in enumerate(products)
        ]
    )


@pytest.mark.parametrize("parts", [1, 7])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("rows", [10, 5_000, 200_000])
@pytest.mark.parametrize("offset", [0, 10**8, -(10**8)])
def test_mean_of_1e8_spreads_costs_no_digits(offset, rows, weighted, parts):
    rng = np.random.default_rng(1)
    steps = rng.integers(-(2**20), 2**20, size=(rows, 3))
    steps[:, 1] += steps[:, 0] // 2
    row_weight = rng.integers(1, 4 if weighted else 2, size=rows)
    X = steps * GRID + np.array([offset, 0, -offset])
    assert ((X - [offset, 0, -offset]) / GRID == steps).all()
    frame = pl.DataFrame(X, schema=["a", "b", "c"]).with_columns(w=pl.Series(row_weight))
    pieces = [frame[at[0] : at[-1] + 1] for at in np.array_split(np.arange(rows), parts)]
    gram = reduce(add, [ds.gram(piece, weight="w") for piece in pieces])
    exact = exact_comoment(steps, row_weight) * GRID**2
    deviation = np.sqrt(np.diagonal(exact))
    # Rounding of n terms adds up like a random walk; a merge of records only knows their
    # means to the nearest double, over a distance of spread / sqrt(rows of a part).
    merging = abs(offset) * EPS * (rows / parts) ** -0.5 if parts > 1 else 0.0
    tolerance = 8 * EPS * rows**0.5 + merging
    np.testing.assert_allclose(
        gram.comoment / np.outer(deviation, deviation),
        exact / np.outer(deviation, deviation),
        rtol=0,
        atol=tolerance,
    )


@pytest.mark.parametrize("cut", [1, 5, 21])
def test_small_table_of_whole_numbers_is_rounded_once_however_it_is_cut(cut):
    # NIST's Wampler sets: powers up to 20^5, whose products are whole numbers below 2^53.
    X = np.arange(21)[:, None] ** np.arange(1, 6)
    table = pl.DataFrame(X, schema=list("abcde")).to_arrow()
    found = ds.gram(table.to_reader(max_chunksize=cut)).comoment
    exact = exact_comoment(X, np.ones(21, dtype=int))
    # What is subtracted for the distance of the center from the mean is rounded too.
    np.testing.assert_allclose(found, exact, rtol=1.5 * EPS)


@pytest.mark.parametrize("rows", [1, 3, 1000])
def test_variance_of_a_weighted_constant_is_zero_up_to_rounding(rows):
    rng = np.random.default_rng(2)
    values = rng.normal(size=14)
    constants = pl.DataFrame(np.tile(values, (rows, 1)), schema=[f"x{j}" for j in range(14)])
    for row_weight in rng.uniform(0.5, 3, (50, rows)):
        gram = ds.gram(constants.with_columns(w=pl.Series(row_weight)), weight="w")
        np.testing.assert_allclose(gram.mean, values, rtol=8 * EPS)
        variance = np.diagonal(gram.covariance())
        assert (variance >= 0).all()
        assert (variance <= (8 * EPS * values) ** 2).all()

"""Groups that share columns, and products that bring their sources along, without the whole Gram.

The whole Gram takes both by another path, and refits of the rows by neither.
"""

import numpy as np
import polars as pl
import pytest
from wholes import assert_same, both

import dbselect as ds
from dbselect.linear import lazy_gram

RNG = np.random.default_rng(4)
ROWS, COUNT = 200, 12
X = RNG.normal(size=(ROWS, COUNT)) + RNG.normal(size=COUNT)
Y = X[:, 0] + 2 * X[:, 1] * X[:, 2] - X[:, 3] * X[:, 7] + X[:, 5] + RNG.normal(size=ROWS)
NAMES = [f"x{j}" for j in range(COUNT)]
TABLE = pl.DataFrame(X, NAMES).with_columns(y=Y, w=RNG.integers(0, 3, ROWS))
TERMS = ds.terms(TABLE.select(NAMES), interactions="pairs")
PRODUCTS = TERMS.nested_groups()
COSTS = dict(zip(NAMES, RNG.integers(1, 5, COUNT).astype(float).tolist(), strict=True))


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    """Read few rows at a time, so that searches of small tables need many scans."""
    monkeypatch.setattr(lazy_gram, "BATCH", 7)


def values(columns):
    """Return columns of the table and their products, by name; shape (rows, k)."""
    of = dict(zip(NAMES, X.T, strict=True))
    return np.array([np.prod([of[part] for part in one.split(":")], axis=0) for one in columns]).T


@pytest.mark.parametrize(
    "given",
    [{}, {"ridge": 0.2, "scale": False}, {"rule": "omp"}, {"rule": "omp-single"},
     {"rule": "doubling", "weight": "w"}, {"always": ["d", "a"], "max_groups": 4}, {"budget": 4.0}],
    ids=str,
)  # fmt: skip
def test_a_column_that_is_held_is_not_taken_twice(given):
    groups = {
        "a": ["x0", "x1"], "b": ["x1", "x2", "x3"], "c": ["x3"], "d": ["x5", "x0"],
        "e": ["x4", "x6", "x5", "x2"], "f": ["x1", "x0"], "g": ["x7", "x8"],
    }  # fmt: skip
    costs = {"a": 2.0, "b": 1.5, "c": 0.5, "d": 1.0, "e": 3.0, "f": 0.25, "g": 1.0}
    wide = both(TABLE, "y", groups, costs, **given)
    held = list(wide.at().coefficients)
    assert len(held) == len({*held})


@pytest.mark.parametrize(
    "given",
    [{}, {"rule": "omp", "ridge": 0.1}, {"budget": 9.0}, {"rule": "doubling"},
     {"always": ["x8:x9", "x8", "x1"], "budget": 12.0}],
    ids=str,
)  # fmt: skip
def test_products_bring_their_sources_along_and_pay_for_them_once(given):
    wide = both(TABLE, "y", PRODUCTS, COSTS, terms=TERMS, max_groups=9, **given)
    bought: set[str] = set()
    for group, spent in wide.steps.select("group", "spent").rows()[1:]:
        bought |= set(group.split(":"))
        assert spent == sum(COSTS[name] for name in bought)


def test_models_of_products_are_refits_of_the_rows():
    wide = ds.anytime_sequence(TABLE, "y", PRODUCTS, COSTS, terms=TERMS, gram="lazy", max_groups=6)
    y = Y - Y.mean()
    for step in range(1, 7):
        coefficients = wide.model(step).coefficients
        Z = values(coefficients)
        Z = Z - Z.mean(axis=0)
        expected, *_ = np.linalg.lstsq(Z, y, rcond=None)
        assert [*coefficients.values()] == pytest.approx(expected.tolist(), rel=1e-9)
        left = ((y - Z @ expected) ** 2).sum()
        assert wide.steps["r2"][step] == pytest.approx(1 - left / (y @ y))


def test_only_rows_of_products_that_promise_something_are_read():
    wide = both(TABLE, "y", PRODUCTS, COSTS, terms=TERMS, max_groups=3)
    assert "x1:x2" in wide.steps["group"].to_list()
    assert wide.n_columns == COUNT + COUNT * (COUNT - 1) // 2
    assert wide.rows_fetched < wide.n_columns / 2
    assert wide.scans <= 6


def test_a_search_of_products_is_taken_up_again_and_screened():
    given = {"terms": TERMS, "gram": "lazy"}
    whole = ds.anytime_sequence(TABLE, "y", PRODUCTS, COSTS, max_groups=7, **given)
    part = ds.anytime_sequence(TABLE, "y", PRODUCTS, COSTS, max_groups=3, **given)
    more = ds.anytime_sequence(TABLE, "y", PRODUCTS, COSTS, max_groups=7, resume=part, **given)
    assert_same(more, whole)
    # Three columns of the first product, and not again its sources.
    few = ds.anytime_sequence(TABLE, "y", PRODUCTS, COSTS, screen=5, **given)
    assert few.n_searched <= 5
    assert few.n_columns == whole.n_columns
    assert few.spent[-1] == sum(COSTS[x] for x in {*":".join(few.steps["group"][1:]).split(":")})


def test_products_are_cross_validated_as_from_the_whole_gram():
    given = {"terms": TERMS, "folds": 3, "max_groups": 4}
    wide, full = (
        ds.cross_validate(TABLE, "y", groups=PRODUCTS, costs=COSTS, gram=gram, **given)
        for gram in ("lazy", "full")
    )
    np.testing.assert_allclose(wide.scores["mse"], full.scores["mse"], rtol=1e-9)

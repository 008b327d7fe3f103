"""Exact ties are decided by names, never by rounding: the order of rows changes no answer."""

import numpy as np
import polars as pl
import pytest

import dbselect as ds
from dbselect.selection.moves import best_first, levelled

#: Columns of `with_a_twin`, and those of its groups.
WIDTH = 9
GROUPS = {"g0": ["x0", "x1"], "g1": ["x2", "x3", "x4"], "g2": ["x5"], "g3": ["x6", "x7"]}
GROUPS |= {"g4": ["x8"], "twin": [f"x{WIDTH}"]}

METHODS = {
    "dash": lambda gram: ds.dash(gram, "y", k=6).groups,
    "dash in two rounds": lambda gram: ds.dash(gram, "y", k=4, rounds=2).groups,
    "top_k": lambda gram: ds.reference.top_k(gram, "y", k=4).groups,
    "sght": lambda gram: ds.sght(gram, "y", GROUPS, max_columns=4, max_groups=3).columns,
    "sght of many columns": lambda gram: (
        ds.sght(gram, "y", GROUPS, max_columns=7, max_groups=5).columns
    ),
    "sght without exchanges": lambda gram: (
        ds.sght(gram, "y", GROUPS, max_columns=4, max_groups=3, polish=False).columns
    ),
    "sght from zero": lambda gram: (
        ds.sght(
            gram, "y", GROUPS, max_columns=3, max_groups=3, start="zero", variant="fista",
            polish=False,
        ).columns
    ),
}  # fmt: skip


SLOW = {"dash", "sght", "sght of many columns"}


def with_a_twin(seed):
    """Return a table whose last column is an affine copy of one in another group."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, WIDTH))
    source = rng.integers(WIDTH)
    y = X @ (rng.normal(size=WIDTH) * (rng.random(WIDTH) < 0.6)) + X[:, source]
    X = np.column_stack([X, 3 * X[:, source] - 7])
    columns = {f"x{j}": X[:, j] for j in range(WIDTH + 1)}
    return pl.DataFrame(columns | {"y": y + rng.normal(size=len(y))})


@pytest.mark.parametrize(
    "method",
    [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in METHODS],
)
def test_the_order_of_rows_changes_no_answer(method):
    for seed in range(12):
        table = with_a_twin(seed)
        orders = [np.random.default_rng(one).permutation(table.height) for one in range(3)]
        tables = [table, *(table[order.tolist()] for order in orders)]
        answers = {tuple(METHODS[method](ds.gram(one))) for one in tables}
        assert len(answers) == 1, (seed, answers)


def test_what_ties_is_in_the_order_of_names():
    scores = np.array([1.0, 3.0, 3.0 + 1e-13, 1.0 + 1e-15, 2.0])
    assert best_first(scores).tolist() == [1, 2, 4, 0, 3]


def test_sizes_that_tie_are_equal_and_rounding_is_none():
    sizes = levelled(np.array([1.0, 3.0, 3.0 + 1e-13, 1e-14, 0.0]))
    assert sizes[1] == sizes[2]
    assert sizes[[3, 4]].tolist() == [0.0, 0.0]
    np.testing.assert_allclose(sizes[:3], [1.0, 3.0, 3.0], rtol=1e-12)
    assert levelled(np.zeros(3)).tolist() == [0.0, 0.0, 0.0]

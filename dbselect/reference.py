"""The papers' baselines and building blocks, and measures of curves."""

from collections.abc import Iterable
from itertools import product
from typing import Any, Unpack

from dbselect.methods.sets.cost_groups import cost_groups
from dbselect.options.table import DescentOptions
from dbselect.problem.building_blocks import (
    foba_epsilon,
    group_lasso,
    lasso,
    random_k,
    sparse_group_lasso,
    top_k,
)
from dbselect.problem.problem import Problem
from dbselect.results.selected import Selected
from dbselect.selection.penalised.projection import sght_project, sght_table
from dbselect.validation.timeliness import explained_at, oracle, plateau, stopping_cost, timeliness

__all__ = [
    "cost_groups", "explained_at", "foba_epsilon", "group_lasso", "lasso", "oracle",
    "plateau", "random_k", "sght_path", "sght_project", "sght_table", "sparse_group_lasso",
    "stopping_cost", "timeliness", "top_k",
]  # fmt: skip


def sght_path(
    problem: Problem,
    grid_columns: Iterable[int],
    grid_groups: Iterable[int],
    **options: Unpack[DescentOptions],
) -> dict[tuple[int, int], Selected[Any]]:
    """Return the model of `sght` for every pair of limits.

    Parameters
    ----------
    problem : its source is read once
    grid_columns, grid_groups : values of `max_columns` and `max_groups`
    options : as of `sght`

    Returns
    -------
    (max_columns, max_groups) -> Selected

    Raises
    ------
    ColumnError, GroupError, ArgumentError, DataError : as `sght`

    References
    ----------
    Xiang, Yang, Ye (2014), section 2, remark 1.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> a, b, c = [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]
    >>> y = [3 * i + 2 * j + k for i, j, k in zip(a, b, c)]
    >>> table = pl.DataFrame({"a": a, "b": b, "c": c, "y": y})
    >>> problem = ds.Problem(table, "y", {"u": ["a", "c"], "v": ["b"]})
    >>> path = ds.reference.sght_path(problem, grid_columns=[2], grid_groups=[1, 2])
    >>> {limits: model.columns for limits, model in path.items()}
    {(2, 1): ['a', 'c'], (2, 2): ['a', 'b']}
    """
    return {
        (columns, groups): problem.sght(max_columns=columns, max_groups=groups, **options)
        for columns, groups in product(grid_columns, grid_groups)
    }

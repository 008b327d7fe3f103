"""Bi-level selection over a grid of limits."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Unpack

import polars as pl

from dbselect.errors import ArgumentError, shown
from dbselect.families import parse
from dbselect.methods.sets.descents import check_start, descents_of, task_of
from dbselect.options.option import shows
from dbselect.options.table import SghtPathOptions
from dbselect.results.model import Model
from dbselect.results.paths.sght_path import PATH_DTYPES, SghtPath
from dbselect.search.open import asked, open_search
from dbselect.selection.penalised.descent import Descent
from dbselect.selection.penalised.projection import check_limit
from dbselect.sources.progress import turns

if TYPE_CHECKING:
    from dbselect.problem.problem import Problem


@shows(SghtPathOptions)
def sght_path(problem: "Problem", **options: Unpack[SghtPathOptions]) -> SghtPath:
    """Return the model of `sght` for every pair of limits.

    Returns
    -------
    SghtPath, whose ``points`` have one row a pair, the values of `grid_groups` within those
    of `grid_columns`: max_columns, max_groups, columns (list of names), groups (list of
    names), spent, intercept, coefficients (list of key and value), explained, r2 (NULL with
    a family), iterations, converged

    Raises
    ------
    ColumnError, GroupError, ArgumentError, DataError : as `sght`

    Notes
    -----
    The correlations, the ridge solutions and one table of the projections of each are
    computed once for all pairs.

    References
    ----------
    Xiang, Yang, Ye (2014), section 2, remark 1.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> a, b, c = [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]
    >>> y = [3 * i + 2 * j + k for i, j, k in zip(a, b, c)]
    >>> g = ds.gram(pl.DataFrame({"a": a, "b": b, "c": c, "y": y}))
    >>> u_v = {"u": ["a", "c"], "v": ["b"]}
    >>> path = ds.Problem(g, "y", u_v).sght_path(grid_columns=[2], grid_groups=[1, 2])
    >>> path.points["columns"].to_list()
    [['a', 'c'], ['a', 'b']]
    """
    known, call = asked(problem, "sght_path", SghtPathOptions, options)
    check_start(known["start"])
    if parse(problem.family).has_classes:
        raise ArgumentError("family is 'multinomial'; a row of sght_path has no place for classes")
    search: Any = open_search(problem, call)
    task = task_of(search, known["refit"])
    most_columns = _grid("grid_columns", known["grid_columns"], len(task.groups.members))
    most_groups = _grid("grid_groups", known["grid_groups"], len(task.groups.names))
    limits = [(s1, s2) for s1 in most_columns for s2 in most_groups]
    with turns(len(limits), "pairs of limits", known["callback"]) as turn:
        descents = descents_of(task, limits, known, turn)
    # No comprehension, whose frame a warning would point to.
    models = list(map(task.model, descents))
    rows = [_row(*each) for each in zip(limits, models, descents, strict=True)]
    return SghtPath(pl.DataFrame(rows, schema=PATH_DTYPES, orient="row"), call)


def _row(limits: tuple[int, int], model: Any, descent: Descent) -> tuple[Any, ...]:
    pairs = [{"key": key, "value": value} for key, value in model.coefficients.items()]
    r2 = model.r2 if isinstance(model, Model) else None
    return (
        *limits, model.columns, model.groups, model.spent, model.intercept, pairs,
        model.explained, r2, len(descent.history) - 1, descent.converged,
    )  # fmt: skip


def _grid(name: str, values: Any, most: int) -> list[int]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ArgumentError(
            f"{name} is {shown(values)}; it must list whole numbers from 1 to {most}"
        )
    limits = [check_limit(name, value, most) for value in values]
    if not limits:
        raise ArgumentError(f"{name} is empty; it must list whole numbers from 1 to {most}")
    return limits

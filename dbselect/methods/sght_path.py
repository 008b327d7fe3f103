"""Bi-level selection over a grid of limits."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl

from dbselect.errors import ArgumentError
from dbselect.methods.descents import DescentOptions, Start, VariantName, descents_of, task_of
from dbselect.methods.glm_objective import GlmObjective, ObjectiveSetup
from dbselect.methods.open_search import open_search
from dbselect.methods.types import (
    Costs,
    FamilyName,
    GroupColumns,
    NullPolicy,
    Source,
)
from dbselect.pages.glance import Glance, InNotebooks
from dbselect.pictures.cells import limits_grid
from dbselect.results.model import Model
from dbselect.selection.descent import (
    Descent,
)
from dbselect.selection.projection import check_limit
from dbselect.sources.turns import Callback, check_callback, turns


@dataclass(frozen=True, kw_only=True)
class SghtPathOptions(DescentOptions):
    """Options of `sght_path`."""

    method: ClassVar[str] = "sght_path"

    grid_columns: Iterable[int]
    grid_groups: Iterable[int]


@dataclass(frozen=True, eq=False)
class SghtPath(InNotebooks):
    """The models of `sght` at every pair of limits.

    Parameters
    ----------
    points : one row a pair, as `sght_path` tells

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> a, b, c = [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]
    >>> y = [3 * i + 2 * j + k for i, j, k in zip(a, b, c)]
    >>> table = pl.DataFrame({"a": a, "b": b, "c": c, "y": y})
    >>> ds.sght_path(table, "y", grid_columns=[1, 2], grid_groups=[1, 2])
    SghtPath(4 pairs; explained 0.6429 to 0.9286)
    """

    points: pl.DataFrame

    def __repr__(self) -> str:
        explained = self.points["explained"].to_numpy()
        return (
            f"SghtPath({len(explained)} pairs; explained {explained.min():.4f} "
            f"to {explained.max():.4f})"
        )

    @property
    def _glance(self) -> Glance:
        return Glance(
            self.points.select(
                "max_columns", "max_groups", pl.col("columns", "groups").list.len(), "spent",
                "explained", "converged",
            )
        )  # fmt: skip

    def plot(self) -> Any:
        """Return a picture of what is explained at each pair of limits.

        Returns
        -------
        Chart of altair. Its ``data`` is the DataFrame that is drawn, `points` with the
        lists as text

        Raises
        ------
        EngineError : altair is not installed
        """
        names = pl.col("columns", "groups").list.join(", ")
        frame = self.points.select(
            "max_columns", "max_groups", names, "spent", "explained", "r2", "converged"
        )
        stopped = frame.filter(~pl.col("converged")).height
        told = ["Each cell is a model; hovering tells its columns."]
        if stopped:
            told.append(f"{stopped} descents were stopped by max_iter.")
        return limits_grid(frame, "What is explained within two limits", told)


def sght_path(
    source: Source | GlmObjective,
    target: str | None = None,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    grid_columns: Iterable[int],
    grid_groups: Iterable[int],
    family: FamilyName = SghtPathOptions.family,
    intercept: bool = SghtPathOptions.intercept,
    variant: VariantName = SghtPathOptions.variant,
    start: Start = SghtPathOptions.start,
    refit: bool = SghtPathOptions.refit,
    polish: bool = SghtPathOptions.polish,
    tol: float = SghtPathOptions.tol,
    max_iter: int = SghtPathOptions.max_iter,
    null_policy: NullPolicy = SghtPathOptions.null_policy,
    callback: Callback | None = None,
) -> SghtPath:
    """Return the model of `sght` for every pair of limits.

    Parameters
    ----------
    source, target, groups, costs : as of `sght`, of one response
    grid_columns : values of max_columns
    grid_groups : values of max_groups
    family : as of `sght`, but not ``"multinomial"``
    intercept, variant, start, refit, polish, tol, max_iter, null_policy : as of `sght`
    callback : is called with a `Progress` after every pair; what it raises ends the call

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
    >>> path = ds.sght_path(g, "y", groups=u_v, grid_columns=[2], grid_groups=[1, 2])
    >>> path.points["columns"].to_list()
    [['a', 'c'], ['a', 'b']]
    """
    check_callback(callback)
    options = SghtPathOptions(
        grid_columns=grid_columns, grid_groups=grid_groups, family=family,
        intercept=intercept, variant=variant, start=start, refit=refit, polish=polish, tol=tol,
        max_iter=max_iter, null_policy=null_policy,
    )  # fmt: skip
    search = open_search(
        source, target, groups, costs, family=options.family, null_policy=options.null_policy,
        intercept=options.intercept,
    )  # fmt: skip
    if isinstance(search, ObjectiveSetup) and search.state.about.data.roles.family.classes:
        raise ArgumentError("family is 'multinomial'; a row of sght_path has no place for classes")
    task = task_of(search, options.refit)
    most_columns = _grid("grid_columns", grid_columns, len(task.groups.members))
    most_groups = _grid("grid_groups", grid_groups, len(task.groups.names))
    limits = [(s1, s2) for s1 in most_columns for s2 in most_groups]
    with turns(len(limits), "pairs of limits", callback) as turn:
        descents = descents_of(task, limits, options, turn)
    # No comprehension, whose frame a warning would point to.
    models = list(map(task.model, descents))
    rows = [_row(*each) for each in zip(limits, models, descents, strict=True)]
    return SghtPath(pl.DataFrame(rows, schema=PATH_DTYPES, orient="row"))


#: Columns of `sght_path`.
PATH_DTYPES: dict[str, pl.DataType] = {
    "max_columns": pl.Int64(),
    "max_groups": pl.Int64(),
    "columns": pl.List(pl.String),
    "groups": pl.List(pl.String),
    "spent": pl.Float64(),
    "intercept": pl.Float64(),
    "coefficients": pl.List(pl.Struct({"key": pl.String, "value": pl.Float64})),
    "explained": pl.Float64(),
    "r2": pl.Float64(),
    "iterations": pl.Int64(),
    "converged": pl.Boolean(),
}


def _row(limits: tuple[int, int], model: Any, descent: Descent) -> tuple[Any, ...]:
    pairs = [{"key": key, "value": value} for key, value in model.coefficients.items()]
    r2 = model.r2 if isinstance(model, Model) else None
    return (
        *limits, model.columns, model.groups, model.spent, model.intercept, pairs,
        model.explained, r2, len(descent.history) - 1, descent.converged,
    )  # fmt: skip


def _grid(name: str, values: Any, most: int) -> list[int]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ArgumentError(f"{name} is {values!r}; it must list whole numbers from 1 to {most}")
    limits = [check_limit(name, value, most) for value in values]
    if not limits:
        raise ArgumentError(f"{name} is empty; it must list whole numbers from 1 to {most}")
    return limits

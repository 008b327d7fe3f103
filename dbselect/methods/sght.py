"""Bi-level selection by hard thresholding: few columns in few groups, from a Gram.

The descent (`selection.descent`) starts from projected ridge solutions; what it keeps
is fitted again by least squares. Source: Xiang, Yang, Ye (2014).
"""

import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, overload

import numpy as np
import polars as pl

from dbselect.errors import ArgumentError
from dbselect.glm.deviance import Deviance
from dbselect.glm.newton import extended, solved
from dbselect.glm.newton import start as start_fit
from dbselect.linear.condition import warn_of
from dbselect.linear.inference import FittedRows
from dbselect.linear.problem import Linear, linear
from dbselect.linear.state import State
from dbselect.methods.glm_objective import GlmObjective, data_of_objective
from dbselect.methods.setup import LinearSetup, prepare
from dbselect.objectives.smooth import LeastSquares, Smooth
from dbselect.record.checks import check_choice, check_count
from dbselect.record.gram import Vector
from dbselect.record.groups import Groups
from dbselect.results.glm.build import model_of, warn_of_fit
from dbselect.results.glm.model import GlmModel
from dbselect.results.model import JointModel, Model
from dbselect.selection.descent import (
    STARTS,
    VARIANTS,
    Descent,
    Settings,
    descend,
    lengths,
    restricted,
)
from dbselect.selection.layout import Layout
from dbselect.selection.projection import check_limit, tabulate
from dbselect.sources.request import NullPolicy


@dataclass(frozen=True, eq=False)
class SparseModel(Model):
    """A model on few columns in few groups, and the descent that found them.

    Parameters
    ----------
    target, intercept, coefficients, groups, spent, explained, r2, aliased : as in `Model`
    history : the objective 1/2 x'Gx - c'x on unit-variance columns, at the start and
        after every step, before the refit; 1 + 2 f is the share of variance left
    converged : False if the descent was stopped by `max_iter`
    fit : as in `Model`; None without the refit

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> model = ds.sght(table, "y", max_columns=1, max_groups=1)
    >>> model.columns, model.converged, bool((model.history[1:] <= model.history[:-1]).all())
    (['a'], True, True)
    """

    history: Vector
    converged: bool

    @property
    def iterations(self) -> int:
        """Steps of the descent."""
        return len(self.history) - 1


@dataclass(frozen=True, eq=False, repr=False)
class JointSparseModel(JointModel):
    """Models of several responses on the same few columns, and the descent that found them.

    Parameters
    ----------
    responses, share : as in `JointModel`
    history, converged : as in `SparseModel`, f summed over the responses

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> a, b = [1, -1, 1, -1], [1, 1, -1, -1]
    >>> table = pl.DataFrame({"a": a, "b": b, "y": a, "z": [2 * i + j for i, j in zip(a, b)]})
    >>> model = ds.sght(table, ["y", "z"], max_columns=1, max_groups=1)
    >>> model.columns, round(model.r2, 6), round(model.responses["z"].r2, 6)
    (['a'], 0.9, 0.8)
    """

    history: Vector
    converged: bool

    @property
    def iterations(self) -> int:
        """Steps of the descent."""
        return len(self.history) - 1


@dataclass(frozen=True, eq=False, repr=False)
class SparseGlmModel(GlmModel):
    """A generalised linear model on few columns, and the descent that found them.

    Parameters
    ----------
    target, family, classes, offset, intercept, coefficients, groups, spent : as in `GlmModel`
    deviance, null_deviance, explained, status, aliased : as in `GlmModel`
    rows, skipped, passes, rows_read, bytes_read : as in `GlmModel`
    history : f at the start and after every step, before the refit; 1 + 2 f is the share
        of the null deviance left
    converged : False if the descent was stopped by `max_iter`
    errors : as in `GlmModel`; None without a refit

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> y = [0, 1, 0, 1, 0, 1, 1, 0]
    >>> table = pl.DataFrame({"a": [0, 1] * 4, "b": [0, 0, 1, 1] * 2, "y": y})
    >>> model = ds.sght(ds.glm_objective(table, "y"), max_columns=1, max_groups=1)
    >>> model.columns, model.converged, bool((model.history[1:] <= model.history[:-1]).all())
    (['a'], True, True)
    """

    history: Vector
    converged: bool

    @property
    def iterations(self) -> int:
        """Steps of the descent."""
        return len(self.history) - 1


@overload
def sght(
    gram: GlmObjective,
    target: None = None,
    *,
    groups: None = None,
    max_columns: int,
    max_groups: int,
    variant: str = "ista",
    start: str = "ridge",
    refit: bool = True,
    tol: float = 1e-8,
    max_iter: int = 500,
    null_policy: NullPolicy = "skip",
) -> SparseGlmModel: ...


@overload
def sght(
    gram: Any,
    target: str,
    *,
    groups: Mapping[str, Iterable[str]] | None = None,
    max_columns: int,
    max_groups: int,
    variant: str = "ista",
    start: str = "ridge",
    refit: bool = True,
    tol: float = 1e-8,
    max_iter: int = 500,
    null_policy: NullPolicy = "skip",
) -> SparseModel: ...


@overload
def sght(
    gram: Any,
    target: list[str] | tuple[str, ...],
    *,
    groups: Mapping[str, Iterable[str]] | None = None,
    max_columns: int,
    max_groups: int,
    variant: str = "ista",
    start: str = "ridge",
    refit: bool = True,
    tol: float = 1e-8,
    max_iter: int = 500,
    null_policy: NullPolicy = "skip",
) -> JointSparseModel: ...


def sght(
    gram: Any,
    target: str | list[str] | tuple[str, ...] | None = None,
    *,
    groups: Mapping[str, Iterable[str]] | None = None,
    max_columns: int,
    max_groups: int,
    variant: str = "ista",
    start: str = "ridge",
    refit: bool = True,
    tol: float = 1e-8,
    max_iter: int = 500,
    null_policy: NullPolicy = "skip",
) -> SparseModel | JointSparseModel | SparseGlmModel:
    """Return a model on at most `max_columns` columns in at most `max_groups` groups.

    A local minimum of 1/2 |y - Xw|^2 within both limits, on unit-variance columns; of
    several responses, of the sum over them, each of unit variance, on the same columns; of
    a `glm_objective`, of the deviance, by the same descent.

    Parameters
    ----------
    gram : Gram, record or table, as `anytime_sequence` takes it; or a `glm_objective`,
        without target and groups, which it has
    target : column to predict, or a list of responses
    groups : name -> columns or globs; default: every top-level field but the target
    max_columns : s1, most columns, 1 to the number of columns in groups
    max_groups : s2, most groups, 1 to the number of groups
    variant : ``"ista"`` (Barzilai-Borwein, sufficient decrease), ``"ista-l"`` (the
        same, Lipschitz), ``"fista"`` (accelerated, Barzilai-Borwein, Lipschitz) or
        ``"fista-c"`` (accelerated, constant start, Lipschitz)
    start : ``"ridge"``, the projected solutions at lambda = 0.1, 1 and 10, of which the
        best end is kept, or ``"zero"``
    refit : fit the kept columns by least squares; False keeps the descent's coefficients
    tol : stop when a step changes the objective by at most this share, >= 0
    max_iter : most steps, >= 1
    null_policy : what becomes of missing values while a table is read, as in
        `dbselect.gram`; rows without the target are left out under every policy

    Returns
    -------
    SparseModel, a Model whose coefficients are those of the kept columns; of a list of
    responses JointSparseModel, of a `glm_objective` SparseGlmModel

    Raises
    ------
    ColumnError : an unknown column
    GroupError : groups overlap or are empty
    ArgumentError : a limit is below 1 or above what exists; another option out of range
    DataError : no usable rows, or a constant target

    Warns
    -----
    ConditionWarning : the kept columns are so nearly dependent that their coefficients
        keep fewer than six digits

    Notes
    -----
    With D columns O(D^3) for the ridge solutions; a step costs O(D s1) and one
    projection for each step length tried. Memory 40 D^2 bytes. The objective never
    rises for the two ISTA variants.

    References
    ----------
    Xiang, Yang, Ye (2014), Algorithms 1 and 2, Table 1.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> a, b, c = [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]
    >>> y = [3 * i + 2 * j + k for i, j, k in zip(a, b, c)]
    >>> g = ds.gram(pl.DataFrame({"a": a, "b": b, "c": c, "y": y}))
    >>> model = ds.sght(g, "y", groups={"u": ["a", "c"], "v": ["b"]}, max_columns=2, max_groups=1)
    >>> {name: round(value, 6) for name, value in model.coefficients.items()}
    {'a': 3.0, 'c': 1.0}
    """
    check_sght(variant, start, refit, tol, max_iter)
    settings = Settings(VARIANTS[variant], STARTS[start], float(tol), int(max_iter))
    if target is None:
        about = data_of_objective(gram, groups=groups, null_policy=null_policy)
        limits = _limits(about.groups, max_columns, max_groups)
        deviance = Deviance(gram.refits, gram.fit)
        (descent,) = _descents(deviance, about.groups, [limits], settings)
        return _glm_model(gram, deviance, refit, descent)
    search = prepare(gram, target, groups, None, null_policy=null_policy, several=True)
    limits = _limits(search.groups, max_columns, max_groups)
    (descent,) = _descents(LeastSquares(search.problem), search.groups, [limits], settings)
    return (_joint_model if search.is_joint else _model)(search, refit, descent)


def sght_path(
    gram: Any,
    target: str,
    *,
    groups: Mapping[str, Iterable[str]] | None = None,
    grid_columns: Iterable[int],
    grid_groups: Iterable[int],
    variant: str = "ista",
    start: str = "ridge",
    refit: bool = True,
    tol: float = 1e-8,
    max_iter: int = 500,
) -> pl.DataFrame:
    """Return the model of `sght` for every pair of limits.

    Parameters
    ----------
    gram : as of `sght`, but no `glm_objective`
    target, groups : as of `sght`, of one response
    grid_columns : values of max_columns
    grid_groups : values of max_groups
    variant, start, refit, tol, max_iter : as of `sght`

    Returns
    -------
    DataFrame, one row a pair, the values of `grid_groups` within those of
    `grid_columns`: max_columns, max_groups, columns (list of names), groups (list of
    names), intercept, coefficients (list of key and value), explained, r2, iterations,
    converged

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
    >>> ds.sght_path(g, "y", groups=u_v, grid_columns=[2], grid_groups=[1, 2])["columns"].to_list()
    [['a', 'c'], ['a', 'b']]
    """
    check_sght(variant, start, refit, tol, max_iter)
    settings = Settings(VARIANTS[variant], STARTS[start], float(tol), int(max_iter))
    search = prepare(gram, target, groups, None)
    most_columns = _grid("grid_columns", grid_columns, len(search.groups.members))
    most_groups = _grid("grid_groups", grid_groups, len(search.groups.names))
    limits = [(s1, s2) for s1 in most_columns for s2 in most_groups]
    descents = _descents(LeastSquares(search.problem), search.groups, limits, settings)
    # No comprehension, whose frame a warning would point to.
    models = list(map(partial(_model, search, refit), descents))
    rows = [_row(pair, model) for pair, model in zip(limits, models, strict=True)]
    return pl.DataFrame(rows, schema=PATH_DTYPES, orient="row")


#: Columns of `sght_path`.
PATH_DTYPES: dict[str, pl.DataType] = {
    "max_columns": pl.Int64(),
    "max_groups": pl.Int64(),
    "columns": pl.List(pl.String),
    "groups": pl.List(pl.String),
    "intercept": pl.Float64(),
    "coefficients": pl.List(pl.Struct({"key": pl.String, "value": pl.Float64})),
    "explained": pl.Float64(),
    "r2": pl.Float64(),
    "iterations": pl.Int64(),
    "converged": pl.Boolean(),
}


def _row(limits: tuple[int, int], model: SparseModel) -> tuple[Any, ...]:
    pairs = [{"key": key, "value": value} for key, value in model.coefficients.items()]
    return (
        *limits, model.columns, model.groups, model.intercept, pairs, model.explained, model.r2,
        model.iterations, model.converged,
    )  # fmt: skip


def check_sght(
    variant: Any = "ista",
    start: Any = "ridge",
    refit: Any = True,
    tol: Any = 1e-8,
    max_iter: Any = 500,
    **_: Any,
) -> None:
    """Refuse options that no Gram could make right."""
    check_choice("variant", variant, VARIANTS)
    check_choice("start", start, STARTS)
    if not isinstance(refit, bool | np.bool_):
        raise ArgumentError(f"refit is {refit!r}; it must be True or False")
    if not (isinstance(tol, numbers.Real) and 0 <= float(tol) < math.inf):
        raise ArgumentError(f"tol is {tol!r}; it must be a number >= 0")
    if max_iter is None:
        raise ArgumentError("max_iter is None; it must be a whole number >= 1")
    check_count("max_iter", max_iter)


def check_options(max_columns: Any = None, max_groups: Any = None, **options: Any) -> None:
    """Refuse options of `sght` that no Gram could make right; an engine's NULL is no limit."""
    for name, limit in (("max_columns", max_columns), ("max_groups", max_groups)):
        if limit is None:
            raise ArgumentError(f"{name} is None; it must be a whole number >= 1")
        check_count(name, limit)
    check_sght(**options)


def _grid(name: str, values: Any, most: int) -> list[int]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ArgumentError(f"{name} is {values!r}; it must list whole numbers from 1 to {most}")
    limits = [check_limit(name, value, most) for value in values]
    if not limits:
        raise ArgumentError(f"{name} is empty; it must list whole numbers from 1 to {most}")
    return limits


def _limits(groups: Groups, max_columns: Any, max_groups: Any) -> tuple[int, int]:
    return (
        check_limit("max_columns", max_columns, len(groups.members)),
        check_limit("max_groups", max_groups, len(groups.names)),
    )


def _descents(
    problem: Smooth, groups: Groups, limits: Sequence[tuple[int, int]], settings: Settings
) -> list[Descent]:
    """Descend for every pair of limits, from projections of the same vectors."""
    ends = np.cumsum([len(members) for members in groups.columns.values()])
    layout = Layout(None, np.append(0, ends))
    most_columns, most_groups = np.max(limits, axis=0).tolist()
    starts = settings.starts(problem)
    tables = [tabulate(lengths(start), layout, most_columns, most_groups) for start in starts]
    best = []
    for pair in limits:
        descents = [
            descend(problem, layout, restricted(start, table.project(*pair)), pair, settings)
            for start, table in zip(starts, tables, strict=True)
        ]
        best.append(min(descents, key=lambda descent: descent.objective))
    return best


def _glm_model(
    objective: GlmObjective, deviance: Deviance, refit: bool, descent: Descent
) -> SparseGlmModel:
    """Fit the kept columns, or keep the coefficients of the descent."""
    at = np.flatnonzero(lengths(descent.x))
    groups = objective.about.groups
    problem = replace(objective.refits.problem, members=[at])
    null = start_fit(problem, objective.fit.point, objective.fit.model)
    if refit:
        (fit,) = solved([extended(problem, null, [0], alone=True)], objective.refits.read)
        warn_of_fit(fit)
    else:
        point, value = deviance.point(descent.x)
        explained = 1.0 - (value + problem.penalty(point)) / problem.null_deviance
        fit = replace(null, groups=[0], point=point, deviance=value, explained=explained)
    columns = [groups.members[j] for j in at]
    held = [name for name, members in groups.columns.items() if set(members) & set(columns)]
    return model_of(
        objective.about.data,
        problem,
        fit,
        columns,
        SparseGlmModel,
        groups=held,
        spent=float(len(held)),
        history=descent.history,
        converged=descent.converged,
    )


def _model(search: LinearSetup, refit: bool, descent: Descent) -> SparseModel:
    found = _fit(search, search.target, refit, descent)
    parts = _parts(search, search.target, refit, found, found.problem, found.coef)
    return SparseModel(**parts, history=descent.history, converged=descent.converged)


def _joint_model(search: LinearSetup, refit: bool, descent: Descent) -> JointSparseModel:
    found = _fit(search, search.targets, refit, descent)
    share = found.problem.share
    coef = found.coef / np.sqrt(share)[:, None]
    responses = {
        target: Model(**_parts(search, target, refit, found, found.problem.response(k), coef[k]))
        for k, target in enumerate(search.targets)
    }
    return JointSparseModel(responses, share, descent.history, descent.converged)


@dataclass(frozen=True)
class _Fit:
    """Coefficients of the kept columns, shape (s,) or (K, s), on unit-variance columns."""

    columns: list[str]
    problem: Linear
    coef: Vector
    aliased: tuple[str, ...] = ()


def _fit(search: LinearSetup, target: str | list[str], refit: bool, descent: Descent) -> _Fit:
    """Fit the kept columns by least squares, or keep the coefficients of the descent."""
    at = np.flatnonzero(lengths(descent.x))
    columns = [search.groups.members[j] for j in at]
    problem = linear(search.gram, target, columns)
    if not refit:
        return _Fit(columns, problem, descent.x[..., at])
    state = State(problem, [np.arange(len(columns))])
    state.add(0)
    warn_of(state.condition(), stacklevel=5)
    aliased = tuple(columns[j] for j in state.aliased)
    return _Fit(columns, problem, state.coefficients()[-1], aliased)


def _parts(
    search: LinearSetup, target: str, refit: bool, found: _Fit, problem: Linear, coef: Vector
) -> dict[str, Any]:
    """Return the parts of the `Model` of one response.

    Parameters
    ----------
    problem, coef : of this response alone, coef on unit-variance columns
    """
    columns = found.columns
    own = coef * (problem.target_spread / problem.spread)
    explained = float(coef @ (2.0 * problem.c - problem.G @ coef))
    held = [name for name, members in search.groups.columns.items() if set(members) & set(columns)]
    chosen = 0 < len(columns) < len(search.groups.members)
    return {
        "target": target,
        "intercept": float(problem.target_mean - own @ problem.mean),
        "coefficients": dict(zip(columns, own.tolist(), strict=True)),
        "groups": held,
        "spent": float(len(held)),
        "explained": explained,
        "r2": explained,
        "aliased": found.aliased,
        "fit": FittedRows(search.gram, chosen=chosen) if refit else None,
    }

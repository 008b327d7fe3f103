"""Bi-level selection by hard thresholding: few columns in few groups, from a Gram.

The descent (`selection.descent`) starts from projected ridge solutions; what it keeps
is fitted again by least squares. Source: Xiang, Yang, Ye (2014).
"""

import math
import numbers
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, overload

import numpy as np
import polars as pl

from dbselect.errors import ArgumentError
from dbselect.glm.deviance import Deviance
from dbselect.glm.families import FAMILY_NAMES
from dbselect.glm.newton import extended, solved
from dbselect.glm.newton import start as start_fit
from dbselect.linear.condition import warn_of
from dbselect.linear.inference import FittedRows
from dbselect.linear.problem import Linear, linear
from dbselect.linear.state import State
from dbselect.methods.glm_objective import GlmObjective, ObjectiveSetup
from dbselect.methods.open_search import open_search
from dbselect.methods.options import Options
from dbselect.methods.setup import LinearSetup
from dbselect.methods.types import (
    Costs,
    FamilyName,
    GlmFamilyName,
    GroupColumns,
    NullPolicy,
    Source,
    TableSource,
)
from dbselect.objectives.smooth import LeastSquares, Smooth
from dbselect.record.checks import check_choice, check_whole
from dbselect.record.gram import Vector
from dbselect.record.groups import Groups
from dbselect.record.missing import check_policies
from dbselect.results.glm.build import model_of, warn_of_fit
from dbselect.results.glm.model import GlmModel
from dbselect.results.model import JointModel, Model
from dbselect.results.selected import AnyModel, Convergence, Selected
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

VariantName = Literal["ista", "ista-l", "fista", "fista-c"]
StartName = Literal["ridge", "zero"]


@dataclass(frozen=True, kw_only=True)
class _DescentOptions(Options):
    """What `sght` and `sght_path` share."""

    family: FamilyName = "gaussian"
    variant: VariantName = "ista"
    start: StartName = "ridge"
    refit: bool = True
    tol: float = 1e-8
    max_iter: int = 500
    null_policy: NullPolicy = "skip"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_policies(self.null_policy)
        check_choice("family", self.family, FAMILY_NAMES)
        check_choice("variant", self.variant, VARIANTS)
        check_choice("start", self.start, STARTS)
        if not isinstance(self.refit, bool | np.bool_):
            raise ArgumentError(f"refit is {self.refit!r}; it must be True or False")
        if not (isinstance(self.tol, numbers.Real) and 0 <= float(self.tol) < math.inf):
            raise ArgumentError(f"tol is {self.tol!r}; it must be a number >= 0")
        check_whole("max_iter", self.max_iter)

    @property
    def settings(self) -> Settings:
        """The descent that these options ask for."""
        return Settings(
            VARIANTS[self.variant], STARTS[self.start], float(self.tol), int(self.max_iter)
        )


@dataclass(frozen=True, kw_only=True)
class SghtOptions(_DescentOptions):
    """Options of `sght`."""

    method: ClassVar[str] = "sght"

    max_columns: int
    max_groups: int

    def __post_init__(self) -> None:
        check_whole("max_columns", self.max_columns)
        check_whole("max_groups", self.max_groups)
        super().__post_init__()


@dataclass(frozen=True, kw_only=True)
class SghtPathOptions(_DescentOptions):
    """Options of `sght_path`."""

    method: ClassVar[str] = "sght_path"

    grid_columns: Iterable[int]
    grid_groups: Iterable[int]


@overload
def sght(
    source: GlmObjective,
    target: None = ...,
    groups: None = ...,
    costs: Costs | None = ...,
    *,
    max_columns: int,
    max_groups: int,
    family: Literal["gaussian"] = ...,
    variant: VariantName = ...,
    start: StartName = ...,
    refit: bool = ...,
    tol: float = ...,
    max_iter: int = ...,
    null_policy: NullPolicy = ...,
) -> Selected[GlmModel]: ...


@overload
def sght(
    source: Source,
    target: str,
    groups: GroupColumns | None = ...,
    costs: Costs | None = ...,
    *,
    max_columns: int,
    max_groups: int,
    family: Literal["gaussian"] = ...,
    variant: VariantName = ...,
    start: StartName = ...,
    refit: bool = ...,
    tol: float = ...,
    max_iter: int = ...,
    null_policy: NullPolicy = ...,
) -> Selected[Model]: ...


@overload
def sght(
    source: Source,
    target: list[str] | tuple[str, ...],
    groups: GroupColumns | None = ...,
    costs: Costs | None = ...,
    *,
    max_columns: int,
    max_groups: int,
    family: Literal["gaussian"] = ...,
    variant: VariantName = ...,
    start: StartName = ...,
    refit: bool = ...,
    tol: float = ...,
    max_iter: int = ...,
    null_policy: NullPolicy = ...,
) -> Selected[JointModel]: ...


@overload
def sght(
    source: TableSource,
    target: str,
    groups: GroupColumns | None = ...,
    costs: Costs | None = ...,
    *,
    max_columns: int,
    max_groups: int,
    family: GlmFamilyName,
    variant: VariantName = ...,
    start: StartName = ...,
    refit: bool = ...,
    tol: float = ...,
    max_iter: int = ...,
    null_policy: NullPolicy = ...,
) -> Selected[GlmModel]: ...


def sght(
    source: Source | GlmObjective,
    target: str | list[str] | tuple[str, ...] | None = None,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    max_columns: int,
    max_groups: int,
    family: FamilyName = SghtOptions.family,
    variant: VariantName = SghtOptions.variant,
    start: StartName = SghtOptions.start,
    refit: bool = SghtOptions.refit,
    tol: float = SghtOptions.tol,
    max_iter: int = SghtOptions.max_iter,
    null_policy: NullPolicy = SghtOptions.null_policy,
) -> Selected[Any]:
    """Return a model on at most `max_columns` columns in at most `max_groups` groups.

    A local minimum of 1/2 |y - Xw|^2 within both limits, on unit-variance columns; of
    several responses, of the sum over them, each of unit variance, on the same columns; of
    a `glm_objective`, of the deviance, by the same descent.

    Parameters
    ----------
    source : Gram, record or table, as `anytime_sequence` takes it; or a `glm_objective`,
        without target, groups and family, which it has
    target : column to predict, or a list of responses
    groups : name -> columns or globs; default: every top-level field but the target
    costs : name -> cost > 0; default 1 each. They are summed in `spent` and do not change
        the choice
    max_columns : s1, most columns, 1 to the number of columns in groups
    max_groups : s2, most groups, 1 to the number of groups
    family : as in `fit_glm`; all but ``"gaussian"`` take a table and ask the
        `glm_objective` of it
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
    Selected, with a Model whose coefficients are those of the kept columns; of a list of
    responses a JointModel, of a `glm_objective` or a family a GlmModel

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
    rises for the two ISTA variants. There is neither a budget nor a group to take first:
    the projection within both limits is exact only where every group costs the same and
    may be left out.

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
    options = SghtOptions(
        max_columns=max_columns, max_groups=max_groups, family=family, variant=variant,
        start=start, refit=refit, tol=tol, max_iter=max_iter, null_policy=null_policy,
    )  # fmt: skip
    search = open_search(
        source,
        target,
        groups,
        costs,
        family=options.family,
        null_policy=options.null_policy,
        several=True,
    )
    task = _task(search, options.refit)
    limits = _limits(task.groups, max_columns, max_groups)
    (descent,) = _descents(task.problem, task.groups, [limits], options.settings)
    model = task.model(descent)
    how = Convergence(descent.history, descent.converged)
    return Selected(model, tuple(_held(task.groups, model.columns)), options.method, how)


def sght_path(
    source: Source | GlmObjective,
    target: str | None = None,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    grid_columns: Iterable[int],
    grid_groups: Iterable[int],
    family: FamilyName = SghtPathOptions.family,
    variant: VariantName = SghtPathOptions.variant,
    start: StartName = SghtPathOptions.start,
    refit: bool = SghtPathOptions.refit,
    tol: float = SghtPathOptions.tol,
    max_iter: int = SghtPathOptions.max_iter,
    null_policy: NullPolicy = SghtPathOptions.null_policy,
) -> pl.DataFrame:
    """Return the model of `sght` for every pair of limits.

    Parameters
    ----------
    source, target, groups, costs : as of `sght`, of one response
    grid_columns : values of max_columns
    grid_groups : values of max_groups
    family : as of `sght`, but not ``"multinomial"``
    variant, start, refit, tol, max_iter, null_policy : as of `sght`

    Returns
    -------
    DataFrame, one row a pair, the values of `grid_groups` within those of
    `grid_columns`: max_columns, max_groups, columns (list of names), groups (list of
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
    >>> ds.sght_path(g, "y", groups=u_v, grid_columns=[2], grid_groups=[1, 2])["columns"].to_list()
    [['a', 'c'], ['a', 'b']]
    """
    options = SghtPathOptions(
        grid_columns=grid_columns, grid_groups=grid_groups, family=family, variant=variant,
        start=start, refit=refit, tol=tol, max_iter=max_iter, null_policy=null_policy,
    )  # fmt: skip
    search = open_search(
        source, target, groups, costs, family=options.family, null_policy=options.null_policy
    )
    if isinstance(search, ObjectiveSetup) and search.state.about.data.roles.family.classes:
        raise ArgumentError("family is 'multinomial'; a row of sght_path has no place for classes")
    task = _task(search, options.refit)
    most_columns = _grid("grid_columns", grid_columns, len(task.groups.members))
    most_groups = _grid("grid_groups", grid_groups, len(task.groups.names))
    limits = [(s1, s2) for s1 in most_columns for s2 in most_groups]
    descents = _descents(task.problem, task.groups, limits, options.settings)
    # No comprehension, whose frame a warning would point to.
    models = list(map(task.model, descents))
    rows = [_row(*each) for each in zip(limits, models, descents, strict=True)]
    return pl.DataFrame(rows, schema=PATH_DTYPES, orient="row")


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


@dataclass(frozen=True)
class _Task:
    """What is minimised, the groups of its columns, and who makes the model of a descent."""

    problem: Smooth
    groups: Groups
    model: Callable[[Descent], AnyModel]


def _task(search: LinearSetup | ObjectiveSetup, refit: bool) -> _Task:
    # Partial functions have no frame, which a warning would point to.
    if isinstance(search, ObjectiveSetup):
        objective = search.state
        deviance = Deviance(objective.refits, objective.fit)
        return _Task(deviance, search.groups, partial(_glm_model, objective, deviance, refit))
    make = _joint_model if search.is_joint else _model
    return _Task(LeastSquares(search.problem), search.groups, partial(make, search, refit))


def _held(groups: Groups, columns: Iterable[str]) -> list[int]:
    """Return the numbers of the groups with a column that is kept."""
    kept = set(columns)
    return [i for i, members in enumerate(groups.columns.values()) if kept.intersection(members)]


def _bought(groups: Groups, columns: Iterable[str]) -> dict[str, Any]:
    """Return groups and spent of a model on some columns."""
    held = _held(groups, columns)
    names = groups.names
    return {"groups": [names[i] for i in held], "spent": float(groups.costs[held].sum())}


def _glm_model(
    objective: GlmObjective, deviance: Deviance, refit: bool, descent: Descent
) -> GlmModel:
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
    return model_of(
        objective.about.data, problem, fit, columns, GlmModel, **_bought(groups, columns)
    )


def _model(search: LinearSetup, refit: bool, descent: Descent) -> Model:
    found = _fit(search, search.target, refit, descent)
    return Model(**_parts(search, search.target, refit, found, found.problem, found.coef))


def _joint_model(search: LinearSetup, refit: bool, descent: Descent) -> JointModel:
    found = _fit(search, search.targets, refit, descent)
    share = found.problem.share
    coef = found.coef / np.sqrt(share)[:, None]
    responses = {
        target: Model(**_parts(search, target, refit, found, found.problem.response(k), coef[k]))
        for k, target in enumerate(search.targets)
    }
    return JointModel(responses, share)


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
    chosen = 0 < len(columns) < len(search.groups.members)
    return {
        "target": target,
        "intercept": float(problem.target_mean - own @ problem.mean),
        "coefficients": dict(zip(columns, own.tolist(), strict=True)),
        **_bought(search.groups, columns),
        "explained": explained,
        "r2": explained,
        "aliased": found.aliased,
        "fit": FittedRows(search.gram, chosen=chosen) if refit else None,
    }

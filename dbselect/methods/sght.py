"""Bi-level selection by hard thresholding: few columns in few groups."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, overload

from dbselect.methods.descents import (
    DescentOptions,
    Start,
    VariantName,
    descents_of,
    groups_held,
    task_of,
)
from dbselect.methods.glm_objective import GlmObjective
from dbselect.methods.open_search import open_search
from dbselect.methods.types import (
    Costs,
    FamilyName,
    GlmFamilyName,
    GroupColumns,
    NullPolicy,
    Source,
    TableSource,
)
from dbselect.record.checks import check_whole
from dbselect.record.groups import Groups
from dbselect.results.glm.model import GlmModel
from dbselect.results.model import JointModel, Model
from dbselect.results.selected import Convergence, Selected
from dbselect.selection.projection import check_limit


@dataclass(frozen=True, kw_only=True)
class SghtOptions(DescentOptions):
    """Options of `sght`."""

    method: ClassVar[str] = "sght"

    max_columns: int
    max_groups: int

    def __post_init__(self) -> None:
        check_whole("max_columns", self.max_columns)
        check_whole("max_groups", self.max_groups)
        super().__post_init__()


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
    start: Start = ...,
    refit: bool = ...,
    polish: bool = ...,
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
    intercept: bool = ...,
    variant: VariantName = ...,
    start: Start = ...,
    refit: bool = ...,
    polish: bool = ...,
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
    intercept: bool = ...,
    variant: VariantName = ...,
    start: Start = ...,
    refit: bool = ...,
    polish: bool = ...,
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
    intercept: bool = ...,
    variant: VariantName = ...,
    start: Start = ...,
    refit: bool = ...,
    polish: bool = ...,
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
    intercept: bool = SghtOptions.intercept,
    variant: VariantName = SghtOptions.variant,
    start: Start = SghtOptions.start,
    refit: bool = SghtOptions.refit,
    polish: bool = SghtOptions.polish,
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
    intercept : False for models through the origin, as in `anytime_sequence`
    variant : ``"ista"`` (Barzilai-Borwein, sufficient decrease), ``"ista-l"`` (the
        same, Lipschitz), ``"fista"`` (accelerated, Barzilai-Borwein, Lipschitz) or
        ``"fista-c"`` (accelerated, constant start, Lipschitz)
    start : ``"ridge"``, the projected solutions at lambda = 0.1, 1 and 10, of which the
        best end is kept; ``"zero"``; or a mapping, the coefficients of columns, of one
        response
    refit : fit the kept columns by least squares; False keeps the descent's coefficients
    polish : with `refit` in least squares, exchange columns until no exchange helps, and do
        the same with columns that forward steps choose; where D s1^2 exceeds 1e8, or of
        another family, it is left out. The result's `start` and `exchanges` tell
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
    projection for each step length tried. Memory 16 D^2 bytes from zero, 28 D^2 from
    the ridge solutions. The objective never rises for the two ISTA variants. There is
    neither a budget nor a group to take first: the projection within both limits is exact
    only where every group costs the same and may be left out.

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
        max_columns=max_columns, max_groups=max_groups, family=family,
        intercept=intercept, variant=variant, start=start, refit=refit, polish=polish, tol=tol,
        max_iter=max_iter, null_policy=null_policy,
    )  # fmt: skip
    search = open_search(
        source,
        target,
        groups,
        costs,
        family=options.family,
        null_policy=options.null_policy,
        several=True,
        intercept=options.intercept,
    )
    task = task_of(search, options.refit)
    limits = _limits(task.groups, max_columns, max_groups)
    (descent,) = descents_of(task, [limits], options)
    model = task.model(descent)
    how = Convergence(descent.history, descent.converged, descent.start, descent.exchanges)
    return Selected(model, tuple(groups_held(task.groups, model.columns)), options.method, how)


def _limits(groups: Groups, max_columns: Any, max_groups: Any) -> tuple[int, int]:
    return (
        check_limit("max_columns", max_columns, len(groups.members)),
        check_limit("max_groups", max_groups, len(groups.names)),
    )

"""Stepwise search by AIC or BIC, as R's `step`."""

import math
import numbers
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, overload

import numpy as np

from dbselect.errors import ArgumentError
from dbselect.glm.named import check_family_name
from dbselect.linear.information import SMALLEST_SHARE, gaussian_loss
from dbselect.methods.glm_objective import GlmObjective, ObjectiveSetup
from dbselect.methods.open_search import open_search
from dbselect.methods.options import Options
from dbselect.methods.setup import LinearSetup, check_first
from dbselect.methods.types import (
    Costs,
    FamilyName,
    GlmFamilyName,
    GroupColumns,
    GroupNames,
    NullPolicy,
    Source,
    TableSource,
)
from dbselect.record.checks import (
    check_budget,
    check_choice,
    check_count,
    check_flag,
    check_names,
)
from dbselect.record.policies import check_policies
from dbselect.record.steps import Record, Stop
from dbselect.results.glm.sequence import GlmSequence
from dbselect.results.sequence import Sequence as AnytimeSequence
from dbselect.selection.step import Judge, step_search
from dbselect.sources.turns import Callback, check_callback

#: Which moves there are.
DirectionName = Literal["both", "forward", "backward"]


@dataclass(frozen=True, kw_only=True)
class StepOptions(Options):
    """The options of `step`."""

    method: ClassVar[str] = "step"

    criterion: Literal["aic", "bic"] = "aic"
    penalty: float | None = None
    direction: DirectionName = "both"
    start: GroupNames | None = None
    max_steps: int | None = None
    budget: float | None = None
    always: GroupNames = ()
    family: FamilyName = "gaussian"
    intercept: bool = True
    null_policy: NullPolicy = "skip"

    def __post_init__(self) -> None:
        """Refuse options that no data could make right."""
        super().__post_init__()
        check_choice("criterion", self.criterion, ("aic", "bic"))
        if self.penalty is not None:
            is_number = isinstance(self.penalty, numbers.Real)
            if not is_number or not 0 <= float(self.penalty) < math.inf:
                raise ArgumentError(f"penalty is {self.penalty!r}; it must be a number >= 0")
        check_choice("direction", self.direction, ("both", "forward", "backward"))
        if self.start is not None:
            check_names("start", self.start)
        check_count("max_steps", self.max_steps)
        check_budget(self.budget)
        check_names("always", self.always)
        check_family_name(self.family)
        check_flag("intercept", self.intercept)
        check_policies(self.null_policy)
        if self.family != StepOptions.family and self.null_policy != "skip":
            raise ArgumentError(
                f"null_policy is {self.null_policy!r}; family {self.family!r} takes 'skip'"
            )

    def price(self, rows: int) -> float:
        """Return what a parameter costs."""
        if self.penalty is not None:
            return float(self.penalty)
        return 2.0 if self.criterion == "aic" else math.log(rows)


@overload
def step(
    source: Source,
    target: str,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    criterion: Literal["aic", "bic"] = ...,
    penalty: float | None = ...,
    direction: DirectionName = ...,
    start: GroupNames | None = ...,
    max_steps: int | None = ...,
    budget: float | None = ...,
    always: GroupNames = ...,
    family: Literal["gaussian"] = ...,
    intercept: bool = ...,
    null_policy: NullPolicy = ...,
    callback: Callback | None = ...,
) -> AnytimeSequence: ...


@overload
def step(
    source: TableSource,
    target: str,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    criterion: Literal["aic", "bic"] = ...,
    penalty: float | None = ...,
    direction: DirectionName = ...,
    start: GroupNames | None = ...,
    max_steps: int | None = ...,
    budget: float | None = ...,
    always: GroupNames = ...,
    family: GlmFamilyName,
    intercept: bool = ...,
    callback: Callback | None = ...,
) -> GlmSequence: ...


@overload
def step(
    source: GlmObjective,
    target: None = None,
    groups: None = None,
    costs: Costs | None = None,
    *,
    criterion: Literal["aic", "bic"] = ...,
    penalty: float | None = ...,
    direction: DirectionName = ...,
    start: GroupNames | None = ...,
    max_steps: int | None = ...,
    budget: float | None = ...,
    always: GroupNames = ...,
    callback: Callback | None = ...,
) -> GlmSequence: ...


def step(
    source: Source | GlmObjective,
    target: str | None = None,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    criterion: Literal["aic", "bic"] = StepOptions.criterion,
    penalty: float | None = StepOptions.penalty,
    direction: DirectionName = StepOptions.direction,
    start: GroupNames | None = StepOptions.start,
    max_steps: int | None = StepOptions.max_steps,
    budget: float | None = StepOptions.budget,
    always: GroupNames = StepOptions.always,
    family: FamilyName = StepOptions.family,
    intercept: bool = StepOptions.intercept,
    null_policy: NullPolicy = StepOptions.null_policy,
    callback: Callback | None = None,
) -> AnytimeSequence | GlmSequence:
    """Add or remove the group that lowers AIC most, until none does: R's `step`.

    Parameters
    ----------
    source : Gram, record or table, as `anytime_sequence` takes it; or a `glm_objective`,
        without target, groups and family, which it has
    target : column to predict
    groups : name -> columns or globs; default: every top-level field but the target
    costs : name -> cost > 0, in any one unit; default: 1 each. They count for the budget, and
        decide no move: a criterion charges for parameters
    criterion : ``"aic"`` or ``"bic"``
    penalty : >= 0, price of a parameter in place of the criterion's 2 or log n: R's ``k``
    direction : ``"both"``, only additions ``"forward"``, or only removals ``"backward"``
    start : groups to begin with; default: none, or all where the direction is backward
    max_steps : limit on the moves after the start
    budget : limit on the summed cost: only groups that still fit are added
    always : groups taken first, which stay: the lower scope
    family : ``"gaussian"``, the linear model (default); of another the search is that of
        ``glm_objective(source, target, groups, costs, family=family)``
    intercept : False for models through the origin, as in `anytime_sequence`
    null_policy : what becomes of missing values while a table is read, as in
        `dbselect.gram`; rows without the target are left out under every policy
    callback : is called with a `Progress` after every step; what it raises ends the call

    Returns
    -------
    Sequence whose steps add and remove; the last is where no move helps, and its `score` is how
    far each move lowers the criterion. Where no group is worth its parameters it has step 0
    only. Of a `glm_objective` or another family a GlmSequence

    Raises
    ------
    ColumnError, GroupError, DataError : as `anytime_sequence`
    ArgumentError : an option out of range; the groups to begin with are over the budget; a
        family without a likelihood to compare, or an objective with a ridge

    Notes
    -----
    O(D |S|) a step and some trials, as of `foba`. The numbers of ``seq.criteria()`` are those of
    R's ``AIC`` but for the parameter of the variance, 2; what R's ``step`` prints of a linear
    model is less by n (log(2 pi) + 1). After a search standard errors are too small, as R's are.

    References
    ----------
    Venables, Ripley (2002), Modern Applied Statistics with S, section 6.8.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> a, b = [1, 2, 3, 4, 5, 6, 7, 8], [3, 1, 4, 1, 5, 9, 2, 6]
    >>> c = [2, 7, 1, 8, 2, 8, 1, 8]
    >>> y = [2 * i + j + e for i, j, e in zip(a, b, [0.3, -0.2, 0.1, 0.2, -0.3, -0.1, 0.2, -0.2])]
    >>> table = pl.DataFrame({"a": a, "b": b, "c": c, "y": y})
    >>> steps = ds.step(table, "y", start=["c"]).steps
    >>> steps.select("action", "group", pl.col("score").round(1)).rows()[1:]
    [('add', 'c', -1.5), ('add', 'a', 14.0), ('add', 'b', 37.9), ('remove', 'c', 1.3)]
    """
    check_callback(callback)
    options = StepOptions(
        criterion=criterion, penalty=penalty, direction=direction, start=start,
        max_steps=max_steps, budget=budget, always=always, family=family,
        intercept=intercept, null_policy=null_policy,
    )  # fmt: skip
    search = open_search(
        source, target, groups, costs, family=options.family, always=options.always,
        null_policy=options.null_policy, intercept=options.intercept,
    )  # fmt: skip
    judge = _judge(search, options)
    begin = _start(search, options)
    check_first(search.groups, list(dict.fromkeys([*search.first, *begin])), options.budget, None)
    name = f"step-{criterion}" if penalty is None else f"step-{penalty:g}"

    def run(record: Record) -> Stop:
        return step_search(
            search.state,
            search.groups,
            judge,
            record,
            start=begin,
            adds=options.direction != "backward",
            removes=options.direction != "forward",
            budget=options.budget,
            max_steps=options.max_steps,
            always=search.first,
        )

    found = search.recorded(name, run, callback)
    if found.records and not search.state.held:
        # A prefix that holds nothing in the end would be taken for one of `backward`, of which
        # the longest within a budget comes right after all groups.
        return search.recorded(name, lambda _: found.stop)
    return found


def _start(search: LinearSetup | ObjectiveSetup, options: StepOptions) -> list[int]:
    """Return the numbers of the groups to begin with."""
    if options.start is None:
        every = range(len(search.groups.costs))
        return list(every) if options.direction == "backward" else []
    return [search.groups.number(name, "start") for name in options.start]


def _judge(search: LinearSetup | ObjectiveSetup, options: StepOptions) -> Judge:
    """Return the criterion of a linear problem, or of a family."""
    sizes = [float(len(columns)) for columns in search.groups.positions]
    if isinstance(search, LinearSetup):
        rows = search.gram.rows
        at = search.gram.position(search.target, "target")
        total = float(search.gram.comoment[at, at])
        price, none = options.price(rows), float(search.intercept)

        def of_squares(value: float, parameters: float) -> float:
            if rows - parameters <= 0:
                return math.inf
            left = max(1.0 - value, SMALLEST_SHARE) * total
            return float(gaussian_loss(rows, np.array(left))) + price * parameters

        return Judge(of_squares, lambda state: none + state.degrees(), sizes)
    return _judge_of_family(search, options, sizes)


def _judge_of_family(search: ObjectiveSetup, options: StepOptions, sizes: list[float]) -> Judge:
    data = search.state.about.data
    family, rows = data.roles.family, data.rows
    if search.ridge:
        raise ArgumentError(
            f"the objective has ridge {search.ridge:g}; a criterion counts parameters, which a "
            "ridge makes fewer: take ridge 0, or rows held out"
        )
    if family.has_dispersion and not family.quadratic:
        raise ArgumentError(
            f"family is {family.name!r}, whose dispersion no deviance tells, so that there is no "
            "likelihood to compare; choose by rows held out, as cross_validate does"
        )
    free = float(family.basis.shape[1])
    null = search.state.fit.deviance
    price = options.price(rows)

    def of_deviance(value: float, parameters: float) -> float:
        if rows - parameters / free <= 0:
            return math.inf
        left = max(1.0 - value, SMALLEST_SHARE) * null
        loss = float(gaussian_loss(rows, np.array(left))) if family.quadratic else left
        return loss + price * parameters

    def parameters(state: Any) -> float:
        return free + float(state.fit.state.degrees())

    return Judge(of_deviance, parameters, [free * size for size in sizes])

"""Searches that give groups back: FoBa and backward elimination."""

import math
import numbers
from dataclasses import dataclass
from typing import ClassVar, Literal, overload

from dbselect.errors import ArgumentError, DataError
from dbselect.methods.compiled import compiled_sequence
from dbselect.methods.glm_objective import (
    GlmObjective,
)
from dbselect.methods.open_search import open_search, open_wide_or_not
from dbselect.methods.setup import check_first
from dbselect.methods.stepwise import StepwiseOptions
from dbselect.methods.too_wide import check_wide
from dbselect.methods.types import (
    BackwardName,
    Costs,
    FamilyName,
    ForwardName,
    GlmFamilyName,
    GroupColumns,
    GroupNames,
    NullPolicy,
    Source,
    TableSource,
)
from dbselect.record.checks import (
    check_choice,
    check_column,
    check_share,
)
from dbselect.record.steps import Choice, Record, Step, Stop
from dbselect.results.glm.sequence import GlmSequence
from dbselect.results.sequence import Sequence as AnytimeSequence
from dbselect.results.wide import WideSequence
from dbselect.selection.backward import backward_search
from dbselect.selection.criteria import rules_of_foba
from dbselect.selection.foba import Share, foba_search
from dbselect.selection.removal import USEFULNESS
from dbselect.sources.turns import Callback, check_callback


@dataclass(frozen=True, kw_only=True)
class BackwardOptions(StepwiseOptions):
    """The options of `backward`."""

    method: ClassVar[str] = "backward"

    backward: BackwardName = "loss"

    def __post_init__(self) -> None:
        """Refuse options that no data could make right."""
        super().__post_init__()
        check_choice("backward", self.backward, USEFULNESS)


@dataclass(frozen=True, kw_only=True)
class FobaOptions(BackwardOptions):
    """The options of `foba`: those of its backward steps, and what a forward step takes."""

    method: ClassVar[str] = "foba"

    epsilon: float = 0.0
    nu: float = 0.5
    rule: ForwardName = "fr"
    weight: str | None = None
    wide: bool | None = None

    def __post_init__(self) -> None:
        """Refuse options that no data could make right."""
        super().__post_init__()
        if not (isinstance(self.epsilon, numbers.Real) and 0 <= float(self.epsilon) < math.inf):
            raise ArgumentError(f"epsilon is {self.epsilon!r}; it must be a number >= 0")
        check_share("nu", self.nu)
        check_choice("rule", self.rule, rules_of_foba())
        check_column("weight", self.weight)
        check_wide(self.wide, self.intercept)
        if self.wide and self.family != FobaOptions.family:
            raise ArgumentError(f"wide is True; a wide search is of family {FobaOptions.family!r}")


@overload
def foba(
    source: Source,
    target: str,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    epsilon: float = ...,
    nu: float = ...,
    rule: ForwardName = ...,
    backward: BackwardName = ...,
    max_steps: int | None = ...,
    ridge: float = ...,
    budget: float | None = ...,
    always: GroupNames = ...,
    null_policy: NullPolicy = ...,
    weight: str | None = ...,
    wide: Literal[True],
    callback: Callback | None = ...,
) -> WideSequence: ...


@overload
def foba(
    source: Source,
    target: str,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    epsilon: float = ...,
    nu: float = ...,
    rule: ForwardName = ...,
    backward: BackwardName = ...,
    max_steps: int | None = ...,
    ridge: float = ...,
    intercept: bool = ...,
    budget: float | None = ...,
    always: GroupNames = ...,
    family: Literal["gaussian"] = ...,
    null_policy: NullPolicy = ...,
    weight: str | None = ...,
    wide: bool | None = ...,
    callback: Callback | None = ...,
) -> AnytimeSequence: ...


@overload
def foba(
    source: TableSource,
    target: str,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    epsilon: float = ...,
    nu: float = ...,
    rule: ForwardName = ...,
    backward: BackwardName = ...,
    max_steps: int | None = ...,
    ridge: float = ...,
    intercept: bool = ...,
    budget: float | None = ...,
    always: GroupNames = ...,
    family: GlmFamilyName,
    weight: str | None = ...,
    callback: Callback | None = ...,
) -> GlmSequence: ...


@overload
def foba(
    source: GlmObjective,
    target: None = None,
    groups: None = None,
    costs: Costs | None = None,
    *,
    epsilon: float = ...,
    nu: float = ...,
    rule: ForwardName = ...,
    backward: BackwardName = ...,
    max_steps: int | None = ...,
    budget: float | None = ...,
    always: GroupNames = ...,
    callback: Callback | None = ...,
) -> GlmSequence: ...


def foba(
    source: Source | GlmObjective,
    target: str | None = None,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    epsilon: float = FobaOptions.epsilon,
    nu: float = FobaOptions.nu,
    rule: ForwardName = FobaOptions.rule,
    backward: BackwardName = FobaOptions.backward,
    max_steps: int | None = FobaOptions.max_steps,
    ridge: float = FobaOptions.ridge,
    intercept: bool = FobaOptions.intercept,
    budget: float | None = FobaOptions.budget,
    always: GroupNames = FobaOptions.always,
    family: FamilyName = FobaOptions.family,
    null_policy: NullPolicy = FobaOptions.null_policy,
    weight: str | None = FobaOptions.weight,
    wide: bool | None = FobaOptions.wide,
    callback: Callback | None = None,
) -> AnytimeSequence | GlmSequence:
    """Add groups greedily, and give back those that later ones made dispensable.

    Forward: the group with the largest gain (or gradient) per cost. Backward: while the
    least useful group's loss is at most nu times the gain of the last step to the
    present number of groups, it is removed.

    Parameters
    ----------
    source : Gram, record or table, as `anytime_sequence` takes it; or a `glm_objective`,
        without target, groups, family and ridge, which it has
    target : column to predict
    groups : name -> columns or globs; default: every top-level field but the target
    costs : name -> cost > 0, in any one unit; default: 1 each, or those of the objective
    epsilon : >= 0, share of the target's variance, or null deviance, that a group must gain
    nu : in (0, 1), share of a gain that a removal may lose
    rule : ``"fr"``, the exact gain, or another rule of `anytime_sequence`; all but
        ``"doubling"``, which bounds the cost of a step
    backward : least useful by ``"loss"``, the exact loss per cost, or by
        ``"coefficient"``, the length of its coefficients on unit-variance columns
    max_steps : limit on additions and removals together
    ridge : >= 0, lambda on unit-variance columns
    intercept : False for models through the origin, as in `anytime_sequence`
    budget : limit on the summed cost: only groups that still fit are added
    always : groups taken first, which stay
    family : ``"gaussian"``, the linear model (default); of another the search is that of
        ``glm_objective(source, target, groups, costs, family=family, ridge=ridge)``
    null_policy : what becomes of missing values while a table is read, as in
        `dbselect.gram`; rows without the target are left out under every policy
    weight : column of row weights, of a table
    wide : as in `anytime_sequence`: of a table too wide for its Gram, a step reads rows of the
        Gram only where it adds a group, and a removal none
    callback : is called with a `Progress` after every step; what it raises ends the call.
        The search is then Python's, as the compiled library tells no steps on its way

    Returns
    -------
    Sequence whose steps add and remove; ``at(size=k)`` is the best model of k groups; of a
    wide search a WideSequence, of a `glm_objective` or another family a GlmSequence

    Raises
    ------
    ColumnError, GroupError, DataError, SourceError : as `anytime_sequence`
    ArgumentError : epsilon, nu, rule, backward, max_steps, ridge, budget, family or wide out
        of range

    Warns
    -----
    WideWarning : as `anytime_sequence`

    Notes
    -----
    Besides `always` at most 1 / ((1 - nu) epsilon) additions. O(D |S|) a step, and
    O(D |S|^2) at most for the state.

    References
    ----------
    Zhang (2008), FoBa.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> ds.foba(table, "y").steps["group"].to_list()
    [None, 'a', 'b']
    """
    check_callback(callback)
    options = FobaOptions(
        epsilon=epsilon, nu=nu, rule=rule, backward=backward, max_steps=max_steps, ridge=ridge,
        intercept=intercept, budget=budget, always=always, family=family, null_policy=null_policy,
        weight=weight, wide=wide,
    )  # fmt: skip
    search = open_wide_or_not(
        source, target, groups, costs, wide=options.wide, family=options.family,
        ridge=options.ridge, always=options.always, null_policy=options.null_policy,
        intercept=options.intercept, weight=options.weight,
    )  # fmt: skip
    check_first(search.groups, search.first, options.budget, None)
    found = compiled_sequence(search, f"foba-{rule}", options) if callback is None else None
    if found is not None:
        return found

    def run(record: Record) -> Stop:
        return foba_search(
            search.state,
            search.groups,
            search.criterion(rule),
            USEFULNESS[backward],
            record,
            epsilon=float(options.epsilon),
            allowance=Share(float(options.nu)),
            budget=options.budget,
            max_steps=max_steps,
            always=search.first,
        )

    return search.recorded(f"foba-{rule}", run, callback)


@overload
def backward(
    source: Source,
    target: str,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    backward: BackwardName = ...,
    max_steps: int | None = ...,
    ridge: float = ...,
    intercept: bool = ...,
    budget: float | None = ...,
    always: GroupNames = ...,
    family: Literal["gaussian"] = ...,
    null_policy: NullPolicy = ...,
    callback: Callback | None = ...,
) -> AnytimeSequence: ...


@overload
def backward(
    source: TableSource,
    target: str,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    backward: BackwardName = ...,
    max_steps: int | None = ...,
    ridge: float = ...,
    intercept: bool = ...,
    budget: float | None = ...,
    always: GroupNames = ...,
    family: GlmFamilyName,
    callback: Callback | None = ...,
) -> GlmSequence: ...


@overload
def backward(
    source: GlmObjective,
    target: None = None,
    groups: None = None,
    costs: Costs | None = None,
    *,
    backward: BackwardName = ...,
    max_steps: int | None = ...,
    budget: float | None = ...,
    always: GroupNames = ...,
    callback: Callback | None = ...,
) -> GlmSequence: ...


def backward(
    source: Source | GlmObjective,
    target: str | None = None,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    backward: BackwardName = BackwardOptions.backward,
    max_steps: int | None = BackwardOptions.max_steps,
    ridge: float = BackwardOptions.ridge,
    intercept: bool = BackwardOptions.intercept,
    budget: float | None = BackwardOptions.budget,
    always: GroupNames = BackwardOptions.always,
    family: FamilyName = BackwardOptions.family,
    null_policy: NullPolicy = BackwardOptions.null_policy,
    callback: Callback | None = None,
) -> AnytimeSequence | GlmSequence:
    """Start from all groups and remove the least useful one, again and again.

    Parameters
    ----------
    source : Gram, record or table, as `anytime_sequence` takes it; or a `glm_objective`,
        without target, groups, family and ridge, which it has
    target : column to predict
    groups : name -> columns or globs; default: every top-level field but the target
    costs : name -> cost > 0, in any one unit; default: 1 each, or those of the objective
    backward : least useful by ``"loss"``, the exact loss per cost, or by
        ``"coefficient"``, the length of its coefficients on unit-variance columns
    max_steps : limit on the removals
    ridge : >= 0, lambda on unit-variance columns
    intercept : False for models through the origin, as in `anytime_sequence`
    budget : removal ends as soon as what is held fits it
    always : groups that stay
    family : ``"gaussian"``, the linear model (default); of another the search is that of
        ``glm_objective(source, target, groups, costs, family=family, ridge=ridge)``
    null_policy : what becomes of missing values while a table is read, as in
        `dbselect.gram`; rows without the target are left out under every policy
    callback : is called with a `Progress` after every step; what it raises ends the call.
        The search is then Python's, as the compiled library tells no steps on its way

    Returns
    -------
    Sequence whose steps add every group, in the order given, and then remove them;
    ``at(size=k)`` is the model of k groups; after a whole elimination ``at(budget)`` is
    the largest that the budget buys, otherwise the last; of a `glm_objective` or
    another family a GlmSequence

    Raises
    ------
    ColumnError, GroupError, ArgumentError : as `anytime_sequence`
    DataError : no usable rows, or a constant target; by ``"coefficient"`` columns that
        depend linearly on others, as the levels of a category do, and no ridge

    Notes
    -----
    O(D |S|) a step, and O(D |S|^2) at most for the state: O(D^3 J) in all. A group whose
    columns depend on those of others loses nothing and is removed first; of several the
    dearest, then the one named first.

    References
    ----------
    Zhang (2008), section 2.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> ds.backward(table, "y").steps.filter(action="remove")["group"].to_list()
    ['b', 'a']
    """
    check_callback(callback)
    options = BackwardOptions(
        backward=backward, max_steps=max_steps, ridge=ridge, intercept=intercept, budget=budget,
        always=always, family=family, null_policy=null_policy,
    )  # fmt: skip
    search = open_search(
        source, target, groups, costs, family=options.family, ridge=options.ridge,
        always=options.always, null_policy=options.null_policy, intercept=options.intercept,
    )  # fmt: skip
    check_first(search.groups, search.first, options.budget, None)
    found = compiled_sequence(search, "backward", options) if callback is None else None
    if found is not None:
        return found
    rest = [group for group in range(len(search.groups.costs)) if group not in search.first]

    def run(record: Record) -> Stop:
        state = search.state
        for group in [*search.first, *rest]:
            gain = state.add(group)
            score = gain / search.groups.costs[group]
            record(Step("add", group, float(score), gain, state.value, Choice.FORCED))
        # A loss is told of dependent columns, too; one coefficient is not.
        names = search.dependent() if backward == "coefficient" else []
        if names and not search.ridge:
            raise DataError(
                f"columns {names} depend linearly on others, so that coefficients are not certain; "
                "take backward 'loss', leave them out, or give a ridge > 0"
            )
        search.check_held()
        return backward_search(
            state,
            search.groups,
            USEFULNESS[backward],
            record,
            budget=options.budget,
            max_steps=max_steps,
            always=search.first,
        )

    return search.recorded("backward", run, callback)

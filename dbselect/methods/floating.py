"""Floating search: groups are given back where fewer never did as well."""

from dataclasses import dataclass
from typing import ClassVar, Literal, overload

from dbselect.methods.glm_objective import GlmObjective
from dbselect.methods.open_search import open_search
from dbselect.methods.setup import check_first
from dbselect.methods.stepwise import StepwiseOptions
from dbselect.methods.types import (
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
    check_count,
)
from dbselect.record.steps import Record, Stop
from dbselect.results.glm.sequence import GlmSequence
from dbselect.results.sequence import Sequence as AnytimeSequence
from dbselect.selection.criteria import rules_of_foba
from dbselect.selection.floating import Beaten
from dbselect.selection.foba import foba_search
from dbselect.selection.removal import by_loss
from dbselect.sources.turns import Callback, check_callback


@dataclass(frozen=True, kw_only=True)
class FloatingOptions(StepwiseOptions):
    """The options of `floating`."""

    method: ClassVar[str] = "floating"

    rule: ForwardName = "fr"
    max_groups: int | None = None

    def __post_init__(self) -> None:
        """Refuse options that no data could make right."""
        super().__post_init__()
        check_choice("rule", self.rule, rules_of_foba())
        check_count("max_groups", self.max_groups)


@overload
def floating(
    source: Source,
    target: str,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    rule: ForwardName = ...,
    max_groups: int | None = ...,
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
def floating(
    source: TableSource,
    target: str,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    rule: ForwardName = ...,
    max_groups: int | None = ...,
    max_steps: int | None = ...,
    ridge: float = ...,
    intercept: bool = ...,
    budget: float | None = ...,
    always: GroupNames = ...,
    family: GlmFamilyName,
    callback: Callback | None = ...,
) -> GlmSequence: ...


@overload
def floating(
    source: GlmObjective,
    target: None = None,
    groups: None = None,
    costs: Costs | None = None,
    *,
    rule: ForwardName = ...,
    max_groups: int | None = ...,
    max_steps: int | None = ...,
    budget: float | None = ...,
    always: GroupNames = ...,
    callback: Callback | None = ...,
) -> GlmSequence: ...


def floating(
    source: Source | GlmObjective,
    target: str | None = None,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    rule: ForwardName = FloatingOptions.rule,
    max_groups: int | None = FloatingOptions.max_groups,
    max_steps: int | None = FloatingOptions.max_steps,
    ridge: float = FloatingOptions.ridge,
    intercept: bool = FloatingOptions.intercept,
    budget: float | None = FloatingOptions.budget,
    always: GroupNames = FloatingOptions.always,
    family: FamilyName = FloatingOptions.family,
    null_policy: NullPolicy = FloatingOptions.null_policy,
    callback: Callback | None = None,
) -> AnytimeSequence | GlmSequence:
    """Add groups greedily, and go back to fewer where these explain more than ever for the cost.

    After every addition the least useful group is removed, as long as what is left explains more
    than every set before it that cost no more: at costs of 1, than the best set of its size. That
    is sequential floating forward selection (SFFS).

    Parameters
    ----------
    source : Gram, record or table, as `anytime_sequence` takes it; or a `glm_objective`,
        without target, groups, family and ridge, which it has
    target : column to predict
    groups : name -> columns or globs; default: every top-level field but the target
    costs : name -> cost > 0, in any one unit; default: 1 each, or those of the objective
    rule : of a forward step, as of `foba`
    max_groups : end where so many groups are held, and none of them goes
    max_steps : limit on additions and removals together
    ridge : >= 0, lambda on unit-variance columns
    intercept : False for models through the origin, as in `anytime_sequence`
    budget : limit on the summed cost: only groups that still fit are added
    always : groups taken first, which stay
    family : ``"gaussian"``, the linear model (default); of another the search is that of
        ``glm_objective(source, target, groups, costs, family=family, ridge=ridge)``
    null_policy : what becomes of missing values while a table is read, as in
        `dbselect.gram`; rows without the target are left out under every policy
    callback : is called with a `Progress` after every step; what it raises ends the call

    Returns
    -------
    Sequence whose steps add and remove; ``at(size=k)`` is the best model of k groups; of
    a `glm_objective` or another family a GlmSequence

    Raises
    ------
    ColumnError, GroupError, DataError : as `anytime_sequence`
    ArgumentError : rule, max_groups, max_steps, ridge, budget or family out of range

    Notes
    -----
    `foba` with `nu` near 1 is nearly the same: it gives a group back that loses less than the
    last step to the present size gained, and so forgets what smaller sets reached on other ways.
    mlxtend's ``SequentialFeatureSelector(floating=True)`` also asks that a smaller set explain
    more than the present one, which none does on the rows of the fit: there it is forward
    selection, and this search is at least as good. `exchange` and `best_within` go further.
    A step costs O(D |S|) once the state is updated; in Python, one record at a time.

    References
    ----------
    Pudil, Novovicova, Kittler (1994), Floating search methods in feature selection, Pattern
    Recognition Letters 15.

    Examples
    --------
    c is best alone, and superfluous beside a and b:

    >>> import dbselect as ds
    >>> import polars as pl
    >>> a, b = [1, 2, 3, 4, 5, 6], [3, 1, 4, 1, 5, 9]
    >>> c = [i + j + d for i, j, d in zip(a, b, [0.1, -0.2, 0.1, 0.2, -0.1, -0.1])]
    >>> table = pl.DataFrame({"a": a, "b": b, "c": c, "y": [i + j for i, j in zip(a, b)]})
    >>> seq = ds.floating(table, "y")
    >>> seq.steps.select("action", "group").rows()[1:]
    [('add', 'c'), ('add', 'b'), ('add', 'a'), ('remove', 'c')]
    >>> seq.at(size=2).groups
    ['b', 'a']
    """
    check_callback(callback)
    options = FloatingOptions(
        rule=rule, max_groups=max_groups, max_steps=max_steps, ridge=ridge, intercept=intercept,
        budget=budget, always=always, family=family, null_policy=null_policy,
    )  # fmt: skip
    search = open_search(
        source, target, groups, costs, family=options.family, ridge=options.ridge,
        always=options.always, null_policy=options.null_policy, intercept=options.intercept,
    )  # fmt: skip
    check_first(search.groups, search.first, options.budget, options.max_groups)

    def run(record: Record) -> Stop:
        return foba_search(
            search.state,
            search.groups,
            search.criterion(rule),
            by_loss,
            record,
            epsilon=0.0,
            allowance=Beaten(search.groups.costs),
            budget=options.budget,
            max_groups=max_groups,
            max_steps=max_steps,
            always=search.first,
        )

    return search.recorded(f"floating-{rule}", run, callback)

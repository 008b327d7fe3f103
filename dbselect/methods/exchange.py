"""Exchange search: k groups, of which no one can be exchanged for a better one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, overload

import numpy as np

from dbselect.errors import ArgumentError
from dbselect.linear.state import State
from dbselect.methods.baselines import GreedyOptions
from dbselect.methods.choose import choice_of
from dbselect.methods.glm_objective import GlmObjective
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
from dbselect.objectives.contract import Objective
from dbselect.record.checks import check_names
from dbselect.record.groups import Groups
from dbselect.results.glm.model import GlmModel
from dbselect.results.model import Model
from dbselect.results.selected import Selected
from dbselect.selection.dash import Limits, Run, greedy_choice
from dbselect.selection.exchange import LEAST_RISE, improved
from dbselect.selection.ties import Mask, first_of_the_best

#: Columns up to which least squares also starts from backward elimination: it takes a second there.
MOST_FROM_ABOVE = 300


@dataclass(frozen=True, kw_only=True)
class ExchangeOptions(GreedyOptions):
    """Options of `exchange`."""

    method: ClassVar[str] = "exchange"
    sharing: ClassVar[bool] = False

    start: GroupNames = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_names("start", self.start)

    def limits(self, groups: Groups) -> Limits:
        """Return what limits a choice among groups, which begins with those of `start`."""
        limits = super().limits(groups)
        start = [groups.number(name, "start") for name in self.start]
        begin = [one for one in dict.fromkeys(start) if one not in limits.first]
        every = (*limits.first, *begin)
        if len(every) > self.k:
            raise ArgumentError(f"start and always name {len(every)} groups; k allows {self.k}")
        for at, group in enumerate(every):
            if not limits.fitting(every[:at], len(groups.costs))[group]:
                raise ArgumentError(
                    f"start has '{groups.names[group]}', which the budget {self.budget:g} does "
                    "not buy beside those before it"
                )
        return replace(limits, start=every)

    @property
    def named(self) -> dict[str, Any]:
        """What the options say of groups by name, which other candidates have not."""
        return super().named | {"start": list(self.start) or None}


@overload
def exchange(
    source: GlmObjective,
    target: None = ...,
    groups: None = ...,
    costs: Costs | None = ...,
    *,
    k: int,
    start: GroupNames = ...,
    family: Literal["gaussian"] = ...,
    budget: float | None = ...,
    always: Sequence[str] = ...,
    diversity: Objective | None = ...,
    null_policy: NullPolicy = ...,
) -> Selected[GlmModel]: ...


@overload
def exchange(
    source: Source,
    target: str,
    groups: GroupColumns | None = ...,
    costs: Costs | None = ...,
    *,
    k: int,
    start: GroupNames = ...,
    family: Literal["gaussian"] = ...,
    intercept: bool = ...,
    budget: float | None = ...,
    always: Sequence[str] = ...,
    diversity: Objective | None = ...,
    null_policy: NullPolicy = ...,
) -> Selected[Model]: ...


@overload
def exchange(
    source: TableSource,
    target: str,
    groups: GroupColumns | None = ...,
    costs: Costs | None = ...,
    *,
    k: int,
    start: GroupNames = ...,
    family: GlmFamilyName,
    intercept: bool = ...,
    budget: float | None = ...,
    always: Sequence[str] = ...,
    diversity: Objective | None = ...,
    null_policy: NullPolicy = ...,
) -> Selected[GlmModel]: ...


@overload
def exchange(
    source: Objective,
    target: None = ...,
    groups: None = ...,
    costs: None = ...,
    *,
    k: int,
    start: GroupNames = ...,
    family: Literal["gaussian"] = ...,
    budget: float | None = ...,
    always: Sequence[str] = ...,
    diversity: Objective | None = ...,
    null_policy: NullPolicy = ...,
) -> Selected[GlmModel | None]: ...


def exchange(
    source: Source | GlmObjective | Objective,
    target: str | None = None,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    k: int,
    start: GroupNames = ExchangeOptions.start,
    family: FamilyName = ExchangeOptions.family,
    intercept: bool = ExchangeOptions.intercept,
    budget: float | None = ExchangeOptions.budget,
    always: Sequence[str] = ExchangeOptions.always,
    diversity: Objective | None = None,
    null_policy: NullPolicy = ExchangeOptions.null_policy,
) -> Selected[Any]:
    """Choose k groups greedily, then exchange one for another until none of that helps.

    Each time the pair that gains most is exchanged. What `start` names is polished: the groups
    of a sequence at a size or a budget, ``seq.at(size=3).groups``.

    Parameters
    ----------
    source, target, groups, costs : as in `dash`
    k : most groups or candidates to choose, fewer where no other one fits into the budget
    start : groups to begin with; greedy search adds to them as long as one fits. Default: none
    family, intercept : as in `dash`
    budget : limit on the summed cost, before and after every exchange
    always : groups to take first, which stay; they count in k and in the budget
    diversity, null_policy : as in `dash`

    Returns
    -------
    Selected, as of `dash`

    Raises
    ------
    ArgumentError : as `dash`; `start` and `always` name more than k groups, or more than the
        budget buys
    ColumnError, GroupError, DataError : as `anytime_sequence`

    Notes
    -----
    An exchange costs k removals and k times all gains: O(D k^2) on a Gram, and of a family
    (J - k) k refits. In least squares on at most 300 columns, without `start`, exchanges also
    begin with what backward elimination leaves, O(D^3), and the better end is taken. It is a
    local optimum: no single exchange helps, two at a time might. `best_within` proves the best.

    References
    ----------
    Miller (2002), Subset Selection in Regression, section 3.3; Fedorov (1972) for designs.

    Examples
    --------
    Greedy search takes c, the best alone, and keeps it; a and b explain all:

    >>> import dbselect as ds
    >>> import polars as pl
    >>> a, b = [1, 2, 3, 4, 5, 6], [3, 1, 4, 1, 5, 9]
    >>> c = [i + j + d for i, j, d in zip(a, b, [0.1, -0.2, 0.1, 0.2, -0.1, -0.1])]
    >>> table = pl.DataFrame({"a": a, "b": b, "c": c, "y": [i + j for i, j in zip(a, b)]})
    >>> ds.greedy(table, "y", k=2).groups, ds.exchange(table, "y", k=2).groups
    (['c', 'b'], ['b', 'a'])
    """
    options = ExchangeOptions(
        k=k,
        start=start,
        family=family,
        intercept=intercept,
        budget=budget,
        always=always,
        null_policy=null_policy,
    )
    return choice_of(exchange_choice, options, source, target, groups, costs, diversity)


def exchange_choice(objective: Objective, limits: Limits) -> Run[Any]:
    """Choose greedily from where the limits say, and exchange until nothing improves.

    In least squares the same from what backward elimination leaves; the better end counts.
    """
    begun = greedy_choice(objective, replace(limits, first=limits.start or limits.first))
    best, history = _exchanged(begun.objective, limits)
    is_small = isinstance(objective, State) and len(objective.problem.c) <= MOST_FROM_ABOVE
    if is_small and limits.start == limits.first:
        other, changes = _exchanged(_from_above(objective, limits), limits)
        if other.value > best.value + LEAST_RISE:
            best, history = other, changes
    queries = len(history) * len(best.held) * (best.size - len(best.held))
    return replace(
        begun, objective=best, history=[*begun.history, *history], queries=begun.queries + queries
    )


def _exchanged(begun: Objective, limits: Limits) -> tuple[Objective, list[float]]:
    """Return where exchanges end, and the value after each."""
    state = begun.copy()

    def open_to(held: Sequence[int]) -> Mask:
        return limits.fitting(held, state.size)

    return state, improved(state, open_to, limits.first)


def _from_above(objective: Objective, limits: Limits) -> Objective:
    """Return what is left of all candidates when the least useful ones are gone."""
    state = objective.copy()
    rest = np.setdiff1d(np.arange(state.size), limits.first).tolist()
    state.add_all([*limits.first, *rest])
    costs = limits.costs if limits.budget is not None else None
    while not _is_within(state.held, limits, state.size):
        may_go = np.isin(np.arange(state.size), state.held)
        may_go[list(limits.first)] = False
        worth = state.losses() if costs is None else state.losses() / costs
        state.remove(first_of_the_best(-worth, may_go))
    return state


def _is_within(held: Sequence[int], limits: Limits, size: int) -> bool:
    """Whether the last candidate held may be added to the others."""
    return not held or bool(limits.fitting(held[:-1], size)[held[-1]])

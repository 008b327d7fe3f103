"""The baselines of DASH: k candidates greedily, by their own worth, or at random."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, overload

import numpy as np

from dbselect.errors import ArgumentError
from dbselect.methods.choose import ChoiceOptions, choice_of
from dbselect.methods.glm_objective import GlmObjective
from dbselect.methods.setup import check_first, numbers_of
from dbselect.methods.types import (
    Costs,
    FamilyName,
    GlmFamilyName,
    GroupColumns,
    NullPolicy,
    Source,
    TableSource,
)
from dbselect.objectives.contract import Objective
from dbselect.record.checks import check_budget, check_names, check_whole
from dbselect.record.groups import Groups
from dbselect.results.glm.model import GlmModel
from dbselect.results.model import Model
from dbselect.results.selected import Selected
from dbselect.selection import dash as sampling
from dbselect.selection.dash import Limits
from dbselect.sources.turns import Callback, check_callback, turns


@dataclass(frozen=True, kw_only=True)
class GreedyOptions(ChoiceOptions):
    """Options of `greedy`."""

    method: ClassVar[str] = "greedy"
    sharing: ClassVar[bool] = True

    budget: float | None = None
    always: Sequence[str] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_budget(self.budget)
        check_names("always", self.always)

    def limits(self, groups: Groups) -> Limits:
        """Return what limits a choice among groups with names and costs."""
        first = numbers_of(self.always, groups)
        check_first(groups, first, self.budget, None)
        if len(first) > self.k:
            raise ArgumentError(f"always names {len(first)} groups; k allows {self.k}")
        return Limits(self.k, tuple(first), self.budget, groups.costs)

    @property
    def named(self) -> dict[str, Any]:
        """What the options say of groups by name, which other candidates have not."""
        return super().named | {"budget": self.budget, "always": list(self.always) or None}


@dataclass(frozen=True, kw_only=True)
class TopKOptions(GreedyOptions):
    """Options of `top_k`."""

    method: ClassVar[str] = "top_k"


@dataclass(frozen=True, kw_only=True)
class RandomOptions(GreedyOptions):
    """Options of `random_k`."""

    method: ClassVar[str] = "random_k"

    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("seed", self.seed, 0)


@overload
def greedy(
    source: GlmObjective,
    target: None = ...,
    groups: None = ...,
    costs: Costs | None = ...,
    *,
    k: int,
    family: Literal["gaussian"] = ...,
    budget: float | None = ...,
    always: Sequence[str] = ...,
    diversity: Objective | None = ...,
    null_policy: NullPolicy = ...,
    callback: Callback | None = ...,
) -> Selected[GlmModel]: ...


@overload
def greedy(
    source: Source,
    target: str,
    groups: GroupColumns | None = ...,
    costs: Costs | None = ...,
    *,
    k: int,
    family: Literal["gaussian"] = ...,
    intercept: bool = ...,
    budget: float | None = ...,
    always: Sequence[str] = ...,
    diversity: Objective | None = ...,
    null_policy: NullPolicy = ...,
    callback: Callback | None = ...,
) -> Selected[Model]: ...


@overload
def greedy(
    source: TableSource,
    target: str,
    groups: GroupColumns | None = ...,
    costs: Costs | None = ...,
    *,
    k: int,
    family: GlmFamilyName,
    intercept: bool = ...,
    budget: float | None = ...,
    always: Sequence[str] = ...,
    diversity: Objective | None = ...,
    null_policy: NullPolicy = ...,
    callback: Callback | None = ...,
) -> Selected[GlmModel]: ...


@overload
def greedy(
    source: Objective,
    target: None = ...,
    groups: None = ...,
    costs: None = ...,
    *,
    k: int,
    family: Literal["gaussian"] = ...,
    budget: float | None = ...,
    always: Sequence[str] = ...,
    diversity: Objective | None = ...,
    null_policy: NullPolicy = ...,
    callback: Callback | None = ...,
) -> Selected[GlmModel | None]: ...


def greedy(
    source: Source | GlmObjective | Objective,
    target: str | None = None,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    k: int,
    family: FamilyName = GreedyOptions.family,
    intercept: bool = GreedyOptions.intercept,
    budget: float | None = GreedyOptions.budget,
    always: Sequence[str] = GreedyOptions.always,
    diversity: Objective | None = None,
    null_policy: NullPolicy = GreedyOptions.null_policy,
    callback: Callback | None = None,
) -> Selected[Any]:
    """Choose k groups, the largest gain each time: k adaptive rounds.

    Parameters
    ----------
    source, target, groups, costs : as in `dash`
    k : most groups or candidates to choose, fewer where no other one fits into the budget
    family, intercept : as in `dash`
    budget : limit on the summed cost: only groups that still fit are candidates
    always : groups to take first, in the order given; they count in k and in the budget
    diversity, null_policy : as in `dash`
    callback : is called with a `Progress` after every round; what it raises ends the call

    Returns
    -------
    Selected, as of `dash`

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> ds.greedy(table, "y", k=1).groups
    ['a']
    """
    check_callback(callback)
    options = GreedyOptions(
        k=k,
        family=family,
        intercept=intercept,
        budget=budget,
        always=always,
        null_policy=null_policy,
    )
    with turns(k, "rounds", callback) as turn:
        run = partial(sampling.greedy_choice, told=lambda value: turn(None, value))
        return choice_of(run, options, source, target, groups, costs, diversity)


@overload
def top_k(
    source: GlmObjective,
    target: None = ...,
    groups: None = ...,
    costs: Costs | None = ...,
    *,
    k: int,
    family: Literal["gaussian"] = ...,
    budget: float | None = ...,
    always: Sequence[str] = ...,
    diversity: Objective | None = ...,
    null_policy: NullPolicy = ...,
) -> Selected[GlmModel]: ...


@overload
def top_k(
    source: Source,
    target: str,
    groups: GroupColumns | None = ...,
    costs: Costs | None = ...,
    *,
    k: int,
    family: Literal["gaussian"] = ...,
    intercept: bool = ...,
    budget: float | None = ...,
    always: Sequence[str] = ...,
    diversity: Objective | None = ...,
    null_policy: NullPolicy = ...,
) -> Selected[Model]: ...


@overload
def top_k(
    source: TableSource,
    target: str,
    groups: GroupColumns | None = ...,
    costs: Costs | None = ...,
    *,
    k: int,
    family: GlmFamilyName,
    intercept: bool = ...,
    budget: float | None = ...,
    always: Sequence[str] = ...,
    diversity: Objective | None = ...,
    null_policy: NullPolicy = ...,
) -> Selected[GlmModel]: ...


@overload
def top_k(
    source: Objective,
    target: None = ...,
    groups: None = ...,
    costs: None = ...,
    *,
    k: int,
    family: Literal["gaussian"] = ...,
    budget: float | None = ...,
    always: Sequence[str] = ...,
    diversity: Objective | None = ...,
    null_policy: NullPolicy = ...,
) -> Selected[GlmModel | None]: ...


def top_k(
    source: Source | GlmObjective | Objective,
    target: str | None = None,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    k: int,
    family: FamilyName = TopKOptions.family,
    intercept: bool = TopKOptions.intercept,
    budget: float | None = TopKOptions.budget,
    always: Sequence[str] = TopKOptions.always,
    diversity: Objective | None = None,
    null_policy: NullPolicy = TopKOptions.null_policy,
) -> Selected[Any]:
    """Choose the k groups that are best alone: one adaptive round.

    Parameters
    ----------
    source, target, groups, costs : as in `dash`
    k : most groups or candidates to choose, fewer where no other one fits into the budget
    family, intercept : as in `dash`
    budget : limit on the summed cost: only groups that still fit are candidates
    always : groups to take first, in the order given; they count in k and in the budget
    diversity, null_policy : as in `dash`

    Returns
    -------
    Selected, as of `dash`

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> ds.top_k(table, "y", k=1).groups
    ['a']
    """
    options = TopKOptions(
        k=k, family=family, intercept=intercept, budget=budget, always=always,
        null_policy=null_policy,
    )  # fmt: skip
    return choice_of(sampling.top_k_choice, options, source, target, groups, costs, diversity)


@overload
def random_k(
    source: GlmObjective,
    target: None = ...,
    groups: None = ...,
    costs: Costs | None = ...,
    *,
    k: int,
    family: Literal["gaussian"] = ...,
    budget: float | None = ...,
    always: Sequence[str] = ...,
    diversity: Objective | None = ...,
    seed: int = ...,
    null_policy: NullPolicy = ...,
) -> Selected[GlmModel]: ...


@overload
def random_k(
    source: Source,
    target: str,
    groups: GroupColumns | None = ...,
    costs: Costs | None = ...,
    *,
    k: int,
    family: Literal["gaussian"] = ...,
    intercept: bool = ...,
    budget: float | None = ...,
    always: Sequence[str] = ...,
    diversity: Objective | None = ...,
    seed: int = ...,
    null_policy: NullPolicy = ...,
) -> Selected[Model]: ...


@overload
def random_k(
    source: TableSource,
    target: str,
    groups: GroupColumns | None = ...,
    costs: Costs | None = ...,
    *,
    k: int,
    family: GlmFamilyName,
    intercept: bool = ...,
    budget: float | None = ...,
    always: Sequence[str] = ...,
    diversity: Objective | None = ...,
    seed: int = ...,
    null_policy: NullPolicy = ...,
) -> Selected[GlmModel]: ...


@overload
def random_k(
    source: Objective,
    target: None = ...,
    groups: None = ...,
    costs: None = ...,
    *,
    k: int,
    family: Literal["gaussian"] = ...,
    budget: float | None = ...,
    always: Sequence[str] = ...,
    diversity: Objective | None = ...,
    seed: int = ...,
    null_policy: NullPolicy = ...,
) -> Selected[GlmModel | None]: ...


def random_k(
    source: Source | GlmObjective | Objective,
    target: str | None = None,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    k: int,
    family: FamilyName = RandomOptions.family,
    intercept: bool = RandomOptions.intercept,
    budget: float | None = RandomOptions.budget,
    always: Sequence[str] = RandomOptions.always,
    diversity: Objective | None = None,
    seed: int = RandomOptions.seed,
    null_policy: NullPolicy = RandomOptions.null_policy,
) -> Selected[Any]:
    """Choose k groups at random.

    Parameters
    ----------
    source, target, groups, costs : as in `dash`
    k : most groups or candidates to choose, fewer where no other one fits into the budget
    family, intercept : as in `dash`
    budget : limit on the summed cost: only groups that still fit are candidates
    always : groups to take first, in the order given; they count in k and in the budget
    diversity, seed, null_policy : as in `dash`

    Returns
    -------
    Selected, as of `dash`

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> len(ds.random_k(table, "y", k=1).groups)
    1
    """
    options = RandomOptions(
        k=k,
        family=family,
        intercept=intercept,
        budget=budget,
        always=always,
        seed=seed,
        null_policy=null_policy,
    )
    run = partial(sampling.random_choice, rng=np.random.default_rng(seed))
    return choice_of(run, options, source, target, groups, costs, diversity)

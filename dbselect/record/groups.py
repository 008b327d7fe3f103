"""Groups of columns that are bought together, and their costs."""

import numbers
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from dbselect.errors import GroupError, shown, unknown
from dbselect.options.conditions import NONE, Conditions
from dbselect.options.kinds import POSITIVE, is_whole
from dbselect.record.columns import match, with_indicators
from dbselect.record.foreign import is_of, native
from dbselect.record.prices import APART, Prices
from dbselect.record.terms import Terms

#: Name of a group -> its columns or globs.
GroupColumns: TypeAlias = Mapping[str, Iterable[str]]
#: Names of groups.
GroupNames: TypeAlias = Sequence[str]
#: Searches that accept overlapping groups: those that never remove a group.
WHO_SHARES = (
    "only anytime_sequence, greedy, top_k and random_k of one Gram take groups that share columns"
)


class Labelled(Protocol):
    """A series of pandas: values with labels."""

    index: Any

    def items(self) -> Iterable[tuple[Any, Any]]:
        """Return labels with their values."""


#: Name of a group -> its cost > 0: a mapping or a pandas series; a Polars series, without labels,
#: has the costs in the order of the groups.
Costs: TypeAlias = Mapping[str, float] | Labelled | pl.Series


@dataclass(frozen=True)
class Groups:
    """J groups of columns, each with a cost > 0; a column may lie in several."""

    columns: dict[str, list[str]]  # name of each group -> its columns, in order
    costs: npt.NDArray[np.float64]  # shape (J,), in the caller's unit
    unused: tuple[str, ...] = ()  # columns that lie in no group

    # group without its own cost -> the groups that it includes, with their costs
    brings: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    told: Conditions = NONE  # on sets of groups

    @cached_property
    def names(self) -> list[str]:
        """Names of the groups, in the given order; the first wins a tie."""
        return list(self.columns)

    @cached_property
    def members(self) -> list[str]:
        """The D columns of all groups, each once, group by group."""
        return list(dict.fromkeys(name for columns in self.columns.values() for name in columns))

    @cached_property
    def places(self) -> tuple[npt.NDArray[np.intp], list[int]]:
        """Positions in `members`, group by group, and offsets of the groups.

        A column in several groups is repeated.
        """
        starts = [0, *accumulate(map(len, self.columns.values()))]
        if starts[-1] == len(self.members):
            return np.arange(starts[-1], dtype=np.intp), starts
        number = {name: at for at, name in enumerate(self.members)}
        positions = [number[name] for columns in self.columns.values() for name in columns]
        return np.array(positions, np.intp), starts

    @cached_property
    def positions(self) -> list[npt.NDArray[np.intp]]:
        """Positions of the columns of each group in `members`."""
        places, starts = self.places
        return [places[start:end] for start, end in pairwise(starts)]

    def only(self, kept: Sequence[int]) -> "Groups":
        """Return a subset of the groups, in the given order."""
        columns = {self.names[group]: self.columns[self.names[group]] for group in kept}
        brings = {name: self.brings[name] for name in columns if name in self.brings}
        return Groups(columns, self.costs[list(kept)], self.unused, brings, self.told.only(columns))

    @cached_property
    def prices(self) -> Prices:
        """What sets of the groups cost, and which may be bought."""
        parts = [
            self.brings.get(name) or {name: cost}
            for name, cost in zip(self.names, self.costs.tolist(), strict=True)
        ] if self.brings else None  # fmt: skip
        return Prices(self.names, self.costs, parts, self.told)

    @property
    def told_by_number(self) -> dict[str, Any]:
        """Conditions on the groups, which are named by their numbers."""
        return self.told.renamed(lambda name: str(self.names.index(name)))

    def spent(self, held: Iterable[int]) -> float:
        """Return the total cost of groups; what they share is paid once."""
        return self.prices.spent(held)

    def number(self, name: str, what: str) -> int:
        """Return the index of a group."""
        if name not in self.columns:
            raise GroupError(f"{what} names {unknown('group', name, self.names)}")
        return self.names.index(name)


def groups_of(
    features: Sequence[str],
    groups: Mapping[str, Iterable[str]] | None = None,
    costs: Costs | None = None,
    target: str | Sequence[str] = (),
    terms: Terms | None = None,
    sharing: bool = False,
    nested: bool = False,
    told: Conditions = NONE,
) -> Groups:
    """Match groups and costs to a table's features; GroupError, ColumnError if they do not fit.

    Indicators ``x.missing`` join the group of their column unless a group names them; by default
    every top-level field is a group. `sharing` allows a column in several groups; with `nested` a
    group without a cost includes, and pays for, the groups that it contains; `told` are conditions.
    """
    targets = [target] if isinstance(target, str) else target
    if groups is None:
        columns: dict[str, list[str]] = {}
        fields = (Terms() if terms is None else terms).fields(features)
        for name, field in zip(features, fields, strict=True):
            columns.setdefault(field, []).append(name)
    else:
        patterns = patterns_by_name(groups)
        for name, means in patterns.items():
            overlap = [column for column in targets if column in means]
            if overlap:
                raise GroupError(
                    f"group '{name}' names the target '{overlap[0]}'; a target belongs to no group"
                )
        in_table = set(features)
        columns = {
            # Exact names need no matching, which would scan all features for each name.
            name: means if in_table.issuperset(means) and len(set(means)) == len(means)
            else match(means, features, f"group '{name}'")
            for name, means in patterns.items()
        }  # fmt: skip
        named = {column for members in columns.values() for column in members}
        columns = {
            name: with_indicators(members, in_table, named) for name, members in columns.items()
        }
    if not columns:
        raise GroupError("there is no group; at least one column besides the target is needed")
    owner: dict[str, str] = {}
    for name, members in columns.items():
        for column in members:
            if owner.setdefault(column, name) != name and not sharing:
                raise GroupError(
                    f"column '{column}' lies in group '{owner[column]}' and in group '{name}'; "
                    f"{WHO_SHARES}"
                )
    unused = tuple(column for column in features if column not in owner)
    brings = _included(columns, costs) if nested and costs is not None else {}
    if brings:
        own_costs = dict(_mapping_of(costs, list(columns)))
        costs = own_costs | {name: sum(parts.values()) for name, parts in brings.items()}
    matched = Groups(columns, costs_of(list(columns), costs, told), unused, brings, told)
    if told:
        matched.prices.closed(())  # resolves the conditions: a group that no set may hold is named
    return matched


def _included(columns: Mapping[str, list[str]], costs: Any) -> dict[str, dict[str, float]]:
    """Return group without a cost -> the groups with costs that it contains, and their costs."""
    named = _mapping_of(costs, list(columns))
    if all(name in named for name in columns):
        return {}
    priced = {name: {*members} for name, members in columns.items() if name in named}
    # A group lies in another only if its first column does.
    by_first: dict[str, list[str]] = {}
    for name in priced:
        by_first.setdefault(columns[name][0], []).append(name)
    parts_by_group = {
        name: {
            part: _cost(part, named[part])
            for column in members
            for part in by_first.get(column, ())
            if priced[part].issubset(members)
        }
        for name, members in columns.items()
        if name not in named
    }
    return {name: parts for name, parts in parts_by_group.items() if parts}


def patterns_by_name(groups: Any) -> dict[str, list[str]]:
    """Return group -> its columns and globs; GroupError for anything else."""
    if not isinstance(groups, Mapping):
        names = [groups] if isinstance(groups, str) else groups
        are_columns = isinstance(names, list | tuple) and all(isinstance(n, str) for n in names)
        meant = f", as { {name: [name] for name in names} }" if are_columns else ""
        raise GroupError(f"groups is {shown(groups)}; it must map names to lists of columns{meant}")
    for name in groups:
        if not isinstance(name, str):
            raise GroupError(f"group {name!r} has no text for a name; group names are text")
    return {name: patterns_of(name, means) for name, means in groups.items()}


def patterns_of(name: str, means: Any) -> list[str]:
    """Return the columns and globs of a group; GroupError for anything else."""
    if isinstance(means, str):
        return [means]
    if isinstance(means, Mapping | numbers.Real):
        costs = dict(means) if isinstance(means, Mapping) else {name: means}
        raise GroupError(
            f"group '{name}' is {shown(means)}; a group lists columns or globs, and costs are "
            f"given by name: costs={costs!r} in Python, {{'costs': {costs!r}}} as options in SQL"
        )
    if means is not None and not isinstance(means, Iterable):
        raise GroupError(f"group '{name}' is {shown(means)}; it must list columns or globs")
    patterns = list(means or [])
    if not patterns:
        raise GroupError(f"group '{name}' is empty; it must have at least one column")
    if not all(isinstance(pattern, str) for pattern in patterns):
        by_number = [at for at in patterns if is_whole(at)]
        text = (
            f" by name, as '{by_number[0]}' where pandas numbers its columns" if by_number else ""
        )
        raise GroupError(f"group '{name}' is {shown(means)}; it must list columns or globs{text}")
    return patterns


def numbers_of(always: Iterable[str], groups: Groups) -> list[int]:
    """Return the numbers of the groups in `always`, each behind those that it needs.

    GroupError if they are unknown, repeated, or not allowed together.
    """
    named = list(always)
    first = [groups.number(name, "always") for name in named]
    if len(set(first)) < len(first):
        raise GroupError(f"always is {named}; it names a group twice")
    first = groups.prices.closed(first)
    if not groups.prices.may_hold(first):
        raise GroupError(f"always is {named}; {APART}")
    return first


def costs_of(
    names: list[str],
    costs: Costs | None,
    told: Conditions = NONE,
) -> npt.NDArray[np.float64]:
    """Return the cost of each group, in the order of the names; 1 each if None.

    Groups of a set-up may cost nothing on their own.
    """
    if costs is None:
        return np.ones(len(names))
    costs = _mapping_of(costs, names)
    allowed = set(names)
    for name in costs:
        if name not in allowed:
            raise GroupError(f"costs names {unknown('group', name, names)}")
    values: list[float] = []
    for name in names:
        if name not in costs:
            raise GroupError(
                f"group '{name}' has no cost; costs must name every group; groups limits them"
            )
        values.append(_cost(name, costs[name], name in told.with_set_up))
    return np.array(values)


def costs_by_name(
    costs: Costs, names: Sequence[str], free: Collection[str] = ()
) -> dict[str, float]:
    """Return checked costs by name, also of absent groups; a Series in the order of `names`.

    Groups in `free` may cost nothing.
    """
    by_name = _mapping_of(costs, names)
    for name in by_name:
        if not isinstance(name, str):
            raise GroupError(f"costs names group {name!r}; group names are text")
    return {name: _cost(name, cost, name in free) for name, cost in by_name.items()}


def _cost(name: str, cost: Any, may_be_free: bool = False) -> float:
    if may_be_free and not isinstance(cost, bool) and cost == 0:
        return 0.0
    if not POSITIVE.allows(float(cost) if isinstance(cost, Decimal) else cost):
        raise GroupError(f"group '{name}' has cost {shown(cost)}; costs must be > 0 and finite")
    return float(cost)


def _mapping_of(costs: Any, names: Sequence[str]) -> Mapping[str, Any]:
    """Return costs by name; a Series without labels is in the order of the groups."""
    costs = native(costs)
    if isinstance(costs, Mapping):
        return costs
    if isinstance(costs, pl.Series):
        if len(costs) != len(names):
            raise GroupError(
                f"costs is a Series of {len(costs)}; there are {len(names)} groups: {list(names)}"
            )
        return dict(zip(names, costs.to_list(), strict=True))
    if is_of(costs, "pandas") and getattr(costs, "ndim", 0) == 1 and hasattr(costs, "items"):
        if not costs.index.is_unique:
            raise GroupError(f"costs is a Series that names {list(costs.index)}; names must differ")
        return dict(costs.items())
    raise GroupError(f"costs is {shown(costs)}; it must map group names to numbers > 0")

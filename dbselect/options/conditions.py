"""Conditions on the prices of sets of groups, as a problem has them, checked on their own."""

import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from dbselect.errors import ArgumentError, GroupError, shown, unknown

#: Name of a set-up -> what it costs, and the groups of which the first bought pays it.
Shared: TypeAlias = Mapping[str, tuple[float, Sequence[str]]]
#: Group -> groups that must be bought with it.
Needs: TypeAlias = Mapping[str, Sequence[str]]
#: Lists of groups, of each at most one.
OneOf: TypeAlias = Sequence[Sequence[str]]
#: Unit -> what groups cost in it, the limit, and ``"sum"`` or ``"max"``.
Limits: TypeAlias = Mapping[str, tuple[Mapping[str, float], float, str]]

#: How the costs of a further unit add up.
HOW = ("sum", "max")
#: Names of the conditions, which are fields of a problem.
CONDITIONS = ("shared", "needs", "one_of", "limits")


@dataclass(frozen=True)
class Conditions:
    """What a problem says of prices beside the costs, by names of groups; checked on its own."""

    shared: Shared = field(default_factory=dict)
    needs: Needs = field(default_factory=dict)
    one_of: OneOf = ()
    limits: Limits = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.shared or self.needs or self.one_of or self.limits)

    @cached_property
    def with_set_up(self) -> frozenset[str]:
        """The groups that may cost nothing on their own."""
        return frozenset(name for _, groups in self.shared.values() for name in groups)

    def renamed(self, name_of: Callable[[str], str]) -> dict[str, Any]:
        """Return the fields that are not empty, with other names of groups, as JSON has them."""
        named = {
            "shared": {
                name: [cost, list(map(name_of, groups))]
                for name, (cost, groups) in self.shared.items()
            },
            "needs": {
                name_of(name): list(map(name_of, needs)) for name, needs in self.needs.items()
            },
            "one_of": [list(map(name_of, names)) for names in self.one_of],
            "limits": {
                unit: [{name_of(name): cost for name, cost in costs.items()}, limit, how]
                for unit, (costs, limit, how) in self.limits.items()
            },
        }  # fmt: skip
        return {name: value for name, value in named.items() if value}

    def only(self, kept: Iterable[str]) -> "Conditions":
        """Return the conditions on some groups; what they need beside these is not asked."""
        names = set(kept)
        among = {
            "shared": {
                name: (cost, left)
                for name, (cost, groups) in self.shared.items()
                if (left := [group for group in groups if group in names])
            },
            "needs": {
                name: [need for need in needs if need in names]
                for name, needs in self.needs.items()
                if name in names
            },
            "one_of": [
                left for groups in self.one_of if (left := [g for g in groups if g in names])
            ],
            "limits": {
                unit: ({name: cost for name, cost in costs.items() if name in names}, limit, how)
                for unit, (costs, limit, how) in self.limits.items()
            },
        }  # fmt: skip
        return Conditions(**among)  # type: ignore[arg-type]

    def check(self, names: Sequence[str]) -> None:
        """Refuse groups that are not among those named."""
        known = set(names)
        named = [
            *((f"shared '{name}'", groups) for name, (_, groups) in self.shared.items()),
            ("needs", self.needs),
            *((f"needs of '{name}'", needs) for name, needs in self.needs.items()),
            *(("one_of", groups) for groups in self.one_of),
            *((f"limits '{unit}'", costs) for unit, (costs, _, _) in self.limits.items()),
        ]  # fmt: skip
        for what, groups in named:
            for name in groups:
                if name not in known:
                    raise GroupError(f"{what} names {unknown('group', name, list(names))}")


#: No conditions: costs are summed, and every set may be bought.
NONE = Conditions()


def checked(field_name: str, value: Any) -> Any:
    """Return a condition as `Conditions` has it; ArgumentError or GroupError if it is none."""
    return _READ[field_name](value) or None


def _names(value: Any) -> tuple[str, ...] | None:
    names = (value,) if isinstance(value, str) else value
    if isinstance(names, Mapping) or not isinstance(names, Iterable):
        return None
    names = tuple(names)
    return names if all(isinstance(name, str) for name in names) else None


def _is_size(value: Any, least_excluded: bool = False) -> bool:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return False
    number = float(value)
    return math.isfinite(number) and (number > 0 if least_excluded else number >= 0)


def _parts(value: Any, *keys: str) -> list[Any]:
    """Return the parts of a value, by name or by place; None for those that are not there."""
    if isinstance(value, Mapping):
        return [value.get(key) for key in keys] if set(value) <= {*keys} else [None] * len(keys)
    listed = list(value) if isinstance(value, list | tuple) else []
    return (
        [*listed, *[None] * (len(keys) - len(listed))]
        if len(listed) <= len(keys)
        else [None] * len(keys)
    )


def _shared(value: Mapping[str, Any]) -> Shared:
    found = {}
    for name, means in value.items():
        cost, groups = _parts(means, "cost", "groups")
        listed = _names(groups)
        if not _is_size(cost, least_excluded=True) or not listed:
            raise ArgumentError(
                f"shared of '{name}' is {shown(means)}; it must have a cost > 0 and the groups "
                "that share it"
            )
        found[name] = (float(cost), listed)
    return found


def _needs(value: Mapping[str, Any]) -> Needs:
    found = {}
    for name, means in value.items():
        listed = _names(means)
        if listed is None:
            raise ArgumentError(
                f"needs of '{name}' is {shown(means)}; it must list the groups that must be bought "
                "with it"
            )
        found[name] = listed
    closures(found)
    return found


def _one_of(value: Iterable[Any]) -> OneOf:
    lists = []
    for means in value:
        listed = None if isinstance(means, str) else _names(means)
        if not listed:
            raise ArgumentError(
                f"one_of has {shown(means)}; each item must be a list of group names"
            )
        lists.append(listed)
    return tuple(lists)


def _limits(value: Mapping[str, Any]) -> Limits:
    found = {}
    for unit, means in value.items():
        costs, limit, how = _parts(means, "costs", "limit", "how")
        how = HOW[0] if how is None else how
        is_right = isinstance(costs, Mapping) and all(map(_is_size, costs.values()))
        if not is_right or not _is_size(limit) or how not in HOW:
            raise ArgumentError(
                f"limits of '{unit}' is {shown(means)}; it must have costs >= 0 by group, a limit "
                ">= 0, and 'sum' or 'max'"
            )
        found[unit] = ({name: float(cost) for name, cost in costs.items()}, float(limit), how)
    return found


_READ: dict[str, Callable[[Any], Any]] = {
    "shared": _shared, "needs": _needs, "one_of": _one_of, "limits": _limits,
}  # fmt: skip


def closures(needs: Needs) -> dict[str, list[str]]:
    """Return all that each group needs, each after its own needs; GroupError shows a circle."""
    found: dict[str, list[str]] = {}

    def visit(name: str, path: tuple[str, ...]) -> list[str]:
        if name in path:
            circle = " -> ".join([*path[path.index(name) :], name])
            raise GroupError(f"needs has a circle: {circle}")
        if name not in found:
            each = [[*visit(need, (*path, name)), need] for need in needs.get(name, ())]
            found[name] = list(dict.fromkeys(need for all_of in each for need in all_of))
        return found[name]

    for name in needs:
        visit(name, ())
    return found

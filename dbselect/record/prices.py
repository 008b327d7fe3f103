"""What sets of groups cost, and which sets may be bought: every search asks here.

A set costs the sum of its items, each paid once: what each group costs on its own, and the set-ups
that its groups share. It may be bought if it holds all that its groups need, at most one group of
each list of rivals, and keeps to the limits of further units. Summed costs are the case without
conditions.
"""

import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dbselect.errors import ArgumentError, GroupError, shown, unknown

#: Name of a set-up -> what it costs, and the groups of which the first bought pays it.
Shared: TypeAlias = Mapping[str, tuple[float, Sequence[str]]]
#: Group -> groups that must be bought with it.
Needs: TypeAlias = Mapping[str, Sequence[str]]
#: Lists of groups, of each at most one.
OneOf: TypeAlias = Sequence[Sequence[str]]
#: Unit -> what groups cost in it, the limit, and ``"sum"`` or ``"max"``.
Limits: TypeAlias = Mapping[str, tuple[Mapping[str, float], float, str]]

#: Cost of a group that is already paid for, as a share of the least cost.
FREE = 1e-9
#: How the costs of a further unit add up.
HOW = ("sum", "max")
#: Slack for sums of costs, so that three costs of 0.1 fit a budget of 0.3.
BUDGET_SLACK = 1e-12
#: Names of the conditions, which are fields of a problem.
CONDITIONS = ("shared", "needs", "one_of", "limits")
#: Why groups may not be held.
APART = "one_of or limits do not allow them together, with what they need"

Vector: TypeAlias = npt.NDArray[np.float64]


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
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
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


@dataclass(frozen=True)
class Offers:
    """What each group costs beside those held, together with the groups that it needs."""

    costs: Vector  # what they cost together now, shape (J,)
    counted: Vector  # the same, with little in the place of nothing
    open: npt.NDArray[np.bool_] | None  # whether rivals and limits let it come; None: always

    def among(self, waiting: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Return which of the groups that wait may come."""
        return waiting if self.open is None else waiting & self.open


class Prices:
    """The prices of J groups, by number."""

    def __init__(
        self, names: Sequence[str], costs: Vector, parts: Sequence[Mapping[str, float]] | None,
        told: Conditions,
    ) -> None:  # fmt: skip
        """Resolve names; GroupError for a group that no set may hold.

        `parts` are the items of each group by name, where groups include others.
        """
        self.costs = costs
        self.are_sums = parts is None and not told
        if self.are_sums:
            return
        told.check(names)
        number = {name: at for at, name in enumerate(names)}
        each = parts or [{name: cost} for name, cost in zip(names, costs.tolist(), strict=True)]
        items = {("own", part): cost for by_name in each for part, cost in by_name.items()}
        own = [[("own", part) for part in by_name] for by_name in each]
        for name, (cost, groups) in told.shared.items():
            items["shared", name] = cost
            for group in dict.fromkeys(groups):
                own[number[group]].append(("shared", name))
        at = {item: place for place, item in enumerate(items)}
        self._items = np.array([*items.values()])
        self._parts = [np.array([at[item] for item in listed], np.intp) for listed in own]
        needs = closures(told.needs)
        self._needs = [[number[need] for need in needs.get(name, ())] for name in names]
        self._has_needs = any(self._needs)
        order = sorted(range(len(names)), key=lambda group: -len(self._needs[group]))
        self._dependents = [
            [other for other in order if group in self._needs[other]] for group in range(len(names))
        ] if self._has_needs else [[] for _ in names]  # fmt: skip
        self._rivals = [frozenset(number[name] for name in listed) for listed in told.one_of]
        self._limits = [
            (np.array([by_name.get(name, 0.0) for name in names]), limit, how, unit)
            for unit, (by_name, limit, how) in told.limits.items()
        ]
        for at_group in range(len(names)):
            self._check(names, at_group)

    def _check(self, names: Sequence[str], group: int) -> None:
        needs, name = self._needs[group], names[group]
        whole = [*needs, group]
        with_needs = f" with {[names[n] for n in needs]}, which it needs," if needs else ""
        for rivals in self._rivals:
            if len(both := [names[g] for g in whole if g in rivals]) > 1:
                raise GroupError(
                    f"group '{name}' can never be bought: it comes{with_needs} and one_of allows "
                    f"one of {both}"
                )
        for costs, limit, how, unit in self._limits:
            if (used := _used(costs, whole, how)) > limit * (1.0 + BUDGET_SLACK):
                raise GroupError(
                    f"group '{name}' can never be bought: it takes{with_needs} {used:g} of "
                    f"'{unit}'; limits allow {limit}"
                )

    @cached_property
    def arrays(self) -> tuple[Vector, npt.NDArray[np.intp], npt.NDArray[np.intp]] | None:
        """Costs of all items, the items of each group, and offsets of the groups; None for sums."""
        if self.are_sums:
            return None
        ends = np.array([0, *accumulate(map(len, self._parts))])
        return self._items, np.concatenate(self._parts), ends

    def spent(self, held: Iterable[int]) -> float:
        """Return what some groups cost together."""
        if self.are_sums:
            return float(sum(self.costs[group] for group in held))
        bought = [self._parts[group] for group in held]
        return float(self._items[np.unique(np.concatenate(bought))].sum()) if bought else 0.0

    def own(self, group: int, held: Iterable[int]) -> float:
        """Return what a group pays that comes to others, by itself."""
        bought = [self._parts[other] for other in held]
        paid = np.concatenate(bought) if bought else np.empty(0, np.intp)
        return float(self._items[np.setdiff1d(self._parts[group], paid)].sum())

    def with_needs(self, group: int, held: Iterable[int]) -> list[int]:
        """Return a group behind those that it needs and that are not held."""
        if self.are_sums or not self._needs[group]:
            return [group]
        there = set(held)
        return [*(need for need in self._needs[group] if need not in there), group]

    def with_dependents(self, group: int, held: Iterable[int]) -> list[int]:
        """Return a group behind those held that need it."""
        if self.are_sums or not self._dependents[group]:
            return [group]
        there = set(held)
        return [*(other for other in self._dependents[group] if other in there), group]

    def closed(self, groups: Iterable[int]) -> list[int]:
        """Return groups, each behind those that it needs, each once."""
        if self.are_sums:
            return list(groups)
        return list(dict.fromkeys(g for group in groups for g in [*self._needs[group], group]))

    def may_hold(self, groups: Sequence[int]) -> bool:
        """Whether rivals and limits let some groups be held together."""
        if self.are_sums:
            return True
        return not self.rivals(groups) and all(
            _used(costs, groups, how) <= limit * (1.0 + BUDGET_SLACK)
            for costs, limit, how, _ in self._limits
        )

    def allows(self, groups: Sequence[int]) -> bool:
        """Whether some groups may be bought: they hold what they need, too."""
        return self.may_hold(groups) and len(self.closed(groups)) == len(set(groups))

    def rivals(self, groups: Iterable[int]) -> list[int]:
        """Return the groups of lists of which more than one is held."""
        held = list(groups)
        clashes = (
            [] if self.are_sums else [r for r in self._rivals if len(r.intersection(held)) > 1]
        )
        return [group for group in held if any(group in rivals for rivals in clashes)]

    def why_not(self, names: Sequence[str], group: int, held: Sequence[int]) -> str | None:
        """Return why conditions keep a group out beside those held; None if they do not."""
        if self.are_sums:
            return None
        moves = self.with_needs(group, held)
        for rivals in self._rivals:
            for member in moves:
                others = [names[other] for other in held if other in rivals]
                if member in rivals and others:
                    needs = "" if member == group else f"needs '{names[member]}', which "
                    both = [name for at, name in enumerate(names) if at in rivals]
                    return f"{needs}is excluded by '{others[0]}': one_of allows one of {both}"
        for costs, limit, how, unit in self._limits:
            used = _used(costs, held, how)
            new = _used(costs, [*held, *moves], how)
            if new > limit * (1.0 + BUDGET_SLACK):
                also = f" with {[names[m] for m in moves[:-1]]}, which it needs" * (len(moves) > 1)
                return f"would take '{unit}'{also} from {used:g} to {new:g}; its limit is {limit:g}"
        return None

    def offers(self, held: Sequence[int]) -> Offers:
        """Return what each group costs now, and which may come; those held cost nothing more."""
        if self.are_sums:
            return Offers(self.costs, self.costs, None)
        assert self.arrays is not None
        prices, parts, ends = self.arrays
        prices = prices.copy()
        for group in held:
            prices[self._parts[group]] = 0.0
        costs: Vector = np.add.reduceat(prices[parts], ends[:-1])
        moves = [self.with_needs(group, held) for group in range(len(costs))]
        for group, move in enumerate(moves):
            if len(move) > 1:
                items = np.unique(np.concatenate([self._parts[member] for member in move]))
                costs[group] = prices[items].sum()
        is_open = np.ones(len(costs), dtype=bool)
        if self._rivals or self._limits:
            there = set(held)
            for group, move in enumerate(moves):
                if group not in there:
                    is_open[group] = self.may_hold([*held, *move])
        return Offers(costs, self._counted(costs), is_open)

    def given_back(self, held: Sequence[int]) -> Vector:
        """Return what each group that is held gives back with those that need it."""
        if self.are_sums:
            return self.costs
        whole, back = self.spent(held), self.costs.copy()
        for group in held:
            going = self.with_dependents(group, held)
            back[group] = whole - self.spent([other for other in held if other not in going])
        return self._counted(back)

    def from_below(self) -> Vector:
        """Return costs whose sum over any groups is at most what these cost with what they need.

        An item is shared out evenly among the groups that pay it, or need one that does; a group
        that costs nothing then costs very little.
        """
        if self.are_sums:
            return self.costs
        each = [
            np.unique(np.concatenate([self._parts[one] for one in self.closed([group])]))
            for group in range(len(self._parts))
        ]
        counts = np.bincount(np.concatenate(each), minlength=len(self._items))
        shares = self._items / np.maximum(counts, 1)
        return self._counted(np.array([shares[items].sum() for items in each]))

    def _counted(self, costs: Vector) -> Vector:
        return np.asarray(
            np.maximum(costs, FREE * self._items[self._items > 0].min(initial=np.inf))
        )


#: Prices of candidates whose costs are summed, and count for nothing here.
SUMS = Prices((), np.ones(0), None, NONE)


def _used(costs: Vector, groups: Sequence[int], how: str) -> float:
    own = costs[list(groups)]
    return float(own.max(initial=0.0) if how == "max" else own.sum())

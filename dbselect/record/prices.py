"""What sets of groups cost, and which sets may be bought: every search asks here.

A set costs the sum of its items, each paid once: what each group costs on its own, and the set-ups
that its groups share. It may be bought if it holds all that its groups need, at most one group of
each list of rivals, and keeps to the limits of further units. Summed costs are the case without
conditions.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dbselect.errors import GroupError
from dbselect.options.conditions import NONE, Conditions, closures

#: Cost of a group that is already paid for, as a share of the least cost.
FREE = 1e-9
#: Slack for sums of costs, so that three costs of 0.1 fit a budget of 0.3.
BUDGET_SLACK = 1e-12
#: Why groups may not be held.
APART = "one_of or limits do not allow them together, with what they need"

Vector: TypeAlias = npt.NDArray[np.float64]


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

"""Floating search: remove groups while that beats every set seen that cost no more.

    add the group with the largest criterion(g | S) / cost(g)
    while S without its least useful group r explains more than every set seen that cost no more:
        remove r

The loop is that of `foba`. At costs of 1 this is the paper's search, which keeps the best set of
each size and goes back to a smaller set only if that beats the best of its size. Each removal
raises the best value for a cost, so the search ends.

Source: Pudil, Novovicova, Kittler (1994), Pattern Recognition Letters 15, SFFS. Departures: groups
and costs.
"""

from collections.abc import Sequence

from dbselect.objectives.contract import Objective
from dbselect.record.prices import BUDGET_SLACK, Prices
from dbselect.selection.exchange import LEAST_RISE


class Beaten:
    """Allowance of floating search, by the cost and the value of every set seen so far."""

    def __init__(self, prices: Prices) -> None:
        self._prices = prices
        # The empty set.
        self._seen = {frozenset[int](): (0.0, 0.0)}

    def added(self, state: Objective, gain: float) -> None:
        """Record an added group."""
        self._record(state)

    def removed(self, state: Objective) -> None:
        """Record a removed group."""
        self._record(state)

    def most(self, state: Objective, groups: Sequence[int]) -> float | None:
        """Return the largest loss allowed for groups; None if the set without them was seen."""
        rest = frozenset(state.held).difference(groups)
        if rest in self._seen:
            return None
        limit = self._prices.spent(rest) * (1.0 + BUDGET_SLACK)
        best = max(value for cost, value in self._seen.values() if cost <= limit)
        return state.value - best - LEAST_RISE

    def _record(self, state: Objective) -> None:
        self._seen[frozenset(state.held)] = self._prices.spent(state.held), state.value

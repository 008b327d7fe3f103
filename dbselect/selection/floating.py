"""Floating search: what a removal may lose is what leaves more than was ever had for the cost.

    add the group with the largest criterion(g | S) / cost(g)
    while S without its least useful group r explains more than every set seen that cost no more:
        remove r

The loop is that of `foba`. At costs of 1 this is the paper's search, in which the best set of each
size is kept and a smaller one is gone back to only if it beats that. What is explained for a cost
rises with every removal, so that the search ends.

Source: Pudil, Novovicova, Kittler (1994), Pattern Recognition Letters 15, SFFS. Departures: groups
and costs.
"""

from dbselect.objectives.contract import Objective
from dbselect.record.gram import Vector
from dbselect.record.steps import BUDGET_SLACK
from dbselect.selection.exchange import LEAST_RISE


class Beaten:
    """What every set seen so far cost and explained."""

    def __init__(self, costs: Vector) -> None:
        self._costs = costs
        # Nothing costs and explains nothing.
        self._seen = {frozenset[int](): (0.0, 0.0)}

    def added(self, state: Objective, gain: float) -> None:
        """Take note of a group that was added."""
        self._note(state)

    def removed(self, state: Objective) -> None:
        """Take note of a group that was removed."""
        self._note(state)

    def most(self, state: Objective, group: int) -> float | None:
        """Return the most that removing a group may lose; None if it leaves a set seen before."""
        left = frozenset(state.held) - {group}
        if left in self._seen:
            return None
        limit = float(self._costs[list(left)].sum()) * (1.0 + BUDGET_SLACK)
        best = max(value for cost, value in self._seen.values() if cost <= limit)
        return state.value - best - LEAST_RISE

    def _note(self, state: Objective) -> None:
        cost = float(self._costs[state.held].sum())
        self._seen[frozenset(state.held)] = cost, state.value

"""FoBa: add the best group, and remove groups while that loses little; or only remove.

    k = 0
    repeat:
        add the group with the largest criterion(g | S) / cost(g);  delta_k = its gain, ++k
        while the least useful group r of S has loss(r | S) <= nu delta_k:
            remove r, --k
    until no group gains epsilon

A removal loses at most a share nu < 1 of what the step to that size gained, so the value at each
size rises from visit to visit, and the search ends. An allowance limits the loss of a removal:
`Share` for FoBa, `Beaten` for floating search, which removes r while S without it explains more
than every set seen that cost no more. At costs of 1 that is its paper's search, which keeps the
best set of each size and goes back to a smaller set only if that beats the best of its size; each
removal raises the best value for a cost, so it ends. Backward elimination has the removals of
FoBa, starting from all groups.

Sources: Zhang (2008), section 2, Figure 3; Pudil, Novovicova, Kittler (1994), Pattern Recognition
Letters 15, SFFS. Departures: groups and costs; only groups that gain epsilon are candidates.
"""

from collections.abc import Sequence

import numpy as np

from dbselect.objectives.contract import Objective
from dbselect.record.groups import Groups
from dbselect.record.prices import BUDGET_SLACK, Prices
from dbselect.record.steps import ROUNDING_GAIN, Choice, Record, Step, Stop, fits, within
from dbselect.selection.criteria import Criterion
from dbselect.selection.exchange import LEAST_RISE
from dbselect.selection.moves import (
    Usefulness,
    first_of_the_best,
    least_useful,
    together,
    with_room,
)


class Share:
    """Allowance of FoBa: a share nu of the gain of the last step to the current size."""

    def __init__(self, nu: float) -> None:
        self.nu = nu
        self._gained: list[float] = []  # gain of the last step to each size

    def added(self, state: Objective, gain: float) -> None:
        """Record an added group."""
        self._gained.append(gain)

    def removed(self, state: Objective) -> None:
        """Record a removed group."""
        self._gained.pop()

    def most(self, state: Objective, groups: Sequence[int]) -> float | None:
        """Return the largest loss allowed for groups; None if they may not be removed."""
        gained = sum(self._gained[-len(groups) :])
        # A group whose gain was rounding stays, as it would be added again.
        return self.nu * gained if gained > ROUNDING_GAIN else None


def foba_search(
    state: Objective,
    groups: Groups,
    criterion: Criterion,
    usefulness: Usefulness,
    record: Record,
    *,
    epsilon: float,
    allowance: "Share | Beaten",
    budget: float | None = None,
    max_groups: int | None = None,
    max_steps: int | None = None,
    always: Sequence[int] = (),
) -> Stop:
    """Add and remove groups, in place, until none gains `epsilon`, a share of the variance.

    `criterion` and `usefulness` map the state to the worth of groups before the cost;
    `max_steps` counts additions and removals together.

    Besides `always` at most 1 / ((1 - nu) epsilon) additions: each, with the removal that undoes
    it, gains (1 - nu) epsilon, and F is 1 at most. A step costs O(D |S|) once the state is updated.
    """
    limit = np.inf if max_steps is None else max_steps
    forced, prices = list(always), groups.prices
    steps = 0
    while steps < limit:
        if max_groups is not None and len(state.held) >= max_groups:
            return Stop.MAX_GROUPS
        held = list(state.held)
        offers = prices.offers(held)
        scores = together(state, prices, "add", criterion) / offers.counted
        gains = together(state, prices, "add")
        waiting = np.ones(len(gains), dtype=bool)
        waiting[held] = False
        candidates = offers.among(waiting) & (gains > ROUNDING_GAIN) & (gains >= epsilon)
        gaining = candidates.any()
        candidates &= within(groups.spent(held) + offers.costs, budget)
        candidates &= with_room(prices, held, max_groups)
        if not forced and not candidates.any():
            if gaining:
                return Stop.BUDGET
            return Stop.THRESHOLD if waiting.any() else Stop.EXHAUSTED
        choice = Choice.FORCED if forced else Choice.FREE
        group = forced.pop(0) if forced else first_of_the_best(scores, candidates)
        for member in prices.with_needs(group, held):
            gain = state.add(member)
            allowance.added(state, gain)
            record(Step("add", member, float(scores[group]), gain, state.value, choice))
            steps += 1
        while len(state.held) > len(always) and steps < limit:
            group, worth = least_useful(state, groups, usefulness, always)
            going = prices.with_dependents(group, state.held)
            most = allowance.most(state, going)
            losses = together(state, prices, "remove")
            if most is None or losses[group] > most:
                break
            for member in going:
                loss = state.remove(member)
                allowance.removed(state)
                record(Step("remove", member, -worth, -loss, state.value))
                steps += 1
    return Stop.MAX_STEPS


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


def backward_search(
    state: Objective,
    groups: Groups,
    usefulness: Usefulness,
    record: Record,
    *,
    budget: float | None = None,
    max_steps: int | None = None,
    always: Sequence[int] = (),
) -> Stop:
    """Remove groups, in place, until only `always` are left, or the rest fits a budget.

    `usefulness` maps the state to the worth of each selected group, before the cost. A step costs
    O(D |S|), and O(D |S|^2) at most to update the state.
    """
    steps = 0
    while len(state.held) > len(always):
        if budget is not None and fits(groups.spent(state.held), budget):
            return Stop.BUDGET
        if max_steps is not None and steps >= max_steps:
            return Stop.MAX_STEPS
        group, worth = least_useful(state, groups, usefulness, always)
        for member in groups.prices.with_dependents(group, state.held):
            loss = state.remove(member)
            record(Step("remove", member, -worth, -loss, state.value, Choice.FREE))
            steps += 1
    return Stop.EMPTY

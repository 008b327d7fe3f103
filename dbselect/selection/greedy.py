"""Cost-sensitive greedy sequencing: repeatedly take the best group per unit of cost.

    while some group fits:
        take the fitting group with the largest criterion(g | S) / cost(g)

Ties go to the group named first. A group comes with those that it needs and that are missing: the
criterion is the sum over them, each in its turn, and the cost what they cost together now.
Steps whose gain is at rounding level are flagged as not useful.
If no group is within the cost limit (`doubling`), a case that the source leaves open, the cheapest
group that fits is taken and the step records it.

Source: Hu, Grubb, Bagnell, Hebert (2016), Algorithms 1 (CS-G-OMP, CS-G-FR) and 2 (Doubling).
"""

from collections.abc import Callable, Sequence

import numpy as np

from dbselect.objectives.contract import MonotoneObjective
from dbselect.record.gram import Vector
from dbselect.record.groups import Groups
from dbselect.record.steps import Choice, Record, Step, Stop, within
from dbselect.selection.criteria import Criterion
from dbselect.selection.moves import Mask, first_of_the_best, together, why_ended, with_room

#: Cost spent so far -> largest cost of the next group.
CostLimit = Callable[[float], float]


def greedy_search(
    state: MonotoneObjective,
    groups: Groups,
    criterion: Criterion,
    *,
    cost_limit: CostLimit | None = None,
    budget: float | None = None,
    max_groups: int | None = None,
    always: Sequence[int] = (),
    record: Record = lambda _: None,
) -> tuple[list[Step], Stop]:
    """Select groups, in place, until nothing fits; return the steps and why they end.

    `criterion` maps the state to one score per group, before the cost, and `cost_limit` the summed
    cost to the largest cost of a candidate. A step costs O(D |S| |g|), a full sequence O(D^3).
    """
    waiting = np.ones(len(groups.costs), dtype=bool)
    forced, prices = list(always), groups.prices
    steps: list[Step] = []
    spent = 0.0
    while waiting.any():
        if max_groups is not None and len(steps) >= max_groups:
            return steps, Stop.MAX_GROUPS
        selected = [step.group for step in steps]
        offers = prices.offers(selected)
        costs, open_to = offers.costs, offers.among(waiting)
        fitting = open_to & within(spent + costs, budget)
        if not fitting.any():
            return steps, Stop.BUDGET if open_to.any() else why_ended(groups, selected)
        fitting &= with_room(prices, selected, max_groups)
        if not fitting.any():
            return steps, Stop.MAX_GROUPS
        scores = together(state, prices, "add", criterion) / offers.counted
        if forced:
            group, choice = forced.pop(0), Choice.FORCED
        else:
            candidates, choice = _candidates(open_to, fitting, costs, cost_limit, spent)
            group = first_of_the_best(scores, candidates)
        spent += costs[group]
        for member in prices.with_needs(group, selected):
            gain = state.add(member)
            waiting[member] = False
            steps.append(Step("add", member, float(scores[group]), gain, state.value, choice))
            record(steps[-1])
    return steps, Stop.EXHAUSTED


def doubling(costs: Vector, first: float | None = None) -> CostLimit:
    """Return the limit that at most doubles the cost; `first` is c_min, by default the cheapest."""
    start = float(costs.min()) if first is None else first
    return lambda spent: spent if spent > 0 else start


def _candidates(
    waiting: Mask, fitting: Mask, costs: Vector, cost_limit: CostLimit | None, spent: float
) -> tuple[Mask, Choice]:
    candidates = fitting
    if cost_limit is not None:
        candidates = fitting & within(costs, cost_limit(spent))
        if not candidates.any():
            return fitting & (costs == costs[fitting].min()), Choice.CHEAPEST
    return candidates, Choice.FREE if (candidates == waiting).all() else Choice.LIMITED

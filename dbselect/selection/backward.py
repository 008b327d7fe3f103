"""Backward elimination: repeatedly remove the group with the least ``loss(g | S) / cost(g)``.

Source: Zhang (2008), section 2; the removals of FoBa, starting from all groups.
"""

from collections.abc import Sequence

from dbselect.objectives.contract import Objective
from dbselect.record.groups import Groups
from dbselect.record.steps import Choice, Record, Step, Stop, fits
from dbselect.selection.moves import Usefulness, least_useful


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

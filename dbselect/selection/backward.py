"""Backward elimination: from all groups down, the least useful one each time.

    while some group may go:
        remove the group with the smallest loss(g | S) / cost(g)

The same removal as in FoBa, from the full set.

Source: Zhang (2008), section 2.
"""

from collections.abc import Sequence

from dbselect.objectives.contract import Objective
from dbselect.record.groups import Groups
from dbselect.record.steps import Choice, Record, Step, Stop, fits
from dbselect.selection.removal import Usefulness, least_useful


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
    """Remove groups until only those of `always` are left, or the rest fits a budget.

    `state` has the groups to begin with, and is changed in place; `usefulness` takes it to what
    each selected group is worth, before the cost. Without a budget nothing else is held in the end.
    `record` takes every step, as soon as the state has made it. A step costs O(D |S|) once the
    state is updated, and O(D |S|^2) at most for that.
    """
    steps = 0
    while len(state.held) > len(always):
        if budget is not None and fits(groups.costs[state.held].sum(), budget):
            return Stop.BUDGET
        if steps == max_steps:
            return Stop.MAX_STEPS
        group, worth = least_useful(state, groups, usefulness, always)
        loss = state.remove(group)
        record(Step("remove", group, -worth, -loss, state.value, Choice.FREE))
        steps += 1
    return Stop.EMPTY

"""Cost-sensitive greedy sequencing: the best group per unit of cost, again and again.

    while some group fits:
        take the fitting group with the largest criterion(g | S) / cost(g)

Ties go to the group named first. Groups in ``always`` are taken before, in the
order given. Steps whose gain is at rounding level are listed, flagged as not
useful. Cost per step and memory are those of the state (`objectives.linear`).

Source: Hu, Grubb, Bagnell, Hebert (2016), Algorithm 1 (CS-G-OMP and CS-G-FR).
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dbselect.gram import Vector
from dbselect.groups import Groups
from dbselect.objectives.linear import State
from dbselect.selection.criteria import Criterion
from dbselect.sequence import BUDGET_SLACK, Step, Stop

#: Scores closer than this share of the best are ties, decided by the order of names.
TIE_SHARE = 1e-10


def greedy(
    state: State,
    groups: Groups,
    criterion: Criterion,
    *,
    budget: float | None = None,
    max_groups: int | None = None,
    always: Sequence[int] = (),
) -> tuple[list[Step], Stop]:
    """Select groups until nothing fits; `state` ends with all of them selected.

    Parameters
    ----------
    state : State without selected groups; changed in place
    groups : Groups, whose costs count
    criterion : state -> one score a group, before the cost
    budget : limit on the summed cost
    max_groups : limit on the number of groups, `always` included
    always : numbers of groups to take first

    Returns
    -------
    steps : one for each selected group, in order
    stop : why there are no more

    Notes
    -----
    A step costs O(D |S| |g|), a full sequence O(D^3).
    """
    waiting = np.ones(len(groups.costs), dtype=bool)
    forced = list(always)
    steps: list[Step] = []
    spent = 0.0
    while waiting.any():
        if max_groups is not None and len(steps) >= max_groups:
            return steps, Stop.STEPS
        fitting = waiting & _fitting(groups.costs, spent, budget)
        if not fitting.any():
            return steps, Stop.BUDGET
        scores = criterion(state) / groups.costs
        group = forced.pop(0) if forced else _first_of_the_best(scores, fitting)
        gain = state.add(group)
        waiting[group] = False
        spent += groups.costs[group]
        steps.append(Step("add", group, float(scores[group]), gain, state.explained))
    return steps, Stop.EXHAUSTED


def _fitting(costs: Vector, spent: float, budget: float | None) -> npt.NDArray[np.bool_]:
    if budget is None:
        return np.ones(len(costs), dtype=bool)
    return np.asarray(spent + costs <= budget * (1.0 + BUDGET_SLACK))


def _first_of_the_best(scores: Vector, fitting: npt.NDArray[np.bool_]) -> int:
    best = scores[fitting].max()
    return int(np.flatnonzero(fitting & (scores >= best * (1.0 - TIE_SHARE)))[0])

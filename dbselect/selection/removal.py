"""Which selected group is the least useful, per unit of cost."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dbselect.linear.state import LinearState
from dbselect.objectives.contract import Objective
from dbselect.record.gram import Vector
from dbselect.record.groups import Groups
from dbselect.selection.ties import first_of_the_best

#: Losses below this share of the target's variance are rounding, so that they tie.
ROUNDING_LOSS = 1e-14

#: The state of the search -> how useful each selected group is, before the cost.
Usefulness = Callable[[Any], Vector]


def by_loss(state: Objective) -> Vector:
    """Return what removing each selected group would lose."""
    losses = state.losses()
    return np.where(losses > ROUNDING_LOSS, losses, 0.0)


def by_coefficient(state: LinearState) -> Vector:
    """Return the length of each group's coefficients on unit-variance columns."""
    squares = state.coef() ** 2
    return np.sqrt([squares[columns].sum() for columns in state.members])


#: Kinds of usefulness by the name that users give.
USEFULNESS = {"loss": by_loss, "coefficient": by_coefficient}


def least_useful(
    state: Objective, groups: Groups, usefulness: Usefulness, kept: Sequence[int]
) -> tuple[int, float]:
    """Return the group worth least per cost, the dearest of worthless ones, and its worth."""
    candidates = np.zeros(len(groups.costs), dtype=bool)
    candidates[state.held] = True
    candidates[list(kept)] = False
    worth = usefulness(state) / groups.costs
    idle = candidates & (worth == 0.0)
    if idle.any() and worth[candidates].min() == 0.0:
        candidates = idle & (groups.costs == groups.costs[idle].max())
    group = first_of_the_best(-worth, candidates)
    return group, float(worth[group])

"""The least useful selected group, per unit of cost."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dbselect.linear.state import LinearState
from dbselect.objectives.contract import Objective
from dbselect.record.gram import Vector
from dbselect.record.groups import Groups
from dbselect.selection.moves import together
from dbselect.selection.ties import first_of_the_best

#: Losses below this share of the target's variance are rounding, so that they tie.
ROUNDING_LOSS = 1e-14

#: State of the search -> usefulness of each selected group, before the cost.
Usefulness = Callable[[Any], Vector]


def by_loss(state: Objective) -> Vector:
    """Return the loss of removing each selected group."""
    losses = state.losses()
    return np.where(losses > ROUNDING_LOSS, losses, 0.0)


def by_coefficient(state: LinearState) -> Vector:
    """Return the length of each group's coefficients on unit-variance columns."""
    squares = state.coef() ** 2
    return np.sqrt([squares[columns].sum() for columns in state.members])


#: Kinds of usefulness by the name that users give.
USEFULNESS = {"loss": by_loss, "coefficient": by_coefficient}


def least_useful(
    state: Objective, groups: Groups, usefulness: Usefulness, always: Sequence[int]
) -> tuple[int, float]:
    """Return the group worth least, with those that need it, per what they give back; its worth.

    Of worthless ones it is the dearest.
    """
    candidates = np.zeros(len(groups.costs), dtype=bool)
    candidates[state.held] = True
    candidates[list(always)] = False
    costs = groups.prices.given_back(state.held)
    worth = together(state, groups.prices, "remove", usefulness) / costs
    worthless = candidates & (worth == 0.0)
    if worthless.any() and worth[candidates].min() == 0.0:
        candidates = worthless & (costs == costs[worthless].max())
    group = first_of_the_best(-worth, candidates)
    return group, float(worth[group])

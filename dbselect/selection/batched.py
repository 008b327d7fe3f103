"""Cost-sensitive greedy sequencing of many records at once.

The loop of `selection.greedy`, step by step the same, for B records of the same groups
and costs side by side: loops run over steps, groups and columns, never over records.

    while a group fits some record:
        each record takes its fitting group with the largest criterion(g | S) / cost(g)

Cost per step and memory are those of the states (`linear.batched`).

Source: Hu, Grubb, Bagnell, Hebert (2016), Algorithms 1 and 2.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dbselect.linear.batched import Masks, States
from dbselect.linear.problem import Index
from dbselect.record.gram import Matrix, Vector
from dbselect.record.steps import BUDGET_SLACK
from dbselect.selection.batched_criteria import BatchedCriterion
from dbselect.selection.ties import TIE_SHARE

#: The group of a step that a record does not take.
NONE = -1


@dataclass(frozen=True, eq=False)
class Found:
    """The steps of B records; T is the largest number of them.

    Parameters
    ----------
    groups : shape (T, B), the group that each step takes, ``NONE`` after the last
    score, gain : shape (T, B)
    coef : shape (T + 1, D, B), w of every prefix on unit-variance columns
    condition : shape (B,), an upper bound for the columns selected at the end
    """

    groups: Index
    score: Matrix
    gain: Matrix
    coef: npt.NDArray[np.float64]
    condition: Vector


def batched_greedy(
    states: States,
    costs: Vector,
    criterion: BatchedCriterion,
    *,
    first_cost: float | None = None,
    budget: float | None = None,
    max_groups: int | None = None,
    always: Sequence[int] = (),
) -> Found:
    """Select groups until nothing fits; `states` end with all of them selected.

    Parameters
    ----------
    states : States without selected groups; changed in place
    costs : shape (J,)
    criterion : states -> one score a group and record, before the cost
    first_cost : limits the cost of the first group, and lets each later step at most
        double the cost; None sets no limit
    budget, max_groups, always : as in `selection.greedy.greedy`
    """
    records = np.arange(states.b.shape[1])
    cost = costs[:, None]
    waiting = np.ones((len(costs), len(records)), dtype=bool)
    spent = np.zeros(len(records))
    taken: list[tuple[Index, Vector, Vector]] = []
    coef = [states.coef()]
    for step in range(len(costs) if max_groups is None else min(max_groups, len(costs))):
        fitting = waiting & _within(spent + cost, budget)
        which: Masks = np.asarray(fitting.any(axis=0))
        if not which.any():
            break
        scores = criterion(states) / cost
        if step < len(always):
            choice = np.full(len(records), always[step])
        else:
            choice = _best(scores, _candidates(fitting, cost, spent, first_cost))
        gain = states.add(choice, which)
        waiting[choice[which], records[which]] = False
        spent += np.where(which, costs[choice], 0.0)
        taken.append((np.where(which, choice, NONE), scores[choice, records], gain))
        coef.append(states.coef())
    nothing = (np.empty((0, len(records)), dtype=np.intp), *(np.empty((0, len(records))),) * 2)
    groups, score, gain = map(np.array, zip(*taken, strict=True)) if taken else nothing
    return Found(groups, score, gain, np.array(coef), states.condition())


def _candidates(fitting: Masks, cost: Matrix, spent: Vector, first_cost: float | None) -> Masks:
    """Return the groups to choose among; where none is within the limit, the cheapest."""
    if first_cost is None:
        return fitting
    limited = fitting & _within(cost, np.where(spent > 0, spent, first_cost))
    cheapest = np.where(fitting, cost, np.inf).min(axis=0)
    return np.where(limited.any(axis=0), limited, fitting & (cost == cheapest))


def _within(cost: Matrix, limit: float | Vector | None) -> Masks:
    if limit is None:
        return np.ones(cost.shape, dtype=bool)
    return np.asarray(cost <= limit * (1.0 + BUDGET_SLACK))


def _best(scores: Matrix, candidates: Masks) -> Index:
    """Return the best candidate of each record, the first of those that tie."""
    best = np.where(candidates, scores, -np.inf).max(axis=0)
    tied = candidates & (scores >= best - TIE_SHARE * np.abs(best))
    return np.asarray(tied.argmax(axis=0))

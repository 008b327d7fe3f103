"""Moves of a search: the best candidate, ties, groups that go together, the least useful one."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from operator import methodcaller
from typing import Any

import numpy as np
import numpy.typing as npt

from dbselect.linear.state import LinearState
from dbselect.objectives.contract import Objective
from dbselect.record.gram import Vector
from dbselect.record.groups import Groups
from dbselect.record.prices import Prices
from dbselect.record.steps import Stop

#: Scores closer than this share of the best are ties, decided by the order of names.
TIE_SHARE = 1e-10

Mask = npt.NDArray[np.bool_]


def first_of_the_best(scores: Vector, candidates: Mask) -> int:
    """Return the candidate with the largest score, the first if several tie."""
    best = scores[candidates].max()
    return int(np.flatnonzero(candidates & (scores >= best - TIE_SHARE * abs(best)))[0])


def best_first(scores: Vector) -> npt.NDArray[np.intp]:
    """Return the candidates by falling score, ties in the order of names; shape (n,)."""
    order = np.argsort(-scores, kind="stable")
    return order[np.lexsort((order, _level_of(scores[order])))]


def levelled(sizes: Vector) -> Vector:
    """Return sizes >= 0, equal where they tie; below `TIE_SHARE` of the largest they are 0."""
    order = np.argsort(-sizes, kind="stable")
    falling = sizes[order]
    level = _level_of(falling)
    heads = falling[np.unique(level, return_index=True)[1]]
    levelled = np.empty_like(sizes)
    levelled[order] = heads[level]
    return np.where(levelled > TIE_SHARE * levelled.max(), levelled, 0.0)


def _level_of(falling: Vector) -> npt.NDArray[np.intp]:
    """Return the rank of each of the falling numbers; those that tie share one."""
    apart = falling[1:] < falling[:-1] - TIE_SHARE * np.abs(falling[:-1])
    return np.concatenate([[0], np.cumsum(apart)])


def together(
    state: Any, prices: Prices, action: str, worth: Callable[[Any], Vector] | None = None
) -> Vector:
    """Return what each group is worth that comes with those it needs, or goes with those need it.

    It is the sum of what each is worth, by `worth`, when its turn comes: a copy of the state for
    each such company. By default an addition is worth its gain, a removal its loss.
    """
    worth = worth or methodcaller("gains" if action == "add" else "losses")
    values = worth(state)
    companies = defaultdict(list)
    # Some states gain in companies by themselves, in fewer evaluations.
    if not prices.are_sums and not getattr(state, "in_companies", False):
        held = set(state.held)
        for group in range(len(values)):
            *others, _ = company(prices, action, group, state.held)
            if others and (group in held) == (action == "remove"):
                companies[tuple(others)].append(group)
    if companies:
        values = np.array(values)
    for moved_ahead, groups in companies.items():
        trial, total = state.copy(), 0.0
        for other in moved_ahead:
            total += worth(trial)[other]
            moved(trial, action, other)
        values[groups] = total + worth(trial)[groups]
    return values


def company(prices: Prices, action: str, group: int, held: list[int]) -> list[int]:
    """Return a group behind those that move with it."""
    return (prices.with_needs if action == "add" else prices.with_dependents)(group, held)


def moved(state: Objective, action: str, group: int) -> float:
    """Make a move and return the change of the value."""
    return state.add(group) if action == "add" else -state.remove(group)


def take(state: Objective, prices: Prices, group: int) -> float:
    """Take a group after those that it needs, and return what they gain."""
    return sum(state.add(member) for member in prices.with_needs(group, state.held))


def give_back(state: Objective, prices: Prices, group: int) -> float:
    """Give a group back after those that need it, and return what they lose."""
    return sum(state.remove(member) for member in prices.with_dependents(group, state.held))


def with_room(prices: Prices, held: Sequence[int], max_groups: int | None) -> Mask:
    """Return which groups come with no more others than a limit on their number allows."""
    size = len(prices.costs)
    if max_groups is None or prices.are_sums:
        return np.ones(size, dtype=bool)
    room = max_groups - len(held)
    return np.array([len(prices.with_needs(group, held)) <= room for group in range(size)])


def why_ended(groups: Groups, held: Sequence[int]) -> Stop:
    """Return why a search ends that has room in its budget."""
    return Stop.EXHAUSTED if len(held) == len(groups.costs) else Stop.EXCLUDED


def beginning(state: Any, prices: Prices, always: list[int]) -> list[int]:
    """Return the groups to take for an elimination: all, behind those that stay.

    Of rivals, and beyond limits, the least useful are left out, as an elimination would.
    """
    order = prices.closed([*always, *(g for g in range(len(prices.costs)) if g not in always)])
    if prices.may_hold(order):
        return order
    everything = state.copy()
    for group in order:
        everything.add(group)
    while not prices.may_hold(everything.held):
        held = list(everything.held)
        among = [group for group in prices.rivals(held) or held if group not in always]
        losses = together(everything, prices, "remove")
        worth = (losses / prices.given_back(held))[among]
        for group in prices.with_dependents(among[int(worth.argmin())], held):
            everything.remove(group)
    return [group for group in order if group in everything.held]


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

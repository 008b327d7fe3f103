"""Stepwise search by a criterion: take the best addition or removal while one helps.

    repeat:
        of all additions and removals, take the move with the lowest criterion(S after it)
    until no move lowers the criterion

A criterion charges for parameters, and how many a group adds depends on the selected ones: the last
level of a category adds none. Gains and losses bound the criterion after a move; moves are tried in
the order of their bounds, as long as one may still be the best.

Source: Venables, Ripley (2002), Modern Applied Statistics with S, section 6.8; R's ``step``.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dbselect.objectives.contract import Objective
from dbselect.record.groups import Groups
from dbselect.record.prices import Prices
from dbselect.record.steps import ROUNDING_GAIN, Choice, Record, Step, Stop, fits
from dbselect.selection.moves import company, moved, together

#: Falls of a criterion below this are rounding; R's ``step`` has the same.
LEAST_FALL = 1e-7


@dataclass(frozen=True)
class Judge:
    """A criterion of a set of groups: the lower the better."""

    # value and parameters of a set, the intercept included -> criterion
    of: Callable[[float, float], float]
    parameters: Callable[[Any], float]  # state -> number of parameters of the selected groups
    most: Sequence[float]  # largest number of parameters of each group

    def __call__(self, state: Objective) -> float:
        """Return the criterion of the selected groups."""
        return self.of(state.value, self.parameters(state))


@dataclass(frozen=True)
class Move:
    """An addition or a removal of a group."""

    bound: float  # lower bound on the criterion after it
    action: str  # ``"add"`` or ``"remove"``
    group: int


def step_search(
    state: Objective,
    groups: Groups,
    judge: Judge,
    record: Record,
    *,
    start: Sequence[int] = (),
    adds: bool = True,
    removes: bool = True,
    budget: float | None = None,
    max_steps: int | None = None,
    always: Sequence[int] = (),
) -> Stop:
    """Add and remove groups, in place, until no single move lowers the criterion.

    Costs count for the budget only. `always` are added first and stay. Groups of `start` follow and
    may be removed; `max_steps` counts the moves after them. The score of a step is the fall.
    """
    now, prices = judge(state), groups.prices

    def take(action: str, group: int, choice: Choice) -> None:
        nonlocal now
        change = moved(state, action, group)
        before, now = now, judge(state)
        record(Step(action, group, before - now, change, state.value, choice))

    for group in [*always, *(group for group in start if group not in always)]:
        take("add", group, Choice.FORCED)
    steps = 0
    while max_steps is None or steps < max_steps:
        moves = list(_removals(state, prices, judge, always)) if removes else []
        over_budget = False
        if adds:
            spent, offers = groups.spent(state.held), prices.offers(state.held)
            for move in _additions(state, prices, judge):
                if offers.open is not None and not offers.open[move.group]:
                    continue
                if fits(spent + offers.costs[move.group], budget):
                    moves.append(move)
                else:
                    over_budget |= move.bound < now - LEAST_FALL
        best = _best(state, prices, judge, moves, now - LEAST_FALL)
        if best is None:
            return Stop.BUDGET if over_budget else Stop.THRESHOLD
        for group in company(prices, best.action, best.group, state.held):
            take(best.action, group, Choice.FREE)
            steps += 1
    return Stop.MAX_STEPS


def _additions(state: Objective, prices: Prices, judge: Judge) -> Iterator[Move]:
    """Yield the additions; a group that gains has one parameter at least."""
    gains = together(state, prices, "add")
    parameters = judge.parameters(state)
    held = set(state.held)
    for group, gain in enumerate(gains.tolist()):
        if group not in held and gain > ROUNDING_GAIN:
            yield Move(judge.of(state.value + gain, parameters + 1.0), "add", group)


def _removals(
    state: Objective, prices: Prices, judge: Judge, always: Sequence[int]
) -> Iterator[Move]:
    """Yield the removals; none frees more parameters than its groups have."""
    losses = together(state, prices, "remove")
    parameters = judge.parameters(state)
    for group in sorted(set(state.held).difference(always)):
        going = prices.with_dependents(group, state.held)
        fewest = max(parameters - sum(judge.most[member] for member in going), 0.0)
        yield Move(judge.of(state.value - float(losses[group]), fewest), "remove", group)


def _best(
    state: Objective, prices: Prices, judge: Judge, moves: Sequence[Move], below: float
) -> Move | None:
    """Return the move after which the criterion is lowest; None if none gets it below a limit."""
    best = None
    # The sort is stable: of moves with equal bounds, the first group is tried first.
    for move in sorted(moves, key=lambda move: move.bound):
        if not move.bound < below:
            break
        trial = state.copy()
        for group in company(prices, move.action, move.group, state.held):
            moved(trial, move.action, group)
        reached = judge(trial)
        if np.isfinite(reached) and reached < below:
            best, below = move, reached
    return best

"""Stepwise search by a criterion: the best of all single additions and removals, while one helps.

    repeat:
        of every group that may come or go, take the move with the lowest criterion(S after it)
    until no move lowers the criterion

A criterion charges for parameters, and how many a group brings depends on what is held: the last
level of a category is no new one. What a move can reach at best is known from gains and losses;
moves are tried in that order, and only as long as one may still be the best.

Source: Venables, Ripley (2002), Modern Applied Statistics with S, section 6.8; R's ``step``.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dbselect.objectives.contract import Objective
from dbselect.record.groups import Groups
from dbselect.record.steps import ROUNDING_GAIN, Choice, Record, Step, Stop, fits

#: Falls of a criterion below this are rounding; R's ``step`` has the same.
LEAST_FALL = 1e-7


@dataclass(frozen=True)
class Judge:
    """A criterion of a set of groups: the lower the better."""

    # value and parameters of a set, the intercept included -> criterion
    of: Callable[[float, float], float]
    parameters: Callable[[Any], float]  # state -> number of parameters of what it holds
    most: Sequence[float]  # parameters that each group has at most, without what is held

    def __call__(self, state: Objective) -> float:
        """Return the criterion of what a state holds."""
        return self.of(state.value, self.parameters(state))


@dataclass(frozen=True)
class Move:
    """A group that may come or go."""

    bound: float  # no more than the criterion after it
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

    Costs count for the budget only. `always` are taken first and stay; those of `start` come after
    and may go, and `max_steps` limits the moves from there. The score of a step is the fall.
    """
    now = judge(state)

    def take(action: str, group: int, choice: Choice) -> None:
        nonlocal now
        change = state.add(group) if action == "add" else -state.remove(group)
        before, now = now, judge(state)
        record(Step(action, group, before - now, change, state.value, choice))

    for group in [*always, *(one for one in start if one not in always)]:
        take("add", group, Choice.FORCED)
    steps = 0
    while max_steps is None or steps < max_steps:
        moves = list(_removals(state, judge, always)) if removes else []
        beyond = False
        if adds:
            spent = float(groups.costs[state.held].sum())
            for move in _additions(state, judge):
                if fits(spent + groups.costs[move.group], budget):
                    moves.append(move)
                else:
                    beyond |= move.bound < now - LEAST_FALL
        best = _best(state, judge, moves, now - LEAST_FALL)
        if best is None:
            return Stop.BUDGET if beyond else Stop.THRESHOLD
        take(best.action, best.group, Choice.FREE)
        steps += 1
    return Stop.MAX_STEPS


def _additions(state: Objective, judge: Judge) -> Iterator[Move]:
    """Give the groups that may come; a gain takes one parameter at least."""
    gains, parameters = state.gains(), judge.parameters(state)
    held = set(state.held)
    for group, gain in enumerate(gains.tolist()):
        if group not in held and gain > ROUNDING_GAIN:
            yield Move(judge.of(state.value + gain, parameters + 1.0), "add", group)


def _removals(state: Objective, judge: Judge, always: Sequence[int]) -> Iterator[Move]:
    """Give the groups that may go; none frees more parameters than it has."""
    losses, parameters = state.losses(), judge.parameters(state)
    for group in sorted(set(state.held).difference(always)):
        left = max(parameters - judge.most[group], 0.0)
        yield Move(judge.of(state.value - float(losses[group]), left), "remove", group)


def _best(state: Objective, judge: Judge, moves: Sequence[Move], below: float) -> Move | None:
    """Return the move after which the criterion is lowest; None if none gets it below a limit."""
    best = None
    # Stable: of moves that promise the same, the group named first is tried first.
    for move in sorted(moves, key=lambda one: one.bound):
        if not move.bound < below:
            break
        trial = state.copy()
        if move.action == "add":
            trial.add(move.group)
        else:
            trial.remove(move.group)
        reached = judge(trial)
        if np.isfinite(reached) and reached < below:
            best, below = move, reached
    return best

"""Local search: add a candidate, or exchange one for another, as long as the value rises.

    while one of these gains:
        add the candidate that fits and gains most
        else exchange the pair that fits and gains most

Ties go to the candidate named first. An exchange needs the gains without each selected
candidate: k removals and k rounds of gains.
"""

from collections.abc import Callable, Sequence

import numpy as np

from dbselect.objectives.contract import Objective, ask_around, ask_sets
from dbselect.record.gram import Vector
from dbselect.selection.ties import Mask, first_of_the_best

#: Candidates held -> which others may be added to them.
OpenTo = Callable[[Sequence[int]], Mask]

#: Rises of the value below this are rounding, of columns that are not nearly dependent.
LEAST_RISE = 1e-12


def improved(
    state: Objective,
    open_to: OpenTo,
    always: Sequence[int],
    told: Callable[[float], None] = lambda _: None,
) -> list[float]:
    """Exchange and add, in place, until neither raises the value, which is returned after each."""
    values = []
    while _add(state, open_to) or _exchange(state, open_to, always):
        values.append(state.value)
        told(state.value)
    return values


def climbed(state: Objective, open_to: OpenTo, always: Sequence[int], costs: Vector) -> Objective:
    """Add by gain per cost, exchange, and drop, for values that may fall with a group."""
    while _add(state, open_to, costs):
        pass
    while True:
        improved(state, open_to, always)
        losses = state.losses()
        losses[[one for one in range(state.size) if one in always or one not in state.held]] = 0.0
        if not (losses < -LEAST_RISE).any():
            return state
        state.remove(int(losses.argmin()))


def _add(state: Objective, open_to: OpenTo, costs: Vector | float = 1.0) -> bool:
    gains = state.gains()
    fitting = (gains > LEAST_RISE) & open_to(state.held)
    if not fitting.any():
        return False
    state.add(first_of_the_best(gains / costs, fitting))
    return True


def _exchange(state: Objective, open_to: OpenTo, always: Sequence[int]) -> bool:
    best, pair = 0.0, None
    gone = [one for one in state.held if one not in always]
    if hasattr(state, "ask"):
        ask_sets(state, [[one for one in state.held if one != out] for out in gone])
        trials = [state.copy() for _ in gone]
        for trial, out in zip(trials, gone, strict=True):
            trial.remove(out)
        ask_around(trials)
    for out in gone:
        without = state.copy()
        rises = -without.remove(out) + without.gains()
        fitting = open_to(without.held).copy()
        fitting[[out, *without.held]] = False
        into = first_rise(rises, fitting, best)
        if into is not None:
            best, pair = float(rises[into]), (out, into)
    if pair is None:
        return False
    before = state.value
    state.remove(pair[0])
    state.add(pair[1])
    # Of nearly dependent columns rounding alone may promise a rise, again and again.
    return state.value > before


def first_rise(rises: Vector, fitting: Mask, best: float) -> int | None:
    """Return the first that rises most; ties by `LEAST_RISE`, as a loss and a gain cancel."""
    if not fitting.any() or (most := rises[fitting].max()) <= best + LEAST_RISE:
        return None
    return int(np.flatnonzero(fitting & (rises >= most - LEAST_RISE))[0])

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

#: Selected candidates -> mask of those that may be added.
OpenTo = Callable[[Sequence[int]], Mask]

#: Rises of the value below this are rounding, unless columns are nearly dependent.
LEAST_RISE = 1e-12


def improved(
    state: Objective,
    open_to: OpenTo,
    always: Sequence[int],
    report: Callable[[float], None] = lambda _: None,
) -> list[float]:
    """Add and exchange, in place, while the value rises; return the value after each change."""
    values = []
    while _add(state, open_to) or _exchange(state, open_to, always):
        values.append(state.value)
        report(state.value)
    return values


def climbed(state: Objective, open_to: OpenTo, always: Sequence[int], costs: Vector) -> Objective:
    """Add by gain per cost, exchange and remove, for values that may fall with an addition."""
    while _add(state, open_to, costs):
        pass
    while True:
        improved(state, open_to, always)
        losses = state.losses()
        losses[[a for a in range(state.size) if a in always or a not in state.held]] = 0.0
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
    removable = [a for a in state.held if a not in always]
    if hasattr(state, "ask"):
        ask_sets(state, [[a for a in state.held if a != removed] for removed in removable])
        trials = [state.copy() for _ in removable]
        for trial, removed in zip(trials, removable, strict=True):
            trial.remove(removed)
        ask_around(trials)
    for removed in removable:
        without = state.copy()
        rises = -without.remove(removed) + without.gains()
        fitting = open_to(without.held).copy()
        fitting[[removed, *without.held]] = False
        added = first_rise(rises, fitting, best)
        if added is not None:
            best, pair = float(rises[added]), (removed, added)
    if pair is None:
        return False
    before = state.value
    state.remove(pair[0])
    state.add(pair[1])
    # With nearly dependent columns, rounding alone may promise a rise again and again.
    return state.value > before


def first_rise(rises: Vector, fitting: Mask, best: float) -> int | None:
    """Return the first of the largest rises; ties within `LEAST_RISE`, as loss and gain cancel."""
    if not fitting.any() or (most := rises[fitting].max()) <= best + LEAST_RISE:
        return None
    return int(np.flatnonzero(fitting & (rises >= most - LEAST_RISE))[0])

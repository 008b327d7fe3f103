"""Local search: add a candidate, or exchange one for another, as long as the value rises.

    while one of these gains:
        add the candidate that fits and gains most
        else exchange the pair that fits and gains most

Ties go to the candidate named first. An exchange needs the gains without each selected
candidate: k removals and k rounds of gains.
"""

from collections.abc import Callable, Sequence

import numpy as np

from dbselect.objectives.contract import Objective
from dbselect.record.gram import Vector
from dbselect.record.steps import BUDGET_SLACK
from dbselect.selection.ties import Mask, first_of_the_best

#: Whether time is up.
TimeUp = Callable[[], bool]
#: Candidates held -> which others may be added to them.
OpenTo = Callable[[Sequence[int]], Mask]

#: Rises of the value below this are rounding, of columns that are not nearly dependent.
LEAST_RISE = 1e-12


def improve(
    state: Objective, costs: Vector, budget: float, always: Sequence[int], time_up: TimeUp
) -> None:
    """Add and exchange candidates until neither raises the value; `state` changes in place.

    Parameters
    ----------
    costs : shape (n,), > 0
    budget : limit on the summed cost
    always : candidates that stay
    time_up : whether time is up; it is asked before every removal that is tried
    """
    limit = budget * (1.0 + BUDGET_SLACK)

    def open_to(held: Sequence[int]) -> Mask:
        return np.asarray(costs[list(held)].sum() + costs <= limit)

    while _add(state, open_to) or _exchange(state, open_to, always, time_up):
        pass


def improved(
    state: Objective,
    open_to: OpenTo,
    always: Sequence[int],
    told: Callable[[float], None] = lambda _: None,
) -> list[float]:
    """Exchange and add candidates until neither raises the value; `state` changes in place.

    Parameters
    ----------
    open_to : candidates held -> which others may be added to them; shape (n,)
    always : candidates that stay

    Returns
    -------
    the value after each change
    """
    values = []
    while _add(state, open_to) or _exchange(state, open_to, always, lambda: False):
        values.append(state.value)
        told(state.value)
    return values


def _add(state: Objective, open_to: OpenTo) -> bool:
    gains = state.gains()
    fitting = (gains > LEAST_RISE) & open_to(state.held)
    if not fitting.any():
        return False
    state.add(first_of_the_best(gains, fitting))
    return True


def _exchange(state: Objective, open_to: OpenTo, always: Sequence[int], time_up: TimeUp) -> bool:
    best, pair = 0.0, None
    for out in state.held:
        if out in always:
            continue
        if time_up():
            return False
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
    """Return the candidate that rises most, the first of those that tie; None if `best` stands.

    What a rise is made of, a loss and a gain, cancels: it ties by `LEAST_RISE`, not by a share.
    """
    if not fitting.any() or (most := rises[fitting].max()) <= best + LEAST_RISE:
        return None
    return int(np.flatnonzero(fitting & (rises >= most - LEAST_RISE))[0])


def prefer_cheaper(
    state: Objective, costs: Vector, always: Sequence[int], time_up: TimeUp, *, tie: float
) -> None:
    """Give up candidates, or exchange them for cheaper ones or those named first, at no loss.

    Parameters
    ----------
    always, time_up : as in `improve`
    tie : what may be lost in all
    """
    least = state.value - tie
    while _cheapen(state, costs, always, time_up, least):
        pass


def _cheapen(
    state: Objective, costs: Vector, always: Sequence[int], time_up: TimeUp, least: float
) -> bool:
    # The dearest first, and of these the last named.
    for out in sorted(state.held, key=lambda one: (costs[one], one), reverse=True):
        if out in always:
            continue
        if time_up():
            return False
        without = state.copy()
        without.remove(out)
        into = _replacement(without, costs, out, least)
        if into is not None or without.value >= least:
            state.remove(out)
            if into is not None:
                state.add(into)
            return True
    return False


def _replacement(without: Objective, costs: Vector, out: int, least: float) -> int | None:
    """Return the cheapest candidate that makes up for one, None if that needs none or has none."""
    if without.value >= least:
        return None
    number = np.arange(len(costs))
    before = (costs < costs[out]) | ((costs == costs[out]) & (number < out))
    before &= without.value + without.gains() >= least
    before[without.held] = False
    found = np.flatnonzero(before)
    return int(found[np.argmin(costs[found])]) if len(found) else None

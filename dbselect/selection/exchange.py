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
from dbselect.record.prices import SUMS, Prices
from dbselect.selection.moves import Mask, first_of_the_best, give_back, take, together

#: Selected candidates -> mask of those that may be added.
OpenTo = Callable[[Sequence[int]], Mask]

#: Rises of the value below this are rounding, unless columns are nearly dependent.
LEAST_RISE = 1e-12


def improved(
    state: Objective,
    open_to: OpenTo,
    always: Sequence[int],
    report: Callable[[float], None] = lambda _: None,
    prices: Prices = SUMS,
) -> list[float]:
    """Add and exchange, in place, while the value rises; return the value after each change."""
    values = []
    while _add(state, open_to, prices) or _exchange(state, open_to, always, prices):
        values.append(state.value)
        report(state.value)
    return values


def climbed(
    state: Objective, open_to: OpenTo, always: Sequence[int], costs: Vector, prices: Prices
) -> Objective:
    """Add by gain per cost, exchange and remove, for values that may fall with an addition."""
    while _add(state, open_to, prices, costs):
        pass
    while True:
        improved(state, open_to, always, prices=prices)
        losses = together(state, prices, "remove")
        losses[[a for a in range(state.size) if a in always or a not in state.held]] = 0.0
        if not (losses < -LEAST_RISE).any():
            return state
        give_back(state, prices, int(losses.argmin()))


def _add(state: Objective, open_to: OpenTo, prices: Prices, costs: Vector | float = 1.0) -> bool:
    gains = together(state, prices, "add")
    fitting = (gains > LEAST_RISE) & open_to(state.held)
    if not fitting.any():
        return False
    take(state, prices, first_of_the_best(gains / costs, fitting))
    return True


def _exchange(state: Objective, open_to: OpenTo, always: Sequence[int], prices: Prices) -> bool:
    best, pair = 0.0, None
    removable = [a for a in state.held if a not in always]
    if hasattr(state, "ask"):
        ask_sets(state, [
            [a for a in state.held if a not in prices.with_dependents(removed, state.held)]
            for removed in removable
        ])  # fmt: skip
        trials = [state.copy() for _ in removable]
        for trial, removed in zip(trials, removable, strict=True):
            give_back(trial, prices, removed)
        ask_around(trials)
    for removed in removable:
        without = state.copy()
        going = prices.with_dependents(removed, state.held)
        rises = -give_back(without, prices, removed) + together(without, prices, "add")
        fitting = open_to(without.held).copy()
        fitting[[*going, *without.held]] = False
        if not prices.are_sums:
            # What comes back with another group that needs it has its turn elsewhere.
            fitting &= [
                removed not in prices.with_needs(group, without.held) for group in range(state.size)
            ]
        added = first_rise(rises, fitting, best)
        if added is not None:
            best, pair = float(rises[added]), (removed, added)
    if pair is None:
        return False
    before = state.value
    give_back(state, prices, pair[0])
    take(state, prices, pair[1])
    # With nearly dependent columns, rounding alone may promise a rise again and again.
    return state.value > before


def first_rise(rises: Vector, fitting: Mask, best: float) -> int | None:
    """Return the first of the largest rises; ties within `LEAST_RISE`, as loss and gain cancel."""
    if not fitting.any() or (most := rises[fitting].max()) <= best + LEAST_RISE:
        return None
    return int(np.flatnonzero(fitting & (rises >= most - LEAST_RISE))[0])

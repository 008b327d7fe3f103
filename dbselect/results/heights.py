"""Where a curve reaches a share of its height (Hu, Grubb, Bagnell, Hebert 2016, section 5.2)."""

import numpy as np

from dbselect.record.gram import Vector
from dbselect.record.steps import longest_within

#: Fractions among which the plateau is sought, in steps of `PLATEAU_GAIN`.
PLATEAU_START = 0.95
#: A plateau begins where this share of the final height ...
PLATEAU_GAIN = 0.01
#: ... needs more than this share of the total cost.
PLATEAU_COST = 0.20
#: Slack for a height that is reached up to rounding.
HEIGHT_SLACK = 1e-12


def longest_heights(spent: Vector, explained: Vector) -> tuple[Vector, Vector]:
    """Return the budgets at which another prefix serves, rising, and what each explains."""
    at = serving_steps(spent)
    return spent[at], np.asarray(explained)[at]


def serving_steps(spent: Vector) -> list[int]:
    """Return the steps that serve some budget, by rising cost: no other stays for a curve."""
    budgets = np.unique(spent[spent <= spent[longest_within(spent, None)]])
    return list(dict.fromkeys(longest_within(spent, budget) for budget in budgets.tolist()))


def cost_of_height(spent: Vector, explained: Vector, fraction: float) -> float:
    """Return the least budget that buys a fraction of the final height."""
    budgets, heights = longest_heights(spent, explained)
    height = fraction * heights[-1] - HEIGHT_SLACK * abs(heights[-1])
    return float(budgets[np.flatnonzero(heights >= height)[0]])


def flat_from(spent: Vector, explained: Vector) -> float:
    """Return the fraction of the final height from which on more costs much; 1 if none."""
    total = float(spent[longest_within(spent, None)])
    for fraction in np.round(np.arange(PLATEAU_START, 1.0, PLATEAU_GAIN), 2):
        more = cost_of_height(spent, explained, min(1.0, float(fraction) + PLATEAU_GAIN))
        if more - cost_of_height(spent, explained, float(fraction)) > PLATEAU_COST * total:
            return float(fraction)
    return 1.0

"""Where a curve of prefixes reaches a share of its final height, and where it flattens.

Source: Hu, Grubb, Bagnell, Hebert (2016), section 5.2.
"""

import numpy as np

from dbselect.record.gram import Vector

#: Fractions among which the plateau is sought, in steps of `PLATEAU_GAIN`.
PLATEAU_START = 0.95
#: A plateau begins where this share of the final height ...
PLATEAU_GAIN = 0.01
#: ... needs more than this share of the total cost.
PLATEAU_COST = 0.20
#: Slack for a height that is reached up to rounding.
HEIGHT_SLACK = 1e-12


def cost_of_height(spent: Vector, explained: Vector, fraction: float) -> float:
    """Return what the first prefix has spent that explains a fraction of the final height."""
    height = fraction * explained[-1] - HEIGHT_SLACK * abs(explained[-1])
    return float(spent[np.flatnonzero(explained >= height)[0]])


def flat_from(spent: Vector, explained: Vector) -> float:
    """Return the fraction of the final height from which on more costs much; 1 if none."""
    total = float(spent[-1])
    for fraction in np.round(np.arange(PLATEAU_START, 1.0, PLATEAU_GAIN), 2):
        more = cost_of_height(spent, explained, min(1.0, float(fraction) + PLATEAU_GAIN))
        if more - cost_of_height(spent, explained, float(fraction)) > PLATEAU_COST * total:
            return float(fraction)
    return 1.0

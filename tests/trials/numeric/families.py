"""Fits of every family and link on small tables: at a minimum if converged, and else none is near.

A fit says CONVERGED where the gradient by statsmodels vanishes, SEPARATED only where statsmodels
finds no minimum from there either, and gives up on no table that has one.
"""

import random

import numpy as np
from glm_tables import TRUTH, drawn_table, minimum

import dbselect as ds

#: Share of the null deviance by which a converged fit may be above the minimum.
SHORT = 1e-8
#: Links whose best coefficients often lie where some mean is the last one allowed: no minimum.
BOUNDED = ["binomial(log)", "binomial(identity)"]


def case(draw: random.Random) -> None:
    """Fit a table, and go on from the end by statsmodels' gradient and curvature."""
    table = drawn_table(draw, draw.choice(list(TRUTH)), columns=draw.randint(1, 4))
    found = ds.fit(table.frame, "y", table.columns, **table.options)
    at = [found.intercept] * table.intercept + list(found.coefficients.values())
    _, deviance, is_one = minimum(table.model(table.columns), np.array(at))
    status, short = found.status.name, (found.deviance - deviance) / found.null_deviance
    said = f"{table.family}, {table.frame.height} rows: {status}"
    if status == "CONVERGED" and is_one:
        assert short < SHORT, f"{said} at {found.deviance:g}, where {deviance:g} is near"
    if status != "CONVERGED" and table.family not in BOUNDED:
        assert not is_one, f"{said}, where a minimum of {deviance:g} is near"

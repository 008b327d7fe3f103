"""Null deviances beside an offset, against the least over the intercept on a grid that is refined.

The model without columns has a mean for every row only between two borders of its intercept.
"""

import random

import numpy as np
import polars as pl
from scipy.optimize import minimize_scalar
from scipy.special import xlogy

import dbselect as ds

#: Share of the null deviance by which it may be above the least.
SHORT = 1e-4


def case(draw: random.Random) -> None:
    """Fit a table whose offset leaves the intercept little room."""
    rng = np.random.default_rng(draw.getrandbits(64))
    rows = draw.randint(6, 60)
    family = draw.choice(["binomial(log)", "poisson"])
    offset = rng.normal(size=rows) * draw.choice([0.1, 0.5, 1.0])
    y = rng.poisson(1.0, rows)
    if family == "binomial(log)":
        y = np.minimum(y, 1)
    if len(set(y.tolist())) < 2:
        return
    frame = pl.DataFrame({"x": rng.normal(size=rows), "o": offset, "y": y})
    found = ds.fit(frame, "y", family=family, offset="o").null_deviance

    def deviance(intercept: float) -> float:
        mean = np.exp(intercept + offset)
        if family == "poisson":
            return float(2 * (xlogy(y, y) - y * np.log(mean) - y + mean).sum())
        if mean.max() >= 1:
            return np.inf
        return float(-2 * (y * np.log(mean) + (1 - y) * np.log1p(-mean)).sum())

    last = -offset.max() if family == "binomial(log)" else 20.0
    grid = last - np.geomspace(1e-9, 40.0, 2_000)
    at = int(np.argmin([deviance(one) for one in grid]))
    ends = sorted((grid[max(at - 1, 0)], grid[min(at + 1, len(grid) - 1)]))
    refined = minimize_scalar(deviance, bounds=ends, method="bounded", options={"xatol": 1e-12})
    least = min(deviance(grid[at]), float(refined.fun))
    short = (found - least) / least
    assert abs(short) < SHORT, f"{family}, {rows} rows: null deviance {found}, not {least}"

"""Partial correlations of columns that nearly or wholly explain the target, in exact rationals."""

import math
import random
from fractions import Fraction

import polars as pl

import dbselect as ds

#: A partial correlation whose columns leave so little of the target has two digits.
LITTLE, DIGITS = 1e-11, 2e-2


def case(draw: random.Random) -> None:
    width, rows = draw.randint(1, 4), draw.randint(8, 30)
    X = [[draw.randint(-9, 9) for _ in range(rows)] for _ in range(width)]
    weights = [draw.choice([0, 0, 1, 2, -3]) for _ in X]
    size = draw.choice([0.0, 0.0, 2.0**-30, 2.0**-20, 1.0])
    y = [
        sum(w * column[i] for w, column in zip(weights, X, strict=True))
        + size * draw.randint(-9, 9)
        for i in range(rows)
    ]
    names = [f"x{j}" for j in range(width)]
    if len({*map(float, y)}) == 1 or _left(X[:-1], X[-1]) == 0:
        return
    frame = pl.DataFrame(dict(zip(names, X, strict=True)) | {"y": y})
    found = ds.fit(frame, "y").partial_correlations()
    for j, partial in enumerate(found["partial"].to_list()):
        others = X[:j] + X[j + 1 :]
        # What others leave of the target, and all: the partial correlation has their ratio.
        without, within = _left(others, y), _left(X, y)
        if partial is None:
            share = float(without / _left([], y)) if _left(others, X[j]) else 0.0
            assert share < LITTLE, f"no partial correlation of x{j}, which leave {share}"
            continue
        assert without > 0, f"partial correlation {partial} of x{j} with nothing"
        wanted = math.sqrt(1 - within / without)
        assert abs(abs(partial) - wanted) < DIGITS, f"x{j}: {partial}; it is {wanted}"


def _left(columns: list[list[int]], y: list[float]) -> Fraction:
    """Return the sum of squares of y that least squares on columns leave."""
    kept: list[list[Fraction]] = []
    for values in [*columns, y]:
        mean = sum(map(Fraction, values)) / len(values)
        left = [Fraction(value) - mean for value in values]
        for one in kept:
            share = sum(a * b for a, b in zip(left, one, strict=True)) / sum(a * a for a in one)
            left = [a - share * b for a, b in zip(left, one, strict=True)]
        if any(left):
            kept.append(left)
    return sum((a * a for a in left), start=Fraction(0))

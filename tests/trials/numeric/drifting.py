"""Divergence of two sets of rows whose columns change their scale, against exact rationals."""

import math
import operator
import random
from fractions import Fraction

import numpy as np
import polars as pl

import dbselect as ds

#: Share of a figure that rounding may take where correlations are no more than this dependent.
DIGITS, LEAST_EIGENVALUE = 1e-5, 1e-6


def case(draw: random.Random) -> None:
    rng = np.random.default_rng(draw.getrandbits(32))
    width, rows = draw.randint(1, 4), draw.randint(10, 60)
    mixed = np.eye(width) + 0.5 * rng.normal(size=(width, width))
    before, after = (
        rng.normal(size=(rows, width)) @ mixed * 10.0 ** rng.uniform(-spread, spread, width)
        + draw.choice([0.0, 1.0]) * rng.normal(size=width)
        for spread in (draw.choice([0, 2, 5]), draw.choice([0, 2, 7]))
    )
    if draw.random() < 0.2:  # a column that others determine in both
        before, after = (np.column_stack([X, X[:, 0]]) for X in (before, after))
    names = [f"x{j}" for j in range(before.shape[1])]
    frames = [
        pl.DataFrame(X, names).with_columns(y=X[:, 0] / X[:, 0].std() + rng.normal(size=rows))
        for X in (before, after)
    ]
    for X in (before, after):
        if (
            np.linalg.eigvalsh(np.corrcoef(X[:, :width].T).reshape(width, width))[0]
            < LEAST_EIGENVALUE
        ):
            return
    found = ds.drift(*(ds.gram(frame) for frame in frames), "y", {"g": names})
    location, spread = divergence(before[:, :width], after[:, :width])
    row = found.groups.row(0, named=True)
    for name, wanted in (("location", location), ("spread", spread)):
        error = abs(row[name] - wanted)
        assert error <= DIGITS * max(1.0, wanted), f"{name} {row[name]}; it is {wanted}"


def divergence(before: np.ndarray, after: np.ndarray) -> tuple[float, float]:
    """Return both parts of the divergence of rows, by exact sums."""
    (m, A), (n, B) = _moments(before), _moments(after)
    shift = [to - origin for origin, to in zip(m, n, strict=True)]
    # Columns of A^-1 (B | shift), and the determinant of A.
    solved, det = _solved(A, [[*row, end] for row, end in zip(B, shift, strict=True)])
    location = sum(end * row[-1] for end, row in zip(shift, solved, strict=True)) / 2
    trace = sum(row[j] for j, row in enumerate(solved))
    det = _solved(B, [[] for _ in B])[1] / det
    logarithm = math.log(det.numerator) - math.log(det.denominator)
    return float(location), (float(trace) - len(A) - logarithm) / 2


def _moments(X: np.ndarray) -> tuple[list[Fraction], list[list[Fraction]]]:
    exact = [[Fraction(value) for value in column] for column in X.T.tolist()]
    mean = [sum(column) / len(column) for column in exact]
    centred = [[v - m for v in column] for column, m in zip(exact, mean, strict=True)]
    return mean, [
        [sum(map(operator.mul, one, other)) / len(X) for other in centred] for one in centred
    ]


def _solved(
    A: list[list[Fraction]], ends: list[list[Fraction]]
) -> tuple[list[list[Fraction]], Fraction]:
    """Return A^-1 ends by elimination, and the determinant of A, which is positive definite."""
    rows = [[*row, *end] for row, end in zip(A, ends, strict=True)]
    det = Fraction(1)
    for j in range(len(A)):
        det *= rows[j][j]
        rows[j] = [value / rows[j][j] for value in rows[j]]
        for i in range(len(A)):
            if i != j:
                factor = rows[i][j]
                rows[i] = [a - factor * b for a, b in zip(rows[i], rows[j], strict=True)]
    return [row[len(A) :] for row in rows], det

"""Sums and least squares in rationals."""

from collections.abc import Sequence
from fractions import Fraction

Column = Sequence[Fraction]


def comoments(
    columns: Sequence[Column], weights: Column
) -> tuple[list[Fraction], list[list[Fraction]]]:
    """Return the means of columns and the sums of w (x - mean)(x - mean)'."""
    total = sum(weights)
    means = [sum(map(_product, column, weights)) / total for column in columns]
    centred = [[x - mean for x in column] for column, mean in zip(columns, means, strict=True)]
    weighted = [list(map(_product, column, weights)) for column in centred]
    return means, [[sum(map(_product, x, y)) for y in weighted] for x in centred]


def fitted(features: Sequence[Column], target: Column, weights: Column) -> list[Fraction] | None:
    """Return the intercept and the slopes of least squares; None if they are not unique."""
    means, A = comoments([*features, target], weights)
    width = len(features)
    for k in range(width):
        if A[k][k] == 0:
            return None
        A[k] = [value / A[k][k] for value in A[k]]
        for i in range(width):
            if i != k:
                A[i] = [a - A[i][k] * b for a, b in zip(A[i], A[k], strict=True)]
    slopes = [A[k][width] for k in range(width)]
    return [means[-1] - sum(map(_product, slopes, means)), *slopes]


def _product(a: Fraction, b: Fraction) -> Fraction:
    return a * b

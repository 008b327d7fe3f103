"""Second-order expansion of the objective near some coefficients, from one pass.

The information of all pairs (`glm.families`) is put together, and the intercept minimised
out, per unit of row weight.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dbselect.record.gram import Matrix, Vector


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Coefficients."""

    intercept: Vector  # shape (P,), the predictors at the means of the columns
    coef: Matrix  # shape (D, P), on unit-variance columns


@dataclass(frozen=True, eq=False)
class Expansion:
    """Second-order expansion of the objective near a point, per unit of weight."""

    deviance: float  # in all
    settled: float  # decrease of the deviance by the intercept alone, per unit of weight
    gradient: Vector  # shape (D P,), entry (j, p) at j P + p, the intercept minimised out
    information: Matrix  # shape (D P, D P), likewise
    corner: Matrix  # shape (P, P), information of the intercept
    start: Vector  # shape (P,), step of the intercept if no coefficient changes
    follow: Matrix  # shape (P, D P): the intercept changes by ``start - follow @ step``
    # Pearson's statistic of one response, sum of ``(y - mu)^2 / V``, per unit of weight
    pearson: float


@dataclass(frozen=True, eq=False)
class Pair:
    """The weighted Gram of a pair, on unit-variance columns, per unit of weight."""

    weight: float  # mean of W
    mean: Vector  # shape (D,), weighted means of the columns
    comoment: Matrix  # shape (D, D), centred at these
    residual: float  # weighted mean of r
    cross: Vector  # shape (D,), comoment of columns and r
    squares: float  # sum of W r^2


def expansion(
    pairs: Sequence[Pair], contrasts: Matrix, deviance: float, has_intercept: bool = True
) -> Expansion:
    """Put all pairs together and minimise the intercept out; through the origin it stays 0."""
    free = contrasts.shape[1]
    width = len(pairs[0].mean)
    corner = np.zeros((free, free))
    edge = np.zeros((free, width, free))
    body = np.zeros((width, free, width, free))
    slope = np.zeros(free)
    gradient = np.zeros((width, free))
    for pair, q in zip(pairs, contrasts, strict=True):
        outer = np.outer(q, q)
        corner += pair.weight * outer
        edge += pair.weight * outer[:, None, :] * pair.mean[:, None]
        raw = pair.comoment + pair.weight * np.outer(pair.mean, pair.mean)
        body += raw[:, None, :, None] * outer[None, :, None, :]
        slope += pair.weight * pair.residual * q
        gradient += np.outer(pair.cross + pair.weight * pair.residual * pair.mean, q)
    flat = edge.reshape(free, -1)
    follow, first = np.zeros_like(flat), np.zeros(free)
    if has_intercept:
        follow = np.asarray(np.linalg.solve(corner, flat), dtype=np.float64)
        first = np.asarray(np.linalg.solve(corner, slope), dtype=np.float64)
    size = width * free
    information = body.reshape(size, size) - flat.T @ follow
    return Expansion(
        deviance,
        float(slope @ first),
        gradient.ravel() - flat.T @ first,
        information,
        corner,
        first,
        follow,
        pairs[0].squares,
    )

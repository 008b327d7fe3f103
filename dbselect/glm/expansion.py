"""Second-order expansion of the objective near some coefficients, and the curvature beyond it.

The information is summed over all pairs (`glm.families`), with the intercept minimised out, per
unit of row weight.

Fisher's scoring takes this expected information I for the curvature of the deviance. With links
that are not canonical its steps are too long or too short, by a different factor in each direction.
The change of the gradient g along a step s shows the difference::

    r = g(before) - g(after) - (I(before) + I(after)) s / 2

and near another point the curvature along s is ``y = I s + r``, where r shrinks with s'I s if that
is smaller there. The pairs (s, y) of the steps taken, the oldest first, update the curvature by
BFGS::

    B = I     B <- B - B s s'B / s'B s + y y' / s'y

Where the deviance is nearly concave along s, y is moved towards ``B s`` until s'y is `LEAST_SHARE`
of s'B s, so that B stays positive definite (Powell 1978).

Source: Dennis, Gay, Welsch (1981), ACM TOMS 7, for the learned difference; Lange (1995),
Statistica Sinica 5; Nocedal, Wright (2006), chapter 6 and procedure 18.2.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from dbselect.linear.problem import Index
from dbselect.record.gram import Matrix, Vector

#: Least curvature along a step, as a share of the expected one: a step grows at most by a factor
#: of twenty.
LEAST_SHARE = 0.05


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Coefficients of a model."""

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
    """Sum over the pairs and minimise the intercept out; through the origin it stays 0."""
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


@dataclass(frozen=True, eq=False)
class Secant:
    """Curvature along a step, beyond the expected information."""

    step: Vector  # shape (P + D P,), of the intercept and the coefficients
    beyond: Vector  # shape (P + D P,), r
    # before, after: s'I s at both ends
    before: float
    after: float


def secant(before: Expansion, after: Expansion, moved: Coefficients) -> Secant:
    """Return the secant of a step, from the expansions at both of its ends."""
    step = flat(moved)
    first, last = _information(before) @ step, _information(after) @ step
    beyond = _gradient(before) - _gradient(after) - 0.5 * (first + last)
    return Secant(step, beyond, float(step @ first), float(step @ last))


def secant_step(
    model: Expansion,
    at: Coefficients,
    ridge: Vector,
    used: Index,
    secants: Sequence[Secant],
) -> tuple[Coefficients, float] | None:
    """Return the step by the curvature that secants show, and the decrease that it predicts.

    `ridge` is 0 for the intercept; `used` may change. None if the curvature has too few digits.
    """
    gradient, curvature = curvature_of(model, at, ridge, used, secants)
    try:
        step = scipy.linalg.cho_solve(scipy.linalg.cho_factor(curvature), gradient)
    except np.linalg.LinAlgError:
        return None
    return unflat(step, used, at), float(gradient @ step)


def curvature_of(
    model: Expansion, at: Coefficients, ridge: Vector, used: Index, secants: Sequence[Secant]
) -> tuple[Vector, Matrix]:
    """Return downward gradient and curvature of the penalised objective, by secants."""
    expected = _information(model)[np.ix_(used, used)]
    gradient = (_gradient(model) - ridge * flat(at))[used]
    curvature = expected + np.diag(ridge[used])
    for past in secants:
        s = past.step[used]
        forward = curvature @ s
        along = float(s @ forward)
        change = expected @ s
        size = min(1.0, 2.0 * float(s @ change) / (past.before + past.after))
        change += ridge[used] * s + size * past.beyond[used]
        share = float(s @ change) / along
        if share < LEAST_SHARE:
            change = forward + (change - forward) * (1.0 - LEAST_SHARE) / (1.0 - share)
        curvature += np.outer(change, change) / (s @ change) - np.outer(forward, forward) / along
    return gradient, curvature


def unflat(values: Vector, used: Index, like: Coefficients) -> Coefficients:
    """Return coefficients from those that are used, the intercept first; others are 0."""
    full = np.zeros(len(like.intercept) + like.coef.size)
    full[used] = values
    free = len(like.intercept)
    return Coefficients(full[:free], full[free:].reshape(like.coef.shape))


def flat(point: Coefficients) -> Vector:
    """Return coefficients as one vector, the intercept first."""
    return np.concatenate([point.intercept, point.coef.ravel()])


def _gradient(model: Expansion) -> Vector:
    """Return the gradient by the intercept and by the coefficients, downwards."""
    intercept = model.corner @ model.start
    return np.concatenate([intercept, model.gradient + model.follow.T @ intercept])


def _information(model: Expansion) -> Matrix:
    """Return the expected information of the intercept and the coefficients."""
    edge = model.corner @ model.follow
    return np.block([[model.corner, edge], [edge.T, model.information + edge.T @ model.follow]])

"""The curvature that the expected information leaves out, from the passes of a fit.

Fisher's scoring takes the expected information I for the curvature of the deviance. By links that
are not the canonical one the two differ, and its steps are too long or too short by a factor of
their own in every direction. What the gradient g did along a step s shows the difference::

    r = g(before) - g(after) - (I(before) + I(after)) s / 2

and near another point the curvature along s is ``y = I s + r``, r times what I became there along
s, if that is less. With the pairs (s, y) of the steps taken, the oldest first, it becomes, by
BFGS::

    B = I     B <- B - B s s'B / s'B s + y y' / s'y

Steps by B converge faster and faster, at the passes of Fisher's scoring. By the canonical link r
is of third order in s.

Where the deviance is concave along s, or nearly so, y is moved towards ``B s`` until s'y is
`LEAST_SHARE` of s'B s, so that B stays positive definite (Powell 1978).

Source: Dennis, Gay, Welsch (1981), ACM TOMS 7, for the difference that is learned; Lange (1995),
Statistica Sinica 5; Nocedal, Wright (2006), chapter 6 and procedure 18.2.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from dbselect.glm.expansion import Coefficients, Expansion
from dbselect.linear.problem import Index
from dbselect.record.gram import Matrix, Vector

#: Least curvature along a step, as a share of what is expected there: a step becomes no longer
#: than twenty.
LEAST_SHARE = 0.05


@dataclass(frozen=True, eq=False)
class Secant:
    """What a step showed."""

    step: Vector  # shape (P + D P,), of the intercept and the coefficients
    beyond: Vector  # shape (P + D P,), r
    # before, after: s'I s at both ends
    before: float
    after: float


def secant(before: Expansion, after: Expansion, moved: Coefficients) -> Secant:
    """Return what a step showed, from the expansions at both of its ends."""
    step = _flat(moved)
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
    expected = _information(model)[np.ix_(used, used)]
    gradient = (_gradient(model) - ridge * _flat(at))[used]
    curvature = expected + np.diag(ridge[used])
    for one in secants:
        s = one.step[used]
        forward = curvature @ s
        along = float(s @ forward)
        change = expected @ s
        size = min(1.0, 2.0 * float(s @ change) / (one.before + one.after))
        change += ridge[used] * s + size * one.beyond[used]
        share = float(s @ change) / along
        if share < LEAST_SHARE:
            change = forward + (change - forward) * (1.0 - LEAST_SHARE) / (1.0 - share)
        curvature += np.outer(change, change) / (s @ change) - np.outer(forward, forward) / along
    try:
        step = scipy.linalg.cho_solve(scipy.linalg.cho_factor(curvature), gradient)
    except np.linalg.LinAlgError:
        return None
    full = np.zeros_like(ridge)
    full[used] = step
    free = len(at.intercept)
    return Coefficients(full[:free], full[free:].reshape(at.coef.shape)), float(gradient @ step)


def _flat(point: Coefficients) -> Vector:
    return np.concatenate([point.intercept, point.coef.ravel()])


def _gradient(model: Expansion) -> Vector:
    """Return the gradient by the intercept and by the coefficients, downwards."""
    intercept = model.corner @ model.start
    return np.concatenate([intercept, model.gradient + model.follow.T @ intercept])


def _information(model: Expansion) -> Matrix:
    """Return the expected information of the intercept and the coefficients."""
    edge = model.corner @ model.follow
    return np.block([[model.corner, edge], [edge.T, model.information + edge.T @ model.follow]])

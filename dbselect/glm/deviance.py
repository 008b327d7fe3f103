"""The deviance as a smooth function of the coefficients, for the descent of SGHT.

    f(x) = 1/2 (deviance + n ridge |w|^2) / null deviance - 1/2,   w = unit x

with the intercept minimised out, so that ``1 + 2 f`` is the share of the null deviance that
is left. The unit is such that a column has the curvature 1 at the model without columns, as
it has in least squares, and family gaussian gives the f of least squares.

The intercept is found by Newton's method from where it was last. It ends where the next
step would explain less than `SETTLED`; that is counted without being taken.

Source: Xiang, Yang, Ye (2014), remark 2.
"""

import numpy as np

from dbselect.glm.expansion import Coefficients
from dbselect.glm.newton import GlmFit
from dbselect.glm.refits import InMemory
from dbselect.glm.state import Slope
from dbselect.objectives.smooth import Point
from dbselect.record.gram import Matrix, Vector

#: Share of the null deviance that a step of the intercept may explain without being taken:
#: what is then counted errs by less than the power 3/2 of that.
SETTLED = 1e-9
#: Steps of the intercept, halved ones included, before it is taken as it is.
INTERCEPT_STEPS = 50
#: How much larger a curvature may become than at the model without columns: that of a
#: count grows with its mean.
STEEPER = 1e6


class Deviance:
    """The deviance of a family with P free predictors, which `refits` compute."""

    def __init__(self, refits: InMemory, null: GlmFit) -> None:
        self._refits = refits
        self._problem = problem = refits.problem
        self._intercept = null.point.intercept
        self.unit = problem.scale / np.sqrt(np.trace(null.model.corner) / problem.free)
        self.G: Matrix = problem.correlation
        self.ceiling = STEEPER * len(self.G)
        self.c: Vector = -self.at(np.zeros((problem.free, len(self.G)))).gradient

    def at(self, x: Vector) -> Point:
        """Return f and its gradient, shape (P, D)."""
        point, slope = self._settled(self.unit * x.T)
        problem = self._problem
        objective = slope.deviance - problem.weight * slope.settled + problem.penalty(point)
        gradient = slope.gradient - problem.ridge[:, None] * point.coef
        value = 0.5 * (objective / problem.null_deviance - 1.0)
        own = -gradient.T * (self.unit / problem.scale**2)
        return Point(x, value, lambda: own)

    def bregman(self, u: Point, after: Point) -> float:
        """Return the Bregman divergence: how far f at a point lies above its tangent at u."""
        return float(after.value - u.value - np.vdot(u.gradient, after.x - u.x))

    def point(self, x: Vector) -> tuple[Coefficients, float]:
        """Return the coefficients of a model on unit-variance columns, and its deviance."""
        point, slope = self._settled(self.unit * x.T)
        deviance = slope.deviance - self._problem.weight * slope.settled
        return Coefficients(point.intercept + slope.start, point.coef), deviance

    def _settled(self, coef: Matrix) -> tuple[Coefficients, Slope]:
        """Return the point with the best intercept, and what is known there."""
        problem, refits = self._problem, self._refits
        intercept, step = self._intercept, np.zeros(problem.free)
        slope = refits.rows.slope(Coefficients(intercept, coef))
        for _ in range(INTERCEPT_STEPS):
            if slope.settled * problem.weight <= SETTLED * problem.null_deviance:
                break
            step = slope.start if not step.any() else step
            after = refits.rows.slope(Coefficients(intercept + step, coef))
            if after.deviance <= slope.deviance:
                intercept, slope, step = intercept + step, after, np.zeros(problem.free)
            else:
                step = 0.5 * step
        self._intercept = intercept
        return Coefficients(intercept, coef), slope

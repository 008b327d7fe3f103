"""Fits of generalised linear models under signs of coefficients.

A step leads to the minimum of the quadratic model of `newton` over the coefficients that have their
signs, the intercept being free, and is halved until the objective decreases::

    minimise  1/2 v'Bv - (g + B w)'v    so that  sign_j v_j >= 0        step v - w

g is the downward gradient at w, and B the information, which secants correct for links that are not
canonical. All points between w and v have the signs. The active set of `signed_minimum` chooses
among columns that depend on each other.

The last pass is at the coefficients of the fit. It shows how far these violate the optimality
conditions: no slope along a coefficient that is not 0, and none towards its sign along one that is.

Source: Lee, Sun, Saunders (2014), SIAM Journal on Optimization 24, for a constrained Newton step.
"""

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dbselect.glm.expansion import Coefficients, Expansion, Secant, curvature_of, flat, unflat
from dbselect.glm.newton import (
    FAR_OUT,
    HIDDEN_SHARE,
    ROUNDING_SHARE,
    Fitting,
    GlmFit,
    GlmProblem,
    NewtonRun,
    PassRequest,
    Status,
)
from dbselect.linear.least_squares import signed_minimum
from dbselect.record.gram import Vector

#: Largest violation of the optimality conditions of a fit that has converged, in correlations;
#: usual are 1e-8.
LARGEST_VIOLATION = 1e-4


def fitted_under_signs(
    problem: GlmProblem, null: GlmFit, groups: Sequence[int], signs: Vector
) -> Fitting:
    """Fit groups under signs of their columns: 1, -1 or 0 for none; shape (D,)."""
    held = list(groups)
    state = problem.state(null.base, null.model, held)
    return (yield from _Signed(problem, held, None, null.base, null.model, state, signs).run())


@dataclass(eq=False)
class _Signed(NewtonRun):
    """Steps between coefficients that have their signs, of a model with one predictor."""

    signs: Vector

    def _next_step(self, secants: Sequence[Secant]) -> tuple[Coefficients, float]:
        problem = self.problem
        columns = problem.columns(self.held)
        used = 1 + columns[~problem.constant[columns]]
        if problem.has_intercept:
            used = np.append(0, used)
        ridge = np.append(0.0, problem.ridge)
        gradient, curvature = curvature_of(self.model, self.base, ridge, used, secants)
        here = flat(self.base)[used]
        target = gradient + curvature @ here
        step = signed_minimum(curvature, target, np.append(0.0, self.signs)[used]) - here
        decrease = max(float(2.0 * gradient @ step - step @ curvature @ step), 0.0)
        predicted = decrease * problem.weight / problem.null_deviance
        return unflat(step, used, self.base), predicted

    def _is_endless(self, step: Coefficients) -> Generator[PassRequest, Expansion, bool]:
        far = self.base.coef + FAR_OUT * step.coef
        if (self.signs[:, None] * far < 0.0).any():
            return False  # the signs end the way there
        return (yield from super()._is_endless(step))

    def _closed(self, step: Coefficients, predicted: float) -> Fitting:
        if predicted > ROUNDING_SHARE:
            point = Coefficients(self.base.intercept + step.intercept, self.base.coef + step.coef)
            model = yield PassRequest(point, self.columns, is_trial=True)
            rise = self._objective(point, model) - self._objective(self.base, self.model)
            if rise <= HIDDEN_SHARE * self.problem.null_deviance:
                self.base, self.model = point, model
        is_flat = self._violation <= LARGEST_VIOLATION
        return self.ended(Status.CONVERGED if is_flat else Status.STALLED)

    @property
    def _violation(self) -> float:
        problem, model = self.problem, self.model
        columns = problem.columns(self.held)
        columns = columns[~problem.constant[columns]]
        w, of_intercept = self.base.coef[columns, 0], model.corner @ model.start
        slopes = (model.gradient + model.follow.T @ of_intercept)[columns]
        slopes -= problem.ridge[columns] * w
        scale = problem.scale * math.sqrt(problem.bounded_weight or model.corner[0, 0])
        signs = self.signs[columns]
        wrong = np.where((w == 0.0) & (signs != 0.0), np.maximum(signs * slopes, 0.0), slopes)
        ends = of_intercept if problem.has_intercept else np.empty(0)
        largest = float(np.abs([*wrong, *ends]).max(initial=0.0))
        return largest / scale

    def ended(self, end: Coefficients | Status, predicted: float = 0.0) -> GlmFit:
        """Return the fit, whose state has the columns that are not 0."""
        fit, problem = super().ended(end, predicted), self.problem
        columns = problem.columns(self.held)
        zero = columns[self.base.coef[columns, 0] == 0.0].tolist()
        dependent = fit.dependent.intersection(j for j in zero if not self.signs[j])
        return replace(
            fit,
            state=problem.state(self.base, self.model, self.held, frozenset(zero)),
            dependent=dependent,
            violation=self._violation,
        )

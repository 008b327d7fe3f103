"""Criteria near a fit of a generalised linear model, by its gradient or a linear model."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dbselect.glm.newton import GlmFit, GlmProblem
from dbselect.linear.problem import Index, Linear
from dbselect.linear.state import by_size
from dbselect.record.gram import Matrix, Vector
from dbselect.selection.criteria import OnGlm, Rule


@dataclass(frozen=True, eq=False)
class Gradient:
    """The gradient of the deviance, in the form of a linear problem for the criteria."""

    problem: Linear  # of the correlations of the columns
    members: Sequence[Index]  # the columns of each of the J groups
    b: Matrix  # shape (P, D), a response for each predictor, the intercept minimised out
    apart: tuple[()] = ()

    @property
    def blocked(self) -> Iterator[tuple[Index, Index]]:
        """Groups and their columns, by size of the group."""
        return by_size(self.members)


def criterion_near(problem: GlmProblem, fit: GlmFit, rule: Rule) -> Vector:
    """Return the scores of the J groups by a rule without refits; O(D P) by the gradient."""
    near: Any = fit.state
    if rule.on_glm is OnGlm.GRADIENT:
        size = len(problem.unit)
        b = fit.state.b.reshape(size, problem.free).T
        linear = Linear(
            problem.correlation, b, problem.ridge, problem.unit, np.ones(size), problem.constant,
            np.zeros(size), 0.0, problem.scale,
        )  # fmt: skip
        near = Gradient(linear, problem.members, b)
    return rule.criterion(near)(near)

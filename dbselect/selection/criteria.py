"""Criteria of the rules, maximised per unit of cost, as shares of the target's variance.

    fr              gain(g | S)            = b_g' (C_gg|S)^-1 b_g
    omp             whitened gradient      = b_g' (G_gg)^-1 b_g
    omp-unwhitened  gradient               = b_g' b_g
    omp-single      its largest entry      = max_j b_gj^2

A criterion maps the state of a search to one number per group, summed over the responses;
omp-single takes the same column for all of them. `RULES` is the table of the rules.

Near a fit of a generalised linear model there are two linear problems: that of its gradient on the
correlations of the columns, X'X as the paper whitens, with a response for each predictor; and that
of its information, X'WX, whose exact gain is the score test (``omp-information`` whitens by it).
The gradient rules of several predictors do not depend on their basis, and so not on the names of
classes.

Source: Hu, Grubb, Bagnell, Hebert (2016), Algorithms 1 and 2, sections 2 and 5.5, appendix B.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any

import numpy as np

from dbselect.linear.bounds import gamma
from dbselect.linear.problem import EIGENVALUE_SHARE, Index, Linear, blocks_of, inverse_root
from dbselect.linear.state import LinearState, by_size
from dbselect.record.gram import Matrix, Vector
from dbselect.record.steps import ROUNDING_GAIN

#: State of the search -> one number per group.
Criterion = Callable[[Any], Vector]
#: A squared correlation below this is rounding: correlations err by some 1e-15.
ROUNDING_GRADIENT = 1e-15**2
#: A whitened squared gradient below this is rounding: whitening divides by an eigenvalue.
ROUNDING_WHITENED = ROUNDING_GRADIENT / EIGENVALUE_SHARE


def above(values: Matrix, rounding: float) -> Matrix:
    """Set values at rounding level to 0, so that they tie."""
    return np.asarray(np.where(values > rounding, values, 0.0))


def forward_regression(_: LinearState) -> Criterion:
    """CS-G-FR: the exact gain."""
    return lambda state: above(state.gains(), ROUNDING_GAIN)


def orthogonal_matching_pursuit(state: LinearState) -> Criterion:
    """CS-G-OMP: the gradient, whitened within the group."""
    whiteners = [
        (groups, columns, _whitened(state.problem, columns)) for groups, columns in state.blocked
    ]
    apart = state.apart

    def criterion(state: LinearState) -> Vector:
        scores = np.zeros(len(state.members))
        for groups, columns, root in whiteners:
            for b in state.b:
                white = np.einsum("bij,bi->bj", root, b[columns])
                scores[groups] += np.einsum("bj,bj->b", white, white)
        for group, levels in apart:
            scores[group] = sum(
                b[levels.columns] @ levels.solve(b[levels.columns]) for b in state.b
            )
        return above(scores, ROUNDING_WHITENED)

    return criterion


def unwhitened(state: LinearState) -> Criterion:
    """CS-G-OMP without whitening: the gradient as it is, in the caller's scaling."""
    return _of_gradient(state, lambda squares: squares.sum(axis=1))


def single(state: LinearState) -> Criterion:
    """CS-G-OMP by the best single column of each group."""
    return _of_gradient(state, lambda squares: squares.max(axis=1))


def _of_gradient(state: LinearState, summary: Callable[[Matrix], Vector]) -> Criterion:
    buckets = list(by_size(state.members))
    unit = state.problem.unit

    def criterion(state: LinearState) -> Vector:
        scores = np.zeros(len(state.members))
        # The ridge leaves a gradient to selected columns, which are no candidates.
        squares = above(state.b**2, ROUNDING_GRADIENT).sum(axis=0) * unit**2
        for groups, columns in buckets:
            scores[groups] = summary(squares[columns])
        return scores

    return criterion


def _exact(problem: Linear, columns: Index) -> Matrix:
    # A large ridge on a column of small unit must not make the others look like 0.
    deviation = problem.deviation[columns]
    blocks = blocks_of(problem, columns) / (deviation[:, :, None] * deviation[:, None, :])
    return np.asarray(inverse_root(blocks) / deviation[:, :, None])


def _whitened(problem: Linear, columns: Index) -> Matrix:
    return inverse_root(problem.blocks(columns))


def _plain(problem: Linear, columns: Index) -> Matrix:
    return problem.unit[columns][:, :, None] * np.eye(columns.shape[1])


def _gamma_of_single(problem: Linear, members: Sequence[Index]) -> float:
    """Return gamma divided by the largest size of a group, as one column scores each group."""
    return gamma(problem, members, _plain, _largest_variance) / max(map(len, members))


def _largest_variance(blocks: Matrix) -> float:
    return float(np.diagonal(blocks, axis1=1, axis2=2).max())


class OnGlm(Enum):
    """Ways in which a rule scores the groups of a generalised linear model."""

    REFITS = "a refit with every group"
    INFORMATION = "the criterion on the linear problem of the information"
    GRADIENT = "the criterion on the gradient over the correlations of the columns"


@dataclass(frozen=True)
class Rule:
    """A criterion, what it means for the guarantee, its other forms, and its cost limit."""

    criterion: Callable[[LinearState], Criterion]  # state -> criterion
    # problem, columns of each group -> the constant of Theorem 3.2
    gamma: Callable[[Linear, Sequence[Index]], float]
    # how it scores groups of a generalised linear model; None: it cannot
    on_glm: OnGlm | None = OnGlm.GRADIENT
    doubling: bool = False  # whether a step may at most double the cost (Algorithm 2)
    # whether the compiled library has the rule; otherwise many records are searched one by one
    compiled: bool = False


#: Rules by the name that users give. On a Gram the two linear problems are equal: ``score`` is the
#: exact gain and ``omp-information`` is ``omp``.
RULES = {
    "fr": Rule(forward_regression, partial(gamma, whitener=_exact), OnGlm.REFITS, compiled=True),
    "score": Rule(
        forward_regression, partial(gamma, whitener=_exact), OnGlm.INFORMATION, compiled=True
    ),
    "omp": Rule(orthogonal_matching_pursuit, partial(gamma, whitener=_whitened), compiled=True),
    "omp-information": Rule(
        orthogonal_matching_pursuit,
        partial(gamma, whitener=_whitened),
        OnGlm.INFORMATION,
        compiled=True,
    ),
    "omp-unwhitened": Rule(unwhitened, partial(gamma, whitener=_plain), compiled=True),
    "omp-single": Rule(single, _gamma_of_single, compiled=True),
    "doubling": Rule(
        forward_regression,
        partial(gamma, whitener=_exact),
        on_glm=None,
        doubling=True,
        compiled=True,
    ),
}


def rules_of_glm() -> list[str]:
    """Return the names of the rules that a generalised linear model has."""
    return [name for name, rule in RULES.items() if rule.on_glm is not None]

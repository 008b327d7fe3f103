"""Paths of penalised least squares: the lasso, the elastic net and their sparse groups.

    minimise  1/2 - c'w + 1/2 w'Gw + penalty P(w)
    P(w) = sum_g norm_g ||w_g|| + sum_j absolute_j |w_j| + 1/2 sum_g square_g ||w_g||^2

over falling penalties, each from the minimum at the one before. The lasso is that of groups of
one column each, the elastic net has their squares, too, the cost-weighted group lasso has
``norm_g = cost(g)``, and the sparse group lasso takes some of both.

All penalised groups are 0 from the largest *reach* of a group on, where the path starts: the
least t at which ``||S(b_g, t absolute_g)|| <= t norm_g``, S(b, a) = sign(b) max(|b| - a, 0),
b = c - Gw at the least squares of what is not penalised. Groups are ordered by the penalty at
which they are first not 0. Of those that enter at the same penalty, the one nearest to
entering at the penalty before goes first, by the reach of b = c - Gw: the first of all has the
largest, but on a grid so coarse that it is 0 again at the second penalty. Ties go to the group
named first.

The duality gap takes ``s r`` for the dual point, r the residual, of rows that the squares
prolong (``G + square`` in the place of G), and s the largest share <= 1 that is feasible:
1 / s is the largest reach at the penalty, at least 1. As ``y'r = r'r + b'w``, it is
``penalty (P without its squares) - s b'w + (1 - s)^2 r'r / 2``, which loses no digits. What is
not penalised has b = 0, up to `violation`.

Sources: Tibshirani (1996); Zou, Hastie (2005); Yuan, Lin (2006); Simon, Friedman, Hastie,
Tibshirani (2013); the baseline Sparse of Hu, Grubb, Bagnell, Hebert (2016), section 5.2; for
degrees of freedom Zou, Hastie, Tibshirani (2007), Tibshirani, Taylor (2012) and Vaiter,
Deledalle, Fadili, Peyre, Dossal (2017), Annals of the Institute of Statistical Mathematics 69.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from dbselect.linear.condition import CONDITION_LIMIT
from dbselect.linear.problem import RANK_SHARE, Index, Linear
from dbselect.record.gram import Matrix, Vector
from dbselect.selection.penalised.group_norms import EPS, Penalty, Quadratic, hessian, minimise
from dbselect.selection.ties import Mask, first_of_the_best

#: Steps to a reach, which rise to it, quadratically: the last ones change nothing.
REACH_STEPS = 60
#: No gradient of a correlation is beyond it: so much of a penalty keeps all at 0.
OUT_OF_REACH = 2.0
#: Added to a Hessian without an inverse, as a share of the columns' variances: a thousand times
#: the rounding of G, and what it takes from degrees of freedom is below the sixth digit.
LEAST_CURVATURE = 1e-12


@dataclass(frozen=True, eq=False)
class Path:
    """The minimum at each of L penalties.

    Parameters
    ----------
    quadratic, weights : what is minimised; `weights` is the penalty at 1
    penalties : shape (L,), falling
    w : shape (L, D), in the unit of the problem
    coef : shape (L, D), on unit-variance columns
    lengths : shape (L, J), ||w_g|| in the unit of the problem
    r2 : shape (L,), 1 - RSS/TSS
    gap : shape (L,), duality gaps: how far at most from the minimum, the target having
        variance 1
    violation : shape (L,), how far at most a group is from its optimality condition, in
        correlations
    entered : numbers of the groups that are ever not 0, in the order of entry
    entered_at : for each of these, the number of the first penalty at which it is not 0
    """

    quadratic: Quadratic
    weights: Penalty
    penalties: Vector
    w: Matrix
    coef: Matrix
    lengths: Matrix
    r2: Vector
    gap: Vector
    violation: Vector
    entered: list[int]
    entered_at: list[int]

    def condition(self) -> float:
        """Return the largest condition number at any penalty: what rounding does to coefficients.

        O(D^3) for those that are ever not 0, and where these are nearly dependent at each penalty.
        """
        nothing = self.weights * 0.0
        ever = _condition(self.quadratic, nothing, np.abs(self.w).max(axis=0))
        if ever <= CONDITION_LIMIT:
            return ever
        return max(
            _condition(self.quadratic, self.weights * penalty, w)
            for penalty, w in zip(self.penalties.tolist(), self.w, strict=True)
        )

    def degrees(self) -> Vector:
        """Return the degrees of freedom at each penalty, without the intercept; shape (L,).

        ``tr(G_SS (G_SS + penalty P''(w))^-1)`` on the columns S that are not 0: of the lasso the
        rank of those. O(|S|^3) each.
        """
        return np.array(
            [
                _degrees(self.quadratic, self.weights * penalty, w)
                for penalty, w in zip(self.penalties.tolist(), self.w, strict=True)
            ]
        )


def path(
    problem: Linear,
    members: Sequence[Index],
    weights: Penalty,
    penalties: Vector | None,
    *,
    n_lambda: int,
    lambda_min_ratio: float,
    turn: Callable[[], object] = lambda: None,
) -> Path:
    """Return the path over falling penalties.

    Parameters
    ----------
    problem : Linear; norms are taken in its `unit`
    members : columns of each of the J groups, which follow one another
    weights : what a penalty of 1 is
    penalties : shape (L,), falling; None for a geometric grid
    n_lambda : of the grid, >= 2
    lambda_min_ratio : in (0, 1), its last penalty as a share of the first
    turn : is called after each penalty

    Notes
    -----
    Some six Newton steps a penalty, O(|S|^3 / 3) each for |S| columns that are not 0;
    24 D^2 bytes, less 8 where the unit is 1.
    """
    scaled = bool((problem.unit == 1.0).all())
    G = problem.G if scaled else problem.G * problem.unit * problem.unit[:, None]
    quadratic = Quadratic(G, problem.c * problem.unit, members)
    before = _unpenalised(quadratic, weights)
    first = float(reach(quadratic, quadratic.residual(before, weights * 0.0), weights).max())
    if penalties is None:
        penalties = first * np.geomspace(1.0, lambda_min_ratio, n_lambda)
    w = np.empty((len(penalties), len(quadratic.c)))
    for i, penalty in enumerate(penalties.tolist()):
        w[i] = before if penalty >= first else minimise(quadratic, weights * penalty, before)
        before = w[i]
        turn()
    return _measured(problem, quadratic, weights, penalties, w)


def _measured(
    problem: Linear, quadratic: Quadratic, weights: Penalty, penalties: Vector, w: Matrix
) -> Path:
    """Return a path of coefficients with its diagnostics."""
    square = penalties[:, None] * weights.square[quadratic.owner]
    b = quadratic.c - w @ quadratic.G - square * w
    lengths = quadratic.norms(w)
    # Of the rows that the squares prolong, and of the others.
    rss = np.maximum(1.0 - np.einsum("ij,ij->i", quadratic.c + b, w), 0.0)
    own = np.maximum(rss - np.einsum("ij,ij->i", square * w, w), 0.0)
    nearness = reach(quadratic, b, weights)
    penalised = lengths @ weights.norm + np.abs(w) @ weights.absolute
    furthest = nearness.max(axis=1)
    beyond = furthest > penalties
    share = np.divide(penalties, furthest, out=np.ones_like(penalties), where=beyond)
    bw = np.einsum("ij,ij->i", b * _penalised(quadratic, weights), w)
    gap = penalties * penalised - share * bw + (1.0 - share) ** 2 * rss / 2
    inside, beyond_it = quadratic.violations(w, b, weights * penalties[:, None])
    entered, entered_at = _entries(lengths > 0, nearness)
    return Path(
        quadratic=quadratic,
        weights=weights,
        penalties=penalties,
        w=w,
        coef=w * problem.unit,
        lengths=lengths,
        r2=1.0 - own,
        # Rounding may leave a gap of nothing just below 0.
        gap=np.maximum(gap, 0.0),
        violation=np.maximum(inside, beyond_it).max(axis=1),
        entered=entered,
        entered_at=entered_at,
    )


def reach(quadratic: Quadratic, b: Vector, weights: Penalty) -> Vector:
    """Return the least penalty at which each group would be 0, given its gradient b.

    Parameters
    ----------
    b : shape (..., D)

    Returns
    -------
    shape (..., J); 0 of what is not penalised

    Notes
    -----
    ``||S(b_g, t absolute_g)|| - t norm_g`` falls with t and is convex, so Newton steps from 0
    rise to its root and need no safeguard.
    """
    starts, owner = quadratic.starts, quadratic.owner
    size = np.abs(b) * _penalised(quadratic, weights)
    t = np.zeros((*size.shape[:-1], len(starts)))
    for _ in range(REACH_STEPS):
        left = np.maximum(size - t[..., owner] * weights.absolute, 0.0)
        norms = quadratic.norms(left)
        fall = np.add.reduceat(left * weights.absolute, starts, axis=-1)
        fall = np.divide(fall, norms, out=np.zeros_like(fall), where=norms > 0) + weights.norm
        height = norms - t * weights.norm
        step = np.divide(height, fall, out=np.zeros_like(t), where=(fall > 0) & (height > 0))
        if not (t + step > t).any():
            break
        t = t + step
    return np.asarray(t)


def _penalised(quadratic: Quadratic, weights: Penalty) -> Mask:
    """Whether a column can be held at 0; shape (D,)."""
    return np.asarray((weights.norm[quadratic.owner] > 0) | (weights.absolute > 0))


def _unpenalised(quadratic: Quadratic, weights: Penalty) -> Vector:
    """Return the least squares of the columns that are not penalised, the others 0; shape (D,)."""
    nothing = np.zeros(len(quadratic.c))
    free = ~_penalised(quadratic, weights)
    if not free.any():
        return nothing
    absolute = np.where(free, 0.0, OUT_OF_REACH * quadratic.magnitude[quadratic.owner])
    return minimise(quadratic, Penalty(0.0 * weights.norm, absolute, 0.0 * weights.norm), nothing)


def _degrees(quadratic: Quadratic, penalty: Penalty, w: Vector) -> float:
    at = np.flatnonzero(quadratic.support(w, penalty))
    if not len(at):
        return 0.0
    G = quadratic.G[np.ix_(at, at)]
    H, _ = hessian(quadratic, penalty, w, at)
    variances = np.diagonal(G)
    if not H.any():
        unit = 1.0 / np.sqrt(np.where(variances > 0, variances, 1.0))
        rank = lapack.dpstrf(G * unit * unit[:, None], lower=1, tol=RANK_SHARE)[2]
        return float(rank)
    H += G
    H.flat[:: len(H) + 1] += LEAST_CURVATURE * variances
    _, solved, failed = lapack.dposv(H, G, lower=1)
    return np.nan if failed else float(np.trace(solved))


def _condition(quadratic: Quadratic, penalty: Penalty, w: Vector) -> float:
    """Return by how much the errors of G are enlarged in the columns that are not 0.

    The largest eigenvalue of their G over the least of the Hessian, on columns of unit variance
    of which none depends on the others.
    """
    at = np.flatnonzero(quadratic.support(w, penalty))
    if not len(at):
        return 1.0
    G = quadratic.G[np.ix_(at, at)]
    unit = 1.0 / np.sqrt(np.diagonal(G))
    H = (G + hessian(quadratic, penalty, w, at)[0]) * unit * unit[:, None]
    _, pivots, rank, _ = lapack.dpstrf(H, lower=1, tol=RANK_SHARE)
    kept = np.ix_(pivots[:rank] - 1, pivots[:rank] - 1)
    largest = np.linalg.eigvalsh((G * unit * unit[:, None])[kept])[-1]
    least = max(np.linalg.eigvalsh(H[kept])[0], EPS)
    return float(largest / least)


def _entries(held: Mask, nearness: Matrix) -> tuple[list[int], list[int]]:
    """Return the groups in the order of entry, and where each of them enters."""
    entered: list[int] = []
    entered_at: list[int] = []
    for i in range(len(held)):
        entering = held[i] & ~held[:i].any(axis=0)
        while entering.any():
            entered.append(first_of_the_best(nearness[max(i - 1, 0)], entering))
            entered_at.append(i)
            entering[entered[-1]] = False
    return entered, entered_at

"""Minimise a quadratic plus penalties on groups and columns, down to rounding.

    1/2 w'Gw - c'w + sum_g norm_g ||w_g|| + sum_j absolute_j |w_j| + 1/2 sum_g square_g ||w_g||^2

    b = c - Gw - square w                        S(b, a) = sign(b) max(|b| - a, 0)
    optimal:  b_j = norm_g w_j / ||w_g|| + absolute_j sign(w_j)     where w_j != 0
              |b_j| <= absolute_j                                   where only w_j = 0
              ||S(b_g, absolute_g)|| <= norm_g                      where w_g = 0

    until that holds:
        if what is 0 violates it by far the most:
            descend in each of those groups, one after another
        else:
            a Newton step on all columns that are not 0, as far along it as is best;
            descend in each group that it took towards 0

Where no column is 0 the objective is smooth, so Newton steps converge quadratically. Without
`absolute` the minimum over one group is exact and may be 0: with G_gg + square = Q diag(e) Q'
and p = Q'(b_g + (G_gg + square) w_g), it is ``w_g = Q (r p / (e r + norm))`` at the length r
that solves ``||p / (e r + norm)|| = 1``, if ``||p|| > norm``. With `absolute` it has no closed
form: a group that must be 0 is set to 0, and in others proximal gradient steps find which
columns are not. Where a Newton step fails, all groups that are not 0 descend: block coordinate
descent, which converges on its own, only more slowly. No step raises the objective by more
than rounding.

A Newton step is O(|S|^3 / 3) for |S| columns that are not 0, a descent in a group of s
columns O(D s). Memory: a copy of G_SS.

Sources: Qin, Scheinberg, Goldfarb (2013), BCD-GL, for the minimum over one group; Simon,
Friedman, Hastie, Tibshirani (2013) for the sparse group lasso and its proximal steps;
Li, Fukushima, Qi, Yamashita (2004) for the damping of Newton steps by the gradient.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy.linalg import blas, lapack
from scipy.optimize import brentq

from dbselect.linear.problem import EIGENVALUE_SHARE, Index
from dbselect.record.gram import Matrix, Vector
from dbselect.selection.ties import Mask, first_of_the_best

#: Violations below this, in correlations, count as none: three digits below what callers
#: are promised, and above the rounding of b with coefficients up to 1e4.
OPTIMAL = 1e-11
#: Groups enter once the others violate by less than this share of what those do.
ENTRY_SHARE = 0.1
#: A group that a Newton step shortens to below this share may have to be 0.
SHORTENED = 0.5
#: What the bracket of the best share of a step leaves of a column that is 0 there, as a share of
#: the step.
AT_ZERO = 1e-14
#: Damping of a Newton step as a share of the columns' variances: so much times the
#: violation, which is 0 at the optimum, and a floor for dependent columns, above the
#: rounding of G.
DAMPING, DAMPING_FLOOR = 1e-3, 1e-12
#: Limit on steps; a dozen is usual.
MAX_STEPS = 200
#: Limit on steps to the length of one group, which rise to it; six are usual.
MAX_LENGTH_STEPS = 50
#: Proximal steps in a group whose columns are penalised, too: enough to find which are 0;
#: Newton steps do the rest.
PROXIMAL_STEPS = 10
EPS = np.finfo(np.float64).eps
#: The eigenvectors of a group of one column.
ONE = np.ones((1, 1))


@dataclass(frozen=True, eq=False)
class Penalty:
    """What is added to the quadratic, >= 0 throughout; for L penalties with an axis before.

    Parameters
    ----------
    norm : shape (J,), on the norm of each group
    absolute : shape (D,), on the absolute value of each column
    square : shape (J,), on half the square of each group's norm
    """

    norm: Vector
    absolute: Vector
    square: Vector

    def __mul__(self, factor: float | Matrix) -> "Penalty":
        return Penalty(self.norm * factor, self.absolute * factor, self.square * factor)


class Quadratic:
    """``1/2 w'Gw - c'w`` and groups of columns: what no penalty changes.

    Parameters
    ----------
    G : shape (D, D), positive semidefinite
    c : shape (D,), in the range of G
    members : columns of each of the J groups, which follow one another
    """

    def __init__(self, G: Matrix, c: Vector, members: Sequence[Index]) -> None:
        self.G, self.c = G, c
        self.sizes = np.array([len(columns) for columns in members])
        self.starts = np.cumsum(self.sizes) - self.sizes
        self.owner = np.repeat(np.arange(len(members)), self.sizes)
        # |b_j| is at most the deviation of column j: violations are shares of that.
        deviation = np.sqrt(np.maximum.reduceat(np.diagonal(G), self.starts))
        self.magnitude = np.where(deviation > 0, deviation, 1.0)
        self._varies = np.diagonal(G) > 0
        self._spectra = [
            scipy.linalg.eigh(G[np.ix_(columns, columns)], check_finite=False)
            if len(columns) > 1
            else (G[columns, columns], ONE)
            for columns in members
        ]

    def norms(self, w: Vector) -> Vector:
        """Return ||w_g|| of each group, along the last axis."""
        return np.sqrt(np.add.reduceat(w * w, self.starts, axis=-1))

    def residual(self, w: Vector, penalty: Penalty) -> Vector:
        """Return ``b = c - Gw - square w``."""
        b = blas.dgemv(-1.0, self.G.T, w, 1.0, self.c)
        return np.asarray(b - penalty.square[self.owner] * w)

    def support(self, w: Vector, penalty: Penalty) -> Mask:
        """Whether a column is not 0, or would not be but by chance, as its group is not.

        A constant column is 0 whatever the others are.
        """
        held = (self.norms(w) > 0)[..., self.owner]
        return np.asarray(((w != 0) | (held & (penalty.absolute == 0))) & self._varies)

    def violations(self, w: Vector, b: Vector, penalty: Penalty) -> tuple[Vector, Vector]:
        """Return how far each group is from optimal, in its support and beyond; shape (..., J)."""
        norms = self.norms(w)
        held = norms > 0
        support = (w != 0) | (held[..., self.owner] & (penalty.absolute == 0))
        left = b - (penalty.norm / np.where(held, norms, 1.0))[..., self.owner] * w
        left = np.where(support, left - penalty.absolute * np.sign(w), shrunk(left, penalty))
        inside = self.norms(np.where(support, left, 0.0))
        beyond = self.norms(np.where(support, 0.0, left))
        beyond = np.where(held, beyond, np.maximum(beyond - penalty.norm, 0.0))
        return inside / self.magnitude, beyond / self.magnitude

    def descend(self, groups: Iterable[int], penalty: Penalty, w: Vector, b: Vector) -> None:
        """Minimise over some groups, one after another; w and b change in place.

        Where columns are penalised, too, some steps towards the minimum are taken.
        """
        for group in groups:
            start = self.starts[group]
            at = slice(start, start + self.sizes[group])
            values, vectors = self._spectra[group]
            square = penalty.square[group]
            values = np.maximum(values, 0.0) + square
            before = w[at].copy()
            absolute = penalty.absolute[at]
            least = penalty.norm[group] + OPTIMAL * self.magnitude[group]
            if absolute.any():
                block = self.G[at, at] + square * np.eye(len(before))
                p = b[at] + block @ before
                s = np.abs(p) - absolute
                w[at] = 0.0
                if np.linalg.norm(np.maximum(s, 0.0)) > least:
                    norm = penalty.norm[group]
                    w[at] = _proximal(block, values[-1], p, absolute, norm, before)
            else:
                p = blas.dgemv(1.0, vectors, b[at], trans=1)
                p += values * blas.dgemv(1.0, vectors, before, trans=1)
                w[at] = 0.0
                if np.sqrt(p @ p) > least:
                    w[at] = blas.dgemv(1.0, vectors, _minimum(values, p, penalty.norm[group]))
            change = w[at] - before
            if change.any():
                b -= blas.dgemv(1.0, self.G[at].T, change)
                b[at] -= square * change


def shrunk(b: Vector, penalty: Penalty) -> Vector:
    """Return ``S(b, absolute)``, along the last axis."""
    return np.asarray(np.sign(b) * np.maximum(np.abs(b) - penalty.absolute, 0.0))


def minimise(quadratic: Quadratic, penalty: Penalty, w: Vector) -> Vector:
    """Return the w that minimises the quadratic and a penalty.

    Parameters
    ----------
    w : shape (D,), where to start; the nearer, the fewer steps

    Returns
    -------
    shape (D,); optimal to ``OPTIMAL``, unless rounding keeps it from that
    """
    w = w.copy()
    for _ in range(MAX_STEPS):
        b = quadratic.residual(w, penalty)
        inside, beyond = quadratic.violations(w, b, penalty)
        worst = max(inside.max(), beyond.max())
        if worst <= OPTIMAL:
            break
        if inside.max() <= ENTRY_SHARE * worst:
            quadratic.descend(_by_size(beyond, beyond > OPTIMAL), penalty, w, b)
        else:
            damping = max(DAMPING * inside.max(), DAMPING_FLOOR)
            _newton_step(quadratic, penalty, w, b, damping)
    return w


def _by_size(violation: Vector, entering: Mask) -> list[int]:
    """Return groups by falling violation; those that tie in their own order."""
    order = []
    while entering.any():
        order.append(first_of_the_best(violation, entering))
        entering[order[-1]] = False
    return order


def hessian(quadratic: Quadratic, penalty: Penalty, w: Vector, at: Index) -> tuple[Matrix, Vector]:
    """Return the Hessian of the penalty on the support, and ``norm / ||w_g||`` of each column.

    That of ``norm ||w_g||`` is ``norm (I / ||w_g|| - w_g w_g' / ||w_g||^3)``.

    Parameters
    ----------
    at : the s columns of the support

    Returns
    -------
    shapes (s, s) and (s,)
    """
    owner = quadratic.owner[at]
    norm = quadratic.norms(w)[owner]
    curvature = penalty.norm[owner] / norm
    H = np.zeros((len(at), len(at)))
    H.flat[:: len(H) + 1] = penalty.square[owner]
    starts = _starts(owner)
    sizes = np.diff(starts, append=len(at))
    along = w[at] * np.sqrt(curvature) / norm
    # Of one column alone the norm has no curvature.
    for size in np.unique(sizes[sizes > 1]):
        columns = starts[sizes == size][:, None] + np.arange(size)
        rows = along[columns]
        H[columns[:, :, None], columns[:, None, :]] -= rows[:, :, None] * rows[:, None, :]
        H[columns, columns] += curvature[columns]
    return H, curvature


def _starts(owner: Index) -> Index:
    """Return where each group begins among columns that come group by group."""
    return np.flatnonzero(np.diff(owner, prepend=-1))


def _newton_step(
    quadratic: Quadratic, penalty: Penalty, w: Vector, b: Vector, damping: float
) -> None:
    """Take a step to the minimum of the second-order model; w and b change in place."""
    at = np.flatnonzero(quadratic.support(w, penalty))
    H, curvature = hessian(quadratic, penalty, w, at)
    H += quadratic.G[np.ix_(at, at)]
    H.flat[:: len(H) + 1] += damping * np.diagonal(quadratic.G)[at]
    own, absolute, owner = w[at], penalty.absolute[at], quadratic.owner[at]
    _, step, failed = lapack.dposv(
        H.T, b[at] - curvature * own - absolute * np.sign(own), overwrite_a=1
    )

    direction = np.zeros_like(w)
    direction[at] = step
    change = blas.dgemv(1.0, quadratic.G.T, direction) + penalty.square[quadratic.owner] * direction
    slope, second = b @ direction, change @ direction
    starts = _starts(owner)
    groups = owner[starts]
    limit = penalty.norm[groups]
    ww, wd, dd = (np.add.reduceat(x, starts) for x in (own * own, own * step, step * step))

    def rise(share: float) -> float:
        """Return the derivative of the objective along the step."""
        lengths = np.sqrt(np.maximum(ww + share * (2.0 * wd + share * dd), EPS**2 * ww))
        found = share * second - slope + limit @ ((wd + share * dd) / lengths)
        return float(found + (absolute * np.sign(own + share * step)) @ step)

    if failed or not rise(0.0) < 0:
        quadratic.descend(groups, penalty, w, b)
        return
    # The derivative jumps where a column passes 0: a bracket, no Newton.
    share = 1.0 if rise(1.0) <= 0 else brentq(rise, 0.0, 1.0, xtol=EPS, disp=False)
    w[at] += share * step
    b -= share * change
    # Least where the derivative jumps: a column is 0 there, which rounding must not keep in.
    at_zero = (absolute > 0) & (np.abs(w[at]) <= AT_ZERO * (np.abs(own) + np.abs(step)))
    w[at[at_zero]] = 0.0
    shorter = (np.abs(w[at]) < SHORTENED * np.abs(own)) & (absolute > 0) & ~at_zero
    shorter = np.logical_or.reduceat(shorter, starts)
    shorter |= quadratic.norms(w)[groups] < SHORTENED * np.sqrt(ww)
    quadratic.descend(groups[shorter], penalty, w, b)


def _proximal(
    block: Matrix, largest: float, p: Vector, absolute: Vector, norm: float, w: Vector
) -> Vector:
    """Take proximal gradient steps from w in one group that must not be 0.

    Parameters
    ----------
    block : shape (s, s), G_gg + square
    largest : its largest eigenvalue
    p : shape (s,), the gradient where the group is 0
    """
    for _ in range(PROXIMAL_STEPS):
        u = w + (p - block @ w) / largest
        u = np.sign(u) * np.maximum(np.abs(u) - absolute / largest, 0.0)
        length = float(np.linalg.norm(u))
        w = u * max(1.0 - norm / largest / length, 0.0) if length > 0 else u
    return w


def _minimum(values: Vector, p: Vector, norm: float) -> Vector:
    """Return the minimum over one group that is not 0, in the basis of its eigenvectors."""
    if norm == 0:
        kept = values > EIGENVALUE_SHARE * values[-1]
        return np.divide(p, values, out=np.zeros_like(p), where=kept)
    length = _length(values, p, norm)
    return np.asarray(length * p / (values * length + norm))


def _length(values: Vector, p: Vector, limit: float) -> float:
    """Return the r with ``||p / (values r + limit)|| = 1``, given ``||p|| > limit``.

    ``1 / ||p / (values r + limit)||`` is concave in r, a mean of linear functions, so
    Newton steps from 0 rise to the root and need no safeguard.
    """
    length = 0.0
    for _ in range(MAX_LENGTH_STEPS):
        scale = values * length + limit
        squares = (p / scale) ** 2
        norm = np.sqrt(squares.sum())
        fall = squares @ (values / scale)
        if not fall > 0:
            break
        step = (norm - 1.0) * norm**2 / fall
        if not step > 4 * EPS * length:
            break
        length += step
    return float(length)

"""Minimise a quadratic plus norms of groups of columns, down to rounding.

    1/2 w'Gw - c'w + sum_g limit_g ||w_g||                  b = c - Gw
    optimal:  b_g = limit_g w_g / ||w_g||  where w_g != 0;  ||b_g|| <= limit_g elsewhere

    until that holds:
        if the groups at 0 violate it by far the most:
            minimise over each of them, one after another
        else:
            a Newton step on all groups that are not 0, as far along it as is best;
            minimise over each group that it took towards 0

Where no group is 0 the objective is smooth, so Newton steps converge quadratically. The
minimum over one group is exact and may be 0: with G_gg = Q diag(e) Q' and
p = Q'(b_g + G_gg w_g), it is ``w_g = Q (r p / (e r + limit_g))`` at the length r that
solves ``||p / (e r + limit_g)|| = 1``, if ``||p|| > limit_g``. Where a Newton step fails,
all groups that are not 0 are minimised over: block coordinate descent, which converges
on its own, only more slowly. No step raises the objective by more than rounding.

A Newton step is O(|S|^3 / 3) for |S| columns that are not 0, a minimum over a group of s
columns O(D s). Memory: a copy of G_SS.

Sources: Qin, Scheinberg, Goldfarb (2013), BCD-GL, for the minimum over one group;
Li, Fukushima, Qi, Yamashita (2004) for the damping of Newton steps by the gradient.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import scipy.linalg
from scipy.linalg import blas, lapack
from scipy.optimize import brentq

from dbselect.linear.problem import Index
from dbselect.record.gram import Matrix, Vector
from dbselect.selection.ties import first_of_the_best

#: Violations below this, in correlations, count as none: three digits below what callers
#: are promised, and above the rounding of b with coefficients up to 1e4.
OPTIMAL = 1e-11
#: Groups enter once the others violate by less than this share of what those do.
ENTRY_SHARE = 0.1
#: A group that a Newton step shortens to below this share may have to be 0.
SHORTENED = 0.5
#: Damping of a Newton step as a share of the columns' variances: so much times the
#: violation, which is 0 at the optimum, and a floor for dependent columns, above the
#: rounding of G.
DAMPING, DAMPING_FLOOR = 1e-3, 1e-12
#: Limit on steps; a dozen is usual.
MAX_STEPS = 200
#: Limit on steps to the length of one group, which rise to it; six are usual.
MAX_LENGTH_STEPS = 50
EPS = np.finfo(np.float64).eps


class Quadratic:
    """``1/2 w'Gw - c'w`` and groups of columns: what no limit changes.

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
        self._spectra = [
            scipy.linalg.eigh(G[np.ix_(columns, columns)], check_finite=False)
            for columns in members
        ]

    def norms(self, w: Vector) -> Vector:
        """Return ||w_g|| of each group, along the last axis."""
        return np.sqrt(np.add.reduceat(w * w, self.starts, axis=-1))

    def residual(self, w: Vector) -> Vector:
        """Return ``b = c - Gw``."""
        return np.asarray(blas.dgemv(-1.0, self.G.T, w, 1.0, self.c))

    def violation(self, w: Vector, b: Vector, limits: Vector) -> Vector:
        """Return how far each group is from its optimality condition; shape (J,)."""
        norms = self.norms(w)
        ratio = limits / np.where(norms > 0, norms, 1.0)
        distance = self.norms(b - ratio[self.owner] * w)
        beyond = np.where(norms > 0, distance, np.maximum(distance - limits, 0.0))
        return np.asarray(beyond / self.magnitude)

    def descend(self, groups: Iterable[int], limits: Vector, w: Vector, b: Vector) -> None:
        """Minimise over some groups, one after another; w and b change in place."""
        for group in groups:
            start = self.starts[group]
            at = slice(start, start + self.sizes[group])
            values, vectors = self._spectra[group]
            values = np.maximum(values, 0.0)
            before = w[at].copy()
            p = blas.dgemv(1.0, vectors, b[at], trans=1)
            p += values * blas.dgemv(1.0, vectors, before, trans=1)
            limit = limits[group]
            w[at] = 0.0
            if np.sqrt(p @ p) > limit + OPTIMAL * self.magnitude[group]:
                length = _length(values, p, limit)
                w[at] = blas.dgemv(1.0, vectors, length * p / (values * length + limit))
            change = w[at] - before
            if change.any():
                b -= blas.dgemv(1.0, self.G[at].T, change)


def minimise(quadratic: Quadratic, limits: Vector, w: Vector) -> Vector:
    """Return the w that minimises ``1/2 w'Gw - c'w + sum_g limit_g ||w_g||``.

    Parameters
    ----------
    limits : shape (J,), > 0
    w : shape (D,), where to start; the nearer, the fewer steps

    Returns
    -------
    shape (D,); optimal to ``OPTIMAL``, unless rounding keeps it from that
    """
    w = w.copy()
    for _ in range(MAX_STEPS):
        b = quadratic.residual(w)
        violation = quadratic.violation(w, b, limits)
        if violation.max() <= OPTIMAL:
            break
        held = quadratic.norms(w) > 0
        inside = violation[held].max(initial=0.0)
        if inside <= ENTRY_SHARE * violation.max():
            entering = ~held & (violation > OPTIMAL)
            quadratic.descend(_by_size(violation, entering), limits, w, b)
        else:
            _newton_step(quadratic, limits, w, b, max(DAMPING * inside, DAMPING_FLOOR))
    return w


def _by_size(violation: Vector, entering: npt.NDArray[np.bool_]) -> list[int]:
    """Return groups by falling violation; those that tie in their own order."""
    order = []
    while entering.any():
        order.append(first_of_the_best(violation, entering))
        entering[order[-1]] = False
    return order


def _newton_step(
    quadratic: Quadratic, limits: Vector, w: Vector, b: Vector, damping: float
) -> None:
    """Take a step to the minimum of the second-order model; w and b change in place.

    The Hessian of ``limit ||w_g||`` is ``limit (I / ||w_g|| - w_g w_g' / ||w_g||^3)``.
    """
    norms = quadratic.norms(w)
    groups = np.flatnonzero(norms)
    at = np.flatnonzero(norms[quadratic.owner])
    sizes = quadratic.sizes[groups]
    starts = np.cumsum(sizes) - sizes
    limit, norm, own = limits[groups], norms[groups], w[at]

    curvature = np.repeat(limit / norm, sizes)
    H = quadratic.G[np.ix_(at, at)]
    along = own * np.repeat(np.sqrt(limit / norm**3), sizes)
    for size in np.unique(sizes):
        columns = starts[sizes == size][:, None] + np.arange(size)
        rows = along[columns]
        H[columns[:, :, None], columns[:, None, :]] -= rows[:, :, None] * rows[:, None, :]
    H.flat[:: len(H) + 1] += curvature + damping * np.diagonal(quadratic.G)[at]
    _, step, failed = lapack.dposv(H.T, b[at] - curvature * own, overwrite_a=1)

    direction = np.zeros_like(w)
    direction[at] = step
    change = blas.dgemv(1.0, quadratic.G.T, direction)
    slope, second = b @ direction, change @ direction
    ww, wd, dd = (np.add.reduceat(x, starts) for x in (own * own, own * step, step * step))

    def rise(share: float) -> float:
        """Return the derivative of the objective along the step."""
        lengths = np.sqrt(np.maximum(ww + share * (2.0 * wd + share * dd), EPS**2 * ww))
        return float(share * second - slope + limit @ ((wd + share * dd) / lengths))

    if failed or not rise(0.0) < 0:
        quadratic.descend(groups, limits, w, b)
        return
    # The derivative jumps where a group of one column passes 0: a bracket, no Newton.
    share = 1.0 if rise(1.0) <= 0 else brentq(rise, 0.0, 1.0, xtol=EPS, disp=False)
    w[at] += share * step
    b -= share * change
    shortened = quadratic.norms(w)[groups] < SHORTENED * norm
    quadratic.descend(groups[shortened], limits, w, b)


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

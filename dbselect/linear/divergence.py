"""How far one Gaussian is from another, by their means and covariances.

With a and b the mean and covariance of k columns in two sets of rows, in nats::

    KL(b | a) = 1/2 d' A^-1 d  +  1/2 (tr A^-1 B - k - ln det A^-1 B)        d = b's mean - a's
                location          spread

the mean of ln p_b / p_a over rows of b, were both Gaussian. Directions in which neither has any
spread are left out; a direction that only one has makes an infinite distance. Each is asked in
units of its own deviations, as a column may spread a million times as much in one as in the other.

Source: Kullback (1959), Information Theory and Statistics, chapter 9, section 1.
"""

import numpy as np
from scipy.linalg import lapack, solve_triangular

from dbselect.record.gram import Matrix, Vector

#: Share of the largest eigenvalue of a correlation below which a direction has no spread:
#: rounding leaves about 1e-15 of k columns, and a direction of 1e-10 has four digits left.
NO_SPREAD = 1e-10


def gaussian_divergence(shift: Vector, A: Matrix, B: Matrix) -> tuple[float, float]:
    """Return location and spread of KL(b | a) in nats; `shift` is b's mean less that of a."""
    a, b = np.sqrt(np.diagonal(A)), np.sqrt(np.diagonal(B))
    steady = (a == 0) & (b == 0)
    if steady.any() and (shift[steady] != 0).any():
        return np.inf, 0.0
    kept = np.flatnonzero(~steady)
    if not len(kept):
        return 0.0, 0.0
    # Of a column that is constant in one, the spread in the other is its unit.
    a, b = np.where(a > 0, a, b)[kept], np.where(b > 0, b, a)[kept]
    A, B = A[np.ix_(kept, kept)] / a / a[:, None], B[np.ix_(kept, kept)] / b / b[:, None]
    step, ratio = shift[kept] / a, b / a
    flat, other = _flat(A), _flat(B)
    far = (flat.T @ step) ** 2 > NO_SPREAD * max(float(step @ step), 1.0)
    location = np.inf if far.any() else 0.0
    # Where both have the same flat directions, the same columns determine the others.
    _, pivots, _, _ = lapack.dpstrf(A, lower=1, tol=0.0)
    chosen = pivots[: len(A) - flat.shape[1]] - 1
    own = np.ix_(chosen, chosen)
    root = np.linalg.cholesky(A[own])
    location += 0.5 * float(np.square(solve_triangular(root, step[chosen], lower=True)).sum())
    is_same = flat.shape == other.shape
    if not is_same or _has_spread(B, flat, ratio) or _has_spread(A, other, 1.0 / ratio):
        return location, np.inf
    after = np.linalg.cholesky(B[own])
    R = solve_triangular(root, ratio[chosen, None] * after, lower=True)
    logs = np.log(ratio[chosen]) + np.log(np.diagonal(after) / np.diagonal(root))
    return location, 0.5 * float(np.square(R).sum() - len(chosen)) - float(logs.sum())


def _flat(R: Matrix) -> Matrix:
    """Return the directions in which correlated columns have no spread; shape (k, flat)."""
    values, directions = np.linalg.eigh(R)
    return np.asarray(directions[:, values <= NO_SPREAD * max(values[-1], 1.0)])


def _has_spread(R: Matrix, flat: Matrix, ratio: Vector) -> bool:
    """Whether columns have spread where others are flat; `ratio` is of their units."""
    largest = max(float(np.linalg.eigvalsh(R)[-1]), 1.0)
    has_spread = np.ones(flat.shape[1], dtype=bool)
    for least in (0.0, np.sqrt(NO_SPREAD)):
        directions = np.where(np.abs(flat) > least, flat, 0.0) * ratio[:, None]
        directions /= np.linalg.norm(directions, axis=0)
        spread = np.einsum("ij,ik,kj->j", directions, R, directions)
        has_spread &= spread > NO_SPREAD * largest
    return bool(has_spread.any())

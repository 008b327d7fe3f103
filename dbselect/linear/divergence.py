"""How far one Gaussian is from another, by their means and covariances.

With a and b the mean and covariance of k columns in two sets of rows, in nats::

    KL(b | a) = 1/2 d' A^-1 d  +  1/2 (tr A^-1 B - k - ln det A^-1 B)        d = b's mean - a's
                location          spread

the mean of ln p_b / p_a over rows of b, were both Gaussian. Directions in which neither has any
spread are left out; a direction that only one has makes an infinite distance.

Source: Kullback (1959), Information Theory and Statistics, chapter 9, section 1.
"""

import numpy as np

from dbselect.record.gram import Matrix, Vector

#: Share of the largest eigenvalue of a correlation below which a direction has no spread:
#: rounding leaves about 1e-15 of k columns, and a direction of 1e-10 has four digits left.
NO_SPREAD = 1e-10


def gaussian_divergence(shift: Vector, A: Matrix, B: Matrix) -> tuple[float, float]:
    """Return location and spread of KL(b | a), in nats; either may be infinite.

    Parameters
    ----------
    shift : shape (k,), mean of b less that of a
    A, B : shape (k, k), covariances of a and b

    Notes
    -----
    O(k^3).
    """
    # Of a column that is constant in a, the spread in b is its unit.
    unit = np.sqrt(np.where(np.diagonal(A) > 0, np.diagonal(A), np.diagonal(B)))
    steady = unit == 0
    if steady.any() and (shift[steady] != 0).any():
        return np.inf, 0.0
    kept = np.flatnonzero(~steady)
    if not len(kept):
        return 0.0, 0.0
    scale = np.outer(unit[kept], unit[kept])
    A, B = A[np.ix_(kept, kept)] / scale, B[np.ix_(kept, kept)] / scale
    step = shift[kept] / unit[kept]
    values, directions = np.linalg.eigh(A)
    none = values <= NO_SPREAD * max(values[-1], 1.0)
    flat, wide = directions[:, none], directions[:, ~none]
    new = np.einsum("ij,ik,kj->j", flat, B, flat)
    largest = max(float(np.linalg.eigvalsh(B)[-1]), 1.0)
    far = (flat.T @ step) ** 2
    is_new = bool((new > NO_SPREAD * largest).any())
    location = np.inf if (far > NO_SPREAD * max(float(step @ step), 1.0)).any() else 0.0
    root = wide / np.sqrt(values[~none])
    location += 0.5 * float(np.square(root.T @ step).sum())
    ratios = np.linalg.eigvalsh(root.T @ B @ root)
    if is_new or (len(ratios) and ratios[0] <= NO_SPREAD * max(ratios[-1], 1.0)):
        return location, np.inf
    return location, 0.5 * float((ratios - 1.0 - np.log(ratios)).sum())

"""Exact least squares in integers: every coefficient is correctly rounded.

Fraction-free elimination on the matrix A of sums of products of (1, x, y), the column of ones
first; p is the pivot of column s and q the previous pivot (1 at first)::

    a_ij <- (p a_ij - a_is a_js) / q,    i, j > s

Every entry is a minor of A, an integer, so that the division has no remainder; a column is
aliased when its pivot is exactly 0. Back substitution gives ``det w``, also integers (Cramer's
rule), and the corner of A divided by the last pivot is RSS. The diagonal of (X'WX)^-1 comes from
the factor, A = L D L', with far more bits than a double has.

Cost: D^3 / 6 products of numbers that grow to D times the bits of a sum, so about
O(D^4.6). Source: Bareiss (1968), Mathematics of Computation 22, eq. 8 and 9.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

#: Bits of the inverse factor beyond those of a sum of products: the bits of a double, plus those
#: lost to the worst condition number that sums of doubles can have.
SPARE_BITS = 256

Integers = npt.NDArray[np.object_]


@dataclass(frozen=True)
class ExactFit:
    """Least squares on k columns, each number rounded once."""

    coef: list[float]  # k coefficients, 0 for aliased columns
    variance: list[float]  # the diagonal of (X'WX)^-1; 0 for aliased columns
    aliased: list[int]  # indices of the columns that depend exactly on earlier ones
    rss: float
    total: float  # TSS: about the mean with an intercept, about 0 without


def exact_least_squares(
    products: Integers,
    exponent: Sequence[int],
    scale: int,
    intercept: bool,
    per_one: Sequence[int] = (),
) -> ExactFit:
    """Regress the last of k + 1 columns on the others; each is a multiple of 1 / `per_one`.

    Sums of products are ``products[i, j] * 2^(exponent[i] + exponent[j] + scale)``.
    """
    k = len(products) - 1
    A = products.copy()
    units = list(per_one) or [1] * (k + 1)
    size, unit = 2 * exponent[k] + scale, units[k]
    total = ratio(A[k, k], unit**2, size)
    kept, before = [], [1]
    for s in range(k):
        pivot = A[s, s]
        if pivot != 0:
            i, j = np.tril_indices(k - s)
            i, j = i + s + 1, j + s + 1
            A[i, j] = (pivot * A[i, j] - A[i, s] * A[j, s]) // before[-1]
            kept.append(s)
            before.append(pivot)
        if s == 0 and intercept:
            total = ratio(A[k, k], before[-1] * unit**2, size)
    coef, variance = [0.0] * k, [0.0] * k
    solution, inverse = _back_substituted(A, kept), _inverse_diagonal(A, kept, before)
    for at, s in enumerate(kept):
        coef[s] = ratio(solution[at] * units[s], before[-1] * unit, exponent[k] - exponent[s])
        numerator, denominator = inverse[at]
        variance[s] = ratio(numerator * units[s] ** 2, denominator, -2 * exponent[s] - scale)
    aliased = sorted(set(range(k)) - set(kept))
    return ExactFit(coef, variance, aliased, ratio(A[k, k], before[-1] * unit**2, size), total)


def _back_substituted(A: Integers, kept: list[int]) -> list[int]:
    """Return det * w of the columns kept; det is the last pivot."""
    det = A[kept[-1], kept[-1]] if kept else 1
    solution: list[int] = []
    for at in reversed(range(len(kept))):
        s, after = kept[at], kept[at + 1 :]
        solved = sum(a * w for a, w in zip(A[after, s], solution, strict=True))
        solution.insert(0, (A[-1, s] * det - solved) // A[s, s])
    return solution


def _inverse_diagonal(A: Integers, kept: list[int], before: list[int]) -> list[tuple[int, int]]:
    """Return the diagonal of the inverse of L D L', as numerators and denominators."""
    bits = SPARE_BITS + max((int(value).bit_length() for value in A[kept, kept]), default=0)
    rank = len(kept)
    inverse = np.full((rank, rank), 0, dtype=object)
    diagonal = np.full(rank, 0, dtype=object)
    for at, s in enumerate(kept):
        row = np.array([(A[s, t] << bits) // A[t, t] for t in kept[:at]], dtype=object)
        if at:
            inverse[at, :at] = -(row @ inverse[:at, :at] >> bits)
        inverse[at, at] = 1 << bits
        # The entries of D are ratios of consecutive pivots.
        diagonal += inverse[at] ** 2 * before[at] // A[s, s]
    return [(value, 1 << 2 * bits) for value in diagonal]


def ratio(numerator: int, denominator: int, power: int) -> float:
    """Return ``numerator / denominator * 2^power``, rounded once; infinite on overflow."""
    if power > 0:
        numerator <<= power
    else:
        denominator <<= -power
    try:
        # Python's division of integers of any length is correctly rounded.
        return numerator / denominator
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf

"""Which comoments rows can have: none exceeds what its columns vary; twin of `possible.rs`."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

#: How far above the bound rounding may lift a comoment: of columns that are multiples of each
#: other it lies on the bound, and removing rows may cost all but six digits.
ROUNDING = 1e-4
#: Deviation that rounding may give to a constant column, as a share of its mean.
CONSTANT_ROUNDING = 1e-12
#: Squares below 1e-308 are rounded to multiples of 5e-324: of sums of less than this a row,
#: fewer than twelve digits are left.
LEAST_SQUARE = 5e-312

_Array = npt.NDArray[np.float64]


def fault(
    columns: Sequence[str], rows: int, weight: float, mean: _Array, comoment: _Array
) -> str | None:
    """Return what is wrong with comoments, column by column and two by two (Cauchy and Schwarz).

    Parameters
    ----------
    mean, comoment : shapes (d,) and (d, d), of a record whose variances are not negative
    """
    variance = np.diagonal(comoment)
    constant = np.sqrt(weight) * np.abs(CONSTANT_ROUNDING * mean)
    deviation = np.sqrt(variance)
    least = LEAST_SQUARE * rows
    size = np.maximum(deviation, constant)
    with np.errstate(over="ignore"):  # what exceeds every double bounds nothing
        most = np.outer(size, size)
    beyond = np.tril(np.abs(comoment) > most + ROUNDING * most, -1)
    if not beyond.any():
        small = np.flatnonzero((variance < least) & (variance > 0) & (deviation > constant))
        return _too_small(columns[small[0]]) if small.size else None
    i, j = np.argwhere(beyond)[0].tolist()
    product = comoment[i, j]
    for own, other in ((j, i), (i, j)):
        # What has no square left may well have a product.
        if variance[own] < least and abs(product) < np.sqrt(least * variance[other]):
            return _too_small(columns[own])
    return (
        f"gram record has comoments that no rows can have: {product:g} of columns "
        f"'{columns[j]}' and '{columns[i]}', which vary so that it is {most[i, j]:g} at most"
    )


def _too_small(column: str) -> str:
    return (
        f"column '{column}' is too small: its squares, times the weights, lose their digits below "
        "1e-308; multiply it, or the weights, by a power of ten"
    )

"""Which moments rows can have: no comoment exceeds what its columns vary; twin of `possible.rs`."""

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

#: Comoments that are looked at together.
BLOCK = 2**20

_Array = npt.NDArray[np.float64]


def fault(
    columns: Sequence[str],
    rows: int,
    weight: float,
    mean: _Array,
    mean_low: _Array,
    comoment: _Array,
) -> str | None:
    """Return what is wrong with moments, column by column and two by two (Cauchy and Schwarz).

    `mean_low` is what rounding took from the means; no variance in `comoment`, (d, d), is negative.
    """
    variance = np.diagonal(comoment)
    last_bit = np.maximum(np.finfo(np.float64).eps * np.abs(mean), np.nextafter(0.0, 1.0))
    for j in np.flatnonzero(np.abs(mean_low) > last_bit).tolist():
        return (
            f"gram record has {mean_low[j]:g} in 'mean_low' for column '{columns[j]}'; rounding "
            f"takes no more than the last bit of its mean, {mean[j]:g}"
        )
    with np.errstate(over="ignore"):
        wide = ~np.isfinite(variance / weight) if 0 < weight < 1 else np.zeros(len(variance), bool)
    for j in np.flatnonzero(wide).tolist():
        return (
            f"column '{columns[j]}' varies too much: its variance, {variance[j]:g} by a weight of "
            f"{weight:g}, overflows a double; divide it, or multiply the weights, by a power of ten"
        )
    constant = np.sqrt(weight) * np.abs(CONSTANT_ROUNDING * mean)
    deviation = np.sqrt(variance)
    least = LEAST_SQUARE * rows
    size = np.maximum(deviation, constant)
    found = _beyond(size, comoment)
    if found is None:
        small = np.flatnonzero((variance < least) & (variance > 0) & (deviation > constant))
        return _too_small(columns[small[0]]) if small.size else None
    i, j = found
    product = comoment[i, j]
    for own, other in ((j, i), (i, j)):
        # What has no square left may well have a product.
        if variance[own] < least and abs(product) < np.sqrt(least) * deviation[other]:
            return _too_small(columns[own])
    return (
        f"gram record has comoments that no rows can have: {product:g} of columns "
        f"'{columns[j]}' and '{columns[i]}', which vary so that it is {size[i] * size[j]:g} at most"
    )


def _beyond(size: _Array, comoment: _Array) -> tuple[int, int] | None:
    """Return the first two columns that have more in common than both vary."""
    # Some rows at a time, or this check would take most of the memory that a Gram ever takes.
    height = max(1, BLOCK // max(1, len(size)))
    for start in range(0, len(size), height):
        rows = slice(start, start + height)
        with np.errstate(over="ignore"):  # what exceeds every double bounds nothing
            most = np.outer(size[rows], size)
        beyond = np.tril(np.abs(comoment[rows]) > most + ROUNDING * most, start - 1)
        if beyond.any():
            i, j = np.argwhere(beyond)[0].tolist()
            return start + i, j
    return None


def _too_small(column: str) -> str:
    return (
        f"column '{column}' is too small: its squares, times the weights, lose their digits below "
        "1e-308; multiply it, or the weights, by a power of ten"
    )

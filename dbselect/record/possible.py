"""Which comoments rows can have: none exceeds what its columns vary; twin of `possible.rs`."""

import numpy as np
import numpy.typing as npt

#: How far above the bound rounding may lift a comoment: of columns that are multiples of each
#: other it lies on the bound, and removing rows may cost all but six digits.
ROUNDING = 1e-4
#: Deviation that rounding may give to a constant column, as a share of its mean.
CONSTANT_ROUNDING = 1e-12
#: Deviation whose square a double can lose: the root of the least normal number. Residuals of rows
#: that are told for certain are as small.
LOST = 2.0**-511
#: Comoments that are looked at together.
BLOCK = 2**20

_Array = npt.NDArray[np.float64]


def impossible(mean: _Array, weight: float, comoment: _Array) -> tuple[int, int] | None:
    """Return the first two columns whose comoment no rows can have (Cauchy and Schwarz).

    Parameters
    ----------
    mean, comoment : shapes (d,) and (d, d), of a record whose variances are not negative
    """
    constant = np.sqrt(weight) * np.abs(CONSTANT_ROUNDING * mean)
    size = np.maximum(np.sqrt(np.diagonal(comoment)), np.maximum(constant, LOST))
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

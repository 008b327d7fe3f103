"""What counts as nothing in a criterion, for one record and for many alike."""

import numpy as np

from dbselect.linear.problem import EIGENVALUE_SHARE
from dbselect.record.gram import Matrix

#: A squared correlation below this is rounding: correlations err by some 1e-15.
ROUNDING_GRADIENT = 1e-15**2
#: A whitened squared gradient below this is rounding: whitening divides by an eigenvalue.
ROUNDING_WHITENED = ROUNDING_GRADIENT / EIGENVALUE_SHARE


def above(values: Matrix, rounding: float) -> Matrix:
    """Return 0 for what is rounding, so that it is a tie."""
    return np.asarray(np.where(values > rounding, values, 0.0))

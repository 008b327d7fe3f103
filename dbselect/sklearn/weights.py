"""Rows that count: scikit-learn has rows of weight 0 be as if they were not there."""

from typing import Any

import numpy as np
from sklearn.utils.validation import _check_sample_weight

from dbselect.errors import DataError
from dbselect.record.gram import Vector
from dbselect.sources.rows import Index


def rows_that_count(X: Any, sample_weight: Any) -> tuple[Index, Vector | None]:
    """Return the numbers of the rows whose weight is not 0, and their weights, None if all count 1.

    ValueError for weights of another shape, or negative; DataError if all are 0.
    """
    if sample_weight is None:
        return np.arange(X.shape[0]), None
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if (weight < 0).any():
        raise DataError(f"a sample weight is {weight.min():g}; weights must be >= 0")
    kept = np.flatnonzero(weight)
    if not kept.size:
        raise DataError("all sample weights are zero; at least one row must count")
    return kept, weight[kept]

"""What is measured of the order in which predictions put rows: AUC, and NDCG of each query.

Predictions that differ by rounding are equal: the same row in two batches may have either. Of
equals every order counts alike, as in scikit-learn, where only the same number is equal.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import polars as pl

from dbselect.errors import DataError
from dbselect.record.gram import Matrix, Vector

#: Predictions nearer than this, as a share of the smaller or of the median size, are equal: sums
#: of some thousand products differ by less when they are made in another order.
EQUAL_SHARE = 1e-12

Counts = npt.NDArray[np.intp]


def auc(score: Vector, positive: Vector, weight: Vector) -> float:
    """Return the chance that a row of 1 is above a row of 0; DataError for rows of one class."""
    if positive.min() == positive.max():
        raise DataError(
            f"all {len(positive)} usable rows are of one class; an AUC compares rows of two"
        )
    order = np.argsort(score)
    tie = np.cumsum(_starts(score[order], _typical(score))) - 1
    ones = np.bincount(tie, (weight * positive)[order])
    zeros = np.bincount(tie, (weight * (1.0 - positive))[order])
    below = np.cumsum(zeros) - zeros / 2.0
    return float(ones @ below / (ones.sum() * zeros.sum()))


def ndcg(scores: Iterable[Vector], gain: Vector, query: Counts, most: int | None) -> Matrix:
    """Return the normalised discounted cumulative gain of each query of M rankings; shape (M, Q).

    Place p, from 1, is discounted by ``1 / log2(1 + p)``; `most` places count, None for all. A
    query without any gain has 0, as in scikit-learn's ``ndcg_score``. O(M n log n).

    Jarvelin, Kekalainen (2002), ACM TOIS 20; McSherry, Najork (2008), ECIR, of ties.
    """
    ideal = _gained(gain, gain, query, most, 0.0)
    found = np.array([_gained(one, gain, query, most, _typical(one)) for one in scores])
    return np.asarray(np.divide(found, ideal, out=np.zeros(found.shape), where=ideal > 0))


def _gained(score: Vector, gain: Vector, query: Counts, most: int | None, typical: float) -> Vector:
    """Return the discounted gain of each query, the mean over the orders of equals."""
    columns = pl.DataFrame({"query": query, "score": score})
    order = columns.select(pl.arg_sort_by("query", -pl.col("score"))).to_series().to_numpy()
    query, gain = query[order], gain[order]
    is_first = np.diff(query, prepend=-1) > 0
    place = np.arange(len(query)) - np.flatnonzero(is_first)[query]
    discount = 1.0 / np.log2(2.0 + place)
    if most is not None:
        discount[place >= most] = 0.0
    tie = np.cumsum(is_first | _starts(-score[order], typical)) - 1
    mean = np.bincount(tie, gain) / np.bincount(tie)
    return np.asarray(np.bincount(query, mean[tie] * discount), dtype=np.float64)


def _starts(ascending: Vector, typical: float) -> npt.NDArray[np.bool_]:
    """Return where a value is above the one before it by more than rounding."""
    size = np.abs(ascending)
    near = EQUAL_SHARE * np.maximum(np.minimum(size[1:], size[:-1]), typical)
    with np.errstate(invalid="ignore"):  # two infinite values are equal
        return np.append(True, np.diff(ascending) > near)


def _typical(score: Vector) -> float:
    return float(np.median(np.abs(score)))

"""Ranking metrics: AUC, and NDCG of each query.

Predictions that differ only by rounding are ties, as the same row may differ between batches.
All orders of a tie count alike, as in scikit-learn, which ties only identical numbers.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import polars as pl

from dbselect.errors import DataError
from dbselect.record.gram import Matrix, Vector

#: Predictions nearer than this, as a share of the smaller or of the median size, are ties: sums
#: of some thousand products in another order differ by less.
EQUAL_SHARE = 1e-12

Counts = npt.NDArray[np.intp]


def auc(score: Vector, positive: Vector, weight: Vector) -> float:
    """Return the weighted AUC: P(row of 1 scores above row of 0); DataError for one class."""
    ones, zeros = _shares(score, positive, weight)
    return float(ones @ (np.cumsum(zeros) - zeros / 2.0))


def gini(score: Vector, positive: Vector, weight: Vector) -> float:
    """Return the Gini coefficient of the scores, 2 AUC - 1; as `auc`."""
    return 2.0 * auc(score, positive, weight) - 1.0


def ks(score: Vector, positive: Vector, weight: Vector) -> float:
    """Return the largest distance of the distributions of scores of both classes; as `auc`.

    Kolmogorov, Smirnov: the two-sample statistic.
    """
    ones, zeros = _shares(score, positive, weight)
    return float(np.abs(np.cumsum(zeros) - np.cumsum(ones)).max())


#: Metrics of two classes that sort rows.
OF_CLASSES = {"auc": auc, "gini": gini, "ks": ks}


def _shares(score: Vector, positive: Vector, weight: Vector) -> tuple[Vector, Vector]:
    """Return the shares of the rows of 1, and of those of 0, at each score, ascending."""
    if positive.min() == positive.max():
        raise DataError(
            f"all {len(positive)} usable rows are of one class; an AUC compares rows of two"
        )
    order = np.argsort(score)
    tie = np.cumsum(_starts(score[order], _typical(score))) - 1
    ones = np.bincount(tie, (weight * positive)[order])
    zeros = np.bincount(tie, (weight * (1.0 - positive))[order])
    return ones / ones.sum(), zeros / zeros.sum()


def ndcg(scores: Iterable[Vector], gain: Vector, query: Counts, most: int | None) -> Matrix:
    """Return the normalised discounted cumulative gain of each query of M rankings; shape (M, Q).

    Place p, from 1, is discounted by ``1 / log2(1 + p)``; the first `most` places count, None
    for all. A query without gain has 0, as in scikit-learn's ``ndcg_score``. O(M n log n).

    Jarvelin, Kekalainen (2002), ACM TOIS 20; McSherry, Najork (2008), ECIR, for ties.
    """
    ideal = _gained(gain, gain, query, most, 0.0)
    gained = np.array([_gained(score, gain, query, most, _typical(score)) for score in scores])
    return np.asarray(np.divide(gained, ideal, out=np.zeros(gained.shape), where=ideal > 0))


def _gained(score: Vector, gain: Vector, query: Counts, most: int | None, typical: float) -> Vector:
    """Return the discounted gain of each query, averaged over the orders of ties."""
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
    """Return where a value exceeds its predecessor by more than rounding."""
    size = np.abs(ascending)
    near = EQUAL_SHARE * np.maximum(np.minimum(size[1:], size[:-1]), typical)
    with np.errstate(invalid="ignore"):  # two infinite values are equal
        return np.append(True, np.diff(ascending) > near)


def _typical(score: Vector) -> float:
    return float(np.median(np.abs(score)))

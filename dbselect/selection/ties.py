"""The best candidates, their order, and equal sizes; ties go to the candidate named first."""

import numpy as np
import numpy.typing as npt

from dbselect.record.gram import Vector

#: Scores closer than this share of the best are ties, decided by the order of names.
TIE_SHARE = 1e-10

Mask = npt.NDArray[np.bool_]


def first_of_the_best(scores: Vector, candidates: Mask) -> int:
    """Return the candidate with the largest score, the first if several tie."""
    best = scores[candidates].max()
    return int(np.flatnonzero(candidates & (scores >= best - TIE_SHARE * abs(best)))[0])


def best_first(scores: Vector) -> npt.NDArray[np.intp]:
    """Return the candidates by falling score, ties in the order of names; shape (n,)."""
    order = np.argsort(-scores, kind="stable")
    return order[np.lexsort((order, _level_of(scores[order])))]


def levelled(sizes: Vector) -> Vector:
    """Return sizes >= 0, equal where they tie; below `TIE_SHARE` of the largest they are 0."""
    order = np.argsort(-sizes, kind="stable")
    falling = sizes[order]
    level = _level_of(falling)
    heads = falling[np.unique(level, return_index=True)[1]]
    levelled = np.empty_like(sizes)
    levelled[order] = heads[level]
    return np.where(levelled > TIE_SHARE * levelled.max(), levelled, 0.0)


def _level_of(falling: Vector) -> npt.NDArray[np.intp]:
    """Return the rank of each of the falling numbers; those that tie share one."""
    apart = falling[1:] < falling[:-1] - TIE_SHARE * np.abs(falling[:-1])
    return np.concatenate([[0], np.cumsum(apart)])

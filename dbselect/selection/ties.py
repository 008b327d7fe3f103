"""The best of some groups; ties go to the group named first."""

import numpy as np
import numpy.typing as npt

from dbselect.record.gram import Vector

#: Scores closer than this share of the best are ties, decided by the order of names.
TIE_SHARE = 1e-10

Mask = npt.NDArray[np.bool_]


def first_of_the_best(scores: Vector, candidates: Mask) -> int:
    """Return the candidate with the largest score, the first of those that tie."""
    best = scores[candidates].max()
    return int(np.flatnonzero(candidates & (scores >= best - TIE_SHARE * abs(best)))[0])

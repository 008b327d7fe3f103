"""The share that each level of a category has in the rows of a fit."""

from collections.abc import Sequence

import numpy as np

from dbselect.record.gram import Gram
from dbselect.record.level_group import LevelGroup


def shares_of(
    gram: Gram, by_level: LevelGroup | None = None, names: Sequence[str] = ()
) -> dict[str, float]:
    """Return the mean of each column of a category over the rows of a Gram.

    It may be one through the origin, with raw moments and means of 0: the square of an indicator is
    itself, and the mean of a column that was filled is in the terms. `by_level` are levels that it
    lacks, with these names.
    """
    if not gram.weight:
        return {}
    place = {name: at for at, name in enumerate(gram.columns)}
    marked = [name for one in gram.terms.categories for name in one.marked_names if name in place]
    at = [place[name] for name in marked]
    means, squares = gram.mean[at], np.diagonal(gram.comoment)[at] / gram.weight
    known = gram.terms.means
    found = {
        name: mean or known.get(name, square)
        for name, mean, square in zip(marked, means.tolist(), squares.tolist(), strict=True)
    }
    if by_level is not None:
        found |= dict(zip(names, (by_level.weight / gram.weight).tolist(), strict=True))
    return found

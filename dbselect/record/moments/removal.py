"""What is left of comoments when the rows of a part are taken away; twin of `moments.rs`."""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dbselect.errors import RecordError

if TYPE_CHECKING:
    from dbselect.record.gram import Gram

#: Share of a column's variation that rounding may take away too much when rows are
#: removed: stored means are rounded, which costs digits far from zero.
REMOVED_SHARE = 1e-6
#: Share of a column's variation that must be left: rounding of what was there, 1e-16 of it,
#: would take more than six of the digits of less.
LEFT_SHARE = 1e-10
#: As above, for a column of 0 and 1: below it none of the rows left has the rarer value, as one
#: of n rows varies by more than 1 / n of all.
LEFT_OF_INDICATOR = 1e-13
#: How nearly a column of 0 and 1 has as its mean square its mean.
INDICATOR_ROUNDING = 1e-9


def checked(whole: "Gram", comoment: npt.NDArray[np.float64], rows: int) -> npt.NDArray[np.float64]:
    """Return the comoments of what is left of a Gram, without what is rounding in them.

    RecordError if the part varies more than the whole, or what is left of a column is rounding of
    what is taken away.
    """
    if rows == 1:  # one row varies by nothing
        return np.zeros_like(comoment)
    before, left = np.diagonal(whole.comoment), np.diagonal(comoment)
    if (left < -REMOVED_SHARE * before).any():
        raise RecordError(
            "cannot remove rows that vary more than all rows together; "
            "the second record must be a part of the first"
        )
    # A column is 0 or 1 in every row if its mean square is its mean.
    mean = np.clip(whole.mean, 0.0, 1.0)
    expected = whole.weight * mean * (1.0 - mean)
    within = mean == whole.mean
    indicators = within & (np.abs(before - expected) <= INDICATOR_ROUNDING * before)
    lost = np.flatnonzero(~indicators & (left < LEFT_SHARE * before) & (before > 0))
    if lost.size:
        raise RecordError(
            f"cannot remove these rows: what is left of column '{whole.columns[lost[0]]}' is "
            "rounding of what is taken away; merge the records of the rows that stay, or leave "
            "the column out"
        )
    gone = (indicators & (left < LEFT_OF_INDICATOR * before)) | (before == 0)
    return np.where(gone | gone[:, None], 0.0, comoment)

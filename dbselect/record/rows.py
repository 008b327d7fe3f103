"""How many rows a result rests on, and when these are too few to pass over in silence."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dbselect.errors import SkippedRowsWarning, warn_caller

#: Share of the rows that may be left out without a warning.
SKIPPED_SHARE = 0.5
#: Columns that the warning names: those with the most missing values.
NAMED = 5


def row_counts(rows: int, skipped: int, searched: int | None = None) -> str:
    """Return the rows used and left out, in words; where a search saw some only, how many."""
    words = f"{rows} rows" if skipped == 0 else f"{rows} rows, {skipped} skipped"
    return words if searched is None else f"{words}, {searched} searched"


def is_saturated(rows: int, coefficients: float, ridge: float) -> bool:
    """Whether a model without ridge has a coefficient a row, so that it fits any target."""
    return ridge == 0 and coefficients >= rows


def clip_share(share: Any) -> npt.NDArray[np.float64]:
    """Return shares of a variance without the rounding by which sums of them exceed 1."""
    return np.asarray(np.minimum(share, 1.0))


def too_few(rows: int, skipped: int) -> bool:
    """Whether more rows are left out than may be without a warning."""
    return skipped > SKIPPED_SHARE * (rows + skipped)


def warn_of_skipped(rows: int, skipped: int, missing: Mapping[str, int], *, weighted: bool) -> None:
    """Warn where more than `SKIPPED_SHARE` of rows are left out; `missing` has causes."""
    if not too_few(rows, skipped):
        return
    columns = sorted((name for name in missing if missing[name]), key=lambda name: -missing[name])
    causes = [f"'{name}' is missing in {missing[name]}" for name in columns[:NAMED]]
    causes += [f"{len(columns) - NAMED} more columns have missing values"] * (len(columns) > NAMED)
    others = skipped - sum(missing.values())
    # A column of text without any level is none of the columns that are counted.
    rest = (
        "the weight is missing or 0" if weighted else "text of which there is no level is missing"
    )
    causes += [f"{rest} in at least {others}"] * (others > 0)
    told = ", ".join(causes)
    warn_caller(
        f"{skipped} of {rows + skipped} rows are left out: {told}; leave such columns out, or "
        "give a null_policy that fills them",
        SkippedRowsWarning,
    )

"""When selected columns are so nearly dependent that their coefficients lose digits."""

import math
import warnings
from collections.abc import Sequence

import numpy as np

from dbselect.errors import ConditionWarning, DependenceWarning
from dbselect.linear.state import State

#: Condition number of the selected columns' correlations above which coefficients
#: keep fewer than six of sixteen digits.
CONDITION_LIMIT = 1e10
#: Share of a column's variance that rounding may leave of one that depends on others.
ROUNDING_SHARE = 1e-15
#: Share of the target's variance of which it is told that it may be lost.
TOLD_SHARE = 1e-3


def warn_of(condition: float, stacklevel: int) -> None:
    """Warn where selected columns are so nearly dependent that coefficients lose digits."""
    if condition > CONDITION_LIMIT:
        warnings.warn(
            f"the selected columns have condition number {condition:.1e}; coefficients keep "
            f"about {max(0, 16 - math.log10(condition)):.0f} of 16 digits",
            ConditionWarning,
            stacklevel=stacklevel,
        )


def warn_of_dropped(state: State, names: Sequence[str], stacklevel: int) -> None:
    """Warn where a column is left out as dependent, and may explain much by what is its own.

    What the column would gain is its gradient squared, over what is left of its variance. Of
    columns that depend on others outright both are rounding, and the gradient the smaller.
    Where the selected columns themselves lose their digits, that is told instead.

    Parameters
    ----------
    names : the columns of the problem
    """
    columns = np.array(state.aliased, dtype=np.intp)
    columns = columns[~state.problem.constant[columns]]
    if not len(columns) or state.problem.ridge[columns].any():
        return
    if state.condition() > CONDITION_LIMIT:
        return
    share = np.diagonal(state.conditional(columns)) / state.problem.variances[columns]
    share = np.maximum(share, ROUNDING_SHARE)
    slope = (state.b[:, columns] ** 2).sum(axis=0) / state.problem.variances[columns]
    gain = slope / share
    worst = int(gain.argmax())
    if gain[worst] > TOLD_SHARE:
        warnings.warn(
            f"column '{names[columns[worst]]}' depends on the others but for {share[worst]:.0e} of "
            "its variance, of which doubles keep too few digits: it gets coefficient 0, though it "
            f"may explain {min(gain[worst], 1.0):.3f} of the target's variance; "
            "fit(exact=True) keeps it, and so does the difference as a column of its own",
            DependenceWarning,
            stacklevel=stacklevel,
        )

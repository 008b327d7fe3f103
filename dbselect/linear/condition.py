"""When selected columns are so nearly dependent that coefficients lose digits, or impossible."""

import math
from collections.abc import Sequence

import numpy as np

from dbselect.errors import (
    ConditionWarning,
    DependenceWarning,
    LeakageWarning,
    RecordError,
    warn_caller,
)
from dbselect.linear.least_squares import LeastSquares
from dbselect.linear.state import LinearState
from dbselect.record.gram import Gram, Vector

#: Condition number of the selected columns' correlations above which coefficients
#: keep fewer than six of sixteen digits.
CONDITION_LIMIT = 1e10
#: Share of a column's variance that rounding may leave of one that depends on others.
ROUNDING_SHARE = 1e-15
#: Share of the target's variance above which its possible loss is reported.
TOLD_SHARE = 1e-3
#: Share of the target's variance that a column seldom explains alone unless it is made of it, and
#: rows below which an example without noise does so.
LEAK_SHARE, LEAK_ROWS = 0.99, 100
#: The error for such columns.
IMPOSSIBLE = (
    "gram record has comoments that no rows can have: each two of its columns may agree as they "
    "do, but not three or more together"
)


def check_held(state: LinearState, names: Sequence[str]) -> float:
    """Refuse impossible columns, warn of lost digits, return the condition number of S."""
    check_possible(state)
    condition = state.condition()
    warn_of(condition)
    warn_of_dropped(state, names)
    return condition


def check_possible(state: LinearState) -> None:
    """Raise RecordError where less than nothing is left of a column given the selected ones."""
    if state.is_indefinite:
        raise RecordError(IMPOSSIBLE)


def warn_of(condition: float) -> None:
    """Warn where selected columns are so nearly dependent that coefficients lose digits."""
    if condition > CONDITION_LIMIT:
        warn_caller(
            f"the selected columns have condition number {condition:.1e}; coefficients keep "
            f"about {max(0, 16 - math.log10(condition)):.0f} of 16 digits",
            ConditionWarning,
        )


def warn_of_dependence(found: LeastSquares) -> None:
    """Warn where least squares loses digits, or a column, as columns nearly depend on others."""
    warn_of(found.condition)
    if found.trace is not None:
        warn_of_trace(found.columns[found.trace.column], found.trace.share, found.trace.gain)


def may_leak(gram: Gram, target: str) -> bool:
    """Whether a column may explain so much of the target, as far as its comoments show."""
    if gram.rows < LEAK_ROWS:
        return False
    at, spread = gram.columns.index(target), np.sqrt(np.diagonal(gram.comoment))
    # The target is such a column of itself; constant ones may be, by rounding.
    near = abs(gram.comoment[at]) >= LEAK_SHARE * spread[at] * spread
    return bool(np.count_nonzero(near) > 1)


def warn_of_leak(correlations: Vector, names: Sequence[str], target: str, rows: int) -> None:
    """Warn where one column explains nearly all of the target; correlations have shape (D,)."""
    shares = correlations**2
    worst = int(shares.argmax())
    if rows >= LEAK_ROWS and shares[worst] > LEAK_SHARE:
        warn_caller(
            f"column '{names[worst]}' alone explains {shares[worst]:.4f} of the variance of "
            f"'{target}'; if it is known only with the target or made of it, leave it out",
            LeakageWarning,
        )


def warn_of_dropped(state: LinearState, names: Sequence[str], *, is_linear: bool = True) -> None:
    """Warn where a column depends on selected ones, and may explain much by what is its own."""
    columns, left, squares = state.dependent()
    if not len(columns) or state.problem.ridge[columns].any():
        return
    if state.condition() > CONDITION_LIMIT:
        return
    share = np.maximum(left, ROUNDING_SHARE)
    gain = squares / share
    worst = int(gain.argmax())
    if gain[worst] > TOLD_SHARE:
        warn_of_trace(names[columns[worst]], share[worst], gain[worst], is_linear=is_linear)


def warn_of_trace(name: str, share: float, gain: float, *, is_linear: bool = True) -> None:
    """Warn of a column with coefficient 0 that may explain much by a share of its variance."""
    whole = "the target's variance" if is_linear else "the null deviance"
    cure = "use fit(exact=True), or give" if is_linear else "give"
    warn_caller(
        f"column '{name}' nearly depends on the others: {share:.0e} of its variance is its own, "
        f"too little for doubles, so it gets coefficient 0, although it may explain "
        f"{min(gain, 1.0):.3f} of {whole}; {cure} the difference as a column of its own",
        DependenceWarning,
    )

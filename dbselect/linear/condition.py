"""Checks of selected columns: impossible comoments, near dependence, leakage of the target."""

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
from dbselect.linear.state import LinearState, explained
from dbselect.record.gram import Gram
from dbselect.record.groups import Groups

#: Condition number of the selected columns' correlations above which coefficients
#: keep fewer than six of sixteen digits.
CONDITION_LIMIT = 1e10
#: Share of the variance of a dependent column that rounding may leave.
ROUNDING_SHARE = 1e-15
#: Share of the target's variance above which a possible loss is reported.
REPORTED_SHARE = 1e-3
#: Share of the target's variance above which one column probably leaks the target, and the least
#: number of rows: small noise-free examples often have such columns.
LEAK_SHARE, LEAK_ROWS = 0.99, 100
#: Most columns of a group that is checked for leakage, unless they are levels of categories.
FEW_COLUMNS = 10
#: Share of a column's mean square below which its variance is rounding error.
VARIES_SHARE = 1e-12
#: Error for impossible comoments.
IMPOSSIBLE = (
    "gram record has comoments that no rows can have: each two of its columns may agree as they "
    "do, but not three or more together"
)


def check_held(state: LinearState, names: Sequence[str]) -> float:
    """Check the selected columns, warn of lost digits, and return their condition number.

    RecordError if a conditional variance is negative.
    """
    if state.is_indefinite:
        raise RecordError(IMPOSSIBLE)
    condition = state.condition()
    warn_of(condition)
    warn_of_dropped(state, names)
    return condition


def warn_of(condition: float) -> None:
    """Warn if near dependence costs coefficients digits."""
    if condition > CONDITION_LIMIT:
        warn_caller(
            f"the selected columns have condition number {condition:.1e}; coefficients keep "
            f"about {max(0, 16 - math.log10(condition)):.0f} of 16 digits",
            ConditionWarning,
        )


def warn_of_dependence(fit: LeastSquares) -> None:
    """Warn if least squares loses digits, or drops a column, by near dependence."""
    warn_of(fit.condition)
    if fit.trace is not None:
        warn_of_trace(fit.columns[fit.trace.column], fit.trace.share, fit.trace.gain)


def warn_of_leak(gram: Gram, groups: Groups, target: str) -> None:
    """Warn if one group explains nearly all of the target, as columns derived from it do.

    Squared correlations, summed over a group, select candidates: for levels and for positively
    dependent columns the sum is at least the explained share. O(D), and O(d^3) per candidate.
    """
    if gram.rows < LEAK_ROWS:
        return
    comoment, at = gram.comoment, gram.columns.index(target)
    variances, total = np.diagonal(comoment), comoment[at, at]
    # A constant column may vary by rounding error.
    varies = variances > VARIES_SHARE * gram.weight * np.square(gram.mean)
    root = np.sqrt(np.maximum(variances, 0.0)) * np.sqrt(max(total, 0.0))
    shares = np.divide(comoment[at], root, out=np.zeros(len(root)), where=varies & (root > 0)) ** 2
    if shares.sum() - shares[at] <= LEAK_SHARE:
        return
    number = {name: place for place, name in enumerate(gram.columns)}
    places, ends = groups.places
    members = np.array([number[name] for name in groups.members], np.intp)[places]
    worst, most = -1, LEAK_SHARE
    levels = {name for category in gram.terms.categories for name in category.marked_names}
    for group in np.flatnonzero(np.add.reduceat(shares[members], ends[:-1]) > most):
        columns = members[ends[group] : ends[group + 1]]
        # Many columns, as of a spectrum, may explain so much without leakage.
        if len(columns) > FEW_COLUMNS and not levels.issuperset(
            groups.columns[groups.names[group]]
        ):
            continue
        columns = columns[varies[columns]]
        share = shares[columns].max()
        if len(columns) > 1:
            scale = np.sqrt(variances[columns])
            block = comoment[np.ix_(columns, columns)] / np.outer(scale, scale)
            products = comoment[at, columns] / (scale * np.sqrt(total))
            share = explained(block, products, np.ones(len(columns)))
        if share > most:
            worst, most = int(group), share
    if worst < 0:
        return
    name = groups.names[worst]
    names = groups.columns[name]
    what = f"column '{names[0]}'" if len(names) == 1 else f"group '{name}'"
    warn_caller(
        f"{what} alone explains {most:.4f} of the variance of '{target}'; if it is known only "
        "with the target or made of it, leave it out",
        LeakageWarning,
    )


def warn_of_dropped(state: LinearState, names: Sequence[str], *, is_linear: bool = True) -> None:
    """Warn if a dependent column may explain much by its independent part."""
    columns, remaining, squares = state.dependent()
    if not len(columns) or state.problem.ridge[columns].any():
        return
    if state.condition() > CONDITION_LIMIT:
        return
    share = np.maximum(remaining, ROUNDING_SHARE)
    gain = squares / share
    worst = int(gain.argmax())
    if gain[worst] > REPORTED_SHARE:
        warn_of_trace(names[columns[worst]], share[worst], gain[worst], is_linear=is_linear)


def warn_of_trace(name: str, share: float, gain: float, *, is_linear: bool = True) -> None:
    """Warn of an aliased column whose small independent part may explain much."""
    whole = "the target's variance" if is_linear else "the null deviance"
    warn_caller(
        f"column '{name}' nearly depends on the others: {share:.0e} of its variance is its own, "
        f"too little for doubles, so it gets coefficient 0, although it may explain "
        f"{min(gain, 1.0):.3f} of {whole}; give the difference as a column of its own",
        DependenceWarning,
    )

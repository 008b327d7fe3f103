"""When selected columns are so nearly dependent that coefficients lose digits, or impossible."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dbselect.errors import (
    ConditionWarning,
    DependenceWarning,
    LeakageWarning,
    RecordError,
    warn_caller,
)
from dbselect.linear.least_squares import LeastSquares
from dbselect.linear.state import LinearState
from dbselect.record.gram import Gram, Matrix
from dbselect.record.groups import Groups

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
#: Most columns of a group that is judged as one, unless they are levels of categories.
FEW_COLUMNS = 10
#: Share of a column's mean square below which its variation is rounding.
VARIES_SHARE = 1e-12
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


def warn_of_leak(gram: Gram, groups: Groups, target: str) -> None:
    """Warn where one group alone explains nearly all of the target, as what is made of it does.

    The comoments show which groups may: of levels, and of columns that go together, the squared
    correlations add up to more than what the group explains. O(D), and O(d^3) of such a group.
    """
    if gram.rows < LEAK_ROWS:
        return
    comoment, at = gram.comoment, gram.columns.index(target)
    own, whole = np.diagonal(comoment), comoment[at, at]
    # A constant column may vary by rounding.
    varies = own > VARIES_SHARE * gram.weight * np.square(gram.mean)
    scale = np.sqrt(np.maximum(own, 0.0)) * np.sqrt(max(whole, 0.0))
    shares = np.divide(comoment[at], scale, out=np.zeros(len(own)), where=varies & (scale > 0)) ** 2
    if shares.sum() - shares[at] <= LEAK_SHARE:
        return
    number = {name: place for place, name in enumerate(gram.columns)}
    places, ends = groups.places
    members = np.array([number[name] for name in groups.members], np.intp)[places]
    worst, most = -1, LEAK_SHARE
    levels = {name for each in gram.terms.categories for name in each.marked_names}
    for group in np.flatnonzero(np.add.reduceat(shares[members], ends[:-1]) > most):
        columns = members[ends[group] : ends[group + 1]]
        # Of a spectrum, say, so much is no surprise.
        if len(columns) > FEW_COLUMNS and not levels.issuperset(
            groups.columns[groups.names[group]]
        ):
            continue
        columns = columns[varies[columns]]
        share = shares[columns].max()
        if len(columns) > 1:
            share = _share_explained(comoment, columns, at)
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


def _share_explained(comoment: Matrix, columns: npt.NDArray[np.intp], target: int) -> float:
    """Return the share of the target's variation that columns explain."""
    scale = np.sqrt(np.diagonal(comoment)[columns])
    block = comoment[np.ix_(columns, columns)] / np.outer(scale, scale)
    products = comoment[target, columns] / scale
    values, vectors = np.linalg.eigh(block)
    kept = values > len(values) * np.finfo(np.float64).eps * values[-1]
    projected = vectors[:, kept].T @ products
    return float(((projected / np.sqrt(comoment[target, target])) ** 2 / values[kept]).sum())


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

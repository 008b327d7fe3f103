"""Columns of a table that was looked up, beside those of the facts in one Gram."""

from collections import Counter
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from dbselect.errors import ColumnError
from dbselect.record.gram import Gram, Matrix, Vector
from dbselect.record.policies import fills_beside
from dbselect.record.terms import Terms
from dbselect.sources.joins.left_join import LookedUp
from dbselect.sources.read import without_unseen_levels
from dbselect.sources.records import without_marks


def weighed(
    found: LookedUp, rows: npt.NDArray[np.int64], weight: Vector, facts: Gram
) -> tuple[Gram, Matrix]:
    """Return the Gram of p columns alone, over the facts, and their centred values, (K, p).

    Indicators of what is never missing, and levels that no row has, are dropped.
    """
    terms = _filled(found, weight)
    centred, mean, low = _centred(found.values, weight)
    heavy = np.sqrt(weight)[:, None] * centred
    every = Gram(
        found.columns,
        facts.rows,
        facts.skipped,
        facts.weight,
        mean,
        heavy.T @ heavy,
        {name: int(rows[where].sum()) for name, where in found.missing.items()},
        low,
        terms,
    )
    gram = without_unseen_levels(without_marks(every), found.texts)
    at = {name: number for number, name in enumerate(found.columns)}
    if len(gram.columns) < len(at):
        centred = centred[:, [at[name] for name in gram.columns]]
    return gram, centred


def side_by_side(one: Gram, two: Gram, cross: Matrix) -> Gram:
    """Return the Gram of the columns of two, of the same rows; `cross`: comoments, (d, p)."""
    both = next((name for name in two.columns if name in one.columns), None)
    if both is not None:
        raise ColumnError(
            f"the table has a column '{both}', which the Gram has, too; give name=, a "
            "prefix for the table's columns, or choose other columns with columns="
        )
    return replace(
        one,
        columns=[*one.columns, *two.columns],
        mean=np.append(one.mean, two.mean),
        mean_low=np.append(one.mean_low, two.mean_low),
        comoment=np.block([[one.comoment, cross], [cross.T, two.comoment]]),
        missing=Counter(one.missing) + Counter(two.missing),
        terms=_together(one.terms, two.terms),
    )


def _filled(found: LookedUp, weight: Vector) -> Terms:
    """Put numbers where values are missing, and return the terms with those that are not 0."""
    means: dict[str, float] = {}
    for name in found.terms.indicators:
        column, gap = found.values[:, found.columns.index(name)], found.missing[name]
        own = np.where(gap, 0.0, weight)
        if own.any() and weight[gap].any():
            centred, mean, _ = _centred(column[:, None].copy(), own)
            fill = fills_beside(own.sum(keepdims=True), mean, own @ centred**2)[0]
            column[gap] = fill
            means |= {name: float(fill)} if fill else {}
    return replace(found.terms, means=means)


def _centred(values: Matrix, weight: Vector) -> tuple[Matrix, Vector, Vector]:
    """Return columns, (K, p), centred in place, and their weighted means as sums of two doubles."""
    total, there = weight.sum(), weight > 0
    first = weight @ values / total
    step = np.empty_like(first)
    # A column fits into the caches, all of them do not.
    for j in range(values.shape[1]):
        column = values[:, j]
        known = column if there.all() else column[there]
        # The mean of a constant is itself, whatever rounding makes of the sum.
        first[j] = min(max(first[j], known.min()), known.max())
        column -= first[j]
        step[j] = weight @ column / total
        column -= step[j]
    mean = first + step
    return values, mean, (first - mean) + step


def _together(one: Terms, two: Terms) -> Terms:
    return replace(
        one,
        categories=(*one.categories, *two.categories),
        bases=(*one.bases, *two.bases),
        dates={**one.dates, **two.dates},
        means={**one.means, **two.means},
        indicators=(*one.indicators, *two.indicators),
        flat=(*one.flat, *two.flat),
        computed=(*one.computed, *two.computed),
    )

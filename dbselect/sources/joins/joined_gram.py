"""The Gram of a looked-up table's columns over the facts, and its join with the facts' Gram."""

from collections import Counter
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from dbselect.errors import ColumnError
from dbselect.record.gram import Gram, Matrix, Vector
from dbselect.record.policies import fills_beside
from dbselect.record.terms import Terms
from dbselect.sources.joins.left_join import LookedUp
from dbselect.sources.records import without_marks, without_unseen_levels


def gram_over_facts(
    looked_up: LookedUp, rows: npt.NDArray[np.int64], weight: Vector, facts: Gram
) -> tuple[Gram, Matrix]:
    """Return the Gram of the p looked-up columns over the facts, and their centred values, (K, p).

    Indicators that are always 0, and levels that no row has, are dropped.
    """
    terms = _filled(looked_up, weight)
    centred, mean, low = _centred(looked_up.values, weight)
    heavy = np.sqrt(weight)[:, None] * centred
    gram = Gram(
        looked_up.columns,
        facts.rows,
        facts.skipped,
        facts.weight,
        mean,
        heavy.T @ heavy,
        {name: int(rows[where].sum()) for name, where in looked_up.missing.items()},
        low,
        terms,
    )
    gram = without_unseen_levels(without_marks(gram), looked_up.texts)
    at = {name: number for number, name in enumerate(looked_up.columns)}
    if len(gram.columns) < len(at):
        centred = centred[:, [at[name] for name in gram.columns]]
    return gram, centred


def side_by_side(first: Gram, second: Gram, cross: Matrix) -> Gram:
    """Join two Grams of the same rows; `cross` are the comoments of their columns, (d, p)."""
    clash = next((name for name in second.columns if name in first.columns), None)
    if clash is not None:
        raise ColumnError(
            f"the table has a column '{clash}', which the Gram has, too; give name=, a "
            "prefix for the table's columns, or choose other columns with columns="
        )
    return replace(
        first,
        columns=[*first.columns, *second.columns],
        mean=np.append(first.mean, second.mean),
        mean_low=np.append(first.mean_low, second.mean_low),
        comoment=np.block([[first.comoment, cross], [cross.T, second.comoment]]),
        missing=Counter(first.missing) + Counter(second.missing),
        terms=_together(first.terms, second.terms),
    )


def _filled(looked_up: LookedUp, weight: Vector) -> Terms:
    """Fill missing values in place; return the terms with the fills that are not 0."""
    means: dict[str, float] = {}
    for name in looked_up.terms.indicators:
        column, gap = looked_up.values[:, looked_up.columns.index(name)], looked_up.missing[name]
        present = np.where(gap, 0.0, weight)
        if present.any() and weight[gap].any():
            centred, mean, _ = _centred(column[:, None].copy(), present)
            fill = fills_beside(present.sum(keepdims=True), mean, present @ centred**2)[0]
            column[gap] = fill
            means |= {name: float(fill)} if fill else {}
    return replace(looked_up.terms, means=means)


def _centred(values: Matrix, weight: Vector) -> tuple[Matrix, Vector, Vector]:
    """Return columns, (K, p), centred in place, and their weighted means as sums of two doubles."""
    total, is_used = weight.sum(), weight > 0
    first = weight @ values / total
    step = np.empty_like(first)
    # Column by column, as one column fits into the caches and all do not.
    for j in range(values.shape[1]):
        column = values[:, j]
        used = column if is_used.all() else column[is_used]
        # The mean of a constant must be exact, even if its sum is rounded.
        first[j] = min(max(first[j], used.min()), used.max())
        column -= first[j]
        step[j] = weight @ column / total
        column -= step[j]
    mean = first + step
    return values, mean, (first - mean) + step


def _together(first: Terms, second: Terms) -> Terms:
    return replace(
        first,
        categories=(*first.categories, *second.categories),
        bases=(*first.bases, *second.bases),
        dates={**first.dates, **second.dates},
        means={**first.means, **second.means},
        indicators=(*first.indicators, *second.indicators),
        flat=(*first.flat, *second.flat),
        computed=(*first.computed, *second.computed),
    )

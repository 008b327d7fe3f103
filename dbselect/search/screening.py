"""Screening: restrict a lazy search to the groups that correlate most with the target.

It is not exact. If two columns have correlation r, and correlations 0 and s with the target, the
first gains ``(r s)^2 / (1 - r^2)`` after the second, which may be nearly all that is left. So no
rule on correlations with the target is safe, unlike for the lasso. The search itself is exact.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dbselect.errors import ArgumentError
from dbselect.linear.lazy_gram import LazyGram, distinct_columns
from dbselect.record.gram import Vector
from dbselect.search.lazy import LazySearch


def screened(search: LazySearch, most: int) -> LazySearch:
    """Restrict a search to `always` and the most promising groups, of `most` columns in all.

    The promise of a group is the largest squared correlation of a column with the target, per cost.

    Source: Fan, Lv (2008), Sure independence screening for ultrahigh dimensional feature space,
    Journal of the Royal Statistical Society B 70: with probability to 1 nothing that matters is
    left out, if what matters is correlated with the target by itself.
    """
    kept = _best(search, most)
    number = {group: at for at, group in enumerate(kept)}
    at = np.unique(np.concatenate([search.members[group] for group in kept]))
    table = search.table.of_columns(at)
    members = [np.searchsorted(at, search.members[group]) for group in kept]
    levels = None if search.levels is None else number.get(search.levels)
    return replace(
        search,
        table=table,
        groups=search.groups.only(kept),
        members=members,
        sums=LazyGram(table.scans, members, levels),
        levels=levels,
        first=[number[group] for group in search.first],
        chosen={number[group]: choice for group, choice in search.chosen.items()},
        before=search.groups,
    )


def _best(search: LazySearch, most: int) -> list[int]:
    """Return the groups to keep, ascending; ties go to the first group."""
    kept = set(search.first)
    columns = set(distinct_columns(search.members[group] for group in kept).tolist())
    if len(columns) > most:
        raise ArgumentError(
            f"screen is {most}; the groups to take first have {len(columns)} columns"
        )
    for group in _by_promise(search):
        if len(columns) == most:
            break
        new = [column for column in search.members[group].tolist() if column not in columns]
        if len(columns) + len(new) <= most:
            kept.add(group)
            columns.update(new)
    if not kept:
        smallest = min(map(len, search.members))
        raise ArgumentError(f"screen is {most}; the smallest group has {smallest} columns")
    return sorted(kept)


def _by_promise(search: LazySearch) -> Sequence[int]:
    """Return the groups by falling promise, equal ones in their order."""
    totals = search.table.totals
    squares = totals.squares[:-1] * totals.squares[-1]
    shares: Vector = np.zeros(len(squares))
    np.divide(totals.products[:-1] ** 2, squares, out=shares, where=squares > 0)
    ends = np.cumsum([0, *map(len, search.members[:-1])])
    largest = np.maximum.reduceat(shares[np.concatenate(search.members)], ends)
    order: list[int] = np.argsort(
        -largest / search.groups.prices.offers([]).counted, kind="stable"
    ).tolist()
    return order

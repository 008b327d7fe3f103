"""Folds of a table that is too wide for its Gram: each has sums of its own, from shared scans.

The sums for training add up those of the other folds, each around its means, by Chan's formula.
A scan serves all folds, and rows of the Gram are kept for the next point of the grid.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from dbselect._arrow import empty_table
from dbselect.errors import ArgumentError
from dbselect.linear.lazy_gram import BATCH, KEPT_BATCHES
from dbselect.linear.levels import ByLevel
from dbselect.linear.problem import Index
from dbselect.record.dependences import LevelGroup
from dbselect.record.gram import Gram, Matrix, Vector
from dbselect.search.table import table_of
from dbselect.search.wide_table import MOST_LEVELS_BY_ROW, WideTable, wide_source
from dbselect.sources.around import without
from dbselect.sources.partial.grouping import warn_of_folds
from dbselect.sources.partial.partial_aggregates import Summing, gather
from dbselect.sources.read import with_digits_of
from dbselect.sources.request import Folding
from dbselect.sources.sampling.folded import ByFold, RowFolds
from dbselect.sources.wide.gram_rows import LevelProducts, Products
from dbselect.sources.wide.wide_rows import WideRows
from dbselect.sources.wide.wide_sums import Margins, Totals, filled, fills_of
from dbselect.spec.spec import Spec


class FoldSums:
    """Sums of the folds of a wide table, and the rows of their Grams that were read.

    `present` lists the folds with rows, usable or not; `totals` are of the folds with usable rows,
    around the anchor of `whole`, the sums of all rows.
    """

    def __init__(self, folds: RowFolds, rows: WideRows) -> None:
        self._folds = folds
        self.rows = rows
        self.count = 0
        self._requested: set[int] = set()
        self._products: dict[int, dict[int, Vector]] = {}
        self.within: dict[Any, dict[int, Matrix]] = {}
        self._by_level: dict[Any, dict[int, tuple[Matrix, Any]]] = {}
        margins = self._read(dict.fromkeys(range(folds.folding.k), Margins(rows)))
        width = max(len(margin.entries.sums) for margin in margins.values())
        sums = {fold: margin.all(width) for fold, margin in margins.items()}
        self.present = [fold for fold, part in sums.items() if part.rows + part.skipped]
        whole = added_up(sums.values(), np.zeros(len(rows.names) + width + 1))
        fixed, means = fills_of(rows, whole), whole.means[0]
        fills = np.where(np.isnan(fixed), np.append(means[: len(rows.names)], means[-1]), fixed)
        self.whole = filled(whole, fixed)
        used = {fold: part for fold, part in sums.items() if part.rows}
        self.totals = {fold: filled(part.moved(whole.anchor), fills) for fold, part in used.items()}
        self.rows = replace(rows, fills=fills)

    def _read(self, works: Mapping[int, Summing]) -> dict[int, Any]:
        """Make one scan, with the sums of each fold apart."""
        self.count += 1
        folds = self._folds
        work = ByFold([*works.values()], [*works], folds.folding)
        fields = list(dict.fromkeys([*self.rows.fields, *folds.fields]))
        with work.begin() as sums:
            gather(folds.table, fields, work, sums, f"scan {self.count}")
            return {fold: part.sums for fold, part in zip(works, sums.states, strict=True)}

    def request(self, columns: Index) -> bool:
        """Request the products of columns; return whether they need no scan."""
        self._requested.update(columns.tolist())
        return all(column in self._products for column in columns.tolist())

    def fetch(self, columns: Index, within: Sequence[Index]) -> None:
        """Read the products of columns, and those within groups, of all folds, if they are new."""
        missing = np.array([c for c in columns.tolist() if c not in self._products], np.intp)
        are_known = all(_key(groups) in self.within for groups in within)
        new_groups = () if are_known else tuple(within)
        if not len(missing) and not new_groups:
            return
        by_fold = self._centred(lambda at, mean: Products(self.rows, at, mean, missing, new_groups))
        for at, column in enumerate(missing.tolist()):
            self._products[column] = {fold: rows[at].copy() for fold, (rows, _) in by_fold.items()}
        if new_groups:
            # The other groups belong to a point of the grid that is done.
            self.within = {
                _key(groups): {fold: blocks[at] for fold, (_, blocks) in by_fold.items()}
                for at, groups in enumerate(new_groups)
            }
        self._forget({*columns.tolist()})

    def _centred(self, work_of: Callable[[Vector, Vector], Any]) -> dict[int, Any]:
        """Make one scan of rows centred at the means of each fold."""
        works = {fold: work_of(totals.anchor, totals.mean) for fold, totals in self.totals.items()}
        sums = self._read(works)
        return {fold: work.around_means(sums[fold]) for fold, work in works.items()}

    def fetch_levels(self, levels: Index) -> dict[int, tuple[Matrix, Any]]:
        """Return `Scanned.by_level` of each fold, from one scan."""
        if _key(levels) not in self._by_level:
            by_fold = self._centred(lambda at, mean: LevelProducts(self.rows, at, mean, levels))
            self._by_level = {_key(levels): by_fold}
        return self._by_level[_key(levels)]

    def by_level(self, fold: int, levels: Index, others: Index) -> Matrix:
        """Return the sums by level of other columns and the target, on the rows of a fold."""
        totals, (dense, listed) = self.totals[fold], self.fetch_levels(levels)[fold]
        first, weight = dense.shape[1], totals.mean[levels] * totals.weight[-1]
        unit = np.ones_like(totals.mean)
        beside = ByLevel(dense, np.arange(first), listed, first, weight, totals.mean, unit, levels)
        return np.hstack([beside.sums(others), totals.products[levels][:, None]])

    def _forget(self, current: set[int]) -> None:
        """Drop the oldest columns that were read ahead and that no search needed."""
        spare = [c for c in self._products if c not in self._requested and c not in current]
        for column in spare[: max(len(spare) - KEPT_BATCHES * BATCH, 0)]:
            del self._products[column]

    def products(self, fold: int, columns: Index) -> Matrix:
        """Return the products of some columns with all on the rows of a fold; shape (k, D)."""
        return np.stack([self._products[column][fold] for column in columns.tolist()])


class OtherFolds:
    """Scans of the rows of all folds but the one held out; of all folds if that is None."""

    def __init__(self, sums: FoldSums, fold: int | None) -> None:
        self._sums = sums
        self._folds = [other for other in sums.totals if other != fold]
        parts = [sums.totals[other] for other in self._folds]
        self.totals = added_up(parts, sums.whole.anchor)
        self._kept = np.arange(len(self.totals.mean) - 1)

    @property
    def count(self) -> int:
        """Scans begun."""
        return self._sums.count

    def request(self, columns: Index) -> bool:
        """Request the products of columns; return whether they need no scan."""
        return self._sums.request(self._kept[columns])

    def among(self, columns: Index) -> "OtherFolds":
        """Return the scans of the columns at ascending positions, numbered anew."""
        scans = copy(self)
        scans._kept = self._kept[columns]
        return scans

    def products(self, columns: Index, within: Sequence[Index]) -> tuple[Matrix, list[Matrix]]:
        """Return the products of some columns with all, and those within groups."""
        columns, within = self._kept[columns], [self._kept[groups] for groups in within]
        self._sums.fetch(columns, within)
        rows = np.zeros((len(columns), len(self.totals.mean) - 1))
        blocks = [np.zeros((*groups.shape, groups.shape[1])) for groups in within]
        for fold in self._folds:
            totals = self._sums.totals[fold]
            weight, step = float(totals.weight[-1]), (totals.mean - self.totals.mean)[:-1]
            if len(columns):
                rows += self._sums.products(fold, columns)
                rows += weight * step[columns][:, None] * step
            for at, groups in enumerate(within):
                part = step[groups]
                blocks[at] += self._sums.within[_key(groups)][fold]
                blocks[at] += weight * part[:, :, None] * part[:, None, :]
        return rows[:, self._kept], blocks

    def by_level(self, levels: Index) -> tuple[Matrix, Any]:
        """Return sums by level of the dense columns around means, and of entries around 0."""
        levels = self._kept[levels]
        by_fold = self._sums.fetch_levels(levels)
        width = len(self._sums.rows.names)
        kept = self._kept[self._kept < width]
        dense: Any = 0.0
        listed: Any = 0.0
        for fold in self._folds:
            totals, (of_fold, entries) = self._sums.totals[fold], by_fold[fold]
            weight = totals.mean[levels] * totals.weight[-1]
            dense = dense + of_fold + np.outer(weight, (totals.mean - self.totals.mean)[:width])
            listed = listed + entries
        return dense[:, kept], listed[:, self._kept[self._kept >= width] - width]


def held_out(
    whole: WideTable, sums: FoldSums, fold: int, columns: Sequence[str]
) -> tuple[Gram, LevelGroup | None]:
    """Return the Gram of columns and target on a fold, and sums by level that it omits."""
    totals = sums.totals[fold]
    table = whole.of_rows(totals)
    number = {name: j for j, name in enumerate(table.names)}
    members = np.array([number[name] for name in columns], np.intp)
    levels = members[table.is_level(members)]
    by_level = None
    if len(levels) > MOST_LEVELS_BY_ROW:
        others = np.setdiff1d(members, levels)
        by_levels = sums.by_level(fold, levels, others)
        by_level = LevelGroup("levels", totals.mean[levels] * totals.weight[-1], by_levels)
        members = others
    sums.fetch(members, [])
    count = len(members)
    among = sums.products(fold, members)[:, members] if count else np.empty((0, 0))
    names = [table.names[j] for j in members.tolist()]
    return table.gram([*names, table.target], table.comoment(members, among)), by_level


def wide_folds(
    problem: Spec, folding: Folding, patterns: list[str] | None
) -> tuple[RowFolds, WideTable, FoldSums]:
    """Read the target and the columns of `patterns`, all if None, of each fold once."""
    table = with_digits_of(folding.key, table_of(problem, patterns))
    hidden = [folding.key] if patterns is None and folding.key is not None else []
    shown = without(table, hidden[0]) if hidden else table
    source = wide_source(problem, shown, patterns)
    if source.rows.sparse is not None and folding.key is None:
        raise ArgumentError(
            f"key is None; the rows of field '{source.rows.sparse}' have entries, and a key must "
            "state which rows stay together"
        )
    folds = RowFolds(table, replace(folding, columns=tuple(source.rows.request.taken)), hidden)
    folds.of(empty_table(table.schema))  # a key of a wrong type is refused unread
    sums = FoldSums(folds, source.rows)
    warn_of_folds([len(sums.present)], folding)
    whole = replace(source, rows=sums.rows).read(OtherFolds(sums, None), sums.whole)
    return folds, whole, sums


def _key(groups: Index) -> tuple[tuple[int, ...], bytes]:
    return groups.shape, groups.tobytes()


def added_up(parts: Iterable[Totals], anchor: Vector) -> Totals:
    """Merge totals, around one anchor."""
    merged = Totals.none(anchor)
    for part in parts:
        merged.add(part)
    return merged

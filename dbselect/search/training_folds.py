"""Folds of a table too wide for its Gram: all are summed apart, in the same scans.

The sums over the other folds are added up from those of each, around its own means, by Chan's
formula: no scan is for one fold alone, and none for rows of the Gram read for another point.
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
from dbselect.sources.wide.gram_rows import Products
from dbselect.sources.wide.level_sums import LevelProducts
from dbselect.sources.wide.wide_rows import WideRows
from dbselect.sources.wide.wide_sums import Margins, Totals, filled, fills_of
from dbselect.spec.spec import Spec


class FoldSums:
    """Sums of the folds of a wide table, and the rows of their Grams that were asked for.

    The folds `present` have rows, usable or not; `totals`, of those with usable ones, are from the
    anchor of `whole`, which sums all rows.
    """

    def __init__(self, folds: RowFolds, rows: WideRows) -> None:
        self._folds = folds
        self.rows = rows
        self.count = 0
        self._wanted: set[int] = set()
        self._known: dict[int, dict[int, Vector]] = {}
        self.within: dict[Any, dict[int, Matrix]] = {}
        self._by_level: dict[Any, dict[int, tuple[Matrix, Any]]] = {}
        sums = self._read(dict.fromkeys(range(folds.folding.k), Margins(rows)))
        width = max(len(one.entries.sums) for one in sums.values())
        found = {fold: one.all(width) for fold, one in sums.items()}
        self.present = [fold for fold, one in found.items() if one.rows + one.skipped]
        whole = added_up(found.values(), np.zeros(len(rows.names) + width + 1))
        known, means = fills_of(rows, whole), whole.means[0]
        fills = np.where(np.isnan(known), np.append(means[: len(rows.names)], means[-1]), known)
        self.whole = filled(whole, known)
        self.totals = {
            fold: filled(one.moved(whole.anchor), fills) for fold, one in found.items() if one.rows
        }
        self.rows = replace(rows, fills=fills)

    def _read(self, works: Mapping[int, Summing]) -> dict[int, Any]:
        """Make one scan, with a work for each fold."""
        self.count += 1
        folds = self._folds
        work = ByFold([*works.values()], [*works], folds.folding)
        fields = list(dict.fromkeys([*self.rows.fields, *folds.fields]))
        with work.begin() as sums:
            gather(folds.table, fields, work, sums, f"scan {self.count}")
            return {fold: one.sums for fold, one in zip(works, sums.each, strict=True)}

    def wanted(self, columns: Index) -> bool:
        """Return whether the products of some columns, which are needed now, take no scan."""
        self._wanted.update(columns.tolist())
        return all(column in self._known for column in columns.tolist())

    def fetch(self, columns: Index, within: Sequence[Index]) -> None:
        """Have the products of some columns, and of groups within themselves, of each fold."""
        missing = np.array([c for c in columns.tolist() if c not in self._known], np.intp)
        is_known = all(_key(groups) in self.within for groups in within)
        unknown = () if is_known else tuple(within)
        if not len(missing) and not unknown:
            return
        found = self._later(lambda at, mean: Products(self.rows, at, mean, missing, unknown))
        for at, column in enumerate(missing.tolist()):
            self._known[column] = {fold: rows[at].copy() for fold, (rows, _) in found.items()}
        if unknown:
            # Those of other groups were of a point of the grid that is done.
            self.within = {
                _key(groups): {fold: blocks[at] for fold, (_, blocks) in found.items()}
                for at, groups in enumerate(unknown)
            }
        self._forget({*columns.tolist()})

    def _later(self, work_of: Callable[[Vector, Vector], Any]) -> dict[int, Any]:
        """Make one scan of rows centred at the means of each fold."""
        works = {fold: work_of(one.anchor, one.mean) for fold, one in self.totals.items()}
        sums = self._read(works)
        return {fold: work.around_means(sums[fold]) for fold, work in works.items()}

    def fetch_levels(self, levels: Index) -> dict[int, tuple[Matrix, Any]]:
        """Return of each fold what `Scanned.by_level` does, in one scan for all."""
        if _key(levels) not in self._by_level:
            found = self._later(lambda at, mean: LevelProducts(self.rows, at, mean, levels))
            self._by_level = {_key(levels): found}
        return self._by_level[_key(levels)]

    def by_level(self, fold: int, levels: Index, others: Index) -> Matrix:
        """Return the sums by level of some other columns and the target on the rows of a fold."""
        own, (dense, listed) = self.totals[fold], self.fetch_levels(levels)[fold]
        first, weight = dense.shape[1], own.mean[levels] * own.weight[-1]
        unit = np.ones_like(own.mean)
        beside = ByLevel(dense, np.arange(first), listed, first, weight, own.mean, unit, levels)
        return np.hstack([beside.sums(others), own.products[levels][:, None]])

    def _forget(self, asked: set[int]) -> None:
        """Keep of the columns that no search needed those that were read last."""
        spare = [c for c in self._known if c not in self._wanted and c not in asked]
        for column in spare[: max(len(spare) - KEPT_BATCHES * BATCH, 0)]:
            del self._known[column]

    def products(self, fold: int, columns: Index) -> Matrix:
        """Return the products of some columns with all on the rows of a fold; shape (k, D)."""
        return np.stack([self._known[column][fold] for column in columns.tolist()])


class OtherFolds:
    """The scans of the rows of all folds but one, which is held out; None for no fold."""

    def __init__(self, sums: FoldSums, fold: int | None) -> None:
        self._sums = sums
        self._others = [other for other in sums.totals if other != fold]
        each = [sums.totals[other] for other in self._others]
        self.totals = added_up(each, sums.whole.anchor)
        self._kept = np.arange(len(self.totals.mean) - 1)

    @property
    def count(self) -> int:
        """Scans begun."""
        return self._sums.count

    def wanted(self, columns: Index) -> bool:
        """Return whether the products of some columns, which are needed now, take no scan."""
        return self._sums.wanted(self._kept[columns])

    def among(self, columns: Index) -> "OtherFolds":
        """Return the scans of some columns, ascending, which their new numbers name."""
        found = copy(self)
        found._kept = self._kept[columns]
        return found

    def products(self, columns: Index, within: Sequence[Index]) -> tuple[Matrix, list[Matrix]]:
        """Return the products of some columns with all, and those within groups."""
        columns, within = self._kept[columns], [self._kept[groups] for groups in within]
        self._sums.fetch(columns, within)
        rows = np.zeros((len(columns), len(self.totals.mean) - 1))
        blocks = [np.zeros((*groups.shape, groups.shape[1])) for groups in within]
        for fold in self._others:
            own = self._sums.totals[fold]
            weight, step = float(own.weight[-1]), (own.mean - self.totals.mean)[:-1]
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
        found = self._sums.fetch_levels(levels)
        width = len(self._sums.rows.names)
        kept = self._kept[self._kept < width]
        dense: Any = 0.0
        listed: Any = 0.0
        for fold in self._others:
            own, (of_fold, entries) = self._sums.totals[fold], found[fold]
            weight = own.mean[levels] * own.weight[-1]
            dense = dense + of_fold + np.outer(weight, (own.mean - self.totals.mean)[:width])
            listed = listed + entries
        return dense[:, kept], listed[:, self._kept[self._kept >= width] - width]


def held_out(
    whole: WideTable, sums: FoldSums, fold: int, columns: Sequence[str]
) -> tuple[Gram, LevelGroup | None]:
    """Return the Gram of columns and target on a fold, and what it lacks of very many levels."""
    own = sums.totals[fold]
    table = whole.of_rows(own)
    number = {name: j for j, name in enumerate(table.names)}
    members = np.array([number[name] for name in columns], np.intp)
    levels = members[table.is_level(members)]
    by_level = None
    if len(levels) > MOST_LEVELS_BY_ROW:
        others = np.setdiff1d(members, levels)
        by_levels = sums.by_level(fold, levels, others)
        by_level = LevelGroup("levels", own.mean[levels] * own.weight[-1], by_levels)
        members = others
    sums.fetch(members, [])
    count = len(members)
    among = sums.products(fold, members)[:, members] if count else np.empty((0, 0))
    names = [table.names[j] for j in members.tolist()]
    return table.gram([*names, table.target], table.comoment(members, among)), by_level


def wide_folds(
    problem: Spec, folding: Folding, named: list[str] | None
) -> tuple[RowFolds, WideTable, FoldSums]:
    """Read the target and other columns, all if none are named, of each fold once."""
    table = with_digits_of(folding.key, table_of(problem, named))
    hidden = [folding.key] if named is None and folding.key is not None else []
    shown = without(table, hidden[0]) if hidden else table
    asked = wide_source(problem, shown, named)
    if asked.rows.sparse is not None and folding.key is None:
        raise ArgumentError(
            f"key is None; the rows of field '{asked.rows.sparse}' have entries, and a key must "
            "state which rows stay together"
        )
    folds = RowFolds(table, replace(folding, columns=tuple(asked.rows.request.taken)), hidden)
    folds.of(empty_table(table.schema))  # a key of a wrong type is refused unread
    sums = FoldSums(folds, asked.rows)
    warn_of_folds([len(sums.present)], folding)
    read = replace(asked, rows=sums.rows)
    return folds, read.read(OtherFolds(sums, None), sums.whole), sums


def _key(groups: Index) -> tuple[tuple[int, ...], bytes]:
    return groups.shape, groups.tobytes()


def added_up(parts: Iterable[Totals], anchor: Vector) -> Totals:
    """Return the totals of the rows of several, from one anchor."""
    found = Totals.none(anchor)
    for part in parts:
        found.add(part)
    return found

"""Lazy Gram: only the rows that a search needs are computed.

A search needs the correlations of a chosen group with all columns, and of every other group only
those within it (`linear.state`). A missing row is read together with those of the groups with the
highest scores, so that most later steps find their rows in memory. For one group of very many
levels, sums by level replace the rows (`linear.levels`).

Memory: rows of D numbers for the chosen groups and two batches more.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from dbselect.linear.level_state import LevelState
from dbselect.linear.levels import ByLevel
from dbselect.linear.problem import Index, Linear
from dbselect.linear.state import LinearState, by_size
from dbselect.record.gram import Matrix, Vector

#: Number of rows read together, where the search needs fewer.
BATCH = 64
#: Most doubles in the rows read together, and the least number of rows.
BATCH_VALUES, LEAST_BATCH = 1 << 25, 8
#: Batches of rows of groups not chosen that are kept: those with the highest scores.
KEPT_BATCHES = 2


class Scanned(Protocol):
    """A table that is scanned for products of its columns."""

    @property
    def count(self) -> int:
        """Number of scans started."""

    def request(self, columns: Index) -> bool:
        """Request the products of columns; return whether they need no scan."""

    def products(self, columns: Index, within: Sequence[Index]) -> tuple[Matrix, list[Matrix]]:
        """Return products with all columns (k, D), and within groups by size, in one scan."""

    def by_level(self, levels: Index) -> tuple[Matrix, Any]:
        """Return sums by level of the dense columns, centered, and of entries, not centered."""

    def among(self, columns: Index) -> "Scanned":
        """Return a scanner of a subset of columns, ascending, which are renumbered from 0."""


class LazyGram:
    """Rows of the comoment of D columns, computed on demand; none for the group `levels`."""

    def __init__(self, scans: Scanned, members: Sequence[Index], levels: int | None = None) -> None:
        self._scans = scans
        self._members = members
        self._levels = levels
        self._sums: tuple[Matrix, Any] | None = None
        self._width = 1 + max(int(columns.max()) for columns in members)
        self._batch = min(BATCH, max(LEAST_BATCH, BATCH_VALUES // self._width))
        self._rows: dict[int, Vector] = {}
        self._chosen: set[int] = set()
        self._within: dict[int, Matrix] | None = None
        # Expected benefit of each group, shape (J,); groups with the highest are read ahead.
        self.promise: Vector | None = None
        self.rows_fetched = 0

    def rows(self, columns: Index) -> Matrix:
        """Return the rows of columns, reading those that are missing; shape (k, D)."""
        self._need(columns.tolist())
        return np.stack([self._rows[column] for column in columns.tolist()])

    def among(self, columns: Index) -> Matrix:
        """Return the block of columns; shape (k, k)."""
        self._need(columns.tolist())
        count = len(columns)
        rows = [self._rows[column][columns] for column in columns.tolist()]
        return np.array(rows).reshape(count, count)

    def by_level(self) -> tuple[Matrix, Any]:
        """Return `Scanned.by_level` of the group of levels, read once."""
        if self._sums is None:
            assert self._levels is not None
            self._sums = self._scans.by_level(self._members[self._levels])
        return self._sums

    def expect(self, groups: Sequence[int]) -> None:
        """Read the rows of groups in one scan, before they are needed one by one."""
        members = [self._members[group] for group in groups if group != self._levels]
        self._need(distinct_columns(members).tolist())

    def blocks(self, size: int) -> Matrix:
        """Return the blocks of the groups of s > 1 columns, as `by_size`; shape (B, s, s)."""
        if self._within is None:
            self._read([])
        assert self._within is not None
        return self._within[size]

    def _need(self, columns: Sequence[int]) -> None:
        """Make the rows of columns available, and keep them."""
        missing = [column for column in columns if column not in self._rows]
        self._chosen.update(columns)
        if missing:
            self._read(missing)

    def _read(self, missing: Sequence[int]) -> None:
        """Read the rows of columns, and of the groups with the highest scores."""
        columns = np.array(missing, np.intp)
        if not (missing and self._scans.request(columns)):
            columns = np.array([*missing, *self._promising(missing)], np.intp)
        groups_by_size = [] if self._within is not None else self._several()
        rows, blocks = self._scans.products(columns, groups_by_size)
        if self._within is None:
            self._within = {at.shape[1]: b for at, b in zip(groups_by_size, blocks, strict=True)}
        for column, row in zip(columns.tolist(), rows, strict=True):
            self._rows[column] = row.copy()
        self.rows_fetched += len(columns)
        self._forget()

    def _several(self) -> list[Index]:
        """Return the groups of more than one column, by size."""
        members = [columns for at, columns in enumerate(self._members) if at != self._levels]
        return [columns for _, columns in by_size(members) if columns.shape[1] > 1]

    def _promising(self, missing: Sequence[int]) -> list[int]:
        """Return the columns of groups to read with `missing`, as many as fit the batch."""
        if self.promise is None:
            return []
        ahead = dict.fromkeys(missing)
        # More candidates than a batch holds, as rows of many may be in memory.
        most = min(len(self.promise), len(self._rows) + self._batch)
        best = np.argpartition(-self.promise, most - 1)[:most]
        for group in best[np.argsort(-self.promise[best], kind="stable")].tolist():
            if group == self._levels:
                continue
            new = [column for column in self._members[group].tolist() if column not in self._rows]
            both = ahead | dict.fromkeys(new)
            if self.promise[group] <= 0 or len(both) > self._batch:
                break
            ahead = both
        return list(ahead)[len(missing) :]

    def _forget(self) -> None:
        """Drop rows of columns that were not chosen, those with the lowest scores."""
        waiting = np.array([c for c in self._rows if c not in self._chosen], np.intp)
        over = len(waiting) - KEPT_BATCHES * self._batch
        if over <= 0 or self.promise is None:
            return
        # The score of a column is the best of its groups.
        promise = np.zeros(self._width)
        scores = np.repeat(self.promise, [*map(len, self._members)])
        np.maximum.at(promise, np.concatenate(self._members), scores)
        for at in np.argsort(promise[waiting], kind="stable")[:over]:
            del self._rows[int(waiting[at])]


def distinct_columns(groups: Iterable[Index]) -> Index:
    """Return the distinct columns of groups."""
    return np.array([*dict.fromkeys(c for columns in groups for c in columns.tolist())], np.intp)


@dataclass(frozen=True)
class WideLinear(Linear):
    """The linear problem on a lazy Gram; the G of `Linear` is empty."""

    sums: Any = None
    inverse: Any = None  # shape (D,), factor from sums to correlations, 0 for constant columns
    weight: float = 0.0  # of all rows

    @property
    def variances(self) -> Vector:
        """The diagonal of G; shape (D,)."""
        return np.where(self.constant, 0.0, 1.0)

    def rows(self, columns: Index) -> Matrix:
        """Return rows of G; shape (k, D)."""
        rows = self.sums.rows(columns)
        rows *= self.inverse
        rows *= self.inverse[columns][:, None]
        rows[np.arange(len(columns)), columns] = self.variances[columns]
        return np.asarray(rows)

    def by_level(self, levels: Index) -> ByLevel:
        """Return the products of a group of levels with all columns."""
        dense, listed = self.sums.by_level()
        first = dense.shape[1]
        weight = self.mean[levels] * self.weight
        return ByLevel(
            dense, np.arange(first), listed, first, weight, self.mean, self.inverse, levels
        )

    def block(self, columns: Index) -> Matrix:
        """Return the block of G of columns of chosen groups; shape (k, k)."""
        inverse = self.inverse[columns]
        block = self.sums.among(columns) * inverse * inverse[:, None]
        block[np.diag_indices_from(block)] = self.variances[columns]
        return np.asarray(block)

    def blocks(self, columns: Index) -> Matrix:
        """Return the blocks of G of all groups of s columns, as `by_size`; shape (B, s, s)."""
        diagonal = np.arange(columns.shape[1])
        blocks = np.zeros((*columns.shape, columns.shape[1]))
        if columns.shape[1] > 1:
            blocks = self.sums.blocks(columns.shape[1])
            inverse = self.inverse[columns]
            blocks = blocks * inverse[:, :, None] * inverse[:, None, :]
        blocks[:, diagonal, diagonal] = self.variances[columns]
        return blocks


class WideState(LinearState):
    """State of a `WideLinear`, which can read the rows of several groups at once."""

    problem: Any

    @property
    def most(self) -> float:
        """Upper bound on the objective: the whole variance of the target."""
        return 1.0

    def expect(self, candidates: Sequence[int]) -> None:
        """Read the rows of candidate groups in one scan."""
        self._sums.expect(candidates)

    @property
    def _sums(self) -> LazyGram:
        return self.problem.sums  # type: ignore[no-any-return]


class WideLevelState(WideState, LevelState):
    """State of a `WideLinear` with a group of very many levels."""

    @property
    def _sums(self) -> LazyGram:
        return self._whole.sums  # type: ignore[no-any-return]

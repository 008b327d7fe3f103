"""A Gram of which only the rows are there that a search asked for.

Of a group that is chosen a search needs the correlations with all columns, of all others those
within the group (`engine.linear_state`). A row that is missing is read with those of the groups
that promise most, as the rule scores them; most steps then find their rows there. Of one group of
very many levels sums by level replace them (`linear.levels`).

Memory: of D columns, rows of the groups that were chosen and two batches more.
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

#: Columns whose rows are read together, where the search needs fewer.
BATCH = 64
#: Doubles of the rows read together, which of very many columns are fewer; but so many at least.
BATCH_VALUES, LEAST_BATCH = 1 << 25, 8
#: Batches of rows of groups that are not chosen which are kept: those that promise most.
KEPT_BATCHES = 2


class Scanned(Protocol):
    """A table that is read again for products of its columns."""

    @property
    def count(self) -> int:
        """Scans begun."""

    def wanted(self, columns: Index) -> bool:
        """Return whether the products of some columns, which are needed now, take no scan."""

    def products(self, columns: Index, within: Sequence[Index]) -> tuple[Matrix, list[Matrix]]:
        """Return products with all columns (k, D), and those of groups by size, in one scan."""

    def by_level(self, levels: Index) -> tuple[Matrix, Any]:
        """Return sums by level of the dense columns around means, and of entries around 0."""

    def among(self, columns: Index) -> "Scanned":
        """Return the scans of some columns, ascending, which their new numbers name."""


class LazyGram:
    """Sums of products of D columns around their means, some rows; of `levels` none."""

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
        # What each group promises, shape (J,): the most promising are read ahead.
        self.promise: Vector | None = None
        self.rows_fetched = 0

    def rows(self, columns: Index) -> Matrix:
        """Return the rows of some columns, reading those that are not there; shape (k, D)."""
        self._need(columns.tolist())
        return np.stack([self._rows[column] for column in columns.tolist()])

    def among(self, columns: Index) -> Matrix:
        """Return the products of some columns among themselves; shape (k, k)."""
        self._need(columns.tolist())
        count = len(columns)
        rows = [self._rows[column][columns] for column in columns.tolist()]
        return np.array(rows).reshape(count, count)

    def by_level(self) -> tuple[Matrix, Any]:
        """Return what `Scanned.by_level` does of the group of levels, read once."""
        if self._sums is None:
            assert self._levels is not None
            self._sums = self._scans.by_level(self._members[self._levels])
        return self._sums

    def expect(self, groups: Sequence[int]) -> None:
        """Read the rows of some groups, of which many may be asked for one after the other."""
        taken = [self._members[group] for group in groups if group != self._levels]
        self._need(each_once(taken).tolist())

    def blocks(self, size: int) -> Matrix:
        """Return the products within the groups of s > 1 columns, as `by_size`; (B, s, s)."""
        if self._within is None:
            self._read([])
        assert self._within is not None
        return self._within[size]

    def _need(self, columns: Sequence[int]) -> None:
        """Have the rows of some columns, which are kept."""
        missing = [column for column in columns if column not in self._rows]
        self._chosen.update(columns)
        if missing:
            self._read(missing)

    def _read(self, missing: Sequence[int]) -> None:
        """Read the rows of some columns, and of the groups that promise most."""
        columns = np.array(missing, np.intp)
        if not (missing and self._scans.wanted(columns)):
            columns = np.array([*missing, *self._promising(missing)], np.intp)
        groups_by_size = [] if self._within is not None else self._several()
        rows, blocks = self._scans.products(columns, groups_by_size)
        if self._within is None:
            self._within = {own.shape[1]: b for own, b in zip(groups_by_size, blocks, strict=True)}
        for column, row in zip(columns.tolist(), rows, strict=True):
            self._rows[column] = row.copy()
        self.rows_fetched += len(columns)
        self._forget()

    def _several(self) -> list[Index]:
        """Return the groups of more than one column, those of each size together."""
        own = [columns for at, columns in enumerate(self._members) if at != self._levels]
        return [columns for _, columns in by_size(own) if columns.shape[1] > 1]

    def _promising(self, missing: Sequence[int]) -> list[int]:
        """Return the columns to read ahead of some, of as many groups as the batch has room for."""
        if self.promise is None:
            return []
        ahead = dict.fromkeys(missing)
        # More are looked at than a batch holds, as rows of many may be there.
        most = min(len(self.promise), len(self._rows) + self._batch)
        best = np.argpartition(-self.promise, most - 1)[:most]
        for group in best[np.argsort(-self.promise[best], kind="stable")].tolist():
            if group == self._levels:
                continue
            own = [column for column in self._members[group].tolist() if column not in self._rows]
            both = ahead | dict.fromkeys(own)
            if self.promise[group] <= 0 or len(both) > self._batch:
                break
            ahead = both
        return list(ahead)[len(missing) :]

    def _forget(self) -> None:
        """Keep of the columns that were not chosen the rows that promise most."""
        waiting = np.array([c for c in self._rows if c not in self._chosen], np.intp)
        over = len(waiting) - KEPT_BATCHES * self._batch
        if over <= 0 or self.promise is None:
            return
        # A column promises what the best of its groups does.
        promise = np.zeros(self._width)
        each = np.repeat(self.promise, [*map(len, self._members)])
        np.maximum.at(promise, np.concatenate(self._members), each)
        for at in np.argsort(promise[waiting], kind="stable")[:over]:
            del self._rows[int(waiting[at])]


def each_once(groups: Iterable[Index]) -> Index:
    """Return the columns of some groups, each once."""
    return np.array([*dict.fromkeys(c for own in groups for c in own.tolist())], np.intp)


@dataclass(frozen=True)
class WideLinear(Linear):
    """The linear problem on a Gram that is read as it is needed; the G of `Linear` is empty."""

    sums: Any = None
    inverse: Any = None  # shape (D,), from the sums to correlations, 0 for constant columns
    weight: float = 0.0  # of all rows

    @property
    def variances(self) -> Vector:
        """The diagonal of G; shape (D,)."""
        return np.where(self.constant, 0.0, 1.0)

    def rows(self, columns: Index) -> Matrix:
        """Return the rows of G of some columns; shape (k, D)."""
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
        """Return G of some columns of chosen groups among themselves; shape (k, k)."""
        inverse = self.inverse[columns]
        block = self.sums.among(columns) * inverse * inverse[:, None]
        block[np.diag_indices_from(block)] = self.variances[columns]
        return np.asarray(block)

    def blocks(self, columns: Index) -> Matrix:
        """Return G of the columns of all groups of s columns, as `by_size`; shape (B, s, s)."""
        diagonal = np.arange(columns.shape[1])
        blocks = np.zeros((*columns.shape, columns.shape[1]))
        if columns.shape[1] > 1:
            blocks = self.sums.blocks(columns.shape[1])
            inverse = self.inverse[columns]
            blocks = blocks * inverse[:, :, None] * inverse[:, None, :]
        blocks[:, diagonal, diagonal] = self.variances[columns]
        return blocks


class WideState(LinearState):
    """What is selected of a `WideLinear`, which reads rows for several groups at once."""

    problem: Any

    @property
    def most(self) -> float:
        """No groups at all explain more than the target's variance."""
        return 1.0

    def expect(self, candidates: Sequence[int]) -> None:
        """Read the rows of some groups, in one scan."""
        self._sums.expect(candidates)

    @property
    def _sums(self) -> LazyGram:
        return self.problem.sums  # type: ignore[no-any-return]


class WideLevelState(WideState, LevelState):
    """The same where one of the groups has very many levels."""

    @property
    def _sums(self) -> LazyGram:
        return self._whole.sums  # type: ignore[no-any-return]

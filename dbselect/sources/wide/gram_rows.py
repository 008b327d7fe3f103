"""Sums over the rows of a wide table: products of some columns with all.

A later reading uses the means, and adds ``X_S' W X`` of rows centred at them, so that rounding
in a mean enters only by its square. It also has the products within groups. Products of entries
with each other are summed around 0, as most are 0, and moved to the means at the end.
"""

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np

from dbselect.record.entries import Mask
from dbselect.record.gram import Matrix, Vector
from dbselect.sources.wide.centered_scan import LaterReading, compress_columns, taken
from dbselect.sources.wide.wide_rows import Index

#: Group, row and column of what is not 0, and its value.
Nonzeros = tuple[Index, Index, Index, Vector]


@dataclass(frozen=True, eq=False)
class Products(LaterReading):
    """A later reading: products of some columns with all, and of groups within themselves."""

    columns: Index  # shape (k,), those whose products with all columns are summed
    #: One array of shape (B, s) a size s, the columns of B groups of that size
    within: tuple[Index, ...] = ()

    @property
    def size(self) -> int:
        """About how many bytes a state has."""
        blocks = sum(len(groups) * groups.shape[1] ** 2 for groups in self.within)
        return int(8 * (len(self.columns) * len(self.mean) + blocks))

    @cached_property
    def are_listed(self) -> list[Mask]:
        """For each of `within`, which groups are of entries only; shape (B,)."""
        return [np.all(groups >= self.n_dense, axis=1) for groups in self.within]

    @property
    def parted(self) -> list[tuple[Index, Index]]:
        """For each of `within`, the groups that have other columns, and those of entries only."""
        both = zip(self.within, self.are_listed, strict=True)
        return [(groups[~listed], groups[listed]) for groups, listed in both]

    @cached_property
    def is_entry(self) -> Mask:
        """Which of `columns` are of entries; shape (k,)."""
        return np.asarray(self.columns >= self.n_dense)

    @contextmanager
    def begin(self) -> Iterator["ProductSums"]:
        """Begin without rows."""
        blocks = [np.zeros((*g.shape, g.shape[1])) for g in self.within]
        yield ProductSums(self, np.zeros((len(self.columns), len(self.mean) - 1)), blocks)


@dataclass(eq=False)
class ProductSums:
    """Products of a later reading under way."""

    asked: Products
    sums: Matrix  # shape (k, D), of entries with each other around 0
    within: list[Matrix]  # those within groups, of groups of entries around 0
    weight: float = 0.0  # of the rows
    _lock: Any = field(default_factory=Lock)

    def add(self, batch: Any) -> None:
        """Add some rows; may be called from several threads at once.

        Every thread writes products of its own, one BLAS call each, before it takes the lock.
        """
        asked, first = self.asked, self.asked.n_dense
        for piece in asked.rows.pieces(batch):
            X, rooted, root = asked.centred(piece)
            chosen = self._columns(asked.columns, X, rooted, root)
            dense = chosen.T @ X[:, :-1]
            if rooted is not None:
                # Only one side needs to be centred: of rows centred at their mean, the sum is 0.
                met, few = compress_columns(rooted)
                beside = chosen[:, ~asked.is_entry].T @ few
                # Of entries neither is: a product costs those of the rows that have both.
                own = taken(rooted, self._at(asked.columns[asked.is_entry]))
                among = (own.T @ rooted).tocoo()
            within = [
                (
                    _within(self._columns(groups.ravel(), X, rooted, root), groups.shape),
                    None if rooted is None else _among(rooted, self._at(those)),
                )
                for groups, those in asked.parted
            ]
            with self._lock:
                self.weight += float(piece.weight.sum())
                self.sums[:, :first] += dense
                if rooted is not None:
                    at = np.arange(few.shape[1]) if met is None else met
                    self.sums[np.ix_(np.flatnonzero(~asked.is_entry), first + at)] += beside
                    rows = np.flatnonzero(asked.is_entry)[among.row]
                    self.sums[rows, first + among.col] += among.data
                for mine, is_listed, (blocks, listed) in zip(
                    self.within, asked.are_listed, within, strict=True
                ):
                    mine[~is_listed] += blocks
                    if listed is not None and is_listed.any():
                        block, one, other, value = listed
                        np.add.at(mine, (np.flatnonzero(is_listed)[block], one, other), value)

    def _at(self, columns: Index) -> Index:
        """Return where columns of entries stand among these."""
        return columns - self.asked.n_dense

    def _columns(self, columns: Index, X: Matrix, rooted: Any, root: Vector) -> Matrix:
        """Return some columns of a piece, centred, times the roots of the weights; (n, k)."""
        if rooted is None:
            return np.asarray(X[:, columns])
        found = np.empty((len(X), len(columns)))
        is_entry = columns >= self.asked.n_dense
        found[:, ~is_entry] = X[:, columns[~is_entry]]
        values = taken(rooted, self._at(columns[is_entry])).toarray()
        found[:, is_entry] = values - self.asked.mean[columns[is_entry]] * root[:, None]
        return found

    def around_means(self) -> tuple[Matrix, list[Matrix]]:
        """Return the products with all, shape (k, D), and those within groups; once."""
        asked, first = self.asked, self.asked.n_dense
        mean = asked.mean[:-1]
        for row in np.flatnonzero(asked.is_entry).tolist():
            self.sums[row, first:] -= self.weight * mean[asked.columns[row]] * mean[first:]
        for found, groups, is_listed in zip(
            self.within, asked.within, asked.are_listed, strict=True
        ):
            for at in np.flatnonzero(is_listed).tolist():
                found[at] -= self.weight * np.outer(mean[groups[at]], mean[groups[at]])
        return self.sums, self.within

    def load(self, part: bytes) -> None:
        """Add the products of another process."""
        sums, within, weight = pickle.loads(part)
        self.weight += weight
        np.add(self.sums, sums, out=self.sums)
        for mine, more in zip(self.within, within, strict=True):
            np.add(mine, more, out=mine)

    def state(self) -> bytes:
        """Return the products."""
        return pickle.dumps((self.sums, self.within, self.weight))


def _within(X: Matrix, shape: tuple[int, ...]) -> Matrix:
    """Return the products of the columns of each group among themselves; shape (B, s, s)."""
    parts = X.T.reshape(*shape, len(X))
    return np.asarray(parts @ parts.transpose(0, 2, 1))


def _among(rooted: Any, at: Index) -> Nonzeros:
    """Return the products around 0 within groups of entries at (B, s), those that are not 0."""
    own = taken(rooted, at.ravel())
    found, size = (own.T @ own).tocoo(), at.shape[1]
    inside = found.row // size == found.col // size
    row, column = found.row[inside], found.col[inside]
    return row // size, row % size, column % size, found.data[inside]

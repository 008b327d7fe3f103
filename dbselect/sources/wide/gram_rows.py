"""Sums over the rows of a wide table: products of some columns with all, and within groups.

Rows are centred at known means, so that rounding in a mean enters only by its square. Products of
entries with each other are summed around 0, as most are 0, and moved to the means at the end.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dbselect.record.entries import Mask
from dbselect.record.gram import Matrix, Vector
from dbselect.sources.wide.centered_scan import LaterReading, compress_columns, taken
from dbselect.sources.wide.wide_rows import Index, Piece

#: Group, row and column of what is not 0, and its value.
Nonzeros = tuple[Index, Index, Index, Vector]


@dataclass(eq=False)
class ProductSums:
    """Products over some rows."""

    rows: Matrix  # shape (k, D), of entries with each other around 0
    within: list[Matrix]  # of each size of groups (B, s, s), of groups of entries around 0
    weight: float = 0.0  # of the rows


@dataclass(frozen=True, eq=False)
class PieceProducts:
    """Products of a piece."""

    dense: Matrix  # shape (k, n_dense), with the dense columns
    #: Those of dense columns with entries, shape (k - k_entries, m), and which m entries they are;
    #: and a sparse matrix of entries with each other, around 0; None without entries
    listed: tuple[Matrix, Index, Any] | None
    #: Of each size of groups: those with other columns, (B, s, s), and of entries only, around 0
    within: Sequence[tuple[Matrix, Nonzeros | None]]
    weight: float  # of the rows


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

    @cached_property
    def is_entry(self) -> Mask:
        """Which of `columns` are of entries; shape (k,)."""
        return np.asarray(self.columns >= self.n_dense)

    def none(self) -> ProductSums:
        """Return the products of no rows."""
        blocks = [np.zeros((*groups.shape, groups.shape[1])) for groups in self.within]
        return ProductSums(np.zeros((len(self.columns), len(self.mean) - 1)), blocks)

    def of(self, batch: Any) -> Iterator[PieceProducts]:
        """Give the products of the pieces of a batch."""
        return map(self._of, self.rows.pieces(batch))

    def _of(self, piece: Piece) -> PieceProducts:
        """Return the products of a piece, whose values are changed."""
        X, rooted, root = self.centred(piece)
        chosen = self._columns(self.columns, X, rooted, root)
        # Every thread writes a product of its own: one BLAS call, without the lock.
        dense, listed = chosen.T @ X[:, :-1], None
        if rooted is not None:
            # Only one side needs to be centred: of rows centred at their mean, the sum is 0.
            met, few = compress_columns(rooted)
            beside = chosen[:, ~self.is_entry].T @ few
            # Of entries neither is: a product costs those of the rows that have both.
            own = taken(rooted, self.columns[self.is_entry] - self.n_dense)
            at = np.arange(few.shape[1]) if met is None else met
            listed = beside, at, (own.T @ rooted).tocoo()
        within = []
        for groups, is_listed in zip(self.within, self.are_listed, strict=True):
            others, entered = groups[~is_listed], groups[is_listed] - self.n_dense
            columns = self._columns(others.ravel(), X, rooted, root)
            nonzeros = None if rooted is None else _among(rooted, entered)
            within.append((_within(columns, others.shape), nonzeros))
        return PieceProducts(dense, listed, within, float(piece.weight.sum()))

    def _columns(self, columns: Index, X: Matrix, rooted: Any, root: Vector) -> Matrix:
        """Return some columns of a piece, centred, times the roots of the weights; (n, k)."""
        if rooted is None:
            return np.asarray(X[:, columns])
        found = np.empty((len(X), len(columns)))
        is_entry = columns >= self.n_dense
        found[:, ~is_entry] = X[:, columns[~is_entry]]
        values = taken(rooted, columns[is_entry] - self.n_dense).toarray()
        found[:, is_entry] = values - self.mean[columns[is_entry]] * root[:, None]
        return found

    def added(self, sums: ProductSums, more: PieceProducts | ProductSums) -> ProductSums:
        """Add the products of a piece, or of another process."""
        sums.weight += more.weight
        if isinstance(more, ProductSums):
            sums.rows += more.rows
            for mine, blocks in zip(sums.within, more.within, strict=True):
                np.add(mine, blocks, out=mine)
            return sums
        first = self.n_dense
        sums.rows[:, :first] += more.dense
        if more.listed is not None:
            beside, at, among = more.listed
            sums.rows[np.ix_(np.flatnonzero(~self.is_entry), first + at)] += beside
            rows = np.flatnonzero(self.is_entry)[among.row]
            sums.rows[rows, first + among.col] += among.data
        for mine, is_listed, (dense, listed) in zip(
            sums.within, self.are_listed, more.within, strict=True
        ):
            mine[~is_listed] += dense
            if listed is not None and is_listed.any():
                block, one, other, value = listed
                np.add.at(mine, (np.flatnonzero(is_listed)[block], one, other), value)
        return sums

    def around_means(self, sums: ProductSums) -> tuple[Matrix, list[Matrix]]:
        """Return the products with all, shape (k, D), and those within groups; `sums` change."""
        mean, first = self.mean[:-1], self.n_dense
        for row in np.flatnonzero(self.is_entry).tolist():
            sums.rows[row, first:] -= sums.weight * mean[self.columns[row]] * mean[first:]
        for found, groups, is_listed in zip(sums.within, self.within, self.are_listed, strict=True):
            for at in np.flatnonzero(is_listed).tolist():
                found[at] -= sums.weight * np.outer(mean[groups[at]], mean[groups[at]])
        return sums.rows, sums.within


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

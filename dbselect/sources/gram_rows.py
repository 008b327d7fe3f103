"""Sums over the rows of a wide table: products of some columns with all.

A later reading knows the means, and adds ``X_S' W X`` of rows centred at them: of what rounding
left in a mean, only the square is lost. It also has the products within groups. Of groups of
entries these are summed around 0, as most are 0 there, and moved to the means in the end.
"""

import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
from scipy.sparse import diags_array

from dbselect.record.entries import Mask
from dbselect.record.gram import Matrix, Vector
from dbselect.sources.wide_rows import Index, Piece, WideRows

#: Group, row and column of what is not 0, and its value.
Nonzeros = tuple[Index, Index, Index, Vector]


@dataclass(frozen=True, eq=False)
class GroupProducts:
    """Products within the groups of one size, of a piece.

    Parameters
    ----------
    dense : shape (B, s, s), of groups that have other columns than entries
    listed : of groups of entries, around 0; None without entries
    """

    dense: Matrix
    listed: Nonzeros | None


@dataclass(frozen=True, eq=False)
class Products:
    """A later reading: products of some columns with all, and of groups within themselves.

    Parameters
    ----------
    rows : WideRows
    anchor, mean : shape (D + 1,), as in `Totals`
    columns : shape (k,), those whose products with all are wanted
    within : one array of shape (B, s) a size s, the columns of B groups of that size
    """

    rows: WideRows
    anchor: Vector
    mean: Vector
    columns: Index
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

    @property
    def n_dense(self) -> int:
        """Columns that are no entries of a field; they come first."""
        return len(self.rows.names)

    @contextmanager
    def begin(self) -> Iterator["ProductSums"]:
        """Begin without rows."""
        blocks = [np.zeros((*g.shape, g.shape[1])) for g in self.within]
        width, k = len(self.mean) - 1, len(self.columns)
        yield ProductSums(
            self, np.zeros((k, self.n_dense)), np.zeros((width - self.n_dense, k)), blocks
        )


@dataclass(eq=False)
class ProductSums:
    """Products of a later reading under way.

    Parameters
    ----------
    dense : shape (k, n_dense), products with the columns of a piece
    sparse : shape (D - n_dense, k), products with the entries
    within : those within groups, of groups of entries around 0
    weight : of the rows
    """

    asked: Products
    dense: Matrix
    sparse: Matrix
    within: list[Matrix]
    weight: float = 0.0
    _lock: Any = field(default_factory=Lock)

    def add(self, batch: Any) -> None:
        """Add some rows; may be called from several threads at once."""
        for piece in self.asked.rows.pieces(batch):
            weight = float(piece.weight.sum())
            found = self._of(piece)
            with self._lock:
                self._take(*found, weight)

    def _of(self, piece: Piece) -> tuple[Matrix, Any, list[GroupProducts]]:
        """Return the products of a piece, whose values are changed."""
        asked, X, root = self.asked, piece.X, np.sqrt(piece.weight)
        centre = self._at_target(asked.anchor), self._at_target(asked.mean)
        X -= centre[0]
        X -= centre[1]
        X *= root[:, None]
        if piece.has_gaps:
            np.nan_to_num(X, copy=False)  # a mean in the place of what is missing
        by_column = None if piece.entries is None else piece.entries.tocsc()
        chosen = self._columns(asked.columns, X, by_column, root)
        # Every thread writes a product of its own: one BLAS call, without the lock.
        dense = chosen.T @ X[:, :-1]
        within = [
            GroupProducts(
                _within(self._columns(groups.ravel(), X, by_column, root), groups.shape),
                None if by_column is None else _among(by_column, self._at(listed), root),
            )
            for groups, listed in asked.parted
        ]
        if by_column is None:
            return dense, None, within
        # Only one side needs to be centred: of rows centred at their mean, the sum is 0.
        chosen *= root[:, None]
        return dense, by_column.T @ chosen, within

    def _at_target(self, values: Vector) -> Vector:
        """Return what stands for the columns of a piece: those before the entries, the target."""
        return np.append(values[: self.asked.n_dense], values[-1])

    def _at(self, columns: Index) -> Index:
        """Return where columns of entries stand among these."""
        return columns - self.asked.n_dense

    def _columns(self, columns: Index, X: Matrix, by_column: Any, root: Vector) -> Matrix:
        """Return some columns of a piece, centred, times the roots of the weights; (n, k)."""
        if by_column is None:
            return np.asarray(X[:, columns])
        found = np.empty((len(X), len(columns)))
        is_entry = columns >= self.asked.n_dense
        found[:, ~is_entry] = X[:, columns[~is_entry]]
        values = _taken(by_column, self._at(columns[is_entry])).toarray()
        found[:, is_entry] = (values - self.asked.mean[columns[is_entry]]) * root[:, None]
        return found

    def _take(
        self, dense: Matrix, sparse: Any, within: Sequence[GroupProducts], weight: float
    ) -> None:
        self.weight += weight
        np.add(self.dense, dense, out=self.dense)
        if sparse is not None:
            self.sparse[: len(sparse)] += sparse
        for mine, is_listed, more in zip(self.within, self.asked.are_listed, within, strict=True):
            mine[~is_listed] += more.dense
            if more.listed is not None and is_listed.any():
                own, block, row, column = np.flatnonzero(is_listed), *more.listed[:3]
                np.add.at(mine, (own[block], row, column), more.listed[3])

    @property
    def products(self) -> Matrix:
        """The products of the columns asked for with all; shape (k, D)."""
        if not len(self.sparse):
            return self.dense
        return np.hstack([self.dense, self.sparse.T])

    @property
    def blocks(self) -> list[Matrix]:
        """The products within groups around the means; those so far are no longer after it."""
        for found, groups, is_listed in zip(
            self.within, self.asked.within, self.asked.are_listed, strict=True
        ):
            for at in np.flatnonzero(is_listed).tolist():
                mean = self.asked.mean[groups[at]]
                found[at] -= self.weight * np.outer(mean, mean)
        return self.within

    def load(self, part: bytes) -> None:
        """Add the products of another process."""
        dense, sparse, within, weight = pickle.loads(part)
        self.weight += weight
        np.add(self.dense, dense, out=self.dense)
        np.add(self.sparse, sparse, out=self.sparse)
        for mine, more in zip(self.within, within, strict=True):
            np.add(mine, more, out=mine)

    def state(self) -> bytes:
        """Return the products."""
        return pickle.dumps((self.dense, self.sparse, self.within, self.weight))


def _within(X: Matrix, shape: tuple[int, ...]) -> Matrix:
    """Return the products of the columns of each group among themselves; shape (B, s, s)."""
    parts = X.T.reshape(*shape, len(X))
    return np.asarray(parts @ parts.transpose(0, 2, 1))


def _taken(by_column: Any, at: Index) -> Any:
    """Return some columns of entries; a piece may lack the last, which are 0."""
    most = int(at.max(initial=-1)) + 1
    if most > by_column.shape[1]:
        by_column = by_column.copy()
        by_column.resize(by_column.shape[0], most)
    return by_column[:, at]


def _among(by_column: Any, at: Index, root: Vector) -> Nonzeros:
    """Return the products around 0 within groups of entries, those that are not 0.

    Parameters
    ----------
    at : shape (B, s)
    """
    own = _taken(by_column, at.ravel())
    own = diags_array(root) @ own
    found, size = (own.T @ own).tocoo(), at.shape[1]
    inside = found.row // size == found.col // size
    row, column = found.row[inside], found.col[inside]
    return row // size, row % size, column % size, found.data[inside]

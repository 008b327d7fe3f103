"""Sums over the rows of a wide table: of each column by itself, and of some with all.

`Margins` has means, variances and products with the target, which take O(D) memory; each
piece is centred at its own means, and pieces are merged by Chan's formula. `Products`, of a
later reading, knows the means, and adds ``X_S' W X`` of rows centred at them: of what rounding
left in a mean, only the square is lost.
"""

import pickle
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

import numpy as np

from dbselect.record.gram import Matrix, Vector
from dbselect.sources.sparse_rows import EntryTotals
from dbselect.sources.wide_rows import Index, Piece, WideRows


@dataclass
class Totals:
    """Sums of D columns beside a target, those present of each.

    Parameters
    ----------
    anchor : shape (D + 1,), a value of each column, the target last: means are told from it, so
        that one far from 0 costs no digits, and a constant column is one exactly
    rows, skipped : used, and left out
    missing : column of the table -> rows in which it is NULL or NaN
    weight : shape (D + 1,), weight of the rows in which each is there
    mean : shape (D + 1,), from the anchor
    beside : shape (D + 1,), mean of the target in these rows, from its anchor
    squares, products : shape (D + 1,), sums around the means of each, and with the target
    """

    anchor: Vector
    rows: int
    skipped: int
    missing: Counter[str]
    weight: Vector
    mean: Vector
    beside: Vector
    squares: Vector
    products: Vector

    @classmethod
    def none(cls, anchor: Vector) -> "Totals":
        """Return the sums of no rows."""
        return cls(anchor, 0, 0, Counter(), *(np.zeros(len(anchor)) for _ in range(5)))

    @classmethod
    def of(cls, piece: Piece, anchor: Vector) -> "Totals":
        """Return the sums of a piece, whose values are changed."""
        X, w = piece.X, piece.weight
        found = cls.none(anchor)
        found.rows, found.skipped, found.missing = len(X), piece.skipped, piece.missing
        X -= anchor
        y = X[:, -1].copy()
        gaps = np.isnan(X) if piece.has_gaps else None
        if gaps is None:
            found.weight = np.full(len(anchor), w.sum())
            beside = np.full(len(anchor), w @ y)
        else:
            there = (~gaps).astype(np.float64)
            found.weight, beside = w @ there, (w * y) @ there
            X[gaps] = 0.0
        divisor = np.where(found.weight > 0, found.weight, 1.0)
        found.mean, found.beside = w @ X / divisor, beside / divisor
        X -= found.mean
        if gaps is not None:
            X[gaps] = 0.0
        found.products = (w * (y - found.mean[-1])) @ X
        X *= np.sqrt(w)[:, None]
        found.squares = np.einsum("ij,ij->j", X, X)
        return found

    def add(self, other: "Totals") -> None:
        """Add the sums of other rows."""
        moved = other.anchor - self.anchor
        self.rows += other.rows
        self.skipped += other.skipped
        self.missing += other.missing
        weight = self.weight + other.weight
        share = np.divide(other.weight, weight, out=np.zeros_like(weight), where=weight > 0)
        step = moved + other.mean - self.mean
        aside = moved[-1] + other.beside - self.beside
        self.squares += other.squares + self.weight * share * step**2
        self.products += other.products + self.weight * share * step * aside
        self.mean += share * step
        self.beside += share * aside
        self.weight = weight

    @property
    def means(self) -> tuple[Vector, Vector]:
        """The means, and what rounding took from them; shape (D + 1,) each."""
        mean = self.anchor + self.mean
        taken = mean - self.anchor
        return mean, (self.anchor - (mean - taken)) + (self.mean - taken)


def anchor_of(piece: Piece) -> Vector:
    """Return a value of each column, 0 for one that has none; shape (D + 1,)."""
    anchor: Vector = piece.X[0].copy()
    for j in np.flatnonzero(np.isnan(anchor)).tolist():
        there = piece.X[~np.isnan(piece.X[:, j]), j]
        anchor[j] = there[0] if len(there) else 0.0
    return anchor


@dataclass(frozen=True)
class Margins:
    """The first reading: what each column is by itself and beside the target."""

    rows: WideRows

    @property
    def size(self) -> int:
        """About how many bytes a state has."""
        return 40 * len(self.rows.names)

    @contextmanager
    def begin(self) -> Iterator["MarginSums"]:
        """Begin without rows."""
        yield MarginSums(self.rows)


@dataclass
class MarginSums:
    """Sums of the first reading under way.

    Attributes
    ----------
    totals : so far
    entries : those of the field of entries
    """

    rows: WideRows
    totals: Totals = field(init=False)
    entries: EntryTotals = field(default_factory=EntryTotals.none)
    _anchored: bool = False
    _lock: Any = field(default_factory=Lock)

    def __post_init__(self) -> None:
        """Begin without rows."""
        self.totals = Totals.none(np.zeros(len(self.rows.names) + 1))

    def add(self, batch: Any) -> None:
        """Add some rows; may be called from several threads at once."""
        for piece in self.rows.pieces(batch):
            with self._lock:
                if len(piece.X):
                    self._anchor(anchor_of(piece))
                anchor = self.totals.anchor
            entries = EntryTotals.none()
            if piece.entries is not None:
                y = piece.X[:, -1] - anchor[-1]
                entries = EntryTotals.of(piece.entries, piece.weight, y)
            more = Totals.of(piece, anchor)
            with self._lock:
                self.totals.add(more)
                self.entries.add(entries)

    def _anchor(self, anchor: Vector) -> None:
        """Take an anchor, if none was: sums so far are of no rows."""
        if not self._anchored:
            self.totals.anchor, self._anchored = anchor, True

    def load(self, part: bytes) -> None:
        """Add the sums of another process."""
        other, entries = pickle.loads(part)
        if other.rows:
            self._anchor(other.anchor)
        self.totals.add(other)
        self.entries.add(entries, float(other.anchor[-1] - self.totals.anchor[-1]))

    def state(self) -> bytes:
        """Return the sums."""
        return pickle.dumps((self.totals, self.entries))

    def all(self) -> Totals:
        """Return the sums of all columns: the entries stand before the target, anchored at 0."""
        known, width = self.totals, len(self.entries.sums)
        weight = float(known.weight[-1])
        mean, squares, products = self.entries.centred(weight, float(known.mean[-1]))

        def joined(dense: Vector, entries: Vector) -> Vector:
            return np.concatenate([dense[:-1], entries, dense[-1:]])

        return replace(
            known,
            anchor=joined(known.anchor, np.zeros(width)),
            weight=joined(known.weight, np.full(width, weight)),
            mean=joined(known.mean, mean),
            beside=joined(known.beside, np.full(width, known.beside[-1])),
            squares=joined(known.squares, squares),
            products=joined(known.products, products),
        )


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


@dataclass(frozen=True, eq=False)
class ProductSums:
    """Products of a later reading under way.

    Parameters
    ----------
    dense : shape (k, n_dense), products with the columns of a piece
    sparse : shape (D - n_dense, k), products with the entries
    blocks : those within groups
    """

    asked: Products
    dense: Matrix
    sparse: Matrix
    blocks: list[Matrix]
    _lock: Any = field(default_factory=Lock)

    def add(self, batch: Any) -> None:
        """Add some rows; may be called from several threads at once."""
        for piece in self.asked.rows.pieces(batch):
            found = self._of(piece)
            with self._lock:
                self._take(*found)

    def _of(self, piece: Piece) -> tuple[Matrix, Any, list[Matrix]]:
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
        blocks = [
            _within(self._columns(groups.ravel(), X, by_column, root), groups.shape)
            for groups in asked.within
        ]
        if by_column is None:
            return dense, None, blocks
        # Only one side needs to be centred: of rows centred at their mean, the sum is 0.
        chosen *= root[:, None]
        return dense, by_column.T @ chosen, blocks

    def _at_target(self, values: Vector) -> Vector:
        """Return what stands for the columns of a piece: those before the entries, the target."""
        return np.append(values[: self.asked.n_dense], values[-1])

    def _columns(self, columns: Index, X: Matrix, by_column: Any, root: Vector) -> Matrix:
        """Return some columns of a piece, centred, times the roots of the weights; (n, k)."""
        first = self.asked.n_dense
        if by_column is None:
            return np.asarray(X[:, columns])
        found = np.empty((len(X), len(columns)))
        is_entry = columns >= first
        found[:, ~is_entry] = X[:, columns[~is_entry]]
        at = columns[is_entry] - first
        # A piece may lack the last columns.
        there = at < by_column.shape[1]
        values = np.zeros((len(X), len(at)))
        values[:, there] = by_column[:, at[there]].toarray()
        found[:, is_entry] = (values - self.asked.mean[columns[is_entry]]) * root[:, None]
        return found

    def _take(self, dense: Matrix, sparse: Any, blocks: list[Matrix]) -> None:
        np.add(self.dense, dense, out=self.dense)
        if sparse is not None:
            self.sparse[: len(sparse)] += sparse
        for mine, more in zip(self.blocks, blocks, strict=True):
            np.add(mine, more, out=mine)

    @property
    def products(self) -> Matrix:
        """The products of the columns asked for with all; shape (k, D)."""
        if not len(self.sparse):
            return self.dense
        return np.hstack([self.dense, self.sparse.T])

    def load(self, part: bytes) -> None:
        """Add the products of another process."""
        self._take(*pickle.loads(part))

    def state(self) -> bytes:
        """Return the products."""
        return pickle.dumps((self.dense, self.sparse, self.blocks))


def _within(X: Matrix, shape: tuple[int, ...]) -> Matrix:
    """Return the products of the columns of each group among themselves; shape (B, s, s)."""
    parts = X.T.reshape(*shape, len(X))
    return np.asarray(parts @ parts.transpose(0, 2, 1))

"""Sums over the rows of a wide table: products of some columns with all, and within groups.

Rows are centred at known means, so that the rounding of a mean enters only by its square. Products
of entries with each other are summed around 0, as most are 0, and centred at the end.

A row has one level of a category at most, so that the sums of all columns by level are the products
of the levels with the other columns. Sums of entries are sparse: one number for each level and
entry that occur together in a row.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csr_matrix, diags_array

from dbselect.errors import DataError
from dbselect.record.entries import Mask
from dbselect.record.gram import Matrix, Vector
from dbselect.sources.partial.partial_aggregates import Summing
from dbselect.sources.wide.wide_rows import Index, Piece, WideRows

#: Entries of a piece, as a share of their columns, up to which unused columns are dropped.
FEW = 0.25


@dataclass(frozen=True, eq=False)
class LaterReading(Summing):
    """A pass that centres pieces at the means of D columns from the first pass."""

    rows: WideRows
    #: shape (D + 1,), as in `Totals`
    anchor: Vector
    mean: Vector
    #: shape (D,), ascending, positions of the D columns in the rows; None for all
    kept: Index | None = field(default=None, kw_only=True)

    @property
    def n_dense(self) -> int:
        """Number of dense columns, which come first, before the entries."""
        width = len(self.rows.names)
        return width if self.kept is None else int(np.searchsorted(self.kept, width))

    def centred(self, piece: Piece) -> tuple[Matrix, Any, Vector]:
        """Return centred dense columns, and entries, times the roots of weights, and the roots.

        The dense, (n, n_dense + 1), have the target last; entries are CSR around 0, or None.
        """
        X, entries, root = piece.X, piece.entries, np.sqrt(piece.weight)
        if self.kept is not None:
            X = X[:, [*self.kept[: self.n_dense], -1]]
            if entries is not None:
                entries = taken(entries, self.kept[self.n_dense :] - len(self.rows.names))
        beside = [*range(self.n_dense), -1]  # the columns before the entries, and the target
        X -= self.anchor[beside]
        X -= self.mean[beside]
        X *= root[:, None]
        if piece.has_gaps:
            np.nan_to_num(X, copy=False)  # fills missing values with the mean
        rooted = None if entries is None else (diags_array(root) @ entries).tocsr()
        return X, rooted, root


def compress_columns(rows: Any) -> tuple[Index | None, Any]:
    """Drop empty columns; return the positions of the others, None for all, and the matrix."""
    if rows.nnz > FEW * rows.shape[1]:
        return None, rows
    met, place = np.unique(rows.indices, return_inverse=True)
    return met, csr_matrix((rows.data, place, rows.indptr), shape=(rows.shape[0], len(met)))


def taken(rows: Any, at: Index) -> Any:
    """Select columns of a CSR matrix; columns beyond its width are 0."""
    place = np.full(rows.shape[1], -1, dtype=np.int64)
    exists = at < rows.shape[1]
    place[at[exists]] = np.flatnonzero(exists)
    columns = place[rows.indices]
    is_taken = columns >= 0
    ends = np.concatenate([[0], np.cumsum(is_taken)])[rows.indptr]
    parts = rows.data[is_taken], columns[is_taken], ends
    return csr_matrix(parts, shape=(rows.shape[0], len(at)))


#: Group, row, column and value of the nonzero products.
Nonzeros = tuple[Index, Index, Index, Vector]


@dataclass(eq=False)
class ProductSums:
    """Sums of products over some rows."""

    rows: Matrix  # shape (k, D); entries with each other around 0
    within: list[Matrix]  # per size of groups, shape (B, s, s); groups of entries around 0
    weight: float = 0.0  # of the rows


@dataclass(frozen=True, eq=False)
class PieceProducts:
    """Products of a piece."""

    dense: Matrix  # shape (k, n_dense), with the dense columns
    #: Products of dense columns with m entries, shape (k - k_entries, m), the m entries, and a
    #: sparse matrix of products of entries with each other, around 0; None without entries
    listed: tuple[Matrix, Index, Any] | None
    #: Per size of groups: products of groups with dense columns, (B, s, s), and of entries only
    within: Sequence[tuple[Matrix, Nonzeros | None]]
    weight: float  # of the rows


@dataclass(frozen=True, eq=False)
class Products(LaterReading):
    """A later pass: products of some columns with all columns, and within groups."""

    columns: Index  # shape (k,), the columns whose products with all columns are summed
    #: One array of shape (B, s) per size s: the columns of B groups of that size
    within: tuple[Index, ...] = ()

    @property
    def size(self) -> int:
        """Approximate size of a state in bytes."""
        blocks = sum(len(groups) * groups.shape[1] ** 2 for groups in self.within)
        return int(8 * (len(self.columns) * len(self.mean) + blocks))

    @cached_property
    def are_listed(self) -> list[Mask]:
        """For each size of groups, which groups have entries only; shape (B,)."""
        return [np.all(groups >= self.n_dense, axis=1) for groups in self.within]

    @cached_property
    def is_entry(self) -> Mask:
        """Which of `columns` are entries; shape (k,)."""
        return np.asarray(self.columns >= self.n_dense)

    def none(self) -> ProductSums:
        """Return the products of no rows."""
        blocks = [np.zeros((*groups.shape, groups.shape[1])) for groups in self.within]
        return ProductSums(np.zeros((len(self.columns), len(self.mean) - 1)), blocks)

    def of(self, batch: Any) -> Iterator[PieceProducts]:
        """Return the products of the pieces of a batch."""
        return map(self._of, self.rows.pieces(batch))

    def _of(self, piece: Piece) -> PieceProducts:
        """Return the products of a piece, whose values are overwritten."""
        X, rooted, root = self.centred(piece)
        chosen = self._columns(self.columns, X, rooted, root)
        # Each thread computes its own product, one BLAS call outside of the lock.
        dense, listed = chosen.T @ X[:, :-1], None
        if rooted is not None:
            # Centring one side is enough, as its centred rows add up to 0.
            met, few = compress_columns(rooted)
            beside = chosen[:, ~self.is_entry].T @ few
            # Entries with each other are not centred, so that their product stays sparse.
            entry_columns = taken(rooted, self.columns[self.is_entry] - self.n_dense)
            at = np.arange(few.shape[1]) if met is None else met
            listed = beside, at, (entry_columns.T @ rooted).tocoo()
        within = []
        for groups, is_listed in zip(self.within, self.are_listed, strict=True):
            mixed, entered = groups[~is_listed], groups[is_listed] - self.n_dense
            columns = self._columns(mixed.ravel(), X, rooted, root)
            nonzeros = None if rooted is None else _among(rooted, entered)
            within.append((_within(columns, mixed.shape), nonzeros))
        return PieceProducts(dense, listed, within, float(piece.weight.sum()))

    def _columns(self, columns: Index, X: Matrix, rooted: Any, root: Vector) -> Matrix:
        """Return columns of a piece, centred, times the roots of the weights; shape (n, k)."""
        if rooted is None:
            return np.asarray(X[:, columns])
        chosen = np.empty((len(X), len(columns)))
        is_entry = columns >= self.n_dense
        chosen[:, ~is_entry] = X[:, columns[~is_entry]]
        values = taken(rooted, columns[is_entry] - self.n_dense).toarray()
        chosen[:, is_entry] = values - self.mean[columns[is_entry]] * root[:, None]
        return chosen

    def added(self, sums: ProductSums, more: PieceProducts | ProductSums) -> ProductSums:
        """Add the products of a piece, or of another process."""
        sums.weight += more.weight
        if isinstance(more, ProductSums):
            sums.rows += more.rows
            for totals, blocks in zip(sums.within, more.within, strict=True):
                np.add(totals, blocks, out=totals)
            return sums
        first = self.n_dense
        sums.rows[:, :first] += more.dense
        if more.listed is not None:
            beside, at, among = more.listed
            sums.rows[np.ix_(np.flatnonzero(~self.is_entry), first + at)] += beside
            rows = np.flatnonzero(self.is_entry)[among.row]
            sums.rows[rows, first + among.col] += among.data
        for totals, is_listed, (dense, listed) in zip(
            sums.within, self.are_listed, more.within, strict=True
        ):
            totals[~is_listed] += dense
            if listed is not None and is_listed.any():
                block, row, column, value = listed
                np.add.at(totals, (np.flatnonzero(is_listed)[block], row, column), value)
        return sums

    def around_means(self, sums: ProductSums) -> tuple[Matrix, list[Matrix]]:
        """Return the products with all, (k, D), and within groups, centred; `sums` are changed."""
        mean, first = self.mean[:-1], self.n_dense
        for row in np.flatnonzero(self.is_entry).tolist():
            sums.rows[row, first:] -= sums.weight * mean[self.columns[row]] * mean[first:]
        for block, groups, is_listed in zip(sums.within, self.within, self.are_listed, strict=True):
            for at in np.flatnonzero(is_listed).tolist():
                block[at] -= sums.weight * np.outer(mean[groups[at]], mean[groups[at]])
        return sums.rows, sums.within


def _within(X: Matrix, shape: tuple[int, ...]) -> Matrix:
    """Return the products of the columns within each group; shape (B, s, s)."""
    parts = X.T.reshape(*shape, len(X))
    return np.asarray(parts @ parts.transpose(0, 2, 1))


def _among(rooted: Any, at: Index) -> Nonzeros:
    """Return the nonzero products, around 0, within groups of entries; `at` has shape (B, s)."""
    columns = taken(rooted, at.ravel())
    products, size = (columns.T @ columns).tocoo(), at.shape[1]
    inside = products.row // size == products.col // size
    row, column = products.row[inside], products.col[inside]
    return row // size, row % size, column % size, products.data[inside]


#: Most pairs of a level and another entry in memory: 1.6 GB, and as much while they grow.
MOST_PAIRS = 1 << 27


@dataclass(eq=False)
class LevelSums:
    """Sums by level over some rows."""

    dense: Matrix  # shape (L, n_dense), around the means
    listed: Any  # CSR matrix, shape (L, D - n_dense), of the entries around 0
    new: list[Any] = field(default_factory=list)  # such matrices, not yet added to `listed`

    def settled(self) -> "LevelSums":
        """Add the new matrices to `listed`."""
        parts = [self.listed.tocoo(), *(matrix.tocoo() for matrix in self.new)]
        row, column, value = (
            np.concatenate([getattr(p, name) for p in parts]) for name in ("row", "col", "data")
        )
        self.listed = sparse.csr_matrix((value, (row, column)), shape=self.listed.shape)
        self.new = []
        if self.listed.nnz > MOST_PAIRS:
            raise DataError(
                f"the {len(self.dense)} levels of a group meet more than {MOST_PAIRS:,} pairs of a "
                "level and another entry, and a lazy Gram holds a sum for each; give groups= "
                "with fewer levels, or without the others"
            )
        return self


@dataclass(frozen=True, eq=False)
class LevelProducts(LaterReading):
    """A later pass: the products of the columns of levels with all others."""

    levels: Index  # shape (L,), ascending, columns of entries; each row has at most one

    @property
    def size(self) -> int:
        """Approximate size of a state in bytes."""
        return 8 * len(self.levels) * self.n_dense

    def none(self) -> LevelSums:
        """Return the sums of no rows."""
        shape = len(self.levels), len(self.mean) - 1 - self.n_dense
        return LevelSums(np.zeros((len(self.levels), self.n_dense)), sparse.csr_matrix(shape))

    def of(self, batch: Any) -> Iterator[tuple[Index | None, Matrix, Any]]:
        """Yield the levels of a piece, and their sums of dense columns and of entries."""
        for piece in self.rows.pieces(batch):
            X, rooted, _ = self.centred(piece)
            levels = taken(rooted, self.levels - self.n_dense)
            met, few = compress_columns(levels)
            yield met, few.T @ X[:, :-1], levels.T @ rooted

    def added(self, sums: LevelSums, more: Any) -> LevelSums:
        """Add the sums of a piece, or of another process."""
        if isinstance(more, LevelSums):
            more = None, more.dense, more.settled().listed
        met, dense, listed = more
        sums.dense[slice(None) if met is None else met] += dense
        listed.resize(sums.listed.shape)
        sums.new.append(listed)
        # Add matrices once they are as large as the sum, so that entries are copied a few times.
        size = max(sums.listed.nnz, len(sums.dense))
        return sums.settled() if sum(matrix.nnz for matrix in sums.new) > size else sums

    def around_means(self, sums: LevelSums) -> tuple[Matrix, Any]:
        """Return the sums of the dense columns, and those of the entries as a CSC matrix."""
        return sums.dense, sums.settled().listed.tocsc()

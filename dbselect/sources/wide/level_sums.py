"""Sums of all columns by level over the rows of a wide table, for levels that are entries.

As each row has one level at most, these are the products of a level with the other columns. Sums
of entries are sparse: one number for each level and entry that occur together in a row.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from dbselect.errors import DataError
from dbselect.record.gram import Matrix
from dbselect.sources.wide.gram_rows import LaterReading, compress_columns, taken
from dbselect.sources.wide.wide_rows import Index

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

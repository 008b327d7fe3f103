"""A later pass over a wide table: rows centred at the means of the first pass."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, diags_array

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

"""Sums by level over the rows of a wide table: of all columns, for levels that are entries.

Of a group of levels that is one of very many, a search needs the products with all other columns;
as each row has one level at most, they are sums of these columns by level. Those of entries are
held as they are met, a number for each level and entry that a row has both of.
"""

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np
from scipy import sparse

from dbselect.errors import DataError
from dbselect.record.gram import Matrix
from dbselect.sources.wide.centered_scan import LaterReading, compress_columns, taken
from dbselect.sources.wide.wide_rows import Index

#: Pairs of a level and another entry that are held: 1.6 GB, and as much while they grow.
MOST_PAIRS = 1 << 27


@dataclass(frozen=True, eq=False)
class LevelProducts(LaterReading):
    """A later reading: the products of the columns of levels with all others."""

    levels: Index  # shape (L,), ascending, columns of entries of which each row has one at most

    @property
    def size(self) -> int:
        """About how many bytes a state has."""
        return 8 * len(self.levels) * self.n_dense

    @contextmanager
    def begin(self) -> Iterator["LevelSums"]:
        """Begin without rows."""
        yield LevelSums(self, np.zeros((len(self.levels), self.n_dense)))


@dataclass(eq=False)
class LevelSums:
    """Sums by level under way."""

    asked: LevelProducts
    dense: Matrix  # shape (L, n_dense), around the means
    listed: Any = field(init=False)  # CSR matrix, shape (L, D - n_dense), of the entries around 0
    _new: list[Any] = field(default_factory=list)
    _lock: Any = field(default_factory=Lock)

    def __post_init__(self) -> None:
        """Begin with no entries."""
        width = len(self.asked.mean) - 1 - self.asked.n_dense
        self.listed = sparse.csr_matrix((len(self.dense), width))

    def add(self, batch: Any) -> None:
        """Add some rows; may be called from several threads at once."""
        for piece in self.asked.rows.pieces(batch):
            X, rooted, _ = self.asked.centred(piece)
            own = taken(rooted, self.asked.levels - self.asked.n_dense)
            met, few = compress_columns(own)
            dense, listed = few.T @ X[:, :-1], own.T @ rooted
            listed.resize(self.listed.shape)
            with self._lock:
                self.dense[slice(None) if met is None else met] += dense
                self._new.append(listed)
                # As many are added up as were held before: each is copied a few times only.
                if sum(one.nnz for one in self._new) > max(self.listed.nnz, len(self.dense)):
                    self._add_up()

    def _add_up(self) -> None:
        """Add the entries of the last pieces to those of all."""
        parts = [self.listed.tocoo(), *(one.tocoo() for one in self._new)]
        row, column, value = (
            np.concatenate([getattr(one, name) for one in parts]) for name in ("row", "col", "data")
        )
        self.listed = sparse.csr_matrix((value, (row, column)), shape=self.listed.shape)
        self._new = []
        if self.listed.nnz > MOST_PAIRS:
            raise DataError(
                f"the {len(self.dense)} levels of a group meet more than {MOST_PAIRS:,} pairs of a "
                "level and another entry, and a lazy Gram holds a sum for each; give groups= "
                "with fewer levels, or without the others"
            )

    def all(self) -> tuple[Matrix, Any]:
        """Return the sums of the dense columns, and those of the entries as a CSC matrix."""
        self._add_up()
        return self.dense, self.listed.tocsc()

    def load(self, part: bytes) -> None:
        """Add the sums of another process."""
        dense, listed = pickle.loads(part)
        np.add(self.dense, dense, out=self.dense)
        self._new.append(listed)
        self._add_up()

    def state(self) -> bytes:
        """Return the sums."""
        self._add_up()
        return pickle.dumps((self.dense, self.listed))

"""The field of entries (sparse columns) of a table, and sums over it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import sparse

from dbselect.errors import ArgumentError, DataError
from dbselect.record.entries import MOST_COLUMNS, Mask, entries_in, is_entries
from dbselect.record.gram import Vector


def sparse_field(schema: pa.Schema) -> str | None:
    """Return the name of the field of entries; None if there is none."""
    names = [field.name for field in schema if is_entries(field.type)]
    if len(names) > 1:
        raise ArgumentError(
            f"source has two fields of entries, '{names[0]}' and '{names[1]}'; a lazy Gram takes "
            "one: leave the others out of the table"
        )
    return names[0] if names else None


def entries(name: str, field: pa.Array) -> tuple[Any, Mask]:
    """Return the entries of rows as a CSR matrix, and which rows have no missing entry."""
    rows = entries_in(name, field)
    if len(rows.at) and rows.at.max() >= MOST_COLUMNS:
        raise DataError(
            f"field '{name}' has entry {rows.at.max()}; numbers must be below {MOST_COLUMNS}, as "
            "each has sums of its own: number the columns anew"
        )
    if np.isinf(rows.value).any():
        raise DataError(f"field '{name}' has an infinite value; values must be finite")
    width = int(rows.at.max()) + 1 if len(rows.at) else 0
    matrix = sparse.csr_matrix((rows.value, rows.at, rows.ends), shape=(len(field), width))
    if not matrix.has_canonical_format:
        matrix = matrix.copy()  # Arrow's memory must not be written to
        matrix.sum_duplicates()
    gaps = np.isnan(rows.value)
    is_complete = rows.there
    if gaps.any():
        is_complete = is_complete.copy()
        is_complete[rows.row[gaps]] = False
    return matrix, is_complete


@dataclass
class EntryTotals:
    """Sums over the entries of a field, not centred."""

    #: shape (D,), of w v, w v^2 and w v (y - anchor), y the target; D grows with the entries seen
    sums: Vector
    squares: Vector
    products: Vector

    @classmethod
    def none(cls, width: int = 0) -> "EntryTotals":
        """Return the sums of no rows."""
        return cls(np.zeros(width), np.zeros(width), np.zeros(width))

    @classmethod
    def of(cls, rows: Any, weight: Vector, y: Vector) -> "EntryTotals":
        """Return the sums of a CSR matrix of rows, (n, D); y is the target less its anchor."""
        squared = sparse.csr_matrix((rows.data**2, rows.indices, rows.indptr), shape=rows.shape)
        return cls(rows.T @ weight, squared.T @ weight, rows.T @ (weight * y))

    def add(self, other: "EntryTotals", moved: float = 0.0) -> None:
        """Add the sums of other rows; `moved` is their anchor of the target less this one."""
        width = max(len(self.sums), len(other.sums))
        for name in ("sums", "squares", "products"):
            grown = np.zeros(width)
            before, added = getattr(self, name), getattr(other, name)
            grown[: len(before)] = before
            grown[: len(added)] += added
            setattr(self, name, grown)
        self.products[: len(other.sums)] += moved * other.sums

    def centred(self, weight: float, y: float) -> tuple[Vector, Vector, Vector]:
        """Return means, and centred sums of squares and of products with the target.

        `weight` is the weight of all rows, y the mean of the target less its anchor.
        """
        mean = self.sums / weight if weight else np.zeros_like(self.sums)
        squares = np.maximum(self.squares - mean * self.sums, 0.0)
        return mean, squares, self.products - y * self.sums

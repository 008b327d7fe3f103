"""A field that lists the entries of a row which are not 0, as columns without a dense row.

It is a MAP from whole numbers to numbers, or a LIST of STRUCTs of these two: what Parquet makes
of a MAP, and what ``pa.MapArray.from_arrays(csr.indptr, csr.indices, csr.data)`` makes of a CSR
matrix. Entry 17 of field ``x`` is column ``x[17]``; two entries of one number add up.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from dbselect.errors import ArgumentError, DataError
from dbselect.record.gram import Vector
from dbselect.sources.request import Consumer
from dbselect.sources.works import Reduce

Mask = npt.NDArray[np.bool_]

#: Numbers of entries are below this: sums of a column take 40 bytes, whether or not it is met.
MOST_COLUMNS = 100_000_000


def sparse_field(schema: pa.Schema) -> str | None:
    """Return the name of the field of entries; None if there is none.

    Raises
    ------
    ArgumentError : there are two
    """
    found = [field.name for field in schema if _is_entries(field.type)]
    if len(found) > 1:
        raise ArgumentError(
            f"source has two fields of entries, '{found[0]}' and '{found[1]}'; a wide search takes "
            "one: leave the others out of the table"
        )
    return found[0] if found else None


def _is_entries(type_: pa.DataType) -> bool:
    if pa.types.is_map(type_):
        return pa.types.is_integer(type_.key_type) and _is_number(type_.item_type)
    if not (pa.types.is_list(type_) or pa.types.is_large_list(type_)):
        return False
    entry = type_.value_type
    return (
        pa.types.is_struct(entry)
        and entry.num_fields == 2
        and pa.types.is_integer(entry[0].type)
        and _is_number(entry[1].type)
    )


def _is_number(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_floating(type_)
        or pa.types.is_integer(type_)
        or pa.types.is_decimal(type_)
        or pa.types.is_boolean(type_)
    )


def entries(name: str, field: pa.Array) -> tuple[Any, Mask]:
    """Return the entries of rows as a CSR matrix, and which rows have all of theirs.

    Raises
    ------
    DataError : an entry has no number or a negative one, or an infinite value
    """
    ends = field.offsets.to_numpy().astype(np.int64)
    if pa.types.is_map(field.type):
        keys, items = field.keys, field.items
    else:
        keys, items = field.values.flatten()
    keys, items = (part.slice(ends[0], ends[-1] - ends[0]) for part in (keys, items))
    ends -= ends[0]
    if keys.null_count or (len(keys) and pc.min(keys).as_py() < 0):
        raise DataError(f"field '{name}' has an entry whose number is missing or below 0")
    at = keys.cast(pa.int64()).to_numpy()
    if len(at) and at.max() >= MOST_COLUMNS:
        raise DataError(
            f"field '{name}' has entry {at.max()}; numbers must be below {MOST_COLUMNS}, as "
            "each has sums of its own: number the columns anew"
        )
    value = pc.cast(items, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    if np.isinf(value).any():
        raise DataError(f"field '{name}' has an infinite value; values must be finite")
    width = int(at.max()) + 1 if len(at) else 0
    found = sparse.csr_matrix((value, at, ends), shape=(len(field), width))
    if not found.has_canonical_format:
        found = found.copy()  # what Arrow holds must not be written to
        found.sum_duplicates()
    there = field.is_valid().to_numpy(zero_copy_only=False)
    gaps = np.isnan(value)
    if gaps.any():
        there = there.copy()
        there[np.repeat(np.arange(len(field)), np.diff(ends))[gaps]] = False
    return found, there


class Without:
    """A table whose schema lacks a field.

    Parameters
    ----------
    table : Table
    field : a name
    """

    def __init__(self, table: Any, field: str) -> None:
        self._table = table
        self.schema = pa.schema([each for each in table.schema if each.name != field])
        self.rows: int | None = table.rows
        self.again: bool = table.again

    def scan(self, fields: list[str], consume: Consumer) -> None:
        """Hand every row's fields to `consume`."""
        self._table.scan(fields, consume)

    def batches(self, fields: list[str]) -> Generator[pa.RecordBatch]:
        """Give every row's fields in the order of the table."""
        return self._table.batches(fields)  # type: ignore[no-any-return]

    @property
    def reduce(self) -> Reduce | None:
        """What has the processes of the engine read their rows, if it has some."""
        return getattr(self._table, "reduce", None)


@dataclass
class EntryTotals:
    """Sums of the entries of a field, as they are.

    Parameters
    ----------
    sums, squares, products : shape (D,), of w v, w v^2 and w v (y - anchor), y the target;
        D grows with the numbers met
    """

    sums: Vector
    squares: Vector
    products: Vector

    @classmethod
    def none(cls) -> "EntryTotals":
        """Return the sums of no rows."""
        return cls(np.zeros(0), np.zeros(0), np.zeros(0))

    @classmethod
    def of(cls, rows: Any, weight: Vector, y: Vector) -> "EntryTotals":
        """Return the sums of some rows.

        Parameters
        ----------
        rows : CSR matrix, shape (n, D)
        y : shape (n,), the target from its anchor
        """
        squared = sparse.csr_matrix((rows.data**2, rows.indices, rows.indptr), shape=rows.shape)
        return cls(rows.T @ weight, squared.T @ weight, rows.T @ (weight * y))

    def add(self, other: "EntryTotals", moved: float = 0.0) -> None:
        """Add the sums of other rows, `moved` from whose anchor to this one."""
        width = max(len(self.sums), len(other.sums))
        for name in ("sums", "squares", "products"):
            grown = np.zeros(width)
            mine, more = getattr(self, name), getattr(other, name)
            grown[: len(mine)] = mine
            grown[: len(more)] += more
            setattr(self, name, grown)
        self.products[: len(other.sums)] += moved * other.sums

    def centred(self, weight: float, y: float) -> tuple[Vector, Vector, Vector]:
        """Return means, and sums of squares and of products with the target around these.

        Parameters
        ----------
        weight : of all rows
        y : mean of the target from its anchor
        """
        mean = self.sums / weight if weight else np.zeros_like(self.sums)
        squares = np.maximum(self.squares - mean * self.sums, 0.0)
        return mean, squares, self.products - y * self.sums

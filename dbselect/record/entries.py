"""Fields of entries: sparse rows, given by the numbers and values of nonzero columns.

Such a field is a MAP from whole numbers to numbers, or a LIST of STRUCTs of these two, as Parquet
stores a MAP; ``pa.MapArray.from_arrays(csr.indptr, csr.indices, csr.data)`` makes it from a CSR
matrix. Entry 17 of field ``x`` is column ``x[17]``; entries with the same number are added.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dbselect._arrow import to_numpy
from dbselect.errors import DataError

Mask = npt.NDArray[np.bool_]

#: Numbers of entries are below this: sums take 40 bytes per number, also for absent ones.
MOST_COLUMNS = 100_000_000


@dataclass(frozen=True)
class Entries:
    """A field of entries, as seen in a fit."""

    column: str  # the field
    # numbers below this have columns, 0 where a row has no entry; the fit has not seen numbers from
    # here on
    width: int
    # names of number and value in the STRUCTs of a LIST; empty for a MAP
    children: tuple[str, ...] = ()

    def name(self, at: int) -> str:
        """Return the column of an entry number."""
        return f"{self.column}[{at}]"

    def numbers(self, columns: Collection[str]) -> dict[str, int]:
        """Return column -> entry number, for the columns of this field."""
        start = len(self.column) + 1
        candidates = [name for name in columns if name.startswith(f"{self.column}[")]
        numbers = {name: int(text) for name in candidates if (text := name[start:-1]).isdecimal()}
        return {name: at for name, at in numbers.items() if self.name(at) == name}


def is_entries(type_: pa.DataType) -> bool:
    """Whether an Arrow type is a field of entries."""
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


def children_of(type_: pa.DataType) -> tuple[str, ...]:
    """Return the names of number and value in a type; empty for a MAP."""
    return () if pa.types.is_map(type_) else tuple(child.name for child in type_.value_type)


@dataclass(frozen=True)
class Listed:
    """Entries of all rows, concatenated."""

    # at, value: number and value of each entry, NaN for a missing value
    at: npt.NDArray[np.int64]
    value: npt.NDArray[np.float64]
    ends: npt.NDArray[np.int64]  # shape (n + 1,), offsets of the rows
    there: Mask  # shape (n,), rows where the field is not NULL

    @property
    def row(self) -> npt.NDArray[np.intp]:
        """The row of each entry."""
        return np.repeat(np.arange(len(self.there)), np.diff(self.ends))


def entries_in(name: str, field: pa.Array) -> Listed:
    """Return the entries of a field; DataError for a missing or negative number."""
    ends = to_numpy(field.offsets).astype(np.int64)
    if pa.types.is_map(field.type):
        keys, items = field.keys, field.items
    else:
        keys, items = field.values.flatten()
    keys, items = (part.slice(ends[0], ends[-1] - ends[0]) for part in (keys, items))
    if keys.null_count or (to_numpy(keys) < 0).any():
        raise DataError(f"field '{name}' has an entry whose number is missing or below 0")
    value = items.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    present = field.is_valid().to_numpy(zero_copy_only=False)
    return Listed(to_numpy(keys.cast(pa.int64())), value, ends - ends[0], present)


@dataclass(frozen=True, eq=False)
class Weighed:
    """Sum of the entries of a row, each times the coefficient of its column."""

    field: Entries  # as seen in the fit
    # number -> coefficient; 0 for other numbers below `field.width`
    coefficients: Mapping[int, float]
    # value of an unseen entry: 0, or None to make the sum missing
    other: float | None = None
    refuses: bool = False  # whether such an entry is an error

    def refusal(self, shown: str) -> str:
        """Return the error message for an entry that the fit has not seen."""
        return (
            f"field '{self.field.column}' has entry {shown}, which the fit has not seen: its "
            f"numbers were below {self.field.width}"
        )

    def values(self, field: pa.Array) -> npt.NDArray[np.float64]:
        """Return the sum of each row, NaN if missing; DataError for a refused entry."""
        rows = entries_in(self.field.column, field)
        numbers = np.array(sorted(self.coefficients), dtype=np.int64)
        weights = np.array([self.coefficients[at] for at in numbers.tolist()])
        place = np.minimum(np.searchsorted(numbers, rows.at), len(numbers) - 1)
        row, is_known = rows.row, numbers[place] == rows.at
        sums = np.zeros(len(rows.there))
        np.add.at(sums, row[is_known], weights[place[is_known]] * rows.value[is_known])
        new = rows.at >= self.field.width
        if self.refuses and new.any():
            raise DataError(self.refusal(str(rows.at[new][0])))
        if self.other is None:
            sums[row[new]] = np.nan
        sums[~rows.there] = np.nan
        return sums


def as_map(X: Any) -> pa.ChunkedArray:
    """Convert a sparse matrix to a field of entries; a CSR matrix is not copied."""
    X = X.tocsr()
    # Offsets of an Arrow MAP have 31 bits, so larger matrices become several chunks.
    most, bounds = np.iinfo(np.int32).max, [0]
    while bounds[-1] < X.shape[0]:
        within = np.searchsorted(X.indptr, int(X.indptr[bounds[-1]]) + most, side="right") - 1
        bounds.append(max(bounds[-1] + 1, int(within)))
    at, value = pa.array(X.indices), pa.array(X.data)
    parts = [
        pa.MapArray.from_arrays(
            pa.array((X.indptr[start : end + 1] - X.indptr[start]).astype(np.int32)),
            *(part.slice(X.indptr[start], X.indptr[end] - X.indptr[start]) for part in (at, value)),
        )
        for start, end in pairwise(bounds)
    ]
    return pa.chunked_array(parts, type=pa.map_(at.type, value.type))

"""A field that lists the entries of a row which are not 0, as columns without a dense row.

It is a MAP from whole numbers to numbers, or a LIST of STRUCTs of these two: what Parquet makes
of a MAP, and what ``pa.MapArray.from_arrays(csr.indptr, csr.indices, csr.data)`` makes of a CSR
matrix. Entry 17 of field ``x`` is column ``x[17]``; two entries of one number add up.
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

#: Numbers of entries are below this: sums of a column take 40 bytes, whether or not it is met.
MOST_COLUMNS = 100_000_000


@dataclass(frozen=True)
class Entries:
    """A field of entries, as a fit met it."""

    column: str  # the field
    # its columns are those of the numbers below this, 0 where a row has none; a number from here on
    # is one that the fit has not seen
    width: int
    # names of number and value in the STRUCTs of a LIST; empty of a MAP
    children: tuple[str, ...] = ()

    def name(self, at: int) -> str:
        """Return the column of a number."""
        return f"{self.column}[{at}]"

    def numbers(self, columns: Collection[str]) -> dict[str, int]:
        """Return the numbers of those of some columns that are of this field."""
        start = len(self.column) + 1
        asked = [name for name in columns if name.startswith(f"{self.column}[")]
        found = {name: int(text) for name in asked if (text := name[start:-1]).isdecimal()}
        return {name: at for name, at in found.items() if self.name(at) == name}


def is_entries(type_: pa.DataType) -> bool:
    """Whether a type is that of a field of entries."""
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
    """Return how a type names number and value; empty of a MAP."""
    return () if pa.types.is_map(type_) else tuple(child.name for child in type_.value_type)


@dataclass(frozen=True)
class Listed:
    """Entries of rows, one after the other."""

    # at, value: number and value of each, NaN for one that is missing
    at: npt.NDArray[np.int64]
    value: npt.NDArray[np.float64]
    ends: npt.NDArray[np.int64]  # shape (n + 1,), where the entries of each row begin and end
    there: Mask  # shape (n,), which rows have a field, possibly an empty one

    @property
    def row(self) -> npt.NDArray[np.intp]:
        """The row of each entry."""
        return np.repeat(np.arange(len(self.there)), np.diff(self.ends))


def entries_in(name: str, field: pa.Array) -> Listed:
    """Return the entries of a field; DataError for one without a number or a negative one."""
    ends = to_numpy(field.offsets).astype(np.int64)
    if pa.types.is_map(field.type):
        keys, items = field.keys, field.items
    else:
        keys, items = field.values.flatten()
    keys, items = (part.slice(ends[0], ends[-1] - ends[0]) for part in (keys, items))
    if keys.null_count or (to_numpy(keys) < 0).any():
        raise DataError(f"field '{name}' has an entry whose number is missing or below 0")
    value = items.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    there = field.is_valid().to_numpy(zero_copy_only=False)
    return Listed(to_numpy(keys.cast(pa.int64())), value, ends - ends[0], there)


@dataclass(frozen=True, eq=False)
class Weighed:
    """What the entries of a row add up to, each times the coefficient of its column."""

    field: Entries  # as the fit met it
    # number -> coefficient; of another number below `field.width` it is 0
    coefficients: Mapping[int, float]
    # what an entry counts that the fit has not seen: 0, or None where the sum is missing
    other: float | None = None
    refuses: bool = False  # whether such an entry is an error

    def refusal(self, shown: str) -> str:
        """Return what is wrong with an entry that the fit has not seen."""
        return (
            f"field '{self.field.column}' has entry {shown}, which the fit has not seen: its "
            f"numbers were below {self.field.width}"
        )

    def values(self, field: pa.Array) -> npt.NDArray[np.float64]:
        """Return the sums of rows, NaN where one is missing; DataError for an entry refused."""
        rows = entries_in(self.field.column, field)
        known = np.array(sorted(self.coefficients), dtype=np.int64)
        weights = np.array([self.coefficients[at] for at in known.tolist()])
        place = np.minimum(np.searchsorted(known, rows.at), len(known) - 1)
        row, is_known = rows.row, known[place] == rows.at
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
    """Return a sparse matrix as a field of entries; of a CSR matrix nothing is copied."""
    X = X.tocsr()
    # An array of Arrow counts its entries with 31 bits.
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

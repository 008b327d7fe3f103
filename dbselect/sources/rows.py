"""Read the rows of any table as doubles, block by block in order."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dbselect._arrow import part_of
from dbselect.errors import DataError
from dbselect.record.columns import Leaf
from dbselect.record.gram import Matrix, Vector
from dbselect.sources.open import open_table
from dbselect.sources.progress import progress
from dbselect.sources.read import check_left_out
from dbselect.sources.request import check_field, request_of

#: Largest size of a value: fourth powers times the square of a variance stay finite.
LARGEST = 1e60

Index = npt.NDArray[np.intp]


#: Unit of a timestamp -> units per second.
UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}


class TableRows:
    """Some columns of a table, read in order; rows with a NULL or NaN are left out.

    `skipped`, and `missing` values by column, count the rows of the last read.
    """

    def __init__(
        self, source: Any, columns: Sequence[str] | None, key: str | None, scale: bool
    ) -> None:
        self.table = open_table(source, columns)
        if key is not None:
            check_field(key, "key", self.table.schema)
        self._request = request_of(self.table.schema, columns, by=[] if key is None else [key])
        self._columns = columns
        self._key = key
        self._scale = scale
        self.names, self.leaves = self._request.names, self._request.columns
        self.terms = self._request.base
        self.again = self.table.again
        self.skipped = 0
        self.missing: Counter[str] = Counter()

    def warn_of_left_out(self) -> None:
        """Warn of columns that are not numeric, or refuse those that were named."""
        check_left_out(self.table, self._request, self._columns, "text, which is no number")

    def blocks(self, size: int) -> Iterator[tuple[Index, Matrix, pa.Array | None]]:
        """Yield row numbers from 0, usable rows and their keys, at most `size` at a time."""
        start = 0
        for used, X, rows in self.pieces(size):
            yield start + used, X, self._keys(rows, used)
            start += len(rows)

    def pieces(self, size: int) -> Iterator[tuple[Index, Matrix, pa.StructArray]]:
        """Yield positions of the usable rows, these rows, and all rows, `size` at a time."""
        self.skipped = 0
        self.missing.clear()
        with (
            closing(self.table.batches(self._request.fields)) as batches,
            progress(self.table.rows) as bar,
        ):
            for batch in batches:
                for offset in range(0, batch.num_rows, size):
                    rows = batch.slice(offset, size).to_struct_array()
                    X = matrix(rows, self._request.columns)
                    counts = np.isnan(X).sum(axis=0).tolist()
                    self.missing.update(dict(zip(self.names, counts, strict=True)))
                    used, X = usable(X, self.names, self._scale)
                    self.skipped += len(rows) - len(used)
                    yield used, X, rows
                    bar.update(len(rows))

    def _keys(self, rows: pa.StructArray, used: Index) -> pa.Array | None:
        if self._key is None:
            return None
        keys = rows.field(self._key)
        if pa.types.is_dictionary(keys.type):
            keys = keys.dictionary_decode()
        return keys.take(pa.array(used))


def matrix(rows: pa.StructArray, columns: Sequence[Leaf]) -> Matrix:
    """Return columns of rows as doubles, shape (n, d), NaN for NULL."""
    X = np.empty((len(rows), len(columns)))
    for j, leaf in enumerate(columns):
        X[:, j] = values(rows, leaf.path)
    return X


def values(rows: pa.StructArray, path: tuple[str | int, ...]) -> npt.NDArray[np.float64]:
    """Return a column as doubles, NaN for NULL; dates are days since 1970, timestamps seconds."""
    array = part_of(rows, path)
    unit = 1.0
    if pa.types.is_date(array.type):
        array = array.cast(pa.date32()).cast(pa.int32())
    elif pa.types.is_timestamp(array.type):
        unit = UNITS[array.type.unit]
        array = array.cast(pa.int64())
    numbers = pc.cast(array, pa.float64(), safe=False)
    return np.asarray(numbers.to_numpy(zero_copy_only=False)) / unit


def weights_of(rows: pa.StructArray, name: str) -> Vector:
    """Return the weights of rows, NaN for NULL; refuse negative and infinite weights."""
    weight = values(rows, (name,))
    if (weight < 0).any():
        raise DataError(
            f"weight '{name}' is negative ({weight[weight < 0][0]:g}); weights must be >= 0"
        )
    if np.isinf(weight).any():
        raise DataError(f"weight '{name}' has an infinite value; values must be finite")
    return weight


def usable(X: Matrix, names: Sequence[str], scale: bool) -> tuple[Index, Matrix]:
    """Return the positions of the rows without NaN, and these rows; X may be overwritten."""
    used = np.flatnonzero(~np.isnan(X).any(axis=1))
    X = X if len(used) == len(X) else X[used]
    large = np.argwhere(np.abs(X) > LARGEST)
    if large.size:
        at, column = large[0]
        raise DataError(
            f"column '{names[column]}' has the value {X[at, column]}; values must be finite "
            f"and at most {LARGEST:g}"
        )
    if scale:
        norm = np.linalg.norm(X, axis=1, keepdims=True)
        X /= np.where(norm > 0, norm, 1.0)
    return used, X

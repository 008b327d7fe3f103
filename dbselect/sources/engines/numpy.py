"""A NumPy array with names for its columns."""

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dbselect.errors import ArgumentError, ColumnError
from dbselect.sources.engines.arrow import BATCH_ROWS, Batched


class ArrayTable(Batched):
    """The rows of an array of shape (n, d), numeric or boolean."""

    def __init__(self, array: npt.NDArray[Any], names: Sequence[str] | None) -> None:
        if names is None or isinstance(names, str):
            raise ArgumentError("columns is missing; an array needs a list of column names")
        if array.ndim != 2 or array.shape[1] != len(names):
            raise ArgumentError(
                f"the array has shape {array.shape}; {len(names)} column names need "
                f"shape (n, {len(names)})"
            )
        if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
            raise ColumnError(f"the array has type {array.dtype}; it must be numeric or boolean")
        self._array = array
        self._names = list(names)
        self.rows: int | None = len(array)
        self._dtype = array.dtype.newbyteorder("=")
        self.schema = pa.schema([(name, pa.from_numpy_dtype(self._dtype)) for name in names])

    def batches(self, fields: list[str]) -> Generator[pa.RecordBatch]:
        """Copy the columns out of the array, some rows at a time."""
        at = [self._names.index(field) for field in fields]
        for start in range(0, len(self._array), BATCH_ROWS):
            rows = self._array[start : start + BATCH_ROWS, at]
            block = np.ascontiguousarray(rows.T, dtype=self._dtype)
            yield pa.RecordBatch.from_arrays([pa.array(column) for column in block], fields)

"""Conversions between NumPy and Arrow arrays that do not import pandas.

pyarrow's ``array`` and ``to_numpy`` import pandas if it is installed, which takes as long as
importing dbselect.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


def of_numpy(values: npt.NDArray[Any]) -> pa.Array:
    """Convert numbers, shape (n,), to an Arrow array that shares their memory."""
    values = np.ascontiguousarray(values)
    type_ = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(type_, len(values), [None, pa.py_buffer(values)])


def of_texts(texts: list[str]) -> pa.Array:
    """Convert texts to an Arrow array."""
    encoded = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.large_string(), len(texts), buffers)


def to_numpy(array: pa.Array) -> npt.NDArray[Any]:
    """Convert an Arrow array without NULL to NumPy, sharing memory."""
    return np.from_dlpack(array)


def empty_table(schema: pa.Schema) -> pa.Table:
    """Return a table without rows."""
    return pa.Table.from_batches([], schema)


def part_of(rows: pa.StructArray, path: tuple[str | int, ...]) -> pa.Array:
    """Return one column of rows."""
    array: pa.Array = rows
    for part in path:
        if isinstance(part, int):
            array = pc.list_element(array, part - 1)
        else:
            array = pc.struct_field(array, [array.type.get_field_index(part)])
    return array

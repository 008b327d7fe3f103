"""Arrow arrays of NumPy's, and back.

pyarrow's own ``array`` and ``to_numpy`` import pandas wherever that is installed, which takes as
long as all of dbselect.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def of_numpy(values: npt.NDArray[Any]) -> pa.Array:
    """Return numbers, shape (n,), as an array of n, which shares their memory."""
    values = np.ascontiguousarray(values)
    type_ = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(type_, len(values), [None, pa.py_buffer(values)])


def of_texts(texts: list[str]) -> pa.Array:
    """Return texts as an array."""
    encoded = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.large_string(), len(texts), buffers)


def to_numpy(array: pa.Array) -> npt.NDArray[Any]:
    """Return the numbers of an array without NULL, which share its memory."""
    return np.from_dlpack(array)


def empty_table(schema: pa.Schema) -> pa.Table:
    """Return a table without rows."""
    return pa.Table.from_batches([], schema)

"""Objects with an Arrow C stream (pyarrow, pandas), datasets and NumPy arrays, in batches."""

import json
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from threading import BoundedSemaphore
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from dbselect.errors import ArgumentError, ColumnError, SourceError, shown
from dbselect.record.categories import text_schema, with_text_levels
from dbselect.record.columns import leaves, numbers_among
from dbselect.sources.paths import Unchanged, unchanged_of
from dbselect.sources.request import Consumer

#: Rows passed to a thread at a time: enough to hide the cost of passing them.
BATCH_ROWS = 65536
#: Most rows and values of a batch of an engine: 131,072 rows of 20,000 columns take many GB.
MOST_ROWS, MOST_VALUES = 131_072, 1 << 25


class Batched(ABC):
    """A table that an engine returns in batches, which several threads consume."""

    schema: pa.Schema
    rows: int | None = None
    again = True

    @abstractmethod
    def batches(self, fields: list[str]) -> Generator[pa.RecordBatch]:
        """Read the fields in batches, in the order of the table."""

    def scan(self, fields: list[str], consume: Consumer) -> None:
        """Read the fields in batches, each consumed on one of several threads."""
        with closing(self.batches(fields)) as batches:
            consume_batches(batches, consume)


class StreamTable(Batched):
    """A one-shot stream of record batches, of an object with ``__arrow_c_stream__``."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self._reader: pa.RecordBatchReader | None = self._open()
        # An object with a length is a table in memory; Daft has none for a lazy frame.
        self.rows = None
        with suppress(TypeError, RuntimeError):
            self.rows = len(source)
        self.again = self.rows is not None
        schema = self._reader.schema
        # The index of a pandas frame is no column of the table.
        notes = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
        index = [name for name in notes.get("index_columns", []) if isinstance(name, str)]
        self.schema = text_schema(pa.schema([field for field in schema if field.name not in index]))

    def batches(self, fields: list[str]) -> Generator[pa.RecordBatch]:
        """Read the fields in batches, in order."""
        reader, self._reader = self._reader or self._open(), None
        try:
            with reader:
                for batch in reader:
                    chosen = batch.select(fields)
                    # With inconsistent lengths, Arrow would read beyond the ends of buffers.
                    chosen.validate(full=True)
                    yield with_text_levels(chosen)
        except (pa.ArrowException, OSError) as error:
            raise SourceError(f"cannot read the Arrow stream: {error}") from error

    def _open(self) -> pa.RecordBatchReader:
        try:
            return pa.RecordBatchReader.from_stream(self._source)
        except (pa.ArrowException, OSError, TypeError, ValueError) as error:
            # pandas raises the last two: duplicate column names, or a type that Arrow lacks.
            raise SourceError(f"cannot read the Arrow stream: {error}") from error


class DatasetTable(Batched):
    """A dataset of files that can be read repeatedly; only the requested fields are read."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self.schema = text_schema(dataset.schema)
        local = type(getattr(dataset, "filesystem", None)).__name__ == "LocalFileSystem"
        self._files = unchanged_of(dataset.files) if local else Unchanged()
        try:
            self.rows = dataset.count_rows()
        except (pa.ArrowException, OSError) as error:
            raise SourceError(f"cannot read the Arrow dataset: {error}") from error

    def batches(self, fields: list[str]) -> Generator[pa.RecordBatch]:
        """Read the fields in batches, in order."""
        try:
            size = batch_rows(self.schema, fields)
            with self._files.checked():
                for batch in self._dataset.to_batches(columns=fields, batch_size=size):
                    yield with_text_levels(batch)
        except (pa.ArrowException, OSError) as error:
            raise SourceError(f"cannot read the Arrow dataset: {error}") from error


class ScanTable(Batched):
    """A scan of an Iceberg table, with its filter, at its snapshot."""

    def __init__(self, scan: Any) -> None:
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        self._scan = scan
        self.schema = schema_to_pyarrow(scan.projection(), include_field_ids=False)

    def batches(self, fields: list[str]) -> Generator[pa.RecordBatch]:
        """Read the fields in batches."""
        try:
            for batch in self._scan.select(*fields).to_arrow_batch_reader():
                yield batch.select(fields)
        except (pa.ArrowException, OSError) as error:
            raise SourceError(f"cannot read the scan of the Iceberg table: {error}") from error


def batch_rows(schema: pa.Schema, fields: Sequence[str]) -> int:
    """Return the number of rows of a batch of these fields."""
    width = len(leaves(pa.schema([schema.field(name) for name in fields])))
    return max(1, min(MOST_ROWS, MOST_VALUES // max(width, 1)))


def consume_batches(batches: Iterable[pa.RecordBatch], consume: Consumer) -> None:
    """Consume batches on threads, with at most two queued per thread; stop at the first error."""
    threads = pl.thread_pool_size()  # no more than affinity and container allow
    free = BoundedSemaphore(2 * threads)
    failed: list[BaseException] = []

    def done(future: "Future[None]") -> None:
        error = future.exception()
        if error is not None:
            failed.append(error)
        free.release()

    with ThreadPoolExecutor(threads) as pool:
        for batch in batches:
            for start in range(0, batch.num_rows, BATCH_ROWS):
                free.acquire()
                if failed:
                    break
                piece = pa.Table.from_batches([batch.slice(start, BATCH_ROWS)])
                pool.submit(consume, piece).add_done_callback(done)
            if failed:
                break
    if failed:
        raise failed[0]


class ArrayTable(Batched):
    """The rows of an array of shape (n, d), numeric or boolean."""

    def __init__(self, array: npt.NDArray[Any], names: Sequence[str] | None) -> None:
        if names is None or isinstance(names, str):
            raise ArgumentError("columns is missing; an array needs a list of column names")
        if not all(isinstance(name, str) for name in names):
            raise ArgumentError(
                f"columns has {shown(names[0])}; it must be the names of the array's columns. A "
                "target is one of them: np.column_stack([X, y])"
            )
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
        at = numbers_among(fields, self._names)
        for start in range(0, len(self._array), BATCH_ROWS):
            rows = self._array[start : start + BATCH_ROWS, at]
            block = np.ascontiguousarray(rows.T, dtype=self._dtype)
            yield pa.RecordBatch.from_arrays([pa.array(column) for column in block], fields)

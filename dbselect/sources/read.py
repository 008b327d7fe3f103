"""One pass over any table: `gram` and `gram_by`."""

import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from dbselect._native import Reader
from dbselect.columns import leaves
from dbselect.errors import ArgumentError, SourceError
from dbselect.gram import RECORD_DTYPE, Gram
from dbselect.sources.grouping import GROUP, Grouping
from dbselect.sources.request import Consumer, Request, Table, resolve

#: Seconds after which a progress bar appears on a terminal.
PROGRESS_DELAY = 2


def gram(source: Any, columns: Sequence[str] | None = None, weight: str | None = None) -> Gram:
    """Read a table once and return the Gram record of its columns.

    Parameters
    ----------
    source : a Parquet path or glob, a Polars LazyFrame or DataFrame, a DuckDB
        relation, anything with ``__arrow_c_stream__`` (pyarrow, pandas, ibis), or
        a NumPy array of shape (n, d), whose d names are then `columns`
    columns : names and globs (``*``, ``?``), nested fields by the name of the field;
        default: every numeric or boolean column, nested ones included
    weight : column of row weights, >= 0

    Returns
    -------
    Gram of d columns: those of `columns`, in that order

    Raises
    ------
    SourceError : there is no such table
    ColumnError : a column is unknown, named twice or not numeric
    DataError : an infinite value or a negative weight

    Notes
    -----
    O(n d^2) time. Memory does not grow with n: d^2 / 2 doubles a thread, and the
    batches in flight. A progress bar appears on a terminal after two seconds.

    Examples
    --------
    >>> import dbselect as ds
    >>> import numpy as np
    >>> g = ds.gram(np.array([[1.0, 2.0], [3.0, np.nan], [5.0, 8.0]]), columns=["x", "y"])
    >>> g.rows, g.skipped, g.mean.tolist()
    (2, 1, [3.0, 5.0])
    """
    return read_columns(source, columns, weight)[0]


def read_columns(
    source: Any, columns: Sequence[str] | None = None, weight: str | None = None
) -> tuple[Gram, list[str]]:
    """Return what `gram` returns, and the numeric columns that were not read."""
    table = open_table(source, columns)
    request = resolve(table.schema, columns, weight)
    read = {*request.names, weight}
    unread = [
        leaf.name for leaf in leaves(table.schema) if leaf.is_numeric and leaf.name not in read
    ]
    aggregate = getattr(table, "aggregate", None)
    records = aggregate(request) if aggregate else None
    if records is not None:
        record = records["gram"][0]
        return (_empty(request) if record is None else Gram.from_struct(record)), unread
    with Reader(request.names, request.weight) as reader:
        _scan(table, request, reader.add)
        return Gram.from_struct(reader.finish()[0]), unread


def stored_gram(source: Any) -> Gram | None:
    """Return the Gram that a Parquet file or a frame holds, None if it is another table."""
    if isinstance(source, str | Path):
        path = Path(source).expanduser()
        try:
            is_gram = path.is_file() and pq.read_schema(path).names == ["gram"]
        except (OSError, pa.ArrowException) as error:
            raise SourceError(f"cannot read '{source}' as Parquet: {error}") from error
        return Gram.read_parquet(path) if is_gram else None
    if isinstance(source, pl.LazyFrame) and source.collect_schema().names() == ["gram"]:
        source = source.collect()
    if isinstance(source, pl.DataFrame) and source.columns == ["gram"] and source.height == 1:
        return Gram.from_struct(source["gram"][0])
    return None


def gram_by(
    source: Any,
    by: Sequence[str],
    columns: Sequence[str] | None = None,
    weight: str | None = None,
) -> pl.DataFrame:
    """Read a table once and return one Gram record for each group of rows.

    Parameters
    ----------
    source : as in `gram`
    by : columns whose values make the groups; they are left out of the default
        `columns`
    columns, weight : as in `gram`

    Returns
    -------
    DataFrame with the columns `by` and ``gram``, sorted by the keys, NULL last

    Raises
    ------
    As `gram`

    Notes
    -----
    O(n d^2) time. Memory: d^2 / 2 + 32 d doubles a group and thread.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"k": ["a", "a", "b"], "x": [1.0, 3.0, 5.0]})
    >>> ds.gram_by(table, by=["k"]).select("k", pl.col("gram").struct.field("mean"))
    shape: (2, 2)
    ┌─────┬───────────┐
    │ k   ┆ mean      │
    │ --- ┆ ---       │
    │ str ┆ list[f64] │
    ╞═════╪═══════════╡
    │ a   ┆ [2.0]     │
    │ b   ┆ [5.0]     │
    └─────┴───────────┘
    """
    table = open_table(source, columns)
    request = resolve(table.schema, columns, weight, by)
    if not request.by:
        raise ArgumentError("by is empty; name at least one column, or use gram")
    if "gram" in request.by:
        raise ArgumentError("by names a column 'gram'; rename it, as the result has that name")
    aggregate = getattr(table, "aggregate", None)
    records = aggregate(request) if aggregate else None
    if records is not None:
        cast = pl.DataFrame(records).with_columns(pl.col("gram").cast(RECORD_DTYPE))
        return cast.sort(request.by, nulls_last=True)
    grouping = Grouping(request.by, table.schema)
    with Reader(request.names, request.weight, GROUP) as reader:
        _scan(table, request, lambda batch: reader.add(grouping.number(batch)))
        return grouping.table(reader.finish())


def open_table(source: Any, columns: Sequence[str] | None) -> Table:
    """Find the engine of a source; each is imported only where it is used."""
    if isinstance(source, str | Path):
        from dbselect.sources.polars import from_path

        return from_path(source)
    if isinstance(source, pl.DataFrame | pl.LazyFrame):
        from dbselect.sources.polars import from_frame

        return from_frame(source)
    if isinstance(source, np.ndarray):
        from dbselect.sources.numpy import ArrayTable

        return ArrayTable(source, columns)
    duckdb = sys.modules.get("duckdb")
    if duckdb is not None and isinstance(source, duckdb.DuckDBPyRelation):
        from dbselect.sources.duckdb import RelationTable

        return RelationTable(source)
    dataset = sys.modules.get("pyarrow.dataset")
    if dataset is not None and isinstance(source, dataset.Dataset):
        from dbselect.sources.arrow import DatasetTable

        return DatasetTable(source)
    if hasattr(source, "__arrow_c_stream__"):
        from dbselect.sources.arrow import StreamTable

        return StreamTable(source, len(source) if hasattr(source, "__len__") else None)
    raise SourceError(
        f"source is a {type(source).__name__}; it must be a Parquet path, a Polars frame, a DuckDB "
        "relation, an object with __arrow_c_stream__ or a NumPy array"
    )


def _scan(table: Table, request: Request, consume: Consumer) -> None:
    """Read the table, with a progress bar on a terminal."""
    lock = Lock()
    with progress(table.rows) as bar:

        def consume_and_show(batch: Any) -> None:
            consume(batch)
            with lock:
                bar.update(len(batch))

        table.scan(request.fields, consume_and_show)


def progress(rows: int | None) -> Any:
    """Return a progress bar of some rows, for terminals only."""
    return tqdm(
        total=rows, unit=" rows", unit_scale=True, delay=PROGRESS_DELAY, disable=None, leave=False
    )


def _empty(request: Request) -> Gram:
    width = len(request.columns)
    return Gram(request.names, 0, 0, 0.0, np.zeros(width), np.zeros((width, width)))

"""Any table as a LazyFrame, and rows of another engine read into memory."""

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source

from dbselect._arrow import empty_table
from dbselect.errors import SourceError
from dbselect.record.foreign import is_of, native
from dbselect.sources.engines.polars import LazyTable
from dbselect.sources.open import open_table
from dbselect.sources.request import Table


def lazy(table: Table) -> pl.LazyFrame:
    """Return a table as a LazyFrame, which reads only the fields used when it is collected."""
    if isinstance(table, LazyTable):
        return table.frame
    schema = dict(pl.DataFrame(empty_table(table.schema)).schema)

    def batches(
        fields: list[str] | None, predicate: pl.Expr | None, rows: int | None, _: int | None
    ) -> Iterator[pl.DataFrame]:
        left = rows
        for batch in table.batches(list(schema) if fields is None else fields):
            frame = pl.DataFrame(batch) if left is None else pl.DataFrame(batch).head(left)
            left = None if left is None else left - frame.height
            yield frame if predicate is None else frame.filter(predicate)
            if left is not None and left <= 0:
                return

    return register_io_source(batches, schema=schema)


def collected(frame: pl.LazyFrame) -> pl.DataFrame:
    """Read a frame with the streaming engine."""
    try:
        return frame.collect(engine="streaming")
    except pl.exceptions.PolarsError as error:
        raise SourceError(f"Polars cannot read the table: {error}") from error


def table_elsewhere(source: Any) -> Table | None:
    """Open a frame of Spark or ibis without reading it; None for other sources."""
    source = native(source)
    return open_table(source, None) if is_of(source, "pyspark") or is_of(source, "ibis") else None


def brought_here(table: Table, fields: Sequence[str]) -> pl.DataFrame:
    """Read fields of a table into memory."""
    schema = pa.schema([table.schema.field(name) for name in fields])
    parts = [pl.DataFrame(batch) for batch in table.batches(list(fields))]
    return pl.concat([pl.DataFrame(empty_table(schema)), *parts], how="vertical_relaxed")

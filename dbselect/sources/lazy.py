"""Any table as a LazyFrame, for what Polars computes of it out of core."""

from collections.abc import Iterator

import polars as pl
from polars.io.plugins import register_io_source

from dbselect.errors import SourceError
from dbselect.sources.engines.polars import LazyTable
from dbselect.sources.request import Table


def lazy(table: Table) -> pl.LazyFrame:
    """Return the rows of a table as Polars reads them: only the fields that are used.

    Nothing is read until the frame is collected; a table that can be read only once can be
    collected only once.
    """
    if isinstance(table, LazyTable):
        return table.frame
    schema = dict(pl.DataFrame(table.schema.empty_table()).schema)

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

"""Rows that another engine has, brought here for what looks at single rows."""

from collections.abc import Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from dbselect.record.foreign import is_of, native
from dbselect.sources.open import open_table
from dbselect.sources.request import Table


def table_elsewhere(source: Any) -> Table | None:
    """Return the table of a frame of Spark or ibis, unread; None where rows are here."""
    source = native(source)
    return open_table(source, None) if is_of(source, "pyspark") or is_of(source, "ibis") else None


def brought_here(table: Table, fields: Sequence[str]) -> pl.DataFrame:
    """Read fields of a table into memory."""
    schema = pa.schema([table.schema.field(name) for name in fields])
    parts = [pl.DataFrame(batch) for batch in table.batches(list(fields))]
    return pl.concat([pl.DataFrame(schema.empty_table()), *parts], how="vertical_relaxed")

"""Wrappers of a table: with fewer fields, or with changed rows."""

from collections.abc import Generator

import pyarrow as pa

from dbselect.sources.partial.partial_aggregates import Reduce
from dbselect.sources.request import Consumer, Table


class Around:
    """A table with another schema; subclasses change its rows."""

    def __init__(self, table: Table, schema: pa.Schema) -> None:
        self._table = table
        self.schema = schema
        self.rows: int | None = table.rows
        self.again: bool = table.again

    def scan(self, fields: list[str], consume: Consumer) -> None:
        """Pass batches of all rows to `consume`."""
        self._table.scan(fields, consume)

    def batches(self, fields: list[str]) -> Generator[pa.RecordBatch]:
        """Yield batches of all rows in the order of the table."""
        return self._table.batches(fields)

    @property
    def reduce(self) -> Reduce | None:
        """The engine's method to reduce the rows in its own processes; None if it has none."""
        return getattr(self._table, "reduce", None)


def without(table: Table, *fields: str) -> Around:
    """Return the table without some fields."""
    return Around(table, pa.schema([field for field in table.schema if field.name not in fields]))

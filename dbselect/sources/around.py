"""A table that is seen through another: with fewer fields, or with changed rows."""

from collections.abc import Generator

import pyarrow as pa

from dbselect.sources.partial.partial_aggregates import Reduce
from dbselect.sources.request import Consumer, Table


class Around:
    """A table as it is, but for its schema."""

    def __init__(self, table: Table, schema: pa.Schema) -> None:
        self._table = table
        self.schema = schema
        self.rows: int | None = table.rows
        self.again: bool = table.again

    def scan(self, fields: list[str], consume: Consumer) -> None:
        """Hand every row's fields to `consume`."""
        self._table.scan(fields, consume)

    def batches(self, fields: list[str]) -> Generator[pa.RecordBatch]:
        """Give every row's fields in the order of the table."""
        return self._table.batches(fields)

    @property
    def reduce(self) -> Reduce | None:
        """What has the processes of the engine gather of their rows, if it has some."""
        return getattr(self._table, "reduce", None)


def without(table: Table, *fields: str) -> Around:
    """Return a table whose schema lacks fields."""
    return Around(table, pa.schema([each for each in table.schema if each.name not in fields]))

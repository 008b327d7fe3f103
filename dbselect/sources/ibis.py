"""Tables of ibis: on DuckDB as relations, on other backends as Arrow batches."""

from collections.abc import Generator
from contextlib import closing
from typing import Any

import pyarrow as pa

from dbselect.errors import SourceError
from dbselect.sources.arrow import StreamTable, consume_batches
from dbselect.sources.request import Consumer, Table


class IbisTable:
    """An expression of ibis, computed at each reading, and only the fields that are wanted.

    Its own Arrow stream would hold the whole table in memory.
    """

    def __init__(self, expression: Any) -> None:
        self._expression = expression
        self.schema: pa.Schema = expression.schema().to_pyarrow()
        self.again = True
        self.rows: int | None = None

    def scan(self, fields: list[str], consume: Consumer) -> None:
        """Read the fields in batches, each consumed on one of several threads."""
        with closing(self.batches(fields)) as batches:
            consume_batches(batches, consume)

    def batches(self, fields: list[str]) -> Generator[pa.RecordBatch]:
        """Read the fields in batches, in the order that the backend gives the rows."""
        try:
            with self._expression.select(fields).to_pyarrow_batches() as reader:
                yield from reader
        except Exception as error:  # each backend has errors of its own
            raise SourceError(f"ibis cannot read the table: {error}") from error


def from_expression(expression: Any) -> Table:
    """Open a table expression, by the engine of its backend where that is one of ours."""
    backend = expression.get_backend()
    if backend.name != "duckdb":
        return IbisTable(expression)
    from dbselect.sources.duckdb import from_query

    relation = from_query(backend.con, str(backend.compile(expression)))
    if relation is not None:
        return relation
    # Rows from memory, which the connection does not know yet, are gathered there again.
    rows = expression.to_pyarrow()
    return StreamTable(rows, len(rows))

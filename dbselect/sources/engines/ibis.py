"""Tables of ibis: local engines return their rows, remote ones compute the sums."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import polars as pl
import pyarrow as pa

from dbselect.errors import DriverWarning, SourceError, warn_caller
from dbselect.record.columns import Leaf
from dbselect.sources.engines.arrow import Batched, StreamTable
from dbselect.sources.request import Request, Table
from dbselect.sources.snapshots import hold, one_snapshot


class IbisTable(Batched):
    """An expression of ibis, read in batches: its own Arrow stream would hold the whole table."""

    def __init__(self, expression: Any) -> None:
        self._expression = expression
        self.schema = expression.schema().to_pyarrow()

    def batches(self, fields: list[str]) -> Generator[pa.RecordBatch]:
        """Read the fields in batches, in the backend's order of rows."""
        try:
            with self._expression.select(fields).to_pyarrow_batches() as reader:
                yield from reader
        except Exception as error:  # the errors of backends have no common base class
            first = error
            while isinstance(first.__context__, Exception):
                first = first.__context__
            raise SourceError(f"ibis cannot read the table: {first}") from error


class RemoteTable(IbisTable):
    """An expression of ibis on a remote engine, which computes the sums."""

    def __init__(self, expression: Any) -> None:
        from dbselect.sources.engines.expressions import exact

        super().__init__(exact(expression))
        self._reason = "not all that is asked is a sum"
        self._has_warned = False

    def batches(self, fields: list[str]) -> Generator[pa.RecordBatch]:
        """Read the fields in batches, in the backend's order of rows; warn on the first read."""
        if not self._has_warned:
            warn_caller(
                f"the rows of the table of {self._expression.get_backend().name} all pass "
                f"into this process, as {self._reason}; write them to Parquet and give its path if "
                "they are many, or read more than once",
                DriverWarning,
            )
            self._has_warned = True
        self._hold()
        yield from super().batches(fields)

    def _hold(self) -> None:
        """Start a transaction, so that all queries of a call read the same state."""
        engine = self._expression.get_backend()
        # ibis writes tables in memory first, which the read-only transaction would refuse.
        engine._run_pre_execute_hooks(self._expression)
        begin = _TRANSACTIONS.get(engine.name)
        if begin is not None:
            hold(engine, begin)

    @one_snapshot
    def aggregate(self, request: Request) -> pl.DataFrame | None:
        """Compute the records in the engine: the keys and ``gram``; None if it cannot."""
        from dbselect.sources.engines.expressions import NotSummedError
        from dbselect.sources.engines.warehouse import records_of

        if request.folding is not None:
            self._reason = "the fold of a row is a hash of its values, which SQL does not have"
            return None
        if request.terms.bases or request.terms.computed:
            self._reason = "curves and computed columns are no sums of columns"
            return None
        self._hold()
        try:
            return records_of(self._expression, request)
        except NotSummedError as reason:
            self._reason = f"sums in the engine are not possible: {reason}"
            return None

    def counts_of(self, leaf: Leaf, limit: int | None, most: int | None) -> pl.DataFrame:
        """Count the rows of each value, of up to `most` + 1; with limit 0 return the range only."""
        from dbselect.sources.engines.expressions import counts_of

        self._hold()
        return counts_of(self._expression, leaf, limit, most)


@contextmanager
def _postgres(engine: Any) -> Iterator[None]:
    from psycopg.pq import TransactionStatus

    connection = engine.con
    if connection.info.transaction_status != TransactionStatus.IDLE:
        # The isolation level of an open transaction cannot be changed.
        yield
        return
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


@contextmanager
def _sqlite(engine: Any) -> Iterator[None]:
    connection = engine.con
    arguments = [
        *getattr(engine, "_con_args", ["a file"]),
        *getattr(engine, "_con_kwargs", {}).values(),
    ]
    is_in_memory = all(argument in (None, ":memory:") for argument in arguments)
    if connection.in_transaction or is_in_memory:  # no other connection writes to memory
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.rollback()


@contextmanager
def _mysql(engine: Any) -> Iterator[None]:
    from MySQLdb import OperationalError
    from MySQLdb.constants.ER import CANT_CHANGE_TX_CHARACTERISTICS

    connection = engine.con
    commits = connection.get_autocommit()
    if not commits:  # ibis would end the transaction with each query
        connection.autocommit(True)
    try:
        connection.query("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.query("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
    except OperationalError as error:
        if error.args[0] != CANT_CHANGE_TX_CHARACTERISTICS:
            raise
        # The isolation level of an open transaction cannot be changed.
        yield
        return
    try:
        yield
    finally:
        connection.rollback()
        if not commits:
            connection.autocommit(False)


#: Engine -> context manager of a transaction that reads one state.
_TRANSACTIONS = {"mysql": _mysql, "postgres": _postgres, "sqlite": _sqlite}


def from_expression(expression: Any) -> Table:
    """Open a table expression, with dbselect's own reader for DuckDB and Polars."""
    from sqlglot import generator

    # ibis changes its dialects on import, but sqlglot caches those used before.
    getattr(generator, "_DISPATCH_CACHE", {}).clear()
    backend = expression.get_backend()
    if backend.name == "duckdb":
        from dbselect.sources.engines.duckdb import from_query

        relation = from_query(backend.con, str(backend.compile(expression)))
        # Rows in memory are not registered with the connection; they are collected instead.
        return relation or StreamTable(expression.to_pyarrow())
    if backend.name == "polars":
        from dbselect.sources.engines.polars import LazyTable

        return LazyTable(backend.compile(expression))
    if backend.name == "datafusion":
        return IbisTable(expression)
    return RemoteTable(expression)

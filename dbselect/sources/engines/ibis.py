"""Tables of ibis: local engines hand over their rows, all others sum where the rows are."""

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
    """An expression of ibis, computed at each reading, reading only the requested fields.

    Its own Arrow stream would hold the whole table in memory.
    """

    def __init__(self, expression: Any) -> None:
        self._expression = expression
        self.schema = expression.schema().to_pyarrow()

    def batches(self, fields: list[str]) -> Generator[pa.RecordBatch]:
        """Read the fields in batches, in the order that the backend gives the rows."""
        try:
            with self._expression.select(fields).to_pyarrow_batches() as reader:
                yield from reader
        except Exception as error:  # each backend has errors of its own
            first = error
            while isinstance(first.__context__, Exception):
                first = first.__context__
            raise SourceError(f"ibis cannot read the table: {first}") from error


class RemoteTable(IbisTable):
    """An expression of ibis on an engine elsewhere, which adds up what it has."""

    def __init__(self, expression: Any) -> None:
        from dbselect.sources.engines.expressions import exact

        super().__init__(exact(expression))
        self._why = "not all that is asked is a sum"
        self._is_told = False

    def batches(self, fields: list[str]) -> Generator[pa.RecordBatch]:
        """Read the fields in batches, in the order that the backend gives the rows."""
        if not self._is_told:
            warn_caller(
                f"the rows of the table of {self._expression.get_backend().name} all pass "
                f"into this process, as {self._why}; write them to Parquet and give its path if "
                "they are many, or read more than once",
                DriverWarning,
            )
            self._is_told = True
        self._hold()
        yield from super().batches(fields)

    def _hold(self) -> None:
        """Have the queries of a call see one state."""
        engine = self._expression.get_backend()
        # What ibis registers first, such as tables in memory, is written.
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
            self._why = "the fold of a row is a hash of its values, which SQL does not have"
            return None
        if request.terms.bases or request.terms.computed:
            self._why = "curves and computed columns are no sums of columns"
            return None
        self._hold()
        try:
            return records_of(self._expression, request)
        except NotSummedError as reason:
            self._why = f"sums in the engine are not possible: {reason}"
            return None

    def counts_of(self, leaf: Leaf, limit: int | None, most: int | None) -> pl.DataFrame:
        """Count the rows of each value of a column: ``value`` and ``rows``.

        A limit of 0 returns the smallest and the largest value only; of more than `most` values,
        one more is returned.
        """
        from dbselect.sources.engines.expressions import counts_of

        self._hold()
        return counts_of(self._expression, leaf, limit, most)


@contextmanager
def _postgres(engine: Any) -> Iterator[None]:
    from psycopg.pq import TransactionStatus

    connection = engine.con
    if connection.info.transaction_status != TransactionStatus.IDLE:
        # The isolation of a transaction that has begun is its own.
        yield
        return
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


@contextmanager
def _sqlite(engine: Any) -> Iterator[None]:
    connection = engine.con
    given = [
        *getattr(engine, "_con_args", ["a file"]),
        *getattr(engine, "_con_kwargs", {}).values(),
    ]
    is_in_memory = all(one in (None, ":memory:") for one in given)
    if connection.in_transaction or is_in_memory:  # which nobody else writes
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
        # The isolation of a transaction that has begun is its own.
        yield
        return
    try:
        yield
    finally:
        connection.rollback()
        if not commits:
            connection.autocommit(False)


#: Engines with a transaction of one state -> what holds it.
_TRANSACTIONS = {"mysql": _mysql, "postgres": _postgres, "sqlite": _sqlite}


def from_expression(expression: Any) -> Table:
    """Open a table expression, by the engine of its backend where that is one of ours."""
    _forget_dialects()
    backend = expression.get_backend()
    if backend.name == "duckdb":
        return _of_duckdb(expression, backend)
    if backend.name == "polars":
        from dbselect.sources.engines.polars import LazyTable

        return LazyTable(backend.compile(expression))
    if backend.name == "datafusion":
        return IbisTable(expression)
    return RemoteTable(expression)


def _of_duckdb(expression: Any, backend: Any) -> Table:
    from dbselect.sources.engines.duckdb import from_query

    relation = from_query(backend.con, str(backend.compile(expression)))
    if relation is not None:
        return relation
    # Rows in memory are not registered with the connection; they are collected instead.
    return StreamTable(expression.to_pyarrow())


def _forget_dialects() -> None:
    """Clear sqlglot's cached dialects.

    ibis changes the dialects on import, but sqlglot keeps a dialect it has used before, as for
    `Model.sql`; ibis' queries of the same engine would then lack its functions.
    """
    from sqlglot import generator

    getattr(generator, "_DISPATCH_CACHE", {}).clear()

"""A store in one table of DuckDB: of a file, or of a connection and what it has attached.

A step is one transaction. It first touches a row of the state that it starts from, so that of
two steps from one state the database lets one through, and then checks that the parts are
unchanged.
"""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import polars as pl

from dbselect.backends.shelf import Shelved, was_first
from dbselect.errors import BusyError, SourceError
from dbselect.record.formulas import quote
from dbselect.record.gram import RECORD_DTYPE

#: Name of the table in a file of its own.
TABLE = "grams"
#: Name under which the new records are registered while they are written.
NEW = "dbselect_new_records"
#: Error of DuckDB and attached catalogs for the second of two writers.
CONFLICT = re.compile("conflict|already exists", re.IGNORECASE)
#: Seconds to wait for a file that another process has open, and between two looks at it.
PATIENCE, PAUSE = 10.0, 0.05


class DatabaseFile:
    """Records in a file of DuckDB, open only while they are read or written.

    Parameters
    ----------
    path : the file; it is made at the first step
    """

    folder: Path | None = None

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> Shelved:
        """Return the state."""
        if not self._path.exists():
            return Shelved(None)
        with self._opened() as table:
            return table.read()

    def write(self, before: Shelved, gone: list[str], new: pl.DataFrame) -> None:
        """Put new records in the place of those gone, in one transaction."""
        if not self._path.absolute().parent.is_dir():
            raise SourceError(f"the folder of the store '{self._path}' does not exist")
        with self._opened() as table:
            table.write(before, gone, new)

    @contextmanager
    def _opened(self) -> Iterator["DatabaseTable"]:
        end = time.monotonic() + PATIENCE
        while True:
            try:
                connection = duckdb.connect(self._path)
                break
            except duckdb.IOException as error:
                if "lock" not in str(error):
                    raise SourceError(f"cannot open the store '{self._path}': {error}") from error
                if time.monotonic() > end:
                    raise BusyError(f"cannot open the store '{self._path}': {error}") from error
                time.sleep(PAUSE)
            except duckdb.Error as error:
                raise SourceError(
                    f"cannot open the store '{self._path}': {error}; where this process has the "
                    "file open already, give GramStore that connection and the name of a table"
                ) from error
        with connection:
            yield DatabaseTable(connection, TABLE, str(self._path))


class DatabaseTable:
    """Records in a table of a connection, in DuckLake or any other attached catalog.

    Parameters
    ----------
    connection : without an open transaction
    table : its name, ``catalog.schema.name`` where it has more parts; it is made at the
        first step
    shown : the store, for errors; default: the name
    """

    folder: Path | None = None

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, table: str, shown: str | None = None
    ) -> None:
        self._connection = connection
        self._shown = shown or table
        self._table = ".".join(quote(part) for part in table.split("."))

    def read(self) -> Shelved:
        """Return the state."""
        try:
            found = self._connection.sql(f"FROM {self._table}").to_arrow_table()
        except duckdb.CatalogException:
            return Shelved(None)
        except duckdb.Error as error:
            raise SourceError(f"cannot read the store '{self._shown}': {error}") from error
        frame = pl.DataFrame(found)
        if "reading" not in frame.columns:
            raise SourceError(f"the table in '{self._shown}' is no store; it has {frame.columns}")
        return Shelved(frame.with_columns(pl.col("gram").cast(RECORD_DTYPE)))

    def write(self, before: Shelved, gone: list[str], new: pl.DataFrame) -> None:
        """Put new records in the place of those gone, in one transaction."""
        known = before.fingerprints
        run = self._connection.execute
        try:
            run("BEGIN")
        except duckdb.Error as error:
            raise SourceError(f"the store '{self._shown}' cannot begin a step: {error}") from error
        try:
            if known:
                run(f"UPDATE {self._table} SET part = part WHERE part = ?", [min(known)])
            if before.frame is not None and self.read().fingerprints != known:
                raise was_first(self._shown)
            self._connection.register(NEW, new.to_arrow())
            if known:
                run(f"DELETE FROM {self._table} WHERE list_contains(?, part)", [gone])
                run(f"INSERT INTO {self._table} BY NAME FROM {NEW}")
            elif before.frame is None:
                run(f"CREATE TABLE {self._table} AS FROM {NEW}")
            else:
                # No row to touch, and keys may have other types this time.
                run(f"DROP TABLE {self._table}")
                run(f"CREATE TABLE {self._table} AS FROM {NEW}")
            run("COMMIT")
        except BaseException as error:
            self._undo()
            if isinstance(error, duckdb.Error) and CONFLICT.search(str(error)):
                raise was_first(self._shown) from error
            if isinstance(error, duckdb.Error):
                raise SourceError(f"cannot write the store '{self._shown}': {error}") from error
            raise
        finally:
            self._connection.unregister(NEW)

    def _undo(self) -> None:
        """End the transaction, unless its failure has ended it."""
        try:
            self._connection.execute("ROLLBACK")
        except duckdb.TransactionException:
            return

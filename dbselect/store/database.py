"""A store in a DuckDB table: in a file, or in a connection and its attached catalogs.

A step is a transaction that first updates a row: of two concurrent steps only one commits.
"""

import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

import duckdb
import polars as pl

from dbselect.errors import BusyError, SourceError
from dbselect.record.files import absolute, replacing
from dbselect.record.formulas import quote
from dbselect.store.shelf import ALL, Shelved, beside, no_history, typed, was_first

if sys.platform != "win32":
    import fcntl

#: Name of the table in a DuckDB file.
TABLE = "grams"
#: Name of the registered view of new records while they are written.
NEW = "dbselect_new_records"
#: Error message of DuckDB and attached catalogs for the second of two writers.
CONFLICT = re.compile("conflict|already exists", re.IGNORECASE)
#: Seconds to wait for a file that another process has open, and between two attempts.
PATIENCE, PAUSE = 10.0, 0.05


class OnlyReadError(BusyError):
    """Other processes have a file open, all for reading."""


class DatabaseFile:
    """Records in a DuckDB file, open only while they are read or written."""

    folder: Path | None = None

    def __init__(self, path: Path) -> None:
        self._path = path
        self.unfinished: Path | None = beside(path)

    def read(self, rows: pl.Expr = ALL, *, whole: bool = True) -> Shelved:
        """Return the state; other processes may read the file at the same time."""
        if not self._path.exists():
            return Shelved(None)
        with self._opened(read_only=True) as table:
            return table.read(rows, whole=whole)

    def read_at(self, when: datetime) -> Shelved:
        """Refuse: a file of DuckDB has no versions."""
        raise no_history(str(self._path))

    def write(self, before: Shelved, removed: list[str], new: pl.DataFrame) -> None:
        """Write a step; if others read the file, to a copy that replaces it."""
        if not absolute(self._path).parent.is_dir():
            raise SourceError(f"the folder of the store '{self._path}' does not exist")
        with _alone(absolute(self._path).parent):
            try:
                with self._opened() as table:
                    table.write(before, removed, new)
            except OnlyReadError:
                self._write_copy(before, removed, new)

    def _write_copy(self, before: Shelved, removed: list[str], new: pl.DataFrame) -> None:
        """Write a step to a copy of the file, which replaces it."""
        with self._opened(read_only=True) as table, replacing(self._path) as copy:
            stamp = self._stamp()
            table.check_first(before)
            shutil.copyfile(self._path, copy)
            with duckdb.connect(copy) as connection:
                DatabaseTable(connection, TABLE, str(self._path)).write(before, removed, new)
            if self._stamp() != stamp:
                raise was_first(str(self._path))

    def _is_only_read(self) -> bool:
        """Whether the file is open for reading only and a copy of it is complete."""
        # A copy would lose the write-ahead log of a killed writer.
        has_log = self._path.with_name(f"{self._path.name}.wal").exists()
        if has_log or sys.platform == "win32":
            return False
        try:
            duckdb.connect(self._path, read_only=True).close()
        except duckdb.Error:
            return False
        return True

    def _stamp(self) -> tuple[int, int, int]:
        status = self._path.stat()
        return status.st_ino, status.st_size, status.st_mtime_ns

    @contextmanager
    def _opened(self, *, read_only: bool = False) -> Iterator["DatabaseTable"]:
        start = time.monotonic()
        while True:
            try:
                connection = _connected(self._path, read_only)
                break
            except duckdb.Error as error:
                waited, why = time.monotonic() - start, f"cannot open the store '{self._path}'"
                is_locked = isinstance(error, duckdb.IOException) and "lock" in str(error)
                if is_locked and not read_only and self._is_only_read():
                    raise OnlyReadError(f"'{self._path}' is open to be read") from error
                if is_locked and waited > PATIENCE:
                    raise BusyError(f"{why}: {error}") from error
                # Another thread of this process may be about to close it.
                is_open = isinstance(error, duckdb.ConnectionException)
                if is_open and waited > PATIENCE / 10:
                    why += "; give GramStore the connection that has it, and the name of a table"
                if not is_locked and not (is_open and waited < PATIENCE / 10):
                    raise SourceError(f"{why}: {error}") from error
            time.sleep(PAUSE)
        with connection:
            yield DatabaseTable(connection, TABLE, str(self._path))


def _connected(path: Path, read_only: bool) -> duckdb.DuckDBPyConnection:
    try:
        return duckdb.connect(path, read_only=read_only)
    except duckdb.ConnectionException:
        # This process has the file open for writing, so the same mode is needed.
        return duckdb.connect(path)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Lock a folder, so that one store writes at a time."""
    if sys.platform == "win32":
        yield
        return
    handle, end = os.open(folder, os.O_RDONLY), time.monotonic() + PATIENCE
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise BusyError(
                        f"another process is writing in '{folder}'; try again later"
                    ) from None
                time.sleep(PAUSE)
            except OSError:  # a disk without locks
                break
        yield
    finally:
        os.close(handle)


class DatabaseTable:
    """Records in a table, ``catalog.schema.name``, of a connection without an open transaction."""

    folder: Path | None = None
    unfinished: Path | None = None

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, table: str, shown: str | None = None
    ) -> None:
        self._connection = connection
        self._shown = shown or table
        self._table = ".".join(quote(part) for part in table.split("."))

    def read(self, rows: pl.Expr = ALL, *, whole: bool = True) -> Shelved:
        """Return the state, or some rows of it, with or without the records."""
        return self._of("", whole=whole).of(rows)

    def check_first(self, before: Shelved) -> None:
        """Raise BusyError if another writer has changed the state of before."""
        now = self.read(whole=False)
        if not now.parts.sort("part").equals(before.parts.sort("part")):
            raise was_first(self._shown)

    def read_at(self, when: datetime) -> Shelved:
        """Return the state at a time, in UTC."""
        try:
            return self._of(f" AT (TIMESTAMP => TIMESTAMPTZ '{when.isoformat(sep=' ')}')")
        except SourceError as error:
            if isinstance(error.__cause__, duckdb.BinderException):
                raise no_history(self._shown) from error.__cause__
            raise SourceError(f"the store has no version as of {when}: {error}") from error

    def _of(self, at: str, *, whole: bool = True) -> Shelved:
        try:
            table = self._connection.sql(f"FROM {self._table}{at}")
            names = [name for name in table.columns if whole or name != "gram"]
            rows = table.select(*map(duckdb.ColumnExpression, names)).to_arrow_table()
        except duckdb.CatalogException:
            return Shelved(None)
        except duckdb.Error as error:
            raise SourceError(f"cannot read the store '{self._shown}': {error}") from error
        frame = pl.DataFrame(rows)
        if "reading" not in frame.columns:
            raise SourceError(f"the table in '{self._shown}' is no store; it has {frame.columns}")
        return Shelved(typed(frame))

    def write(self, before: Shelved, removed: list[str], new: pl.DataFrame) -> None:
        """Replace the records of parts `removed` by new ones, in one transaction."""
        is_begun = before.parts.height > 0
        run = self._connection.execute
        try:
            run("BEGIN")
        except duckdb.Error as error:
            raise SourceError(f"the store '{self._shown}' cannot begin a step: {error}") from error
        try:
            if is_begun:
                first = before.parts["part"].min()
                run(f"UPDATE {self._table} SET part = part WHERE part = ?", [first])
            if before.frame is not None:
                self.check_first(before)
            self._connection.register(NEW, new.to_arrow())
            if is_begun:
                if removed:
                    run(f"DELETE FROM {self._table} WHERE part IN (SELECT unnest(?))", [removed])
                run(f"INSERT INTO {self._table} BY NAME FROM {NEW}")
            else:
                # There is no row to update, and key types may differ now.
                if before.frame is not None:
                    run(f"DROP TABLE {self._table}")
                run(f"CREATE TABLE {self._table} AS FROM {NEW}")
            run("COMMIT")
        except BaseException as error:
            # The error may have ended the transaction already.
            with suppress(duckdb.TransactionException):
                self._connection.execute("ROLLBACK")
            if isinstance(error, duckdb.Error) and CONFLICT.search(str(error)):
                raise was_first(self._shown) from error
            if isinstance(error, duckdb.Error):
                raise SourceError(f"cannot write the store '{self._shown}': {error}") from error
            raise
        finally:
            self._connection.unregister(NEW)

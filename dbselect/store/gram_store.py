"""The store of statistics: a Gram record for each partition of a table, kept up to date."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from dbselect.backends.folder import Folder
from dbselect.backends.shelf import Shelf, Shelved
from dbselect.errors import ArgumentError, SourceError
from dbselect.record.terms import Terms
from dbselect.sources.engines.lakes import is_delta
from dbselect.sources.objects import is_listed, is_url
from dbselect.sources.request import NullPolicy
from dbselect.sources.types import TableSource
from dbselect.store.cut import Cut, sorted_records
from dbselect.store.reading import READING, Reading, agreed
from dbselect.store.refresh import Refreshed, refreshed

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: Endings of files of DuckDB; anything else is a folder.
DATABASES = (".duckdb", ".db", ".ddb")
#: Endings of files of other kinds, refused as the name of a folder.
OTHERS = (".parquet", ".sqlite", ".sqlite3", ".csv", ".json", ".arrow", ".feather", ".zip")


class GramStore(Cut):
    """A Gram record for each partition of a table, of which only what changes is read again.

    Every window of keys, every cut by them and the whole are then sums of records: a Gram, on
    which every method runs without a look at the table.

    Parameters
    ----------
    path : a file of DuckDB (``.duckdb``, ``.db``, ``.ddb``), a Delta table (``.delta``, or a
        folder that is one) or a folder of Parquet files, both also on an object store (``s3://``);
        with `connection` the name of a table there: ``"lake.main.stats"``. It is made at the first
        refresh
    connection : a connection of DuckDB, with any catalog attached

    Notes
    -----
    A refresh is one transaction: whenever it is killed, the store is what it was before or
    what it is after. Of two refreshes at once, the one that comes second fails, or waits for
    the other and starts from what that has written. The records are plain data: the column
    ``gram`` of the table ``grams`` in the file of DuckDB, or of the Parquet files.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> import tempfile
    >>> sales = pl.DataFrame({"day": [1, 1, 2, 3], "price": [1, 2, 3, 5], "sold": [9, 7, 6, 1]})
    >>> store = ds.GramStore(tempfile.mkdtemp() + "/stats")
    >>> store.refresh(sales, by="day")
    3 parts added, 0 changed, 0 dropped, 0 unchanged
    >>> store.refresh(sales.with_columns(sold=pl.Series([9, 7, 6, 2])))
    0 parts added, 1 changed, 0 dropped, 2 unchanged
    >>> store.window(2, 3).mean.tolist()
    [4.0, 4.0]
    """

    _EMPTY = "the store is empty"

    def __init__(self, path: str | Path, connection: "DuckDBPyConnection | None" = None) -> None:
        self._path = path
        self._shelf = _shelf(path, connection)

    def __repr__(self) -> str:
        return f"GramStore({str(self._path)!r})"

    def refresh(
        self,
        source: TableSource,
        by: str | Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        weight: str | None = None,
        *,
        null_policy: NullPolicy | None = None,
        max_levels: int | None = None,
        terms: Terms | None = None,
    ) -> Refreshed:
        """Read what is new or has changed, and take out what is gone.

        Parameters
        ----------
        source : the whole table, as in `gram`. The parts of a Parquet path, folder or glob are its
            files except those of the store, compared by size and time or ETag; those of a Delta or
            Iceberg table are the files of that version; those of any other source are the rows of
            equal keys, compared by number and hash, for which the columns are read once
        by : one or more columns, of the files or of folders ``day=2013-01-01``: the keys; the
            first is that of windows. Needed at the first refresh
        columns, weight, null_policy, max_levels, terms : as in `gram`. The values
            passed to the first refresh, or the defaults of `gram`, hold for all later ones;
            the same values may be passed again. Means are those of each window.
            Categories of text have the levels that the rows of a window have; what `terms`
            learnt stays as it is

        Returns
        -------
        Refreshed: the parts added, changed and dropped, and how many were not read

        Raises
        ------
        ArgumentError : `by` is missing at the first refresh, or an option differs from that
            of the first
        SourceError : there is no such table, it is a stream that can be read only once, or it
            has no rows any more, which would drop all parts
        BusyError : a part changes while it is read, or another process has refreshed
            meanwhile; the store is what it was
        ColumnError, DataError : as `gram_by`

        Warns
        -----
        LeftOutWarning, SkippedRowsWarning : as `gram_by`, once for all parts

        Notes
        -----
        A changed part is read as a whole and its record replaced; nothing is subtracted.
        Time, beside that of the parts read: a look at each file, or one pass that hashes.
        """
        before = self._shelf.read()
        every: dict[str, Any] = {
            "by": _names(by), "columns": None if columns is None else _list("columns", columns),
            "weight": weight, "null_policy": null_policy, "max_levels": max_levels, "terms": terms,
        }  # fmt: skip
        said = {name: value for name, value in every.items() if value not in (None, ())}
        given = Reading(**{"by": ()} | said)
        kept = _reading(before)
        if kept is None and not given.by:
            raise ArgumentError("by is missing; the first refresh needs the key, as by='day'")
        return refreshed(self._shelf, before, source, given if kept is None else agreed(said, kept))

    def _now(self) -> tuple[pl.DataFrame, Reading]:
        state = self._shelf.read()
        reading = _reading(state)
        if state.frame is None or reading is None:
            raise SourceError(f"the store '{self._path}' is empty; refresh it first")
        return sorted_records(state.frame, reading), reading


def _shelf(path: str | Path, connection: "DuckDBPyConnection | None") -> Shelf:
    if not isinstance(path, str | Path) or not str(path):
        raise ArgumentError(f"path is {path!r}; it must be a file of DuckDB or a folder")
    if connection is not None:
        from dbselect.backends.database import DatabaseTable

        return DatabaseTable(connection, str(path))
    own, is_there = Path(path).expanduser(), is_listed(str(path))
    is_database = own.suffix in DATABASES
    if own.suffix.lower() in OTHERS or (is_url(path) and (is_database or not is_there)):
        raise ArgumentError(
            f"path is {str(path)!r}; a store is a file of DuckDB ({', '.join(DATABASES)}) on this "
            "machine, or a Delta table (.delta) or a folder, here or at s3://, gs:// or az://"
        )
    if own.suffix == ".delta" or (not is_there and is_delta(own)):
        from dbselect.backends.delta import DeltaFolder

        return DeltaFolder(str(path) if is_there else own)
    if is_there:
        from dbselect.backends.object_folder import ObjectFolder

        return ObjectFolder(str(path))
    if not is_database:
        return Folder(own)
    from dbselect.backends.database import DatabaseFile

    return DatabaseFile(own)


def _reading(state: Shelved) -> Reading | None:
    """Return how the table of a store was read; None if nothing was."""
    if state.frame is None or state.frame.is_empty():
        return None
    return Reading.from_json(state.frame[READING][0])


def _names(by: str | Sequence[str] | None) -> tuple[str, ...]:
    return (by,) if isinstance(by, str) else _list("by", () if by is None else by)


def _list(what: str, names: Sequence[str]) -> tuple[str, ...]:
    if (
        isinstance(names, str)
        or not isinstance(names, Sequence)
        or not all(isinstance(name, str) for name in names)
    ):
        raise ArgumentError(f"{what} is {names!r}; it must be a list of column names")
    return tuple(names)

"""The store of statistics: a Gram record for each partition of a table, kept up to date."""

from collections.abc import Mapping, Sequence
from copy import copy
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import polars as pl
import pyarrow as pa

from dbselect import _forked
from dbselect.errors import ArgumentError, ColumnError, SourceError, shown
from dbselect.options.kinds import TEXT, one_of, whole
from dbselect.record.foreign import in_memory, is_frame
from dbselect.record.gram import Gram, is_record
from dbselect.record.terms import Terms
from dbselect.sources.engines.lakes import is_delta
from dbselect.sources.objects import is_listed, is_url
from dbselect.sources.request import NullPolicy
from dbselect.sources.types import TableSource
from dbselect.store.cut import Cut
from dbselect.store.fields import PartFields, differences
from dbselect.store.folder import Folder, ObjectFolder
from dbselect.store.merging import fields_of_gram, of_columns
from dbselect.store.parts import labelled
from dbselect.store.reading import (
    FINGERPRINT,
    GRAM,
    PART,
    PUT,
    READING,
    UNREAD,
    Keep,
    NewColumns,
    Reading,
    agreed,
    reading_of,
)  # fmt: skip
from dbselect.store.refresh import Refreshed, of_types, refreshed, write
from dbselect.store.shelf import ALL, Past, Shelf

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: Suffixes of DuckDB files; any other path is a folder.
DATABASES = (".duckdb", ".db", ".ddb")
#: Suffixes of other files, refused as the name of a folder.
OTHERS = (".parquet", ".sqlite", ".sqlite3", ".csv", ".json", ".arrow", ".feather", ".zip")
#: How a refresh handles a file that cannot be read.
OnError = Literal["raise", "skip"]


class GramStore(Cut):
    """Store of a Gram record for each partition of a table; a refresh reads only changed ones.

    The Gram of any window of keys, any cut by them and the whole table is then a sum of records;
    every method runs on it without reading the table.

    Parameters
    ----------
    path : a file of DuckDB (``.duckdb``, ``.db``, ``.ddb``), a Delta table (``.delta``, or a
        folder that is one) or a folder of Parquet files, both also on an object store (``s3://``);
        with `connection` the name of a table: ``"lake.main.stats"``. It is created by the first
        refresh
    connection : a DuckDB connection, with any catalog attached

    Notes
    -----
    A refresh is one transaction: if it is killed, the store is in the state before or after it.
    Of two concurrent refreshes, the second fails, or waits for the first and continues from its
    result. The records are plain data: column ``gram`` of table ``grams`` in the DuckDB file, or of
    the Parquet files.

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
        _forked.check_threads()
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
        keep: Keep | None = None,
        new_columns: NewColumns | None = None,
        max_dropped: int | None = None,
        on_error: OnError = "raise",
    ) -> Refreshed:
        """Read new and changed parts of a table, and drop those that are gone.

        Parameters
        ----------
        source : the whole table, as in `gram`. The parts of a Parquet path, folder or glob are
            its files except those of the store, compared by size, time and footer, or ETag; the
            parts of a Delta or Iceberg table are the files of that version; the parts of any other
            source are the rows with equal keys, compared by number and hash, which reads the
            columns once (for Spark, Dask and Ray on their workers)
        by : the keys, one or more columns or folders ``day=2013-01-01``; windows are ranges of the
            first key. Required at the first refresh
        columns, weight, null_policy, max_levels, terms : as in `gram`. The values of the first
            refresh, or the defaults of `gram`, apply to all later ones; the same values may be
            passed again. Missing values are filled by the mean of each window. Text columns
            have the levels in the rows of a window; levels and bases of `terms` are fixed
        keep : ``"table"``: parts that the table no longer has are dropped; ``"all"``: they are
            retained. Applies to later refreshes until changed
        new_columns : how columns are handled that earlier parts lack. ``"version"``: new parts
            have them, and a window has the columns common to all its parts; ``"ignore"``: they
            are not read; ``"null"``: they are missing in earlier rows, handled by `null_policy`;
            ``"error"``: any change of the columns or their types is refused. Earlier parts are
            not read again. Applies until changed
        max_dropped : most parts that may be dropped; default: not all of several
        on_error : ``"skip"`` skips a file that cannot be read until the next refresh, and lists
            it in `quarantine`

        Returns
        -------
        Refreshed: the parts added, changed and dropped, the number of unchanged ones, and the
        changes of the table's columns and of levels of its text columns

        Raises
        ------
        ArgumentError : `by` is missing at the first refresh, or an option differs from that
            of the first
        SourceError : there is no such table, it is a stream that can be read only once, or all
            stored parts would be dropped, as the table is empty or has only other parts
        BusyError : a part changes while it is read, or another process refreshed the store in
            the meantime; the store is unchanged
        ColumnError, DataError : as `gram_by`; or columns changed with ``new_columns="error"``

        Warns
        -----
        LeftOutWarning, SkippedRowsWarning : as `gram_by`, once for all parts

        Notes
        -----
        A changed part is read in full and its record replaced; nothing is subtracted. Besides
        reading changed parts, a refresh takes one look at each file, or one pass that hashes.
        Records of files are saved beside the store every minute: after a kill the next refresh
        resumes from them.
        """
        one_of(OnError).check("on_error", on_error)
        whole(0).or_none(", or None").check("max_dropped", max_dropped)
        before = self._shelf.read(whole=False)
        options: dict[str, Any] = {
            "by": _names(by), "columns": None if columns is None else _list("columns", columns),
            "weight": weight, "null_policy": null_policy, "max_levels": max_levels, "terms": terms,
            "keep": keep, "new_columns": new_columns,
        }  # fmt: skip
        passed = {name: value for name, value in options.items() if value not in (None, ())}
        requested = Reading(**{"by": ()} | passed)
        stored = reading_of(before)
        if stored is None and not requested.by:
            raise ArgumentError("by is missing; the first refresh needs the key, as by='day'")
        reading = requested if stored is None else agreed(passed, stored)
        skips = on_error == "skip"
        return refreshed(self._shelf, before, source, reading, max_dropped, skips)

    def put(self, records: Any, *, part: str, version: str | int | None = None) -> Refreshed:
        """Add records that were computed elsewhere, in one step.

        Parameters
        ----------
        records : a table with a column for each key and one of Gram records, as `gram_by`
            returns; or one Gram or record, whose key is then `part`. An empty store takes its
            keys from the first table
        part : their name; existing records of this part are replaced
        version : version of their source; if it equals the stored one, nothing is written;
            default: always write

        Returns
        -------
        Refreshed. No refresh drops these records; a part of that name in its table replaces them

        Raises
        ------
        ArgumentError : the keys are not those of the store
        RecordError : a record is malformed
        BusyError : another process wrote to the store in the meantime

        Examples
        --------
        >>> import dbselect as ds
        >>> import polars as pl
        >>> import tempfile
        >>> store = ds.GramStore(tempfile.mkdtemp() + "/stats")
        >>> day = pl.DataFrame({"day": [1, 1], "x": [1.0, 2.0]})
        >>> store.put(ds.gram_by(day, by="day"), part="day 1", version=7)
        1 parts added, 0 changed, 0 dropped, 0 unchanged
        >>> store.total().rows
        2
        """
        TEXT.check("part", part)
        before = self._shelf.read(whole=False)
        stored, reading_before = dict(before.parts[:, :2].iter_rows()), reading_of(before)
        fingerprint = PUT if version is None else f"{PUT}{version}"
        unchanged = len(stored) - (part in stored)
        if version is not None and stored.get(part) == fingerprint:
            return Refreshed([], [], [], unchanged + 1)
        frame = _frame(records, part, before.frame, reading_before)
        reading = reading_before or Reading(tuple(name for name in frame.columns if name != GRAM))
        if {*reading.by} != {*frame.columns} - {GRAM}:
            raise ArgumentError(
                f"records has the keys {frame.drop(GRAM).columns}; those of the store are "
                f"{list(reading.by)}"
            )
        fields = PartFields(reading.new_columns, before.parts)
        grams = [_allowed(Gram.from_struct(record), fields) for record in frame[GRAM].to_arrow()]
        column = pl.Series(GRAM, [gram.to_struct() for gram in grams], frame.schema[GRAM])
        now = {name: kind for gram in grams for name, kind in fields_of_gram(gram).items()}
        new = labelled(frame.with_columns(column), part, fingerprint, reading, now)
        write(
            self._shelf,
            before,
            [part] if part in stored else [],
            of_types([new], before, reading),
            reading,
        )
        changes = fields.changes(now)
        if part in stored:
            return Refreshed([], [part], [], unchanged, schema=changes)
        return Refreshed([part], [], [], unchanged, schema=changes)

    def as_of(self, when: date | str) -> "GramStore":
        """Return the store as it was at a time, to be read only.

        Parameters
        ----------
        when : a datetime, in UTC if it has no zone; or a date, which is its end in UTC; or either
            as ISO text, ``"2024-03-31"``

        Raises
        ------
        ArgumentError : the store keeps no history: a folder of Parquet files and a file of DuckDB
            have their last state only, a Delta table and a table of DuckLake or Iceberg in an
            attached catalog all that have not been expired; or `when` is no time
        SourceError : there was no store yet
        """
        moment = _moment(when)
        past = copy(self)
        past._shelf = Past(self._shelf.read_at(moment), moment)
        return past

    def quarantine(self) -> pl.DataFrame:
        """Return the parts that ``on_error="skip"`` left out: part, error."""
        frame = self._shelf.read(whole=False).frame
        if frame is None:
            return pl.DataFrame(schema={"part": pl.String, "error": pl.String})
        bad = frame.filter(pl.col(FINGERPRINT).str.starts_with(UNREAD))
        return bad.select(PART, pl.col(FINGERPRINT).str.strip_prefix(UNREAD).alias("error"))

    def _now(self, rows: pl.Expr = ALL, *, whole: bool = True) -> tuple[pl.DataFrame, Reading]:
        state = self._shelf.read(rows, whole=whole)
        reading = reading_of(state)
        if state.frame is None or reading is None:
            raise SourceError(f"the store '{self._path}' is empty; refresh it first")
        records = state.frame.drop(READING)
        if not whole:
            return records, reading
        records = records.filter(pl.col(GRAM).is_not_null())
        return records.sort([*reading.by, PART], nulls_last=True), reading


def _shelf(path: str | Path, connection: "DuckDBPyConnection | None") -> Shelf:
    if not isinstance(path, str | Path) or not str(path):
        raise ArgumentError(f"path is {path!r}; it must be a file of DuckDB or a folder")
    if connection is not None:
        from dbselect.store.database import DatabaseTable

        return DatabaseTable(connection, str(path))
    local, is_remote = Path(path).expanduser(), is_listed(str(path))
    is_database = local.suffix in DATABASES
    if local.suffix.lower() in OTHERS or (is_url(path) and (is_database or not is_remote)):
        raise ArgumentError(
            f"path is {str(path)!r}; a store is a file of DuckDB ({', '.join(DATABASES)}) on this "
            "machine, or a Delta table (.delta) or a folder, here or at s3://, gs:// or az://"
        )
    if local.suffix == ".delta" or (not is_remote and is_delta(local)):
        from dbselect.store.delta import DeltaFolder

        return DeltaFolder(str(path) if is_remote else local)
    if is_remote:
        return ObjectFolder(str(path))
    if not is_database:
        return Folder(local)
    from dbselect.store.database import DatabaseFile

    return DatabaseFile(local)


def _moment(when: Any) -> datetime:
    """Return a time in UTC; a day is its end."""
    refused = ArgumentError(
        f"when is {when!r}; it must be a date or a datetime, or one as ISO text"
    )
    if isinstance(when, str):
        is_day = len(when) <= len("2024-03-31")
        try:
            when = (date if is_day else datetime).fromisoformat(when)
        except ValueError:
            raise refused from None
    if not isinstance(when, date):
        raise refused
    moment = when if isinstance(when, datetime) else datetime.combine(when, time.max)
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


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


def _frame(
    records: Any, part: str, state: pl.DataFrame | None, reading: Reading | None
) -> pl.DataFrame:
    """Return the keys and ``gram`` of records that a caller passes."""
    if isinstance(records, Gram | Mapping | pa.Scalar):
        gram = records if isinstance(records, Gram) else Gram.from_struct(records)
        by = ("key",) if reading is None else reading.by
        if len(by) > 1:
            raise ArgumentError(f"records is one Gram; a table with the keys {list(by)} is needed")
        keys = pl.DataFrame({by[0]: [part]}) if state is None else state.select(by)
        type_ = keys.to_arrow(compat_level=pl.CompatLevel.oldest()).schema.types[0]
        try:
            key = pl.Series(by[0], pa.array([part]).cast(type_))
        except pa.ArrowException:
            raise ArgumentError(
                f"part is {part!r}; of one Gram it is its key '{by[0]}', of type {type_}"
            ) from None
        return pl.DataFrame([key]).with_columns(pl.DataFrame({GRAM: gram.to_arrow()})[GRAM])
    if not is_frame(records):
        raise ArgumentError(f"records is {shown(records)}; it must be a table, a Gram or a record")
    frame = in_memory(records)
    grams = [field.name for field in frame.clear().to_arrow().schema if is_record(field.type)]
    if len(grams) != 1 or frame[grams[0]].null_count() or not frame.height:
        raise ArgumentError(
            f"records has the columns {frame.columns}; it needs the keys and one column of Gram "
            "records, of which none is NULL"
        )
    return frame.rename({grams[0]: GRAM})


def _allowed(gram: Gram, fields: PartFields) -> Gram:
    """Return a Gram with the columns that `new_columns` allows."""
    now = fields_of_gram(gram)
    if not fields.union or fields.policy in ("version", "null"):
        return gram
    changes = differences(fields.union, now)
    if changes and fields.policy == "error":
        raise ColumnError(f"the records have other columns: {'; '.join(changes)}; "
                          "new_columns is 'error'")  # fmt: skip
    kept = [name for name, kind in now.items() if fields.union.get(name) == kind]
    return gram if len(kept) == len(now) else of_columns(gram, kept)

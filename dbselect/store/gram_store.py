"""The store of statistics: a Gram record for each partition of a table, kept up to date."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import polars as pl
import pyarrow as pa

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
from dbselect.store.refresh import Refreshed, fields_in, of_types, refreshed, write
from dbselect.store.shelf import Shelf

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: Endings of files of DuckDB; anything else is a folder.
DATABASES = (".duckdb", ".db", ".ddb")
#: Endings of files of other kinds, refused as the name of a folder.
OTHERS = (".parquet", ".sqlite", ".sqlite3", ".csv", ".json", ".arrow", ".feather", ".zip")
#: What a refresh does about a file that cannot be read.
OnError = Literal["raise", "skip"]


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
        keep: Keep | None = None,
        new_columns: NewColumns | None = None,
        max_dropped: int | None = None,
        on_error: OnError = "raise",
    ) -> Refreshed:
        """Read what is new or has changed, and take out what is gone.

        Parameters
        ----------
        source : the whole table, as in `gram`. The parts of a Parquet path, folder or glob are
            its files except those of the store, compared by size, time and footer, or ETag; those
            of a Delta or Iceberg table are the files of that version; those of any other source
            are the rows of equal keys, compared by number and hash, for which the columns are read
            once: those of Spark, Dask and Ray by their workers
        by : one or more columns, of the files or of folders ``day=2013-01-01``: the keys; the
            first is that of windows. Needed at the first refresh
        columns, weight, null_policy, max_levels, terms : as in `gram`. The values
            passed to the first refresh, or the defaults of `gram`, hold for all later ones;
            the same values may be passed again. Means are those of each window.
            Categories of text have the levels that the rows of a window have; what `terms`
            learnt stays as it is
        keep : ``"table"``: parts that the table no longer has are dropped; ``"all"``: they are
            retained. Holds for later refreshes until another is given
        new_columns : what becomes of columns that parts before did not have. ``"version"``: new
            parts have them, and a window has the columns of all its parts; ``"ignore"``: they
            are not read; ``"null"``: rows before have no value in them, as `null_policy` says;
            ``"error"``: any change of the columns or their types is refused. Parts before are
            not read again. Holds until another is given
        max_dropped : most parts that may be dropped; default: not all of several
        on_error : ``"skip"`` leaves a file that cannot be read for the next refresh, and lists
            it in `quarantine`

        Returns
        -------
        Refreshed: the parts added, changed and dropped, how many were not read, and how the
        columns of the table, or levels of its texts, have changed

        Raises
        ------
        ArgumentError : `by` is missing at the first refresh, or an option differs from that
            of the first
        SourceError : there is no such table, it is a stream that can be read only once, or it
            has no rows any more, or other parts only, which would drop all of before
        BusyError : a part changes while it is read, or another process has refreshed
            meanwhile; the store is what it was
        ColumnError, DataError : as `gram_by`; the columns change, and may not

        Warns
        -----
        LeftOutWarning, SkippedRowsWarning : as `gram_by`, once for all parts

        Notes
        -----
        A changed part is read as a whole and its record replaced; nothing is subtracted.
        Time, beside that of the parts read: a look at each file, or one pass that hashes. What
        is read of files is kept beside the store each minute: after a kill the next refresh
        goes on from there.
        """
        one_of(OnError).check("on_error", on_error)
        whole(0).or_none(", or None").check("max_dropped", max_dropped)
        before = self._shelf.read()
        every: dict[str, Any] = {
            "by": _names(by), "columns": None if columns is None else _list("columns", columns),
            "weight": weight, "null_policy": null_policy, "max_levels": max_levels, "terms": terms,
            "keep": keep, "new_columns": new_columns,
        }  # fmt: skip
        said = {name: value for name, value in every.items() if value not in (None, ())}
        given = Reading(**{"by": ()} | said)
        kept = reading_of(before)
        if kept is None and not given.by:
            raise ArgumentError("by is missing; the first refresh needs the key, as by='day'")
        reading = given if kept is None else agreed(said, kept)
        skips = on_error == "skip"
        return refreshed(self._shelf, before, source, reading, max_dropped, skips)

    def put(self, records: Any, *, part: str, version: str | int | None = None) -> Refreshed:
        """Put records in that were computed elsewhere, in one step.

        Parameters
        ----------
        records : a table with a column for each key and one of Gram records, as `gram_by`
            returns; or one Gram or record, whose key is then `part`. A store that is empty
            takes its keys from the first table
        part : their name; records of this part that are there before are replaced
        version : of what they were computed from: where it is that of before, nothing is
            written; default: they are always written

        Returns
        -------
        Refreshed; no refresh drops them, and one whose table has a part of the name replaces them

        Raises
        ------
        ArgumentError : the keys are not those of the store
        RecordError : a record is malformed
        BusyError : another process has written meanwhile

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
        before = self._shelf.read()
        known, kept = before.fingerprints, reading_of(before)
        fingerprint = PUT if version is None else f"{PUT}{version}"
        others = len(known) - (part in known)
        if version is not None and known.get(part) == fingerprint:
            return Refreshed([], [], [], others + 1)
        frame = _frame(records, part, before.frame, kept)
        reading = kept or Reading(tuple(name for name in frame.columns if name != GRAM))
        if {*reading.by} != {*frame.columns} - {GRAM}:
            raise ArgumentError(
                f"records has the keys {frame.drop(GRAM).columns}; those of the store are "
                f"{list(reading.by)}"
            )
        fields = PartFields(reading.new_columns, fields_in(before))
        grams = [_allowed(Gram.from_struct(each), fields) for each in frame[GRAM].to_arrow()]
        column = pl.Series(GRAM, [gram.to_struct() for gram in grams], frame.schema[GRAM])
        now = {name: kind for gram in grams for name, kind in fields_of_gram(gram).items()}
        new = labelled(frame.with_columns(column), part, fingerprint, reading, now)
        write(
            self._shelf,
            before,
            [part] if part in known else [],
            of_types([new], before, reading),
            reading,
        )
        changes = fields.changes(now)
        if part in known:
            return Refreshed([], [part], [], others, schema=changes)
        return Refreshed([part], [], [], others, schema=changes)

    def quarantine(self) -> pl.DataFrame:
        """Return the parts that ``on_error="skip"`` left out: part, error."""
        frame = self._shelf.read().frame
        if frame is None:
            return pl.DataFrame(schema={"part": pl.String, "error": pl.String})
        bad = frame.filter(pl.col(FINGERPRINT).str.starts_with(UNREAD))
        return bad.select(PART, pl.col(FINGERPRINT).str.strip_prefix(UNREAD).alias("error"))

    def _now(self) -> tuple[pl.DataFrame, Reading]:
        state = self._shelf.read()
        reading = reading_of(state)
        if state.frame is None or reading is None:
            raise SourceError(f"the store '{self._path}' is empty; refresh it first")
        found = state.frame.filter(pl.col(GRAM).is_not_null()).drop(READING)
        return found.sort([*reading.by, PART], nulls_last=True), reading


def _shelf(path: str | Path, connection: "DuckDBPyConnection | None") -> Shelf:
    if not isinstance(path, str | Path) or not str(path):
        raise ArgumentError(f"path is {path!r}; it must be a file of DuckDB or a folder")
    if connection is not None:
        from dbselect.store.database import DatabaseTable

        return DatabaseTable(connection, str(path))
    own, is_there = Path(path).expanduser(), is_listed(str(path))
    is_database = own.suffix in DATABASES
    if own.suffix.lower() in OTHERS or (is_url(path) and (is_database or not is_there)):
        raise ArgumentError(
            f"path is {str(path)!r}; a store is a file of DuckDB ({', '.join(DATABASES)}) on this "
            "machine, or a Delta table (.delta) or a folder, here or at s3://, gs:// or az://"
        )
    if own.suffix == ".delta" or (not is_there and is_delta(own)):
        from dbselect.store.delta import DeltaFolder

        return DeltaFolder(str(path) if is_there else own)
    if is_there:
        return ObjectFolder(str(path))
    if not is_database:
        return Folder(own)
    from dbselect.store.database import DatabaseFile

    return DatabaseFile(own)


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
    records: Any, part: str, state: pl.DataFrame | None, kept: Reading | None
) -> pl.DataFrame:
    """Return keys and ``gram`` of what a caller gives."""
    if isinstance(records, Gram | Mapping | pa.Scalar):
        gram = records if isinstance(records, Gram) else Gram.from_struct(records)
        by = ("key",) if kept is None else kept.by
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
    """Return a Gram with the columns that a store takes."""
    now = fields_of_gram(gram)
    if not fields.every or fields.policy in ("version", "null"):
        return gram
    changes = differences(fields.every, now)
    if changes and fields.policy == "error":
        raise ColumnError(f"the records have other columns: {'; '.join(changes)}; "
                          "new_columns is 'error'")  # fmt: skip
    kept = [name for name, kind in now.items() if fields.every.get(name) == kind]
    return gram if len(kept) == len(now) else of_columns(gram, kept)

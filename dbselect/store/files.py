"""Parts of a table that are files, with size and time, or ETag, as fingerprints.

Keys may be columns or folders ``day=2013-01-01``. Names are relative, so the source may move.
"""

import os
import warnings
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from copy import copy
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self
from urllib.parse import unquote, urlparse

import polars as pl
import pyarrow as pa

from dbselect._arrow import empty_table
from dbselect.errors import DbselectError, SourceError
from dbselect.record.files import absolute
from dbselect.record.foreign import is_of
from dbselect.record.gram import Gram
from dbselect.sources.engines import polars
from dbselect.sources.engines.formats import PARQUET
from dbselect.sources.engines.lakes import check_mapping
from dbselect.sources.objects import fetch, is_installed, is_url, version_at
from dbselect.sources.open import open_table
from dbselect.sources.paths import FileListing, files_at, partition_of
from dbselect.store.fields import Fields, PartFields, kinds_of_fields, leaves_read, without_gone
from dbselect.store.merging import trimmed
from dbselect.store.parts import Unread, labelled, read_part
from dbselect.store.reading import FINGERPRINT, GRAM, PART, Reading

#: Name of the folder for NULL, in Hive.
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
#: Bytes at the end of a file that hold most footers.
FOOTER = 16 * 1024
#: Most bytes of a file to be batched; most bytes of a batch, and values of its records.
SMALL, TOGETHER = 2**20, 2**24
#: Column with the file of each row.
FILE = "__dbselect_file"
#: Kind of a field in other files -> type of its columns in a file where all values are NULL.
NULL_TYPES = {
    "number": pl.Float64(), "text": pl.String(), "days": pl.Date(), "seconds": pl.Datetime(),
}  # fmt: skip
#: Errors of a file that cannot be read.
FAILURES = (DbselectError, *polars.FAILURES)


class Files(ABC):
    """The files of a table."""

    shown: str  # the table, for errors
    _current: Mapping[str, str]  # result of `versions`

    @property
    def root(self) -> str | None:
        """Local folder below which files can be scanned together, if any."""
        return None

    @abstractmethod
    def versions(self) -> dict[str, str]:
        """Return file -> version, which changes with its bytes; looks again."""

    def version(self, name: str) -> str | None:
        """Return the version of one file now; None if it is gone. Files of a log do not change."""
        return self._current.get(name)

    @abstractmethod
    def rows(self, name: str, *others: str) -> Any:
        """Return the rows of a file, or of several with the same columns below the root."""

    def near(self, _: Collection[str]) -> AbstractContextManager["Files"]:
        """Copy files of an object store to this machine while they are read."""
        return nullcontext(self)


class ScannedFiles(Files):
    """Parquet files below a folder or a URL, scanned by Polars."""

    _folder: str
    _types: Mapping[str, pl.DataType]
    _near: str | None = None  # folder with local copies

    @property
    def root(self) -> str | None:
        """Local folder below which files can be scanned together."""
        return self._near if is_url(self._folder) else self._folder

    def rows(self, name: str, *others: str) -> pl.LazyFrame:
        """Return the rows with keys from folder names; for several files also `FILE`."""
        path, paths = self._path(name), [self._path(file) for file in (name, *others)]
        hive = {key: self._types[key] for key in partition_of(name)}
        full = path if is_url(path) else absolute(path).as_posix()
        above = partition_of(full).keys() - hive
        frame = pl.scan_parquet(
            paths, glob=False, low_memory=True, hive_partitioning=bool(hive),
            hive_schema=hive or None, include_file_paths=FILE if others else None,
        )  # fmt: skip
        plain = pl.scan_parquet(path, glob=False, hive_partitioning=False)
        in_file = plain.collect_schema() if above else ()
        return frame.drop(above.difference(in_file), strict=False)

    @contextmanager
    def near(self, names: Collection[str]) -> Iterator[Self]:
        """Copy files of an object store while they are read: each request takes long."""
        if not (is_url(self._folder) and is_installed()):
            yield self
            return
        with TemporaryDirectory(prefix="dbselect-") as folder:
            fetch(self._folder, names, folder)
            copied = copy(self)
            copied._near = folder
            yield copied

    def _path(self, name: str) -> str:
        if self.root is not None and (self._near is None or Path(self._near, name).exists()):
            return str(Path(self.root, name))
        return f"{self._folder}/{name}"


class ListedFiles(ScannedFiles):
    """The files of a path, a folder or a glob, without those of the store."""

    def __init__(self, path: str | Path, folder: Path | None, listing: FileListing) -> None:
        self.shown = str(path)
        self._store_folder = folder
        self._listing = listing
        self._folder = listing.root

    def versions(self) -> dict[str, str]:
        """Return size and time of each file, or size and ETag."""
        self._listing = files_at(self.shown, self._store_folder)
        self._types = _types_of(self._listing.names)
        listed = self._listing.versions
        versions = ((name, listed.get(name) or self.version(name)) for name in self._listing.names)
        return {name: version for name, version in versions if version is not None}

    def version(self, name: str) -> str | None:
        """Return the version of one file now; None if it is gone."""
        return version_of(self._listing.address(name))


def _types_of(names: Collection[str]) -> dict[str, pl.DataType]:
    """Return the type of each key over all files; Polars infers it for each file separately."""
    texts_by_key: dict[str, list[str]] = {}
    for name in names:
        for key, value in partition_of(name).items():
            texts_by_key.setdefault(key, []).extend([] if value == NO_VALUE else [value])
    types: dict[str, pl.DataType] = {}
    for key, texts in texts_by_key.items():
        values = pl.Series(texts, dtype=pl.String)
        if values.cast(pl.Int64, strict=False).null_count() == 0:
            types[key] = pl.Int64()
        else:
            dates = values.str.to_date("%Y-%m-%d", strict=False)
            types[key] = pl.String() if dates.null_count() else pl.Date()
    return types


def files_of(source: Any, folder: Path | None = None) -> Files | None:
    """Return the Parquet files of a source; None for another source."""
    table = files_at(source, folder) if isinstance(source, str | Path) else source
    if isinstance(table, FileListing):
        if not table.root:
            raise SourceError(
                f"'{source}' is not a local path and on no object store, so its files have no "
                "versions to compare; give pl.scan_parquet of it, whose rows are hashed instead"
            )
        return ListedFiles(source, folder, table) if table.format is PARQUET else None
    if is_of(table, "deltalake"):
        return DeltaFiles(table)
    if is_of(table, "pyiceberg"):
        return IcebergFiles(table)
    return None


class FileParts:
    """A table whose parts are files."""

    looked_at = True

    def __init__(self, files: Files, reading: Reading, fields: PartFields) -> None:
        self._files = files
        self._reading = reading
        self._fields = fields
        self._versions: dict[str, str] = {}
        self.shown = f"'{files.shown}'"

    def fingerprints(self) -> pl.DataFrame:
        """Return files and their fingerprints: size, time and footer, or ETag."""
        self._versions = self._files.versions()
        columns = {PART: [*self._versions], FINGERPRINT: [*self._versions.values()]}
        return pl.DataFrame(columns, dict.fromkeys(columns, pl.String))

    def changes(self) -> list[str]:
        """Return nothing, as every file may have different columns."""
        return []

    def is_same(self, _: str, before: str | None, now: str) -> bool:
        """Whether a file is unchanged."""
        return before == now

    def records(self, parts: Collection[str]) -> Iterator[pl.DataFrame | Unread]:
        """Yield the records of each file; small files are read in batches."""
        for run in self._runs(parts):
            with self._files.near([part for part in run if self._size(part) <= SMALL]) as files:
                yield from self._read(files, run)

    def _runs(self, parts: Collection[str]) -> Iterator[list[str]]:
        """Yield runs of files; on an object store, one ends at `TOGETHER` bytes of small files."""
        run: list[str] = []
        size = 0
        for part in parts:
            run.append(part)
            size += self._size(part) if self._size(part) <= SMALL else 0
            if size >= TOGETHER and self._files.root is None:
                yield run
                run, size = [], 0
        yield run

    def _size(self, part: str) -> int:
        return int(self._versions[part].split()[0])

    def _read(self, files: Files, parts: Collection[str]) -> Iterator[pl.DataFrame | Unread]:
        for batch in self._batches(files, parts):
            records = self._together(files, batch) if len(batch) > 1 else None
            if records is not None:
                yield records
                continue
            for part in batch:
                try:
                    yield self._records(files, part)
                except FAILURES as error:
                    # A file that changed while it was read is not an error: it is read again.
                    if self._files.version(part) == self._versions[part]:
                        kind = type(error) if isinstance(error, DbselectError) else SourceError
                        failure = kind(f"in the file '{part}' of {self.shown}: {error}")
                        failure.__cause__ = error
                        yield Unread(part, failure)

    def _batches(self, files: Files, parts: Collection[str]) -> Iterator[list[str]]:
        """Yield batches to read together: small files with the same columns and keys."""
        batches: dict[Any, list[str]] = {}
        sizes = Counter[Any]()
        for part in parts:
            size = self._size(part)
            schema = None
            if size <= SMALL and files.root is not None:
                with suppress(*FAILURES):
                    schema = files.rows(part).collect_schema()
            if schema is None:
                yield [part]
                continue
            fields_before = self._fields.by_part.get(part)
            kind = (*schema.items(), None if fields_before is None else tuple(fields_before))
            batches.setdefault(kind, []).append(part)
            sizes[kind] += size
            if sizes[kind] >= TOGETHER or len(batches[kind]) * len(kind) ** 2 >= TOGETHER:
                yield batches.pop(kind)
                sizes.pop(kind)
        yield from batches.values()

    def _together(self, files: Files, parts: list[str]) -> pl.DataFrame | None:
        """Return the records of files read together; None if they must be read one by one."""
        try:
            table, fields, texts, reading = self._table(parts[0], files.rows(*parts))
            # Collected, as a scan passes on each file separately.
            rows = table.frame.collect()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                records = read_part(rows, replace(reading, by=(FILE, *reading.by)))
        except FAILURES:
            return None
        grams = [Gram.from_struct(record) for record in records[GRAM]] if texts else []
        if any(not texts <= {c.column for c in gram.terms.categories} for gram in grams):
            # A text column has too many levels in all files together, maybe not in each.
            return None
        for warning in caught:
            warnings.warn(warning.message, warning.category, stacklevel=1)
        if texts:
            structs = [trimmed(gram, reading).to_struct() for gram in grams]
            records = records.with_columns(pl.Series(GRAM, structs, records.schema[GRAM]))
        # A file without rows is also a part.
        at = {str(Path(files.root or "", part)): part for part in parts}
        if not {*records[FILE]} <= at.keys():
            return None
        names = [at[path] for path in records[FILE]]
        with_rows = {*names}
        empty = [part for part in parts if part not in with_rows]
        names += empty
        records = pl.concat([records.drop(FILE), records.drop(FILE).clear(len(empty))])
        versions = pl.Series([self._versions[name] for name in names], dtype=pl.String)
        part = pl.Series(names, dtype=pl.String)
        return labelled(records, part, versions, self._reading, fields)

    def _records(self, files: Files, part: str) -> pl.DataFrame:
        table, fields, _, reading = self._table(part, files.rows(part))
        records = read_part(table, reading)
        records = records if records.height else records.clear(1)
        return labelled(records, part, self._versions[part], self._reading, fields)

    def _table(self, part: str, rows: Any) -> tuple[Any, Fields, set[str], Reading]:
        """Open the rows of files; also return fields and texts to read, and how."""
        rows = self._with_types(rows)
        table = open_table(rows, None)
        apart = pa.schema([field for field in table.schema if field.name != FILE])
        reading = self._reading_of(apart)
        leaves = leaves_read(apart, reading)
        now = kinds_of_fields(leaves)
        fields = self._fields.read(part, now)
        if fields != now:
            table = open_table(rows.select(without_gone(table.schema, now, fields).names), None)
        texts = {leaf.name for leaf in leaves if leaf.is_text and leaf.field in fields}
        texts = texts if self._reading.terms is None else set()
        return table, fields, texts, reading

    def _reading_of(self, schema: pa.Schema) -> Reading:
        """Return the reading without columns that this file lacks and another one has."""
        lacking = [
            name
            for name in self._reading.columns or ()
            if name not in schema.names and name in self._names_of_others
        ]
        if not lacking:
            return self._reading
        columns = [name for name in self._reading.columns or () if name not in lacking]
        return replace(self._reading, columns=tuple(columns))

    @cached_property
    def _names_of_others(self) -> set[str]:
        """The fields of all files, which are looked up where one lacks a column that is named."""
        names: set[str] = set()
        for part in self._versions:
            with suppress(*FAILURES):
                rows = self._files.rows(part)
                names.update(open_table(rows, None).schema.names)
        return names

    def _with_types(self, rows: Any) -> Any:
        """Cast columns of type NULL to their type in other parts; to numbers if there is none."""
        if not isinstance(rows, pl.LazyFrame):
            return rows
        empty = [name for name, dtype in rows.collect_schema().items() if dtype == pl.Null]
        kinds = {name: self._fields.union.get(name, "number") for name in empty}
        return rows.with_columns(
            pl.col(name).cast(NULL_TYPES[kind])
            for name, kind in kinds.items()
            if kind in NULL_TYPES and name not in self._reading.by
        )


def version_of(path: str) -> str | None:
    """Return size, time and footer hash of a file, or its ETag; None if it is gone."""
    if is_url(path):
        return version_at(path)
    try:
        with Path(path).open("rb", buffering=0) as file:
            status = os.fstat(file.fileno())
            file.seek(max(status.st_size - FOOTER, 0))
            end = file.read(FOOTER)
            size = int.from_bytes(end[-8:-4], "little") + 8
            if len(end) < size <= status.st_size:
                file.seek(status.st_size - size)
                end = file.read(size)
    except FileNotFoundError:
        return None
    return f"{status.st_size} bytes at {status.st_mtime_ns}, {zlib.crc32(end[-size:]):08x}"


class DeltaFiles(ScannedFiles):
    """The files of a Delta table at its version, without deletion vectors."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self.shown = str(table.table_uri)
        check_mapping(table)
        try:
            schema = table.to_pyarrow_dataset().schema
            self._types = dict(pl.DataFrame(empty_table(schema)).schema)
        except Exception as error:  # deltalake raises many types
            raise SourceError(
                f"the files of the Delta table '{self.shown}' are not its rows: {error}; give "
                "pl.scan_delta of it, whose rows are then hashed"
            ) from error
        # Folder names are percent-encoded only in a URL.
        is_file = self.shown.startswith("file:")
        self._folder = unquote(urlparse(self.shown).path) if is_file else self.shown
        self._folder = self._folder.rstrip("/")

    def versions(self) -> dict[str, str]:
        """Return file -> size and time; files of a version are never overwritten."""
        actions = pl.DataFrame(self._table.get_add_actions(flatten=True)).sort("path")
        files = actions.select("path", "size_bytes", "modification_time").iter_rows()
        self._current = {unquote(path): f"{size} bytes at {time}" for path, size, time in files}
        return self._current


class IcebergFiles(Files):
    """The files of an Iceberg table at the snapshot at which it was opened."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self._scan = table.scan()
        self.shown = str(table.location())
        self._tasks: dict[str, Any] = {}

    def versions(self) -> dict[str, str]:
        """Return file -> size and delete files; data files are never overwritten."""
        tasks = {task.file.file_path: task for task in self._scan.plan_files()}
        start = f"{self.shown}/"
        self._tasks = {path.removeprefix(start): task for path, task in tasks.items()}
        self._current = {name: _version(task) for name, task in self._tasks.items()}
        return self._current

    def rows(self, name: str, *others: str) -> Any:
        """Return the rows of a file, with the columns of the snapshot."""
        from pyiceberg.io.pyarrow import ArrowScan

        scan = self._scan
        read = ArrowScan(
            self._table.metadata, self._table.io, scan.projection(), scan.row_filter,
            scan.case_sensitive,
        )  # fmt: skip
        return read.to_table([self._tasks[name]])


def _version(task: Any) -> str:
    deleted = sorted(file.file_path for file in task.delete_files)
    return ", ".join([f"{task.file.file_size_in_bytes} bytes", *deleted])

"""The parts of a table of files, each with size and time, or ETag, as fingerprint.

Keys may be columns or folders ``day=2013-01-01``. Names are below the source, so it may move.
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
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self
from urllib.parse import unquote, urlparse

import polars as pl
import pyarrow as pa

from dbselect._arrow import empty_table
from dbselect.errors import DbselectError, SourceError
from dbselect.record.foreign import is_of
from dbselect.record.gram import Gram
from dbselect.sources.engines import polars
from dbselect.sources.engines.formats import PARQUET
from dbselect.sources.objects import fetch, is_installed, is_url, version_at
from dbselect.sources.open import open_table
from dbselect.sources.paths import FileListing, files_at, partition_of
from dbselect.store.fields import Fields, PartFields, kinds_of_fields, leaves_read, without_gone
from dbselect.store.merging import trimmed
from dbselect.store.parts import Unread, labelled, read_part
from dbselect.store.reading import GRAM, Reading

#: The folder of rows without a value, in Hive.
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
#: Bytes at the end of a file that hold most footers.
FOOTER = 16 * 1024
#: Bytes of a file that is read with others; most bytes of these, and entries of their records.
SMALL, TOGETHER = 2**20, 2**24
#: Column of the part that a row is of.
FILE = "__dbselect_file"
#: Types of columns that have no value in a file, by what they are in others.
NULL_TYPES = {
    "number": pl.Float64(), "text": pl.String(), "days": pl.Date(), "seconds": pl.Datetime(),
}  # fmt: skip
#: How a file cannot be read.
FAILURES = (DbselectError, *polars.FAILURES)


class Files(ABC):
    """The files of a table."""

    shown: str  # the table, for errors
    _there: Mapping[str, str]  # what `versions` has found

    @property
    def root(self) -> str | None:
        """Folder on this machine below which files can be scanned together, if there is one."""
        return None

    @abstractmethod
    def versions(self) -> dict[str, str]:
        """Look again, and return by name what changes with the bytes of each file."""

    def version(self, name: str) -> str | None:
        """Look at one file again; None if it is gone. Those of a log stay what they are."""
        return self._there.get(name)

    @abstractmethod
    def rows(self, name: str, *others: str) -> Any:
        """Return the rows of a file, or of files below the root that are like it."""

    def near(self, _: Collection[str]) -> AbstractContextManager["Files"]:
        """Have files of an object store here while they are read."""
        return nullcontext(self)


class ScannedFiles(Files):
    """Parquet files below a folder, or below an address, which Polars scans."""

    _folder: str
    _types: Mapping[str, pl.DataType]
    _near: str | None = None  # folder with copies of some

    @property
    def root(self) -> str | None:
        """The folder on this machine below which files can be scanned together."""
        return self._near if is_url(self._folder) else self._folder

    def rows(self, name: str, *others: str) -> pl.LazyFrame:
        """Return the rows, with the keys of the folders; of several files, each row's `FILE`."""
        path, paths = self._path(name), [self._path(each) for each in (name, *others)]
        hive = {key: self._types[key] for key in partition_of(name)}
        full = path if is_url(path) else Path(path).absolute().as_posix()
        above = partition_of(full).keys() - hive
        frame = pl.scan_parquet(
            paths, glob=False, low_memory=True, hive_partitioning=bool(hive),
            hive_schema=hive or None, include_file_paths=FILE if others else None,
        )  # fmt: skip
        plain = pl.scan_parquet(path, glob=False, hive_partitioning=False)
        own = plain.collect_schema() if above else ()
        return frame.drop(above.difference(own), strict=False)

    @contextmanager
    def near(self, names: Collection[str]) -> Iterator[Self]:
        """Have files of an object store here while they are read: an answer of it takes long."""
        if not (is_url(self._folder) and is_installed()):
            yield self
            return
        with TemporaryDirectory(prefix="dbselect-") as folder:
            fetch(self._folder, names, folder)
            found = copy(self)
            found._near = folder
            yield found

    def _path(self, name: str) -> str:
        if self.root is not None and (self._near is None or Path(self._near, name).exists()):
            return str(Path(self.root, name))
        return f"{self._folder}/{name}"


class ListedFiles(ScannedFiles):
    """The files that a path, a folder or a glob means, without those of the store itself."""

    def __init__(self, path: str | Path, own: Path | None, listing: FileListing) -> None:
        self.shown = str(path)
        self._own = own
        self._listing = listing
        self._folder = listing.root

    def versions(self) -> dict[str, str]:
        """Return size and time of each file, or size and ETag."""
        self._listing = files_at(self.shown, self._own)
        self._types = _types_of(self._listing.names)
        there = self._listing.versions
        looked = ((name, there.get(name) or self.version(name)) for name in self._listing.names)
        return {name: version for name, version in looked if version is not None}

    def version(self, name: str) -> str | None:
        """Look at one file again; None if it is gone."""
        return version_of(self._listing.address(name))


def _types_of(names: Collection[str]) -> dict[str, pl.DataType]:
    """Return the type of all values of each key; Polars would take each file by itself."""
    said: dict[str, list[str]] = {}
    for name in names:
        for key, value in partition_of(name).items():
            said.setdefault(key, []).extend([] if value == NO_VALUE else [value])
    found: dict[str, pl.DataType] = {}
    for key, texts in said.items():
        values = pl.Series(texts, dtype=pl.String)
        if values.cast(pl.Int64, strict=False).null_count() == 0:
            found[key] = pl.Int64()
        else:
            dates = values.str.to_date("%Y-%m-%d", strict=False)
            found[key] = pl.String() if dates.null_count() else pl.Date()
    return found


def files_of(source: Any, own: Path | None = None) -> Files | None:
    """Return the files of Parquet that a source means, None if it is something else."""
    table = files_at(source, own) if isinstance(source, str | Path) else source
    if isinstance(table, FileListing):
        if not table.root:
            raise SourceError(
                f"'{source}' is not a local path and on no object store, so its files have no "
                "versions to compare; give pl.scan_parquet of it, whose rows are hashed instead"
            )
        return ListedFiles(source, own, table) if table.format is PARQUET else None
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
        self._told: dict[str, str] = {}
        self.shown = f"'{files.shown}'"

    def fingerprints(self) -> dict[str, str]:
        """Return what changes with the bytes of each file: size, time and footer, or ETag."""
        self._told = self._files.versions()
        return self._told

    def changes(self) -> list[str]:
        """Return nothing: each file has columns of its own."""
        return []

    def is_same(self, _: str, before: str | None, now: str) -> bool:
        """Whether a file is as it was."""
        return before == now

    def records(self, parts: Collection[str]) -> Iterator[pl.DataFrame | Unread]:
        """Yield the records of each file that stays; small ones are read many at once."""
        for run in self._runs(parts):
            with self._files.near([part for part in run if self._size(part) <= SMALL]) as files:
                yield from self._read(files, run)

    def _runs(self, parts: Collection[str]) -> Iterator[list[str]]:
        """Yield files that are read at once; of an object store small ones up to some bytes."""
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
        return int(self._told[part].split()[0])

    def _read(self, files: Files, parts: Collection[str]) -> Iterator[pl.DataFrame | Unread]:
        for batch in self._batches(files, parts):
            found = self._together(files, batch) if len(batch) > 1 else None
            if found is not None:
                yield found
                continue
            for part in batch:
                try:
                    yield self._records(files, part)
                except FAILURES as error:
                    # Half a file is no table, but that it changes is what counts.
                    if self._files.version(part) == self._told[part]:
                        kind = type(error) if isinstance(error, DbselectError) else SourceError
                        failure = kind(f"in the file '{part}' of {self.shown}: {error}")
                        failure.__cause__ = error
                        yield Unread(part, failure)

    def _batches(self, files: Files, parts: Collection[str]) -> Iterator[list[str]]:
        """Yield files that can be read at once: small ones of the same columns and keys."""
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
            known = self._fields.known.get(part)
            kind = (*schema.items(), None if known is None else tuple(known))
            batches.setdefault(kind, []).append(part)
            sizes[kind] += size
            if sizes[kind] >= TOGETHER or len(batches[kind]) * len(kind) ** 2 >= TOGETHER:
                yield batches.pop(kind)
                sizes.pop(kind)
        yield from batches.values()

    def _together(self, files: Files, parts: list[str]) -> pl.DataFrame | None:
        """Return the records of some files, None where each has to be read by itself."""
        try:
            table, fields, texts = self._table(parts[0], files.rows(*parts))
            # A scan would hand on each file by itself.
            rows = table.frame.collect()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                found = read_part(rows, replace(self._reading, by=(FILE, *self._reading.by)))
        except FAILURES:
            return None
        grams = [Gram.from_struct(each) for each in found[GRAM]] if texts else []
        if any(not texts <= {each.column for each in gram.terms.categories} for gram in grams):
            # A text has too many levels in all, which it may not have in each.
            return None
        for each in caught:
            warnings.warn(each.message, each.category, stacklevel=1)
        if texts:
            own = [trimmed(gram, self._reading).to_struct() for gram in grams]
            found = found.with_columns(pl.Series(GRAM, own, found.schema[GRAM]))
        # A file without rows is a part, too.
        at = {str(Path(files.root or "", part)): part for part in parts}
        if not {*found[FILE]} <= at.keys():
            return None
        names = [at[path] for path in found[FILE]]
        known = {*names}
        empty = [part for part in parts if part not in known]
        names += empty
        found = pl.concat([found.drop(FILE), found.drop(FILE).clear(len(empty))])
        told = pl.Series([self._told[name] for name in names], dtype=pl.String)
        part = pl.Series(names, dtype=pl.String)
        return labelled(found, part, told, self._reading, fields)

    def _records(self, files: Files, part: str) -> pl.DataFrame:
        table, fields, _ = self._table(part, files.rows(part))
        found = read_part(table, self._reading)
        found = found if found.height else found.clear(1)
        return labelled(found, part, self._told[part], self._reading, fields)

    def _table(self, part: str, rows: Any) -> tuple[Any, Fields, set[str]]:
        """Open rows of files like one part; also return the fields to read, and those of text."""
        rows = self._with_types(rows)
        table = open_table(rows, None)
        apart = pa.schema([each for each in table.schema if each.name != FILE])
        leaves = leaves_read(apart, self._reading)
        now = kinds_of_fields(leaves)
        fields = self._fields.read(part, now)
        if fields != now:
            table = open_table(rows.select(without_gone(table.schema, now, fields).names), None)
        learnt = self._reading.terms is None
        texts = {leaf.name for leaf in leaves if learnt and leaf.is_text and leaf.field in fields}
        return table, fields, texts

    def _with_types(self, rows: Any) -> Any:
        """Return rows whose columns without any value have the type of other parts, or numbers."""
        if not isinstance(rows, pl.LazyFrame):
            return rows
        empty = [name for name, dtype in rows.collect_schema().items() if dtype == pl.Null]
        kinds = {name: self._fields.every.get(name, "number") for name in empty}
        return rows.with_columns(
            pl.col(name).cast(NULL_TYPES[kind])
            for name, kind in kinds.items()
            if kind in NULL_TYPES and name not in self._reading.by
        )


def version_of(path: str) -> str | None:
    """Return size, time and hash of the footer of a file, or ETag; None if it is gone."""
    if is_url(path):
        return version_at(path)
    try:
        with Path(path).open("rb", buffering=0) as file:
            told = os.fstat(file.fileno())
            file.seek(max(told.st_size - FOOTER, 0))
            end = file.read(FOOTER)
            size = int.from_bytes(end[-8:-4], "little") + 8
            if len(end) < size <= told.st_size:
                file.seek(told.st_size - size)
                end = file.read(size)
    except FileNotFoundError:
        return None
    return f"{told.st_size} bytes at {told.st_mtime_ns}, {zlib.crc32(end[-size:]):08x}"


class DeltaFiles(ScannedFiles):
    """The files of a Delta table at its version, which must have no deletion vectors."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self.shown = str(table.table_uri)
        try:
            schema = table.to_pyarrow_dataset().schema
            self._types = dict(pl.DataFrame(empty_table(schema)).schema)
        except Exception as error:  # deltalake has many kinds
            raise SourceError(
                f"the files of the Delta table '{self.shown}' are not its rows: {error}; give "
                "pl.scan_delta of it, whose rows are then hashed"
            ) from error
        # Names of folders are encoded in an address only.
        is_file = self.shown.startswith("file:")
        self._folder = unquote(urlparse(self.shown).path) if is_file else self.shown
        self._folder = self._folder.rstrip("/")

    def versions(self) -> dict[str, str]:
        """Return size and time of the files of the version, which are never written over."""
        told = pl.DataFrame(self._table.get_add_actions(flatten=True)).sort("path")
        files = told.select("path", "size_bytes", "modification_time").iter_rows()
        self._there = {unquote(path): f"{size} bytes at {time}" for path, size, time in files}
        return self._there


class IcebergFiles(Files):
    """The files of an Iceberg table at the snapshot that it was opened at."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self._scan = table.scan()
        self.shown = str(table.location())
        self._tasks: dict[str, Any] = {}

    def versions(self) -> dict[str, str]:
        """Return the size of each file, which is never written over, and what is deleted of it."""
        tasks = {task.file.file_path: task for task in self._scan.plan_files()}
        start = f"{self.shown}/"
        self._tasks = {path.removeprefix(start): task for path, task in tasks.items()}
        self._there = {name: _version(task) for name, task in self._tasks.items()}
        return self._there

    def rows(self, name: str, *others: str) -> Any:
        """Return the rows of a file, with the columns that the table has by then."""
        from pyiceberg.io.pyarrow import ArrowScan

        scan = self._scan
        read = ArrowScan(
            self._table.metadata, self._table.io, scan.projection(), scan.row_filter,
            scan.case_sensitive,
        )  # fmt: skip
        return read.to_table([self._tasks[name]])


def _version(task: Any) -> str:
    deleted = sorted(each.file_path for each in task.delete_files)
    return ", ".join([f"{task.file.file_size_in_bytes} bytes", *deleted])

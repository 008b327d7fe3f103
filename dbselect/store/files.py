"""The parts of a table of files: each file is one, with size, time and footer as fingerprint.

Keys may be columns of the files or names of folders, ``day=2013-01-01``; a file may have rows
of many keys. Files have the names that they have below the folder of the source, so that a
folder may move.
"""

import glob
import os
import warnings
import zlib
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

import polars as pl
import pyarrow as pa

from dbselect.errors import DbselectError, SourceError
from dbselect.record.foreign import is_of
from dbselect.record.gram import Gram
from dbselect.sources.engines import polars
from dbselect.sources.engines.delta import delta_table, is_delta, refuse_files_of_delta
from dbselect.sources.engines.formats import PARQUET, format_of
from dbselect.store.fields import Fields, PartFields, kinds_of_fields, leaves_read, without
from dbselect.store.merging import trimmed
from dbselect.store.parts import Unread, labelled, read_part
from dbselect.store.reading import GRAM, Reading

#: The folder of rows without a value, in Hive.
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
#: Bytes at the end of a file that hold most footers.
FOOTER = 16 * 1024
#: Bytes of a file that is read with others; most bytes of these, and entries of their records.
SMALL, TOGETHER = 2**20, 2**24
#: Column of the path that a row is of.
FILE = "__dbselect_file"
#: How a file cannot be read.
FAILURES = (DbselectError, *polars.FAILURES)


class Files(Protocol):
    """The files of a table."""

    @property
    def shown(self) -> str:
        """The table, for errors."""

    def paths(self) -> dict[str, Path]:
        """Return the files there are now, by name."""

    def types(self, names: Collection[str]) -> dict[str, pl.DataType]:
        """Return the types of the keys in folder names."""


@dataclass(frozen=True)
class LocalFiles:
    """Which files a path means.

    Parameters
    ----------
    root : the folder below which files have their names
    pattern : glob below the root
    shown : the path as it was given
    own : folder of the store, whose files are left out
    """

    root: Path
    pattern: str
    shown: str
    own: Path | None = None

    def paths(self) -> dict[str, Path]:
        """Return the files there are, by name, without hidden ones.

        Raises
        ------
        SourceError : there is none
        """
        names = glob.glob(self.pattern, root_dir=self.root, recursive=True)
        visible = (name for name in names if not Path(name).name.startswith((".", "_")))
        found = {Path(name).as_posix(): self.root / name for name in sorted(visible)}
        root = self.root.resolve()
        own = None if self.own is None else self.own.resolve()
        if own is not None and own.is_relative_to(root):
            inside = own.relative_to(root).parts
            found = {n: path for n, path in found.items() if Path(n).parts[: len(inside)] != inside}
        elif own is not None and root.is_relative_to(own):
            found = {}
        found = {name: path for name, path in found.items() if path.is_file()}
        if not found:
            raise SourceError(
                f"no Parquet file is at '{self.shown}'; a store never drops all parts"
            )
        return found

    def types(self, names: Collection[str]) -> dict[str, pl.DataType]:
        """Return the type of all values: whole numbers, dates or text.

        Polars would take each file by itself.
        """
        said: dict[str, list[str]] = {}
        for name in names:
            for key, value in _folders(name).items():
                if value != NO_VALUE:
                    said.setdefault(key, []).append(value)
                else:
                    said.setdefault(key, [])
        return {key: _type_of(pl.Series(values, dtype=pl.String)) for key, values in said.items()}


def files_of(source: Any, own: Path | None = None) -> Files | None:
    """Return the files of Parquet that a source means, None if it is something else.

    Parameters
    ----------
    source : the table
    own : folder of the store, whose files are left out
    """
    if is_of(source, "deltalake"):
        from dbselect.store.delta_files import DeltaFiles

        return DeltaFiles(source)
    if not isinstance(source, str | Path):
        return None
    text = str(source)
    if "://" in text:
        raise SourceError(
            f"'{text}' is not a local path, so its files have no sizes and times to "
            "compare; give pl.scan_parquet of it, whose rows are hashed instead"
        )
    path = Path(text).expanduser()
    if is_delta(path):
        return files_of(delta_table(path))
    if format_of(str(path))[0] is not PARQUET:
        return None
    refuse_files_of_delta(str(path), own)
    return _local_files(path, text, own)


def _local_files(path: Path, text: str, own: Path | None) -> LocalFiles:
    if path.is_dir():
        return LocalFiles(path, "**/*.parquet", text, own)
    at = next((i for i, part in enumerate(path.parts) if glob.has_magic(part)), None)
    if at is None:
        if not path.exists():
            raise SourceError(f"no file is at '{text}'; a Parquet file or a glob is needed")
        return LocalFiles(path.parent, glob.escape(path.name), text, own)
    return LocalFiles(Path(*path.parts[:at]), str(Path(*path.parts[at:])), text, own)


class FileParts:
    """A table whose parts are files.

    Parameters
    ----------
    files : which
    reading : how
    fields : those that each part was read with
    """

    looked_at = True

    def __init__(self, files: Files, reading: Reading, fields: PartFields) -> None:
        self._files = files
        self._reading = reading
        self._fields = fields
        self._paths: dict[str, Path] = {}
        self._types: dict[str, pl.DataType] = {}
        self._told: dict[str, str] = {}
        self.shown = f"'{files.shown}'"

    def fingerprints(self) -> dict[str, str]:
        """Return size, time and footer of each file."""
        self._paths = self._files.paths()
        self._types = self._files.types(self._paths)
        found = {name: _fingerprint(path) for name, path in self._paths.items()}
        self._told = {name: told for name, told in found.items() if told is not None}
        return self._told

    def records(self, parts: Collection[str]) -> Iterator[pl.DataFrame | Unread]:
        """Yield the records of each file; none of one that is gone or changes meanwhile.

        Small files are read many at once: a reading costs some milliseconds, however few rows.
        """
        for batch in self._batches(parts):
            found = self._together(batch) if len(batch) > 1 else None
            if found is not None:
                yield found
                continue
            for part in batch:
                path = self._paths[part]
                try:
                    yield self._records(part, path)
                except FAILURES as error:
                    # Half a file is no table, but that it changes is what counts.
                    if _fingerprint(path) == self._told[part]:
                        kind = type(error) if isinstance(error, DbselectError) else SourceError
                        failure = kind(f"in the file '{path}': {error}")
                        failure.__cause__ = error
                        yield Unread(part, failure)

    def _batches(self, parts: Collection[str]) -> Iterator[list[str]]:
        """Yield files that can be read at once: small ones of the same columns and keys."""
        batches: dict[Any, list[str]] = {}
        sizes = Counter[Any]()
        for part in parts:
            path = self._paths[part]
            try:
                size = path.stat().st_size
                schema = pl.read_parquet_schema(path) if size <= SMALL else None
            except FAILURES:
                schema = None
            if schema is None:
                yield [part]
                continue
            known = self._fields.known.get(part)
            kind = (*schema.items(), *_folders(part), None if known is None else tuple(known))
            batches.setdefault(kind, []).append(part)
            sizes[kind] += size
            if sizes[kind] >= TOGETHER or len(batches[kind]) * len(kind) ** 2 >= TOGETHER:
                yield batches.pop(kind)
                sizes.pop(kind)
        yield from batches.values()

    def _together(self, parts: list[str]) -> pl.DataFrame | None:
        """Return the records of some files, None where each has to be read by itself."""
        paths = {str(self._paths[part]): part for part in parts}
        try:
            table, fields, texts = self._table(parts[0], list(paths))
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
        names = [paths[path] for path in found[FILE]]
        found = found.drop(FILE)
        # A file without rows is a part, too.
        known = {*names}
        empty = [part for part in parts if part not in known]
        found = pl.concat([found, found.clear(len(empty))])
        names += empty
        told = pl.Series([self._told[name] for name in names], dtype=pl.String)
        part = pl.Series(names, dtype=pl.String)
        return labelled(found, part, told, self._reading, fields)

    def _records(self, part: str, path: Path) -> pl.DataFrame:
        table, fields, _ = self._table(part, [str(path)])
        found = read_part(table, self._reading)
        found = found if found.height else found.clear(1)
        return labelled(found, part, self._told[part], self._reading, fields)

    def _table(self, part: str, paths: list[str]) -> tuple[polars.LazyTable, Fields, set[str]]:
        """Open files like one part; also return the fields to read, and those of text."""
        hive = {name: self._types[name] for name in _folders(part)}
        path = Path(paths[0])
        above = {name for name in _folders(path.absolute().as_posix()) if name not in hive}
        frame = pl.scan_parquet(
            paths, glob=False, low_memory=True, hive_partitioning=bool(hive),
            hive_schema=hive or None, include_file_paths=FILE if len(paths) > 1 else None,
        )  # fmt: skip
        own = set(pl.read_parquet_schema(path))
        table = polars.from_frame(frame.drop(above - own, strict=False))
        apart = pa.schema([each for each in table.schema if each.name != FILE])
        leaves = leaves_read(apart, self._reading)
        now = kinds_of_fields(leaves)
        fields = self._fields.read(part, now)
        if fields != now:
            table = polars.from_frame(frame.select(without(table.schema, now, fields).names))
        learnt = self._reading.terms is None
        texts = {leaf.name for leaf in leaves if learnt and leaf.is_text and leaf.field in fields}
        return table, fields, texts


def _fingerprint(path: Path) -> str | None:
    """Return size and time of a file and a hash of its Parquet footer, None if it is gone."""
    try:
        with path.open("rb", buffering=0) as file:
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


def _folders(name: str) -> dict[str, str]:
    """Return the keys and values in the folder names ``name=value`` of a file."""
    pairs = (folder.partition("=") for folder in name.split("/")[:-1])
    return {key: unquote(value) for key, equals, value in pairs if equals}


def _type_of(values: pl.Series) -> pl.DataType:
    if values.cast(pl.Int64, strict=False).null_count() == 0:
        return pl.Int64()
    if values.str.to_date("%Y-%m-%d", strict=False).null_count() == 0:
        return pl.Date()
    return pl.String()

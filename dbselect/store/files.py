"""The parts of a table of files: each file is one, with size and time, or ETag, as fingerprint.

Keys may be columns of the files or names of folders, ``day=2013-01-01``; a file may have rows
of many keys. Files have the names that they have below the folder of the source, so that a
folder may move.
"""

from collections.abc import Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from dbselect.errors import DbselectError, SourceError
from dbselect.record.foreign import is_of
from dbselect.sources.engines.formats import PARQUET
from dbselect.sources.objects import is_url, version_at
from dbselect.sources.paths import Listing, NoFilesError, meant, partition_of
from dbselect.store.parts import labelled, read_part
from dbselect.store.reading import Reading

#: The folder of rows without a value, in Hive.
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


class Files(Protocol):
    """The files of a table."""

    @property
    def shown(self) -> str:
        """The table, for errors."""

    def versions(self) -> dict[str, str]:
        """Look again, and return by name what changes with the bytes of each file."""

    def version(self, name: str) -> str | None:
        """Look at one file again; None if it is gone."""

    def rows(self, name: str) -> Any:
        """Return the rows of a file."""


class ListedFiles:
    """The files that a path, a folder or a glob means, here or on an object store.

    Parameters
    ----------
    path : as it was given
    own : folder of the store, whose files are left out
    """

    def __init__(self, path: str | Path, own: Path | None) -> None:
        self.shown = str(path)
        self._own = own
        self._listing: Listing = meant(path, own)
        self._types: dict[str, pl.DataType] = {}

    def versions(self) -> dict[str, str]:
        """Return size and time of each file, or size and ETag.

        Raises
        ------
        SourceError : there is no file
        """
        self._listing = meant(self.shown, self._own)
        self._types = _types_of(self._listing.names)
        there = self._listing.versions
        looked = ((name, there.get(name) or self.version(name)) for name in self._listing.names)
        return {name: version for name, version in looked if version is not None}

    def version(self, name: str) -> str | None:
        """Look at one file again; None if it is gone."""
        return version_of(self._listing.address(name))

    def rows(self, name: str) -> pl.LazyFrame:
        """Return the rows of a file, with the keys of its folders."""
        return rows_of_file(self._listing.address(name), name, self._types)


def _types_of(names: Collection[str]) -> dict[str, pl.DataType]:
    """Return the type of all values of a key: whole numbers, dates or text.

    Polars would take each file by itself.
    """
    said: dict[str, list[str]] = {}
    for name in names:
        for key, value in partition_of(name).items():
            said.setdefault(key, []).extend([] if value == NO_VALUE else [value])
    return {key: _type_of(pl.Series(values, dtype=pl.String)) for key, values in said.items()}


def rows_of_file(path: str, name: str, types: Mapping[str, pl.DataType]) -> pl.LazyFrame:
    """Return the rows of a Parquet file, and the keys of the folders in its name.

    Parameters
    ----------
    path : of the file, here or elsewhere
    name : of the file below the table
    types : of the keys
    """
    hive = {key: types[key] for key in partition_of(name)}
    above = partition_of(path if is_url(path) else Path(path).absolute().as_posix()).keys() - hive
    scan = partial(pl.scan_parquet, path, glob=False, low_memory=True)
    frame = scan(hive_partitioning=bool(hive), hive_schema=hive or None)
    own = scan(hive_partitioning=False).collect_schema() if above else ()
    return frame.drop(above.difference(own), strict=False)


def files_of(source: Any, own: Path | None = None) -> Files | None:
    """Return the files of Parquet that a source means, None if it is something else.

    Parameters
    ----------
    source : the table
    own : folder of the store, whose files are left out

    Raises
    ------
    SourceError : as `meant`
    """
    try:
        table = meant(source, own) if isinstance(source, str | Path) else source
    except NoFilesError as error:
        raise SourceError(f"{error}; a store never drops all parts") from None
    if isinstance(table, Listing):
        if not table.root:
            raise SourceError(
                f"'{source}' is not a local path and on no object store, so its files have no "
                "versions to compare; give pl.scan_parquet of it, whose rows are hashed instead"
            )
        return ListedFiles(source, own) if table.format is PARQUET else None
    if is_of(table, "deltalake"):
        from dbselect.store.delta_files import DeltaFiles

        return DeltaFiles(table)
    if is_of(table, "pyiceberg"):
        from dbselect.store.iceberg_files import IcebergFiles

        return IcebergFiles(table)
    return None


class FileParts:
    """A table whose parts are files.

    Parameters
    ----------
    files : which
    reading : how
    """

    looked_at = True

    def __init__(self, files: Files, reading: Reading) -> None:
        self._files = files
        self._reading = reading
        self._told: dict[str, str] = {}
        self.shown = f"'{files.shown}'"

    def fingerprints(self) -> dict[str, str]:
        """Return size and time of each file."""
        self._told = self._files.versions()
        return self._told

    def records(self, parts: Collection[str]) -> Iterator[pl.DataFrame]:
        """Yield the records of each file; none of one that is gone or changes meanwhile."""
        for part in parts:
            found = self._records(part)
            if found is not None:
                yield labelled(found, part, self._told[part], self._reading)

    def _records(self, part: str) -> pl.DataFrame | None:
        try:
            found = read_part(self._files.rows(part), self._reading)
        except (DbselectError, OSError, pl.exceptions.PolarsError) as error:
            # Half a file is no table, but that it changes is what counts.
            if self._files.version(part) != self._told[part]:
                return None
            kind = type(error) if isinstance(error, DbselectError) else SourceError
            raise kind(f"in the file '{part}' of {self.shown}: {error}") from error
        # A file without rows is a part, too.
        return found if found.height else found.clear(1)


def version_of(path: str) -> str | None:
    """Return size and time of a file, or size and ETag elsewhere; None if it is gone."""
    if is_url(path):
        return version_at(path)
    try:
        told = Path(path).stat()
    except FileNotFoundError:
        return None
    return f"{told.st_size} bytes at {told.st_mtime_ns}"


def _type_of(values: pl.Series) -> pl.DataType:
    if values.cast(pl.Int64, strict=False).null_count() == 0:
        return pl.Int64()
    if values.str.to_date("%Y-%m-%d", strict=False).null_count() == 0:
        return pl.Date()
    return pl.String()

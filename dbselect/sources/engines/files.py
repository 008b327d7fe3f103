"""Parquet files that the tasks of Spark read by themselves: no row passes through its JVM."""

import glob
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from dbselect.errors import ArgumentError, SourceError
from dbselect.record.foreign import is_of
from dbselect.sources.engines.delta import is_delta, refuse_files_of_delta
from dbselect.sources.engines.formats import PARQUET, format_of
from dbselect.sources.engines.polars import LazyTable, from_path
from dbselect.sources.engines.spark import SCHEMA, brought, check_alive, spark_task
from dbselect.sources.partial.gather import check_fits
from dbselect.sources.partial.partial_aggregates import Gathered, Work
from dbselect.sources.request import Consumer
from dbselect.sources.unchanged import unchanged_at


class FilesTable:
    """Parquet files, each read by a task, under names that all machines see.

    Parameters
    ----------
    source : a path, a folder, a glob, or a list of paths
    session : of Spark
    """

    def __init__(self, source: Any, session: Any) -> None:
        if not (is_of(session, "pyspark") and hasattr(session, "createDataFrame")):
            raise ArgumentError(f"on is a {type(session).__name__}; it must be a SparkSession")
        check_alive(session)
        self._paths = paths_of(source)
        self._session = session
        first = from_path(self._paths[0]) if isinstance(source, list | tuple) else from_path(source)
        self.schema = first.schema
        self.rows: int | None = None
        self.again = True

    def reduce(self, fields: list[str], work: Work) -> Iterator[bytes]:
        """Have every task gather of the rows of a file; else as `SparkTable.reduce`."""
        n = len(self._paths)
        reading = FileWork(work, self._paths, fields, self.schema)
        numbers = self._session.range(0, n, 1, n)
        yield from brought(numbers.mapInArrow(spark_task("partial", reading), SCHEMA), reading)

    def scan(self, fields: list[str], consume: Consumer) -> None:
        """Read the fields in batches, here, on several threads."""
        for path in self._paths:
            of_file(path).scan(fields, consume)

    def batches(self, fields: list[str]) -> Generator[pa.RecordBatch]:
        """Read the fields in batches, here, file by file."""
        for path in self._paths:
            yield from of_file(path).batches(fields)


@dataclass(frozen=True)
class FileWork:
    """A work on files, which are given by their numbers.

    Parameters
    ----------
    work : on their rows
    paths : of all files
    fields : to read
    schema : that every file must fit
    """

    work: Work
    paths: Sequence[str]
    fields: list[str]
    schema: pa.Schema

    @property
    def size(self) -> int:
        """About how many bytes a state has."""
        return self.work.size

    @contextmanager
    def begin(self) -> Iterator["FileSums"]:
        """Begin without files."""
        with self.work.begin() as gathered:
            yield FileSums(self, gathered)


@dataclass(frozen=True)
class FileSums:
    """What was gathered of some files."""

    reading: FileWork
    gathered: Gathered

    def add(self, batch: Any) -> None:
        """Read the files of some numbers."""
        for number in pa.table(batch)["id"].to_pylist():
            path = self.reading.paths[number]
            table = of_file(path)
            check_fits(table.schema, self.reading.schema, self.reading.fields, f"file '{path}'")
            table.scan(self.reading.fields, self.gathered.add)

    def load(self, part: bytes) -> None:
        """Add what was gathered of other files."""
        self.gathered.load(part)

    def state(self) -> bytes:
        """Return what was gathered."""
        return self.gathered.state()


def of_file(path: str) -> LazyTable:
    """Open one of several files; its folders ``name=value`` become columns, too."""
    try:
        rows = pl.scan_parquet(path, low_memory=True, hive_partitioning=True)
        return LazyTable(rows, files=unchanged_at(path))
    except (pl.exceptions.PolarsError, OSError) as error:
        raise SourceError(f"cannot read '{path}' as Parquet: {error}") from error


def paths_of(source: Any) -> list[str]:
    """Return the files of a path, a folder or a glob, or a list as it is, sorted."""
    if isinstance(source, str | Path) and "://" not in str(source):
        _check_parquet(str(Path(source).expanduser()))
    if isinstance(source, list | tuple) and all(isinstance(one, str | Path) for one in source):
        found = [str(one) for one in source]
    elif not isinstance(source, str | Path):
        raise ArgumentError(
            f"source is a {type(source).__name__}, and on= is for Parquet files: give a path, a "
            "glob, or a list of paths"
        )
    elif "://" in str(source):
        found = [str(source)]
        if glob.has_magic(found[0]):
            raise ArgumentError(
                f"source is {found[0]!r}; with on= a glob is for paths, and of URLs a list"
            )
    else:
        path = Path(source).expanduser().absolute()
        files = path.rglob("*.parquet") if path.is_dir() else glob.iglob(str(path), recursive=True)
        found = [str(one) for one in files]
    if not found:
        raise SourceError(f"no file is at '{source}'; a Parquet file or a glob is needed")
    return sorted(found)


def _check_parquet(path: str) -> None:
    """Refuse what tasks cannot read file by file."""
    name = "a Delta table" if is_delta(path) else format_of(path)[0].name
    if name != PARQUET.name:
        raise SourceError(
            f"'{path}' is {name}, and on= is for Parquet files; give Spark's frame of it"
        )
    refuse_files_of_delta(path)

"""Parquet files that the tasks of Spark read by themselves: no row passes through its JVM."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from dbselect.errors import ArgumentError, SourceError
from dbselect.record.foreign import is_of
from dbselect.sources.engines.formats import PARQUET
from dbselect.sources.engines.lakes import kind_of_table
from dbselect.sources.engines.polars import LazyTable, from_path
from dbselect.sources.engines.spark import SCHEMA, SparkTable, brought, check_alive, spark_task
from dbselect.sources.objects import is_url
from dbselect.sources.partial.gather import check_fits
from dbselect.sources.partial.partial_aggregates import Passed, Work
from dbselect.sources.paths import FilesMeant, meant
from dbselect.sources.request import Consumer
from dbselect.sources.unchanged import unchanged_of


class FilesTable:
    """Parquet files, each read by a task of Spark, under names that all machines see."""

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

    def by_key(self, fields: list[str], by: list[str], parts: int) -> SparkTable:
        """Return fields of the rows as Spark's own frame, shuffled by key."""
        frame = SparkTable(self._session.read.parquet(*self._paths))
        check_fits(frame.schema, self.schema, fields, "Spark's frame of the files", by)
        return frame.by_key(fields, by, parts)

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
    """A work on files, which are given by their numbers."""

    work: Work  # on their rows
    paths: Sequence[str]  # of all files
    fields: list[str]  # to read
    schema: pa.Schema  # that every file must fit

    @property
    def size(self) -> int:
        """About how many bytes a state has."""
        return self.work.size

    @contextmanager
    def begin(self) -> Iterator["FileSums"]:
        """Begin without files."""
        with self.work.begin() as gathered:
            yield FileSums(gathered, self)


@dataclass(frozen=True)
class FileSums(Passed):
    """What was gathered of some files."""

    reading: FileWork

    def add(self, batch: Any) -> None:
        """Read the files of some numbers."""
        for number in pa.table(batch)["id"].to_pylist():
            path = self.reading.paths[number]
            table = of_file(path)
            check_fits(table.schema, self.reading.schema, self.reading.fields, f"file '{path}'")
            table.scan(self.reading.fields, self.gathered.add)


def of_file(path: str) -> LazyTable:
    """Open one of several files; its folders ``name=value`` become columns, too."""
    try:
        rows = pl.scan_parquet(path, low_memory=True, hive_partitioning=True)
        return LazyTable(rows, files=unchanged_of([path]))
    except (pl.exceptions.PolarsError, OSError) as error:
        raise SourceError(f"cannot read '{path}' as Parquet: {error}") from error


def paths_of(source: Any) -> list[str]:
    """Return the files of a path, a folder or a glob, or a list as it is, sorted."""
    is_list = isinstance(source, list | tuple) and bool(source)
    if is_list and all(isinstance(one, str | Path) for one in source):
        return sorted(str(one) for one in source)
    if not isinstance(source, str | Path):
        raise ArgumentError(
            f"source is a {type(source).__name__}, and on= is for Parquet files: give a path, a "
            "glob, or a list of paths"
        )
    found = meant(source if is_url(source) else Path(source).expanduser().absolute())
    if not isinstance(found, FilesMeant) or found.format is not PARQUET:
        kind = found.format.name if isinstance(found, FilesMeant) else kind_of_table(found)
        raise SourceError(
            f"'{source}' is {kind}, and on= is for Parquet files; give Spark's frame of it"
        )
    return found.addresses

"""Spark DataFrames: each task sums over its rows, and only sums, as bytes, reach the driver.

Only the DataFrame API is used, which Spark Connect supports as well. Tasks can also read Parquet
files directly, so that no row passes through the JVM.
"""

import pickle
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from dbselect.errors import ArgumentError, ColumnError, DriverWarning, SourceError, warn_caller
from dbselect.record.files import absolute
from dbselect.record.foreign import is_of
from dbselect.sources.engines.arrow import Batched
from dbselect.sources.engines.formats import PARQUET
from dbselect.sources.engines.polars import LazyTable, from_path
from dbselect.sources.engines.remote import check_sent, release
from dbselect.sources.objects import is_url
from dbselect.sources.partial.gather import check_fits
from dbselect.sources.partial.partial_aggregates import Changed, Passed, Work, merging
from dbselect.sources.paths import FileListing, files_at, unchanged_of
from dbselect.sources.request import Consumer

#: Result of a task: number of its partition, state, error message.
SCHEMA = "slot int, state binary, error string"
Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class SparkTable(Batched):
    """A DataFrame of Spark, computed at each reading, reading only the requested fields."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        check_alive(frame.sparkSession)
        try:
            self.schema = frame.limit(0).toArrow().schema
        except Exception as error:  # PySpark's errors share no class with Py4J's
            raise SourceError(f"Spark cannot read the table: {cause_of(error)}") from error

    def reduce(self, fields: list[str], work: Work) -> Iterator[bytes]:
        """Reduce the rows in the tasks; return the pickled states, merged into few parts."""
        renamed = Changed(work, partial(_renaming, fields))
        rows = self._selected(fields)
        yield from brought(rows.mapInArrow(spark_task("partial", renamed), SCHEMA), work)

    def by_key(self, fields: list[str], by: list[str], parts: int) -> "SparkTable":
        """Return the fields, shuffled so that all rows of a key are in one partition."""
        chosen = self._frame.select([quoted(field) for field in fields])
        usual = self._frame.sparkSession.conf.get("spark.sql.shuffle.partitions")
        parts = max(parts, int(usual) if usual.isdigit() else 1)
        shuffled = copy(self)
        shuffled._frame = chosen.repartition(parts, *map(quoted, by))
        return shuffled

    def _selected(self, fields: list[str]) -> Any:
        """Select the fields under plain names, as names with dots get lost in mapInArrow."""
        for field in fields:
            alike = [name for name in self.schema.names if name.lower() == field.lower()]
            settings = self._frame.sparkSession.conf
            if len(alike) > 1 and settings.get("spark.sql.caseSensitive") != "true":
                raise ColumnError(
                    f"columns '{alike[0]}' and '{alike[1]}' are one to Spark, which ignores "
                    "case; rename one, or set spark.sql.caseSensitive to true"
                )
        plain = [f"{quoted(field)} AS field{n}" for n, field in enumerate(fields)]
        return self._frame.selectExpr(plain)

    def batches(self, fields: list[str]) -> Generator[pa.RecordBatch]:
        """Collect the fields in batches, in the order of the partitions."""
        warn_caller(
            "this call looks at single rows: those of the Spark DataFrame all pass "
            "through the driver; take a sample if they are many",
            DriverWarning,
        )
        rows = self._selected(fields)
        try:
            with pa.RecordBatchReader.from_stream(rows) as reader:
                for batch in reader:
                    yield batch.rename_columns(fields)
        except Exception as error:
            raise SourceError(f"Spark cannot read the table: {cause_of(error)}") from error


def brought(parts: Any, work: Work) -> Iterator[bytes]:
    """Collect the states of tasks, which the workers merge first if they are large."""
    for tasks in merging(work.size):
        merged = parts.repartition(tasks, "slot")
        parts = merged.mapInArrow(spark_task("merge", work), SCHEMA)
    try:
        states = parts.toArrow()
    except Exception as error:
        raise SourceError(f"Spark cannot read the table: {cause_of(error)}") from error
    failed = states.filter(states["error"].is_valid()).sort_by("slot")
    if failed.num_rows:
        check_sent(failed["error"][0].as_py())
    return (state.as_py() for state in states["state"])


def spark_task(kind: str, work: Work) -> Task:
    """Return the function of a task, pickled by value; it reports an error without dbselect."""
    sent, version, names = pickle.dumps(work), release(), ("slot", "state", "error")

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow
        from pyspark import TaskContext

        context = TaskContext.get()
        slot = 0 if context is None else context.partitionId()
        try:
            from dbselect.sources.engines.remote import ran
        except ImportError as error:
            lacking = (
                f"SourceError: the Python workers of Spark cannot load dbselect ({error}); "
                f"install dbselect {version} on every executor"
            )
            answer: tuple[bytes | None, str | None] = None, lacking
        else:
            answer = ran(kind, version, sent, batches)
        if answer != (None, None):
            row = {name: [value] for name, value in zip(names, (slot, *answer), strict=True)}
            types = [pyarrow.int32(), pyarrow.binary(), pyarrow.string()]
            schema = pyarrow.schema(list(zip(names, types, strict=True)))
            yield pyarrow.RecordBatch.from_pydict(row, schema=schema)

    return task


def _renaming(fields: list[str]) -> Callable[[pa.Table], pa.Table]:
    """Return a function that restores the names of the fields."""
    return lambda batch: batch.rename_columns(fields)


def quoted(name: str) -> str:
    """Quote a name for Spark, so that dots are part of it."""
    return "`" + name.replace("`", "``") + "`"


def check_alive(session: Any) -> None:
    """Refuse a stopped session, as PySpark's own error does not name the cause."""
    context = getattr(session, "_sc", None)
    is_stopped = getattr(session, "is_stopped", False) is True
    if is_stopped or (context is not None and context._jsc is None):
        raise SourceError("the Spark session is stopped; start another, and read the table in it")


def cause_of(error: BaseException) -> str:
    """Return the line of a Spark error that states the cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if any(line.startswith("Traceback") for line in lines):
        named = [line for line in lines if not line.startswith(("File", "at ", "SQLSTATE", "^"))]
        lines = named[-1:]
    elif len(lines) > 1 and lines[0].startswith("An error occurred while calling"):
        # Py4J's first line names an internal method; the root cause comes last.
        causes = [line for line in lines if line.startswith("Caused by: ")]
        lines = [causes[-1].removeprefix("Caused by: ") if causes else lines[1].lstrip(": ")]
    return lines[0] if lines else type(error).__name__


class FilesTable:
    """Parquet files, each read by a task of Spark, at paths that all machines share."""

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
        """Reduce the rows in one task per file; otherwise as `SparkTable.reduce`."""
        n = len(self._paths)
        reading = FileWork(work, self._paths, fields, self.schema)
        numbers = self._session.range(0, n, 1, n)
        yield from brought(numbers.mapInArrow(spark_task("partial", reading), SCHEMA), reading)

    def by_key(self, fields: list[str], by: list[str], parts: int) -> SparkTable:
        """Return the fields as a Spark DataFrame, shuffled by key."""
        frame = SparkTable(self._session.read.parquet(*self._paths))
        check_fits(frame.schema, self.schema, fields, "Spark's frame of the files", by)
        return frame.by_key(fields, by, parts)

    def scan(self, fields: list[str], consume: Consumer) -> None:
        """Read the fields in batches in this process, on several threads."""
        for path in self._paths:
            of_file(path).scan(fields, consume)

    def batches(self, fields: list[str]) -> Generator[pa.RecordBatch]:
        """Read the fields in batches in this process, file by file."""
        for path in self._paths:
            yield from of_file(path).batches(fields)


@dataclass(frozen=True)
class FileWork:
    """Work on the rows of files, whose batches are numbers of files."""

    work: Work  # on the rows
    paths: Sequence[str]  # of all files
    fields: list[str]  # to read
    schema: pa.Schema  # required of every file

    @property
    def size(self) -> int:
        """Approximate size of a state in bytes."""
        return self.work.size

    @contextmanager
    def begin(self) -> Iterator["FileSums"]:
        """Begin an empty state."""
        with self.work.begin() as gathered:
            yield FileSums(gathered, self)


@dataclass(frozen=True)
class FileSums(Passed):
    """The state of the work over the files read so far."""

    reading: FileWork

    def add(self, batch: Any) -> None:
        """Read the files with the numbers in a batch."""
        for number in pa.table(batch)["id"].to_pylist():
            path = self.reading.paths[number]
            table = of_file(path)
            check_fits(table.schema, self.reading.schema, self.reading.fields, f"file '{path}'")
            table.scan(self.reading.fields, self.gathered.add)


def of_file(path: str) -> LazyTable:
    """Open one of several files, with its folders ``name=value`` as columns."""
    try:
        rows = pl.scan_parquet(path, low_memory=True, hive_partitioning=True)
        return LazyTable(rows, files=unchanged_of([path]))
    except (pl.exceptions.PolarsError, OSError) as error:
        raise SourceError(f"cannot read '{path}' as Parquet: {error}") from error


def paths_of(source: Any) -> list[str]:
    """Return the files of a path, folder, glob or list of paths, sorted."""
    is_list = isinstance(source, list | tuple) and bool(source)
    if is_list and all(isinstance(path, str | Path) for path in source):
        return sorted(str(path) for path in source)
    if not isinstance(source, str | Path):
        raise ArgumentError(
            f"source is a {type(source).__name__}, and on= is for Parquet files: give a path, a "
            "glob, or a list of paths"
        )
    listing = files_at(source if is_url(source) else absolute(Path(source).expanduser()))
    if not isinstance(listing, FileListing) or listing.format is not PARQUET:
        lake = "a Delta table" if type(listing).__name__ == "DeltaTable" else "an Iceberg table"
        kind = listing.format.name if isinstance(listing, FileListing) else lake
        raise SourceError(
            f"'{source}' is {kind}, and on= is for Parquet files; give Spark's frame of it"
        )
    return listing.addresses

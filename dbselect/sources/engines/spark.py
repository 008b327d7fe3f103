"""Spark DataFrames: each task sums over its rows, and only sums reach the driver.

Only the DataFrame API is used, which Spark Connect has as well. What a task gathers is one
row of bytes. Where these are large, tasks of their own merge them before the driver does:
what arrives there is bounded, however many partitions there are. Hash partitioning by the
number of the partition makes that the same however often a task is tried. What is wrong with
the data comes back as a row, too: no task is tried again for it, and its sentence arrives.
"""

import pickle
from collections.abc import Callable, Generator, Iterator
from copy import copy
from functools import partial
from typing import Any

import pyarrow as pa

from dbselect.errors import ColumnError, DriverWarning, SourceError, warn_caller
from dbselect.sources.engines.arrow import Batched
from dbselect.sources.engines.remote import check_sent, release
from dbselect.sources.partial.partial_aggregates import Changed, Work, merging

#: What a task returns: from which partition, what it has gathered, and what is wrong.
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
            raise SourceError(f"Spark cannot read the table: {told(error)}") from error

    def reduce(self, fields: list[str], work: Work) -> Iterator[bytes]:
        """Have every task gather of its rows, and return what comes of it, in few parts."""
        renamed = Changed(work, partial(_renaming, fields))
        rows = self._selected(fields)
        yield from brought(rows.mapInArrow(spark_task("partial", renamed), SCHEMA), work)

    def by_key(self, fields: list[str], by: list[str], parts: int) -> "SparkTable":
        """Return fields of the rows, shuffled so that those of a key are in one of the parts."""
        chosen = self._frame.select([quoted(field) for field in fields])
        usual = self._frame.sparkSession.conf.get("spark.sql.shuffle.partitions")
        parts = max(parts, int(usual) if usual.isdigit() else 1)
        shuffled = copy(self)
        shuffled._frame = chosen.repartition(parts, *map(quoted, by))
        return shuffled

    def _selected(self, fields: list[str]) -> Any:
        """Return the fields under other names: those with dots get lost on their way."""
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
        """Bring the fields here in batches, in the order of the partitions."""
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
            raise SourceError(f"Spark cannot read the table: {told(error)}") from error


def brought(parts: Any, work: Work) -> Iterator[bytes]:
    """Merge the rows of tasks, on the workers if they are large, and bring them here."""
    for tasks in merging(work.size):
        merged = parts.repartition(tasks, "slot")
        parts = merged.mapInArrow(spark_task("merge", work), SCHEMA)
    try:
        found = parts.toArrow()
    except Exception as error:
        raise SourceError(f"Spark cannot read the table: {told(error)}") from error
    failed = found.filter(found["error"].is_valid()).sort_by("slot")
    if failed.num_rows:
        check_sent(failed["error"][0].as_py())
    return (state.as_py() for state in found["state"])


def spark_task(kind: str, work: Work) -> Task:
    """Return what a task runs: one row for all its rows, none for no row.

    The function travels by its own code, so that it can report what the other process lacks.
    """
    sent, ours, names = pickle.dumps(work), release(), ("slot", "state", "error")

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
                f"install dbselect {ours} on every executor"
            )
            answer: tuple[bytes | None, str | None] = None, lacking
        else:
            answer = ran(kind, ours, sent, batches)
        if answer != (None, None):
            row = {name: [value] for name, value in zip(names, (slot, *answer), strict=True)}
            types = [pyarrow.int32(), pyarrow.binary(), pyarrow.string()]
            schema = pyarrow.schema(list(zip(names, types, strict=True)))
            yield pyarrow.RecordBatch.from_pydict(row, schema=schema)

    return task


def _renaming(fields: list[str]) -> Callable[[pa.Table], pa.Table]:
    """Return what gives the rows of a task their names again."""
    return lambda batch: batch.rename_columns(fields)


def quoted(name: str) -> str:
    """Return a name as Spark takes it, dots and all."""
    return "`" + name.replace("`", "``") + "`"


def check_alive(session: Any) -> None:
    """Refuse a session that is stopped: PySpark's own error does not mention it."""
    context = getattr(session, "_sc", None)
    is_stopped = getattr(session, "is_stopped", False) is True
    if is_stopped or (context is not None and context._jsc is None):
        raise SourceError("the Spark session is stopped; start another, and read the table in it")


def told(error: BaseException) -> str:
    """Return the line of a Spark error that states the cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if any(line.startswith("Traceback") for line in lines):
        named = [line for line in lines if not line.startswith(("File", "at ", "SQLSTATE", "^"))]
        lines = named[-1:]
    elif len(lines) > 1 and lines[0].startswith("An error occurred while calling"):
        # Py4J names a method of its own first; the root cause comes last.
        causes = [line for line in lines if line.startswith("Caused by: ")]
        lines = [causes[-1].removeprefix("Caused by: ") if causes else lines[1].lstrip(": ")]
    return lines[0] if lines else type(error).__name__

"""Files, LazyFrames and DataFrames, read out of core by the streaming engine of Polars."""

from collections.abc import Callable, Generator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import polars as pl
import pyarrow as pa

from dbselect import _forked
from dbselect.errors import DbselectError, LeftOutWarning, SourceError, warn_caller
from dbselect.record import formulas
from dbselect.record.files import absolute
from dbselect.record.foreign import check_names
from dbselect.record.formulas import Plan, translate
from dbselect.sources.engines.formats import scan_of
from dbselect.sources.engines.lakes import check_mapping
from dbselect.sources.objects import in_short
from dbselect.sources.paths import (
    FileListing,
    Unchanged,
    files_at,
    partition_of,
    unchanged_at,
    unchanged_of,
)
from dbselect.sources.request import Consumer

#: Errors of Polars; it panics on a damaged file and on data of unsupported types.
FAILURES = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, UnicodeDecodeError)
#: Name of the column of the numbers of rows.
ROW = "__dbselect_block_row"
#: 128-bit integers up to 38 digits, in a type that Arrow supports.
WHOLE = pl.Decimal(38, 0)


class LazyTable:
    """A table that Polars reads; 128-bit integers become decimals, beyond 38 digits an error."""

    def __init__(
        self,
        frame: pl.LazyFrame,
        rows: int | None = None,
        files: Unchanged | None = None,
        held: pl.DataFrame | None = None,
    ) -> None:
        _forked.check_threads()
        try:
            schema = frame.collect_schema()
        except FAILURES as error:
            raise SourceError(f"Polars cannot read the table: {in_short(error)}") from error
        check_names(schema)
        plain = {name: plain_dtype(dtype) for name, dtype in schema.items()}
        casts: Any = {n: dtype for n, dtype in plain.items() if dtype != schema[n]}
        self.frame = frame.cast(casts)
        # Read without Polars' engine, unless that has something to do.
        self._held = None if any(map(_is_decimal, plain.values())) else held
        self._original = frame
        self._files = files or Unchanged()
        self.rows = rows
        self.again = True
        # Of thousands of columns, an empty frame of a schema takes Polars longer.
        empty = pl.DataFrame(schema=plain) if held is None or casts else held.clear()
        self.schema: pa.Schema = pa.RecordBatchReader.from_stream(empty).schema

    def extended(self, fields: list[str], steps: Plan) -> "LazyTable":
        """Return the fields and the formula columns."""
        algebra = formulas.polars(lambda formula: pl.col(steps.names[id(formula)]))
        frame = self.selected(fields)
        for layer in steps.layers:
            frame = frame.with_columns(
                translate(formula, algebra).alias(name) for name, formula in layer.items()
            )
        return LazyTable(frame, self.rows, self._files)

    def scan(self, fields: list[str], consume: Consumer) -> None:
        """Read the fields in batches, on several threads."""
        self._scanned(self.selected(fields), fields, consume)

    def scan_blocks(self, fields: list[str], consume: Callable[[pl.DataFrame, int], None]) -> None:
        """Read the fields in blocks of a fixed number of rows, each with its number from 0 on."""
        blocks = Blocks(block_rows(len(fields)))
        if self._held is not None:
            held = self._held[fields]
            starts = range(0, held.height, blocks.rows)

            def read(number: int) -> None:
                consume(held.slice(starts[number], blocks.rows).rechunk(), number)

            with ThreadPoolExecutor(pl.thread_pool_size()) as pool:
                work = [pool.submit(read, number) for number in range(len(starts))]
                wait(work, return_when=FIRST_EXCEPTION)
                pool.shutdown(cancel_futures=True)
            [each.result() for each in work if not each.cancelled()]
            return

        def take(batch: pl.DataFrame) -> None:
            if batch.height:
                at = int(batch[ROW][0])
                for number, block in blocks.added(at, batch.drop(ROW)):
                    consume(block, number)

        self._scanned(self.selected(fields).with_row_index(ROW), fields, take)
        for number, block in blocks.rest():
            consume(block, number)

    def _scanned(self, rows: pl.LazyFrame, fields: list[str], consume: Consumer) -> None:
        failures: list[DbselectError] = []
        lock = Lock()
        has_decimals = any(_has_decimals(self.schema.field(name).type) for name in fields)

        def take(batch: pl.DataFrame) -> pl.DataFrame:
            if has_decimals:
                # A frame that Polars read from narrow decimals panics here; in a call of another
                # library the panic would abort the process.
                batch.head(1).to_arrow()
            try:
                consume(batch)
            except DbselectError as error:
                with lock:
                    failures.append(error)
                raise
            return pl.DataFrame(schema={"done": pl.Boolean})

        plan = rows.map_batches(take, schema={"done": pl.Boolean}, streamable=True)
        try:
            with self._files.checked():
                plan.collect(engine="streaming")
        except FAILURES as error:
            if failures:
                raise failures[0] from None
            raise SourceError(f"Polars cannot read the table: {in_short(error)}") from error
        finally:
            # Error, frame, plan and failures form a reference cycle through Polars, which the
            # garbage collector cannot see and which would keep the whole table in memory.
            failures.clear()

    def selected(self, fields: list[str]) -> pl.LazyFrame:
        """Select fields by name, even if the names look like patterns."""
        return self.frame.select(formulas.polars_field(name) for name in fields)

    def with_digits_of(self, field: str) -> "LazyTable":
        """Return the table with a field of 128-bit integers as decimals, not as doubles."""
        if self._original.collect_schema()[field] not in (pl.Int128, pl.UInt128):
            return self
        frame = self._original.with_columns(pl.col(field).cast(WHOLE))
        return LazyTable(frame, self.rows, self._files)

    def batches(self, fields: list[str]) -> Generator[pa.RecordBatch]:
        """Read the fields in batches, in Polars' order of rows."""
        try:
            rows = self.selected(fields)
            with self._files.checked():
                for frame in rows.collect_batches(lazy=True, engine="streaming"):
                    # Arrow has no kernels for string views, the layout of text in Polars.
                    yield from frame.to_arrow(compat_level=pl.CompatLevel.oldest()).to_batches()
        except FAILURES as error:
            raise SourceError(f"Polars cannot read the table: {in_short(error)}") from error


def _has_decimals(type_: pa.DataType) -> bool:
    """Whether there are decimals inside a struct."""
    is_struct = pa.types.is_struct(type_)
    return is_struct and any(
        pa.types.is_decimal(field.type) or _has_decimals(field.type) for field in type_
    )


def _is_decimal(dtype: pl.DataType) -> bool:
    """Whether a type is a decimal, or may have one inside."""
    return isinstance(dtype, pl.Decimal | pl.Struct | pl.Array)


def plain_dtype(dtype: Any) -> Any:
    """Return the type with decimals for 128-bit integers, which Arrow does not support."""
    if dtype in (pl.Int128, pl.UInt128):
        return WHOLE
    if isinstance(dtype, pl.Struct):
        return pl.Struct({field.name: plain_dtype(field.dtype) for field in dtype.fields})
    if isinstance(dtype, pl.Array):
        inner: Any = dtype
        for _ in dtype.shape:
            inner = inner.inner
        return pl.Array(plain_dtype(inner), dtype.shape)
    return dtype


def from_path(path: str | Path) -> LazyTable:
    """Open a file, a folder, a glob, or a Delta or Iceberg table, in the format of its name."""
    source = files_at(path)
    return from_listing(source) if isinstance(source, FileListing) else from_lake(source)


def from_lake(table: Any) -> LazyTable:
    """Open a table of deltalake or pyiceberg, whose files are never overwritten."""
    try:
        is_delta = type(table).__name__ == "DeltaTable"
        if is_delta:
            check_mapping(table)
        return LazyTable(pl.scan_delta(table) if is_delta else pl.scan_iceberg(table))
    except FAILURES as error:
        raise SourceError(f"cannot read the table: {error}") from error


def from_listing(listing: FileListing) -> LazyTable:
    """Open files of one format; folders ``name=value`` below their root are columns."""
    format_ = listing.format
    try:
        paths, current = listing.local_paths, listing.current_versions
        remote = {listing.address(name): version for name, version in listing.versions.items()}
        files = unchanged_at(remote, current) if remote else unchanged_of(paths)
        frame = _scanned(listing)
        # Counting the rows of many files on an object store takes a request for each.
        is_counted = format_.counted and (paths or len(listing.names) == 1)
        rows = frame.select(pl.len()).collect().item() if is_counted else None
        return LazyTable(frame, rows, files)
    except FAILURES as error:
        reason = f"cannot read '{listing.shown}' as {format_.name}: {in_short(error)}"
        raise SourceError(reason) from error


def _scanned(listing: FileListing) -> pl.LazyFrame:
    format_, paths = listing.format, listing.addresses
    keys = {key for name in listing.names for key in partition_of(name)}
    if keys and not format_.foldered:
        first = next(part for name in listing.names for part in name.split("/")[:-1] if "=" in part)
        warn_caller(
            f"folder '{first}' is not read as a column: {format_.name} does not support this, "
            "Parquet does",
            LeftOutWarning,
        )
    # An address that was not listed may be a glob, which Polars expands.
    if not listing.root:
        return format_.scan(paths, True, False)
    if not keys or not format_.foldered:
        return scan_of(format_, paths, False, listing.shown)
    # Polars also makes columns of folders above the root, which are dropped.
    frame = scan_of(format_, paths, True, listing.shown)
    plain = format_.scan(paths[:1], False, False)
    above = partition_of(f"{absolute(listing.root).as_posix()}/")
    return frame.drop(above.keys() - keys - {*plain.collect_schema()}, strict=False)


def from_frame(frame: Any) -> LazyTable:
    """Open a LazyFrame or a DataFrame."""
    if isinstance(frame, pl.DataFrame):
        return LazyTable(frame.lazy(), frame.height, held=frame)
    return LazyTable(frame)


#: Rows of a block: few enough that most lie in one batch of an engine, and none is copied; enough
#: to be worth a merge with the others.
MOST_ROWS, FEWEST_ROWS, VALUES = 2**15, 2**12, 2**22


def block_rows(columns: int) -> int:
    """Return the rows of a block of so many columns, a power of 2."""
    rows = VALUES // max(columns, 1)
    return max(FEWEST_ROWS, min(MOST_ROWS, 1 << max(rows.bit_length() - 1, 0)))


@dataclass
class Blocks:
    """Blocks of rows that arrive in pieces, in any order."""

    rows: int
    _pieces: dict[int, dict[int, pl.DataFrame]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def added(self, start: int, piece: pl.DataFrame) -> list[tuple[int, pl.DataFrame]]:
        """Take rows from number `start` on; return the blocks that are complete now."""
        complete = []
        with self._lock:
            end = start + piece.height
            for number in range(start // self.rows, -(-end // self.rows)):
                first = max(start, number * self.rows)
                part = piece.slice(first - start, min(end, (number + 1) * self.rows) - first)
                pieces = self._pieces.setdefault(number, {})
                pieces[first] = part
                if sum(each.height for each in pieces.values()) == self.rows:
                    complete.append((number, self._pieces.pop(number)))
        return [(number, _joined(pieces)) for number, pieces in complete]

    def rest(self) -> list[tuple[int, pl.DataFrame]]:
        """Return the last block, which may have fewer rows."""
        return [(number, _joined(pieces)) for number, pieces in sorted(self._pieces.items())]


def _joined(pieces: dict[int, pl.DataFrame]) -> pl.DataFrame:
    return pl.concat([pieces[start] for start in sorted(pieces)], rechunk=True)

"""Records of many keys within a memory limit: a part of the keys at a time, by their hash.

How many keys a table has is estimated first, in any number of processes.
"""

import hashlib
import io
import math
import os
import pickle
import re
import secrets
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from dbselect.errors import ArgumentError, MemoryWarning, SourceError, warn_caller
from dbselect.options.kinds import check_folder
from dbselect.record.files import absolute, replacing
from dbselect.record.foreign import wide_decimals
from dbselect.record.formulas import polars_field
from dbselect.sources.around import Around
from dbselect.sources.engines.formats import PARQUET, format_of_name
from dbselect.sources.partial.gather import KEYS, GramSums, GramWork
from dbselect.sources.partial.partial_aggregates import Summing
from dbselect.sources.records import (
    check_groups,
    counted,
    filled_groups,
    finished_groups,
    read_records,
    to_read,
)
from dbselect.sources.request import Consumer, Request, Table

#: Prefixes of bytes: powers of 1000, or of 1024 with an i.
UNITS = ("", "K", "M", "G", "T")
#: Bytes of a group in addition to its sums, and of a column name in a record.
GROUP, NAME = 120, 24
#: Share of a limit reserved for the engine: batches in flight, and output being written.
ENGINE = 0.4
#: Most bytes of the groups of a task, or of its rows.
TASK = 128 * 10**6
#: Default limit of the bytes of records sent to the driver, that of Spark.
HERE = 10**9


def records_within(
    table: Table, request: Request, limit: Any, out: str | Path | None
) -> pl.DataFrame:
    """Return the records of a request, part by part within a memory limit; see `gram_by`."""
    clash = {"rows", "skipped"}.intersection(request.by)
    if out is not None and clash:
        raise ArgumentError(f"by names a column '{clash.pop()}'; rename it, as out= returns one")
    limit = None if limit is None else bytes_of(limit)
    groups = KEYS
    parts: Sequence[Table]
    if request.by and hasattr(table, "by_key"):
        sizes = sizes_of(table, request)
        records = records_by_worker(table, request, sizes, limit, out)
        if records is not None:
            return records
        parts, groups = [table], sizes.groups
    else:
        parts = [table] if limit is None else _parts(table, request, limit, out is not None)
    finished = (
        finished_groups(read_records(part, to_read(request), groups), request) for part in parts
    )
    if out is None:
        records = pl.concat([*finished])
        return records if len(parts) == 1 else records.sort(request.keys, nulls_last=True)
    check_folder("out", out)
    if format_of_name(str(out)) not in (PARQUET, None):
        raise ArgumentError(f"out is '{out}'; records are written as Parquet")
    import pyarrow.parquet as pq  # slow to import

    keys, writer = [], None
    with replacing(out) as unfinished, ExitStack() as files:
        for records in finished:
            rows = records.to_arrow(compat_level=pl.CompatLevel.oldest())
            # Reversing copies: slices would keep the memory of all records.
            keys.append(counted(records)[0].unnest("gram").select(pl.all().reverse().reverse()))
            if writer is None:
                writer = files.enter_context(pq.ParquetWriter(unfinished, rows.schema))
            writer.write_table(rows)
            del records, rows
    return pl.concat(keys)


def _parts(table: Table, request: Request, limit: int, has_file: bool) -> Sequence[Table]:
    """Split a table by the hash of its keys, so that each part takes less than the limit."""
    if not request.by:  # the groups are folds only, which are few
        return [table]
    if not table.again:
        raise ArgumentError(
            "memory_limit is for a table that can be read more than once, and source is a stream; "
            "write it to a file and give its path"
        )
    sizes = sizes_of(table, request)
    if not has_file:
        check_room(sizes, limit)
    threads = min(pl.thread_pool_size(), max(sizes.rows / sizes.groups, 1))
    needed = sizes.groups * (threads * sizes.state + 2 * sizes.record)
    scans = math.ceil(needed / ((1 - ENGINE) * limit))
    if scans == 1:
        return [table]
    text = f"{sizes.groups_in_words} take {in_words(needed)}, and memory_limit is {in_words(limit)}"
    if not request.is_settled:
        raise ArgumentError(
            f"{text}; the columns of null_policy='indicator' depend on all groups, which cannot be "
            "read in parts: use 'mean', or a higher limit"
        )
    warn_caller(f"{text}: the table is read {scans} times, a part of the keys each", MemoryWarning)
    return [OfKeys(table, request.by, part, scans) for part in range(scans)]


class OfKeys(Around):
    """The rows of one part of the keys, by their hash."""

    def __init__(self, table: Table, by: list[str], part: int, parts: int) -> None:
        super().__init__(table, table.schema)
        self.rows = None
        self._by = by
        self._in_part = key_hash(by) % parts == part

    def scan(self, fields: list[str], consume: Consumer) -> None:
        """Pass batches of the rows of these keys to `consume`."""

        def consume_part(batch: Any) -> None:
            mask = keys_of(batch, self._by).select(self._in_part).to_series()
            consume(batch.filter(mask if isinstance(batch, pl.DataFrame) else mask.to_arrow()))

        self._table.scan(fields, consume_part)


def records_by_worker(
    table: Any, request: Request, sizes: "Sizes", limit: int | None, out: str | Path | None
) -> pl.DataFrame | None:
    """Return the records computed by the workers, by key; None if one task can hold all groups."""
    if out is None:
        check_room(sizes, HERE if limit is None else limit)
    needed = sizes.groups * sizes.state
    if needed <= TASK:
        return None
    if not request.is_settled:
        raise ArgumentError(
            f"the sums of {sizes.groups_in_words} take {in_words(needed)}, more than a task holds, "
            "and the columns of null_policy='indicator' depend on all; use 'mean', or fewer groups"
        )
    needed += sizes.groups * 2 * sizes.record
    parts = math.ceil(max(needed, 8 * sizes.rows * sizes.fields) / TASK)
    shuffled = table.by_key(to_read(request).fields, request.by, parts)
    with _folder(out) as folder:
        work = KeyedWork(request, table.schema, folder=folder)
        states = map(pickle.loads, shuffled.reduce(to_read(request).fields, work))
        records, counts = zip(*states, strict=True)
        missing = sum(counts, Counter[str]())
        keys: pl.DataFrame = pl.concat(records).sort(request.keys, nulls_last=True)
        check_groups(keys, missing, request)
    return keys if out is None else keys.unnest("gram")


@contextmanager
def _folder(out: str | Path | None) -> Iterator[Path | None]:
    """Yield a temporary folder, renamed to `out` at the end, or removed if the block fails."""
    if out is None:
        yield None
        return
    target = absolute(out)
    if target.exists():
        raise ArgumentError(
            f"out is '{out}', which exists; the workers write a new folder of Parquet files"
        )
    folder = target.with_name(f".dbselect-{secrets.token_hex(8)}")
    folder.mkdir(parents=True)
    try:
        yield folder
        for stray in folder.glob(".*"):  # left by a killed worker, whose task ran again
            stray.unlink()
        folder.rename(target)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


@dataclass(frozen=True)
class KeyedWork(GramWork):
    """The work of a task that has all rows of its keys: it finishes their records."""

    folder: Path | None = None  # for the records; None returns them

    @property
    def size(self) -> int:
        """Zero, as the states are not merged."""
        return 0

    @contextmanager
    def begin(self) -> Iterator["KeyedSums"]:
        """Begin with empty sums."""
        with GramWork(to_read(self.request), self.schema).begin() as sums:
            yield KeyedSums(sums.request, sums.reader, sums.grouping, self)


@dataclass(frozen=True)
class KeyedSums(GramSums):
    """Partial sums of the keys of a task."""

    work: KeyedWork

    def state(self) -> bytes:
        """Return the records, or only their row counts if written to a file, and missing values."""
        records = self.records()
        keys, missing = counted(records)
        if len(records):
            records = filled_groups(records, self.work.request)
        if self.work.folder is not None:
            _write(records, self.work.folder)
            records = keys
        return pickle.dumps((records, missing))


def _write(records: pl.DataFrame, folder: Path) -> None:
    """Write records to a file named after their keys, which a repeated task overwrites."""
    if records.is_empty():
        return
    keys = io.BytesIO()
    records.select(pl.exclude("gram")).write_ipc(keys)
    name = hashlib.sha256(keys.getvalue()).hexdigest()[:16]
    try:
        with replacing(folder / f"{name}.parquet") as unfinished:
            records.write_parquet(unfinished)
    except OSError as error:
        raise SourceError(
            f"a worker cannot write to the folder of out: {error}; it must be one that all "
            "workers see"
        ) from error


@dataclass(frozen=True)
class Sizes:
    """Estimated sizes of the groups of a table."""

    rows: int
    groups: int  # estimated number of groups
    fields: int  # number of fields read
    width: int  # columns of a record
    state: int  # bytes of the partial sums of a group
    record: int  # bytes of the record of a group

    @property
    def records(self) -> int:
        """Bytes of all records."""
        return self.groups * self.record

    @property
    def groups_in_words(self) -> str:
        """The groups in words, for messages."""
        return f"about {self.groups:,} groups of {self.width} columns"


def sizes_of(table: Table, request: Request) -> Sizes:
    """Estimate the sizes of the groups of a table, in one pass over its keys."""
    rows, keys = rows_and_keys(table, request.by)
    groups = max(keys, 1) * (request.folding.k if request.folding else 1)
    width = request.width
    rows_per_group = rows / groups
    sums = width * (width + 1) // 2 + 2 * width
    if rows_per_group <= (32 if width <= 16 else width / 2):
        state = 8 * min(sums, math.ceil(width * (rows_per_group + 4))) + GROUP
    else:
        state = 8 * (sums + width * min(max(width, 32), 64)) + GROUP
    record = 8 * (sums + 2 * width) + NAME * width + GROUP
    return Sizes(rows, groups, len(request.fields), width, state, record)


def check_room(sizes: Sizes, limit: int) -> None:
    """Refuse records that together take more memory than a limit."""
    if sizes.records > limit:
        records = f"the records of {sizes.groups_in_words} take {in_words(sizes.records)}"
        raise ArgumentError(
            f"{records}, and memory_limit is {in_words(limit)}; give out='grams.parquet', to which "
            "they are written"
        )


def check_width(request: Request) -> None:
    """Refuse a Gram that the memory of this machine cannot hold."""
    needed = 8 * request.width**2
    if needed > _memory():
        raise ArgumentError(
            f"columns are {request.width:,}, whose Gram takes {in_words(needed)}; this machine has "
            f"{in_words(_memory())}: give fewer, or search with gram='lazy', which never holds it"
        )


def _memory() -> float:
    """Return the bytes of memory of this machine; infinite if unknown."""
    if not hasattr(os, "sysconf"):
        return math.inf
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def bytes_of(limit: Any) -> int:
    """Return the bytes of a limit such as ``"4GB"``."""
    match = re.fullmatch(r"\s*(\d+\.?\d*)\s*([KMGT]?)(I?)B?\s*", str(limit), re.IGNORECASE)
    if not match or float(match[1]) == 0:
        raise ArgumentError(f"memory_limit is {limit!r}; it must be bytes, such as '4GB' or 2**32")
    return int(float(match[1]) * (1024 if match[3] else 1000) ** UNITS.index(match[2].upper()))


def in_words(size: float) -> str:
    """Return a number of bytes in words."""
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB"


#: Number of smallest hashes kept: with more keys, the estimate is off by about 2 %.
KEPT = 4096

Hashes: TypeAlias = npt.NDArray[np.uint64]


def key_hash(by: Sequence[str]) -> pl.Expr:
    """Return the hash of a row's key, 0 to 2^64 - 1."""
    return pl.struct(polars_field(name) for name in by).hash()


def keys_of(batch: Any, by: Sequence[str]) -> pl.DataFrame:
    """Return the keys of some rows."""
    keys = batch.select(list(by))
    return keys if isinstance(keys, pl.DataFrame) else pl.DataFrame(wide_decimals(keys))


def rows_and_keys(table: Table, by: Sequence[str]) -> tuple[int, int]:
    """Count the rows, and estimate the distinct keys (Bar-Yossef et al. 2002, algorithm 1)."""
    rows, hashes = KeyCount(tuple(by)).over(table, list(by))
    return rows, estimated_keys(hashes)


def estimated_keys(hashes: Hashes) -> int:
    """Estimate the number of distinct keys from their smallest hashes; exact below `KEPT`."""
    if len(hashes) < KEPT:
        return len(hashes)
    return round((KEPT - 1) / ((float(hashes[-1]) + 1) / 2**64))


@dataclass(frozen=True)
class KeyCount(Summing):
    """The number of rows, and the smallest hashes of their keys."""

    by: tuple[str, ...]

    @property
    def size(self) -> int:
        """Size of a state in bytes."""
        return 8 * KEPT

    def none(self) -> tuple[int, Hashes]:
        """Return the count of no rows."""
        return 0, np.empty(0, np.uint64)

    def of(self, batch: Any) -> Iterable[tuple[int, Hashes]]:
        """Return the count of a batch."""
        keys = keys_of(batch, self.by)
        hashes = keys.select(key_hash(self.by)).to_series().unique()
        return [(keys.height, hashes.bottom_k(KEPT).to_numpy())]

    def added(self, sums: tuple[int, Hashes], more: tuple[int, Hashes]) -> tuple[int, Hashes]:
        """Add two counts."""
        return sums[0] + more[0], np.union1d(sums[1], more[1])[:KEPT]

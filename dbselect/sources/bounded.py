"""Records of many keys within a limit of memory: a part of the keys at a time, by their hash."""

import hashlib
import io
import math
import os
import pickle
import re
import secrets
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from dbselect.errors import ArgumentError, MemoryWarning, SourceError, warn_caller
from dbselect.options.kinds import check_folder
from dbselect.record.writing import replacing
from dbselect.sources.around import Around
from dbselect.sources.engines.formats import PARQUET, format_of_name
from dbselect.sources.partial.gather import KEYS, GramSums, GramWork
from dbselect.sources.partial.key_count import key_hash, keys_of, rows_and_keys
from dbselect.sources.records import (
    check_groups,
    counted,
    filled_groups,
    finished_groups,
    read_records,
    to_read,
)
from dbselect.sources.request import Consumer, Request, Table

#: Powers of 1000, or of 1024 with an i.
UNITS = ("", "K", "M", "G", "T")
#: Bytes that a group takes beside its sums, and one of its columns beside numbers.
GROUP, NAME = 120, 24
#: Share of a limit that is left to the engine: batches in flight, and what is being written.
ENGINE = 0.4
#: Bytes that the groups of a task, or its rows, may take.
TASK = 128 * 10**6
#: Bytes of records that come here if no limit is given: what Spark lets its driver receive.
HERE = 10**9


def records_within(
    table: Table, request: Request, limit: Any, out: str | Path | None
) -> pl.DataFrame:
    """Return the records of a request, within a limit part by part; see `gram_by`."""
    clash = {"rows", "skipped"}.intersection(request.by)
    if out is not None and clash:
        raise ArgumentError(f"by names a column '{clash.pop()}'; rename it, as out= returns one")
    limit = None if limit is None else bytes_of(limit)
    groups = KEYS
    parts: Sequence[Table]
    if request.by and hasattr(table, "by_key"):
        sizes = sizes_of(table, request)
        found = records_by_worker(table, request, sizes, limit, out)
        if found is not None:
            return found
        parts, groups = [table], sizes.groups
    else:
        parts = [table] if limit is None else _parts(table, request, limit, out is not None)
    each = (
        finished_groups(read_records(part, to_read(request), groups), request) for part in parts
    )
    if out is None:
        found = pl.concat([*each])
        return found if len(parts) == 1 else found.sort(request.keys, nulls_last=True)
    check_folder("out", out)
    if format_of_name(str(out)) not in (PARQUET, None):
        raise ArgumentError(f"out is '{out}'; records are written as Parquet")
    import pyarrow.parquet as pq  # which takes long to import

    keys, writer = [], None
    with replacing(out) as unfinished, ExitStack() as files:
        for records in each:
            rows = records.to_arrow(compat_level=pl.CompatLevel.oldest())
            # A copy: slices of what the library made would keep all of its records.
            keys.append(counted(records)[0].unnest("gram").select(pl.all().reverse().reverse()))
            if writer is None:
                writer = files.enter_context(pq.ParquetWriter(unfinished, rows.schema))
            writer.write_table(rows)
            del records, rows
    return pl.concat(keys)


def _parts(table: Table, request: Request, limit: int, has_file: bool) -> Sequence[Table]:
    """Cut a table by the hash of its keys, so that each part takes less than the limit."""
    if not request.by:  # folds are few
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
    told = f"{sizes.groups_in_words} take {in_words(needed)}, and memory_limit is {in_words(limit)}"
    if not request.is_settled:
        raise ArgumentError(
            f"{told}; the columns of null_policy='indicator' depend on all groups, which cannot be "
            "read in parts: use 'mean', or a higher limit"
        )
    warn_caller(f"{told}: the table is read {scans} times, a part of the keys each", MemoryWarning)
    return [OfKeys(table, request.by, part, scans) for part in range(scans)]


class OfKeys(Around):
    """The rows of a part of the keys, by their hash."""

    def __init__(self, table: Table, by: list[str], part: int, parts: int) -> None:
        super().__init__(table, table.schema)
        self.rows = None
        self._by = by
        self._is_ours = key_hash(by) % parts == part

    def scan(self, fields: list[str], consume: Consumer) -> None:
        """Hand the fields of the rows of these keys to `consume`."""

        def consume_ours(batch: Any) -> None:
            ours = keys_of(batch, self._by).select(self._is_ours).to_series()
            consume(batch.filter(ours if isinstance(batch, pl.DataFrame) else ours.to_arrow()))

        self._table.scan(fields, consume_ours)


def records_by_worker(
    table: Any, request: Request, sizes: "Sizes", limit: int | None, out: str | Path | None
) -> pl.DataFrame | None:
    """Return the records of groups that one task could not hold; None if it can."""
    if out is None:
        check_room(sizes, HERE if limit is None else limit)
    held = sizes.groups * sizes.state
    if held <= TASK:
        return None
    if not request.is_settled:
        raise ArgumentError(
            f"the sums of {sizes.groups_in_words} take {in_words(held)}, more than a task holds, "
            "and the columns of null_policy='indicator' depend on all; use 'mean', or fewer groups"
        )
    held += sizes.groups * 2 * sizes.record
    parts = math.ceil(max(held, 8 * sizes.rows * sizes.fields) / TASK)
    shuffled = table.by_key(to_read(request).fields, request.by, parts)
    with _folder(out) as folder:
        work = KeyedWork(request, table.schema, folder=folder)
        found = map(pickle.loads, shuffled.reduce(to_read(request).fields, work))
        records, counts = zip(*found, strict=True)
        missing = sum(counts, Counter[str]())
        keys: pl.DataFrame = pl.concat(records).sort(request.keys, nulls_last=True)
        check_groups(keys, missing, request)
    return keys if out is None else keys.unnest("gram")


@contextmanager
def _folder(out: str | Path | None) -> Iterator[Path | None]:
    """Give a folder that takes its name at the end, or is removed if the block fails."""
    if out is None:
        yield None
        return
    target = Path(out).absolute()
    if target.exists():
        raise ArgumentError(
            f"out is '{out}', which exists; the workers write a new folder of Parquet files"
        )
    folder = target.with_name(f".dbselect-{secrets.token_hex(8)}")
    folder.mkdir(parents=True)
    try:
        yield folder
        for stray in folder.glob(".*"):  # of a worker that was killed, and whose task ran again
            stray.unlink()
        folder.rename(target)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


@dataclass(frozen=True)
class KeyedWork(GramWork):
    """The finished records of the keys of a task, which has all of their rows."""

    folder: Path | None = None  # where they are written; None sends them back

    @property
    def size(self) -> int:
        """No bytes, as nothing is merged."""
        return 0

    @contextmanager
    def begin(self) -> Iterator["KeyedSums"]:
        """Begin without rows."""
        with GramWork(to_read(self.request), self.schema).begin() as sums:
            yield KeyedSums(sums.request, sums.reader, sums.grouping, self)


@dataclass(frozen=True)
class KeyedSums(GramSums):
    """Sums under way of the keys of a task."""

    work: KeyedWork

    def state(self) -> bytes:
        """Return the records, or once they are written their rows; and the missing values."""
        records = self.records()
        keys, missing = counted(records)
        if len(records):
            records = filled_groups(records, self.work.request)
        if self.work.folder is not None:
            _write(records, self.work.folder)
            records = keys
        return pickle.dumps((records, missing))


def _write(records: pl.DataFrame, folder: Path) -> None:
    """Write records to a file named after their keys: a task that runs again writes it again."""
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
    """What the groups of a table take."""

    rows: int
    groups: int  # an estimate
    fields: int  # read of a row
    width: int  # columns of a record
    state: int  # bytes of a group's sums while they are made
    record: int  # bytes of its record

    @property
    def records(self) -> int:
        """Bytes of all records."""
        return self.groups * self.record

    @property
    def groups_in_words(self) -> str:
        """The groups in words."""
        return f"about {self.groups:,} groups of {self.width} columns"


def sizes_of(table: Table, request: Request) -> Sizes:
    """Estimate what the groups of a table take; its keys are read once for it."""
    rows, keys = rows_and_keys(table, request.by)
    groups = max(keys, 1) * (request.folding.k if request.folding else 1)
    width = request.width
    each = rows / groups
    sums = width * (width + 1) // 2 + 2 * width
    if each <= (32 if width <= 16 else width / 2):
        state = 8 * min(sums, math.ceil(width * (each + 4))) + GROUP
    else:
        state = 8 * (sums + width * min(max(width, 32), 64)) + GROUP
    record = 8 * (sums + 2 * width) + NAME * width + GROUP
    return Sizes(rows, groups, len(request.fields), width, state, record)


def check_room(sizes: Sizes, limit: int) -> None:
    """Refuse to hold all records where they take more than a limit."""
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
    """Return the bytes of memory of this machine; infinite where it does not say."""
    if not hasattr(os, "sysconf"):
        return math.inf
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def bytes_of(limit: Any) -> int:
    """Return the bytes of a limit such as ``"4GB"``."""
    found = re.fullmatch(r"\s*(\d+\.?\d*)\s*([KMGT]?)(I?)B?\s*", str(limit), re.IGNORECASE)
    if not found or float(found[1]) == 0:
        raise ArgumentError(f"memory_limit is {limit!r}; it must be bytes, such as '4GB' or 2**32")
    return int(float(found[1]) * (1024 if found[3] else 1000) ** UNITS.index(found[2].upper()))


def in_words(size: float) -> str:
    """Return bytes in words."""
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB"

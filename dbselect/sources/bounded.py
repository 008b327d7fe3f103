"""Records by key within a limit of memory: a part of the keys at a time, by their hash."""

import math
import re
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import polars as pl

from dbselect.errors import ArgumentError, MemoryWarning, warn_caller
from dbselect.record.writing import replacing
from dbselect.sources.engines.polars import LazyTable
from dbselect.sources.request import Request, Table

#: Powers of 1000, or of 1024 with an i.
UNITS = ("", "K", "M", "G", "T")
#: Bytes that a group takes beside its sums, and one of its columns beside numbers.
GROUP, NAME = 120, 24
#: Share of a limit that is left to the engine: batches in flight, and what is being written.
ENGINE = 0.3


def bytes_of(limit: Any) -> int:
    """Return the bytes of a limit such as ``"4GB"``."""
    found = re.fullmatch(r"\s*(\d+\.?\d*)\s*([KMGT]?)(I?)B?\s*", str(limit), re.IGNORECASE)
    if not found or float(found[1]) == 0:
        raise ArgumentError(f"memory_limit is {limit!r}; it must be bytes, such as '4GB' or 2**32")
    return int(float(found[1]) * (1024 if found[3] else 1000) ** UNITS.index(found[2].upper()))


def records_within(
    table: Table,
    request: Request,
    limit: Any,
    out: str | Path | None,
    read: Callable[[Table], pl.DataFrame],
) -> pl.DataFrame:
    """Return what `read` returns of a table, within a limit part by part; see `gram_by`."""
    parts = [table] if limit is None else _parts(table, request, bytes_of(limit), out is not None)
    if out is None:
        found = [read(part) for part in parts]
        return found[0] if len(found) == 1 else pl.concat(found).sort(request.keys, nulls_last=True)
    import pyarrow.parquet as pq  # which takes long to import

    keys, writer = [], None
    counts = [pl.col("gram").struct.field(name) for name in ("rows", "skipped")]
    with replacing(out) as unfinished, ExitStack() as files:
        for records in map(read, parts):
            rows = records.to_arrow(compat_level=pl.CompatLevel.oldest())
            keys.append(records.select(pl.exclude("gram"), *counts))
            if writer is None:
                writer = files.enter_context(pq.ParquetWriter(unfinished, rows.schema))
            writer.write_table(rows)
            del records, rows
    return pl.concat(keys)


def _parts(table: Table, request: Request, limit: int, has_file: bool) -> list[Table]:
    """Cut a table by the hash of its keys, so that each part takes less than the limit."""
    if not (isinstance(table, LazyTable) and request.by and request.is_settled):
        raise ArgumentError(
            "memory_limit is for files and Polars frames with by=, and not for "
            "null_policy='indicator'; in DuckDB sum the keys of one bucket of hash(key) at a time"
        )
    groups = table.count_keys(request.by) * (request.folding.k if request.folding else 1)
    levels = sum(len(category.names) for category in request.terms.categories)
    width = len(request.names) + levels
    rows = (table.rows or math.inf) / max(groups, 1)
    sums = width * (width + 1) // 2 + 2 * width
    if rows <= (32 if width <= 16 else width / 2):
        state = 8 * min(sums, width * (rows + 4)) + GROUP
    else:
        state = 8 * (sums + width * min(max(width, 32), 128)) + GROUP
    record = 8 * (sums + 2 * width) + NAME * width + GROUP
    needed = groups * (min(pl.thread_pool_size(), max(rows, 1)) * state + 2 * record)
    if not has_file and groups * record > limit:
        raise ArgumentError(
            f"the records of {groups:,} groups take {_told(groups * record)}, and memory_limit is "
            f"{_told(limit)}; give out='grams.parquet', to which they are written"
        )
    scans = math.ceil(needed / ((1 - ENGINE) * limit))
    if scans > 1:
        warn_caller(
            f"about {groups:,} groups of {width} columns take {_told(needed)}, and memory_limit is "
            f"{_told(limit)}: the table is read {scans} times, a part of the keys each",
            MemoryWarning,
        )
    return [table] if scans == 1 else [*table.by_hash(request.by, scans)]


def _told(size: float) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB"

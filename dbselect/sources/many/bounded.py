"""Records by key within a limit of memory: a part of the keys at a time, by their hash."""

import math
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import polars as pl

from dbselect.errors import ArgumentError, MemoryWarning, warn_caller
from dbselect.record.writing import replacing
from dbselect.sources.engines.polars import LazyTable
from dbselect.sources.many.by_worker import records_by_worker
from dbselect.sources.many.sizes import bytes_of, check_room, in_words, sizes_of
from dbselect.sources.partial.gather import KEYS
from dbselect.sources.records import counted, finished_groups, read_records, to_read
from dbselect.sources.request import Request, Table

#: Share of a limit that is left to the engine: batches in flight, and what is being written.
ENGINE = 0.3


def records_within(
    table: Table, request: Request, limit: Any, out: str | Path | None
) -> pl.DataFrame:
    """Return the records of a request, within a limit part by part; see `gram_by`."""
    clash = {"rows", "skipped"}.intersection(request.by)
    if out is not None and clash:
        raise ArgumentError(f"by names a column '{clash.pop()}'; rename it, as out= returns one")
    limit = None if limit is None else bytes_of(limit)
    groups = KEYS
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
    import pyarrow.parquet as pq  # which takes long to import

    keys, writer = [], None
    with replacing(out) as unfinished, ExitStack() as files:
        for records in each:
            rows = records.to_arrow(compat_level=pl.CompatLevel.oldest())
            keys.append(counted(records)[0].unnest("gram"))
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
    sizes = sizes_of(table, request)
    if not has_file:
        check_room(sizes, limit)
    threads = min(pl.thread_pool_size(), max(sizes.rows / sizes.groups, 1))
    needed = sizes.groups * (threads * sizes.state + 2 * sizes.record)
    scans = math.ceil(needed / ((1 - ENGINE) * limit))
    if scans > 1:
        warn_caller(
            f"{sizes.groups_in_words} take {in_words(needed)}, and memory_limit is "
            f"{in_words(limit)}: the table is read {scans} times, a part of the keys each",
            MemoryWarning,
        )
    return [table] if scans == 1 else [*table.by_hash(request.by, scans)]

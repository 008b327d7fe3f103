"""Records by key within a limit of memory: a part of the keys at a time, by their hash."""

import math
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import polars as pl

from dbselect.errors import ArgumentError, MemoryWarning, warn_caller
from dbselect.record.writing import replacing
from dbselect.sources.around import Around
from dbselect.sources.many.by_worker import records_by_worker
from dbselect.sources.many.sizes import bytes_of, check_room, in_words, sizes_of
from dbselect.sources.partial.gather import KEYS
from dbselect.sources.partial.key_count import key_hash, keys_of
from dbselect.sources.records import counted, finished_groups, read_records, to_read
from dbselect.sources.request import Consumer, Request, Table

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

"""Records of many keys on a cluster: rows are shuffled by key, and each worker has its keys."""

import hashlib
import io
import math
import pickle
import secrets
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from dbselect.errors import ArgumentError, SourceError
from dbselect.record.writing import replacing
from dbselect.sources.many.sizes import Sizes, check_room, in_words
from dbselect.sources.partial.gather import GramSums, GramWork
from dbselect.sources.records import counted, filled_groups, tell_groups, to_read
from dbselect.sources.request import Request

#: Bytes that the groups of a task, or its rows, may take.
TASK = 128 * 10**6
#: Bytes of records that come here if no limit is given: what Spark lets its driver receive.
HERE = 10**9


def records_by_worker(
    table: Any, request: Request, sizes: Sizes, limit: int | None, out: str | Path | None
) -> pl.DataFrame | None:
    """Return the records of groups that one task could not hold; None if it can hold them.

    The table has ``by_key``; of records that come here, `limit` is the most bytes.
    """
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
        tell_groups(keys, missing, request)
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

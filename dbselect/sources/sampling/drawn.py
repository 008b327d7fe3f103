"""Random draws of rows: how many times each of many records has a row, or one sample in a pass.

A hash of the row's number or key, of the record and of a seed decides, so a draw does not depend
on batches or threads, nor, with a key, on the order of the rows.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from dbselect._arrow import empty_table
from dbselect.errors import ArgumentError
from dbselect.options.kinds import COUNT, one_of
from dbselect.record.columns import leaves
from dbselect.record.gram import Vector
from dbselect.sources.around import Around, without
from dbselect.sources.partial.grouping import folds_of
from dbselect.sources.partial.values import splitmix
from dbselect.sources.progress import progress
from dbselect.sources.request import LIMIT, Folding, Table, check_seed
from dbselect.sources.rows import weights_of

#: How rows are drawn.
DrawName = Literal["poisson", "halves"]
#: Column of the numbers of records, from 0.
RECORD = "record"
#: Column with the number of times a row is drawn, times its weight.
TIMES = "__dbselect_times"
#: Rows drawn at a time: with 50 columns they take 26 MB, and a copy per thread as much.
BLOCK_ROWS = 1 << 16
#: Bits of a hash for one count, and counts per 64-bit hash.
BITS = 16
COUNTS_A_HASH = 64 // BITS

Numbers = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Draws:
    """The number of times each record has a row: Poisson of mean 1, or halves by a fair coin.

    A Poisson number is computed from 16 bits of a hash: its probabilities are multiples of 2^-16,
    and it is at most 8. Halves are records 2 i and 2 i + 1.
    """

    kind: DrawName
    records: int  # number of records
    seed: int  # 0 to 2^63 - 1

    def __post_init__(self) -> None:
        one_of(("poisson", "halves")).check("kind", self.kind)
        COUNT.check("records", self.records)
        check_seed(self.seed)
        if self.kind == "halves" and self.records % 2:
            raise ArgumentError(
                f"records is {self.records}; halves come in pairs: give an even one"
            )

    def begin(self, rows: npt.NDArray[np.int64]) -> Numbers:
        """Hash the numbers or hashed keys of rows with the seed, for `times`."""
        seed = splitmix(np.array([self.seed], dtype=np.uint64))
        return splitmix(rows.view(np.uint64) ^ seed)

    def times(self, begun: Numbers, record: int) -> Vector:
        """Return the number of times a record has each row; shape (n,)."""
        if self.kind == "halves":
            pair, side = divmod(record, 2)
            words = splitmix(begun ^ np.uint64(pair // 64 + 1))
            sides = (words >> np.uint64(pair % 64)) & np.uint64(1)
            return np.asarray(sides == np.uint64(side), dtype=np.float64)
        word, at = divmod(record, COUNTS_A_HASH)
        words = splitmix(begun ^ np.uint64(word + 1))
        low = (words >> np.uint64(BITS * at)) & np.uint64((1 << BITS) - 1)
        return np.asarray(self._counts[low])

    @cached_property
    def _counts(self) -> Vector:
        """Poisson quantiles at the midpoints of 2^16 equal steps of probability."""
        most = 12
        below = np.cumsum([math.exp(-1.0) / math.factorial(count) for count in range(most)])
        middles = (np.arange(1 << BITS) + 0.5) / (1 << BITS)
        return np.searchsorted(below, middles).astype(np.float64)


class DrawnTable(Around):
    """A table that yields the drawn rows of each record, with `TIMES` as their weight."""

    def __init__(
        self,
        table: Table,
        draws: Draws,
        key: str | None,
        weight: str | None,
        hidden: Sequence[str] = (),
    ) -> None:
        self._draws = draws
        self._key = key
        self._weight = weight
        schema = without(table, *hidden).schema
        super().__init__(table, schema.append(pa.field(TIMES, pa.float64())))

    def scan_records(self, fields: list[str], consume: Callable[[int, pa.Table], None]) -> None:
        """Read once; pass the blocks of each record in order, of several records in parallel."""
        deciding = [name for name in (self._key, self._weight) if name is not None]
        read = [name for name in dict.fromkeys([*fields, *deciding]) if name != TIMES]
        records = range(self._draws.records)
        with (
            closing(self._table.batches(read)) as batches,
            progress(self.rows) as bar,
            ThreadPoolExecutor(min(pl.thread_pool_size(), len(records))) as pool,
        ):
            for begun, rows in self._begun(batches):
                weights = np.ones(len(rows))
                if self._weight is not None:
                    weight_rows = rows.select([self._weight]).to_struct_array()
                    weights = weights_of(weight_rows, self._weight)
                draw = partial(self._draw, begun, rows, weights, fields, consume)
                for _ in pool.map(draw, records):
                    pass
                bar.update(len(rows))

    def _draw(
        self,
        begun: Numbers,
        rows: pa.Table,
        weights: Vector,
        fields: list[str],
        consume: Callable[[int, pa.Table], None],
        record: int,
    ) -> None:
        """Pass the drawn rows of a record to `consume`, with `TIMES`."""
        times = self._draws.times(begun, record)
        is_drawn = times > 0
        drawn = rows.filter(pa.array(is_drawn))
        drawn = drawn.append_column(TIMES, pa.array((times * weights)[is_drawn]))
        consume(record, drawn.select(fields))

    def _begun(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Numbers, pa.Table]]:
        """Yield blocks of rows, independent of batches, with hashes of their numbers or keys."""
        start = 0
        for rows in in_blocks(batches):
            numbers = np.arange(start, start + len(rows), dtype=np.int64)
            if self._key is not None:
                numbers = folds_of(rows, Folding(LIMIT - 1, self._key, 0)).to_numpy()
            yield self._draws.begin(numbers), rows
            start += len(rows)


def in_blocks(batches: Iterable[pa.RecordBatch], size: int = BLOCK_ROWS) -> Iterator[pa.Table]:
    """Yield the rows in blocks of `size`, the last one shorter."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        waiting.append(batch)
        count += batch.num_rows
        if count < size:
            continue
        rows = pa.Table.from_batches(waiting)
        whole = count - count % size
        for start in range(0, whole, size):
            yield rows.slice(start, size).combine_chunks()
        waiting, count = rows.slice(whole).to_batches(), count % size
    if count:
        yield pa.Table.from_batches(waiting).combine_chunks()


#: Hashes of rows, and the rows.
_Numbered = tuple[npt.NDArray[np.int64], pa.Table]
#: Field of row numbers, which is hashed.
ROW = "row"


@dataclass(frozen=True)
class Sample:
    """The sampled rows."""

    table: pa.Table  # the rows, in the order of the whole table
    of: int  # rows of the whole table
    bytes_read: int  # of numbers, as Arrow stores them


def sample(table: Table, fields: Sequence[str], rows: int, seed: int) -> Sample:
    """Read a table once and sample rows; at most twice as many are in memory, besides batches."""
    folding = Folding(LIMIT - 1, ROW, seed)
    kept: list[_Numbered] = []
    of = count = 0
    most = LIMIT
    with closing(table.batches(list(fields))) as batches, progress(table.rows) as bar:
        for batch in batches:
            keys = pa.table({ROW: np.arange(of, of + batch.num_rows)})
            numbers = folds_of(keys, folding).to_numpy()
            candidates = np.flatnonzero(numbers < most)
            fields_read = pa.Table.from_batches([batch.select(fields)])
            kept.append((numbers[candidates], fields_read.take(candidates)))
            count += len(candidates)
            if count > 2 * rows:
                kept = [_smallest(kept, rows)]
                count, most = rows, int(kept[0][0].max(initial=0))
            of += batch.num_rows
            bar.update(batch.num_rows)
    numeric = [leaf for leaf in leaves(table.schema) if leaf.field in fields and leaf.is_numeric]
    width = sum(int(leaf.type.bit_width) for leaf in numeric)
    empty = np.empty(0, np.int64), empty_table(table.schema).select(fields)
    return Sample(_smallest(kept or [empty], rows)[1].combine_chunks(), of, of * width // 8)


def _smallest(parts: list[_Numbered], rows: int) -> _Numbered:
    """Return the rows with the smallest hashes, in the order of the table."""
    numbers = np.concatenate([numbers for numbers, _ in parts])
    # Stable: among equal hashes the first rows stay.
    kept = np.sort(np.argsort(numbers, kind="stable")[:rows])
    return numbers[kept], pa.concat_tables([table for _, table in parts]).take(kept)

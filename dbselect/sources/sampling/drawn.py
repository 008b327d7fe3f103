"""A table whose rows are drawn again and again: which record has a row, and how many times.

A hash of the row's number or key, of the record and of a seed decides, so a draw does not depend
on batches or threads, and with a key not on the order of the rows either.
"""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dbselect.errors import ArgumentError
from dbselect.options.kinds import COUNT, one_of
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
#: Column of how often a row is drawn, times its weight.
TIMES = "__dbselect_times"
#: Rows that are drawn together: of 50 columns they and a thread's copy have 26 MB each.
BLOCK_ROWS = 1 << 16
#: Bits of a hash that draw one count, and how many counts a hash of 64 bits has.
BITS = 16
COUNTS_A_HASH = 64 // BITS

Numbers = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Draws:
    """How often each row is in each record: a Poisson number of mean 1, or halves by a fair coin.

    A number is read off 16 bits of a hash: its probabilities are multiples of 2^-16, and none is
    above 8. Halves are records 2 i and 2 i + 1.
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
        """Return what `times` takes, of the numbers or hashed keys of some rows."""
        seed = splitmix(np.array([self.seed], dtype=np.uint64))
        return splitmix(rows.view(np.uint64) ^ seed)

    def times(self, begun: Numbers, record: int) -> Vector:
        """Return how often each row is in a record; shape (n,)."""
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
        """The Poisson number at each of 2^16 equal steps of probability."""
        most = 12
        below = np.cumsum([math.exp(-1.0) / math.factorial(count) for count in range(most)])
        middles = (np.arange(1 << BITS) + 0.5) / (1 << BITS)
        return np.searchsorted(below, middles).astype(np.float64)


class DrawnTable(Around):
    """A table, and the rows of each record with `TIMES`, which a Gram takes for the weight."""

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
        seen = without(table, *hidden).schema
        super().__init__(table, seen.append(pa.field(TIMES, pa.float64())))

    def each(self, fields: list[str], consume: Callable[[int, pa.Table], None]) -> None:
        """Read once, and hand over the blocks of each record in turn, of several side by side."""
        deciding = [name for name in (self._key, self._weight) if name is not None]
        read = [name for name in dict.fromkeys([*fields, *deciding]) if name != TIMES]
        records = range(self._draws.records)
        with (
            closing(self._table.batches(read)) as batches,
            progress(self.rows) as bar,
            ThreadPoolExecutor(min(os.cpu_count() or 1, len(records))) as pool,
        ):
            for begun, rows in self._begun(batches):
                weights = np.ones(len(rows))
                if self._weight is not None:
                    own = rows.select([self._weight]).to_struct_array()
                    weights = weights_of(own, self._weight)
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
        """Hand the rows of a record over, with how often they are drawn, times their weights."""
        times = self._draws.times(begun, record)
        there = times > 0
        found = rows.filter(pa.array(there))
        found = found.append_column(TIMES, pa.array((times * weights)[there]))
        consume(record, found.select(fields))

    def _begun(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Numbers, pa.Table]]:
        """Give blocks of rows, however they come, with the hashes of their numbers or keys."""
        start = 0
        for rows in in_blocks(batches):
            numbers = np.arange(start, start + len(rows), dtype=np.int64)
            if self._key is not None:
                numbers = folds_of(rows, Folding(LIMIT - 1, self._key, 0)).to_numpy()
            yield self._draws.begin(numbers), rows
            start += len(rows)


def in_blocks(batches: Iterable[pa.RecordBatch], size: int = BLOCK_ROWS) -> Iterator[pa.Table]:
    """Give the same rows in blocks of so many, the last one shorter."""
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

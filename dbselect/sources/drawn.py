"""A table whose rows are drawn again and again: which record has a row, and how many times.

What decides is a hash of the row's number in the table, or of a key, of the record and of a
seed; nothing is kept from one row to the next. So a draw does not depend on batches or threads,
and with a key not on the order of the rows either.
"""

import math
import os
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dbselect.errors import ArgumentError
from dbselect.record.checks import check_choice, check_whole
from dbselect.record.gram import Vector
from dbselect.sources.grouping import folds_of
from dbselect.sources.request import LIMIT, Consumer, Folding, Table, check_seed
from dbselect.sources.values import splitmix

#: How rows are drawn.
DrawName = Literal["poisson", "halves"]
#: Column of the numbers of records, from 0.
RECORD = "record"
#: Column of how often a row is drawn, times its weight.
TIMES = "__dbselect_times"
#: Rows that are drawn together: they and their copies fit the caches of a core or two.
BLOCK_ROWS = 1 << 15
#: Bits of a hash that draw one count, and how many counts a hash of 64 bits has.
BITS = 16
COUNTS_A_HASH = 64 // BITS

Numbers = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Draws:
    """How often each row is in each record.

    Parameters
    ----------
    kind : ``"poisson"``, a Poisson number of mean 1, by itself for each row and record; or
        ``"halves"``: of the records 2 i and 2 i + 1 a fair coin says in which one a row is
    records : number of records
    seed : 0 to 2^63 - 1

    Raises
    ------
    ArgumentError : another kind, no whole number of records or an odd one of halves, or no seed

    Notes
    -----
    A Poisson number is read off 16 bits of a hash, so that its probabilities are multiples of
    2^-16; none is above 8.
    """

    kind: DrawName
    records: int
    seed: int

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, ("poisson", "halves"))
        check_whole("records", self.records)
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

    @property
    def share(self) -> float:
        """The share of the rows that a record has at least once."""
        return 0.5 if self.kind == "halves" else 1.0 - float(np.exp(-1.0))

    @cached_property
    def _counts(self) -> Vector:
        """The Poisson number at each of 2^16 equal steps of probability."""
        most = 12
        below = np.cumsum([math.exp(-1.0) / math.factorial(count) for count in range(most)])
        middles = (np.arange(1 << BITS) + 0.5) / (1 << BITS)
        return np.searchsorted(below, middles).astype(np.float64)


class DrawnTable:
    """The rows of a table, those of each record after each other, with how often they are there.

    Beside the fields of the table it has `RECORD`, and `TIMES`, which a Gram takes for the
    weight.

    Parameters
    ----------
    table : read in its order
    draws : which rows are drawn
    key : field whose values decide in the place of the row's number
    weight : column of row weights, which the draws multiply
    """

    def __init__(self, table: Table, draws: Draws, key: str | None, weight: str | None) -> None:
        self._table = table
        self._draws = draws
        self._key = key
        self._weight = weight
        self.schema = table.schema.append(pa.field(RECORD, pa.int64())).append(
            pa.field(TIMES, pa.float64())
        )
        self.again = table.again
        rows = table.rows
        self.rows = None if rows is None else round(rows * draws.records * draws.share)

    def scan(self, fields: list[str], consume: Consumer) -> None:
        """Hand the rows over, each record's on one of several threads; plain ones just once."""
        if RECORD not in fields and TIMES not in fields:
            self._table.scan(fields, consume)
            return
        wanted = [name for name in fields if name not in (RECORD, TIMES)]
        decide = [name for name in (self._key, self._weight) if name is not None]
        with (
            closing(self._table.batches(list(dict.fromkeys([*wanted, *decide])))) as batches,
            ThreadPoolExecutor(os.cpu_count() or 1) as pool,
        ):
            for begun, rows in self._begun(batches):

                def draw(record: int, begun: Numbers = begun, rows: pa.Table = rows) -> None:
                    consume(self._drawn(rows, begun, record).select(fields))

                for _ in pool.map(draw, range(self._draws.records)):
                    pass

    def batches(self, fields: list[str]) -> Generator[pa.RecordBatch]:
        """Give the rows of the table itself, in its order."""
        yield from self._table.batches(fields)

    def _begun(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Numbers, pa.Table]]:
        """Give blocks of rows, however they come, with the hashes of their numbers or keys."""
        start = 0
        for rows in in_blocks(batches):
            numbers = np.arange(start, start + len(rows), dtype=np.int64)
            if self._key is not None:
                numbers = folds_of(rows, Folding(LIMIT - 1, self._key, 0), []).to_numpy()
            yield self._draws.begin(numbers), rows
            start += len(rows)

    def _drawn(self, rows: pa.Table, begun: Numbers, record: int) -> pa.Table:
        """Return the rows of a record."""
        times = self._draws.times(begun, record)
        there = np.flatnonzero(times)
        found = rows.take(there)
        counts = pa.array(times[there])
        if self._weight is not None:
            counts = pc.multiply(pc.cast(found[self._weight], pa.float64(), safe=False), counts)
        numbers = pa.array(np.full(len(there), record, dtype=np.int64))
        return found.append_column(RECORD, numbers).append_column(TIMES, counts)


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

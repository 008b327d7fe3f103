"""Some rows of a table, chosen by a seeded hash in one pass.

Every row has a number, hashed from its position in the table; the rows with the smallest
numbers are the sample. So it has at most the requested number of rows, however long the table,
and the same ones for the same seed on every engine that gives the rows in the same order.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dbselect.record.columns import leaves
from dbselect.sources.partial.grouping import folds_of
from dbselect.sources.progress import progress
from dbselect.sources.request import LIMIT, Folding, Table

#: Field of row numbers, which is hashed.
ROW = "row"


@dataclass(frozen=True)
class Sample:
    """The rows chosen."""

    table: pa.Table  # their fields, in the order of the table
    of: int  # rows of the whole table
    bytes_read: int  # of numbers, as Arrow holds them


def sample(table: Table, fields: Sequence[str], rows: int, seed: int) -> Sample:
    """Read a table once and keep some of its rows, by a hash of where each stands.

    O(n) time; at most twice `rows` rows are in memory, and the batches in flight.
    """
    folding = Folding(LIMIT - 1, ROW, seed)
    kept = _Smallest(rows, table.schema.empty_table().select(fields))
    of = 0
    with closing(table.batches(list(fields))) as batches, progress(table.rows) as bar:
        for batch in batches:
            keys = pa.record_batch({ROW: pa.array(np.arange(of, of + batch.num_rows))})
            numbers = folds_of(pa.Table.from_batches([keys]), folding, [])
            kept.add(numbers.to_numpy(), pa.Table.from_batches([batch.select(fields)]))
            of += batch.num_rows
            bar.update(batch.num_rows)
    numeric = [leaf for leaf in leaves(table.schema) if leaf.field in fields and leaf.is_numeric]
    width = sum(int(leaf.type.bit_width) for leaf in numeric)
    return Sample(kept.table(), of, of * width // 8)


class _Smallest:
    """The rows with the smallest numbers among those added."""

    def __init__(self, rows: int, empty: pa.Table) -> None:
        self._rows = rows
        self._empty = empty
        self._tables: list[pa.Table] = []
        self._numbers: list[npt.NDArray[np.int64]] = []
        self._count = 0
        self._limit = LIMIT

    def add(self, numbers: npt.NDArray[np.int64], table: pa.Table) -> None:
        """Take the rows in that may be among the smallest."""
        enter = np.flatnonzero(numbers < self._limit)
        self._numbers.append(numbers[enter])
        self._tables.append(table.take(enter))
        self._count += len(enter)
        if self._count > 2 * self._rows:
            self._cut()

    def _cut(self) -> None:
        numbers = np.concatenate([np.empty(0, np.int64), *self._numbers])
        table = pa.concat_tables(self._tables) if self._tables else self._empty
        if len(numbers) > self._rows:
            # Stable: of equal keys the first rows stay.
            kept = np.sort(np.argsort(numbers, kind="stable")[: self._rows])
            numbers, table = numbers[kept], table.take(kept)
            self._limit = int(numbers.max())
        self._numbers, self._tables, self._count = [numbers], [table], len(numbers)

    def table(self) -> pa.Table:
        """Return the rows, in the order in which they came."""
        self._cut()
        return self._tables[0].combine_chunks()

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
from dbselect.sources.open import progress
from dbselect.sources.partial.grouping import folds_of
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
    numbers: list[npt.NDArray[np.int64]] = []
    tables: list[pa.Table] = []
    of, limit = 0, LIMIT
    with closing(table.batches(list(fields))) as batches, progress(table.rows) as bar:
        for batch in batches:
            keys = pa.table({ROW: np.arange(of, of + batch.num_rows)})
            own = folds_of(keys, folding, []).to_numpy()
            enter = np.flatnonzero(own < limit)
            numbers.append(own[enter])
            tables.append(pa.Table.from_batches([batch.select(fields)]).take(enter))
            if sum(map(len, numbers)) > 2 * rows:
                own, found = _smallest(numbers, tables, rows)
                numbers, tables, limit = [own], [found], int(own.max())
            of += batch.num_rows
            bar.update(batch.num_rows)
    found = table.schema.empty_table().select(fields)
    if tables:
        _, found = _smallest(numbers, tables, rows)
    numeric = [leaf for leaf in leaves(table.schema) if leaf.field in fields and leaf.is_numeric]
    width = sum(int(leaf.type.bit_width) for leaf in numeric)
    return Sample(found.combine_chunks(), of, of * width // 8)


def _smallest(
    numbers: Sequence[npt.NDArray[np.int64]], tables: Sequence[pa.Table], rows: int
) -> tuple[npt.NDArray[np.int64], pa.Table]:
    """Return the rows with the smallest numbers, in their order; of equal ones the first."""
    all_, table = np.concatenate(numbers), pa.concat_tables(tables)
    if len(all_) <= rows:
        return all_, table
    kept = np.sort(np.argsort(all_, kind="stable")[:rows])
    return all_[kept], table.take(kept)

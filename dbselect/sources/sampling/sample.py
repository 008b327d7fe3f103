"""A random sample of rows in one pass: the rows with the smallest hashes of their positions.

For a seed it is the same on every engine that returns the rows in the same order.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dbselect._arrow import empty_table
from dbselect.record.columns import leaves
from dbselect.sources.partial.grouping import folds_of
from dbselect.sources.progress import progress
from dbselect.sources.request import LIMIT, Folding, Table

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

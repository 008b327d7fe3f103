"""Greedy selection of rows that need not fit in memory, by the compiled library.

`native/src/search/design/greedy.rs` has the algorithm, and when rows need not be read again.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from dbselect._native import RowDesign
from dbselect.linear.problem import Index
from dbselect.record.gram import Matrix, Vector

#: A block of rows: their numbers, the rows, shape (m, d), and their keys, if they have any.
Block = tuple[Index, Matrix, pa.Array | None]


def lazy_greedy(
    design: RowDesign, read: Callable[[], Iterable[Block]], k: int
) -> tuple[list[int], list[Any], Vector]:
    """Take k rows by the largest gain, ties to the lowest number; return rows, keys and gains.

    `read` is called up to k times if memory is short; SourceError if it gives other rows then.
    """
    rows: list[int] = []
    names: list[Any] = []
    gains = np.empty(k)
    near_keys: list[tuple[Index, pa.Array]] = []
    for step in range(k):
        best = design.best()
        if best is None:
            near_keys = []
            for numbers, X, keys in read():
                near = design.read(numbers, X)
                if keys is not None:
                    near_keys.append((numbers[near], keys.filter(pa.array(near))))
            best = design.best_read()
        row, gains[step] = best
        rows.append(row)
        names.append(_key(near_keys, row))
    return rows, names, gains


def _key(near_keys: list[tuple[Index, pa.Array]], row: int) -> Any:
    for numbers, keys in near_keys:
        at = int(np.searchsorted(numbers, row))
        if at < len(numbers) and numbers[at] == row:
            return keys[at].as_py()
    return None

"""The best row, again and again, of more rows than fit in memory, by the compiled library.

`native/src/search/design/greedy.rs` has the algorithm: bounds on the gains prove which rows need
no look, and while the best one is proven to be among those in memory, no reading is needed.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from dbselect._native import RowDesign
from dbselect.linear.problem import Index
from dbselect.record.gram import Matrix, Vector

#: A run of rows: their numbers, shape (m, d), and what the rows are called, if they are.
Block = tuple[Index, Matrix, pa.Array | None]


def lazy_greedy(
    design: RowDesign, read: Callable[[], Iterable[Block]], k: int
) -> tuple[list[int], list[Any], Vector]:
    """Take k rows one by one, each with the largest gain; ties go to the lowest number.

    `read` gives all rows, by increasing number; it is called once if they fit in memory, else up to
    k times, and SourceError is raised if another reading gave other rows. Returns the rows and
    their keys, in order, and their gains.
    """
    rows: list[int] = []
    names: list[Any] = []
    gains = np.empty(k)
    held: list[tuple[Index, pa.Array]] = []
    for step in range(k):
        found = design.best()
        if found is None:
            held = []
            for numbers, X, keys in read():
                near = design.read(numbers, X)
                if keys is not None:
                    held.append((numbers[near], keys.filter(pa.array(near))))
            found = design.best_read()
        row, gains[step] = found
        rows.append(row)
        names.append(_key(held, row))
    return rows, names, gains


def _key(held: list[tuple[Index, pa.Array]], row: int) -> Any:
    for numbers, keys in held:
        at = int(np.searchsorted(numbers, row))
        if at < len(numbers) and numbers[at] == row:
            return keys[at].as_py()
    return None

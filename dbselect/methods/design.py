"""Bayesian A-optimal designs: choose rows to observe."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Unpack

import numpy as np
import pyarrow as pa

from dbselect._native import RowDesign
from dbselect.errors import ArgumentError, SourceError
from dbselect.linear.problem import Index
from dbselect.objectives.a_optimal import AOptimal
from dbselect.options.kinds import COUNT
from dbselect.options.option import checked_options, shows
from dbselect.record.gram import Matrix, Vector
from dbselect.results.design import Design
from dbselect.selection.dash import DashSettings, best_guess
from dbselect.sources.rows import TableRows
from dbselect.sources.types import TableSource
from dbselect.spec.options import DesignOptions

#: A block of rows: their numbers, the rows, shape (m, d), and their keys, if they have any.
Block = tuple[Index, Matrix, pa.Array | None]


def lazy_greedy(
    design: RowDesign, read: Callable[[], Iterable[Block]], k: int
) -> tuple[list[int], list[Any], Vector]:
    """Take k rows by the largest gain, ties to the lowest number; return rows, keys and gains.

    `native/src/search/design/greedy.rs` has the algorithm, and when rows need not be read again:
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


#: Lines of the docstring for the positional parameters.
FIRST = (
    "source : as in `dbselect.gram`; each row is a candidate",
    "columns : names and globs, nested fields by the name of the field; None: every numeric "
    "column but the key. Numbers are taken as they are, not centred",
    "k : >= 1, rows to choose; no row is chosen twice",
)
#: Bytes per stored row: per column a number and its two products, and per row.
COLUMN_BYTES, ROW_BYTES = 24, 64
#: Bytes per block of numbers, which fits into the caches.
BLOCK_BYTES = 2**22


@shows(DesignOptions, first=FIRST)
def a_optimal(
    source: TableSource,
    columns: Sequence[str] | None,
    k: int,
    **options: Unpack[DesignOptions],
) -> Design:
    """Choose k rows to observe that minimise the variance of a linear model's coefficients.

    Coefficients have the prior N(0, I / beta2), and the response of row x is x'theta plus
    noise of variance sigma2. The objective is Tr(Lambda^-1) - Tr(P), Lambda = beta2 I and
    P = (Lambda + X_S' X_S / sigma2)^-1 the posterior covariance: the decrease of the summed
    variance of the coefficients by observing the rows S.

    Returns
    -------
    Design of k rows; ties go to the lowest row number, within 1e-12 of the gain

    Raises
    ------
    ArgumentError : an argument out of range; k above the number of candidates
    ColumnError : a column is unknown, named twice or not numeric
    DataError : an infinite value, or one above 1e60
    SourceError : there is no such table; more candidates than `memory_limit` holds from a
        source that can be read only once, or that changes between reads

    Notes
    -----
    Time O(n d^2) to read, then O(n d) per step at most: bounds exclude rows that cannot be
    best, so that the result is the same as with all gains computed. With more candidates than
    `memory_limit` holds, the source is read again whenever the bounds do not prove that the best
    row is in memory, at most k times; it must return its rows in the same order each time.
    Parquet is read fastest. Memory is that of the candidates in memory and of the blocks
    being read.

    References
    ----------
    Qian, Singer (2019), corollary 9, appendix D.

    Examples
    --------
    >>> import dbselect as ds
    >>> import numpy as np
    >>> rows = np.array([[1.0, 0.0], [3.0, 0.0], [0.0, 2.0]])
    >>> design = ds.a_optimal(rows, ["a", "b"], 2)
    >>> design.rows.tolist(), design.value.round(6).tolist()
    ([1, 2], [0.9, 1.7])
    """
    checked = checked_options(DesignOptions, "a_optimal", options)
    COUNT.check("k", k)
    key, method, memory_limit = checked["key"], checked["method"], checked["memory_limit"]
    beta2, sigma2 = checked["beta2"], checked["sigma2"]
    rows = TableRows(source, columns, key, checked["scale_rows"])
    rows.warn_of_left_out()
    width = len(rows.names)
    capacity = max(2, int(memory_limit) // (COLUMN_BYTES * width + ROW_BYTES))

    has_enough = False

    def read() -> Iterator[Block]:
        nonlocal has_enough
        count = 0
        for block in rows.blocks(max(1, BLOCK_BYTES // (8 * width))):
            count += len(block[0])
            if count > capacity and (method == "dash" or not rows.again):
                why = "method 'dash' holds all" if rows.again else "this source is read once only"
                raise SourceError(
                    f"more than {capacity} rows do not fit into memory_limit {memory_limit}, and "
                    f"{why}; raise the limit{'' if rows.again else ' or write it to Parquet'}"
                )
            yield block
        if count < k and not has_enough:
            left_out = f"; {rows.skipped} rows with NULL or NaN are none" if rows.skipped else ""
            raise ArgumentError(f"k is {k}; there are {count} candidates{left_out}")
        has_enough = True

    with RowDesign(width, beta2, sigma2, capacity) as search:
        if method == "greedy":
            chosen, keys, gain = lazy_greedy(search, read, k)
        else:
            chosen, keys, gain = _sampled(search, list(read()), k, checked)
        covariance = search.covariance()
    return Design(
        columns=rows.names,
        rows=np.array(chosen),
        keys=None if key is None else keys,
        gain=gain,
        value=np.cumsum(gain),
        covariance=covariance,
        skipped=rows.skipped,
    )


def _sampled(
    search: RowDesign, blocks: list[Block], k: int, options: DesignOptions
) -> tuple[list[int], list[Any], Vector]:
    """Choose by DASH; the gains are of single rows, in the order of selection."""
    X = np.concatenate([X for _, X, _ in blocks])
    rows = AOptimal(X, options["beta2"], options["sigma2"])
    chosen = best_guess(rows, DashSettings(k, seed=options["seed"])).objective.held
    numbers = np.concatenate([numbers for numbers, _, _ in blocks])
    keys = [key for _, _, block_keys in blocks if block_keys is not None for key in block_keys]
    gain = np.array([search.take(X[i]) for i in chosen])
    return numbers[chosen].tolist(), [keys[i].as_py() for i in chosen if keys], gain

"""Which rows to observe: Bayesian A-optimal designs."""

from collections.abc import Iterator, Sequence
from typing import Any, Unpack

import numpy as np

from dbselect._native import RowDesign
from dbselect.errors import ArgumentError, SourceError
from dbselect.objectives.a_optimal import AOptimal
from dbselect.options.kinds import COUNT
from dbselect.options.option import checked_options, shows
from dbselect.record.gram import Vector
from dbselect.results.design import Design
from dbselect.selection.dash import DashSettings, best_guess
from dbselect.selection.lazy_greedy import Block, lazy_greedy
from dbselect.sources.rows import TableRows
from dbselect.sources.types import TableSource
from dbselect.spec.options import DesignOptions

#: Lines of the docstring for what has no option.
FIRST = (
    "source : as in `dbselect.gram`; each row is a candidate",
    "columns : names and globs, nested fields by the name of the field; None: every numeric "
    "column but the key. Numbers are taken as they are, not centred",
    "k : >= 1, rows to choose; no row is chosen twice",
)
#: Bytes a row held: the numbers and their two products, and what goes with a row.
COLUMN_BYTES, ROW_BYTES = 24, 64
#: Bytes of the numbers read at a time: they stay in the caches while a product runs.
BLOCK_BYTES = 2**22


@shows(DesignOptions, first=FIRST)
def a_optimal(
    source: TableSource,
    columns: Sequence[str] | None,
    k: int,
    **options: Unpack[DesignOptions],
) -> Design:
    """Choose k rows to observe so that a linear model's coefficients are known best.

    Coefficients have the prior N(0, I / beta2), and each row x is answered by x'theta plus
    noise of variance sigma2. Maximised is Tr(Lambda^-1) - Tr(P), Lambda = beta2 I and
    P = (Lambda + X_S' X_S / sigma2)^-1 the posterior covariance: by how much observing the
    rows S lowers the summed variance of the coefficients.

    Returns
    -------
    Design of k rows; ties go to the lowest row number, within 1e-12 of the gain

    Raises
    ------
    ArgumentError : an argument out of range; k above the number of candidates
    ColumnError : a column is unknown, named twice or not numeric
    DataError : an infinite value, or one above 1e60
    SourceError : there is no such table; more candidates than `memory_limit` holds from a
        source that can be read once only, or that changes from one reading to the next

    Notes
    -----
    Time O(n d^2) to read, then O(n d) a step at most: bounds leave out rows that cannot be
    best, so that the result is that of computing every gain. Candidates above
    `memory_limit` cost a reading whenever the bounds do not prove that the best row is among
    those held, at most k in all; the source must give its rows in the same order each time,
    and Parquet is read fastest. Memory is that of the candidates held and of the blocks
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
    known = checked_options(DesignOptions, "a_optimal", options)
    COUNT.check("k", k)
    key, method, memory_limit = known["key"], known["method"], known["memory_limit"]
    beta2, sigma2 = known["beta2"], known["sigma2"]
    rows = TableRows(source, columns, key, known["scale_rows"])
    rows.tell_left_out()
    width = len(rows.names)
    capacity = max(2, int(memory_limit) // (COLUMN_BYTES * width + ROW_BYTES))

    enough = False

    def read() -> Iterator[Block]:
        nonlocal enough
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
        if count < k and not enough:
            left_out = f"; {rows.skipped} rows with NULL or NaN are none" if rows.skipped else ""
            raise ArgumentError(f"k is {k}; there are {count} candidates{left_out}")
        enough = True

    with RowDesign(width, beta2, sigma2, capacity) as search:
        if method == "greedy":
            chosen, keys, gain = lazy_greedy(search, read, k)
        else:
            chosen, keys, gain = _sampled(search, list(read()), k, known)
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
    search: RowDesign, blocks: list[Block], k: int, known: DesignOptions
) -> tuple[list[int], list[Any], Vector]:
    """Choose by DASH; gains are those of the rows one by one, in the order taken."""
    X = np.concatenate([X for _, X, _ in blocks])
    rows = AOptimal(X, known["beta2"], known["sigma2"])
    held = best_guess(rows, DashSettings(k, seed=known["seed"])).objective.held
    numbers = np.concatenate([numbers for numbers, _, _ in blocks])
    keys = [key for _, _, own in blocks if own is not None for key in own]
    gain = np.array([search.take(X[at]) for at in held])
    return numbers[held].tolist(), [keys[at].as_py() for at in held if keys], gain

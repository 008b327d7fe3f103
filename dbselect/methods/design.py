"""Which rows to observe: Bayesian A-optimal designs."""

import numbers
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import numpy.typing as npt
import polars as pl

from dbselect.errors import ArgumentError, SourceError
from dbselect.methods.dash import DashOptions
from dbselect.methods.options import Options
from dbselect.objectives.a_optimal import AOptimal, ChosenRows, Posterior
from dbselect.pages.glance import Glance, InNotebooks
from dbselect.record.checks import check_choice, check_whole, is_whole
from dbselect.record.gram import Matrix, Vector
from dbselect.selection.candidates import Block, Pick
from dbselect.selection.dash import best_guess
from dbselect.selection.lazy_greedy import lazy_greedy
from dbselect.sources.rows import TableRows, usable
from dbselect.sources.types import TableSource

#: How rows are chosen, by the name that users give.
MethodName = Literal["greedy", "dash"]
#: Bytes a row held: the numbers and their two products, and what goes with a row.
COLUMN_BYTES, ROW_BYTES = 24, 64
#: Bytes of the numbers read at a time: they stay in the caches while a product runs.
BLOCK_BYTES = 2**22
#: beta2 and sigma2 lie between this and one over it, so that no gain overflows.
SMALLEST = 1e-60

Index = npt.NDArray[np.intp]


@dataclass(frozen=True, kw_only=True)
class DesignOptions(Options):
    """Options of `a_optimal`; its ``method`` stands beside them, the name is taken here."""

    method: ClassVar[str] = "a_optimal"

    k: int
    beta2: float = 1.0
    sigma2: float = 1.0
    scale_rows: bool = False
    seed: int = 0
    memory_limit: int = 2**30

    def __post_init__(self) -> None:
        if isinstance(self.k, bool):
            raise ArgumentError(f"k is {self.k!r}; it must be a whole number >= 1")
        check_whole("k", self.k)
        for name, value in (("beta2", self.beta2), ("sigma2", self.sigma2)):
            if not (isinstance(value, numbers.Real) and SMALLEST <= float(value) <= 1 / SMALLEST):
                raise ArgumentError(
                    f"{name} is {value!r}; it must be a number > 0, from {SMALLEST:g} to "
                    f"{1 / SMALLEST:g}"
                )
        if not isinstance(self.scale_rows, bool | np.bool_):
            raise ArgumentError(f"scale_rows is {self.scale_rows!r}; it must be True or False")
        check_whole("seed", self.seed, 0)
        limit = self.memory_limit
        if not (is_whole(limit) and int(limit) > 0):
            raise ArgumentError(f"memory_limit is {limit!r}; it must be a number of bytes > 0")


@dataclass(frozen=True, eq=False)
class Design(InNotebooks):
    """TableRows in the order in which observing them shrinks the posterior variance.

    Parameters
    ----------
    columns : d columns
    rows : shape (k,), row numbers, counted from 0 in the order that the source gives
    keys : k values of the key column; None if no key was asked for
    gain : shape (k,), what each row added to the value
    value : shape (k,), Tr(Lambda^-1) - Tr(P) after each row
    covariance : shape (d, d), posterior covariance P after all k rows
    skipped : rows that were no candidates, for a NULL or NaN

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"id": ["p", "q", "r"], "a": [2, 0, 1], "b": [0, 1, 1]})
    >>> design = ds.a_optimal(table, ["a", "b"], 2, key="id")
    >>> design.keys, design.value.round(3).tolist(), design.covariance.round(3).tolist()
    (['p', 'q'], [0.8, 1.3], [[0.2, 0.0], [0.0, 0.5]])
    """

    columns: list[str]
    rows: Index
    keys: list[Any] | None
    gain: Vector
    value: Vector
    covariance: Matrix
    skipped: int

    def __repr__(self) -> str:
        return (
            f"Design({len(self.rows)} rows, {len(self.columns)} columns, "
            f"value {self.value[-1]:.4g}; {self.skipped} rows skipped)"
        )

    @property
    def _glance(self) -> Glance:
        words = "value against the rows chosen"
        return Glance(self.steps, (self.steps["step"], self.value, words))

    @cached_property
    def steps(self) -> pl.DataFrame:
        """One row a step: step, row, key if there is one, gain, value."""
        key = {} if self.keys is None else {"key": self.keys}
        step = np.arange(1, len(self.rows) + 1)
        return pl.DataFrame(
            {"step": step, "row": self.rows, **key, "gain": self.gain, "value": self.value}
        )


def a_optimal(
    source: TableSource,
    columns: Sequence[str] | None,
    k: int,
    *,
    key: str | None = None,
    beta2: float = DesignOptions.beta2,
    sigma2: float = DesignOptions.sigma2,
    method: MethodName = "greedy",
    scale_rows: bool = DesignOptions.scale_rows,
    seed: int = DesignOptions.seed,
    memory_limit: int = DesignOptions.memory_limit,
) -> Design:
    """Choose k rows to observe so that a linear model's coefficients are known best.

    Coefficients have the prior N(0, I / beta2), and each row x is answered by x'theta plus
    noise of variance sigma2. Maximised is Tr(Lambda^-1) - Tr(P), Lambda = beta2 I and
    P = (Lambda + X_S' X_S / sigma2)^-1 the posterior covariance: by how much observing the
    rows S lowers the summed variance of the coefficients.

    Parameters
    ----------
    source : as in `dbselect.gram`; each row is a candidate
    columns : names and globs, nested fields by the name of the field; None: every numeric
        or boolean column but the key. Numbers are taken as they are, not centred
    k : >= 1, rows to choose; no row is chosen twice
    key : column whose values name the rows in the result
    beta2 : > 0, prior precision of each coefficient
    sigma2 : > 0, variance of the noise
    method : ``"greedy"``, the row of the largest gain at each step, or ``"dash"``, random
        sets of good rows in few adaptive rounds, all candidates in memory (`dash`)
    scale_rows : whether each row is scaled to norm 1; a row of zeros stays one
    seed : of the random sets of ``"dash"``
    memory_limit : bytes for candidates, 24 d + 64 each; more are read again at some steps

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
    `memory_limit` cost a reading whenever the bounds cannot tell that the best row is among
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
    check_choice("method", method, get_args(MethodName))
    DesignOptions(
        k=k, beta2=beta2, sigma2=sigma2, scale_rows=scale_rows, seed=seed,
        memory_limit=memory_limit,
    )  # fmt: skip
    rows = TableRows(source, columns, key, scale_rows)
    rows.tell_left_out()
    width = len(rows.names)
    capacity = max(2, int(memory_limit) // (COLUMN_BYTES * width + ROW_BYTES))

    enough = False

    def read() -> Iterator[Block]:
        nonlocal enough
        count = 0
        for block in rows.blocks(_block_rows(width)):
            count += len(block[0])
            if count > capacity and (method == "dash" or not rows.again):
                why = "method 'dash' holds all" if rows.again else "this source is read once only"
                raise SourceError(
                    f"more than {capacity} rows do not fit into memory_limit {memory_limit}, and "
                    f"{why}; raise the limit{'' if rows.again else ' or write it to Parquet'}"
                )
            yield Block(*block)
        if count < k and not enough:
            left_out = f"; {rows.skipped} rows with NULL or NaN are none" if rows.skipped else ""
            raise ArgumentError(f"k is {k}; there are {count} candidates{left_out}")
        enough = True

    posterior = Posterior(width, beta2, sigma2)
    if method == "greedy":
        picks, gain = lazy_greedy(posterior, read, k, capacity)
    else:
        picks, gain = _sampled(posterior, list(read()), k, beta2, sigma2, seed)
    return Design(
        columns=rows.names,
        rows=np.array([pick.row for pick in picks]),
        keys=None if key is None else [pick.key for pick in picks],
        gain=gain,
        value=np.cumsum(gain),
        covariance=posterior.covariance,
        skipped=rows.skipped,
    )


def _sampled(
    posterior: Posterior, blocks: list[Block], k: int, beta2: float, sigma2: float, seed: int
) -> tuple[list[Pick], Vector]:
    """Choose by DASH; gains are those of the rows one by one, in the order taken."""
    X = np.concatenate([block.X for block in blocks])
    run = best_guess(
        ChosenRows(AOptimal(X, beta2, sigma2)),
        k,
        rounds=None,
        samples=DashOptions.samples,
        epsilon=DashOptions.epsilon,
        opt=None,
        alpha=None,
        seed=seed,
    )
    starts = np.cumsum([0, *(len(block.numbers) for block in blocks)])
    picks = []
    for at in run.objective.held:
        number = int(np.searchsorted(starts, at, side="right")) - 1
        picks.append(blocks[number].pick(at - int(starts[number])))
    return picks, np.array([posterior.add(pick.x) for pick in picks])


def chosen(
    X: Matrix,
    columns: Sequence[str],
    k: int,
    *,
    beta2: float = DesignOptions.beta2,
    sigma2: float = DesignOptions.sigma2,
    scale_rows: bool = DesignOptions.scale_rows,
) -> list[int]:
    """Return the positions that `a_optimal` chooses from a matrix, all if k is more.

    Parameters
    ----------
    X : shape (n, d), may be changed; rows with NaN are no candidates
    columns : d names
    """
    DesignOptions(k=k, beta2=beta2, sigma2=sigma2, scale_rows=scale_rows)
    used, X = usable(X, columns, scale_rows)
    if not len(used):
        return []
    count, width = X.shape
    size = _block_rows(width)

    def read() -> Iterator[Block]:
        for start in range(0, count, size):
            yield Block(used[start : start + size], X[start : start + size])

    picks, _ = lazy_greedy(Posterior(width, beta2, sigma2), read, min(k, count), count)
    return [pick.row for pick in picks]


def _block_rows(width: int) -> int:
    return max(1, BLOCK_BYTES // (8 * width))

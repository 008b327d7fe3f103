"""What sequences are worth: one budget for many segments, and break-even prices."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from dbselect import _native
from dbselect._arrow import to_numpy
from dbselect.errors import ArgumentError, ColumnError, did_you_mean, shown
from dbselect.options.kinds import NOT_NEGATIVE
from dbselect.pages.html import InNotebooks
from dbselect.record.foreign import is_frame, rows_in_memory

#: What is said of each segment.
CHOSEN = ("step", "spent", "explained")
_Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Allocation(InNotebooks):
    """A prefix for each segment, as `allocate` chooses them.

    Parameters
    ----------
    table : the frame of the sequences, with step, the prefix taken of each, and its spent and
        explained; a segment without a sequence has no step, spends nothing and explains nothing
    value : mean over all rows of their worth times explained
    spent : mean cost of a row
    bound : value that no other choice of prefixes can exceed at the budget

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> steps = [{"spent": 0.0, "explained": 0.0}, {"spent": 2.0, "explained": 0.3}]
    >>> sequences = pl.DataFrame({"k": ["p", "q"], "rows": [1, 3], "sequence": [steps, steps]})
    >>> ds.allocate(sequences, budget=1)
    Allocation(2 segments; 0.5 a row buys 0.075, at most 0.15)
    """

    table: pl.DataFrame
    value: float
    spent: float
    bound: float

    def __repr__(self) -> str:
        return (
            f"Allocation({self.table.height} segments; {self.spent:g} a row buys {self.value:.4g}, "
            f"at most {self.bound:.4g})"
        )


def allocate(
    sequences: pl.DataFrame, budget: float, *, rows: str = "rows", worth: str | None = None
) -> Allocation:
    """Choose a prefix for each segment so that rows cost no more than a budget on average.

    Parameters
    ----------
    sequences : frame with a column ``sequence``, as `anytime_sequence_by` returns it, in memory
    budget : limit on the mean cost of a row, in the unit of the costs of the groups, >= 0
    rows : column with the rows of each segment, >= 0; their ratios count
    worth : column with what a row's whole variance is worth, >= 0. Default: 1, for which value is
        the mean r2 over rows; ``"target_variance"`` minimises the mean squared error

    Returns
    -------
    Allocation

    Raises
    ------
    ArgumentError : sequences is no frame of sequences, or has a column of the result; a budget, a
        number of rows or a worth is not a finite number >= 0; the budget does not pay for the
        cheapest prefixes
    ColumnError : sequences lacks a column

    Notes
    -----
    Merges the concave hulls of the sequences by gain per cost. The value is at most one segment's
    step below `bound`, the optimum of the linear programme. O(S log S) for S steps, 40 bytes each
    beside the frame. In SQL: ``FROM dbselect.allocate('sequences', budget := 8)``.

    References
    ----------
    Sinha, Zoltners (1979), The multiple-choice knapsack problem, Operations Research 27.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame(
    ...     {"k": [1, 1, 1, 2, 2, 2], "x": [1, 2, 4, 1, 2, 4], "y": [2, 4, 8, 3, 2, 4]}
    ... )
    >>> sequences = ds.anytime_sequence_by(ds.gram_by(table, by=["k"]), "y")
    >>> found = ds.allocate(sequences, budget=0.5)
    >>> found.table.select("k", "step", "spent").rows()
    [(1, 1, 1.0), (2, 0, 0.0)]
    >>> found.value, found.spent
    (0.5, 0.5)
    """
    NOT_NEGATIVE.check("budget", budget)
    if not is_frame(sequences):
        raise ArgumentError(
            f"sequences is {shown(sequences)}; it must be a frame as of anytime_sequence_by"
        )
    frame = rows_in_memory(sequences)
    count = frame.height
    of_rows, of_worth = _numbers(frame, rows, "rows"), np.ones(count)
    if worth is not None:
        of_worth = _numbers(frame, worth, "worth")
    clashes = [name for name in CHOSEN if name in frame.columns]
    if clashes:
        raise ArgumentError(
            f"sequences has a column '{clashes[0]}'; rename it, as the result has one"
        )
    ends, costs, shares = _points(frame)
    steps, value, spent, bound = _native.allocation(
        ends, costs, shares, of_rows, of_worth, float(budget)
    )
    at = np.where(steps < 0, 0, ends[:-1] + steps)
    chosen = {name: np.zeros(count) for name in CHOSEN[1:]}
    for own, of in zip(chosen.values(), (costs, shares), strict=True):
        own[steps >= 0] = of[at[steps >= 0]]
    step = pl.Series("step", steps).set(pl.Series(steps < 0), None)
    table = frame.with_columns(step, **{name: pl.Series(own) for name, own in chosen.items()})
    return Allocation(table, value, spent, bound)


def _numbers(frame: pl.DataFrame, column: Any, argument: str) -> _Numbers:
    """Return a column as numbers; NULL becomes NaN."""
    if not isinstance(column, str):
        raise ArgumentError(f"{argument} is {shown(column)}; it must be the name of a column")
    if column not in frame.columns:
        if column == argument == "rows":  # The default, which a user does not see.
            others = [name for name in frame.columns if frame[name].dtype.is_integer()]
            raise ColumnError(
                f"sequences has no column '{column}'; name the one with the number of rows of each "
                f"segment, rows={others[0] if others else 'n'!r}, or add it"
            )
        near = did_you_mean(column, frame.columns, {})
        raise ColumnError(f"{argument} is '{column}', which sequences does not have{near}")
    dtype = frame[column].dtype
    if not (dtype.is_numeric() or dtype == pl.Null):
        raise ArgumentError(
            f"{argument} is '{column}', a column of {dtype.base_type()}; it must have numbers"
        )
    return frame[column].cast(pl.Float64).fill_null(float("nan")).to_numpy()


def _points(frame: pl.DataFrame) -> tuple[npt.NDArray[np.intp], _Numbers, _Numbers]:
    """Return where the steps of each sequence end, and what all of them cost and explain."""
    if "sequence" not in frame.columns:
        raise ArgumentError(
            "sequences has no column 'sequence'; it must be a frame as of anytime_sequence_by"
        )
    dtype = frame["sequence"].dtype
    inner = getattr(dtype, "inner", None)
    names = [field.name for field in inner.fields] if isinstance(inner, pl.Struct) else []
    if not {"spent", "explained"} <= {*names}:
        raise ArgumentError(
            f"sequences has a column 'sequence' of {shown(str(dtype))}; it must have lists of "
            "steps with spent and explained, as of anytime_sequence_by"
        )
    lists = frame["sequence"].to_arrow(compat_level=pl.CompatLevel.newest())
    lengths = pc.list_value_length(lists).fill_null(0).cast(pa.int64())
    steps = lists.flatten()
    costs, shares = (
        to_numpy(pc.struct_field(steps, name).cast(pa.float64()).fill_null(float("nan")))
        for name in CHOSEN[1:]
    )
    ends = np.concatenate([[0], np.cumsum(to_numpy(lengths))]).astype(np.intp)
    return ends, costs, shares

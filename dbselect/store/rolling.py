"""Windows that move over the keys, and the sequence of each: which group to buy when."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Unpack

import polars as pl

from dbselect.errors import ArgumentError, DataError
from dbselect.options.fields import FIRST, ProblemOptions
from dbselect.options.kinds import COUNT
from dbselect.options.option import shows
from dbselect.options.table import AnytimeOptions
from dbselect.problem.calls import AnytimeCall, anytime_sequence_by
from dbselect.record.groups import Costs, GroupColumns


@dataclass(frozen=True, eq=False)
class Rolling:
    """The Grams of windows that move over the keys of a store.

    Parameters
    ----------
    grams : a row a window: first and last key, both included, and gram

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> import tempfile
    >>> table = pl.DataFrame({"day": [1, 1, 2, 2, 3, 3], "x": [1, 2, 3, 4, 5, 7],
    ...     "z": [1, 0, 0, 1, 1, 1], "y": [1, 2, 3, 4, 4, 4]})
    >>> store = ds.GramStore(tempfile.mkdtemp() + "/stats")
    >>> _ = store.refresh(table, by="day")
    >>> windows = store.rolling(days=2, every=1)
    >>> windows.grams.select("first", "last").rows()
    [(1, 2), (2, 3)]
    >>> windows.sequences("y", max_groups=1).steps.select("last", "group").rows()
    [(2, 'x'), (3, 'z')]
    """

    grams: pl.DataFrame

    def __repr__(self) -> str:
        low, high = self.grams["first"].min(), self.grams["last"].max()
        return f"Rolling({self.grams.height} windows from {low!s} to {high!s})"

    @shows(AnytimeOptions, ProblemOptions, first=FIRST[1:])
    def sequences(
        self,
        target: str,
        groups: GroupColumns | None = None,
        costs: Costs | None = None,
        **options: Unpack[AnytimeCall],
    ) -> "OverTime":
        """Return the sequence of each window.

        Raises
        ------
        As `dbselect.anytime_sequence_by`, with the same warnings
        """
        return OverTime(target, anytime_sequence_by(self.grams, target, groups, costs, **options))


@dataclass(frozen=True, eq=False)
class OverTime:
    """The sequence of each window: which group to buy when.

    Parameters
    ----------
    target : the column to predict
    windows : a row a window: first, last, sequence and status, as of `anytime_sequence_by`

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> import tempfile
    >>> table = pl.DataFrame({"day": [1, 1, 2, 2], "x": [1, 2, 5, 7], "y": [1, 3, 1, 2]})
    >>> store = ds.GramStore(tempfile.mkdtemp() + "/stats")
    >>> _ = store.refresh(table, by="day")
    >>> store.rolling(days=1).sequences("y").steps.select("first", "last", "group").rows()
    [(1, 1, 'x'), (2, 2, 'x')]
    """

    target: str
    windows: pl.DataFrame

    def __repr__(self) -> str:
        return f"OverTime({self.target}; {self.windows.height} windows)"

    @property
    def steps(self) -> pl.DataFrame:
        """A row a window and step, from 1 on: first, last, step, group, cost, spent, gain, r2."""
        steps = self.windows.drop("status").explode("sequence", empty_as_null=False)
        told = steps.unnest("sequence").filter(pl.col("group").is_not_null())
        return told.select("first", "last", "step", "group", "cost", "spent", "gain", "r2")

    def plot(self) -> Any:
        """Draw what is bought first, second, ... in each window; its data are those of `steps`.

        Returns
        -------
        Chart of altair (``pip install 'dbselect[plot]'``), to show, change or save

        Raises
        ------
        DataError : no window has a step
        EngineError : altair is not installed
        """
        from dbselect.pictures.cells import order_over_time

        steps = self.steps
        if steps.is_empty():
            raise DataError("no window has a step to draw; see the column status of `windows`")
        return order_over_time(steps, self.target)


def ends_of_windows(keys: pl.Series, days: int, every: int) -> list[tuple[Any, Any]]:
    """Return the first and last key of windows, of which the last ends with the last key."""
    for name, value in (("days", days), ("every", every)):
        if value is None:
            raise ArgumentError(f"{name} is None; it must be a whole number >= 1")
        COUNT.or_none().check(name, value)
    if isinstance(keys.dtype, pl.Datetime):
        keys = keys.dt.date()
    if keys.dtype != pl.Date and not keys.dtype.is_integer():
        raise ArgumentError(
            f"the key '{keys.name}' is {keys.dtype}; windows move over dates, times or whole "
            "numbers"
        )
    is_date = keys.dtype == pl.Date

    def after(key: Any, steps: int) -> Any:
        return key + (timedelta(days=steps) if is_date else steps)

    low, last = keys.min(), keys.max()
    found = []
    while low is not None and after(last, 1 - days) >= low:
        found.append((after(last, 1 - days), last))
        last = after(last, -every)
    if not found:
        raise DataError(f"days is {days}, but the keys reach from {low!s} to {keys.max()!s} only")
    return found[::-1]

"""Windows that move over the keys, and the sequence of each: which group to buy when."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import polars as pl

from dbselect.errors import ArgumentError, DataError
from dbselect.methods.anytime import AnytimeOptions
from dbselect.methods.segments import anytime_sequences
from dbselect.methods.types import Costs, GroupColumns, GroupNames, RuleName
from dbselect.record.checks import check_count


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

    def sequences(
        self,
        target: str,
        groups: GroupColumns | None = None,
        costs: Costs | None = None,
        *,
        rule: RuleName = AnytimeOptions.rule,
        ridge: float = AnytimeOptions.ridge,
        scale: bool = AnytimeOptions.scale,
        budget: float | None = AnytimeOptions.budget,
        max_groups: int | None = AnytimeOptions.max_groups,
        always: GroupNames = AnytimeOptions.always,
        c_min: float | None = AnytimeOptions.c_min,
    ) -> "OverTime":
        """Return the sequence of each window.

        Parameters
        ----------
        target, groups, costs, rule, ridge, scale, budget, max_groups, always, c_min : as in
            `anytime_sequences`, which also says what is raised and warned of
        """
        found = anytime_sequences(
            self.grams, target, groups, costs, rule=rule, ridge=ridge, scale=scale, budget=budget,
            max_groups=max_groups, always=always, c_min=c_min,
        )  # fmt: skip
        return OverTime(target, found)


@dataclass(frozen=True, eq=False)
class OverTime:
    """The sequence of each window: which group to buy when.

    Parameters
    ----------
    target : the column to predict
    windows : a row a window: first, last, sequence and status, as of `anytime_sequences`

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
        from dbselect.pictures.over_time import order_over_time

        steps = self.steps
        if steps.is_empty():
            raise DataError("no window has a step to draw; `windows` says why in its status")
        return order_over_time(steps, self.target)


def ends_of_windows(keys: pl.Series, days: int, every: int) -> list[tuple[Any, Any]]:
    """Return the first and last key of windows, of which the last ends with the last key.

    Parameters
    ----------
    keys : whole numbers, dates or times, which count as their dates
    days : length of a window: days, or units of whole numbers
    every : from one window to the next

    Raises
    ------
    ArgumentError : `days` or `every` is no whole number >= 1, or the keys have another type
    DataError : the keys do not reach over `days`
    """
    for name, value in (("days", days), ("every", every)):
        if value is None:
            raise ArgumentError(f"{name} is None; it must be a whole number >= 1")
        check_count(name, value)
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

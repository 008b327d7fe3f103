"""Sliding windows over keys, and the sequence of each."""

import re
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any, Unpack

import polars as pl

from dbselect.errors import ArgumentError, DataError
from dbselect.options.kinds import COUNT
from dbselect.options.option import shows
from dbselect.problem.records import anytime_sequence_by
from dbselect.problem.several import AnytimeCall
from dbselect.record.groups import Costs, GroupColumns
from dbselect.spec.fields import FIRST, ProblemOptions
from dbselect.spec.options import AnytimeOptions
from dbselect.store.shelf import ALL

#: Text for a year, a month or a day.
COARSE = re.compile(r"(\d{4})(?:-(\d{2}))?(?:-(\d{2}))?")
#: The resolution of Python's datetimes.
TICK = timedelta(microseconds=1)


def keys_between(keys: pl.Series, first: Any, last: Any) -> pl.Series:
    """Return a mask of the keys from `first` to `last`, both included; None is no limit."""
    if keys.dtype == pl.Boolean:
        raise ArgumentError(f"the key '{keys.name}' is Boolean and has no windows; cut by `where`")
    low = None if first is None else _end(keys, first, "first")[0]
    high = None if last is None else _end(keys, last, "last")[1]
    if low is not None and high is not None and high < low:
        raise ArgumentError(f"last is {last!r}, before first, {first!r}")
    mask = keys.is_not_null()
    try:
        if low is not None:
            mask &= keys >= _as_key(low, keys.dtype)
        if high is not None:
            mask &= keys <= _as_key(high, keys.dtype)
    except (pl.exceptions.PolarsError, TypeError):
        raise _refused(first if low is not None else last, keys, "an end") from None
    return mask


def range_of(keys: pl.Series) -> pl.Expr:
    """Return a condition that these keys meet, and few others: for a store to read no more."""
    exact = keys.dtype.is_integer() or keys.dtype in (pl.Date, pl.String)
    ends = pl.lit(keys.min()), pl.lit(keys.max())
    return pl.col(keys.name).is_between(*ends) if exact else ALL


def _end(keys: pl.Series, value: Any, what: str) -> tuple[Any, Any]:
    """Return the smallest and the largest key for an end of a range."""
    dtype = keys.dtype
    if dtype == pl.Date or isinstance(dtype, pl.Datetime):
        low, high = _span(value, keys, what)
        return (low.date(), high.date()) if dtype == pl.Date else (low, high)
    if dtype.is_integer():
        fits = isinstance(value, int) and not isinstance(value, bool)
    elif dtype.is_numeric():
        fits = isinstance(value, int | float) and not isinstance(value, bool)
    else:
        fits = dtype != pl.String or isinstance(value, str)
    if not fits:
        raise _refused(value, keys, what)
    return value, value


def _span(value: Any, keys: pl.Series, what: str) -> tuple[datetime, datetime]:
    """Return the first and the last moment of a date, a time or a text."""
    if isinstance(value, datetime):
        moment = value.replace(tzinfo=None)
        return moment, moment
    if isinstance(value, date):
        start = datetime.combine(value, time())
        return start, start + timedelta(days=1) - TICK
    if not isinstance(value, str):
        raise _refused(value, keys, what)
    coarse = COARSE.fullmatch(value)
    try:
        if coarse is None:
            moment = datetime.fromisoformat(value).replace(tzinfo=None)
            return moment, moment
        year, month, day = (None if part is None else int(part) for part in coarse.groups())
        start = datetime(year or 0, month or 1, day or 1)
    except ValueError:
        raise _refused(value, keys, what) from None
    if day is not None:
        after = start + timedelta(days=1)
    elif month is not None:
        after = datetime(start.year + month // 12, month % 12 + 1, 1)
    else:
        after = datetime(start.year + 1, 1, 1)
    return start, after - TICK


def _as_key(value: Any, dtype: Any) -> Any:
    """Return a value to compare with keys; a time gets the time zone of the keys."""
    if not isinstance(dtype, pl.Datetime):
        return value
    return pl.Series([value], dtype=pl.Datetime("us")).dt.replace_time_zone(dtype.time_zone)


def _refused(value: Any, keys: pl.Series, what: str) -> ArgumentError:
    kinds = {pl.Date: "a date, or a text as '2013', '2013-01' or '2013-01-31'", pl.String: "text"}
    allowed = kinds.get(type(keys.dtype), f"of type {keys.dtype}")
    if isinstance(keys.dtype, pl.Datetime):
        allowed = "a time, a date, or a text as '2013-01' or '2013-01-31 12:00'"
    return ArgumentError(f"{what} is {value!r}; the key '{keys.name}' is {keys.dtype}, so it must "
                         f"be {allowed}")  # fmt: skip


@dataclass(frozen=True, eq=False)
class Rolling:
    """The Grams of sliding windows over the keys of a store.

    Parameters
    ----------
    grams : one row per window: first and last key, both included, and gram

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
    """The sequence of each sliding window.

    Parameters
    ----------
    target : the column to predict
    windows : one row per window: first, last, sequence and status, as in `anytime_sequence_by`

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
        """One row per window and step >= 1: first, last, step, group, cost, spent, gain, r2."""
        steps = self.windows.drop("status").explode("sequence", empty_as_null=False)
        rows = steps.unnest("sequence").filter(pl.col("group").is_not_null())
        return rows.select("first", "last", "step", "group", "cost", "spent", "gain", "r2")

    def plot(self) -> Any:
        """Plot which group is added first, second, ... in each window; the data are `steps`.

        Returns
        -------
        Chart of altair (``pip install 'dbselect[plot]'``), to show, change or save

        Raises
        ------
        DataError : no window has a step
        EngineError : altair is not installed
        """
        from dbselect.pages.charts import order_over_time

        steps = self.steps
        if steps.is_empty():
            raise DataError("no window has a step to draw; see the column status of `windows`")
        return order_over_time(steps, self.target)


def ends_of_windows(keys: pl.Series, days: int, every: int) -> list[tuple[Any, Any]]:
    """Return the first and last key of each window; the last window ends with the last key."""
    for name, value in (("days", days), ("every", every)):
        COUNT.check(name, value)
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
    windows = []
    while low is not None and after(last, 1 - days) >= low:
        windows.append((after(last, 1 - days), last))
        last = after(last, -every)
    if not windows:
        raise DataError(f"days is {days}, but the keys reach from {low!s} to {keys.max()!s} only")
    return windows[::-1]

"""Which keys lie from one to another, both included.

Of dates and times an end may be a text as coarse as one likes: the window from ``"2013-01"`` to
``"2013-03"`` begins with January and ends with the last of March.
"""

import re
from datetime import date, datetime, time, timedelta
from typing import Any

import polars as pl

from dbselect.errors import ArgumentError

#: A year, a month or a day.
COARSE = re.compile(r"(\d{4})(?:-(\d{2}))?(?:-(\d{2}))?")
#: The smallest step of time that Polars keeps from Python.
TICK = timedelta(microseconds=1)


def keys_between(keys: pl.Series, first: Any, last: Any) -> pl.Series:
    """Return which keys lie from `first` to `last`, both included; None is no limit."""
    if keys.dtype == pl.Boolean:
        raise ArgumentError(f"the key '{keys.name}' is Boolean and has no windows; cut by `where`")
    low = None if first is None else _end(keys, first, "first")[0]
    high = None if last is None else _end(keys, last, "last")[1]
    if low is not None and high is not None and high < low:
        raise ArgumentError(f"last is {last!r}, before first, {first!r}")
    found = keys.is_not_null()
    try:
        if low is not None:
            found &= keys >= _as_key(low, keys.dtype)
        if high is not None:
            found &= keys <= _as_key(high, keys.dtype)
    except (pl.exceptions.PolarsError, TypeError):
        raise _refused(first if low is not None else last, keys, "an end") from None
    return found


def _end(keys: pl.Series, value: Any, what: str) -> tuple[Any, Any]:
    """Return the smallest and the largest key that an end means."""
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
    """Return the first and the last moment of what a date, a time or a text means."""
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
    """Return a value to compare keys with; a time is one of the zone of the keys."""
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

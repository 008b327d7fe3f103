"""What can go wrong, by name; every message is one sentence."""

import difflib
import numbers
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class DbselectError(ValueError):
    """A mistake in the arguments or in the data."""


class ArgumentError(DbselectError):
    """An argument has a value that is not allowed."""


class OptionError(ArgumentError, TypeError):
    """A call has no option of that name, or lacks one that it needs."""


class FieldError(ArgumentError, AttributeError):
    """A result has no value of that name, as of its family, method or ridge."""


class ColumnError(DbselectError):
    """A column is unknown, named twice or not numeric."""


class GroupError(DbselectError):
    """Groups or their costs do not fit the columns or each other."""


class DataError(DbselectError):
    """The rows hold something no statistic can be computed from."""


class RecordError(DbselectError):
    """A Gram record is malformed, or two do not fit each other."""


class SourceError(DbselectError):
    """A table cannot be found or read."""


class BusyError(SourceError):
    """Somebody else writes a store, or a table changes while it is read: try again later."""


class EngineError(DbselectError):
    """A DuckDB connection cannot take the extension, or a library for pictures is not there."""


class ScoreError(DbselectError):
    """A score raises an error, or returns something else than a finite number."""


class ScoreWarning(UserWarning):
    """A score fails, or changes between two calls with the same columns."""


class ConditionWarning(UserWarning):
    """The columns are so nearly dependent that coefficients lose most of their digits."""


class ConvergenceWarning(UserWarning):
    """A search ran out of steps before it settled."""


class DependenceWarning(ConditionWarning):
    """A column that nearly depends on others is left out, and what is its own may matter."""


class SchemaWarning(UserWarning):
    """The files of a table have different columns, which are united by name."""


class StaleWarning(UserWarning):
    """Parts of a store cannot be read, and count as they were before."""


class LeftOutWarning(UserWarning):
    """Columns or rows of a table have no part in the result."""


class LeakageWarning(UserWarning):
    """One column explains nearly all of the target, so that it may be made of it."""


class SampleWarning(UserWarning):
    """A search looked at some of the rows only; the coefficients are fitted to all of them."""


class SelectionWarning(UserWarning):
    """The data that chose a model's columns also judge them, so its p-values are too small."""


class UnknownLevelWarning(UserWarning):
    """Rows have levels of a category that a fit has not seen."""


class SkippedRowsWarning(UserWarning):
    """More than a tenth of the rows is left out, as values are missing in them."""


class SeparationWarning(UserWarning):
    """Some columns determine the target of some rows, so that there are no best coefficients."""


class WideWarning(UserWarning):
    """A table has so many columns that it is searched without their Gram, in several scans."""


class FoldsWarning(UserWarning):
    """Fewer folds have rows than were asked for."""


class DriverWarning(UserWarning):
    """The rows of a table elsewhere are pulled through one process."""


class MemoryWarning(UserWarning):
    """A table is read several times, as the groups of one read would take too much memory."""


#: Characters of a value that an error shows.
MOST_SHOWN = 100


def shown(value: Any) -> str:
    """Return a value as an error shows it: short, and of a table its type only."""
    marks = ("__arrow_c_stream__", "__array__", "collect_schema")
    is_table = any(hasattr(value, mark) for mark in marks)
    if is_table and not isinstance(value, numbers.Number):
        return type_shown(value)
    text = repr(value)
    return text if len(text) <= MOST_SHOWN else type_shown(value)


def type_shown(value: Any) -> str:
    """Return the type of a value with its article."""
    kind = type(value).__name__
    return f"an {kind}" if kind[0] in "AEIOUaeiou" else f"a {kind}"


def unknown(kind: str, name: str, names: Sequence[str]) -> str:
    """Describe an unknown name, with the nearest known ones."""
    lower = str(name).lower()
    if (same := next((other for other in names if other.lower() == lower), None)) is not None:
        return f"unknown {kind} '{name}'; there is '{same}', and case counts"
    near = difflib.get_close_matches(str(name), names, n=3) or list(names)[:10]
    more = ", ..." if len(near) == 10 < len(names) else ""
    listed = ", ".join(f"'{other}'" for other in near) + more
    return f"unknown {kind} '{name}'; there is {listed or 'none'}"


def did_you_mean(name: Any, names: Iterable[str], meant: Mapping[str, str]) -> str:
    """Return a question that ends a refusal: what a word means elsewhere, or a near name."""
    if not isinstance(name, str):
        return ""
    lower = name.lower()
    near = difflib.get_close_matches(lower, [*meant, *names], n=1)
    found = meant.get(near[0], near[0]) if near else None
    return "" if found is None else f"; did you mean {found!r}?"


def warn_of_choice() -> None:
    """Warn that rows judge the columns that they also chose."""
    warn_caller(
        "the rows that chose the columns also judge them, so p-values are too small; "
        "fit the columns on other rows for p-values that hold",
        SelectionWarning,
    )


#: Numbers of a message, but for those in names, which are quoted.
_NUMBERS = re.compile(r"('[^']*')|\d[\d.,e+-]*")
#: What a call of many searches has warned of; None outside of such calls.
_WARNED: ContextVar[set[tuple[type[Warning], str]] | None] = ContextVar("warned", default=None)


def warns_once(call: Callable[P, T]) -> Callable[P, T]:
    """Let a call that searches many times warn of one thing once, whatever numbers differ."""

    @wraps(call)
    def calling(*args: P.args, **options: P.kwargs) -> T:
        if _WARNED.get() is not None:
            return call(*args, **options)
        token = _WARNED.set(set())
        try:
            return call(*args, **options)
        finally:
            _WARNED.reset(token)

    return calling


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn at the line outside of the package that led here, however deep this is."""
    warned, key = _WARNED.get(), (category, _NUMBERS.sub(r"\1#", message))
    if warned is not None:
        if key in warned:
            return
        warned.add(key)
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("dbselect."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)

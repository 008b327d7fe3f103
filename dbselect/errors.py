"""Exceptions and warnings; every message is one sentence."""

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
    """An option is unknown, or a required one is missing."""


class FieldError(ArgumentError, AttributeError):
    """A result does not have this value, for its family, method or ridge."""


class ColumnError(DbselectError):
    """A column is unknown, named twice or not numeric."""


class GroupError(DbselectError):
    """Groups or their costs do not fit the columns or each other."""


class DataError(DbselectError):
    """The rows have values from which no statistic can be computed."""


class RecordError(DbselectError):
    """A Gram record is malformed, or two records cannot be merged."""


class SourceError(DbselectError):
    """A table cannot be found or read."""


class BusyError(SourceError):
    """Another process writes to a store, or a table changes during a read; try again later."""


class EngineError(DbselectError):
    """DuckDB cannot load the extension, or an optional library is not installed."""


class ScoreError(DbselectError):
    """A score raises an error or does not return a finite number."""


class ScoreWarning(UserWarning):
    """A score fails, or changes between two calls with the same columns."""


class ConditionWarning(UserWarning):
    """The columns are so nearly dependent that coefficients lose most of their digits."""


class ConvergenceWarning(UserWarning):
    """A computation reached its limit of steps before convergence."""


class DependenceWarning(ConditionWarning):
    """A nearly dependent column is left out, although its independent part may matter."""


class SchemaWarning(UserWarning):
    """The files of a table have different columns, which are matched by name."""


class StaleWarning(UserWarning):
    """Changed parts of a store cannot be read, and their previous records are kept."""


class LeftOutWarning(UserWarning):
    """Columns or rows of a table are not used."""


class LeakageWarning(UserWarning):
    """One column explains nearly all of the target and may be derived from it."""


class PromiseWarning(UserWarning):
    """Rows held out earn less than promised, or are judged as better than they are."""


class PerfectFitWarning(UserWarning):
    """A model explains its target exactly, so that its standard errors are noise of rounding."""


class SampleWarning(UserWarning):
    """A search used a sample of the rows; the coefficients are fitted to all of them."""


class SelectionWarning(UserWarning):
    """Columns were selected on the same data, so p-values are too small."""


class UnknownLevelWarning(UserWarning):
    """Rows have levels of a category that a fit has not seen."""


class SkippedRowsWarning(UserWarning):
    """More than a tenth of the rows are left out because of missing values."""


class SeparationWarning(UserWarning):
    """The data are separated, so that no finite coefficients maximise the likelihood."""


class WideWarning(UserWarning):
    """A table is too wide for its Gram and is searched in several scans."""


class FoldsWarning(UserWarning):
    """Fewer folds have rows than requested."""


class DriverWarning(UserWarning):
    """The rows of a distributed table are read through one process."""


class MemoryWarning(UserWarning):
    """A table is read several times, as all groups at once would take too much memory."""


#: Longest text of a value in an error.
MOST_SHOWN = 100


def shown(value: Any) -> str:
    """Return a value as text for an error: short, and only the type for a table."""
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
    """Describe an unknown name, with close matches."""
    lower = str(name).lower()
    if (same := next((other for other in names if other.lower() == lower), None)) is not None:
        return f"unknown {kind} '{name}'; there is '{same}', and case counts"
    near = difflib.get_close_matches(str(name), names, n=3) or list(names)[:10]
    more = ", ..." if len(near) == 10 < len(names) else ""
    listed = ", ".join(f"'{other}'" for other in near) + more
    return f"unknown {kind} '{name}'; there is {listed or 'none'}"


def did_you_mean(name: Any, names: Iterable[str], meant: Mapping[str, str]) -> str:
    """Return a "did you mean" suffix of an error: a synonym or a close match."""
    if not isinstance(name, str):
        return ""
    lower = name.lower()
    near = difflib.get_close_matches(lower, [*meant, *names], n=1)
    suggestion = meant.get(near[0], near[0]) if near else None
    return "" if suggestion is None else f"; did you mean {suggestion!r}?"


def warn_of_choice() -> None:
    """Warn that columns were selected on the same rows."""
    warn_caller(
        "the rows that chose the columns also judge them, so p-values are too small; "
        "fit the columns on other rows for p-values that hold",
        SelectionWarning,
    )


#: Numbers in a message, except in quoted names.
_NUMBERS = re.compile(r"('[^']*')|\d[\d.,e+-]*")
#: Warnings that a call of many searches has issued; None outside such calls.
_WARNED: ContextVar[set[tuple[type[Warning], str]] | None] = ContextVar("warned", default=None)


def warns_once(call: Callable[P, T]) -> Callable[P, T]:
    """Decorate a call of many searches: a warning is issued once, even if its numbers differ."""

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
    """Warn with the location of the caller outside the package."""
    warned, key = _WARNED.get(), (category, _NUMBERS.sub(r"\1#", message))
    if warned is not None:
        if key in warned:
            return
        warned.add(key)
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("dbselect."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)

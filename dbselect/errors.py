"""What can go wrong, by name; every message is one sentence."""

import sys
import warnings
from pathlib import Path


class DbselectError(ValueError):
    """A mistake in the arguments or in the data."""


class ArgumentError(DbselectError):
    """An argument has a value that is not allowed."""


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


class EngineError(DbselectError):
    """A DuckDB connection cannot take the extension."""


class ConditionWarning(UserWarning):
    """The columns are so nearly dependent that coefficients lose most of their digits."""


class LeftOutWarning(UserWarning):
    """Columns or rows of a table have no part in the result."""


class SelectionWarning(UserWarning):
    """The data that chose a model's columns also judge them, so its p-values are too small."""


class UnknownLevelWarning(UserWarning):
    """Rows have levels of a category that a fit has not seen."""


def warn(message: str, category: type[Warning]) -> None:
    """Warn on the line of the caller's own code, however deep in the package it happens."""
    package = str(Path(__file__).parent)
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level - 1)

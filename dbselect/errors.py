"""What can go wrong, by name; every message is one sentence."""


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


class SelectionWarning(UserWarning):
    """The data that chose a model's columns also judge them, so its p-values are too small."""


class UnknownLevelWarning(UserWarning):
    """Rows have levels of a category that a fit has not seen."""

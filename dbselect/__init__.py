"""Which groups of features buy the most prediction for their cost, in which order."""

from dbselect.anytime import anytime_sequence
from dbselect.doors import frames as _frames  # noqa: F401 - registers the Polars namespaces
from dbselect.doors.sql import connect, register
from dbselect.errors import (
    ArgumentError,
    ColumnError,
    ConditionWarning,
    DataError,
    DbselectError,
    EngineError,
    GroupError,
    RecordError,
    SourceError,
)
from dbselect.gram import Gram
from dbselect.sequence import Model, Sequence
from dbselect.sources.read import gram, gram_by

__all__ = [
    "ArgumentError",
    "ColumnError",
    "ConditionWarning",
    "DataError",
    "DbselectError",
    "EngineError",
    "Gram",
    "GroupError",
    "Model",
    "RecordError",
    "Sequence",
    "SourceError",
    "anytime_sequence",
    "connect",
    "gram",
    "gram_by",
    "register",
]

"""Many sequences from a column of Gram records, for DuckDB and Polars alike."""

from decimal import Decimal
from typing import Any

import pyarrow as pa

from dbselect.gram import Gram
from dbselect.methods.anytime import anytime_sequence, check_options
from dbselect.objectives.linear import unusable
from dbselect.sequence import Sequence


def sequence_of(record: pa.Scalar, target: str, **options: Any) -> Sequence | None:
    """Return the sequence of one record, None if the record is unusable."""
    check_options(**options)
    if not record.is_valid:
        return None
    gram = Gram.from_struct(record)
    if unusable(gram, target) is not None:
        return None
    return anytime_sequence(gram, target, **options)


def plain(value: Any) -> Any:
    """Turn an SQL value into the Python value that `anytime_sequence` takes."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return {name: plain(item) for name, item in value}  # a MAP
    return value

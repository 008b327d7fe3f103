"""Many results from a column of Gram records, for DuckDB and Polars alike."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from dbselect.errors import DataError
from dbselect.gram import Gram
from dbselect.methods import anytime, foba
from dbselect.sequence import Sequence


@dataclass(frozen=True)
class Method:
    """A call that makes a sequence of a Gram, and what refuses options without one."""

    run: Callable[..., Sequence]
    check: Callable[..., None]


#: Methods by the name that users give.
METHODS = {
    "anytime_sequence": Method(anytime.anytime_sequence, anytime.check_options),
    "foba": Method(foba.foba, foba.check_options),
    "backward": Method(foba.backward, foba.check_options),
}


def sequence_of(
    method: str, record: pa.Scalar, target: str, options: Mapping[str, Any]
) -> Sequence | None:
    """Return the sequence of one record, None if the record is unusable."""
    METHODS[method].check(**options)
    if not record.is_valid:
        return None
    gram = Gram.from_struct(record)
    gram.position(target, "target")
    try:
        return METHODS[method].run(gram, target, **options)
    except DataError:
        return None


def plain(value: Any) -> Any:
    """Turn an SQL value into the Python value that `anytime_sequence` takes."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return {name: plain(item) for name, item in value}  # a MAP
    return value

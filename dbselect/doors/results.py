"""Many results from a column of Gram records, for DuckDB and Polars alike."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Generic, TypeVar

import pyarrow as pa

from dbselect.errors import DataError
from dbselect.gram import Gram
from dbselect.methods import anytime, dash, foba, sght
from dbselect.model import Model
from dbselect.sequence import Sequence

Result = TypeVar("Result")

#: A model in Arrow.
MODEL_TYPE = pa.struct(
    [
        ("columns", pa.list_(pa.string())),
        ("groups", pa.list_(pa.string())),
        ("intercept", pa.float64()),
        ("coefficients", pa.map_(pa.string(), pa.float64())),
        ("explained", pa.float64()),
        ("r2", pa.float64()),
    ]
)


@dataclass(frozen=True)
class Method(Generic[Result]):
    """A call on a Gram, and what refuses its options without one."""

    run: Callable[..., Result]
    check: Callable[..., None]


#: Calls that make a sequence, by the name that users give.
SEQUENCES: dict[str, Method[Sequence]] = {
    "anytime_sequence": Method(anytime.anytime_sequence, anytime.check_options),
    "foba": Method(foba.foba, foba.check_options),
    "backward": Method(foba.backward, foba.check_options),
}
#: Calls that make one model.
MODELS: dict[str, Method[Any]] = {
    "dash": Method(dash.dash, dash.check_dash),
    "sght": Method(sght.sght, sght.check_options),
}


def result_of(
    method: Method[Result], record: pa.Scalar, target: str, options: Mapping[str, Any]
) -> Result | None:
    """Return the result of one record, None if the record is unusable."""
    method.check(**options)
    if not record.is_valid:
        return None
    gram = Gram.from_struct(record)
    gram.position(target, "target")
    try:
        return method.run(gram, target, **options)
    except DataError:
        return None


def write_models(models: Iterable[Model | None]) -> pa.StructArray:
    """Return an Arrow struct for each model; NULL for an absent one."""
    return pa.array([None if model is None else _fields(model) for model in models], MODEL_TYPE)


def _fields(model: Model) -> dict[str, Any]:
    return {
        "columns": model.columns,
        "groups": model.groups,
        "intercept": model.intercept,
        "coefficients": list(model.coefficients.items()),
        "explained": model.explained,
        "r2": model.r2,
    }


def plain(value: Any) -> Any:
    """Turn an SQL value into the Python value that a method takes."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return {name: plain(item) for name, item in value}  # a MAP
    return value

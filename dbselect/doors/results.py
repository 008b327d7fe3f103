"""Many results from a column of Gram records, for DuckDB and Polars alike."""

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa

from dbselect.methods import dash, foba, sght
from dbselect.methods.segments import result_of, sequence_lists
from dbselect.model import Model
from dbselect.records import check_type
from dbselect.sequence_record import write_sequences

#: Records, target, options -> one value a record.
Call = Callable[[pa.Array, str, Mapping[str, Any]], pa.Array]

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


def _one_by_one(
    run: Callable[..., Any],
    check: Callable[..., None],
    write: Callable[[Iterable[Any]], pa.Array],
) -> Call:
    """Return a call on records from one on a Gram, and what refuses its options without one."""

    def call(records: pa.Array, target: str, options: Mapping[str, Any]) -> pa.Array:
        check(**options)
        check_type(records)
        return write(result_of(run, record, target, options) for record in records)

    return call


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


#: Calls that make a sequence, by the name that users give.
SEQUENCES: dict[str, Call] = {
    "anytime_sequence": sequence_lists,
    "foba": _one_by_one(foba.foba, foba.check_options, write_sequences),
    "backward": _one_by_one(foba.backward, foba.check_options, write_sequences),
}
#: Calls that make one model.
MODELS: dict[str, Call] = {
    "dash": _one_by_one(dash.dash, dash.check_dash, write_models),
    "sght": _one_by_one(sght.sght, sght.check_sght, write_models),
}

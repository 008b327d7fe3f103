"""Many results from a column of Gram records, for DuckDB and Polars alike."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from dbselect.methods import anytime, foba
from dbselect.methods.dash import DashOptions, dash
from dbselect.methods.options import Options
from dbselect.methods.segments import result_of, sequence_lists
from dbselect.methods.sght import SghtOptions, sght
from dbselect.record.stack import check_type
from dbselect.results.model import Model
from dbselect.results.selected import Selected
from dbselect.results.store import write_sequences

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
class Method:
    """A method as the doors call it.

    Parameters
    ----------
    run : records, target, options -> one value a record
    check : refuses options without a record
    """

    run: Callable[[pa.Array, str, Mapping[str, Any]], pa.Array]
    check: Callable[..., None]


def _one_by_one(
    search: Callable[..., Any],
    check: Callable[..., None],
    write: Callable[[Iterable[Any]], pa.Array],
) -> Method:
    """Return the method of a search on one Gram."""

    def run(records: pa.Array, target: str, options: Mapping[str, Any]) -> pa.Array:
        check(**options)
        check_type(records)
        return write(result_of(search, record, target, options) for record in records)

    return Method(run, check)


def _reading(kind: type[Options]) -> Callable[..., None]:
    """Return a check of options; groups and costs stand beside them."""

    def check(groups: Any = None, costs: Any = None, **options: Any) -> None:
        kind.read(options)

    return check


def write_models(models: Iterable[Selected[Model] | Model | None]) -> pa.StructArray:
    """Return an Arrow struct for each model; NULL for an absent one."""
    return pa.array([None if model is None else _fields(model) for model in models], MODEL_TYPE)


def _fields(model: Selected[Model] | Model) -> dict[str, Any]:
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
SEQUENCES: dict[str, Method] = {
    "anytime_sequence": Method(sequence_lists, anytime.check_options),
    "foba": _one_by_one(foba.foba, foba.check_options, write_sequences),
    "backward": _one_by_one(foba.backward, foba.check_options, write_sequences),
}
#: Calls that make one model.
MODELS: dict[str, Method] = {
    "dash": _one_by_one(dash, _reading(DashOptions), write_models),
    "sght": _one_by_one(sght, _reading(SghtOptions), write_models),
}

"""Many results from a column of Gram records, for DuckDB and Polars alike."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from inspect import signature
from typing import Any

import pyarrow as pa

from dbselect.errors import ArgumentError
from dbselect.methods.anytime import AnytimeOptions, anytime_sequence
from dbselect.methods.best_within import BestWithinOptions, best_within
from dbselect.methods.dash import DashOptions, dash
from dbselect.methods.exchange import ExchangeOptions, exchange
from dbselect.methods.fit import FitOptions, fit
from dbselect.methods.foba import BackwardOptions, FobaOptions, backward, foba
from dbselect.methods.many_fits import SummaryOptions, fitted_records
from dbselect.methods.options import Options
from dbselect.methods.segments import result_of, searched
from dbselect.methods.sght import SghtOptions, sght
from dbselect.methods.step import StepOptions, step
from dbselect.record.gram import Gram, check_type
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
        ("spent", pa.float64()),
    ]
)
#: A model, and how near to the best it is.
PROVEN_TYPE = pa.struct(
    [*MODEL_TYPE, ("bound", pa.float64()), ("gap", pa.float64()), ("proven", pa.bool_())]
)


@dataclass(frozen=True)
class Call:
    """What a door was given for a method, read and checked before any record.

    Parameters
    ----------
    named : groups, costs and columns, by name, where they were given
    options : the record of the method's options
    """

    named: Mapping[str, Any]
    options: Options


@dataclass(frozen=True)
class Method:
    """A method as the doors call it.

    Parameters
    ----------
    call : the public function
    options : its record of options
    run : records, target, what was given -> one value a record
    """

    call: Callable[..., Any]
    options: type[Options]
    run: Callable[[pa.Array, str, Call], pa.Array]

    def read(self, given: Mapping[str, Any]) -> Call:
        """Return what a door was given, options, groups, costs and columns by name.

        Raises
        ------
        ArgumentError : an option is unknown, not allowed, or needs rows
        """
        takes = signature(self.call).parameters
        named = {name: given[name] for name in ("groups", "costs", "columns") if name in given}
        for name in named:
            if name not in takes:
                raise ArgumentError(f"{self.options.method} has no {name}")
        options = self.options.read({name: given[name] for name in given if name not in named})
        _check_rows(options)
        return Call(named, options)


#: Options that need the rows of a table, which a record no longer has.
_OF_ROWS = ("family", "weight", "null_policy", "wide", "resume", "exact")


def _check_rows(options: Options) -> None:
    """Refuse options that no record can serve, and say where to go."""
    given = options.given()
    for name in _OF_ROWS:
        if name in given:
            method, value = options.method, given[name]
            ways = f"dbselect.{method}(table, ..., {name}={value!r})"
            if method == "anytime_sequence" and name == "family":
                ways = f"lf.dbselect.anytime_sequence_glm(..., family={value!r}) or {ways}"
            raise ArgumentError(f"{name} is {value!r}; a record holds no rows: use {ways}")


def _one_by_one(
    call: Callable[..., Any],
    options: type[Options],
    write: Callable[[Iterable[Any]], pa.Array],
) -> Method:
    """Return the method of a search on one Gram."""

    def run(records: pa.Array, target: str, given: Call) -> pa.Array:
        check_type(records)
        arguments = {**given.named, **given.options.given()}

        def search(gram: Gram) -> Any:
            return call(gram, target, **arguments)

        return write(result_of(search, record, target) for record in records)

    return Method(call, options, run)


def _in_library(call: Callable[..., Any], options: type[Options]) -> Method:
    """Return the method of a search that the compiled library has."""

    def run(records: pa.Array, target: str, given: Call) -> pa.ListArray:
        groups, costs = given.named.get("groups"), given.named.get("costs")
        found = searched(records, call, target, groups, costs, given.options)
        return found.field("sequence")

    return Method(call, options, run)


def _of_columns(options: type[Options]) -> Method:
    """Return the method of least squares on named columns, which the compiled library has."""

    def run(records: pa.Array, target: str, given: Call) -> pa.Array:
        columns = given.named.get("columns")
        return fitted_records(records, target, columns, given.options).field("found")

    return Method(fit, options, run)


def write_models(models: Iterable[Selected[Model] | Model | None]) -> pa.StructArray:
    """Return an Arrow struct for each model; NULL for an absent one."""
    return pa.array([None if model is None else _fields(model) for model in models], MODEL_TYPE)


def write_proven(found: Iterable[Selected[Model] | None]) -> pa.StructArray:
    """Return an Arrow struct for each model with its proof; NULL for an absent one."""
    return pa.array([None if one is None else _with_proof(one) for one in found], PROVEN_TYPE)


def _with_proof(found: Selected[Model]) -> dict[str, Any]:
    proof = found.proof
    return {**_fields(found), "bound": proof.bound, "gap": proof.gap, "proven": proof.proven}


def _fields(model: Selected[Model] | Model) -> dict[str, Any]:
    return {
        "columns": model.columns,
        "groups": model.groups,
        "intercept": model.intercept,
        "coefficients": list(model.coefficients.items()),
        "explained": model.explained,
        "r2": model.r2,
        "spent": model.spent,
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
    "anytime_sequence": _in_library(anytime_sequence, AnytimeOptions),
    "foba": _in_library(foba, FobaOptions),
    "backward": _in_library(backward, BackwardOptions),
    "step": _one_by_one(step, StepOptions, write_sequences),
}
#: Calls that make one model.
MODELS: dict[str, Method] = {
    "dash": _one_by_one(dash, DashOptions, write_models),
    "exchange": _one_by_one(exchange, ExchangeOptions, write_models),
    "sght": _one_by_one(sght, SghtOptions, write_models),
}
#: Calls that make one model and prove it.
PROVEN: dict[str, Method] = {
    "best_within": _one_by_one(best_within, BestWithinOptions, write_proven),
}
#: Calls that fit columns that the caller names.
FITS: dict[str, Method] = {
    "fit": _of_columns(FitOptions),
    "summary": _of_columns(SummaryOptions),
}

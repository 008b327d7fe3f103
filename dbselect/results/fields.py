"""Store results by their fields; a type that JSON lacks is ``{"#": kind, "of": parts}``."""

import base64
import io
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from decimal import Decimal
from enum import Enum
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Self, Union, get_args, get_origin, get_type_hints

import numpy as np
import polars as pl
import pyarrow as pa

from dbselect._lazy import load
from dbselect.errors import ArgumentError, RecordError, shown
from dbselect.record import files
from dbselect.record.gram import Gram
from dbselect.record.terms import Terms
from dbselect.results.call import DAMAGE, Call

#: The only classes that are read, dataclasses and enumerations, and their modules.
_CLASSES = {
    "Model": "results.model", "JointModel": "results.model",
    "GlmModel": "results.glm.model", "StandardErrors": "results.glm.model",
    "LassoPath": "results.penalty_path", "GroupLassoPath": "results.penalty_path",
    "Path": "results.penalty_path",
    "Stability": "validation.stability", "StoppedSequence": "validation.stopped_sequence",
    "CrossValidation": "validation.cross_validation",
    "ScoreSequence": "results.scored", "ScoreModel": "results.scored",
    "Step": "record.steps", "Choice": "record.steps", "Stop": "record.steps",
    "FittedRows": "linear.inference", "Deviations": "linear.inference",
    "Linear": "linear.problem", "Groups": "record.groups", "Conditions": "record.prices",
    "Status": "glm.newton", "Constraint": "linear.least_squares",
    "NearBest": "results.sets", "BestAcross": "results.sets", "OrderAcross": "results.sets",
    "Proof": "results.selected",
}  # fmt: skip


class StoredFields(files.Stored):
    """A result that is stored by its fields."""

    def to_struct(self) -> dict[str, Any]:
        """Return the result as plain Python data that JSON can hold.

        Raises
        ------
        ArgumentError : a field is a function
        """
        return {"kind": type(self).__name__, "fields": _fields(self)}

    def _without_rows(self) -> Self:
        """Return the result as it is stored, without a table."""
        return self

    @classmethod
    def from_struct(cls, record: Any) -> Self:
        """Read a record of `to_struct`.

        Raises
        ------
        RecordError : the record is not that of such a result
        """
        result = of_fields(record)
        if not isinstance(result, cls):
            raise RecordError(f"the record is a {type(result).__name__}, not a {cls.__name__}")
        return result

    def write_parquet(self, path: str | Path) -> None:
        """Write a Parquet file of one row: kind, and fields as JSON."""
        record = self.to_struct()
        table = {"kind": [record["kind"]], "fields": [json.dumps(record["fields"])]}
        files.write_parquet(pa.table(table), path)

    @classmethod
    def read_parquet(cls, path: str | Path) -> Self:
        """Read a file of `write_parquet`.

        Raises
        ------
        SourceError : there is no such file, or it holds something else
        """
        return cls.from_struct(files.read_row(path, ["kind", "fields"], f"a {cls.__name__}"))


def of_fields(record: Any) -> Any:
    """Build the result of a record of fields."""
    try:
        kind, values = str(record["kind"]), record["fields"]
        values = values.as_py() if isinstance(values, pa.Scalar) else values
        return _built(kind, json.loads(values) if isinstance(values, str) else values)
    except RecordError:
        raise
    except DAMAGE as error:
        raise RecordError(f"the record is damaged: {error}") from error


def _fields(result: Any) -> dict[str, Any]:
    value: Any = result._without_rows() if isinstance(result, StoredFields) else result
    return {part.name: _plain(getattr(value, part.name)) for part in fields(value) if part.init}


def _built(kind: str, plain_fields: Mapping[str, Any]) -> Any:
    cls = load(_CLASSES[kind], kind)
    values, hints = {name: _value(plain) for name, plain in plain_fields.items()}, _hints(cls)
    for name, value in values.items():
        if not _fits(value, hints[name]):
            raise RecordError(f"the record is damaged: '{name}' of a {kind} is {shown(value)}")
    return cls(**values)


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value has a type, as far as its parts are plain data."""
    origin, parts = get_origin(hint) or hint, get_args(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, part) for part in parts)
    if origin is Any or not isinstance(origin, type):
        return origin is not Literal or value in parts
    kinds = (int, float) if origin is float else origin
    if not isinstance(value, kinds) or (isinstance(value, bool) and origin in (int, float)):
        return False
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biuf"
    if isinstance(value, Mapping) and parts:
        return all(_fits(key, parts[0]) and _fits(item, parts[1]) for key, item in value.items())
    members = value if isinstance(value, list | tuple) and parts[1:] in ((), (...,)) else ()
    return all(_fits(member, parts[0]) for member in members if parts)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else {"#": "float", "of": str(float(value))}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    kind = type(value).__name__
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, Enum):
        return {"#": kind, "of": value.name}
    return {"#": kind, "of": _PLAIN[kind](value)} if kind in _PLAIN else _plain_object(value)


def _plain_object(value: Any) -> Any:
    kind = type(value).__name__
    if isinstance(value, Mapping):
        return {"#": "dict", "of": _PLAIN["dict"](value)}
    if kind not in _CLASSES:
        raise ArgumentError(f"the result has a {kind}, which no file holds")
    return {"#": kind, "of": _fields(value)}


def _value(plain: Any) -> Any:
    """Return the value of plain data; the inverse of `_plain`."""
    if isinstance(plain, list):
        return [_value(item) for item in plain]
    if not isinstance(plain, Mapping):
        return plain
    kind, data = plain["#"], plain["of"]
    if kind in _VALUES:
        return _VALUES[kind](data)
    return load(_CLASSES[kind], kind)[data] if isinstance(data, str) else _built(kind, data)


def reads(kind: str, read: Callable[[Any], Any]) -> None:
    """Register the reader of a kind of results that has its own record."""
    _VALUES[kind] = read


def _table(frame: pl.DataFrame) -> str:
    file = io.BytesIO()
    frame.write_parquet(file)
    return base64.b64encode(file.getvalue()).decode()


#: How values that are not stored by their fields are written and read.
_PLAIN: dict[str, Any] = {
    "dict": lambda value: [[_plain(key), _plain(item)] for key, item in value.items()],
    "tuple": lambda value: [_plain(item) for item in value],
    "ndarray": lambda value: [_plain(value.tolist()), str(value.dtype)],
    "DataFrame": _table, "Decimal": str,
    "Terms": Terms.to_struct, "Gram": Gram.to_struct, "Call": Call.to_json,
    "Problem": lambda value: Call(value, "").to_json(),
    "Sequence": lambda value: value.to_struct(),
}  # fmt: skip
_VALUES: dict[str, Any] = {
    "float": float,
    "dict": lambda pairs: {_value(key): _value(item) for key, item in pairs},
    "tuple": lambda items: tuple(_value(item) for item in items),
    "ndarray": lambda parts: np.array(_value(parts[0]), dtype=parts[1]),
    "DataFrame": lambda text: pl.read_parquet(io.BytesIO(base64.b64decode(text))),
    "Decimal": Decimal,
    "Terms": Terms.from_struct, "Gram": Gram.from_struct, "Call": Call.from_json,
    "Problem": lambda text: Call.from_json(text).problem,
}  # fmt: skip

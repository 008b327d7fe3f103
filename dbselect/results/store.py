"""Sequences of all families as plain data: lists of steps for engines, records for files."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from dbselect.errors import RecordError
from dbselect.pages.html import listed
from dbselect.record.gram import RECORD_TYPE, Gram, Vector
from dbselect.record.groups import Groups, costs_of
from dbselect.record.steps import STEP_DTYPES, STEP_TYPE, Choice, Step, Stop, held_after
from dbselect.results.call import DAMAGE, Call

GROUP_TYPE = pa.struct(
    [("name", pa.string()), ("columns", pa.list_(pa.string())), ("cost", pa.float64())]
)
#: Fields of the search and its outcome, in the records of all families.
SEARCH_FIELDS = (
    ("problem", pa.string()),
    ("rule", pa.string()),
    ("groups", pa.list_(GROUP_TYPE)),
    ("unused", pa.list_(pa.string())),
    ("choices", pa.list_(pa.string())),
    ("aliased", pa.list_(pa.string())),
    ("stop", pa.string()),
)
_RESPONSE_FIELDS = [
    ("target", pa.string()),
    *SEARCH_FIELDS,
    ("condition", pa.float64()),
    ("sequence", pa.list_(STEP_TYPE)),
]
SEQUENCE_TYPE = pa.struct([*_RESPONSE_FIELDS, ("gram", RECORD_TYPE)])
#: A stored sequence of several responses: the fields of each response, and their Gram.
JOINT_TYPE = pa.struct(
    [
        ("rule", pa.string()),
        ("responses", pa.list_(pa.struct(_RESPONSE_FIELDS))),
        ("gram", RECORD_TYPE),
    ]
)


def write_sequences(sequences: Iterable[Any | None]) -> pa.ListArray:
    """Return an Arrow list of steps for each sequence; empty for None."""
    empty = pa.array([], STEP_TYPE)
    lists = [empty if sequence is None else _steps(sequence) for sequence in sequences]
    ends = np.cumsum([0, *map(len, lists)])
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.concat_arrays([empty, *lists]))


def _steps(sequence: Any) -> pa.StructArray:
    members = sequence.groups.members
    held = [sequence.columns_held(step) for step in range(len(sequence.spent))]
    arrays = {name: sequence.steps[name].to_arrow() for name in STEP_DTYPES}
    arrays["intercept"] = pa.array(sequence.intercept)
    arrays["coefficients"] = pa.MapArray.from_arrays(
        pa.array(np.cumsum([0, *map(len, held)]), pa.int32()),
        pa.array([members[j] for at in held for j in at], pa.string()),
        np.concatenate([coef[at] for coef, at in zip(sequence.coef, held, strict=True)]),
    )
    arrays["terms"] = pa.array([sequence.terms.to_json(), *(None for _ in sequence.records)])
    columns = [arrays[field.name].cast(field.type) for field in STEP_TYPE]
    return pa.StructArray.from_arrays(columns, fields=list(STEP_TYPE))


def sequence_record(sequence: Any) -> dict[str, Any]:
    """Return a sequence as plain Python data that JSON can hold."""
    gram_columns = {*sequence.gram.columns}
    columns = [name for name in sequence.groups.members if name in gram_columns]
    gram = sequence.gram.select([sequence.target, *columns])
    # The Gram of a wide sequence lacks some columns, whose terms are stored as well.
    terms = sequence.gram.terms.of({sequence.target, *sequence.groups.members})
    gram = replace(gram, terms=terms)
    return {**_response_record(sequence), "gram": gram.to_struct()}


def joint_record(rule: str, sequences: Iterable[Any]) -> dict[str, Any]:
    """Return the sequences of several responses as plain Python data, with one Gram."""
    responses = list(sequences)
    names = [*(response.target for response in responses), *responses[0].groups.members]
    gram = responses[0].gram.select(names).to_struct()
    return {"rule": rule, "responses": list(map(_response_record, responses)), "gram": gram}


def _response_record(sequence: Any) -> dict[str, Any]:
    finite_condition = np.isfinite(sequence.condition)
    return {
        "target": sequence.target,
        **search_record(sequence),
        "condition": float(sequence.condition) if finite_condition else None,
        "sequence": write_sequences([sequence]).to_pylist(maps_as_pydicts="strict")[0],
    }


def search_record(sequence: Any) -> dict[str, Any]:
    """Return the fields of the search and its outcome, for any family, as plain data."""
    groups = sequence.groups
    return {
        "problem": sequence.call.to_json(),
        "rule": sequence.rule,
        "groups": [
            {"name": name, "columns": columns, "cost": float(cost)}
            for (name, columns), cost in zip(groups.columns.items(), groups.costs, strict=True)
        ],
        "unused": list(groups.unused),
        "choices": [step.choice.name for step in sequence.records],
        "aliased": list(sequence.aliased),
        "stop": sequence.stop.name,
    }


def to_table(record: Mapping[str, Any], type_: pa.StructType) -> pa.Table:
    """Return a record as a table of one row with a column for each field of the type."""
    return pa.Table.from_pylist([as_arrow(record, type_)], schema=pa.schema(type_))


def as_arrow(value: Any, type_: pa.DataType) -> Any:
    """Convert maps to lists of pairs; TypeError for data that would crash Arrow."""
    if pa.types.is_map(type_) and not isinstance(value, Mapping | None):
        raise TypeError(f"a mapping is a {type(value).__name__}")
    if isinstance(value, Mapping):
        if pa.types.is_map(type_):
            return list(value.items())
        types = {field.name: field.type for field in type_}
        return {
            name: as_arrow(item, types[name]) if name in types else item
            for name, item in value.items()
        }
    if isinstance(value, list) and pa.types.is_list(type_):
        return [as_arrow(item, type_.value_type) for item in value]
    return value


def sequence_parts(record: Any, apart: str | None = None) -> dict[str, Any]:
    """Return the fields of a `Sequence` from a record; the Gram may lack the group `apart`."""
    fields = mapping_of(record, SEQUENCE_TYPE)
    with undamaged():
        return _parts(fields, Gram.from_struct(fields["gram"]), apart)


def joint_parts(record: Any) -> tuple[str, list[dict[str, Any]]]:
    """Return the rule and the fields of each response's `Sequence`, from a record."""
    fields = mapping_of(record, JOINT_TYPE)
    with undamaged():
        gram = Gram.from_struct(fields["gram"])
        responses = [_parts(response, gram) for response in fields["responses"]]
        orders = {tuple(step.group for step in parts["records"]) for parts in responses}
        if len(orders) != 1:
            raise ValueError(f"its {len(responses)} responses have {len(orders)} orders of groups")
    return str(fields["rule"]), responses


@contextmanager
def undamaged() -> Iterator[None]:
    """Raise RecordError for what a damaged record raises."""
    try:
        yield
    except DAMAGE as error:
        raise RecordError(f"sequence record is damaged: {error}") from error


def mapping_of(record: Any, type_: pa.StructType) -> dict[str, Any]:
    """Return a record with plain values; RecordError if it lacks a field of the type."""
    if isinstance(record, pa.Scalar):
        record = record.as_py(maps_as_pydicts="strict")
    if not isinstance(record, Mapping):
        raise RecordError(f"a sequence record must be a mapping, not {type(record).__name__}")
    fields = {
        name: value.as_py(maps_as_pydicts="strict") if isinstance(value, pa.Scalar) else value
        for name, value in record.items()
    }
    names = type_.names
    missing = [name for name in names if name not in fields]
    if missing:
        raise RecordError(f"sequence record lacks {missing}; its fields must be {names}")
    return fields


def _parts(record: Mapping[str, Any], gram: Gram, apart: str | None = None) -> dict[str, Any]:
    start, *steps = record["sequence"]
    search = search_parts(record, [start, *steps])
    groups = search["groups"]
    in_gram = [columns for name, columns in groups.columns.items() if name != apart]
    missing = {record["target"]}.union(*in_gram) - set(gram.columns)
    if missing and record.get("level_group") is not None and apart is None:
        raise ValueError("it is that of a WideSequence; read it as one")
    if missing:
        raise ValueError(f"its gram lacks the columns {listed(sorted(missing))}")
    numbers = {name: j for j, name in enumerate(groups.members)}
    coef = np.zeros((1 + len(steps), len(numbers)))
    for row, step in zip(coef[1:], steps, strict=True):
        at = [numbers[name] for name in step["coefficients"]]
        row[at] = finite(step["coefficients"].values())
    return {
        "gram": gram,
        "target": record["target"],
        **search,
        **{name: finite(step[name] for step in (start, *steps)) for name in ("r2", "intercept")},
        "coef": coef,
        "condition": float("inf") if record["condition"] is None else float(record["condition"]),
    }


def search_parts(record: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Read the fields of the search; the first step is the model without columns."""
    names = [group["name"] for group in record["groups"]]
    call = Call.from_json(record["problem"])
    told = call.told.only(names)
    groups = Groups(
        {group["name"]: _texts(group["columns"]) for group in record["groups"]},
        costs_of(names, {group["name"]: group["cost"] for group in record["groups"]}, told),
        tuple(_texts(record["unused"])),
        told=told,
    )
    records = [
        _step(step, Choice[choice], groups)
        for step, choice in zip(steps[1:], record["choices"], strict=True)
    ]
    held_after(records)  # raises if a group is removed that was not added
    return {
        "groups": groups,
        "rule": str(record["rule"]),
        "call": call,
        "records": records,
        **{name: finite(step[name] for step in steps) for name in ("spent", "explained")},
        "aliased": tuple(_texts(record["aliased"])),
        "stop": Stop[record["stop"]],
    }


def _step(step: Mapping[str, Any], choice: Choice, groups: Groups) -> Step:
    action, score = step["action"], float(step["score"])
    if action not in ("add", "remove"):
        raise ValueError(f"{action!r} is no action")
    gain, explained = finite([step["gain"], step["explained"]]).tolist()
    number = groups.number(step["group"], "sequence record")
    return Step(action, number, score, gain, explained, choice)


def finite(values: Iterable[Any]) -> Vector:
    """Convert finite numbers to doubles; NumPy alone would turn NULL into NaN."""
    numbers = np.array([float(value) for value in values])
    if not np.isfinite(numbers).all():
        raise ValueError("a number is not finite")
    return numbers


def _texts(values: Any) -> list[str]:
    if not isinstance(values, list | tuple) or not all(isinstance(text, str) for text in values):
        raise TypeError(f"{values!r} is no list of texts")
    return list(values)

"""Sequences as plain data: lists of steps for the engines, records for files.

A list of steps, each with its model, is what SQL and Polars see; a record is one such
list and all else that a `Sequence` knows.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from dbselect.errors import RecordError
from dbselect.record.gram import RECORD_TYPE, Gram, Matrix, Vector
from dbselect.record.groups import Groups, costs_of
from dbselect.record.steps import STEP_TYPE, Choice, Step, Stop, held_after, is_useful

#: A stored sequence.
SEQUENCE_TYPE = pa.struct(
    [
        ("target", pa.string()),
        ("rule", pa.string()),
        ("ridge", pa.float64()),
        ("scale", pa.bool_()),
        (
            "groups",
            pa.list_(
                pa.struct(
                    [
                        ("name", pa.string()),
                        ("columns", pa.list_(pa.string())),
                        ("cost", pa.float64()),
                    ]
                )
            ),
        ),
        ("unused", pa.list_(pa.string())),
        ("choices", pa.list_(pa.string())),
        ("aliased", pa.list_(pa.string())),
        ("stop", pa.string()),
        ("condition", pa.float64()),
        ("sequence", pa.list_(STEP_TYPE)),
        ("gram", RECORD_TYPE),
    ]
)
FIELDS = tuple(field.name for field in SEQUENCE_TYPE)
_OWN_FIELDS = [field for field in SEQUENCE_TYPE if field.name != "gram"]

#: A stored sequence of several responses: what each has of its own, and the Gram of all.
JOINT_TYPE = pa.struct(
    [
        ("rule", pa.string()),
        ("responses", pa.list_(pa.struct(_OWN_FIELDS))),
        ("gram", RECORD_TYPE),
    ]
)
JOINT_FIELDS = tuple(field.name for field in JOINT_TYPE)


@dataclass(frozen=True, eq=False)
class SequenceRecord:
    """What a sequence consists of.

    Parameters
    ----------
    gram : Gram that was searched
    target : the column that is predicted
    groups : Groups, their columns and costs
    rule : name of the rule, or of the method
    ridge, scale : penalty, and whether it is on unit-variance columns
    records : the steps 1, 2, ...
    spent : shape (steps + 1,), summed cost of the groups held
    explained, r2, intercept : shape (steps + 1,)
    coef : shape (steps + 1, D), in the table's units
    aliased : columns that depend linearly on columns before them
    stop : why the search ended
    condition : estimated condition number of the selected columns' correlations
    """

    gram: Gram
    target: str
    groups: Groups
    rule: str
    ridge: float
    scale: bool
    records: list[Step]
    spent: Vector
    explained: Vector
    r2: Vector
    intercept: Vector
    coef: Matrix
    aliased: tuple[str, ...]
    stop: Stop
    condition: float

    def held(self, step: int) -> list[int]:
        """Return the numbers of the groups held after a step, in the order taken."""
        return held_after(self.records[:step])


def write_sequences(sequences: Iterable[SequenceRecord | None]) -> pa.ListArray:
    """Return an Arrow list of steps for each sequence; an absent one is empty."""
    columns: dict[str, list[Any]] = {field.name: [] for field in STEP_TYPE}
    names: list[str] = []
    values: list[np.ndarray[Any, np.dtype[np.float64]]] = []
    entries = [0]
    ends = [0]
    for sequence in sequences:
        if sequence is not None:
            _append(sequence, columns, names, values, entries)
        ends.append(len(columns["step"]))
    del columns["coefficients"]
    arrays = [pa.array(column, STEP_TYPE.field(name).type) for name, column in columns.items()]
    coefficients = pa.MapArray.from_arrays(
        pa.array(entries, pa.int32()),
        pa.array(names, pa.string()),
        pa.array(np.concatenate(values) if values else np.empty(0)),
    )
    steps = pa.StructArray.from_arrays([*arrays, coefficients], fields=list(STEP_TYPE))
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), steps)


def _append(
    sequence: SequenceRecord,
    columns: dict[str, list[Any]],
    names: list[str],
    values: list[np.ndarray[Any, np.dtype[np.float64]]],
    entries: list[int],
) -> None:
    groups, records = sequence.groups, sequence.records
    group_names = groups.names
    steps = len(sequence.spent)
    columns["step"].extend(range(steps))
    columns["action"].extend(["start", *(step.action for step in records)])
    columns["group"].extend([None, *(group_names[step.group] for step in records)])
    columns["cost"].extend([0.0, *(groups.costs[step.group] for step in records)])
    columns["spent"].extend(sequence.spent)
    columns["score"].extend([None, *(step.score for step in records)])
    columns["gain"].extend([0.0, *(step.gain for step in records)])
    columns["explained"].extend(sequence.explained)
    columns["r2"].extend(sequence.r2)
    columns["useful"].extend([True, *(is_useful(step.gain) for step in records)])
    columns["intercept"].extend(sequence.intercept)
    positions, no_columns = groups.positions, np.empty(0, dtype=np.intp)
    for step in range(steps):
        held = sequence.held(step)
        for group in held:
            names.extend(groups.columns[group_names[group]])
        at = np.concatenate([no_columns, *(positions[group] for group in held)])
        values.append(sequence.coef[step, at])
        entries.append(len(names))


def to_struct(sequence: SequenceRecord) -> dict[str, Any]:
    """Return a sequence as plain Python data that JSON can hold."""
    gram = sequence.gram.select([sequence.target, *sequence.groups.members])
    return {**_own_struct(sequence), "gram": gram.to_struct()}


def joint_to_struct(rule: str, sequences: Iterable[SequenceRecord]) -> dict[str, Any]:
    """Return the sequences of several responses as plain Python data, with one Gram."""
    each = list(sequences)
    gram = each[0].gram.select([*(own.target for own in each), *each[0].groups.members])
    responses = [_own_struct(own) for own in each]
    return {"rule": rule, "responses": responses, "gram": gram.to_struct()}


def _own_struct(sequence: SequenceRecord) -> dict[str, Any]:
    """Return everything but the Gram."""
    groups = sequence.groups
    steps = write_sequences([sequence]).to_pylist(maps_as_pydicts="strict")[0]
    finite = np.isfinite(sequence.condition)
    return {
        "target": sequence.target,
        "rule": sequence.rule,
        "ridge": float(sequence.ridge),
        "scale": bool(sequence.scale),
        "groups": [
            {"name": name, "columns": columns, "cost": float(cost)}
            for (name, columns), cost in zip(groups.columns.items(), groups.costs, strict=True)
        ],
        "unused": list(groups.unused),
        "choices": [step.choice.name for step in sequence.records],
        "aliased": list(sequence.aliased),
        "stop": sequence.stop.name,
        "condition": float(sequence.condition) if finite else None,
        "sequence": steps,
    }


def to_arrow(record: Mapping[str, Any]) -> pa.Table:
    """Return a record as a table of one row."""
    return pa.Table.from_pylist([_with_items(record)], schema=pa.schema(SEQUENCE_TYPE))


def joint_to_arrow(record: Mapping[str, Any]) -> pa.Table:
    """Return a record of several responses as a table of one row."""
    row = {**record, "responses": [_with_items(own) for own in record["responses"]]}
    return pa.Table.from_pylist([row], schema=pa.schema(JOINT_TYPE))


def _with_items(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with its coefficients as Arrow takes them."""
    steps = [
        {**step, "coefficients": list(step["coefficients"].items())} for step in record["sequence"]
    ]
    return {**record, "sequence": steps}


def parts(record: Any) -> dict[str, Any]:
    """Return what a `Sequence` is made of, from a record.

    Raises
    ------
    RecordError : a field is missing or of another kind
    """
    found = _mapping(record, FIELDS)
    try:
        return _parts(found, Gram.from_struct(found["gram"]))
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(f"sequence record is damaged: {error}") from error


def joint_parts(record: Any) -> tuple[str, list[dict[str, Any]]]:
    """Return the rule and what the `Sequence` of each response is made of, from a record.

    Raises
    ------
    RecordError : a field is missing or of another kind, or the responses differ in steps
    """
    found = _mapping(record, JOINT_FIELDS)
    try:
        gram = Gram.from_struct(found["gram"])
        each = [_parts(own, gram) for own in found["responses"]]
        orders = {tuple(step.group for step in own["records"]) for own in each}
        if len(orders) != 1:
            raise ValueError(f"its {len(each)} responses have {len(orders)} orders of groups")
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(f"sequence record is damaged: {error}") from error
    return str(found["rule"]), each


def _mapping(record: Any, fields: Sequence[str]) -> dict[str, Any]:
    """Return a record with plain values, if it has all fields."""
    if isinstance(record, pa.Scalar):
        record = record.as_py(maps_as_pydicts="strict")
    if not isinstance(record, Mapping):
        raise RecordError(f"a sequence record must be a mapping, not {type(record).__name__}")
    found = {
        name: value.as_py(maps_as_pydicts="strict") if isinstance(value, pa.Scalar) else value
        for name, value in record.items()
    }
    missing = [name for name in fields if name not in found]
    if missing:
        raise RecordError(f"sequence record lacks {missing}; its fields must be {list(fields)}")
    return found


def _parts(record: Mapping[str, Any], gram: Gram) -> dict[str, Any]:
    names = [group["name"] for group in record["groups"]]
    groups = Groups(
        {group["name"]: _texts(group["columns"]) for group in record["groups"]},
        costs_of(names, {group["name"]: group["cost"] for group in record["groups"]}),
        tuple(_texts(record["unused"])),
    )
    missing = {record["target"], *groups.members} - set(gram.columns)
    if missing:
        raise ValueError(f"its gram lacks the columns {sorted(missing)}")
    (ridge,) = _numbers([record["ridge"]]).tolist()
    if ridge < 0:
        raise ValueError(f"its ridge is {ridge}")
    start, *steps = record["sequence"]
    numbers = {name: j for j, name in enumerate(groups.members)}
    coef = np.zeros((1 + len(steps), len(numbers)))
    for row, step in zip(coef[1:], steps, strict=True):
        at = [numbers[name] for name in step["coefficients"]]
        row[at] = _numbers(step["coefficients"].values())
    curves = {
        name: _numbers(step[name] for step in (start, *steps))
        for name in ("spent", "explained", "r2", "intercept")
    }
    return {
        "gram": gram,
        "target": record["target"],
        "groups": groups,
        "rule": str(record["rule"]),
        "ridge": ridge,
        "scale": bool(record["scale"]),
        "records": [
            _step(step, Choice[choice], groups)
            for step, choice in zip(steps, record["choices"], strict=True)
        ],
        **curves,
        "coef": coef,
        "aliased": tuple(_texts(record["aliased"])),
        "stop": Stop[record["stop"]],
        "condition": float("inf") if record["condition"] is None else float(record["condition"]),
    }


def _step(step: Mapping[str, Any], choice: Choice, groups: Groups) -> Step:
    action, score = step["action"], float(step["score"])
    if action not in ("add", "remove"):
        raise ValueError(f"{action!r} is no action")
    gain, explained = _numbers([step["gain"], step["explained"]]).tolist()
    number = groups.number(step["group"], "sequence record")
    return Step(action, number, score, gain, explained, choice)


def _numbers(values: Iterable[Any]) -> Vector:
    """Return numbers as doubles; NumPy alone would take NULL for NaN."""
    found = np.array([float(value) for value in values])
    if not np.isfinite(found).all():
        raise ValueError("a number is not finite")
    return found


def _texts(values: Any) -> list[str]:
    if not isinstance(values, list | tuple) or not all(isinstance(text, str) for text in values):
        raise TypeError(f"{values!r} is no list of texts")
    return list(values)

"""Many sequences from a column of Gram records, for DuckDB and Polars alike."""

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from dbselect.anytime import anytime_sequence, check_options
from dbselect.gram import Gram
from dbselect.objectives.linear import unusable
from dbselect.sequence import Sequence

#: A step of a sequence with its model, in Arrow.
STEP_TYPE = pa.struct(
    [
        ("step", pa.int64()),
        ("action", pa.string()),
        ("group", pa.string()),
        ("cost", pa.float64()),
        ("spent", pa.float64()),
        ("score", pa.float64()),
        ("gain", pa.float64()),
        ("explained", pa.float64()),
        ("r2", pa.float64()),
        ("useful", pa.bool_()),
        ("intercept", pa.float64()),
        ("coefficients", pa.map_(pa.string(), pa.float64())),
    ]
)


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


def write_sequences(sequences: Iterable[Sequence | None]) -> pa.ListArray:
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
    sequence: Sequence,
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
    columns["useful"].extend(sequence.useful.tolist())
    columns["intercept"].extend(sequence.intercept)
    positions, no_columns = sequence.positions, np.empty(0, dtype=np.intp)
    for step in range(steps):
        held = sequence.held(step)
        for group in held:
            names.extend(groups.columns[group_names[group]])
        at = np.concatenate([no_columns, *(positions[group] for group in held)])
        values.append(sequence.coef[step, at])
        entries.append(len(names))

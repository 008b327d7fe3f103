"""Sequences of generalised linear models as plain data, for the engines and for files.

A record holds the steps, as `GlmSequence.steps` shows them, and the linear predictors: one
list of steps with their coefficients, as a `Sequence` has it, or one for each class. So
what predicts from a linear sequence gives the predictors of a record, too; the inverse of
the link is all that is left to apply.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from dbselect.errors import RecordError
from dbselect.glm.newton import Status
from dbselect.record.gram import Vector
from dbselect.record.groups import Groups, costs_of
from dbselect.record.steps import (
    SEQUENCE_DTYPE,
    STEP_DTYPES,
    STEP_TYPE,
    Choice,
    Step,
    Stop,
    held_after,
    is_useful,
)

_GROUP_TYPE = pa.struct(
    [("name", pa.string()), ("columns", pa.list_(pa.string())), ("cost", pa.float64())]
)
_PREDICTOR_TYPE = pa.struct([("class", pa.string()), ("sequence", pa.list_(STEP_TYPE))])
#: What the steps of such models have besides those of linear ones.
_MORE = (("deviance", pa.float64()), ("status", pa.string()), ("passes", pa.int64()))
_MODEL_FIELDS = ("intercept", "coefficients")
_STEP_TYPE = pa.struct([*(f for f in STEP_TYPE if f.name not in _MODEL_FIELDS), *_MORE])
STEPS_DTYPES = {
    **STEP_DTYPES,
    "deviance": pl.Float64,
    "status": pl.String,
    "passes": pl.Int64,
}
#: A stored sequence of generalised linear models.
GLM_TYPE = pa.struct(
    [
        ("target", pa.string()),
        ("family", pa.string()),
        ("class_type", pa.string()),
        ("offset", pa.string()),
        ("rule", pa.string()),
        ("ridge", pa.float64()),
        ("scale", pa.bool_()),
        ("groups", pa.list_(_GROUP_TYPE)),
        ("unused", pa.list_(pa.string())),
        ("choices", pa.list_(pa.string())),
        ("aliased", pa.list_(pa.string())),
        ("stop", pa.string()),
        ("rows", pa.int64()),
        ("skipped", pa.int64()),
        ("passes", pa.int64()),
        ("rows_read", pa.int64()),
        ("bytes_read", pa.int64()),
        ("steps", pa.list_(_STEP_TYPE)),
        ("predictors", pa.list_(_PREDICTOR_TYPE)),
    ]
)
FIELDS = tuple(field.name for field in GLM_TYPE)
#: The same in Polars.
GLM_DTYPE = pl.Struct(
    {
        **pl.DataFrame(pa.schema(GLM_TYPE).empty_table()).schema,
        "predictors": pl.List(pl.Struct({"class": pl.String, "sequence": SEQUENCE_DTYPE})),
    }
)
#: How a class is read from its text, by the name of its type.
_CLASS_TYPES: dict[str, Callable[[str], Any]] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": lambda text: {"True": True, "False": False}[text],
    "Decimal": Decimal,
}


@dataclass(frozen=True, eq=False)
class GlmRecord:
    """What a sequence of generalised linear models consists of.

    Parameters
    ----------
    target, family, classes, offset : as in `GlmModel`
    groups : Groups, their columns and costs
    rule : name of the rule
    ridge, scale : penalty, and whether it is on unit-variance columns
    records : the steps 1, 2, ...
    spent : shape (steps + 1,), summed cost of the groups held
    explained : shape (steps + 1,), share of the null deviance, less what the ridge takes
    deviance : shape (steps + 1,)
    intercept : shape (steps + 1, K)
    coef : shape (steps + 1, D, K), in the table's units
    status : how the fit of each step ended, shape (steps + 1,)
    passes : shape (steps + 1,), passes made until each step was done
    aliased : columns that depend linearly on columns before them
    stop : why the search ended
    rows, skipped : rows used by each pass, and left out
    passes_made, rows_read, bytes_read : by the whole search; bytes as Arrow holds numbers
    """

    target: str
    family: str
    classes: tuple[Any, ...]
    offset: str | None
    groups: Groups
    rule: str
    ridge: float
    scale: bool
    records: list[Step]
    spent: Vector
    explained: Vector
    deviance: Vector
    intercept: npt.NDArray[np.float64]
    coef: npt.NDArray[np.float64]
    status: list[Status]
    passes: npt.NDArray[np.int64]
    aliased: tuple[str, ...]
    stop: Stop
    rows: int
    skipped: int
    passes_made: int
    rows_read: int
    bytes_read: int

    @property
    def r2(self) -> Vector:
        """Share of the null deviance explained; equals `explained` at ridge 0."""
        return np.asarray(1.0 - self.deviance / self.deviance[0])

    def held(self, step: int) -> list[int]:
        """Return the numbers of the groups held after a step, in the order taken."""
        return held_after(self.records[:step])

    def columns_held(self, step: int) -> list[int]:
        """Return the numbers of the columns of these groups."""
        return [int(j) for group in self.held(step) for j in self.groups.positions[group]]

    def step_frame(self) -> pl.DataFrame:
        """Return one row a step."""
        names = self.groups.names
        return pl.DataFrame(
            {
                "step": np.arange(len(self.spent)),
                "action": ["start"] + [step.action for step in self.records],
                "group": [None] + [names[step.group] for step in self.records],
                "cost": [0.0] + [float(self.groups.costs[step.group]) for step in self.records],
                "spent": self.spent,
                "score": [None] + [step.score for step in self.records],
                "gain": [0.0] + [step.gain for step in self.records],
                "explained": self.explained,
                "r2": self.r2,
                "useful": [True, *(is_useful(step.gain) for step in self.records)],
                "deviance": self.deviance,
                "status": [status.name.lower() for status in self.status],
                "passes": self.passes,
            },
            schema=STEPS_DTYPES,
        )


def to_struct(sequence: GlmRecord) -> dict[str, Any]:
    """Return a sequence as plain Python data that JSON can hold."""
    groups = sequence.groups
    steps = sequence.step_frame().to_dicts()
    return {
        "target": sequence.target,
        "family": sequence.family,
        "class_type": type(sequence.classes[0]).__name__ if sequence.classes else None,
        "offset": sequence.offset,
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
        "rows": sequence.rows,
        "skipped": sequence.skipped,
        "passes": sequence.passes_made,
        "rows_read": sequence.rows_read,
        "bytes_read": sequence.bytes_read,
        "steps": steps,
        "predictors": [
            {"class": name, "sequence": _predictor(sequence, steps, k)}
            for k, name in enumerate([str(one) for one in sequence.classes] or [None])
        ],
    }


def _predictor(
    sequence: GlmRecord, steps: Iterable[Mapping[str, Any]], k: int
) -> list[dict[str, Any]]:
    """Return the steps of one linear predictor; an offset is a column with coefficient 1."""
    names = sequence.groups.members
    shared = [{name: step[name] for name in STEP_DTYPES} for step in steps]
    for number, step in enumerate(shared):
        at = sequence.columns_held(number)
        coefficients = {} if sequence.offset is None else {sequence.offset: 1.0}
        values = sequence.coef[number, at, k].tolist()
        coefficients |= dict(zip([names[j] for j in at], values, strict=True))
        step["intercept"] = float(sequence.intercept[number, k])
        step["coefficients"] = coefficients
    return shared


def to_scalar(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with lists of pairs, as Arrow takes maps."""
    return {
        **record,
        "predictors": [
            {
                **one,
                "sequence": [
                    {**step, "coefficients": _pairs(step["coefficients"])}
                    for step in one["sequence"]
                ],
            }
            for one in record["predictors"]
        ],
    }


def _pairs(coefficients: Any) -> list[Any]:
    """Return a map as pairs, which Polars already has."""
    return list(coefficients.items() if isinstance(coefficients, Mapping) else coefficients)


def to_arrow(record: Mapping[str, Any]) -> pa.Table:
    """Return a record as a table of one row."""
    return pa.Table.from_pylist([to_scalar(record)], schema=pa.schema(GLM_TYPE))


def parts(record: Any) -> dict[str, Any]:
    """Return what a `GlmSequence` is made of, from a record.

    Raises
    ------
    RecordError : a field is missing or of another kind
    """
    if isinstance(record, pa.Scalar):
        record = record.as_py(maps_as_pydicts="strict")
    if not isinstance(record, Mapping):
        raise RecordError(f"a sequence record must be a mapping, not {type(record).__name__}")
    record = {
        name: value.as_py(maps_as_pydicts="strict") if isinstance(value, pa.Scalar) else value
        for name, value in record.items()
    }
    missing = [name for name in FIELDS if name not in record]
    if missing:
        raise RecordError(f"sequence record lacks {missing}; its fields must be {list(FIELDS)}")
    try:
        # Arrow refuses what has another type.
        plain = pa.scalar(to_scalar(record), GLM_TYPE).as_py(maps_as_pydicts="strict")
        return _parts(plain)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise RecordError(f"sequence record is damaged: {error}") from error


def _parts(record: Mapping[str, Any]) -> dict[str, Any]:
    names = [group["name"] for group in record["groups"]]
    groups = Groups(
        {group["name"]: group["columns"] for group in record["groups"]},
        costs_of(names, {group["name"]: group["cost"] for group in record["groups"]}),
        tuple(record["unused"]),
    )
    steps, predictors = record["steps"], record["predictors"]
    class_type = record["class_type"]
    classes = (
        () if class_type is None else [_CLASS_TYPES[class_type](p["class"]) for p in predictors]
    )
    numbers = {name: j for j, name in enumerate(groups.members)}
    intercept = np.zeros((len(steps), len(predictors)))
    coef = np.zeros((len(steps), len(numbers), len(predictors)))
    for k, predictor in enumerate(predictors):
        for number, step in enumerate(predictor["sequence"]):
            intercept[number, k] = step["intercept"]
            for name, value in step["coefficients"].items():
                if name != record["offset"]:
                    coef[number, numbers[name], k] = value
    records = [
        _step(step, Choice[choice], groups)
        for step, choice in zip(steps[1:], record["choices"], strict=True)
    ]
    held_after(records)  # fails where a group is given back that was not taken
    curves = {name: _finite([step[name] for step in steps]) for name in ("spent", "explained")}
    return {
        "target": record["target"],
        "family": record["family"],
        "classes": tuple(classes),
        "offset": record["offset"],
        "groups": groups,
        "rule": record["rule"],
        "ridge": record["ridge"],
        "scale": record["scale"],
        "records": records,
        **curves,
        "deviance": _finite([step["deviance"] for step in steps]),
        "intercept": _finite(intercept),
        "coef": _finite(coef),
        "status": [Status[step["status"].upper()] for step in steps],
        "passes": np.array([step["passes"] for step in steps], dtype=np.int64),
        "aliased": tuple(record["aliased"]),
        "stop": Stop[record["stop"]],
        "rows": record["rows"],
        "skipped": record["skipped"],
        "passes_made": record["passes"],
        "rows_read": record["rows_read"],
        "bytes_read": record["bytes_read"],
    }


def _step(step: Mapping[str, Any], choice: Choice, groups: Groups) -> Step:
    if step["action"] not in ("add", "remove"):
        raise ValueError(f"{step['action']!r} is no action of a sequence")
    score, gain, explained = _finite([step["score"], step["gain"], step["explained"]]).tolist()
    number = groups.number(step["group"], "sequence record")
    return Step(step["action"], number, score, gain, explained, choice)


def _finite(values: Any) -> npt.NDArray[np.float64]:
    """Return numbers as doubles; NumPy alone would take NULL for NaN."""
    found = np.asarray(values, dtype=np.float64)
    if not np.isfinite(found).all():
        raise ValueError("a number is not finite")
    return found

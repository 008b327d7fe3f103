"""Sequences of generalised linear models as plain data: a list of steps for each predictor.

The steps of a predictor have the form of a linear sequence; the inverse link is not applied.
"""

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from dbselect.glm.families import Offset
from dbselect.glm.newton import Status
from dbselect.record.steps import MODEL_FIELDS, STEP_DTYPES, STEP_TYPE
from dbselect.record.terms import Terms
from dbselect.results.store import (
    SEARCH_FIELDS,
    as_arrow,
    finite,
    mapping_of,
    search_parts,
    search_record,
    undamaged,
)

_PREDICTOR_TYPE = pa.struct([("class", pa.string()), ("sequence", pa.list_(STEP_TYPE))])
#: Fields of these steps that the steps of linear models lack.
_MORE = (("deviance", pa.float64()), ("status", pa.string()), ("passes", pa.int64()))
_STEP_TYPE = pa.struct([*(f for f in STEP_TYPE if f.name not in MODEL_FIELDS), *_MORE])
#: Stored name of a number -> attribute of the sequence.
_COUNTS = {
    "rows": "rows", "skipped": "skipped", "rows_searched": "rows_searched",
    "passes": "passes_made", "rows_read": "rows_read", "bytes_read": "bytes_read",
}  # fmt: skip
GLM_TYPE = pa.struct(
    [
        ("target", pa.string()),
        ("family", pa.string()),
        ("class_type", pa.string()),
        ("levels", pa.list_(pa.string())),
        ("offset", pa.string()),
        ("exposure", pa.string()),
        *SEARCH_FIELDS,
        *((name, pa.int64()) for name in _COUNTS),
        ("steps", pa.list_(_STEP_TYPE)),
        ("predictors", pa.list_(_PREDICTOR_TYPE)),
    ]
)
#: Readers of a class from its text, by the name of its type.
_CLASS_TYPES: dict[str, Callable[[str], Any]] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": lambda text: {"True": True, "False": False}[text],
    "Decimal": Decimal,
}


def glm_record(sequence: Any) -> dict[str, Any]:
    """Return a sequence as plain Python data that JSON can hold."""
    steps = sequence.steps.to_dicts()
    labels = sequence.classes or sequence.levels
    return {
        "target": sequence.target,
        "family": sequence.family,
        "class_type": type(labels[0]).__name__ if labels else None,
        "levels": [str(level) for level in sequence.levels],
        "offset": sequence.offset,
        "exposure": sequence.exposure,
        **search_record(sequence),
        **{name: getattr(sequence, attribute) for name, attribute in _COUNTS.items()},
        "steps": steps,
        "predictors": [
            {"class": name, "sequence": _predictor(sequence, steps, k)}
            for k, name in enumerate(_predicted(sequence))
        ],
    }


def _predicted(sequence: Any) -> list[str | None]:
    """Return the classes, or the level, with predicted probabilities; None for a number."""
    return [str(label) for label in sequence.classes or sequence.levels[1:]] or [None]


def _predictor(sequence: Any, steps: Iterable[Mapping[str, Any]], k: int) -> list[dict[str, Any]]:
    """Return the steps of one predictor; offset and log exposure have coefficient 1."""
    names = sequence.groups.members
    rows = [{name: step[name] for name in STEP_DTYPES} for step in steps]
    for number, step in enumerate(rows):
        at = sequence.columns_held(number)
        coefficients = sequence.offsets.coefficients
        values = sequence.coef[number, at, k].tolist()
        coefficients |= dict(zip([names[j] for j in at], values, strict=True))
        step["intercept"] = float(sequence.intercept[number, k])
        step["coefficients"] = coefficients
        step["terms"] = None if number else sequence.offsets.with_log(sequence.terms).to_json()
    return rows


def to_scalar(record: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a record of `GLM_TYPE` for Arrow, with maps as lists of pairs."""
    return dict(as_arrow(record, GLM_TYPE))


def glm_parts(record: Any) -> dict[str, Any]:
    """Return the fields of a `GlmSequence` from a record."""
    fields = mapping_of(record, GLM_TYPE)
    with undamaged():
        # Arrow refuses values of another type.
        plain = pa.scalar(to_scalar(fields), GLM_TYPE).as_py(maps_as_pydicts="strict")
        return _parts(plain)


def _parts(record: Mapping[str, Any]) -> dict[str, Any]:
    steps, predictors = record["steps"], record["predictors"]
    search = search_parts(record, steps)
    class_type, levels = record["class_type"], record["levels"] or []
    if len(levels) not in (0, 2):
        raise ValueError(f"levels are {levels}; a target has two, or none")
    read = _CLASS_TYPES[class_type] if class_type is not None else str
    classes = [] if class_type is None or levels else [read(p["class"]) for p in predictors]
    if (record["family"] == "multinomial") != (len(classes) > 1):
        raise ValueError(f"family is {record['family']!r}, of {len(classes)} classes")
    offsets = Offset(record["offset"], record["exposure"])
    terms = Terms.from_json(predictors[0]["sequence"][0]["terms"])
    numbers = {name: j for j, name in enumerate(search["groups"].members)}
    intercept = np.zeros((len(steps), len(predictors)))
    coef = np.zeros((len(steps), len(numbers), len(predictors)))
    for k, predictor in enumerate(predictors):
        for number, step in enumerate(predictor["sequence"]):
            intercept[number, k] = step["intercept"]
            for name, value in step["coefficients"].items():
                if name not in offsets.coefficients:
                    coef[number, numbers[name], k] = value
    finite([*intercept.ravel(), *coef.ravel()])
    return {
        "family": record["family"],
        "classes": tuple(classes),
        "levels": tuple(read(level) for level in levels),
        **search,
        "deviance": finite(step["deviance"] for step in steps),
        "intercept": intercept,
        "coef": coef,
        "status": [Status[step["status"].upper()] for step in steps],
        "passes": np.array([step["passes"] for step in steps], dtype=np.int64),
        **{attribute: record[name] for name, attribute in _COUNTS.items()},
        "terms": offsets.without_log(terms),
    }

"""The longest prefix of a sequence that each row can have: its budget, and the columns it has.

`native/src/record/prefix.rs` finds it, but for columns of entries and those computed of others.
"""

import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from polars.plugins import register_plugin_function
from scipy.sparse import issparse

from dbselect import _native
from dbselect.errors import ArgumentError, DataError
from dbselect.options.kinds import BUDGET
from dbselect.record import formulas
from dbselect.record.foreign import is_of
from dbselect.record.formulas import polars_field, translate
from dbselect.record.gram import Vector
from dbselect.record.inputs import (
    HandleUnknown,
    Input,
    Levels,
    Listing,
    MissingColumns,
    Product,
    check_missing_columns,
    check_unknown,
    inputs_of,
)
from dbselect.record.steps import fits, next_group, serving_order
from dbselect.results.prediction.predict import (
    array_of,
    as_table,
    check_there,
    frame_of,
    prediction_table,
    read_of,
)

#: Of a row that no prefix serves.
NOBODY = -1
#: Names of columns that no table has: of a budget, and, before that of a field of entries or of
#: computed columns, of whether they are there.
_BUDGET, _THERE = "__dbselect_budget", "__dbselect_there "
#: Rows that cost as much to set apart as a prefix to hand over.
_ROWS_A_PREFIX = 10_000
_ENTRY = {"key": pl.String, "value": pl.Float64}


class Served(NamedTuple):
    """The prefix of each row, `NOBODY` where none serves it, and its prediction, else NaN."""

    step: npt.NDArray[np.intp]
    value: npt.NDArray[np.float64]


def served(
    sequence: Any,
    rows: Any,
    budget: Any,
    columns: Sequence[str] | None,
    unknown: HandleUnknown,
    missing_columns: MissingColumns,
) -> Served:
    """Predict each row by the longest prefix within its budget whose columns it has."""
    check_missing_columns(missing_columns)
    limits = limits_of(budget)
    asked = _Asked(sequence, float(np.max(limits, initial=0.0)), missing_columns)
    check_unknown(unknown, asked.inputs)
    if issparse(rows):
        rows = as_table(rows, inputs_of(sequence.columns, sequence._prepared))
    frame = frame_asked(rows, columns, sequence._inputs, asked.inputs, asked.refuse, limits)
    read = asked.refuse(frame)
    for one in read:
        if isinstance(one, Levels):
            one.check_shares(unknown)
    made = [one for one in read if isinstance(one, Listing | Product)]
    found = _served(asked, read, made, frame, limits, unknown)
    step_of, nobody = found.step, found.step == NOBODY
    if made:
        for step in np.unique(step_of[~nobody]).tolist():
            inputs = read_of(frame, asked.inputs_at(step))[0]
            own = frame.filter(pl.Series(step_of == step))
            found.value[step_of == step] = sequence._at_step(step)._of_read(own, inputs, unknown)
    value = sequence._at_step(0)._linked(found.value)
    value[nobody] = np.nan
    return Served(step_of, value)


def _served(
    asked: "_Asked",
    read: Sequence[Input],
    made: Sequence[Input],
    frame: pl.DataFrame,
    limits: float | Vector,
    unknown: HandleUnknown,
) -> Served:
    """Return each row's prefix and predictors; the best prefixes serve most rows."""
    seen: HandleUnknown = "unavailable" if unknown == "unavailable" else "mean"
    there = {f"{_THERE}{one.source}": one.formula({}, seen) for one in made}
    marks = {name: f"{_THERE}{one.source}" for one in made for name in one.names}
    fields = dict.fromkeys(str(one.path[0]) for one in read if one not in made)
    columns = [polars_field(name) for name in fields or frame.columns[:1]]
    columns += [translate(one, formulas.polars()).alias(name) for name, one in there.items()]
    budget = pl.lit(limits) if isinstance(limits, float) else pl.col(_BUDGET)
    table = frame if isinstance(limits, float) else frame.with_columns(pl.Series(_BUDGET, limits))
    n_predictors = len(asked.sequence._at_step(0)._predictors)
    found = Served(
        np.full(frame.height, NOBODY, dtype=np.intp), np.full((frame.height, n_predictors), np.nan)
    )
    first = 1 + frame.height // _ROWS_A_PREFIX
    for order in (asked.order[:first], asked.order[first:]):
        waiting = found.step == NOBODY
        if not order or not waiting.any():
            break
        own = table if waiting.all() else table.filter(pl.Series(waiting))
        for k in range(n_predictors):
            record = pl.lit(asked.record(order, k, marks))
            serving = register_plugin_function(
                plugin_path=_native.library_path(),
                function_name="serve",
                args=[record, pl.struct(columns), budget, pl.lit(unknown)],
                is_elementwise=True,
            )
            answer = asked_of_library(own, serving).struct
            found.value[waiting, k] = answer.field("value").to_numpy()
        found.step[waiting] = answer.field("step").to_numpy()
    return found


def asked_of_library(frame: pl.DataFrame, asked: pl.Expr) -> pl.Series:
    """Return what the library says of rows; DataError if it refuses them."""
    try:
        return frame.select(asked).to_series()
    except pl.exceptions.ComputeError as error:
        raise DataError(str(error).split("\n")[0].rpartition("message: ")[2]) from None


def frame_asked(
    rows: Any,
    columns: Sequence[str] | None,
    names: Sequence[str],
    inputs: list[Input],
    refuse: Callable[[pl.DataFrame], object],
    limits: float | Vector,
) -> pl.DataFrame:
    """Return the rows of a prediction as a frame; `names` are those of an array's columns."""
    frame = prediction_table(rows, columns, inputs, refuse)
    if frame is None:
        names = list(names) if columns is None else list(columns)
        doubled = next((name for name in names if names.count(name) > 1), None)
        if doubled is not None:
            raise ArgumentError(f"columns names '{doubled}' twice")
        frame = frame_of(array_of(rows, names), names)
    if isinstance(limits, np.ndarray) and len(limits) != frame.height:
        raise ArgumentError(f"budget has {len(limits)} values; there are {frame.height} rows")
    return frame


def limits_of(budget: Any) -> float | Vector:
    """Return the limit of all rows, or of each; infinite where there is none."""
    if isinstance(budget, np.ndarray) and budget.ndim == 0:
        budget = budget.item()
    if budget is None:
        return np.inf
    if isinstance(budget, float | numbers.Real | str | bytes):
        BUDGET.check("budget", budget)
        return float(budget)
    try:
        found = _numbers_of(budget)
    except (TypeError, ValueError, pl.exceptions.PolarsError):
        raise ArgumentError(
            f"budget is a {type(budget).__name__}; it must be a number, or one for each row"
        ) from None
    bad = found[~(found >= 0)]
    if found.ndim != 1 or bad.size:
        shown = f"has shape {found.shape}" if found.ndim != 1 else f"is {bad[0]} in a row"
        raise ArgumentError(
            f"budget {shown}; it must be a number >= 0 for each row, missing for no limit"
        )
    return found


def _numbers_of(budget: Any) -> Vector:
    """Return budgets as doubles, infinite where missing: NULL, NaN of NumPy or pandas."""
    if is_of(budget, "pandas"):
        budget = pl.from_pandas(budget)
    if isinstance(budget, pl.Series):
        return budget.cast(pl.Float64).fill_null(np.inf).to_numpy()
    found = np.array(budget, dtype=np.float64)
    return np.where(np.isnan(found), np.inf, found)


@dataclass(frozen=True, eq=False)
class _Asked:
    """A sequence and the options of a prediction; `most` is the largest budget of a row."""

    sequence: Any
    most: float
    missing_columns: MissingColumns

    @cached_property
    def order(self) -> list[int]:
        """The prefixes that a row may get, the best first."""
        spent = self.sequence.spent
        return [step for step in serving_order(spent) if fits(spent[step], self.most)]

    @cached_property
    def inputs(self) -> list[Input]:
        steps = sorted(self.order)
        if all(step.action == "add" for step in self.sequence.records):
            steps = steps[-1:]  # which holds the groups of all before it
        every = (name for step in steps for name in self.sequence._read_at(step))
        return inputs_of(list(dict.fromkeys(every)), self.sequence._prepared)

    def inputs_at(self, step: int) -> list[Input]:
        return inputs_of(self.sequence._read_at(step), self.sequence._prepared)

    def record(self, order: Sequence[int], k: int, marks: Mapping[str, str]) -> pl.Series:
        """Return predictor k of prefixes, the best first; `marks`: made column -> its presence."""
        steps = order[::-1]  # it takes the last for the best
        models = [self.sequence._at_step(step)._predictors[k] for step in steps]
        each = [
            {marks.get(name, name): 0.0 if name in marks else own
             for name, own in model.coefficients.items()}
            for model in models
        ]  # fmt: skip
        coefficients = [
            pl.DataFrame({"key": [*one], "value": [*one.values()]}, schema=_ENTRY).to_struct()
            for one in each
        ]
        terms = pl.Series([self.sequence._prepared.to_json(), *[None] * (len(steps) - 1)])
        found = pl.DataFrame(
            {
                "step": steps,
                "group": pl.Series([None] * len(steps), dtype=pl.String),
                "spent": self.sequence.spent[steps],
                "intercept": [model.intercept for model in models],
                "coefficients": pl.Series(coefficients, dtype=pl.List(pl.Struct(_ENTRY))),
                "terms": terms.cast(pl.String),
            }
        )
        return found.to_struct("steps").implode()

    def refuse(self, frame: pl.DataFrame) -> list[Input]:
        """Refuse rows that lack a column of a prefix, unless they may; return what is read."""
        read, absent = read_of(frame, self.inputs)
        if absent and self.missing_columns == "error":
            each = [read_of(frame, self.inputs_at(step))[1] for step in sorted(self.order)]
            own = dict.fromkeys(name for absent in each for name in absent)
            check_there(list(own), frame, self.missing_columns)
        return read


def predictions(sequence: Any, found: Served) -> pl.DataFrame:
    """Return what each row gets as SQL has it: prediction, step, spent, next_group."""
    names = [None, *(sequence.groups.names[step.group] for step in sequence.records)]
    spent = sequence.spent.tolist()
    rows = [
        {
            "step": step,
            "spent": spent[step],
            "next_group": next_group(step, sequence.spent, names),
        }
        for step in np.unique(found.step[found.step != NOBODY]).tolist()
    ]
    schema = {"step": pl.Int64, "spent": pl.Float64, "next_group": pl.String}
    each = pl.DataFrame(rows, schema=schema)
    fields = sequence._at_step(0)._fields
    if fields is None:
        prediction = pl.Series("prediction", found.value)
    else:
        prediction = pl.DataFrame(found.value, schema=fields).to_struct("prediction")
    nobody = found.step == NOBODY
    step = pl.Series("step", found.step, pl.Int64).set(pl.Series(nobody), None)
    joined = step.to_frame().join(each, on="step", how="left", maintain_order="left")
    return joined.select(_without_nan(prediction), "step", "spent", "next_group")


def _without_nan(prediction: pl.Series) -> pl.Series:
    if prediction.dtype == pl.Float64:
        return prediction.fill_nan(None)
    return prediction.struct.unnest().fill_nan(None).to_struct("prediction")

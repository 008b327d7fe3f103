"""Predict each row by the longest prefix within its budget whose columns the row has.

`native/src/record/prefix.rs` does it, except for columns of entries and computed columns.
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
from dbselect.record.columns import doubled
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
    check_present,
    frame_of,
    prediction_table,
    read_of,
)

#: The step of a row that no prefix can predict.
NOBODY = -1
#: Reserved column names: the budget, and the prefix of columns that mark whether a field of
#: entries, or a computed column, is available.
_BUDGET, _AVAILABLE = "__dbselect_budget", "__dbselect_there "
#: Number of rows whose filtering takes as long as passing one prefix to the library.
_ROWS_A_PREFIX = 10_000
_ENTRY = {"key": pl.String, "value": pl.Float64}


class Served(NamedTuple):
    """The prefix of each row, `NOBODY` without one, and the prediction, NaN without one."""

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
    models = _PrefixModels(sequence, float(np.max(limits, initial=0.0)), missing_columns)
    check_unknown(unknown, models.inputs)
    if issparse(rows):
        rows = as_table(rows, inputs_of(sequence.columns, sequence._prepared))
    frame = checked_frame(rows, columns, sequence._inputs, models.inputs, models.read_from, limits)
    read = models.read_from(frame)
    for field in read:
        if isinstance(field, Levels):
            field.check_shares(unknown)
    computed = [field for field in read if isinstance(field, Listing | Product)]
    result = _served(models, read, computed, frame, limits, unknown)
    step_of, nobody = result.step, result.step == NOBODY
    if computed:
        for step in np.unique(step_of[~nobody]).tolist():
            inputs = read_of(frame, models.inputs_at(step))[0]
            rows = frame.filter(pl.Series(step_of == step))
            result.value[step_of == step] = sequence._at_step(step)._of_read(rows, inputs, unknown)
    value = sequence._at_step(0)._linked(result.value)
    value[nobody] = np.nan
    return Served(step_of, value)


def _served(
    models: "_PrefixModels",
    read: Sequence[Input],
    computed: Sequence[Input],
    frame: pl.DataFrame,
    limits: float | Vector,
    unknown: HandleUnknown,
) -> Served:
    """Return the prefix and linear predictors of each row; tries the best prefixes first."""
    policy: HandleUnknown = "unavailable" if unknown == "unavailable" else "mean"
    available = {f"{_AVAILABLE}{field.source}": field.formula({}, policy) for field in computed}
    marks = {name: f"{_AVAILABLE}{field.source}" for field in computed for name in field.names}
    fields = dict.fromkeys(str(field.path[0]) for field in read if field not in computed)
    columns = [polars_field(name) for name in fields or frame.columns[:1]]
    columns += [translate(mark, formulas.polars()).alias(name) for name, mark in available.items()]
    budget = pl.lit(limits) if isinstance(limits, float) else pl.col(_BUDGET)
    table = frame if isinstance(limits, float) else frame.with_columns(pl.Series(_BUDGET, limits))
    n_predictors = len(models.sequence._at_step(0)._predictors)
    result = Served(
        np.full(frame.height, NOBODY, dtype=np.intp), np.full((frame.height, n_predictors), np.nan)
    )
    first = 1 + frame.height // _ROWS_A_PREFIX
    for order in (models.order[:first], models.order[first:]):
        waiting = result.step == NOBODY
        if not order or not waiting.any():
            break
        rows = table if waiting.all() else table.filter(pl.Series(waiting))
        for k in range(n_predictors):
            record = pl.lit(models.record(order, k, marks))
            serving = register_plugin_function(
                plugin_path=_native.library_path(),
                function_name="serve",
                args=[record, pl.struct(columns), budget, pl.lit(unknown)],
                is_elementwise=True,
            )
            answer = run_plugin(rows, serving).struct
            result.value[waiting, k] = answer.field("value").to_numpy()
        result.step[waiting] = answer.field("step").to_numpy()
    return result


def run_plugin(frame: pl.DataFrame, call: pl.Expr) -> pl.Series:
    """Apply a function of the compiled library to rows; DataError if it refuses them."""
    try:
        return frame.select(call).to_series()
    except pl.exceptions.ComputeError as error:
        raise DataError(str(error).split("\n")[0].rpartition("message: ")[2]) from None


def checked_frame(
    rows: Any,
    columns: Sequence[str] | None,
    names: Sequence[str],
    inputs: list[Input],
    refuse: Callable[[pl.DataFrame], object],
    limits: float | Vector,
) -> pl.DataFrame:
    """Convert the rows to predict to a frame; `names` are the default columns of an array."""
    frame = prediction_table(rows, columns, inputs, refuse)
    if frame is None:
        names = list(names) if columns is None else list(columns)
        if (twice := doubled(names)) is not None:
            raise ArgumentError(f"columns names '{twice}' twice")
        frame = frame_of(array_of(rows, names), names)
    if isinstance(limits, np.ndarray) and len(limits) != frame.height:
        raise ArgumentError(f"budget has {len(limits)} values; there are {frame.height} rows")
    return frame


def limits_of(budget: Any) -> float | Vector:
    """Return one limit for all rows, or one for each; infinite for no limit."""
    if isinstance(budget, np.ndarray) and budget.ndim == 0:
        budget = budget.item()
    if budget is None:
        return np.inf
    if isinstance(budget, float | numbers.Real | str | bytes):
        BUDGET.check("budget", budget)
        return float(budget)
    try:
        limits = _numbers_of(budget)
    except (TypeError, ValueError, pl.exceptions.PolarsError):
        raise ArgumentError(
            f"budget is a {type(budget).__name__}; it must be a number, or one for each row"
        ) from None
    bad = limits[~(limits >= 0)]
    if limits.ndim != 1 or bad.size:
        problem = f"has shape {limits.shape}" if limits.ndim != 1 else f"is {bad[0]} in a row"
        raise ArgumentError(
            f"budget {problem}; it must be a number >= 0 for each row, missing for no limit"
        )
    return limits


def _numbers_of(budget: Any) -> Vector:
    """Convert budgets to doubles; NULL, and NaN of NumPy or pandas, become infinite."""
    if is_of(budget, "pandas"):
        budget = pl.from_pandas(budget)
    if isinstance(budget, pl.Series):
        return budget.cast(pl.Float64).fill_null(np.inf).to_numpy()
    limits = np.array(budget, dtype=np.float64)
    return np.where(np.isnan(limits), np.inf, limits)


@dataclass(frozen=True, eq=False)
class _PrefixModels:
    """The prefixes of a sequence within the largest budget of a row, `most`."""

    sequence: Any
    most: float
    missing_columns: MissingColumns

    @cached_property
    def order(self) -> list[int]:
        """The prefixes within the largest budget, the best first."""
        spent = self.sequence.spent
        return [step for step in serving_order(spent) if fits(spent[step], self.most)]

    @cached_property
    def inputs(self) -> list[Input]:
        steps = sorted(self.order)
        if all(step.action == "add" for step in self.sequence.records):
            steps = steps[-1:]  # it holds the groups of all steps before
        names = (name for step in steps for name in self.sequence._read_at(step))
        return inputs_of(list(dict.fromkeys(names)), self.sequence._prepared)

    def inputs_at(self, step: int) -> list[Input]:
        return inputs_of(self.sequence._read_at(step), self.sequence._prepared)

    def record(self, order: Sequence[int], k: int, marks: Mapping[str, str]) -> pl.Series:
        """Return predictor k of prefixes, best first; `marks`: computed column -> its mark."""
        steps = order[::-1]  # the library takes the last as the best
        predictors = [self.sequence._at_step(step)._predictors[k] for step in steps]
        marked = [
            {marks.get(name, name): 0.0 if name in marks else value
             for name, value in predictor.coefficients.items()}
            for predictor in predictors
        ]  # fmt: skip
        coefficients = [
            pl.DataFrame({"key": [*coef], "value": [*coef.values()]}, schema=_ENTRY).to_struct()
            for coef in marked
        ]
        terms = pl.Series([self.sequence._prepared.to_json(), *[None] * (len(steps) - 1)])
        table = pl.DataFrame(
            {
                "step": steps,
                "group": pl.Series([None] * len(steps), dtype=pl.String),
                "spent": self.sequence.spent[steps],
                "intercept": [predictor.intercept for predictor in predictors],
                "coefficients": pl.Series(coefficients, dtype=pl.List(pl.Struct(_ENTRY))),
                "terms": terms.cast(pl.String),
            }
        )
        return table.to_struct("steps").implode()

    def read_from(self, frame: pl.DataFrame) -> list[Input]:
        """Return the inputs that rows have; refuse rows that lack one, unless allowed."""
        read, absent = read_of(frame, self.inputs)
        if absent and self.missing_columns == "error":
            lacking = [read_of(frame, self.inputs_at(step))[1] for step in sorted(self.order)]
            names = dict.fromkeys(name for absent in lacking for name in absent)
            check_present(list(names), frame, self.inputs, self.missing_columns)
        return read


def predictions(sequence: Any, result: Served) -> pl.DataFrame:
    """Return a row per prediction, as SQL does: prediction, step, spent, next_group."""
    names = [None, *(sequence.groups.names[step.group] for step in sequence.records)]
    spent = sequence.spent.tolist()
    rows = [
        {
            "step": step,
            "spent": spent[step],
            "next_group": next_group(step, sequence.spent, names),
        }
        for step in np.unique(result.step[result.step != NOBODY]).tolist()
    ]
    schema = {"step": pl.Int64, "spent": pl.Float64, "next_group": pl.String}
    steps = pl.DataFrame(rows, schema=schema)
    fields = sequence._at_step(0)._fields
    if fields is None:
        prediction = pl.Series("prediction", result.value)
    else:
        prediction = pl.DataFrame(result.value, schema=fields).to_struct("prediction")
    nobody = result.step == NOBODY
    step = pl.Series("step", result.step, pl.Int64).set(pl.Series(nobody), None)
    joined = step.to_frame().join(steps, on="step", how="left", maintain_order="left")
    return joined.select(_without_nan(prediction), "step", "spent", "next_group")


def _without_nan(prediction: pl.Series) -> pl.Series:
    if prediction.dtype == pl.Float64:
        return prediction.fill_nan(None)
    return prediction.struct.unnest().fill_nan(None).to_struct("prediction")

"""Comparisons of sequences by timeliness, and of models by paired losses on the same rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from dbselect import _native
from dbselect.errors import ArgumentError, DataError
from dbselect.linear.inference import t_quantile
from dbselect.options.kinds import SHARE, one_of
from dbselect.pages.charts import MOST_STEPS, Heights, step_curves, thinned
from dbselect.pages.html import InNotebooks, listed
from dbselect.record.gram import Vector
from dbselect.record.inputs import inputs_of
from dbselect.results.glm.model import GlmModel
from dbselect.results.model import Model
from dbselect.results.selected import model_in
from dbselect.sources.lazy import brought_here
from dbselect.sources.open import open_table


@dataclass(frozen=True, eq=False)
class Comparison(InNotebooks):
    """Timeliness and curves of several sequences.

    Parameters
    ----------
    table : one row per sequence, as `compare` describes
    curves : one row per sequence and step: name, step, group, spent, explained, on the rows
        of the evaluation
    cut : the cost at which all curves are cut: the stopping cost of the reference; if nothing
        is explained before it, the cost of the longest curve

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> curve = pl.DataFrame({"spent": [0.0, 1.0, 2.0], "explained": [0.0, 0.1, 0.9]})
    >>> both = ds.compare({"found": curve, "oracle": ds.reference.oracle(curve)}, fraction=1.0)
    >>> both
    Comparison(found, oracle; cut at cost 2; timeliness 0.0556, 0.4444)
    >>> both.curves.filter(name="oracle")["explained"].round(6).to_list()
    [0.0, 0.8, 0.9]
    """

    table: pl.DataFrame
    curves: pl.DataFrame
    cut: float

    def __repr__(self) -> str:
        early = listed([f"{timeliness:.4f}" for timeliness in self.table["timeliness"]])
        names = listed(self.table["name"].to_list())
        return f"Comparison({names}; cut at cost {self.cut:g}; timeliness {early})"

    def plot(self) -> Any:
        """Plot all curves, and the cost at which they are cut.

        Returns
        -------
        Altair chart. Its ``data`` is the plotted DataFrame: `curves`; at most 1,000 steps in
        total, evenly spaced on each curve

        Raises
        ------
        EngineError : altair is not installed
        """
        parts = self.curves.partition_by("name", maintain_order=True)
        most = max(2, MOST_STEPS // len(parts))
        notes = [f"Timeliness until the dotted line, at cost {self.cut:g}: " + "; ".join(
            f"{row['name']} {row['timeliness']:.4f}" for row in self.table.iter_rows(named=True)
        ) + "."]  # fmt: skip
        if any(part.height > most for part in parts):
            notes.append(f"Of each curve {most} steps are drawn, spread evenly.")
        frame = pl.concat([thinned(part, most) for part in parts])
        explained = ("explained", ".4~%", "explained")
        return step_curves(
            frame, Heights("explained", "share explained", share=True),
            "What each order explains for its cost", notes, line="name",
            tips=["name:N", explained, "group:N", "step:Q", "spent:Q"], mark=self.cut,
        )  # fmt: skip


#: Losses of a row, of the target y and the prediction p.
LOSSES = {
    "mse": lambda y, p: (y - p) ** 2,
    "mae": lambda y, p: np.abs(y - p),
    "log_loss": lambda y, p: -np.where(y > 0, np.log(p), np.log1p(-p)),
}


@dataclass(frozen=True, eq=False, repr=False)
class ModelComparison(InNotebooks):
    """Losses of several models on the same rows, and their differences from the first.

    Parameters
    ----------
    table : one row per model: name; spent; loss, the mean; difference, from the loss of the
        reference; std_error of the difference, of paired rows; low and high, the interval of the
        difference; p_value of the test that it is 0; better, the share of rows with a smaller loss
        than the reference. NULL for the reference
    reference : the name of the model that the others are compared with, the champion
    metric : the loss
    rows, skipped : rows compared, and rows where a model has no prediction
    """

    table: pl.DataFrame
    reference: str
    metric: str
    rows: int
    skipped: int

    def __repr__(self) -> str:
        parts = []
        for row in self.table.iter_rows(named=True):
            change = ""
            if row["difference"] is not None:
                change = f" ({row['difference']:+.4g} +- {row['std_error']:.2g})"
            parts.append(f"{row['name']} {row['loss']:.4g}{change}")
        return f"ModelComparison({self.metric}: {', '.join(parts)}; {self.rows} rows)"


def are_models(results: Mapping[str, Any]) -> bool:
    """Whether all results are models; ArgumentError if only some are."""
    kinds = {name: isinstance(model_in(one), Model | GlmModel) for name, one in results.items()}
    if any(kinds.values()) and not all(kinds.values()):
        odd = next(name for name, is_model in kinds.items() if not is_model)
        raise ArgumentError(
            f"'{odd}' is a {type(results[odd]).__name__} beside models; models are compared with "
            "models, and sequences with sequences: take sequence.at(budget)"
        )
    return bool(kinds) and all(kinds.values())


def compare_models(
    results: Mapping[str, Any],
    reference: str,
    data: Any,
    weight: str | None,
    metric: str,
    level: float,
) -> ModelComparison:
    """Compare models on the rows of a table where all of them have a prediction."""
    one_of(list(LOSSES)).check("metric", metric)
    SHARE.check("level", level)
    if data is None:
        raise ArgumentError("data is None; models are compared on rows: give a table")
    models = {name: model_in(one) for name, one in results.items()}
    first = models[reference]
    for name, model in models.items():
        if model.target != first.target:
            raise ArgumentError(
                f"'{name}' predicts '{model.target}' and '{reference}' '{first.target}'; compared "
                "models predict the same column"
            )
        if getattr(model, "classes", ()):
            raise ArgumentError(f"'{name}' has classes; compare models of one number")
    fields = {
        str(one.path[0])
        for model in models.values()
        for one in inputs_of(list(model.columns), model.terms)
    }
    table = open_table(data, None)
    named = [first.target, *fields, *([] if weight is None else [weight])]
    for name in named:
        if name not in table.schema.names:
            raise ArgumentError(f"data has no column '{name}', which the comparison needs")
    frame = brought_here(table, list(dict.fromkeys(named)))
    y = _target(frame, first)
    w = np.ones(len(y)) if weight is None else frame[weight].cast(pl.Float64).to_numpy()
    predictions = {name: np.asarray(model.predict(frame)) for name, model in models.items()}
    used = np.isfinite(y) & (w > 0)
    for values in predictions.values():
        used &= np.isfinite(values)
    if not used.any():
        raise DataError("no row has the target and a prediction of every model")
    y, w = y[used], w[used]
    if metric == "log_loss":
        _check_probabilities(y, predictions)
    losses = {name: LOSSES[metric](y, values[used]) for name, values in predictions.items()}
    rows = [
        {"name": name, "spent": models[name].spent, "loss": float(np.average(own, weights=w))}
        | ({} if name == reference else _paired(own, losses[reference], w, level))
        for name, own in losses.items()
    ]
    numbers = ["spent", "loss", "difference", "std_error", "low", "high", "p_value", "better"]
    compared = pl.DataFrame(rows, schema={"name": pl.String, **dict.fromkeys(numbers, pl.Float64)})
    return ModelComparison(compared, reference, metric, int(used.sum()), int((~used).sum()))


def _check_probabilities(y: Vector, predictions: Mapping[str, Vector]) -> None:
    if not np.isin(y, (0.0, 1.0)).all():
        raise ArgumentError("metric is 'log_loss', which needs a target of 0 and 1")
    for name, values in predictions.items():
        if np.nanmin(values) < 0 or np.nanmax(values) > 1:
            raise ArgumentError(
                f"metric is 'log_loss', which needs probabilities; '{name}' predicts from "
                f"{np.nanmin(values):.3g} to {np.nanmax(values):.3g}"
            )


def _target(frame: pl.DataFrame, model: Any) -> Vector:
    """Return the target as numbers: 0 and 1 for the levels of a binomial one."""
    column = frame[model.target]
    if levels := getattr(model, "levels", ()):
        column = (column.cast(pl.String) == str(levels[1])).cast(pl.Float64)
    return np.asarray(column.cast(pl.Float64).fill_null(np.nan))


def _paired(own: Vector, other: Vector, w: Vector, level: float) -> dict[str, float | None]:
    """Return the mean difference of losses with its error; Diebold, Mariano (1995), lag 0."""
    change, count = own - other, len(own)
    mean = float(np.average(change, weights=w))
    better = float(np.average(change < 0, weights=w))
    if count < 2:
        return {"difference": mean, "better": better}
    squares = float((w**2 * (change - mean) ** 2).sum()) / float(w.sum()) ** 2
    error = float(np.sqrt(squares * count / (count - 1)))
    margin = t_quantile(level, count - 1) * error
    p_value = None
    if error > 0:
        p_value = float(_native.student_beyond(count - 1, np.array([mean / error]))[0])
    return {
        "difference": mean, "std_error": error, "low": mean - margin, "high": mean + margin,
        "p_value": p_value, "better": better,
    }  # fmt: skip

"""Compare sequences by timeliness and with their oracle, and models by paired losses."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import polars as pl

from dbselect import _forked, _native
from dbselect.errors import ArgumentError, DataError, shown
from dbselect.linear.inference import t_quantile
from dbselect.options.kinds import POSITIVE, SHARE, one_of
from dbselect.pages.charts import MOST_STEPS, Heights, step_curves, thinned
from dbselect.pages.html import InNotebooks, listed
from dbselect.record.gram import Vector
from dbselect.record.inputs import inputs_of
from dbselect.results.glm.model import GlmModel
from dbselect.results.heights import (
    Curve,
    curve_table,
    explained_at,
    longest_heights,
    plateau,
    points,
    share_of,
    stopping_cost,
)
from dbselect.results.model import Model
from dbselect.results.prediction.arrived import AnytimePredictor
from dbselect.results.selected import model_in
from dbselect.sources.open import brought_here, open_table
from dbselect.validation.scoring.evaluate import evaluate
from dbselect.validation.scoring.metrics import requests_of, with_payoff


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


def oracle(curve: Curve) -> pl.DataFrame:
    """Reorder the groups of a curve by decreasing gain per cost.

    Each group keeps its gain, so that this is an upper bound for any order of these gains.

    Parameters
    ----------
    curve : Sequence of any family, or a DataFrame of `evaluate`

    Returns
    -------
    DataFrame: step, spent, explained, and group if the curve has it

    Raises
    ------
    ArgumentError : the curve removes a group, so that gains do not belong to single groups

    References
    ----------
    Hu, Grubb, Bagnell, Hebert (2016), section 5.2.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> curve = pl.DataFrame({"spent": [0.0, 1.0, 2.0], "explained": [0.0, 0.1, 0.9]})
    >>> ds.reference.oracle(curve)["explained"].round(6).to_list()
    [0.0, 0.8, 0.9]
    """
    spent, explained = points(curve)
    cost, gain = np.diff(spent), np.diff(explained)
    if (cost <= 0).any():
        raise ArgumentError(
            "the curve gives groups back; an oracle needs a curve that only adds groups"
        )
    order = np.argsort(-gain / cost, kind="stable")
    table = curve_table(curve)
    groups = {"group": table["group"].gather([0, *(order + 1)])} if "group" in table else {}
    return pl.DataFrame(
        {
            "step": np.arange(len(spent)),
            **groups,
            "spent": spent[0] + np.append(0.0, np.cumsum(cost[order])),
            "explained": explained[0] + np.append(0.0, np.cumsum(gain[order])),
        }
    )


def compare(
    sequences: Mapping[str, Any],
    reference: str | None = None,
    *,
    fraction: float | None = None,
    data: Any = None,
    weight: str | None = None,
    final: float | None = None,
    metric: str | Iterable[str] | None = None,
    payoff: tuple[float, float] | None = None,
    level: float | None = None,
) -> Comparison | ModelComparison:
    """Compare the timeliness of several sequences, or the losses of several models.

    Parameters
    ----------
    sequences : name -> Sequence of any family; AnytimePredictor, which needs `data`; or a
        DataFrame, of `oracle` or some rows of `Simulation.table`. Or name -> Model, GlmModel or
        Selected, all of one target, which need `data`, a table
    reference : the name whose stopping cost cuts all curves, or of the model that the others are
        compared with; default: the first
    fraction : 0 to 1, of the final height; default: the plateau of the reference
    data : other data for the evaluation, as in `evaluate`: a table, or for linear sequences
        a Gram or record; default: the rows of each search
    weight : column of row weights in a table
    final : > 0, the height that areas are divided by: 1 is the target's variance,
        as in the figures of the paper; default: the reference's greatest height, which
        on the rows of its search is the final one
    metric : of models ``"mse"`` (default), ``"mae"``, or ``"log_loss"`` of a target of 0 and 1; of
        sequences metrics of `evaluate`, of the last step of each on the rows of `data`
    payoff : of sequences, as in `evaluate`
    level : of models: level of confidence of the intervals; default: 0.95

    Returns
    -------
    For models ModelComparison: their losses on the rows where all have a prediction, and the
    paired differences from the reference, row by row, with standard errors of independent rows
    (Diebold, Mariano 1995). Rows of the fit favour the larger model: take other rows. Else

    Comparison, whose ``table`` has one row per sequence: name; timeliness; stopping_cost and
    stopping_explained, the cost at which the sequence reaches the fraction on the rows of its
    search, and its height there; explained at the end; fraction; and the metrics. ``plot()``
    draws all curves

    Raises
    ------
    ArgumentError : `sequences` is no mapping or empty, or lacks the reference; `final` is
        not above 0; `data` or `weight` as in `evaluate`

    Notes
    -----
    The stopping cost comes from the rows of the search, as in the paper; with `data` the
    areas and heights are those on the other data. A DataFrame is used as it is. If no sequence
    explains anything before the stopping cost, as when one first group explains all, the curves
    are cut where the longest ends, and heights are divided by the greatest of all.
    Linear sequences explain variance, those through the origin squares about 0, and those with a
    family deviance: their areas are on different scales.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> curve = pl.DataFrame({"spent": [0.0, 1.0, 2.0], "explained": [0.0, 0.1, 0.9]})
    >>> both = ds.compare({"found": curve, "oracle": ds.reference.oracle(curve)}, fraction=1.0)
    >>> both  # 0.1 / 1.8 and 0.8 / 1.8
    Comparison(found, oracle; cut at cost 2; timeliness 0.0556, 0.4444)
    """
    _forked.check_threads()
    if not isinstance(sequences, Mapping):
        raise ArgumentError(
            f"sequences is a {type(sequences).__name__}; it must map names to sequences"
        )
    if not sequences:
        raise ArgumentError("sequences is empty; at least one is needed")
    first = next(iter(sequences)) if reference is None else reference
    if not isinstance(first, Hashable) or first not in sequences:
        raise ArgumentError(f"reference is {shown(first)}; it must be one of {list(sequences)}")
    if are_models(sequences):
        _refuse("sequences, and these are models", fraction=fraction, final=final, payoff=payoff)
        return compare_models(
            sequences, first, data, weight, cast("str", metric or "mse"), level or 0.95
        )
    _refuse("models, and these are sequences", level=level)
    sequences = {name: _curve_of(name, curve, data) for name, curve in sequences.items()}
    POSITIVE.or_none().check("final", final)
    reached = plateau(sequences[first]) if fraction is None else fraction
    if data is None and weight is not None:
        raise ArgumentError(
            f"weight is {weight!r}; it is of the table in data, and data is missing"
        )
    judged: dict[str, Curve] = dict(sequences)
    if data is not None:
        judged |= {
            name: evaluate(cast("Any", curve), data, weight=weight)
            for name, curve in sequences.items()
            if not isinstance(curve, pl.DataFrame)
        }
    heights = {name: longest_heights(*points(curve)) for name, curve in judged.items()}
    cut = stopping_cost(sequences[first], reached)
    height = float(heights[first][1].max()) if final is None else final
    if not any(share_of(curve, cut, height) for curve in judged.values()):
        cut = max(float(spent[-1]) for spent, _ in heights.values())
        height = max(float(h.max()) for _, h in heights.values()) if final is None else final
    rows = []
    asked = with_payoff(metric, payoff)
    if asked is not None and data is None:
        raise ArgumentError(f"metric is {shown(asked)}; it needs rows, and data is missing")
    for name, curve in sequences.items():
        scores = {} if asked is None else _scores_of(curve, data, weight, asked)
        cost = stopping_cost(curve, reached)
        rows.append(
            {
                "name": name,
                "timeliness": share_of(judged[name], cut, height),
                "stopping_cost": cost,
                "stopping_explained": explained_at(judged[name], cost),
                "explained": float(heights[name][1][-1]),
                "fraction": reached,
                **scores,
            }
        )
    curves = pl.concat([_named(name, curve) for name, curve in judged.items()])
    return Comparison(pl.DataFrame(rows), curves, cut)


def _refuse(why: str, **options: Any) -> None:
    for name, option in options.items():
        if option is not None:
            raise ArgumentError(f"{name} is {option!r}; it is of {why}")


def _curve_of(name: str, curve: Any, data: Any) -> Curve:
    """Return a curve as it is; simulate a predictor row by row on the other data."""
    if not isinstance(curve, AnytimePredictor):
        return cast("Curve", curve)
    if data is None:
        raise ArgumentError(f"'{name}' is a predictor, which buys row by row: give data, a table")
    return evaluate(curve, data).filter(rule="next_group")


def _scores_of(curve: Any, data: Any, weight: str | None, metric: Any) -> dict[str, float | None]:
    """Return the metrics of the last step on other rows; None of a curve, which has no models."""
    if isinstance(curve, pl.DataFrame):
        return dict.fromkeys(request.name for request in requests_of(metric))
    found = evaluate(curve, data, weight=weight, metric=metric)
    return dict(found.table.select(found.metrics).row(-1, named=True))


def _named(name: str, curve: Curve) -> pl.DataFrame:
    """Return the rows of a curve, with its name."""
    table = curve_table(curve)
    group = pl.col("group") if "group" in table.columns else pl.lit(None)
    return table.select(
        pl.lit(name).alias("name"),
        pl.int_range(pl.len()).alias("step"),
        group.cast(pl.String).alias("group"),
        pl.col("spent", "explained").cast(pl.Float64),
    )

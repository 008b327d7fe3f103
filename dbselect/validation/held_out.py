"""Scores on held-out folds, their means over folds, and the choice of a candidate."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl

from dbselect.errors import ArgumentError
from dbselect.linear.problem import unusable
from dbselect.record.dependences import LevelGroup
from dbselect.record.gram import Gram, Vector
from dbselect.record.steps import Choice
from dbselect.results.glm.model import GlmModel
from dbselect.results.glm.sequence import GlmSequence
from dbselect.results.joint import AnySequence, JointSequence
from dbselect.results.model import JointModel, Model
from dbselect.results.prefixes import Prefixes
from dbselect.results.selected import AnyModel
from dbselect.results.sequence import Sequence as AnytimeSequence
from dbselect.sources.sampling.folded import FoldedTable, RowFolds
from dbselect.validation.scoring.evaluate import evaluate, squared_errors
from dbselect.validation.scoring.judging import coefficients_of, row_scores
from dbselect.validation.scoring.metrics import OF_QUERIES, check_family, requests_of

#: Errors that differ by less than this share of the target's variance are ties, and
#: costs by less than this share of the largest: sums in another order differ by rounding.
EQUAL_SHARE = 1e-12
#: Relative rounding error of the variance of a target of 0 and 1.
COIN_ROUNDING = 1e-9
#: Scores of a candidate: r2 for all models, mse for linear models, the others with a
#: family.
MEASURES = ("r2", "mse", "deviance", "accuracy")
#: Suffix of the columns of standard errors.
STD_ERROR = "_std_error"
#: Numbers of the segment and of the point of a row.
UINT = pl.UInt32
INDEX = {"segment": UINT, "point": UINT}
#: Columns of the table that mark the chosen candidates of a segment.
CHOICES = ("best", "one_standard_error")


@dataclass(frozen=True)
class Measures:
    """Names of the scores, those that decide (the first not null), and whether more is better."""

    names: tuple[str, ...] = MEASURES
    deciding: tuple[str, ...] = ("mse", "deviance")
    more: bool = False

    @property
    def scores(self) -> dict[str, Any]:
        """Columns of the scores of a candidate on a fold, with their types."""
        return {
            "step": pl.Int64, "fold": pl.Null, "rows": pl.Int64, "spent": pl.Float64,
            "columns": pl.Int64, **dict.fromkeys(self.names, pl.Float64),
        }  # fmt: skip

    @property
    def nothing(self) -> pl.DataFrame:
        """Empty table of scores, with the variance of the target, for ties of errors."""
        return pl.DataFrame(schema=self.scores | {"variance": pl.Float64})

    @property
    def means(self) -> list[str]:
        """Columns of the means over the folds of a segment."""
        both = [f"{name}{end}" for name in self.names for end in ("", STD_ERROR)]
        return ["step", "spent", "columns", *both]


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Scores of the M prefixes of a result on the rows of a fold."""

    rows: int  # of the fold
    variance: float  # of the target on the fold, or the null deviance
    # scores that the family has, each of shape (M,); NaN for missing
    measures: dict[str, Vector]

    @property
    def is_constant(self) -> bool:
        """Whether r2 is missing, as the target is constant on the fold."""
        return "r2" in self.measures and bool(np.isnan(self.measures["r2"]).any())


def on_gram(
    result: Any,
    fold_gram: Gram,
    levels: LevelGroup | None = None,
    *,
    scales: Mapping[str, float] = MappingProxyType({}),
) -> HeldOut:
    """Score linear models on a fold's Gram; errors of responses are divided by `scales`."""
    is_joint = isinstance(result, JointSequence | JointModel)
    models = list(result.responses.values()) if is_joint else [result]
    r2s, errors = [], []
    for model in models:
        if levels is None:
            mse, variance = squared_errors(model, fold_gram)
        else:
            mse, variance = _beside_levels(model, fold_gram, levels)
        is_constant = unusable(fold_gram, model.target) is not None
        r2s.append(np.full(len(mse), np.nan) if is_constant else 1.0 - mse / variance)
        errors.append(mse)
    if not is_joint:
        return HeldOut(fold_gram.rows, variance, {"r2": r2s[0], "mse": errors[0]})
    errors = [mse / scales[model.target] for model, mse in zip(models, errors, strict=True)]
    r2, mse = (np.asarray(result.share @ np.array(rows)) for rows in (r2s, errors))
    return HeldOut(fold_gram.rows, 1.0, {"r2": r2, "mse": mse})


def check_judged(result: Any, *, is_linear: bool) -> None:
    """Refuse results of a method that cannot be scored on held-out rows."""
    of_family = isinstance(result, GlmSequence | GlmModel)
    if of_family == is_linear or not isinstance(result, Prefixes | AnyModel):
        must = "it must return a Sequence or a Model"
        if not is_linear:
            must = "with a family it must return a GlmSequence or a GlmModel"
        raise ArgumentError(f"method returns a {type(result).__name__}; {must}")


def _beside_levels(
    result: AnytimeSequence | Model, gram: Gram, levels: LevelGroup
) -> tuple[Vector, float]:
    """Return mse and the target's variance, for a category with many levels beside the Gram."""
    intercept, coef = (values[..., 0] for values in coefficients_of(result))
    position = {name: j for j, name in enumerate(result.columns)}
    others = [position[name] for name in gram.columns[:-1]]
    coef_others, of_levels = coef[:, others], np.delete(coef, others, axis=1)
    share, C = levels.weight / gram.weight, gram.covariance()
    mean = of_levels @ share
    between = of_levels @ (levels.sums / gram.weight)
    bias = gram.mean[-1] - intercept - coef_others @ gram.mean[:-1] - mean
    varied = np.einsum("si,si->s", coef_others @ C[:-1, :-1] + 2.0 * between[:, :-1], coef_others)
    varied += of_levels**2 @ share - mean**2
    varied += C[-1, -1] - 2.0 * (coef_others @ C[:-1, -1] + between[:, -1])
    return np.maximum(varied, 0.0) + bias**2, float(C[-1, -1])


def on_rows(result: GlmSequence | GlmModel, fold_table: Any, weight: str | None) -> HeldOut:
    """Score a GLM on the table of a fold, in one pass."""
    scores = row_scores(result, fold_table, weight)
    return HeldOut(scores.rows, scores.null_deviance, scores.measures)


@dataclass(frozen=True)
class MetricJudge:
    """Metrics of models on the rows of a fold; the key also defines the folds."""

    metric: str | Sequence[str]
    key: str | None
    weight: str | None

    @cached_property
    def measures(self) -> Measures:
        """The metrics, of which the first decides."""
        requests = requests_of(self.metric)
        names = tuple(request.name for request in requests)
        return Measures(names, names[:1], more=requests[0].metric.more)

    def check(self, family: str) -> None:
        """Refuse metrics that are not defined for a family."""
        check_family(requests_of(self.metric), family)

    def check_target(self, gram: Gram, target: str) -> None:
        """Refuse a target whose variance is not m (1 - m) where a metric needs 0 and 1."""
        at = gram.position(target, "target")
        mean, variance = float(gram.mean[at]), float(gram.comoment[at, at] / gram.weight)
        coin = mean * (1.0 - mean)
        for request in requests_of(self.metric):
            if request.metric.zero_one and abs(variance - coin) > COIN_ROUNDING * (1.0 + mean**2):
                raise ArgumentError(
                    f"metric is {request.name!r}, which needs a target of 0 and 1; '{target}' has "
                    f"mean {mean:g} and variance {variance:g}: take 'r2', 'mse', 'rmse' or 'mae'"
                )

    def of(self, result: Any, folds: RowFolds, fold: Any) -> HeldOut:
        """Score models on the table of a fold, in one pass."""
        # The key of queries is hidden from models, but read for the metric.
        fold_table = FoldedTable(replace(folds, hidden=()), fold, held_out=True)
        kinds = {request.kind for request in requests_of(self.metric)}
        key = self.key if kinds & {*OF_QUERIES} else None
        scores = evaluate(result, fold_table, weight=self.weight, metric=self.metric, key=key)
        measures = {name: scores.table[name].to_numpy() for name in scores.metrics}
        return HeldOut(scores.rows, float(np.abs(measures[scores.metrics[0]]).max()), measures)


def scores_of(
    results: Mapping[Any, AnySequence | AnyModel], judged: Mapping[Any, HeldOut], measures: Measures
) -> pl.DataFrame:
    """Return the scores of the candidates on each fold."""
    lengths = {fold: len(next(iter(held.measures.values()))) for fold, held in judged.items()}
    last = max(lengths.values())
    frames = []
    for fold, result in results.items():
        held = judged[fold]
        steps = np.arange(_first(result), last)
        # A shorter sequence repeats its last model.
        at = np.minimum(steps, lengths[fold] - 1)
        values = {
            name: held.measures[name][at] if name in held.measures else [None] * len(at)
            for name in measures.names
        }
        columns: dict[str, Any] = {
            "step": steps if isinstance(result, Prefixes) else [None],
            "fold": [fold] * len(at),
            "rows": [held.rows] * len(at),
            "spent": np.atleast_1d(result.spent)[at],
            "columns": (coefficients_of(result)[1] != 0).any(axis=2).sum(axis=1)[at],
            **values,
            "variance": [held.variance] * len(at),
        }
        kinds = {name: kind for name, kind in measures.nothing.schema.items() if name != "fold"}
        frames.append(pl.DataFrame(columns, schema_overrides=kinds))
    return pl.concat(frames).with_columns(pl.col(*measures.names).fill_nan(None))


def _first(result: AnySequence | AnyModel) -> int:
    """Return the first candidate step: the one after all forced groups."""
    if not isinstance(result, Prefixes):
        return 0
    first = next(iter(result.responses.values())) if isinstance(result, JointSequence) else result
    forced = [n for n, step in enumerate(first.records, 1) if step.choice is Choice.FORCED]
    return max(forced, default=0)


def tables(
    outcomes: Sequence[tuple[int, int, pl.DataFrame, str | None]], measures: Measures
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return all scores, and their means with reasons; outcomes are (segment, point, ...)."""
    reasons = pl.DataFrame(
        [(segment, point, reason) for segment, point, _, reason in outcomes],
        schema={**INDEX, "reason": pl.String},
        orient="row",
    )
    frame = pl.concat(
        [
            frame.with_columns(segment=pl.lit(segment, UINT), point=pl.lit(point, UINT))
            for segment, point, frame, _ in outcomes
        ],
        how="vertical_relaxed",
    )
    # A score that is null in one fold has no mean: the other folds are not the same rows.
    whole = {name: pl.when(pl.col(name).null_count() == 0) for name in measures.names}
    means = frame.group_by(*INDEX, "step", maintain_order=True).agg(
        pl.col("spent", "columns", "variance").mean(),
        **{name: score.then(pl.col(name).mean()) for name, score in whole.items()},
        **{f"{name}{STD_ERROR}": score.then(_std_error(name)) for name, score in whole.items()},
    )
    return frame, reasons.join(means, on=list(INDEX), how="left", maintain_order="left_right")


def _std_error(name: str) -> pl.Expr:
    return pl.col(name).std() / pl.len().sqrt()


def with_choices(table: pl.DataFrame, measures: Measures) -> pl.DataFrame:
    """Add a column per choice, true for the chosen candidate of each segment."""
    segment = "segment"
    error = pl.coalesce(measures.deciding) * (-1.0 if measures.more else 1.0)
    std_error = pl.coalesce([f"{name}{STD_ERROR}" for name in measures.deciding])
    slack = EQUAL_SHARE * pl.col("variance").max().over(segment)
    dearest = pl.col("spent").max().over(segment)
    cost = (pl.col("spent") / (EQUAL_SHARE * dearest)).fill_nan(0.0).round()
    ordered = table.with_row_index("row").sort(segment, cost, "columns", error, nulls_last=True)
    limits = {
        "best": error.min(),
        "one_standard_error": (error + std_error).filter(pl.col("best")).first(),
    }
    for name, limit in limits.items():
        within = (error <= limit.over(segment) + slack).fill_null(False)
        first = within.cum_sum().over(segment) == 1
        ordered = ordered.with_columns((within & first).alias(name))
    return ordered.sort("row").drop("row")

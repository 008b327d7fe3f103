"""Scores on held-out folds, their means over folds, and which candidate to take."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
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
from dbselect.validation.scoring.coefficients import coefficients_of
from dbselect.validation.scoring.evaluate import evaluate, squared_errors
from dbselect.validation.scoring.metrics import OF_QUERIES, check_family, requests_of
from dbselect.validation.scoring.row_scores import row_scores

#: Errors that differ by less than this share of the target's variance are equal, and
#: costs by less than this share of the largest: sums in another order differ by rounding.
EQUAL_SHARE = 1e-12
#: Rounding of the variance of a target of 0 and 1, as a share of its squares.
COIN_ROUNDING = 1e-9
#: What is measured of a candidate: r2 by all, mse by linear models, the others by those of
#: a family.
MEASURES = ("r2", "mse", "deviance", "accuracy")
#: End of the name of a measure's standard error.
STD_ERROR = "_std_error"
#: Numbers of the segment and of the point that a row belongs to.
UINT = pl.UInt32
INDEX = {"segment": UINT, "point": UINT}
#: Columns of the table that mark which of a segment's candidates to take.
CHOICES = ("best", "one_standard_error")


@dataclass(frozen=True)
class Measures:
    """What is measured, what decides (the first that is known), and whether more is better."""

    names: tuple[str, ...] = MEASURES
    deciding: tuple[str, ...] = ("mse", "deviance")
    more: bool = False

    @property
    def scores(self) -> dict[str, Any]:
        """What is known of a candidate on a fold, and its types."""
        return {
            "step": pl.Int64, "fold": pl.Null, "rows": pl.Int64, "spent": pl.Float64,
            "columns": pl.Int64, **dict.fromkeys(self.names, pl.Float64),
        }  # fmt: skip

    @property
    def nothing(self) -> pl.DataFrame:
        """No scores; they come with the variance of the target, by which errors are equal."""
        return pl.DataFrame(schema=self.scores | {"variance": pl.Float64})

    @property
    def means(self) -> list[str]:
        """What becomes of the scores over the folds of a segment."""
        both = [f"{name}{end}" for name in self.names for end in ("", STD_ERROR)]
        return ["step", "spent", "columns", *both]


@dataclass(frozen=True, eq=False)
class HeldOut:
    """How the M prefixes of a result do on the rows of a fold."""

    rows: int  # of the fold
    variance: float  # of the target there, or the deviance of its mean
    # those that the family has, each of shape (M,); NaN for no number
    measures: dict[str, Vector]

    @property
    def is_constant(self) -> bool:
        """Whether r2 is missing, as the target is constant on the fold."""
        return "r2" in self.measures and bool(np.isnan(self.measures["r2"]).any())


def on_gram(
    result: Any,
    held: Gram,
    levels: LevelGroup | None = None,
    *,
    scales: Mapping[str, float] = MappingProxyType({}),
) -> HeldOut:
    """Judge linear models on a fold's Gram; errors add up in units of `scales`, of all folds."""
    is_joint = isinstance(result, JointSequence | JointModel)
    each = list(result.responses.values()) if is_joint else [result]
    r2s, errors = [], []
    for own in each:
        if levels is None:
            mse, variance = squared_errors(own, held)
        else:
            mse, variance = _beside_levels(own, held, levels)
        is_constant = unusable(held, own.target) is not None
        r2s.append(np.full(len(mse), np.nan) if is_constant else 1.0 - mse / variance)
        errors.append(mse)
    if not is_joint:
        return HeldOut(held.rows, variance, {"r2": r2s[0], "mse": errors[0]})
    errors = [mse / scales[own.target] for own, mse in zip(each, errors, strict=True)]
    r2, mse = (np.asarray(result.share @ np.array(one)) for one in (r2s, errors))
    return HeldOut(held.rows, 1.0, {"r2": r2, "mse": mse})


def check_judged(result: Any, *, is_linear: bool) -> None:
    """Refuse what a method returns and the held-out rows do not judge."""
    of_family = isinstance(result, GlmSequence | GlmModel)
    if of_family == is_linear or not isinstance(result, Prefixes | AnyModel):
        must = "it must return a Sequence or a Model"
        if not is_linear:
            must = "with a family it must return a GlmSequence or a GlmModel"
        raise ArgumentError(f"method returns a {type(result).__name__}; {must}")


def _beside_levels(
    result: AnytimeSequence | Model, held: Gram, levels: LevelGroup
) -> tuple[Vector, float]:
    """Return mse and the target's variance; of levels a model is a weighted sum, as of rows."""
    intercept, coef = (one[..., 0] for one in coefficients_of(result))
    at = {name: j for j, name in enumerate(result.columns)}
    others = [at[name] for name in held.columns[:-1]]
    own, of_levels = coef[:, others], np.delete(coef, others, axis=1)
    share, C = levels.weight / held.weight, held.covariance()
    mean = of_levels @ share
    between = of_levels @ (levels.sums / held.weight)
    bias = held.mean[-1] - intercept - own @ held.mean[:-1] - mean
    varied = np.einsum("si,si->s", own @ C[:-1, :-1] + 2.0 * between[:, :-1], own)
    varied += of_levels**2 @ share - mean**2
    varied += C[-1, -1] - 2.0 * (own @ C[:-1, -1] + between[:, -1])
    return np.maximum(varied, 0.0) + bias**2, float(C[-1, -1])


def on_rows(result: GlmSequence | GlmModel, held: Any, weight: str | None) -> HeldOut:
    """Judge models of a family on the table of a fold, in one pass."""
    found = row_scores(result, held, weight)
    return HeldOut(found.rows, found.null_deviance, found.measures)


@dataclass(frozen=True)
class MetricJudge:
    """Metrics of models on the rows of a fold; the key is of the folds as well."""

    metric: str | Sequence[str]
    key: str | None
    weight: str | None

    @cached_property
    def measures(self) -> Measures:
        """The metrics, of which the first decides."""
        asked = requests_of(self.metric)
        return Measures(
            tuple(one.name for one in asked), (asked[0].name,), more=asked[0].metric.more
        )

    def check(self, family: str) -> None:
        """Refuse metrics that mean nothing for a family."""
        check_family(requests_of(self.metric), family)

    def check_target(self, gram: Gram, target: str) -> None:
        """Refuse a number as target where a metric needs 0 and 1: their mean gives the variance."""
        at = gram.position(target, "target")
        mean, variance = float(gram.mean[at]), float(gram.comoment[at, at] / gram.weight)
        coin = mean * (1.0 - mean)
        for one in requests_of(self.metric):
            if one.metric.zero_one and abs(variance - coin) > COIN_ROUNDING * (1.0 + mean**2):
                raise ArgumentError(
                    f"metric is {one.name!r}, which needs a target of 0 and 1; '{target}' has mean "
                    f"{mean:g} and variance {variance:g}: take 'r2', 'mse', 'rmse' or 'mae'"
                )

    def of(self, result: Any, folds: RowFolds, fold: Any) -> HeldOut:
        """Judge models on the table of a fold, in one pass."""
        # The key of queries is no column of a model, but is read here.
        held = FoldedTable(replace(folds, hidden=()), fold, held_out=True)
        key = self.key if any(one.kind in OF_QUERIES for one in requests_of(self.metric)) else None
        found = evaluate(result, held, weight=self.weight, metric=self.metric, key=key)
        measures = {name: found.table[name].to_numpy() for name in found.metrics}
        return HeldOut(found.rows, float(np.abs(measures[found.metrics[0]]).max()), measures)


def scores_of(
    results: Mapping[Any, AnySequence | AnyModel], judged: Mapping[Any, HeldOut], asked: Measures
) -> pl.DataFrame:
    """Return the scores of the candidates on each fold."""
    lengths = {fold: len(next(iter(one.measures.values()))) for fold, one in judged.items()}
    last = max(lengths.values())
    parts = []
    for fold, result in results.items():
        held = judged[fold]
        steps = np.arange(_first(result), last)
        # A sequence that has ended carries its last model on.
        at = np.minimum(steps, lengths[fold] - 1)
        measures = {
            name: held.measures[name][at] if name in held.measures else [None] * len(at)
            for name in asked.names
        }
        columns: dict[str, Any] = {
            "step": steps if isinstance(result, Prefixes) else [None],
            "fold": [fold] * len(at),
            "rows": [held.rows] * len(at),
            "spent": np.atleast_1d(result.spent)[at],
            "columns": columns_used(result)[at],
            **measures,
            "variance": [held.variance] * len(at),
        }
        kinds = {name: kind for name, kind in asked.nothing.schema.items() if name != "fold"}
        parts.append(pl.DataFrame(columns, schema_overrides=kinds))
    return pl.concat(parts).with_columns(pl.col(*asked.names).fill_nan(None))


def columns_used(result: AnySequence | AnyModel) -> npt.NDArray[np.intp]:
    """Return how many columns each prefix has a coefficient of that is not 0; shape (M,)."""
    _, coef = coefficients_of(result)
    return np.asarray((coef != 0).any(axis=2).sum(axis=1))


def _first(result: AnySequence | AnyModel) -> int:
    """Return the first step that is a candidate: that after the groups that were forced."""
    if not isinstance(result, Prefixes):
        return 0
    own = next(iter(result.responses.values())) if isinstance(result, JointSequence) else result
    forced = [step for step, one in enumerate(own.records, 1) if one.choice is Choice.FORCED]
    return max(forced, default=0)


def tables(
    outcomes: Sequence[tuple[int, int, pl.DataFrame, str | None]], asked: Measures
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return all scores, and their means with the reasons; an outcome numbers segment and point."""
    reasons = pl.DataFrame(
        [(segment, point, reason) for segment, point, _, reason in outcomes],
        schema={**INDEX, "reason": pl.String},
        orient="row",
    )
    scores = pl.concat(
        [
            found.with_columns(segment=pl.lit(segment, UINT), point=pl.lit(point, UINT))
            for segment, point, found, _ in outcomes
        ],
        how="vertical_relaxed",
    )
    # Null in one fold, null over all: a mean of the others is no score of the same rows.
    known = {name: pl.when(pl.col(name).null_count() == 0) for name in asked.names}
    means = scores.group_by(*INDEX, "step", maintain_order=True).agg(
        pl.col("spent", "columns", "variance").mean(),
        **{name: there.then(pl.col(name).mean()) for name, there in known.items()},
        **{f"{name}{STD_ERROR}": there.then(_std_error(name)) for name, there in known.items()},
    )
    return scores, reasons.join(means, on=list(INDEX), how="left", maintain_order="left_right")


def _std_error(name: str) -> pl.Expr:
    return pl.col(name).std() / pl.len().sqrt()


def with_choices(table: pl.DataFrame, asked: Measures) -> pl.DataFrame:
    """Add a column a choice, true for the candidate a segment takes; null where no scores are."""
    segment = "segment"
    error = pl.coalesce(asked.deciding) * (-1.0 if asked.more else 1.0)
    std_error = pl.coalesce([f"{name}{STD_ERROR}" for name in asked.deciding])
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

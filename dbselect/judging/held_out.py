"""Scores on held-out folds, their means over folds, and which candidate to take."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from dbselect.judging.evaluate import coefficients_of, squared_errors
from dbselect.record.gram import Gram
from dbselect.record.steps import Choice
from dbselect.results.model import Model
from dbselect.results.sequence import Sequence as AnytimeSequence

#: Errors that differ by less than this share of the target's variance are equal, and
#: costs by less than this share of the largest: sums in another order differ by rounding.
EQUAL_SHARE = 1e-12
#: What is measured of a candidate on a fold.
SCORES: dict[str, Any] = {
    "step": pl.Int64, "fold": pl.Null, "rows": pl.Int64, "spent": pl.Float64,
    "columns": pl.Int64, "r2": pl.Float64, "mse": pl.Float64,
}  # fmt: skip
#: Scores come with the variance of the target, by which errors are called equal.
NO_SCORES = pl.DataFrame(schema=SCORES | {"variance": pl.Float64})
#: What becomes of it over the folds of a segment.
MEANS = ("step", "spent", "columns", "r2", "r2_std_error", "mse", "mse_std_error")
#: Numbers of the segment and of the point that a row belongs to.
UINT = pl.UInt32
INDEX = {"segment": UINT, "point": UINT}
#: Columns of the table that say which of a segment's candidates to take.
CHOICES = ("best", "one_standard_error")


def scores_of(
    results: Mapping[Any, AnytimeSequence | Model],
    held: Mapping[Any, Gram],
    constant: Iterable[Any],
) -> pl.DataFrame:
    """Return the scores of the candidates on each fold."""
    errors = {fold: squared_errors(result, held[fold]) for fold, result in results.items()}
    last = max(len(mse) for mse, _ in errors.values())
    columns: dict[str, list[Any]] = {name: [] for name in NO_SCORES.columns}
    for fold, result in results.items():
        mse, variance = errors[fold]
        steps = np.arange(_first(result), last)
        # A sequence that has ended carries its last model on.
        at = np.minimum(steps, len(mse) - 1)
        r2 = np.full(len(at), np.nan) if fold in constant else 1.0 - mse[at] / variance
        used = (coefficients_of(result)[0] != 0).sum(axis=1)
        for name, values in (
            ("step", steps.tolist() if isinstance(result, AnytimeSequence) else [None]),
            ("fold", [fold] * len(at)),
            ("rows", [held[fold].rows] * len(at)),
            ("spent", np.atleast_1d(result.spent)[at].tolist()),
            ("columns", used[at].tolist()),
            ("r2", r2.tolist()),
            ("mse", mse[at].tolist()),
            ("variance", [variance] * len(at)),
        ):
            columns[name].extend(values)
    scores = pl.DataFrame(columns, schema_overrides={"step": pl.Int64, "spent": pl.Float64})
    return scores.with_columns(pl.col("r2").fill_nan(None))


def _first(result: AnytimeSequence | Model) -> int:
    """Return the first step that is a candidate: that after the groups that were forced."""
    if isinstance(result, Model):
        return 0
    forced = [step for step, one in enumerate(result.records, 1) if one.choice is Choice.FORCED]
    return max(forced, default=0)


def tables(
    outcomes: Sequence[tuple[int, int, pl.DataFrame, str | None]],
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the scores of all segments and points, and their means with the reasons.

    Parameters
    ----------
    outcomes : number of the segment and of the point, scores, and why some are missing
    """
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
    r2 = pl.when(pl.col("r2").null_count() == 0)
    means = scores.group_by(*INDEX, "step", maintain_order=True).agg(
        pl.col("spent", "columns", "mse", "variance").mean(),
        r2=r2.then(pl.col("r2").mean()),
        r2_std_error=r2.then(_std_error("r2")),
        mse_std_error=_std_error("mse"),
    )
    return scores, reasons.join(means, on=list(INDEX), how="left", maintain_order="left_right")


def _std_error(name: str) -> pl.Expr:
    return pl.col(name).std() / pl.len().sqrt()


def with_choices(table: pl.DataFrame) -> pl.DataFrame:
    """Add a column for each choice, true for the candidate of a segment that it takes.

    Parameters
    ----------
    table : segment, spent, columns, mse, mse_std_error, variance; null for no scores
    """
    mse, segment = pl.col("mse"), "segment"
    slack = EQUAL_SHARE * pl.col("variance").max().over(segment)
    dearest = pl.col("spent").max().over(segment)
    cost = (pl.col("spent") / (EQUAL_SHARE * dearest)).fill_nan(0.0).round()
    ordered = table.with_row_index("row").sort(segment, cost, "columns", mse, nulls_last=True)
    limits = {
        "best": mse.min(),
        "one_standard_error": (mse + pl.col("mse_std_error")).filter(pl.col("best")).first(),
    }
    for name, limit in limits.items():
        within = (mse <= limit.over(segment) + slack).fill_null(False)
        first = within.cum_sum().over(segment) == 1
        ordered = ordered.with_columns((within & first).alias(name))
    return ordered.sort("row").drop("row")

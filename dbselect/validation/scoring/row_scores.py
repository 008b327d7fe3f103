"""Deviance and accuracy of generalised linear models on other rows, in one pass over a table."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dbselect.errors import SourceError
from dbselect.glm.links import kind_of_family
from dbselect.glm.passes import INTERCEPT_PASSES, SETTLED, shift_of
from dbselect.linear.problem import is_constant
from dbselect.record.gram import Vector
from dbselect.results.glm.model import GlmModel
from dbselect.results.glm.sequence import GlmSequence
from dbselect.results.prediction.contributions import LinearPredictors
from dbselect.validation.scoring.judging import Judging, RowSums, judged
from dbselect.validation.scoring.metrics import CLASSES


@dataclass(frozen=True, eq=False)
class RowScores:
    """Weighted mean scores of M prefixes on some rows."""

    # rows, skipped: number of rows used and skipped
    rows: int
    skipped: int
    deviance: Vector  # shape (M,)
    # of the null model fitted to these rows; 0 if it fits exactly
    null_deviance: float
    # shape (M,), share of correctly classified rows; None without classes
    accuracy: Vector | None

    @property
    def r2(self) -> Vector:
        """Share of the null deviance that is explained; shape (M,), NaN where it is 0."""
        if self.null_deviance == 0:
            return np.full(len(self.deviance), np.nan)
        return np.asarray(1.0 - self.deviance / self.null_deviance)

    @property
    def measures(self) -> dict[str, Vector]:
        """The scores of the prefixes, by name."""
        measures = {"r2": self.r2, "deviance": self.deviance}
        return measures if self.accuracy is None else measures | {"accuracy": self.accuracy}


def row_scores(result: GlmSequence | GlmModel, source: Any, weight: str | None = None) -> RowScores:
    """Score every prefix, in one pass, on the rows that all of them can predict.

    With an offset, except for poisson, further passes follow: SourceError for a stream.
    """
    offset_alone = bool(result.offsets.names) or not result.has_intercept
    kinds = ["deviance"]
    kinds += ["correct"] if kind_of_family(result.family) in CLASSES else []
    kinds += ["exposure"] if offset_alone else []
    judging, sums, table = judged(result, source, kinds, weight, offset_alone=offset_alone)
    mean = judging.means(sums)
    prefixes = judging.prefixes - offset_alone
    null = mean["deviance"][-1]
    if result.has_intercept:
        null = _null_deviance(judging, sums, mean, table, has_offset=offset_alone)
    accuracy = mean["correct"][:prefixes] if "correct" in mean else None
    return RowScores(sums.rows, sums.skipped, mean["deviance"][:prefixes], float(null), accuracy)


def _null_deviance(
    judging: Judging, sums: RowSums, mean: dict[str, Vector], table: Any, *, has_offset: bool
) -> float:
    """Return the mean deviance of the best model without columns, with an offset or not."""
    family, share = judging.formulas, sums.target.mean
    variance = sums.target.squares / sums.weight
    if family.classes:
        present = share[share > 0]
        return float(-2.0 * present @ np.log(present))
    if share[0] == 0 and kind_of_family(family.name) != "gaussian":
        return 0.0
    if not has_offset and is_constant(np.sqrt(variance), share, None).any():
        return 0.0
    null = family.null(share, variance, sums.summed / sums.weight, sums.weight)
    if not has_offset:
        return null.deviance / sums.weight
    exposure = float(mean["exposure"][-1])
    if family.name == "poisson":  # closed form, from the deviance of the offset alone
        rest = share[0] - exposure - share[0] * np.log(share[0] / exposure)
        return float(mean["deviance"][-1] + 2.0 * rest)
    if not table.again:
        raise SourceError(
            "source is a stream that can be read only once, and the model without columns beside "
            "an offset reads it again; give a table, a relation or a file"
        )
    intercept = float(null.predictors[0]) - shift_of(family, exposure)
    (offset_alone,) = judging.predictors.each[-1:]
    for _ in range(INTERCEPT_PASSES):
        predictors = LinearPredictors(
            [replace(offset_alone, intercept=intercept)], judging.predictors.terms
        )
        reading = replace(judging, predictors=predictors, kinds=("deviance", "working", "score"))
        deviance, working, score = (
            value[0] for value in reading.means(reading.over(table, reading.fields)).values()
        )
        if score**2 / working <= SETTLED * deviance:
            break
        intercept += score / working
    return float(deviance)

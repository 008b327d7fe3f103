"""Generalised linear models on other rows than they were found on, in one pass over a table."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dbselect.errors import SourceError
from dbselect.glm.named import kind_of_family
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
    """How M prefixes do on some rows, each number a mean over their weight."""

    # rows, skipped: that are used, and left out
    rows: int
    skipped: int
    deviance: Vector  # shape (M,)
    # of the model without columns that is best on these rows; 0 if it is exact
    null_deviance: float
    # shape (M,), share of the rows whose class is foreseen; None if there are no classes
    accuracy: Vector | None

    @property
    def r2(self) -> Vector:
        """Share of the null deviance that is explained; shape (M,), NaN where it is 0."""
        if self.null_deviance == 0:
            return np.full(len(self.deviance), np.nan)
        return np.asarray(1.0 - self.deviance / self.null_deviance)

    @property
    def measures(self) -> dict[str, Vector]:
        """What there is of each prefix, by name."""
        found = {"r2": self.r2, "deviance": self.deviance}
        return found if self.accuracy is None else found | {"accuracy": self.accuracy}


def row_scores(found: GlmSequence | GlmModel, source: Any, weight: str | None = None) -> RowScores:
    """Judge every prefix, in one pass, on the rows that all of them can predict.

    But for poisson an offset takes further passes: SourceError for what can be read only once.
    """
    without = bool(found.offsets.names) or not found.has_intercept
    kinds = ["deviance"]
    kinds += ["correct"] if kind_of_family(found.family) in CLASSES else []
    kinds += ["exposure"] if without else []
    judging, sums, table = judged(found, source, kinds, weight, without=without)
    mean = judging.means(sums)
    prefixes = judging.prefixes - without
    null = mean["deviance"][-1]
    if found.has_intercept:
        null = _null_deviance(judging, sums, mean, table, beside=without)
    accuracy = mean["correct"][:prefixes] if "correct" in mean else None
    return RowScores(sums.rows, sums.skipped, mean["deviance"][:prefixes], float(null), accuracy)


def _null_deviance(
    judging: Judging, sums: RowSums, mean: dict[str, Vector], table: Any, *, beside: bool
) -> float:
    """Return the mean deviance of the best model without columns; of some `beside` an offset."""
    family, share = judging.told, sums.target.mean
    variance = sums.target.squares / sums.weight
    if family.classes:
        there = share[share > 0]
        return float(-2.0 * there @ np.log(there))
    if share[0] == 0 and kind_of_family(family.name) != "gaussian":
        return 0.0
    if not beside and is_constant(np.sqrt(variance), share, None).any():
        return 0.0
    null = family.null(share, variance, sums.summed / sums.weight, sums.weight)
    if not beside:
        return null.deviance / sums.weight
    exposure = float(mean["exposure"][-1])
    if family.name == "poisson":  # has a formula, from the deviance of the offset alone
        rest = share[0] - exposure - share[0] * np.log(share[0] / exposure)
        return float(mean["deviance"][-1] + 2.0 * rest)
    if not table.again:
        raise SourceError(
            "source is a stream that can be read only once, and the model without columns beside "
            "an offset reads it again; give a table, a relation or a file"
        )
    intercept = float(null.predictors[0]) - shift_of(family, exposure)
    (alone,) = judging.predictors.each[-1:]
    for _ in range(INTERCEPT_PASSES):
        predictors = LinearPredictors(
            [replace(alone, intercept=intercept)], judging.predictors.terms
        )
        asked = replace(judging, predictors=predictors, kinds=("deviance", "working", "score"))
        deviance, working, score = (
            one[0] for one in asked.means(asked.over(table, asked.fields)).values()
        )
        if score**2 / working <= SETTLED * deviance:
            break
        intercept += score / working
    return float(deviance)

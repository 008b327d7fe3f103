"""Many linear predictors of the same columns, on rows that are read once for all of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from dbselect.record.inputs import HandleUnknown, Input, check_unknown, inputs_of
from dbselect.record.terms import Terms
from dbselect.results.prediction.predict import Predicting, Predictor, check_there, read_of


@dataclass(frozen=True, eq=False)
class LinearPredictors(Predicting):
    """Many linear predictors of the same columns, side by side."""

    each: Sequence[Predictor]  # the predictors
    terms: Terms  # how the columns of the table became theirs

    def check(self, frame: pl.DataFrame) -> None:
        """Refuse a frame that lacks a column of the predictors, or has one of another type."""
        inputs = inputs_of(list(self.each[0].coefficients), self.terms)
        check_there(read_of(frame, inputs)[1], frame)

    @property
    def _predictors(self) -> list[Predictor]:
        return list(self.each)

    def _check_unknown(self, unknown: HandleUnknown, inputs: Sequence[Input]) -> None:
        """Take every level: in rows that are judged, one not seen is 0 in all products."""
        check_unknown(unknown)

    @property
    def _prepared(self) -> Terms:
        return self.terms

    @property
    def _fields(self) -> list[str]:
        return [str(k) for k in range(len(self.each))]

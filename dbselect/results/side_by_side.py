"""Many linear predictors of the same columns, on rows that are read once for all of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from dbselect.record.terms import Terms
from dbselect.results.predict import Predicting, Predictor


@dataclass(frozen=True, eq=False)
class LinearPredictors(Predicting):
    """Many linear predictors of the same columns, side by side.

    Parameters
    ----------
    each : the predictors
    terms : how the columns of the table became theirs
    """

    each: Sequence[Predictor]
    terms: Terms

    @property
    def _predictors(self) -> list[Predictor]:
        return list(self.each)

    @property
    def _prepared(self) -> Terms:
        return self.terms

    @property
    def _fields(self) -> list[str]:
        return [str(k) for k in range(len(self.each))]

"""Many predictors of the same columns side by side, and what each group adds to a prediction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from dbselect.errors import ArgumentError
from dbselect.record.groups import groups_of
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


def contributions_of(
    model: Any, rows: Any, background: Any, means: Mapping[str, float], unknown: HandleUnknown
) -> pl.DataFrame:
    """Return `FittedModel.contributions`; `means` of the rows of the fit are empty if unknown."""
    parts = _columns_of(model) if model.columns else {}
    found = []
    for name, predictor in zip(model._fields or [None], model._predictors, strict=True):
        each = [
            {column: predictor.coefficients[column] for column in own} for own in parts.values()
        ]
        none = dict.fromkeys(predictor.coefficients, 0.0)
        if not parts:
            return pl.DataFrame()
        plain = LinearPredictors([Predictor(0.0, none | own) for own in each], model._prepared)
        if background is not None:
            base = np.nanmean(plain.predict(background, handle_unknown=unknown), axis=0)
        elif none.keys() <= means.keys():
            base = np.array([sum(w * means[x] for x, w in own.items()) for own in each])
        else:
            raise ArgumentError(
                "background is None, and the model does not know the means of its columns over "
                "the rows of its fit; give some rows as background"
            )
        values = plain.predict(rows, handle_unknown=unknown) - base
        table = pl.DataFrame(dict(zip(parts, values.T, strict=True)))
        found.append(table if name is None else table.select(pl.lit(name).alias("class"), pl.all()))
    return pl.concat(found)


def _columns_of(model: Any) -> dict[str, list[str]]:
    """Return the columns of each group, a column in the first that has it; then an offset."""
    patterns = model.problem.groups or {}
    known = all(name in patterns for name in model.groups)
    named = {name: patterns[name] for name in model.groups} if known and model.groups else None
    groups = groups_of(model.columns, named, None, model.target, model.terms, sharing=True)
    left = list(model._predictors[0].coefficients)
    parts = {}
    for name, own in groups.columns.items():
        parts[name] = [column for column in own if column in left]
        left = [column for column in left if column not in own]
    return parts | {column: [column] for column in left}

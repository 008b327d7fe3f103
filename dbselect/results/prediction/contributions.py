"""Several linear predictors of the same columns, and the contribution of each group."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from dbselect.errors import ArgumentError
from dbselect.record.groups import groups_of
from dbselect.record.inputs import HandleUnknown, Input, check_unknown, inputs_of
from dbselect.record.terms import Terms
from dbselect.results.prediction.predict import Predicting, Predictor, check_present, read_of


@dataclass(frozen=True, eq=False)
class LinearPredictors(Predicting):
    """Several linear predictors of the same columns, computed together."""

    each: Sequence[Predictor]  # the predictors
    terms: Terms  # how the columns of the table became those of the predictors

    def check(self, frame: pl.DataFrame) -> None:
        """Refuse a frame that lacks a column of the predictors, or has one of another type."""
        inputs = inputs_of(list(self.each[0].coefficients), self.terms)
        check_present(read_of(frame, inputs)[1], frame, inputs)

    @property
    def _predictors(self) -> list[Predictor]:
        return list(self.each)

    def _check_unknown(self, unknown: HandleUnknown, inputs: Sequence[Input]) -> None:
        """Allow every level: a level that the fit has not seen counts as 0 in all products."""
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
    """Return `FittedModel.contributions`; `means` over the rows of the fit, empty if unknown."""
    parts = _columns_of(model) if model.columns else {}
    tables = []
    for name, predictor in zip(model._fields or [None], model._predictors, strict=True):
        coef = predictor.coefficients
        of_groups = [{column: coef[column] for column in columns} for columns in parts.values()]
        zeros = dict.fromkeys(coef, 0.0)
        if not parts:
            return pl.DataFrame()
        plain = LinearPredictors([Predictor(0.0, zeros | w) for w in of_groups], model._prepared)
        if background is not None:
            base = np.nanmean(plain.predict(background, handle_unknown=unknown), axis=0)
        elif zeros.keys() <= means.keys():
            base = np.array([sum(w * means[x] for x, w in part.items()) for part in of_groups])
        else:
            raise ArgumentError(
                "background is None, and the model does not know the means of its columns over "
                "the rows of its fit; give some rows as background"
            )
        values = plain.predict(rows, handle_unknown=unknown) - base
        table = pl.DataFrame(dict(zip(parts, values.T, strict=True)))
        label = [] if name is None else [pl.lit(name).alias("class")]
        tables.append(table.select(*label, pl.all()))
    return pl.concat(tables)


def _columns_of(model: Any) -> dict[str, list[str]]:
    """Return the columns of each group, each column in its first group; then the offset."""
    patterns = model.problem.groups or {}
    has_all = all(name in patterns for name in model.groups)
    named = {name: patterns[name] for name in model.groups} if has_all and model.groups else None
    groups = groups_of(model.columns, named, None, model.target, model.terms, sharing=True)
    remaining = list(model._predictors[0].coefficients)
    parts = {}
    for name, columns in groups.columns.items():
        parts[name] = [column for column in columns if column in remaining]
        remaining = [column for column in remaining if column not in columns]
    return parts | {column: [column] for column in remaining}

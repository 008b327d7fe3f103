"""What each group adds to a prediction: its part of the linear predictor, less its mean."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from dbselect.errors import ArgumentError
from dbselect.record.groups import groups_of
from dbselect.record.inputs import HandleUnknown
from dbselect.results.prediction.predict import Predictor
from dbselect.results.prediction.side_by_side import LinearPredictors


def contributions_of(
    model: Any, rows: Any, background: Any, means: Mapping[str, float], unknown: HandleUnknown
) -> pl.DataFrame:
    """Return the contributions of `FittedModel.contributions`.

    Parameters
    ----------
    model : of one response, or a linear predictor a class
    means : of columns over the rows of the fit; empty if they are not known
    """
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

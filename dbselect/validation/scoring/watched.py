"""Correlation of predictions with watched columns, on other rows."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from dbselect.errors import ArgumentError
from dbselect.record.columns import match
from dbselect.record.gram import Gram, as_fitted
from dbselect.results.model import Model
from dbselect.results.sequence import Sequence as AnytimeSequence
from dbselect.validation.scoring.coefficients import coefficients_of


def with_watched(
    table: pl.DataFrame, result: AnytimeSequence | Model, gram: Gram, watch: Sequence[str]
) -> pl.DataFrame:
    """Add for each watched column the correlation of each prefix's prediction with it.

    NULL where the column or the prediction is constant. O(steps D^2).
    """
    names = match(watch, gram.columns, "watch")
    for name in names:
        if name in table.columns:
            raise ArgumentError(
                f"watch names column '{name}', as a column of the result; rename it"
            )
    columns = list(result.columns)
    coef = coefficients_of(result)[1][..., 0]
    fitted = as_fitted(gram, columns, result.terms).covariance() if columns else np.zeros((0, 0))
    position = {name: at for at, name in enumerate(gram.columns)}
    variance = np.maximum(np.einsum("sd,de,se->s", coef, fitted, coef), 0.0)
    found = {}
    for name in names:
        other = gram.comoment[position[name]] / gram.weight
        # A level that these rows lack is a column of 0.
        own = np.array([other[position[c]] if c in position else 0.0 for c in columns])
        with np.errstate(divide="ignore", invalid="ignore"):
            values = coef @ own / np.sqrt(variance * other[position[name]])
        found[name] = pl.Series(name, np.clip(values, -1.0, 1.0)).fill_nan(None)
    return table.with_columns(*found.values())

"""Sums of the facts by key, and weights of pairs of keys, computed by Polars."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from scipy.sparse import coo_array

from dbselect.record.formulas import polars, polars_column, translate
from dbselect.record.gram import Gram, Matrix
from dbselect.record.inputs import inputs_as_fitted
from dbselect.sources.joins.keys import compared
from dbselect.sources.lazy import collected

#: Prefix of the names of columns while they are summed; no field of a table may have it.
PREFIX = "__dbselect_"
WEIGHT = f"{PREFIX}w"
_USED = f"{PREFIX}there"


def rows_of(
    frame: pl.LazyFrame, fields: Sequence[str], kinds: Sequence[str], gram: Gram, weight: str | None
) -> pl.LazyFrame:
    """Return the key, centred columns by number, ``WEIGHT``, 0 if left out, and ``_USED``."""
    names = names_of(gram)
    inputs = {n: part for part in inputs_as_fitted(gram.columns, gram.terms) for n in part.names}
    algebra = polars()
    values = [translate(inputs[name].column_formula(name), algebra) for name in gram.columns]
    weights = pl.lit(1.0) if weight is None else polars_column((weight,)).cast(pl.Float64)
    rows = frame.select(
        *compared(fields, kinds),
        *(value.fill_nan(None).alias(name) for name, value in zip(names, values, strict=True)),
        weights.fill_nan(None).fill_null(0.0).alias(WEIGHT),
    )
    is_used = pl.all_horizontal(pl.col(name).is_not_null() for name in names)
    # Subtract the mean, then its rounding error, so that a mean far from zero loses no digits.
    means = zip(names, gram.mean.tolist(), gram.mean_low.tolist(), strict=True)
    return rows.with_columns((is_used & (pl.col(WEIGHT) > 0)).alias(_USED)).with_columns(
        pl.when(_USED).then(WEIGHT).otherwise(0.0).alias(WEIGHT),
        *(
            pl.when(_USED).then(pl.col(name) - mean - low).otherwise(0.0).alias(name)
            for name, mean, low in means
        ),
    )


def names_of(gram: Gram) -> list[str]:
    """Return the names of the columns of a Gram while they are summed."""
    return [f"{PREFIX}{at}" for at in range(len(gram.columns))]


def summed(
    rows: pl.LazyFrame, fields: Sequence[str], gram: Gram, products: bool
) -> tuple[pl.DataFrame, Matrix, Matrix, Matrix | None]:
    """Return K keys, ascending; rows, used and weight (K, 3), sums (K, d), and lower triangles."""
    names, w = names_of(gram), pl.col(WEIGHT)
    width, heavy = len(names), [w * pl.col(name) for name in names]
    aggregates = [pl.len(), pl.col(_USED).sum(), w.sum(), *(product.sum() for product in heavy)]
    if products:
        aggregates += [
            (heavy[i] * pl.col(names[j])).sum() for i, j in np.transpose(np.tril_indices(width))
        ]
    doubles = [sum_.cast(pl.Float64).alias(f"{PREFIX}{at}") for at, sum_ in enumerate(aggregates)]
    result = collected(rows.group_by(fields).agg(doubles)).sort(fields, nulls_last=True)
    counts, sums, products_by_key = (
        result[:, at].to_numpy(order="c")
        for at in np.split(np.arange(len(fields), result.width), [3, 3 + width])
    )
    return result.select(fields), counts, sums, products_by_key if products else None


def pairs(rows: pl.LazyFrame, first: pl.DataFrame, second: pl.DataFrame, few: bool) -> Any:
    """Return the weights of pairs of keys, sparse (K1, K2); summed by pair first if `few`."""
    if few:
        fields = dict.fromkeys([*first.columns, *second.columns])
        rows = rows.group_by(list(fields)).agg(pl.col(WEIGHT).sum())
    places = [f"{PREFIX}row", f"{PREFIX}column"]
    for place, keys in zip(places, (first, second), strict=True):
        numbered = keys.with_row_index(place).lazy()
        rows = rows.join(numbered, on=keys.columns, how="left", nulls_equal=True)
    numbers = collected(rows.select(*(pl.col(place).cast(pl.Int32) for place in places), WEIGHT))
    at = tuple(numbers[place].to_numpy() for place in places)
    return coo_array((numbers[WEIGHT].to_numpy(), at), shape=(first.height, second.height))

"""The facts added up by key: what their rows are to a Gram, and how much of each key there is."""

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

#: What columns are called while they are summed, which no field of a table is.
PREFIX = "__dbselect_"
WEIGHT = f"{PREFIX}w"
_THERE = f"{PREFIX}there"


def rows_of(
    frame: pl.LazyFrame, fields: Sequence[str], kinds: Sequence[str], gram: Gram, weight: str | None
) -> pl.LazyFrame:
    """Return the key, centred columns by number, ``WEIGHT``, 0 if left out, and ``_THERE``."""
    names = names_of(gram)
    inputs = {name: one for one in inputs_as_fitted(gram.columns, gram.terms) for name in one.names}
    algebra = polars()
    values = [translate(inputs[name].column_formula(name), algebra) for name in gram.columns]
    own = pl.lit(1.0) if weight is None else polars_column((weight,)).cast(pl.Float64)
    rows = frame.select(
        *compared(fields, kinds),
        *(value.fill_nan(None).alias(name) for name, value in zip(names, values, strict=True)),
        own.fill_nan(None).fill_null(0.0).alias(WEIGHT),
    )
    there = pl.all_horizontal(pl.col(name).is_not_null() for name in names)
    # First the mean, then what its rounding took: the digits of a mean far from zero.
    means = zip(names, gram.mean.tolist(), gram.mean_low.tolist(), strict=True)
    return rows.with_columns((there & (pl.col(WEIGHT) > 0)).alias(_THERE)).with_columns(
        pl.when(_THERE).then(WEIGHT).otherwise(0.0).alias(WEIGHT),
        *(
            pl.when(_THERE).then(pl.col(name) - mean - low).otherwise(0.0).alias(name)
            for name, mean, low in means
        ),
    )


def names_of(gram: Gram) -> list[str]:
    """Return what the columns of a Gram are called while they are summed."""
    return [f"{PREFIX}{at}" for at in range(len(gram.columns))]


def summed(
    rows: pl.LazyFrame, fields: Sequence[str], gram: Gram, products: bool
) -> tuple[pl.DataFrame, Matrix, Matrix, Matrix | None]:
    """Return K keys, ascending; rows, used and weight (K, 3), sums (K, d), and lower triangles."""
    names, w = names_of(gram), pl.col(WEIGHT)
    width, heavy = len(names), [w * pl.col(name) for name in names]
    made = [pl.len(), pl.col(_THERE).sum(), w.sum(), *(each.sum() for each in heavy)]
    if products:
        made += [
            (heavy[i] * pl.col(names[j])).sum() for i, j in np.transpose(np.tril_indices(width))
        ]
    own = [each.cast(pl.Float64).alias(f"{PREFIX}{at}") for at, each in enumerate(made)]
    found = collected(rows.group_by(fields).agg(own)).sort(fields, nulls_last=True)
    counts, sums, more = (
        found[:, at].to_numpy(order="c")
        for at in np.split(np.arange(len(fields), found.width), [3, 3 + width])
    )
    return found.select(fields), counts, sums, more if products else None


def pairs(rows: pl.LazyFrame, one: pl.DataFrame, two: pl.DataFrame, few: bool) -> Any:
    """Return the weights of pairs of keys, sparse (K1, K2); added up first if there are `few`."""
    if few:
        fields = dict.fromkeys([*one.columns, *two.columns])
        rows = rows.group_by(list(fields)).agg(pl.col(WEIGHT).sum())
    places = [f"{PREFIX}row", f"{PREFIX}column"]
    for place, keys in zip(places, (one, two), strict=True):
        numbered = keys.with_row_index(place).lazy()
        rows = rows.join(numbered, on=keys.columns, how="left", nulls_equal=True)
    found = collected(rows.select(*(pl.col(place).cast(pl.Int32) for place in places), WEIGHT))
    at = tuple(found[place].to_numpy() for place in places)
    return coo_array((found[WEIGHT].to_numpy(), at), shape=(one.height, two.height))

"""Keys of joins: one field or several, compared by kind, and sums of the facts by key."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import polars as pl
from scipy.sparse import coo_array

from dbselect.errors import ArgumentError, ColumnError, unknown
from dbselect.record.formulas import polars, polars_column, translate
from dbselect.record.gram import Gram, Matrix
from dbselect.record.inputs import inputs_as_fitted
from dbselect.sources.open import collected

#: A field, a list of fields, or a mapping of fields of the facts to those of the other table.
Key: TypeAlias = str | Sequence[str] | Mapping[str, str]

#: Kind of a key -> the type in which keys of that kind are compared.
_COMPARED: dict[str, Any] = {
    "integer": pl.Int64(),
    "number": pl.Float64(),
    "text": pl.String(),
    "boolean": pl.Boolean(),
    "date": pl.Date(),
    "timestamp": pl.Datetime("us"),
    "timestamp with time zone": pl.Datetime("us", "UTC"),
}


def fields_of(key: Any, what: str = "key") -> tuple[list[str], list[str]]:
    """Return the fields of a key in the facts and in the other table."""
    # Only the type of other objects, as the repr of a table would fill the page.
    value = repr(key) if isinstance(key, int | float | None) else f"a {type(key).__name__}"
    if isinstance(key, str):
        return [key], [key]
    pairs: list[tuple[Any, Any]] = []
    if isinstance(key, Mapping):
        value, pairs = repr(key), list(key.items())
    elif isinstance(key, list | tuple):
        value, pairs = repr(key), [(name, name) for name in key]
    left, right = [name for name, _ in pairs], [name for _, name in pairs]
    if not left or not all(isinstance(name, str) for name in [*left, *right]):
        raise ArgumentError(
            f"{what} is {value}; it must be the name of a column, a list of names, or a mapping "
            "of the facts' names to the table's"
        )
    for names in (left, right):
        if len(set(names)) < len(names):
            raise ArgumentError(f"{what} is {key!r}; it names a column twice")
    return left, right


def check_keys(fields: Sequence[str], schema: Mapping[str, pl.DataType], where: str) -> list[str]:
    """Return the kinds of the fields of a key; `where` names the table in errors."""
    for field in fields:
        if field not in schema:
            raise ColumnError(f"key names {unknown('column', field, list(schema))} in {where}")
    return [_kind_of(field, schema[field]) for field in fields]


def _kind_of(field: str, dtype: pl.DataType) -> str:
    if dtype.is_integer():
        return "integer"
    if dtype.is_numeric():
        return "number"
    if dtype in (pl.String, pl.Categorical, pl.Enum):
        return "text"
    if isinstance(dtype, pl.Datetime):
        return "timestamp" if dtype.time_zone is None else "timestamp with time zone"
    if dtype in (pl.Boolean, pl.Date):
        return "boolean" if dtype == pl.Boolean else "date"
    raise ColumnError(
        f"key names column '{field}' of type {dtype}; it must be a number, text, a boolean, a date "
        "or a timestamp"
    )


def check_alike(
    left: Sequence[str], left_kinds: Sequence[str], right: Sequence[str], right_kinds: Sequence[str]
) -> None:
    """Refuse keys of the facts and of a table with other kinds, which would never match."""
    if len(left) != len(right):
        raise ArgumentError(
            f"key has {len(right)} columns, {list(right)}; the facts have {len(left)}, {list(left)}"
        )
    for field, kind, other, other_kind in zip(left, left_kinds, right, right_kinds, strict=True):
        if kind != other_kind:
            raise ColumnError(
                f"key '{field}' of the facts is {kind}, and '{other}' of the table is "
                f"{other_kind}: nothing would match; cast one of them"
            )


def compared(
    fields: Sequence[str], kinds: Sequence[str], names: Sequence[str] | None = None
) -> list[pl.Expr]:
    """Cast the fields to the types of comparison; raise ColumnError if a value would change."""
    columns = zip(fields, kinds, fields if names is None else names, strict=True)
    return [_compared(field, kind).alias(name) for field, kind, name in columns]


def _compared(field: str, kind: str) -> pl.Expr:
    type_ = _COMPARED[kind]
    column = pl.col(field)
    if kind in ("text", "boolean", "date"):
        return column.cast(type_)
    column = column.map_batches(
        lambda values: _exact(values, field, type_), return_dtype=type_, is_elementwise=True
    )
    return column.fill_nan(None) if kind == "number" else column


def _exact(values: pl.Series, field: str, type_: Any) -> pl.Series:
    """Cast the values of a key; raise ColumnError if a value changes."""
    if values.dtype == type_:
        return values
    cast = values.cast(type_, strict=False)
    same = cast.cast(values.dtype, strict=False).eq_missing(values)
    if not same.all():
        lost = values.filter(~same).cast(pl.String)[0]
        raise ColumnError(
            f"key names column '{field}' of type {values.dtype}, of which {lost} equals its "
            f"neighbours as {type_}, the type in which keys are compared; cast it to text"
        )
    return cast


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

"""Keys of joins: one field or several, compared by kind."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import polars as pl

from dbselect.errors import ArgumentError, ColumnError, unknown

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

"""Keys by which rows of one table find rows of another: one field or several, of equal kinds."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import polars as pl

from dbselect.errors import ArgumentError, ColumnError, unknown

#: A field, several, or of each field of the facts what the other table calls it.
Key: TypeAlias = str | Sequence[str] | Mapping[str, str]

#: Kind of a key -> the one type in which keys of that kind are compared.
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
    """Return the fields of a key, as the facts call them and as the other table does."""
    # A table in the place of its key must not fill the page.
    told = repr(key) if isinstance(key, int | float | None) else f"a {type(key).__name__}"
    if isinstance(key, str):
        return [key], [key]
    pairs: list[tuple[Any, Any]] = []
    if isinstance(key, Mapping):
        told, pairs = repr(key), list(key.items())
    elif isinstance(key, list | tuple):
        told, pairs = repr(key), [(name, name) for name in key]
    ours, theirs = [own for own, _ in pairs], [other for _, other in pairs]
    if not ours or not all(isinstance(name, str) for name in [*ours, *theirs]):
        raise ArgumentError(
            f"{what} is {told}; it must be the name of a column, a list of names, or a mapping "
            "of the facts' names to the table's"
        )
    for names in (ours, theirs):
        if len(set(names)) < len(names):
            raise ArgumentError(f"{what} is {key!r}; it names a column twice")
    return ours, theirs


def check_keys(fields: Sequence[str], schema: Mapping[str, pl.DataType], where: str) -> list[str]:
    """Return the kinds of the fields of a key; keys are compared with keys of their kind only."""
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
    ours: Sequence[str], kinds: Sequence[str], theirs: Sequence[str], others: Sequence[str]
) -> None:
    """Refuse keys of two tables that are never equal, as their kinds differ."""
    if len(ours) != len(theirs):
        raise ArgumentError(
            f"key has {len(theirs)} columns, {list(theirs)}; the facts have {len(ours)}, "
            f"{list(ours)}"
        )
    for own, kind, other, its in zip(ours, kinds, theirs, others, strict=True):
        if kind != its:
            raise ColumnError(
                f"key '{own}' of the facts is {kind}, and '{other}' of the table is {its}: nothing "
                "would match; cast one of them"
            )


def compared(
    fields: Sequence[str], kinds: Sequence[str], names: Sequence[str] | None = None
) -> list[pl.Expr]:
    """Return the fields as they are compared; a value that this changes is a ColumnError."""
    each = zip(fields, kinds, fields if names is None else names, strict=True)
    return [_compared(field, kind).alias(name) for field, kind, name in each]


def _compared(field: str, kind: str) -> pl.Expr:
    wanted = _COMPARED[kind]
    found = pl.col(field)
    if kind in ("text", "boolean", "date"):
        return found.cast(wanted)
    found = found.map_batches(
        lambda values: _exact(values, field, wanted), return_dtype=wanted, is_elementwise=True
    )
    return found.fill_nan(None) if kind == "number" else found


def _exact(values: pl.Series, field: str, wanted: Any) -> pl.Series:
    """Cast the values of a key, of which none may change."""
    if values.dtype == wanted:
        return values
    found = values.cast(wanted, strict=False)
    same = found.cast(values.dtype, strict=False).eq_missing(values)
    if not same.all():
        lost = values.filter(~same).cast(pl.String)[0]
        raise ColumnError(
            f"key names column '{field}' of type {values.dtype}, of which {lost} equals its "
            f"neighbours as {wanted}, the type in which keys are compared; cast it to text"
        )
    return found

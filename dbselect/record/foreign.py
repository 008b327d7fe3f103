"""Frames and series of other libraries, recognised by module name without importing them."""

import numbers
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Protocol

import polars as pl
import pyarrow as pa

from dbselect import _forked
from dbselect.errors import ArgumentError, ColumnError
from dbselect.record.categories import level_texts, with_text_levels


class Stream(Protocol):
    """A table of pyarrow, pandas, ibis or another library with the Arrow C stream."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return a PyCapsule of the rows."""


def is_of(value: Any, package: str) -> bool:
    """Whether a value is an instance of a class of a package."""
    return any(base.__module__.split(".")[0] == package for base in type(value).__mro__)


def native(value: Any) -> Any:
    """Unwrap narwhals, and convert Modin, which has no Arrow stream, to pandas."""
    if is_of(value, "narwhals"):
        value = value.to_native()
    return value.modin.to_pandas() if is_of(value, "modin") else value


def is_frame(value: Any) -> bool:
    """Whether a value is a frame or an Arrow table, with named columns."""
    value = native(value)
    return isinstance(value, pl.LazyFrame) or hasattr(value, "__arrow_c_stream__")


def in_memory(frame: Any) -> pl.DataFrame:
    """Return a frame or an Arrow table as a DataFrame; a LazyFrame is collected."""
    _forked.check_threads()
    frame = native(frame)
    if isinstance(frame, pa.Table | pa.RecordBatch):
        frame = with_text_levels(wide_decimals(frame))
    rows = frame.collect() if isinstance(frame, pl.LazyFrame) else pl.DataFrame(frame)
    check_names(rows.schema)
    return rows


def check_names(schema: pl.Schema) -> None:
    """Raise ColumnError for names with a NUL, which crash some libraries."""
    for name, dtype in schema.items():
        if "\0" in name:
            raise ColumnError(
                f"column {name!r} has a NUL in its name, which Arrow ends at; rename it"
            )
        inner = getattr(dtype, "inner", dtype)
        if isinstance(inner, pl.Struct):
            check_names(pl.Schema(inner.to_schema()))


def rows_in_memory(frame: Any, *, texts: bool = False) -> pl.DataFrame:
    """Return rows to predict as a DataFrame; pandas objects get the type of their values.

    With `texts` every pandas category becomes text; else only those whose values are no levels.
    """
    _forked.check_threads()
    frame = native(frame)
    if not is_of(frame, "pandas"):
        return in_memory(frame)
    if frame.ndim == 1:
        return _of_row(frame)
    makers = {
        at: maker for at, dtype in enumerate(frame.dtypes) if (maker := _maker_of(dtype, texts))
    }
    if not makers:
        return pl.DataFrame(frame)
    typed = [at for at in range(frame.shape[1]) if at not in makers]
    columns = dict(zip(typed, pl.DataFrame(frame.iloc[:, typed]), strict=True))
    columns |= {at: maker(frame.iloc[:, at]) for at, maker in makers.items()}
    return pl.DataFrame([columns[at] for at in range(frame.shape[1])])


def _of_row(row: Any) -> pl.DataFrame:
    """Convert a row of pandas, as from ``df.iloc[0]``, to a DataFrame."""
    names = row.index.tolist()
    if not all(isinstance(name, str) for name in names):
        raise ArgumentError(
            f"a Series of pandas is read as one row, by the names of its index, which are "
            f"{names[:3]} here; give a frame, or a row with names"
        )
    values = row.astype(object).where(row.notna(), None).tolist()
    return pl.DataFrame([dict(zip(names, values, strict=True))])


def _maker_of(dtype: Any, texts: bool) -> Callable[[Any], pl.Series] | None:
    """Return the reader of a pandas column whose dtype does not give the type of its values."""
    levels = getattr(dtype, "categories", None)
    if str(dtype) == "object" or (levels is not None and len(levels) == 0):
        return _of_objects
    if levels is None or str(levels.dtype) in ("object", "str", "string"):
        return None
    return None if levels.dtype.kind in "biu" and not texts else _of_levels


def _of_levels(column: Any) -> pl.Series:
    """Convert a pandas category of numbers, booleans or intervals to text."""
    coded = pa.Array.from_pandas(column)
    texts = pa.DictionaryArray.from_arrays(coded.indices, level_texts(coded.dictionary))
    return pl.Series(str(column.name), texts.dictionary_decode())


def _of_objects(column: Any) -> pl.Series:
    """Convert a pandas column of objects; ArgumentError if their types are mixed."""
    name, missing = str(column.name), column.isna().to_numpy()
    if missing.all():
        return pl.Series(name, [None] * len(missing), dtype=pl.Null)
    try:
        return pl.DataFrame(column.to_frame()).to_series()
    except (TypeError, ValueError, OverflowError):
        present = column[~missing]
        if all(isinstance(value, numbers.Real | Decimal) for value in present):
            pairs = zip(column, missing, strict=True)
            doubles = [None if is_missing else float(value) for value, is_missing in pairs]
            return pl.Series(name, doubles, dtype=pl.Float64)
        kinds = sorted({type(value).__name__ for value in present})
        raise ArgumentError(
            f"column '{name}' holds objects of the types {kinds}; it must be of one type"
        ) from None


def wide_decimals(table: Any) -> Any:
    """Cast decimals of an Arrow table to 128 bits: inside structs Polars reads no others."""
    schema = pa.schema([field.with_type(_wide(field.type)) for field in table.schema])
    return table if schema.equals(table.schema) else table.cast(schema)


def _wide(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_decimal(type_) and type_.bit_width < 128:
        return pa.decimal128(type_.precision, type_.scale)
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_wide(field.type)) for field in type_])
    return type_

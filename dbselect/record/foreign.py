"""Frames and series of other libraries, recognised by name; none is imported here."""

import numbers
from decimal import Decimal
from typing import Any, Protocol

import polars as pl
import pyarrow as pa

from dbselect import _forked
from dbselect.errors import ArgumentError, ColumnError


class Stream(Protocol):
    """A table of pyarrow, pandas, ibis or another library that speaks Arrow."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return a capsule of the rows."""


def is_of(value: Any, package: str) -> bool:
    """Whether a value is of a class of a package, or of one derived from it."""
    return any(one.__module__.split(".")[0] == package for one in type(value).__mro__)


def native(value: Any) -> Any:
    """Return what narwhals wraps, and pandas for Modin, which has no Arrow stream."""
    if is_of(value, "narwhals"):
        value = value.to_native()
    return value.modin.to_pandas() if is_of(value, "modin") else value


def is_frame(value: Any) -> bool:
    """Whether a value names its columns, whatever their order: a frame or an Arrow table."""
    value = native(value)
    return isinstance(value, pl.LazyFrame) or hasattr(value, "__arrow_c_stream__")


def in_memory(frame: Any) -> pl.DataFrame:
    """Return a frame or an Arrow table as a DataFrame; a LazyFrame is collected."""
    _forked.check_threads()
    frame = native(frame)
    if isinstance(frame, pa.Table | pa.RecordBatch):
        frame = wide_decimals(frame)
    found = frame.collect() if isinstance(frame, pl.LazyFrame) else pl.DataFrame(frame)
    check_names(found.schema)
    return found


def check_names(schema: pl.Schema) -> None:
    """Raise ColumnError for names with a NUL: some libraries end the process by them."""
    for name, dtype in schema.items():
        if "\0" in name:
            raise ColumnError(
                f"column {name!r} has a NUL in its name, which Arrow ends at; rename it"
            )
        inner = getattr(dtype, "inner", dtype)
        if isinstance(inner, pl.Struct):
            check_names(pl.Schema(inner.to_schema()))


def rows_in_memory(frame: Any) -> pl.DataFrame:
    """Return rows to predict as a DataFrame; objects of pandas have the type that they hold."""
    _forked.check_threads()
    frame = native(frame)
    if not is_of(frame, "pandas"):
        return in_memory(frame)
    untyped = [at for at, dtype in enumerate(frame.dtypes) if _has_no_type(dtype)]
    if not untyped:
        return pl.DataFrame(frame)
    typed = [at for at in range(frame.shape[1]) if at not in untyped]
    found = dict(zip(typed, pl.DataFrame(frame.iloc[:, typed]), strict=True))
    found |= {at: _of_objects(frame.iloc[:, at]) for at in untyped}
    return pl.DataFrame([found[at] for at in range(frame.shape[1])])


def _has_no_type(dtype: Any) -> bool:
    """Whether a pandas dtype leaves the type of the values open: objects, empty categories."""
    return str(dtype) == "object" or len(getattr(dtype, "categories", "some")) == 0


def _of_objects(column: Any) -> pl.Series:
    """Return a column of objects of pandas; ArgumentError if no column has types like these."""
    name, missing = str(column.name), column.isna().to_numpy()
    if missing.all():
        return pl.Series(name, [None] * len(missing), dtype=pl.Null)
    try:
        return pl.DataFrame(column.to_frame()).to_series()
    except (TypeError, ValueError, OverflowError):
        there = column[~missing]
        if all(isinstance(value, numbers.Real | Decimal) for value in there):
            pairs = zip(column, missing, strict=True)
            doubles = [None if is_missing else float(value) for value, is_missing in pairs]
            return pl.Series(name, doubles, dtype=pl.Float64)
        kinds = sorted({type(value).__name__ for value in there})
        raise ArgumentError(
            f"column '{name}' holds objects of the types {kinds}; it must be of one type"
        ) from None


def wide_decimals(table: Any) -> Any:
    """Return an Arrow table with decimals of 128 bits: inside structs Polars takes no others."""
    schema = pa.schema([field.with_type(_wide(field.type)) for field in table.schema])
    return table if schema.equals(table.schema) else table.cast(schema)


def _wide(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_decimal(type_) and type_.bit_width < 128:
        return pa.decimal128(type_.precision, type_.scale)
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_wide(field.type)) for field in type_])
    return type_

"""Frames and series of other libraries, told apart by name; none of these is imported here."""

from typing import Any

import polars as pl
import pyarrow as pa


def is_of(value: Any, package: str) -> bool:
    """Whether a value is of a class of a package, or of one derived from it."""
    return any(one.__module__.split(".")[0] == package for one in type(value).__mro__)


def native(value: Any) -> Any:
    """Return what narwhals wraps, and pandas in the place of Modin; anything else as it is.

    Modin has no Arrow stream; its rows are copied into one process.
    """
    if is_of(value, "narwhals"):
        value = value.to_native()
    return value.modin.to_pandas() if is_of(value, "modin") else value


def is_frame(value: Any) -> bool:
    """Whether a value names its columns, whatever their order: a frame or an Arrow table."""
    value = native(value)
    return isinstance(value, pl.LazyFrame) or hasattr(value, "__arrow_c_stream__")


def in_memory(frame: Any) -> pl.DataFrame:
    """Return a frame or an Arrow table as a DataFrame; a LazyFrame is collected."""
    frame = native(frame)
    if isinstance(frame, pa.Table | pa.RecordBatch):
        frame = wide_decimals(frame)
    return frame.collect() if isinstance(frame, pl.LazyFrame) else pl.DataFrame(frame)


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

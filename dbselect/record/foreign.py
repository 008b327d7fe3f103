"""Frames and series of other libraries, told apart by name; none of these is imported here."""

from typing import Any

import polars as pl


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
    return frame.collect() if isinstance(frame, pl.LazyFrame) else pl.DataFrame(frame)

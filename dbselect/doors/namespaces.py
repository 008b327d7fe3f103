"""The name ``dbselect`` of frames and expressions; `doors.frames` is loaded at its use."""

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from dbselect.doors.frames import ExprNamespace, FrameNamespace, LazyFrameNamespace


@pl.api.register_lazyframe_namespace("dbselect")  # type: ignore[arg-type]
def of_lazy_frame(frame: pl.LazyFrame) -> "LazyFrameNamespace":
    """Return the methods of a LazyFrame."""
    from dbselect.doors.frames import LazyFrameNamespace

    return LazyFrameNamespace(frame)


@pl.api.register_dataframe_namespace("dbselect")  # type: ignore[arg-type]
def of_frame(frame: pl.DataFrame) -> "FrameNamespace":
    """Return the methods of a DataFrame."""
    from dbselect.doors.frames import FrameNamespace

    return FrameNamespace(frame)


@pl.api.register_expr_namespace("dbselect")  # type: ignore[arg-type]
def of_expression(expr: pl.Expr) -> "ExprNamespace":
    """Return the methods of an expression."""
    from dbselect.doors.frames import ExprNamespace

    return ExprNamespace(expr)

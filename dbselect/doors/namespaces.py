"""The names ``lf.dbselect`` and ``pl.col(...).dbselect``; `doors.frames` is loaded at their use."""

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from dbselect.doors.frames import ExprNamespace, LazyFrameNamespace


@pl.api.register_lazyframe_namespace("dbselect")  # type: ignore[arg-type]
def of_frame(frame: pl.LazyFrame) -> "LazyFrameNamespace":
    """Return the methods of a LazyFrame."""
    from dbselect.doors.frames import LazyFrameNamespace

    return LazyFrameNamespace(frame)


@pl.api.register_expr_namespace("dbselect")  # type: ignore[arg-type]
def of_expression(expr: pl.Expr) -> "ExprNamespace":
    """Return the methods of an expression."""
    from dbselect.doors.frames import ExprNamespace

    return ExprNamespace(expr)

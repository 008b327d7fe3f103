"""Tables with several rows a key: what they are together."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import polars as pl

from dbselect.errors import ArgumentError, ColumnError, LeftOutWarning, unknown, warn_caller

#: What becomes of several rows: one of `SUMMARIES`, or some of them.
Many: TypeAlias = str | Sequence[str]

SUMMARIES = ("mean", "count", "latest")
#: The column of ``"count"``.
COUNT = "rows"


def summaries_of(many: Any, order: Any) -> list[str]:
    """Return the summaries requested of several rows of a key."""
    wanted = [many] if isinstance(many, str) else list(many or ())
    for each in wanted:
        if each not in SUMMARIES:
            raise ArgumentError(f"many is {many!r}; it must be among {list(SUMMARIES)}")
    if len(set(wanted)) < len(wanted):
        raise ArgumentError(f"many is {many!r}; it names a summary twice")
    if ("latest" in wanted) != (order is not None):
        raise ArgumentError(
            f"order is {order!r} and many {many!r}; 'latest', and nothing else, needs order=, the "
            "column whose largest value marks the latest row"
        )
    return wanted


def one_a_key(
    frame: pl.LazyFrame, keys: Sequence[str], wanted: Sequence[str], order: str | None
) -> pl.LazyFrame:
    """Return one row for each key, with what is `wanted`; the latest has the largest `order`."""
    schema = frame.collect_schema()
    others = [name for name in schema.names() if name not in keys]
    if order is not None and order not in others:
        raise ColumnError(f"order names {unknown('column', order, others)}")
    numeric = [name for name in others if schema[name].is_numeric() or schema[name] == pl.Boolean]
    made: list[pl.Expr] = []
    if "mean" in wanted:
        left = [name for name in others if name not in numeric and name != order]
        if left and "latest" not in wanted:
            warn_caller(
                f"columns left out: {left}, which have no mean; many='latest' takes them",
                LeftOutWarning,
            )
        made += [
            pl.col(name).cast(pl.Float64).fill_nan(None).mean().alias(f"{name}_mean")
            for name in numeric
        ]
    if "count" in wanted:
        made.append(pl.len().cast(pl.Int64).alias(COUNT))
    found = frame.group_by(keys).agg(made)
    if order is None:
        return found
    latest = [pl.col(name).alias(f"{name}_latest") for name in others if name != order]
    at_end = pl.col(order) == pl.col(order).max().over(keys)
    return found.join(frame.filter(at_end).select(*keys, *latest), on=keys, how="left")

"""Summaries of tables with several rows per key: mean, count, latest row."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import polars as pl

from dbselect.errors import ArgumentError, ColumnError, LeftOutWarning, unknown, warn_caller

#: How several rows become one: one of `SUMMARIES`, or a list of them.
Many: TypeAlias = str | Sequence[str]

SUMMARIES = ("mean", "count", "latest")
#: The column of ``"count"``.
COUNT = "rows"


def summaries_of(many: Any, order: Any) -> list[str]:
    """Check and return the summaries of several rows of a key."""
    summaries = [many] if isinstance(many, str) else list(many or ())
    for summary in summaries:
        if summary not in SUMMARIES:
            raise ArgumentError(f"many is {many!r}; it must be among {list(SUMMARIES)}")
    if len(set(summaries)) < len(summaries):
        raise ArgumentError(f"many is {many!r}; it names a summary twice")
    if ("latest" in summaries) != (order is not None):
        raise ArgumentError(
            f"order is {order!r} and many {many!r}; 'latest', and nothing else, needs order=, the "
            "column whose largest value marks the latest row"
        )
    return summaries


def one_row_per_key(
    frame: pl.LazyFrame, keys: Sequence[str], summaries: Sequence[str], order: str | None
) -> pl.LazyFrame:
    """Aggregate the rows of each key to the summaries; the latest row has the largest `order`."""
    schema = frame.collect_schema()
    others = [name for name in schema.names() if name not in keys]
    if order is not None and order not in others:
        raise ColumnError(f"order names {unknown('column', order, others)}")
    numeric = [name for name in others if schema[name].is_numeric() or schema[name] == pl.Boolean]
    aggregates: list[pl.Expr] = []
    if "mean" in summaries:
        without_mean = [name for name in others if name not in numeric and name != order]
        if without_mean and "latest" not in summaries:
            warn_caller(
                f"columns left out: {without_mean}, which have no mean; many='latest' takes them",
                LeftOutWarning,
            )
        aggregates += [
            pl.col(name).cast(pl.Float64).fill_nan(None).mean().alias(f"{name}_mean")
            for name in numeric
        ]
    if "count" in summaries:
        aggregates.append(pl.len().cast(pl.Int64).alias(COUNT))
    aggregated = frame.group_by(keys).agg(aggregates)
    if order is None:
        return aggregated
    latest = [pl.col(name).alias(f"{name}_latest") for name in others if name != order]
    at_end = pl.col(order) == pl.col(order).max().over(keys)
    return aggregated.join(frame.filter(at_end).select(*keys, *latest), on=keys, how="left")

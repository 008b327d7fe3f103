"""A picture of sequences over time: a row a group, a column a window, dark what comes first."""

from typing import TYPE_CHECKING

import polars as pl

from dbselect.errors import ArgumentError

if TYPE_CHECKING:
    from altair import Chart


def order_over_time(steps: pl.DataFrame, target: str) -> "Chart":
    """Draw in which step each window buys each group.

    Parameters
    ----------
    steps : as of `OverTime.steps`
    target : for the title

    Raises
    ------
    ArgumentError : altair is not installed
    """
    try:
        import altair as alt
    except ImportError:
        raise ArgumentError("a picture needs altair: pip install 'dbselect[plot]'") from None
    order = steps.group_by("group").agg(pl.col("step").mean()).sort("step", "group")["group"]
    told = ["first:O", "last:O", "group", "step", "cost", "spent", "gain", "r2"]
    chart = alt.Chart(
        steps, title=f"When to buy what for {target}: the step, by the end of the window"
    )
    drawn: Chart = chart.mark_rect().encode(
        x=alt.X("last:O", title=None, axis=alt.Axis(labelOverlap=True)),
        y=alt.Y("group:N", sort=order.to_list(), title=None),
        color=alt.Color("step:O", scale=alt.Scale(scheme="viridis")),
        tooltip=told,
    )
    return drawn

"""Lengths of groups' coefficients along a falling penalty."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from dbselect.pictures.style import COLOURS, GREY, HEIGHT, WIDTH, altair, finished, told_apart

#: The line of all groups that have no colour of their own.
OTHERS = "others"


def growth(frame: pl.DataFrame, title: str, told: Sequence[str]) -> Any:
    """Return the picture of a path.

    Parameters
    ----------
    frame : one row a penalty and group, the longest group first: penalty, group, cost,
        length, spent, r2
    title, told : as of `style.finished`
    """
    alt = altair()
    groups = frame["group"].unique(maintain_order=True).to_list()
    coloured = groups[: len(COLOURS)]
    own = pl.col("group").is_in(coloured)
    frame = frame.with_columns(line=pl.when(own).then("group").otherwise(pl.lit(OTHERS)))
    end = own & (pl.col("penalty") == pl.col("penalty").min())
    frame = frame.with_columns(label=pl.when(end).then("group"))
    x = alt.X("penalty:Q", title="penalty").scale(type="log", reverse=True, nice=False)
    x = x.axis(format=".2~g", tickCount=6, grid=False)
    y = alt.Y("length:Q", title="length of the group's coefficients")
    tips = ["group:N", "cost:Q", *(alt.Tooltip(f"{one}:Q", format=".4~g") for one in MEASURES)]
    grey = alt.Chart().transform_filter(alt.datum.line == OTHERS)
    apart = alt.Chart().transform_filter(alt.datum.line != OTHERS)
    chart = alt.layer(
        grey.mark_line(color=GREY, opacity=0.5, strokeWidth=1).encode(x, y, detail="group:N"),
        apart.mark_line(strokeWidth=2).encode(x, y, **told_apart("line", coloured)),
        alt.Chart().mark_point(size=30, opacity=0, filled=True).encode(x, y, tooltip=tips),
        alt.Chart()
        .transform_filter("isValid(datum.label)")
        .mark_text(align="left", dx=5, limit=110)
        .encode(x, y, text="label:N"),
    )
    return finished(chart.properties(width=WIDTH, height=HEIGHT), frame, title, told)


#: What hovering tells of a point.
MEASURES = ("penalty", "length", "spent", "r2")

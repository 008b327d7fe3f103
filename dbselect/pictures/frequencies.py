"""How often each group is among the first so many: a line a group, the stable ones named."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from dbselect.pictures.style import COLOURS, GREY, HEIGHT, WIDTH, altair, finished


def frequencies_of_sizes(
    frame: pl.DataFrame, threshold: float, size: int | None, title: str, told: Sequence[str]
) -> Any:
    """Return the picture of frequencies.

    Parameters
    ----------
    frame : one row a group and size: group, stable, size, frequency
    threshold : least frequency of a stable group, a line
    size : at which the threshold applies, a line; None for no line
    title, told : as of `style.finished`
    """
    alt = altair()
    x = alt.X("size:Q", title="groups chosen").axis(tickMinStep=1, format="d")
    y = alt.Y("frequency:Q", title="share of the records").axis(format="~%")
    y = y.scale(domain=[0, 1])
    colour = alt.condition(alt.datum.stable, alt.value(COLOURS[0]), alt.value(GREY))
    tips = ["group:N", "size:Q", alt.Tooltip("frequency:Q", format=".3~%")]
    line = alt.Chart().mark_line(strokeWidth=2).encode(x, y, color=colour, detail="group:N")
    point = alt.Chart().mark_point(filled=True, size=30, opacity=1)
    last = alt.datum.size == int(frame["size"].to_numpy().max())
    names = alt.Chart().transform_filter(alt.datum.stable).transform_filter(last)
    rules = [alt.Chart().mark_rule(strokeDash=[2, 4]).encode(y=alt.YDatum(threshold))]
    if size is not None:
        rules.append(alt.Chart().mark_rule(strokeDash=[2, 4]).encode(x=alt.XDatum(size)))
    chart = alt.layer(
        line,
        point.encode(x, y, color=colour, tooltip=tips),
        names.mark_text(align="left", dx=6).encode(x, y, text="group:N"),
        *rules,
    )
    return finished(chart.properties(width=WIDTH, height=HEIGHT), frame, title, told)

"""Chart of the scores of options, with their errors, side by side."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from dbselect.pages.steps import Heights, Tip, choices, tooltips
from dbselect.pages.style import COLOURS, HEIGHT, WIDTH, altair, finished


def options_beside(
    frame: pl.DataFrame, heights: Heights, title: str, captions: Sequence[str], tips: Sequence[Tip]
) -> Any:
    """Return the chart of one score per option; one row per option."""
    alt = altair()
    x, y = alt.X("options:N", title=None), heights.encoding(heights.ends(frame))
    point = alt.Chart().mark_point(size=45, filled=True, opacity=1, color=COLOURS[0])
    chart = alt.layer(
        alt.Chart().mark_rule(strokeWidth=2).encode(x, alt.Y("low:Q"), alt.Y2("high:Q")),
        point.encode(x, y, tooltip=tooltips(tips)),
        choices().encode(x, y, tooltip=tooltips(tips)),
    )
    return finished(chart.properties(width=WIDTH, height=HEIGHT), frame, title, captions)

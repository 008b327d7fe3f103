"""Chart of the share of rows for which each group is bought, and of what that brings."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from dbselect.pages.style import COLOURS, WIDTH, altair, finished

#: Height of a bar with the space around it, in pixels.
BAR = 26


def asked_bars(frame: pl.DataFrame, title: str, captions: Sequence[str]) -> Any:
    """Return the chart; one row per group: group, cost, asked, brought, and label."""
    alt = altair()
    x = alt.X("asked:Q", title="share of rows for which it is bought").axis(format="~%")
    y = alt.Y("group:N", title=None, sort=None)
    tips = ["group:N", alt.Tooltip("asked:Q", format=".1%"), "cost:Q",
            alt.Tooltip("brought:Q", format=".4~g")]  # fmt: skip
    bars = alt.Chart().mark_bar(color=COLOURS[0]).encode(x, y, tooltip=tips)
    labels = alt.Chart().mark_text(align="left", dx=4).encode(x, y, text="label:N")
    chart = alt.layer(bars, labels).properties(width=WIDTH, height=BAR * max(frame.height, 2))
    return finished(chart, frame, title, captions)

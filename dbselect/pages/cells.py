"""Heat maps of groups, sizes or windows; the opacity of a cell shows its value, 0 to 1."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from dbselect.pages.style import COLOURS, GREY, HEIGHT, MOST_ROWS, WIDTH, altair, finished

#: Most cells that have room for a number; size of a cell with and without one, in pixels.
FEW_CELLS, WIDE, NARROW = 150, 48, 12
#: Columns of which one is written in the cells.
NUMBERS = ("correlation", "frequency", "rows")
#: Opacity of the weakest and the strongest cell; text on the strongest is still legible.
FAINTEST_AND_FULL = [0.03, 0.85]


def between(frame: pl.DataFrame, order: Sequence[str], title: str, captions: Sequence[str]) -> Any:
    """Return the chart of correlations, one row per pair; `order` puts similar groups together."""
    alt = altair()
    x = alt.X("other:N", title=None).sort(list(order)).axis(labelAngle=-45, labelLimit=140)
    y = alt.Y("group:N", title=None).sort(list(order)).axis(labelLimit=140)
    tips = ["group:N", "other:N", alt.Tooltip("correlation:Q", format=".4~f"), "columns:N"]
    strength = alt.Opacity("strength:Q", title="correlation, its size").scale(
        domain=[0, 1], range=FAINTEST_AND_FULL
    )
    return finished(_cells(frame, x, y, strength, tips, ".2f"), frame, title, captions)


def rows_of_pairs(frame: pl.DataFrame, order: Sequence[str], captions: Sequence[str]) -> Any:
    """Return the chart of the rows that have both groups of each pair."""
    alt = altair()
    x = alt.X("other:N", title=None).sort(list(order)).axis(labelAngle=-45, labelLimit=140)
    y = alt.Y("group:N", title=None).sort(list(order)).axis(labelLimit=140)
    tips = ["group:N", "other:N", alt.Tooltip("rows:Q", format=","), "share:Q"]
    strength = alt.Opacity("share:Q", title="share of the rows").scale(
        domain=[0, 1], range=FAINTEST_AND_FULL
    )
    chart = _cells(frame, x, y, strength.legend(format="~%"), tips, ".3~s")
    return finished(chart, frame, "Rows that have both groups", captions)


def frequencies_of_sizes(frame: pl.DataFrame, title: str, captions: Sequence[str]) -> Any:
    """Return the chart of how often each group is among the first k, most frequent first."""
    alt = altair()
    order = frame["group"].unique(maintain_order=True).to_list()
    x = alt.X("size:O", title="groups chosen").axis(labelAngle=0, labelOverlap=True)
    y = alt.Y("group:N", title=None).sort(order).axis(labelLimit=140)
    tips = ["group:N", "size:Q", alt.Tooltip("frequency:Q", format=".3~%"), "stable:N"]
    strength = alt.Opacity("frequency:Q", title="share of the records").scale(
        domain=[0, 1], range=FAINTEST_AND_FULL
    )
    stable = alt.Color("stable:N").scale(domain=[True, False], range=[COLOURS[0], GREY])
    chart = _cells(frame, x, y, strength.legend(format="~%"), tips, ".0%", colour=stable)
    return finished(chart, frame, title, captions)


def order_over_time(steps: pl.DataFrame, target: str) -> Any:
    """Return the chart of the step at which each window adds each group."""
    alt = altair()
    order = steps.group_by("group").agg(pl.col("step").mean()).sort("step", "group")["group"]
    text = ["A column a window, at its end; a row a group. The stronger, the earlier it is bought."]
    most = MOST_ROWS // steps.select("first", "last").n_unique()
    if steps.height > MOST_ROWS:
        steps = steps.filter(pl.col("step") <= most)
        text.append(f"The first {most} steps are shown.")
    # A date is drawn as midnight; the label shows the date only.
    label = {"labelExpr": "slice(datum.label, 0, 10)"} if steps["last"].dtype == pl.Date else {}
    x = alt.X("last:O", title=None).axis(labelOverlap=True, **label)
    y = alt.Y("group:N", title=None).sort(order.to_list()).axis(labelLimit=140)
    first = alt.Opacity("step:Q", title="step").scale(range=FAINTEST_AND_FULL[::-1])
    percent = [alt.Tooltip(f"{name}:Q", format=".4~%") for name in ("gain", "r2")]
    tips = ["first:O", "last:O", "group:N", "step:Q", "cost:Q", "spent:Q", *percent]
    cells = alt.Chart().mark_rect(color=COLOURS[0]).encode(x, y, first, tooltip=tips)
    sized = cells.properties(width=WIDTH, height=HEIGHT)
    return finished(sized, steps, f"When to buy what for {target}", text)


def _cells(
    frame: pl.DataFrame, x: Any, y: Any, strength: Any, tips: Any, format_: str, colour: Any = None
) -> Any:
    alt = altair()
    colour = alt.value(COLOURS[0]) if colour is None else colour
    few = frame.height <= FEW_CELLS
    size = alt.Step(WIDE if few else NARROW)
    cells = alt.Chart().mark_rect().encode(x, y, strength, color=colour, tooltip=tips)
    number = next(name for name in NUMBERS if name in frame.columns)
    layers = [cells]
    if few:
        text = alt.Text(f"{number}:Q", format=format_)
        layers.append(alt.Chart().mark_text().encode(x, y, text=text, tooltip=tips))
    return alt.layer(*layers).properties(width=size, height=size)

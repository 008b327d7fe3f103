"""Which group to buy when: a row a group, a column a window, the stronger the earlier."""

from typing import Any

import polars as pl

from dbselect.pictures.cells import FAINTEST_AND_FULL
from dbselect.pictures.style import COLOURS, HEIGHT, MOST_ROWS, WIDTH, altair, finished


def order_over_time(steps: pl.DataFrame, target: str) -> Any:
    """Return the picture of the step in which each window buys each group.

    A row is a window and step: first, last, step, group, cost, spent, gain, r2.
    """
    alt = altair()
    order = steps.group_by("group").agg(pl.col("step").mean()).sort("step", "group")["group"]
    told = ["A column a window, at its end; a row a group. The stronger, the earlier it is bought."]
    most = MOST_ROWS // steps.select("first", "last").n_unique()
    if steps.height > MOST_ROWS:
        steps = steps.filter(pl.col("step") <= most)
        told.append(f"The first {most} steps are shown.")
    # A day is drawn as its midnight; the label shows the date only.
    shown = {"labelExpr": "slice(datum.label, 0, 10)"} if steps["last"].dtype == pl.Date else {}
    x = alt.X("last:O", title=None).axis(labelOverlap=True, **shown)
    y = alt.Y("group:N", title=None).sort(order.to_list()).axis(labelLimit=140)
    first = alt.Opacity("step:Q", title="step").scale(range=FAINTEST_AND_FULL[::-1])
    percent = [alt.Tooltip(f"{name}:Q", format=".4~%") for name in ("gain", "r2")]
    tips = ["first:O", "last:O", "group:N", "step:Q", "cost:Q", "spent:Q", *percent]
    cells = alt.Chart().mark_rect(color=COLOURS[0]).encode(x, y, first, tooltip=tips)
    sized = cells.properties(width=WIDTH, height=HEIGHT)
    return finished(sized, steps, f"When to buy what for {target}", told)

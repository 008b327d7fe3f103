"""A metric on rows against cost: one step function, its groups named by hovering."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from dbselect.pictures.cost import cost_axis
from dbselect.pictures.curve import MOST_STEPS, thinned
from dbselect.pictures.style import COLOURS, HEIGHT, WIDTH, altair, finished


def metric_curve(
    frame: pl.DataFrame, metric: str, more: bool, title: str, told: Sequence[str]
) -> Any:
    """Return the picture of a metric.

    Parameters
    ----------
    frame : one row a step: step, group, spent, value
    metric : what the value is
    more : whether more of it is better
    title, told : as of `style.finished`
    """
    alt = altair()
    drawn = thinned(frame)
    told = [*told, "More is better." if more else "Less is better."]
    if drawn.height < frame.height:
        told.append(f"Of {frame.height - 1} steps {MOST_STEPS - 1} are drawn, spread evenly.")
    sign = 1.0 if more else -1.0
    # The axis looks for where half of the height is reached, from 0 up.
    height = sign * (pl.col("value") - (pl.col("value").min() if more else pl.col("value").max()))
    axis = cost_axis(drawn.select("spent", height=height), "height")
    x = axis.encoding()
    y = alt.Y("value:Q", title=metric).scale(zero=False)
    tips = ["group:N", alt.Tooltip("value:Q", title=metric, format=".5~g"), "step:Q", "spent:Q"]
    line = alt.Chart().mark_line(interpolate="step-after", strokeWidth=2, color=COLOURS[0])
    point = alt.Chart().mark_point(filled=True, size=30, opacity=1, color=COLOURS[0])
    chart = alt.layer(line.encode(x, y, order="step:Q"), point.encode(x, y, tooltip=tips))
    return finished(chart.properties(width=WIDTH, height=HEIGHT), drawn, title, told)

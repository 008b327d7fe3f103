"""What models of some rows are worth on others, against what they cost."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from dbselect.pictures.cost import cost_axis
from dbselect.pictures.curve import LOWEST
from dbselect.pictures.style import HEIGHT, WIDTH, altair, finished, told_apart


def worth(frame: pl.DataFrame, lines: Sequence[str], title: str, told: Sequence[str]) -> Any:
    """Return the picture of a drift.

    Parameters
    ----------
    frame : one row a step and line: step, group, spent, line, r2
    lines : in the order of the legend; the steps lie on the first
    title, told : as of `style.finished`
    """
    alt = altair()
    x = cost_axis(frame.filter(pl.col("line") == lines[0]), "r2").encoding()
    lowest, highest = float(frame["r2"].min()), float(frame["r2"].max())  # type: ignore[arg-type]
    domain = [max(lowest, LOWEST), highest]
    y = alt.Y("r2:Q", title="r2").scale(domain=domain, zero=False)
    tips = ["line:N", "step:Q", "group:N", "spent:Q", alt.Tooltip("r2:Q", format=".4~f")]
    apart = told_apart("line", lines)
    every = alt.Chart()
    line = every.mark_line(interpolate="step-after", strokeWidth=2, clip=True)
    point = every.mark_point(size=25, filled=True, opacity=1, clip=True)
    chart = alt.layer(
        line.encode(x, y, order="step:Q", **apart),
        point.encode(x, y, apart["color"], tooltip=tips),
    )
    return finished(chart.properties(width=WIDTH, height=HEIGHT), frame, title, told)

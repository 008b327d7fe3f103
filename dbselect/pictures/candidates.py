"""Held-out scores of candidates, with their standard errors, and which of them to take."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from dbselect.pictures.cost import cost_axis
from dbselect.pictures.curve import LOWEST, MOST_STEPS, thinned
from dbselect.pictures.style import HEIGHT, WIDTH, altair, finished, told_apart


def candidates(frame: pl.DataFrame, measure: str, title: str, told: Sequence[str]) -> Any:
    """Return the picture of a cross-validation.

    Parameters
    ----------
    frame : one row a candidate: options, step or NULL, spent, columns, value, low, high, choice
        or NULL
    measure : what the value is
    title, told : as of `style.finished`
    """
    alt = altair()
    names = frame["options"].unique(maintain_order=True).to_list()
    parts = frame.partition_by("options", maintain_order=True)
    most = max(2, MOST_STEPS * 3 // len(parts))
    if any(part.height > most for part in parts):
        told = [*told, f"Of each line {most} candidates are drawn, spread evenly, and the choices."]
    chosen = frame.filter(pl.col("choice").is_not_null())
    frame = pl.concat([thinned(part, most) for part in parts] + [chosen]).unique(
        maintain_order=True
    )
    lowest, highest = float(frame["low"].min()), float(frame["high"].max())  # type: ignore[arg-type]
    if measure == "r2":
        lowest = max(lowest, LOWEST)
    y = alt.Y("value:Q", title=f"{measure}, held out").scale(domain=[lowest, highest], zero=False)
    tips = [
        "options:N", alt.Tooltip("value:Q", title=measure, format=".5~g"), "step:Q", "spent:Q",
        "columns:Q", "choice:N",
    ]  # fmt: skip
    steps = frame["step"].null_count() < frame.height
    x = cost_axis(parts[0], "value").encoding() if steps else alt.X("options:N", title=None)
    every = alt.Chart()
    ends = (alt.Y("low:Q"), alt.Y2("high:Q"))
    apart = told_apart("options", names)
    taken = every.transform_filter("isValid(datum.choice)")
    mark = alt.Shape("choice:N", title="choice").legend(orient="bottom")
    diamonds = taken.mark_point(size=140, filled=False, strokeWidth=2, color=GREY_MARK, opacity=1)
    if steps:
        band = every.mark_area(interpolate="step-after", opacity=0.2, clip=True, strokeWidth=0)
        line = every.mark_line(interpolate="step-after", strokeWidth=2, clip=True)
        point = every.mark_point(size=20, filled=True, opacity=1, clip=True)
        layers = [
            band.encode(x, *ends, apart["color"], order="step:Q"),
            line.encode(x, y, order="step:Q", **apart),
            point.encode(x, y, apart["color"], tooltip=tips),
        ]
    else:
        layers = [
            every.mark_rule(strokeWidth=2).encode(x, *ends),
            every.mark_point(size=45, filled=True, opacity=1).encode(x, y, tooltip=tips),
        ]
    chart = alt.layer(*layers, diamonds.encode(x, y, mark, tooltip=tips))
    return finished(chart.properties(width=WIDTH, height=HEIGHT), frame, title, told)


#: Both choices, on any page.
GREY_MARK = "#777777"

"""Prediction against cost: the curve of one search, and those of several.

A prediction changes only when a group is complete, so every curve is a step function. Where
two steps lie closer than a name is long, the step that gains more is labelled; tooltips name
the others.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from dbselect.pictures.cost import CostAxis, cost_axis
from dbselect.pictures.style import HEIGHT, WIDTH, altair, finished, told_apart

#: Of one curve no more steps are drawn, spread evenly; the last is always among them.
MOST_STEPS = 1000
#: Most steps that are named, and how much of width and height a name takes.
MOST_NAMES, NAME_WIDTH, NAME_HEIGHT = 12, 0.16, 0.05
#: More steps than these get smaller points.
MANY = 60
#: An error on other rows may fall without limit; the picture ends here, the frame does not.
LOWEST = -0.25
#: The mark at the cost from which on more brings little.
PLATEAU = "plateau"


def search_curve(frame: pl.DataFrame, title: str, told: Sequence[str]) -> Any:
    """Return the picture of one search.

    Parameters
    ----------
    frame : one row a curve and step: step, group, cost, spent, gain, why; curve, its name,
        the first the one that is labelled; value, and low and high of a band or NULL. One
        row more may have the curve `PLATEAU`
    title, told : as of `style.finished`
    """
    alt = altair()
    names = [one for one in frame["curve"].unique(maintain_order=True) if one != PLATEAU]
    axis = cost_axis(frame.filter(curve=names[0]), "value")
    axis = replace(axis, most=max(axis.most, float(frame["spent"].to_numpy().max())))
    frame = frame.with_columns(_labels(frame, names[0], axis))
    apart = told_apart("curve", names)
    x = axis.encoding()
    y = (
        alt.Y("value:Q", title="share explained")
        .axis(format="~%")
        .scale(domain=_range(frame), nice=False)
    )
    tips = [
        "curve:N", alt.Tooltip("value:Q", format=".4~%"), "group:N", "step:Q", "cost:Q",
        "spent:Q", alt.Tooltip("gain:Q", format=".4~%"), alt.Tooltip("why:N", title="chosen among"),
    ]  # fmt: skip
    lines = alt.Chart().transform_filter(alt.datum.curve != PLATEAU)
    line = lines.mark_line(interpolate="step-after", clip=True, strokeWidth=2)
    band = lines.transform_filter("isValid(datum.low)").mark_area(
        interpolate="step-after", opacity=0.25, clip=True, strokeWidth=0
    )
    first, others = alt.datum.curve == names[0], alt.datum.curve != names[0]
    size = 45 if frame.filter(curve=names[0]).height <= MANY else 14
    point = alt.Chart().transform_filter(first).mark_point(filled=True, size=size, opacity=1)
    # Nothing to see, but to hover over.
    unseen = lines.transform_filter(others).mark_point(filled=True, size=45, opacity=0, clip=True)
    label = (
        alt.Chart()
        .transform_filter("isValid(datum.label)")
        .mark_text(align="left", baseline="top", dx=5, dy=4, limit=110)
    )
    mark = alt.Chart().transform_filter(alt.datum.curve == PLATEAU).mark_rule(strokeDash=[2, 4])
    chart = alt.layer(
        band.encode(x, alt.Y("low:Q"), alt.Y2("high:Q"), apart["color"], order="step:Q"),
        mark.encode(x, tooltip=[alt.Tooltip("why:N", title="share of the height"), "spent:Q"]),
        line.encode(x, y, order="step:Q", **apart),
        unseen.encode(x, y, tooltip=tips),
        point.encode(x, y, apart["color"], tooltip=tips),
        label.encode(x, y, text="label:N"),
    )
    return finished(chart.properties(width=WIDTH, height=HEIGHT), frame, title, told)


def curves_beside(frame: pl.DataFrame, title: str, told: Sequence[str], cut: float | None) -> Any:
    """Return the picture of several searches.

    Parameters
    ----------
    frame : one row a search and step: name, step, spent, explained, and group or NULL
    title, told : as of `style.finished`
    cut : cost at which they are judged, a line; None for no line
    """
    alt = altair()
    names = frame["name"].unique(maintain_order=True).to_list()
    apart = told_apart("name", names)
    axis = cost_axis(frame, "explained")
    x = axis.encoding()
    y = alt.Y("explained:Q", title="share explained").axis(format="~%")
    y = y.scale(domain=_range(frame.select(value="explained")), nice=False)
    tips = ["name:N", alt.Tooltip("explained:Q", format=".4~%"), "group:N", "step:Q", "spent:Q"]
    line = alt.Chart().mark_line(interpolate="step-after", strokeWidth=2, clip=True)
    point = alt.Chart().mark_point(filled=True, size=20, opacity=1, clip=True)
    layers = [
        line.encode(x, y, order="step:Q", **apart),
        point.encode(x, y, apart["color"], tooltip=tips),
    ]
    if cut is not None:
        layers.append(alt.Chart().mark_rule(strokeDash=[2, 4]).encode(x=alt.XDatum(cut)))
    chart = alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)
    return finished(chart, frame, title, told)


def thinned(frame: pl.DataFrame, most: int = MOST_STEPS) -> pl.DataFrame:
    """Return rows spread evenly, the first and the last among them, where there are too many."""
    if frame.height <= most:
        return frame
    kept = np.unique(np.linspace(0, frame.height - 1, most).astype(int))
    return frame.select(pl.all().gather(kept))


def _labels(frame: pl.DataFrame, curve: str, axis: CostAxis) -> pl.Series:
    """Return the names that have room, those of the largest gains first."""
    height = float(np.diff(_range(frame))[0])
    rows = frame.with_row_index("row").filter(pl.col("curve") == curve, pl.col("step") > 0)
    placed: dict[int, tuple[float, float, str]] = {}
    for row in rows.sort(pl.col("gain").abs(), descending=True).iter_rows(named=True):
        x, y = float(axis.place(row["spent"])), row["value"] / height
        free = all(
            abs(x - left) > NAME_WIDTH or abs(y - top) > NAME_HEIGHT
            for left, top, _ in placed.values()
        )
        if free and len(placed) < MOST_NAMES:
            placed[row["row"]] = (x, y, row["group"])
    names = [placed[row][2] if row in placed else None for row in range(frame.height)]
    return pl.Series("label", names, pl.String)


def _range(frame: pl.DataFrame) -> list[float]:
    """Return the range of the shares that are drawn."""
    shares = [frame[name] for name in ("value", "low", "high") if name in frame.columns]
    values = np.concatenate([one.drop_nulls().to_numpy() for one in shares])
    return [max(LOWEST, min(0.0, float(values.min()))), max(1e-12, float(values.max())) * 1.02]

"""Charts of step curves against cost: predictions change only when a group is complete."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from dbselect.pages.cost import CostAxis, cost_axis
from dbselect.pages.labels import APART, LONGEST, placed
from dbselect.pages.style import (
    COLOURS,
    GREY,
    HEIGHT,
    PAGE,
    WIDTH,
    altair,
    finished,
    line_encodings,
)

#: Most steps of a curve that are drawn, evenly spaced, always with the last one.
MOST_STEPS = 1000
#: Curves with more steps have smaller points.
MANY = 60
#: Lower end of the axis for shares, which may be very negative on held-out rows.
LOWEST = -0.25
#: Margin beyond the last step, as a share of the cost, and above and below, of the height.
ROOM = 0.03
#: Names of points beyond this share of the width end at the point.
NEAR_THE_END = 1 - (LONGEST + 2 * APART) / WIDTH
#: An entry of a tooltip: ``"column:type"``, or a column of numbers, its format and title.
Tip = str | Sequence[str]


@dataclass(frozen=True)
class Heights:
    """The quantity that is drawn against cost."""

    value: str  # its column
    title: str  # of the axis
    # whether it is an explained share, drawn in percent with the axis from 0
    share: bool = False
    more: bool = True  # whether higher is better

    def ends(self, frame: pl.DataFrame) -> tuple[float, float]:
        """Return the ends of the axis."""
        names = [name for name in (self.value, "low", "high") if name in frame.columns]
        values = np.concatenate([frame[name].drop_nulls().to_numpy() for name in names])
        low, high = float(values.min()), float(values.max())
        if self.share:
            low, high = max(LOWEST, min(0.0, low)), max(high, 1e-12)
        room = ROOM * ((high - low) or abs(high) or 1.0)
        return low if self.share else low - room, high + room

    def encoding(self, ends: tuple[float, float]) -> Any:
        """Return the y encoding for altair."""
        y = altair().Y(f"{self.value}:Q", title=self.title)
        y = y.scale(domain=list(ends), nice=False, zero=False)
        return y.axis(format="~%") if self.share else y


def step_curves(
    frame: pl.DataFrame,
    heights: Heights,
    title: str,
    captions: Sequence[str],
    *,
    line: str | None = None,
    tips: Sequence[Tip],
    mark: float | None = None,
) -> Any:
    """Return the chart of step curves, one row per curve and step; NULL is not drawn.

    Optional columns: group, the name of a step; low and high, the ends of a band; choice, why a
    step is chosen. `line` is the column of the curves' names; `mark` the cost of a dotted line.
    """
    alt = altair()
    drawn = frame.filter(pl.col(heights.value).is_not_null())
    names = [] if line is None else drawn[line].unique(maintain_order=True).to_list()
    first = drawn if line is None else drawn.filter(pl.col(line) == names[0])
    axis, ends = _axis(first, drawn, heights), heights.ends(drawn)
    if "group" in frame.columns:
        frame = frame.with_columns(_step_labels(frame, line, names, heights, axis, ends))
    colours: dict[str, Any] = {"color": alt.value(COLOURS[0])}
    if line is not None:
        colours = line_encodings(line, names)
    x, y, tooltip = axis.encoding(), heights.encoding(ends), tooltips(tips)
    present = alt.Chart().transform_filter(f"isValid(datum['{heights.value}'])")
    steps = {"interpolate": "step-after", "clip": True}
    parts = []
    if "low" in frame.columns:
        band = present.transform_filter("isValid(datum.low)")
        band = band.mark_area(opacity=0.25, strokeWidth=0, **steps)
        parts.append(band.encode(x, alt.Y("low:Q"), alt.Y2("high:Q"), color=colours["color"]))
    curve = present.mark_line(strokeWidth=2, **steps)
    parts.append(curve.encode(x, y, **colours))
    if mark is not None:
        parts.append(alt.Chart().mark_rule(strokeDash=[2, 4]).encode(x=alt.XDatum(mark)))
    size = 40 if first.height <= MANY else 14
    points = present.mark_point(filled=True, size=size, opacity=1, clip=True)
    parts.append(points.encode(x, y, color=colours["color"], tooltip=tooltip))
    if "choice" in frame.columns:
        parts.append(choices().encode(x, y, tooltip=tooltip))
    if "group" in frame.columns:
        named = present.transform_filter("isValid(datum.label)")
        late = f"datum.spent > {axis.cost_at(NEAR_THE_END)!r}"
        # A halo in the page's colour keeps a name legible where it crosses a curve.
        for style in ({"stroke": PAGE, "strokeWidth": 3, "strokeOpacity": 0.8}, {}):
            text = {"baseline": "top", "dy": 4, "limit": LONGEST, **style}
            begin = named.transform_filter(f"!({late})").mark_text(align="left", dx=APART, **text)
            end = named.transform_filter(late).mark_text(align="right", dx=-APART, **text)
            parts += [layer.encode(x, y, text="label:N") for layer in (begin, end)]
    chart = alt.layer(*parts).properties(width=WIDTH, height=HEIGHT)
    return finished(chart, frame, title, captions)


def tooltips(tips: Sequence[Tip]) -> list[Any]:
    """Return the tooltips for altair; `tips` as in `step_curves`."""
    alt = altair()
    return [
        tip if isinstance(tip, str) else alt.Tooltip(f"{tip[0]}:Q", format=tip[1], title=tip[2])
        for tip in tips
    ]


def choices() -> Any:
    """Return the marks of chosen rows, without x and y; the frame needs a column choice."""
    alt = altair()
    chosen = alt.Chart().transform_filter("isValid(datum.choice)")
    mark = chosen.mark_point(size=140, filled=False, strokeWidth=2, color=GREY, opacity=1)
    return mark.encode(alt.Shape("choice:N", title="choice").legend(orient="bottom"))


def thinned(
    frame: pl.DataFrame, most: int = MOST_STEPS, always: pl.Expr | None = None
) -> pl.DataFrame:
    """Return evenly spaced rows, with the first, the last and those that `always` selects."""
    if frame.height <= most:
        return frame
    kept = pl.int_range(pl.len()).is_in(np.linspace(0, frame.height - 1, most).astype(int))
    return frame.filter(kept if always is None else kept | always)


def _axis(first: pl.DataFrame, drawn: pl.DataFrame, heights: Heights) -> CostAxis:
    """Return the axis that suits the first curve and reaches the end of the longest one."""
    value = pl.col(heights.value)
    rise = value - value.min() if heights.more else value.max() - value
    height = value if heights.share else rise
    axis = cost_axis(first.select("spent", height=height), "height")
    most = max(axis.most, float(drawn["spent"].to_numpy().max()))
    return replace(axis, most=most * (1 + ROOM))


def _step_labels(
    frame: pl.DataFrame,
    line: str | None,
    names: Sequence[str],
    heights: Heights,
    axis: CostAxis,
    ends: tuple[float, float],
) -> pl.Series:
    """Return the labels of the first curve's steps that have room, the largest gains first."""
    rows = frame.with_row_index("row")
    if line is not None:
        rows = rows.filter(pl.col(line) == names[0])
    rows = rows.filter(pl.col(heights.value).is_not_null())
    rows = rows.with_columns(rise=pl.col(heights.value).diff().abs())
    rows = rows.filter(pl.col("group").is_not_null()).sort("rise", descending=True, nulls_last=True)

    def points() -> Iterator[tuple[int, float, float, bool]]:
        for row in rows.iter_rows(named=True):
            share = float(axis.place(row["spent"]))
            height = (row[heights.value] - ends[0]) / (ends[1] - ends[0])
            if height >= 0:
                yield row["row"], share * WIDTH, (1 - height) * HEIGHT, share > NEAR_THE_END

    return placed(points(), frame["group"].to_list())

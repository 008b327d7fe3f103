"""Step curves against cost: a prediction changes only when a group is complete."""

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
    told_apart,
)

#: Of one curve no more steps are drawn, spread evenly; the last is always among them.
MOST_STEPS = 1000
#: More steps than these get smaller points.
MANY = 60
#: A share on other rows may fall without limit; the picture ends here, the frame does not.
LOWEST = -0.25
#: Space beyond the last step, as a share of the cost, and above and below, of the height.
ROOM = 0.03
#: From this share of the width on a name ends at its point.
NEAR_THE_END = 1 - (LONGEST + 2 * APART) / WIDTH
#: What hovering shows of a step: ``"column:type"``, or a column of numbers, its format, its title.
Tip = str | Sequence[str]


@dataclass(frozen=True)
class Heights:
    """What is drawn against cost."""

    value: str  # its column
    title: str  # of the axis
    # whether it is a share of what can be explained: in percent, the axis from 0
    share: bool = False
    more: bool = True  # whether more of it is better

    def ends(self, frame: pl.DataFrame) -> tuple[float, float]:
        """Return the ends of the axis."""
        shown = [frame[one] for one in (self.value, "low", "high") if one in frame.columns]
        values = np.concatenate([one.drop_nulls().to_numpy() for one in shown])
        low, high = float(values.min()), float(values.max())
        if self.share:
            low, high = max(LOWEST, min(0.0, low)), max(high, 1e-12)
        room = ROOM * ((high - low) or abs(high) or 1.0)
        return low if self.share else low - room, high + room

    def encoding(self, ends: tuple[float, float]) -> Any:
        """Return the y of altair."""
        y = altair().Y(f"{self.value}:Q", title=self.title)
        y = y.scale(domain=list(ends), nice=False, zero=False)
        return y.axis(format="~%") if self.share else y


def step_curves(
    frame: pl.DataFrame,
    heights: Heights,
    title: str,
    told: Sequence[str],
    *,
    line: str | None = None,
    tips: Sequence[Tip],
    mark: float | None = None,
) -> Any:
    """Return the picture of step curves, a row for a curve and step; NULL is not drawn.

    Columns that may be there: group names a step, low and high end a band, choice says what it is
    chosen for. `line` is the column of the curves' names; a dotted line stands at the cost `mark`.
    """
    alt = altair()
    drawn = frame.filter(pl.col(heights.value).is_not_null())
    names = [] if line is None else drawn[line].unique(maintain_order=True).to_list()
    first = drawn if line is None else drawn.filter(pl.col(line) == names[0])
    axis, ends = _axis(first, drawn, heights), heights.ends(drawn)
    if "group" in frame.columns:
        frame = frame.with_columns(_named(frame, line, names, heights, axis, ends))
    apart: dict[str, Any] = {"color": alt.value(COLOURS[0])}
    if line is not None:
        apart = told_apart(line, names)
    x, y, shown = axis.encoding(), heights.encoding(ends), tooltips(tips)
    there = alt.Chart().transform_filter(f"isValid(datum['{heights.value}'])")
    steps = {"interpolate": "step-after", "clip": True}
    parts = []
    if "low" in frame.columns:
        band = there.transform_filter("isValid(datum.low)")
        band = band.mark_area(opacity=0.25, strokeWidth=0, **steps)
        parts.append(band.encode(x, alt.Y("low:Q"), alt.Y2("high:Q"), color=apart["color"]))
    curve = there.mark_line(strokeWidth=2, **steps)
    parts.append(curve.encode(x, y, **apart))
    if mark is not None:
        parts.append(alt.Chart().mark_rule(strokeDash=[2, 4]).encode(x=alt.XDatum(mark)))
    size = 40 if first.height <= MANY else 14
    points = there.mark_point(filled=True, size=size, opacity=1, clip=True)
    parts.append(points.encode(x, y, color=apart["color"], tooltip=shown))
    if "choice" in frame.columns:
        parts.append(choices().encode(x, y, tooltip=shown))
    if "group" in frame.columns:
        named = there.transform_filter("isValid(datum.label)")
        late = f"datum.spent > {axis.cost_at(NEAR_THE_END)!r}"
        # A name is read above the curves that it crosses: on a halo of the page's colour.
        for look in ({"stroke": PAGE, "strokeWidth": 3, "strokeOpacity": 0.8}, {}):
            text = {"baseline": "top", "dy": 4, "limit": LONGEST, **look}
            begin = named.transform_filter(f"!({late})").mark_text(align="left", dx=APART, **text)
            end = named.transform_filter(late).mark_text(align="right", dx=-APART, **text)
            parts += [one.encode(x, y, text="label:N") for one in (begin, end)]
    chart = alt.layer(*parts).properties(width=WIDTH, height=HEIGHT)
    return finished(chart, frame, title, told)


def tooltips(tips: Sequence[Tip]) -> list[Any]:
    """Return what hovering shows, as altair takes it; `tips` are as of `step_curves`."""
    alt = altair()
    return [
        one if isinstance(one, str) else alt.Tooltip(f"{one[0]}:Q", format=one[1], title=one[2])
        for one in tips
    ]


def choices() -> Any:
    """Return the marks of what is chosen, without x and y; the frame has a column choice."""
    alt = altair()
    taken = alt.Chart().transform_filter("isValid(datum.choice)")
    mark = taken.mark_point(size=140, filled=False, strokeWidth=2, color=GREY, opacity=1)
    return mark.encode(alt.Shape("choice:N", title="choice").legend(orient="bottom"))


def thinned(
    frame: pl.DataFrame, most: int = MOST_STEPS, always: pl.Expr | None = None
) -> pl.DataFrame:
    """Return rows spread evenly, with the first, the last and those that `always` means."""
    if frame.height <= most:
        return frame
    kept = pl.int_range(pl.len()).is_in(np.linspace(0, frame.height - 1, most).astype(int))
    return frame.filter(kept if always is None else kept | always)


def _axis(first: pl.DataFrame, drawn: pl.DataFrame, heights: Heights) -> CostAxis:
    """Return the axis on which the first curve is seen, as long as the longest one."""
    value = pl.col(heights.value)
    rise = value - value.min() if heights.more else value.max() - value
    height = value if heights.share else rise
    axis = cost_axis(first.select("spent", height=height), "height")
    most = max(axis.most, float(drawn["spent"].to_numpy().max()))
    return replace(axis, most=most * (1 + ROOM))


def _named(
    frame: pl.DataFrame,
    line: str | None,
    names: Sequence[str],
    heights: Heights,
    axis: CostAxis,
    ends: tuple[float, float],
) -> pl.Series:
    """Return the names of the first curve's steps that have room, the largest gains first."""
    own = frame.with_row_index("row")
    if line is not None:
        own = own.filter(pl.col(line) == names[0])
    own = own.filter(pl.col(heights.value).is_not_null())
    own = own.with_columns(rise=pl.col(heights.value).diff().abs())
    own = own.filter(pl.col("group").is_not_null()).sort("rise", descending=True, nulls_last=True)

    def points() -> Iterator[tuple[int, float, float, bool]]:
        for row in own.iter_rows(named=True):
            share = float(axis.place(row["spent"]))
            height = (row[heights.value] - ends[0]) / (ends[1] - ends[0])
            if height >= 0:
                yield row["row"], share * WIDTH, (1 - height) * HEIGHT, share > NEAR_THE_END

    return placed(points(), frame["group"].to_list())

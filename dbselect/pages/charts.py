"""Charts: curves against cost, coefficients along a penalty, bars, and heat maps.

Curves have steps, as predictions change only when a group is complete. The axis of cost is
logarithmic if a small part of the cost explains most.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from dbselect.pages.style import (
    COLOURS,
    GREY,
    HEIGHT,
    MOST_ROWS,
    PAGE,
    WIDTH,
    altair,
    finished,
    line_encodings,
)

#: The axis is logarithmic if half of the height is reached within this share of the cost.
EARLY = 0.1
#: Least distance of two ticks, as a share of the axis.
TICK_DISTANCE = 0.07
TITLE = "spent, in the unit of cost"


@dataclass(frozen=True)
class CostAxis:
    """A linear or logarithmic axis of costs."""

    most: float  # the end of the axis
    constant: float | None  # c of ``log(1 + spent / c)``; None for a linear axis

    def place(self, spent: Any) -> Any:
        """Return the positions of costs, from 0 to 1."""
        if self.constant is None:
            return np.asarray(spent) / self.most
        return np.log1p(np.asarray(spent) / self.constant) / np.log1p(self.most / self.constant)

    def cost_at(self, share: float) -> float:
        """Return the cost at a position, from 0 to 1."""
        if self.constant is None:
            return self.most * share
        return self.constant * float(np.expm1(share * np.log1p(self.most / self.constant)))

    @property
    def ticks(self) -> list[float]:
        """Axis ticks: round costs with room between them."""
        exponents = range(int(np.floor(np.log10(self.most))) - 9, int(np.log10(self.most)) + 2)
        round_costs = [digit * 10.0**power for power in exponents for digit in (1, 2, 5)]
        kept = [0.0]
        for cost in round_costs:
            if cost <= self.most and self.place(cost) - self.place(kept[-1]) >= TICK_DISTANCE:
                kept.append(cost)
        return kept

    def encoding(self) -> Any:
        """Return the x encoding for altair."""
        alt = altair()
        if self.constant is None:
            return alt.X("spent:Q", title=TITLE).scale(domain=[0, self.most], nice=False)
        x = alt.X("spent:Q", title=f"{TITLE}, logarithmic from {self.constant:.2g} on")
        x = x.axis(values=self.ticks, format=",.6~g")
        return x.scale(
            type="symlog", constant=self.constant, domain=[0, self.most], nice=False, clamp=False
        )


def cost_axis(frame: pl.DataFrame, value: str) -> CostAxis:
    """Return the axis for the columns spent and `value` of a curve's frame."""
    points = frame.select("spent", value).drop_nulls()
    spent, height = points["spent"].to_numpy(), points[value].to_numpy()
    most = max(float(spent.max(initial=0.0)), 0.0) or 1.0
    reached = spent[height >= (height.max(initial=0.0) + height.min(initial=0.0)) / 2]
    half = float(reached.min(initial=most))
    return CostAxis(most, half if 0 < half <= EARLY * most else None)


#: Most names in a chart.
MOST_NAMES = 12
#: Pixels: width of a letter, of the longest name, height of a line, distance of point and name.
LETTER, LONGEST, LINE, APART = 6.5, 110.0, 13.0, 5.0


def placed(
    points: Iterable[tuple[int, float, float, bool]], names: Sequence[str | None]
) -> pl.Series:
    """Return the names that have room, NULL for the others, as a Series called label.

    Points, the most important first: row, x and y of the name in pixels, whether it ends at x.
    """
    boxes: list[tuple[float, float, float]] = []
    labels: list[str | None] = [None] * len(names)
    for row, x, y, ends in points:
        width = min(LONGEST, LETTER * len(names[row] or ""))
        left = x - APART - width if ends else x + APART
        free = all(
            left + width < low or high < left or abs(y - height) > LINE
            for low, high, height in boxes
        )
        if free and len(boxes) < MOST_NAMES:
            boxes.append((left, left + width, y))
            labels[row] = names[row]
    return pl.Series("label", labels, pl.String)


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


#: Legend entry of all units beyond the coloured ones.
OTHERS = "others"


def growth(
    frame: pl.DataFrame, title: str, captions: Sequence[str], unit: str, size: tuple[str, str]
) -> Any:
    """Return the chart of a path, one row per penalty and unit, the largest unit first.

    `unit` is ``"group"`` or ``"column"``; `size` is the column to draw and the title of its axis.
    """
    alt = altair()
    coloured = frame[unit].unique(maintain_order=True).to_list()[: len(COLOURS)]
    is_coloured = pl.col(unit).is_in(coloured)
    frame = frame.with_columns(line=pl.when(is_coloured).then(unit).otherwise(pl.lit(OTHERS)))
    frame = frame.with_columns(_end_labels(frame, unit, size[0], is_coloured))
    x = alt.X("penalty:Q", title="penalty").scale(type="log", reverse=True, nice=False)
    x = x.axis(format=".2~g", tickCount=6, grid=False)
    y = alt.Y(f"{size[0]}:Q", title=size[1])
    measures = ("penalty", size[0], "spent", "r2")
    tips = [f"{unit}:N", "cost:Q", *(alt.Tooltip(f"{x}:Q", format=".4~g") for x in measures)]
    grey = alt.Chart().transform_filter(alt.datum.line == OTHERS)
    bright = alt.Chart().transform_filter(alt.datum.line != OTHERS)
    chart = alt.layer(
        grey.mark_line(color=GREY, opacity=0.5, strokeWidth=1).encode(x, y, detail=f"{unit}:N"),
        bright.mark_line(strokeWidth=2).encode(x, y, **line_encodings("line", coloured)),
        alt.Chart().mark_point(size=30, opacity=0, filled=True).encode(x, y, tooltip=tips),
        alt.Chart()
        .transform_filter("isValid(datum.label)")
        .mark_text(align="left", dx=APART, limit=LONGEST)
        .encode(x, y, text="label:N"),
    )
    return finished(chart.properties(width=WIDTH, height=HEIGHT), frame, title, captions)


def _end_labels(frame: pl.DataFrame, unit: str, size: str, shown: pl.Expr) -> pl.Series:
    """Return the labels at the ends of coloured lines, as far as there is room."""
    ends = frame.with_row_index("row").filter(shown, pl.col("penalty") == pl.col("penalty").min())
    values = frame[size].to_numpy()
    scale = HEIGHT / ((float(values.max()) - min(0.0, float(values.min()))) or 1.0)
    points = ((row["row"], 0.0, -row[size] * scale, False) for row in ends.iter_rows(named=True))
    return placed(points, frame[unit].to_list())


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

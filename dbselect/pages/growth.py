"""Chart of the coefficients of columns or groups along a falling penalty."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from dbselect.pages.labels import APART, LONGEST, placed
from dbselect.pages.style import COLOURS, GREY, HEIGHT, WIDTH, altair, finished, line_encodings

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

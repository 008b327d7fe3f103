"""The common style of charts: altair, colours, dashes, and a white background.

Charts are read on dark screens, in grey, and by colour-blind readers: a dash or a label repeats
what a colour shows. Source: Okabe, Ito (2008), Color Universal Design.
"""

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import polars as pl

from dbselect.errors import EngineError

#: Colours of the background and of text.
PAGE, TEXT = "#ffffff", "#222222"
#: Colours of Okabe and Ito that are visible on white, the most different first.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
#: Lengths of strokes and gaps, in pixels, one pattern per colour.
DASHES = ((1, 0), (6, 3), (2, 2), (8, 3, 2, 3), (12, 4), (4, 6))
#: Colour of neutral marks, of medium lightness.
GREY = "#888888"
#: Size of a chart, in pixels.
WIDTH, HEIGHT = 600, 340
#: Most rows of a chart that altair allows.
MOST_ROWS = 5000


def altair() -> ModuleType:
    """Import altair; EngineError if it is not installed."""
    try:
        import altair as alt
    except ImportError:
        raise EngineError("pictures need altair: pip install 'dbselect[plot]'") from None
    return alt


def finished(chart: Any, frame: pl.DataFrame, title: str, captions: Sequence[str]) -> Any:
    """Add data, title and style to a chart; `captions` are sentences below the title."""
    alt = altair()
    heading = alt.TitleParams(title, subtitle=list(captions), anchor="start")
    words = f"{title}. {' '.join(captions)}"
    drawn = chart.properties(
        data=frame,
        title=heading,
        description=words,
        usermeta={"embedOptions": {"renderer": "svg", "actions": False}},
    )
    text, line = TEXT, {"domainColor": GREY, "tickColor": GREY}
    return (
        drawn.configure(background=PAGE, padding=10)
        .configure_view(stroke=None)
        .configure_axis(
            labelColor=text, titleColor=text, gridColor=GREY, gridOpacity=0.25,
            titleFontWeight="normal", **line,
        )
        .configure_legend(
            labelColor=text, titleColor=text, labelLimit=220, symbolSize=400, symbolStrokeWidth=2
        )
        .configure_title(color=text, subtitleColor=text, subtitleFontSize=11)
        .configure_text(color=text)
        .configure_rule(color=GREY)
    )  # fmt: skip


def line_encodings(field: str, names: Sequence[str], title: str | None = None) -> dict[str, Any]:
    """Return colour and dash encodings of lines, with one legend in the order of `names`."""
    alt = altair()
    kinds = range(len(names))
    colours = [COLOURS[k % len(COLOURS)] for k in kinds]
    # With more lines than colours, the pairs of colour and dash still differ.
    dashes = [list(DASHES[(k + k // len(COLOURS)) % len(DASHES)]) for k in kinds]
    legend = None
    if len(names) > 1:
        look = {"orient": "bottom", "columns": 3, "symbolType": "stroke", "symbolOpacity": 1}
        legend = alt.Legend(title=title, **look)
    return {
        "color": alt.Color(f"{field}:N", legend=legend).scale(domain=names, range=colours),
        "strokeDash": alt.StrokeDash(f"{field}:N", legend=legend).scale(domain=names, range=dashes),
    }

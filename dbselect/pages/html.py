"""Results as HTML: escaped text, rounded numbers, tables and small curves; also in notebooks."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import isnan
from typing import Any

import numpy as np
import polars as pl

from dbselect._forked import check_threads

#: Most names that are listed; the others are counted.
LISTED = 8
#: Longest name, in characters; longer ones are cut.
NAME_LENGTH = 32


def listed(names: Sequence[str], nothing: str = "nothing") -> str:
    """Return names as text: ``a, b`` or ``a, b, ... and 198 more``; `nothing` without any."""
    shown = [
        name if len(name) <= NAME_LENGTH else name[: NAME_LENGTH - 3] + "..."
        for name in names[:LISTED]
    ]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f", ... and {more} more" if more else "") if shown else nothing


#: Size of a small curve, and the space around it, in pixels.
CURVE_WIDTH, CURVE_HEIGHT, CURVE_EDGE = 160, 40, 3
#: Most points of a small curve, one per pixel, and how much larger it is below a result.
CURVE_POINTS, LARGER = 160, 3


def cell_text(value: Any, digits: int = 4) -> str:
    """Return a value as HTML text, numbers rounded; empty for NULL and NaN."""
    if value is None or (isinstance(value, float) and isnan(value)):
        return ""
    if isinstance(value, float):
        return f"{value:.{digits}g}" if abs(value) < 10**digits else f"{value:,.0f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    if len(text) <= 2 * NAME_LENGTH:
        return escape(text)
    return f'<span title="{escape(text)}">{escape(text[: 2 * NAME_LENGTH - 3])}...</span>'


def html_table(table: pl.DataFrame, first: int, last: int) -> str:
    """Return the first and last rows of a table, and the number of rows between them."""
    numbers = [dtype.is_numeric() for dtype in table.dtypes]
    kinds = ["right" if number else "left" for number in numbers]
    head = "".join(
        f'<th scope="col" style="text-align: {kind}">{escape(name)}</th>'
        for name, kind in zip(table.columns, kinds, strict=True)
    )
    hidden = table.height - first - last
    rows = table.rows()
    if hidden <= 1:
        body = _rows(rows, kinds)
    else:
        more = f'<tr><td colspan="{table.width}">... {hidden:,} more ...</td></tr>'
        body = _rows(rows[:first], kinds) + more + _rows(rows[first + hidden :], kinds)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def small_curve(x: Any, y: Any, words: str, larger: int = 1) -> str:
    """Return a step curve as SVG in the colour of the text; `words` are for screen readers."""
    kept = np.unique(np.linspace(0, len(x) - 1, min(len(x), CURVE_POINTS)).astype(int))
    across, up = (_scaled(np.asarray(values, dtype=float)[kept]) for values in (x, y))
    across = CURVE_EDGE + across * (CURVE_WIDTH - 2 * CURVE_EDGE)
    up = CURVE_HEIGHT - CURVE_EDGE - up * (CURVE_HEIGHT - 2 * CURVE_EDGE)
    path = f"M{across[0]:.1f} {up[0]:.1f}" + "".join(
        f"H{a:.1f}V{b:.1f}" for a, b in zip(across[1:], up[1:], strict=True)
    )
    return (
        f'<svg role="img" aria-label="{escape(words)}" width="{larger * CURVE_WIDTH}" '
        f'height="{larger * CURVE_HEIGHT}" viewBox="0 0 {CURVE_WIDTH} {CURVE_HEIGHT}">'
        f'<path d="{path}" fill="none" stroke="currentColor" stroke-width="{1.5 / larger}"/></svg>'
    )


def _rows(rows: Sequence[Sequence[Any]], kinds: Sequence[str]) -> str:
    return "".join(
        "<tr>"
        + "".join(
            f'<td style="text-align: {kind}">{cell_text(value)}</td>'
            for value, kind in zip(row, kinds, strict=True)
        )
        + "</tr>"
        for row in rows
    )


def _scaled(values: Any) -> Any:
    """Scale values from the least, 0, to the greatest, 1."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    return np.nan_to_num((values - low) / (high - low)) if high > low else np.zeros(len(values))


#: Rows shown at the start and at the end of a longer table.
FIRST_ROWS, LAST_ROWS = 12, 4


@dataclass(frozen=True, eq=False)
class Glance:
    """A summary of a result: a table and a curve."""

    table: pl.DataFrame  # the most informative rows
    # x and y, each of shape (n,), and a caption; None for no curve
    curve: tuple[Any, Any, str] | None = None


class InNotebooks:
    """Mixin of results that notebooks show as a table below their `repr`."""

    table: pl.DataFrame

    @property
    def _glance(self) -> Glance:
        return Glance(self.table)

    def _repr_html_(self) -> str:
        check_threads()
        glance = self._glance
        curve = ""
        if glance.curve is not None:
            words = escape(glance.curve[2])
            curve = f"<div>{small_curve(*glance.curve, LARGER)}<div>{words}</div></div>"
        table = html_table(glance.table, FIRST_ROWS, LAST_ROWS)
        return f"<div><div>{escape(repr(self))}</div>{curve}{table}</div>"

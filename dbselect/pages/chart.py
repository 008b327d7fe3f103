"""Charts as SVG by hand, for pages that must need nothing else: curves against cost, bars.

Colours and text are those of the page's style sheet, so that charts follow it into the dark and
onto paper. Lines differ by dashes as well.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from dbselect.pictures.cost import TITLE, CostAxis

#: Size of a chart and the space around what is drawn, in pixels.
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 320, 56, 16, 12, 44
#: Lines of the grid across, at most.
TICKS = 6


@dataclass(frozen=True, eq=False)
class Line:
    """A step curve.

    Parameters
    ----------
    name : in the legend
    x, y : shape (n,), in the order in which the points are reached; y may be NaN
    low, high : of a band around it, shape (n,); None for no band
    """

    name: str
    x: Any
    y: Any
    low: Any = None
    high: Any = None


def cost_chart(lines: Sequence[Line], axis: CostAxis, words: str) -> str:
    """Return curves against cost, with a line `marker` that a script moves.

    Parameters
    ----------
    lines : the first is drawn last, above the others
    words : description for screen readers
    """
    values = np.concatenate(
        [np.asarray(one, float) for line in lines for one in (line.y, line.low, line.high)
         if one is not None]
    )  # fmt: skip
    values = values[np.isfinite(values)]
    low, high = max(-0.25, min(0.0, values.min())), max(values.max(), 1e-12)
    frame = _Frame(low, high + 0.02 * (high - low))
    ticks = axis.ticks if axis.constant is not None else ticks_of(0.0, axis.most)
    parts = [frame.grid([f"{100 * one:.4g} %" for one in frame.ticks])]
    for cost in ticks:
        x = frame.across(axis.place(cost))
        parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
        parts.append(_text(x, HEIGHT - BOTTOM + 16, f"{cost:g}", "middle"))
    title = TITLE if axis.constant is None else f"{TITLE}, logarithmic from {axis.constant:.2g} on"
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, title, "middle"))
    for number, line in reversed(list(enumerate(lines))):
        x = frame.across(axis.place(np.asarray(line.x, float)))
        if line.low is not None:
            up, down = _steps(x, frame.up(line.high)), _steps(x, frame.up(line.low))
            back = "L".join(reversed(down[1:].split("L")))
            parts.append(f'<path class="band c{number % 6}" d="{up}L{back}Z"/>')
        path = _steps(x, frame.up(line.y))
        parts.append(f'<path class="line c{number % 6}" d="{path}"/>')
    parts.append(f'<line id="marker" x1="{LEFT}" x2="{LEFT}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
    legend = "".join(
        f'<li><svg width="34" height="10" aria-hidden="true"><path class="line c{k % 6}" '
        f'd="M1 5H33"/></svg> {escape(line.name)}</li>'
        for k, line in enumerate(lines)
    )
    return _figure(parts, words) + f'<ul class="legend">{legend}</ul>'


def bar_chart(edges: Any, heights: Any, title: str, words: str) -> str:
    """Return a histogram.

    Parameters
    ----------
    edges : shape (n + 1,)
    heights : shape (n,), shares
    """
    frame = _Frame(0.0, max(float(np.max(heights)), 1e-12) * 1.05)
    span = edges[-1] - edges[0]
    parts = [frame.grid([f"{100 * one:.4g} %" for one in frame.ticks])]
    for left, right, height in zip(edges[:-1], edges[1:], heights, strict=True):
        x, end = (frame.across((one - edges[0]) / span) for one in (left, right))
        y = frame.up(height)
        parts.append(
            f'<rect class="bar" x="{x:.1f}" y="{y:.1f}" width="{max(end - x - 1, 0.5):.1f}" '
            f'height="{HEIGHT - BOTTOM - y:.1f}"/>'
        )
    return _figure([*parts, *_numbers(frame, edges[0], edges[-1], title)], words)


def point_chart(x: Any, y: Any, titles: tuple[str, str], words: str) -> str:
    """Return points and the line on which both are equal.

    Parameters
    ----------
    x, y : shape (n,)
    titles : of both axes
    """
    low, high = float(min(np.min(x), np.min(y))), float(max(np.max(x), np.max(y)))
    room = 0.05 * (high - low or 1.0)
    low, high = low - room, high + room
    frame = _Frame(low, high)
    parts = [frame.grid([f"{one:.4g}" for one in frame.ticks])]
    parts.append(f'<path class="line c1" d="M{LEFT} {HEIGHT - BOTTOM}L{WIDTH - RIGHT} {TOP}"/>')
    for a, b in zip(x, y, strict=True):
        across, up = frame.across((a - low) / (high - low)), frame.up(b)
        parts.append(f'<circle class="point" cx="{across:.1f}" cy="{up:.1f}" r="4"/>')
    parts.append(_text(LEFT + 6, TOP + 12, titles[1], "start"))
    return _figure([*parts, *_numbers(frame, low, high, titles[0])], words)


def ticks_of(low: float, high: float) -> list[float]:
    """Return round numbers from low to high, `TICKS` at most."""
    rough = (high - low) / TICKS
    power = 10.0 ** np.floor(np.log10(rough))
    step = next(digit * power for digit in (1, 2, 5, 10) if digit * power >= rough * 0.999)
    first = np.ceil(low / step - 1e-9)
    return [float(round(k * step, 12)) + 0.0 for k in np.arange(first, high / step + 1e-9)]


@dataclass(frozen=True)
class _Frame:
    """The area that is drawn on, and what its lower and upper edges mean."""

    low: float
    high: float

    @property
    def ticks(self) -> list[float]:
        return ticks_of(self.low, self.high)

    def across(self, share: Any) -> Any:
        return np.round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    def up(self, value: Any) -> Any:
        share = (np.clip(np.asarray(value, float), self.low, self.high) - self.low) / (
            self.high - self.low
        )
        return np.round(HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM), 1)

    def grid(self, texts: Sequence[str]) -> str:
        return "".join(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{self.up(one)}" '
            f'y2="{self.up(one)}"/>' + _text(LEFT - 6, self.up(one) + 4, text, "end")
            for one, text in zip(self.ticks, texts, strict=True)
        )


def _numbers(frame: _Frame, low: float, high: float, title: str) -> list[str]:
    """Return the axis below, and what it is."""
    parts = [
        _text(
            frame.across((one - low) / (high - low)), HEIGHT - BOTTOM + 16, f"{one:.4g}", "middle"
        )
        for one in ticks_of(low, high)
    ]
    return [*parts, _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, title, "middle")]


def _steps(x: Any, y: Any) -> str:
    """Return a step curve, without the points that are missing."""
    there = np.isfinite(y)
    x, y = x[there], y[there]
    path = f"M{x[0]} {y[0]}"
    for k in range(1, len(x)):
        path += f"L{x[k]} {y[k - 1]}L{x[k]} {y[k]}"
    return path


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'


def _figure(parts: Sequence[str], words: str) -> str:
    return (
        f'<svg class="chart" role="img" aria-label="{escape(words)}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}">{"".join(parts)}</svg>'
    )

"""Charts as SVG by hand, for pages that must need nothing else: bars, points, curves.

Colours and text are those of the page's style sheet, so that charts follow it into the dark and
onto paper. `chart.js` draws curves against cost.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

#: Size of a chart and the space around what is drawn, in pixels.
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 320, 56, 16, 12, 44
#: Lines of the grid across, at most.
TICKS = 6


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


def point_chart(
    x: Any, y: Any, titles: tuple[str, str], words: str, *, joined: bool = False
) -> str:
    """Return points and the line on which both are equal.

    Parameters
    ----------
    x, y : shape (n,)
    titles : of both axes
    joined : whether a line through the points takes their place
    """
    low, high = float(min(np.min(x), np.min(y))), float(max(np.max(x), np.max(y)))
    room = 0.05 * (high - low or 1.0)
    low, high = low - room, high + room
    frame = _Frame(low, high)
    parts = [frame.grid([f"{one:.4g}" for one in frame.ticks])]
    parts.append(f'<path class="line c1" d="M{LEFT} {HEIGHT - BOTTOM}L{WIDTH - RIGHT} {TOP}"/>')
    across, up = frame.across((np.asarray(x) - low) / (high - low)), frame.up(y)
    places = [f"{a:.1f} {b:.1f}" for a, b in zip(across, up, strict=True)]
    if joined:
        parts.append(f'<path class="line c0" d="M{"L".join(places)}"/>')
    else:
        parts += [f'<circle class="point" r="4" transform="translate({p})"/>' for p in places]
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


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'


def _figure(parts: Sequence[str], words: str) -> str:
    return (
        f'<svg class="chart" role="img" aria-label="{escape(words)}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}">{"".join(parts)}</svg>'
    )

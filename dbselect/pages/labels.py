"""Place names of points without overlap, the most important first."""

from collections.abc import Iterable, Sequence

import polars as pl

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

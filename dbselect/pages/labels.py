"""Where names of points have room: no two lie on each other, those that count most come first."""

from collections.abc import Iterable, Sequence

import polars as pl

#: Most points that are named.
MOST_NAMES = 12
#: Pixels of a letter, of the longest name, of the height of a line, and from the point to its name.
LETTER, LONGEST, LINE, APART = 6.5, 110.0, 13.0, 5.0


def placed(
    points: Iterable[tuple[int, float, float, bool]], names: Sequence[str | None]
) -> pl.Series:
    """Return the names that have room, and NULL for the others, as a Series called label.

    A point, those that count most first: row, x and y of its name in pixels, whether it ends there.
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

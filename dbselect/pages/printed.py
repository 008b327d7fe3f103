"""A sequence as text: a line a step, with a bar, within 80 columns."""

import textwrap
from collections.abc import Iterator

import polars as pl

#: Most columns of a line, of a name and of a bar.
WIDTH, NAME, BAR = 80, 24, 30
#: More steps than this are cut to the first and the last ones.
MOST_STEPS, FIRST, LAST = 30, 20, 5


def printed(head: str, steps: pl.DataFrame) -> str:
    """Return a sentence and its steps: group, cost, spent, r2 and a bar of r2."""
    lines = [textwrap.fill(head, WIDTH, subsequent_indent="    ", break_on_hyphens=False)]
    return "\n".join([*lines, *_table(steps.select("step", "group", "cost", "spent", "r2"))])


def _table(steps: pl.DataFrame) -> Iterator[str]:
    rows = [("step", "group", "cost", "spent", "r2")]
    for step, group, cost, spent, r2 in steps.iter_rows():
        rows.append((str(step), _name(group), f"{cost:.6g}", f"{spent:.6g}", f"{r2:.4f}"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    bars = ["", *_bars(steps["r2"].to_list(), min(BAR, WIDTH - sum(widths) - 2 * len(widths)))]
    hidden = range(1 + FIRST, len(rows) - LAST) if steps.height > MOST_STEPS else range(0)
    for at, ((step, group, *numbers), bar) in enumerate(zip(rows, bars, strict=True)):
        if at not in hidden:
            cells = [f"{step:>{widths[0]}}", f"{group:<{widths[1]}}"]
            cells += map(str.rjust, numbers, widths[2:])
            yield "  ".join([*cells, bar]).rstrip()
        elif at == hidden[0]:
            yield f"... {len(hidden):,} more ..."


def _name(group: str | None) -> str:
    name = " ".join((group or "").split())
    return name if len(name) <= NAME else f"{name[: NAME - 3]}..."


def _bars(heights: list[float], width: int) -> Iterator[str]:
    """Yield a bar a height, the longest as wide as allowed; none for what is not finite."""
    known = [height for height in heights if abs(height) < float("inf")]
    low = min([0.0, *known])
    span = max([0.0, *known]) - low
    for height in heights:
        share = (height - low) / span if span > 0 and abs(height) < float("inf") else 0.0
        yield "█" * round(share * width)

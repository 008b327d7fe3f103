"""Results as text: coefficients with the facts of their fit, and a sequence, a line a step."""

import math
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import polars as pl

#: Number of facts per line, and their width in characters.
IN_A_LINE, FACT_WIDTH = 3, 27
#: Most terms that are printed, and most letters of a term.
MOST_ROWS, MOST_LETTERS = 200, 60


class Summary(pl.DataFrame):
    """The terms of a model; its `repr` also has the facts of the fit, which `select` drops."""

    _facts: Callable[[], dict[str, Any]] | None = None

    @classmethod
    def of(cls, terms: pl.DataFrame, facts: Callable[[], dict[str, Any]]) -> "Summary":
        """Return terms with facts, which are computed at printing."""
        summary = cls(terms)
        summary._facts = facts
        return summary

    def __str__(self) -> str:
        with pl.Config(tbl_rows=MOST_ROWS, fmt_str_lengths=MOST_LETTERS):
            return self._head() + str(super().__str__())

    __repr__ = __str__

    def _repr_html_(self, **options: Any) -> str:
        head = self._head()
        return (f"<pre>{head}</pre>" if head else "") + super()._repr_html_(**options)

    def _head(self) -> str:
        if self._facts is None:
            return ""
        facts = self._facts()
        formula = facts.pop("formula", None)
        cells = [f"{name} {short(value)}" for name, value in facts.items()]
        lines = [cells[at : at + IN_A_LINE] for at in range(0, len(cells), IN_A_LINE)]
        if formula is not None:
            lines.insert(0, [f"formula {formula}"])
        return "".join(
            "".join(f"{x:<{FACT_WIDTH}}" for x in line).rstrip() + "\n" for line in lines
        )


def short(value: Any) -> str:
    """Round a number to five digits; whole and large numbers keep all digits before the point."""
    if isinstance(value, str):
        return value
    if value is None or math.isnan(value):
        return "unknown"
    large = isinstance(value, int) or abs(value) >= 1e4
    return f"{value:,.0f}" if large else f"{value:.5g}"


def test_text(statistic: float | None, p_value: float | None) -> str:
    """Return a test as text: its statistic, and p, a small one as an inequality."""
    if statistic is None or p_value is None or math.isnan(p_value):
        return "unknown"
    return f"{short(statistic)}, p " + ("< 0.001" if p_value < 0.001 else f"= {p_value:.3f}")


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

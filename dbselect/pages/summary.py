"""A table of coefficients that prints with the facts of its fit."""

import math
from collections.abc import Callable
from typing import Any

import polars as pl

#: Number of facts per line, and their width in characters.
IN_A_LINE, WIDTH = 3, 27
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
        return "".join("".join(f"{x:<{WIDTH}}" for x in line).rstrip() + "\n" for line in lines)


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

"""A table of coefficients that prints below the facts of its fit."""

import math
from collections.abc import Callable
from typing import Any

import polars as pl

#: Facts in one line, and the width of each.
IN_A_LINE, WIDTH = 3, 27
#: Terms that are printed of a larger model, and letters of a longer one.
MOST_ROWS, MOST_LETTERS = 200, 60


class Summary(pl.DataFrame):
    """The terms of a model, with the facts of the fit in its `repr`; `select` drops them."""

    _facts: Callable[[], dict[str, Any]] | None = None

    @classmethod
    def of(cls, terms: pl.DataFrame, facts: Callable[[], dict[str, Any]]) -> "Summary":
        """Return terms with facts, which are computed when they are printed."""
        found = cls(terms)
        found._facts = facts
        return found

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
        told = [f"{name} {short(value)}" for name, value in facts.items()]
        lines = [told[at : at + IN_A_LINE] for at in range(0, len(told), IN_A_LINE)]
        if formula is not None:
            lines.insert(0, [f"formula {formula}"])
        return "".join("".join(f"{one:<{WIDTH}}" for one in line).rstrip() + "\n" for line in lines)


def short(value: Any) -> str:
    """Return a number in the digits that are read: five, whole ones all."""
    if isinstance(value, str):
        return value
    if value is None or math.isnan(value):
        return "unknown"
    large = isinstance(value, int) or abs(value) >= 1e4
    return f"{value:,.0f}" if large else f"{value:.5g}"


def test_text(statistic: float | None, p_value: float | None) -> str:
    """Return a test as it is written: its statistic, and p, a small one as an inequality."""
    if statistic is None or p_value is None or math.isnan(p_value):
        return "unknown"
    return f"{short(statistic)}, p " + ("< 0.001" if p_value < 0.001 else f"= {p_value:.3f}")

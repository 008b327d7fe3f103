"""Results as notebooks show them: a sentence, a short table and a small curve."""

from dataclasses import dataclass
from html import escape
from typing import Any

import polars as pl

from dbselect.pages.html import html_table, small_curve

#: Rows that are shown of a longer table, at its start and at its end.
FIRST_ROWS, LAST_ROWS = 8, 3


@dataclass(frozen=True, eq=False)
class Glance:
    """A summary of a result: a table and a curve."""

    table: pl.DataFrame  # the most informative rows
    # x and y, each of shape (n,), and what they are, in words; None for no curve
    curve: tuple[Any, Any, str] | None = None


class InNotebooks:
    """What notebooks show as a table; its `repr` is the line above."""

    table: pl.DataFrame

    @property
    def _glance(self) -> Glance:
        return Glance(self.table)

    def _repr_html_(self) -> str:
        glance = self._glance
        curve = "" if glance.curve is None else f"<div>{small_curve(*glance.curve)}</div>"
        table = html_table(glance.table, FIRST_ROWS, LAST_ROWS)
        return f"<div><div>{escape(repr(self))}</div>{curve}{table}</div>"

"""Results in notebooks: a sentence, a short table and a small curve."""

from dataclasses import dataclass
from html import escape
from typing import Any

import polars as pl

from dbselect._forked import check_threads
from dbselect.pages.html import LARGER, html_table, small_curve

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

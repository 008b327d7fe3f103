"""Comparison of sequences: their timeliness and their curves."""

from dataclasses import dataclass
from typing import Any

import polars as pl

from dbselect.pages.glance import InNotebooks
from dbselect.pages.html import listed
from dbselect.pages.steps import MOST_STEPS, Heights, step_curves, thinned


@dataclass(frozen=True, eq=False)
class Comparison(InNotebooks):
    """Timeliness and curves of several sequences.

    Parameters
    ----------
    table : one row per sequence, as `compare` describes
    curves : one row per sequence and step: name, step, group, spent, explained, on the rows
        of the evaluation
    cut : the cost at which all curves are cut: the stopping cost of the reference; if nothing
        is explained before it, the cost of the longest curve

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> curve = pl.DataFrame({"spent": [0.0, 1.0, 2.0], "explained": [0.0, 0.1, 0.9]})
    >>> both = ds.compare({"found": curve, "oracle": ds.reference.oracle(curve)}, fraction=1.0)
    >>> both
    Comparison(found, oracle; cut at cost 2; timeliness 0.0556, 0.4444)
    >>> both.curves.filter(name="oracle")["explained"].round(6).to_list()
    [0.0, 0.8, 0.9]
    """

    table: pl.DataFrame
    curves: pl.DataFrame
    cut: float

    def __repr__(self) -> str:
        early = listed([f"{timeliness:.4f}" for timeliness in self.table["timeliness"]])
        names = listed(self.table["name"].to_list())
        return f"Comparison({names}; cut at cost {self.cut:g}; timeliness {early})"

    def plot(self) -> Any:
        """Plot all curves, and the cost at which they are cut.

        Returns
        -------
        Altair chart. Its ``data`` is the plotted DataFrame: `curves`; at most 1,000 steps in
        total, evenly spaced on each curve

        Raises
        ------
        EngineError : altair is not installed
        """
        parts = self.curves.partition_by("name", maintain_order=True)
        most = max(2, MOST_STEPS // len(parts))
        notes = [f"Timeliness until the dotted line, at cost {self.cut:g}: " + "; ".join(
            f"{row['name']} {row['timeliness']:.4f}" for row in self.table.iter_rows(named=True)
        ) + "."]  # fmt: skip
        if any(part.height > most for part in parts):
            notes.append(f"Of each curve {most} steps are drawn, spread evenly.")
        frame = pl.concat([thinned(part, most) for part in parts])
        explained = ("explained", ".4~%", "explained")
        return step_curves(
            frame, Heights("explained", "share explained", share=True),
            "What each order explains for its cost", notes, line="name",
            tips=["name:N", explained, "group:N", "step:Q", "spent:Q"], mark=self.cut,
        )  # fmt: skip

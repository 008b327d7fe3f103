"""Several sequences beside each other: how early each explains, and the curves of all."""

from dataclasses import dataclass
from typing import Any

import polars as pl

from dbselect.pages.glance import InNotebooks
from dbselect.pages.html import listed
from dbselect.pages.steps import MOST_STEPS, Heights, step_curves, thinned


@dataclass(frozen=True, eq=False)
class Comparison(InNotebooks):
    """How early several sequences explain.

    Parameters
    ----------
    table : one row a sequence, as `compare` describes
    curves : one row a sequence and step: name, step, group, spent, explained, on the rows
        that judge
    cut : the cost at which all curves are cut, the stopping cost of the reference; where nothing
        is explained before it, the cost at which the longest ends

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> curve = pl.DataFrame({"spent": [0.0, 1.0, 2.0], "explained": [0.0, 0.1, 0.9]})
    >>> found = ds.compare({"found": curve, "oracle": ds.reference.oracle(curve)}, fraction=1.0)
    >>> found
    Comparison(found, oracle; cut at cost 2; timeliness 0.0556, 0.4444)
    >>> found.curves.filter(name="oracle")["explained"].round(6).to_list()
    [0.0, 0.8, 0.9]
    """

    table: pl.DataFrame
    curves: pl.DataFrame
    cut: float

    def __repr__(self) -> str:
        early = listed([f"{one:.4f}" for one in self.table["timeliness"]])
        names = listed(self.table["name"].to_list())
        return f"Comparison({names}; cut at cost {self.cut:g}; timeliness {early})"

    def plot(self) -> Any:
        """Return a picture of all curves, and of the cost at which they are cut.

        Returns
        -------
        Chart of altair. Its ``data`` is the DataFrame that is drawn: `curves`; of more than
        1,000 steps of all as many, spread evenly over each

        Raises
        ------
        EngineError : altair is not installed
        """
        parts = self.curves.partition_by("name", maintain_order=True)
        most = max(2, MOST_STEPS // len(parts))
        told = [f"Timeliness until the dotted line, at cost {self.cut:g}: " + "; ".join(
            f"{row['name']} {row['timeliness']:.4f}" for row in self.table.iter_rows(named=True)
        ) + "."]  # fmt: skip
        if any(part.height > most for part in parts):
            told.append(f"Of each curve {most} steps are drawn, spread evenly.")
        frame = pl.concat([thinned(part, most) for part in parts])
        explained = ("explained", ".4~%", "explained")
        return step_curves(
            frame, Heights("explained", "share explained", share=True),
            "What each order explains for its cost", told, line="name",
            tips=["name:N", explained, "group:N", "step:Q", "spent:Q"], mark=self.cut,
        )  # fmt: skip

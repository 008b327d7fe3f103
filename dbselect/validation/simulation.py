"""What buying groups row by row costs while look-ups fail, and how well rows are predicted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from dbselect.pages.glance import Glance, InNotebooks
from dbselect.pictures.steps import Heights, step_curves


@dataclass(frozen=True, eq=False)
class Simulation(InNotebooks):
    """Error against what is spent, of the rules that buy.

    Parameters
    ----------
    table : one row a rule and budget, as `Problem.simulate` describes
    unavailable : group -> probability that its look-up fails
    rows : how many were bought for

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, 3, 2, 5], "y": [3, 4, 6, 9]})
    >>> found = ds.Problem(table, "y").simulate(table, unavailable={"a": 1.0})
    >>> pattern = found.table.filter(rule="pattern")
    >>> pattern.select("spent", pl.col("explained").round(2)).rows()
    [(0.0, 0.0), (1.0, 0.0), (2.0, 0.72)]
    """

    table: pl.DataFrame
    unavailable: Mapping[str, float]
    rows: int

    def __repr__(self) -> str:
        told = ", ".join(f"{rule} r2 {r2:.4f}" for rule, r2 in self._last("r2"))
        return f"Simulation({self.rows} rows; {told})"

    def _last(self, height: str) -> list[Any]:
        """Return what each rule reaches within the largest budget."""
        last = self.table.group_by("rule", maintain_order=True).last()
        return last.select("rule", height).rows()

    @property
    def _glance(self) -> Glance:
        return Glance(self.table)

    def plot(self) -> Any:
        """Return a picture of what each rule explains against what it spends.

        Returns
        -------
        Chart of altair. Its ``data`` is the DataFrame that is drawn

        Raises
        ------
        EngineError : altair is not installed
        """
        frame = self.table.select(
            name="rule",
            step=pl.int_range(pl.len()).over("rule"),
            spent="spent",
            explained="explained",
        )
        failing = ", ".join(f"{name} {share:.0%}" for name, share in self.unavailable.items())
        ends = ", ".join(f"{rule} {value:.1%}" for rule, value in self._last("explained"))
        told = [
            f"{self.rows:,} rows; look-ups that fail: {failing or 'those of missing values'}.",
            f"Explained in the end: {ends}.",
        ]
        return step_curves(
            frame, Heights("explained", "share explained", share=True),
            "What each rule explains for what it spends", told, line="name",
            tips=["name:N", ("explained", ".4~%", "explained"), "spent:Q"],
        )  # fmt: skip

"""Which groups beat their knockoffs, at a bounded share of false discoveries."""

from dataclasses import dataclass

import polars as pl

from dbselect.pages.glance import Glance, InNotebooks
from dbselect.pages.short import listed


@dataclass(frozen=True, eq=False)
class KnockoffSelection(InNotebooks):
    """Groups selected by knockoffs.

    Parameters
    ----------
    target : the column that is predicted
    method : the search that had groups and knockoffs before it, by name
    kind : ``"fixed"`` or ``"second_order"``
    q : bound on the expected share of false groups among those selected
    draws : times that knockoffs were drawn
    table : one row a group, the strongest first: group; cost; statistic, mean over the draws,
        above 0 where the group comes before its knockoff; frequency, share of the draws that
        select it; e_value; selected
    aliased : columns that depend on others and have no knockoff
    rows : of the record

    Examples
    --------
    >>> import dbselect as ds
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(400, 20))
    >>> y = x[:, :8].sum(axis=1) + rng.normal(size=400)
    >>> gram = ds.gram(np.column_stack([x, y]), columns=[*(f"x{j}" for j in range(20)), "y"])
    >>> found = ds.knockoffs(gram, "y", q=0.15)
    >>> found
    KnockoffSelection(y by anytime_sequence; x4, x7, x0, x1, x3, x6, x2, x5, ... and 1 more of
    20 groups, q 0.15; 400 rows)
    >>> found.table.select("group", "statistic", "selected").rows()[8:10]
    [('x19', 32.0, True), ('x11', 19.0, False)]
    """

    target: str
    method: str
    kind: str
    q: float
    draws: int
    table: pl.DataFrame
    aliased: tuple[str, ...]
    rows: int

    def __repr__(self) -> str:
        return (
            f"KnockoffSelection({self.target} by {self.method}; "
            f"{listed(self.selected, 'no group')} of {self.table.height} groups, "
            f"q {self.q:g}; {self.rows} rows)"
        )

    @property
    def _glance(self) -> Glance:
        return Glance(self.table)

    @property
    def selected(self) -> list[str]:
        """The groups that are selected, the strongest first."""
        return self.table.filter("selected")["group"].to_list()

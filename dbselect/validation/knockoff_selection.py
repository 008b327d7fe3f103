"""Which groups beat their knockoffs, at a bounded share of false discoveries."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from dbselect.pages.glance import Glance, InNotebooks
from dbselect.pages.short import listed
from dbselect.record.gram import Vector


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
    [('x19', 32.0, True), ('x9', 26.0, False)]
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


def knockoff_plus(statistic: Vector, q: float) -> float:
    """Return the least threshold with ``(1 + #{W <= -t}) / #{W >= t} <= q``; inf if none has.

    Barber, Candes (2015), eq. 1.9, knockoff+.
    """
    for threshold in np.unique(np.abs(statistic[statistic != 0.0])).tolist():
        above = int((statistic >= threshold).sum())
        below = int((statistic <= -threshold).sum())
        if above and (1 + below) / above <= q:
            return float(threshold)
    return float("inf")


def e_values(statistic: Vector, q: float) -> Vector:
    """Return J over 1 + #{W <= -T} for each group at the knockoff+ threshold T, others 0.

    Ren, Barber (2024), eq. 5.
    """
    threshold = knockoff_plus(statistic, q)
    beyond = 1.0 + float((statistic <= -threshold).sum())
    return np.where(statistic >= threshold, len(statistic) / beyond, 0.0)


def e_select(values: Vector, q: float) -> Vector:
    """Return which groups the procedure of Benjamini and Hochberg selects by e-values.

    Wang, Ramdas (2022): the k largest, for the largest k whose least e-value is J / (q k).
    """
    order = np.sort(values)[::-1]
    needed = len(values) / (q * np.arange(1, len(values) + 1))
    # Means of equal e-values differ from them by rounding.
    enough = np.flatnonzero(order >= needed * (1.0 - 1e-12))
    least = order[enough[-1]] if len(enough) else np.inf
    return np.asarray(values >= least)

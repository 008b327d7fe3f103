"""How often records of rows drawn anew choose each group: stability selection."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from dbselect.errors import ArgumentError
from dbselect.options.kinds import THRESHOLD
from dbselect.pages.glance import Glance, InNotebooks
from dbselect.pages.short import listed
from dbselect.pictures.cells import frequencies_of_sizes
from dbselect.results.fields import StoredFields


@dataclass(frozen=True, eq=False)
class Stability(StoredFields, InNotebooks):
    """How often each group is chosen, and how many false ones may be among the stable.

    Parameters
    ----------
    target : the column that is predicted
    method : the call that chose, by name
    size : groups that each record was to choose; None for what each search ended with
    threshold : share of the records from which on a group is stable
    table : one row a group, the most frequent first: group, cost, frequency, stable
    frequencies : one row a group and size: group, size, frequency among the first so many, of
        the sequences; empty where the method makes none
    chosen : mean number of groups that a record chose, q
    records : those that were searched
    unusable : number of each other record -> why it could not be searched

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> rows = range(300)
    >>> table = pl.DataFrame({"a": [i % 7 for i in rows], "b": [i % 5 for i in rows]})
    >>> table = table.with_columns(c=pl.Series([i * i % 11 for i in rows]))
    >>> table = table.with_columns(y=2 * pl.col("a") + pl.Series([i * i * i % 9 for i in rows]))
    >>> found = ds.stability(table, "y", size=1, records=50)
    >>> found.stable, found.bound()
    (['a'], 0.6666666666666666)
    """

    target: str
    method: str
    size: int | None
    threshold: float
    table: pl.DataFrame
    frequencies: pl.DataFrame
    chosen: float
    records: int
    unusable: Mapping[int, str]

    def __repr__(self) -> str:
        left_out = f", {len(self.unusable)} unusable" if self.unusable else ""
        return (
            f"Stability({self.method}; {listed(self.stable)} in {self.threshold:.0%} of "
            f"{self.records} records{left_out}; at most {self.bound():.2g} false expected)"
        )

    @property
    def _glance(self) -> Glance:
        return Glance(self.table)

    @property
    def stable(self) -> list[str]:
        """The groups at or above the threshold, the most frequent first."""
        return self.table.filter("stable")["group"].to_list()

    def bound(self, threshold: float | None = None) -> float:
        """Return the most false groups that are expected among the stable: q^2 / ((2 t - 1) J).

        Parameters
        ----------
        threshold : t, above 0.5; default: that of this selection

        Raises
        ------
        ArgumentError : the threshold is not above 0.5, or above 1

        Notes
        -----
        Holds where false groups are chosen equally often and the method does no worse than a
        draw (Meinshausen and Buehlmann 2010, theorem 1); of complementary halves without
        either, where false is a group that a half chooses less often than one of J at random
        (Shah and Samworth 2013, theorem 1). J counts all groups.
        """
        share = self.threshold if threshold is None else threshold
        THRESHOLD.check("threshold", share)
        return self.chosen**2 / ((2.0 * share - 1.0) * self.table.height)

    def plot(self, *, most: int = 40) -> Any:
        """Return a picture of how often each group is among the first so many.

        Parameters
        ----------
        most : groups that are drawn, those that are chosen most often

        Returns
        -------
        Chart of altair. Its ``data`` is the DataFrame that is drawn: `frequencies`, and whether
        the group is stable

        Raises
        ------
        ArgumentError : the method makes no sequence, so that there is one size only
        EngineError : altair is not installed
        """
        if self.frequencies.is_empty():
            raise ArgumentError(f"{self.method} makes no sequence; the frequencies are in `table`")
        drawn = self.table.head(most)
        frame = drawn.select("group", "stable").join(
            self.frequencies, on="group", maintain_order="left_right"
        )
        among = "" if self.size is None else f" among the first {self.size}"
        told = [
            f"A row a group. {self.records} records; coloured groups are stable: chosen{among} in "
            f"at least {self.threshold:.0%} of them."
        ]
        if drawn.height < self.table.height:
            told.append(f"The {most} most frequent of {self.table.height} groups.")
        title = f"{self.target}: how often {self.method} chooses each group"
        return frequencies_of_sizes(frame, title, told)

"""Every set of groups within a budget that explains nearly as much as the best."""

from dataclasses import dataclass, field

import polars as pl

from dbselect.pages.glance import InNotebooks
from dbselect.pages.html import listed
from dbselect.results.call import Call


@dataclass(frozen=True, eq=False, repr=False)
class NearBest(InNotebooks):
    """The sets of groups near the best, the best first.

    Parameters
    ----------
    table : one row per set: groups; spent; explained, the share of the target's variance; r2,
        1 - RSS/TSS; for each watched column the correlation of the prediction with it, NULL
        where one of both is constant
    complete : whether `table` has every set near the best
    cut : number of further sets that were found near the best, beyond `limit`
    bound : no set near the best that `table` lacks explains more; None if it lacks none
    call : the problem, without rows, and the method
    """

    table: pl.DataFrame
    complete: bool
    cut: int
    bound: float | None
    call: Call | None = field(default=None, compare=False, kw_only=True)

    def __len__(self) -> int:
        return self.table.height

    def __repr__(self) -> str:
        best = self.table.row(0, named=True)
        first = f"best {listed(best['groups'], 'none')} explains {best['explained']:.4f}"
        if self.complete:
            rest = "complete"
        elif self.cut:
            rest = f"{self.cut} more were cut, of at most {self.bound:.4f}"
        else:
            rest = f"not complete: others explain at most {self.bound:.4f}"
        return f"NearBest({len(self)} sets; {first}; {rest})"

"""Results of several sets: near the best within a budget, or the best across records."""

from dataclasses import dataclass, field

import polars as pl

from dbselect.pages.html import InNotebooks, listed
from dbselect.results.call import Call
from dbselect.results.fields import StoredFields
from dbselect.results.model import Model
from dbselect.results.selected import Proof


@dataclass(frozen=True, eq=False, repr=False)
class BestAcross(StoredFields):
    """One set of groups for several records, with a model for each.

    Parameters
    ----------
    groups : the groups of the set
    spent : their summed cost
    share : ``"worst"`` or ``"mean"``: what is maximised of the explained shares
    explained : the worst, or the mean, of the explained shares
    models : the model of the groups for each record
    proof : whether the set is the best, and the bound
    """

    groups: list[str]
    spent: float
    share: str
    explained: float
    models: list[Model]
    proof: Proof

    @property
    def table(self) -> pl.DataFrame:
        """One row per record: record, from 0; rows; explained; r2."""
        return pl.DataFrame(
            {
                "record": range(len(self.models)),
                **{
                    name: [getattr(model, name) for model in self.models]
                    for name in ("rows", "explained", "r2")
                },
            }
        )

    def __repr__(self) -> str:
        certain = "proven" if self.proof.proven else f"gap {self.proof.gap:.4f}, not proven"
        return (
            f"BestAcross({listed(self.groups, 'none')}; {self.share} explained "
            f"{self.explained:.4f} of {len(self.models)} records, spent {self.spent:g}; {certain})"
        )


@dataclass(frozen=True, eq=False, repr=False)
class OrderAcross(StoredFields):
    """One order of groups for several records.

    Parameters
    ----------
    steps : one row per step, step 0 without groups: step; group; cost; spent; score, the gain per
        cost; gain, of `explained`; explained, the worst or the mean of the records; each, the
        explained share of every record
    share : ``"worst"`` or ``"mean"``
    """

    steps: pl.DataFrame
    share: str

    @property
    def groups(self) -> list[str]:
        """The groups, in the order added."""
        return self.steps["group"].drop_nulls().to_list()

    def __repr__(self) -> str:
        last = self.steps.row(-1, named=True)
        return (
            f"OrderAcross({listed(self.groups, 'none')}; {self.share} explained "
            f"{last['explained']:.4f} of {len(last['each'])} records, spent {last['spent']:g})"
        )


@dataclass(frozen=True, eq=False, repr=False)
class NearBest(StoredFields, InNotebooks):
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

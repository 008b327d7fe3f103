"""Groups chosen for several records at once: months, segments or markets."""

from dataclasses import dataclass

import polars as pl

from dbselect.pages.html import listed
from dbselect.results.model import Model
from dbselect.results.selected import Proof


@dataclass(frozen=True, eq=False, repr=False)
class BestAcross:
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
class OrderAcross:
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

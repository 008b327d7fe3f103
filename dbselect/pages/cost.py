"""The cost axis: logarithmic if a small part of the cost explains most, else linear."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from dbselect.pages.style import altair

#: The axis is logarithmic if half of the height is reached within this share of the cost.
EARLY = 0.1
#: Least distance of two ticks, as a share of the axis.
TICK_DISTANCE = 0.07
TITLE = "spent, in the unit of cost"


@dataclass(frozen=True)
class CostAxis:
    """A linear or logarithmic axis of costs."""

    most: float  # the end of the axis
    constant: float | None  # c of ``log(1 + spent / c)``; None for a linear axis

    def place(self, spent: Any) -> Any:
        """Return the positions of costs, from 0 to 1."""
        if self.constant is None:
            return np.asarray(spent) / self.most
        return np.log1p(np.asarray(spent) / self.constant) / np.log1p(self.most / self.constant)

    def cost_at(self, share: float) -> float:
        """Return the cost at a position, from 0 to 1."""
        if self.constant is None:
            return self.most * share
        return self.constant * float(np.expm1(share * np.log1p(self.most / self.constant)))

    @property
    def ticks(self) -> list[float]:
        """Axis ticks: round costs with room between them."""
        exponents = range(int(np.floor(np.log10(self.most))) - 9, int(np.log10(self.most)) + 2)
        round_costs = [digit * 10.0**power for power in exponents for digit in (1, 2, 5)]
        kept = [0.0]
        for cost in round_costs:
            if cost <= self.most and self.place(cost) - self.place(kept[-1]) >= TICK_DISTANCE:
                kept.append(cost)
        return kept

    def encoding(self) -> Any:
        """Return the x encoding for altair."""
        alt = altair()
        if self.constant is None:
            return alt.X("spent:Q", title=TITLE).scale(domain=[0, self.most], nice=False)
        x = alt.X("spent:Q", title=f"{TITLE}, logarithmic from {self.constant:.2g} on")
        x = x.axis(values=self.ticks, format=",.6~g")
        return x.scale(
            type="symlog", constant=self.constant, domain=[0, self.most], nice=False, clamp=False
        )


def cost_axis(frame: pl.DataFrame, value: str) -> CostAxis:
    """Return the axis for the columns spent and `value` of a curve's frame."""
    points = frame.select("spent", value).drop_nulls()
    spent, height = points["spent"].to_numpy(), points[value].to_numpy()
    most = max(float(spent.max(initial=0.0)), 0.0) or 1.0
    reached = spent[height >= (height.max(initial=0.0) + height.min(initial=0.0)) / 2]
    half = float(reached.min(initial=most))
    return CostAxis(most, half if 0 < half <= EARLY * most else None)

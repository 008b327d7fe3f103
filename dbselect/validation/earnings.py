"""What rows earn if groups are bought one by one, where they are worth their price."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl

from dbselect.errors import ArgumentError, PromiseWarning, warn_caller
from dbselect.pages.charts import asked_bars
from dbselect.pages.html import InNotebooks
from dbselect.record.gram import Vector
from dbselect.record.prices import BUDGET_SLACK
from dbselect.results.prediction.stakes import Stake
from dbselect.validation.market import Market, Mask

#: Groups of which every set is tried; of more, the prefixes of the order are.
MOST_TRIED = 8
#: Standard errors by which rows may earn less than was promised.
ERRORS = 3.0


@dataclass(frozen=True, eq=False)
class Earnings(InNotebooks):
    """Money that rows earn, by the rule for buying groups.

    Parameters
    ----------
    table : one row per rule. ``"value"`` buys for each row what is worth its price;
        ``"best_fixed"`` buys the same groups for all rows, those that earned most on these rows, of
        all sets up to eight groups, else of the prefixes of `anytime_sequence`; ``"nothing"``; and
        ``"everything"`` that `anytime_sequence` takes. groups, the mean number bought of a row;
        accepted, the share of rows; earned and spent, means over rows; net, earned less spent, with
        std_error; and promised, the net that normal residuals lead one to expect, NULL for a family
    asked : one row per group: group, cost, asked, the share of rows for which rule ``"value"`` buys
        it, and brought, the money that a purchase added on average, before its cost
    best_fixed : the groups of rule ``"best_fixed"``
    rows : number of rows
    """

    table: pl.DataFrame
    asked: pl.DataFrame
    best_fixed: list[str]
    rows: int

    def __repr__(self) -> str:
        net = ", ".join(
            f"{rule} {net:.4g}" for rule, net in self.table.select("rule", "net").rows()
        )
        return f"Earnings({self.rows} rows; net a row: {net})"

    def plot(self) -> Any:
        """Plot the share of rows for which each group is bought, and what a purchase brings.

        Returns
        -------
        Altair chart. Its ``data`` is the plotted DataFrame

        Raises
        ------
        EngineError : altair is not installed
        """
        label = pl.format(
            "brings {} for {}",
            pl.col("brought").fill_null(0.0).round_sig_figs(3),
            pl.col("cost").round_sig_figs(3),
        )
        rules = self.table.select("rule", "net").rows()
        notes = [
            f"{self.rows:,} rows. Net a row: "
            + ", ".join(f"{rule.replace('_', ' ')} {net:.4g}" for rule, net in rules) + "."
        ]  # fmt: skip
        frame = self.asked.sort("asked", descending=True, maintain_order=True)
        frame = frame.with_columns(label=pl.when(pl.col("asked") > 0).then(label))
        return asked_bars(frame, "For which rows each group is bought", notes)


def earnings_of(market: Market, budget: float, stake: Mapping[str, Any]) -> Earnings:
    """Buy by what groups are worth, and compare with fixed sets."""
    pay = _Pay(market, stake)
    valued, asked, brought = pay.by_value(budget)
    prices, most = market.prices, budget * (1 + BUDGET_SLACK)
    sets = [one for one in pay.sets() if prices.allows(one) and prices.spent(one) <= most]
    tried = [pay.fixed(found) for found in sets]
    best = max(range(len(sets)), key=lambda at: float(tried[at]["net"]))
    results = {
        "value": valued,
        "best_fixed": tried[best],
        "nothing": pay.fixed([]),
        "everything": pay.fixed(market.order),
    }
    table = pl.DataFrame([{"rule": rule, **result} for rule, result in results.items()])
    short = valued["promised"] - valued["net"] if market.predictor.problem.is_linear else 0.0
    if short > ERRORS * valued["std_error"]:
        warn_caller(
            f"rows earned {valued['net']:.4g} above their cost, and {valued['promised']:.4g} was "
            f"promised, more than {ERRORS:g} standard errors above: residuals or predictions are "
            "not normal, or the rows differ from those of the fit; compare the rules by net",
            PromiseWarning,
        )
    counts = asked.sum(axis=0)
    of_groups = pl.DataFrame({
        "group": market.names, "cost": prices.costs, "asked": counts / len(asked),
        "brought": np.divide(brought, counts, out=np.full(len(counts), np.nan), where=counts > 0),
    })  # fmt: skip
    names = [market.names[group] for group in sets[best]]
    return Earnings(
        table, of_groups.with_columns(pl.col("brought").fill_nan(None)), names, len(asked)
    )


class _Pay:
    """What rows of a market earn, of what is at stake in them."""

    def __init__(self, market: Market, stake: Mapping[str, Any]) -> None:
        self.market, self.stake = market, stake
        own = Stake.of(**stake)
        if "payoff" in stake and not np.isin(market.y, (0.0, 1.0)).all():
            raise ArgumentError(
                f"payoff is {stake['payoff']}, and target '{market.predictor.target}' has other "
                "values than 0 and 1; give accept_above and worth"
            )
        self.worth, self.money = abs(own.worth), own.of_rows(market.y)
        (empty,) = market.predictor.patterns([[]])
        self.empty = float(own.of_rows(empty["intercept"]))

    def sets(self) -> list[list[int]]:
        """Return the sets of groups to try for all rows."""
        count = len(self.market.names)
        if count > MOST_TRIED:
            order = self.market.order
            return [order[:size] for size in range(len(order) + 1)]
        return [[*one] for size in range(count + 1) for one in combinations(range(count), size)]

    def fixed(self, groups: list[int]) -> dict[str, Any]:
        """Buy the same groups for all rows."""
        market = self.market
        arrived = np.zeros_like(market.available)
        arrived[:, groups] = market.available[:, groups]
        cost = market.prices.spent(groups)
        accept = market.predicted(arrived, **self.stake)["accept"].to_numpy()
        spent = np.full(len(accept), cost)
        promised = None
        if market.predictor.problem.is_linear:
            (pattern,) = market.predictor.patterns([[market.names[group] for group in groups]])
            variance = market.predictor.gram.select([market.predictor.target]).covariance().item()
            spread = self.worth * math.sqrt(variance * max(pattern["r2"], 0.0))
            promised = _mean_above(self.empty, spread) - cost
        return self._row(accept, spent, len(groups), promised)

    def by_value(self, budget: float) -> tuple[dict[str, Any], Mask, Vector]:
        """Buy for each row what is worth its price; a look-up that fails ends its purchases."""
        market = self.market
        arrived, asked = np.zeros_like(market.available), np.zeros_like(market.available)
        rows = np.arange(len(arrived))
        spent, accept = np.zeros(len(rows)), np.zeros(len(rows), dtype=bool)
        brought, promised = np.zeros(len(market.names)), None
        last = np.full(len(rows), -1)
        while rows.size:
            limits = budget - spent[rows] if math.isfinite(budget) else None
            limits = None if limits is None else limits.clip(min=0.0)
            found = market.predicted(arrived[rows], rows, budget=limits, **self.stake)
            accepted = found["accept"].to_numpy()
            if promised is None:
                worth = found["next_value"].fill_null(0.0).to_numpy().mean()
                promised = float(worth) + max(self.empty, 0.0)
            change = self.money[rows] * (accepted.astype(float) - accept[rows])
            bought = last[rows] >= 0
            np.add.at(brought, last[rows][bought], change[bought])
            accept[rows] = accepted
            next_group = found["next_group"].cast(pl.Enum(market.names)).to_physical()
            wanted = next_group.is_not_null().to_numpy()
            group = next_group.fill_null(0).to_numpy()
            costs, may, _ = market.offers(asked[rows], arrived[rows])
            # A group that failed is wanted again.
            wanted &= may[np.arange(len(rows)), group]
            spent[rows[wanted]] += costs[wanted, group[wanted]]
            rows, group = rows[wanted], group[wanted]
            asked[rows, group] = True
            arrived[rows, group] = market.available[rows, group]
            last[rows] = group
        promised = promised if market.predictor.problem.is_linear else None
        return self._row(accept, spent, float(asked.sum(axis=1).mean()), promised), asked, brought

    def _row(
        self, accept: Mask, spent: Vector, groups: float, promised: float | None
    ) -> dict[str, Any]:
        earned = np.where(accept, self.money, 0.0)
        net = earned - spent
        return {
            "groups": float(groups),
            "accepted": float(accept.mean()),
            "earned": float(earned.mean()),
            "spent": float(spent.mean()),
            "net": float(net.mean()),
            "std_error": float(net.std() / math.sqrt(len(net))),
            "promised": promised,
        }


def _mean_above(mean: float, spread: float) -> float:
    """Return the mean of the positive part of a normal deviate."""
    if spread <= 0.0:
        return max(mean, 0.0)
    z = mean / spread
    density = math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    return spread * density + mean * 0.5 * math.erfc(-z / math.sqrt(2.0))

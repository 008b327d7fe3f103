"""Simulate look-ups of groups that may fail: cost and prediction error of three rules.

All rules see the same failures. ``prefix`` buys in the order of the sequence until a look-up
fails, as a prefix cannot use later groups; ``pattern`` continues, and predicts from all groups
that arrived; ``next_group`` buys for each row the group with the largest gain per cost, given
those it has. A group that is NULL in the row fails as well, and a failed look-up costs the same: a
row pays, and may buy, what the problem's prices say of all that it bought.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
import polars as pl

from dbselect.errors import ArgumentError, shown, warns_once
from dbselect.options.kinds import AT_LEAST_ZERO, one_of
from dbselect.pages.charts import Heights, step_curves
from dbselect.pages.html import InNotebooks
from dbselect.record.gram import Vector
from dbselect.record.prices import BUDGET_SLACK
from dbselect.record.steps import ROUNDING_GAIN
from dbselect.results.prediction.stakes import stake_of
from dbselect.sources.request import check_seed
from dbselect.spec.spec import Spec
from dbselect.validation.earnings import Earnings, earnings_of
from dbselect.validation.market import Market, Mask


@dataclass(frozen=True, eq=False)
class Simulation(InNotebooks):
    """Prediction error against cost, of the rules for buying groups.

    Parameters
    ----------
    table : one row per rule and budget, as `Problem.simulate` describes
    unavailable : group -> probability that its look-up fails
    rows : number of rows

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, 3, 2, 5], "y": [3, 4, 6, 9]})
    >>> simulation = ds.Problem(table, "y").simulate(table, unavailable={"a": 1.0})
    >>> pattern = simulation.table.filter(rule="pattern")
    >>> pattern.select("spent", pl.col("explained").round(2)).rows()
    [(0.0, 0.0), (1.0, 0.0), (2.0, 0.72)]
    """

    table: pl.DataFrame
    unavailable: Mapping[str, float]
    rows: int

    def __repr__(self) -> str:
        scores = ", ".join(f"{rule} r2 {r2:.4f}" for rule, r2 in self._last("r2"))
        return f"Simulation({self.rows} rows; {scores})"

    def _last(self, height: str) -> list[Any]:
        """Return each rule's value at the largest budget."""
        last = self.table.group_by("rule", maintain_order=True).last()
        return last.select("rule", height).rows()

    def plot(self) -> Any:
        """Plot the explained share of each rule against cost.

        Returns
        -------
        Altair chart. Its ``data`` is the plotted DataFrame

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
        failures = ", ".join(f"{name} {share:.0%}" for name, share in self.unavailable.items())
        explained = ", ".join(f"{rule} {value:.1%}" for rule, value in self._last("explained"))
        notes = [
            f"{self.rows:,} rows; look-ups that fail: {failures or 'those of missing values'}.",
            f"Explained in the end: {explained}.",
        ]
        return step_curves(
            frame, Heights("explained", "share explained", share=True),
            "What each rule explains for what it spends", notes, line="name",
            tips=["name:N", ("explained", ".4~%", "explained"), "spent:Q"],
        )  # fmt: skip


@warns_once
def simulate(
    problem: Spec,
    rows: Any,
    budget: float | Iterable[float] | None = None,
    unavailable: Mapping[str, float] | None = None,
    *,
    rule: str | None = None,
    accept_above: float | None = None,
    worth: float | None = None,
    payoff: tuple[float, float] | None = None,
    seed: int = 0,
) -> Simulation | Earnings:
    """Buy groups row by row while look-ups may fail, and score the predictions.

    Parameters
    ----------
    rows : table with the groups' columns and the target, preferably new; NULL groups fail
    budget : limit per row, in the unit of cost; or several; default: the costs of the prefixes
        of `anytime_sequence`
    unavailable : group -> probability that its look-up fails, 1 for a source that is down
    rule : one of the rules; default: all three. ``"value"`` buys for each row the group that is
        worth its price, as `AnytimePredictor.predict` does, and compares what that earns with fixed
        sets of groups; `budget` is then one limit or None
    accept_above, worth, payoff : of ``"value"``, as in `AnytimePredictor.predict`
    seed : of the failures, which all rules and budgets share

    Returns
    -------
    Simulation, whose ``table`` has one row per rule and budget: spent, the mean over rows;
    groups, mean number that a row has; mse, r2; explained, relative to the mean of the fit. For
    ``"value"`` `Earnings`, whose ``table`` has one row per rule

    Raises
    ------
    ArgumentError : a budget is no number >= 0; a probability is not from 0 to 1; the problem has
        no predictor, or its groups share a field; an unknown rule; a family other than binomial, or
        one without ``"value"``; nothing is at stake in ``"value"``, or something in another rule
    GroupError : `unavailable` names an unknown group
    ColumnError : the rows lack a column

    Warns
    -----
    PromiseWarning : ``"value"`` earns less than normal residuals promise, by more than three
        standard errors

    Notes
    -----
    Rows without the target are left out. The problem's shared, needs, one_of and limits hold for
    all that a row bought, whether it arrived or not: a set-up is paid once. What needs a group that
    failed fails as well, and is not bought after it.

    O(J) looks at the rows for J groups, and a prediction of
    all rows, for each rule and budget.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, 3, 2, 5], "y": [3, 4, 6, 9]})
    >>> simulation = ds.Problem(table, "y").simulate(table, budget=2, unavailable={"a": 1.0})
    >>> simulation.table.select("rule", "spent", pl.col("r2").round(2)).rows()
    [('prefix', 1.0, 0.0), ('pattern', 2.0, 0.72), ('next_group', 2.0, 0.72)]
    """
    check_seed(seed)
    failing = {} if unavailable is None else unavailable
    if not isinstance(failing, Mapping):
        raise ArgumentError(
            f"unavailable is {shown(failing)}; it must map groups to the probability that their "
            "look-up fails: {'weather': 0.1}"
        )
    is_list = isinstance(budget, Iterable) and not isinstance(budget, str)
    budgets: list[Any] = list(cast("Iterable[float]", budget)) if is_list else [budget]
    for limit in budgets if budget is not None else ():
        AT_LEAST_ZERO.check("budget", limit)
    stake = stake_of(accept_above, worth, payoff)
    if rule == VALUE:
        if is_list:
            raise ArgumentError(f"budget is {shown(budget)}; rule 'value' takes one limit, or None")
        if not stake:
            raise ArgumentError("rule is 'value'; give accept_above and worth, or payoff")
        market = Market(problem, rows, failing, seed)
        return earnings_of(market, math.inf if budget is None else float(budgets[0]), stake)
    if rule is not None:
        one_of([*BUYERS, VALUE]).check("rule", rule)
    if stake:
        raise ArgumentError(f"{next(iter(stake))} is given without rule='value'")
    if not problem.is_linear:
        raise ArgumentError(
            f"family is {str(problem.family)!r}; simulate compares rules by linear models"
        )
    market = Market(problem, rows, failing, seed)
    if budget is None:
        order = market.order
        budgets = [market.prices.spent(order[:size]) for size in range(len(order) + 1)]
    results = [
        {"rule": name, "budget": float(limit), **market.judged(*buy(market, float(limit)))}
        for name, buy in BUYERS.items()
        if rule in (None, name)
        for limit in budgets
    ]
    return Simulation(pl.DataFrame(results), dict(failing), len(market.y))


def _in_order(market: Market, budget: float, *, continues: bool) -> tuple[Mask, Vector]:
    """Buy the groups that fit the budget, in the order of the sequence."""
    arrived, tried = np.zeros_like(market.available), np.zeros_like(market.available)
    spent, active = np.zeros(len(arrived)), np.ones(len(arrived), dtype=bool)
    for group in market.order:
        costs, may, _ = market.offers(tried, arrived)
        paid = spent + costs[:, group]
        bought = active & may[:, group] & (paid <= budget * (1.0 + BUDGET_SLACK))
        spent[bought] = paid[bought]
        tried[:, group] = bought
        arrived[:, group] = bought & market.available[:, group]
        if not continues:
            active &= arrived[:, group]
    return arrived, spent


def _by_gain(market: Market, budget: float) -> tuple[Mask, Vector]:
    """Buy for each row the group with the largest gain per cost, given the groups it has.

    What it needs comes first.
    """
    arrived, tried = np.zeros_like(market.available), np.zeros_like(market.available)
    spent = np.zeros(len(arrived))
    for _ in market.names:
        patterns, pattern_of = np.unique(arrived, axis=0, return_inverse=True)
        gains = market.gains(patterns)[pattern_of.ravel()]
        costs, may, firsts = market.offers(tried, arrived)
        may &= (gains > ROUNDING_GAIN) & (spent[:, None] + costs <= budget * (1.0 + BUDGET_SLACK))
        # What costs nothing more comes first.
        rates = np.where(may, gains / np.maximum(costs, np.finfo(float).tiny), 0.0)
        rows = np.flatnonzero(may.any(axis=1))
        if not rows.size:
            break
        groups = firsts[rows, rates[rows].argmax(axis=1)]
        tried[rows, groups] = True
        spent[rows] += costs[rows, groups]
        arrived[rows, groups] = market.available[rows, groups]
    return arrived, spent


#: The rule that buys what is worth its price.
VALUE = "value"
#: The other rules by name.
BUYERS: dict[str, Callable[[Market, float], tuple[Mask, Vector]]] = {
    "prefix": partial(_in_order, continues=False),
    "pattern": partial(_in_order, continues=True),
    "next_group": _by_gain,
}

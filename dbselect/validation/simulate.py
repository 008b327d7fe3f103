"""Simulate look-ups of groups that may fail: cost and prediction error of three rules.

All rules see the same failures. ``prefix`` buys in the order of the sequence until a look-up
fails, as a prefix cannot use later groups; ``pattern`` continues, and predicts from all groups
that arrived; ``next_group`` buys for each row the group with the largest gain per cost, given
those it has. A group that is NULL in the row fails as well, and a failed look-up costs the same.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import polars as pl

from dbselect.errors import ArgumentError, shown, warns_once
from dbselect.options.kinds import AT_LEAST_ZERO, FRACTION
from dbselect.pages.glance import InNotebooks
from dbselect.pages.steps import Heights, step_curves
from dbselect.record.gram import Vector
from dbselect.record.inputs import inputs_of, single_fields
from dbselect.record.prices import BUDGET_SLACK
from dbselect.results.prediction.arrived import AnytimePredictor
from dbselect.results.prediction.predict import prediction_table
from dbselect.sources.request import check_seed
from dbselect.spec.spec import Spec, answer_of

Mask = npt.NDArray[Any]


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
    seed: int = 0,
) -> Simulation:
    """Buy groups row by row while look-ups may fail, and score the predictions.

    Parameters
    ----------
    rows : table with the groups' columns and the target, preferably new; NULL groups fail
    budget : limit per row, in the unit of cost; or several; default: the costs of the prefixes
        of `anytime_sequence`
    unavailable : group -> probability that its look-up fails, 1 for a source that is down
    seed : of the failures, which all rules and budgets share

    Returns
    -------
    Simulation, whose ``table`` has one row per rule and budget: spent, the mean over rows;
    groups, mean number that a row has; mse, r2; explained, relative to the mean of the fit

    Raises
    ------
    ArgumentError : a budget is no number >= 0; a probability is not from 0 to 1; the problem has
        no predictor, or its groups share a field
    GroupError : `unavailable` names an unknown group
    ColumnError : the rows lack a column

    Notes
    -----
    Rows without the target are left out. O(J) looks at the rows for J groups, and a prediction of
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
    budgets: list[Any] = list(cast(Iterable[float], budget)) if is_list else [budget]
    for limit in budgets if budget is not None else ():
        AT_LEAST_ZERO.check("budget", limit)
    market = _Market(problem, rows, failing, seed)
    if budget is None:
        budgets = [0.0, *market.costs[market.order].cumsum().tolist()]
    results = [
        {"rule": rule, "budget": float(limit), **market.judged(*buy(market, float(limit)))}
        for rule, buy in BUYERS.items()
        for limit in budgets
    ]
    return Simulation(pl.DataFrame(results), dict(failing), len(market.y))


class _Market:
    """Rows and groups; `available`, shape (n, J), is false where a look-up fails."""

    def __init__(self, problem: Spec, rows: Any, fails: Mapping[str, float], seed: int) -> None:
        if not problem.is_linear:
            raise ArgumentError(
                f"family is {str(problem.family)!r}; simulate compares rules by linear models"
            )
        self.predictor = predictor = answer_of(problem, "predictor")
        self.names, self.costs = predictor.groups.names, predictor.groups.costs
        for name, share in fails.items():
            predictor.groups.number(name, "unavailable")
            FRACTION.check(f"unavailable of '{name}'", share)
        steps = answer_of(problem.on_gram(predictor.gram), "anytime_sequence").records
        self.order = [step.group for step in steps]
        self.fields = _fields_of(predictor)
        target = predictor.target
        inputs = inputs_of([target, *predictor.groups.members], predictor.gram.terms)
        frame = prediction_table(rows, None, inputs, lambda _: None)
        if frame is None or target not in frame.columns:
            raise ArgumentError(
                f"rows is {shown(rows)}; it must be a table with the target '{target}'"
            )
        self.frame = frame.filter(pl.col(target).cast(pl.Float64).is_finite())
        self.y = self.frame[target].cast(pl.Float64).to_numpy()
        groups = predictor.predict(self.frame)["groups"]
        in_row = [groups.list.contains(name).to_numpy() for name in self.names]
        draws = np.random.default_rng(seed).random((len(self.y), len(self.names)))
        chances = [fails.get(name, 0.0) for name in self.names]
        self.available = np.column_stack(in_row) & (draws >= chances)

    def gains(self, masks: Mask) -> Mask:
        """Return the gains of all groups for m sets of groups that a row has; shape (m, J)."""
        sets = [[self.names[group] for group in np.flatnonzero(mask)] for mask in masks]
        return np.array([pattern["gains"] for pattern in self.predictor.patterns(sets)])

    def judged(self, arrived: Mask, spent: Vector) -> dict[str, float]:
        """Score the predictions of the rows from the groups that they have."""
        nulls = [
            pl.when(pl.Series(arrived[:, number])).then(pl.col(field)).alias(field)
            for number, fields in enumerate(self.fields)
            for field in fields
        ]
        fit = self.predictor.predict(self.frame.with_columns(nulls))["prediction"].to_numpy()
        mse = float(np.mean((self.y - fit) ** 2))
        (empty,) = self.predictor.patterns([[]])
        return {
            "spent": float(spent.mean()),
            "groups": float(arrived.sum(axis=1).mean()),
            "mse": mse,
            "r2": 1.0 - mse / float(self.y.var()),
            "explained": 1.0 - mse / float(np.mean((self.y - empty["intercept"]) ** 2)),
        }


def _fields_of(predictor: AnytimePredictor) -> list[list[str]]:
    """Return the table fields of each group; refuse fields that two groups share."""
    owner: dict[str, str] = {}
    for name, columns in predictor.groups.columns.items():
        for one in single_fields(*inputs_of(list(columns), predictor.gram.terms)):
            field = str(one.path[0])
            if owner.setdefault(field, name) != name:
                raise ArgumentError(
                    f"groups '{owner[field]}' and '{name}' share field '{field}'; each look-up "
                    "must bring fields of its own"
                )
    return [[field for field in owner if owner[field] == name] for name in predictor.groups.names]


def _in_order(market: _Market, budget: float, *, continues: bool) -> tuple[Mask, Vector]:
    """Buy the groups that fit the budget, in the order of the sequence."""
    arrived = np.zeros_like(market.available)
    spent, active = np.zeros(len(arrived)), np.ones(len(arrived), dtype=bool)
    for group in market.order:
        bought = active & (spent + market.costs[group] <= budget * (1.0 + BUDGET_SLACK))
        spent[bought] += market.costs[group]
        arrived[:, group] = bought & market.available[:, group]
        if not continues:
            active &= arrived[:, group]
    return arrived, spent


def _by_gain(market: _Market, budget: float) -> tuple[Mask, Vector]:
    """Buy for each row the group with the largest gain per cost, given the groups it has."""
    arrived, tried = np.zeros_like(market.available), np.zeros_like(market.available)
    spent = np.zeros(len(arrived))
    for _ in market.costs:
        patterns, pattern_of = np.unique(arrived, axis=0, return_inverse=True)
        gains = market.gains(patterns)
        fits = ~tried & (spent[:, None] + market.costs <= budget * (1.0 + BUDGET_SLACK))
        rates = np.where(fits, (gains / market.costs)[pattern_of.ravel()], 0.0)
        chosen = rates.argmax(axis=1)
        rows = np.flatnonzero(rates.max(axis=1) > 0)
        if not rows.size:
            break
        groups = chosen[rows]
        tried[rows, groups] = True
        spent[rows] += market.costs[groups]
        arrived[rows, groups] = market.available[rows, groups]
    return arrived, spent


#: The rules by name.
BUYERS: dict[str, Callable[[_Market, float], tuple[Mask, Vector]]] = {
    "prefix": partial(_in_order, continues=False),
    "pattern": partial(_in_order, continues=True),
    "next_group": _by_gain,
}

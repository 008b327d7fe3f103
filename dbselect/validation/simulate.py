"""Groups bought row by row while look-ups fail: what is spent, and how well rows are predicted.

Three buyers see the same failures. ``prefix`` buys in the order of the sequence until a look-up
fails, as nothing that comes after counts; ``pattern`` goes on, and predicts from whatever
arrived; ``next_group`` chooses for each row the group of the largest gain per cost, given what
it has. A group that the row lacks fails as well, and what fails is paid for.
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
from dbselect.record.steps import BUDGET_SLACK
from dbselect.results.prediction.arrived import AnytimePredictor
from dbselect.results.prediction.predict import prediction_table
from dbselect.sources.request import check_seed
from dbselect.spec.spec import Spec, answer_of

Mask = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Simulation(InNotebooks):
    """Error against what is spent, of the rules that buy.

    Parameters
    ----------
    table : one row a rule and budget, as `Problem.simulate` describes
    unavailable : group -> probability that its look-up fails
    rows : how many were bought for

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, 3, 2, 5], "y": [3, 4, 6, 9]})
    >>> found = ds.Problem(table, "y").simulate(table, unavailable={"a": 1.0})
    >>> pattern = found.table.filter(rule="pattern")
    >>> pattern.select("spent", pl.col("explained").round(2)).rows()
    [(0.0, 0.0), (1.0, 0.0), (2.0, 0.72)]
    """

    table: pl.DataFrame
    unavailable: Mapping[str, float]
    rows: int

    def __repr__(self) -> str:
        told = ", ".join(f"{rule} r2 {r2:.4f}" for rule, r2 in self._last("r2"))
        return f"Simulation({self.rows} rows; {told})"

    def _last(self, height: str) -> list[Any]:
        """Return what each rule reaches within the largest budget."""
        last = self.table.group_by("rule", maintain_order=True).last()
        return last.select("rule", height).rows()

    def plot(self) -> Any:
        """Return a picture of what each rule explains against what it spends.

        Returns
        -------
        Chart of altair. Its ``data`` is the DataFrame that is drawn

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
        failing = ", ".join(f"{name} {share:.0%}" for name, share in self.unavailable.items())
        ends = ", ".join(f"{rule} {value:.1%}" for rule, value in self._last("explained"))
        told = [
            f"{self.rows:,} rows; look-ups that fail: {failing or 'those of missing values'}.",
            f"Explained in the end: {ends}.",
        ]
        return step_curves(
            frame, Heights("explained", "share explained", share=True),
            "What each rule explains for what it spends", told, line="name",
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
    """Buy groups row by row while look-ups fail, and judge the predictions.

    Parameters
    ----------
    rows : table with the columns of the groups and the target, best of rows that the problem has
        not seen; a NULL is a group that its row does not have
    budget : of each row, in the unit of cost; or several; default: what each prefix of
        `anytime_sequence` costs
    unavailable : group -> probability that its look-up fails, 1 for a source that is down
    seed : of the failures, which all buyers and budgets share

    Returns
    -------
    Simulation, whose ``table`` has a row for each rule and budget: spent, the mean over rows;
    groups, how many a row has; mse, r2 and explained, against predicting the mean of the fit

    Raises
    ------
    ArgumentError : a budget is no number >= 0; a probability is not from 0 to 1; a problem for
        which there is no predictor, or whose groups share a field
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
    >>> found = ds.Problem(table, "y").simulate(table, budget=2, unavailable={"a": 1.0})
    >>> found.table.select("rule", "spent", pl.col("r2").round(2)).rows()
    [('prefix', 1.0, 0.0), ('pattern', 2.0, 0.72), ('next_group', 2.0, 0.72)]
    """
    check_seed(seed)
    fails = {} if unavailable is None else unavailable
    if not isinstance(fails, Mapping):
        raise ArgumentError(
            f"unavailable is {shown(fails)}; it must map groups to the probability that their "
            "look-up fails: {'weather': 0.1}"
        )
    several = isinstance(budget, Iterable) and not isinstance(budget, str)
    budgets: list[Any] = list(cast(Iterable[float], budget)) if several else [budget]
    for one in budgets if budget is not None else ():
        AT_LEAST_ZERO.check("budget", one)
    market = _Market(problem, rows, fails, seed)
    if budget is None:
        budgets = [0.0, *market.costs[market.order].cumsum().tolist()]
    found = [
        {"rule": rule, "budget": float(one), **market.judged(*buy(market, float(one)))}
        for rule, buy in BUYERS.items()
        for one in budgets
    ]
    return Simulation(pl.DataFrame(found), dict(fails), len(market.y))


class _Market:
    """Rows, and whether a look-up brings each group: `there`, shape (n, J); `order` is theirs."""

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
        read = inputs_of([target, *predictor.groups.members], predictor.gram.terms)
        frame = prediction_table(rows, None, read, lambda _: None)
        if frame is None or target not in frame.columns:
            raise ArgumentError(
                f"rows is {shown(rows)}; it must be a table with the target '{target}'"
            )
        self.frame = frame.filter(pl.col(target).cast(pl.Float64).is_finite())
        self.y = self.frame[target].cast(pl.Float64).to_numpy()
        has = predictor.predict(self.frame)["groups"]
        there = [has.list.contains(name).to_numpy() for name in self.names]
        draws = np.random.default_rng(seed).random((len(self.y), len(self.names)))
        self.there = np.column_stack(there) & (draws >= [fails.get(one, 0.0) for one in self.names])

    def gains(self, has: Mask) -> Mask:
        """Return the gains of all groups, given those of some patterns; shape (m, J)."""
        sets = [[self.names[group] for group in np.flatnonzero(one)] for one in has]
        return np.array([pattern["gains"] for pattern in self.predictor.patterns(sets)])

    def judged(self, has: Mask, spent: Vector) -> dict[str, float]:
        """Return how well rows are predicted by the groups that they have."""
        lost = [
            pl.when(pl.Series(has[:, number])).then(pl.col(field)).alias(field)
            for number, fields in enumerate(self.fields)
            for field in fields
        ]
        found = self.predictor.predict(self.frame.with_columns(lost))["prediction"].to_numpy()
        mse = float(np.mean((self.y - found) ** 2))
        (empty,) = self.predictor.patterns([[]])
        return {
            "spent": float(spent.mean()),
            "groups": float(has.sum(axis=1).mean()),
            "mse": mse,
            "r2": 1.0 - mse / float(self.y.var()),
            "explained": 1.0 - mse / float(np.mean((self.y - empty["intercept"]) ** 2)),
        }


def _fields_of(predictor: AnytimePredictor) -> list[list[str]]:
    """Return the fields of the table that each group reads, which no other does."""
    owner: dict[str, str] = {}
    for name, columns in predictor.groups.columns.items():
        for one in single_fields(*inputs_of(list(columns), predictor.gram.terms)):
            field = str(one.path[0])
            if owner.setdefault(field, name) != name:
                raise ArgumentError(
                    f"groups '{owner[field]}' and '{name}' share field '{field}'; each look-up "
                    "must bring fields of its own"
                )
    return [[one for one in owner if owner[one] == name] for name in predictor.groups.names]


def _in_order(market: _Market, budget: float, *, goes_on: bool) -> tuple[Mask, Vector]:
    """Buy in the order of the sequence what fits the budget."""
    has = np.zeros_like(market.there)
    spent, buys = np.zeros(len(has)), np.ones(len(has), dtype=bool)
    for group in market.order:
        bought = buys & (spent + market.costs[group] <= budget * (1.0 + BUDGET_SLACK))
        spent[bought] += market.costs[group]
        has[:, group] = bought & market.there[:, group]
        if not goes_on:
            buys &= has[:, group]
    return has, spent


def _by_gain(market: _Market, budget: float) -> tuple[Mask, Vector]:
    """Buy for each row the group of the largest gain per cost, given what it has."""
    has, tried = np.zeros_like(market.there), np.zeros_like(market.there)
    spent = np.zeros(len(has))
    for _ in market.costs:
        kinds, kind_of = np.unique(has, axis=0, return_inverse=True)
        gains = market.gains(kinds)
        fits = ~tried & (spent[:, None] + market.costs <= budget * (1.0 + BUDGET_SLACK))
        rates = np.where(fits, (gains / market.costs)[kind_of.ravel()], 0.0)
        chosen = rates.argmax(axis=1)
        rows = np.flatnonzero(rates.max(axis=1) > 0)
        if not rows.size:
            break
        groups = chosen[rows]
        tried[rows, groups] = True
        spent[rows] += market.costs[groups]
        has[rows, groups] = market.there[rows, groups]
    return has, spent


#: The rules, by the names of the results.
BUYERS: dict[str, Callable[[_Market, float], tuple[Mask, Vector]]] = {
    "prefix": partial(_in_order, goes_on=False),
    "pattern": partial(_in_order, goes_on=True),
    "next_group": _by_gain,
}

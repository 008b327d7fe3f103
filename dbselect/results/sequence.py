"""The result of a search: an ordered choice of groups and the model of every prefix."""

import math
import numbers
from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Ordered
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from dbselect.errors import ArgumentError, DataError
from dbselect.linear import information
from dbselect.linear.bounds import upper_bounds
from dbselect.linear.inference import FittedRows
from dbselect.linear.problem import Linear, linear
from dbselect.record import files
from dbselect.record.checks import check_budget
from dbselect.record.gram import Gram, Matrix, Vector
from dbselect.record.groups import Groups, costs_of
from dbselect.record.steps import (
    STEP_DTYPES,
    Choice,
    Step,
    Stop,
    best_of_size,
    best_within,
    is_useful,
    spent_after,
)
from dbselect.results import store
from dbselect.results.model import Model
from dbselect.results.predict import is_frame
from dbselect.results.store import SequenceRecord
from dbselect.selection.criteria import RULES


@dataclass(frozen=True)
class Guarantee:
    """How near to the best a sequence must come, whatever the data hold for it.

    Parameters
    ----------
    gamma : 0 to 1, from the correlations of all columns; 0 if columns of different
        groups depend linearly
    steps : step, spent, factor: what the prefix explains is above factor times what
        any set of groups of the competing cost explains (Theorem 3.2)
    doubling : rule ``doubling`` only: at every budget B above c_min, that is above the
        cheapest group unless told, what is explained is above this factor of the best
        within B / 4 (Theorem 4.3); None for other rules, if a step had no group that
        may double the cost, or if not all groups were free to be taken

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> guarantee = ds.anytime_sequence(table, "y").guarantee()
    >>> round(guarantee.gamma, 6)  # a and b are uncorrelated
    1.0
    >>> guarantee.steps["factor"].round(3).to_list()  # 1 - 1/e
    [0.0, 0.632, 0.632]
    """

    gamma: float
    steps: pl.DataFrame
    doubling: float | None


@dataclass(frozen=True, eq=False)
class Sequence(SequenceRecord, files.Stored):
    """Groups in the order in which they buy prediction, with a model for each prefix.

    Step 0 is the model without features; its intercept is the target's mean. What it
    consists of is listed at `SequenceRecord`.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> seq = ds.anytime_sequence(table, "y")
    >>> seq.steps["group"].to_list(), seq.steps["r2"].round(3).to_list()
    ([None, 'a', 'b'], [0.0, 0.952, 1.0])
    >>> model = seq.at(budget=1.5)
    >>> model.groups, model.spent, round(model.coefficients["a"], 3), round(model.intercept, 3)
    (['a'], 1.0, 2.0, 0.5)
    """

    def __repr__(self) -> str:
        order = ", ".join(
            ("" if step.action == "add" else "-") + self.groups.names[step.group]
            for step in self.records
        )
        return (
            f"Sequence({self.target} ~ {order or 'nothing'}; r2 {self.r2[-1]:.4f}, "
            f"spent {self.spent[-1]:g}; {self.stop.value})"
        )

    @cached_property
    def columns(self) -> list[str]:
        """D columns of the groups, in the order of `coef`."""
        return self.groups.members

    @property
    def unused(self) -> tuple[str, ...]:
        """Columns that lie in no group."""
        return self.groups.unused

    @cached_property
    def steps(self) -> pl.DataFrame:
        """One row a step: step, action, group, cost, spent, score, gain, explained, r2, useful."""
        names = self.groups.names
        return pl.DataFrame(
            {
                "step": np.arange(len(self.spent)),
                "action": ["start"] + [step.action for step in self.records],
                "group": [None] + [names[step.group] for step in self.records],
                "cost": [0.0] + [float(self.groups.costs[step.group]) for step in self.records],
                "spent": self.spent,
                "score": [None] + [step.score for step in self.records],
                "gain": [0.0] + [step.gain for step in self.records],
                "explained": self.explained,
                "r2": self.r2,
                "useful": self.useful,
            },
            schema=STEP_DTYPES,
        )

    @property
    def useful(self) -> npt.NDArray[np.bool_]:
        """Whether each step changed what is explained; shape (steps + 1,)."""
        return np.array([True, *(is_useful(step.gain) for step in self.records)])

    @property
    def doubling_capable(self) -> bool:
        """Whether every step had a group that met the cost limit of rule ``doubling``."""
        return all(step.choice is not Choice.CHEAPEST for step in self.records)

    @property
    def positions(self) -> list[npt.NDArray[np.intp]]:
        """Where the columns of each group stand in `columns`."""
        return self.groups.positions

    @cached_property
    def problem(self) -> Linear:
        """The problem on unit-variance columns."""
        return linear(self.gram, self.target, self.columns, self.ridge, self.scale)

    def at(self, budget: float | None = None, *, size: int | None = None) -> Model:
        """Return the model of the longest prefix within a budget.

        Where all groups were given back in the end (`backward`), it is the first within
        the budget after all were held.

        Parameters
        ----------
        budget : >= 0, in the unit of cost; None = no limit
        size : take the best of the models with so many groups, within the budget

        Raises
        ------
        ArgumentError : `budget` is negative or not a number; no prefix has `size` groups
        """
        check_budget(budget)
        if size is not None:
            step = best_of_size(self.records, self.spent, self.explained, budget, size)
            return self._model(step)
        return self._model(best_within(self.spent, budget))

    def _model(self, step: int) -> Model:
        held = self.held(step)
        at = [int(j) for group in held for j in self.positions[group]]
        coefficients = {self.columns[j]: float(self.coef[step, j]) for j in at}
        return Model(
            target=self.target,
            intercept=float(self.intercept[step]),
            coefficients=coefficients,
            groups=[self.groups.names[group] for group in held],
            spent=float(self.spent[step]),
            explained=float(self.explained[step]),
            r2=float(self.r2[step]),
            aliased=tuple(name for name in self.aliased if name in coefficients),
            fit=FittedRows(self.gram, self.ridge, self._was_chosen(step)),
        )

    def _was_chosen(self, step: int) -> bool:
        """Whether the groups of a step could have been others."""
        free = any(record.choice is not Choice.FORCED for record in self.records[:step])
        return free and 0 < len(self.held(step)) < len(self.groups.names)

    def criteria(self, *, gamma: float = 1.0, penalty: float | None = None) -> pl.DataFrame:
        """Return information criteria of the model of every step.

        Parameters
        ----------
        gamma : weight of the number of candidate groups in EBIC, 0 (BIC) to 1
        penalty : of GIC, what a column must gain, > 0; default: log(log n) log D, at
            least 2

        Returns
        -------
        DataFrame: step, action, group; df, the rank with the intercept; aic, bic, ebic,
        gic and cp, less is better; adjusted_r2, more is better

        Raises
        ------
        ArgumentError : `gamma` or `penalty` is out of range

        Notes
        -----
        The formulas are those of `linear.information`; aic and bic are those of
        statsmodels' OLS. n is the number of rows, whatever their weights: weights tell
        precision, not copies, and add a constant to aic, bic, ebic and gic that is the
        same for all steps. Aliased columns are not counted; with a ridge, df is the
        effective number of parameters. A model with no rows left to judge it, n <= df,
        has NULL, as has cp where the model on all columns has none. A residual share
        below 1e-14 counts as 1e-14: of perfect fits the smallest is the best. EBIC counts
        groups, held of all there are. O(D^3), as the search.

        References
        ----------
        Chen, Chen (2008), Biometrika 95, eq. 1; Zhang, Li, Tsai (2010), JASA 105; Fan,
        Tang (2013), JRSS B 75, section 4.1; Mallows (1973), Technometrics 15.

        Examples
        --------
        >>> import dbselect as ds
        >>> import polars as pl
        >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
        >>> seq = ds.anytime_sequence(table, "y", max_groups=1)
        >>> seq.criteria()["bic"].round(3).to_list()
        [19.371, 8.579]
        """
        if not (isinstance(gamma, numbers.Real) and 0 <= gamma <= 1):
            raise ArgumentError(f"gamma is {gamma!r}; it must be a number from 0 to 1")
        if penalty is not None and not (
            isinstance(penalty, numbers.Real) and 0 < penalty < math.inf
        ):
            raise ArgumentError(f"penalty is {penalty!r}; it must be a number > 0")
        fits = information.fits_of(
            self.gram, self.target, self.problem, self.positions, self.records, self.r2
        )
        found = information.criteria(fits, float(gamma), penalty and float(penalty))
        return pl.concat([self.steps.select("step", "action", "group"), found], how="horizontal")

    def best(
        self, criterion: str = "bic", *, gamma: float = 1.0, penalty: float | None = None
    ) -> Model:
        """Return the model of the step that a criterion prefers, the first of equals.

        Parameters
        ----------
        criterion : ``"aic"``, ``"bic"``, ``"ebic"``, ``"gic"``, ``"cp"`` or
            ``"adjusted_r2"``, as in `criteria`
        gamma, penalty : as in `criteria`

        Raises
        ------
        ArgumentError : an unknown criterion; `gamma` or `penalty` is out of range
        DataError : there are too few rows for the criterion
        """
        if criterion not in information.SIGNS:
            raise ArgumentError(
                f"criterion is {criterion!r}; it must be one of {list(information.SIGNS)}"
            )
        values = self.criteria(gamma=gamma, penalty=penalty)[criterion]
        step = (information.SIGNS[criterion] * values).arg_min()
        if step is None:
            raise DataError(f"{self.gram.rows} rows are too few for criterion {criterion!r}")
        return self._model(step)

    def expr(self, budget: float | None = None, *, nested: bool = True) -> pl.Expr:
        """Return the prediction of ``at(budget)`` as a Polars expression (`Model.expr`)."""
        return self.at(budget).expr(nested=nested)

    def sql(
        self, budget: float | None = None, dialect: str = "duckdb", *, nested: bool = True
    ) -> str:
        """Return the prediction of ``at(budget)`` as an SQL expression (`Model.sql`)."""
        return self.at(budget).sql(dialect, nested=nested)

    def predict(
        self,
        X: npt.ArrayLike,
        columns: Ordered[str] | None = None,
        budget: float | None = None,
    ) -> Vector:
        """Return the predictions of ``at(budget)`` for an array (`Model.predict`).

        Parameters
        ----------
        X : shape (n, d), numbers; or a frame or Arrow table, read by its own names
        columns : d names; default: ``columns`` of the sequence, in their order
        budget : >= 0, in the unit of cost; None = no limit
        """
        names = self.columns if columns is None and not is_frame(X) else columns
        return self.at(budget).predict(X, names)

    def with_costs(self, costs: Mapping[str, float]) -> "Sequence":
        """Return the same steps at other costs: what an order costs, not how it was found.

        Parameters
        ----------
        costs : name -> cost > 0, for every group

        Raises
        ------
        GroupError : a cost is missing, surplus or not a number > 0
        """
        groups = replace(self.groups, costs=costs_of(self.groups.names, costs))
        rule = f"{self.rule}, at other costs"
        return replace(self, groups=groups, rule=rule, spent=spent_after(self.records, groups))

    def guarantee(self, cost: float | None = None) -> Guarantee:
        """Return how near to the best the greedy rule must come (Theorems 3.2 and 4.3).

        ``F(prefix) > (1 - exp(-gamma B / K)) F(any groups of cost K)``, B what the prefix
        spent, gamma = (lambda_min(G_w) + ridge) / (1 + ridge), G_w the group-whitened
        Gram; each rule with what it weighs the gradient by in place of the whitening.

        Parameters
        ----------
        cost : K, the cost of the competing groups; None takes that of each prefix

        Raises
        ------
        ArgumentError : the rule has no such theorem, or `cost` is not a number > 0

        Notes
        -----
        A step that a budget, ``always`` or the cost limit of ``doubling`` kept from
        choosing among all groups adds nothing to B. The proof of Theorem 4.3 takes gamma
        as the submodularity ratio of eq. 9, which lambda_min does not bound where a
        column helps only after another: `certificate` holds always. O(D^3).

        References
        ----------
        Hu, Grubb, Bagnell, Hebert (2016), Theorems 3.2 and 4.3.
        """
        if self.rule not in RULES:
            raise ArgumentError(
                f"rule is {self.rule!r}; guarantees exist for the rules {list(RULES)}"
            )
        if cost is not None and not (isinstance(cost, numbers.Real) and 0 < cost < math.inf):
            raise ArgumentError(f"cost is {cost!r}; it must be a number > 0")
        rule = RULES[self.rule]
        gamma = rule.gamma(self.problem, self.positions)
        free = [step.choice is Choice.FREE for step in self.records]
        earned = np.concatenate([[0.0], np.cumsum(np.diff(self.spent) * free)])
        rivals = np.maximum(self.spent, self.groups.costs.min()) if cost is None else cost
        factor = 1.0 - np.exp(-gamma * earned / rivals)
        steps = self.steps.select("step", "spent").with_columns(factor=factor)
        limited = {Choice.CHEAPEST, Choice.FORCED} & {step.choice for step in self.records}
        holds = rule.doubling and not limited and self.stop is Stop.EXHAUSTED
        return Guarantee(gamma, steps, 1.0 - math.exp(-(gamma**2) / (1 + gamma)) if holds else None)

    def certificate(self, budgets: Iterable[float] | None = None) -> pl.DataFrame:
        """Return bounds on what the best groups within each budget can explain.

        Parameters
        ----------
        budgets : in the unit of cost; default: what each step spent

        Returns
        -------
        DataFrame: budget; spent and explained, those of the model within it; bound, the
        most that any set of groups within the budget explains; ratio, explained / bound

        Raises
        ------
        ArgumentError : `budgets` is no list; a budget is negative or not a number

        Notes
        -----
        ``min over prefixes S of F(S) + knapsack(gains | S) / mu_S``, never above F(all);
        see `linear.bounds`. O(D^3): some two times the search by rule ``fr``.

        Examples
        --------
        >>> import dbselect as ds
        >>> import polars as pl
        >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
        >>> seq = ds.anytime_sequence(table, "y")
        >>> seq.certificate([1.0])["ratio"].round(6).to_list()
        [1.0]
        """
        return certified(
            self.problem, self.groups, self.records, self.spent, self.explained, budgets
        )

    def to_struct(self) -> dict[str, Any]:
        """Return the sequence as plain Python data, the Gram of its columns included."""
        return store.to_struct(self)

    @classmethod
    def from_struct(cls, record: Any) -> "Sequence":
        """Read what `to_struct` gave: a mapping, or an Arrow struct scalar.

        Raises
        ------
        RecordError : a field is missing or of another kind
        """
        return cls(**store.parts(record))

    def write_parquet(self, path: str | Path) -> None:
        """Write a Parquet file of one row.

        Its column ``sequence`` is the list of steps that `anytime_predict` takes in SQL
        and ``dbselect.predict`` in Polars; the other columns are those of `to_struct`.
        """
        files.write_parquet(store.to_arrow(self.to_struct()), path)

    @classmethod
    def read_parquet(cls, path: str | Path) -> "Sequence":
        """Read what `write_parquet` wrote.

        Raises
        ------
        SourceError : there is no such file, or it holds something else
        """
        return cls.from_struct(files.read_row(path, store.FIELDS, "a sequence"))


def build(
    gram: Gram,
    problem: Linear,
    *,
    target: str,
    groups: Groups,
    rule: str,
    ridge: float,
    scale: bool,
    records: list[Step],
    coef: Matrix,
    aliased: Ordered[int],
    stop: Stop,
    condition: float,
) -> Sequence:
    """Return the sequence of some steps, in the table's units.

    With ``w`` on unit-variance columns, RSS/TSS = 1 - z'z - w' diag(ridge) w.

    Parameters
    ----------
    coef : shape (steps + 1, D), w of every prefix on unit-variance columns
    aliased : column numbers
    """
    explained = np.array([0.0] + [step.explained for step in records])
    own = coef * (problem.target_spread / problem.spread)
    members = groups.members
    return Sequence(
        gram=gram,
        target=target,
        groups=groups,
        rule=rule,
        ridge=ridge,
        scale=scale,
        records=records,
        spent=spent_after(records, groups),
        explained=explained,
        r2=explained + coef**2 @ problem.ridge,
        intercept=problem.target_mean - own @ problem.mean,
        coef=own,
        aliased=tuple(members[j] for j in aliased),
        stop=stop,
        condition=condition,
    )


def certified(
    problem: Linear,
    groups: Groups,
    records: Ordered[Step],
    spent: Vector,
    explained: Vector,
    budgets: Iterable[float] | None,
) -> pl.DataFrame:
    """Return the bounds of `Sequence.certificate`, of a problem of any number of responses.

    Parameters
    ----------
    spent, explained : shape (steps + 1,)
    """
    if not isinstance(budgets, Iterable | None):
        raise ArgumentError(f"budgets is {budgets!r}; it must be a list of numbers >= 0")
    limits = list(spent if budgets is None else budgets)
    for budget in limits:
        check_budget(budget)
        if budget is None:
            raise ArgumentError("budgets has None; each must be a number >= 0")
    order = list(dict.fromkeys(step.group for step in records if step.action == "add"))
    bounds = upper_bounds(
        problem, groups.positions, groups.costs, order, np.array(limits, dtype=float)
    )
    step = [best_within(spent, budget) for budget in limits]
    # Rounding may take the bound below what is reached.
    bounds = np.maximum(bounds, explained[step])
    ratio = np.divide(explained[step], bounds, out=np.ones_like(bounds), where=bounds > 0)
    return pl.DataFrame(
        {
            "budget": np.array(limits, dtype=float),
            "spent": spent[step],
            "explained": explained[step],
            "bound": bounds,
            "ratio": ratio,
        }
    )

"""Penalised models along a falling penalty, of columns and of groups."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import polars as pl

from dbselect.errors import ArgumentError, DataError, DbselectError
from dbselect.linear.inference import check_read
from dbselect.linear.information import Fits, criteria
from dbselect.linear.problem import Linear
from dbselect.linear.state import LinearState
from dbselect.options.kinds import BUDGET, COUNT, check_at
from dbselect.pages.charts import growth
from dbselect.pages.html import Glance, InNotebooks, listed
from dbselect.record.dependences import shares_of
from dbselect.record.gram import Gram, Matrix, Vector
from dbselect.record.groups import Groups
from dbselect.record.policies import clip_share, row_counts
from dbselect.record.prices import BUDGET_SLACK
from dbselect.results.call import Call, Judged, Of
from dbselect.results.fields import StoredFields
from dbselect.results.model import Model
from dbselect.selection.moves import Mask


@dataclass(frozen=True, eq=False)
class Path:
    """The minimum at each of L penalties."""

    penalties: Vector  # shape (L,), falling
    coef: Matrix  # shape (L, D), on unit-variance columns and target
    spread: Vector  # shape (D,), factors that convert them to the table's units
    intercept: Vector  # shape (L,), in the target's unit
    lengths: Matrix  # shape (L, J), ||w_g|| in the unit of the problem
    r2: Vector  # shape (L,), 1 - RSS/TSS
    # shape (L,), duality gaps, bounds on the distance from the minimum, for target variance 1
    gap: Vector
    # shape (L,), the largest violation of a group's optimality condition, in correlations
    violation: Vector
    df: Vector  # shape (L,), degrees of freedom, without the intercept
    entered: list[int]  # numbers of the groups that are ever not 0, in the order of entry
    entered_at: list[int]  # for each of these, the number of the first penalty at which it is not 0
    # the largest condition number at any penalty, by which coefficients magnify rounding
    condition: float


@dataclass(frozen=True, eq=False)
class PenaltyPath(Judged[Model], StoredFields, InNotebooks):
    """Penalised models at L falling penalties; the units of the path are columns or groups.

    Parameters
    ----------
    call : the problem, without rows, and the method
    groups : Groups, their columns and costs
    gram : Gram of the rows that it was fitted to
    linear : the problem on columns and a target of unit variance
    found : the minimum at each penalty
    """

    #: The unit that enters and leaves: ``"column"`` or ``"group"``.
    unit: ClassVar[str]
    #: Name of a unit's size, and the title of its axis in the chart.
    size: ClassVar[tuple[str, str]]
    #: Title of the chart.
    _title: ClassVar[str]

    call: Call
    groups: Groups
    gram: Gram
    linear: Linear
    found: Path

    @property
    def target(self) -> str:
        """The column that is predicted."""
        return self.problem.targets[0]

    @property
    def _units(self) -> list[str]:
        """Names of the units."""
        return self.groups.names if self.unit == "group" else self.columns

    @property
    def _units_of_groups(self) -> list[int]:
        """The number of units of each group."""
        sizes = [len(members) for members in self.groups.columns.values()]
        return [1] * len(sizes) if self.unit == "group" else sizes

    @cached_property
    def _group_held(self) -> Mask:
        """Whether a group has a column that is not 0; shape (L, J)."""
        starts = np.cumsum([0, *self._units_of_groups[:-1]])
        return np.asarray(np.logical_or.reduceat(self.lengths > 0, starts, axis=1))

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.target} ~ {listed(self.entered)}; "
            f"{len(self.penalties)} penalties from {self.penalties[0]:.3g} "
            f"to {self.penalties[-1]:.3g}; spent {self.spent[-1]:g}; "
            f"{row_counts(self.rows, self.skipped)}{self.gram.terms.completed})"
        )

    @property
    def _glance(self) -> Glance:
        counted = pl.col(f"{self.unit}s").list.len()
        table = self.points.select("penalty", counted, "spent", "r2")
        return Glance(table, (self.spent, self.r2, "r2 against what is spent"))

    @property
    def columns(self) -> list[str]:
        """D columns of the groups, in the order of `coef`."""
        return self.groups.members

    penalties = Of[Vector](
        "found", "The penalties, falling, for columns and a target of unit variance; shape (L,)."
    )

    @property
    def lambdas(self) -> Vector:
        """The penalties in the target's unit, as glmnet has them; shape (L,)."""
        return np.asarray(self.penalties * self.linear.target_spread)

    @property
    def scaled_coef(self) -> Matrix:
        """Coefficients on columns and a target of unit variance; shape (L, D)."""
        return self.found.coef

    @cached_property
    def coef(self) -> Matrix:
        """Coefficients in the table's units; shape (L, D)."""
        return np.asarray(self.scaled_coef * self.found.spread)

    intercept = Of[Vector]("found", "Intercepts, in the target's unit; shape (L,).")

    @property
    def lengths(self) -> Matrix:
        """``||w_g||`` of each unit, of `scaled_coef`; shape (L, units).

        With ``scale=False`` for columns in the table's units.
        """
        return self.found.lengths

    r2 = Of[Vector]("found", "1 - RSS/TSS on the rows of the Gram; shape (L,).")
    gap = Of[Vector]("found", "Duality gap, a bound on the objective less its minimum; shape (L,).")

    @property
    def violation(self) -> Vector:
        """Largest violation of the optimality conditions; shape (L,).

        In correlations: as a share of the standard deviations of column and target.
        """
        return self.found.violation

    @property
    def entered(self) -> list[str]:
        """Units that enter, in order of entry."""
        return [self._units[at] for at in self.found.entered]

    entered_at = Of[list[int]](
        "found", "For each of `entered`, the number of the first penalty at which it is not 0."
    )
    rows = Of[int]("gram", "Rows of the Gram.")
    skipped = Of[int]("gram", "Rows left out of it.")

    @property
    def spent(self) -> Vector:
        """Summed cost of the groups that are not 0; shape (L,)."""
        return np.asarray(self._group_held @ self.groups.costs)

    @property
    def df(self) -> Vector:
        """Degrees of freedom without the intercept; shape (L,).

        For the lasso the rank of the columns that are not 0 (Zou, Hastie, Tibshirani 2007;
        Tibshirani, Taylor 2012), for others the trace of G_SS times the inverse Hessian of the
        objective on these columns (Vaiter, Deledalle, Fadili, Peyre, Dossal 2017). With
        `adaptive` the factors are treated as fixed.
        """
        return self.found.df

    @cached_property
    def points(self) -> pl.DataFrame:
        """One row per penalty: penalty, units and groups that are not 0, spent, r2, gap."""
        groups = np.array(self.groups.names, dtype=object)
        names = np.array(self._units, dtype=object)
        lists = {f"{self.unit}s": [names[row].tolist() for row in self.lengths > 0]}
        lists["groups"] = [groups[row].tolist() for row in self._group_held]
        numbers = {"spent": self.spent, "r2": self.r2, "gap": self.gap}
        return pl.DataFrame(
            {"penalty": self.penalties, **lists, **numbers},
            schema_overrides=dict.fromkeys(lists, pl.List(pl.String)),
        )

    @cached_property
    def steps(self) -> pl.DataFrame:
        """One row per entry or removal of a unit: penalty, action, its name, cost of its group.

        The action is ``"add"``, or ``"remove"`` of a unit that is 0 again, as in LARS with the
        lasso's removals. The penalties are a grid: an entry and removal between two of them is not
        listed, and for changes at the same penalty the removals come first.
        """
        held = self.lengths > 0
        names, costs = self._units, self._costs
        rank = {name: place for place, name in enumerate(self.entered)}
        rows = []
        previous = np.zeros_like(held[0])
        for penalty, current in zip(self.penalties.tolist(), held, strict=True):
            changed = np.flatnonzero(current != previous).tolist()
            for j in sorted(changed, key=lambda j: (current[j], rank[names[j]])):
                action = "add" if current[j] else "remove"
                rows.append((penalty, action, names[j], float(costs[j])))
            previous = current
        schema = {
            "penalty": pl.Float64, "action": pl.String, self.unit: pl.String, "cost": pl.Float64
        }  # fmt: skip
        return pl.DataFrame(rows, schema=schema, orient="row")

    @property
    def _costs(self) -> Vector:
        """Cost of the group of each of `_units`."""
        return np.repeat(self.groups.costs, self._units_of_groups)

    def model(self, point: int) -> Model:
        """Return the model at a penalty, with the coefficients that the penalty shrank.

        Parameters
        ----------
        point : number of the penalty, 0 to L - 1

        Raises
        ------
        ArgumentError : there is no such point

        Notes
        -----
        It holds the columns that are not 0, and has no standard errors. For these, `dbselect.fit`
        its columns on other rows.
        """
        check_at("point", point, len(self.penalties))
        kept = np.flatnonzero(self.coef[point])
        columns = [self.columns[j] for j in kept.tolist()]
        held = self._group_held[point]
        r2 = float(clip_share(self.r2[point]))
        return Model(
            target=self.target,
            intercept=float(self.intercept[point]),
            coefficients=dict(zip(columns, self.coef[point, kept].tolist(), strict=True)),
            groups=[self.groups.names[group] for group in np.flatnonzero(held).tolist()],
            spent=float(self.spent[point]),
            explained=r2,
            r2=r2,
            aliased=(),
            rows=self.rows,
            skipped=self.skipped,
            terms=self.gram.terms.of(columns).with_shares(shares_of(self.gram)),
            call=self.call,
        )

    def at(self, budget: float | None = None) -> Model:
        """Return the model at the smallest penalty whose groups cost at most a budget.

        Parameters
        ----------
        budget : >= 0, in the unit of cost; None = no limit

        Raises
        ------
        ArgumentError : `budget` is out of range, or less than every model of the path costs
        """
        BUDGET.check("budget", budget)
        within = self.spent <= (np.inf if budget is None else budget * (1.0 + BUDGET_SLACK))
        if not within.any():
            raise ArgumentError(
                f"budget is {budget!r}; the cheapest model of the path costs {self.spent.min():g}"
            )
        return self.model(int(np.flatnonzero(within)[-1]))

    @property
    def _labels(self) -> pl.DataFrame:
        return pl.DataFrame({"penalty": self.penalties})

    def _criteria(self, gamma: float, penalty: float | None) -> pl.DataFrame:
        check_read(self.gram)
        at = self.gram.position(self.target, "target")
        state = LinearState(self.linear, self.groups.positions)
        state.add_all(range(len(self.groups.names)))
        fits = Fits(
            rows=self.rows,
            total=float(self.gram.comoment[at, at]),
            unexplained=1.0 - self.r2,
            degrees=self.problem.intercept + self.df,
            sizes=(self.lengths > 0).sum(axis=1).astype(float),
            n_groups=len(self._units),
            n_columns=len(self.columns),
            unexplained_all=1.0 - state.explained,
            degrees_all=self.problem.intercept + state.degrees(),
            degrees_none=float(self.problem.intercept),
        )
        return criteria(fits, gamma, penalty)

    def _no_criterion(self, criterion: str) -> DbselectError:
        return DataError(f"{criterion} has no value: {self.rows} rows are too few for it")

    def plot(self, *, most: int = 60) -> Any:
        """Return a chart of the coefficients along the falling penalty.

        Parameters
        ----------
        most : number of columns or groups that are drawn, those that become largest

        Returns
        -------
        Altair chart. Its ``data`` is the DataFrame that is drawn, one row per penalty and
        column or group: penalty, its name, cost, size, spent, r2, line, label

        Raises
        ------
        ArgumentError : `most` is not a whole number >= 1
        EngineError : altair is not installed
        """
        COUNT.check("most", most)
        longest = self.lengths.max(axis=0)
        kept = [int(j) for j in np.argsort(-longest, kind="stable")[:most] if longest[j] > 0]
        names, count = self._units, len(self.penalties)
        sizes = self.lengths if self.unit == "group" else self.scaled_coef
        frame = pl.DataFrame(
            {
                "penalty": np.tile(self.penalties, len(kept)),
                self.unit: np.repeat([names[j] for j in kept], count),
                "cost": np.repeat(self._costs[kept], count),
                self.size[0]: sizes[:, kept].T.ravel(),
                "spent": np.tile(self.spent, len(kept)),
                "r2": np.tile(self.r2, len(kept)),
            },
            schema_overrides={self.unit: pl.String},
        )
        rows = row_counts(self.rows, self.skipped) + self.gram.terms.completed
        captions = [f"{len(self.entered)} of {len(names)} {self.unit}s enter; {rows}."]
        if len(kept) < len(self.entered):
            captions.append(f"The {len(kept)} of the longest coefficients are drawn.")
        title = f"{self.target}: {self._title}"
        return growth(frame, title, captions, self.unit, self.size)


class GroupLassoPath(PenaltyPath):
    """The group lasso, or the sparse group lasso, at L falling penalties.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> gram = ds.gram(table)
    >>> path = ds.group_lasso_path(gram, "y", n_lambda=3, lambda_min_ratio=0.1)
    >>> path
    GroupLassoPath(y ~ a, b; 3 penalties from 0.976 to 0.0976; spent 2; 4 rows)
    >>> path.points["groups"].to_list()
    [[], ['a'], ['a', 'b']]
    >>> path.steps["action", "group"].rows()
    [('add', 'a'), ('add', 'b')]
    """

    unit: ClassVar[str] = "group"
    size: ClassVar[tuple[str, str]] = ("length", "length of the group's coefficients")
    _title: ClassVar[str] = "the path of the group lasso"


class LassoPath(PenaltyPath):
    """The lasso, or the elastic net, at L falling penalties.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> path = ds.lasso_path(table, "y", n_lambda=3, lambda_min_ratio=0.1)
    >>> path
    LassoPath(y ~ a, b; 3 penalties from 0.976 to 0.0976; spent 2; 4 rows)
    >>> path.points.select("columns", "spent").rows()
    [([], 0.0), (['a'], 1.0), (['a', 'b'], 2.0)]
    >>> path.best("bic").columns
    ['a', 'b']
    """

    unit: ClassVar[str] = "column"
    size: ClassVar[tuple[str, str]] = ("coefficient", "coefficient, on unit-variance columns")
    _title: ClassVar[str] = "the path of the lasso"

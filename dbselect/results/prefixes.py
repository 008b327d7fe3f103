"""Base class of the sequences of all families; each family refuses what it cannot compute."""

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar, cast

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from dbselect._forked import check_threads
from dbselect.errors import ArgumentError, shown, warn_of_choice
from dbselect.linear.problem import Linear
from dbselect.linear.state import LinearState
from dbselect.options.conditions import Shared, checked
from dbselect.options.kinds import BUDGET, POSITIVE, SIGNS, check_at, one_of
from dbselect.options.names import Per
from dbselect.pages.html import Glance, InNotebooks, listed
from dbselect.pages.summary import printed
from dbselect.record import files
from dbselect.record.gram import Vector
from dbselect.record.groups import Costs, Groups, costs_of
from dbselect.record.inputs import HandleUnknown, MissingColumns
from dbselect.record.prices import BUDGET_SLACK
from dbselect.record.steps import (
    STEP_DTYPES,
    Choice,
    Step,
    Stop,
    best_of_size,
    held_after,
    is_useful,
    longest_within,
    name_of,
    paid_by,
    spent_after,
)
from dbselect.record.terms import Terms
from dbselect.results.call import Call, Judged, Of
from dbselect.results.guarantee import Guarantee, certified, guaranteed
from dbselect.results.heights import explained_at, plateau, stopping_cost, timeliness
from dbselect.results.prediction.fallback import predictions, served
from dbselect.results.prediction.predict import Predicting
from dbselect.results.report.drawing import drawn
from dbselect.results.store import to_table
from dbselect.spec.spec import answer_of

M = TypeVar("M", bound=Predicting)
#: One limit, or one for each row; None, and a missing value of a row, is no limit.
Budget = float | npt.ArrayLike | None


class Prefixes(Judged[M], files.Stored, InNotebooks):
    """Groups in selection order, with a model after each step; step 0 has no columns."""

    #: Arrow type of the stored record, and its name in errors.
    _RECORD_TYPE: ClassVar[pa.StructType]
    _WHAT: ClassVar[str]
    #: Label of the curve's height.
    _HEIGHT: ClassVar[str] = "r2, fitted rows"
    #: Whether the objective is quadratic, so that it has proved bounds.
    _is_quadratic: ClassVar[bool] = True

    # For type checkers only: families define these as fields or properties, and a property
    # here would block the assignment of a field.
    if TYPE_CHECKING:

        @property
        def groups(self) -> Groups:
            """Groups, their columns and costs."""

        @property
        def rule(self) -> str:
            """Name of the rule, or of the method."""

        @property
        def records(self) -> list[Step]:
            """The steps from 1 on."""

        @property
        def spent(self) -> Vector:
            """Summed cost of the groups held; shape (steps + 1,)."""

        @property
        def explained(self) -> Vector:
            """Share explained, less the penalty; shape (steps + 1,)."""

        @property
        def r2(self) -> Vector:
            """Share explained, without the penalty; shape (steps + 1,)."""

        @property
        def aliased(self) -> tuple[str, ...]:
            """Columns that depend linearly on columns before them."""

        @property
        def stop(self) -> Stop:
            """Why the search ended."""

        @property
        def terms(self) -> Terms:
            """How the columns of the table became those of the sequence."""

    def __repr__(self) -> str:
        target, height = self._summary
        return (
            f"{type(self).__name__}({target} ~ {listed(self._order)}; {height}, "
            f"spent {self.spent[-1]:g}; {self._used}; {self.stop.value})"
        )

    def __str__(self) -> str:
        """Return the `repr`, and below it a table of the steps that fits 80 columns."""
        return printed(repr(self), self._glance.table)

    @property
    def _order(self) -> list[str]:
        """The groups of the steps; a removed group has a minus."""
        return [name_of(step, self.groups) for step in self.records]

    @property
    def _glance(self) -> Glance:
        table = self.steps.select(
            "step",
            pl.Series("group", [None, *self._order], pl.String),
            "cost",
            "spent",
            "gain",
            "r2",
        )
        return Glance(table, (self.spent, self.r2, "r2 against what is spent"))

    @property
    @abstractmethod
    def _summary(self) -> tuple[str, str]:
        """The target, and how well it is explained, as text."""

    @property
    @abstractmethod
    def _used(self) -> str:
        """The numbers of rows used and left out, as text."""

    @cached_property
    def columns(self) -> list[str]:
        """D columns of the groups, in the order of the coefficients."""
        return self.groups.members

    unused = Of[tuple[str, ...]]("groups", "Columns that lie in no group.")
    positions = Of[list[npt.NDArray[np.intp]]](
        "groups", "Positions of the columns of each group in `columns`."
    )

    @property
    def useful(self) -> npt.NDArray[np.bool_]:
        """Whether each step changed what is explained; shape (steps + 1,)."""
        return np.array([True, *(is_useful(step.gain) for step in self.records)])

    @property
    def doubling_capable(self) -> bool:
        """Whether every step had a group that met the cost limit of rule ``doubling``."""
        return all(step.choice is not Choice.CHEAPEST for step in self.records)

    @cached_property
    def steps(self) -> pl.DataFrame:
        """One row per step: step, action, group, cost, spent, score, gain, explained, r2, useful.

        Further columns: for several responses ``r2_each``, a struct, response -> r2; for
        generalised linear models deviance, status and passes so far.
        """
        names = self.groups.names
        frame = pl.DataFrame(
            {
                "step": np.arange(len(self.spent)),
                "action": ["start"] + [step.action for step in self.records],
                "group": [None] + [names[step.group] for step in self.records],
                "cost": paid_by(self.records, self.groups),
                "spent": self.spent,
                "score": [None] + [step.score for step in self.records],
                "gain": [0.0] + [step.gain for step in self.records],
                "explained": self.explained,
                "r2": self.r2,
                "useful": self.useful,
            },
            schema=STEP_DTYPES,
        )
        return frame.with_columns(self._extra_step_columns())

    def __len__(self) -> int:
        """Return the number of rows of `steps`; step 0 is the model without features."""
        return len(self.spent)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of `steps`, as dicts."""
        return self.steps.iter_rows(named=True)

    def to_pandas(self) -> Any:
        """Return `steps` as a DataFrame of pandas, which must be installed."""
        check_threads()
        return self.steps.to_pandas()

    def _extra_step_columns(self) -> list[pl.Series]:
        return []

    def held(self, step: int) -> list[int]:
        """Return the numbers of the groups held after a step, in the order added."""
        check_at("step", step, len(self.spent))
        return held_after(self.records[: int(step)])

    def columns_held(self, step: int) -> list[int]:
        """Return the numbers of the columns of the groups held after a step, each once."""
        groups = self.held(step)
        return list(dict.fromkeys(int(j) for group in groups for j in self.positions[group]))

    @abstractmethod
    def model(self, step: int) -> M:
        """Return the model after a step, 0 to the number of steps; ArgumentError for others."""

    def at(
        self,
        budget: float | None = None,
        *,
        size: int | None = None,
        signs: Mapping[str, str] | None = None,
    ) -> M:
        """Return the model of the longest prefix within a budget.

        If the budget is below the cost of the first group, the prefix is empty, even if another
        group would fit. `dbselect.best_within` searches for the best groups within a budget.

        For a sequence that ends without groups (`backward`), it is the first model within the
        budget after all groups were held.

        Parameters
        ----------
        budget : >= 0, in the unit of cost, which is spent once for all responses; None =
            no limit
        size : number of groups; the best model of this size within the budget
        signs : column or glob -> ``"+"`` or ``"-"``: the groups of the prefix, fitted again under
            signs, as `dbselect.fit` does. The order knows nothing of them

        Raises
        ------
        ArgumentError : `budget` is negative or not a number; no prefix has `size` groups; `signs`
            of other models than linear ones of one response, as a GlmSequence keeps no rows
        """
        BUDGET.check("budget", budget)
        if size is None:
            step = longest_within(self.spent, budget)
        else:
            step = best_of_size(self.records, self.spent, self.explained, budget, size)
        if not signs:
            return self.model(step)
        SIGNS.check("signs", signs)
        return self._signed(step, signs)

    def swaps(self, group: str, budget: float | None = None) -> pl.DataFrame:
        """Return what replacing a group by another one, or another one by it, changes.

        Parameters
        ----------
        group : name of a group
        budget : the prefix to look at is the longest within it; default: that which ends with
            `group`, or the last one if no prefix holds it

        Returns
        -------
        DataFrame, one row per swap that may be bought, the best first: replaced, the group that
        leaves; by, the one that comes; change, of `explained`; cost, the change of `spent`; says, a
        sentence

        Raises
        ------
        GroupError : there is no such group
        ArgumentError : the sequence is none of a linear model with one response

        Notes
        -----
        Exact, on the rows of the search. O(D^3); if no prefix holds the group, once per group held.

        Examples
        --------
        >>> import dbselect as ds
        >>> import polars as pl
        >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, 2, 3, 5], "y": [3, 4, 6, 9]})
        >>> ds.anytime_sequence(table, "y").swaps("b")["says"].to_list()
        ['a replaces b at 0.0395 less explained']
        """
        number = self.groups.number(group, "group")
        BUDGET.check("budget", budget)
        if budget is not None:
            step = longest_within(self.spent, budget)
        else:
            steps = range(len(self.records) + 1)
            step = next((k for k in steps if number in self.held(k)), len(self.records))
        found = self._swaps_at(number, self.held(step))
        if found is None:
            raise ArgumentError(
                f"a {type(self).__name__} has no Gram of one response, on which swaps are computed"
            )
        numbers = {"change": pl.Float64, "cost": pl.Float64}
        schema = {"replaced": pl.String, "by": pl.String, **numbers, "says": pl.String}
        return pl.DataFrame(found, schema=schema)

    def _swaps_at(self, number: int, held: list[int]) -> list[dict[str, Any]] | None:
        """Return the swaps of a group as rows, the best first; None without a Gram."""
        changes = self._swaps(number, held)
        if changes is None:
            return None
        names, prices, rows = self.groups.names, self.groups.prices, []
        for out, into, change in changes:
            after = [into if other == out else other for other in held]
            if prices.allows(after):
                word = "more" if change > 0 else "less"
                says = f"{names[into]} replaces {names[out]} at {abs(change):.4f} {word} explained"
                cost = float(prices.spent(after) - prices.spent(held))
                rows.append({"replaced": names[out], "by": names[into], "change": change,
                             "cost": cost, "says": says})  # fmt: skip
        return sorted(rows, key=lambda row: -row["change"])

    def _swaps(self, group: int, held: list[int]) -> list[tuple[int, int, float]] | None:
        """Return group out, group in and the change of `explained` for the swaps of a group."""
        return None

    def _signed(self, step: int, signs: Mapping[str, str]) -> M:
        """Return the model after a step under signs."""
        raise ArgumentError(
            f"signs is {shown(signs)}; a {type(self).__name__} has no Gram of one response to fit "
            "under signs"
        )

    @property
    def _labels(self) -> pl.DataFrame:
        return self.steps.select("step", "action", "group")

    def f_tests(self) -> pl.DataFrame:
        """Return for each step the F test of its group, given the other groups held.

        Returns
        -------
        DataFrame: step, action, group; df, the rank that the group adds; df_residual, n - rank of
        the larger model; statistic and p_value, NULL where it adds none, df_residual is 0, and at
        step 0. For several responses the tests of each, named in ``response``

        Raises
        ------
        ArgumentError : the sequence has a ridge; the models are generalised linear ones

        Warns
        -----
        SelectionWarning : the same rows chose the groups, so the p-values are too small. Choose
            on some rows and test on others, with `Model.f_test` of `dbselect.fit`

        Notes
        -----
        n is the number of rows, also with weights. A step that removes a group has the test of
        this group, given those that stay. O(D^3), as the search.

        References
        ----------
        Seber, Lee (2003), section 4.3; Miller (2002), Subset Selection in Regression, section
        4.1, on the effect of selection on such tests.

        Examples
        --------
        >>> import dbselect as ds
        >>> import polars as pl
        >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, 1, 2], "y": [3, 4, 6, 9]})
        >>> seq = ds.anytime_sequence(table, "y", always=["a", "b"])  # nothing is chosen
        >>> seq.f_tests().select("group", "df", pl.col("statistic", "p_value").round(3)).rows()
        [(None, None, None, None), ('a', 1, 40.0, 0.024), ('b', 1, 1.8, 0.408)]
        """
        return self._tested_steps("f")

    def lr_tests(self) -> pl.DataFrame:
        """Return for each step the likelihood-ratio test of its group, given the others held.

        Returns
        -------
        DataFrame: step, action, group; df, the parameters that the group adds; statistic, twice
        the logarithm of the ratio; p_value by the chi-squared distribution; NULL where it adds
        none, and at step 0. For several responses the tests of each, named in ``response``

        Raises
        ------
        ArgumentError : the sequence has a ridge, or was read from a file, which does not hold the
            dispersion of its family

        Warns
        -----
        SelectionWarning : as `f_tests`

        Notes
        -----
        For least squares ``n log(RSS0 / RSS1)``, as statsmodels' ``compare_lr_test``; for a family
        the drop in deviance, divided by the dispersion of the larger model if it has one.

        References
        ----------
        McCullagh, Nelder (1989), Generalized Linear Models, sections 2.3 and 4.4.
        """
        return self._tested_steps("lr")

    def _tested_steps(self, kind: Literal["f", "lr"]) -> pl.DataFrame:
        tests = self._step_tests(kind)
        if any(step.choice is not Choice.FORCED for step in self.records):
            warn_of_choice()
        return tests

    @abstractmethod
    def _step_tests(self, kind: Literal["f", "lr"]) -> pl.DataFrame:
        """Return the tests of every step."""

    def expr(
        self,
        budget: float | None = None,
        *,
        nested: bool | None = None,
        handle_unknown: HandleUnknown = "unavailable",
    ) -> pl.Expr:
        """Return the prediction of ``at(budget)`` as a Polars expression (`Model.expr`).

        Unlike `predict` it uses one prefix for all rows: NULL where a column is NULL.
        """
        return self.at(budget).expr(nested=nested, handle_unknown=handle_unknown)

    def sql(
        self,
        budget: float | None = None,
        dialect: str = "duckdb",
        *,
        nested: bool | None = None,
        handle_unknown: HandleUnknown = "unavailable",
        booleans: Collection[str] = (),
    ) -> str:
        """Return the prediction of ``at(budget)`` as an SQL expression (`Model.sql`).

        Unlike `predict` it uses one prefix for all rows: NULL where a column is NULL.
        """
        return self.at(budget).sql(
            dialect, nested=nested, handle_unknown=handle_unknown, booleans=booleans
        )

    def predict(
        self,
        rows: npt.ArrayLike,
        budget: Budget = None,
        *,
        columns: Sequence[str] | None = None,
        handle_unknown: HandleUnknown = "unavailable",
        missing_columns: MissingColumns = "error",
    ) -> npt.NDArray[np.float64]:
        """Return predictions for rows in memory, each by the longest prefix available to the row.

        That is the longest prefix within the budget whose columns are all available in the
        row, as in SQL's ``anytime_predict``. A NULL or NaN is not available, unless the fit
        filled it; an infinite value counts as NaN.

        Parameters
        ----------
        rows : a frame or Arrow table with the column names of the fit; or numbers of shape
            (n, d)
        budget : >= 0, in the unit of cost; None = no limit. Or one for each row: where it is
            missing (None, null, or NaN of NumPy and pandas), there is no limit
        columns : names of d columns; default: ``columns`` of the sequence, in their order, and
            the offset
        handle_unknown : how to treat a level that the fit has not seen: ``"unavailable"`` uses
            a prefix without its group; ``"error"`` and ``"mean"`` as in `Model.expr`
        missing_columns : how to treat a column that the rows lack and a prefix within the budget
            reads: ``"error"`` raises, ``"unavailable"`` uses a prefix without it

        Returns
        -------
        shape (n,); for K responses, or the probabilities of K classes, shape (n, K). NaN only
        where the offset or the exposure is missing, which every prefix reads, or where the
        mean of the linear predictor is not defined

        Raises
        ------
        ArgumentError : rows have another shape, or text in a column of numbers; a budget is
            no number >= 0; another `handle_unknown` or `missing_columns`; ``"mean"`` for a
            sequence that was stored without the shares of its levels
        ColumnError : the rows lack a column, or a category has another type
        DataError : with ``handle_unknown="error"``, a level that the fit has not seen
        SourceError : Spark, or the engine of a table of ibis, cannot read it

        Warns
        -----
        DriverWarning : rows are of Spark or ibis; the columns read are copied into this process

        Notes
        -----
        O(n D) for rows that have all columns, and O(n) more for each column that is checked
        for shorter prefixes.

        Examples
        --------
        >>> import dbselect as ds
        >>> import polars as pl
        >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
        >>> seq = ds.anytime_sequence(table, "y")
        >>> rows = pl.DataFrame({"a": [1, 2, None], "b": [1, None, 1]})
        >>> seq.predict(rows).round(3).tolist()
        [3.0, 4.5, 5.5]
        """
        return served(self, rows, budget, columns, handle_unknown, missing_columns).value

    def anytime_predict(
        self,
        rows: npt.ArrayLike,
        budget: Budget = None,
        *,
        columns: Sequence[str] | None = None,
        handle_unknown: HandleUnknown = "unavailable",
        missing_columns: MissingColumns = "error",
    ) -> pl.DataFrame:
        """Return the predictions of `predict`, and the prefix used for each row.

        Parameters
        ----------
        rows, budget, columns, handle_unknown, missing_columns : as of `predict`

        Returns
        -------
        DataFrame, one row per row: prediction, for several responses or classes a struct with a
        field for each; step; spent, its cost; next_group, the group to compute next. NULL where
        no prefix is available for the row

        Examples
        --------
        >>> import dbselect as ds
        >>> import polars as pl
        >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
        >>> seq = ds.anytime_sequence(table, "y")
        >>> rows = pl.DataFrame({"a": [1, 2, None], "b": [1, None, 1]})
        >>> seq.anytime_predict(rows).select("step", "spent", "next_group").rows()
        [(2, 2.0, None), (1, 1.0, 'b'), (0, 0.0, 'a')]
        """
        result = served(self, rows, budget, columns, handle_unknown, missing_columns)
        return predictions(self, result)

    @property
    def _inputs(self) -> list[str]:
        """The columns of an unnamed array, in order."""
        return self.columns

    @property
    def _prepared(self) -> Terms:
        """The terms that turn fields of the table into columns of the predictors."""
        return self.terms

    def _read_at(self, step: int) -> list[str]:
        """Return the columns of the predictors after a step."""
        return [self.columns[j] for j in self.columns_held(step)]

    def _at_step(self, step: int) -> Predicting:
        return self.model(step)

    def with_costs(self, costs: Costs, *, shared: Shared | None = None) -> Self:
        """Return the same steps with other costs; the search is not repeated.

        Parameters
        ----------
        costs : name -> cost > 0, for every group
        shared : set-ups, name -> (cost, groups), as of a problem; default: those of the problem,
            whose other conditions stay, too

        Raises
        ------
        GroupError : a cost is missing, surplus or not a number > 0; a set-up has an unknown group
        ArgumentError : `shared` maps no names to costs and groups
        """
        told = self.groups.told
        if shared is not None:
            told = replace(told, shared=checked("shared", shared) or {})
            told.check(self.groups.names)
        own = costs_of(self.groups.names, costs, told)
        groups = replace(self.groups, costs=own, told=told)
        call = self.call if shared is None else replace(self.call, shared=told.shared)
        return self._priced(groups, spent_after(self.records, groups), call)

    def why(self, group: str, budget: float | None = None) -> str:
        """Return in one sentence why the model within a budget has a group or not.

        For a linear model of one response it ends with the best swap within the budget, of `swaps`.

        Parameters
        ----------
        group : name of a group
        budget : of the model, as of `at`; None = no limit

        Raises
        ------
        GroupError : there is no such group
        ArgumentError : `budget` is not a number >= 0

        Examples
        --------
        >>> import dbselect as ds
        >>> import polars as pl
        >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
        >>> seq = ds.anytime_sequence(table, "y", one_of=[["a", "b"]])
        >>> seq.why("a")
        "'a' is bought in step 1, for 1; b replaces a at 0.9048 less explained"
        >>> seq.why("b").split("; ")[0]
        "'b' is excluded by 'a': one_of allows one of ['a', 'b']"
        """
        number = self.groups.number(group, "group")
        BUDGET.check("budget", budget)
        last = longest_within(self.spent, budget)
        held = held_after(self.records[:last])
        left = np.inf if budget is None else budget * (1.0 + BUDGET_SLACK) - self.spent[last]
        swaps = [one for one in self._swaps_at(number, held) or [] if one["cost"] <= left]
        reason = self._reason(number, budget, last, held)
        return "; ".join([reason, *(swap["says"] for swap in swaps[:1])])

    def _reason(self, number: int, budget: float | None, last: int, held: list[int]) -> str:
        """Return why a group is among those held after some steps, or not."""
        group = self.groups.names[number]
        if number in held:
            steps = [at for at, step in enumerate(self.records[:last]) if step.group == number]
            paid = paid_by(self.records, self.groups)[steps[-1] + 1]
            return f"'{group}' is bought in step {steps[-1] + 1}, for {paid:g}"
        reason = self.groups.prices.why_not(self.groups.names, number, held)
        if reason is not None:
            return f"'{group}' {reason}"
        cost = float(self.groups.prices.offers(held).costs[number])
        with_needs = self.groups.prices.with_needs(number, held)[:-1]
        needed = [self.groups.names[n] for n in with_needs]
        also = f" with {needed}, which it needs," if needed else ""
        left = np.inf if budget is None else budget - self.spent[last]
        if cost > left * (1.0 + BUDGET_SLACK):
            return f"'{group}' costs{also} {cost:g} more, and the budget leaves {left:g}"
        later = [at for at, step in enumerate(self.records) if step.group == number]
        if later and later[-1] >= last:
            return (
                f"'{group}' comes in step {later[-1] + 1}, after one that does not fit the budget"
            )
        return f"'{group}' costs{also} {cost:g} more; the search ended: {self.stop.value}"

    def _priced(self, groups: Groups, spent: Vector, call: Call) -> Self:
        """Return the same steps with the groups at other costs."""
        sequence: Any = self  # every family is a dataclass
        rule = f"{self.rule}, at other costs"
        return cast("Self", replace(sequence, groups=groups, spent=spent, call=call, rule=rule))

    def guarantee(self, cost: float | None = None) -> Guarantee:
        """Return the guaranteed share of the optimum for the greedy rule (Theorems 3.2 and 4.3).

        ``F(prefix) > (1 - exp(-gamma B / K)) F(any groups of cost K)``, where B is the cost of
        the prefix, gamma = (lambda_min(G_w) + ridge) / (1 + ridge), and G_w the group-whitened
        Gram; a rule that scales the gradient otherwise has its own scaling in G_w.

        Parameters
        ----------
        cost : K, the cost of the competing groups; None = that of each prefix

        Raises
        ------
        ArgumentError : the rule has no such theorem, or `cost` is not a number > 0; the
            models are generalised linear ones, whose objective has no proved bounds

        Notes
        -----
        A step adds nothing to B if a budget, ``always`` or the cost limit of ``doubling`` kept
        it from choosing among all groups. The proof of Theorem 4.3 takes gamma as the
        submodularity ratio of eq. 9, which lambda_min does not bound where a column helps
        only after another; `certificate` always holds. O(D^3).

        Where prices are no sums (`shared`, `needs`, `one_of`, `limits`) factors and ``doubling``
        are None, and ``reason`` says why: a group may cost less beside others than alone, so that
        the gains per cost of the rivals, which the proofs sum, need not add up to those of a set.

        For several responses it holds for their sum, not for each: K responses are one,
        ``vec(Y)``, on the columns ``I_K x X``, whose Gram has the eigenvalues of that of X.

        References
        ----------
        Hu, Grubb, Bagnell, Hebert (2016), Theorems 3.2 and 4.3.
        """
        problem = self._quadratic("guarantee")
        return guaranteed(problem, self.groups, self.rule, self.records, self.spent, cost)

    def certificate(self, budgets: Iterable[float] | None = None) -> pl.DataFrame:
        """Return bounds on what the best groups within each budget can explain.

        Parameters
        ----------
        budgets : in the unit of cost; default: what each step spent

        Returns
        -------
        DataFrame: budget; spent and explained of the model within it; bound, the
        most that any set of groups within the budget explains; ratio, explained / bound

        Raises
        ------
        ArgumentError : `budgets` is no list; a budget is negative or not a number; the
            models are generalised linear ones, whose objective has no proved bounds

        Notes
        -----
        ``min over prefixes S of F(S) + knapsack(gains | S) / mu_S``, never above F(all);
        see `_native.Selection.bounds`. Where prices are no sums, they are bounded by sums from
        below: each set-up is shared out evenly among its groups, so that any set costs at least
        the sum of its groups; needs, rivals and limits only leave sets out. The bound holds
        for every allowed set therefore. O(D^3): about twice the search by rule ``fr``. For several
        responses the bounds are for their sum; ``responses[name].certificate()`` bounds one
        response.

        Examples
        --------
        >>> import dbselect as ds
        >>> import polars as pl
        >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
        >>> seq = ds.anytime_sequence(table, "y")
        >>> seq.certificate([1.0])["ratio"].round(6).to_list()
        [1.0]
        """
        problem = self._quadratic("certificate")
        return certified(problem, self.groups, self.records, self.spent, self.explained, budgets)

    def break_even(self, worth: float, *, per: Per = "explained") -> pl.DataFrame:
        """Return the highest price at which the best prefix still has each group.

        The best prefix is the one of the largest worth less cost. It has a group, wherever that
        stands in the order, as long as its price is no more than what the best prefix with it for
        nothing is worth above the best one without it. In a sequence that gives groups back, those
        that it held longest come first.

        Parameters
        ----------
        worth : > 0, in the unit of cost: what the whole variance of the target is worth if it is
            explained, so that a hundredth of it is one point of r2; or one unit of the error
        per : ``"explained"``, or ``"rmse"``, the root mean squared error in the target's unit

        Returns
        -------
        DataFrame, one row per group: group, and price, in the unit of cost

        Raises
        ------
        ArgumentError : `worth` is not a number > 0; the models are generalised linear ones, or, for
            ``"rmse"``, of several responses

        Notes
        -----
        O(J) searches of O(D^3). Within a budget, and in SQL: `Problem.break_even`.

        Examples
        --------
        >>> import dbselect as ds
        >>> import polars as pl
        >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
        >>> ds.anytime_sequence(table, "y").break_even(worth=21).with_columns(
        ...     pl.col("price").round(6)
        ... ).rows()
        [('a', 20.0), ('b', 1.0)]
        """
        problem, groups = self._quadratic("break_even"), self.groups
        POSITIVE.check("worth", worth)
        one_of(Per).check("per", per)
        if per == "rmse" and np.size(problem.target_spread) > 1:
            raise ArgumentError("per is 'rmse', and several responses have no common unit")
        # Those held in the end, then those given back, the last of them first.
        taken = [*held_after(self.records), *(step.group for step in reversed(self.records))]
        prices = LinearState(problem, self.positions).selection.prices(
            list(dict.fromkeys(taken)), groups.costs, worth, parts=groups.prices.arrays,
            spread=float(problem.target_spread) if per == "rmse" else None,
            told=groups.told_by_number,
        )  # fmt: skip
        return pl.DataFrame({"group": groups.names, "price": prices})

    @abstractmethod
    def _quadratic(self, what: str) -> Linear:
        """Return the quadratic problem that was searched, which has proved bounds."""

    def refit(self, source: Any) -> Self:
        """Return the same groups in the same order, fitted to the rows of another source.

        Parameters
        ----------
        source : table, or Gram of a linear model, with the columns of this one

        Raises
        ------
        ArgumentError : the sequence removes groups, so that no order of groups repeats it
        """
        order = [self.groups.names[step.group] for step in self.records]
        if len(set(order)) < len(order):
            raise ArgumentError(
                f"the sequence of {self.rule} gives groups back; refit the model of a step: "
                "seq.at(budget).refit(source)"
            )
        problem = self.problem.replace(source=source, always=order)
        result: Self = answer_of(problem, "anytime_sequence", max_groups=max(len(order), 1))
        return result

    def cross_validate(self, source: Any, grid: Any = None, **options: Any) -> Any:
        """Cross-validate the search that made the sequence.

        Parameters
        ----------
        source : table, with ``cv`` or ``folds``; or records of folds, as `gram_by` returns them
        grid, options : as of `dbselect.cross_validate`; others are those of the search
        """
        call, problem = self.call, self.problem.on(source)
        return answer_of(
            problem, "cross_validate", call.method, grid, **{**call.options, **options}
        )

    def drift(self, a: Any, b: Any = None) -> Any:
        """Compare two sets of rows for the problem that was searched, as `dbselect.drift`.

        Parameters
        ----------
        a, b : tables or Grams of the same columns; without b the rows of the search and a
        """
        if b is None:
            return answer_of(self.problem, "_drift_from", self, a)
        return answer_of(self.problem.on(a), "drift", b)

    def explained_at(self, budget: float) -> float:
        """Return the share explained by the longest prefix within a budget."""
        return explained_at(self, budget)

    def stopping_cost(self, fraction: float) -> float:
        """Return the cost at which the sequence reaches a fraction of its final height.

        Parameters
        ----------
        fraction : from 0 to 1
        """
        return stopping_cost(self, fraction)

    def timeliness(
        self, fraction: float = 1.0, *, reference: Any = None, final: float | None = None
    ) -> float:
        """Return the area under the curve up to a stopping cost, as a share of its rectangle.

        Parameters
        ----------
        fraction : of the final height, at which the curve is cut
        reference, final : the curve that is cut, and its height, as in
            `dbselect.reference.timeliness`

        References
        ----------
        Hu, Grubb, Bagnell, Hebert (2016), section 5.2.
        """
        return timeliness(self, fraction, reference=reference, final=final)

    def plateau(self) -> float:
        """Return the fraction of the final height beyond which more costs much."""
        return plateau(self)

    def plot(self, *, bound: bool = True, held_out: Any = None) -> Any:
        """Return a chart of the explained share against the cost.

        Parameters
        ----------
        bound : whether to draw the bounds of `certificate` above, O(D^3); families whose
            objective is not quadratic have none
        held_out : scores of the steps on other rows: a result of `cross_validate` with one
            point, drawn with a band of one standard error, or the frame of `evaluate`; or name ->
            any of these, or another sequence, to draw beside this one

        Returns
        -------
        Altair chart. Its ``data`` is the DataFrame that is drawn, one row per curve and
        step: step, group, cost, spent, gain, why, curve, value, low, high, label

        Raises
        ------
        ArgumentError : `held_out` is something else, or has no r2 of one sequence; `bound` is
            neither True nor False
        EngineError : altair is not installed

        Notes
        -----
        The axis ends at -25 %, even if shares on held-out rows fall below; the data have all.
        Of more than 1,000 steps, 1,000 are drawn, evenly spaced, and the subtitle says so.

        Examples
        --------
        >>> import dbselect as ds
        >>> import polars as pl
        >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
        >>> chart = ds.anytime_sequence(table, "y").plot()
        >>> chart.data.filter(curve="r2").select("group", pl.col("value").round(3)).rows()
        [(None, 0.0), ('a', 0.952), ('b', 1.0)]
        """
        return drawn(self, bound, held_out)

    def report(
        self,
        path: str | Path,
        *,
        source: Any = None,
        held_out: Any = None,
        segments: pl.DataFrame | None = None,
        title: str | None = None,
        unit: str = "",
        worth: float | None = None,
    ) -> None:
        """Write a report: one self-contained HTML page.

        It has the curve with a slider for the budget, which shows the model within it; costs,
        groups, rule and ridge that can be edited; the rows used and left out, the value of each
        group, and the code. It opens at the choice of `held_out`, or where the curve gets flat.

        Parameters
        ----------
        path : file to write
        source : the table, read once more for calibration and residuals, or, for a target of 0
            and 1, AUC and ROC curve; anything that `dbselect.gram` reads
        held_out : as of `plot`
        segments : result of `anytime_sequence_by`, shown as a table with small curves
        title : of the page
        unit : of the costs, such as ``"€"``
        worth : of `break_even`, for a column with the price up to which each group pays

        Raises
        ------
        ArgumentError : an option has another type; the folder of `path` does not exist, or its
            ending is that of another format
        SourceError, ColumnError : there is no such table, or it lacks a column; the path exists
            and is not a file

        Notes
        -----
        Standard errors cost O(D^3) a step, overlaps O(J D^2) for J groups, and the best groups
        within some 20 budgets at most 0.1 s each, for up to 200 columns. The page grows with
        steps times coefficients, to some 15 MB; beyond, the coefficients of some steps are left
        out, and the page says so. Edits run the compiled search within the page, for linear
        models with one response and at most 450 columns or so.

        Examples
        --------
        >>> import dbselect as ds
        >>> import polars as pl
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
        >>> with TemporaryDirectory() as folder:
        ...     page = Path(folder, "report.html")
        ...     ds.anytime_sequence(table, "y").report(page, source=table)
        ...     "What a budget buys" in page.read_text()
        True
        """
        options = {"held_out": held_out, "segments": segments, "title": title, "unit": unit,
                   "worth": worth}  # fmt: skip
        answer_of(self.problem, "_write_report", self, path, source, **options)

    @abstractmethod
    def to_struct(self) -> dict[str, Any]:
        """Return the sequence as plain Python data; a linear one includes its Gram."""

    @classmethod
    @abstractmethod
    def from_struct(cls, record: Any) -> Self:
        """Read a mapping or an Arrow struct scalar; RecordError for an invalid field."""

    def write_parquet(self, path: str | Path) -> None:
        """Write a Parquet file of one row, its columns the fields of `to_struct`.

        In SQL, `anytime_predict` takes the column ``sequence`` of a linear sequence, as
        does ``dbselect.predict`` in Polars; for several responses the column ``responses``
        lists structs with such a ``sequence`` and the ``target``; for generalised linear
        models ``glm_predict`` takes ``model`` of ``FROM 'file' AS model``.
        """
        files.write_parquet(to_table(self.to_struct(), self._RECORD_TYPE), path)

    @classmethod
    def read_parquet(cls, path: str | Path) -> Self:
        """Read a file of `write_parquet`.

        Raises
        ------
        SourceError : there is no such file, or it holds something else
        """
        names = cls._RECORD_TYPE.names
        return cls.from_struct(files.read_row(path, names, cls._WHAT))

    def _was_chosen(self, step: int) -> bool:
        """Whether the search chose the groups held after a step."""
        free = any(record.choice is not Choice.FORCED for record in self.records[:step])
        return free and 0 < len(self.held(step)) < self._n_choices

    @property
    def _n_choices(self) -> int:
        """The number of candidate groups."""
        return len(self.groups.names)

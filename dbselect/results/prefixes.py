"""What sequences of all families share; a family refuses what cannot mean anything there."""

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar, cast

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from dbselect.errors import ArgumentError, warn_of_choice
from dbselect.linear.problem import Linear
from dbselect.options.kinds import BUDGET, check_at
from dbselect.pages.glance import Glance, InNotebooks
from dbselect.pages.html import listed
from dbselect.record import files
from dbselect.record.gram import Vector
from dbselect.record.groups import Costs, Groups, costs_of
from dbselect.record.inputs import HandleUnknown, MissingColumns
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
    spent_after,
)
from dbselect.record.terms import Terms
from dbselect.results.call import Judged
from dbselect.results.drawing import drawn
from dbselect.results.guarantee import Guarantee, certified, guaranteed
from dbselect.results.heights import explained_at, plateau, stopping_cost, timeliness
from dbselect.results.prediction.fallback import predictions, served
from dbselect.results.prediction.predict import Predicting
from dbselect.results.store import to_table
from dbselect.spec.spec import answer_of

M = TypeVar("M", bound=Predicting)
#: Of all rows, or of each; None, and of one row whatever is missing, is no limit.
Budget = float | npt.ArrayLike | None


class Prefixes(Judged[M], files.Stored, InNotebooks):
    """Groups in the order in which they buy prediction; step 0 is the model without columns."""

    #: The record's type in Arrow, and what it is called in errors.
    _RECORD_TYPE: ClassVar[pa.StructType]
    _WHAT: ClassVar[str]
    #: What the height of the curve is called.
    _HEIGHT: ClassVar[str] = "r2, fitted rows"
    #: Whether bounds are proved of the objective.
    _is_quadratic: ClassVar[bool] = True

    # To a type checker properties, which a family may have as fields; at run time nothing,
    # as a property could not be assigned when the fields are.
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
            """Share of what there is to explain; shape (steps + 1,)."""

        @property
        def r2(self) -> Vector:
            """The same without the penalty; shape (steps + 1,)."""

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
        told, height = self._summary
        return (
            f"{type(self).__name__}({told} ~ {listed(self._order)}; {height}, "
            f"spent {self.spent[-1]:g}; {self._used}; {self.stop.value})"
        )

    @property
    def _order(self) -> list[str]:
        """The groups of the steps, those given back with a minus."""
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
        """What is explained, and how well, in words."""

    @property
    @abstractmethod
    def _used(self) -> str:
        """How many rows it rests on, in words."""

    @cached_property
    def columns(self) -> list[str]:
        """D columns of the groups, in the order of the coefficients."""
        return self.groups.members

    @property
    def unused(self) -> tuple[str, ...]:
        """Columns that lie in no group."""
        return self.groups.unused

    @property
    def positions(self) -> list[npt.NDArray[np.intp]]:
        """Where the columns of each group stand in `columns`."""
        return self.groups.positions

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
        """One row a step: step, action, group, cost, spent, score, gain, explained, r2, useful.

        Then fields of the kind of sequence: of several responses ``r2_each``, a struct,
        response -> r2; of generalised linear models deviance, status and passes so far.
        """
        names = self.groups.names
        frame = pl.DataFrame(
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
        return frame.with_columns(self._more_of_steps())

    def __len__(self) -> int:
        """Return how many rows `steps` has: step 0 is the model without features."""
        return len(self.spent)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of `steps`, as dicts."""
        return self.steps.iter_rows(named=True)

    def to_pandas(self) -> Any:
        """Return `steps` as a DataFrame of pandas, which must be installed."""
        return self.steps.to_pandas()

    def _more_of_steps(self) -> list[pl.Series]:
        return []

    def held(self, step: int) -> list[int]:
        """Return the numbers of the groups held after a step, in the order taken."""
        return held_after(self.records[: self._checked(step)])

    def columns_held(self, step: int) -> list[int]:
        """Return the numbers of the columns of the groups held after a step, each once."""
        held = self.held(step)
        return list(dict.fromkeys(int(j) for group in held for j in self.positions[group]))

    @abstractmethod
    def model(self, step: int) -> M:
        """Return the model after a step, 0 to the number of steps; ArgumentError for others."""

    def at(self, budget: float | None = None, *, size: int | None = None) -> M:
        """Return the model of the longest prefix within a budget.

        What the order of the sequence leaves for a budget: below the cost of its first group
        nothing, though others may fit. `dbselect.best_within` searches for the best groups
        within a budget.

        Where all groups were given back in the end (`backward`), it is the first within
        the budget after all were held.

        Parameters
        ----------
        budget : >= 0, in the unit of cost, which is spent once for all responses; None =
            no limit
        size : take the best of the models with so many groups, within the budget

        Raises
        ------
        ArgumentError : `budget` is negative or not a number; no prefix has `size` groups
        """
        BUDGET.check("budget", budget)
        if size is None:
            return self.model(longest_within(self.spent, budget))
        return self.model(best_of_size(self.records, self.spent, self.explained, budget, size))

    @property
    def _named(self) -> pl.DataFrame:
        return self.steps.select("step", "action", "group")

    def f_tests(self) -> pl.DataFrame:
        """Return for each step the F test of its group, given the groups held beside it.

        Returns
        -------
        DataFrame: step, action, group; df, the rank that the group adds; df_residual, n - rank of
        the larger model; statistic and p_value, NULL where it adds none, no rows are left to
        judge it, and at step 0. Of several responses the tests of each, named in ``response``

        Raises
        ------
        ArgumentError : the sequence has a ridge; the models are generalised linear ones

        Warns
        -----
        SelectionWarning : the rows also chose the groups: each is the best of those that were
            left, so its p-value is too small. Choose on some rows, and test on others by
            `Model.f_test` of `dbselect.fit`

        Notes
        -----
        n is the number of rows, also where they have weights. Of a step that removes a group the
        test is that of this group, given those that stay. O(D^3), as the search.

        References
        ----------
        Seber, Lee (2003), section 4.3; Miller (2002), Subset Selection in Regression, section
        4.1, of what selection does to such tests.

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
        """Return for each step the likelihood-ratio test of its group, given those held beside it.

        Returns
        -------
        DataFrame: step, action, group; df, the parameters that the group adds; statistic, twice
        the logarithm of the ratio; p_value by the chi-squared distribution; NULL where it adds
        none, and at step 0. Of several responses the tests of each, named in ``response``

        Raises
        ------
        ArgumentError : the sequence has a ridge, or was read from a file without the dispersion
            that its family has

        Warns
        -----
        SelectionWarning : as `f_tests`

        Notes
        -----
        Of least squares ``n log(RSS0 / RSS1)``, as statsmodels' ``compare_lr_test``; of a family
        the deviance that the group takes, by the dispersion of the larger model where it has one.

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
        """Return predictions for rows in memory, each of the longest prefix that the row can have.

        That is the longest prefix within the budget whose columns are all available in the
        row, as in SQL's ``anytime_predict``. A NULL or NaN is not available, unless the fit
        filled it; an infinite value counts as NaN.

        Parameters
        ----------
        rows : a frame or Arrow table as the one of the fit, read by its own names; or numbers
            of shape (n, d)
        budget : >= 0, in the unit of cost; None = no limit. Or one for each row: where one is
            missing (None, null, or NaN of NumPy and pandas), there is no limit
        columns : names of d columns; default: ``columns`` of the sequence, in their order, and
            the offset
        handle_unknown : how to treat a level that the fit has not seen: ``"unavailable"`` uses
            a prefix without its group; ``"error"`` and ``"mean"`` as in `Model.expr`
        missing_columns : how to treat a column that the rows lack, if a prefix within the
            budget reads it: ``"error"`` raises, ``"unavailable"`` uses a prefix without it

        Returns
        -------
        shape (n,); of K responses, or the probabilities of K classes, shape (n, K). NaN only
        where the offset or the exposure is missing, which every prefix reads, or where the
        predictor has no mean

        Raises
        ------
        ArgumentError : rows have another shape, or text where a number was learnt; a budget is
            no number >= 0; another `handle_unknown` or `missing_columns`; ``"mean"`` of a
            sequence that was stored without the shares of its levels
        ColumnError : the rows lack a column, or a category has another type
        DataError : with ``handle_unknown="error"``, a level that the fit has not seen
        SourceError : Spark, or the engine of a table of ibis, cannot read it

        Warns
        -----
        DriverWarning : rows are of Spark or ibis; what is read passes into this process

        Notes
        -----
        O(n D) for rows that have all columns, and O(n) more for each column that is looked at
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
        """Return the predictions of `predict`, and which prefix each row has.

        Parameters
        ----------
        rows, budget, columns, handle_unknown, missing_columns : as of `predict`

        Returns
        -------
        DataFrame, one row a row: prediction, of several responses or classes a struct with a
        field for each; step; spent, its cost; next_group, the group to compute next. NULL where
        no prefix serves the row

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
        found = served(self, rows, budget, columns, handle_unknown, missing_columns)
        return predictions(self, found)

    @property
    def _inputs(self) -> list[str]:
        """The columns of an array without names."""
        return self.columns

    @property
    def _prepared(self) -> Terms:
        """How the fields of the table became the columns of the predictors."""
        return self.terms

    def _read_at(self, step: int) -> list[str]:
        """Return the columns of the predictors after a step."""
        return [self.columns[j] for j in self.columns_held(step)]

    def _at_step(self, step: int) -> Predicting:
        return self.model(step)

    def with_costs(self, costs: Costs) -> Self:
        """Return the same steps at other costs: what an order costs, not how it was found.

        Parameters
        ----------
        costs : name -> cost > 0, for every group

        Raises
        ------
        GroupError : a cost is missing, surplus or not a number > 0
        """
        groups = replace(self.groups, costs=costs_of(self.groups.names, costs))
        return self._priced(groups, spent_after(self.records, groups))

    def _priced(self, groups: Groups, spent: Vector) -> Self:
        """Return the same steps with the groups at other costs."""
        found: Any = self  # a dataclass, of whichever family
        rule = f"{self.rule}, at other costs"
        return cast(Self, replace(found, groups=groups, spent=spent, rule=rule))

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
        ArgumentError : the rule has no such theorem, or `cost` is not a number > 0; the
            models are generalised linear ones, for whose objective nothing is proved

        Notes
        -----
        A step that a budget, ``always`` or the cost limit of ``doubling`` kept from
        choosing among all groups adds nothing to B. The proof of Theorem 4.3 takes gamma
        as the submodularity ratio of eq. 9, which lambda_min does not bound where a
        column helps only after another: `certificate` holds always. O(D^3).

        Of several responses it holds together, and of none alone: K responses are one,
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
        DataFrame: budget; spent and explained, those of the model within it; bound, the
        most that any set of groups within the budget explains; ratio, explained / bound

        Raises
        ------
        ArgumentError : `budgets` is no list; a budget is negative or not a number; the
            models are generalised linear ones, for whose objective nothing is proved

        Notes
        -----
        ``min over prefixes S of F(S) + knapsack(gains | S) / mu_S``, never above F(all);
        see `LinearState.upper_bounds`. O(D^3): some two times the search by rule ``fr``. Of several
        responses the bounds hold together; those of ``responses[name].certificate()`` hold
        of one response alone.

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

    @abstractmethod
    def _quadratic(self, what: str) -> Linear:
        """Return the quadratic problem that was searched, of which bounds are proved."""

    def refit(self, source: Any) -> Self:
        """Return the same groups in the same order, fitted to the rows of another source.

        Parameters
        ----------
        source : table, or Gram of a linear model, with the columns of this one

        Raises
        ------
        ArgumentError : the sequence gives groups back, which no order of groups repeats
        """
        order = [self.groups.names[step.group] for step in self.records]
        if len(set(order)) < len(order):
            raise ArgumentError(
                f"the sequence of {self.rule} gives groups back; refit the model of a step: "
                "seq.at(budget).refit(source)"
            )
        problem = self.problem.replace(source=source, always=order)
        found: Self = answer_of(problem, "anytime_sequence", max_groups=max(len(order), 1))
        return found

    def cross_validate(self, source: Any, grid: Any = None, **options: Any) -> Any:
        """Score the search that made the sequence on rows that it has not seen.

        Parameters
        ----------
        source : table, with ``cv`` or ``folds``; or records of folds, as `gram_by` returns them
        grid, options : as of `dbselect.cross_validate`; others are those of the search
        """
        asked = {**self.call.options, **options}
        return answer_of(self.problem.on(source), "cross_validate", self.call.method, grid, **asked)

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
        """Return what the longest prefix within a budget explains."""
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
        """Return the fraction of the final height from which on more costs much."""
        return plateau(self)

    def plot(self, *, bound: bool = True, held_out: Any = None) -> Any:
        """Return a picture of what is explained against what is spent.

        Parameters
        ----------
        bound : whether to draw the bounds of `certificate` above, O(D^3); families whose
            objective is not quadratic have none
        held_out : how the steps do on other rows: what `cross_validate` found of one point,
            with a band of one standard error, or the frame of `evaluate`; or name -> any of
            these, or another sequence, to draw beside this one

        Returns
        -------
        Chart of altair. Its ``data`` is the DataFrame that is drawn, one row a curve and
        step: step, group, cost, spent, gain, why, curve, value, low, high, label

        Raises
        ------
        ArgumentError : `held_out` is something else, or has no r2 of one sequence; `bound` is
            neither True nor False
        EngineError : altair is not installed

        Notes
        -----
        Where shares of held-out rows fall below -25 %, the picture ends, not the data. Of
        more than 1,000 steps as many are drawn, spread evenly, and the subtitle says so.

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
    ) -> None:
        """Write a report: one page of HTML that needs no network and no file beside it.

        It has the curve with a slider for the budget, which shows the model it buys; costs, groups,
        rule and ridge that can be edited; the rows used and left out, what each group is worth,
        and the code. It opens at the choice of `held_out`, or where the curve gets flat.

        Parameters
        ----------
        path : file to write
        source : the table, read once more for calibration, and residuals or of a target of 0
            and 1 AUC and ROC curve; any that `dbselect.gram` reads
        held_out : as of `plot`
        segments : what `anytime_sequence_by` found, as a table with small curves
        title : of the page
        unit : of the costs, such as ``"€"``

        Raises
        ------
        ArgumentError : an option is something else; `path` lies in no folder, or ends as another
            format does
        SourceError, ColumnError : there is no such table, or it lacks a column; at the path is
            something else than a file

        Notes
        -----
        Standard errors cost O(D^3) a step, overlaps O(J D^2) for J groups, and the best groups
        within some 20 budgets at most 0.1 s each, for up to 200 columns. The page grows with
        steps times coefficients, to some 15 MB; beyond, those of steps between are left out, and
        the page says so. Edits are answered by the compiled search within the page, for linear
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
        told = {"held_out": held_out, "segments": segments, "title": title, "unit": unit}
        answer_of(self.problem, "_write_report", self, path, source, **told)

    @abstractmethod
    def to_struct(self) -> dict[str, Any]:
        """Return the sequence as plain Python data; a linear one has its Gram in it."""

    @classmethod
    @abstractmethod
    def from_struct(cls, record: Any) -> Self:
        """Read a mapping or an Arrow struct scalar; RecordError for a field amiss."""

    def write_parquet(self, path: str | Path) -> None:
        """Write a Parquet file of one row, its columns the fields of `to_struct`.

        In SQL, `anytime_predict` takes the column ``sequence`` of a linear sequence, as
        does ``dbselect.predict`` in Polars; of several responses the column ``responses``
        lists structs with such a ``sequence`` and the ``target``; of generalised linear
        models ``glm_predict`` takes ``model`` of ``FROM 'file' AS model``.
        """
        files.write_parquet(to_table(self.to_struct(), self._RECORD_TYPE), path)

    @classmethod
    def read_parquet(cls, path: str | Path) -> Self:
        """Read what `write_parquet` wrote.

        Raises
        ------
        SourceError : there is no such file, or it holds something else
        """
        names = cls._RECORD_TYPE.names
        return cls.from_struct(files.read_row(path, names, cls._WHAT))

    def _checked(self, step: int) -> int:
        check_at("step", step, len(self.spent))
        return int(step)

    def _was_chosen(self, step: int) -> bool:
        """Whether the groups of a step could have been others."""
        free = any(record.choice is not Choice.FORCED for record in self.records[:step])
        return free and 0 < len(self.held(step)) < self._n_choices

    @property
    def _n_choices(self) -> int:
        """The number of groups that there were to choose from."""
        return len(self.groups.names)

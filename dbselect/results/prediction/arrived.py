"""Predict rows from any subset of groups, and name the next group: one solve per pattern."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from functools import cached_property
from typing import Any, Self, cast

import numpy as np
import polars as pl
import pyarrow as pa
from polars.plugins import register_plugin_function

from dbselect import _native
from dbselect._lazy import load
from dbselect.errors import ArgumentError, DataError, shown
from dbselect.families import parse
from dbselect.options.kinds import BUDGET, FLAG, SHARE
from dbselect.pages.html import Glance, InNotebooks, listed
from dbselect.record import files, formulas
from dbselect.record.foreign import rows_in_memory
from dbselect.record.formulas import Formula, column, translate
from dbselect.record.gram import RECORD_DTYPE, RECORD_TYPE, Gram
from dbselect.record.groups import groups_of
from dbselect.record.inputs import (
    HandleUnknown,
    Input,
    MissingColumns,
    check_missing_columns,
    check_unknown,
    inputs_of,
    single_fields,
)
from dbselect.record.missing import features_of
from dbselect.results.call import Call
from dbselect.results.prediction.fallback import checked_frame, limits_of, run_plugin
from dbselect.results.prediction.predict import are_mappings, check_present, frame_of, read_of
from dbselect.results.prediction.stakes import stake_of
from dbselect.results.store import to_table
from dbselect.spec.refusals import refuse
from dbselect.spec.spec import Spec, answer_of, problem_of, require_single_target

#: Columns that the predictions have only with `level`.
BOUNDS = ("lower", "upper")
#: Columns that they have only where it is asked which rows are accepted.
STAKES = ("accept", "next_value")
#: Limits on p-value and gain, beyond which missingness of a group is informative.
TELLS = (0.01, 0.001)
_STORED = pa.struct([("predictor", pa.string()), ("gram", RECORD_TYPE)])


class AnytimePredictor(files.Stored, InNotebooks):
    """Predicts each row from all groups that it has, and names the group to buy next.

    Every subset of groups has its own least-squares model over the rows of the fit, not only the
    prefixes of one order.

    Parameters
    ----------
    source : Problem, or a source of a `Problem`: a table, a Gram, its record or a file of it
    target, groups, costs : as in `Problem`; not allowed if `source` is a Problem
    approximate : for a family, True to take each set of groups as a projection of the fit on all
        groups; r2 and sigma are then for the linear predictor of that fit. No bound on the error
        is known: compared with refits, in units of the spread of their predictions, it is mostly
        below 10 % if columns are normal, 5 to 50 % if they are skewed, and up to 200 % if they are
        very skewed or effects strong. Compare with `fit` on the groups that most rows have
    options : the other fields of a `Problem`

    Attributes
    ----------
    problem : the problem, without its rows
    gram : Gram of the target and the columns of the groups
    groups : Groups, their columns and costs

    Raises
    ------
    ArgumentError : a family without `approximate`, an offset, several targets or a lazy Gram; the
        record has fields of entries
    DataError : no usable rows, or a constant target

    Warns
    -----
    ConditionWarning, DependenceWarning : as `fit` on all groups

    Notes
    -----
    A set of groups is solved once, O(D^2 |S|) for D columns of which |S| are available. 4,096
    sets are cached, then the cache is cleared. Thread-safe; it pickles without the cache.

    Exact for rows in which groups are missing at random given the available ones. If missingness
    of a group is informative, read the table with ``null_policy="indicator"``.

    References
    ----------
    Mercaldo, Blume (2020), Missing data and prediction: the pattern submodel, Biostatistics 21.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> predictor = ds.AnytimePredictor(table, "y", costs={"a": 5.0, "b": 1.0})
    >>> predictor.predict({"b": 1.0})["next_group"]
    'a'
    >>> rows = pl.DataFrame({"a": [1, None], "b": [None, 1]})
    >>> predictor.predict(rows).select("prediction", "groups", "spent").rows()
    [(2.5, ['a'], 5.0), (6.0, ['b'], 1.0)]
    """

    def __init__(
        self,
        source: Any,
        target: Any = None,
        groups: Any = None,
        costs: Any = None,
        *,
        approximate: bool = False,
        **options: Any,
    ) -> None:
        FLAG.check("approximate", approximate)
        if isinstance(source, Spec):
            fields = {"target": target, "groups": groups, "costs": costs, **options}
            name = next((name for name, value in fields.items() if value is not None), None)
            if name is not None:
                raise ArgumentError(
                    f"{name} is {shown(fields[name])}; the problem has its own: "
                    f"problem.replace({name}=...).predictor()"
                )
            problem = source
        else:
            problem = problem_of(source, target, groups, costs, **options)
        if approximate and not problem.is_linear:
            require_single_target(problem.target)
            gram = answer_of(problem, "_projected_gram")
        else:
            refuse(problem, "predictor")
            gram, _ = answer_of(problem, "_gram_of_problem")
        self._set(problem, gram)
        if problem.is_linear:
            self._warn_of_dependence()

    def _set(self, problem: Spec, gram: Gram) -> None:
        """Set the attributes from a Gram; for a family, the Gram of its linear predictor."""
        load("linear.problem", "check_usable")(gram, problem.targets)
        if gram.terms.entries:
            raise ArgumentError(
                f"source has entries in field '{gram.terms.entries[0].column}'; a predictor reads "
                "none: leave the field out"
            )
        features = features_of(gram.columns, problem.targets, gram.terms)
        self.problem: Spec = problem.without_rows()
        self.groups = groups_of(
            features, problem.groups, problem.costs, problem.targets, gram.terms, told=problem.told
        )
        kept = [*problem.targets, *self.groups.members]
        self.gram = gram if set(kept) == set(gram.columns) else gram.spread(kept, gram.terms)
        self._readers: dict[Any, _native.RowPredictor] = {}

    def _warn_of_dependence(self) -> None:
        """Warn as `fit` on all groups, which are at least as dependent as any subset."""
        members = list(dict.fromkeys(self.groups.members))
        options = {name: getattr(self.problem, name) for name in ("intercept", "ridge", "scale")}
        fit = load("linear.least_squares", "least_squares")(
            self.gram, self.target, members, **options
        )
        load("linear.condition", "warn_of_dependence")(fit)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle, without the solved sets of groups."""
        return {"problem": self.problem, "groups": self.groups, "gram": self.gram, "_readers": {}}

    @cached_property
    def _mean(self) -> Formula | None:
        """The mean of the target as a formula of the linear predictor; None for least squares."""
        if self.problem.is_linear:
            return None
        family = load("glm.links", "family_of")(str(parse(self.problem.family)))
        return cast("Formula", family.means([column(("prediction",))])[0])

    def __repr__(self) -> str:
        rows = f"{self.gram.rows} rows"
        return f"AnytimePredictor({self.target} ~ {listed(self.groups.names)}; {rows})"

    @property
    def _glance(self) -> Glance:
        (empty,) = self.patterns([[]])
        names, costs = self.groups.names, self.groups.costs
        return Glance(pl.DataFrame({"group": names, "cost": costs, "gain alone": empty["gains"]}))

    @property
    def target(self) -> str:
        """The column that is predicted."""
        return self.problem.targets[0]

    @cached_property
    def costs(self) -> dict[str, float]:
        """Group -> cost."""
        return dict(zip(self.groups.names, self.groups.costs.tolist(), strict=True))

    def patterns(self, sets: Iterable[Iterable[str]]) -> list[dict[str, Any]]:
        """Return the model of each set of groups.

        Parameters
        ----------
        sets : lists of names of groups

        Returns
        -------
        A dict for each set: groups, in the order of the problem; intercept and coefficients;
        spent; r2 and sigma, as in `predict`; free, the degrees of freedom of sigma; and gains,
        the share that each group of the problem would add to what is explained

        Raises
        ------
        GroupError : there is no group of a name
        """
        available = [[*names] for names in sets]
        for name in {name for names in available for name in names}:
            self.groups.number(name, "sets")
        request = {**self._request, "available": available}
        answer = _native.answers(self.gram.to_arrow(), "patterns", self.target, request)
        if answer.field("status")[0].is_valid:
            raise DataError(str(answer.field("status")[0]))
        models = answer.field("found")[0].as_py()
        return [{**model, "coefficients": dict(model["coefficients"])} for model in models]

    @cached_property
    def _request(self) -> dict[str, Any]:
        """The options of the compiled library that do not depend on rows."""
        options = {name: getattr(self.problem, name) for name in ("intercept", "ridge", "scale")}
        told = self.groups.told.renamed(str)
        return {"groups": self.groups.columns, "costs": self.costs, **options, **told}

    def predict(
        self,
        rows: Any,
        budget: Any = None,
        *,
        level: float | None = None,
        accept_above: float | None = None,
        worth: float | None = None,
        payoff: tuple[float, float] | None = None,
        columns: Sequence[str] | None = None,
        handle_unknown: HandleUnknown = "unavailable",
        missing_columns: MissingColumns | None = None,
    ) -> Any:
        """Predict each row from all groups that it has.

        Parameters
        ----------
        rows : a frame or Arrow table with the column names of the fit; or numbers of shape
            (n, d); or one row, a mapping of names to values; or a list of such rows
        budget : limit on the cost of the next group, in the unit of cost. None = no limit; or
            one for each row, where missing is no limit
        level : probability of an interval, between 0 and 1
        accept_above, worth : accept the rows in which worth times (prediction - accept_above) is
            above 0, an amount in the unit of cost, and choose next_group by what it is worth.
            `worth` is that of one unit of the target, negative if low predictions are accepted.
            Default: no row is accepted; if one of them is given, 0 and 1
        payoff : instead of these, for a target of 0 and 1: what an accepted row earns if it is 1,
            and loses if it is 0, in the unit of cost; the loss with or without its sign
        columns : names of d columns; default: those of the groups, in their order
        handle_unknown : how to treat a level that the fit has not seen: ``"unavailable"`` takes
            its group as missing; ``"error"`` and ``"mean"`` as in `Model.expr`
        missing_columns : how to treat a column that the rows lack: ``"error"`` raises,
            ``"unavailable"`` takes its group as missing; default: ``"unavailable"``, unless the
            rows have a column of a similar name, or of that of a group

        Returns
        -------
        DataFrame, one row per row; a dict for a mapping. prediction; groups, as Enum, that it has,
        and spent, their cost; r2, the share of the target's variance that they explain, and
        sigma, the standard deviation of the residuals, on the rows of the fit; with `level`
        lower and upper; next_group, the missing group with the largest gain per cost,
        next_gain, the share that it adds to what is explained, and next_cost; NULL if none
        gains or fits the budget. With `accept_above`, `worth` or `payoff` accept, and next_value,
        what buying next_group, alone or with others after it, is worth above all its costs;
        next_group is then the best of these, NULL if none is worth its costs and within the budget

        Raises
        ------
        ArgumentError : rows have another shape, or text in a column of numbers; a budget is
            no number >= 0; `level` is not between 0 and 1; `worth` is 0; `payoff` is no pair, or
            given with `accept_above` or `worth`, or for a target of other values than 0 and 1; a
            family other than binomial with one of these
        ColumnError : the rows lack a column, or a category has another type; the rows have a
            name similar to a column that they lack
        DataError : with ``"error"``, a level that the fit has not seen

        Notes
        -----
        A NULL, a NaN and an infinite value are not available, unless the fit filled them. The
        interval is ``prediction -+ t sigma`` by Student's t; it ignores the uncertainty of the
        coefficients.

        A purchase is worth ``s phi(m / s) + m Phi(m / s) - max(m, 0)`` less its cost, where m is
        worth (prediction - accept_above) and s is ``|worth| sd(y)`` times the root of the share
        that it adds to what is explained; for a binomial family the same expectation over normal
        linear predictors. Every group is looked at, and after it others by gain per cost: two tests
        may pay only together. Predictions must be about normal given what the row has;
        `Problem.simulate` with ``rule="value"`` measures what was earned. Source: Howard (1966),
        Information value theory, IEEE Transactions on Systems Science and Cybernetics 2.

        A mapping takes some 20 microseconds once its pattern is solved. The
        predictions of a million rows of 15 columns take about twice the processor time of one
        plain expression, on all cores, and writing the columns `groups` to `next_cost`, 57 MB,
        as much as that expression.
        """
        check_unknown(handle_unknown)
        stake = self._stake(accept_above, worth, payoff)
        if missing_columns is not None:
            check_missing_columns(missing_columns)
        SHARE.or_none().check("level", level)
        if level is not None and self._mean is not None:
            raise ArgumentError(f"level is {level}; of a family there is no interval")
        several = are_mappings(rows)
        absent = missing_columns or "unavailable"
        reader = self._reader(level, handle_unknown, absent, *stake.items())
        if isinstance(rows, Mapping):
            BUDGET.check("budget", budget)
            most = math.inf if budget is None else float(budget)
            answer = json.loads(reader.predict(_json_of(rows), most))
            if self._mean is not None:
                answer["prediction"] = _mean_at(self._mean, answer["prediction"])
            return answer
        limits = limits_of(budget)
        for names in {tuple(row) for row in rows} if several else ():
            self.predict(dict.fromkeys(names))  # refuses a name that is similar to a field's

        def read_from(frame: pl.DataFrame) -> list[Input]:
            read, lacks = read_of(frame, self._inputs)
            if lacks and absent == "unavailable":
                self.predict(dict.fromkeys(frame.columns))  # refuses such a name
            check_present(lacks, frame, self._inputs, absent)
            return read

        frame = checked_frame(rows, columns, self.groups.members, self._inputs, read_from, limits)
        if not frame.columns:
            frame = frame_of(np.zeros((frame.height, 0)), [])
        fields = dict.fromkeys(str(part.path[0]) for part in single_fields(*read_from(frame)))
        row = pl.struct([*fields] or frame.columns[:1])
        limit = pl.lit(limits if isinstance(limits, float) else pl.Series(limits), pl.Float64)
        options = self._options(level, handle_unknown, absent, *stake.items())
        call = available_expr(self._literal, row, limit, options, apart=True)
        result = run_plugin(frame, call).struct
        values, at, patterns = (result.field(name)[0] for name in ("values", "at", "told"))
        hidden = (*STAKES, *(() if level is not None else BOUNDS))
        shown = [name for name in patterns.struct.fields if name not in hidden]
        of_rows = {name: pl.col(name).gather(at) for name in shown}
        of_rows |= {name: of_rows[name] + values for name in shown if name in BOUNDS}
        of_stake = {name: result.field(name)[0] for name in STAKES if stake}
        enum = pl.Enum(self.groups.names)  # numbers are written faster than names
        of_patterns = patterns.struct.unnest()
        of_patterns = of_patterns.cast({"groups": pl.List(enum), "next_group": enum})
        table = of_patterns.select(**of_rows | {"prediction": values} | of_stake)
        if self._mean is not None:
            mean = translate(self._mean, formulas.polars())
            table = table.with_columns(mean.alias("prediction"))
        return table

    def missing_tells(self, rows: Any) -> pl.DataFrame:
        """Test for each group whether its missingness is informative about the target.

        Parameters
        ----------
        rows : a frame or Arrow table with the target, in which groups are missing

        Returns
        -------
        DataFrame, one row per group that some rows lack: group; missing, the share of these rows;
        effect, their mean residual less that of the other rows; gain, the share of the target's
        variance that an indicator would add; p_value of the effect (Welch); and take, the null
        policy ``"indicator"`` if p is below 1 % and the gain above 0.1 %, else ``"patterns"``

        Raises
        ------
        ColumnError : the rows lack the target, or a column
        """
        from scipy.stats import ttest_ind  # a local import, as slow as that of dbselect

        frame = rows_in_memory(rows)
        check_present([self.target] if self.target not in frame.columns else [], frame)
        y = frame[self.target].cast(pl.Float64).to_numpy()
        predictions = self.predict(frame)
        residual, has_y = y - predictions["prediction"].to_numpy(), np.isfinite(y)
        tests = []
        for name in self.costs:
            lacks = ~predictions["groups"].list.contains(name).to_numpy()
            absent, present = residual[lacks & has_y], residual[~lacks & has_y]
            if len(absent) < 2 or len(present) < 2:
                continue
            share = len(absent) / (len(absent) + len(present))
            effect = absent.mean() - present.mean()
            gain = share * (1.0 - share) * effect**2 / y[has_y].var()
            p = float(ttest_ind(absent, present, equal_var=False).pvalue)
            take = "indicator" if p < TELLS[0] and gain > TELLS[1] else "patterns"
            tests.append((name, share, effect, gain, p, take))
        names = ("group", "missing", "effect", "gain", "p_value", "take")
        numbers = dict.fromkeys(names[1:5], pl.Float64)
        schema = {"group": pl.String, **numbers, "take": pl.String}
        return pl.DataFrame(tests, schema=schema, orient="row")

    def _stake(self, above: Any, worth: Any, payoff: Any) -> dict[str, Any]:
        """Return what is at stake in a row, as options of the compiled library."""
        stake = stake_of(above, worth, payoff)
        if stake and self._mean is not None:
            family = str(parse(self.problem.family))
            if not family.startswith("binomial"):
                raise ArgumentError(
                    f"{next(iter(stake))} is given for family {family!r}; what a row is worth is "
                    "known of predictions that are linear, and of probabilities"
                )
            stake["family"] = family
        return stake

    def _options(
        self, level: Any, unknown: str, absent: str, *stake: tuple[str, Any]
    ) -> dict[str, Any]:
        of_rows = {"level": level, "handle_unknown": unknown, "missing_columns": absent}
        return {"target": self.target, **self._request, **of_rows, **dict(stake)}

    def _reader(self, *key: Any) -> _native.RowPredictor:
        if key not in self._readers:
            options = _json_of_options(self._options(*key))
            self._readers[key] = _native.RowPredictor(self.gram.to_arrow(), options)
        return self._readers[key]

    @cached_property
    def _inputs(self) -> list[Input]:
        return inputs_of(self.groups.members, self.gram.terms)

    @cached_property
    def _literal(self) -> pl.Expr:
        """The record of the Gram as a literal."""
        return pl.lit(self.gram.to_struct(), dtype=RECORD_DTYPE)

    def to_struct(self) -> dict[str, Any]:
        """Return the predictor as plain Python data: the problem and its Gram."""
        return {"predictor": Call(self.problem, "predictor").to_json(),
                "gram": self.gram.to_struct()}  # fmt: skip

    @classmethod
    def from_struct(cls, record: Any) -> Self:
        """Read a record of `to_struct`; RecordError for another one."""
        predictor = cls.__new__(cls)
        problem = Call.from_json(str(record["predictor"])).problem
        predictor._set(problem, Gram.from_struct(record["gram"]))
        return predictor

    def write_parquet(self, path: Any) -> None:
        """Write a Parquet file of one row; in SQL ``predict_available`` takes its ``gram``."""
        files.write_parquet(to_table(self.to_struct(), _STORED), path)


def available_expr(
    record: pl.Expr,
    row: pl.Expr,
    budget: pl.Expr,
    options: Mapping[str, Any],
    *,
    apart: bool = False,
) -> pl.Expr:
    """Return the predictions of rows by records as an expression.

    `apart`: a single row of lists: predictions, the number of each row's pattern, and the patterns.
    """
    return register_plugin_function(
        plugin_path=_native.library_path(),
        function_name="predict_apart" if apart else "predict_available",
        args=[record, row, budget, pl.lit(_json_of_options(options))],
        is_elementwise=not apart,
        returns_scalar=apart,
    )


def _mean_at(mean: Formula, eta: float) -> float:
    algebra = formulas.arrays(lambda _: np.array(eta))
    return float(translate(mean, algebra))


def _json_of_options(options: Mapping[str, Any]) -> str:
    return json.dumps({k: v for k, v in options.items() if v is not None}, default=list)


def _json_of(row: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(row, default=_plain, allow_nan=False).encode()
    except ValueError:
        finite = {name: _finite(value) for name, value in row.items()}
        return json.dumps(finite, default=_plain, allow_nan=False).encode()


def _finite(value: Any) -> Any:
    """Replace NaN and infinite values by None, in lists as well."""
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _plain(value: Any) -> Any:
    """Convert a value that JSON lacks; a date becomes its seconds since 1970."""
    if isinstance(value, date):
        day = value if isinstance(value, datetime) else datetime(*value.timetuple()[:3])
        seconds = _finite(day.replace(tzinfo=day.tzinfo or UTC).timestamp())
        return None if seconds is None else {"seconds": seconds}
    if hasattr(value, "tolist"):
        return _finite(value.tolist())
    return _finite(float(value)) if hasattr(value, "__float__") else str(value)

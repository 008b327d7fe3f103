"""Prediction from the groups that a row has, and what to buy next: one solve for each pattern."""

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
from dbselect.pages.glance import Glance, InNotebooks
from dbselect.pages.html import listed
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
from dbselect.results.prediction.fallback import asked_of_library, frame_asked, limits_of
from dbselect.results.prediction.predict import are_mappings, check_there, read_of
from dbselect.results.store import to_table
from dbselect.spec.combination import require_single_target
from dbselect.spec.refusals import refuse
from dbselect.spec.spec import Spec, answer_of, problem_of

#: Columns that the predictions have only with a level.
BOUNDS = ("lower", "upper")
#: A p-value, and a share of the target's variance, from which on it tells that a group is missing.
TELLS = (0.01, 0.001)
_STORED = pa.struct([("predictor", pa.string()), ("gram", RECORD_TYPE)])


class AnytimePredictor(files.Stored, InNotebooks):
    """Predicts each row from all groups that it has, and names the group to buy next.

    Each set of groups has the least-squares model on its columns, over the rows of the fit: not
    only the prefixes of one order.

    Parameters
    ----------
    source : Problem, or what a `Problem` takes: a table, a Gram, its record or a file of it
    target, groups, costs : as of `Problem`; of a Problem none
    approximate : of a family, whether each set of groups is a projection of the fit on all groups:
        r2 and sigma are then of the linear predictor of that fit. No bound on its error is known:
        against refits it is, in the spread of their predictions, mostly below 10 % where columns
        are normal, 5 to 50 % where they are skewed, and up to twice the spread where they are
        very skewed or effects strong. Compare with `fit` on the groups that rows mostly have
    options : the other fields of a `Problem`

    Attributes
    ----------
    problem : what is asked, without its rows
    gram : of the target and the columns of the groups
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
    A set of groups is solved once, O(D^2 |S|) for D columns of which |S| are there. 4,096 sets
    are kept, then all are forgotten. Safe for threads; it pickles without the sets.

    Exact for rows in which groups are missing at random given those that are there. Where it
    tells of the target that a group is missing, read the table with ``null_policy="indicator"``.

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
            given = {"target": target, "groups": groups, "costs": costs, **options}
            name = next((name for name, value in given.items() if value is not None), None)
            if name is not None:
                raise ArgumentError(
                    f"{name} is {shown(given[name])}; the problem has its own: "
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
        """Take a Gram, of a family that of its linear predictor."""
        load("linear.problem", "check_usable")(gram, problem.targets)
        if gram.terms.entries:
            raise ArgumentError(
                f"source has entries in field '{gram.terms.entries[0].column}'; a predictor reads "
                "none: leave the field out"
            )
        features = features_of(gram.columns, problem.targets, gram.terms)
        self.problem: Spec = problem.without_rows()
        self.groups = groups_of(
            features, problem.groups, problem.costs, problem.targets, gram.terms
        )
        kept = [*problem.targets, *self.groups.members]
        self.gram = gram if set(kept) == set(gram.columns) else gram.spread(kept, gram.terms)
        self._readers: dict[Any, _native.RowPredictor] = {}

    def _warn_of_dependence(self) -> None:
        """Warn as `fit` does on all groups, which depend on each other as much as any."""
        members = list(dict.fromkeys(self.groups.members))
        own = {name: getattr(self.problem, name) for name in ("intercept", "ridge", "scale")}
        found = load("linear.least_squares", "least_squares")(
            self.gram, self.target, members, **own
        )
        load("linear.condition", "warn_of_dependence")(found)

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: nothing that is solved anew."""
        return {"problem": self.problem, "groups": self.groups, "gram": self.gram, "_readers": {}}

    @cached_property
    def _mean(self) -> Formula | None:
        """The mean of the target, given the linear predictor of a family."""
        if self.problem.is_linear:
            return None
        family = load("glm.named", "family_of")(str(parse(self.problem.family)))
        return cast(Formula, family.means([column(("prediction",))])[0])

    def __repr__(self) -> str:
        rows = f"{self.gram.rows} rows"
        return f"AnytimePredictor({self.target} ~ {listed(self.groups.names)}; {rows})"

    @property
    def _glance(self) -> Glance:
        (alone,) = self.patterns([[]])
        own = {"group": self.groups.names, "cost": self.groups.costs, "gain alone": alone["gains"]}
        return Glance(pl.DataFrame(own))

    @property
    def target(self) -> str:
        """The column that is predicted."""
        return self.problem.targets[0]

    @cached_property
    def costs(self) -> dict[str, float]:
        """What each group costs."""
        return dict(zip(self.groups.names, self.groups.costs.tolist(), strict=True))

    def patterns(self, sets: Iterable[Iterable[str]]) -> list[dict[str, Any]]:
        """Return the model of each of some sets of groups.

        Parameters
        ----------
        sets : names of groups each

        Returns
        -------
        For each its groups, in the order of the problem; intercept and coefficients; spent; r2
        and sigma, as of `predict`; free, the rows that are left to estimate sigma; and gains,
        what each group of the problem would add to the share that is explained

        Raises
        ------
        GroupError : there is no group of a name
        """
        asked = [[*one] for one in sets]
        for name in {name for one in asked for name in one}:
            self.groups.number(name, "sets")
        found = _native.answers(
            self.gram.to_arrow(), "patterns", self.target, {**self._asked, "available": asked}
        )
        if found.field("status")[0].is_valid:
            raise DataError(str(found.field("status")[0]))
        each = found.field("found")[0].as_py()
        return [{**one, "coefficients": dict(one["coefficients"])} for one in each]

    @cached_property
    def _asked(self) -> dict[str, Any]:
        """What the library is asked, by name."""
        own = {name: getattr(self.problem, name) for name in ("intercept", "ridge", "scale")}
        return {"groups": self.groups.columns, "costs": self.costs, **own}

    def predict(
        self,
        rows: Any,
        budget: Any = None,
        *,
        level: float | None = None,
        columns: Sequence[str] | None = None,
        handle_unknown: HandleUnknown = "unavailable",
        missing_columns: MissingColumns | None = None,
    ) -> Any:
        """Predict each row from all groups that it has.

        Parameters
        ----------
        rows : a frame or Arrow table as the one of the fit, read by its own names; or numbers
            of shape (n, d); or one row, a mapping of names to values; or a list of such rows
        budget : what may still be bought, in the unit of cost: the next group costs no more.
            None = no limit; or one for each row, where missing is no limit
        level : probability of an interval, between 0 and 1
        columns : names of d columns; default: those of the groups, in their order
        handle_unknown : how to treat a level that the fit has not seen: ``"unavailable"`` takes
            its group as missing; ``"error"`` and ``"mean"`` as in `Model.expr`
        missing_columns : how to treat a column that the rows lack: ``"error"`` raises,
            ``"unavailable"`` takes its group as missing; default: ``"unavailable"`` of
            mappings, which have no type, else ``"error"``

        Returns
        -------
        DataFrame, one row a row; of a mapping a dict. prediction; groups that the row has, and
        spent, what they cost; r2, the share of the target's variance that they explain, and
        sigma, the standard deviation of the residuals, on the rows of the fit; with `level`
        lower and upper; next_group, of the others the one of the largest gain per cost,
        next_gain, what it adds to what is explained, and next_cost; NULL where none gains or
        fits the budget

        Raises
        ------
        ArgumentError : rows have another shape, or text where a number was learnt; a budget is
            no number >= 0; `level` is not between 0 and 1
        ColumnError : the rows lack a column, or a category has another type; a mapping has a
            name that is nearly one that it lacks
        DataError : with ``"error"``, a level that the fit has not seen

        Notes
        -----
        A NULL, a NaN and an infinite value are not available, unless the fit filled them. The
        interval is ``prediction -+ t sigma`` by Student's t; it leaves out how uncertain the
        coefficients are. A mapping takes some 20 microseconds once its pattern is known. The
        predictions of a million rows of 15 columns take some 2 times as much of the processors
        as one plain expression, on all cores, and writing the columns `groups` to `next_cost`,
        57 MB, as much as that expression.
        """
        check_unknown(handle_unknown)
        if missing_columns is not None:
            check_missing_columns(missing_columns)
        SHARE.or_none().check("level", level)
        if level is not None and self._mean is not None:
            raise ArgumentError(f"level is {level}; of a family there is no interval")
        several = are_mappings(rows)
        untyped = several or isinstance(rows, Mapping)
        absent = missing_columns or ("unavailable" if untyped else "error")
        if isinstance(rows, Mapping):
            BUDGET.check("budget", budget)
            reader = self._reader(level, handle_unknown, absent)
            most = math.inf if budget is None else float(budget)
            told = json.loads(reader.predict(_json_of(rows), most))
            if self._mean is not None:
                told["prediction"] = _mean_at(self._mean, told["prediction"])
            return told
        limits = limits_of(budget)
        for shape in {tuple(row) for row in rows} if several else ():
            self.predict(dict.fromkeys(shape))  # which refuses a name that is nearly a field

        def refused(frame: pl.DataFrame) -> list[Input]:
            read, lacks = read_of(frame, self._inputs)
            check_there(lacks, frame, absent)
            return read

        frame = frame_asked(rows, columns, self.groups.members, self._inputs, refused, limits)
        fields = dict.fromkeys(str(one.path[0]) for one in single_fields(*refused(frame)))
        asked = pl.struct([*fields] or frame.columns[:1])
        limit = pl.lit(limits if isinstance(limits, float) else pl.Series(limits), pl.Float64)
        told = self._told(level, handle_unknown, absent)
        apart = available_expr(self._literal, asked, limit, told, apart=True)
        found = asked_of_library(frame, apart).struct
        values, at, shared = (found.field(name)[0] for name in ("values", "at", "told"))
        names = [name for name in shared.struct.fields if level is not None or name not in BOUNDS]
        of_rows = {name: pl.col(name).gather(at) for name in names}
        of_rows |= {name: of_rows[name] + values for name in names if name in BOUNDS}
        table = shared.struct.unnest().select(**of_rows | {"prediction": values})
        if self._mean is not None:
            mean = translate(self._mean, formulas.polars())
            table = table.with_columns(mean.alias("prediction"))
        return table

    def missing_tells(self, rows: Any) -> pl.DataFrame:
        """Say for each group whether it tells of the target that the group is missing.

        Parameters
        ----------
        rows : a frame or Arrow table with the target, in which groups are missing

        Returns
        -------
        DataFrame, one row a group that some rows lack: group; missing, their share; effect, how
        much larger the target is there than predicted, beside other rows; gain, the share of
        the target's variance that an indicator would add; p_value of the effect (Welch); and
        take, ``"indicator"`` of a null policy where p is below 1 % and the gain above 0.1 %, else
        ``"patterns"``

        Raises
        ------
        ColumnError : the rows lack the target, or a column
        """
        from scipy.stats import ttest_ind  # which takes as long to import as dbselect

        frame = rows_in_memory(rows)
        check_there([self.target] if self.target not in frame.columns else [], frame)
        y = frame[self.target].cast(pl.Float64).to_numpy()
        found = self.predict(frame)
        left, known = y - found["prediction"].to_numpy(), np.isfinite(y)
        told = []
        for name in self.costs:
            lacks = ~found["groups"].list.contains(name).to_numpy()
            out, there = left[lacks & known], left[~lacks & known]
            if len(out) < 2 or len(there) < 2:
                continue
            share, effect = len(out) / (len(out) + len(there)), out.mean() - there.mean()
            gain = share * (1.0 - share) * effect**2 / y[known].var()
            p = float(ttest_ind(out, there, equal_var=False).pvalue)
            take = "indicator" if p < TELLS[0] and gain > TELLS[1] else "patterns"
            told.append((name, share, effect, gain, p, take))
        names = ("group", "missing", "effect", "gain", "p_value", "take")
        numbers = dict.fromkeys(names[1:5], pl.Float64)
        schema = {"group": pl.String, **numbers, "take": pl.String}
        return pl.DataFrame(told, schema=schema, orient="row")

    def _told(self, level: Any, unknown: str, absent: str) -> dict[str, Any]:
        own = {"level": level, "handle_unknown": unknown, "missing_columns": absent}
        return {"target": self.target, **self._asked, **own}

    def _reader(self, *told: Any) -> _native.RowPredictor:
        if told not in self._readers:
            asked = _json_of_options(self._told(*told))
            self._readers[told] = _native.RowPredictor(self.gram.to_arrow(), asked)
        return self._readers[told]

    @cached_property
    def _inputs(self) -> list[Input]:
        return inputs_of(self.groups.members, self.gram.terms)

    @cached_property
    def _literal(self) -> pl.Expr:
        """The record, as one value for all rows."""
        return pl.lit(self.gram.to_struct(), dtype=RECORD_DTYPE)

    def to_struct(self) -> dict[str, Any]:
        """Return the predictor as plain Python data: the problem and its Gram."""
        return {"predictor": Call(self.problem, "predictor").to_json(),
                "gram": self.gram.to_struct()}  # fmt: skip

    @classmethod
    def from_struct(cls, record: Any) -> Self:
        """Read what `to_struct` gave; RecordError if it is something else."""
        found = cls.__new__(cls)
        problem = Call.from_json(str(record["predictor"])).problem
        found._set(problem, Gram.from_struct(record["gram"]))
        return found

    def write_parquet(self, path: Any) -> None:
        """Write a Parquet file of one row; in SQL ``predict_available`` takes its ``gram``."""
        files.write_parquet(to_table(self.to_struct(), _STORED), path)


def available_expr(
    record: pl.Expr,
    row: pl.Expr,
    budget: pl.Expr,
    asked: Mapping[str, Any],
    *,
    apart: bool = False,
) -> pl.Expr:
    """Return the predictions of rows by records as an expression.

    `apart`: one row of lists, predictions, where each stands in what rows have in common, and that.
    """
    return register_plugin_function(
        plugin_path=_native.library_path(),
        function_name="predict_apart" if apart else "predict_available",
        args=[record, row, budget, pl.lit(_json_of_options(asked))],
        is_elementwise=not apart,
        returns_scalar=apart,
    )


def _mean_at(mean: Formula, eta: float) -> float:
    algebra = formulas.arrays(lambda _: np.array(eta))
    return float(translate(mean, algebra))


def _json_of_options(asked: Mapping[str, Any]) -> str:
    return json.dumps({name: one for name, one in asked.items() if one is not None}, default=list)


def _json_of(row: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(row, default=_plain, allow_nan=False).encode()
    except ValueError:
        finite = {name: _finite(one) for name, one in row.items()}
        return json.dumps(finite, default=_plain, allow_nan=False).encode()


def _finite(value: Any) -> Any:
    """Return a value, None of a NaN or an infinite one, which are missing; of a list each."""
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _plain(value: Any) -> Any:
    """Return a value that JSON does not know: a date as its seconds since 1970."""
    if isinstance(value, date):
        day = value if isinstance(value, datetime) else datetime(*value.timetuple()[:3])
        seconds = _finite(day.replace(tzinfo=day.tzinfo or UTC).timestamp())
        return None if seconds is None else {"seconds": seconds}
    if hasattr(value, "tolist"):
        return _finite(value.tolist())
    return _finite(float(value)) if hasattr(value, "__float__") else str(value)

"""Prediction from whatever groups of a row have arrived, and what to buy next.

The groups that a row has are its pattern. On a Gram the best linear prediction from any pattern
is one solve, and so is the gain of every further group; see `native/src/arrived`.
"""

import json
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any, Self, overload

import polars as pl
import pyarrow as pa
from polars.plugins import register_plugin_function

from dbselect import _native
from dbselect._lazy import load
from dbselect.errors import ArgumentError, ColumnError, DataError, shown
from dbselect.options.kinds import BUDGET, SHARE
from dbselect.options.refusals import refuse
from dbselect.pages.glance import Glance, InNotebooks
from dbselect.pages.short import listed
from dbselect.record import files
from dbselect.record.gram import RECORD_DTYPE, RECORD_TYPE, Gram
from dbselect.record.groups import Groups, groups_of
from dbselect.record.inputs import (
    HandleUnknown,
    Input,
    Levels,
    MissingColumns,
    check_missing_columns,
    check_unknown,
    inputs_of,
)
from dbselect.record.missing import features_of
from dbselect.record.shares import shares_of
from dbselect.results.call import Call
from dbselect.results.prediction.fallback import limits_of
from dbselect.results.prediction.one_row import Pattern, Row, RowReader
from dbselect.results.prediction.predict import (
    array_of,
    check_there,
    frame_of,
    prediction_table,
    read_of,
)
from dbselect.results.store import to_table

if TYPE_CHECKING:
    from dbselect.problem.problem import Problem

#: Patterns that are kept of a predictor; of more, all are solved anew.
MOST_PATTERNS = 4096
#: Columns that the predictions have only with a level.
BOUNDS = ("lower", "upper")
_BUDGET = "__dbselect_budget"
_STORED = pa.struct([("predictor", pa.string()), ("gram", RECORD_TYPE)])


class AnytimePredictor(files.Stored, InNotebooks):
    """Predicts each row from all groups that it has, and names the group to buy next.

    The groups of a row whose columns are all available are its pattern. Each pattern has the
    least-squares model on its columns, over the rows of the fit: not the prefix of one order.

    Parameters
    ----------
    source : Problem, or what a `Problem` takes: a table, a Gram, its record or a file of it
    target, groups, costs, options : as of `Problem`; of a Problem none

    Attributes
    ----------
    problem : what is asked, without its rows
    gram : of the target and the columns of the groups
    groups : Groups, their columns and costs

    Raises
    ------
    ArgumentError : a family, an offset, several targets or a lazy Gram; the record has fields of
        entries

    Notes
    -----
    A pattern costs one Cholesky factor, O(D^2 |S|) for D columns of which |S| are there, once:
    4,096 patterns are kept, then all are forgotten. Gains are those of `anytime_sequence`, of
    the objective with the ridge. Safe for threads; pickles without the patterns.

    The models are exact for rows in which groups are missing at random given those that are
    there. Where it tells of the target that a group is missing, read the table with
    ``null_policy="indicator"``: every row then has every group.

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
        **options: Any,
    ) -> None:
        kind = load("problem.problem", "Problem")
        given = {"target": target, "groups": groups, "costs": costs, **options}
        if isinstance(source, kind):
            for name, value in given.items():
                if value is not None:
                    raise ArgumentError(
                        f"{name} is {shown(value)}; the problem has its own: "
                        f"problem.replace({name}=...).predictor()"
                    )
            problem = source
        else:
            problem = kind(source, target, groups, costs, **options)
        refuse(problem, "predictor")
        gram, _ = load("search.table", "gram_of_problem")(problem)
        load("linear.problem", "check_usable")(gram, problem.targets)
        if gram.terms.entries:
            raise ArgumentError(
                f"source has entries in field '{gram.terms.entries[0].column}'; a predictor reads "
                "none: leave the field out"
            )
        features = features_of(gram.columns, problem.targets, gram.terms)
        self._set(problem, gram, groups_of(
            features, problem.groups, problem.costs, problem.targets, gram.terms
        ))  # fmt: skip

    def _set(self, problem: "Problem", gram: Gram, groups: Groups) -> None:
        self.problem = problem.without_rows()
        self.groups = groups
        kept = [*problem.targets, *groups.members]
        self.gram = gram if set(kept) == set(gram.columns) else gram.spread(kept, gram.terms)
        self.__setstate__({})

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: no patterns, which are solved anew."""
        return {"problem": self.problem, "groups": self.groups, "gram": self.gram}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take what was pickled."""
        self.__dict__.update(state)
        self._patterns: dict[tuple[str, ...], Pattern] = {}
        self._readers: dict[HandleUnknown, RowReader] = {}
        self._lock = Lock()

    def __repr__(self) -> str:
        rows = f"{self.gram.rows} rows"
        return f"AnytimePredictor({self.target} ~ {listed(self.groups.names)}; {rows})"

    @property
    def _glance(self) -> Glance:
        empty = self.pattern([])
        costs = self.costs
        return Glance(
            pl.DataFrame(
                {
                    "group": list(costs),
                    "cost": list(costs.values()),
                    "gain alone": [empty.gains[name] for name in costs],
                }
            )
        )

    @property
    def target(self) -> str:
        """The column that is predicted."""
        return self.problem.targets[0]

    @cached_property
    def costs(self) -> dict[str, float]:
        """What each group costs."""
        return dict(zip(self.groups.names, self.groups.costs.tolist(), strict=True))

    def pattern(self, groups: Sequence[str]) -> Pattern:
        """Return the model of some groups, solved once.

        Parameters
        ----------
        groups : names

        Raises
        ------
        GroupError : there is no group of a name
        DataError : the record is that of no rows
        """
        numbers = sorted({self.groups.number(name, "groups") for name in groups})
        key = tuple(self.groups.names[number] for number in numbers)
        known = self._patterns.get(key)
        if known is None:
            known = self._solved([key])[0]
            with self._lock:
                if len(self._patterns) >= MOST_PATTERNS:
                    self._patterns.clear()
                self._patterns[key] = known
        return known

    def _solved(self, sets: Sequence[Sequence[str]]) -> list[Pattern]:
        """Return the models of some sets of groups, in the order of the problem each."""
        asked = {**self._asked, "available": [list(one) for one in sets]}
        found = _native.answers(self.gram.to_arrow(), "patterns", self.target, asked)
        if found.field("status")[0].is_valid:
            raise DataError(str(found.field("status")[0]))
        return [
            Pattern(**{
                **one,
                "coefficients": dict(one["coefficients"]),
                "gains": {
                    name: gain
                    for name, gain in zip(self.groups.names, one["gains"], strict=True)
                    if name not in one["groups"]
                },
            })
            for one in found.field("found")[0].as_py()
        ]  # fmt: skip

    @property
    def _asked(self) -> dict[str, Any]:
        """What the library is asked, by name."""
        fields = ("intercept", "ridge", "scale")
        own = {name: getattr(self.problem, name) for name in fields}
        return {"groups": self.groups.columns, "costs": self.costs, **own}

    @overload
    def predict(self, rows: Row, budget: float | None = ..., **options: Any) -> dict[str, Any]: ...

    @overload
    def predict(self, rows: Any, budget: Any = ..., **options: Any) -> pl.DataFrame: ...

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
            of shape (n, d); or one row as a mapping of names to values
        budget : what may still be bought, in the unit of cost: the next group costs no more.
            None = no limit; or one for each row, where missing is no limit
        level : probability of an interval, 0 to 1
        columns : names of d columns; default: those of the groups, in their order
        handle_unknown : how to treat a level that the fit has not seen: ``"unavailable"`` takes
            its group as missing; ``"error"`` and ``"mean"`` as in `Model.expr`
        missing_columns : how to treat a column that the rows lack: ``"error"`` raises,
            ``"unavailable"`` takes its group as missing; default: ``"unavailable"`` of a
            mapping, which has no type, else ``"error"``

        Returns
        -------
        DataFrame, one row a row; of a mapping a dict. prediction; groups, those that the row
        has; spent, what they cost; r2, the share of the target's variance that they explain, and
        sigma, the standard deviation of the residuals, on the rows of the fit; with `level`
        lower and upper; next_group, of those that the row lacks the one of the largest gain per
        cost, next_gain, what it would add to what is explained, and next_cost. NULL where no
        group gains, or none is within the budget

        Raises
        ------
        ArgumentError : rows have another shape, or text where a number was learnt; a budget is
            no number >= 0; `level` is not between 0 and 1
        ColumnError : the rows lack a column, or a category has another type
        DataError : with ``"error"``, a level that the fit has not seen

        Notes
        -----
        A NULL or NaN is not available, unless the fit filled it, and an infinite value counts as
        one. The interval is ``prediction -+ t sigma`` by Student's t: it leaves out what is
        unknown of the coefficients, which is small for many rows. A frame costs some 1.5 times
        what one expression of a model does.
        """
        check_unknown(handle_unknown)
        if missing_columns is not None:
            check_missing_columns(missing_columns)
        SHARE.or_none().check("level", level)
        if isinstance(rows, Mapping):
            return self._of_mapping(rows, budget, level, handle_unknown, missing_columns)
        limits = limits_of(budget)
        absent = missing_columns or "error"
        for one in self._inputs:
            if isinstance(one, Levels):
                one.check_shares(handle_unknown)

        def refused(frame: pl.DataFrame) -> None:
            check_there(read_of(frame, self._inputs)[1], frame, absent)

        frame = prediction_table(rows, columns, self._inputs, refused)
        if frame is None:
            names = self.groups.members if columns is None else list(columns)
            frame = frame_of(array_of(rows, names), names)
        refused(frame)
        read, _ = read_of(frame, self._inputs)
        fields = list(dict.fromkeys(str(one.path[0]) for one in read)) or frame.columns[:1]
        if isinstance(limits, float):
            asked = frame.select(fields).lazy()
            limit = pl.lit(None if math.isinf(limits) else limits, pl.Float64)
        else:
            if len(limits) != frame.height:
                raise ArgumentError(
                    f"budget has {len(limits)} values; there are {frame.height} rows"
                )
            asked = frame.select(fields).with_columns(pl.Series(_BUDGET, limits)).lazy()
            limit = pl.when(pl.col(_BUDGET).is_finite()).then(pl.col(_BUDGET))
        told = {"level": level, "handle_unknown": handle_unknown, "missing_columns": absent}
        found = available_expr(
            self._literal, pl.struct(fields), limit, {"target": self.target, **self._asked, **told}
        )
        try:
            table = asked.select(found.alias("found")).collect().unnest("found")
        except pl.exceptions.ComputeError as error:
            raise DataError(_sentence(error)) from None
        return table if level is not None else table.drop(BOUNDS)

    @cached_property
    def _inputs(self) -> list[Input]:
        """The fields that are read."""
        terms = self.gram.terms.with_shares(shares_of(self.gram))
        return inputs_of(self.groups.members, terms)

    @cached_property
    def _literal(self) -> pl.Expr:
        """The record, as one value for all rows."""
        return pl.lit(self.gram.to_struct(), dtype=RECORD_DTYPE).alias("gram")

    def _of_mapping(
        self,
        row: Row,
        budget: Any,
        level: float | None,
        unknown: HandleUnknown,
        missing_columns: MissingColumns | None,
    ) -> dict[str, Any]:
        BUDGET.check("budget", budget)
        if missing_columns == "error":
            lacks = [one.source for one in self._inputs if str(one.path[0]) not in row]
            check_there(lacks, pl.DataFrame({str(name): [] for name in row}), missing_columns)
        reader = self._readers.get(unknown)
        if reader is None:
            terms = self.gram.terms.with_shares(shares_of(self.gram))
            reader = self._readers[unknown] = RowReader(self.groups.columns, terms, unknown)
        there, values = reader.read(row)
        known = reader.models.get(there)
        if known is None:
            names = [n for at, n in enumerate(self.groups.names) if there >> at & 1]
            known = reader.model_of(there, self.pattern(names), MOST_PATTERNS)
        pattern = known.pattern
        found = known.value(row, values)
        limit = math.inf if budget is None else float(budget)
        next_group = pattern.next_group(self.costs, limit)
        told = {
            "prediction": found,
            "groups": list(pattern.groups),
            "spent": pattern.spent,
            "r2": pattern.r2,
            "sigma": pattern.sigma,
        }
        if level is not None:
            reach = pattern.reach(level)
            told["lower"] = None if reach is None else found - reach
            told["upper"] = None if reach is None else found + reach
        told["next_group"] = next_group
        told["next_gain"] = None if next_group is None else pattern.gains[next_group]
        told["next_cost"] = None if next_group is None else self.costs[next_group]
        return told

    def to_struct(self) -> dict[str, Any]:
        """Return the predictor as plain Python data: the problem and its Gram."""
        call = Call(self.problem, "predictor")
        return {"predictor": call.to_json(), "gram": self.gram.to_struct()}

    @classmethod
    def from_struct(cls, record: Any) -> Self:
        """Read what `to_struct` gave.

        Raises
        ------
        RecordError : a field is missing or of another kind
        """
        call = Call.from_json(str(record["predictor"]))
        return cls(call.problem.on(Gram.from_struct(record["gram"])))

    def write_parquet(self, path: Any) -> None:
        """Write a Parquet file of one row, which `ds.read` reads.

        In SQL ``predict_available`` takes its column ``gram``.
        """
        files.write_parquet(to_table(self.to_struct(), _STORED), path)


def available_expr(
    record: pl.Expr, row: pl.Expr, budget: pl.Expr, asked: Mapping[str, Any]
) -> pl.Expr:
    """Return the predictions of rows by records as an expression."""
    told = {name: value for name, value in asked.items() if value is not None}
    return register_plugin_function(
        plugin_path=_native.library_path(),
        function_name="predict_available",
        args=[record, row, budget, pl.lit(json.dumps(told, default=list))],
        is_elementwise=True,
    )


def _sentence(error: Exception) -> str:
    """Return what the library says, without what Polars says around it."""
    text = str(error).split("\n")[0]
    return text.removeprefix("the plugin failed with message: ")

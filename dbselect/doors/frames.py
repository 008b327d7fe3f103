"""Polars namespaces: ``lf.dbselect``, ``df.dbselect`` and ``pl.col(...).dbselect``."""

import inspect
import json
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl
import pyarrow as pa
from polars.plugins import register_plugin_function

from dbselect._native import library_path
from dbselect.doors.searching import Searching
from dbselect.options.kinds import COUNT, SHARE
from dbselect.options.option import checked_options
from dbselect.problem import calls
from dbselect.problem.problem import Problem
from dbselect.record.gram import RECORD_DTYPE, Gram
from dbselect.record.groups import Costs, GroupColumns, costs_by_name
from dbselect.record.inputs import (
    HandleUnknown,
    MissingColumns,
    check_missing_columns,
    check_unknown,
)
from dbselect.record.policies import policies_of, refuse_em
from dbselect.record.steps import SEQUENCE_DTYPE
from dbselect.record.terms import Terms
from dbselect.results.prediction.arrived import available_expr
from dbselect.results.prediction.stakes import stake_of
from dbselect.sources.engines.polars import LazyTable
from dbselect.sources.joins.key_sums import KeySums
from dbselect.sources.joins.keys import Key, check_keys, fields_of
from dbselect.sources.joins.left_join import LookUp
from dbselect.sources.partial.gather import reader_of
from dbselect.sources.partial.learn import MAX_LEVELS, Bases, Categories, check_max_levels
from dbselect.sources.partial.records_by_pattern import MAX_PATTERNS
from dbselect.sources.read import gram_by, gram_of, prepared
from dbselect.sources.records import warn_of_skipped_rows, without_unseen_levels
from dbselect.sources.request import NullPolicy, check_folds, check_seed
from dbselect.sources.types import TableSource
from dbselect.spec.methods import METHODS
from dbselect.spec.options import DesignOptions
from dbselect.spec.spec import require_single_target


class LazyFrameNamespace:
    """Methods of a LazyFrame."""

    def __init__(self, frame: pl.LazyFrame) -> None:
        self._frame = frame

    def gram(
        self,
        *columns: str,
        weight: str | None = None,
        null_policy: NullPolicy = "skip",
        categories: Categories | None = None,
        basis: Bases | None = None,
        max_levels: int = MAX_LEVELS,
        terms: Terms | None = None,
    ) -> pl.LazyFrame:
        """Return a LazyFrame with one row and the column ``gram``, the Gram record.

        Parameters
        ----------
        columns : names and globs; default: every column of numbers, booleans, dates and
            text
        weight : column of row weights, >= 0
        null_policy : how to treat missing values, as in `dbselect.gram`
        categories, basis, max_levels, terms : as in `dbselect.gram`; levels and curves to learn
            are read from the table at once, with `terms` nothing is read

        Notes
        -----
        Runs out of core: one record for each batch of the streaming engine, merged
        at the end. NULL if there are no rows. For more than some thousand columns
        `dbselect.gram` needs less memory.

        Examples
        --------
        >>> import dbselect, polars as pl
        >>> lf = pl.LazyFrame({"x": [1, 2, 3], "y": [1, 3, 8], "z": ["a", "b", "c"]})
        >>> lf.dbselect.gram("y", "x").collect()["gram"][0]["mean"]
        [4.0, 2.0]
        """
        table = LazyTable(self._frame)
        names = list(columns) or None
        request, texts = prepared(
            table, names, weight, null_policy, categories, basis, max_levels, terms, gaps=True
        )
        if request.gaps or not request.is_plain:
            # Fill values differ between batches, and the set of indicators is complete only
            # at the end, so that one reader must read all batches.
            return pl.defer(
                lambda: _record(gram_of(table, request, texts)), schema={"gram": RECORD_DTYPE}
            )

        def batch_record(batch: pl.DataFrame) -> pl.DataFrame:
            if batch.is_empty():
                return pl.DataFrame(schema={"gram": RECORD_DTYPE})
            with reader_of(request) as reader:
                reader.add(request.terms.expand(batch))
                return pl.DataFrame(pa.table({"gram": reader.finish()}))

        def with_warnings(merged: pl.DataFrame) -> pl.DataFrame:
            record = merged["gram"].to_arrow()[0]
            if not record.is_valid:
                return merged
            gram = Gram.from_struct(record)
            warn_of_skipped_rows(gram, request)
            seen_gram = without_unseen_levels(gram, texts)
            return merged if seen_gram is gram else _record(seen_gram)

        records = table.selected(request.fields).map_batches(
            batch_record, schema={"gram": RECORD_DTYPE}, streamable=True
        )
        merged = records.select(pl.col("gram").dbselect.merge())  # type: ignore[attr-defined]
        return merged.map_batches(with_warnings, schema={"gram": RECORD_DTYPE})

    def key_sums(
        self, key: str | Sequence[str], *columns: str, weight: str | None = None
    ) -> pl.LazyFrame:
        """Return a LazyFrame of the key and ``gram``, one Gram record per key.

        Collected, it is the first argument of ``pl.col("gram").dbselect.extend``.

        Parameters
        ----------
        key : field of the facts, or a list of fields
        columns : names and globs; default: as in `gram`, without the key
        weight : column of row weights, >= 0

        Notes
        -----
        The records of `dbselect.gram_by`, d^2 / 2 doubles per key; `dbselect.key_sums` of the
        frame needs d.

        Examples
        --------
        >>> import dbselect, polars as pl
        >>> facts = pl.LazyFrame({"shop": [1, 1, 2, 3], "sales": [2, 4, 7, 7]})
        >>> shops = pl.DataFrame({"shop": [1, 2, 3], "area": [10.0, 30.0, 30.0]})
        >>> sums = facts.dbselect.key_sums("shop", "sales").collect()
        >>> total = sums.select(pl.col("gram").dbselect.merge())
        >>> extended = total.select(pl.col("gram").dbselect.extend(sums, shops))
        >>> extended["gram"].struct.field("columns")[0].to_list()
        ['sales', 'area']
        """
        fields, _ = fields_of(key)
        schema = self._frame.collect_schema()
        check_keys(fields, schema, "the facts")
        return pl.defer(
            lambda: gram_by(self._frame, by=fields, columns=list(columns) or None, weight=weight),
            schema={**{field: schema[field] for field in fields}, "gram": RECORD_DTYPE},
        )


def _frame_method(name: str) -> Callable[..., Any]:
    """Return a method of a problem as a method of a frame, with the frame as source."""
    call = calls.of_name(name)
    signature = inspect.signature(call)
    _, *parameters = signature.parameters.values()

    def method(self: LazyFrameNamespace, *values: Any, **options: Any) -> Any:
        return call(self._frame, *values, **options)

    self_ = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    setattr(method, "__signature__", signature.replace(parameters=[self_, *parameters]))  # noqa: B010
    method.__name__, method.__qualname__ = name, f"LazyFrameNamespace.{name}"
    method.__doc__ = calls.without_source(call)
    return method


for _name in METHODS:
    setattr(LazyFrameNamespace, _name, _frame_method(_name))


class FrameNamespace(LazyFrameNamespace):
    """Methods of a DataFrame."""

    def __init__(self, frame: pl.DataFrame) -> None:
        super().__init__(frame.lazy())

    def gram(self, *columns: str, **options: Any) -> pl.DataFrame:  # type: ignore[override]
        """Return a frame with one row and the column ``gram``, the Gram record.

        Parameters
        ----------
        columns, options : as ``lf.dbselect.gram``
        """
        return super().gram(*columns, **options).collect()

    def key_sums(  # type: ignore[override]
        self, key: str | Sequence[str], *columns: str, **options: Any
    ) -> pl.DataFrame:
        """Return a frame of the key and ``gram``, one Gram record per key.

        Parameters
        ----------
        key, columns, options : as ``lf.dbselect.key_sums``
        """
        return super().key_sums(key, *columns, **options).collect()


class ExprNamespace(Searching):
    """Methods of an expression."""

    def __init__(self, expr: pl.Expr) -> None:
        self._expr = expr

    def gram(
        self,
        weight: str | pl.Expr | float | None = None,
        null_policy: str = "skip",
        max_levels: int | None = None,
    ) -> pl.Expr:
        """Return the Gram record of a struct; NULL if there are no rows.

        Numbers, booleans, dates (as days) and timestamps (as seconds since 1970) are
        columns; text, Categorical and Enum become one column of 0 and 1 per level.

        Parameters
        ----------
        weight : column, expression or number; row weights >= 0
        null_policy : for all columns: ``"skip"``, ``"error"``, ``"mean"`` or
            ``"indicator"``, as in `dbselect.gram`, but with an indicator for every column,
            so that the columns of a record do not depend on the data; rows with a missing
            text are always skipped
        max_levels : largest number of levels with a column each; the others become one,
            ``<name>.other``; default: more than 1,000 levels are an error

        Notes
        -----
        Polars gathers the input of a plugin in memory. For larger tables
        use ``lf.dbselect.gram`` or `dbselect.gram`; for 10,000 groups or more use
        DuckDB.

        Examples
        --------
        >>> import dbselect, polars as pl
        >>> df = pl.DataFrame({"k": ["a", "a", "b"], "x": [1.0, 3.0, 5.0]})
        >>> df.group_by("k", maintain_order=True).agg(
        ...     pl.struct("x").dbselect.gram().struct.field("rows"))["rows"].to_list()
        [2, 1]
        """
        policies_of(null_policy, [])
        refuse_em(null_policy, "pl.struct(...).dbselect.patterns() is a list of records for em()")
        if max_levels is not None:
            check_max_levels(max_levels)
        weights = [] if weight is None else [_number(weight)]
        settings = pl.lit(f"{null_policy[0]}{max_levels or ''}")
        return _plugin("gram", [self._expr, settings, *weights], returns_scalar=True)

    def patterns(
        self,
        weight: str | pl.Expr | float | None = None,
        max_patterns: int = MAX_PATTERNS,
        max_levels: int | None = None,
    ) -> pl.Expr:
        """Return the records of a struct with gaps, a list of one a pattern; NULL without rows.

        Parameters
        ----------
        weight : as in ``gram``
        max_patterns : as in `dbselect.patterns`
        max_levels : as in ``gram``

        Examples
        --------
        >>> import dbselect, polars as pl
        >>> df = pl.DataFrame({"a": [1.0, 2.0, 3.0, 5.0], "y": [1.0, 3.0, 4.0, None]})
        >>> patterns = df.select(p=pl.struct("a", "y").dbselect.patterns())
        >>> patterns.select(pl.col("p").dbselect.em().struct.field("rows"))["rows"].to_list()
        [4]
        """
        COUNT.check("max_patterns", max_patterns)
        if max_levels is not None:
            check_max_levels(max_levels)
        weights = [] if weight is None else [_number(weight)]
        settings = pl.lit(f"{max_patterns} {max_levels or ''}")
        return _plugin("patterns", [self._expr, settings, *weights], returns_scalar=True)

    def merge_patterns(self) -> pl.Expr:
        """Return the patterns of all rows of several lists; NULL if there are none."""
        lists = self._expr.cast(pl.List(RECORD_DTYPE))
        return _plugin("merge_patterns", [lists], returns_scalar=True)

    def em(
        self,
        max_iterations: int | None = None,
        tolerance: float | None = None,
        prior: float | None = None,
    ) -> pl.Expr:
        """Return one record for each list of patterns, as `Patterns.em` does."""
        options = {"max_iterations": max_iterations, "tolerance": tolerance, "prior": prior}
        lists = self._expr.cast(pl.List(RECORD_DTYPE))
        return _plugin("em", [lists, pl.lit(json.dumps(options))], is_elementwise=True)

    def impute_mean(self) -> pl.Expr:
        """Impute the mean for missing values in each record, and drop the indicators.

        For records with columns ``<name>.missing``, as ``gram`` with
        ``null_policy="indicator"`` returns them, merged or not.
        """
        return _plugin("impute", [self._expr.cast(RECORD_DTYPE)], is_elementwise=True)

    def fold(self, k: int, seed: int = 0) -> pl.Expr:
        """Return the fold, 0 to k - 1, of each row, by a hash of its value.

        Parameters
        ----------
        k : number of folds, >= 2
        seed : of the hash, 0 to 2^63 - 1

        Notes
        -----
        As ``fold=`` of `dbselect.gram_by` and ``fold_of`` in SQL. Equal values have equal
        folds, whatever their type: numbers, booleans, texts, blobs, dates, timestamps,
        NULL, and structs and arrays of these.

        Examples
        --------
        >>> import dbselect, polars as pl
        >>> df = pl.DataFrame({"id": [1, 2, 3, 1]})
        >>> df.select(pl.col("id").dbselect.fold(2))["id"].to_list()
        [0, 1, 1, 0]
        """
        check_folds("k", k)
        check_seed(seed)
        arguments = [pl.lit(int(number), pl.Int64) for number in (k, seed)]
        return _plugin("fold", [self._expr, *arguments], is_elementwise=True)

    def merge(self) -> pl.Expr:
        """Return the record of all rows of several records; NULL if there are none."""
        return _plugin("merge", [self._expr.cast(RECORD_DTYPE)], returns_scalar=True)

    def extend(
        self,
        sums: KeySums | pl.DataFrame,
        table: TableSource,
        key: Key | None = None,
        **options: Any,
    ) -> pl.Expr:
        """Extend each record by the columns of a table that is joined by a key.

        Parameters
        ----------
        sums : result of `dbselect.key_sums` on the facts of the records, or the collected
            frame of ``lf.dbselect.key_sums``
        table, key, options : as in `KeySums.extend`
        """
        facts = sums if isinstance(sums, KeySums) else KeySums.from_records(sums)
        LookUp(**options)

        def extend_all(grams: pl.Series) -> pl.Series:
            extended = [
                None if r is None else Gram.from_struct(r).extend(facts, table, key, **options)
                for r in grams
            ]
            records = [None if gram is None else gram.to_struct() for gram in extended]
            return pl.Series(records, dtype=RECORD_DTYPE)

        return self._expr.map_batches(extend_all, return_dtype=RECORD_DTYPE, is_elementwise=True)

    def predict(
        self,
        row: pl.Expr,
        budget: str | pl.Expr | float | None = None,
        *,
        handle_unknown: HandleUnknown = "unavailable",
        missing_columns: MissingColumns = "error",
    ) -> pl.Expr:
        """Return struct(prediction, step, spent, next_group) for each row.

        Predicts by the longest prefix of the sequence within the budget whose columns are all
        available in the row: not NULL or NaN, unless the fit filled missing values.
        The row is one of the raw table, as it was read for the fit: text as text, dates as
        dates; columns that are already encoded are accepted too.

        Parameters
        ----------
        row : struct of the columns
        budget : number, column or expression, in the unit of the costs; None = no limit
        handle_unknown : how to treat a level that was not in the fit, without a column ``other``:
            ``"unavailable"`` uses a prefix without its group; ``"error"`` raises;
            ``"mean"`` adds the mean effect of the levels over the rows of the fit
        missing_columns : how to treat a column that the struct lacks, if a prefix within the
            budget reads it: ``"error"`` raises, ``"unavailable"`` uses a prefix without it

        Raises
        ------
        ArgumentError : unknown `handle_unknown` or `missing_columns`
        ComputeError : of Polars, when rows are read: text instead of a number, a
            column that the struct lacks, an unknown level, or ``"mean"`` for a sequence that was
            stored without the shares of its levels
        """
        check_unknown(handle_unknown)
        check_missing_columns(missing_columns)
        policies = [pl.lit(handle_unknown), pl.lit(missing_columns)]
        arguments = [_sequence(self._expr), row, _number(budget), *policies]
        return _plugin("predict", arguments, is_elementwise=True)

    def predict_available(
        self,
        target: str,
        row: pl.Expr,
        groups: GroupColumns | None = None,
        costs: Costs | None = None,
        budget: str | pl.Expr | float | None = None,
        *,
        level: float | None = None,
        accept_above: float | None = None,
        worth: float | None = None,
        payoff: tuple[float, float] | None = None,
        handle_unknown: HandleUnknown = "unavailable",
        missing_columns: MissingColumns = "error",
        intercept: bool = True,
        ridge: float = 0.0,
        scale: bool = True,
    ) -> pl.Expr:
        """Predict each row from all groups that it has; return a struct.

        The fields are the columns of `AnytimePredictor.predict`, with lower and upper, which
        are null without `level`, and accept and next_value, without `accept_above`, `worth` or
        `payoff`; null for an unusable record.

        Parameters
        ----------
        target : column to predict
        row : struct of the columns
        groups, costs : as in Python
        budget : limit on further purchases: number, column or expression; None = no limit
        level, accept_above, worth, payoff, handle_unknown, missing_columns : as in
            `AnytimePredictor.predict`
        intercept, ridge, scale : as in `dbselect.Problem`

        Raises
        ------
        ArgumentError, GroupError, ComputeError : as in `predict`
        """
        check_unknown(handle_unknown)
        check_missing_columns(missing_columns)
        SHARE.or_none().check("level", level)
        fields: Any = {"intercept": intercept, "ridge": ridge, "scale": scale}
        require_single_target(target)
        problem = Problem(None, target, groups, costs, **fields)
        by_name = None if costs is None else costs_by_name(costs, list(groups or ()))
        options = {"target": target, "groups": groups, "costs": by_name, **problem.changed()}
        options |= {
            "level": level, "handle_unknown": handle_unknown, "missing_columns": missing_columns,
            **stake_of(accept_above, worth, payoff),
        }  # fmt: skip
        return available_expr(self._expr.cast(RECORD_DTYPE), row, _number(budget), options)

    def a_optimal(
        self, k: int, *, beta2: float = 1.0, sigma2: float = 1.0, scale_rows: bool = False
    ) -> pl.Expr:
        """Return the rank 1, 2, ..., k of each row in an A-optimal design, null for the others.

        Parameters
        ----------
        k, beta2, sigma2, scale_rows : as in `dbselect.a_optimal`; if there are fewer than k
            candidates, all have a rank

        Notes
        -----
        A struct of numbers; a row with a null or NaN is no candidate. Works in ``select``,
        ``over`` and ``group_by().agg``. Polars gathers all rows of a group in memory, up to
        50 bytes per value. For larger groups use `dbselect.a_optimal`.

        Examples
        --------
        >>> import dbselect, polars as pl
        >>> df = pl.DataFrame({"a": [2, 0, 1], "b": [0, 1, 1]})
        >>> df.select(pl.struct("a", "b").dbselect.a_optimal(2))["a"].to_list()
        [1, 2, None]
        """
        options = {"beta2": beta2, "sigma2": sigma2, "scale_rows": scale_rows}
        COUNT.check("k", k)
        checked_options(DesignOptions, "a_optimal", options)
        arguments = [pl.lit(k, pl.Int64), *(pl.lit(float(value)) for value in options.values())]
        return _plugin("a_optimal", [self._expr, *arguments])


def _record(gram: Gram) -> pl.DataFrame:
    """Return a frame with the record, NULL if there were no rows."""
    record = gram.to_struct() if gram.rows or gram.skipped else None
    return pl.DataFrame({"gram": [record]}, schema={"gram": RECORD_DTYPE})


def _number(value: str | pl.Expr | float | None) -> pl.Expr:
    if value is None:
        return pl.lit(None, pl.Float64)
    if isinstance(value, str):
        return pl.col(value)
    return value if isinstance(value, pl.Expr) else pl.lit(value)


def _sequence(expr: pl.Expr) -> pl.Expr:
    """Cast to sequences; a literal of one row becomes a scalar, so that rows share it."""
    sequences = expr.cast(SEQUENCE_DTYPE)
    if not expr.meta.is_literal(allow_aliasing=True):
        return sequences
    series = pl.select(sequences).to_series()
    if len(series) != 1:
        return sequences
    return pl.lit(series.to_list()[0], dtype=SEQUENCE_DTYPE).alias(series.name)


def _plugin(name: str, arguments: Sequence[pl.Expr], **flags: Any) -> pl.Expr:
    return register_plugin_function(
        plugin_path=library_path(), function_name=name, args=list(arguments), **flags
    )

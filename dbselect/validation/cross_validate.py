"""Cross-validation of any method: on the records of folds, or on a table fold by fold."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from dbselect.errors import ArgumentError, ColumnError, DataError, SourceError, warns_once
from dbselect.options.kinds import CALLBACK, COLUMN
from dbselect.options.option import options_of, shows
from dbselect.record.columns import leaf_of, leaves
from dbselect.search.table import referenced_columns, table_of
from dbselect.search.width import is_lazy
from dbselect.sources.partial.grouping import moments_of
from dbselect.sources.progress import Callback, turns
from dbselect.sources.request import FOLD, Folding, Table, folding_of
from dbselect.spec.fields import GRID, METHOD, OF_METHOD
from dbselect.spec.methods import JUDGED
from dbselect.spec.options import CrossValidateOptions
from dbselect.spec.refusals import REFUSED, refuse
from dbselect.spec.spec import Spec
from dbselect.validation.cross_validation import CrossValidation
from dbselect.validation.grid import (
    MethodOf,
    Options,
    check_options,
    checked_method,
    points_of,
    shown_points,
)
from dbselect.validation.held_out import CHOICES, Measures, MetricJudge, tables, with_choices
from dbselect.validation.segments import OnGrams, segments_of


@shows(CrossValidateOptions, first=(METHOD, GRID, OF_METHOD))
@warns_once
def cross_validate(
    problem: Spec,
    method: MethodOf = "anytime_sequence",
    grid: Mapping[str, Iterable[Any]] | Iterable[Mapping[str, Any]] | None = None,
    *,
    folds: int | None = None,
    key: str | None = None,
    time: str | None = None,
    metric: str | Sequence[str] | None = None,
    cv: int | None = None,
    callback: Callback | None = None,
    **options: Any,
) -> CrossValidation:
    """Score a method on the rows it has not seen, for every point of a grid of options.

    For each fold the method runs on the others, and what it returns is scored
    on the fold. Every prefix of a sequence is a candidate, from the last step that was
    forced (``always``, the start of `backward`) on; a model is one. A sequence that ends
    earlier than that of another fold carries its last model on. With ``time`` the method runs
    on the earlier rows only: k folds and the rows before them, k + 1 parts of the rows in order.

    Returns
    -------
    CrossValidation: r2, that of scikit-learn's ``r2_score`` about the mean of the
    held-out rows, and mse, each with mean and standard error ``sd / sqrt(folds)`` over
    the folds; the best candidate and the one-standard-error choice. With a family deviance
    and accuracy stand in the place of mse, as in `evaluate`, and the best has the lowest
    mean deviance. Of several responses r2 is the mean by their shares, and so is mse, each
    in units of the response's variance on all folds. With ``metric`` these stand in the place
    of all that, and the first decides

    Raises
    ------
    ArgumentError : another method, an unknown option, an empty grid, a family without
        `folds` or in the grid, what `evaluate` refuses of a metric, or what the method refuses
    ColumnError, GroupError : as the method; ``time`` is no number or date
    DataError : ``time`` is missing in a row, or has too few different values
    RecordError : a record is malformed, or those of a segment do not fit each other
    SourceError : there is no such table, or with a family it can be read only once

    Warns
    -----
    SkippedRowsWarning : more than a tenth of the rows of the table is left out
    FoldsWarning : a fold of the table has no row, as there are too few different keys

    Notes
    -----
    The method runs once a point and fold. A training Gram is the sum of the other folds,
    not a difference, so that no digits cancel: O(folds^2 d^2). Folds without usable rows
    do not count. Rows of equal ``time`` lie in one part; else the parts are those of
    scikit-learn's ``TimeSeriesSplit``. That column and one more pass decide them, and its
    values are in memory for that. A segment with fewer than two folds, or where the method raises
    DataError, has the reason in its row and keeps no other from its scores; r2 is missing
    where the target is constant in a fold.
    With a family, a point and fold takes the passes of the method and one, each over the
    whole table, of which the rows of other folds are dropped as they come. With ``gram="lazy"``,
    or above 10,000 columns, a scan is for all folds and points: it sums the rows of the Gram
    that are needed of each fold apart.

    References
    ----------
    Hastie, Tibshirani, Friedman (2009), The Elements of Statistical Learning, section
    7.10: cross-validation and the one-standard-error rule.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": range(40), "b": [1, -1] * 20})
    >>> table = table.with_columns(y=2 * pl.col("a") + (pl.col("a") % 7))
    >>> folds = ds.gram_by(table, fold=5)
    >>> found = ds.cross_validate(folds, "y", "anytime_sequence", {"rule": ["fr", "omp"]})
    >>> found.table.select("rule", "step", "best", pl.col("r2", "mse").round(2)).head(3)
    shape: (3, 5)
    ┌──────┬──────┬───────┬───────┬────────┐
    │ rule ┆ step ┆ best  ┆ r2    ┆ mse    │
    │ ---  ┆ ---  ┆ ---   ┆ ---   ┆ ---    │
    │ str  ┆ i64  ┆ bool  ┆ f64   ┆ f64    │
    ╞══════╪══════╪═══════╪═══════╪════════╡
    │ fr   ┆ 0    ┆ false ┆ -0.36 ┆ 587.06 │
    │ fr   ┆ 1    ┆ true  ┆ 0.99  ┆ 4.1    │
    │ fr   ┆ 2    ┆ false ┆ 0.99  ┆ 4.31   │
    └──────┴──────┴───────┴───────┴────────┘
    >>> table = table.with_columns(late=(pl.col("a") * 7 % 40 + pl.col("a")) > 40)
    >>> found = ds.cross_validate(
    ...     table, "late", "anytime_sequence", folds=4, key="y", family="binomial"
    ... )
    >>> found.table.select("step", pl.col("deviance", "accuracy").round(2)).rows()
    [(0, 1.37, 0.6), (1, 0.98, 0.75), (2, 0.99, 0.78)]
    """
    CALLBACK.or_none().check("callback", callback)
    for name, column in (("key", key), ("time", time)):
        COLUMN.or_none().check(name, column)
    method = checked_method(method, JUDGED)
    points = points_of(grid)
    check_options(method, points, options, beside=options_of(CrossValidateOptions))
    refuse(problem, "cross_validate")
    if isinstance(method, str):
        refuse(problem, method)
    if cv is not None and folds is not None:
        raise ArgumentError(f"cv is {cv!r} and folds is {folds!r}; they mean the same, give one")
    folding = _folding(problem, *(("folds", folds) if cv is None else ("cv", cv)), key, time)
    judging = None if metric is None else MetricJudge(metric, key, problem.weight)
    asked = Measures() if judging is None else judging.measures
    if judging is not None and folding is None:
        raise ArgumentError(
            f"metric is {metric!r}, but folds is missing; a metric needs rows: give a table, and "
            "the number of its folds"
        )
    if judging is not None:
        judging.check(str(problem.family))
    varied = shown_points(points)
    _check_names([], varied.columns, asked)
    tried = [{**options, **point} for point in points]
    named = _named(problem, tried)
    if folding is not None and time is None and _is_lazy(problem, method, named):
        # Decided once: for the folds, all points and the model of the choice.
        problem = problem.replace(gram="lazy")
    keys, segments = segments_of(
        problem, folding, named, time=time is not None, rows=judging is not None
    )
    _check_names(keys.columns, varied.columns, asked)
    if judging is not None:
        for segment in segments:
            if isinstance(segment, OnGrams):
                judging.check_target(segment.whole, problem.targets[0])
    outcomes = []
    with turns(len(segments) * len(tried), "points of the grid", callback) as turn:
        for number, segment in enumerate(segments):
            for point, (found, reason) in enumerate(
                segment.outcomes(problem, method, tried, judging)
            ):
                outcomes.append((number, point, found, reason))
                turn(None, None)
    scores, table_of_means = tables(outcomes, asked)

    def labelled(rows: pl.DataFrame, columns: Iterable[str]) -> pl.DataFrame:
        for index, names in (("point", varied), ("segment", keys)):
            if names.columns:
                rows = rows.join(names.with_row_index(index), on=index, maintain_order="left")
        return rows.select(*keys.columns, "point", *varied.columns, *columns)

    return CrossValidation(
        problem=problem.without_rows(),
        keys=keys.columns,
        table=labelled(with_choices(table_of_means, asked), (*asked.means, *CHOICES, "reason")),
        scores=labelled(scores, asked.scores),
        grid=points,
        options=options,
        method=method,
        sources=[
            (values, segment.whole)
            for values, segment in zip(keys.to_dicts() or [{}], segments, strict=True)
        ],
    )


def _is_lazy(problem: Spec, method: MethodOf, named: list[str] | None) -> bool:
    """Whether folds are searched without their Grams; by a function only with ``gram="lazy"``."""
    if not problem.is_linear:
        return False
    takes_rows = isinstance(method, str) and "gram" not in REFUSED[method]
    return problem.gram == "lazy" or (takes_rows and is_lazy(problem, named))


def _named(problem: Spec, points: Iterable[Options]) -> list[str] | None:
    """Return the target and the columns and globs that some point names; None for all."""
    found = problem.targets
    for options in points:
        groups = options.get("groups", problem.groups)
        named = referenced_columns(problem.replace(groups=groups))
        columns = options.get("columns") if named is None else named
        if columns is None:
            return None
        found += [columns] if isinstance(columns, str) else columns
    return list(dict.fromkeys(found))


def _folding(
    problem: Spec, name: str, folds: int | None, key: str | None, time: str | None
) -> Folding | None:
    """Return how a table is cut into folds; None for records of folds."""
    folding = folding_of(folds, key, problem.seed, name)
    if time is None:
        return folding
    if key is not None:
        raise ArgumentError(f"key is {key!r} and time is {time!r}; folds are by one of them")
    if problem.gram == "lazy":
        raise ArgumentError("gram is 'lazy'; folds by time need the Gram, or a family")
    if folding is not None:
        return time_folding(table_of(problem, None), time, folding.k)
    if time != FOLD:
        raise ArgumentError(
            f"time is {time!r}; of records it must be '{FOLD}', and a table needs folds="
        )
    return None


def _check_names(keys: list[str], options: list[str], asked: Measures) -> None:
    """Refuse keys and options whose names the result needs."""
    taken = {"segment", "point", *asked.scores, *asked.means, *CHOICES, "reason"}
    for name in [*keys, *options]:
        if name in taken or (name in keys and name in options):
            kind, way = ("a key", "rename it") if name in keys else ("an option", "wrap the method")
            raise ArgumentError(f"{kind} is named '{name}'; {way}, the result has that name")


def time_folding(table: Table, time: str, k: int) -> Folding:
    """Return k folds and the rows before them, as of scikit-learn's ``TimeSeriesSplit``.

    Rows of equal time are in one. The column is read once; DataError if it has gaps or few values.
    """
    leaf = leaf_of(time, {one.name: one for one in leaves(table.schema)}, "time")
    if not leaf.is_numeric or leaf.field != time:
        raise ColumnError(f"time '{time}' has type {leaf.type}; it must be a number or a date")
    if not table.again:
        raise SourceError("source is a stream that can be read only once, and time needs a read")
    read = [moments_of(pl.DataFrame(batch), time) for batch in table.batches([time])]
    values = np.sort(np.concatenate(read)) if read else np.empty(0)
    missing = int(np.isnan(values).sum())
    if missing:
        raise DataError(f"time '{time}' is missing in {missing} rows, which have no place")
    size = len(values) // (k + 1)
    edges = values[len(values) - k * size :: size] if size else values[:0]
    if len(edges) < k or not (np.diff(edges, prepend=values[0]) > 0).all():
        raise DataError(
            f"time '{time}' has too few different values for {k} folds and rows before them; ask "
            "for fewer folds"
        )
    return Folding(k + 1, time, 0, tuple(edges.tolist()))

"""Cross-validation of any method, on records of folds or on a table."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from dbselect.errors import ArgumentError, PromiseWarning, warn_caller, warns_once
from dbselect.options.kinds import CALLBACK, COLUMN
from dbselect.options.option import options_of, shows
from dbselect.record.gram import Gram
from dbselect.record.policies import has_em
from dbselect.search.open import is_lazy
from dbselect.search.table import referenced_columns
from dbselect.sources.progress import Callback, turns
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
from dbselect.validation.scoring.metrics import with_payoff
from dbselect.validation.segments import segments_of
from dbselect.validation.splits import split_of


@shows(CrossValidateOptions, first=(METHOD, GRID, OF_METHOD))
@warns_once
def cross_validate(
    problem: Spec,
    method: MethodOf = "anytime_sequence",
    grid: Mapping[str, Iterable[Any]] | Iterable[Mapping[str, Any]] | None = None,
    *,
    folds: Any = None,
    key: str | None = None,
    time: str | None = None,
    metric: str | Sequence[str] | None = None,
    payoff: tuple[float, float] | None = None,
    cv: Any = None,
    callback: Callback | None = None,
    **options: Any,
) -> CrossValidation:
    """Score a method on held-out rows, for every point of a grid of options.

    For each fold the method runs on the other folds, and its result is scored
    on the fold. Every prefix of a sequence is a candidate, from the last forced
    step (``always``, the start of `backward`) on; a model is one candidate. A sequence that is
    shorter than that of another fold repeats its last model. With ``time`` the method runs
    on the earlier rows only: k + 1 parts of the ordered rows, of which the last k are folds.

    Returns
    -------
    CrossValidation: r2, as scikit-learn's ``r2_score``, about the mean of the
    held-out rows, and mse, each with mean and standard error ``sd / sqrt(folds)`` over
    the folds; the best candidate and the one-standard-error choice. With a family, deviance
    and accuracy replace mse, as in `evaluate`, and the best candidate has the lowest
    mean deviance. For several responses r2 and mse are means weighted by their shares, each mse
    in units of the response's variance on all folds. With ``metric`` the metrics replace
    these scores, and the first decides

    Raises
    ------
    ArgumentError : an unknown method or option, an empty grid, a family without
        `folds` or in the grid, a metric that `evaluate` refuses, or as the method
    ColumnError, GroupError : as the method; ``time`` is no number or date
    DataError : ``time`` is missing in a row, or has too few different values
    RecordError : a record is malformed, or the records of a segment are incompatible
    SourceError : there is no such table, or with a family it can be read only once

    Warns
    -----
    SkippedRowsWarning : more than a tenth of the rows of the table is skipped
    FoldsWarning : a fold of the table has no row, as there are too few different keys
    PromiseWarning : `null_policy` is ``"em"``, which completes rows held out with the others

    Notes
    -----
    The method runs once per point and fold. A training Gram is the sum of the other folds,
    not a difference, so that no digits cancel: O(folds d^2). Folds without usable rows
    do not count. A column of folds takes one more pass over it. Pairs of row numbers and splitters
    hold all rows in memory; where they do not part the rows, each fold reads its own: O(folds n
    d^2). Rows of equal ``time`` are in the same part; otherwise the parts are those of
    scikit-learn's ``TimeSeriesSplit``. They take one more pass over that column, whose
    values are held in memory. A segment with fewer than two folds, or where the method raises
    DataError, has the reason in its row, and the other segments are scored; r2 is missing
    if the target is constant in a fold.
    With a family, each point and fold takes the passes of the method and one more, each over
    the whole table, skipping the rows of the other folds. With ``gram="lazy"``,
    or above 10,000 columns, each scan serves all folds and points: it sums the needed rows of
    the Gram for each fold separately.

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
    >>> cv = ds.cross_validate(folds, "y", "anytime_sequence", {"rule": ["fr", "omp"]})
    >>> cv.table.select("rule", "step", "best", pl.col("r2", "mse").round(2)).head(3)
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
    >>> cv = ds.cross_validate(
    ...     table, "late", "anytime_sequence", folds=4, key="y", family="binomial"
    ... )
    >>> cv.table.select("step", pl.col("deviance", "accuracy").round(2)).rows()
    [(0, 1.37, 0.6), (1, 0.98, 0.75), (2, 0.99, 0.78)]
    """
    if isinstance(options.get("groups"), str):  # as scikit-learn calls the groups of rows
        key = options.pop("groups")
    CALLBACK.or_none().check("callback", callback)
    for name, column in (("key", key), ("time", time)):
        COLUMN.or_none().check(name, column)
    metric = with_payoff(metric, payoff)
    method = checked_method(method, JUDGED)
    points = points_of(grid)
    check_options(method, points, options, beside=options_of(CrossValidateOptions))
    refuse(problem, "cross_validate")
    if isinstance(method, str):
        refuse(problem, method)
    if cv is not None and folds is not None:
        raise ArgumentError(f"cv is {cv!r} and folds is {folds!r}; they mean the same, give one")
    name, splits = ("folds", folds) if cv is None else ("cv", cv)
    problem, folding = split_of(problem, name, splits, key, time, kept=metric is not None)
    _warn_of_em(problem)
    judge = None if metric is None else MetricJudge(metric, key, problem.weight)
    measures = Measures() if judge is None else judge.measures
    if judge is not None and folding is None:
        raise ArgumentError(
            f"metric is {metric!r}, but folds is missing; a metric needs rows: give a table, and "
            "the number of its folds"
        )
    if judge is not None:
        judge.check(str(problem.family))
    varied = shown_points(points)
    _check_names([], varied.columns, measures)
    candidates = [{**options, **point} for point in points]
    columns = _referenced_columns(problem, candidates)
    if folding is not None and time is None and _is_lazy(problem, method, columns):
        # Decide once for the folds, all points and the final model.
        problem = problem.replace(gram="lazy")
    keys, segments = segments_of(
        problem, folding, columns, time=time is not None, rows=judge is not None
    )
    _check_names(keys.columns, varied.columns, measures)
    if judge is not None:
        for segment in segments:
            if isinstance(segment.whole, Gram):
                judge.check_target(segment.whole, problem.targets[0])
    outcomes = []
    with turns(len(segments) * len(candidates), "points of the grid", callback) as turn:
        for number, segment in enumerate(segments):
            for point, (scored, reason) in enumerate(
                segment.outcomes(problem, method, candidates, judge)
            ):
                outcomes.append((number, point, scored, reason))
                turn(None, None)
    scores, means = tables(outcomes, measures)

    def labelled(rows: pl.DataFrame, columns: Iterable[str]) -> pl.DataFrame:
        for index, names in (("point", varied), ("segment", keys)):
            if names.columns:
                rows = rows.join(names.with_row_index(index), on=index, maintain_order="left")
        return rows.select(*keys.columns, "point", *varied.columns, *columns)

    return CrossValidation(
        problem=problem.without_rows(),
        keys=keys.columns,
        table=labelled(with_choices(means, measures), (*measures.means, *CHOICES, "reason")),
        scores=labelled(scores, measures.scores),
        grid=points,
        options=options,
        method=method,
        sources=[
            (values, segment.whole)
            for values, segment in zip(keys.to_dicts() or [{}], segments, strict=True)
        ],
    )


def _warn_of_em(problem: Spec) -> None:
    if has_em(problem.null_policy):
        warn_caller(
            "null_policy is 'em', which completes rows held out together with the others, by their "
            "targets too: scores are too good where much is missing",
            PromiseWarning,
        )


def _is_lazy(problem: Spec, method: MethodOf, columns: list[str] | None) -> bool:
    """Whether the folds need no Grams; for a user's function only with ``gram="lazy"``."""
    if not problem.is_linear:
        return False
    takes_rows = isinstance(method, str) and "gram" not in REFUSED[method]
    return problem.gram == "lazy" or (takes_rows and is_lazy(problem, columns))


def _referenced_columns(problem: Spec, points: Iterable[Options]) -> list[str] | None:
    """Return the target and all columns and globs in the points; None for all columns."""
    patterns = problem.targets
    for options in points:
        groups = options.get("groups", problem.groups)
        referenced = referenced_columns(problem.replace(groups=groups))
        columns = options.get("columns") if referenced is None else referenced
        if columns is None:
            return None
        patterns += [columns] if isinstance(columns, str) else columns
    return list(dict.fromkeys(patterns))


def _check_names(keys: list[str], options: list[str], measures: Measures) -> None:
    """Refuse keys and options with the name of a column of the result."""
    taken = {"segment", "point", *measures.scores, *measures.means, *CHOICES, "reason"}
    for name in [*keys, *options]:
        if name in taken or (name in keys and name in options):
            kind, fix = ("a key", "rename it") if name in keys else ("an option", "wrap the method")
            raise ArgumentError(f"{kind} is named '{name}'; {fix}, the result has that name")

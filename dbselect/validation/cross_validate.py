"""Cross-validation of any method: on the records of folds, or on a table fold by fold.

A segment is what is cut into folds: it gives a method its training data and judges the result.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate
from operator import add
from typing import TYPE_CHECKING, Any

import polars as pl

from dbselect.errors import ArgumentError, ColumnError, DataError, SourceError
from dbselect.options.fields import GRID, METHOD, OF_METHOD
from dbselect.options.kinds import CALLBACK, COLUMN
from dbselect.options.methods import JUDGED
from dbselect.options.option import options_of, shows
from dbselect.options.refusals import REFUSED, refuse
from dbselect.options.table import CrossValidateOptions
from dbselect.pages.short import listed
from dbselect.record.columns import leaves
from dbselect.record.gram import Gram
from dbselect.record.steps import uninterrupted
from dbselect.results.glm.model import GlmModel
from dbselect.results.glm.sequence import GlmSequence
from dbselect.results.selected import model_in
from dbselect.search.lazy.folds import WideFolds, wide_folds
from dbselect.search.lazy.width import is_lazy
from dbselect.search.table import policy_but_for, referenced_columns, table_of
from dbselect.sources.engines.remote_frames import brought_here, table_elsewhere
from dbselect.sources.partial.grouping import warn_of_folds
from dbselect.sources.progress import Callback, turns
from dbselect.sources.read import gram_by, with_digits_of
from dbselect.sources.request import FOLD, Folding, folding_of, not_computed, request_of
from dbselect.sources.sampling.folded import FoldedTable, RowFolds
from dbselect.sources.sampling.time_folds import time_folding
from dbselect.sources.target import check_numeric
from dbselect.validation.cross_validation import CrossValidation
from dbselect.validation.grid import (
    MethodOf,
    Options,
    answer,
    check_options,
    checked_method,
    points_of,
    shown_points,
)
from dbselect.validation.held_out import (
    CHOICES,
    HeldOut,
    Measures,
    MetricJudge,
    check_judged_on_gram,
    on_gram,
    on_rows,
    scores_of,
    tables,
    with_choices,
)

if TYPE_CHECKING:
    from dbselect.problem.problem import Problem

#: Scores of a point, and the reason why some are missing.
Outcome = tuple[pl.DataFrame, str | None]


@shows(CrossValidateOptions, first=(METHOD, GRID, OF_METHOD))
def cross_validate(
    problem: "Problem",
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
    SkippedRowsWarning : more than half of the rows of the table are left out
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
    varied = shown_points(points)
    _check_names([], varied.columns, asked)
    tried = [{**options, **point} for point in points]
    named = _named(problem, tried)
    if folding is not None and time is None and _is_lazy(problem, method, named):
        # Decided once: for the folds, all points and the model of the choice.
        problem = problem.replace(gram="lazy")
    keys, segments = _segments_of(
        problem, folding, named, time=time is not None, rows=judging is not None
    )
    _check_names(keys.columns, varied.columns, asked)
    outcomes = []
    with turns(len(segments) * len(tried), "points of the grid", callback) as turn:
        for number, segment in enumerate(segments):
            for point, (found, reason) in enumerate(
                _outcomes(segment, problem, method, tried, judging)
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


def _is_lazy(problem: "Problem", method: MethodOf, named: list[str] | None) -> bool:
    """Whether the folds of a table are searched without their Grams.

    For a function only if the problem has ``gram="lazy"``.
    """
    if not problem.is_linear:
        return False
    takes_rows = isinstance(method, str) and "gram" not in REFUSED[method]
    return problem.gram == "lazy" or (takes_rows and is_lazy(problem, named))


def _segments_of(
    problem: "Problem", folding: Folding | None, named: list[str] | None, *, time: bool, rows: bool
) -> tuple[pl.DataFrame, Sequence["Segment"]]:
    """Return the keys of the segments, one row each, and the segments.

    Parameters
    ----------
    named : columns and globs that some point reads, the target among them; None for all
    time : whether folds are in their order, and the method runs on those before
    rows : whether rows are judged, also of linear models
    """
    if folding is None:
        _check_is_of_records(problem)
        return _on_records(problem, problem.source, time=time)
    if not problem.is_linear:
        return pl.DataFrame(), [OnTable(_row_folds(problem, folding, named), problem.weight)]
    if problem.gram == "lazy":
        return pl.DataFrame(), [OnWide(wide_folds(problem, folding, named))]
    targets = problem.targets
    table = table_of(problem, None)
    check_numeric(table, targets)
    records = gram_by(
        table, columns=named, weight=problem.weight, fold=folding,
        null_policy=policy_but_for(targets, problem.null_policy), terms=problem.terms,
    )  # fmt: skip
    judged = _row_folds(problem, folding, named) if rows else None
    return _on_records(problem, records, judged, time=time)


@dataclass(frozen=True, eq=False)
class OnGrams:
    """A segment whose folds are Grams.

    Parameters
    ----------
    parts : fold -> Gram
    target : column to predict, or several
    rows : which fold each row is in; None where none are judged
    time : whether only the folds before one train
    """

    parts: Mapping[Any, Gram]
    target: str | list[str] | tuple[str, ...]
    rows: RowFolds | None = None
    time: bool = False

    @property
    def whole(self) -> Gram:
        """The Gram of all folds."""
        return reduce(add, self.parts.values())

    def folds(self) -> tuple[list[Any], int]:
        """Return the folds that have usable rows, and how many there are in all."""
        return [fold for fold, gram in self.parts.items() if gram.rows], len(self.parts)

    def training(self, folds: Sequence[Any]) -> dict[Any, Gram]:
        """Return for each fold what the method runs on: the Gram of the others."""
        if self.time:
            earlier = accumulate((self.parts[fold] for fold in folds[:-1]), add)
            return dict(zip(folds[1:], earlier, strict=True))
        return {
            fold: reduce(add, (self.parts[other] for other in folds if other != fold))
            for fold in folds
        }

    def asked(self, problem: "Problem", source: Any) -> "Problem":
        """Return the problem of some of the rows, which were read as it says."""
        return problem.on_gram(source)

    def judged(self, results: Mapping[Any, Any]) -> dict[Any, HeldOut]:
        """Judge the result of each fold on the fold."""
        names = [self.target] if isinstance(self.target, str) else self.target
        whole = self.whole
        scales = {
            name: float(whole.comoment[at, at] / whole.weight)
            for name in names
            for at in [whole.position(name, "target")]
        }
        parts = self.parts
        return {fold: on_gram(own, parts[fold], scales=scales) for fold, own in results.items()}

    def check(self, result: Any) -> None:
        """Refuse what a method returns and a Gram does not judge."""
        check_judged_on_gram(result)


@dataclass(frozen=True, eq=False)
class OnTable:
    """A table whose folds are read in passes, for models of a family.

    Parameters
    ----------
    rows : which fold each row is in
    weight : column of row weights
    """

    rows: RowFolds
    weight: str | None

    @property
    def whole(self) -> FoldedTable:
        """All rows, without a column that is only the key."""
        return FoldedTable(self.rows, None)

    def folds(self) -> tuple[list[Any], int]:
        """Return the folds that have rows, and how many are asked for."""
        present = self.rows.present()
        warn_of_folds([len(present)], self.rows.folding)
        return list(present), self.rows.folding.k

    def training(self, folds: Sequence[Any]) -> dict[Any, FoldedTable]:
        """Return for each fold what the method runs on: the rows of the others."""
        judged = folds[1:] if self.rows.folding.edges else folds
        return {fold: FoldedTable(self.rows, fold) for fold in judged}

    def asked(self, problem: "Problem", source: Any) -> "Problem":
        """Return the problem of some of the rows."""
        return problem.replace(source=source, rows=None)

    def judged(self, results: Mapping[Any, Any]) -> dict[Any, HeldOut]:
        """Judge the result of each fold on the fold."""
        return {
            fold: on_rows(result, FoldedTable(self.rows, fold, held_out=True), self.weight)
            for fold, result in results.items()
        }

    def check(self, result: Any) -> None:
        """Refuse what a method returns and is of no family."""
        if not isinstance(result, GlmSequence | GlmModel):
            raise ArgumentError(
                f"method returns a {type(result).__name__}; with a family it must return a "
                "GlmSequence or a GlmModel"
            )


@dataclass(frozen=True, eq=False)
class OnWide:
    """A table too wide for its Gram, whose folds are summed in the same scans.

    Parameters
    ----------
    wide : its folds
    """

    wide: WideFolds

    @property
    def rows(self) -> RowFolds:
        """Which fold each row is in."""
        return self.wide.rows

    @property
    def whole(self) -> FoldedTable:
        """All rows, without a column that is only the key."""
        return self.wide.whole

    def folds(self) -> tuple[list[Any], int]:
        """Return the folds that have usable rows, and how many are asked for."""
        return self.wide.folds()

    def training(self, folds: Sequence[Any]) -> dict[Any, Any]:
        """Return for each fold what the method runs on: the rows of the others."""
        return dict(self.wide.training(folds))

    def asked(self, problem: "Problem", source: Any) -> "Problem":
        """Return the problem of some of the rows."""
        return problem.replace(source=source, rows=None)

    def judged(self, results: Mapping[Any, Any]) -> dict[Any, HeldOut]:
        """Judge the result of each fold on the fold."""
        return {
            fold: on_gram(result, *self.wide.held_out(fold, result.columns))
            for fold, result in results.items()
        }

    def check(self, result: Any) -> None:
        """Refuse what a method returns and a Gram does not judge."""
        check_judged_on_gram(result)


Segment = OnGrams | OnTable | OnWide


def _outcomes(
    segment: Segment,
    problem: "Problem",
    method: MethodOf,
    points: Iterable[Options],
    judge: MetricJudge | None,
) -> Iterator[Outcome]:
    """Yield the scores of each point in one segment, and the reason why some are missing."""
    asked = Measures() if judge is None else judge.measures
    folds, every = segment.folds()
    if len(folds) < 2:
        few = f"{len(folds)} of {every} folds have usable rows; at least 2 are needed"
        yield from ((asked.nothing, few) for _ in points)
        return
    training = segment.training(folds)
    for options in points:
        try:
            results = {
                fold: _result(segment, segment.asked(problem, training[fold]), method, options)
                for fold in training
            }
            if judge is None or segment.rows is None:
                judged = segment.judged(results)
            else:
                judged = {fold: judge.of(one, segment.rows, fold) for fold, one in results.items()}
        except DataError as error:
            yield asked.nothing, str(error)
        else:
            yield scores_of(results, judged, asked), _note(problem, judged)


def _note(problem: "Problem", judged: Mapping[Any, HeldOut]) -> str | None:
    constant = [fold for fold, one in judged.items() if one.is_constant]
    target = problem.target
    names = f"'{target}'" if isinstance(target, str) else f"{problem.targets}"
    return f"target {names} is constant in fold {constant[0]}: no r2" if constant else None


def _result(segment: Segment, problem: "Problem", method: MethodOf, options: Options) -> Any:
    result = model_in(uninterrupted(answer(problem, method, options)))
    segment.check(result)
    return result


def _check_is_of_records(problem: "Problem") -> None:
    """Refuse what needs a table, where there is none to be cut into folds."""
    asked = {name: value for name, value in problem.changed().items() if name in _OF_TABLE}
    for name, value in asked.items():
        told = str(value) if name == "family" else value
        raise ArgumentError(
            f"folds is None; with {name} {told!r} the source is a table, and folds must state "
            "how many parts its rows are cut into"
        )


#: Fields of how a table is read, which records no longer need.
_OF_TABLE = ("family", "weight", "null_policy", "offset", "rows", "terms", "gram")


def _named(problem: "Problem", points: Iterable[Options]) -> list[str] | None:
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


def _row_folds(problem: "Problem", folding: Folding, named: list[str] | None) -> RowFolds:
    """Return the folds of a table's rows, as `gram_by` would cut it."""
    table = table_of(problem, None)
    if not table.again:
        raise SourceError(
            "source is a stream that can be read only once, and every fold reads the rows again; "
            "give a table, a relation or a file"
        )
    target = problem.targets[0]
    texts = [leaf.name for leaf in leaves(table.schema) if not leaf.is_numeric]
    if named is not None and target in texts:
        # A target of classes is no column of a Gram.
        named = [name for name in named if name != target]
    named = not_computed(named, problem.terms)
    taken = request_of(table.schema, named, problem.weight, (), folding).taken
    hidden = [folding.key] if named is None and folding.key is not None else []
    folding = replace(folding, columns=tuple(taken))
    return RowFolds(with_digits_of(folding.key, table), folding, hidden)


def _on_records(
    problem: "Problem", source: Any, rows: RowFolds | None = None, *, time: bool
) -> tuple[pl.DataFrame, list[OnGrams]]:
    """Return the keys of the segments of records, one row each, and the segments."""
    keys, every = _segments(source)
    return keys, [OnGrams(parts, problem.target or "", rows, time) for parts in every]


def _folding(
    problem: "Problem", name: str, folds: int | None, key: str | None, time: str | None
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


def _segments(source: Any) -> tuple[pl.DataFrame, list[dict[Any, Gram]]]:
    """Return the keys of the segments, one row each, and their folds."""
    if isinstance(source, list | tuple):
        if not source:
            raise ArgumentError("source is empty; it must list a Gram for each fold")
        grams = [one if isinstance(one, Gram) else Gram.from_struct(one) for one in source]
        return pl.DataFrame(), [dict(enumerate(grams))]
    frame = _frame(source)
    frame = frame.drop_nulls("gram")
    if frame.is_empty():
        raise ArgumentError("source is empty; it must have a row for each fold")
    keys = frame.drop(FOLD, "gram")
    if not keys.columns:
        return pl.DataFrame(), [_parts(frame)]
    groups = frame.partition_by(keys.columns, maintain_order=True)
    return keys.unique(maintain_order=True), [_parts(group) for group in groups]


def _frame(source: Any) -> pl.DataFrame:
    """Return a frame of records; that it has them is seen before rows are computed."""
    if isinstance(source, pl.LazyFrame):
        _check_records(source.collect_schema().names())
        return source.collect()
    elsewhere = table_elsewhere(source)
    if elsewhere is not None:
        _check_records(elsewhere.schema.names)
        return brought_here(elsewhere, elsewhere.schema.names)
    if isinstance(source, pl.DataFrame) or hasattr(source, "__arrow_c_stream__"):
        frame = pl.DataFrame(source)
        _check_records(frame.columns)
        return frame
    raise ArgumentError(
        f"source is a {type(source).__name__}; it must be a frame with the columns 'fold' and "
        "'gram', a list of Grams, or with folds= a table"
    )


def _check_records(names: list[str]) -> None:
    for name in (FOLD, "gram"):
        if name not in names:
            raise ColumnError(
                f"source lacks column '{name}'; it has {listed(names)}; a table needs folds=, as "
                "in folds=5"
            )


def _parts(rows: pl.DataFrame) -> dict[Any, Gram]:
    """Return the Gram of each fold, in the order of the folds; records of one are merged."""
    rows = rows.sort(FOLD)
    parts: dict[Any, Gram] = {}
    for fold, record in zip(rows[FOLD], rows["gram"].to_arrow(), strict=True):
        gram = Gram.from_struct(record)
        parts[fold] = parts[fold] + gram if fold in parts else gram
    return parts


def _check_names(keys: list[str], options: list[str], asked: Measures) -> None:
    """Refuse keys and options whose names the result needs."""
    taken = {"segment", "point", *asked.scores, *asked.means, *CHOICES, "reason"}
    for name in [*keys, *options]:
        if name in taken or (name in keys and name in options):
            kind, way = ("a key", "rename it") if name in keys else ("an option", "wrap the method")
            raise ArgumentError(f"{kind} is named '{name}'; {way}, the result has that name")

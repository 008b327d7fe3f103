"""Cross-validation of any method: on the records of folds, or on a table fold by fold.

A linear method needs nothing of the rows but the Gram of each fold, so no row is read
again. Models of a family are fitted to the rows of the other folds, read in passes, and
judged in one more pass over the fold.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from inspect import signature
from operator import add
from typing import Any, cast

import polars as pl

from dbselect.errors import ArgumentError, ColumnError, DataError, SourceError
from dbselect.glm.named import check_family_name
from dbselect.judging.held_out import (
    CHOICES,
    MEANS,
    NO_SCORES,
    SCORES,
    HeldOut,
    check_judged_on_gram,
    on_gram,
    on_rows,
    scores_of,
    tables,
    with_choices,
)
from dbselect.judging.validation import CrossValidation
from dbselect.methods.anytime import anytime_sequence
from dbselect.methods.baselines import greedy, random_k, top_k
from dbselect.methods.best_within import best_within
from dbselect.methods.dash import dash
from dbselect.methods.exchange import exchange
from dbselect.methods.fit import fit
from dbselect.methods.fit_glm import fit_glm
from dbselect.methods.floating import floating
from dbselect.methods.foba import backward, foba
from dbselect.methods.grid import Options, check_options, points_of, shown
from dbselect.methods.group_lasso import group_lasso
from dbselect.methods.lasso import lasso
from dbselect.methods.setup import check_target, check_targets, named_in, policy_but_for
from dbselect.methods.sght import sght
from dbselect.methods.sparse_group_lasso import sparse_group_lasso
from dbselect.methods.step import step
from dbselect.methods.too_wide import check_wide, is_too_wide
from dbselect.methods.training import WideFolds, wide_folds
from dbselect.record.checks import check_choice
from dbselect.record.columns import leaves
from dbselect.record.gram import Gram
from dbselect.results.glm.model import GlmModel
from dbselect.results.glm.sequence import GlmSequence
from dbselect.results.selected import model_in
from dbselect.sources.elsewhere import brought_here, table_elsewhere
from dbselect.sources.folded import FoldedTable, RowFolds
from dbselect.sources.grouping import warn_of_folds
from dbselect.sources.open import open_table
from dbselect.sources.read import gram_by, with_digits_of
from dbselect.sources.request import FOLD, Folding, Table, folding_of, request_of
from dbselect.sources.target import check_numeric
from dbselect.sources.turns import Callback, check_callback, turns

Method = Callable[..., Any]
#: Scores of a point, and the reason why some are missing.
Outcome = tuple[pl.DataFrame, str | None]

#: Methods by name; each takes a Gram, or with a family a table, and a target.
METHODS: dict[str, Method] = {
    method.__name__: method
    for method in (
        anytime_sequence, backward, best_within, dash, exchange, fit, fit_glm, floating, foba,
        greedy, group_lasso, lasso, random_k, sght, sparse_group_lasso, step, top_k,
    )
}  # fmt: skip


def cross_validate(
    source: Any,
    target: str | list[str] | tuple[str, ...],
    method: str | Method,
    grid: Mapping[str, Iterable[Any]] | Iterable[Mapping[str, Any]] | None = None,
    *,
    fold: int | None = None,
    key: str | None = None,
    seed: int | None = None,
    weight: str | None = None,
    callback: Callback | None = None,
    **options: Any,
) -> CrossValidation:
    """Score a method on the rows it has not seen, for every point of a grid of options.

    For each fold the method runs on the others, and what it returns is scored
    on the fold. Every prefix of a sequence is a candidate, from the last step that was
    forced (``always``, the start of `backward`) on; a model is one. A sequence that ends
    earlier than that of another fold carries its last model on.

    Parameters
    ----------
    source : frame with the columns ``fold`` and ``gram``, others being keys of segments,
        as `gram_by` with ``fold`` returns it or SQL by ``fold_of``; or a list of Grams; or
        with `fold` a table that `gram` reads
    target : column to predict; a list where the method takes one
    method : function that takes a Gram (with a family: a table), the target and options and
        returns a sequence or a model, or the name of one: ``"anytime_sequence"``,
        ``"backward"``, ``"best_within"``, ``"dash"``, ``"exchange"``, ``"fit"``,
        ``"fit_glm"``, ``"floating"``, ``"foba"``, ``"greedy"``, ``"group_lasso"``,
        ``"lasso"``, ``"random_k"``, ``"sght"``, ``"sparse_group_lasso"``, ``"step"``, ``"top_k"``
    grid : option -> values, of which all combinations are tried; or a list of options to
        try; default: only `options`
    fold, key : of a table, as in `gram_by`: number of folds, and the field that decides,
        which is left out of the default groups; default: the columns that groups name and
        the target, or all, so that rows that are equal there stay together
    seed : of the folds of a table, default 0, and of a method that draws
    weight : of a table, column of row weights, >= 0
    callback : is called with a `Progress` after every point of the grid, in every segment;
        what it raises ends the call
    options : of the method, the same at every point; with ``family`` among them, where the
        method has it, the models are those of the family. A ``null_policy`` is that of
        `gram_by`: a mean is that of all folds together

    Returns
    -------
    CrossValidation: r2, that of scikit-learn's ``r2_score`` about the mean of the
    held-out rows, and mse, each with mean and standard error ``sd / sqrt(folds)`` over
    the folds; the best candidate and the one-standard-error choice. With a family deviance
    and accuracy stand in the place of mse, as in `evaluate`, and the best has the lowest
    mean deviance. Of several responses r2 is the mean by their shares, and so is mse, each
    in units of the response's variance on all folds

    Raises
    ------
    ArgumentError : another method, an unknown option, an empty grid, a family without
        `fold` or in the grid, or what the method refuses
    ColumnError, GroupError : as the method
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
    do not count. A segment with fewer than two folds, or where the method raises
    DataError, has the reason in its row and keeps no other from its scores; r2 is missing
    where the target is constant in a fold.
    With a family, a point and fold takes the passes of the method and one, each over the
    whole table, of which the rows of other folds are dropped as they come. With ``wide=True``,
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
    ...     table, "late", "anytime_sequence", fold=4, key="y", family="binomial"
    ... )
    >>> found.table.select("step", pl.col("deviance", "accuracy").round(2)).rows()
    [(0, 1.37, 0.6), (1, 0.98, 0.75), (2, 0.99, 0.78)]
    """
    check_callback(callback)
    if isinstance(target, list | tuple):
        check_targets(target)
    else:
        check_target(target)
    run = _method_of(method)
    points = points_of(grid)
    parameters = signature(run).parameters
    family = _family(parameters, points, options)
    folding = folding_of(fold, key, 0 if seed is None else seed)
    if seed is not None and _is_drawn(parameters, points, folding):
        options = {**options, "seed": seed}
    if family is not None and weight is not None:
        options = {**options, "weight": weight}
    check_options(run, points, options)
    null_policy: Any = "skip"
    if folding is not None and family is None and "null_policy" in parameters:
        if _varies(points, "null_policy"):
            raise ArgumentError(
                "option 'null_policy' is in the grid; the folds of a table are read once, for "
                "all points: give it beside the grid"
            )
        null_policy = options.pop("null_policy", null_policy)
    varied = shown(points)
    _check_names([], varied.columns)
    tried = [{**options, **point} for point in points]
    segments: Sequence[Segment]
    if folding is None:
        _check_is_of_records(family, weight, options)
        keys, segments = _on_records(source, target)
    else:
        named = _named(source, target, tried)
        table = open_table(source, None)
        is_wide = family is None and _is_wide(table, target, named, parameters, points, options)
        if is_wide:
            options = {**options, "wide": True, "null_policy": null_policy, "weight": weight}
            tried = [{**options, **point} for point in points]
        cut = FoldReading(folding, named, weight, null_policy)
        keys, segments = _cut(table, target, cut, family, is_wide=is_wide)
    _check_names(keys.columns, varied.columns)
    outcomes = []
    with turns(len(segments) * len(tried), "points of the grid", callback) as turn:
        for number, segment in enumerate(segments):
            for point, (found, reason) in enumerate(_outcomes(segment, run, tried)):
                outcomes.append((number, point, found, reason))
                turn(None, None)
    scores, table_of_means = tables(outcomes)

    def labelled(rows: pl.DataFrame, columns: Iterable[str]) -> pl.DataFrame:
        for index, names in (("point", varied), ("segment", keys)):
            if names.columns:
                rows = rows.join(names.with_row_index(index), on=index, maintain_order="left")
        return rows.select(*keys.columns, "point", *varied.columns, *columns)

    return CrossValidation(
        target=target if isinstance(target, str) else list(target),
        keys=keys.columns,
        table=labelled(with_choices(table_of_means), (*MEANS, *CHOICES, "reason")),
        scores=labelled(scores, SCORES),
        grid=points,
        options=options,
        method=run,
        sources=[
            (values, segment.whole)
            for values, segment in zip(keys.to_dicts() or [{}], segments, strict=True)
        ],
    )


@dataclass(frozen=True)
class FoldReading:
    """How a table is cut into folds, and what is read of it.

    Parameters
    ----------
    named : columns and globs, the target among them; None for all
    """

    folding: Folding
    named: list[str] | None
    weight: str | None
    null_policy: Any


def _cut(
    table: Table, target: Any, cut: FoldReading, family: str | None, *, is_wide: bool
) -> tuple[pl.DataFrame, Sequence["Segment"]]:
    """Return the keys of the one segment that a table is, and its folds."""
    folding, weight = cut.folding, cut.weight
    if family is not None:
        rows = _row_folds(table, folding, cut.named, weight, target)
        return pl.DataFrame(), [OnTable(rows, target, weight)]
    if is_wide:
        check_target(target)
        folds = wide_folds(table, target, cut.named, weight, cut.null_policy, folding)
        return pl.DataFrame(), [folds]
    targets = [target] if isinstance(target, str) else target
    check_numeric(table, targets)
    records = gram_by(
        table, columns=cut.named, weight=weight, fold=folding.k, key=folding.key,
        seed=folding.seed, null_policy=policy_but_for(targets, cut.null_policy),
    )  # fmt: skip
    return _on_records(records, target)


@dataclass(frozen=True, eq=False)
class OnGrams:
    """A segment whose folds are Grams.

    Parameters
    ----------
    parts : fold -> Gram
    target : column to predict, or several
    """

    parts: Mapping[Any, Gram]
    target: str | list[str] | tuple[str, ...]

    @property
    def whole(self) -> Gram:
        """The Gram of all folds."""
        return reduce(add, self.parts.values())

    def folds(self) -> tuple[list[Any], int]:
        """Return the folds that have usable rows, and how many there are in all."""
        return [fold for fold, gram in self.parts.items() if gram.rows], len(self.parts)

    def training(self, folds: Sequence[Any]) -> dict[Any, Gram]:
        """Return for each fold what the method runs on: the Gram of the others."""
        return {
            fold: reduce(add, (self.parts[other] for other in folds if other != fold))
            for fold in folds
        }

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
    target : column to predict
    weight : column of row weights
    """

    rows: RowFolds
    target: str
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
        return {fold: FoldedTable(self.rows, fold) for fold in folds}

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


Segment = OnGrams | OnTable | WideFolds


def _outcomes(segment: Segment, run: Method, points: Iterable[Options]) -> Iterator[Outcome]:
    """Yield the scores of each point in one segment, and the reason why some are missing."""
    folds, every = segment.folds()
    if len(folds) < 2:
        few = f"{len(folds)} of {every} folds have usable rows; at least 2 are needed"
        yield from ((NO_SCORES, few) for _ in points)
        return
    training = segment.training(folds)
    for options in points:
        try:
            results = {fold: _result(segment, run, training[fold], options) for fold in folds}
            judged = segment.judged(results)
        except DataError as error:
            yield NO_SCORES, str(error)
        else:
            yield scores_of(results, judged), _note(segment.target, judged)


def _note(target: Any, judged: Mapping[Any, HeldOut]) -> str | None:
    constant = [fold for fold, one in judged.items() if one.is_constant]
    names = f"'{target}'" if isinstance(target, str) else f"{list(target)}"
    return f"target {names} is constant in fold {constant[0]}: no r2" if constant else None


def _result(segment: Segment, run: Method, source: Any, options: Options) -> Any:
    result = model_in(run(source, segment.target, **options))
    segment.check(result)
    return result


def _family(
    parameters: Mapping[str, Any], points: Iterable[Options], options: Options
) -> str | None:
    """Return the family of the models, None if they are linear ones of a Gram.

    Raises
    ------
    ArgumentError : another family, or several, whose deviances are not on one scale
    """
    if "family" not in parameters:
        return None
    if _varies(points, "family"):
        raise ArgumentError(
            "option 'family' is in the grid; the deviances of two families do not compare"
        )
    default = parameters["family"].default
    family = options.get("family", default)
    # Where gaussian is the default, it is the linear model of a Gram.
    if family is None or family is parameters["family"].empty or family == default == "gaussian":
        return None
    check_family_name(family)
    return str(family)


def _is_drawn(
    parameters: Mapping[str, Any], points: Iterable[Options], folding: Folding | None
) -> bool:
    """Whether the seed is an option of the method; without folds to cut it can be nothing else."""
    return (folding is None or "seed" in parameters) and not _varies(points, "seed")


def _check_is_of_records(family: str | None, weight: str | None, options: Options) -> None:
    """Refuse what needs a table, where there is none to be cut into folds."""
    if options.get("wide"):
        raise ArgumentError(
            "fold is None; with wide True the source is a table, and fold says into how many "
            "parts its rows fall"
        )
    if family is not None:
        raise ArgumentError(
            f"fold is None; with family {family!r} the source is a table, and fold says into how "
            "many parts its rows fall"
        )
    if weight is not None:
        raise ArgumentError(f"weight is {weight!r}; it is of a table, records have their weights")


def _is_wide(
    table: Table,
    target: Any,
    named: list[str] | None,
    parameters: Mapping[str, Any],
    points: Iterable[Options],
    options: Options,
) -> bool:
    """Whether the folds of a table are searched without their Grams."""
    if "wide" not in parameters:
        return False
    if _varies(points, "wide"):
        raise ArgumentError(
            "option 'wide' is in the grid; the folds of a table are read for all points: give it "
            "beside the grid"
        )
    asked = options.get("wide")
    intercept = all(one.get("intercept", True) for one in (options, *points))
    check_wide(asked, intercept)
    if asked is not None:
        return bool(asked)
    return is_too_wide(table, target, named, intercept)


def _varies(points: Iterable[Options], name: str) -> bool:
    return any(name in point for point in points)


def _named(source: Any, target: str | Sequence[str], points: Iterable[Options]) -> list[str] | None:
    """Return the target and the columns and globs that some point names; None for all."""
    found = [target] if isinstance(target, str) else list(target)
    for options in points:
        named = named_in(options.get("groups"), source)
        columns = options.get("columns") if named is None else named
        if columns is None:
            return None
        found += [columns] if isinstance(columns, str) else columns
    return list(dict.fromkeys(found))


def _row_folds(
    table: Table, folding: Folding, named: list[str] | None, weight: str | None, target: Any
) -> RowFolds:
    """Return the folds of a table's rows, as `gram_by` would cut it."""
    if not table.again:
        raise SourceError(
            "source is a stream that can be read only once, and every fold reads the rows again; "
            "give a table, a relation or a file"
        )
    texts = [leaf.name for leaf in leaves(table.schema) if not leaf.is_numeric]
    if named is not None and target in texts:
        # A target of classes is no column of a Gram.
        named = [name for name in named if name != target]
    taken = request_of(table.schema, named, weight, (), folding).taken
    hidden = [folding.key] if named is None and folding.key is not None else []
    return RowFolds(with_digits_of(folding.key, table), folding, taken, hidden)


def _method_of(method: Any) -> Method:
    if isinstance(method, str) or not callable(method):
        check_choice("method", method, METHODS)
        return METHODS[method]
    return cast(Method, method)


def _on_records(source: Any, target: Any) -> tuple[pl.DataFrame, list[OnGrams]]:
    """Return the keys of the segments of records, one row each, and the segments."""
    keys, every = _segments(source)
    return keys, [OnGrams(parts, target) for parts in every]


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
        "'gram', a list of Grams, or with fold= a table"
    )


def _check_records(names: list[str]) -> None:
    for name in (FOLD, "gram"):
        if name not in names:
            raise ColumnError(f"source lacks column '{name}'; it has {names}; a table needs fold=")


def _parts(rows: pl.DataFrame) -> dict[Any, Gram]:
    """Return the Gram of each fold, in the order of the folds; records of one are merged."""
    rows = rows.sort(FOLD)
    parts: dict[Any, Gram] = {}
    for fold, record in zip(rows[FOLD], rows["gram"].to_arrow(), strict=True):
        gram = Gram.from_struct(record)
        parts[fold] = parts[fold] + gram if fold in parts else gram
    return parts


def _check_names(keys: list[str], options: list[str]) -> None:
    """Refuse keys and options whose names the result needs."""
    taken = {"segment", "point", *SCORES, *MEANS, *CHOICES, "reason"}
    for name in [*keys, *options]:
        if name in taken or (name in keys and name in options):
            kind, way = ("a key", "rename it") if name in keys else ("an option", "wrap the method")
            raise ArgumentError(f"{kind} is named '{name}'; {way}, the result has that name")

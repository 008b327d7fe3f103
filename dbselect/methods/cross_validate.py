"""Cross-validation of any method on the records of folds: no row is read again."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce
from operator import add
from typing import Any, cast

import polars as pl

from dbselect.errors import ArgumentError, ColumnError, DataError
from dbselect.judging.held_out import (
    CHOICES,
    MEANS,
    NO_SCORES,
    SCORES,
    scores_of,
    tables,
    with_choices,
)
from dbselect.judging.validation import CrossValidation
from dbselect.linear.problem import unusable
from dbselect.methods.anytime import anytime_sequence
from dbselect.methods.dash import dash, greedy, random_k, top_k
from dbselect.methods.fit import fit
from dbselect.methods.foba import backward, foba
from dbselect.methods.grid import Options, check_options, points_of, shown
from dbselect.methods.group_lasso import group_lasso
from dbselect.methods.setup import check_target
from dbselect.methods.sght import sght
from dbselect.record.checks import check_choice
from dbselect.record.gram import Gram
from dbselect.results.model import Model
from dbselect.results.selected import model_in
from dbselect.results.sequence import Sequence as AnytimeSequence
from dbselect.sources.request import FOLD

Method = Callable[..., Any]

#: Methods by name; each takes a Gram and a target, and gives a Sequence or a Model.
METHODS: dict[str, Method] = {
    method.__name__: method
    for method in (
        anytime_sequence, backward, dash, fit, foba, greedy, group_lasso, random_k, sght, top_k
    )
}  # fmt: skip


def cross_validate(
    folds: Any,
    target: str,
    method: str | Method,
    grid: Mapping[str, Iterable[Any]] | Iterable[Mapping[str, Any]] | None = None,
    **options: Any,
) -> CrossValidation:
    """Score a method on the rows it has not seen, for every point of a grid of options.

    For each fold the method runs on the Gram of the others, and what it returns is scored
    on the fold. Every prefix of a Sequence is a candidate, from the last step that was
    forced (``always``, the start of `backward`) on; a Model is one. A sequence that ends
    earlier than that of another fold carries its last model on.

    Parameters
    ----------
    folds : frame with the columns ``fold`` and ``gram``, others being keys of segments,
        as `gram_by` with ``fold`` returns it or SQL by ``fold_of``; or a list of Grams
    target : column to predict
    method : function that takes a Gram, the target and options and returns a Sequence or
        a Model, or the name of one: ``"anytime_sequence"``, ``"backward"``, ``"dash"``,
        ``"fit"``, ``"foba"``, ``"greedy"``, ``"group_lasso"``, ``"random_k"``,
        ``"sght"``, ``"top_k"``
    grid : option -> values, of which all combinations are tried; or a list of options to
        try; default: only `options`
    options : of the method, the same at every point

    Returns
    -------
    CrossValidation: r2, that of scikit-learn's ``r2_score`` about the mean of the
    held-out rows, and mse, each with mean and standard error ``sd / sqrt(folds)`` over
    the folds; the best candidate and the one-standard-error choice

    Raises
    ------
    ArgumentError : another method, an unknown option, an empty grid, or what the method
        refuses
    ColumnError, GroupError : as the method
    RecordError : a record is malformed, or those of a segment do not fit each other

    Notes
    -----
    The method runs once a point and fold. A training Gram is the sum of the other folds,
    not a difference, so that no digits cancel: O(folds^2 d^2). Folds without usable rows
    do not count. A segment with fewer than two folds, or where the method raises
    DataError, has the reason in its row and keeps no other from its scores; r2 is missing
    where the target is constant in a fold.

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
    """
    check_target(target)
    run = _method_of(method)
    points = points_of(grid)
    check_options(run, points, options)
    keys, segments = _segments(folds)
    varied = shown(points)
    _check_names(keys.columns, varied.columns)
    tried = [{**options, **point} for point in points]
    scores, table = tables(
        [
            (segment, point, found, reason)
            for segment, parts in enumerate(segments)
            for point, (found, reason) in enumerate(_outcomes(parts, target, run, tried))
        ]
    )

    def named(rows: pl.DataFrame, columns: Iterable[str]) -> pl.DataFrame:
        for index, names in (("point", varied), ("segment", keys)):
            if names.columns:
                rows = rows.join(names.with_row_index(index), on=index, maintain_order="left")
        return rows.select(*keys.columns, "point", *varied.columns, *columns)

    return CrossValidation(
        target=target,
        keys=keys.columns,
        table=named(with_choices(table), (*MEANS, *CHOICES, "reason")),
        scores=named(scores, SCORES),
        grid=points,
        options=options,
        method=run,
        grams=[
            (values, reduce(add, parts.values()))
            for values, parts in zip(keys.to_dicts() or [{}], segments, strict=True)
        ],
    )


def _outcomes(
    parts: Mapping[Any, Gram], target: str, run: Method, points: Iterable[Options]
) -> Iterator[tuple[pl.DataFrame, str | None]]:
    """Yield the scores of each point in one segment, and the reason why some are missing.

    Parameters
    ----------
    parts : fold -> Gram
    """
    held = {fold: gram for fold, gram in parts.items() if gram.rows}
    if len(held) < 2:
        few = f"{len(held)} of {len(parts)} folds have usable rows; at least 2 are needed"
        yield from ((NO_SCORES, few) for _ in points)
        return
    training = {
        fold: reduce(add, (gram for other, gram in held.items() if other != fold)) for fold in held
    }
    constant = [fold for fold, gram in held.items() if unusable(gram, target) is not None]
    note = f"target '{target}' is constant in fold {constant[0]}: no r2" if constant else None
    for options in points:
        try:
            results = {fold: _result(run, training[fold], target, options) for fold in held}
        except DataError as error:
            yield NO_SCORES, str(error)
        else:
            yield scores_of(results, held, constant), note


def _result(run: Method, gram: Gram, target: str, options: Options) -> AnytimeSequence | Model:
    result = model_in(run(gram, target, **options))
    if not isinstance(result, AnytimeSequence | Model):
        raise ArgumentError(
            f"method returns a {type(result).__name__}; it must return a Sequence or a Model"
        )
    return result


def _method_of(method: Any) -> Method:
    if isinstance(method, str) or not callable(method):
        check_choice("method", method, METHODS)
        return METHODS[method]
    return cast(Method, method)


def _segments(folds: Any) -> tuple[pl.DataFrame, list[dict[Any, Gram]]]:
    """Return the keys of the segments, one row each, and their folds."""
    if isinstance(folds, list | tuple):
        if not folds:
            raise ArgumentError("folds is empty; it must list a Gram for each fold")
        grams = [one if isinstance(one, Gram) else Gram.from_struct(one) for one in folds]
        return pl.DataFrame(), [dict(enumerate(grams))]
    frame = _frame(folds)
    for name in (FOLD, "gram"):
        if name not in frame.columns:
            raise ColumnError(f"folds lacks column '{name}'; it has {frame.columns}")
    frame = frame.drop_nulls("gram")
    if frame.is_empty():
        raise ArgumentError("folds is empty; it must have a row for each fold")
    keys = frame.drop(FOLD, "gram")
    if not keys.columns:
        return pl.DataFrame(), [_parts(frame)]
    groups = frame.partition_by(keys.columns, maintain_order=True)
    return keys.unique(maintain_order=True), [_parts(group) for group in groups]


def _frame(folds: Any) -> pl.DataFrame:
    if isinstance(folds, pl.LazyFrame):
        return folds.collect()
    if isinstance(folds, pl.DataFrame) or hasattr(folds, "__arrow_c_stream__"):
        return pl.DataFrame(folds)
    raise ArgumentError(
        f"folds is a {type(folds).__name__}; it must be a frame with the columns 'fold' and 'gram' "
        "or a list of Grams"
    )


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

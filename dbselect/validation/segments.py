"""Segments of a cross-validation: each has folds, runs a method on them and scores it."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import accumulate
from operator import add
from typing import Any

import polars as pl

from dbselect.errors import ArgumentError, ColumnError, DataError, SourceError
from dbselect.pages.html import listed
from dbselect.record.columns import leaves
from dbselect.record.gram import Gram
from dbselect.record.steps import uninterrupted
from dbselect.record.terms import Terms
from dbselect.results.selected import model_in
from dbselect.search.table import policy_but_for, table_of
from dbselect.search.training_folds import FoldSums, OtherFolds, held_out, wide_folds
from dbselect.search.wide_table import WideTable
from dbselect.sources.open import brought_here, open_table, table_elsewhere
from dbselect.sources.partial.grouping import warn_of_folds
from dbselect.sources.read import gram_by, read_columns, with_digits_of
from dbselect.sources.request import FOLD, Folding, check_numeric, not_computed, request_of
from dbselect.sources.sampling.folded import FoldedTable, RowFolds
from dbselect.spec.spec import Spec
from dbselect.validation.grid import MethodOf, Options, answer
from dbselect.validation.held_out import (
    HeldOut,
    Measures,
    MetricJudge,
    check_judged,
    on_gram,
    on_rows,
    scores_of,
)
from dbselect.validation.splits import NUMBER, RowSplits

#: Fields that control the reading of a table; records do not need them.
_OF_TABLE = ("family", "weight", "null_policy", "offset", "rows", "terms", "gram")


@dataclass(frozen=True, eq=False)
class Segment(ABC):
    """Data that are divided into folds."""

    rows: Any  # RowFolds of its rows; None for records, which need no rows

    @property
    def whole(self) -> Any:
        """All rows, without a column that is only the key; for records their Gram."""
        return FoldedTable(self.rows, None)

    @abstractmethod
    def folds(self) -> tuple[list[Any], int]:
        """Return the folds that have usable rows, and the number of all folds."""

    @abstractmethod
    def training(self, folds: Sequence[Any]) -> dict[Any, Any]:
        """Return the training data of each fold: the other folds, or those before it."""

    @abstractmethod
    def held_out(self, fold: Any, result: Any) -> HeldOut:
        """Score a result on the rows of a fold."""

    def judged(self, fold: Any) -> tuple[Any, Any]:
        """Return the folded rows and the number of the fold on which a metric is computed."""
        return self.rows, fold

    def outcomes(
        self,
        problem: Spec,
        method: MethodOf,
        points: Iterable[Options],
        judge: MetricJudge | None,
    ) -> Iterator[tuple[pl.DataFrame, str | None]]:
        """Yield the scores of each point, and the reason why some are missing."""
        scored = Measures() if judge is None else judge.measures
        folds, n_folds = self.folds()
        if len(folds) < 2:
            reason = f"{len(folds)} of {n_folds} folds have usable rows; at least 2 are needed"
            yield from ((scored.nothing, reason) for _ in points)
            return
        training = self.training(folds)
        for options in points:
            try:
                results = {
                    fold: _result(problem, source, method, options)
                    for fold, source in training.items()
                }
                judged = {
                    fold: self.held_out(fold, result)
                    if judge is None
                    else judge.of(result, *self.judged(fold))
                    for fold, result in results.items()
                }
            except DataError as error:
                yield scored.nothing, str(error)
            else:
                yield scores_of(results, judged, scored), _note(problem, judged)


def _result(problem: Spec, source: Any, method: MethodOf, options: Options) -> Any:
    """Run the method on training data, which were read with the problem's options."""
    is_gram = isinstance(source, Gram)
    part = problem.on_gram(source) if is_gram else problem.replace(source=source, rows=None)
    result = model_in(uninterrupted(answer(part, method, options)))
    check_judged(result, is_linear=problem.is_linear)
    return result


def _note(problem: Spec, judged: Mapping[Any, HeldOut]) -> str | None:
    constant = [fold for fold, scores in judged.items() if scores.is_constant]
    target = problem.target
    names = f"'{target}'" if isinstance(target, str) else f"{problem.targets}"
    return f"target {names} is constant in fold {constant[0]}: no r2" if constant else None


def _variances(gram: Gram, targets: Sequence[str]) -> dict[str, float]:
    """Return the variance of each target."""
    at = {name: gram.position(name, "target") for name in targets}
    return {name: float(gram.comoment[j, j] / gram.weight) for name, j in at.items()}


@dataclass(frozen=True, eq=False)
class OnGrams(Segment):
    """A segment whose folds are Grams."""

    parts: Mapping[Any, Gram]  # of each fold
    targets: list[str]
    in_order: bool  # whether only earlier folds are training data

    @property
    def whole(self) -> Gram:
        """The Gram of all folds."""
        return reduce(add, self.parts.values())

    def folds(self) -> tuple[list[Any], int]:
        """Return the folds that have usable rows, and the number of all folds."""
        return [fold for fold, gram in self.parts.items() if gram.rows], len(self.parts)

    def training(self, folds: Sequence[Any]) -> dict[Any, Gram]:
        """Return the Gram of the other folds, or of those before, for each fold."""
        if self.in_order:
            earlier = accumulate((self.parts[fold] for fold in folds[:-1]), add)
            return dict(zip(folds[1:], earlier, strict=True))
        # Add the sums of the folds before and after: three additions per fold.
        after = [*accumulate((self.parts[fold] for fold in folds[:0:-1]), add)]
        training, before = {folds[0]: after.pop()}, self.parts[folds[0]]
        for fold in folds[1:-1]:
            training[fold] = before + after.pop()
            before = before + self.parts[fold]
        return {**training, folds[-1]: before}

    @cached_property
    def _scales(self) -> dict[str, float]:
        """The variance of each target on all folds."""
        return _variances(self.whole, self.targets)

    def held_out(self, fold: Any, result: Any) -> HeldOut:
        """Score a result on the Gram of a fold."""
        return on_gram(result, self.parts[fold], scales=self._scales)


@dataclass(frozen=True, eq=False)
class OnTable(Segment):
    """A table whose folds are read in passes, for GLMs."""

    weight: str | None  # column of row weights

    def folds(self) -> tuple[list[Any], int]:
        """Return the folds that have rows, and the requested number."""
        present = self.rows.present()
        warn_of_folds([len(present)], self.rows.folding)
        return list(present), self.rows.folding.k

    def training(self, folds: Sequence[Any]) -> dict[Any, FoldedTable]:
        """Return the rows of the other folds, for each fold."""
        scored = folds[1:] if self.rows.folding.edges else folds
        return {fold: FoldedTable(self.rows, fold) for fold in scored}

    def held_out(self, fold: Any, result: Any) -> HeldOut:
        """Score a result on the rows of a fold, in one pass."""
        return on_rows(result, FoldedTable(self.rows, fold, held_out=True), self.weight)


@dataclass(frozen=True, eq=False)
class OnWide(Segment):
    """A table too wide for its Gram, whose folds are summed in the same scans."""

    table: WideTable  # all rows
    sums: FoldSums

    def folds(self) -> tuple[list[Any], int]:
        """Return the folds that have usable rows, and the requested number."""
        return list(self.sums.totals), self.rows.folding.k

    def training(self, folds: Sequence[Any]) -> dict[Any, Any]:
        """Return the rows of the other folds, for each fold."""
        scans = {fold: OtherFolds(self.sums, fold) for fold in folds}
        return {fold: self.table.of_rows(scan.totals, scan) for fold, scan in scans.items()}

    def held_out(self, fold: Any, result: Any) -> HeldOut:
        """Score a result on the sums of a fold."""
        return on_gram(result, *held_out(self.table, self.sums, fold, result.columns))


@dataclass(frozen=True, eq=False)
class OnSplits(Segment):
    """Rows in memory with arbitrary training and held-out rows for each fold."""

    problem: Spec
    splits: RowSplits
    named: list[str] | None  # columns to read; None for all

    @cached_property
    def whole(self) -> Any:
        """The Gram of all rows, or with a family the table."""
        table = open_table(self.splits.frame, None)
        return self._gram(table, self.problem.terms) if self.problem.is_linear else table

    def folds(self) -> tuple[list[Any], int]:
        """Return the fold numbers, and their count."""
        count = len(self.splits.pairs)
        return [*range(count)], count

    def training(self, folds: Sequence[Any]) -> dict[Any, Any]:
        """Return the training rows of each fold."""
        return {fold: self._rows(fold, held_out=False) for fold in folds}

    def held_out(self, fold: Any, result: Any) -> HeldOut:
        """Score a result on the held-out rows of a fold."""
        rows = self._rows(fold, held_out=True)
        if not self.problem.is_linear:
            return on_rows(result, rows, self.problem.weight)
        return on_gram(result, rows, scales=_variances(self.whole, self.problem.targets))

    def judged(self, fold: Any) -> tuple[Any, Any]:
        """Return the folded rows and the number of the fold on which a metric is computed."""
        return self._of_fold(fold), 1

    def _rows(self, fold: int, *, held_out: bool) -> Any:
        rows = FoldedTable(self._of_fold(fold), 1, held_out=held_out)
        return self._gram(rows, self.whole.terms) if self.problem.is_linear else rows

    def _of_fold(self, fold: int) -> RowFolds:
        frame, folding = self.splits.fold(fold)
        return RowFolds(open_table(frame, None), folding, [NUMBER])

    def _gram(self, table: Any, terms: Terms | None) -> Gram:
        """Return the Gram of some rows, with the levels and curves of all rows."""
        problem = self.problem
        policy = policy_but_for(problem.targets, problem.null_policy)
        gram, _ = read_columns(table, self.named, problem.weight, policy, terms)
        return gram


def segments_of(
    problem: Spec,
    folding: Folding | RowSplits | None,
    named: list[str] | None,
    *,
    time: bool,
    rows: bool,
) -> tuple[pl.DataFrame, Sequence[Segment]]:
    """Return the keys of the segments, one row each, and the segments.

    With `time` the method runs on the earlier folds; `rows` scores linear models on rows too.
    """
    if isinstance(folding, RowSplits):
        return pl.DataFrame(), [OnSplits(None, problem, folding, named)]
    row_folds = None
    if folding is not None and (rows or not problem.is_linear):
        row_folds = _row_folds(problem, folding, named)
    if folding is not None and not problem.is_linear:
        return pl.DataFrame(), [OnTable(row_folds, problem.weight)]
    if folding is not None and problem.gram == "lazy":
        return pl.DataFrame(), [OnWide(*wide_folds(problem, folding, named))]
    keys, segments = _segments(fold_records(problem, folding, named))
    return keys, [OnGrams(row_folds, parts, problem.targets, time) for parts in segments]


def fold_records(problem: Spec, folding: Folding | None, named: list[str] | None) -> Any:
    """Return the records of folds: the source, or those of a table, which is read once."""
    if folding is None:
        _check_is_of_records(problem)
        return problem.source
    table = table_of(problem, None)
    check_numeric(table, problem.targets)
    return gram_by(
        table, columns=named, weight=problem.weight, fold=folding, terms=problem.terms,
        null_policy=policy_but_for(problem.targets, problem.null_policy),
    )  # fmt: skip


def _check_is_of_records(problem: Spec) -> None:
    """Refuse options of a table when the source must be records of folds."""
    of_table = {name: value for name, value in problem.changed().items() if name in _OF_TABLE}
    for name, value in of_table.items():
        shown = str(value) if name == "family" else value
        raise ArgumentError(
            f"folds is None; with {name} {shown!r} the source is a table, and folds must state "
            "how many parts its rows are cut into"
        )


def _row_folds(problem: Spec, folding: Folding, named: list[str] | None) -> RowFolds:
    """Return the folds of a table's rows, the same as those of `gram_by`."""
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


def _segments(source: Any) -> tuple[pl.DataFrame, list[dict[Any, Gram]]]:
    """Return the keys of the segments, one row each, and their folds."""
    if isinstance(source, list | tuple):
        if not source:
            raise ArgumentError("source is empty; it must list a Gram for each fold")
        grams = [item if isinstance(item, Gram) else Gram.from_struct(item) for item in source]
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
    """Return a frame of records; its columns are checked before it is computed."""
    if isinstance(source, pl.LazyFrame):
        _check_records(source.collect_schema().names())
        return source.collect()
    table = table_elsewhere(source)
    if table is not None:
        _check_records(table.schema.names)
        return brought_here(table, table.schema.names)
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
    """Return the Gram of each fold, in the order of the folds; equal folds are merged."""
    rows = rows.sort(FOLD)
    parts: dict[Any, Gram] = {}
    for fold, record in zip(rows[FOLD], rows["gram"].to_arrow(), strict=True):
        gram = Gram.from_struct(record)
        parts[fold] = parts[fold] + gram if fold in parts else gram
    return parts

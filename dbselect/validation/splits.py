"""Split rows into training and held-out rows.

By a number of folds, a column of folds, pairs of row numbers, or a splitter of scikit-learn.
Disjoint folds that cover all rows are read in one pass; other splits are held in memory.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow.compute as pc

from dbselect.errors import ArgumentError, ColumnError, DataError, SourceError, shown
from dbselect.options.kinds import SPLITS, is_whole
from dbselect.record.columns import leaf_of, leaves
from dbselect.search.table import table_of
from dbselect.sources.partial.grouping import in_arrow, moments_of
from dbselect.sources.request import FOLD, Folding, Table, check_field, folding_of
from dbselect.spec.spec import Spec

#: Row numbers, from 0.
Rows = npt.NDArray[np.intp]
#: Name of the column of fold numbers that is added to a table.
NUMBER = "__dbselect_fold_number"
#: Largest number of values of a column of folds.
MOST_FOLDS = 1000


@dataclass(frozen=True, eq=False)
class RowSplits:
    """Rows in memory, with the training and held-out row numbers of each fold."""

    frame: pl.DataFrame
    pairs: Sequence[tuple[Rows, Rows]]

    @property
    def are_parts(self) -> bool:
        """Whether every row is held out once, and is a training row of all other folds."""
        judged = np.concatenate([test for _, test in self.pairs])
        height = self.frame.height
        return len(judged) == height and all(
            len(train) + len(test) == height and not np.isin(train, test).any()
            for train, test in self.pairs
        ) and len(np.unique(judged)) == height  # fmt: skip

    def numbered(self) -> tuple[pl.DataFrame, Folding]:
        """Return the rows with a column of their fold numbers; for `are_parts`."""
        number = np.empty(self.frame.height, np.int64)
        for fold, (_, test) in enumerate(self.pairs):
            number[test] = fold
        folding = Folding(len(self.pairs), NUMBER, 0, values=tuple(range(len(self.pairs))))
        return self.frame.with_columns(pl.Series(NUMBER, number)), folding

    def fold(self, fold: int) -> tuple[pl.DataFrame, Folding]:
        """Return the rows of one fold: `NUMBER` is 0 for training rows, 1 for held-out rows."""
        train, test = self.pairs[fold]
        rows = self.frame[np.concatenate([train, test])]
        marks = np.repeat([0, 1], [len(train), len(test)])
        return rows.with_columns(pl.Series(NUMBER, marks)), Folding(2, NUMBER, 0, values=(0, 1))


def split_of(
    problem: Spec, name: str, folds: Any, key: str | None, time: str | None, *, kept: bool = False
) -> tuple[Spec, Folding | RowSplits | None]:
    """Return the problem on the rows to split, and their split; None for records of folds.

    The key of a splitter's groups is not a feature; `kept` keeps the column for a metric.
    """
    SPLITS.or_none().check(name, folds)
    if folds is None or is_whole(folds):
        return problem, _by_number(problem, name, folds, key, time)
    if time is not None:
        raise ArgumentError(
            f"time is {time!r} and {name} is {shown(folds)}; with time it must be a number"
        )
    if isinstance(folds, str) and folds in problem.targets:
        raise ArgumentError(f"{name} is '{folds}', which is the target and cannot say the folds")
    if isinstance(folds, str):
        if key is not None:
            raise ArgumentError(f"{name} is '{folds}' and key is {key!r}; give one of them")
        return problem, column_folding(table_of(problem, None), folds, name)
    splits = _row_splits(problem, name, folds, key)
    if key is not None and problem.groups is None and not kept:
        splits = RowSplits(splits.frame.drop(key), splits.pairs)
    if not splits.are_parts:
        return problem, splits
    frame, folding = splits.numbered()
    return problem.replace(source=frame), folding


def _by_number(
    problem: Spec, name: str, folds: int | None, key: str | None, time: str | None
) -> Folding | None:
    """Return the division of a table into folds; None for records of folds."""
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


def column_folding(table: Table, column: str, name: str) -> Folding:
    """Return one fold per value of a column; one pass.

    DataError for missing values, a single value, or more than `MOST_FOLDS`.
    """
    check_field(column, name, table.schema)
    if not table.again:
        raise SourceError(f"source is a stream that can be read only once, and {name} needs a read")
    values: set[Any] = set()
    for batch in table.batches([column]):
        values.update(pc.unique(in_arrow(batch).column(0)).to_pylist())
        if len(values) > MOST_FOLDS:
            raise DataError(
                f"{name} names '{column}', which has more than {MOST_FOLDS} values, each a fold; "
                f"{name}=5 with key='{column}' keeps rows of equal values together"
            )
    if None in values:
        raise DataError(f"{name} names '{column}', which is missing in some rows")
    if len(values) < 2:
        raise DataError(f"{name} names '{column}', which has {len(values)} value; folds need two")
    return Folding(len(values), column, 0, values=tuple(sorted(values)))


def _row_splits(problem: Spec, name: str, folds: Any, key: str | None) -> RowSplits:
    """Read a table into memory and split its rows."""
    is_splitter = hasattr(folds, "split") and not isinstance(folds, type)
    if not (is_splitter or _are_pairs(folds)):
        raise ArgumentError(
            f"{name} is {shown(folds)}; it must be a whole number >= 2, a column whose values are "
            "the folds, a list of pairs of row numbers (train, test), or a splitter of "
            "scikit-learn"
        )
    if problem.rows is not None or problem.gram == "lazy":
        raise ArgumentError(f"{name} numbers rows, of which rows= and gram='lazy' see only some")
    table = table_of(problem, None)
    frame = pl.DataFrame(pl.concat(pl.DataFrame(b) for b in table.batches(table.schema.names)))
    if key is not None:
        check_field(key, "key", table.schema)
    pairs = folds if not hasattr(folds, "split") else _split(folds, frame, problem, name, key)
    checked = [tuple(_checked(part, frame.height, name) for part in pair) for pair in pairs]
    if len(checked) < 2:
        raise ArgumentError(f"{name} has {len(checked)} fold; at least 2 are needed")
    return RowSplits(frame, [(train, test) for train, test in checked])


def _are_pairs(folds: Any) -> bool:
    is_listed = isinstance(folds, Iterable) and not isinstance(folds, Mapping | str | pl.DataFrame)
    return is_listed and all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in folds)


def _split(
    splitter: Any, frame: pl.DataFrame, problem: Spec, name: str, key: str | None
) -> list[Any]:
    target = frame[problem.targets[0]].to_numpy() if problem.targets else None
    groups = None if key is None else frame[key].to_numpy()
    try:
        return list(splitter.split(np.empty((frame.height, 1)), target, groups))
    except (TypeError, ValueError) as error:
        need = "; key= names the column of its groups" if key is None else ""
        raise ArgumentError(f"{name} is {shown(splitter)}, which fails: {error}{need}") from error


def _checked(rows: Any, height: int, name: str) -> Rows:
    """Return checked row numbers as an array; convert a mask of all rows."""
    numbers = np.asarray(rows)
    if numbers.dtype == np.bool_ and numbers.shape == (height,):
        return np.flatnonzero(numbers)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or not numbers.size:
        raise ArgumentError(f"{name} has rows {shown(rows)}; they must be numbers of rows, from 0")
    if numbers.min() < 0 or numbers.max() >= height:
        raise ArgumentError(
            f"{name} has row {numbers.max()}, and the table has {height} rows, numbered from 0"
        )
    return numbers.astype(np.intp)


def time_folding(table: Table, time: str, k: int) -> Folding:
    """Divide rows by time into k folds and the rows before, as scikit-learn's ``TimeSeriesSplit``.

    Rows of equal time stay together. One pass; DataError for missing or too few values.
    """
    leaf = leaf_of(time, {field.name: field for field in leaves(table.schema)}, "time")
    if not leaf.is_numeric or leaf.field != time:
        raise ColumnError(f"time '{time}' has type {leaf.type}; it must be a number or a date")
    if not table.again:
        raise SourceError("source is a stream that can be read only once, and time needs a read")
    parts = [moments_of(pl.DataFrame(batch), time) for batch in table.batches([time])]
    values = np.sort(np.concatenate(parts)) if parts else np.empty(0)
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

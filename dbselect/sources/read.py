"""One pass over any table: `gram` and `gram_by`."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any

import numpy as np
import polars as pl

from dbselect._native import Reader
from dbselect.errors import ArgumentError
from dbselect.record.columns import SUFFIX, leaves
from dbselect.record.gram import RECORD_DTYPE, Gram
from dbselect.record.missing import FILLS, check_missing
from dbselect.record.rows import warn_of_skipped
from dbselect.sources.grouping import GROUP, Grouping, folds_of, warn_of_folds
from dbselect.sources.learn import MAX_LEVELS, Bases, Categories, terms_for
from dbselect.sources.open import open_table, progress
from dbselect.sources.request import Consumer, NullPolicy, Request, Table, folding_of, request_of
from dbselect.sources.terms import Terms
from dbselect.sources.types import TableSource


def gram(
    source: TableSource,
    columns: Sequence[str] | None = None,
    weight: str | None = None,
    *,
    null_policy: NullPolicy = "skip",
    categories: Categories | None = None,
    basis: Bases | None = None,
    max_levels: int = MAX_LEVELS,
    terms: Terms | None = None,
) -> Gram:
    """Read a table once and return the Gram record of its columns.

    Parameters
    ----------
    source : a Parquet path, folder or glob, a Polars LazyFrame or DataFrame, a DuckDB
        relation, a table of ibis, narwhals or Modin, anything else with
        ``__arrow_c_stream__`` (pyarrow, pandas), or a NumPy array of shape (n, d), whose
        d names are then `columns`
    columns : names and globs (``*``, ``?``), nested fields by the name of the field;
        default: every numeric or boolean column, nested ones included
    weight : column of row weights, >= 0; a row without one is left out
    null_policy : what becomes of a NULL or NaN: ``"skip"`` leaves its row out, ``"error"``
        refuses it, ``"mean"`` puts the mean of the values present in its place,
        ``"indicator"`` puts 0 there and adds a column ``<name>.missing`` of 0 and 1
        right after its column; or a mapping of names and globs to these, of which the
        last that means a column holds, ``"skip"`` for a column that none means.
        Of a category, ``"mean"`` puts the share of each level in the place of its 0 and
        1, and ``"indicator"`` makes what is missing one more level; of a basis, its
        columns are filled, and one indicator follows the first. No policy knows a
        target: give a column to be predicted ``"skip"``
    categories, basis, max_levels : as in `terms`; what they name gives way to the
        columns made of it, whether or not it is one of `columns`
    terms : what `terms` learnt, of this table or another, in place of these three

    Returns
    -------
    Gram of d columns: those of `columns`, in that order, then those of the categories;
    its `missing` counts the rows in which each is NULL or NaN

    Raises
    ------
    SourceError : there is no such table
    ColumnError : a column is unknown, named twice or of another type than is allowed
    ArgumentError : there is no such policy, or as in `terms`
    DataError : an infinite value, a negative weight or a missing value of policy ``"error"``

    Warns
    -----
    SkippedRowsWarning : more than half of the rows are left out
    DriverWarning : the table is of Spark, whose rows all pass through one process

    Notes
    -----
    O(n d^2) time. Memory does not grow with n: d^2 / 2 doubles a thread, and the
    batches in flight. A progress bar appears on a terminal after two seconds.
    Of d numbers and c categories, a row costs O(d^2 + c d + c^2), however many levels
    there are: sums by level and cross tables take the place of columns of 0 and 1.

    Examples
    --------
    >>> import dbselect as ds
    >>> import numpy as np
    >>> g = ds.gram(np.array([[1.0, 2.0], [3.0, np.nan], [5.0, 8.0]]), columns=["x", "y"])
    >>> g.rows, g.skipped, g.mean.tolist()
    (2, 1, [3.0, 5.0])
    """
    table = open_table(source, columns)
    learnt = terms_for(table, categories, basis, max_levels, terms)
    return _read(
        table, request_of(table.schema, columns, weight, null_policy=null_policy, terms=learnt)
    )


def read_columns(
    source: TableSource,
    columns: Sequence[str] | None = None,
    weight: str | None = None,
    null_policy: NullPolicy = "skip",
) -> tuple[Gram, list[str]]:
    """Return what `gram` returns, and the numeric columns that were not read."""
    table = open_table(source, columns)
    request = request_of(table.schema, columns, weight, null_policy=null_policy)
    read = {*request.names, weight}
    unread = [
        leaf.name for leaf in leaves(table.schema) if leaf.is_numeric and leaf.name not in read
    ]
    return _read(table, request), unread


def _read(table: Table, request: Request) -> Gram:
    records = _aggregated(table, request)
    if records is not None:
        record, absent = records["gram"][0], records["missing"][0].to_list()
        found = _empty(request) if record is None else Gram.from_struct(record)
        return _counted(found, request, absent or [0] * len(request.names))
    with reader_of(request) as reader:
        _scan(table, request, lambda batch: reader.add(request.terms.expand(batch)))
        return _counted(Gram.from_struct(reader.finish()[0]), request, reader.absent)


def _counted(gram: Gram, request: Request, absent: list[int]) -> Gram:
    """Return the Gram with its counts, without indicators that are 0 in every row."""
    check_missing(request.counted, request.policies, absent)
    warn_of_skipped(gram.rows, gram.skipped, _skipping(request, absent))
    indicators = {name + SUFFIX for name in request.names} - set(request.names)
    kept = [
        name
        for name, mean in zip(gram.columns, gram.mean, strict=True)
        if mean > 0 or name not in indicators
    ]
    found = gram if len(kept) == len(gram.columns) else gram.select(kept)
    return replace(found, missing=dict(zip(request.counted, absent, strict=True)))


def _skipping(request: Request, absent: Sequence[int]) -> dict[str, int]:
    """Return the counts of the columns whose missing values leave rows out."""
    counts = zip(request.counted, request.policies, absent, strict=True)
    return {name: count for name, policy, count in counts if policy == "skip"}


def _aggregated(table: Table, request: Request) -> pl.DataFrame | None:
    """Return the records that the table's engine makes itself, None if it does not."""
    aggregate = getattr(table, "aggregate", None)
    return aggregate(request) if aggregate and not request.terms.columns else None


def reader_of(request: Request, group: str | None = None) -> Reader:
    """Return a reader for rows as `Terms.expand` gives them."""
    width = len(request.names)
    reader = Reader(request.names, request.weight, group, request.policies[:width])
    for category, policy in zip(request.terms.categories, request.policies[width:], strict=True):
        names = category.names + [category.missing] * (policy in FILLS)
        reader.category(category.column, category.texts, names, policy)
    return reader


def gram_by(
    source: TableSource,
    by: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    weight: str | None = None,
    *,
    fold: int | None = None,
    key: str | None = None,
    seed: int = 0,
    null_policy: NullPolicy = "skip",
    categories: Categories | None = None,
    basis: Bases | None = None,
    max_levels: int = MAX_LEVELS,
    terms: Terms | None = None,
) -> pl.DataFrame:
    """Read a table once and return one Gram record for each group of rows.

    Parameters
    ----------
    source : as in `gram`
    by : columns whose values make the groups; they are left out of the default
        `columns`; may be missing where `fold` is given
    columns, weight : as in `gram`
    fold : number of folds, >= 2, into which each group is cut; default: not cut
    key : field whose value decides the fold, so that rows of equal keys stay together;
        left out of the default `columns`; default: what the row has in `columns`, so
        that equal rows stay together
    seed : of the hash that decides, 0 to 2^63 - 1
    null_policy : as in `gram`; a mean is that of the group's own rows, and a column has
        an indicator in every group where it has one in any
    categories, basis, max_levels, terms : as in `gram`; found over the whole table, so
        that all groups have equal columns

    Returns
    -------
    DataFrame with the columns `by`, ``fold`` (Int64, from 0) if asked for, and ``gram``,
    sorted by the keys, NULL last; a fold without rows has no row

    Raises
    ------
    ArgumentError : neither `by` nor `fold` is given; fold or seed out of range
    ColumnError : the key is no number, boolean, text, blob, date, timestamp, or STRUCT
        or ARRAY of these
    SourceError, ColumnError, DataError : as `gram`

    Warns
    -----
    SkippedRowsWarning : more than half of the rows of the table are left out
    FoldsWarning : a fold has no row, as there are too few different keys

    Notes
    -----
    O(n d^2) time. Memory: d^2 / 2 + 32 d doubles a group and thread; with L levels of
    categories beside d numbers, L d and the cross tables, less than L^2 / 2, more. The
    records themselves hold (d + L)^2 / 2 doubles a group.
    The fold depends on the value of the key and on the seed only, not on engine, order
    or type: it is that of ``fold_of(key, fold, seed)`` in SQL and of
    ``pl.col(key).dbselect.fold(fold, seed)`` in Polars.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"k": ["a", "a", "b"], "x": [1.0, 3.0, 5.0]})
    >>> ds.gram_by(table, by=["k"]).select("k", pl.col("gram").struct.field("mean"))
    shape: (2, 2)
    ┌─────┬───────────┐
    │ k   ┆ mean      │
    │ --- ┆ ---       │
    │ str ┆ list[f64] │
    ╞═════╪═══════════╡
    │ a   ┆ [2.0]     │
    │ b   ┆ [5.0]     │
    └─────┴───────────┘
    >>> halves = ds.gram_by(table, fold=2, columns=["x"])
    >>> halves.select("fold", pl.col("gram").struct.field("rows")).rows()
    [(0, 1), (1, 2)]
    """
    table = open_table(source, columns)
    folding = folding_of(fold, key, seed)
    learnt = terms_for(table, categories, basis, max_levels, terms)
    by = [] if by is None else by
    request = request_of(table.schema, columns, weight, by, folding, null_policy, learnt)
    if not request.keys:
        raise ArgumentError("by is empty; name at least one column, or use gram")
    if folding is not None:
        table = with_digits_of(folding.key, table)
        folds_of(table.schema.empty_table(), folding, request.taken)
    for name in ("gram", *request.keys[len(request.by) :]):
        if name in request.by:
            raise ArgumentError(
                f"by names a column '{name}'; rename it, as the result has that name"
            )
    # Which indicators there are is known when the last group is.
    records = None if "indicator" in request.policies else _aggregated(table, request)
    if records is not None:
        absent = records["missing"].explode().drop_nulls().to_numpy()
        counts = absent.reshape(-1, len(request.names)).sum(axis=0).tolist()
        check_missing(request.names, request.policies, counts)
        records = records.drop("missing")
        cast = pl.DataFrame(records).with_columns(pl.col("gram").cast(RECORD_DTYPE))
        return _told(cast.sort(request.keys, nulls_last=True), request, counts)
    grouping = Grouping(request, table.schema)
    with reader_of(request, GROUP) as reader:
        expand = request.terms.expand
        _scan(table, request, lambda batch: reader.add(expand(grouping.number(batch))))
        records = reader.finish()
        check_missing(request.counted, request.policies, reader.absent)
        return _told(grouping.table(records), request, reader.absent)


def _told(found: pl.DataFrame, request: Request, absent: Sequence[int]) -> pl.DataFrame:
    """Warn of rows left out and of empty folds, and return the records as they are."""
    records = found["gram"].struct
    rows, skipped = int(records.field("rows").sum()), int(records.field("skipped").sum())
    warn_of_skipped(rows, skipped, _skipping(request, absent))
    if request.folding is not None:
        sizes = found.group_by(request.by).len()["len"] if request.by else [found.height]
        warn_of_folds(list(sizes), request.folding)
    return found


def with_digits_of(key: str | None, table: Table) -> Table:
    """Return the table with all digits of a key, where its engine would drop some."""
    keep: Callable[[str], Table] | None = getattr(table, "with_digits_of", None)
    return table if keep is None or key is None else keep(key)


def _scan(table: Table, request: Request, consume: Consumer) -> None:
    """Read the table, with a progress bar on a terminal."""
    lock = Lock()
    with progress(table.rows) as bar:

        def consume_and_show(batch: Any) -> None:
            consume(batch)
            with lock:
                bar.update(len(batch))

        table.scan(request.fields, consume_and_show)


def _empty(request: Request) -> Gram:
    width = len(request.columns)
    return Gram(request.names, 0, 0, 0.0, np.zeros(width), np.zeros((width, width)))

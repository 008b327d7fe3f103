"""One pass over any table: `gram`, `gram_by`, and `patterns`, the records of a table with gaps."""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from dbselect._arrow import empty_table
from dbselect.errors import ArgumentError, ColumnError, LeftOutWarning, shown, warn_caller
from dbselect.options.kinds import COLUMN, COUNT
from dbselect.record.gram import Gram
from dbselect.record.terms import Terms
from dbselect.sources.bounded import check_width, records_within
from dbselect.sources.open import open_table, stored_gram, stored_patterns
from dbselect.sources.partial.gaps import completed_groups, read_gaps, read_patterns
from dbselect.sources.partial.grouping import folds_of
from dbselect.sources.partial.learn import MAX_LEVELS, Bases, Categories, terms_for
from dbselect.sources.partial.records_by_pattern import MAX_PATTERNS, Patterns
from dbselect.sources.records import (
    finished_gram,
    read_records,
    to_read,
    without_unseen_levels,
)
from dbselect.sources.request import (
    Folding,
    NullPolicy,
    Request,
    Table,
    columns_of,
    folding_of,
    not_computed,
    request_of,
    selected,
    why_unoffered,
)
from dbselect.sources.snapshots import one_snapshot
from dbselect.sources.types import TableSource


@one_snapshot
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
    on: Any = None,
) -> Gram:
    """Read a table once and return the Gram record of its columns.

    Parameters
    ----------
    source : a path, folder or glob of Parquet, CSV, TSV, NDJSON or Arrow files, recognised by the
        ending of their names, or a Delta or Iceberg table, here or at ``s3://``, ``gs://`` or
        ``az://``, without names that begin with ``_`` or ``.``; a Polars LazyFrame or DataFrame, a
        DuckDB relation, a frame of Spark or Dask or a dataset of Ray, which sum on their workers,
        a table of ibis, narwhals or Modin, anything else with ``__arrow_c_stream__`` (pyarrow,
        pandas), or a NumPy array of shape (n, d), whose d names are then `columns`. A record, a
        table that holds records, and a list of these or of Grams give the Gram of all their rows
    columns : names and globs (``*``, ``?``), nested fields by the name of the field;
        default: every column of numbers, booleans, dates and text, nested ones included.
        A DATE counts days since 1970, a TIMESTAMP seconds. Text is a category: a column
        of 0 and 1 for each level that a row used has
    weight : column of row weights, >= 0; a row without one is left out
    null_policy : policy for NULL and NaN: ``"skip"`` leaves the row out, ``"error"``
        refuses it, ``"mean"`` fills in the mean of the values present, ``"em"`` completes the
        moments of all rows as ``patterns(source).em()`` does,
        ``"indicator"`` fills in 0 and adds a column ``<name>.missing`` of 0 and 1
        right after its column (if 0 is over a thousand deviations away, it fills in the mean,
        which is in ``terms.means``); or a mapping of names and globs to policies, of which the
        last that matches a column applies, ``"skip"`` if none does.
        For a category, ``"mean"`` fills in the share of each level, and ``"indicator"``
        makes missing values one more level; for a basis, all its columns are filled,
        and one indicator follows the first. No policy treats
        a target differently: give a column to be predicted ``"skip"``
    categories, basis, max_levels : as in `terms`; the columns that they name are replaced by
        the columns made of them, whether or not they are among `columns`. Text that they do
        not name and that has more than `max_levels` levels is left out
    terms : the result of `terms`, or the ``terms`` of a Gram, in place of these three; its
        fills of missing values are used again
    on : a Spark session, whose tasks read the Parquet files of `source` directly: a
        path, a folder, a glob, or a list of paths, which all its machines can read

    Returns
    -------
    Gram of d columns in the order of `columns`, or of the table; then the columns of categories
    and bases that are not among `columns`. Its `missing` counts the rows in which each is
    NULL or NaN, and its `terms` describe how the columns are made

    Raises
    ------
    SourceError : there is no such table
    ColumnError : a column is unknown, named twice or of another type than is allowed, or
        text of more than `max_levels` levels that is named
    ArgumentError : there is no such policy, or as in `terms`
    RecordError : records that do not merge
    DataError : an infinite value, a negative weight, or a missing value with policy ``"error"``

    Warns
    -----
    LeftOutWarning : columns that were not named are left out: of another type, or text of
        more than `max_levels` levels or in a stream that can be read only once
    SkippedRowsWarning : more than a tenth of the rows is left out
    DriverWarning : the table is a remote one of ibis that cannot be summed there; all rows pass
        through one process

    Notes
    -----
    A table of ibis is summed by its engine, in several queries; see
    ``docs/guides/sum-in-a-warehouse.md``. All others:
    O(n d^2) time. Memory does not grow with n: d^2 / 2 doubles per thread, and the
    batches in flight. A progress bar appears on a terminal after two seconds.
    With d numbers and c categories, a row costs O(d^2 + c d + c^2), for any number of
    levels: sums by level and cross tables replace columns of 0 and 1.
    Text columns take one more pass before, over these columns only.

    Examples
    --------
    >>> import dbselect as ds
    >>> import numpy as np
    >>> import polars as pl
    >>> ds.gram(pl.DataFrame({"x": [1.0, 2.0, 4.0], "k": ["b", "a", "b"]})).columns
    ['x', 'k.a', 'k.b']
    >>> g = ds.gram(np.array([[1.0, 2.0], [3.0, np.nan], [5.0, 8.0]]), columns=["x", "y"])
    >>> g.rows, g.skipped, g.mean.tolist()
    (2, 1, [3.0, 5.0])
    """
    stored = stored_gram(source) if on is None else None
    if stored is not None:
        check_no_rows(weight, null_policy, categories=categories, basis=basis, terms=terms)
        return stored if columns is None else stored.select(columns)
    table = open_table(source, columns, on)
    request, texts = prepared(
        table, columns, weight, null_policy, categories, basis, max_levels, terms, gaps=True
    )
    return gram_of(table, request, texts)


def prepared(
    table: Table,
    columns: Sequence[str] | None,
    weight: str | None,
    null_policy: NullPolicy,
    categories: Categories | None = None,
    basis: Bases | None = None,
    max_levels: int = MAX_LEVELS,
    terms: Terms | None = None,
    by: Sequence[str] = (),
    folding: Folding | None = None,
    *,
    gaps: bool = False,
) -> tuple[Request, list[str]]:
    """Return the request of `gram` or `gram_by`, and the text columns whose levels were learnt."""
    columns = not_computed(columns, terms)
    if weight is not None:
        COLUMN.check("weight", weight)
    apart = {weight, folding.key if folding else None, *by}
    chosen = selected(columns_of(table.schema), columns, apart)
    texts = [leaf.name for leaf in chosen if leaf.is_text]
    learnt = terms_for(table, texts, categories, basis, max_levels, terms)
    request = request_of(table.schema, columns, weight, by, folding, null_policy, learnt, gaps=gaps)
    check_left_out(table, request, columns, why_left_out(table, max_levels, terms))
    return request, texts if terms is None else []


def check_no_rows(weight: Any, null_policy: Any, **preparation: Any) -> None:
    """Refuse options that need the rows of a table, for a source that is a Gram."""
    if weight is not None:
        raise ArgumentError(f"weight is {weight!r}; a Gram was made with its weights")
    if null_policy != "skip":
        raise ArgumentError(
            f"null_policy is {null_policy!r}; it is for tables, a Gram has no missing values"
        )
    for name, value in preparation.items():
        if value is not None:
            raise ArgumentError(f"{name} is {value!r}; it is for tables, a Gram has its columns")


def read_columns(
    source: TableSource,
    columns: Sequence[str] | None = None,
    weight: str | None = None,
    null_policy: NullPolicy = "skip",
    terms: Terms | None = None,
) -> tuple[Gram, list[str]]:
    """Return the Gram of a table, and the columns of numbers and text that were not read."""
    table = open_table(source, columns)
    request, texts = prepared(table, columns, weight, null_policy, terms=terms, gaps=True)
    read = {*request.taken, weight}.difference(request.left_out)
    unread = [
        name
        for name, leaf in columns_of(table.schema).items()
        if (leaf.is_numeric or leaf.is_text) and name not in read
    ]
    return gram_of(table, request, texts), unread


def why_left_out(table: Table, max_levels: int, terms: Terms | None = None) -> str:
    """Return the reason why a column of text has no levels, given the caller's `terms`."""
    if terms is not None:
        return "text, for which the terms have no levels"
    if not table.again:
        return "text in a stream that can be read only once, before its levels are known"
    return f"more than {max_levels} levels"


def check_left_out(
    table: Table,
    request: Request,
    columns: Sequence[str] | None,
    why: str,
    advice: str = "categories=['{name}'], which keeps the most frequent levels; a lazy Gram "
    "(gram='lazy') takes a million levels",
) -> None:
    """Warn of columns left out; refuse named ones, with `advice` for the column ``{name}``."""
    for name in request.left_out:
        if columns is not None and name in columns:
            raise ColumnError(
                f"column '{name}' cannot be taken: {why}; leave it out, or make it a category by "
                f"{advice.format(name=name)}"
            )
    reasons = dict.fromkeys(request.left_out, why)
    if columns is None:
        for name, leaf in columns_of(table.schema).items():
            reason = why_unoffered(leaf)
            if reason is None and not (leaf.is_numeric or leaf.is_text):
                reason = f"type {leaf.type}"
            if reason is not None and leaf.field not in request.fields:
                reasons[name] = reason
    if reasons:
        listing = ", ".join(f"'{name}' ({reason})" for name, reason in reasons.items())
        warn_caller(f"columns left out: {listing}; choose columns with columns=", LeftOutWarning)


def gram_of(table: Table, request: Request, texts: Collection[str]) -> Gram:
    """Read the Gram of a request that `prepared` returned."""
    if request.gaps:
        return read_patterns(table, request).em()
    read = to_read(request)
    check_width(read)
    record = read_records(table, read)["gram"].to_arrow()[0]
    gram = Gram.from_struct(record) if record.is_valid else read.without_rows()
    return without_unseen_levels(finished_gram(gram, request), texts)


@one_snapshot
def gram_by(
    source: TableSource,
    by: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    weight: str | None = None,
    *,
    fold: int | Folding | None = None,
    key: str | None = None,
    seed: int = 0,
    null_policy: NullPolicy = "skip",
    categories: Categories | None = None,
    basis: Bases | None = None,
    max_levels: int = MAX_LEVELS,
    terms: Terms | None = None,
    on: Any = None,
    memory_limit: int | str | None = None,
    out: str | Path | None = None,
) -> pl.DataFrame:
    """Read a table and return one Gram record for each group of rows.

    Parameters
    ----------
    source : as in `gram`
    by : columns whose values make the groups; they are left out of the default
        `columns`; optional if `fold` is given
    columns, weight : as in `gram`
    fold : number of folds, >= 2, into which each group is split; default: no folds
    key : field whose value decides the fold, so that rows of equal keys stay together;
        left out of the default `columns`; default: the values of the row in `columns`, so
        that equal rows stay together
    seed : seed of the hash that decides the fold, 0 to 2^63 - 1
    null_policy : as in `gram`; a mean is over the rows of the group, of all its folds
        together, and a column with an indicator in one group has it in all
    categories, basis, max_levels, terms : as in `gram`; learnt from the whole table, like
        the levels of text, so that all groups have equal columns
    on : as in `gram`
    memory_limit : bytes, or text such as ``"4GB"``, for all but streams: if the groups would
        take more, the table is read several times, each time for a part of the keys; on a
        cluster, the limit of the returned records, by default 1 GB
    out : a Parquet file to write, part by part, for records that do not fit in memory; for many
        groups on a cluster a new folder of such files, which its workers write

    Returns
    -------
    DataFrame with the columns `by`, ``fold`` (Int64, from 0) if requested, and ``gram``,
    sorted by the keys, NULL last; a fold without rows has no row. With `out`, ``rows`` and
    ``skipped`` in place of ``gram``, which is in the file, in the same order: sorted within each
    part

    Raises
    ------
    ArgumentError : neither `by` nor `fold` is given; fold or seed out of range; the records
        take more than `memory_limit`, and there is no `out`
    ColumnError : the type of the key is not number, boolean, text, blob, date, timestamp, or a
        STRUCT or ARRAY of these
    SourceError, ColumnError, DataError : as `gram`

    Warns
    -----
    SkippedRowsWarning : more than a tenth of the rows of the table is left out
    FoldsWarning : a fold has no row, as there are too few different keys
    MemoryWarning : the table is read several times because of `memory_limit`

    Notes
    -----
    O(n d^2) time. Memory: d^2 / 2 + 32 d doubles per group and thread, and for small groups
    no more than their rows; with L levels of
    categories beside d numbers, L d and the cross tables, less than L^2 / 2, more. The
    records themselves have (d + L)^2 / 2 doubles per group.
    The fold depends on the value of the key and on the seed only, not on engine, order
    or type: it equals ``fold_of(key, fold, seed)`` in SQL and
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
    table = open_table(source, columns, on)
    folding = folding_of(fold, key, seed)
    by = [by] if isinstance(by, str) else [] if by is None else list(by)
    if odd := [key for key in by if not isinstance(key, str)]:
        raise ArgumentError(f"by has {shown(odd[0])}; it must list columns of the table")
    if not by and folding is None:
        raise ArgumentError("by is empty; name at least one column, or use gram")
    preparation = categories, basis, max_levels, terms
    request, _ = prepared(table, columns, weight, null_policy, *preparation, by, folding, gaps=True)
    if folding is not None:
        table = with_digits_of(folding.key, table)
    check_group_keys(request, table.schema)
    if request.gaps:
        for name, value in (("memory_limit", memory_limit), ("out", out)):
            if value is not None:
                raise ArgumentError(
                    f"{name} is {value!r}; with null_policy 'em' all groups are completed in memory"
                )
        return completed_groups(read_gaps(table, request, MAX_PATTERNS), request)
    return records_within(table, request, memory_limit, out)


def check_group_keys(request: Request, schema: pa.Schema) -> None:
    """Refuse keys that are named as a column of the result, or whose type cannot decide folds."""
    if request.folding is not None:
        read = pa.schema([schema.field(name) for name in request.fields])
        folds_of(empty_table(read), request.folding)
    for name in ("gram", *request.keys[len(request.by) :]):
        if name in request.by:
            raise ArgumentError(
                f"by names a column '{name}'; rename it, as the result has that name"
            )


def with_digits_of(key: str | None, table: Table) -> Table:
    """Return the table with all digits of a key, if its engine would drop some."""
    with_digits: Callable[[str], Table] | None = getattr(table, "with_digits_of", None)
    return table if with_digits is None or key is None else with_digits(key)


@one_snapshot
def patterns(
    source: TableSource | Patterns,
    columns: Sequence[str] | None = None,
    weight: str | None = None,
    *,
    max_patterns: int = MAX_PATTERNS,
    categories: Categories | None = None,
    basis: Bases | None = None,
    max_levels: int = MAX_LEVELS,
    terms: Terms | None = None,
    on: Any = None,
) -> Patterns:
    """Read a table with gaps once: a Gram for each pattern of columns that are missing together.

    Parameters
    ----------
    source, columns, weight : as in `gram`; stored patterns are returned as they are
    max_patterns : patterns that are kept; of more, the rarest joins the one with which the fewest
        values are lost, and a warning names the columns that lost some
    categories, basis, max_levels, terms, on : as in `gram`

    Returns
    -------
    Patterns, which methods take as a source, and which add up with ``+``

    Raises
    ------
    ArgumentError : `max_patterns` is no whole number >= 1
    SourceError, ColumnError, DataError : as `gram`

    Warns
    -----
    LeftOutWarning : a column is missing in every row; there are more patterns than `max_patterns`

    Notes
    -----
    O(n d^2) time, as `gram`; d^2 / 2 doubles a pattern and thread, of at most ``4 max_patterns``
    patterns: of more, some are joined before all rows are read. A column of text is missing as a
    whole. A table of ibis is read here, row by row.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1.0, 2.0, None, 4.0], "y": [1.0, 3.0, 2.0, None]})
    >>> ds.patterns(table).table["rows"].to_list()
    [2, 1, 1]
    """
    COUNT.check("max_patterns", max_patterns)
    stored = stored_patterns(source) if on is None else None
    if stored is not None:
        if columns is not None or weight is not None:
            raise ArgumentError("source is patterns, which have their columns and weights")
        return stored.joined(max_patterns)
    table = open_table(source, columns, on)
    request, _ = prepared(
        table, columns, weight, "em", categories, basis, max_levels, terms, gaps=True
    )
    return read_patterns(table, request, max_patterns)

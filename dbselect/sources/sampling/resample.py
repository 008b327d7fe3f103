"""Gram records of bootstrap resamples and of random halves: `resample`."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from dbselect._arrow import empty_table
from dbselect.errors import ArgumentError, ColumnError
from dbselect.record.foreign import native
from dbselect.record.gram import RECORD_DTYPE, Gram, aligned, is_record
from dbselect.sources.open import open_table
from dbselect.sources.partial.gather import GramWork
from dbselect.sources.partial.grouping import folds_of
from dbselect.sources.partial.learn import MAX_LEVELS, Bases, Categories
from dbselect.sources.read import prepared, with_digits_of
from dbselect.sources.records import finished_groups, to_read
from dbselect.sources.request import (
    LIMIT,
    Folding,
    NullPolicy,
    Request,
    Table,
    check_field,
    check_weight,
    columns_of,
)
from dbselect.sources.sampling.drawn import RECORD, TIMES, DrawName, DrawnTable, Draws
from dbselect.sources.snapshots import one_snapshot
from dbselect.sources.stacked import stacked
from dbselect.sources.types import TableSource


@one_snapshot
def resample(
    source: TableSource | Sequence[Any],
    columns: Sequence[str] | None = None,
    weight: str | None = None,
    *,
    records: int = 100,
    kind: DrawName = "poisson",
    key: str | None = None,
    seed: int = 0,
    null_policy: NullPolicy = "skip",
    categories: Categories | None = None,
    basis: Bases | None = None,
    max_levels: int = MAX_LEVELS,
    terms: Any = None,
) -> pl.DataFrame:
    """Read a table once and return many Gram records, each of a random sample of the rows.

    Parameters
    ----------
    source : table, as of `gram`. Or parts of a table, which are drawn as a whole, without reading
        a row again: a frame with a column ``gram``, as `gram_by` returns it, or a list of Grams
    columns, weight : as in `gram`
    records : number of records, even for halves
    kind : ``"poisson"``: each row is drawn a Poisson number of times, of mean 1, the bootstrap
        of a table whose length is not known in advance; ``"halves"``: each row is in one of the
        records 2 i and 2 i + 1, by a fair coin
    key : field whose values decide, so that rows of equal keys are drawn together, in any
        order of rows; left out of the default `columns`; default: the number of the row
    seed : 0 to 2^63 - 1
    null_policy, categories, basis, max_levels, terms : as in `gram`; levels and knots are learnt
        once, means that fill missing values for each record

    Returns
    -------
    DataFrame with the columns ``record``, from 0, and ``gram``. The weight of a record is the sum
    of the draws; its `rows` count the rows drawn at least once: 0 if no usable row was drawn,
    which happens with few rows or parts

    Raises
    ------
    ArgumentError : records, kind or seed out of range; with parts, an argument that needs rows
    ColumnError : a column named ``record``; otherwise as `gram_by`
    SourceError, DataError : as `gram`
    RecordError : parts that do not merge

    Warns
    -----
    LeftOutWarning, SkippedRowsWarning : as `gram`

    Notes
    -----
    One pass; the cost of a `gram` per record, on all cores. Memory: d^2 / 2 + 32 d doubles per
    record, for 100 records of 100 columns 7 MB, and a block of 65,536 rows per thread. With M parts
    O(M d^2) to read them, and O(M d^2) per record, for any number of rows: drawing
    parts approximates the spread of the bootstrap only if M is large, some hundred at
    least. The same seed draws the same rows from every source with the same order of rows, and
    with a key in any order; for engines without an order, as DuckDB's tables and Spark, give a key.

    References
    ----------
    Chamandy, Muralidharan, Najmi, Naidu (2012), Estimating uncertainty for massive data streams,
    for Poisson draws; Shah, Samworth (2013), Variable selection with error control, for halves,
    where these have exactly half of the rows.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"x": range(1000), "y": [i % 7 for i in range(1000)]})
    >>> drawn = ds.io.resample(table, records=200)
    >>> means = drawn["gram"].struct.field("mean").list.get(0)
    >>> round(means.std() / (table["x"].std() / 1000**0.5), 2)  # to the mean's standard error
    1.03
    >>> ds.io.resample(table, records=2, kind="halves")["gram"].struct.field("rows").sum()
    1000
    """
    draws = Draws(kind, records, seed)
    grams = parts_in(source)
    if grams is not None:
        options = {
            "columns": columns, "weight": weight, "key": key, "categories": categories,
            "basis": basis, "terms": terms,
            "null_policy": None if null_policy == "skip" else null_policy,
        }  # fmt: skip
        for name, value in options.items():
            if value is not None:
                raise ArgumentError(
                    f"{name} is {value!r}; it is for a table, the source has records"
                )
        return _frame(_of_parts(grams, draws))
    table = open_table(source, columns)
    _check_fields(table, weight, key)
    hidden = [] if columns is not None else [name for name in (key, weight) if name is not None]
    drawn = DrawnTable(with_digits_of(key, table), draws, key, weight, hidden)
    request, _ = prepared(drawn, columns, TIMES, null_policy, categories, basis, max_levels, terms)
    return finished_groups(_read(drawn, request, records), replace(request, by=[RECORD]))


def _read(drawn: DrawnTable, request: Request, records: int) -> pl.DataFrame:
    read = to_read(request)
    work = GramWork(read, drawn.schema)
    with ExitStack() as stack:
        sums = [stack.enter_context(work.begin()) for _ in range(records)]
        drawn.scan_records(read.fields, lambda record, rows: sums[record].add(rows))
        structs = [state.record() for state in sums]
    grams = {n: Gram.from_struct(struct) for n, struct in enumerate(structs) if struct is not None}
    return _frame(zip(grams, _alike(list(grams.values())), strict=True))


def _alike(grams: Sequence[Gram]) -> list[Gram]:
    """Align the columns of Grams; each keeps the means of its own draws."""
    if not grams:
        return []
    bare = aligned([replace(gram, terms=replace(gram.terms, means={})) for gram in grams])
    return [
        replace(gram, terms=replace(gram.terms, means=drawn.terms.means))
        for gram, drawn in zip(bare, grams, strict=True)
    ]


def parts_in(source: Any) -> list[Gram] | None:
    """Return the Grams of a frame or of a list; None for other sources."""
    source = native(source)
    if isinstance(source, Gram):
        raise ArgumentError(
            "source is one Gram, of which no rows can be drawn; give the table, or parts of it: "
            "gram_by(table, fold=200), or a list of Grams"
        )
    if isinstance(source, list | tuple):
        grams = [part if isinstance(part, Gram) else Gram.from_struct(part) for part in source]
    elif isinstance(source, pl.DataFrame) and "gram" in source.columns:
        if not is_record(source["gram"].to_arrow().type):
            return None
        grams = [Gram.from_struct(record) for record in source["gram"].drop_nulls().to_arrow()]
    else:
        return None
    if len(grams) < 2:
        raise ArgumentError(f"source has {len(grams)} Grams; at least 2 are needed to draw from")
    return aligned(grams)


def _check_fields(table: Table, weight: str | None, key: str | None) -> None:
    for name, argument in ((weight, "weight"), (key, "key")):
        if name is not None:
            check_field(name, argument, table.schema)
    columns_of(table.schema)  # refuses equal names
    if weight is not None:
        check_weight(weight, table.schema)
    if key is not None:
        folds_of(empty_table(table.schema), Folding(LIMIT - 1, key, 0))
    if RECORD in table.schema.names:
        raise ColumnError(f"the table has a column '{RECORD}'; rename it, as the result has one")


def _of_parts(grams: Sequence[Gram], draws: Draws) -> Iterator[tuple[int, Gram]]:
    """Yield records of parts, each of which is drawn as a whole."""
    begun = draws.begin(np.arange(len(grams), dtype=np.int64))
    parts = stacked(grams)
    for record in range(draws.records):
        times = np.where(parts.rows > 0, draws.times(begun, record), 0.0)
        yield record, parts.total(times)[0]


def _frame(numbered: Iterable[tuple[int, Gram]]) -> pl.DataFrame:
    grams = {number: gram.to_struct() for number, gram in numbered}
    return pl.DataFrame(
        {RECORD: [*grams], "gram": [*grams.values()]}, {RECORD: pl.Int64, "gram": RECORD_DTYPE}
    )

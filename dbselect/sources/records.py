"""Read the records of a request, by the table's engine or by dbselect; check and fill them."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

import polars as pl

from dbselect.record.columns import SUFFIX
from dbselect.record.dependences import depending, has_dependences
from dbselect.record.gram import RECORD_DTYPE, Gram
from dbselect.record.missing import fill, fill_jointly
from dbselect.record.policies import check_missing, warn_of_skipped
from dbselect.record.terms import Terms
from dbselect.sources.partial.gather import KEYS, GramWork
from dbselect.sources.partial.grouping import warn_of_folds
from dbselect.sources.partial.partial_aggregates import gather
from dbselect.sources.request import Request, Table


def read_records(table: Table, request: Request, groups: int = KEYS) -> pl.DataFrame:
    """Return the keys, sorted, and records; computed by the table's engine if it can."""
    aggregate = getattr(table, "aggregate", None)
    records: pl.DataFrame | None = aggregate(request) if aggregate else None
    if records is not None:
        return records.sort(request.keys, nulls_last=True) if request.keys else records
    work = GramWork(request, table.schema, groups)
    with work.begin() as sums:
        gather(table, request.fields, work, sums)
        return sums.records()


def to_read(request: Request) -> Request:
    """Return the request to read; means shared by all folds, or fixed, are filled in later."""
    folds = request.folding is not None and "mean" in request.policies
    return request.marked() if folds or request.terms.plain_means else request


def without_marks(gram: Gram) -> Gram:
    """Return the Gram without indicators that are always 0."""
    marks = {name + SUFFIX for name in gram.terms.indicators}
    means = zip(gram.columns, gram.mean, strict=True)
    kept = [name for name, mean in means if mean > 0 or name not in marks]
    return gram if len(kept) == len(gram.columns) else gram.select(kept)


def finished_gram(gram: Gram, request: Request) -> Gram:
    """Check and fill a Gram that was read by `to_read(request)`; make its levels add up."""
    check_missing(request.refusing, gram.missing)
    warn_of_skipped_rows(gram, request)
    gram = without_marks(gram)
    gram = _with_given_means(gram, request) if request.terms.plain_means else gram
    return depending(gram, request.terms) if has_dependences(request.terms) else gram


def _with_given_means(gram: Gram, request: Request) -> Gram:
    """Fill the gaps of a Gram, which was read with indicators, with the means of the terms."""
    means = request.terms.plain_means
    marks = {name: mark for name, mark in request.marks_of(gram.columns).items() if name in means}
    filled = fill(gram, {name: means[name] for name in marks}, marks)
    return replace(filled, terms=replace(filled.terms, means=means | filled.terms.fills))


def without_unseen_levels(gram: Gram, texts: Collection[str]) -> Gram:
    """Return the Gram without levels of text columns that occur in no row used."""
    unseen = {
        name
        for name, mean in zip(gram.columns, gram.mean, strict=True)
        if mean == 0 and gram.terms.sources().get(name) in texts
    }
    if not unseen:
        return gram
    kept = gram.select([name for name in gram.columns if name not in unseen])
    return replace(kept, terms=without_levels(gram.terms, unseen, texts))


def without_levels(terms: Terms, unseen: Collection[str], texts: Collection[str]) -> Terms:
    """Drop unseen levels of text columns; a category stays without levels, as others have some."""
    categories = list(terms.categories)
    for at, category in enumerate(categories):
        if category.column in texts:
            seen = (level for level in category.levels if category.name_of(level) not in unseen)
            categories[at] = replace(category, levels=tuple(seen))
    return replace(terms, categories=tuple(categories))


def warn_of_skipped_rows(gram: Gram, request: Request) -> None:
    """Warn if more than a tenth of the rows is left out."""
    missing = _skipping(request, gram.missing)
    warn_of_skipped(gram.rows, gram.skipped, missing, weighted=request.weight is not None)


def _skipping(request: Request, missing: Mapping[str, int]) -> dict[str, int]:
    """Return the counts of the columns whose missing values leave rows out."""
    policies = request.of_table
    return {name: count for name, count in missing.items() if policies.get(name) == "skip"}


def finished_groups(records: pl.DataFrame, request: Request) -> pl.DataFrame:
    """Check and fill the records of all groups, each as `finished_gram` does."""
    check_groups(*counted(records), request)
    records = filled_groups(records, request)
    if records.is_empty() or not has_dependences(request.terms):
        return records
    grams = (depending(Gram.from_struct(record), request.terms) for record in records["gram"])
    column = pl.Series("gram", [gram.to_struct() for gram in grams], RECORD_DTYPE)
    return records.with_columns(column)


def counted(records: pl.DataFrame) -> tuple[pl.DataFrame, Counter[str]]:
    """Reduce records to the rows used and skipped; return these and missing values by column."""
    counts = pl.struct(pl.col("gram").struct.field(name) for name in ("rows", "skipped"))
    keys = records.with_columns(counts.alias("gram"))
    if records.is_empty():
        return keys, Counter()
    first = Gram.from_struct(records["gram"][0])
    missing = records["gram"].struct.field("missing").explode().to_numpy()
    sources = first.terms.sources()
    totals = missing.reshape(records.height, -1).sum(axis=0).tolist()
    named = zip(first.columns, totals, strict=True)
    return keys, Counter({sources.get(name, name): count for name, count in named})


def check_groups(keys: pl.DataFrame, missing: Mapping[str, int], request: Request) -> None:
    """Refuse missing values by policy; warn of rows left out and empty folds."""
    if keys.is_empty():
        return
    check_missing(request.refusing, missing)
    rows, skipped = (int(keys["gram"].struct.field(name).sum()) for name in ("rows", "skipped"))
    warn_of_skipped(rows, skipped, _skipping(request, missing), weighted=request.weight is not None)
    if request.folding is not None:
        sizes = keys.group_by(request.by).len()["len"] if request.by else [keys.height]
        warn_of_folds(list(sizes), request.folding)


def filled_groups(records: pl.DataFrame, request: Request) -> pl.DataFrame:
    """Return records filled with means; all folds of a group share their means."""
    records = records.with_columns(pl.col("gram").cast(RECORD_DTYPE))
    if to_read(request) is request:
        return records
    parts = records.partition_by(request.by, maintain_order=True) if request.by else [records]
    filled = []
    for part in parts:
        grams = [Gram.from_struct(record) for record in part["gram"]]
        marks = request.marks_of(grams[0].columns)
        if request.terms.plain_means:
            grams = [_with_given_means(gram, request) for gram in grams]
        else:
            grams = fill_jointly(grams, marks)
        column = pl.Series("gram", [gram.to_struct() for gram in grams], RECORD_DTYPE)
        filled.append(part.with_columns(column))
    return pl.concat(filled)

"""The columns of a table by key, as a Gram would have them after a left join."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from dbselect.errors import ArgumentError, ColumnError, DataError, LeftOutWarning, warn_caller
from dbselect.options.kinds import one_of
from dbselect.options.names import UnmatchedName
from dbselect.record.columns import SUFFIX
from dbselect.record.formulas import column, date, polars, polars_column, translate
from dbselect.record.gram import Matrix
from dbselect.record.terms import Terms
from dbselect.sources.engines.polars import LazyTable
from dbselect.sources.joins.keys import check_alike, check_keys, compared, fields_of
from dbselect.sources.joins.many import Many, one_a_key, summaries_of
from dbselect.sources.lazy import collected, lazy
from dbselect.sources.open import open_table
from dbselect.sources.partial.learn import MAX_LEVELS, check_max_levels
from dbselect.sources.read import prepared
from dbselect.sources.request import columns_of, selected

Mask = npt.NDArray[np.bool_]

#: What the fields of the key are called beside those of the table.
_KEY = "__dbselect_key"


@dataclass(frozen=True, kw_only=True)
class LookUp:
    """How a table is looked up: the options of `KeySums.extend`, documented there."""

    columns: Sequence[str] | None = None
    name: str | None = None
    unmatched: UnmatchedName = "indicator"
    many: Many = ()
    order: str | None = None
    max_levels: int = MAX_LEVELS

    def __post_init__(self) -> None:
        one_of(UnmatchedName).check("unmatched", self.unmatched)
        if self.name is not None and (not isinstance(self.name, str) or set(self.name) & set(".[")):
            raise ArgumentError(f"name is {self.name!r}; it must be text without '.' and '['")
        check_max_levels(self.max_levels)
        summaries_of(self.many, self.order)


@dataclass(frozen=True, eq=False)
class LookedUp:
    """The values of a table for each of K keys."""

    columns: list[str]  # p names of the columns of the Gram
    values: Matrix  # shape (K, p), column by column; 0 where something is missing
    #: Column of the table -> shape (K,), where it is NULL or NaN, or has no row; columns without
    #: any are not in it
    missing: dict[str, Mask]
    terms: Terms  # how the columns of the table became these
    texts: list[str]  # columns of text, whose levels that no row has are to be dropped

    @property
    def complete(self) -> Mask:
        """The keys of which nothing is missing; shape (K,)."""
        complete = np.ones(len(self.values), dtype=bool)
        for where in self.missing.values():
            complete &= ~where
        return complete


def look_up(
    keys: pl.DataFrame, kinds: Sequence[str], source: Any, key: Any, given: LookUp
) -> LookedUp:
    """Read a table, and find the row of each of K keys, which are as `compared` has them."""
    theirs = fields_in_table(key, list(keys.columns))
    table = open_table(source, None)
    frame = lazy(table)
    schema = dict(frame.collect_schema())
    check_alike(keys.columns, kinds, theirs, check_keys(theirs, schema, "the table"))
    named = [f"{_KEY}{at}" for at in range(len(theirs))]
    others = [name for name in schema if name not in theirs]
    if not others:
        raise ColumnError(f"the table has no column beside its key; it has {list(schema)}")
    frame = frame.with_columns(compared(theirs, kinds, named)).drop(theirs)
    if given.many:
        frame = one_a_key(frame, named, summaries_of(given.many, given.order), given.order)
        others = [name for name in frame.collect_schema().names() if name not in named]
    if given.columns is not None:
        every = columns_of(LazyTable(frame.select(others)).schema)
        wanted = selected(every, given.columns)
        others = list(dict.fromkeys(leaf.field for leaf in wanted))
        frame = frame.select(*named, *others)
    if given.name is not None:
        frame = frame.select(*named, pl.struct(others).alias(given.name))
        others = [given.name]
    rows = _unique(collected(frame), named, theirs, given.order)
    ours = dict(zip(keys.columns, named, strict=True))
    found = keys.rename(ours).join(rows, on=named, how="left", maintain_order="left")
    return _values(LazyTable(found.select(others).lazy(), found.height), given)


def fields_in_table(key: Any, ours: list[str]) -> list[str]:
    """Return what the table calls the fields of a key, in the order of the facts'."""
    if key is None:
        return ours
    own, theirs = fields_of(key)
    if not isinstance(key, Mapping):
        return theirs
    if set(own) != set(ours):
        raise ArgumentError(f"key maps columns {own} of the facts; the sums are by {ours}")
    named = dict(zip(own, theirs, strict=True))
    return [named[field] for field in ours]


def _unique(
    rows: pl.DataFrame, named: Sequence[str], theirs: Sequence[str], order: str | None
) -> pl.DataFrame:
    """Return the rows that have a key, each of another one."""
    there = rows.drop_nulls(list(named))
    if there.height < rows.height:
        warn_caller(
            f"{rows.height - there.height} rows of the table are left out: their key "
            f"{list(theirs)} is NULL, which matches nothing",
            LeftOutWarning,
        )
    if there.select(named).n_unique() < there.height:
        double = there.filter(there.select(named).is_duplicated()).select(named).row(0)
        told = ", ".join(f"{n} = {value!r}" for n, value in zip(theirs, double, strict=True))
        way = "give many= ('mean', 'count' or 'latest'), or one row a key"
        if order is not None:
            way = f"of these none has the largest '{order}' alone"
        raise DataError(
            f"the table has several rows with {told}; a row of the facts takes one: {way}"
        )
    return there


def _values(table: LazyTable, given: LookUp) -> LookedUp:
    """Return the columns that a Gram of the joined rows would have."""
    is_marked = given.unmatched == "indicator"
    columns = given.columns
    if columns is not None and given.name is not None:
        columns = [f"{given.name}.{pattern}" for pattern in columns]
    request, texts = prepared(
        table, columns, None, "indicator" if is_marked else "skip", max_levels=given.max_levels
    )
    categories = request.terms.categories
    every = columns_of(table.schema)
    algebra = polars()
    numbers = [
        column(leaf.path) if leaf.unit is None else date(leaf.path, leaf.unit)
        for leaf in request.columns
    ]
    frame = collected(
        table.frame.select(
            *(
                translate(value, algebra).fill_nan(None).alias(leaf.name)
                for leaf, value in zip(request.columns, numbers, strict=True)
            ),
            *(polars_column(every[each.column].path).alias(each.column) for each in categories),
        )
    )
    lacking = [
        name for name, (count,) in frame.null_count().to_dict(as_series=False).items() if count
    ]
    marked = [name for name in request.names if is_marked and name in lacking]
    made = [[name, name + SUFFIX] if name in marked else [name] for name in request.names]
    made += [[*each.names, each.missing] if is_marked else each.names for each in categories]
    names = [name for at in request.order or range(len(made)) for name in made[at]]
    filled = frame.select(
        *(pl.col(name).fill_null(0.0) for name in request.names),
        *(pl.col(name).is_null().cast(pl.Float64).alias(name + SUFFIX) for name in marked),
        *(each.fill_null(0.0) for one in categories for each in one.indicators(is_marked)),
    )
    # Column by column in memory, as they are computed with.
    values = filled.select(names).to_numpy(order="fortran", writable=True)
    finite = np.isfinite(values.sum(axis=0))
    if not finite.all():
        name = names[int(np.argmin(finite))]
        raise DataError(f"column '{name}' has an infinite value in a row that is looked up")
    return LookedUp(
        names,
        values,
        {name: frame[name].is_null().to_numpy() for name in lacking},
        replace(request.base, indicators=tuple(marked)),
        texts,
    )

"""Look up the columns of a table by key, as a Gram would have them after a left join."""

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
from dbselect.sources.joins.many import Many, one_row_per_key, summaries_of
from dbselect.sources.open import collected, lazy, open_table
from dbselect.sources.partial.learn import MAX_LEVELS, check_max_levels
from dbselect.sources.read import prepared
from dbselect.sources.request import columns_of, selected

Mask = npt.NDArray[np.bool_]

#: Prefix of the names of the key's fields beside the columns of the table.
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
    values: Matrix  # shape (K, p), column-major; 0 if missing
    #: Column of the table -> shape (K,), whether it is NULL or NaN, or the key has no row; columns
    #: without missing values are omitted
    missing: dict[str, Mask]
    terms: Terms  # how the columns of the table became these
    texts: list[str]  # columns of text, of which unseen levels are to be dropped

    @property
    def complete(self) -> Mask:
        """Whether a key has no missing value; shape (K,)."""
        complete = np.ones(len(self.values), dtype=bool)
        for where in self.missing.values():
            complete &= ~where
        return complete


def look_up(
    keys: pl.DataFrame, kinds: Sequence[str], source: Any, key: Any, options: LookUp
) -> LookedUp:
    """Read a table, and look up the row of each of K keys, which `compared` has cast."""
    fields = fields_in_table(key, list(keys.columns))
    table = open_table(source, None)
    frame = lazy(table)
    schema = dict(frame.collect_schema())
    check_alike(keys.columns, kinds, fields, check_keys(fields, schema, "the table"))
    key_names = [f"{_KEY}{at}" for at in range(len(fields))]
    columns = [name for name in schema if name not in fields]
    if not columns:
        raise ColumnError(f"the table has no column beside its key; it has {list(schema)}")
    frame = frame.with_columns(compared(fields, kinds, key_names)).drop(fields)
    if options.many:
        summaries = summaries_of(options.many, options.order)
        frame = one_row_per_key(frame, key_names, summaries, options.order)
        columns = [name for name in frame.collect_schema().names() if name not in key_names]
    if options.columns is not None:
        chosen = selected(columns_of(LazyTable(frame.select(columns)).schema), options.columns)
        columns = list(dict.fromkeys(leaf.field for leaf in chosen))
        frame = frame.select(*key_names, *columns)
    if options.name is not None:
        frame = frame.select(*key_names, pl.struct(columns).alias(options.name))
        columns = [options.name]
    rows = _unique(collected(frame), key_names, fields, options.order)
    renamed = keys.rename(dict(zip(keys.columns, key_names, strict=True)))
    joined = renamed.join(rows, on=key_names, how="left", maintain_order="left")
    return _values(LazyTable(joined.select(columns).lazy(), joined.height), options)


def fields_in_table(key: Any, facts: list[str]) -> list[str]:
    """Return the fields of a key in the table, in the order of its fields in the facts."""
    if key is None:
        return facts
    left, right = fields_of(key)
    if not isinstance(key, Mapping):
        return right
    if set(left) != set(facts):
        raise ArgumentError(f"key maps columns {left} of the facts; the sums are by {facts}")
    right_of = dict(zip(left, right, strict=True))
    return [right_of[field] for field in facts]


def _unique(
    rows: pl.DataFrame, key_names: Sequence[str], fields: Sequence[str], order: str | None
) -> pl.DataFrame:
    """Drop rows without a key; refuse several rows with the same key."""
    keyed = rows.drop_nulls(list(key_names))
    if keyed.height < rows.height:
        warn_caller(
            f"{rows.height - keyed.height} rows of the table are left out: their key "
            f"{list(fields)} is NULL, which matches nothing",
            LeftOutWarning,
        )
    if keyed.select(key_names).n_unique() < keyed.height:
        repeated = keyed.filter(keyed.select(key_names).is_duplicated()).select(key_names).row(0)
        example = ", ".join(f"{f} = {value!r}" for f, value in zip(fields, repeated, strict=True))
        advice = "give many= ('mean', 'count' or 'latest'), or one row a key"
        if order is not None:
            advice = f"of these none has the largest '{order}' alone"
        raise DataError(
            f"the table has several rows with {example}; a row of the facts takes one: {advice}"
        )
    return keyed


def _values(table: LazyTable, options: LookUp) -> LookedUp:
    """Return the columns that a Gram of the joined rows would have."""
    is_marked = options.unmatched == "indicator"
    columns = options.columns
    if columns is not None and options.name is not None:
        columns = [f"{options.name}.{pattern}" for pattern in columns]
    request, texts = prepared(
        table, columns, None, "indicator" if is_marked else "skip", max_levels=options.max_levels
    )
    categories = request.terms.categories
    available = columns_of(table.schema)
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
            *(polars_column(available[c.column].path).alias(c.column) for c in categories),
        )
    )
    incomplete = [
        name for name, (count,) in frame.null_count().to_dict(as_series=False).items() if count
    ]
    marked = [name for name in request.names if is_marked and name in incomplete]
    made = [[name, name + SUFFIX] if name in marked else [name] for name in request.names]
    made += [[*text.names, text.missing] if is_marked else text.names for text in categories]
    names = [name for at in request.order or range(len(made)) for name in made[at]]
    filled = frame.select(
        *(pl.col(name).fill_null(0.0) for name in request.names),
        *(pl.col(name).is_null().cast(pl.Float64).alias(name + SUFFIX) for name in marked),
        *(level.fill_null(0.0) for text in categories for level in text.indicators(is_marked)),
    )
    # Column-major, as the columns are processed one by one.
    values = filled.select(names).to_numpy(order="fortran", writable=True)
    finite = np.isfinite(values.sum(axis=0))
    if not finite.all():
        name = names[int(np.argmin(finite))]
        raise DataError(f"column '{name}' has an infinite value in a row that is looked up")
    return LookedUp(
        names,
        values,
        {name: frame[name].is_null().to_numpy() for name in incomplete},
        replace(request.base, indicators=tuple(marked)),
        texts,
    )

"""Look up the columns of a table by key, as a Gram would have them after a left join.

Of several rows per key a summary is taken: mean, count, latest row. The Gram of the columns over
the facts is joined with that of the facts.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from dbselect.errors import (
    ArgumentError,
    ColumnError,
    DataError,
    LeftOutWarning,
    unknown,
    warn_caller,
)
from dbselect.options.kinds import one_of
from dbselect.options.names import UnmatchedName
from dbselect.record.columns import SUFFIX
from dbselect.record.formulas import column, date, polars, polars_column, translate
from dbselect.record.gram import Gram, Matrix, Vector
from dbselect.record.policies import fills_beside
from dbselect.record.terms import Terms
from dbselect.sources.engines.polars import LazyTable
from dbselect.sources.joins.keys import check_alike, check_keys, compared, fields_of
from dbselect.sources.open import collected, lazy, open_table
from dbselect.sources.partial.learn import MAX_LEVELS, check_max_levels
from dbselect.sources.read import prepared
from dbselect.sources.records import without_marks, without_unseen_levels
from dbselect.sources.request import columns_of, selected

#: How several rows become one: one of `SUMMARIES`, or a list of them.
Many: TypeAlias = str | Sequence[str]

SUMMARIES = ("mean", "count", "latest")
#: The column of ``"count"``.
COUNT = "rows"


def summaries_of(many: Any, order: Any) -> list[str]:
    """Check and return the summaries of several rows of a key."""
    summaries = [many] if isinstance(many, str) else list(many or ())
    for summary in summaries:
        if summary not in SUMMARIES:
            raise ArgumentError(f"many is {many!r}; it must be among {list(SUMMARIES)}")
    if len(set(summaries)) < len(summaries):
        raise ArgumentError(f"many is {many!r}; it names a summary twice")
    if ("latest" in summaries) != (order is not None):
        raise ArgumentError(
            f"order is {order!r} and many {many!r}; 'latest', and nothing else, needs order=, the "
            "column whose largest value marks the latest row"
        )
    return summaries


def one_row_per_key(
    frame: pl.LazyFrame, keys: Sequence[str], summaries: Sequence[str], order: str | None
) -> pl.LazyFrame:
    """Aggregate the rows of each key to the summaries; the latest row has the largest `order`."""
    schema = frame.collect_schema()
    others = [name for name in schema.names() if name not in keys]
    if order is not None and order not in others:
        raise ColumnError(f"order names {unknown('column', order, others)}")
    numeric = [name for name in others if schema[name].is_numeric() or schema[name] == pl.Boolean]
    aggregates: list[pl.Expr] = []
    if "mean" in summaries:
        without_mean = [name for name in others if name not in numeric and name != order]
        if without_mean and "latest" not in summaries:
            warn_caller(
                f"columns left out: {without_mean}, which have no mean; many='latest' takes them",
                LeftOutWarning,
            )
        aggregates += [
            pl.col(name).cast(pl.Float64).fill_nan(None).mean().alias(f"{name}_mean")
            for name in numeric
        ]
    if "count" in summaries:
        aggregates.append(pl.len().cast(pl.Int64).alias(COUNT))
    aggregated = frame.group_by(keys).agg(aggregates)
    if order is None:
        return aggregated
    latest = [pl.col(name).alias(f"{name}_latest") for name in others if name != order]
    at_end = pl.col(order) == pl.col(order).max().over(keys)
    return aggregated.join(frame.filter(at_end).select(*keys, *latest), on=keys, how="left")


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


def gram_over_facts(
    looked_up: LookedUp, rows: npt.NDArray[np.int64], weight: Vector, facts: Gram
) -> tuple[Gram, Matrix]:
    """Return the Gram of the p looked-up columns over the facts, and their centred values, (K, p).

    Indicators that are always 0, and levels that no row has, are dropped.
    """
    terms = _filled(looked_up, weight)
    centred, mean, low = _centred(looked_up.values, weight)
    heavy = np.sqrt(weight)[:, None] * centred
    gram = Gram(
        looked_up.columns,
        facts.rows,
        facts.skipped,
        facts.weight,
        mean,
        heavy.T @ heavy,
        {name: int(rows[where].sum()) for name, where in looked_up.missing.items()},
        low,
        terms,
    )
    gram = without_unseen_levels(without_marks(gram), looked_up.texts)
    at = {name: number for number, name in enumerate(looked_up.columns)}
    if len(gram.columns) < len(at):
        centred = centred[:, [at[name] for name in gram.columns]]
    return gram, centred


def side_by_side(first: Gram, second: Gram, cross: Matrix) -> Gram:
    """Join two Grams of the same rows; `cross` are the comoments of their columns, (d, p)."""
    clash = next((name for name in second.columns if name in first.columns), None)
    if clash is not None:
        raise ColumnError(
            f"the table has a column '{clash}', which the Gram has, too; give name=, a "
            "prefix for the table's columns, or choose other columns with columns="
        )
    return replace(
        first,
        columns=[*first.columns, *second.columns],
        mean=np.append(first.mean, second.mean),
        mean_low=np.append(first.mean_low, second.mean_low),
        comoment=np.block([[first.comoment, cross], [cross.T, second.comoment]]),
        missing=Counter(first.missing) + Counter(second.missing),
        terms=_together(first.terms, second.terms),
    )


def _filled(looked_up: LookedUp, weight: Vector) -> Terms:
    """Fill missing values in place; return the terms with the fills that are not 0."""
    means: dict[str, float] = {}
    for name in looked_up.terms.indicators:
        column, gap = looked_up.values[:, looked_up.columns.index(name)], looked_up.missing[name]
        present = np.where(gap, 0.0, weight)
        if present.any() and weight[gap].any():
            centred, mean, _ = _centred(column[:, None].copy(), present)
            fill = fills_beside(present.sum(keepdims=True), mean, present @ centred**2)[0]
            column[gap] = fill
            means |= {name: float(fill)} if fill else {}
    return replace(looked_up.terms, means=means)


def _centred(values: Matrix, weight: Vector) -> tuple[Matrix, Vector, Vector]:
    """Return columns, (K, p), centred in place, and their weighted means as sums of two doubles."""
    total, is_used = weight.sum(), weight > 0
    first = weight @ values / total
    step = np.empty_like(first)
    # Column by column, as one column fits into the caches and all do not.
    for j in range(values.shape[1]):
        column = values[:, j]
        used = column if is_used.all() else column[is_used]
        # The mean of a constant must be exact, even if its sum is rounded.
        first[j] = min(max(first[j], used.min()), used.max())
        column -= first[j]
        step[j] = weight @ column / total
        column -= step[j]
    mean = first + step
    return values, mean, (first - mean) + step


def _together(first: Terms, second: Terms) -> Terms:
    return replace(
        first,
        categories=(*first.categories, *second.categories),
        bases=(*first.bases, *second.bases),
        dates={**first.dates, **second.dates},
        means={**first.means, **second.means},
        indicators=(*first.indicators, *second.indicators),
        flat=(*first.flat, *second.flat),
        computed=(*first.computed, *second.computed),
    )

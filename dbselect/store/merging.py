"""Merge records of parts into a window: shared columns, joint levels, imputed means."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from dbselect.errors import DataError, LeftOutWarning, RecordError, warn_caller
from dbselect.record.categories import Level
from dbselect.record.columns import SUFFIX, match
from dbselect.record.gram import Gram, aligned
from dbselect.record.missing import fill, impute_mean, marks_of
from dbselect.record.policies import policies_of
from dbselect.record.terms import Terms
from dbselect.sources.open import merged
from dbselect.sources.records import without_marks, without_unseen_levels
from dbselect.store.reading import GRAM, Reading

#: Number of columns in a warning.
NAMED = 10
#: Names of columns beside keys: the number of a kind, and of a record.
KIND, AT = "__dbselect_kind", "__dbselect_at"


def window_of(grams: Sequence[Gram], reading: Reading) -> Gram:
    """Return the Gram of the rows of all parts given."""
    return settled(merged(alike(grams, reading)), reading)


def alike(grams: Sequence[Gram], reading: Reading) -> list[Gram]:
    """Return Grams with equal columns: the common ones, or with ``"null"`` all of them."""
    if reading.new_columns == "null":
        grams = with_nulls(grams, reading)
    described = [columns_of_table(gram) for gram in grams]
    first = described[0]
    if all(list(columns.items()) == list(first.items()) for columns in described):
        return aligned(grams)
    names = list(dict.fromkeys(name for columns in described for name in columns))
    shared = [name for name in names if _is_shared(name, described)]
    out = [name for name in names if name not in shared]
    if out:
        more = f" and {len(out) - NAMED} more" if len(out) > NAMED else ""
        warn_caller(
            f"columns {out[:NAMED]}{more} are not in all parts, or not of one type, and are left "
            "out; rows that a missing value in them has left out stay so",
            LeftOutWarning,
        )
    return aligned([of_columns(gram, shared) for gram in grams])


@dataclass(frozen=True)
class Named:
    """The columns and terms of a record."""

    columns: tuple[str, ...]
    terms: Terms


def kinds_of(records: pl.Series) -> tuple[pl.Series, list[Named]]:
    """Return the number of each record's columns and terms, and those that differ, in order."""
    pairs = pl.DataFrame([records.struct.field(name) for name in ("columns", "terms")])
    places = pairs.with_row_index(AT).group_by(pairs.columns, maintain_order=True).agg(AT)
    numbers = places.select(pl.int_range(pl.len()).alias(KIND), AT).explode(AT).sort(AT)[KIND]
    named = [
        Named(tuple(columns), Terms.from_json(terms))
        for columns, terms in places.select(pairs.columns).iter_rows()
    ]
    return numbers, named


def summed_by(records: pl.DataFrame, by: Sequence[str] = ()) -> tuple[pl.DataFrame, list[Gram]]:
    """Return the sum of the records of each key and each list of columns of the table.

    Parameters
    ----------
    records : ``gram``, and the keys

    Returns
    -------
    The keys, and a Gram each, as they first occur. The library decodes and merges records in
    parallel: time and memory are linear in what they hold
    """
    numbers, named = kinds_of(records[GRAM])
    alike = [list(columns_of_table(one).items()) for one in named]
    first: dict[str, int] = {}
    kinds = [first.setdefault(repr(columns), len(first)) for columns in alike]
    kind = numbers.replace_strict(list(range(len(kinds))), kinds, return_dtype=pl.Int64)
    rows = records.select(*by, kind.alias(KIND), GRAM)
    merge = pl.col(GRAM).dbselect.merge()  # type: ignore[attr-defined]
    try:
        if rows.n_unique([*by, KIND]) < rows.height:
            rows = rows.group_by(*by, KIND, maintain_order=True).agg(merge)
    except pl.exceptions.ComputeError as error:
        raise RecordError(str(error).split("\n")[0].rpartition("message: ")[2]) from None
    # Via Arrow, which needs no Python object for every number.
    return rows.select(by), [Gram.from_struct(record) for record in rows[GRAM].to_arrow()]


def columns_of_table(gram: Gram | Named) -> dict[str, Any]:
    """Return column of the table -> its kind, which must be equal to merge Grams."""
    sources, terms = gram.terms.sources(), gram.terms
    kinds: dict[str, Any] = {
        sources.get(name, name): terms.dates.get(name) for name in gram.columns
    }
    kinds |= {basis.column: basis for basis in terms.bases}
    for category in terms.categories:
        levels = category.levels if category.rest else None
        kinds[category.column] = RecordKind(category.kind, category.null_policy, levels)
    return kinds


def fields_of_gram(gram: Gram | Named) -> dict[str, str]:
    """Return column of the table -> ``"text"``, ``"number"`` or the unit of a date."""
    texts = {category.column for category in gram.terms.categories}
    return {
        name: "text" if name in texts else unit or "number"
        for name, unit in ((name, gram.terms.dates.get(name)) for name in columns_of_table(gram))
    }


@dataclass(frozen=True)
class RecordKind:
    """Kind of a category, which must agree to merge; its levels only with a rest column."""

    levels: str | None
    null_policy: str
    beside_rest: tuple[Level, ...] | None


def _is_shared(name: str, described: Sequence[Mapping[str, Any]]) -> bool:
    """Whether all have a column of one kind; a category without levels matches any kind."""
    if not all(name in columns for columns in described):
        return False
    kinds = [columns[name] for columns in described]
    levels = next(
        (kind.levels for kind in kinds if isinstance(kind, RecordKind) and kind.levels), None
    )
    distinct = {
        replace(kind, levels=levels)
        if isinstance(kind, RecordKind) and kind.levels is None
        else kind
        for kind in kinds
    }
    return len(distinct) == 1


def of_columns(gram: Gram, columns: Sequence[str]) -> Gram:
    """Return the Gram of columns of the table, in this order."""
    sources = gram.terms.sources()
    columns_of: dict[str, list[str]] = {column: [] for column in columns}
    for name in gram.columns:
        if sources.get(name, name) in columns_of:
            columns_of[sources.get(name, name)].append(name)
    names = [name for column in columns for name in columns_of[column]]
    terms = gram.terms.of(names)
    # A category without levels has no column but is kept.
    categories = tuple(c for c in gram.terms.categories if c.column in columns_of)
    reduced = gram.spread(names, replace(terms, categories=categories))
    missing = {name: rows for name, rows in gram.missing.items() if name in columns_of}
    return replace(reduced, missing=missing)


def with_nulls(grams: Sequence[Gram], reading: Reading) -> list[Gram]:
    """Return Grams with the columns of all; a column that a Gram lacks is missing there."""
    having = {name: gram for gram in grams for name in columns_of_table(gram)}
    names = list(having)
    policies = dict(zip(names, policies_of(reading.kept_policy, names), strict=True))
    extended, left_out = [], Counter[str]()
    for original in grams:
        gram = original
        for name in [name for name in names if name not in columns_of_table(original)]:
            if policies[name] == "error":
                raise DataError(f"column '{name}' has no value in rows of before, and its "
                                "null_policy is 'error'")  # fmt: skip
            skips = policies[name] == "skip"
            left_out[name] += gram.rows * skips
            gram = _with_null(gram, name, having[name], skips)
        extended.append(gram)
    if left_out := +left_out:
        counts = ", ".join(f"{rows:,} without '{name}'" for name, rows in left_out.items())
        warn_caller(f"rows of before a column are left out: {counts}", LeftOutWarning)
    return extended


def _with_null(gram: Gram, name: str, other: Gram, skips: bool) -> Gram:
    """Add a column of another Gram that is missing in every row."""
    terms, read = gram.terms, gram.rows + gram.skipped
    category = [replace(c, levels=()) for c in other.terms.categories if c.column == name]
    mark = category[0].missing if category else name + SUFFIX
    dates = {key: unit for key, unit in other.terms.dates.items() if key == name}
    terms = replace(
        terms,
        categories=(*terms.categories, *category),
        dates={**terms.dates, **dates},
        indicators=(*terms.indicators, *([] if category or skips else [name])),
        flat=(*terms.flat, *(key for key in other.terms.flat if key == name)),
    )
    new = [] if category else [name]
    extended = gram.spread([*gram.columns, *new, *([] if skips else [mark])], terms)
    extended = replace(extended, missing={**gram.missing, name: read})
    if not skips:
        mean = extended.mean.copy()
        mean[-1] = 1.0 if gram.rows else 0.0
        return replace(extended, mean=mean)
    width = len(extended.columns)
    zeros, comoment = np.zeros(width), np.zeros((width, width))
    return replace(
        extended, rows=0, skipped=read, weight=0.0, mean=zeros, mean_low=zeros, comoment=comoment
    )


def settled(gram: Gram, reading: Reading) -> Gram:
    """Return the Gram of a window in its final form: trimmed and filled."""
    return settled_together([gram], reading)[0]


def settled_together(grams: Sequence[Gram], reading: Reading) -> list[Gram]:
    """Return the Grams of folds, trimmed, with missing values filled by their joint mean."""
    trimmed_grams = aligned([trimmed(gram, reading) for gram in grams])
    columns = to_be_filled(trimmed_grams[0], reading)
    return impute_mean(trimmed_grams, columns) if columns else trimmed_grams


def trimmed(gram: Gram, reading: Reading) -> Gram:
    """Drop levels and indicators that are 0 in all rows."""
    texts = [category.column for category in gram.terms.categories] if reading.terms is None else []
    used = without_unseen_levels(gram, texts)
    result = without_marks(used)
    if result is used:
        return used
    return replace(result, terms=replace(result.terms, categories=used.terms.categories))


def settled_pair(window: Gram, other: Gram, reading: Reading) -> tuple[Gram, Gram]:
    """Return the Grams of two windows; both are filled with the means of the first."""
    first, second = settled(window, reading), trimmed(other, reading)
    columns = to_be_filled(second, reading)
    if not columns:
        return first, _with_means(second, first.terms.plain_means)
    marks = {name: mark for column in columns for name, mark in marks_of(second)[column].items()}
    # The mean of a level in no row of the first window is 0.
    fills = dict(zip(first.columns, first.mean.tolist(), strict=True)) | dict(first.terms.means)
    means = {name: fills.get(name, 0.0) for name in marks}
    second = fill(second, means, marks)
    joint = {**first.terms.plain_means, **means}
    return _with_means(first, joint), _with_means(second, joint)


def _with_means(gram: Gram, means: Mapping[str, float]) -> Gram:
    """Replace the means of columns without indicators in the terms."""
    return replace(gram, terms=replace(gram.terms, means={**means, **gram.terms.fills}))


def to_be_filled(gram: Gram, reading: Reading) -> list[str]:
    """Return the columns with an indicator that are filled by the mean."""
    policy = reading.null_policy
    marked = [*gram.terms.indicators]
    marked += [c.column for c in gram.terms.categories if c.missing in gram.columns]
    if isinstance(policy, str):
        return marked if policy == "mean" else []
    policies = dict.fromkeys(marked, "skip")
    for pattern, choice in policy.items():
        matching = [name for name in marked if pattern == "*" or _matches(pattern, name)]
        policies.update(dict.fromkeys(matching, choice))
    return [name for name, choice in policies.items() if choice == "mean"]


def _matches(pattern: str, name: str) -> bool:
    try:
        return bool(match([pattern], [name], "null_policy"))
    except ValueError:
        return False


class Sliding:
    """Gram of a sliding window: each part is added at most three times, none is subtracted.

    Two stacks: Tangwongsan, Hirzel, Schneider (2015), General incremental sliding-window
    aggregation, section 2.2.
    """

    def __init__(self, grams: Sequence[Gram]) -> None:
        self._grams = grams
        self._end = self._middle = 0
        self._sums: list[Gram] = []
        self._late: Gram | None = None

    def moved(self, start: int, end: int) -> Gram:
        """Return the sum of parts[start:end]; neither bound may decrease between calls."""
        for at in range(self._end, end):
            new = self._grams[at]
            self._late = new if self._late is None else self._late + new
        self._end = max(end, self._end)
        if start >= self._middle:
            # Suffix sums of the window, from its end to each part.
            self._sums, self._late, self._middle = [], None, self._end
            for new in self._grams[start : self._end][::-1]:
                self._sums.append(new + self._sums[-1] if self._sums else new)
        older = self._sums[self._middle - start - 1] if start < self._middle else None
        parts = [part for part in (older, self._late) if part is not None]
        return merged(parts)

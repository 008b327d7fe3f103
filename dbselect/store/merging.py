"""Records of parts as those of a window: shared columns, united levels, means put in."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dbselect.errors import DataError, LeftOutWarning, warn_caller
from dbselect.record.categories import Level
from dbselect.record.columns import SUFFIX, match
from dbselect.record.gram import Gram, aligned
from dbselect.record.missing import fill, impute_mean, marks_of
from dbselect.record.policies import policies_of
from dbselect.sources.open import merged
from dbselect.sources.read import without_unseen_levels
from dbselect.sources.records import without_marks
from dbselect.store.reading import Reading

#: Columns that a warning names.
NAMED = 10


def window_of(grams: Sequence[Gram], reading: Reading) -> Gram:
    """Return the Gram of the rows of some parts."""
    return settled(merged(alike(grams, reading)), reading)


def alike(grams: Sequence[Gram], reading: Reading) -> list[Gram]:
    """Return Grams of the same columns: those that all have; with ``"null"`` those of any."""
    if reading.new_columns == "null":
        grams = with_nulls(grams, reading)
    described = [columns_of_table(gram) for gram in grams]
    first = described[0]
    if all(list(each.items()) == list(first.items()) for each in described):
        return aligned(grams)
    every = list(dict.fromkeys(name for each in described for name in each))
    shared = [name for name in every if _is_shared(name, described)]
    out = [name for name in every if name not in shared]
    if out:
        more = f" and {len(out) - NAMED} more" if len(out) > NAMED else ""
        warn_caller(
            f"columns {out[:NAMED]}{more} are not in all parts, or not of one type, and are left "
            "out; rows that a missing value in them has left out stay so",
            LeftOutWarning,
        )
    return aligned([of_columns(gram, shared) for gram in grams])


def columns_of_table(gram: Gram) -> dict[str, Any]:
    """Return the columns of the table that a Gram is made of, with what must agree to merge."""
    sources, terms = gram.terms.sources(), gram.terms
    found: dict[str, Any] = {
        sources.get(name, name): terms.dates.get(name) for name in gram.columns
    }
    found |= {basis.column: basis for basis in terms.bases}
    for each in terms.categories:
        levels = each.levels if each.rest else None
        found[each.column] = RecordKind(each.kind, each.null_policy, levels)
    return found


def fields_of_gram(gram: Gram) -> dict[str, str]:
    """Return the fields of the table that a Gram is made of."""
    texts = {each.column for each in gram.terms.categories}
    return {
        name: "text" if name in texts else unit or "number"
        for name, unit in ((name, gram.terms.dates.get(name)) for name in columns_of_table(gram))
    }


@dataclass(frozen=True)
class RecordKind:
    """What must agree of a category: where one column stands for all other levels, these too."""

    levels: str | None
    null_policy: str
    beside_rest: tuple[Level, ...] | None


def _is_shared(name: str, described: Sequence[Mapping[str, Any]]) -> bool:
    """Whether all have a column of one kind; a category without levels matches any kind."""
    if not all(name in each for each in described):
        return False
    kinds = [each[name] for each in described]
    levels = next(
        (kind.levels for kind in kinds if isinstance(kind, RecordKind) and kind.levels), None
    )
    told = {
        replace(kind, levels=levels)
        if isinstance(kind, RecordKind) and kind.levels is None
        else kind
        for kind in kinds
    }
    return len(told) == 1


def of_columns(gram: Gram, columns: Sequence[str]) -> Gram:
    """Return the Gram of some columns of the table, in this order."""
    sources = gram.terms.sources()
    made: dict[str, list[str]] = {column: [] for column in columns}
    for name in gram.columns:
        if sources.get(name, name) in made:
            made[sources.get(name, name)].append(name)
    names = [name for column in columns for name in made[column]]
    terms = gram.terms.of(names)
    # A category of no level has no column, and stays one.
    categories = tuple(each for each in gram.terms.categories if each.column in made)
    reduced = gram.spread(names, replace(terms, categories=categories))
    missing = {name: rows for name, rows in gram.missing.items() if name in made}
    return replace(reduced, missing=missing)


def with_nulls(grams: Sequence[Gram], reading: Reading) -> list[Gram]:
    """Return Grams with the columns of all, in which rows of before have no value."""
    having = {name: gram for gram in grams for name in columns_of_table(gram)}
    every = list(having)
    policies = dict(zip(every, policies_of(reading.kept_policy, every), strict=True))
    found, left_out = [], Counter[str]()
    for given in grams:
        gram = given
        for name in [name for name in every if name not in columns_of_table(given)]:
            if policies[name] == "error":
                raise DataError(f"column '{name}' has no value in rows of before, and its "
                                "null_policy is 'error'")  # fmt: skip
            skips = policies[name] == "skip"
            left_out[name] += gram.rows * skips
            gram = _with_null(gram, name, having[name], skips)
        found.append(gram)
    if left_out := +left_out:
        told = ", ".join(f"{rows:,} without '{name}'" for name, rows in left_out.items())
        warn_caller(f"rows of before a column are left out: {told}", LeftOutWarning)
    return found


def _with_null(gram: Gram, name: str, other: Gram, skips: bool) -> Gram:
    """Return a Gram with a column, as another has it, that has no value in any row."""
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
    own = [] if category else [name]
    found = gram.spread([*gram.columns, *own, *([] if skips else [mark])], terms)
    found = replace(found, missing={**gram.missing, name: read})
    if not skips:
        mean = found.mean.copy()
        mean[-1] = 1.0 if gram.rows else 0.0
        return replace(found, mean=mean)
    width = len(found.columns)
    nothing, comoment = np.zeros(width), np.zeros((width, width))
    return replace(
        found, rows=0, skipped=read, weight=0.0, mean=nothing, mean_low=nothing, comoment=comoment
    )


def settled(gram: Gram, reading: Reading) -> Gram:
    """Return the Gram of a window, once all its parts are in."""
    return settled_together([gram], reading)[0]


def settled_together(grams: Sequence[Gram], reading: Reading) -> list[Gram]:
    """Return the Grams of folds, with the mean that all have together where values are missing."""
    found = aligned([trimmed(gram, reading) for gram in grams])
    filled = to_be_filled(found[0], reading)
    return impute_mean(found, filled) if filled else found


def trimmed(gram: Gram, reading: Reading) -> Gram:
    """Return a Gram without levels and indicators that are 0 in all rows."""
    texts = [each.column for each in gram.terms.categories] if reading.terms is None else []
    found = without_unseen_levels(gram, texts)
    left = without_marks(found)
    if left is found:
        return found
    return replace(left, terms=replace(left.terms, categories=found.terms.categories))


def settled_pair(one: Gram, two: Gram, reading: Reading) -> tuple[Gram, Gram]:
    """Return the Grams of two windows, filled with the means of the first."""
    first, second = settled(one, reading), trimmed(two, reading)
    columns = to_be_filled(second, reading)
    if not columns:
        return first, _with_means(second, first.terms.plain_means)
    marks = {name: mark for each in columns for name, mark in marks_of(second)[each].items()}
    # 0 of a level that no row has.
    known = dict(zip(first.columns, first.mean.tolist(), strict=True)) | dict(first.terms.means)
    means = {name: known.get(name, 0.0) for name in marks}
    second = fill(second, means, marks)
    joint = {**first.terms.plain_means, **means}
    return _with_means(first, joint), _with_means(second, joint)


def _with_means(gram: Gram, means: Mapping[str, float]) -> Gram:
    """Return a Gram whose terms have these means without indicators."""
    return replace(gram, terms=replace(gram.terms, means={**means, **gram.terms.fills}))


def to_be_filled(gram: Gram, reading: Reading) -> list[str]:
    """Return the columns of the table that have an indicator and are to have a mean."""
    policy = reading.null_policy
    marked = [*gram.terms.indicators]
    marked += [each.column for each in gram.terms.categories if each.missing in gram.columns]
    if isinstance(policy, str):
        return marked if policy == "mean" else []
    found = dict.fromkeys(marked, "skip")
    for pattern, each in policy.items():
        means = marked if pattern == "*" else [name for name in marked if _means(pattern, name)]
        found.update(dict.fromkeys(means, each))
    return [name for name, each in found.items() if each == "mean"]


def _means(pattern: str, name: str) -> bool:
    try:
        return bool(match([pattern], [name], "null_policy"))
    except ValueError:
        return False


class Sliding:
    """The Gram of a window that moves: each part is added three times at most, none subtracted.

    Two stacks: Tangwongsan, Hirzel, Schneider (2015), General incremental sliding-window
    aggregation, section 2.2.
    """

    def __init__(self, grams: Sequence[Gram]) -> None:
        self._grams = grams
        self._end = self._middle = 0
        self._sums: list[Gram] = []
        self._late: Gram | None = None

    def moved(self, start: int, end: int) -> Gram:
        """Return the sum of the parts from `start` to before `end`; neither ever goes back."""
        for at in range(self._end, end):
            new = self._grams[at]
            self._late = new if self._late is None else self._late + new
        self._end = max(end, self._end)
        if start >= self._middle:
            # Sum what is in the window from its end to each part.
            self._sums, self._late, self._middle = [], None, self._end
            for new in self._grams[start : self._end][::-1]:
                self._sums.append(new + self._sums[-1] if self._sums else new)
        older = self._sums[self._middle - start - 1] if start < self._middle else None
        parts = [part for part in (older, self._late) if part is not None]
        return merged(parts)

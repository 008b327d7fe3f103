"""Missing values in records: indicators, and imputation of the mean."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dbselect.errors import ArgumentError, ColumnError
from dbselect.record.columns import INTERCEPT, SUFFIX, match, numbers_among
from dbselect.record.gram import Gram, Vector, aligned
from dbselect.record.policies import NO_SHARE, divided, shifted
from dbselect.record.terms import Terms

Index = npt.NDArray[np.intp]


def features_of(columns: Sequence[str], target: str | Sequence[str], terms: Terms) -> list[str]:
    """Return the features: columns except the targets, their indicators and their other levels."""
    if INTERCEPT in columns:
        raise ColumnError(f"column '{INTERCEPT}' has the name of the intercept; rename it")
    targets = [target] if isinstance(target, str) else target
    apart = {name + end for name in targets for end in ("", SUFFIX)}
    for category in terms.categories:
        levels = {*category.names, category.missing}
        if not levels.isdisjoint(targets):
            apart |= levels
        if category.reference is not None:
            apart.add(category.name_of(category.reference))
    for term in terms.computed:
        if not {*term.of, *term.names}.isdisjoint(targets):
            apart |= {name + end for name in term.names for end in ("", SUFFIX)}
    return [name for name in columns if name not in apart]


def impute_mean(grams: Iterable[Any], columns: Sequence[str] | None = None) -> list[Gram]:
    """Give missing values the mean that all records have together, without indicators.

    Parameters
    ----------
    grams : Grams or records of equal columns, made with ``null_policy="indicator"``:
        folds, months, regions, as in column ``gram`` of `gram_by`; a record without
        ``<name>.missing`` had no missing value there
    columns : names and globs of columns with ``<name>.missing`` in some record, a category
        by the name of its column; default: every such column

    Returns
    -------
    list of as many Grams; their sum is the Gram of all rows with ``null_policy="mean"``

    Raises
    ------
    ArgumentError : there is no record, or it is no list
    RecordError : the records have unequal columns, or one is malformed
    ColumnError : a column is unknown or has no indicator

    Notes
    -----
    O(d^2) time a record. A column that is missing in every row stays 0.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> days = [pl.DataFrame({"x": [1.0, None]}), pl.DataFrame({"x": [3.0, 5.0]})]
    >>> grams = [ds.gram(day, null_policy="indicator") for day in days]
    >>> [gram.mean.tolist() for gram in ds.io.impute_mean(grams)]
    [[2.0], [4.0]]
    """
    if not isinstance(grams, Iterable) or isinstance(grams, Mapping):
        raise ArgumentError(f"grams is a {type(grams).__name__}; it must be a list of Grams")
    grams = [gram if isinstance(gram, Gram) else Gram.from_struct(gram) for gram in grams]
    if not grams:
        raise ArgumentError("grams is empty; at least one record is needed")
    grams = aligned(grams)
    marks = marks_of(grams[0])
    fields = list(marks) if columns is None else match(columns, list(marks), "columns")
    return fill_jointly(
        grams, {name: mark for field in fields for name, mark in marks[field].items()}
    )


def marks_of(gram: Gram) -> dict[str, dict[str, str]]:
    """Return field -> its columns and their indicators, for fields that can be imputed."""
    marks = {name: {name: name + SUFFIX} for name in gram.terms.indicators}
    for category in gram.terms.categories:
        if category.missing in gram.columns:
            levels = [name for name in category.names if name in gram.columns]
            marks[category.column] = dict.fromkeys(levels, category.missing)
    return marks


def fill_jointly(grams: Sequence[Gram], marks: Mapping[str, str]) -> list[Gram]:
    """Impute the mean over all records; `marks`: column -> indicator."""
    names = grams[0].columns
    at, on = numbers_among(marks, names), numbers_among(marks.values(), names)
    kept = np.setdiff1d(np.arange(len(names)), on)

    weight = np.array([[gram.weight] for gram in grams])
    share = np.array([gram.mean[on] for gram in grams])
    # Relative to a number near each mean, as differences of large means lose digits.
    base = grams[int(np.argmax([gram.rows for gram in grams]))].mean[at]
    mean = np.array([(gram.mean[at] - base) + gram.mean_low[at] for gram in grams])
    between = np.array([gram.comoment[at, on] for gram in grams])
    present, absent = weight * (1 - share), weight * share
    present[1 - share < NO_SHARE] = 0.0
    # A step is the distance from the imputed value to the present mean of the record, plus that
    # from there to the joint mean.
    present_mean = mean - divided(between, present)
    to_present = np.where(present > 0, -divided(between, present) - divided(between, absent), 0.0)
    first = present_mean[np.argmax(present > 0, axis=0), np.arange(len(at))]
    joint = first + divided((present * (present_mean - first)).sum(axis=0), present.sum(axis=0))
    steps = np.where(absent > 0, to_present + (joint - present_mean), 0.0)
    means = (base + joint).tolist()
    terms = _filled(grams[0].terms, dict(zip(marks, means, strict=True)))
    moved = (_shifted(gram, at, on, step, kept) for gram, step in zip(grams, steps, strict=True))
    return [replace(gram, terms=terms) for gram in moved]


def _filled(terms: Terms, means: Mapping[str, float]) -> Terms:
    """Return terms with imputed means for some columns, without their indicators."""
    return replace(
        terms,
        categories=tuple(
            c if means.keys().isdisjoint(c.names) else replace(c, null_policy="mean")
            for c in terms.categories
        ),
        means={**terms.means, **means},
        indicators=tuple(name for name in terms.indicators if name not in means),
    )


def fill(gram: Gram, means: Mapping[str, float], marks: Mapping[str, str]) -> Gram:
    """Replace missing values by given numbers, and drop the indicators."""
    at, on = (
        numbers_among(names, gram.columns) for names in (means, [marks[name] for name in means])
    )
    share, between = gram.mean[on], gram.comoment[at, on]
    apart = (gram.mean[at] - np.array(list(means.values()))) + gram.mean_low[at]
    apart += divided(between, gram.comoment[on, on]) * (1.0 - share)
    step = np.where(share > 0, -apart, 0.0)
    kept = np.setdiff1d(np.arange(len(gram.columns)), on)
    return replace(_shifted(gram, at, on, step, kept), terms=_filled(gram.terms, means))


def _shifted(gram: Gram, at: Index, marks: Index, step: Vector, kept: Index) -> Gram:
    """Add `step` times its indicator to each column, and drop the indicators."""
    moved = shifted(gram, at, marks, step)
    comoment = moved.comoment[np.ix_(kept, kept)]
    names = [gram.columns[j] for j in kept]
    mean, low = moved.mean[kept], moved.mean_low[kept]
    return replace(gram, columns=names, mean=mean, mean_low=low, comoment=comoment)

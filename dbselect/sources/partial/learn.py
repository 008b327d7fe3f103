"""The first pass: levels, ranges and knots, independent of the order of rows and the engine."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import Any, Literal

import numpy as np
import polars as pl

from dbselect.errors import ArgumentError, ColumnError, DataError, shown, unknown
from dbselect.options.kinds import is_whole
from dbselect.record.bases import CUBIC, Basis, Poly, Spline, infinite
from dbselect.record.categories import Category, Level, kind_of_levels, text_of
from dbselect.record.columns import doubled, leaves, match
from dbselect.record.computed import Computed, Factor, LevelFactor, NumberFactor, of_basis
from dbselect.record.gram import Vector
from dbselect.record.terms import Terms, check_category, check_number
from dbselect.sources.open import open_table
from dbselect.sources.partial.values import SAMPLED, Values, read_values
from dbselect.sources.request import Table
from dbselect.sources.snapshots import one_snapshot

#: Default of the largest number of levels with a column each.
MAX_LEVELS = 1000

#: Columns of categories, or these with their levels.
Categories = Sequence[str] | Mapping[str, Sequence[str | int | bool]]
#: ``"pairs"``, columns, or groups of columns to multiply.
Interactions = Literal["pairs"] | Sequence[str] | Mapping[str, Sequence[str]]
#: Column -> kind and size of its basis.
Bases = Mapping[str, tuple[str, int]]


@one_snapshot
def terms(
    source: Any,
    categories: Categories | None = None,
    basis: Bases | None = None,
    *,
    max_levels: int = MAX_LEVELS,
    reference: Mapping[str, Level] | None = None,
    interactions: Interactions | None = None,
) -> Terms:
    """Learn how the categories and curves of a table become columns.

    Parameters
    ----------
    source : as in `gram`; a stream that can be read only once needs given levels for
        its categories, and no `basis`
    categories : columns of text, ENUM, Categorical, boolean or integer type. Their
        most frequent levels, ties by order, become columns of 0
        and 1, in ascending order: ``carrier.AA``, ``carrier.UA``, ...; all other
        values become one more, ``carrier.other``, if there are any. A mapping gives the
        levels and their order; then there is always a column for other values
    basis : column -> ``("poly", degree)``, Legendre polynomials of the column scaled
        to [-1, 1]: ``age.poly1``, ``age.poly2``, ...; or ``("spline", k)``, k >= 3
        cubic B-splines with knots at quantiles, constant beyond the smallest and
        largest value: ``age.spline1``, ..., fewer than k where many rows share a value
    max_levels : most levels that have a column each, >= 1
    reference : category -> level without a column in models, with which the other levels are
        compared; default: the level left out depends on the order of the columns
    interactions : ``"pairs"`` for the products of every two columns of numbers, categories and
        bases; a list of columns for the products of every two of these; or groups, name -> columns
        and globs, for the products of every two groups: ``weather:plane`` is then one group by
        default. A model contains no products of its target

    Returns
    -------
    Terms, to read this table and others with

    Raises
    ------
    SourceError : there is no such table
    ColumnError : a column is unknown, named twice or of another type
    ArgumentError : levels, degree, k or max_levels out of range, or a stream that
        must be read twice
    DataError : an infinite value, or fewer than two distinct ones, in a column of `basis`

    Notes
    -----
    One pass over these columns only; all rows count, also rows that a Gram leaves
    out. Memory grows with the number of distinct values of a category; for knots it
    is limited to 2^18 values of a column, a sample by hash if there are more. The columns
    of a category add up to the intercept: one is redundant, which every search of
    dbselect handles.

    References
    ----------
    Abramowitz and Stegun (1964), section 22 (Legendre polynomials).
    Eilers and Marx (1996), section 2 (B-splines on evenly continued knots).

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"k": ["a", "b", "b", "c"], "x": [0.0, 1.0, 2.0, 4.0]})
    >>> terms = ds.terms(table, ["k"], {"x": ("poly", 2)}, max_levels=1)
    >>> ds.gram(table, terms=terms).columns
    ['k.b', 'k.other', 'x.poly1', 'x.poly2']
    """
    table = open_table(source, None)
    learnt = with_references(learn(table, categories, basis, max_levels), reference)
    if interactions is None:
        return learnt
    learnt = replace(learnt, computed=products(interactions, learnt, table))
    learnt.check(table.schema)
    return learnt


def terms_for(
    table: Table,
    texts: Sequence[str],
    categories: Categories | None = None,
    basis: Bases | None = None,
    max_levels: int = MAX_LEVELS,
    terms: Terms | None = None,
) -> Terms:
    """Return given terms, or learn them; texts of too many levels or of a stream get no levels."""
    if terms is not None:
        if not isinstance(terms, Terms):
            raise ArgumentError(f"terms is a {type(terms).__name__}; it must come from ds.terms")
        if categories is not None or basis is not None:
            raise ArgumentError("terms comes with categories or basis; it takes their place")
        terms.check(table.schema)
        return terms.without_shares()
    return learn(table, categories, basis, max_levels, texts if table.again else ())


def learn(
    table: Table, categories: Any, basis: Any, max_levels: Any, texts: Sequence[str] = ()
) -> Terms:
    """Learn the levels, ranges and knots that are not given, in at most one pass."""
    levels_of = _levels_given(categories)
    curves = _curves(basis)
    check_max_levels(max_levels)
    kinds = {column: check_category(column, table.schema) for column in levels_of}
    for column in curves:
        check_number(column, table.schema)
        if column in levels_of:
            raise ColumnError(f"categories and basis both name column '{column}'; it is one thing")
    values: dict[str, Values] = {c: Values() for c, levels in levels_of.items() if levels is None}
    texts = [column for column in texts if column not in levels_of and column not in curves]
    values |= {column: Values(most=int(max_levels)) for column in texts}
    kinds |= {column: check_category(column, table.schema) for column in texts}
    values |= {c: Values(SAMPLED if kind == "spline" else 0) for c, (kind, _) in curves.items()}
    if values and not table.again:
        raise ArgumentError(
            f"categories and basis need a first pass over {list(values)}, and the stream can be "
            "read only once; give categories as {column: levels}, or terms of another table"
        )
    if values:
        read_values(table, values)
    terms = Terms(
        tuple(
            found_category(column, values[column], int(max_levels), kinds[column])
            if levels is None
            else Category(column, levels, rest=True)
            for column, levels in levels_of.items()
        )
        + tuple(
            found_category(column, values[column], int(max_levels), kinds[column])
            for column in texts
            if not values[column].are_more
        ),
        tuple(_basis(column, *curve, values[column]) for column, curve in curves.items()),
    )
    terms.check(table.schema)
    return terms


def with_references(terms: Terms, reference: Any) -> Terms:
    """Set the reference levels of categories."""
    references = {} if reference is None else reference
    if not isinstance(references, Mapping):
        raise ArgumentError(f"reference is {shown(references)}; it must map categories to levels")
    category_of = {category.column: category for category in terms.categories}
    for column, level in references.items():
        if column not in category_of:
            raise ColumnError(f"reference names {unknown('category', column, list(category_of))}")
        if level not in category_of[column].levels:
            raise ArgumentError(
                f"reference of '{column}' is {shown(level)}; it must be one of the levels "
                f"{shown(category_of[column].texts)}"
            )
    categories = (replace(c, reference=references.get(c.column)) for c in terms.categories)
    return replace(terms, categories=tuple(categories))


def products(spec: Any, terms: Terms, table: Table) -> tuple[Computed, ...]:
    """Return the products of all pairs of columns or groups in `spec`, the `interactions`."""
    columns: dict[str, tuple[Factor, list[str]]] = {
        leaf.name: (NumberFactor((("column", *leaf.path),)), [leaf.name])
        for leaf in leaves(table.schema)
        if leaf.is_numeric and not leaf.unit
    }
    paths = {leaf.name: leaf.path for leaf in leaves(table.schema)}
    for category in terms.categories:
        kept = tuple(level for level in category.levels if level != category.reference)
        factor = LevelFactor(paths[category.column], category.levels, kept, category.rest)
        columns[category.column] = factor, [category.name_of(level) for level in kept]
    for basis in terms.bases:
        identity = np.eye(len(basis.names))
        curves = NumberFactor(tuple(of_basis(basis, paths[basis.column], row) for row in identity))
        columns[basis.column] = curves, basis.names
    if spec != "pairs" and (isinstance(spec, str) or not isinstance(spec, Iterable)):
        raise ArgumentError(
            f"interactions is {spec!r}; it must be 'pairs', or columns or groups of columns"
        )
    members = spec.values() if isinstance(spec, Mapping) else [spec]
    texts = {leaf.name for leaf in leaves(table.schema) if leaf.is_text} - set(columns)
    for name in (name for names in members if isinstance(names, list | tuple) for name in names):
        if name in texts:
            raise ColumnError(
                f"interactions names '{name}', a text; name it among the categories, too"
            )
    names = list(columns)
    if isinstance(spec, Mapping):
        groups = {
            name: match(globs, names, f"interactions '{name}'") for name, globs in spec.items()
        }
    else:
        chosen = names if spec == "pairs" else match(spec, names, "interactions")
        groups = {name: [name] for name in chosen}
    return tuple(
        Computed(
            f"{left}:{right}",
            tuple(f"{a}:{b}" for b in columns[second][1] for a in columns[first][1]),
            (columns[first][0], columns[second][0]),
        )
        for (left, left_columns), (right, right_columns) in combinations(groups.items(), 2)
        for first, second in product(left_columns, right_columns)
        if first != second
    )


def check_max_levels(value: Any) -> None:
    """Refuse a value that is no number of levels."""
    if not is_whole(value) or int(value) < 1:
        raise ArgumentError(f"max_levels is {value!r}; it must be a whole number >= 1")


def found_category(column: str, values: Values, max_levels: int, kind: str) -> Category:
    """Return the category of the most frequent levels, ties by order, in ascending order."""
    counts = values.counts()
    kept = counts.sort("rows", descending=True, maintain_order=True).head(max_levels)
    levels = kept["value"].sort().to_list()
    if kind == "text":
        _refuse_nul(column, levels)
    return Category(column, tuple(levels), rest=counts.height > max_levels)


def quantiles(counts: pl.DataFrame, shares: Vector) -> Vector:
    """Return quantiles of counted values, interpolated as NumPy does by default."""
    values, ends = counts["value"].to_numpy(), np.cumsum(counts["rows"].to_numpy())
    at = shares * (ends[-1] - 1)
    below = np.floor(at)
    low = values[np.searchsorted(ends, below, side="right")]
    high = values[np.searchsorted(ends, np.ceil(at), side="right")]
    return np.asarray(low + (at - below) * (high - low))


def _levels_given(categories: Any) -> dict[str, tuple[Level, ...] | None]:
    """Return the columns of categories with their given levels, or None."""
    if categories is None:
        return {}
    if isinstance(categories, Mapping):
        return {column: _levels(column, levels) for column, levels in categories.items()}
    if isinstance(categories, str) or not isinstance(categories, Sequence):
        raise ArgumentError(
            f"categories is {categories!r}; it must be a list of columns, or map them to levels"
        )
    if (twice := doubled(categories)) is not None:
        raise ColumnError(f"categories names column '{twice}' twice")
    return dict.fromkeys(categories)


def _levels(column: Any, levels: Any) -> tuple[Level, ...]:
    if isinstance(levels, str) or not isinstance(levels, Sequence) or not levels:
        raise ArgumentError(f"categories gives {levels!r} for '{column}'; it must list levels")
    if kind_of_levels(levels) is None:
        raise ArgumentError(
            f"categories gives {levels!r} for '{column}'; levels must be all text, all integers "
            "or all booleans"
        )
    if len(set(levels)) < len(levels):
        raise ArgumentError(f"categories gives {levels!r} for '{column}'; levels must differ")
    _refuse_nul(column, [text_of(level) for level in levels])
    return tuple(levels)


def _refuse_nul(column: str, texts: Sequence[str]) -> None:
    odd = next((text for text in texts if "\0" in text), None)
    if odd is not None:
        raise DataError(f"column '{column}' has the level {odd!r}; levels cannot hold a NUL")


def _curves(basis: Any) -> dict[str, tuple[str, int]]:
    """Check the basis of each column: ("poly", degree) or ("spline", number of columns)."""
    if basis is None:
        return {}
    if not isinstance(basis, Mapping):
        raise ArgumentError(f"basis is {basis!r}; it must map columns to ('poly', 3) or the like")
    least = {"poly": 1, "spline": CUBIC}
    for column, curve in basis.items():
        try:
            kind, size = curve
            fits = is_whole(size) and int(size) >= least[kind]
        except (KeyError, TypeError, ValueError):
            fits = False
        if not fits:
            raise ArgumentError(
                f"basis gives {curve!r} for '{column}'; it must be ('poly', degree >= 1) or "
                "('spline', columns >= 3)"
            )
    return {column: (kind, int(size)) for column, (kind, size) in basis.items()}


def _basis(column: str, kind: str, size: int, values: Values) -> Basis:
    low, high = values.range or (0.0, 0.0)
    if not np.isfinite([low, high]).all():
        raise DataError(infinite(column))
    if low == high:
        raise DataError(f"basis names column '{column}'; it has fewer than two distinct values")
    if kind == "poly":
        return Poly(column, size, low / 2 + high / 2, high / 2 - low / 2)
    inner = quantiles(values.counts(), np.linspace(0, 1, size - 1)[1:-1])
    # If many rows share a value, some knots coincide and fewer columns result.
    return Spline(column, tuple(np.unique([low, *inner, high]).tolist()))
